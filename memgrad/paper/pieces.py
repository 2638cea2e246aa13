"""The part of the paper that needs no data set, in pieces for several processes: a figure and the claims about it."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, final

from memgrad import figures, tables
from memgrad.experiments.training.engines.local import usable_cores
from memgrad.paper import verdicts
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import Verdict
from memgrad.paper.figures import Picture, draw
from memgrad.paper.verdicts import JUDGES

FEW = 3
"""Up to this number of pieces is made in this process: starting others takes seconds."""


@final
@dataclass(frozen=True, eq=False)
class Piece:
    """A figure and the claims that were decided by it.

    Attributes:
        files: The files of the figure by its name, if there is one: pictures, numbers and settings.
        verdicts: The verdicts by the ids of their claims.
    """

    files: Mapping[str, tuple[Path, ...]]
    verdicts: Mapping[str, Verdict]


def make_pieces(names: Iterable[str], out: Path, formats: Sequence[str]) -> Iterator[Piece]:
    """Make figures and decide claims; several processes do it if there are more than a few.

    Args:
        names: Figures and claims that need no data.
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
    """Names grouped into pieces: a figure with the claims that it decides, any other claim alone.

    Example:
        >>> pieces_of(["verif-noise", "odes", "S3", "S4", "S8"])
        (('verif-noise', 'S3'), ('odes',), ('S4',), ('S8',))
    """
    names = tuple(names)
    together: dict[str, tuple[str, ...]] = {}
    for name in names:
        figure = JUDGES[name].figure if name in JUDGES else ""
        first = figure if figure in names else name
        together[first] = (*together.get(first, ()), name)
    return tuple(together.values())


NARROW = "-narrow"
"""The end of the names of files that show a figure with two panels beside each other, for columns and phones."""


def save_picture(
    name: str, picture: Picture, out: Path, formats: Sequence[str], narrow: Picture | None = None
) -> tuple[Path, ...]:
    """Write a figure in all formats, the numbers behind it (.csv) and what it was made with (.json)."""
    paths = [figures.save(picture.figure, out / f"{name}.{ending}") for ending in formats]
    if narrow is not None:
        paths += [figures.save(narrow.figure, out / f"{name}{NARROW}.{ending}") for ending in formats]
    table = tables.write_table(picture.columns, out / f"{name}.csv", about=picture.about())
    return (*paths, table, table.with_suffix(".json"))


def _make(names: Sequence[str], *, out: Path, formats: Sequence[str]) -> Piece:
    files: dict[str, tuple[Path, ...]] = {}
    decided: dict[str, Verdict] = {}
    results: dict[str, Any] = {}  # of the experiments behind figures, for claims about them
    for name in names:
        if name in FIGURES:
            picture = draw(name)
            results[name] = picture.result
            files[name] = save_picture(name, picture, out, formats)
        elif JUDGES[name].figure in results:
            decided[name] = JUDGES[name].decide(results[JUDGES[name].figure])
        else:
            (decided[name],) = verdicts.judge([name])
    return Piece(files, decided)


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the one that waits for the others ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
