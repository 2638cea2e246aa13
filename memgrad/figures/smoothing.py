"""The figure of what memory does to the path of a stochastic method."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from memgrad.figures.method_styles import styles
from memgrad.figures.style import SMALL, sheet
from memgrad.kinds import Array


def smoothing(
    paths: Mapping[str, Array],
    means: Mapping[str, tuple[Array, Array]],
    losses: Mapping[str, tuple[Array, Array]],
    *,
    caption: str = "",
) -> Figure:
    """One path of each method, mean paths, and mean losses with their intervals.

    Args:
        paths: One run, shape (steps + 1, 2), by label.
        means: Mean path and the half width of its interval, each of shape (steps + 1, 2), by the same labels.
        losses: Mean loss and the half width of its interval, each of shape (steps + 1,).
        caption: The settings.

    Example:
        >>> path, flat = np.ones((4, 2)), np.ones(4)
        >>> len(smoothing({"a": path}, {"a": (path, path)}, {"a": (flat, 0 * flat)}).axes)
        3

    Reference:
        UAI 2019, Fig. p_verification.
    """
    with sheet((7.2, 2.9), caption) as figure:
        one, mean, loss = figure.subplots(1, 3)
        one.set(title="one run, same noise", xlabel="$x_1$", ylabel="$x_2$")
        mean.set(title="mean of $x_1$", xlabel="step $k$", ylabel="$x_1$")
        loss.set(title="mean loss", xlabel="step $k$", ylabel="$f(x_k)$", yscale="log")
        looks = styles(paths)
        # The roughest first, so that the smooth ones stay visible.
        for label in reversed(list(paths)):
            color, steps = looks[label]["color"], np.arange(len(paths[label]))
            one.plot(*paths[label].T, color=color, linewidth=0.8)
            for axes, (center, half) in (
                (mean, (means[label][0][:, 0], means[label][1][:, 0])),
                (loss, losses[label]),
            ):
                axes.fill_between(steps, center - half, center + half, color=color, alpha=0.25, linewidth=0)
                axes.plot(steps, center, label=label, **{**looks[label], "linewidth": 1.2})
        one.plot(*next(iter(paths.values()))[0], "o", color="0.2", markersize=4)
        one.plot(0, 0, "+", color="0.2", markersize=8)
        mean.axhline(0, color="0.85", linewidth=0.6, zorder=0)
        for axes in (mean, loss):
            axes.set_xscale("log")
            axes.set_xlim(1, len(next(iter(paths.values()))) - 1)
        handles, labels = mean.get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside upper center", ncols=3, fontsize=SMALL + 0.5)
    return figure
