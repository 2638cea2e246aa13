"""A run: one method, step size and seed on a problem, and the digest that identifies its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.deprecation import renamed
from memgrad.experiments.digests import digest_of_data
from memgrad.experiments.planning.recipe import Recipe
from memgrad.method import Schedule

NUMERICS = 1
"""Raised when training changes the numbers of runs; older rows then no longer count as theirs."""

AT = "@"
"""Separates a metric from the memory of an average of iterates: `loss@poly:8` is the loss of the average by poly:8."""


def average_in(metric: str) -> str | None:
    """The memory of the average of iterates that a metric asks for; None for a metric of the iterate itself.

    Example:
        >>> average_in("loss@poly:8"), average_in("loss")
        ('poly:8', None)
    """
    _, at, memory = metric.partition(AT)
    return memory if at else None


@final
@dataclass(frozen=True)
class Run:
    """Everything that determines the numbers of a run, and nothing else.

    Attributes:
        problem: The name of the problem.
        fingerprint: The digest of its data, model and loss.
        examples: How many training examples it has.
        dtype: The precision, or None for the problem's own.
        batch_size: The size of a minibatch, or None for the full batch.
        steps: The number of steps.
        evaluate_at: The numbers of steps after which metrics are evaluated.
        metrics: The names of the metrics.
        recipe: The optimizer.
        lr: The step size.
        seed: Determines the initial parameters and the minibatch order, the same for every method.
        seldom: The metrics that are evaluated at only some of these steps, with those steps.
        gradient_examples: The number of training examples over which the norm of the gradient is taken; None for all.
        loss_examples: The number of training examples over which the loss and the other metrics of the training set
            are taken; None for all.
        schedule: The schedule of the learning rate in text form, whose peak is `lr`; None if it is constant.
        clip: Gradients are scaled down to this norm, over all parameters, where theirs is larger; None for no clipping.
    """

    problem: str
    fingerprint: str
    examples: int
    dtype: str | None
    batch_size: int | None
    steps: int
    evaluate_at: tuple[int, ...]
    metrics: tuple[str, ...]
    recipe: Recipe
    lr: float
    seed: int
    seldom: tuple[tuple[str, tuple[int, ...]], ...] = ()
    gradient_examples: int | None = None
    loss_examples: int | None = None
    schedule: str | None = None
    clip: float | None = None

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that identify this run's numbers."""
        return digest_of_data({"numerics": NUMERICS, **self.to_dict()})

    @cached_property
    def factors(self) -> NDArray[np.float64] | None:
        """The factors of the step size at all steps; None if it is constant."""
        return None if self.schedule is None else Schedule.parse(self.schedule).factors(self.steps)

    def evaluated_at(self, metric: str) -> tuple[int, ...]:
        """The numbers of steps after which a metric is evaluated."""
        return dict(self.seldom).get(metric, self.evaluate_at)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON. Newer attributes are left out at their defaults, so that older digests stay valid."""
        unusual: dict[str, Any] = {}
        if self.seldom:
            unusual["seldom"] = {metric: list(steps) for metric, steps in self.seldom}
        for name in ("gradient_examples", "loss_examples", "schedule", "clip"):
            if getattr(self, name) is not None:
                unusual[name] = getattr(self, name)
        return {
            "problem": self.problem,
            "fingerprint": self.fingerprint,
            "examples": self.examples,
            "dtype": self.dtype,
            "batch": self.batch_size,
            "steps": self.steps,
            "evaluate_at": list(self.evaluate_at),
            "metrics": list(self.metrics),
            **self.recipe.to_dict(),
            "lr": self.lr,
            "seed": self.seed,
            **unusual,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Run:
        """The inverse of `to_dict`."""
        rest = {name: value for name, value in data.items() if name not in ("optimizer", "options", "code", "batch")}
        lists = {name: tuple(rest[name]) for name in ("evaluate_at", "metrics")}
        lists["seldom"] = tuple((metric, tuple(steps)) for metric, steps in rest.get("seldom", {}).items())
        return cls(**{**rest, **lists}, batch_size=data["batch"], recipe=Recipe.from_dict(data))

    as_dict = renamed("as_dict", "to_dict")
    batch = renamed("batch", "batch_size")

    def __str__(self) -> str:
        return f"{self.problem}, {self.recipe.optimizer}, lr {self.lr:g}, seed {self.seed}"
