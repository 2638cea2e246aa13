"""Figures of training: metrics over iterations, final losses over step sizes, and reconstructed pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from memgrad.figures.method_styles import styles
from memgrad.figures.style import ALARM, SMALL, lines_of_panels, log_ticks, sheet, thousands, warn
from memgrad.kinds import Array

HEADROOM = 1.5
"""Curves that diverge are cut at this multiple of the largest value of the others."""

BARS = 4
"""The number of intervals along a curve. Those of other curves stand between them; bands would cover each other."""

SETTLED = 0.03
"""A panel of shares shows what comes after this share of the steps, and marks what it leaves out."""

LEAST = 1.03
"""A panel of ratios reaches at least this factor from 1."""


@final
@dataclass(frozen=True, eq=False)
class Band:
    """A curve with its interval.

    Attributes:
        x: Iterations, or step sizes.
        mean: The mean; nan where there is none.
        low: The lower end of its interval.
        high: The upper end.
        marked: The value of x that is marked, such as the selected step size.
    """

    x: NDArray[Any]
    mean: Array
    low: Array
    high: Array
    marked: float | None = None


@final
@dataclass(frozen=True, eq=False)
class TrainingPanel:
    """One pair of axes, and below it, if there are ratios, another.

    Attributes:
        title: The title.
        bands: A curve for each method, by its label. Without any, `note` says why.
        note: Remarks: step sizes, seeds, examples.
        verticals: Values of x marked by vertical lines, by the label of the curve whose color they have.
        share: Whether the values are shares, drawn on a linear axis within 0 and 1; otherwise the axis is logarithmic.
        ratios: The same curves as multiples of a reference, with paired intervals.
    """

    title: str
    bands: Mapping[str, Band]
    note: str = ""
    verticals: Mapping[str, float] = field(default_factory=dict)
    share: bool = False
    ratios: Mapping[str, Band] = field(default_factory=dict)


def training_curves(
    rows: Mapping[str, Sequence[TrainingPanel]],
    *,
    ylabel: str,
    xlabel: str = "iterations",
    ratio_label: str = "ratio",
    over_step_sizes: bool = False,
    across: int | None = None,
    caption: str = "",
    warning: str = "",
) -> Figure:
    """Panels in rows: a line for each method with intervals at a few places, and the ratios to a reference below it.

    Args:
        rows: The panels of each row, the same number in each, by the label of the row.
        ylabel: The label of the vertical axis; empty if the title of a panel says it.
        xlabel: The label of the horizontal axis.
        ratio_label: The label of the vertical axis of ratios.
        over_step_sizes: Whether x is a step size: the axis is then logarithmic, and the marker of the marked value is
            filled.
        across: The maximum number of panels beside each other: longer rows go on below. None for no maximum.
        caption: The settings.
        warning: A warning, above all panels.

    Example:
        >>> band = Band(np.arange(3), np.ones(3), np.full(3, 0.9), np.full(3, 1.1))
        >>> figure = training_curves({"mini": [TrainingPanel("one", {"SGD": band})]}, ylabel="loss")
        >>> len(figure.axes), figure.axes[0].get_yscale()
        (1, 'log')
        >>> below = TrainingPanel("one", {"SGD": band, "HB": band}, ratios={"HB": band})
        >>> len(training_curves({"mini": [below]}, ylabel="loss").axes)
        2
    """
    lines = lines_of_panels(rows, across)
    columns = max(len(row) for _, row in lines)
    labels = list(dict.fromkeys(label for row in rows.values() for panel in row for label in panel.bands))
    looks = styles(labels)
    heights = [2.0, 1.25] if any(panel.ratios for row in rows.values() for panel in row) else [2.0]
    size = (max(4.4, 1.85 * columns), 0.9 + sum(heights) * len(lines))
    with sheet(size, caption) as figure:
        grid = figure.subplots(len(heights) * len(lines), columns, squeeze=False, height_ratios=heights * len(lines))
        for i, (name, row) in enumerate(lines):
            for axes in grid[len(heights) * i : len(heights) * (i + 1), len(row) :].ravel():
                axes.set_axis_off()
            for place, (axes, panel) in enumerate(zip(grid[len(heights) * i], row, strict=False)):
                _draw(axes, panel, looks, over_step_sizes)
                label = ylabel or panel.title
                axes.set_ylabel(f"{name}\n{label}" if name and not place else label, fontsize=8)
                below = grid[len(heights) * i + 1, place] if len(heights) > 1 else axes
                if panel.ratios:
                    _draw_ratios(below, panel, looks, ratio_label)
                elif below is not axes:
                    below.set_axis_off()
                (below if panel.ratios else axes).set_xlabel(xlabel, fontsize=8)
        for axes in grid.ravel():
            axes.tick_params(labelsize=7)
        _legend(figure, grid.ravel().tolist(), labels, warning, beside=columns == 1)
    return figure


def _draw(axes: Axes, panel: TrainingPanel, looks: Mapping[str, dict[str, Any]], over_step_sizes: bool) -> None:
    axes.set_title(f"{panel.title}\n{panel.note}" if panel.note and panel.bands else panel.title)
    axes.title.set_fontsize(7.5)
    if not panel.bands:
        axes.text(0.5, 0.5, panel.note, ha="center", va="center", transform=axes.transAxes, fontsize=8, color="0.35")
        axes.set(xticks=[], yticks=[])
        return
    if over_step_sizes:
        axes.set_xscale("log")
    if not panel.share:
        axes.set_yscale("log")
    for label, band in panel.bands.items():
        style = {**looks[label], "linewidth": 1.2, "markersize": 3.2}
        if over_step_sizes:
            style |= {"markevery": None, "markerfacecolor": "white"}
        axes.plot(band.x, band.mean, label=label, **style)
        if not over_step_sizes:
            _mark_end(axes, band, style["color"])
        if band.marked is not None:
            here = band.x == band.marked
            axes.plot(band.x[here], band.mean[here], style["marker"], color=style["color"], markersize=6)
    for label, place in panel.verticals.items():
        axes.axvline(place, color=looks[label]["color"], linestyle=":", linewidth=1.0)
    _cut(axes, panel)
    if over_step_sizes:
        _mark_diverged(axes, panel, looks)
        log_ticks(axes.xaxis, 3)
    else:
        thousands(axes.xaxis)
    _intervals(axes, panel.bands, looks, everywhere=over_step_sizes)
    _mark_outside(axes, panel.bands, looks)


def _draw_ratios(axes: Axes, panel: TrainingPanel, looks: Mapping[str, dict[str, Any]], ylabel: str) -> None:
    """The same curves as multiples of the reference's, which is the line at 1."""
    axes.set_yscale("log")
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    for label, band in panel.ratios.items():
        axes.plot(band.x, band.mean, **{**looks[label], "linewidth": 1.0, "marker": None})
    # A curve that is far off in one panel must not flatten the others: the frame fits most of what comes after a tenth.
    late = [np.log(band.mean[band.x >= band.x[-1] / 10]) for band in panel.ratios.values()]
    reach = sorted(float(np.nanmax(np.abs(each))) for each in late if np.isfinite(each).any())
    usual = min(reach[-1], 2 * float(np.median(reach))) if reach else 0.0
    far = max(np.exp(1.25 * usual), LEAST)
    axes.set_ylim(1 / far, far)
    axes.set_ylabel(ylabel, fontsize=8)
    log_ticks(axes.yaxis, 3)
    thousands(axes.xaxis)
    _intervals(axes, panel.ratios, looks)
    _mark_outside(axes, panel.ratios, looks)


def _intervals(
    axes: Axes, bands: Mapping[str, Band], looks: Mapping[str, dict[str, Any]], *, everywhere: bool = False
) -> None:
    """Intervals at some places of each curve, between those of the others; triangles where one goes on."""
    bottom, top = axes.get_ylim()
    for place, (label, band) in enumerate(bands.items()):
        known = np.flatnonzero(np.isfinite(band.low) & np.isfinite(band.high))
        if not everywhere and len(known):
            shares = (np.arange(BARS) + (place + 1) / (len(bands) + 1)) / BARS
            known = np.unique(known[np.round(shares * (len(known) - 1)).astype(int)])
        color = looks[label]["color"]
        low, high = np.maximum(band.low[known], bottom), np.minimum(band.high[known], top)
        seen = low < high
        axes.vlines(band.x[known][seen], low[seen], high[seen], color=color, linewidth=1.0, alpha=0.9)
        for cut, edge, mark in ((band.low[known] < bottom, bottom, "v"), (band.high[known] > top, top, "^")):
            x = band.x[known][cut]
            _triangles(axes, x, np.full(len(x), edge), mark, color)
    axes.set_ylim(bottom, top)


def _triangles(axes: Axes, x: Any, y: Any, mark: str, color: str) -> None:
    """Triangles on the edge of a panel, which are left out where its place is computed: the edge moves with it."""
    (drawn,) = axes.plot(x, y, mark, color=color, markersize=3, clip_on=False, zorder=3)
    drawn.set_in_layout(False)


def _mark_outside(axes: Axes, bands: Mapping[str, Band], looks: Mapping[str, dict[str, Any]]) -> None:
    """The farthest value of each curve that leaves the panel, beside a triangle at the edge where it has it."""
    bottom, top = axes.get_ylim()
    with np.errstate(divide="ignore"):  # a share may be 0
        far = {label: float(np.nanmax(np.abs(np.log(band.mean)), initial=0.0)) for label, band in bands.items()}
    taken: set[tuple[float, float]] = set()
    # Where several curves leave at the same place, as those that start alike, the farthest has the number.
    for label, band in sorted(bands.items(), key=lambda pair: -far[pair[0]]):
        color = looks[label]["color"]
        for outside, edge, mark in ((band.mean < bottom, bottom, "v"), (band.mean > top, top, "^")):
            if not outside.any():
                continue
            farthest = int(np.argmax(np.where(outside, np.abs(band.mean - edge), -1.0)))
            late = farthest > len(band.x) / 2
            _triangles(axes, band.x[farthest], edge, mark, color)
            if (place := (float(band.x[farthest]), edge)) in taken:
                continue
            taken.add(place)
            number = axes.annotate(
                f"{band.mean[farthest]:.3g}",
                place,
                xytext=(-4 if late else 4, 2 if mark == "v" else -2),
                textcoords="offset points",
                ha="right" if late else "left",
                va="bottom" if mark == "v" else "top",
                color=color,
                fontsize=6.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
            )
            number.set_in_layout(False)


def _mark_end(axes: Axes, band: Band, color: str) -> None:
    """A cross at the last mean of a curve that ends early, because a run of it diverged."""
    known = np.flatnonzero(np.isfinite(band.mean))
    if len(known) and known[-1] < len(band.x) - 1:
        axes.plot(band.x[known[-1]], band.mean[known[-1]], "x", color=color, markersize=5)


def _mark_diverged(axes: Axes, panel: TrainingPanel, looks: Mapping[str, dict[str, Any]]) -> None:
    """A cross at the upper edge for each step size at which a run diverged, a little lower for each further method."""
    for place, (label, band) in enumerate(panel.bands.items()):
        gone = band.x[~np.isfinite(band.mean)]
        heights = np.full(len(gone), 0.97 - 0.07 * place)
        axes.plot(gone, heights, "x", color=looks[label]["color"], transform=axes.get_xaxis_transform(), markersize=5)


def _cut(axes: Axes, panel: TrainingPanel) -> None:
    """Limit the axis, so that a diverging curve or the wide intervals of few seeds do not flatten all curves."""
    if panel.share:  # shares rise so fast at first that their beginning would flatten the rest
        late = [band.mean[(band.x >= SETTLED * band.x[-1]) & np.isfinite(band.mean)] for band in panel.bands.values()]
        values = np.concatenate(late)
        if len(values):
            room = 0.1 * float(np.ptp(values)) + 0.01
            axes.set_ylim(max(0.0, values.min() - room), min(1.0, values.max() + room))
        return
    seen = [band.mean[np.isfinite(band.mean)] for band in panel.bands.values()]
    seen = [values for values in seen if len(values)]
    if not seen:
        return
    usual = max(np.median([values.max() for values in seen]), *(values[0] for values in seen))
    top = min(max(values.max() for values in seen), HEADROOM * usual)
    low = min(values.min() for values in seen)
    if low > 0:
        room = max((top / low) ** 0.08, 1.02)
        axes.set_ylim(low / room, room * top)
        log_ticks(axes.yaxis, 4)


def _legend(figure: Figure, panels: Sequence[Axes], labels: Sequence[str], warning: str, *, beside: bool) -> None:
    """One legend for all panels, with the warning as its title; only the warning if there are no curves."""
    drawn = [axes.get_legend_handles_labels() for axes in panels]
    found = {name: handle for handles, names in drawn for name, handle in zip(names, handles, strict=True)}
    shown = [label for label in labels if label in found]
    if not shown:
        warn(figure, warning)
        return
    # A letter is about half as wide as it is high, and each entry has a line before it and a gap after it.
    widest = (max(map(len, shown)) + 7) * 0.55 * (SMALL + 1)
    fit = max(1, int(figure.get_figwidth() * 72 // widest))
    lines = -(-len(shown) // fit)
    legend = figure.legend(
        [found[label] for label in shown],
        shown,
        loc="outside right center" if beside else "outside upper center",
        ncols=1 if beside else -(-len(shown) // lines),
        fontsize=SMALL + 1,
        title=warning.replace(": ", ":\n") if beside else warning,
    )
    legend.get_title().set(color=ALARM, fontweight="bold", fontsize=SMALL + 1.5)


def reconstructed(rows: Mapping[str, Array], *, caption: str = "", warning: str = "") -> Figure:
    """Pictures side by side, a row for each label.

    Args:
        rows: Gray pictures from 0 to 1, (pictures, height, width), by label; the first row is set apart.
        caption: The settings.
        warning: A warning, above all panels.

    Example:
        >>> len(reconstructed({"original": np.zeros((3, 4, 4)), "SGD": np.ones((3, 4, 4))}).axes)
        2
    """
    columns = max(len(pictures) for pictures in rows.values())
    with sheet((2.1 + 0.5 * columns, 0.5 * len(rows) + 0.6), caption, warning) as figure:
        grid = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
        for axes, (label, pictures) in zip(grid, rows.items(), strict=True):
            strip = np.concatenate([np.pad(1 - each, ((0, 0), (0, 1)), constant_values=1) for each in pictures], axis=1)
            axes.imshow(strip, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_ylabel(label, rotation=0, ha="right", va="center")
        grid[0].spines["bottom"].set_visible(True)
    return figure
