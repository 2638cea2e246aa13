"""How examples go through a model: in which pieces, how often, and what is not computed at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from memgrad.problems import Problem, passes
from memgrad.problems.passes import Passes


def line(**options: Any) -> Problem:
    """One weight w and the inputs 0, ..., 10: the loss is the mean of w x, and its gradient that of x."""
    inputs = torch.arange(11.0)[:, None]
    given: dict[str, Any] = {"test": (inputs[:4], torch.zeros(4)), "full_chunk": 4} | options
    return Problem(
        "line",
        (inputs, torch.zeros(11)),
        lambda: nn.Linear(1, 1, bias=False),
        lambda z, y: (z[:, 0] - y).mean(),
        **given,
    )


@pytest.mark.parametrize(
    ("full_chunk", "runs", "expected"),
    [
        (4, (), [4, 4, 3]),
        (11, (), [11]),
        (4, (1,), [4, 4, 3]),
        (4, (2,), [2, 2, 2, 2, 2, 1]),  # as many examples times runs as one run has examples
        (11, (2,), [5, 5, 1]),
        (1, (3,), [1] * 11),  # and one at least
    ],
)
def test_pieces_are_smaller_where_many_runs_go_through_at_once(
    full_chunk: int, runs: tuple[int, ...], expected: list[int]
) -> None:
    problem = line(full_chunk=full_chunk)
    through: Any = Passes(runs, None, None, None, None)  # type: ignore[arg-type]  # only the runs are read
    pieces = list(passes.chunks(problem, problem.train, through))
    assert [len(inputs) for _, inputs, _ in pieces] == [len(targets) for *_, targets in pieces] == expected
    assert [share for share, *_ in pieces] == [rows / 11 for rows in expected]
    assert torch.equal(torch.cat([inputs for _, inputs, _ in pieces]), problem.train[0])


@pytest.mark.parametrize(
    ("metrics", "gradient_examples", "loss_examples", "expected"),
    [
        (["loss"], None, None, [("outputs", 11)]),
        (["loss"], 5, None, [("outputs", 11)]),  # the gradient was not asked for
        (["test_loss"], None, None, [("outputs", 4)]),
        (["gradient_norm"], None, None, [("both", 11)]),
        (["loss", "gradient_norm"], None, None, [("both", 11)]),
        (["loss", "gradient_norm"], 5, 5, [("both", 5)]),
        (["loss", "gradient_norm"], 5, None, [("gradient", 5), ("outputs", 11)]),
        (["loss", "gradient_norm"], None, 5, [("gradient", 11), ("outputs", 5)]),
        (["gradient_norm", "test_loss"], None, None, [("both", 11), ("outputs", 4)]),
    ],
)
def test_examples_go_through_the_model_once_for_each_number_that_needs_them(
    metrics: list[str], gradient_examples: int | None, loss_examples: int | None, expected: list[tuple[str, int]]
) -> None:
    problem = line(full_chunk=99)
    parameters = problem.initial_parameters(0)
    one = passes.one_run(problem, parameters)
    taken: list[tuple[str, int]] = []

    def noted(name: str, function: Any) -> Any:
        return lambda inputs, *rest: taken.append((name, len(inputs))) or function(inputs, *rest)

    through = replace(
        one,
        outputs=noted("outputs", one.outputs),
        gradient=noted("gradient", one.gradient),
        outputs_and_gradient=noted("both", one.outputs_and_gradient),
    )
    found = passes.evaluate(problem, parameters, metrics, through, gradient_examples, loss_examples)
    assert list(found) == metrics
    assert taken == expected


def test_the_gradient_over_a_share_is_that_of_the_examples_drawn() -> None:
    problem = line()
    parameters = problem.initial_parameters(0)
    shares = {n: problem.evaluate(parameters, gradient_examples=n)["gradient_norm"] for n in (3, 11)}
    drawn = passes.drawn(problem, 3)[0]
    assert shares[3] == pytest.approx(float(drawn.mean()))
    assert shares[11] == pytest.approx(5.0)  # the mean of 0, ..., 10
    assert len(set(drawn[:, 0].tolist())) == 3


def test_outputs_of_a_stack_carry_no_graph() -> None:
    for width in (1, 2):
        problem = line(stack_width=width)
        parameters = {"weight": torch.ones(2, 1, 1, requires_grad=True)}
        outputs = passes.many_runs(problem, parameters).outputs(problem.train[0])
        assert not outputs.requires_grad
        assert not passes.many_runs(problem, parameters).gradient(*problem.train)["weight"].requires_grad


def test_a_single_run_gets_its_axis_without_a_copy() -> None:
    one = {"weight": torch.ones(2, 3)}
    stacked = passes.stack([one])["weight"]
    assert stacked.shape == (1, 2, 3)
    assert stacked.data_ptr() == one["weight"].data_ptr()
    assert passes.stack([one, one])["weight"].shape == (2, 2, 3)


def test_parameters_without_a_common_run_axis_are_refused_by_their_lengths() -> None:
    mixed = {"weight": torch.ones(3, 1, 1), "scale": torch.tensor(1.0)}
    with pytest.raises(ValueError, match=r"in every tensor, got the lengths \[0, 3\]; stacked_initial_parameters"):
        line().stacked_gradient(mixed, *line().train)


# --- what a problem is made of ---------------------------------------------------------------------------------------


def test_a_problem_has_its_defaults() -> None:
    plain = Problem("p", (torch.eye(2), torch.zeros(2)), lambda: nn.Linear(2, 1), torch.dist)
    found = (plain.l2, plain.batch_size, plain.stack_width, plain.full_chunk, dict(plain.metrics))
    assert found == (0.0, 32, 1, 4096, {})
    assert plain.test is plain.validation is plain.stacked is plain.reconstruct is plain.dtype is None


def test_every_part_of_a_problem_is_moved() -> None:
    problem = line(validation=(torch.ones(2, 1), torch.zeros(2)))
    moved = problem.to(dtype=torch.float64)
    pairs = [moved.train, moved.test, moved.validation]
    assert [each.dtype for pair in pairs if pair is not None for each in pair] == [torch.float64] * 6
    assert moved.to().initial_parameters(0)["weight"].dtype == torch.float64
    assert moved.to(device="meta").dtype == torch.float64  # a device alone leaves the precision as it is


def test_metrics_are_kept_as_they_were_given() -> None:
    given = {"size": lambda z, _y: z[:, 0].abs()}
    problem = line(metrics=given)
    given.clear()
    assert list(problem.metrics) == ["size"]
    with pytest.raises(TypeError):
        problem.metrics["other"] = torch.abs  # type: ignore[index]


TWO = torch.eye(2)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"train": (TWO, TWO, TWO)}, r"needs train=\(inputs, targets\), two tensors, got tuple"),
        ({"train": [TWO, TWO]}, r"two tensors, got list"),
        ({"validation": (TWO, torch.zeros(3))}, r"got validation with the shapes \(2, 2\) and \(3,\)"),
        ({"train": (torch.tensor(1.0), torch.zeros(1))}, r"shapes \(\) and \(1,\)"),
        ({"train": (torch.zeros(1), torch.tensor(1.0))}, r"shapes \(1,\) and \(\)"),
        ({"train": (TWO, torch.zeros(2, device="meta"))}, "on one device, got cpu and meta in train"),
        ({"reconstruct": 3}, "needs a function reconstruct, got reconstruct=3"),
        ({"make_model": None}, "needs a function make_model"),
        ({"stack_width": 0}, "stack_width >= 1, got stack_width=0"),
    ],
)
def test_what_is_no_part_of_a_problem_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        replace(line(), **changes)


def test_pictures_carry_no_graph() -> None:
    problem = line(reconstruct=lambda outputs: 2 * outputs)
    weight = {"weight": torch.full((1, 1), 3.0, requires_grad=True)}
    pictures: Tensor = problem.reconstructions(weight, torch.ones(2, 1))
    assert pictures.tolist() == [[6.0], [6.0]]
    assert not pictures.requires_grad
