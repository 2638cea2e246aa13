"""A run: one method, one step size, one seed; and the digest that names its numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from memgrad.experiments.recipe import Recipe

NUMERICS = 1
"""Raised when the engine changes so that runs get other numbers; older rows are then no longer taken for theirs."""


@final
@dataclass(frozen=True)
class Run:
    """Everything that decides the numbers of a run, and nothing else.

    Attributes:
        problem: The name of the problem.
        fingerprint: That of its data, model and loss.
        examples: How many training examples it has.
        dtype: The precision, or None for the problem's own.
        batch: The size of a minibatch, or None for the full batch.
        steps: How many steps are taken.
        evaluate_at: The numbers of steps after which metrics are evaluated.
        metrics: Their names.
        recipe: The optimizer.
        lr: The step size.
        seed: It decides the initial parameters and the order of the minibatches, the same for every method.
        seldom: The metrics that are evaluated at some of these steps only, each with its steps.
        gradient_examples: Over how many training examples the norm of the gradient is taken; None for all.
    """

    problem: str
    fingerprint: str
    examples: int
    dtype: str | None
    batch: int | None
    steps: int
    evaluate_at: tuple[int, ...]
    metrics: tuple[str, ...]
    recipe: Recipe
    lr: float
    seed: int
    seldom: tuple[tuple[str, tuple[int, ...]], ...] = ()
    gradient_examples: int | None = None

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that name this run's numbers."""
        text = json.dumps({"numerics": NUMERICS, **self.as_dict()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def evaluated_at(self, metric: str) -> tuple[int, ...]:
        """The numbers of steps after which a metric is evaluated."""
        return dict(self.seldom).get(metric, self.evaluate_at)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON. What is as it usually is is left out, so that digests outlive new attributes."""
        unusual: dict[str, Any] = {}
        if self.seldom:
            unusual["seldom"] = {metric: list(steps) for metric, steps in self.seldom}
        if self.gradient_examples is not None:
            unusual["gradient_examples"] = self.gradient_examples
        return {
            "problem": self.problem,
            "fingerprint": self.fingerprint,
            "examples": self.examples,
            "dtype": self.dtype,
            "batch": self.batch,
            "steps": self.steps,
            "evaluate_at": list(self.evaluate_at),
            "metrics": list(self.metrics),
            **self.recipe.as_dict(),
            "lr": self.lr,
            "seed": self.seed,
            **unusual,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Run:
        """The run that `as_dict` made plain data of."""
        rest = {name: value for name, value in data.items() if name not in ("optimizer", "options")}
        lists = {name: tuple(rest[name]) for name in ("evaluate_at", "metrics")}
        lists["seldom"] = tuple((metric, tuple(steps)) for metric, steps in rest.get("seldom", {}).items())
        return cls(**{**rest, **lists}, recipe=Recipe.from_dict(data))

    def __str__(self) -> str:
        return f"{self.problem}, {self.recipe.optimizer}, lr {self.lr:g}, seed {self.seed}"
