"""What every part of memgrad shares: missing extras, deprecated names, kinds of numbers, names of estimates."""

from __future__ import annotations

import math
import threading
import warnings
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import memgrad.statistics
from memgrad.deprecation import renamed
from memgrad.experiments import Store
from memgrad.extras import require
from memgrad.kinds import as_number, is_real, number_form
from memgrad.statistics import Estimate, interval, log_interval, paired_difference, ratio_of_means
from memgrad.tables import json_ready


def test_all_that_is_missing_is_named_and_what_is_installed_is_not() -> None:
    require("this", extra="lab", modules=("numpy", "json"))
    with pytest.raises(ImportError) as refusal:
        require("this", extra="lab", modules=("no_such_a", "numpy", "no_such_b"))
    words = "this needs no_such_a, no_such_b, which are not installed: pip install 'memgrad[lab]'"
    assert (str(refusal.value), refusal.value.name) == (words, "no_such_a")


class Thing:
    size = 3
    width = renamed("width", "size")


@pytest.mark.parametrize("use", [lambda: memgrad.statistics.Interval, lambda: Thing().width], ids=["module", "class"])
def test_a_deprecated_name_warns_where_it_is_used(use: FunctionType) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use()
    line = use.__code__.co_firstlineno  # not the line above, which calls it
    assert [(each.category, each.filename, each.lineno) for each in caught] == [(DeprecationWarning, __file__, line)]


def test_every_estimate_keeps_the_name_that_it_is_given() -> None:
    pairs = ([1.0, 2.0], [1.0, 3.0])
    found = [
        *(interval(samples, name="a") for samples in ([], [1.0], [1.0, 1.0], [1.0, 2.0], [1.0, math.inf])),
        log_interval([1.0, 2.0], name="a"),
        paired_difference(*pairs, name="a"),
        ratio_of_means(*pairs, name="a"),
    ]
    assert [each.name for each in found] == ["a"] * 8
    assert [each.n for each in found] == [0, 1, 2, 2, 2, 2, 2, 2]


def test_a_quantile_of_ones_own_is_the_number_of_standard_errors() -> None:
    """1 and 3 have the mean 2 with the standard error 1; over samples of 2, half of both."""
    found = interval([1.0, 3.0], quantile=2.0)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 0.0, 4.0))
    found = ratio_of_means([1.0, 3.0], [2.0, 2.0], quantile=1.5)
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 0.25, 1.75))


def test_an_estimate_without_a_name_is_refused_and_written_without_one() -> None:
    with pytest.raises(ValueError, match=r"^an estimate needs both ends"):
        Estimate(1.0, high=2.0)
    assert str(Estimate(1.0, 0.5, 2.0)) == "1 [0.5, 2]"


@pytest.mark.parametrize(
    ("value", "is_one"),
    [(1, True), (1.0, True), (np.int8(1), True), (np.float16(1), True), (True, False), (np.True_, False), (1j, False)],
)
def test_truth_values_are_no_real_numbers(value: object, is_one: bool) -> None:
    assert is_real(value) is is_one


def test_numbers_are_refused_with_their_rule_and_the_reason() -> None:
    assert as_number("it", "x", np.float32(0.5)) == 0.5
    for least, excluded, rule in ((-math.inf, False, ""), (2.0, False, " >= 2"), (2.0, True, " > 2")):
        with pytest.raises(ValueError) as refusal:  # noqa: PT011  # compared as a whole
            as_number("it", "x", math.nan, least=least, excluded=excluded, why="so it is")
        assert str(refusal.value) == f"it needs a finite x{rule}, got x=nan: so it is."


@pytest.mark.parametrize(("value", "text"), [(2.0, "2"), (-0.5, "-0.5"), (1e22, "1e+22"), (0.1 + 0.2, repr(0.1 + 0.2))])
def test_a_number_in_a_text_form_is_read_back_exactly(value: float, text: str) -> None:
    assert number_form(value) == text
    assert float(text) == value


def test_json_has_null_wherever_a_number_is_not_finite() -> None:
    data = {"a": [math.nan, (1.0, -math.inf)], "b": {"c": math.inf, "d": "inf", "e": True, "f": 3}}
    assert json_ready(data) == {"a": [None, [1.0, None]], "b": {"c": None, "d": "inf", "e": True, "f": 3}}


def test_threads_may_write_the_same_file(tmp_path: Path) -> None:
    store, errors = Store.open(tmp_path / "store"), []

    def write(data: bytes) -> None:
        try:
            for _ in range(40):
                store.save_checkpoint("k", data)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(bytes([i]) * 1000,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.checkpoint("k") in [bytes([i]) * 1000 for i in range(3)]
