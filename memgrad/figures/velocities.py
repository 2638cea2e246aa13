"""Figures of velocities under noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from memgrad.figures.method_styles import lines, styles
from memgrad.figures.style import EXACT, SMALL, drawing, settings_below

Array = NDArray[np.float64]


def velocity_noise(
    t: Array,
    simulated: Mapping[str, tuple[Array, Array]],
    exact: Mapping[str, tuple[Array, Array]],
    *,
    caption: str = "",
) -> Figure:
    """Mean and standard deviation of velocities over runs, equations side by side, with the exact ones.

    Args:
        t: The times, shape (n,).
        simulated: Mean and standard deviation, each of shape (n,), by label.
        exact: The same, exactly, by the same labels.
        caption: The settings.

    Example:
        >>> t, one = np.arange(1.0, 4.0), np.ones(3)
        >>> len(velocity_noise(t, {"a": (one, one)}, {"a": (one, one)}).axes)
        1

    Reference:
        UAI 2019, Figs. verif_noise and verif_noise_quadratic.
    """
    with drawing():
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        panels = figure.subplots(1, len(simulated), sharex=True, sharey=True, squeeze=False)[0]
        looks = styles(simulated)
        for axes, (label, (mean, sd)) in zip(panels, simulated.items(), strict=True):
            color = looks[label]["color"]
            axes.fill_between(t, mean - sd, mean + sd, color=color, alpha=0.25, linewidth=0, label="mean ± sd")
            axes.plot(t, mean, color=color, linewidth=1.6, label="mean")
            exact_mean, exact_sd = exact[label]
            axes.plot(t, exact_mean, label="exact", **EXACT)
            for sign in (-1, 1):
                axes.plot(t, exact_mean + sign * exact_sd, **EXACT)
            axes.set(title=label, xlabel="time $t$", xlim=(0, t[-1]))
            axes.legend(loc="upper right", fontsize=SMALL + 0.5, ncols=3)
        panels[0].set_ylabel("velocity $V(t)$")
        # Memory's spread is unbounded at time 0 and would flatten the rest: the frame fits what comes after a tenth.
        late = t >= t[-1] / 10
        reach = max(float((np.abs(mean) + sd)[late].max()) for mean, sd in exact.values())
        panels[0].set_ylim(-1.35 * reach, 1.35 * reach)
        settings_below(figure, caption)
    return figure


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
    with drawing():
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
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
        settings_below(figure, caption)
    return figure
