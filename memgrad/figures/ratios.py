"""Ratios with their intervals, drawn: how far methods are from a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from memgrad.figures.style import COLOURS, DECADE, drawing, plain_ticks, settings_below, warn

ROOM = 2.0
"""Intervals are cut where they are so many times as far from the reference as the farthest ratio: few seeds make long
ones."""

LEAST = 1.02
"""The axis shows at least a fiftieth above and below the reference."""


@final
@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval.

    Attributes:
        value: The ratio; not finite where a run diverged.
        low: The lower end of its interval, or None if it has none.
        high: The upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None


def ratios(
    rows: Mapping[str, Mapping[str, Mapping[str, Ratio]]], *, xlabel: str, caption: str = "", warning: str = ""
) -> Figure:
    """Ratios to a reference: rows of panels, each with one mark and its interval a method.

    Args:
        rows: For each row and each panel in it the ratios, by method. All rows have the same panels.
        xlabel: What the ratio is of.
        caption: The settings.
        warning: What must not be overlooked.

    Example:
        >>> figure = ratios({"mini batch": {"MLP": {"HB": Ratio(0.9, 0.8, 1.0), "p=2": Ratio(1.1)}}}, xlabel="ratio")
        >>> len(figure.axes), figure.axes[0].get_xscale()
        (1, 'log')
    """
    methods = list(dict.fromkeys(method for row in rows.values() for panel in row.values() for method in panel))
    columns = max(map(len, rows.values()))
    with drawing():
        size = (max(4.0, 1.2 + 2.0 * columns), 0.6 + (0.6 + 0.24 * len(methods)) * len(rows))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(rows), columns, squeeze=False, sharey=True)
        for place, (name, row) in zip(grid, rows.items(), strict=True):
            for axes, (title, panel) in zip(place, row.items(), strict=True):
                _draw(axes, panel, methods)
                axes.set_title(title, fontsize=8)
            place[0].set_ylabel(name)
        for axes in grid[-1]:
            axes.set_xlabel(xlabel)
        warn(figure, warning)
        settings_below(figure, caption)
    return figure


def _draw(axes: Axes, panel: Mapping[str, Ratio], methods: Sequence[str]) -> None:
    axes.set_xscale("log")
    axes.axvline(1.0, color="0.5", linewidth=0.8)
    for y, method in enumerate(methods):
        found = panel.get(method)
        if found is None:
            continue
        if found.low is not None and found.high is not None:
            axes.plot([found.low, found.high], [y, y], color=COLOURS[0], linewidth=1.4)
        if 0 < found.value < float("inf"):
            axes.plot([found.value], [y], "o", color=COLOURS[0], markersize=4)
        else:  # a run diverged: of the method, or of the reference
            side = 0.98 if found.value > 0 else 0.02
            axes.plot([side], [y], "x", color=COLOURS[5], markersize=5, transform=axes.get_yaxis_transform())
    farthest = _farthest(panel)
    axes.set_xlim(1 / farthest, farthest)
    if farthest**2 < DECADE:
        plain_ticks(axes.xaxis, 3)
    else:
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.5, -0.5)


def _farthest(panel: Mapping[str, Ratio]) -> float:
    """How far the axis goes from 1, as a factor: to all ratios, and to the ends of intervals that are not too far."""
    found = [ratio for ratio in panel.values() if 0 < ratio.value < float("inf")]
    marks = max((max(each.value, 1 / each.value) for each in found), default=LEAST)
    ends = [end for each in found for end in (each.low, each.high) if end is not None and 0 < end < float("inf")]
    reach = max((max(end, 1 / end) for end in ends), default=marks)
    return float(max(min(reach, max(marks, LEAST) ** ROOM), LEAST) ** 1.08)
