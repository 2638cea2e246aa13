"""Tunings of methods whose losses are known."""

from __future__ import annotations

import math
import random
from typing import Any

from memgrad.experiments import Candidate, Tuner


def tuned(train: Any, *candidates: Candidate) -> Tuner:
    tuner = Tuner(candidates)
    while trial := tuner.ask():
        tuner.tell(trial, train(trial))
    return tuner


def noisy(trial: Any, losses: dict[str, float], spread: float = 0.01) -> float:
    noise = random.Random(f"{trial.name} {trial.seed}").gauss(0, spread)
    return losses[trial.name] * math.exp(noise + math.log10(trial.lr / 0.003) ** 2)
