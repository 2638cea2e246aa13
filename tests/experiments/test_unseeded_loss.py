"""A loss that differs from one process to the next breaks pairs as data do: runs of a seed would start differently."""

from __future__ import annotations

import pytest
import torch

from memgrad.experiments.planning.problem_choice import ProblemChoice, facts_about, refuse_other
from memgrad.problems import Problem

INPUTS = torch.linspace(-1, 1, 60).reshape(20, 3)


def built(shift: float) -> Problem:
    """As a process builds it that has drawn this shift."""
    return Problem(
        "shifted",
        (INPUTS, INPUTS[:, :1]),
        lambda: torch.nn.Linear(3, 1),
        lambda outputs, targets: torch.nn.functional.mse_loss(outputs, targets + shift),
        batch_size=4,
    )


def parts(problem: Problem) -> tuple[tuple[str, str], ...]:
    return facts_about(ProblemChoice(f"{__file__}:built"), problem).parts


def test_another_loss_is_refused_and_rounding_is_not() -> None:
    planned = parts(built(0.5))
    refuse_other(built(0.5), planned)
    refuse_other(built(0.5 + 1e-7), planned)
    with pytest.raises(ValueError, match=r"'shifted' differs from one process to the next: its initial loss"):
        refuse_other(built(0.6), planned)


def test_a_loss_that_raises_an_error_is_left_to_the_checks() -> None:
    def broken(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        raise SystemExit

    problem = Problem("broken", (INPUTS, INPUTS[:, :1]), lambda: torch.nn.Linear(3, 1), broken, batch_size=4)
    planned = parts(problem)
    assert "initial loss" not in dict(planned)
    refuse_other(problem, planned)


def test_telling_problems_apart_draws_no_random_numbers_of_the_callers() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    parts(built(0.5))
    assert torch.equal(torch.rand(2), expected)
