"""The example for JAX runs as users run it, and learns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="the example needs jax, an extra that is not installed")
pytest.importorskip("optax", reason="the example needs optax, an extra that is not installed")

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_network_learns_with_each_optimizer_and_in_each_degree() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "train_with_optax.py", "--degrees", "1", "4", "20"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(.+?) +loss (\S+) -> (\S+)$", done.stdout, re.MULTILINE)
    losses = {name: (float(first), float(last)) for name, first, last in lines}
    assert list(losses) == ["SGD", "MemSGD", "MemAdam", "MemSGD, p = 1", "MemSGD, p = 4", "MemSGD, p = 20"]
    for first, last in losses.values():
        assert last < 0.5 * first
    # The same training by itself and in one program with others: 1000 steps in float32, added up in another order.
    assert losses["MemSGD, p = 20"] == pytest.approx(losses["MemSGD"], rel=0.05)
