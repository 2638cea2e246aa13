"""One color, marker and line style for each method, in all figures, the report, the explorer and the documentation.

The colors of methods that are shown together can be told apart by readers with protanopia, deuteranopia or tritanopia;
in gray, line styles and markers tell them apart. A color stands for what is remembered, so methods of the two families
that have the same memory share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from typing import Any, final


@final
@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Attributes:
        color: Its color, as `#rrggbb`.
        marker: Its marker, in matplotlib's notation.
        dash: Lengths of ink and gaps in turn, in line widths; empty for a solid line.
        names: The beginnings of labels that mean this method, in addition to its name in the table. TeX markup, commas
            and case are ignored. A name that ends in a colon matches every label that begins with it.
    """

    color: str
    marker: str
    dash: tuple[float, ...] = ()
    names: tuple[str, ...] = ()


BLUE, ORANGE, INDIGO, GREEN, PINK = "#0072B2", "#E69F00", "#4B22A8", "#009466", "#DB94AC"
SKY, RUST, BROWN, LIME, BLACK = "#6CC4F8", "#B85410", "#5E3410", "#A8B820", "#000000"

PLAIN: Mapping[str, Look] = MappingProxyType(
    {
        "SGD": Look(BLUE, "o", (), ("GD", "inst", "instantaneous", "gradient flow")),
        "HB": Look(ORANGE, "s", (3.7, 1.6), ("HeavyBall", "heavy ball", "heavy-ball", "momentum", "SGD momentum")),
        "Nesterov": Look(INDIGO, "D", (8, 2), ("NAG", "Nesterov's", "3/t")),
        # Figures that show one memory beside methods without it take the color of linear memory for it.
        "MemSGD p=2": Look(
            GREEN, "^", (6.4, 1.6, 1, 1.6), ("MemSGD poly:2", "poly:2", "linear", "memory", "mixture", "MG")
        ),
        "MemSGD p=4": Look(PINK, "P", (1, 1.65), ("MemSGD poly:4", "poly:4", "cubic")),
        "MemSGD p=100": Look(SKY, "v", (5, 1), ("MemSGD poly:100", "poly:100")),
        "MemSGD p=e": Look(RUST, "*", (3, 1, 1, 1), ("MemSGD exp:", "exp:", "exponential")),
    }
)
"""Methods that average gradients."""

ADAPTIVE: Mapping[str, Look] = MappingProxyType(
    {
        "Adam": Look(RUST, "p", (), ("AdamW",)),
        "Adagrad": Look(BLACK, "X", (3.7, 1.6), ("Adagrad's",)),
        "PolyAdam p=1": Look(BROWN, "<", (6.4, 1.6, 1, 1.6)),
        "PolyAdam p=2": Look(GREEN, ">", (1, 1.65)),
        "PolyAdam p=4": Look(PINK, "d", (5, 1)),
        "PolyAdam p=10": Look(LIME, "h", (3, 1, 1, 1)),
        "PolyAdam p=100": Look(SKY, "8", (8, 2)),
    }
)
"""Methods that divide by an average of squared gradients."""

METHODS: Mapping[str, Look] = MappingProxyType({**PLAIN, **ADAPTIVE})
"""The look of each method, by its name in the paper's experiments."""

# For labels that are not methods: first the colors that the fewest methods have.
_SPARE = tuple(METHODS[f"PolyAdam p={p}"] for p in (1, 10)) + tuple(
    METHODS[name] for name in ("Adagrad", "MemSGD p=4", "MemSGD p=100", "HB", "Nesterov", "MemSGD p=e", "SGD")
)
_REPEATED = ((1, 1), (2, 2), (1, 3), (4, 4))


def look_of(label: str) -> Look | None:
    """The look of the method that a label begins with, or None if it is not in the table.

    Example:
        >>> look_of("HB, best lr") == look_of("heavy ball") == METHODS["HB"]
        True
        >>> look_of("MemSGD, $p=2$").color, look_of("MemSGD p=20")
        ('#009466', None)
    """
    plain = _plain(label)
    found = [
        (len(name), look)
        for method, look in METHODS.items()
        for name in (method, *look.names)
        if re.match(re.escape(_plain(name)) + ("" if name.endswith(":") else r"(?![\w.:])"), plain)
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def styles(labels: Iterable[str], *, markers: bool = True) -> dict[str, dict[str, Any]]:
    """Arguments of matplotlib's `plot` for each label: the look of its method, or one that is not yet in the figure.

    A further label of the same method has the same color, another line style and an open marker.

    Args:
        labels: The labels of all curves of a figure.
        markers: Whether to put a few markers on the curves.

    Example:
        >>> both = styles(["SGD", "mine"])
        >>> both["SGD"]["color"] == METHODS["SGD"].color != both["mine"]["color"]
        True
    """
    labels = list(dict.fromkeys(labels))
    known = {label: look for label in labels if (look := look_of(label)) is not None}
    colors = {look.color for look in known.values()}
    spare = cycle([look for look in _SPARE if look.color not in colors] or _SPARE)
    seen: list[Look] = []
    found = {}
    for place, label in enumerate(labels):
        look = known[label] if label in known else next(spare)
        times = seen.count(look)
        seen.append(look)
        found[label] = _arguments(look, times, place, markers)
    return found


def lines() -> Iterator[dict[str, Any]]:
    """Arguments of `plot` for curves that are not methods, one after the other."""
    return cycle([_arguments(look, 0, 0, False) for look in PLAIN.values()])


def _arguments(look: Look, times: int, place: int, markers: bool) -> dict[str, Any]:
    dash = look.dash if times == 0 else _REPEATED[(times - 1) % len(_REPEATED)]
    line = {"color": look.color, "linestyle": (0, dash) if dash else "-", "linewidth": 1.8}
    if not markers:
        return line
    # Five markers along a curve, with those of other curves between them.
    open_face = {"markerfacecolor": "white"} if times else {}
    return {**line, "marker": look.marker, "markersize": 4.5, "markevery": (0.03 * (place % 7), 0.22), **open_face}


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[${}\\,]", "", text)).strip().lower()
