"""A pytest plugin: which functions each test calls, what it costs, and whether it passes in a random order.

The order is by file, then within the file, so that what a file shares is made once.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import loading
import pytest

COSTS = "MEMGRAD_MUTANTS_COSTS"  # the file that outcomes and costs are written to
SEED = "MEMGRAD_MUTANTS_SEED"
VARIANTS = "MEMGRAD_MUTANTS_VARIANTS"  # at most this many variants of a test


def _watch(context: str) -> None:
    """From here on, calls belong to `context`."""
    os.environ["PYTEST_CURRENT_TEST"] = context
    calls = getattr(builtins, "__memgrad_mutants_hit__", None)
    if calls is not None:
        calls.seen.clear()


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def pytest_configure() -> None:
    loading.install()  # before pytest's own hook, which would load the modules whose doctests are asked for


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    _watch(f"{collector.nodeid} (collect)")
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rng = random.Random(os.environ[SEED])
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    shuffled = rng.sample(list(files.values()), len(files))
    most, seen = float(os.environ.get(VARIANTS, "inf")), Counter[str]()
    items[:] = []
    for item in (item for file in shuffled for item in rng.sample(file, len(file))):
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if seen[test] <= most:
            items.append(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    wall, cpu = time.perf_counter(), _cpu_seconds()
    result = yield
    row = {
        "test": item.nodeid,
        "passed": item.stash.get(_PASSED, True),
        "seconds": time.perf_counter() - wall,
        "cpu": _cpu_seconds() - cpu,
    }
    with open(os.environ[COSTS], "a") as file:
        file.write(json.dumps(row) + "\n")
    return result


_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    item.stash[_PASSED] = item.stash.get(_PASSED, True) and report.passed
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[Any]:
    _watch(f"{item.nodeid} (setup)")
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    _watch(f"{item.nodeid} (call)")
    return (yield)
