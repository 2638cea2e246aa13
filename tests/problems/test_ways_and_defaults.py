"""Which way a computation takes where several give the same numbers, and defaults that nothing else states."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from memgrad.problems import Problem, dense, passes
from memgrad.problems.kinds import indices, normals
from memgrad.problems.objectives import Huber, LeastSquares, LogCosh, Logistic, Objective, PowerLaw, Quartic
from memgrad.problems.objectives.formulas import ConstantGradient, Quadratic
from memgrad.problems.rebuild import _how, differing


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (Huber(), {"delta": 1.0, "dimension": 1, "sigma": 0.0}),
        (LogCosh(), {"dimension": 1, "sigma": 0.0}),
        (Quartic(), {"coefficients": (0.8, 0.4), "sigma": 0.0}),
        (ConstantGradient(), {"slope": (1.0,), "sigma": 0.0}),
        (Quadratic((2.0, 1.0)), {"rotation": None, "sigma": 0.0}),
        (PowerLaw(1.0, 0.5), {"dimension": 10, "ambient": 100, "seed": 0, "batch_size": None}),
        (LeastSquares(np.eye(2), np.ones(2)), {"l2": 0.0, "batch_size": None}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_objective_has_its_documented_defaults(objective: Objective, expected: dict[str, Any]) -> None:
    assert {name: getattr(objective, name) for name in expected} == expected


@pytest.mark.parametrize("family", [LeastSquares, Logistic])
def test_data_are_not_written_out(family: Any) -> None:
    objective = family(np.full((3, 2), 0.125), np.ones(3), l2=0.5)
    assert repr(objective) == f"{family.__name__}(l2=0.5, batch_size=None)"
    assert {each.name for each in dataclasses.fields(objective) if not each.repr} == {"inputs", "targets"}


def test_numbers_are_drawn_from_the_generator_that_is_given() -> None:
    x = torch.zeros(2, dtype=torch.float64)
    made = lambda: torch.Generator().manual_seed(3)  # noqa: E731
    assert torch.equal(indices(x, 9, (50,), made()), torch.randint(9, (50,), generator=made()))
    assert torch.equal(normals(x, (50,), made()), torch.randn(50, generator=made(), dtype=torch.float64))
    assert indices(np.zeros(2), 9, (50,), np.random.default_rng(3)).tolist() == (
        np.random.default_rng(3).integers(9, size=50).tolist()
    )


@pytest.mark.parametrize(
    ("width", "own", "way"), [(1, False, "_one_by_one"), (2, False, "_by_vmap"), (1, True, "_by_hand")]
)
def test_runs_are_stacked_where_that_is_faster(
    width: int, own: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacked = dense.StackedDense((), dense.slope_of_squares) if own else None
    problem = Problem(
        "p",
        (torch.eye(2), torch.zeros(2)),
        lambda: nn.Linear(2, 1, bias=False),
        torch.dist,
        stack_width=width,
        stacked=stacked,
    )
    for name in ("_one_by_one", "_by_vmap", "_by_hand"):
        monkeypatch.setattr(passes, name, lambda *_, name=name: name)
    assert passes.many_runs(problem, {"weight": torch.zeros(3, 1, 2)}) == way  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    ("batch", "largest", "usual"),
    [(127, 1.0, True), (128, 1.0, False), (200, 1.0, False), (200, 60.0, True), (200, -60.0, True)],
)
def test_wide_batches_take_the_fast_softmax_unless_it_loses_digits(
    batch: int, largest: float, usual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, softmax = [], torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda *given: taken.append(given) or softmax(*given))
    z = torch.linspace(0, 1, 3 * batch).view(1, 3, batch) + largest
    assert torch.allclose(dense._softmax(z), softmax(z, -2))
    assert bool(taken) is usual


def test_how_a_process_ended_and_what_differs() -> None:
    assert [_how(code) for code in (-9, 0, 3)] == ["by signal 9", "exit code 0", "exit code 3"]
    one = {"data": "a", "parameters": "b"}
    assert differing(one, one) == []
    assert differing(one, {"data": "x", "parameters": "b"}) == ["data"]
    assert differing(one, {"data": "a"}) == ["parameters"]
