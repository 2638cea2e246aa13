"""Run groups against the same runs made with the public optimizers in a plain loop; checkpoints; divergence."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import math
import pickletools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import SGD, small_spec, trained_here
from torch import Tensor, nn

from memgrad import optim, problems
from memgrad.experiments.planning.plan import expand, settings_in
from memgrad.experiments.planning.problem_choice import facts_about
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import NUMERICS, Run
from memgrad.experiments.storing.chunk import Chunk
from memgrad.experiments.training import train as train_module
from memgrad.experiments.training.alone import Alone
from memgrad.experiments.training.checkpoint import Checkpoint
from memgrad.experiments.training.events import Evaluated, Finished, Progressed, Saved, Stopped
from memgrad.experiments.training.stack import BLOCK, Stack
from memgrad.experiments.training.train import PICTURES, PIXEL, Training
from memgrad.problems import Problem

Options = dict[str, Any]
Method = tuple[str, Options]

STACKED: list[Method] = [
    ("SGD", {}),
    ("SGD", {"weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.8, "nesterov": True}),
    ("MemSGD", {"memory": "poly:2"}),
    ("MemSGD", {"memory": "exp:0.9", "weight_decay": 0.1}),
    ("MemSGD", {"memory": "poly:0.5", "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("MemSGD", {"memory": "p=inf"}),
    ("HeavyBall", {}),
    ("HeavyBall", {"viscosity": 3.0, "weight_decay": 0.05}),
    ("HeavyBall", {"momentum": 0.0}),
    ("Nesterov", {"momentum": 0.7, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Nesterov", {"viscosity": 3.0}),
    ("MemAdam", {}),
    ("MemAdam", {"memory": "poly:1", "second_memory": "poly:4", "weight_decay": 0.1}),
    ("MemAdam", {"memory": "p=inf", "weight_decay": 0.1, "decoupled_weight_decay": False}),
    ("PolyAdam", {"p": 3.0, "beta": 0.8, "weight_decay": 0.1}),
    ("PolyAdam", {"beta": 0.0, "eps": 1e-3}),
    ("Adam", {"betas": (0.8, 0.99), "weight_decay": 0.1}),
    ("Adam", {"betas": (0.0, 0.9), "eps": 1e-4}),
    ("AdamW", {}),
    ("AdamW", {"weight_decay": 0.3, "eps": 1e-6}),
    ("Adagrad", {"weight_decay": 0.1}),
    ("ADana", {}),
    ("ADana", {"delta": 4.0, "kappa": 0.5, "omega": 0.0}),
]
LONE: list[Method] = [
    ("Rprop", {}),
    ("RAdam", {}),
    ("ASGD", {"t0": 2.0}),
    ("Adafactor", {}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Adamax", {}),
    ("Adadelta", {}),
    ("Adam", {"amsgrad": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"momentum": 1.0}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("MemSGD", {"state_dtype": "float64"}),
]


def spelled(method: Method) -> str:
    return ", ".join([method[0], *(f"{name}={value}" for name, value in method[1].items())])


# --- the same runs, written down plainly -----------------------------------------------------------------------------


def seed_of(*words: str | int) -> int:
    """Seeds as they are documented: 63 bits of the SHA-256 of all words."""
    return int(hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()[:16], 16) >> 1


@functools.cache
def permutation(examples: int, *words: str | int) -> Tensor:
    return torch.randperm(examples, generator=torch.Generator().manual_seed(seed_of("order", *words)))


def minibatch(problem: Problem, run: Run, k: int) -> tuple[Tensor, Tensor]:
    """The examples of step k: a permutation an epoch, drawn from the problem, the seed and the epoch."""
    if run.batch_size is None:
        return problem.train
    epoch, place = divmod(k, problem.examples // run.batch_size)
    rows = permutation(problem.examples, problem.name, run.seed, epoch)[
        place * run.batch_size : (place + 1) * run.batch_size
    ]
    return problem.train[0][rows], problem.train[1][rows]


def plain_loop(problem: Problem, run: Run, steps: int, watch: Callable[[nn.Module], Any] | None = None) -> list[Any]:
    """All iterates of a run, or what `watch` makes of them: the model, the loss, the optimizer, as anyone writes it."""
    torch.manual_seed(seed_of("initial", problem.name, run.seed))
    model = problem.make_model().to(problem.dtype or problem.train[0].dtype)
    made_by = getattr(optim, run.recipe.optimizer, None) or getattr(torch.optim, run.recipe.optimizer)
    optimizer = made_by(model.parameters(), lr=run.lr, **dict(run.recipe.options))
    watch = watch or (lambda model: {name: p.detach().clone() for name, p in model.named_parameters()})
    torch.manual_seed(seed_of("noise", problem.name, run.seed))
    iterates = [watch(model)]
    for k in range(steps):
        inputs, targets = minibatch(problem, run, k)
        optimizer.zero_grad()
        loss = problem.loss(model(inputs), targets)
        loss.backward()
        for p in model.parameters():
            p.grad += problem.l2 * p.detach()
        optimizer.step()
        iterates.append(watch(model))
    return iterates


def run_on(problem: Problem, method: Method, *, lr: float = 0.05, seed: int = 0, steps: int = 10, **rest: Any) -> Run:
    defaults = {"batch_size": 8, "evaluate_at": (0, steps // 2, steps), "metrics": ("loss",)}
    name, options = method
    base = {"problem": problem.name, "fingerprint": "", "examples": problem.examples, "dtype": None, "steps": steps}
    return Run(**{**base, **defaults, **rest}, recipe=Recipe.of(name, **options), lr=lr, seed=seed)


@functools.cache
def logistic(dtype: torch.dtype = torch.float64, name: str = "logistic") -> Problem:
    """Logistic regression with an L2 term: 50 examples, so that epochs end within a few steps."""
    whole = problems.get(name, dtype=dtype)
    return replace(whole, train=(whole.train[0][:50], whole.train[1][:50]))


def far(mine: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference of two sets of parameters, over the largest of them."""
    assert mine.keys() == other.keys()
    size = max(float(p.abs().max()) for p in other.values())
    return max(float((mine[name] - other[name]).abs().max()) for name in other) / size


def stacked_iterates(problem: Problem, runs: Sequence[Run], steps: int) -> list[dict[str, Tensor]]:
    """The last iterate of each run of a stack, in the order of the runs."""
    stack = Stack(problem, runs)
    for k in range(steps):
        stack.step(k)
    of_run: list[dict[str, Tensor]] = [{}] * len(runs)
    for row, i in enumerate(stack.run_order):
        of_run[i] = {name: p[row] for name, p in stack.parameters.items()}
    return of_run


def check_stack(methods: Sequence[Method], *, steps: int, batch_size: int | None, within: float = 1e-10) -> None:
    problem = logistic()
    runs = [run_on(problem, method, seed=i % 3, batch_size=batch_size, steps=steps) for i, method in enumerate(methods)]
    for run, method, mine in zip(runs, methods, stacked_iterates(problem, runs, steps), strict=True):
        # Double precision: a few roundings of 1e-16 a step, some of which are divided by the root of a small v. A wrong
        # index, sign or factor would show at 1e-3 or more.
        assert far(mine, plain_loop(problem, run, steps)[-1]) < within, spelled(method)


@pytest.mark.parametrize("batch_size", [8, None])
def test_runs_of_all_kinds_in_one_stack_equal_the_public_optimizers_on_their_own(batch_size: int | None) -> None:
    check_stack(STACKED, steps=30, batch_size=batch_size)


def test_nadam_in_a_stack_equals_torch_s_to_the_precision_of_its_momenta() -> None:
    # torch keeps the product of NAdam's momenta in float32, whose rounding is 6e-8, whatever the parameters are.
    methods: list[Method] = [("NAdam", {"weight_decay": 0.1}), ("NAdam", {"momentum_decay": 0.1}), ("SGD", {})]
    check_stack(methods, steps=30, batch_size=8, within=1e-7)


def test_stacks_go_on_beyond_the_steps_whose_numbers_are_computed_at_once() -> None:
    check_stack([STACKED[i] for i in (3, 4, 9, 14, 22, 24)], steps=BLOCK + 9, batch_size=8)


def test_single_precision_differs_by_rounding_alone() -> None:
    problem = logistic(torch.float32)
    runs = [run_on(problem, method, seed=i % 3) for i, method in enumerate(STACKED)]
    for run, method, mine in zip(runs, STACKED, stacked_iterates(problem, runs, 10), strict=True):
        # 10 steps with about 5 roundings of 6e-8 each, and up to ten times that where a small g is divided by its root.
        assert far(mine, plain_loop(problem, run, 10)[-1]) < 3e-5, spelled(method)


@pytest.mark.most(10)
@pytest.mark.parametrize("name", problems.names())
@pytest.mark.parametrize(("batch_size", "seeds"), [(4, 2), (4, 1), (None, 2)], ids=["own", "shared", "full"])
def test_stacks_equal_plain_loops_on_all_problems(name: str, batch_size: int | None, seeds: int) -> None:
    has_sample = name not in ("logistic", "least-squares")
    whole = problems.get(name, sample=has_sample, dtype=torch.float64)
    problem = replace(whole, train=(whole.train[0][:12], whole.train[1][:12]))
    methods: list[Method] = [("SGD", {}), ("MemSGD", {}), ("AdamW", {}), ("Nesterov", {"viscosity": 3.0})]
    steps = 2 if name in ("mnist-autoencoder", "cifar10-cnn") else 7
    runs = [
        run_on(problem, method, seed=i % seeds, batch_size=batch_size, steps=steps, lr=1e-3)
        for i, method in enumerate(methods)
    ]
    for run, mine in zip(runs, stacked_iterates(problem, runs, steps), strict=True):
        # AdamW's first step is the sign of g, and divides by |g| + 1e-8: rounding of 1e-16 in a g of 1e-10 is 1e-6 of
        # a step of 1e-3.
        assert far(mine, plain_loop(problem, run, steps)[-1]) < 1e-9, run.recipe.optimizer


@pytest.mark.parametrize("method", [*LONE, STACKED[0], STACKED[4], STACKED[13]], ids=spelled)
@pytest.mark.parametrize("batch_size", [8, None])
def test_a_run_alone_equals_the_plain_loop_exactly(method: Method, batch_size: int | None) -> None:
    problem = logistic(torch.float32, "least-squares")
    run = run_on(problem, method, batch_size=batch_size)
    alone = Alone(problem, run)
    for k in range(10):
        alone.step(k)
    expected = plain_loop(problem, run, 10)[-1]
    assert all(p[0].equal(expected[name]) for name, p in alone.parameters.items())


@pytest.mark.parametrize("method", LONE, ids=spelled)
def test_what_has_no_rule_is_not_stacked(method: Method) -> None:
    assert Recipe.of(method[0], **method[1]).method is None


# --- what is measured ------------------------------------------------------------------------------------------------


def finished(training: Training) -> Chunk:
    *_, last = training.events()
    assert isinstance(last, Finished)
    return last.chunk


def series(chunk: Chunk, run: Run, metric: str) -> dict[int, float]:
    rows = (chunk.digest == run.digest) & (chunk.metric == metric)
    return dict(zip(chunk.step[rows].tolist(), chunk.value[rows].tolist(), strict=True))


@pytest.mark.parametrize("width", [1, 3])
def test_rows_hold_the_loss_the_gradient_and_the_length_of_the_step_that_led_there(width: int) -> None:
    problem, at = logistic(), (0, 1, 4, 5, 9)
    metrics = ("loss", "gradient_norm", "step_norm")
    methods = [STACKED[13], STACKED[4], STACKED[0]][:width]  # not in the order in which a stack keeps them
    runs = tuple(
        run_on(problem, method, seed=i, steps=9, evaluate_at=at, metrics=metrics) for i, method in enumerate(methods)
    )
    chunk = finished(Training(problem, runs))
    inputs, targets = problem.train
    for run in runs:
        x = [next(iter(iterate.values()))[0] for iterate in plain_loop(problem, run, 9)]
        expected: dict[str, dict[int, float]] = {metric: {} for metric in metrics}
        for k in at:
            # The logistic loss, its gradient and the L2 term 1e-4/2 |x|^2 from their formulas.
            margins = inputs @ x[k]
            losses = torch.log1p(torch.exp(margins)) - targets * margins
            gradient = inputs.T @ (torch.sigmoid(margins) - targets) / len(inputs) + 1e-4 * x[k]
            expected["loss"][k] = float(losses.mean() + 1e-4 / 2 * x[k] @ x[k])
            expected["gradient_norm"][k] = float(gradient.norm())
            if k > 0:
                expected["step_norm"][k] = float((x[k] - x[k - 1]).norm())
        for metric in metrics:
            found = series(chunk, run, metric)
            assert found.keys() == expected[metric].keys(), metric
            assert found == pytest.approx(expected[metric], rel=1e-8)  # double precision, far above its rounding


@pytest.mark.parametrize("width", [1, 3])
def test_a_metric_that_is_seldom_evaluated_has_the_same_numbers_at_fewer_steps(width: int) -> None:
    problem, metrics, few = logistic(), ("loss", "gradient_norm", "step_norm"), {"loss": (0, 5), "gradient_norm": (0,)}
    methods = [STACKED[13], STACKED[4], STACKED[0]][:width]
    all_, some = (
        tuple(
            run_on(problem, method, seed=i, steps=9, evaluate_at=(0, 1, 5, 9), metrics=metrics, seldom=seldom)
            for i, method in enumerate(methods)
        )
        for seldom in ((), tuple(few.items()))
    )
    often, told = finished(Training(problem, all_)), list(Training(problem, some).events())
    assert isinstance(told[-1], Finished)
    for mine, other in zip(some, all_, strict=True):
        for metric in metrics:
            expected = {k: v for k, v in series(often, other, metric).items() if k in few.get(metric, (1, 5, 9))}
            assert len(expected) == len(few.get(metric, (1, 5, 9)))
            assert series(told[-1].chunk, mine, metric) == expected
    assert {event.k: tuple(event.values) for event in told if isinstance(event, Evaluated)} == {
        0: metrics,
        1: ("step_norm",),
        5: ("loss", "step_norm"),
        9: ("step_norm",),
    }


def test_a_run_with_seldom_metrics_goes_on_from_a_checkpoint() -> None:
    problem, metrics = logistic(), ("loss", "step_norm")
    run = run_on(problem, STACKED[4], evaluate_at=(0, 3, 6, 10), metrics=metrics, seldom=(("loss", (0, 10)),))
    training = Training(problem, (run,))
    stopped = [event for event in training.events(stop=lambda: training.k == 7) if isinstance(event, Saved)]
    again = finished(Training(problem, (run,), Checkpoint.from_bytes(stopped[-1].checkpoint)))
    whole = finished(Training(problem, (run,)))
    assert all(np.array_equal(again.columns[name], column) for name, column in whole.columns.items())


@pytest.mark.parametrize("width", [1, 2])
def test_the_gradient_may_be_that_of_fewer_examples_always_the_same(width: int) -> None:
    problem, few = logistic(), 20
    rows = torch.randperm(problem.examples, generator=torch.Generator().manual_seed(0))[:few]
    share = replace(problem, train=(problem.train[0][rows], problem.train[1][rows]))
    metrics, at = ("loss", "gradient_norm"), (0, 4, 8)
    runs = tuple(
        run_on(problem, STACKED[4], seed=i, steps=8, evaluate_at=at, metrics=metrics, gradient_examples=few)
        for i in range(width)
    )
    chunk = finished(Training(problem, runs))
    for run in runs:
        x = plain_loop(problem, run, 8)
        expected = {k: share.evaluate(x[k], metrics=["gradient_norm"])["gradient_norm"] for k in at}
        assert series(chunk, run, "gradient_norm") == pytest.approx(expected, rel=1e-8)
        losses = {k: problem.evaluate(x[k], metrics=["loss"])["loss"] for k in at}
        assert series(chunk, run, "loss") == pytest.approx(losses, rel=1e-8)
        far_off = {k: problem.evaluate(x[k], metrics=["gradient_norm"])["gradient_norm"] for k in at}
        assert all(abs(expected[k] / far_off[k] - 1) > 1e-3 for k in at)  # so that the test can tell them apart


@pytest.mark.parametrize("few_gradients", [None, 20, 30])
@pytest.mark.parametrize("width", [1, 2])
def test_the_loss_may_be_that_of_fewer_examples_always_the_same(width: int, few_gradients: int | None) -> None:
    problem = replace(
        logistic(), metrics={"size": lambda outputs, _: outputs.reshape(len(outputs), -1).square().sum(1)}
    )
    few = 20

    def share(count: int | None) -> Problem:
        rows = torch.randperm(problem.examples, generator=torch.Generator().manual_seed(0))[:count]
        return replace(problem, train=(problem.train[0][rows], problem.train[1][rows]))

    metrics, at = ("loss", "gradient_norm", "size"), (0, 4, 8)
    wanted: dict[str, Any] = {"metrics": metrics, "gradient_examples": few_gradients, "loss_examples": few}
    runs = tuple(run_on(problem, STACKED[4], seed=i, steps=8, evaluate_at=at, **wanted) for i in range(width))
    chunk = finished(Training(problem, runs))
    for run in runs:
        x = plain_loop(problem, run, 8)
        for metric in metrics:
            of = share(few_gradients if metric == "gradient_norm" else few)
            expected = {k: of.evaluate(x[k], metrics=[metric])[metric] for k in at}
            assert series(chunk, run, metric) == pytest.approx(expected, rel=1e-8)
        far_off = {k: problem.evaluate(x[k], metrics=["loss"])["loss"] for k in at}
        assert all(abs(series(chunk, run, "loss")[k] / far_off[k] - 1) > 1e-3 for k in at[1:])


@pytest.mark.parametrize("width", [1, 3])
def test_runs_with_the_seed_0_leave_the_pictures_they_make_in_the_end(width: int) -> None:
    whole = problems.get("mnist-autoencoder", sample=True, dtype=torch.float64)
    problem = replace(whole, train=(whole.train[0][:12], whole.train[1][:12]))
    methods = [STACKED[4], STACKED[0], STACKED[0]][:width]  # a stack keeps them in another order
    runs = tuple(run_on(problem, m, seed=seed, steps=2) for m, seed in zip(methods, (0, 0, 1), strict=False))
    chunk = finished(Training(problem, runs))
    assert problem.test is not None
    inputs = problem.test[0][:PICTURES]
    for run in runs:
        names = [PIXEL.format(*place) for place in np.ndindex(PICTURES, 784)]
        kept = {name for name in chunk.metric[chunk.digest == run.digest] if name.startswith("pixel")}
        assert kept == (set(names) if run.seed == 0 else set())
        if run.seed == 0:
            pictures = torch.sigmoid(problem.outputs(plain_loop(problem, run, 2)[-1], inputs)).flatten().tolist()
            mine = (chunk.digest == run.digest) & np.char.startswith(chunk.metric, "pixel")
            found = dict(zip(chunk.metric[mine].tolist(), chunk.value[mine].tolist(), strict=True))
            assert [found[name] for name in names] == pytest.approx(pictures, rel=1e-9)
            assert set(chunk.step[mine].tolist()) == {2}


def test_events_tell_of_every_evaluation_in_the_order_of_the_batch() -> None:
    problem = logistic()
    runs = tuple(run_on(problem, method, lr=lr) for method, lr in ((STACKED[20], 0.1), (STACKED[0], 0.01)))
    events = list(Training(problem, runs).events())
    told = [event for event in events if isinstance(event, Evaluated)]
    assert [event.k for event in told] == [0, 5, 10]
    assert isinstance(events[-1], Finished)
    for event in told:
        expected = [series(events[-1].chunk, run, "loss")[event.k] for run in runs]
        assert event.values["loss"].tolist() == expected
    assert not any(isinstance(event, Saved | Stopped | Progressed) for event in events)


def test_a_chunk_tells_where_its_rows_come_from() -> None:
    problem = logistic()
    about = finished(Training(problem, (run_on(problem, STACKED[0]),))).about
    assert about["versions"]["torch"] == torch.__version__
    assert about["wall_seconds"] > 0
    assert about["cpu_seconds"] > 0
    assert {"commit", "machine", "device", "time"} <= about.keys()


# --- divergence ------------------------------------------------------------------------------------------------------


def quadratic(curvature: float = 1.0, stack_width: int = 4) -> Problem:
    """curvature/2 x^2 from 1: gradient descent multiplies x by 1 - lr curvature."""

    def model() -> nn.Module:
        made = nn.Linear(1, 1, bias=False)
        nn.init.ones_(made.weight)
        return made

    data = torch.ones(4, 1), torch.zeros(4)
    half_squares = lambda outputs, targets: curvature / 2 * (outputs[:, 0] - targets).square().mean()  # noqa: E731
    return Problem("quadratic", data, model, half_squares, stack_width=stack_width)


@pytest.mark.parametrize("width", [1, 2])
def test_divergence_is_recorded_at_the_evaluation_that_saw_it(width: int) -> None:
    # x_k = (-99)^k: x^2/2 is beyond single precision from k = 10 on (99^20 = 8e39 > 3.4e38 > 99^18 = 8e35).
    problem = quadratic()
    at = tuple(range(0, 31, 2))
    runs = tuple(
        run_on(problem, ("SGD", {}), lr=lr, batch_size=2, steps=30, evaluate_at=at) for lr in (100.0, 0.5)[:width]
    )
    chunk = finished(Training(problem, runs))
    assert chunk.diverged == {runs[0].digest: 10}
    assert series(chunk, runs[0], "loss") == pytest.approx({k: 99.0 ** (2 * k) / 2 for k in range(0, 10, 2)}, rel=1e-5)
    if width > 1:
        assert series(chunk, runs[1], "loss") == pytest.approx({k: 0.25**k / 2 for k in at}, rel=1e-5)


def test_a_run_that_diverges_between_evaluations_is_seen_every_hundred_steps() -> None:
    problem = quadratic()
    run = run_on(problem, ("SGD", {}), lr=100.0, batch_size=2, steps=1000, evaluate_at=(0, 1000))
    chunk = finished(Training(problem, (run,)))
    assert chunk.diverged == {run.digest: 100}
    assert series(chunk, run, "loss") == {0: 0.5}


def test_training_ends_when_all_runs_have_diverged() -> None:
    problem = quadratic()
    runs = tuple(
        run_on(problem, ("SGD", {}), lr=lr, batch_size=2, steps=10**9, evaluate_at=(0, 10**9)) for lr in (50, 100)
    )
    chunk = finished(Training(problem, runs))
    assert set(chunk.diverged.values()) == {100}


def test_the_others_of_a_stack_do_not_notice_a_divergence() -> None:
    problem = logistic(torch.float32)
    tame = [run_on(problem, method, seed=i) for i, method in enumerate(STACKED[4:22:3])]
    wild = [replace(tame[0], lr=1e30), replace(tame[4], lr=1e38)]
    for i, other in enumerate(wild):
        chunks = []
        for extra in (other, replace(other, lr=0.01)):
            runs = [*tame[:3], extra, *tame[3:]]
            chunks.append(finished(Training(problem, tuple(runs))))
        assert chunks[0].diverged, i
        assert other.digest in chunks[0].diverged
        for run in tame:
            assert series(chunks[0], run, "loss") == series(chunks[1], run, "loss")  # bit by bit


# --- checkpoints -----------------------------------------------------------------------------------------------------


def noisy(dtype: torch.dtype = torch.float32) -> Problem:
    """A network with dropout, which draws from torch's global generator, and with a matrix for Adafactor."""
    generator = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(16, 4, generator=generator), torch.randn(16, 1, generator=generator)
    model = lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Dropout(0.5), nn.Linear(3, 1))  # noqa: E731
    return Problem("noisy", (inputs.to(dtype), targets.to(dtype)), model, nn.functional.mse_loss, dtype=dtype)


def interrupted(problem: Problem, runs: tuple[Run, ...], stops: Sequence[int]) -> Chunk:
    """A run group stopped after each of these steps and resumed from the checkpoint's bytes, elsewhere."""
    checkpoint = None
    for stop in sorted(set(stops)):
        training = Training(problem, runs, checkpoint)
        *_, saved, stopped = training.events(stop=lambda stop=stop, training=training: training.k >= stop)
        assert isinstance(saved, Saved)
        assert isinstance(stopped, Stopped)
        assert saved.k == stopped.k == stop
        checkpoint = Checkpoint.from_bytes(saved.checkpoint)
        assert (checkpoint.runs, checkpoint.k) == (runs, stop)
        torch.manual_seed(random.getrandbits(30))  # another process has another state
    return finished(Training(problem, runs, checkpoint))


def identical(mine: Chunk, other: Chunk) -> bool:
    return mine.diverged == other.diverged and all(
        np.array_equal(column, other.columns[name]) for name, column in mine.columns.items()
    )


EVERY = tuple(range(0, 13, 2))
stops = st.lists(st.integers(1, 12), min_size=1, max_size=3)


@functools.cache
def undisturbed_alone(method: str, dtype: torch.dtype) -> tuple[Problem, Run, Chunk]:
    problem = noisy(dtype)
    (chosen,) = (each for each in [*LONE, *STACKED] if spelled(each) == method)
    run = run_on(problem, chosen, steps=12, evaluate_at=EVERY, metrics=("loss", "step_norm"))
    return problem, run, finished(Training(problem, (run,)))


ODD = [spelled(method) for method in (*LONE, ("HeavyBall", {}), ("MemAdam", {}), ("ADana", {}), ("AdamW", {}))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", ODD)
def test_a_run_alone_goes_on_from_any_step_as_if_nothing_had_happened(method: str, dtype: torch.dtype) -> None:
    problem, run, chunk = undisturbed_alone(method, dtype)
    places = random.Random(method + str(dtype)).sample(range(1, 13), 3)  # other ones for every method, always the same
    assert identical(interrupted(problem, (run,), places), chunk)
    assert len(chunk.value) == 2 * len(EVERY) - 1


@functools.cache
def undisturbed_stack() -> tuple[Problem, tuple[Run, ...], Chunk]:
    problem = logistic(torch.float32)
    runs = [run_on(problem, method, seed=i % 3, steps=12, evaluate_at=EVERY) for i, method in enumerate(STACKED[::-1])]
    runs.append(replace(runs[5], lr=1e38))  # diverges
    return problem, tuple(runs), finished(Training(problem, tuple(runs)))


@settings(deadline=None, max_examples=15)
@given(stops)
def test_a_stack_goes_on_from_any_step_as_if_nothing_had_happened(places: list[int]) -> None:
    problem, runs, chunk = undisturbed_stack()
    assert chunk.diverged
    assert identical(interrupted(problem, runs, places), chunk)


class CountsInItsGroup(torch.optim.SGD):
    """An optimizer that keeps a counter in its parameter group, as schedule-free ones do."""

    def step(self, closure: Any = None) -> Any:
        group = self.param_groups[0]
        group["count"] = group.get("count", 0) + 1
        group["lr"] /= 1 + 0.1 * group["count"]
        return super().step(closure)


def test_an_optimizer_that_keeps_numbers_in_its_group_goes_on_with_them() -> None:
    problem = noisy()
    run = run_on(problem, (f"{__name__}:CountsInItsGroup", {}), steps=12, evaluate_at=EVERY)
    assert identical(interrupted(problem, (run,), [5, 9]), finished(Training(problem, (run,))))


def test_checkpoints_come_as_often_as_asked_for_and_change_nothing() -> None:
    problem, runs, chunk = undisturbed_stack()
    events = list(Training(problem, runs).events(save_every=0.0))
    saved = [event for event in events if isinstance(event, Saved)]
    assert len(saved) > 6  # every step, but where the clock did not move
    assert [event.k for event in saved] == sorted({event.k for event in saved})
    last = events[-1]
    assert isinstance(last, Finished)
    assert identical(last.chunk, chunk)


def test_checkpoints_and_reports_come_when_their_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that moves by a second per step."""
    clock = itertools.count()
    stopped = {"perf_counter": lambda: 0.0, "process_time": lambda: 0.0}
    monkeypatch.setattr(train_module, "time", SimpleNamespace(monotonic=lambda: float(next(clock)), **stopped))
    monkeypatch.setattr(train_module, "REPORT_EVERY", 4.0)
    problem = noisy()
    events = list(Training(problem, (run_on(problem, ("SGD", {}), steps=12),)).events(save_every=2.0))
    assert [event.k for event in events if isinstance(event, Saved)] == [3, 6, 9, 12]
    assert [event.k for event in events if isinstance(event, Progressed)] == [5, 10]
    assert [event.k for event in events if isinstance(event, Evaluated)] == [0, 6, 12]


def test_time_spent_before_a_checkpoint_is_counted() -> None:
    problem, runs, _ = undisturbed_stack()
    data = Training(problem, runs).save()
    before = replace(Checkpoint.from_bytes(data), wall=1000.0, cpu=500.0)
    about = finished(Training(problem, runs, before)).about
    assert 1000 < about["wall_seconds"] < 1100
    assert 500 < about["cpu_seconds"] < 600


@functools.cache
def some_checkpoint() -> bytes:
    problem = noisy()
    training = Training(problem, (run_on(problem, ("NAdam", {})),))
    training.evaluate()
    training.step()
    return training.save()


def test_checkpoints_hold_arrays_and_json_and_no_pickle() -> None:
    data = some_checkpoint()
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        assert all(archive[name].dtype in (np.uint8, np.float64) for name in archive.files)
    with pytest.raises((ValueError, IndexError)):
        pickletools.dis(data, out=io.StringIO())


@pytest.mark.parametrize(
    "data",
    [b"", b"garbage", b"PK\x03\x04" + b"\0" * 100, b"\x93NUMPY\x01\x00v\x00" + b"{" * 118, b"\x80\x04N."],
    ids=["empty", "garbage", "zip", "npy", "pickle"],
)
def test_what_is_no_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a checkpoint"):
        Checkpoint.from_bytes(data)


def test_a_checkpoint_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrad.experiments.training.checkpoint.NUMERICS", NUMERICS + 1)
    data = some_checkpoint.__wrapped__()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="not a checkpoint: it is from another version of memgrad"):
        Checkpoint.from_bytes(data)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_damaged_checkpoint_is_refused_or_whole(data: st.DataObject) -> None:
    whole = bytearray(some_checkpoint())
    if data.draw(st.booleans()):
        damaged = bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    else:
        for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
            whole[place] ^= data.draw(st.integers(1, 255))
        damaged = bytes(whole)
    try:
        checkpoint = Checkpoint.from_bytes(damaged)
    except ValueError:
        return
    assert checkpoint.k == 1  # the damage was where nothing is written, such as the time of a file
    assert all(math.isfinite(float(p.double().sum())) for p in checkpoint.state.values() if isinstance(p, Tensor))


def test_the_gradient_of_an_average_is_evaluated_on_the_examples_asked_for() -> None:
    evaluate = {"times": 3, "gradient_examples": 20, "loss_examples": 30}
    few, both = (
        trained_here(small_spec(SGD, metrics=metrics, evaluate=evaluate, seeds=1))
        for metrics in (["loss", "gradient_norm@poly:8"], ["loss", "gradient_norm", "gradient_norm@poly:8"])
    )
    series = [each.curve("A", "gradient_norm@poly:8").values.tolist() for each in (few, both)]
    assert series[0] == series[1]
    metrics = ["test_loss", "gradient_norm@poly:8"]
    alone = small_spec(SGD, metrics=metrics, select={"metric": "test_loss"}, evaluate=evaluate)
    facts = facts_about(alone.problem_choice, alone.problem_choice.load())
    assert {run.loss_examples for *_, run in settings_in(expand(alone, facts, {}))} == {None}  # nothing needs them
