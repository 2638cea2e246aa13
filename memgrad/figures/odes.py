"""Momentum and memory as ordinary differential equations, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from memgrad.figures.method_styles import METHODS
from memgrad.figures.style import EXACT, SMALL, sheet
from memgrad.kinds import Array


@dataclass(frozen=True, eq=False)
class Panel:
    """One solution: a path, a loss, the exact loss, and the slope of its envelope.

    Attributes:
        title: The equation.
        path: Shape (m, 2).
        t: Times > 0 of the loss, shape (n,).
        loss: Shape (n,).
        exact_t: Times of the exact loss; may be empty.
        exact_loss: The exact loss.
        slope: The slope of the envelope in log-log, or None.
    """

    title: str
    path: Array
    t: Array
    loss: Array
    exact_t: Array
    exact_loss: Array
    slope: float | None


def momentum_and_memory(
    rows: Mapping[str, Sequence[Panel]], *, guides: Sequence[int] = (1, 2, 3, 4), end: float = 1e4, caption: str = ""
) -> Figure:
    """Paths and losses of equations, one row per kind of forgetting, with guides of the slopes 1/t, 1/t^2, ...

    Args:
        rows: Solutions to draw beside each other, by the name of the row.
        guides: The powers of the guides.
        end: The end of the time axis.
        caption: The settings.

    Example:
        >>> one = Panel("a", np.ones((3, 2)), np.arange(1.0, 4), np.ones(3), np.empty(0), np.empty(0), -1.0)
        >>> len(momentum_and_memory({"constant": [one, one]}).axes)
        4

    Reference:
        UAI 2019, App. F. *Differs*: exact solutions and their envelopes' slopes are added.
    """
    wide = max(len(panels) for panels in rows.values())
    with sheet((2 * 1.85 * wide, 1.55 * len(rows) + 0.5), caption) as figure:
        grid = figure.subplots(len(rows), 2 * wide, squeeze=False, sharex="col", sharey="col")
        colors = [METHODS[name].color for name in (("HB", "MemSGD p=2") * wide)[:wide]]
        for row, (name, panels) in zip(grid, rows.items(), strict=True):
            for i, panel in enumerate(panels):
                _path(row[2 * i], panel, colors[i])
                _loss(row[2 * i + 1], panel, colors[i], guides, end)
            row[0].set_ylabel(f"{name}\n$X_2$")
        for i in range(wide):
            grid[-1][2 * i].set_xlabel("$X_1$")
            grid[-1][2 * i + 1].set_xlabel("time $t$")
        samples = [
            Line2D([], [], color=colors[0], linewidth=1.1, label="solved"),
            Line2D([], [], **{**EXACT, "linewidth": 0.5}, label="exact"),
            Line2D([], [], color=colors[0], alpha=0.35, linewidth=3, label="exact, further than solved"),
        ]
        figure.legend(handles=samples, loc="outside upper center", ncols=3, fontsize=SMALL + 0.5)
    return figure


def _path(axes: Axes, panel: Panel, color: str) -> None:
    axes.axhline(0, color="0.85", linewidth=0.6, zorder=0)
    axes.axvline(0, color="0.85", linewidth=0.6, zorder=0)
    axes.plot(*panel.path.T, color=color, linewidth=0.9)
    axes.plot(*panel.path[0], "o", color="0.2", markersize=3)
    axes.set_title(panel.title, fontsize=8)


def _loss(axes: Axes, panel: Panel, color: str, guides: Sequence[int], end: float) -> None:
    first = float(panel.loss[0])
    t = np.array([10.0, end])  # the losses start to fall at about 10
    for power in guides:
        guide = first * (t / 10) ** (-power)
        axes.plot(t, guide, color="0.6", linewidth=0.7, linestyle=":", zorder=0)
        name = f"$1/t^{power}$" if power > 1 else "$1/t$"
        axes.text(1.2 * end, guide[-1], name, fontsize=5.5, color="0.35", va="center")
    axes.plot(panel.t, panel.loss, color=color, linewidth=1.1)
    solved = panel.exact_t <= panel.t[-1]
    # Dashes would hide oscillations that are closer together than they are long. Beyond the solved part, it is a band.
    sparse = solved if solved.all() else panel.exact_t <= panel.t[-1] / 5
    axes.plot(panel.exact_t[sparse], panel.exact_loss[sparse], **{**EXACT, "linewidth": 0.5})
    axes.plot(panel.exact_t[~solved], panel.exact_loss[~solved], color=color, alpha=0.35, linewidth=0.5)
    title = "$f(X(t))$" if panel.slope is None else rf"$f(X(t))$, peaks $\sim t^{{{panel.slope:g}}}$"
    axes.set_title(title, fontsize=8)
    axes.set(xscale="log", yscale="log", xlim=(1, end), ylim=(first * 1e-12, first * 5))
    axes.set_yticks([1e-2, 1e-5, 1e-8, 1e-11])
    axes.minorticks_off()
