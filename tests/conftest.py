"""What several test files need: a browser, and patience."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # a busy machine makes any example slow for once
settings.load_profile("patient")


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
