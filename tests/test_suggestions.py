"""One way to suggest names and one to word amounts: by hand, and nowhere a second one."""

from __future__ import annotations

from pathlib import Path

import pytest

from memgrad.amounts import duration
from memgrad.suggestions import did_you_mean, nearest

PACKAGE = Path(__file__).parent.parent / "memgrad"


def test_case_does_not_matter() -> None:
    assert nearest("ADAMW", ["SGD", "AdamW"]) == "AdamW"


def test_what_resembles_nothing_is_answered_by_a_period() -> None:
    assert did_you_mean("qwertz", ["poly", "exp"]) == "."


def test_what_is_no_text_is_answered_too() -> None:
    assert did_you_mean(12, ["poly", "exp"]) == "."


def test_a_suggestion_is_as_one_writes_it() -> None:
    assert did_you_mean("ploy", ["poly", "exp"], written={"poly": "poly:2"}) == "; did you mean 'poly:2'?"


def test_similarity_is_measured_in_one_place() -> None:
    measuring = [path.name for path in PACKAGE.rglob("*.py") if "get_close_matches" in path.read_text()]
    assert measuring == ["suggestions.py"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.04, "0 s"),
        (1.26, "1.3 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599.6, "1 h 0 min"),
        (36 * 3600, "36 h 0 min"),
        (2 * 86400, "2 days"),
        (364 * 86400, "364 days"),
        (3.65 * 365.25 * 86400, "3.6 years"),
        (1e30, "3.17e+22 years"),
    ],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text
