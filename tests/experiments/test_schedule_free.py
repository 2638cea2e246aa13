"""Schedule-Free AdamW beside its recursion written by hand, and in the engine, which judges its average."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.training.checkpoint import Checkpoint
from memgrad.experiments.training.schedule_free import ScheduleFreeAdamW
from memgrad.experiments.training.train import Training
from memgrad.problems import get

NAME = "memgrad.experiments.training.schedule_free:ScheduleFreeAdamW"
STEPS = 30


def run_of(beta: float, *, metrics: tuple[str, ...] = ("loss",), schedule: str | None = None) -> Run:
    recipe = Recipe.of(NAME, betas=(beta, 0.99))
    at = tuple(range(0, STEPS + 1, 10))
    return Run("logistic", "f", 1000, None, 8, STEPS, at, metrics, recipe, 0.05, 0, schedule=schedule, clip=1.0)


def trained(run: Run, until: int = STEPS, checkpoint: bytes | None = None) -> Training:
    problem = get("logistic", dtype=torch.float64)
    training = Training(problem, (run,), None if checkpoint is None else Checkpoint.from_bytes(checkpoint))
    while training.k < until:
        training.step()
    return training


def test_its_steps_are_those_of_the_recursion_by_hand() -> None:
    lr, beta1, beta2, eps, decay, warmup = 0.1, 0.9, 0.99, 1e-8, 0.05, 4
    curvature = np.array([1.0, 0.3, 3.0])
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    optimizer = ScheduleFreeAdamW([p], lr=lr, betas=(beta1, beta2), weight_decay=decay)
    z = x = p.detach().numpy().copy()
    v, squares = np.zeros(3), []
    for k in range(40):
        eta = lr * min((k + 1) / warmup, 1)
        y = (1 - beta1) * z + beta1 * x
        np.testing.assert_allclose(p.detach().numpy(), y, rtol=1e-12, atol=1e-13)
        g = curvature * y + np.cos(k + np.arange(3.0))
        v = beta2 * v + (1 - beta2) * g**2
        z = z - eta * (g / (np.sqrt(v / (1 - beta2 ** (k + 1))) + eps) + decay * y)
        squares.append(eta**2)
        c = squares[-1] / sum(squares)
        x = (1 - c) * x + c * z
        p.grad = torch.tensor(g)
        optimizer.param_groups[0]["lr"] = eta
        optimizer.step()
    optimizer.eval()
    np.testing.assert_allclose(p.detach().numpy(), x, rtol=1e-12)
    optimizer.train()
    np.testing.assert_allclose(p.detach().numpy(), (1 - beta1) * z + beta1 * x, rtol=1e-12)


@pytest.mark.parametrize("beta", [0.9, 0.75])
def test_the_engine_judges_the_average_which_is_polynomial_memory_of_where_gradients_are_taken(beta: float) -> None:
    # x = (1-c) x + c z with c = 1/(k+1) and y = (1-beta) z + beta x give x = b x + (1-b) y, b = k/(k + 1/(1-beta)).
    average = f"loss@poly:{1 / (1 - beta):g}"
    values = trained(run_of(beta, metrics=("loss", average))).evaluate().values
    assert values["loss"][0] == pytest.approx(values[average][0], rel=1e-12)


def test_evaluations_and_checkpoints_leave_its_steps_as_they_are() -> None:
    run = run_of(0.9, schedule="constant(warmup=0.2)")
    straight = trained(run)
    looked_at = trained(run, 7)
    looked_at.evaluate()
    resumed = trained(run, STEPS, looked_at.save())
    seldom = trained(replace(run, evaluate_at=(0, STEPS)))
    for other in (resumed, seldom):
        assert straight.evaluate(["loss"]).values["loss"][0] == other.evaluate(["loss"]).values["loss"][0]
        for mine, theirs in zip(straight._program.parameters.values(), other._program.parameters.values(), strict=True):
            assert torch.equal(mine, theirs)


class OneWay(torch.optim.SGD):
    """An optimizer with modes that does not find back to where it was, and refuses steps in the mode `eval`."""

    training = False

    def train(self) -> None:
        self.training = True

    def eval(self) -> None:
        self.training = False
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                p.mul_(0.1)

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        if not self.training:
            raise RuntimeError("not in train mode")
        super().step()


def test_an_optimizer_with_modes_steps_in_one_and_is_judged_in_the_other() -> None:
    run = replace(run_of(0.9), recipe=Recipe.of(f"{__name__}:OneWay"))
    training = trained(run)
    before = {name: p.clone() for name, p in training._program.parameters.items()}
    value = training.evaluate().values["loss"][0]
    after = training._program.parameters
    assert all(torch.equal(before[name], after[name]) for name in before)
    problem = get("logistic", dtype=torch.float64)
    expected = problem.evaluate({name: 0.1 * p[0] for name, p in before.items()}, metrics=["loss"])["loss"]
    assert value == pytest.approx(expected, rel=1e-12)
    training.step()


def test_betas_outside_of_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs betas in \[0, 1\), got betas=\(1.0, 0.9\)"):
        ScheduleFreeAdamW([torch.nn.Parameter(torch.zeros(1))], betas=(1.0, 0.9))
