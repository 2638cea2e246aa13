"""The pieces of an audit against closed forms and scipy: numbers in words, small searches, and what a state holds."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from memgrad.memory import Exponential, Instantaneous, Polynomial
from memgrad.optim import Remembered
from memgrad.optim.auditing import free_gains, watching
from memgrad.optim.auditing.evidence import Sums, _a_size_of
from memgrad.optim.auditing.fitting import Fit, digits, has_both_signs, negative_share
from memgrad.optim.auditing.least_squares import levenberg, nonnegative

# --- numbers in words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "bounds", "text"),
    [
        (2.0, (), "2"),
        (0.123456, (), "0.1235"),
        (123456.0, (), "123500"),
        (0.9, (), "0.9"),
        (0.89996, (), "0.9"),
        (0.912345678, (), "0.91235"),  # 1 - value is 0.08766, of which four digits are shown
        (0.999512345, (), "0.9995123"),
        (0.1 + 1e-9, (0.1, 0.2), "0.1"),
        (0.1 + 1e-9, (0.10000001, 0.2), "0.1"),  # no short number lies within the bounds
        (0.8999999, (0.89, 0.91), "0.9"),
        (0.123456, (0.1234, 0.1236), "0.1235"),
        (0.123456, (0.12, 0.123456), "0.12"),
    ],
)
def test_a_number_is_as_short_as_its_bounds_allow(value: float, bounds: tuple[float, ...], text: str) -> None:
    assert digits(value, *bounds) == text


def test_exact_digits_are_those_of_the_number() -> None:
    assert float(digits(1 / 3, most=17)) == 1 / 3
    assert digits(1 / 3, 0.33, 0.34, most=17) == "0.33"


@pytest.mark.parametrize(
    ("fit", "text"),
    [
        (Fit(Instantaneous(), 0.0), "inst"),
        (Fit(Polynomial(2), 0.0, 1.9999, 2.0001), "poly:2"),
        (Fit(Polynomial(2), 0.0, 1.999, 2.002), "poly:2 (1.999 to 2.002)"),
        (Fit(Exponential(0.9), 0.0, 0.89996, 0.90004), "exp:0.9"),
        (Fit(Exponential(0.9), 0.0, 0.8999, 0.9001), "exp:0.9 (0.8999 to 0.9001)"),  # 1 - beta is what is known
        (Fit(Polynomial(0.01), 0.0, 1e-13, 0.0123, "at most"), "poly:0.012 or less"),
        (Fit(Exponential(0.5), 0.0, 0.456, 1.0, "at least"), "exp:0.46 or more"),
    ],
    ids=str,
)
def test_a_fit_is_written_with_its_bounds_unless_they_are_within_a_thousandth(fit: Fit, text: str) -> None:
    assert str(fit) == text


@pytest.mark.parametrize(
    ("row", "share"),
    [([3, -1], 1 / 4), ([-3, 1], 1 / 4), ([1, -1], 1 / 2), ([2, 1], 0.0), ([-2, -1], 0.0), ([0, 0], 0.0)],
)
def test_the_negative_share_is_that_of_the_smaller_sign(row: list[float], share: float) -> None:
    assert negative_share(np.array([row, [4.0 * x for x in row]])) == pytest.approx(share)
    assert has_both_signs(np.array([[1.0, 1.0], row])) == (share > 0)
    assert not has_both_signs(np.array([row]), rounding=share)


def described(weights: Any, **options: Any) -> list[str]:
    return str(Remembered("buffer", 1, np.array(weights, dtype=float), **options)).splitlines()


def test_a_memory_in_words_says_when_it_is_empty_rounded_and_not_from_gradients() -> None:
    plain = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert described(plain) == [
        "buffer remembers gradients as inst, off by 0.00 %",
        "    gain 1, mean age 0 steps, weight of the first gradient 0",
    ]
    assert "    it is empty before step 1" in described([[0, 0, 0], *plain[1:]])
    assert "    plus 0.5 at the last step that does not come from gradients" in described(
        plain, offset=np.array([0.0, 0.0, 0.5])
    )
    assert described(plain, offset=np.array([0.5, 0.5, 0.0])) == described(plain)
    assert not any("plus" in line for line in described([[1, 0], [0, 0]], offset=np.zeros(2)))
    rounded = "    rounded: this holds only to a relative error of 0.01; it is "
    assert f"{rounded}rounded, or not exactly linear" in described(plain, rounding=0.01)
    assert f"{rounded}kept in torch.float16" in described(plain, rounding=0.01, kept="torch.float16")


def test_the_mean_age_of_weights_is_their_mean_age() -> None:
    def age(row: list[float]) -> float:
        return Remembered("step", 1, np.array([[1.0, 0.0, 0.0], [*row[:2], 0.0], row])).mean_age

    assert age([1, 2, 5]) == pytest.approx((2 * 1 + 1 * 2) / 8)
    assert age([-1, -2, -5]) == pytest.approx((2 * 1 + 1 * 2) / 8)
    assert np.isnan(age([0, 0, 0]))
    assert np.isnan(age([1, -2, 5]))


# --- searches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_nonnegative_factors_are_those_of_scipy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    columns = generator.standard_normal((6, 3)) * 10 ** generator.uniform(-6, 6, 3)
    values = generator.standard_normal(6)
    expected, _ = nnls(columns, values)
    assert nonnegative(columns, values) * np.linalg.norm(columns, axis=0) == pytest.approx(
        expected * np.linalg.norm(columns, axis=0), abs=1e-9
    )


def test_a_column_of_zeros_gets_the_factor_0() -> None:
    assert nonnegative(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, 3.0])).tolist() == [2.0, 0.0]
    assert nonnegative(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([-1.0, -3.0])).tolist() == [0.0, 0.0]


def test_the_search_follows_a_curved_valley_and_stays_within_its_bounds() -> None:
    def rosenbrock(x: Any) -> Any:
        return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    low, high = np.full(2, -2.0), np.full(2, 2.0)
    assert levenberg(rosenbrock, np.array([-1.2, 1.0]), low, high) == pytest.approx([1.0, 1.0], abs=1e-9)
    apart = levenberg(lambda x: x**3 - [1.0, 125.0], np.array([9.0, -9.0]), low, high)
    assert apart == pytest.approx([1.0, 2.0], abs=1e-6)  # beside 117^2, which the bound leaves, less is not seen
    flat = levenberg(lambda x: np.ones(1), np.array([9.0, -9.0]), low, high)
    assert flat.tolist() == [2.0, -2.0]  # nothing is nearer than the start, which is moved inside
    assert levenberg(lambda x: np.ones(1), np.zeros(0), np.zeros(0), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_the_grid_knows_how_much_one_or_two_memories_explain(seed: int) -> None:
    generator = np.random.default_rng(seed)
    first, second = generator.exponential(size=(2, 3, 4, 6))  # (grid, step, gradient)
    shares = generator.exponential(size=(4, 6))

    def explained(*rows: Any) -> float:
        """The sum over the steps of what nonnegative gains take off the squares."""
        return sum(y @ y - nnls(np.stack(units, axis=1), y)[1] ** 2 for *units, y in zip(*rows, shares, strict=True))

    two = free_gains._explained_by_two(first, second, shares)
    assert two == pytest.approx(np.array([[explained(a, b) for b in second] for a in first]), abs=1e-9)
    one = free_gains._explained_by_one(first, shares)
    assert one == pytest.approx(np.array([explained(a) for a in first]), abs=1e-9)


# --- evidence --------------------------------------------------------------------------------------------------------


def test_what_a_sum_misses_is_relative_to_its_absolute_terms() -> None:
    weights, gradients = np.array([[1.0, 0.0], [1.0, -1.0]]), np.array([[3.0], [2.0]])
    sums = Sums(1, weights, np.array([0.5, 0.0]))
    exact = np.array([[3.5], [1.0]])
    assert np.array_equal(sums.of(gradients), exact)
    assert sums.misses(exact, gradients) == 0.0
    off = exact + np.array([[0.0], [0.5]])
    assert sums.misses(off, gradients) == pytest.approx(0.5 / 5)  # 3 + 2, not 3 - 2
    assert sums.misses(off, gradients, resolution=0.25) == pytest.approx(0.25 / 5)
    assert sums.misses(off, gradients, resolution=0.5) == 0.0
    assert sums.rounds(off, gradients) == pytest.approx(0.5 / 5)
    squares = Sums(2, weights, np.zeros(2))
    assert squares.misses(np.array([[9.0], [5.0 + 1.3]]), gradients) == pytest.approx(1.3 / 13)
    nothing = Sums(1, np.zeros((2, 2)), np.zeros(2))
    assert nothing.misses(np.array([[0.0], [1.0]]), gradients) == np.inf


# --- what a state holds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "inside"), [(8, True), (9, False)])
@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_a_short_list_is_looked_into_and_a_long_one_is_not(kind: Any, length: int, inside: bool) -> None:
    names = [name for name, _ in watching._entries({"past": kind([1.0] * length), "k": 3})]
    assert names == [*([f"past[{i}]" for i in range(length)] if inside else ["past"]), "k"]
    assert [name for name, _ in watching._entries({"a": {"b": [1.0]}})] == ["a[b]"]


SHAPE = torch.Size([1])


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (True, 1.0),
        (torch.tensor(2.5), 2.5),
        (torch.ones(1, 1), 1.0),
        (torch.ones(1), None),  # a buffer, because the parameter has this shape
        (torch.ones(2), None),
        (torch.tensor(1j), None),
        ("3", None),
        (None, None),
    ],
    ids=str,
)
def test_a_single_number_is_one_whatever_its_kind(value: Any, number: float | None) -> None:
    assert watching._number(value, SHAPE) == number


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.ones(2, 3), "a tensor of the shape (2, 3)"),
        (torch.ones(2, dtype=torch.complex64), "a tensor of the shape (2,) (torch.complex64)"),
        ([1.0] * 9, "a list of 9 entries"),
        ({"a": torch.ones(1)}, "a dict of 1 entries"),
        (["a", 1], None),  # neither tensors nor floats
        ([], None),
        ([[1.0]], "a list of 1 entries"),
        (None, None),
        ("text", None),
        (len, None),
        (object(), "a object"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_other_state_is_described_if_it_holds_numbers(value: Any, words: str | None) -> None:
    assert watching._other_form(value) == words


@pytest.mark.parametrize(
    ("largest", "size"), [(3.0, 3.0), (-5.0, 5.0), (0.0, 1.0), (np.inf, 1.0), (-np.inf, 1.0), (np.nan, 1.0)]
)
def test_a_starting_point_is_as_large_as_finite_parameters_become(largest: float, size: float) -> None:
    assert _a_size_of(np.array([1e-9 * min(abs(largest), 1.0), largest])) == size
