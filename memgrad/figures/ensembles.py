"""Figures of ensembles of paths, beside their exact moments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from memgrad.dynamics import Ensemble, Moments
from memgrad.figures.method_styles import styles
from memgrad.figures.style import sheet
from memgrad.statistics import NORMAL_QUANTILE


def ensembles(
    simulated: Mapping[str, Ensemble], exact: Mapping[str, Moments] | None = None, *, observable: str = "f"
) -> Figure:
    """Several equations under noise: the mean of an observable, and position and velocity of one coordinate.

    Three panels over time: the observable's mean with its 95 % confidence band, the mean and standard deviation of the
    first coordinate's position, and those of its velocity. Exact moments are thin black lines.

    Args:
        simulated: Ensembles by the label in the legend, each with the observable.
        exact: The exact moments, by the same labels, where they are known.
        observable: Its name in the ensembles.

    Example:
        >>> from memgrad.dynamics import MemoryFlow, simulate
        >>> equation = MemoryFlow("poly:3", gradient=lambda x: x, noise=1.0)
        >>> loss = {"f": lambda x, v: (x**2).sum(axis=1) / 2}
        >>> found = simulate(equation, 1.0, 1.0, paths=50, dt=0.1, seed=0, observe=loss)
        >>> len(ensembles({"memory": found}).axes)
        3
    """
    exact = exact or {}
    with sheet((9.6, 3.4)) as figure:
        loss, x, v = figure.subplots(1, 3)
        for name, line in styles(simulated).items():
            found = simulated[name]
            t, statistics = found.t, found.observed[observable]
            half = NORMAL_QUANTILE * statistics.sd / np.sqrt(found.paths)
            loss.plot(t, statistics.mean, label=name, **line)
            loss.fill_between(t, statistics.mean - half, statistics.mean + half, color=line["color"], alpha=0.2, lw=0)
            for axes, mean, variance in ((x, found.mean_x, found.var_x), (v, found.mean_v, found.var_v)):
                sd = np.sqrt(variance[:, 0])
                axes.plot(t, mean[:, 0], **line)
                axes.fill_between(t, mean[:, 0] - sd, mean[:, 0] + sd, color=line["color"], alpha=0.15, lw=0)
        for moments in exact.values():
            for axes, mean, variance in ((x, moments.mean_x, moments.var_x), (v, moments.mean_v, moments.var_v)):
                known = np.isfinite(variance[:, 0])
                for side in (-1, 1):
                    edge = (mean[:, 0] + side * np.sqrt(variance[:, 0]))[known]
                    axes.plot(moments.t[known], edge, color="black", linewidth=0.6)
        if exact:
            x.plot([], [], color="black", linewidth=0.6, label=r"exact mean $\pm$ sd")
            x.legend(loc="best")
        loss.set(xlabel="time $t$", title=r"$f(X) - f^*$: mean, 95 % interval")
        if min(found.observed[observable].mean.min() for found in simulated.values()) > 0:
            loss.set_yscale("log")
        x.set(xlabel="time $t$", title=r"position $X_1$: mean $\pm$ sd")
        v.set(xlabel="time $t$", title=r"velocity $V_1$: mean $\pm$ sd")
        # A memory's velocity has infinite variance at time 0; the frame is that of the later times.
        reach = max(_reach(found) for found in simulated.values())
        v.set_ylim(-reach, reach)
        loss.legend(loc="best")
        one = next(iter(simulated.values()))
        figure.supxlabel(
            f"{one.paths} paths, scheme {one.scheme}, dt = {one.dt:g}, seed {one.seed}", fontsize=7, color="0.4"
        )
    return figure


def _reach(found: Ensemble) -> float:
    """How far the velocity goes from 0 after the first twentieth of the time."""
    late = found.t >= found.t[-1] / 20
    return float(1.1 * np.max(np.abs(found.mean_v[late, 0]) + np.sqrt(found.var_v[late, 0])))
