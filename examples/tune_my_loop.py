"""Which memory for my own training loop? Ask and tell: the tuner says what to train, and takes the losses.

    python examples/tune_my_loop.py                      # a minute
    python examples/tune_my_loop.py --file tuning.json   # stop it any time; the same command continues

Nothing here has to be a memgrad `Problem`: replace `train` by your own loop. Let the seed decide the initial parameters
and the minibatches, so that methods are compared in pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from my_problem import spirals
from torch import nn

from memgrad import MemAdam, MemSGD
from memgrad.experiments import Candidate, Rules, Tuner

STEPS, EVERY = 200, 20
PROBLEM = f"two spirals, {STEPS} steps"  # a file about another problem is refused
RULES = Rules(most=6, refine=3, fresh=5)

CANDIDATES = [
    Candidate("AdamW", lr=3e-3, baseline=True),
    Candidate("MemSGD poly:32", lr=0.3, options={"memory": "poly:32"}),
    Candidate(
        "MemAdam poly:8",
        like="AdamW",
        # Torch's AdamW decays weights by 0.01 unless told otherwise, and MemAdam by 0.
        options={"memory": "poly:8", "second_memory": "poly:8", "weight_decay": 0.01},
    ),
]
CLASSES = {"AdamW": torch.optim.AdamW, "MemSGD": MemSGD, "MemAdam": MemAdam}


def train(name: str, lr: float, seed: int, options: Mapping[str, Any]) -> list[float]:
    """The loss over all examples at the start and after every few steps."""
    torch.manual_seed(seed)
    inputs, targets = spirals()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = CLASSES[name.split(maxsplit=1)[0]](model.parameters(), lr=lr, **options)
    losses = []
    for k in range(STEPS + 1):
        if k % EVERY == 0:
            with torch.no_grad():
                losses.append(nn.functional.cross_entropy(model(inputs), targets).item())
        chosen = torch.randint(len(inputs), (50,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        optimizer.step()
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help="file that stores the results, to continue later")
    parser.add_argument("--runs", type=int, help="maximum number of runs")
    options = parser.parse_args()

    tuner = Tuner(CANDIDATES, rules=RULES, runs=options.runs, file=options.file, problem=PROBLEM)
    while trial := tuner.ask():
        losses = train(trial.name, trial.lr, trial.seed, trial.options)
        tuner.tell(trial, losses, steps=range(0, STEPS + 1, EVERY))
        print(f"{trial.stage}: {trial}: final loss {losses[-1]:.4g}")
    answer = tuner.answer()
    print(f"{answer.verdict}\n{answer.runs} runs; {answer.reason}.")


if __name__ == "__main__":
    main()
