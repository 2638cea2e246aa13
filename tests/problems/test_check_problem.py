"""Broken problems, each with one fault, which the check must find: that one, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner, Result

from memgrad import problems
from memgrad.cli import app
from memgrad.problems import Finding, Problem, check_problem, rebuild
from memgrad.problems.dense import StackedDense, slope_of_cross_entropy
from memgrad.problems.metrics import accuracy
from memgrad.problems.models import Dense
from memgrad.problems.rebuild import check_by_name

CHECKS = (
    *("data", "initialization", "targets", "loss", "determinism", "state", "precision", "mean", "chunks"),
    *("gradient", "metrics", "stacked"),
)


def sound(**changes: Any) -> Problem:
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(50, 6, generator=generator), torch.randint(3, (50,), generator=generator)
    problem = Problem(
        "sound",
        (inputs, targets),
        lambda: Dense((6, 5, 3), ("tanh",)),
        nn.functional.cross_entropy,
        test=(inputs[:9], targets[:9]),
        metrics={"accuracy": accuracy},
        batch_size=8,
        l2=0.1,
    )
    return replace(problem, **changes)


@pytest.mark.most(3)
@pytest.mark.parametrize("name", problems.names())
def test_the_librarys_own_problems_pass(name: str) -> None:
    report = check_problem(problems.get(name, sample=name not in ("least-squares", "logistic")))
    assert report.passed, str(report)
    assert tuple(finding.check for finding in report.findings) == CHECKS


@pytest.mark.parametrize("changes", [{}, {"test": None, "metrics": {}}, {"stack_width": 4}, {"batch_size": 50}])
def test_sound_problems_pass(changes: dict[str, Any]) -> None:
    report = check_problem(sound(**changes))
    assert report.passed, str(report)
    assert report.failed == ()
    assert "FAILED" not in str(report)


def test_a_check_changes_nothing() -> None:
    before = torch.random.get_rng_state()
    check_problem(sound())
    assert torch.equal(before, torch.random.get_rng_state())


# --- faults ----------------------------------------------------------------------------------------------------------


class Wrapped(nn.Module):
    """A sound network with a fault put after its first layer."""

    def __init__(self, fault: Callable[[Tensor], Tensor] | nn.Module) -> None:
        super().__init__()
        self.first, self.last, self.fault = nn.Linear(6, 5), nn.Linear(5, 3), fault

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.fault(self.first(x)))  # type: ignore[no-any-return]


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        return slopes[0] * ctx.saved_tensors[0].sin()  # of the cosine


class Bare(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :3]


class NumpyInit(nn.Linear):
    def __init__(self) -> None:
        super().__init__(6, 3)
        with torch.no_grad():
            self.weight.copy_(torch.from_numpy(np.random.default_rng().standard_normal((3, 6))))


def seeding_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(6, 3)


INPUTS, TARGETS = sound().train
REGRESSION = {"loss": lambda z, y: (z - y).square().mean(), "metrics": {}, "test": None}
FAULTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # name: (check that must fail, words of its message, what is changed)
    "nan in the data": (
        "data",
        "1 numbers that are nan",
        {
            "train": (
                INPUTS.clone()
                .index_fill_(0, torch.tensor(3), 0)
                .index_put_((torch.tensor(3), torch.tensor(0)), torch.tensor(torch.nan)),
                TARGETS,
            )
        },
    ),
    "test data of another shape": ("data", "prepare both alike", {"test": (torch.zeros(4, 7), TARGETS[:4])}),
    "batch larger than the data": ("data", "batch_size is 60, but there are 50", {"batch_size": 60}),
    "initialized by numpy": ("initialization", "two different initial values of weight", {"make_model": NumpyInit}),
    "no parameters": ("initialization", "no parameters", {"make_model": Bare}),
    "make_model raises": ("initialization", "make_model raised ZeroDivisionError", {"make_model": lambda: 1 / 0}),
    "loss without reduction": (
        "loss",
        "must be a tensor with one float, got (8,) float32",
        {"loss": lambda z, y: nn.functional.cross_entropy(z, y, reduction="none")},
    ),
    "loss that is a float": (
        "loss",
        "one float",
        {"loss": lambda z, y: nn.functional.cross_entropy(z, y).item(), "l2": 0.0},
    ),
    "infinite loss": ("loss", "is inf", {"loss": lambda z, y: nn.functional.cross_entropy(z, y) / 0}),
    "inputs of another width": (
        "targets",
        "Inputs were (8, 6) float32",
        {"make_model": lambda: Dense((7, 3))},
    ),
    "loss that warns": (
        "loss",
        "warned UserWarning: Using a target size",
        REGRESSION
        | {"train": (INPUTS, INPUTS[:, 0]), "make_model": lambda: Dense((6, 1)), "loss": nn.functional.mse_loss},
    ),
    "rows lost": (
        "targets",
        "one row for each example",
        {"make_model": lambda: Wrapped(lambda h: h[:1]), "loss": lambda z, y: nn.functional.cross_entropy(z, y[:1])},
    ),
    "a label that has no output": (
        "targets",
        "targets go from 0 to 7, but the model has 3 outputs",
        {"train": (INPUTS, torch.cat([TARGETS[:49], torch.tensor([7])]))},
    ),
    "dropout": ("determinism", "remove dropout", {"make_model": lambda: Wrapped(nn.Dropout(0.5))}),
    "batch normalization": ("state", "fault.running_mean", {"make_model": lambda: Wrapped(nn.BatchNorm1d(5))}),
    "a fixed precision": ("precision", "raised RuntimeError", {"make_model": lambda: Wrapped(lambda h: h.float())}),
    "a loss that cancels": (
        "precision",
        "it loses digits",
        {"loss": lambda z, y: nn.functional.cross_entropy(z, y) + 1e8 - 1e8},
    ),
    "a sum": ("mean", "reduction='mean'", {"loss": lambda z, y: nn.functional.cross_entropy(z, y, reduction="sum")}),
    "targets broadcast against outputs": (
        "chunks",
        "Outputs are (40, 1) float64 and targets (40,) float64",
        REGRESSION | {"train": (INPUTS, INPUTS[:, 0]), "make_model": lambda: Dense((6, 1))},
    ),
    "examples mixed": (
        "chunks",
        "examples depend on each other",
        {"make_model": lambda: Wrapped(lambda h: h - h.mean(0))},
    ),
    "a wrong backward": (
        "gradient",
        "along a random direction",
        {"make_model": lambda: Wrapped(WrongBackward.apply)},
    ),
    "a detached layer": ("gradient", "detach()", {"make_model": lambda: Wrapped(lambda h: h.detach())}),
    "a wrong stacked model": (
        "stacked",
        "correct `stacked`",
        {"stacked": StackedDense(("sigmoid",), slope_of_cross_entropy)},
    ),
    "a wrong stacked gradient": (
        "stacked",
        "the gradient of layers.0.weight on its own batch",
        {"stacked": StackedDense(("tanh",), lambda z, y: 2 * slope_of_cross_entropy(z, y))},
    ),
    "a metric that is a mean": (
        "metrics",
        "one float for each of 8 examples, got () float32",
        {"metrics": {"accuracy": lambda z, y: accuracy(z, y).mean()}},
    ),
    "a metric that is not a number": (
        "metrics",
        "accuracy = nan",
        {"metrics": {"accuracy": lambda z, y: accuracy(z, y) * torch.nan}},
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_no_other(fault: str) -> None:
    check, words, changes = FAULTS[fault]
    report = check_problem(sound(**changes))
    assert report.failed == (check,), str(report)
    assert words in next(finding.message for finding in report.findings if finding.check == check)
    assert not report.passed
    assert {finding.status for finding in report.findings if finding.check != check} <= {"passed", "skipped"}


def test_a_model_that_seeds_torch_leaves_its_users_generator_alone() -> None:
    """Then all seeds give the same parameters, which the finding says: it is no fault, zeros do so too."""
    report = check_problem(sound(make_model=seeding_model))
    assert report.passed, str(report)
    assert "(and for every seed)" in report.findings[1].message


# --- the command -----------------------------------------------------------------------------------------------------

OWN = """
import torch
from torch import nn
from memgrad.problems import Problem

def problem():
    inputs = torch.eye(4)
    model = lambda: nn.Linear(4, 4)
    return Problem("mine", (inputs, torch.arange(4)), model, nn.functional.cross_entropy, batch_size=2)

def with_dropout():
    model = lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    return Problem("bad [dim]", (torch.eye(4), torch.arange(4)), model, nn.functional.cross_entropy, batch_size=4)

def drawn():
    model = lambda: nn.Linear(4, 4)
    return Problem("drawn", (torch.rand(4, 4), torch.arange(4)), model, nn.functional.cross_entropy, batch_size=2)

def in_the_order_of_a_set():
    inputs = torch.tensor([[float(len(word)) for word in {"a", "be", "sea", "door", "eight", "friday"}]] * 2)
    model = lambda: nn.Linear(6, 6)
    return Problem("sets", (inputs, torch.arange(2)), model, nn.functional.cross_entropy, batch_size=2)

def ends():
    import os
    os.kill(os.getpid(), 9)
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["check", *words], env={"COLUMNS": "140", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "my_problem.py"
    path.write_text(OWN)
    return path


def test_the_command_checks_a_file_of_ones_own(own: Path) -> None:
    result = run(str(own))
    assert result.exit_code == 0, result.output
    assert all(check in result.stdout for check in ("repetition", *CHECKS))
    assert "All checks passed." in result.stdout


@pytest.fixture
def _made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that load torch take seconds, in tests that are not about them."""
    monkeypatch.setattr(rebuild, "_repeated", lambda name, sample: Finding("repetition", "passed", ""))


@pytest.mark.usefixtures("_made_once")
def test_the_command_fails_with_what_to_change(own: Path) -> None:
    result = run(f"{own}:with_dropout")
    assert result.exit_code == 1
    assert "problem bad [dim]" in result.stdout
    assert "remove dropout" in result.stdout
    assert "1 of 13 checks failed." in result.stdout


@pytest.mark.most(1)
@pytest.mark.parametrize("function", ["drawn", "in_the_order_of_a_set"])
def test_a_problem_that_is_another_one_in_each_process_is_found(own: Path, function: str) -> None:
    """Made twice in one process the set has one order; and the data's own check sees nothing wrong with any of them."""
    report = check_by_name(f"{own}:{function}")
    assert report.failed == ("repetition",)
    (message,) = (finding.message for finding in report.findings if finding.check == "repetition")
    assert "training inputs and initial loss differ" in message
    assert "manual_seed(0)" in message


def test_a_problem_that_ends_its_process_is_an_error_and_ends_no_other(own: Path) -> None:
    result = run(f"{own}:ends")
    assert result.exit_code == 2
    assert "ended its process (by signal 9) while it was made" in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.usefixtures("_made_once")
def test_the_command_gives_json(own: Path) -> None:
    result = run(f"{own}:with_dropout", "--json")
    assert result.exit_code == 1
    findings = json.loads(result.stdout)["findings"]
    assert [f["check"] for f in findings if f["status"] == "failed"] == ["determinism"]


def test_the_command_checks_the_librarys_problems() -> None:
    assert run("covtype-softmax", "--sample").exit_code == 0


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["covtype"], 2, "did you mean 'covtype-softmax'?"),
        (["no_such_file.py"], 1, "no_such_file.py"),
        (["{own}:missing"], 2, "has no 'missing'; it has problem, with_dropout"),
        (["{own}", "--sample"], 2, "has no sample"),
    ],
)
@pytest.mark.usefixtures("_made_once")
def test_bad_input_is_refused(own: Path, words: list[str], code: int, complaint: str) -> None:
    result = run(*(word.format(own=own) for word in words))
    assert result.exit_code == code
    assert complaint in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.output


def test_help_shows_what_to_type() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "memgrad check my_problem.py" in result.stdout


POINTS, LABELS = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2


def test_labels_from_1_on_are_found_before_the_loss_fails() -> None:
    problem = Problem(
        "labels", (POINTS, LABELS + 1), lambda: nn.Linear(2, 2), nn.functional.cross_entropy, batch_size=4
    )
    [failed] = [finding for finding in check_problem(problem).findings if finding.status == "failed"]
    assert failed.check == "targets"
    assert "targets go from 1 to 2, but the model has 2 outputs, for classes from 0 on" in failed.message
