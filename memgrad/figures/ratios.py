"""Ratios with their intervals, drawn: how far methods are from a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad.figures.style import COLOURS, DECADE, SMALL, drawing, plain_ticks, settings_below

MARKERS = ("o", "s", "D", "^")
APART = 0.22
"""Between the settings of one method, in the distance of two methods."""

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
    panels: Mapping[str, Mapping[str, Mapping[str, Ratio]]],
    *,
    xlabel: str,
    caption: str = "",
    warning: str = "",
) -> Figure:
    """Ratios to a reference, side by side: a panel each, in it a row a method, in it a mark a setting.

    Args:
        panels: For each panel and each method its ratios, by setting.
        xlabel: What the ratio is of.
        caption: The settings.
        warning: What must not be overlooked.

    Example:
        >>> figure = ratios({"MLP": {"HB": {"mini": Ratio(0.9, 0.8, 1.0), "full": Ratio(0.7)}}}, xlabel="loss / SGD's")
        >>> len(figure.axes), figure.axes[0].get_xscale()
        (1, 'log')
    """
    methods = list(dict.fromkeys(method for panel in panels.values() for method in panel))
    settings = list(dict.fromkeys(s for panel in panels.values() for rows in panel.values() for s in rows))
    with drawing():
        size = (max(4.0, 1.2 + 2.0 * len(panels)), 1.2 + 0.38 * len(methods))
        figure = Figure(figsize=size, layout="constrained")
        row = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, panel) in zip(row, panels.items(), strict=True):
            _draw(axes, panel, methods, settings)
            axes.set_title(title, fontsize=8)
            axes.set_xlabel(xlabel)
        handles, names = row[0].get_legend_handles_labels()
        legend = figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize=SMALL + 1, title=warning)
        legend.get_title().set(color="#B00000", fontweight="bold", fontsize=SMALL + 1.5)
        settings_below(figure, caption)
    return figure


def _draw(
    axes: Axes, panel: Mapping[str, Mapping[str, Ratio]], methods: Sequence[str], settings: Sequence[str]
) -> None:
    axes.set_xscale("log")
    axes.axvline(1.0, color="0.5", linewidth=0.8)
    farthest = _farthest(panel)
    for j, setting in enumerate(settings):
        style: dict[str, Any] = {"color": COLOURS[j], "marker": MARKERS[j], "markersize": 4, "linestyle": "none"}
        axes.plot([], [], label=setting, **style)
        for i, method in enumerate(methods):
            found, y = panel.get(method, {}).get(setting), i + APART * (j - (len(settings) - 1) / 2)
            if found is None:
                continue
            if found.low is not None and found.high is not None:
                axes.plot([found.low, found.high], [y, y], color=COLOURS[j], linewidth=1.2)
            if 0 < found.value < float("inf"):
                axes.plot([found.value], [y], **style)
            else:  # a run diverged: of the method, or of the reference
                side = 0.98 if found.value > 0 else 0.02
                axes.plot([side], [y], "x", color=COLOURS[j], markersize=5, transform=axes.get_yaxis_transform())
    axes.set_xlim(1 / farthest, farthest)
    if farthest**2 < DECADE:
        plain_ticks(axes.xaxis, 3)
    axes.set_yticks(range(len(methods)), methods)
    axes.set_ylim(len(methods) - 0.5, -0.5)


def _farthest(panel: Mapping[str, Mapping[str, Ratio]]) -> float:
    """How far the axis goes from 1, as a factor: to all ratios, and to the ends of intervals that are not too far."""
    found = [ratio for rows in panel.values() for ratio in rows.values() if 0 < ratio.value < float("inf")]
    marks = max((max(each.value, 1 / each.value) for each in found), default=LEAST)
    ends = [end for each in found for end in (each.low, each.high) if end is not None and 0 < end < float("inf")]
    reach = max((max(end, 1 / end) for end in ends), default=marks)
    return float(max(min(reach, max(marks, LEAST) ** ROOM), LEAST) ** 1.08)
