"""The common style of all figures, and saving them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from memgrad.files import written_whole

FORMATS = ("png", "svg", "pdf")
"""The file formats a figure can be saved in."""

ALARM = "#B00000"
"""The color of warnings."""

Panel = TypeVar("Panel")

SMALL = 6.5
"""The font size of settings and notes."""

_UNPRINTED = str.maketrans("", "", "${}\\^_")

EXACT: dict[str, Any] = {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 0.9}
"""The style of exact curves, drawn over simulated or solved ones."""


_SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "memgrad",
}


@contextmanager
def sheet(size: tuple[float, float], caption: str = "", warning: str = "") -> Iterator[Figure]:
    """A figure of a size in inches to draw on, with its settings below the axes and a warning above them.

    The settings are there in small letters, so that a figure always says how it was made.

    Example:
        >>> with sheet((4.0, 3.0), "lr = 0.1") as figure:
        ...     axes = figure.subplots()
        >>> figure.get_supxlabel()
        'lr = 0.1'
    """
    with rc_context(_SETTINGS):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        warn(figure, warning)
        if caption:
            # Small letters are about half as wide as high, and TeX markup is not printed.
            rows = _wrapped(caption, int(size[0] * 72 / (SMALL * 0.52)))
            figure.supxlabel("\n".join(rows), fontsize=SMALL, color="0.35", x=0.01, ha="left")


def warn(figure: Figure, warning: str) -> None:
    """Write a warning above all panels, unless it is empty."""
    if warning:
        figure.suptitle(warning, color=ALARM, fontsize=SMALL + 1.5, fontweight="bold")


def mark_diverged(axes: Axes, x: Any, color: str) -> None:
    """Draw crosses at the upper edge of the axes: there a run diverged."""
    edge = axes.get_xaxis_transform()
    (crosses,) = axes.plot(x, [1.0] * len(x), "x", color=color, transform=edge, clip_on=False)
    crosses.set_in_layout(False)  # they lie at the edge, wherever that will be


def log_ticks(axis: Axis, count: int) -> None:
    """Readable ticks on a logarithmic axis: plain numbers if it spans less than two decades, else powers of ten.

    Over less than two decades they are 1, 2 and 5 times powers of ten, or more of them if these are fewer than three
    within the axis, or evenly spaced if it is short.

    Example:
        >>> axes = Figure().subplots()
        >>> _ = axes.set(yscale="log", ylim=(92, 544))
        >>> log_ticks(axes.yaxis, 4)
        >>> [f"{tick:g}" for tick in axes.get_yticks() if 92 <= tick <= 544]
        ['100', '200', '500']
        >>> _ = axes.set_ylim(0.67, 2.0)
        >>> log_ticks(axes.yaxis, 4)
        >>> [f"{tick:g}" for tick in axes.get_yticks() if 0.67 <= tick <= 2.0]
        ['0.7', '1', '1.5', '2']
    """
    low, high = axis.get_view_interval()
    if high >= 100 * low:
        axis.set_minor_formatter(NullFormatter())
        return
    few: Locator = MaxNLocator(count, steps=[1, 2, 5, 10])
    for digits in ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
        between = LogLocator(subs=digits)
        ticks = between.tick_values(low, high)
        if sum(low <= tick <= high for tick in ticks) >= 3:
            few = between
            break
    axis.set_major_locator(few)
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_locator(NullLocator())


def thousands(axis: Axis) -> None:
    """At most four ticks on an axis of iterations, thousands as k, so that they do not run into each other.

    Example:
        >>> axes = Figure().subplots()
        >>> _ = axes.set_xlim(0, 300_000)
        >>> thousands(axes.xaxis)
        >>> [label.get_text() for label in axes.get_xticklabels()]
        ['0', '100k', '200k', '300k']
    """
    axis.set_major_locator(MaxNLocator(3, steps=[1, 2, 4, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1000:g}k" if abs(x) >= 1000 else f"{x:g}"))


def lines_of_panels(rows: Mapping[str, Iterable[Panel]], across: int | None) -> list[tuple[str, list[Panel]]]:
    """Rows of panels with their labels, as lines of at most `across` panels; None for as many as a row has.

    Example:
        >>> lines_of_panels({"above": "abc", "below": "de"}, 2)
        [('above', ['a', 'b']), ('above', ['c']), ('below', ['d', 'e'])]
    """
    lists = [(name, list(row)) for name, row in rows.items()]
    return [
        (name, row[i : i + (across or len(row))])
        for name, row in lists
        for i in range(0, max(1, len(row)), across or max(1, len(row)))
    ]


def figure_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a figure can be saved in the format of its extension. Call it before anything is computed.

    Example:
        >>> figure_path("memories.pdf").name
        'memories.pdf'
    """
    path = Path(path)
    if path.suffix.removeprefix(".").lower() not in FORMATS:
        raise ValueError(f"a figure is saved as {', '.join(FORMATS)}, by the extension of the file, got {str(path)!r}.")
    return path


def as_label(text: str) -> str:
    r"""A user's name as a label of a figure: mathematics that matplotlib cannot read is shown as plain text.

    Example:
        >>> as_label(r"$\beta$ = 0.9"), as_label("$x_{$")
        ('$\\beta$ = 0.9', '\\$x_{\\$')
    """
    # Characters that cannot be printed: an SVG file that contains them is not valid XML.
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return text.replace("$", r"\$")
    return text


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
    """Write a figure as PNG, SVG or PDF, by the extension of `path`, atomically; return the path.

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
