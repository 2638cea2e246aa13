"""What several test files need: a browser, properties that are not judged by the clock, and not too many cases."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from fast_cases import MOST, surplus
from hypothesis import HealthCheck, settings

# A property is true or false, however busy the machine is.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = surplus({item.nodeid: _most(item) for item in items if item.get_closest_marker("slow") is None})
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)


def _most(item: pytest.Item) -> int:
    mark = item.get_closest_marker("most")
    return int(mark.args[0]) if mark else MOST


def chromium() -> str:
    """The browser's program, or a skip; where MEMGRAD_REQUIRE_CHROMIUM=1 says that it must be there, a failure."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found and find_spec("playwright"):
        return found
    lacks = (
        "playwright, which is not installed: pip install playwright" if found else "chromium: apt-get install chromium"
    )
    why = f"pages are tried in a browser, which needs {lacks}"
    if os.environ.get("MEMGRAD_REQUIRE_CHROMIUM") == "1":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root, as in a container, cannot have chromium's sandbox; the page is our own.
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()
