"""Figures of the lemma behind the linear rate."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from memgrad.figures.method_styles import lines
from memgrad.figures.style import SMALL, sheet

if TYPE_CHECKING:
    from memgrad.theory import GammaBounds


def gamma_curve(bounds: GammaBounds, *, caption: str = "") -> Figure:
    r"""How large $\gamma$ may be for each $\beta$, and the two simple bounds that the paper uses in its place.

    Args:
        bounds: The curve and its bounds, from `memgrad.theory.gamma_bounds`.
        caption: The settings.

    Example:
        >>> from memgrad.theory import gamma_bounds
        >>> len(gamma_curve(gamma_bounds([1.0, 2.0, 9.0], tau=0.5, mu=10)).axes[0].lines)
        4

    Reference:
        UAI 2019, Fig. bound_beta. *Differs*: the bounds meet at 3.162, not at 3.13 (erratum 35).
    """
    curve, first, second = islice(lines(), 3)
    beta, (peak, height) = bounds.beta, bounds.peak
    with sheet((4.6, 3.1), caption) as figure:
        axes = figure.add_subplot(
            xlim=(0, float(beta.max())), ylim=(0, 1.6 * height), xlabel=r"$\beta$", ylabel=r"largest $\gamma$"
        )
        axes.plot(beta, bounds.curve, label=r"$\tau\beta/(1+\beta^2/\tilde\mu)$", **curve)
        axes.plot(beta, bounds.linear, label=r"$\tau\beta/2$", **first)
        axes.plot(beta, bounds.hyperbola, label=r"$\tau\tilde\mu/(2\beta)$", **second)
        axes.plot(peak, height, "o", color="black", markersize=4)
        axes.annotate(
            rf"$\beta=\sqrt{{\tilde\mu}}={peak:.3f}$",
            (peak, height),
            (22, 8),
            textcoords="offset points",
            fontsize=SMALL + 1,
        )
        axes.legend(loc="upper right", fontsize=SMALL + 1)
    return figure


def gamma_region(bounds: GammaBounds, alpha: float, *, caption: str = "") -> Figure:
    r"""The feasible region of the rate $\gamma$, its best point for a viscosity $\alpha$, and the paper's simpler one.

    Args:
        bounds: The curve and its bounds, from `memgrad.theory.gamma_bounds`.
        alpha: The viscosity.
        caption: The settings.

    Example:
        >>> from memgrad.theory import gamma_bounds
        >>> bounds = gamma_bounds([1.0, 2.0, 9.0], tau=0.5, mu=10)
        >>> [text.get_text() for text in gamma_region(bounds, 2.5).axes[0].get_legend().get_texts()][-2:]
        ['optimal, $\\gamma$ = 0.683', 'approximate, $\\gamma$ = 0.5']

    Reference:
        UAI 2019, Fig. bound_beta_2.
    """
    curve, first, second = islice(lines(), 3)
    beta, height = bounds.beta, bounds.peak[1]
    best, simple = bounds.solution(alpha, tight=True), bounds.solution(alpha, tight=False)
    with sheet((4.9, 3.4), caption) as figure:
        axes = figure.add_subplot(
            xlim=(0, float(beta.max())), ylim=(0, 1.75 * height), xlabel=r"$\beta$", ylabel=r"$\gamma$"
        )
        axes.fill_between(beta, bounds.curve, color=curve["color"], alpha=0.15, linewidth=0, label="feasible")
        hatched: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.6", "hatch": "////", "linewidth": 0}
        axes.fill_between(beta, bounds.lower, label="feasible, simplified", **hatched)
        axes.plot(beta, bounds.curve, **curve)
        axes.plot(beta, bounds.lower, **first)
        axes.plot([0, alpha], [alpha, 0], label=rf"$\gamma=\alpha-\beta$, $\alpha={alpha:g}$", **second)
        axes.plot(*best, "o", color="black", markersize=5, label=rf"optimal, $\gamma$ = {best[1]:.3g}")
        square: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": "black", "markersize": 5}
        axes.plot(*simple, "s", label=rf"approximate, $\gamma$ = {simple[1]:.3g}", **square)
        axes.legend(loc="upper right", fontsize=SMALL + 0.5, ncols=2)
    return figure


def default_betas(mu: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    r"""Weights $\beta$ on both sides of $\sqrt{\tilde\mu}$, for a drawing.

    Example:
        >>> default_betas(4.0)[-1]
        np.float64(8.0)
    """
    return np.linspace(0, 4 * np.sqrt(mu), 1601)[1:]
