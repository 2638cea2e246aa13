"""What of the paper needs no data set, in pieces that processes share: a figure, and the claims that it shows."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, final

from matplotlib.figure import Figure

from memgrad import figures, tables
from memgrad.experiments.engines.local import usable_cores
from memgrad.paper import verdicts
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import Verdict
from memgrad.paper.figures import Columns, draw

FEW = 3
"""So many pieces are made here: to start processes takes seconds."""

SHOWN_BY: Mapping[str, tuple[str, Callable[[Any], Verdict]]] = MappingProxyType(
    {
        "S1": ("p-verification", verdicts.s1),
        "S2": ("p-verification", verdicts.s2),
        "S3": ("verif-noise", verdicts.s3),
        "S4": ("verif-noise-quadratic", verdicts.s4),
        "S7": ("odes", verdicts.s7),
    }
)
"""The claims that are decided by what a figure shows: the experiment is run once for both."""


@final
@dataclass(frozen=True, eq=False)
class Piece:
    """What was made together.

    Attributes:
        files: The files of the figure by its name, if there is one: pictures, numbers and settings.
        verdicts: The verdicts by the ids of their claims.
    """

    files: Mapping[str, tuple[Path, ...]]
    verdicts: Mapping[str, Verdict]


class Picture(Protocol):
    """A figure with the table behind it."""

    @property
    def figure(self) -> Figure:
        """The picture."""

    @property
    def columns(self) -> Columns:
        """The numbers in it."""

    def about(self) -> dict[str, Any]:
        """What it was made with, as plain data."""


def make_pieces(names: Iterable[str], out: Path, formats: Sequence[str]) -> Iterator[Piece]:
    """Make figures and decide claims; several processes do it if there are more than a few.

    Args:
        names: Figures of `memgrad.paper.catalogue.FIGURES`, and claims that need no data.
        out: The folder for the files.
        formats: The formats of the figures.
    """
    todo = pieces_of(names)
    make = partial(_make, out=out, formats=tuple(formats))
    workers = min(usable_cores(), len(todo))
    if len(todo) <= FEW or workers < 2:
        yield from map(make, todo)
        return
    with get_context("spawn").Pool(workers, initializer=_ignore_interrupts) as pool:
        yield from pool.imap_unordered(make, todo)


def pieces_of(names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Names that are made together: a figure with the claims that it shows, any other claim alone.

    Example:
        >>> pieces_of(["verif-noise", "odes", "S3", "S4", "S8"])
        (('verif-noise', 'S3'), ('odes',), ('S4',), ('S8',))
    """
    names = tuple(names)
    together: dict[str, tuple[str, ...]] = {}
    for name in names:
        figure = SHOWN_BY[name][0] if name in SHOWN_BY else ""
        first = figure if figure in names else name
        together[first] = (*together.get(first, ()), name)
    return tuple(together.values())


def save_picture(name: str, drawn: Picture, out: Path, formats: Sequence[str]) -> tuple[Path, ...]:
    """Write a figure in all formats, the numbers behind it (.csv) and what it was made with (.json)."""
    paths = [figures.save(drawn.figure, out / f"{name}.{ending}") for ending in formats]
    table = tables.write_table(drawn.columns, out / f"{name}.csv", about=drawn.about())
    return (*paths, table, table.with_suffix(".json"))


def _make(names: Sequence[str], *, out: Path, formats: Sequence[str]) -> Piece:
    files: dict[str, tuple[Path, ...]] = {}
    found: dict[str, Verdict] = {}
    shown: dict[str, Any] = {}  # what the experiments behind figures returned, for claims about them
    for name in names:
        if name in FIGURES:
            drawn = draw(name)
            shown[name] = drawn.result
            files[name] = save_picture(name, drawn, out, formats)
        else:
            figure, decide = SHOWN_BY.get(name, ("", None))
            seen = shown.get(figure)
            (found[name],) = [decide(seen)] if decide is not None and seen is not None else verdicts.judge([name])
    return Piece(files, found)


def _ignore_interrupts() -> None:
    """Ctrl-C goes to all processes of a terminal; whoever waits for them hears it and ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
