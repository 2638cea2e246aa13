"""The examples run as users run them, learn, and continue from their checkpoints; with the trainers that are extras."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(example: str, *arguments: str | Path) -> str:
    """What an example prints. It finds this tree's memgrad, and no hub."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        # One thread: tiny models are slower on more, and much slower beside other work.
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(printed: str) -> list[tuple[float, float]]:
    """The pairs `loss <first> -> <last>`, in the order in which they were printed."""
    return [(float(first), float(last)) for first, last in re.findall(r"loss (\S+) -> (\S+)", printed)]


@pytest.mark.slow
def test_one_line_is_swapped_and_the_model_learns() -> None:
    printed = run("train_a_model.py")
    assert [line.split()[0] for line in printed.splitlines()] == ["SGD", "MemSGD", "MemAdam"]
    sgd, mem_sgd, mem_adam = losses(printed)
    for first, last in (sgd, mem_sgd, mem_adam):
        assert last < 0.2 * first
    # The noise that nothing can learn has a square of 0.01; the three end within 20 % of each other.
    assert max(mem_sgd[1], mem_adam[1]) < 1.2 * sgd[1]


class Trained(NamedTuple):
    """An example with a trainer: how to read what it saved."""

    example: str
    packages: tuple[str, ...]
    half_way: str  # its checkpoint half way, in the folder that it was given
    end: str
    steps: int
    buffers: tuple[str, ...]
    optimizer_state: Callable[[Path], dict[str, Any]]


def read(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)  # type: ignore[no-any-return]


TRAINERS = [
    Trained(
        "train_with_lightning.py",
        ("lightning",),
        "epoch=1.ckpt",
        "epoch=3.ckpt",
        128,
        ("average",),
        lambda path: read(path)["optimizer_states"][0],
    ),
    Trained(
        "train_with_transformers.py",
        ("transformers", "accelerate"),
        "checkpoint-30",
        "checkpoint-60",
        60,
        ("average", "square_average"),
        lambda path: read(path / "optimizer.pt"),
    ),
    Trained(
        "train_with_accelerate.py",
        ("accelerate",),
        "epoch3",
        "epoch6",
        192,
        ("average",),
        lambda path: read(path / "optimizer.bin"),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("trained", TRAINERS, ids=lambda trained: trained.example)
def test_a_trainer_learns_and_its_checkpoint_continues_bit_for_bit(trained: Trained, tmp_path: Path) -> None:
    for package in trained.packages:
        pytest.importorskip(package, reason=f"{trained.example} needs {package}, an extra that is not installed")
    for first, last in losses(run(trained.example, "--folder", tmp_path / "run")):
        assert last < 0.7 * first
    half_way = tmp_path / "run" / trained.half_way
    run(trained.example, "--folder", tmp_path / "resumed", "--resume", half_way)

    before = trained.optimizer_state(half_way)
    straight, resumed = (trained.optimizer_state(tmp_path / name / trained.end) for name in ("run", "resumed"))
    assert resumed["param_groups"] == straight["param_groups"]
    assert resumed["state"].keys() == straight["state"].keys() == before["state"].keys()
    assert before["state"]
    for number, state in straight["state"].items():
        assert before["state"][number]["step"] == trained.steps // 2
        assert resumed["state"][number]["step"] == state["step"] == trained.steps
        assert state.keys() == {"step", *trained.buffers}
        for name in trained.buffers:
            assert not torch.equal(before["state"][number][name], state[name])
            assert torch.equal(resumed["state"][number][name], state[name])


@pytest.mark.slow
def test_the_laboratory_s_example_agrees_with_itself(tmp_path: Path) -> None:
    printed = run("understand_a_memory.py", "--paths", "200", "--until", "100", "--figure", tmp_path / "memory.png")
    found = re.findall(r"E f = (\S+) \+- (\S+), exactly (\S+)\n", printed)
    assert len(found) == 2
    for mean, error, exact in found:
        # Two standard errors are printed, rounded to one digit; four, and O(dt), are allowed.
        assert abs(float(mean) - float(exact)) < 3 * float(error) + 0.02 * float(exact)
    bound = re.search(r"E f <= (\S+) ", printed)
    assert bound is not None
    assert float(found[0][2]) <= float(bound[1])
    assert (tmp_path / "memory.png").stat().st_size > 10_000
