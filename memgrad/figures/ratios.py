"""Figures of ratios to a reference, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad.figures.method_styles import styles
from memgrad.figures.style import ALARM, lines_of_panels, log_ticks, sheet
from memgrad.statistics import Estimate

ROOM = 2.0
"""Intervals are cut at this power of the farthest ratio that is shown: few seeds make long ones."""

FAR = 10.0
"""A ratio is not shown in its place if its logarithm is this many times the median's: it would flatten the others."""

UNCUT = 1.25
"""They are not cut within this factor from the reference."""

LEAST = 1.02
"""The axis reaches at least this factor from the reference."""


def ratios(
    rows: Mapping[str, Mapping[str, Mapping[str, Estimate]]],
    *,
    xlabel: str,
    empty: str = "none",
    across: int | None = None,
    caption: str = "",
    warning: str = "",
) -> Figure:
    """Ratios to a reference: rows of panels, each with one marker and its interval per method.

    Args:
        rows: The ratios by method, for each panel of each row. All rows have the same panels.
        xlabel: The label of the axis.
        empty: What stands in a panel without ratios.
        across: The maximum number of panels beside each other: longer rows go on below. None for no maximum.
        caption: The settings.
        warning: A warning, in red above all panels.

    Example:
        >>> panel = {"HB": Estimate(0.9, 0.8, 1.0), "MemSGD p=2": Estimate(1.1)}
        >>> figure = ratios({"mini batch": {"MLP": panel}}, xlabel="ratio")
        >>> len(figure.axes), figure.axes[0].get_xscale()
        (1, 'log')
    """
    methods = list(dict.fromkeys(method for row in rows.values() for panel in row.values() for method in panel))
    lines = lines_of_panels({name: row.items() for name, row in rows.items()}, across)
    columns = max(len(row) for _, row in lines)
    size = (max(4.0, 1.2 + 2.0 * columns), 0.6 + (0.6 + 0.24 * len(methods)) * len(lines))
    with sheet(size, caption, warning) as figure:
        grid = figure.subplots(len(lines), columns, squeeze=False, sharey=True)
        for place, (name, row) in zip(grid, lines, strict=True):
            for axes in place[len(row) :]:
                axes.set_axis_off()
            for axes, (title, panel) in zip(place, row, strict=False):
                if panel:
                    _draw(axes, panel, methods)
                else:
                    axes.text(0.5, 0.5, empty, ha="center", va="center", transform=axes.transAxes, color="0.35")
                    axes.set_xticks([])
                axes.set_title(title, fontsize=8)
                axes.set_xlabel(xlabel, fontsize=8)
            place[0].set_ylabel(name)
    return figure


def _draw(axes: Axes, panel: Mapping[str, Estimate], methods: Sequence[str]) -> None:
    farthest = _farthest(panel)
    axes.set(xscale="log", xlim=(1 / farthest, farthest))
    axes.axvline(1.0, color="0.5", linewidth=0.8)
    for y, (method, look) in enumerate(styles(methods).items()):
        found, color = panel.get(method), look["color"]
        if found is None:
            continue
        if not 0 < found.value < float("inf"):  # a run diverged: of the method, of the reference, or of both
            place = 0.98 if found.value > 0 else 0.02 if found.value == 0 else 0.5
            axes.plot([place], [y], "x", color=ALARM, markersize=5, transform=axes.get_yaxis_transform())
            continue
        if found.has_interval:
            axes.plot([found.low, found.high], [y, y], color=color, linewidth=1.4)
        low, high = (found.low, found.high) if found.has_interval else (found.value, found.value)
        # A triangle at the edge that the interval goes on beyond, with the number if the ratio itself lies there.
        for is_cut, edge, mark, side in (
            (low < 1 / farthest, 1 / farthest, "<", "left"),
            (high > farthest, farthest, ">", "right"),
        ):
            if is_cut:
                axes.plot([edge], [y], mark, color=color, markersize=3.5, clip_on=False, zorder=3)
            if is_cut and not 1 / farthest <= found.value <= farthest:
                axes.annotate(
                    f"{found.value:.3g}",
                    (edge, y),
                    xytext=(5 if side == "left" else -5, 0),
                    textcoords="offset points",
                    ha=side,
                    va="center",
                    color=color,
                    fontsize=7,
                )
        axes.plot([found.value], [y], look["marker"], color=color, markersize=5)
    log_ticks(axes.xaxis, 3)
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.5, -0.5)


def _farthest(panel: Mapping[str, Estimate]) -> float:
    """How far the axis reaches from 1, as a factor: to all ratios and ends of intervals that are not too far."""
    found = [ratio for ratio in panel.values() if 0 < ratio.value < float("inf")]
    reaches = sorted(abs(math.log(each.value)) for each in found) or [0.0]
    marks = min(reaches[-1], max(FAR * reaches[len(reaches) // 2], math.log(UNCUT)))
    ends = [abs(math.log(end)) for each in found for end in (each.low, each.high) if 0 < end < float("inf")]
    reach = max(ends, default=marks)
    return math.exp(1.08 * max(min(reach, max(ROOM * marks, math.log(UNCUT))), math.log(LEAST)))
