"""The parts of a measurement on inputs whose answer is exact, and its seeds as they have been since the first one."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from memgrad.experiments.measuring.lanczos import Ritz
from memgrad.experiments.measuring.measure import (
    _curve,
    _curves,
    _density_nu,
    _noise,
    _over,
    _power_with_floor,
    _probe,
    _spectrum,
    _Ticks,
    _top_nu,
    measure,
)
from memgrad.experiments.measuring.products import Curvature
from memgrad.problems import Problem


def small(n: int = 12, d: int = 3, **options: Any) -> Problem:
    """Least squares without an intercept, in double precision."""
    g = torch.Generator().manual_seed(5)
    inputs = torch.randn(n, d, generator=g, dtype=torch.float64)
    targets = torch.randn(n, 1, generator=g, dtype=torch.float64)
    loss = lambda y, t: ((y - t) ** 2).mean() / 2  # noqa: E731
    return Problem("small", (inputs, targets), lambda: nn.Linear(d, 1, bias=False), loss, batch_size=4, **options)


def test_the_defaults_are_those_of_the_documentation() -> None:
    defaults = {name: each.default for name, each in inspect.signature(measure).parameters.items() if name != "problem"}
    assert defaults == {
        "steps": 300,
        "lr": None,
        "batch_size": None,
        "rows": 2000,
        "matrix": "gauss-newton",
        "probes": 5,
        "lanczos_steps": 80,
        "noise_batches": 30,
        "seeds": 3,
        "seed": 0,
        "progress": None,
    }


@pytest.mark.parametrize(
    ("name", "least"),
    [("probes", 2), ("lanczos_steps", 3), ("noise_batches", 2), ("seeds", 1), ("steps", 0), ("rows", 2), ("seed", 0)],
)
def test_the_smallest_counts_are_accepted_and_smaller_ones_refused(name: str, least: int) -> None:
    few: dict[str, Any] = {"probes": 2, "lanczos_steps": 3, "noise_batches": 2, "seeds": 1, "steps": 0}
    assert measure(small(), **{**few, name: least}).problem == "small"
    for wrong in (least - 1, least + 0.5, 10**9 + 1):
        with pytest.raises(ValueError, match=f"measure needs an integer {name} >= {least}"):
            measure(small(), **{**few, name: wrong})


@pytest.mark.parametrize("options", [{"lr": 0.0}, {"lr": math.inf}, {"batch_size": 0}, {"batch_size": 1.5}])
def test_rates_and_batches_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"measure needs .*{next(iter(options))}"):
        measure(small(), **options)


def test_progress_counts_all_the_work_once() -> None:
    told: list[tuple[int, int]] = []
    measure(
        small(d=6), steps=4, seeds=2, probes=2, lanczos_steps=3, noise_batches=5, progress=lambda *at: told.append(at)
    )
    total = 2 * 3 + 5 + 2 * 4 + 3  # probes, noise, curves, and the learning rate
    assert {each for _, each in told} == {total}
    assert told[-1][0] == total
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    given: list[tuple[int, int]] = []
    few = {"probes": 2, "lanczos_steps": 3, "noise_batches": 2}
    measure(small(d=6), steps=4, seeds=1, lr=0.1, progress=lambda *at: given.append(at), **few)  # type: ignore[arg-type]
    assert given[-1] == (2 * 3 + 2 + 4,) * 2


def test_the_default_rate_is_one_over_the_largest_curvature_and_the_trace_of_a_batch() -> None:
    problem = small(n=40)
    matrix = problem.train[0].T @ problem.train[0] / 40
    found = measure(problem, steps=1, lanczos_steps=3, probes=2, noise_batches=2, seeds=1)
    signs = torch.randint(0, 2, (3,), generator=torch.Generator().manual_seed(1_000_003)) * 2.0 - 1
    trace = float(signs.double() @ matrix @ signs.double())  # of one probe
    assert found.lr == pytest.approx(1 / (float(torch.linalg.eigvalsh(matrix)[-1]) + trace / 4), rel=1e-6)
    assert (found.batch_size, found.rows, found.steps, found.dimension) == (4, 40, 1, 3)
    assert measure(small(), steps=0, batch_size=99, rows=99, lanczos_steps=3, probes=2).batch_size == 12


# --- seeds -----------------------------------------------------------------------------------------------------------


def test_probes_are_random_signs_of_their_own_seeds() -> None:
    around = Curvature(small(), small().initial_parameters(0), 12, "hessian")
    for seed, i in ((0, 0), (2, 3)):
        generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + i)
        expected = torch.randint(0, 2, (3,), generator=generator) * 2 - 1
        assert _probe(around, seed, i).tolist() == expected.tolist()
        assert _probe(around, seed, i).dtype == torch.float64


def test_noise_is_that_of_minibatches_drawn_with_their_seed() -> None:
    problem = small()
    around = Curvature(problem, problem.initial_parameters(0), 12, "hessian")
    told: list[int] = []
    found = _noise(around, 4, 3, 2, _Ticks(9, lambda done, _: told.append(done)))
    generator, full = torch.Generator().manual_seed(7_000_003 * 3), around.gradient()
    apart = [around.gradient(torch.randint(12, (4,), generator=generator)) - full for _ in range(3)]
    plain = [4 * float(each @ each) / float(full @ full) for each in apart]
    bent = [4 * float(each @ around.product(each)) / float(full @ around.product(full)) for each in apart]
    assert found["critical_batch"].value == pytest.approx(np.mean(plain))
    assert found["critical_batch_curved"].value == pytest.approx(np.mean(bent))
    assert (found["critical_batch"].name, found["critical_batch"].n) == ("critical batch", 3)
    assert told == [1, 2, 3]


def test_loss_curves_are_those_of_plain_sgd_from_each_seed() -> None:
    problem = small(l2=0.1)
    (at, losses), last = _curves(problem, problem.initial_parameters(7), 5, 0.05, 4, 12, [7, 8], _Ticks(10, None))
    assert at.tolist() == [1, 2, 3, 4, 5]
    for row, seed in zip(losses, (7, 8), strict=True):
        theta = problem.initial_parameters(seed)["weight"].clone()
        generator = torch.Generator().manual_seed(seed)
        for k in range(5):
            places = torch.randint(12, (4,), generator=generator)
            x, y = problem.train[0][places], problem.train[1][places]
            theta = theta - 0.05 * ((x @ theta.T - y).T @ x / 4 + 0.1 * theta)
            loss = ((problem.train[0] @ theta.T - problem.train[1]) ** 2).mean() / 2 + 0.05 * (theta**2).sum()
            assert row[k] == pytest.approx(float(loss))
        if seed == 7:
            assert last["weight"][0].tolist() == pytest.approx(theta[0].tolist())
    none = _curves(problem, {}, 0, 0.05, 4, 12, [7], _Ticks(0, None))
    assert (len(none[0][0]), none[0][1].shape, none[1]) == (0, (0, 0), {})


def test_a_curve_that_diverges_says_when() -> None:
    with pytest.raises(ValueError, match=r"SGD on 'small' diverged by step \d+ at lr=1e\+300: give a smaller lr"):
        _curves(small(), small().initial_parameters(0), 5, 1e300, 4, 12, [0], _Ticks(5, None))


# --- fits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zeta", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("shift", [0.0, -5.0])
def test_a_power_without_a_floor_above_it_is_found(zeta: float, shift: float) -> None:
    """A positive loss may have the floor 0, which is tried exactly; below 0 the floors that are tried are a grid."""
    k = np.unique(np.round(np.geomspace(1, 1000, 40)))
    found, floor = _power_with_floor(k, k**-zeta + shift)
    assert found == pytest.approx(zeta, rel=1e-6 if shift == 0 else 0.03)
    assert floor == pytest.approx(shift, abs=1e-12 if shift == 0 else 0.02)


def test_a_power_is_fitted_to_the_last_decade_and_a_half() -> None:
    k = np.unique(np.round(np.geomspace(1, 3000, 60)))
    bent = np.where(k < 100, 50.0, k**-0.5)  # 100 is a thirtieth of all steps
    assert _power_with_floor(k, bent)[0] == pytest.approx(0.5, rel=1e-6)
    assert all(map(math.isnan, _power_with_floor(k, np.ones(len(k)))))
    assert all(map(math.isnan, _power_with_floor(k, k / 1e4)))  # it grows


def test_a_curve_is_the_mean_of_seeds_and_its_exponent_their_geometric_mean() -> None:
    k = np.unique(np.round(np.geomspace(1, 1000, 40)))
    found = _curve((k, np.array([k**-0.5, k**-1.0, k**-2.0])))
    assert found["zeta"].value == pytest.approx(1.0, rel=1e-6)
    assert (found["zeta"].n, found["zeta"].name) == (3, "zeta")
    assert found["curve_loss"] == pytest.approx((k**-0.5 + k**-1.0 + k**-2.0) / 3)
    assert found["floor"] == pytest.approx(0.0, abs=1e-9)
    empty = _curve((np.array([]), np.zeros((0, 0))))
    assert (len(empty["curve_loss"]), math.isnan(empty["zeta"].value), math.isnan(empty["floor"])) == (0, True, True)


@pytest.mark.parametrize("nu", [1.2, 2.0])
def test_the_decay_of_counts_is_fitted_between_the_known_ones_and_a_third_of_all(nu: float) -> None:
    at = np.geomspace(1e-6, 1, 61)
    counts = at ** (-1 / nu)
    assert _density_nu(counts, at, 12) == pytest.approx(nu)
    spoiled = np.where(counts < 12, 1.0, np.where(counts > counts.max() / 3, counts.max(), counts))
    assert _density_nu(spoiled, at, 12) == pytest.approx(nu)
    assert math.isnan(_density_nu(np.full(61, 100.0), at, 12))
    assert math.isnan(_density_nu(at * 1e3, at, 10))  # it grows with the curvature


def test_the_decay_of_the_largest_needs_ten_of_them() -> None:
    assert _top_nu(np.arange(1, 11.0) ** -1.5).value == pytest.approx(1.5)
    assert math.isnan(_top_nu(np.arange(1, 10.0) ** -1.5).value)
    first_off = np.arange(1, 21.0) ** -1.5
    first_off[0] = 100.0  # the largest alone is left out
    assert _top_nu(first_off).value == pytest.approx(1.5)


def test_a_critical_batch_needs_a_gradient() -> None:
    assert _over([1.0, 3.0], 4.0, "a").value == 0.5
    assert math.isnan(_over([1.0, 3.0], 0.0, "a").value)
    assert _over([1.0, 3.0], 0.0, "a").name == "a"


def test_a_spectrum_has_traces_counts_and_ends_of_all_probes() -> None:
    first = Ritz(np.array([4.0, 1.0]), np.array([0.25, 0.75]), np.zeros(2))
    second = Ritz(np.array([2.0, -1.0]), np.array([0.5, 0.5]), np.zeros(2))
    found = _spectrum([first, second], 8)
    assert (found["trace"].value, found["trace"].n) == (8 * (1.75 + 0.5) / 2, 2)
    assert found["smallest"] == -1.0
    assert found["eigenvalues"].tolist() == [4.0, 1.0]
    assert (found["density_at"][0], found["density_at"][-1]) == pytest.approx((4e-6, 4.0))
    assert len(found["density_at"]) == 61
    assert found["density_counts"][0] == pytest.approx(8 * (1.0 + 0.5) / 2)
    assert found["density_counts"][-1] == pytest.approx(8 * (0.25 + 0.0) / 2)
