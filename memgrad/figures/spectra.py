"""Figures of the measured spectrum of a problem."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad.experiments.measuring.measure import Measured
from memgrad.figures.method_styles import BLUE, ORANGE
from memgrad.figures.style import EXACT, sheet


def measured_spectrum(measured: Measured) -> Figure:
    """The largest eigenvalues and the counts by quadrature over the index, and the loss curve, with their power laws.

    Args:
        measured: What `memgrad.experiments.measuring.measure.measure` found.
    """
    curve = len(measured.curve_k) > 0
    words = f"{measured.problem}, {measured.matrix}, {measured.rows} examples, after {measured.steps} steps"
    words += f", lr = {measured.lr:.3g}, batch {measured.batch_size}"
    with sheet((7.6 if curve else 4.4, 3.6), words) as figure:
        panels = figure.subplots(1, 2 if curve else 1, squeeze=False)[0]
        _draw_spectrum(panels[0], measured)
        if curve:
            _draw_curve(panels[1], measured)
    return figure


def _draw_spectrum(axes: Axes, measured: Measured) -> None:
    axes.set(xlabel="index $j$", ylabel=r"eigenvalue $\lambda_j$", xscale="log", yscale="log")
    shown = (measured.density_counts >= 0.5) & (measured.density_counts < 0.999 * measured.dimension)
    low, high = (np.maximum(end[shown], 0.3) for end in (measured.density_low, measured.density_high))
    at = measured.density_at[shown]
    axes.fill_betweenx(at, low, high, color=ORANGE, alpha=0.25, linewidth=0)
    axes.plot(measured.density_counts[shown], at, color=ORANGE, label="quadrature, 95 %")
    top = measured.eigenvalues
    index = np.arange(1, len(top) + 1)
    axes.plot(index, top, "o", color=BLUE, markersize=3, label="eigenvalues")
    nu = measured.nu
    if np.isfinite(nu.value):
        scale = np.exp(np.mean(np.log(top) + nu.value * np.log(index)))
        line = scale * index**-nu.value
        text = rf"$\nu$ = {nu.value:.2f} [{nu.low:.2f}, {nu.high:.2f}]"
        axes.plot(index, line, label=text, **EXACT)
    axes.legend(fontsize=7.5)


def _draw_curve(axes: Axes, measured: Measured) -> None:
    axes.set(xlabel="step $k$", ylabel="loss", xscale="log", yscale="log")
    axes.plot(measured.curve_k, measured.curve_loss, color=BLUE, label="SGD")
    zeta = measured.zeta
    if np.isfinite(zeta.value):
        late = measured.curve_k >= measured.curve_k[-1] / 30
        k = measured.curve_k[late]
        above = np.maximum(measured.curve_loss[late] - measured.floor, 1e-300)
        scale = np.exp(np.mean(np.log(above) + zeta.value * np.log(k)))
        text = rf"$\zeta$ = {zeta.value:.2f}" + (f" [{zeta.low:.2f}, {zeta.high:.2f}]" if zeta.has_interval else "")
        text += f", floor {measured.floor:.2g}"
        axes.plot(k, measured.floor + scale * k**-zeta.value, label=text, **EXACT)
    axes.legend(fontsize=7.5)
