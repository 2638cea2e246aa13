"""The smallest fault that a check must find, the largest that it must not, and builds of a problem that differ."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from memgrad.problems import Problem, check, check_problem, get, rebuild
from memgrad.problems.dense import StackedDense, slope_of_cross_entropy
from memgrad.problems.models import Dense
from memgrad.problems.rebuild import ADVICE, differing, identity

entropy = nn.functional.cross_entropy


def sound(**changes: Any) -> Problem:
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(30, 4, generator=generator), torch.randint(3, (30,), generator=generator)
    given: dict[str, Any] = {"loss": entropy, "train": (inputs, targets)} | changes
    return Problem("sound", make_model=given.pop("make_model", lambda: Dense((4, 3))), batch_size=8, **given)


INPUTS, TARGETS = sound().train


def message_of(problem: Problem, check: str) -> tuple[str, str]:
    return next((each.status, each.message) for each in check_problem(problem).findings if each.check == check)


def in_single(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The cross entropy, changed in single precision alone."""

    def loss(z: Tensor, y: Tensor) -> Tensor:
        exact = entropy(z, y)
        return change(exact) if z.dtype == torch.float32 else exact

    return loss


class Backward(torch.autograd.Function):
    """The identity, with a gradient that is too large by a factor."""

    factor = 1.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        return slopes[0] * Backward.factor


@dataclass
class Off:
    """A stack that is off: by a factor in its gradients, perhaps on shared batches alone, or by a shift of outputs."""

    factor: float = 1.0
    shift: float = 0.0
    shared_alone: bool = False

    def _is_off(self, inputs: Tensor) -> bool:
        return inputs.ndim == 2 or not self.shared_alone

    def outputs(self, parameters: Any, inputs: Tensor) -> Tensor:
        found = StackedDense((), slope_of_cross_entropy).outputs(parameters, inputs)
        return found + self.shift * torch.eye(3)[0].to(found)  # of one class: a shift of all is no shift

    def gradient(self, parameters: Any, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        found = StackedDense((), slope_of_cross_entropy).gradient(parameters, inputs, targets)
        return {name: g * self.factor if self._is_off(inputs) else g for name, g in found.items()}


def labels(last: int) -> tuple[Tensor, Tensor]:
    """Labels of which only the last, which no minibatch of a check has, is another one."""
    return INPUTS, torch.cat([TARGETS[:-1], torch.tensor([last])])


BINARY = {"make_model": lambda: Dense((4, 2)), "train": (INPUTS, torch.cat([TARGETS[:-1] % 2, torch.tensor([2])]))}
COUNTS = {
    "make_model": lambda: Dense((4, 1)),
    "loss": lambda z, y: (z[:, 0] - y).square().mean(),
    "train": (INPUTS, TARGETS + 5),
}


class Column(nn.Linear):
    """A model with one number per example, without an axis for it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, 0]


class Mean(nn.Linear):
    """A model with one number for all examples."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).mean()


NUMBERS = {"loss": lambda z, y: (z - y).square().mean(), "train": (INPUTS, INPUTS[:, 0])}
ONE_WRONG = INPUTS.index_put((torch.tensor([3]),), torch.tensor(torch.inf))


@pytest.mark.parametrize(
    ("check", "status", "words", "changes"),
    [
        ("precision", "passed", "the same loss", {"loss": in_single(lambda x: 1.005 * x)}),
        ("precision", "failed", "it loses digits", {"loss": in_single(lambda x: 1.02 * x)}),
        ("precision", "failed", "it loses digits", {"loss": in_single(lambda x: 0.98 * x)}),
        (
            "precision",
            "passed",
            "the same loss",
            {"loss": lambda z, _y: z.sum() * 0 + 5e-4 * (z.dtype == torch.float32)},
        ),
        ("precision", "failed", "the loss is () float32: do not cast", {"loss": lambda z, y: entropy(z, y).float()}),
        # The rounding of a difference of such losses, 1e-7 over 2e-5, is more than a gradient may be off by.
        ("gradient", "passed", "agrees with finite differences", {"loss": lambda z, y: entropy(z, y) + 1e9}),
        ("gradient", "passed", "agrees with finite differences", {"loss": lambda z, y: entropy(z, y) - 1e9}),
        ("targets", "failed", "training targets go from 0 to 3", {"train": labels(3)}),
        ("targets", "failed", "training targets go from -1 to 2", {"train": labels(-1)}),
        ("targets", "failed", "test targets go from 3 to 3", {"test": (INPUTS[:1], torch.tensor([3]))}),
        ("targets", "failed", "the model has 2 outputs", BINARY),
        ("targets", "passed", "outputs (8, 1) float32 for targets (8,) int64", COUNTS),
        ("targets", "passed", "outputs (8,) float32 for targets (8,)", {"make_model": lambda: Column(4, 1)} | NUMBERS),
        ("targets", "failed", "8 inputs gave outputs () float32", {"make_model": lambda: Mean(4, 1)} | NUMBERS),
        ("data", "passed", "30 examples, inputs (30, 4) float32, targets (30,) int64", {}),
        ("data", "failed", "test inputs have 4 numbers", {"test": (ONE_WRONG, TARGETS)}),
        ("data", "failed", "test targets are (30,) float32, but", {"test": (INPUTS, TARGETS.float())}),
        ("stacked", "failed", "on its own batch differs", {"stacked": Off(factor=1 + 1e-7)}),
        ("stacked", "failed", "on a shared batch differs", {"stacked": Off(factor=1 + 1e-7, shared_alone=True)}),
        ("stacked", "failed", "the metric loss differs", {"stacked": Off(shift=1e-6)}),
        ("stacked", "passed", "3 stacked runs equal 3 single ones", {"stacked": Off(factor=1 + 1e-12)}),
        ("stacked", "passed", "one after another", {}),
    ],
)
def test_a_fault_is_found_from_its_border_on(check: str, status: str, words: str, changes: dict[str, Any]) -> None:
    found, message = message_of(sound(**{"make_model": lambda: Dense((4, 3), bias=False)} | changes), check)
    assert found == status, message
    assert words in message


@pytest.mark.parametrize(("factor", "status"), [(1.0, "passed"), (1.01, "failed"), (0.99, "failed")])
def test_a_gradient_that_is_off_by_a_percent_is_found(
    factor: float, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return Backward.apply(super().forward(x))  # type: ignore[no-any-return, no-untyped-call]

    monkeypatch.setattr(Backward, "factor", factor)
    assert message_of(sound(make_model=lambda: Model(4, 3)), "gradient")[0] == status


@pytest.mark.parametrize(
    ("stacked", "single", "same"),
    [
        # The rule: no number is off by more than 1e-9 of the largest, and 1e-12.
        ([1000 + 5e-7, 0.0], [1000.0, 0.0], True),
        ([1000 + 2e-6, 0.0], [1000.0, 0.0], False),
        ([-1000 - 5e-7], [-1000.0], True),
        ([1.0, 1 + 1e-6], [1.0, 1.0], False),
        ([1 - 1e-6, 1.0], [1.0, 1.0], False),
        ([5e-13], [0.0], True),
        ([2e-12], [0.0], False),
        ([[1.0, 1.0]], [1.0, 1.0], False),
        ([], [], True),
        ([math.nan], [1.0], False),
    ],
)
def test_stacked_numbers_are_those_of_single_runs_up_to_rounding(stacked: Any, single: Any, same: bool) -> None:
    given = (torch.tensor(numbers, dtype=torch.float64) for numbers in (stacked, single))
    if same:
        check._compare("a number", *given)
        return
    with pytest.raises(check._Fault, match="a number differs by"):
        check._compare("a number", *given)


def test_a_parameter_that_is_not_a_number_is_found() -> None:
    def model() -> nn.Module:
        made = Dense((4, 3))
        nn.init.constant_(next(made.parameters()), torch.nan)
        return made

    found = message_of(sound(make_model=model), "initialization")
    assert found == (
        "failed",
        "the initial parameter layers.0.weight is (3, 4) float32 or not finite: initialize it with floats.",
    )


def test_a_skipped_check_names_what_it_needs_in_its_own_order() -> None:
    report = check_problem(sound(train=(ONE_WRONG, TARGETS)))
    told = {each.check: (each.status, each.message) for each in report.findings}
    assert told["targets"] == ("skipped", "needs data")
    assert told["loss"] == ("skipped", "needs targets")
    assert told["precision"] == ("skipped", "needs loss, determinism")
    assert told["mean"] == ("skipped", "needs precision, determinism, state")
    assert (report.failed, report.passed) == (("data",), False)


# --- built twice -----------------------------------------------------------------------------------------------------


def test_the_identity_of_a_problem_is_the_digest_of_its_parts() -> None:
    problem = sound(test=(INPUTS[:2], TARGETS[:2]))
    told = identity(problem)
    own = [f"{part} {what}" for part in ("training", "test") for what in ("inputs", "targets")]
    assert list(told) == [*own, "initial parameters", "initial loss"]
    # These digests are stored beside results, so their form never changes.
    content = b"(torch.int64, (2,))" + TARGETS[:2].numpy().tobytes()
    assert told["test targets"] == hashlib.sha256(content).hexdigest()[:32]
    content = b"(torch.float32, (30, 4))" + INPUTS.numpy().tobytes()
    assert told["training inputs"] == hashlib.sha256(content).hexdigest()[:32]
    content = b"".join(
        f"({p.dtype}, {tuple(p.shape)})".encode() + p.numpy().tobytes() for p in problem.initial_parameters(0).values()
    )
    assert told["initial parameters"] == hashlib.sha256(content).hexdigest()[:32]
    first = problem.batch_loss(problem.initial_parameters(0), INPUTS[:8], TARGETS[:8])
    assert float.fromhex(told["initial loss"]) == pytest.approx(first.item(), rel=1e-6)


def test_a_loss_that_raises_is_left_out_of_the_identity() -> None:
    assert "initial loss" not in identity(sound(loss=lambda _z, _y: 1 / 0))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"initial loss": (1.0).hex()}, {"initial loss": (1.00005).hex()}, []),  # another order of summation
        ({"initial loss": (1.0).hex()}, {"initial loss": (1.0002).hex()}, ["initial loss"]),
        ({"initial loss": (1.0).hex()}, {}, ["initial loss"]),
        ({}, {"initial loss": (1.0).hex()}, ["initial loss"]),
        ({"initial loss": "nan"}, {"initial loss": "nan"}, []),
        ({"a": "1"}, {"a": "1", "b": "2"}, ["b"]),
        ({"a": (1.0).hex()}, {"a": (1.00005).hex()}, ["a"]),  # a digest has no rounding
    ],
)
def test_builds_differ_in_all_but_the_rounding_of_the_loss(
    one: dict[str, str], other: dict[str, str], expected: list[str]
) -> None:
    assert differing(one, other) == expected


@pytest.mark.parametrize(
    ("first", "second", "status", "words"),
    [
        ({"a": "1"}, {"a": "1"}, "passed", "made twice, in two processes"),
        ({"a": "1", "b": "2"}, {"a": "3", "b": "4"}, "failed", f"made twice, its a and b differ: {ADVICE}"),
        ({"error": "one"}, {"a": "1"}, "failed", "in a process of its own it raised one"),
        ({"a": "1"}, {"error": "two"}, "failed", "in a process of its own it raised two"),
    ],
)
def test_two_builds_are_compared(
    first: dict[str, str], second: dict[str, str], status: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    ended: list[str] = []

    def start(_name: str, _sample: bool, place: Path, hash_seed: int) -> Any:
        seeds.append(hash_seed)
        place.write_text(json.dumps((first, second)[len(seeds) - 1]))
        return SimpleNamespace(wait=lambda: 0, kill=lambda: ended.append(place.name))

    monkeypatch.setattr(rebuild, "_start", start)
    found = rebuild._repeated(f"{__file__}:problem", False)
    assert (found.check, found.status) == ("repetition", status)
    assert found.message.startswith(words)
    assert seeds == [1, 2]  # sets have another order in each
    assert ended == ["first", "second"]


def test_a_build_that_ends_its_process_is_refused_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    process = SimpleNamespace(wait=lambda: 3, kill=lambda: None)
    monkeypatch.setattr(rebuild, "_start", lambda *_, **__: process)
    with pytest.raises(ValueError, match=r"ended its process \(exit code 3\) while it was made"):
        rebuild._repeated(f"{__file__}:problem", False)


def test_problems_of_the_library_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "_repeated", lambda *_: pytest.fail("was built in other processes"))
    assert rebuild.check_by_name("logistic").passed


def test_options_are_given_to_the_function_that_has_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from memgrad.problems import get\nmade = get('logistic')\ndef make(seed):\n    return made\n")
    assert get(f"{path}:make", options={"seed": 1}).name == "logistic"
    for function, has in (("made", "none"), ("make", "seed")):
        with pytest.raises(ValueError, match=rf"has no option 'sede'.* It has {has}\."):
            get(f"{path}:{function}", options={"sede": 1})
    with pytest.raises(ValueError, match="has no sample"):
        get(f"{path}:made", sample=True)
    assert replace(get("logistic", device="cpu"), name="p").device.type == "cpu"
