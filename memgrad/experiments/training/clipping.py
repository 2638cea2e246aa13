"""Gradient clipping by the norm over all parameters, for stacks of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from memgrad.experiments.planning.runs import Run
from memgrad.problems.passes import squared_norm

SMALL = 1e-6
"""Added to the norm, as `torch.nn.utils.clip_grad_norm_` does, which runs alone use."""


def clip_of(runs: Sequence[Run], like: Tensor) -> Tensor | None:
    """The largest norm of each run's gradient, infinite where it is not clipped; None if no run is clipped."""
    if all(run.clip is None for run in runs):
        return None
    return like.new_tensor([math.inf if run.clip is None else run.clip for run in runs])


def clipped(gradients: Mapping[str, Tensor], clip: Tensor) -> None:
    r"""Multiply the gradients of each run, in place, by $\min(1, c / (|g| + 10^{-6}))$.

    Example:
        >>> import torch
        >>> g = {"a": torch.tensor([[3.0], [0.3]]), "b": torch.tensor([[4.0], [0.4]])}  # norms 5 and 0.5
        >>> clipped(g, torch.tensor([1.0, 1.0]))
        >>> g["b"].flatten()
        tensor([0.8000, 0.4000])
    """
    norms = squared_norm(gradients, (len(clip),)).sqrt()
    factors = (clip / (norms + SMALL)).clamp_(max=1.0)
    for g in gradients.values():
        g.mul_(factors.view(-1, *(1,) * (g.ndim - 1)))
