"""Numbers and lists as a report writes them, on both sides of the borders between their forms."""

from __future__ import annotations

import math

import pytest

from memgrad.report.wording import listed, number_text, whole_numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-2.5, "-2.5"),
        (9999.4, "9999"),
        (1e4, "10,000"),
        (-12345.6, "-12,346"),
        (9_999_999.0, "9,999,999"),
        (1e7, "1e7"),
        (-1e7, "-1e7"),
        (-math.inf, "-∞"),
    ],
)
def test_five_to_seven_digits_are_written_out_and_others_have_four(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([0, 1], "0, 1"), ([0, 1, 2], "0 to 2"), ([3, 1, 2], "1 to 3"), ([5, 5], "5"), ([8, 1], "1, 8")],
)
def test_three_consecutive_numbers_are_a_range_in_any_order(numbers: list[int], text: str) -> None:
    assert whole_numbers(numbers) == text


def test_a_list_of_words_ends_with_and() -> None:
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
