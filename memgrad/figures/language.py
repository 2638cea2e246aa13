"""The figure of a language model trained with a mixture of memories, and with AdamW."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from memgrad.figures.method_styles import styles
from memgrad.figures.style import SMALL, sheet, thousands
from memgrad.figures.training import Band
from memgrad.statistics import Estimate

MISSING = "not measured yet"
"""What a panel without numbers says."""


@final
@dataclass(frozen=True, eq=False)
class LanguagePanels:
    """What the figure shows; a panel whose part is empty says that it is not measured yet.

    Attributes:
        losses: Validation loss over the steps, by method.
        differences: The loss of the mixture as a multiple of AdamW's over the steps, seed by seed, by horizon.
        shares: The final loss of the mixture with a share of AdamW's steps, as a multiple of AdamW's, by text.
        over_horizon: The share of the steps that is saved, by the number of steps.
        over_batch: The share of the steps that is saved, by the size of the minibatches.
        parts: The final loss with a part of the mixture alone, as a multiple of AdamW's, by the part.
    """

    losses: Mapping[str, Band] = field(default_factory=dict)
    differences: Mapping[str, Band] = field(default_factory=dict)
    shares: Mapping[str, Mapping[float, Estimate]] = field(default_factory=dict)
    over_horizon: Mapping[int, Estimate] = field(default_factory=dict)
    over_batch: Mapping[int, Estimate] = field(default_factory=dict)
    parts: Mapping[str, Estimate] = field(default_factory=dict)


def language(panels: LanguagePanels, *, caption: str = "", warning: str = "") -> Figure:
    """Where memory pays: losses over the steps, fewer steps, steps saved over horizon and batch size, and parts alone.

    Args:
        panels: What is shown.
        caption: The settings.
        warning: A warning, in red above all panels.

    Example:
        >>> figure = language(LanguagePanels(over_batch={16: Estimate(0.2, 0.1, 0.3), 64: Estimate(-0.1)}))
        >>> [axes.get_title() for axes in figure.axes][4]
        'steps saved over the batch size'
    """
    with sheet((9.6, 5.8), caption, warning) as figure:
        for axes, (name, (draw, title, xlabel, ylabel)) in zip(
            figure.subplots(2, 3).flat, _PANELS.items(), strict=True
        ):
            axes.set_title(title)
            axes.set_xlabel(xlabel, fontsize=8)
            axes.set_ylabel(ylabel, fontsize=8)
            axes.tick_params(labelsize=8)
            if shown := getattr(panels, name):
                draw(axes, shown)
            else:
                axes.text(0.5, 0.5, MISSING, ha="center", va="center", transform=axes.transAxes, color="0.35")
                axes.set(xticks=[], yticks=[])
    return figure


def _losses(axes: Axes, bands: Mapping[str, Band]) -> None:
    _bands(axes, bands)
    # The first evaluation is that of an untrained model, far above the rest.
    late = np.concatenate([band.mean[band.x >= 0.1 * band.x[-1]] for band in bands.values()])
    if np.isfinite(late).any():
        low, high = float(np.nanmin(late)), float(np.nanmax(late))
        axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))


def _differences(axes: Axes, bands: Mapping[str, Band]) -> None:
    # A line of its own, unlike `axhline`, is one that the legend avoids.
    longest = max((band.x for band in bands.values()), key=lambda x: x[-1])
    axes.plot(longest, np.ones(len(longest)), color="0.5", linewidth=0.8)
    _bands(axes, {f"mixture, {name}": band for name, band in bands.items()})


def _bands(axes: Axes, bands: Mapping[str, Band]) -> None:
    for label, look in styles(bands).items():
        band = bands[label]
        axes.plot(band.x, band.mean, label=label, **{**look, "linewidth": 1.5})
        axes.fill_between(band.x, band.low, band.high, color=look["color"], alpha=0.2, linewidth=0)
    thousands(axes.xaxis)
    axes.legend(fontsize=SMALL + 0.5)


def _shares(axes: Axes, texts: Mapping[str, Mapping[float, Estimate]]) -> None:
    axes.axhline(1.0, color="0.5", linewidth=0.8)
    by_label = {f"mixture, {name}": found for name, found in texts.items()}
    for place, (label, look) in enumerate(styles(by_label).items()):
        found = by_label[label]
        x = np.array([*found]) + 0.006 * (place - (len(texts) - 1) / 2)
        _with_intervals(axes, x, found, look, label)
    axes.xaxis.set_major_locator(FixedLocator(sorted({share for found in texts.values() for share in found})))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g}"))
    axes.invert_xaxis()
    axes.legend(fontsize=SMALL + 0.5)


def _saved(axes: Axes, found: Mapping[int, Estimate]) -> None:
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_xscale("log")
    _with_intervals(axes, np.array([*found], dtype=float), found, styles(["mixture"])["mixture"], "")
    axes.set_xlim(min(found) / 1.5, max(found) * 1.5)
    axes.xaxis.set_major_locator(FixedLocator([*found]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.3g} %"))
    axes.yaxis.set_major_locator(MaxNLocator(6))


def _parts(axes: Axes, parts: Mapping[str, Estimate]) -> None:
    axes.axvline(1.0, color="0.5", linewidth=0.8)
    color = styles(["mixture"])["mixture"]["color"]
    for y, found in enumerate(parts.values()):
        if found.has_interval:
            axes.plot([found.low, found.high], [y, y], color=color, linewidth=1.6)
        if np.isfinite(found.value):
            axes.plot([found.value], [y], "^", color=color, markersize=5.5)
        else:
            axes.plot([0.98], [y], "x", color=color, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(parts)), [name.replace(" alone", "\nalone") for name in parts])
    axes.set_ylim(len(parts) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _with_intervals(
    axes: Axes,
    x: NDArray[np.float64],
    found: Mapping[float, Estimate] | Mapping[int, Estimate],
    look: Mapping[str, Any],
    label: str,
) -> None:
    """Markers with their intervals, joined by a line; a cross at the upper edge where a run diverged."""
    value = np.array([each.value for each in found.values()])
    ends = np.array([[each.value - each.low, each.high - each.value] for each in found.values()]).reshape(-1, 2).T
    known = np.isfinite(value)
    style = {**look, "linewidth": 1.2, "markevery": None, "markersize": 5}
    axes.errorbar(x[known], value[known], np.nan_to_num(ends[:, known]), capsize=2.5, label=label or None, **style)
    lost = axes.get_xaxis_transform()
    axes.plot(x[~known], np.full((~known).sum(), 0.98), "x", color=look["color"], transform=lost)


_RATIO, _SAVED = "ratio of final losses, 95 % interval", "share of the steps saved, 95 % interval"
_PANELS: Mapping[str, tuple[Callable[[Axes, Any], None], str, str, str]] = {
    "losses": (_losses, "validation loss, complete runs", "steps", "validation loss (nats)"),
    "differences": (_differences, "mixture / AdamW on the way, paired", "steps", "ratio of losses, 95 % interval"),
    "shares": (_shares, "mixture with fewer steps / AdamW", "share of AdamW's steps", _RATIO),
    "over_horizon": (_saved, "steps saved over the horizon", "steps of both methods", _SAVED),
    "over_batch": (_saved, "steps saved over the batch size", "examples per step (same tokens)", _SAVED),
    "parts": (_parts, "one part of the mixture alone / AdamW", _RATIO, ""),
}
"""How each part of `LanguagePanels` is drawn: its function, title, and the labels of its axes."""
