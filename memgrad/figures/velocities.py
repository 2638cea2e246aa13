"""Figures of velocities under noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad.figures.method_styles import lines, styles
from memgrad.figures.style import EXACT, SMALL, sheet
from memgrad.kinds import Array
from memgrad.statistics import NORMAL_QUANTILE


@final
@dataclass(frozen=True, eq=False)
class VelocityMoments:
    """Moments of the velocities of some equations.

    Attributes:
        t: The times, shape (n,).
        simulated: Mean and standard deviation over runs, each of shape (n,), by label.
        exact: The exact values, by the same labels.
    """

    t: Array
    simulated: Mapping[str, tuple[Array, Array]]
    exact: Mapping[str, tuple[Array, Array]]


def velocity_noise(
    first: VelocityMoments, later: VelocityMoments | None = None, *, runs: int, caption: str = ""
) -> Figure:
    """Mean and standard deviation of velocities over runs, equations side by side, with the exact values.

    Args:
        first: The moments up to some time: mean and standard deviation of each equation in its own panel.
        later: Those up to a later time: in a second row the means with their 95 % intervals, and the variances.
        runs: The number of runs, for the intervals of the means.
        caption: The settings.

    Example:
        >>> t, one = np.arange(1.0, 4.0), np.ones(3)
        >>> moments = VelocityMoments(t, {"a": (one, one)}, {"a": (one, one)})
        >>> len(velocity_noise(moments, runs=10).axes)
        1

    Reference:
        UAI 2019, Figs. verif_noise and verif_noise_quadratic.
    """
    with sheet((7.2, 2.9 if later is None else 5.4), caption) as figure:
        grid = figure.subplots(1 if later is None else 2, max(2, len(first.simulated)), squeeze=False)
        looks = styles(first.simulated)
        for axes in grid.ravel():
            axes.set_xlabel("time $t$")
        for axes, label in zip(grid[0], first.simulated, strict=False):
            _mean_and_spread(axes, first, label, looks[label]["color"])
        for axes in grid[0, len(first.simulated) :]:
            axes.remove()
        if later is not None:
            _means(grid[1, 0], later, looks, runs)
            _variances(grid[1, 1], later, looks)
    return figure


def _mean_and_spread(axes: Axes, moments: VelocityMoments, label: str, color: str) -> None:
    t, (mean, sd), (exact_mean, exact_sd) = moments.t, moments.simulated[label], moments.exact[label]
    axes.fill_between(t, mean - sd, mean + sd, color=color, alpha=0.25, linewidth=0, label="mean ± sd")
    axes.plot(t, mean, color=color, linewidth=1.6, label="mean")
    axes.plot(t, exact_mean, label="exact", **EXACT)
    for sign in (-1, 1):
        axes.plot(t, exact_mean + sign * exact_sd, **EXACT)
    axes.set(title=label, xlim=(0, t[-1]), ylabel="velocity $V(t)$")
    axes.legend(loc="upper right", fontsize=SMALL + 0.5, ncols=3)
    # Memory's spread is unbounded at time 0 and would flatten the rest: the frame fits what comes after a tenth.
    late = t >= t[-1] / 10
    reach = max(float((np.abs(mean) + sd)[late].max()) for mean, sd in moments.exact.values())
    axes.set_ylim(-1.35 * reach, 1.35 * reach)


def _means(axes: Axes, moments: VelocityMoments, looks: Mapping[str, dict[str, Any]], runs: int) -> None:
    """The means with their 95 % intervals, on an axis where they can be seen."""
    t = moments.t
    for label, (mean, sd) in moments.simulated.items():
        half, color = NORMAL_QUANTILE * sd / np.sqrt(runs), looks[label]["color"]
        axes.fill_between(t, mean - half, mean + half, color=color, alpha=0.25, linewidth=0.5)
        axes.plot(t, mean, color=color, linewidth=1.4, label=label)
        axes.plot(t, moments.exact[label][0], **EXACT)
    late = t >= t[-1] / 10
    ends = [mean[late] for mean, _ in moments.exact.values()]
    low, high = min(map(np.min, ends)), max(map(np.max, ends))
    axes.set(title="mean, 95 % interval; exact dashed", xlim=(0, t[-1]), ylabel=r"$\mathbb{E}\,V(t)$")
    axes.set_ylim(low - 0.3 * (high - low), high + 0.3 * (high - low))
    axes.legend(loc="lower left", fontsize=SMALL + 0.5)


def _variances(axes: Axes, moments: VelocityMoments, looks: Mapping[str, dict[str, Any]]) -> None:
    for label, (_, sd) in moments.simulated.items():
        axes.plot(moments.t, sd**2, color=looks[label]["color"], linewidth=1.4, label=label)
        axes.plot(moments.t, moments.exact[label][1] ** 2, **EXACT)
    axes.set(xscale="log", yscale="log", title="variance; exact dashed", ylabel=r"Var $V(t)$")
    axes.legend(loc="best", fontsize=SMALL + 0.5)


def second_moments(
    t: Array, solved: Mapping[str, Array], exact: Mapping[str, Array], limits: Mapping[str, str], *, caption: str = ""
) -> Figure:
    """E X^2, E XV and E V^2 of equations, side by side.

    Args:
        t: The times, shape (n,).
        solved: Arrays of shape (n, 3), by label.
        exact: Closed forms or asymptotes to lay over them, of shape (n, 3), nan where there is none.
        limits: The names of the exact curves, by label.
        caption: The settings.

    Example:
        >>> t, three = np.arange(1.0, 4.0), np.arange(9.0).reshape(3, 3)
        >>> len(second_moments(t, {"a": three}, {"a": three}, {"a": "exact"}).axes)
        1

    Reference:
        UAI 2019, Fig. quadratic_variance, with the moment equations corrected (errata 24, 25).
    """
    names = (r"$\mathbb{E} X^2$", r"$\mathbb{E} XV$", r"$\mathbb{E} V^2$")
    with sheet((7.2, 2.9), caption) as figure:
        panels = figure.subplots(1, len(solved), sharex=True, squeeze=False)[0]
        for axes, (label, moments) in zip(panels, solved.items(), strict=True):
            for i, (name, line) in enumerate(zip(names, lines(), strict=False)):
                axes.plot(t, moments[:, i], label=name, **line)
            for i in range(3):
                if np.isfinite(exact[label][:, i]).any():
                    shown = limits[label] if i == np.isfinite(exact[label]).any(axis=0).argmax() else None
                    axes.plot(t, exact[label][:, i], label=shown, **EXACT)
            late = t >= t[-1] / 20
            low, high = float(moments[late].min()), float(moments[late].max())
            axes.set(
                title=label,
                xlabel="time $t$",
                xlim=(0, t[-1]),
                ylim=(low - 0.05 * (high - low), high + 0.05 * (high - low)),
            )
            axes.legend(loc="best", fontsize=SMALL + 0.5)
        panels[0].set_ylabel("second moments")
    return figure
