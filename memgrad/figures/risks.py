"""Figures of exact risks on power-law problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from memgrad.figures.method_styles import styles
from memgrad.figures.style import sheet
from memgrad.kinds import Array
from memgrad.statistics import Estimate


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """A risk over the steps.

    Attributes:
        k: The steps; 0 is not drawn, because the axis is logarithmic.
        risk: The risk at each.
        exponent: The exponent of the last stretch, written into the legend.
    """

    k: NDArray[Any]
    risk: Array
    exponent: Estimate | None = None


def risk_curves(curves: Mapping[str, Curve], *, slopes: Mapping[str, float] | None = None, caption: str = "") -> Figure:
    """Risks over the steps on logarithmic axes, with their exponents in the legend, and lines of predicted slopes.

    Args:
        curves: What to draw, by its label.
        slopes: Exponents for thin straight lines, by what is written at them.
        caption: The settings.

    Example:
        >>> k = np.arange(1, 101)
        >>> figure = risk_curves({"inst": Curve(k, k**-0.5, Estimate(0.5))}, slopes={"zeta": 0.5})
        >>> figure.axes[0].get_xscale(), len(figure.axes[0].lines)
        ('log', 2)
    """
    with sheet((6.4, 5.2), caption) as figure:
        axes = figure.add_subplot(xlabel="step $k$", ylabel="excess risk", xscale="log", yscale="log")
        finite = []
        for label, look in styles(curves, markers=False).items():
            curve, k = curves[label], np.asarray(curves[label].k)
            drawn = (k > 0) & np.isfinite(curve.risk)
            falls = curve.exponent is not None and curve.exponent.value > 0
            text = f"{label}: $k^{{-{curve.exponent.value:.3f}}}$" if curve.exponent and falls else label
            axes.plot(k[drawn], curve.risk[drawn], label=text, **look)
            finite.append((k[drawn], curve.risk[drawn]))
        # What grows beyond the first risk leaves the axes.
        axes.set_ylim(top=1.5 * max((risk[0] for _, risk in finite if len(risk)), default=1.0))
        _fan(axes, finite, slopes or {})
        figure.legend(loc="outside upper center", ncols=2, fontsize=7.5)
    return figure


def _fan(axes: Axes, curves: Sequence[tuple[NDArray[Any], Array]], slopes: Mapping[str, float]) -> None:
    """Straight lines from one point below all curves, to compare their slopes with."""
    last = max((k[-1] for k, risk in curves if len(risk)), default=10)
    begin = last / 20
    lowest = min((float(np.interp(begin, k, risk)) for k, risk in curves if len(risk)), default=1.0)
    for text, exponent in slopes.items():
        axes.plot([begin, last], [lowest / 5, lowest / 5 * 20**-exponent], color="0.45", linewidth=0.8)
        axes.annotate(text, (last, lowest / 5 * 20**-exponent), fontsize=7.5, color="0.3", va="center")


def risk_map(
    final: Array, x: Array, y: Array, *, xlabel: str, ylabel: str, marks: Mapping[str, float] | None = None,
    diverged_at: NDArray[Any] | None = None, caption: str = "",
) -> Figure:  # fmt: skip
    """Final risks over two settings as colors; settings that diverged are hatched, and the best is marked.

    Args:
        final: The risks, shape (len(y), len(x)); not finite where a run diverged.
        x: The values along the horizontal axis, such as kappas.
        y: The values along the vertical, logarithmic axis, such as learning rates.
        xlabel: Their label.
        ylabel: Their label.
        marks: Vertical lines at values of x, by what is written at them.
        diverged_at: The step at which each diverged, of which the earliest and the latest are named.
        caption: The settings.

    Example:
        >>> final = np.array([[1.0, 2.0], [0.5, np.inf]])
        >>> figure = risk_map(final, np.array([0.5, 1.0]), np.array([0.1, 0.2]), xlabel="kappa", ylabel="lr")
        >>> figure.axes[0].get_yscale()
        'log'
    """
    values = np.where(np.isfinite(final), final, np.nan)
    best = np.unravel_index(np.nanargmin(values), values.shape)
    star = x[best[1]], y[best[0]]
    words = f"star: {xlabel} = {star[0]:.3g}, {ylabel} = {star[1]:.3g}, {caption}"
    left, low = _borders(x), np.exp(_borders(np.log(y)))
    with sheet((6.4, 4.4), words) as figure:
        axes = figure.add_subplot(xlabel=xlabel, ylabel=ylabel, yscale="log")
        axes.set_facecolor("0.88")
        norm = LogNorm(np.nanmin(values), min(np.nanmax(values), 100 * np.nanmin(values)))
        mesh = axes.pcolormesh(left, low, values, norm=norm, cmap="viridis_r")
        for i, j in np.argwhere(np.isnan(values)):
            size = left[j + 1] - left[j], low[i + 1] - low[i]
            axes.add_patch(Rectangle((left[j], low[i]), *size, hatch="////", facecolor="0.88", linewidth=0))
        axes.plot(*star, "*", color="white", markeredgecolor="black", markersize=13)
        for text, place in (marks or {}).items():
            axes.axvline(place, color="black", linewidth=0.9, linestyle=(0, (4, 2)))
            axes.annotate(text, (place, 1.0), xycoords=("data", "axes fraction"), fontsize=8, ha="center", va="bottom")
        figure.colorbar(mesh, ax=axes, label="final excess risk", extend="max")
        said = "diverged"
        if diverged_at is not None and (diverged_at >= 0).any():
            steps = diverged_at[diverged_at >= 0]
            said = f"diverged, at steps {steps.min():,} to {steps.max():,}"
        hatched = Patch(facecolor="0.88", hatch="////", label=said)
        figure.legend(handles=[hatched], loc="outside upper right", fontsize=8)
    return figure


def _borders(values: Array) -> Array:
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])
