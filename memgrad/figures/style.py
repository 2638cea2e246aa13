"""How all figures look, and how they are saved."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from memgrad.files import written_whole

FORMATS = ("png", "svg", "pdf")
"""The file formats a figure can be saved in."""

# Okabe and Ito's colours, told apart by all common kinds of colour vision; the dashes tell them apart in print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#999999")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), "-", "--")


ALARM = "#B00000"
"""The colour of warnings."""

DECADE = 10.0

SMALL = 6.5
"""The size of the letters of settings and notes."""

_UNPRINTED = str.maketrans("", "", "${}\\^_")

EXACT: dict[str, Any] = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 0.9}
"""Curves that are computed exactly, laid over what was simulated or solved."""


def lines() -> Iterator[dict[str, Any]]:
    """The colour, dash and width of one curve after the other."""
    return ({"color": c, "linestyle": d, "linewidth": 1.8} for c, d in cycle(zip(COLOURS, DASHES, strict=True)))


def drawing() -> AbstractContextManager[None]:
    """The settings under which figures are made."""
    return rc_context(
        {
            "font.size": 9,
            "axes.titlesize": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
            "svg.hashsalt": "memgrad",
        }
    )


def warn(figure: Figure, warning: str) -> None:
    """Write what must not be overlooked above all panels, if there is anything."""
    if warning:
        figure.suptitle(warning, color=ALARM, fontsize=SMALL + 1.5, fontweight="bold")


def plain_ticks(axis: Axis, count: int) -> None:
    """A few plain numbers on a logarithmic axis that spans less than a decade, where powers of ten are hard to read.

    Example:
        >>> axes = Figure().subplots()
        >>> _ = axes.set(yscale="log", ylim=(0.7, 2.3))
        >>> plain_ticks(axes.yaxis, 4)
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['0.5', '1', '1.5', '2', '2.5']
    """
    axis.set_major_locator(MaxNLocator(count, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_locator(NullLocator())


def figure_path(path: str | os.PathLike[str]) -> Path:
    """The path, if its ending is a format a figure can be saved in: to be asked before anything is computed.

    Example:
        >>> figure_path("memories.pdf").name
        'memories.pdf'
    """
    path = Path(path)
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        raise ValueError(f"a figure is saved as {', '.join(FORMATS)}, by its file's ending, got {str(path)!r}.")
    return path


def settings_below(figure: Figure, caption: str) -> None:
    """Write the settings under the axes in small letters, so that a figure says how it was made wherever it goes."""
    if not caption:
        return
    # Small letters are about half as wide as they are high, and marks of mathematics are not printed.
    width = int(figure.get_figwidth() * 72 / (SMALL * 0.52))
    figure.supxlabel("\n".join(_wrapped(caption, width)), fontsize=SMALL, color="0.35", x=0.01, ha="left")


def _wrapped(text: str, width: int) -> list[str]:
    """Lines broken between settings, at commas, and never inside a formula."""
    rows = [""]
    for part in text.split(", "):
        longer = f"{rows[-1]}, {part}" if rows[-1] else part
        if rows[-1] and len(longer.translate(_UNPRINTED)) > width:
            rows[-1] += ","
            rows.append(part)
        else:
            rows[-1] = longer
    return rows


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, SVG or PDF, by the ending of `path`, whole or not at all; return the path.

    Example:
        >>> import tempfile
        >>> from memgrad.figures import memory_types
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(memory_types(), Path(folder) / "memory_types.svg").stat().st_size > 1000
        True
    """
    path = figure_path(path)
    ending = path.suffix.removeprefix(".").lower()
    # Without a date the same figure is the same file.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
    with written_whole(path) as unfinished, rc_context({"svg.hashsalt": "memgrad"}):
        figure.savefig(unfinished, format=ending, dpi=200, metadata=metadata)
    return path
