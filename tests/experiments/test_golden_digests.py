"""Stored digests, written down: a run that is in someone's store must be found there by every later version."""

from __future__ import annotations

from pathlib import Path

import pytest

from memgrad.experiments.planning.plan import expand, runs_in
from memgrad.experiments.planning.problem_choice import facts_about
from memgrad.experiments.planning.spec import Spec

OWN = '''
import torch
from memgrad.problems import Problem

class Model(torch.nn.Module):
    """One number, which starts at 0: nothing depends on torch's generator."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(1))

    def forward(self, inputs):
        return inputs * self.w

def problem():
    inputs = torch.arange(12.0).reshape(12, 1)
    return Problem("own", (inputs, 2 * inputs), Model, torch.nn.functional.mse_loss, batch_size=3, l2=0.5)
'''
SPECS = {
    "defaults": 'problem = "logistic"\nsteps = 10\nseeds = 1\n[[methods]]\noptimizer = "SGD"\nlr = 0.1\n',
    "a share, a precision and a full batch": """
problem = "least-squares"
examples = 100
dtype = "float64"
batch = "full"
steps = 100
seeds = [7]
[[methods]]
optimizer = "HeavyBall"
viscosity = 3
lr = 1
""",
    "a sample, minibatches and metrics": """
problem = "covtype-softmax"
sample = true
epochs = 1
batch = 32
seeds = 2
metrics = ["loss", "gradient_norm", "step_norm"]
evaluate.times = { loss = 3, gradient_norm = 2, step_norm = 5 }
evaluate.gradient_examples = 50
[[methods]]
optimizer = "MemSGD"
memory = "p=2"
lr = 0.5
""",
    "Adam and its kind": """
problem = "logistic"
steps = 20
seeds = 1
evaluate.times = 4
evaluate.spacing = "log"
[[methods]]
optimizer = "AdamW"
betas = [0.8, 0.99]
lr = 0.01
[[methods]]
optimizer = "MemAdam"
lr = 0.01
[[methods]]
optimizer = "PolyAdam"
p = 3
lr = 0.01
[[methods]]
optimizer = "ADana"
omega = 4.0
through_lr = true
lr = 0.01
[[methods]]
optimizer = "torch.optim:RMSprop"
lr = 0.01
""",
    "a problem of the user's own": 'problem = "own.py:problem"\nsteps = 5\nseeds = 1\n[[methods]]\n'
    'optimizer = "Nesterov"\nlr = 0.1\n',
}
# Written by the version before optimizers and memories could be files. Never change one: rows would be orphaned.
DIGESTS: dict[str, tuple[str, ...]] = {
    "defaults": ("2ffb08ffdff54a2b8ac872421fb41e6f",),
    "a share, a precision and a full batch": ("d7b9dc334523751c92f894d4e01caeb6",),
    "a sample, minibatches and metrics": (
        "e05544e853a89abfdf9f223508f06ab5",
        "8b410ca4398df4d56107ad9b6837178a",
    ),
    "Adam and its kind": (
        "a55c33580436c6e3380dfd9772f7186a",
        "76be4f1877a15cbfaa9d7c2c042f09ca",
        "b00d3cd75640df8677d4e30aa65467bc",
        "0818818065c94166878db0f89acb07cb",
        "99081674f756670cb59de19fc280f348",
    ),
    "a problem of the user's own": ("6c6bd2ac40ce93f7b99684ee924719cc",),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_digest_never_changes(name: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "spec.toml").write_text(SPECS[name])
    spec = Spec.load(tmp_path / "spec.toml")
    runs = runs_in(expand(spec, facts_about(spec.problem_choice, spec.problem_choice.load()), {}))
    assert tuple(run.digest for run in runs) == DIGESTS[name]
