"""Figures of descents in the plane: paths and losses of memory, momentum and stochastic methods."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad.figures.method_styles import styles
from memgrad.figures.style import EXACT, SMALL, sheet
from memgrad.kinds import Array
from memgrad.statistics import NORMAL_QUANTILE


def amplification(
    t: Array,
    paths: Mapping[str, Array],
    losses: Mapping[str, Array],
    exact: Mapping[str, Array],
    means: Mapping[str, tuple[Array, Array]],
    *,
    caption: str = "",
) -> Figure:
    """Noisy descents: one path each in the plane, its loss over time, and the mean loss over many runs.

    Args:
        t: The times, shape (n,).
        paths: A path of shape (n, 2), by its label.
        losses: The loss along it, by the same labels.
        exact: The exact expected loss, by the same labels.
        means: The mean loss over many runs and its standard error, by the same labels.
        caption: The settings.

    Example:
        >>> t, flat = np.linspace(0, 1, 5), np.ones(5)
        >>> figure = amplification(t, {"a": np.ones((5, 2))}, {"a": flat}, {"a": flat}, {"a": (flat, 0 * flat)})
        >>> len(figure.axes)
        3

    Reference:
        UAI 2019, Fig. HB_amplification. *Differs*: expected losses are added.
    """
    with sheet((7.2, 2.9), caption) as figure:
        plane, one, many = figure.subplots(1, 3)
        _plane(plane, paths, "one path each, same noise")
        one.set(title="its loss", xlabel="time $t$", ylabel="$f(X(t))$", yscale="log", xlim=(0, t[-1]))
        many.set(title="mean loss", xlabel="time $t$", ylabel=r"$\mathbb{E} f(X(t))$", yscale="log", xlim=(0, t[-1]))
        looks = styles(paths)
        for label, line in looks.items():
            color = line["color"]
            one.plot(t, losses[label], color=color, linewidth=0.8)
            mean, error = means[label]
            half = NORMAL_QUANTILE * error
            many.fill_between(t, mean - half, mean + half, color=color, alpha=0.35, linewidth=0)
            many.plot(t, mean, color=color, linewidth=1.6)
        for i, curve in enumerate(exact.values()):
            for axes in (one, many):
                axes.plot(t, curve, label=None if i else r"exact $\mathbb{E} f$", **EXACT)
        top = 2 * max(float(curve.max()) for curve in losses.values())
        low = min(float(curve.min()) for curve in exact.values()) / 8
        for axes in (one, many):
            axes.set_ylim(low, top)
        one.legend(loc="upper left", fontsize=SMALL + 0.5)
        highest = max(exact, key=lambda label: float(exact[label][-1]))
        for label, line in looks.items():
            above = label == highest
            at = (0.97 * t[-1], (2.0 if above else 0.5) * float(exact[label][-1]))
            side = "bottom" if above else "top"
            many.text(*at, label, color=line["color"], ha="right", va=side, fontsize=SMALL + 1.5)
    return figure


def time_warp(
    t: Array,
    memory: tuple[str, Array],
    nesterov: tuple[str, Array],
    warped: Array,
    noisy: Mapping[str, Array],
    *,
    caption: str = "",
) -> Figure:
    r"""One path at two speeds, without and with noise.

    Args:
        t: The times, shape (n,).
        memory: The label of memory and its solution, shape (n, 2).
        nesterov: The label of Nesterov's equation and its solution.
        warped: Memory's solution at $\tau(t)$.
        noisy: A path with noise, by the same labels.
        caption: The settings.

    Example:
        >>> t, x = np.linspace(0, 1, 5), np.ones((5, 2))
        >>> len(time_warp(t, ("a", x), ("b", x), x, {"a": x, "b": x}).axes)
        3

    Reference:
        UAI 2019, Fig. timewarp. *Differs*: the solutions without noise, which coincide, are shown beside the paths.
    """
    looks = styles([memory[0], nesterov[0]])
    slow, fast = looks[memory[0]], looks[nesterov[0]]
    with sheet((7.2, 2.9), caption) as figure:
        plane, times, plane_noisy = figure.subplots(1, 3)
        _plane(plane, {}, "without noise: one path")
        plane.plot(*nesterov[1].T, color=fast["color"], linewidth=3.2, label=nesterov[0])
        plane.plot(*memory[1].T, color=slow["color"], linewidth=1.2, linestyle=slow["linestyle"], label=memory[0])
        plane.legend(loc="lower right", fontsize=SMALL + 0.5)
        times.set(title="two speeds", xlabel="time $t$", ylabel="$X_1(t)$", xlim=(0, t[-1]))
        times.plot(t, nesterov[1][:, 0], color=fast["color"], linewidth=2.4, label=nesterov[0])
        times.plot(t, memory[1][:, 0], color=slow["color"], linewidth=1.4, linestyle=slow["linestyle"], label=memory[0])
        apart = float(np.abs(nesterov[1] - warped).max())
        times.plot(t, warped[:, 0], label=r"memory at $\tau(t)=t^2/8$", **EXACT)
        times.legend(
            loc="upper right", fontsize=SMALL + 0.5, title=f"farthest apart: {apart:.0e}", title_fontsize=SMALL
        )
        _plane(plane_noisy, noisy, "with noise: no longer")
        plane_noisy.text(
            0.98,
            0.02,
            "the warp does not preserve\nthe Brownian motion",
            transform=plane_noisy.transAxes,
            ha="right",
            va="bottom",
            fontsize=SMALL,
            color="0.25",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )
    return figure


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


def _plane(axes: Axes, paths: Mapping[str, Array], title: str) -> None:
    """Paths in the plane, from a dot to the cross at the minimizer."""
    axes.set(title=title, xlabel="$X_1$", ylabel="$X_2$")
    axes.axhline(0, color="0.85", linewidth=0.6, zorder=0)
    axes.axvline(0, color="0.85", linewidth=0.6, zorder=0)
    # A path hides those drawn before it, so the one that wanders most is drawn first.
    looks = styles(paths)
    for label in sorted(paths, key=lambda label: -float(np.std(paths[label][len(paths[label]) // 2 :]))):
        axes.plot(*paths[label].T, color=looks[label]["color"], linewidth=0.8, label=label)
    if paths:
        axes.plot(*next(iter(paths.values()))[0], "o", color="0.2", markersize=4)
    axes.plot(0, 0, "+", color="0.2", markersize=8)
