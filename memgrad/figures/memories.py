"""Figures of memories."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from memgrad.figures.method_styles import styles
from memgrad.figures.style import log_ticks, sheet
from memgrad.memory import (
    CONSTANT,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Exponential,
    Instantaneous,
    Logarithmic,
    Memory,
    Mixture,
    Stretched,
)

PAPER_MEMORIES: Mapping[str, Memory] = MappingProxyType(
    {
        r"decaying, $\log(1+t)$": Logarithmic(),
        r"constant, $t$": CONSTANT,
        r"square-root, $t^{1.5}$": SQUARE_ROOT,
        r"linear, $t^2$": LINEAR,
        r"quadratic, $t^3$": QUADRATIC,
        r"exponential, $e^{t}-1$": Exponential.from_alpha(1.0),
        r"super-exp, $e^{t^{1.5}}-1$": Stretched(1.5),
        "instantaneous": Instantaneous(),
    }
)
"""The rows of the paper's Table 2. It gives no alpha: 1 and 1.5 are ours."""


def memory_types(memories: Mapping[str, Memory] | None = None, *, t: float = 6.0) -> Figure:
    r"""The influence $\dot m(s)/m(t)$ of the gradient at each past time $s$ on the step at time $t$.

    The area under each curve is 1. Instantaneous memory, a Dirac distribution at $s = t$, is an arrow.

    Args:
        memories: The memories, by their label in the legend; those of the paper's Table 2 by default.
        t: The time of the step, finite and > 0.

    Example:
        >>> figure = memory_types(t=6.0)
        >>> len(figure.axes[0].get_legend().get_texts())
        8

    Reference:
        UAI 2019, the figure of memory types. *Differs*: its caption says both t = 5 and m(6); t is 6 (erratum 5).
    """
    memories = PAPER_MEMORIES if memories is None else memories
    line = styles(memories)
    s = np.linspace(0, t, 1201)
    curves = {name: memory.influence(s, t) for name, memory in memories.items() if not _is_dirac(memory)}
    peaks = {name: float(curve[np.isfinite(curve)].max()) for name, curve in curves.items()}
    # A frame as high as the steepest memory would flatten the long ones: its curve may leave the frame.
    top = 1.05 * min(max(peaks.values()), 2.5 * float(np.median(list(peaks.values())))) if peaks else 1.0
    with sheet((6.4, 3.8)) as figure:
        axes = figure.add_subplot(
            xlim=(0, t * 1.03),
            ylim=(0, top),
            xlabel="time $s$ of the gradient",
            ylabel=rf"influence $\dot m(s)/m({t:g})$",
        )
        for name, curve in curves.items():
            label = f"{name} (up to {peaks[name]:.2g})" if peaks[name] > top else name
            axes.plot(s, curve, label=label, **line[name])
        for name, memory in memories.items():
            if _is_dirac(memory):
                arrow = {"arrowstyle": "-|>", "color": line[name]["color"], "linewidth": 1.8}
                axes.annotate("", (t, top), (t, 0), arrowprops=arrow)
                axes.plot([], [], color=line[name]["color"], label=f"{name}, an impulse at $s={t:g}$")
        axes.axvline(t, color="0.8", linewidth=0.8, zorder=0)
        axes.legend(loc="best")
    return figure


SPAN = 1e-6
"""How small a weight is drawn, relative to the largest."""


def mixture_weights(mixtures: Mapping[str, Memory | Mixture], *, k: int) -> Figure:
    r"""The weights $w(j,k)$ of all gradients $j = 0, \dots, k$ in step $k$, with their sum, the gain, in the legend.

    The newest gradient is on the left, at the age 0. The axis of the weights is logarithmic if the smallest that matter
    would be invisible beside the largest.

    Args:
        mixtures: Memories and mixtures, by their label in the legend.
        k: The step, counted from 0.

    Example:
        >>> figure = mixture_weights({"Nesterov": Mixture.parse("inst + 0.9*sum*exp:0.9")}, k=100)
        >>> figure.legends[0].get_texts()[0].get_text()
        'Nesterov (gain 10)'
    """
    if not mixtures:
        raise ValueError("mixture_weights needs at least one memory or mixture to draw, got none.")
    line = styles(mixtures, markers=False)
    weights = {name: Mixture.of(mixture).weights(k)[::-1] for name, mixture in mixtures.items()}
    largest = max(float(each.max()) for each in weights.values())
    # Weights within a factor of ten are compared by their lengths, all others by their ratios.
    positive = np.concatenate([each[each > SPAN * largest] for each in weights.values()])
    is_log = positive.min() < largest / 10
    with sheet((6.4, 3.8)) as figure:
        axes = figure.add_subplot(xlabel="age of the gradient, in steps", ylabel=f"its weight $w(j, {k})$ in step {k}")
        for name, each in weights.items():
            shown = np.where(each > SPAN * largest, each, np.nan) if is_log else each
            label = f"{name} (gain {each.sum():.4g})"
            # A single point, as for `inst`, is not a line, and may lie next to points of the same color.
            is_point = np.isfinite(shown).sum() == 1
            point: dict[str, Any] = {"marker": "o", "markersize": 6, "markerfacecolor": "white"}
            marks = point if is_point else {"marker": "o" if k < 30 else "", "markersize": 3.5}
            axes.plot(np.arange(k + 1), shown, label=label, **marks, **line[name])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if is_log:
            axes.set(yscale="log", ylim=(max(SPAN * largest, positive.min()) / 1.5, 1.5 * largest))
            log_ticks(axes.yaxis, 5)
        else:
            axes.set_ylim(0, 1.05 * largest)
        figure.legend(loc="outside upper center", ncols=2)
    return figure


def _is_dirac(memory: Memory) -> bool:
    return isinstance(memory, Instantaneous)
