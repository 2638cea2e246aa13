"""Pictures of memories: values in, matplotlib figures out. Nothing is run or stored here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from types import MappingProxyType

import numpy as np

from memgrad.extras import require
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

require("memgrad.figures", extra="lab", modules=("matplotlib",))

from matplotlib import rc_context  # noqa: E402  # after the check, so that a missing matplotlib is named
from matplotlib.figure import Figure  # noqa: E402

FORMATS = ("png", "svg", "pdf")
"""The file formats a figure can be saved in."""

# Okabe and Ito's colours, told apart by all common kinds of colour vision; the dashes tell them apart in print.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#999999")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), "-", "--")

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
    colours = dict(zip(memories, cycle(_COLOURS), strict=False))
    dashes = dict(zip(memories, cycle(_DASHES), strict=False))
    s = np.linspace(0, t, 1201)
    curves = {name: memory.influence(s, t) for name, memory in memories.items() if not _is_dirac(memory)}
    peaks = {name: float(curve[np.isfinite(curve)].max()) for name, curve in curves.items()}
    # A frame as high as the steepest memory would flatten the long ones: its curve may leave the frame.
    top = 1.05 * min(max(peaks.values()), 2.5 * float(np.median(list(peaks.values())))) if peaks else 1.0
    with rc_context({"font.size": 9, "svg.hashsalt": "memgrad"}):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.add_subplot(
            xlim=(0, t * 1.03),
            ylim=(0, top),
            xlabel="time $s$ of the gradient",
            ylabel=rf"influence $\dot m(s)/m({t:g})$",
        )
        for name, curve in curves.items():
            label = f"{name} (up to {peaks[name]:.2g})" if peaks[name] > top else name
            axes.plot(s, curve, label=label, linewidth=1.8, color=colours[name], linestyle=dashes[name])
        for name, memory in memories.items():
            if _is_dirac(memory):
                arrow = {"arrowstyle": "-|>", "color": colours[name], "linewidth": 1.8}
                axes.annotate("", (t, top), (t, 0), arrowprops=arrow)
                axes.plot([], [], color=colours[name], label=f"{name}, an impulse at $s={t:g}$")
        axes.axvline(t, color="0.8", linewidth=0.8, zorder=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="best")
    return figure


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, SVG or PDF, by the ending of `path`, whole or not at all; return the path.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(memory_types(), Path(folder) / "memory_types.svg").stat().st_size > 1000
        True
    """
    path = Path(path)
    ending = path.suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise ValueError(f"a figure is saved as {', '.join(FORMATS)}, by its file's ending, got {str(path)!r}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Its name tells whose it is, should the disk be full or the folder not writable.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    # Without a date the same figure is the same file.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
    try:
        with rc_context({"svg.hashsalt": "memgrad"}):
            figure.savefig(unfinished, format=ending, dpi=200, metadata=metadata)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _is_dirac(memory: Memory) -> bool:
    return isinstance(memory, Instantaneous)
