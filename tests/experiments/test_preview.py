"""What a step and the evaluations cost, measured by a simulated clock."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import printed
from tiny_runs import run_of

from memgrad.experiments.planning import preview


class Clock:
    """Time that passes only where it is spent."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


def test_the_cost_is_that_of_one_step_and_of_all_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, steps, evaluated = Clock(), [], []

    class Training:
        nbytes = 1000

        def __init__(self, *_: Any) -> None:
            pass

        def step(self) -> None:
            steps.append(100.0 if not steps else 2.0)  # the first one makes buffers, and does not count
            clock.now += steps[-1]

        def evaluate(self, metrics: tuple[str, ...]) -> None:
            clock.now += 0.5 if evaluated else 30.0  # the first one imports what it needs, and does not count
            evaluated.append(metrics)

    monkeypatch.setattr(preview, "Training", Training)
    monkeypatch.setattr(preview, "time", clock)
    monkeypatch.setattr(preview, "SECONDS", 5.0)
    group: Any = SimpleNamespace(runs=(run_of(),))
    cost = preview._measured(None, group)  # type: ignore[arg-type]
    assert steps == [100.0, 2.0, 2.0, 2.0]  # until five seconds have passed
    assert cost.step == 2.0
    assert evaluated == [("loss", "accuracy")] * 2  # for the four evaluations of the run
    assert cost.evaluations == 4 * 0.5
    assert cost.nbytes == preview.COPIES * 1000


SHORT = """
problem = "least-squares"
steps = {steps}
seeds = 1
schedule = "linear"
[[methods]]
optimizer = "RMSprop"
lr = 0.01
"""


@pytest.mark.parametrize("steps", [1, 3])
def test_a_plan_may_take_longer_than_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr("memgrad.experiments.planning.preview.SECONDS", 0.05)
    (tmp_path / "short.toml").write_text(SHORT.format(steps=steps))
    said = printed("plan", str(tmp_path / "short.toml"), "--store", str(tmp_path / "store"))
    assert "Left: 1 of 1 run, in 1 group." in said
