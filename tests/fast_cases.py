"""Which cases of a test `make test` runs; the others are slow, and `make test-slow` runs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

import pytest

MOST = 15
"""How many cases of one test are in the fast suite, unless its mark `most` gives another number."""


def few(cases: Sequence[Any], *, fast: Collection[Any]) -> list[Any]:
    """The cases as parameters, all but some of them slow."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*value, marks=() if case in fast else pytest.mark.slow)
        for case, value in zip(cases, values, strict=True)
    ]


def surplus(most: Mapping[str, int]) -> set[str]:
    """The cases that a test has too many of.

    Those that stay are drawn by a hash of their names, so that they are the same in every process and on every machine,
    are spread over all parameters, and change little when a case is added.

    Args:
        most: by the name of each case, such as `file.py::test[case]`, how many of its test may stay.
    """
    cases: dict[str, list[str]] = defaultdict(list)
    for name in most:
        cases[name.partition("[")[0]].append(name)
    return {name for each in cases.values() for name in sorted(each, key=_drawn)[most[each[0]] :]}


def _drawn(name: str) -> bytes:
    return sha256(name.encode()).digest()
