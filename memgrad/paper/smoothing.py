"""The paper's synthetic experiment in discrete time: the effect of memory on the path of a stochastic method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memgrad.kinds import Array
from memgrad.memory import Memory
from memgrad.memory.passport import Progress
from memgrad.paper.settings import SmoothingSettings
from memgrad.problems.objectives import Quartic
from memgrad.tables import Columns

FINAL_SHARE = 0.05
"""The share of the steps, at the end, whose mean loss is the final one."""


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Runs of several methods with the same noise; K steps, n runs, d coordinates.

    Attributes:
        settings: The settings.
        mean_x: Mean path of each memory, shape (memories, K + 1, d).
        error_x: Its standard error.
        mean_loss: Mean loss, shape (memories, K + 1).
        error_loss: Its standard error.
        first_x: The path of the first run, shape (memories, K + 1, d).
        roughness: Mean squared second difference of each run's path, shape (memories, n).
        final_loss: Mean loss of the last 5 % of each run's steps, shape (memories, n).
        tail_loss: Mean loss of the last half of them.
    """

    settings: SmoothingSettings
    mean_x: Array
    error_x: Array
    mean_loss: Array
    error_loss: Array
    first_x: Array
    roughness: Array
    final_loss: Array
    tail_loss: Array

    def columns(self) -> Columns:
        """The numbers behind the figure, as one table."""
        table: dict[str, NDArray[np.generic]] = {"k": np.arange(self.mean_loss.shape[1])}
        for i, name in enumerate(self.settings.memories):
            table |= {f"{name}_mean_loss": self.mean_loss[i], f"{name}_mean_loss_se": self.error_loss[i]}
            for j in range(self.mean_x.shape[2]):
                table |= {
                    f"{name}_mean_x{j + 1}": self.mean_x[i, :, j],
                    f"{name}_mean_x{j + 1}_se": self.error_x[i, :, j],
                    f"{name}_first_run_x{j + 1}": self.first_x[i, :, j],
                }
        return table


def p_verification(settings: SmoothingSettings, *, progress: Progress | None = None) -> Smoothing:
    r"""Run Fig. p_verification: $u_k = b_k u_{k-1} + (1-b_k) g_k$, $x_{k+1} = x_k - \eta u_k$ for each memory.

    Run number i of every memory gets the same noise, so that differences between memories are not due to chance.

    Example:
        >>> found = p_verification(SmoothingSettings(steps=100, runs=20))
        >>> bool(np.all(np.diff(found.roughness.mean(axis=1)) > 0))  # linear memory is the smoothest
        True
    """
    memories = [Memory.parse(text) for text in settings.memories]
    objective = Quartic(settings.coefficients)
    rng = np.random.default_rng(settings.seed)
    steps, runs, d = settings.steps, settings.runs, objective.dimension
    x = np.empty((steps + 1, len(memories), runs, d))
    x[0] = settings.x0
    u = np.zeros(x.shape[1:])
    for k in range(steps):
        # One draw for all memories, by broadcasting.
        g = objective.gradient(x[k]) + settings.sigma * rng.standard_normal((runs, d))
        b = np.array([memory.decay(k) for memory in memories])[:, None, None]
        fresh = np.array([memory.fresh(k) for memory in memories])[:, None, None]
        u = b * u + fresh * g
        x[k + 1] = x[k] - settings.lr * u
        if progress is not None and k % 100 == 0:
            progress(k, steps)
    loss = objective.value(x)  # (steps + 1, memories, runs)
    last = max(1, round(FINAL_SHARE * len(loss)))
    root = np.sqrt(runs)
    return Smoothing(
        settings=settings,
        mean_x=np.swapaxes(x.mean(axis=2), 0, 1),
        error_x=np.swapaxes(x.std(axis=2, ddof=1), 0, 1) / root,
        mean_loss=loss.mean(axis=2).T,
        error_loss=loss.std(axis=2, ddof=1).T / root,
        first_x=np.swapaxes(x[:, :, 0], 0, 1),
        roughness=(np.diff(x, n=2, axis=0) ** 2).sum(axis=-1).mean(axis=0),
        final_loss=loss[-last:].mean(axis=0),
        tail_loss=loss[len(loss) // 2 :].mean(axis=0),
    )
