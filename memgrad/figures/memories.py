"""Memories, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from matplotlib.figure import Figure

from memgrad.figures.style import drawing, lines
from memgrad.memory import (
    CONSTANT,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Exponential,
    Instantaneous,
    Logarithmic,
    Memory,
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
        memories: What to draw, by the label in the legend; the paper's Table 2 unless given.
        t: The time of the step, finite and > 0.

    Example:
        >>> figure = memory_types(t=6.0)
        >>> len(figure.axes[0].get_legend().get_texts())
        8

    Reference:
        UAI 2019, the figure of memory types. *Differs*: its caption says both t = 5 and m(6); t is 6 (erratum 5).
    """
    memories = PAPER_MEMORIES if memories is None else memories
    line = dict(zip(memories, lines(), strict=False))
    s = np.linspace(0, t, 1201)
    curves = {name: memory.influence(s, t) for name, memory in memories.items() if not _is_dirac(memory)}
    peaks = {name: float(curve[np.isfinite(curve)].max()) for name, curve in curves.items()}
    # A frame as high as the steepest memory would flatten the long ones: its curve may leave the frame.
    top = 1.05 * min(max(peaks.values()), 2.5 * float(np.median(list(peaks.values())))) if peaks else 1.0
    with drawing():
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
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


def _is_dirac(memory: Memory) -> bool:
    return isinstance(memory, Instantaneous)
