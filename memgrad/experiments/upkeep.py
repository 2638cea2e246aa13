"""What a store holds, and what of it is no longer needed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from memgrad.experiments.recipe import MEMORIES
from memgrad.experiments.runs import Run
from memgrad.experiments.store import Damage, Store

_UNFINISHED = re.compile(r"\..+\.\d+\.tmp")


@final
@dataclass(frozen=True)
class Holding:
    """The finished runs of one optimizer on one problem.

    Attributes:
        problem: The problem's name.
        optimizer: The optimizer's name.
        memory: Its memories in text form, if it has any.
        runs: How many runs there are.
        step_sizes: With how many step sizes.
        seeds: With how many seeds.
        diverged: How many of the runs diverged.
    """

    problem: str
    optimizer: str
    memory: str
    runs: int
    step_sizes: int
    seeds: int
    diverged: int


@final
@dataclass(frozen=True)
class Inventory:
    """What a store holds.

    Attributes:
        path: Its folder.
        made_by: The version of memgrad that made it.
        holdings: The finished runs, by problem and optimizer.
        chunks: How many files of rows there are.
        rows: How many rows they have.
        nbytes: The size of all its files.
        checkpoints: The keys of the checkpoints.
        damaged: The files that cannot be read.
    """

    path: Path
    made_by: str
    holdings: tuple[Holding, ...]
    chunks: int
    rows: int
    nbytes: int
    checkpoints: tuple[str, ...]
    damaged: tuple[Damage, ...]

    @property
    def runs(self) -> int:
        """How many runs are finished."""
        return sum(holding.runs for holding in self.holdings)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "path": str(self.path),
            "made_by": self.made_by,
            "runs": self.runs,
            "chunks": self.chunks,
            "rows": self.rows,
            "bytes": self.nbytes,
            "checkpoints": list(self.checkpoints),
            "damaged": [{"path": str(each.path), "reason": each.reason} for each in self.damaged],
            "holdings": [vars(holding) for holding in self.holdings],
        }


@final
@dataclass(frozen=True)
class Waste:
    """A file of a store that is not needed.

    Attributes:
        path: The file.
        reason: Why it is not needed.
        nbytes: Its size.
    """

    path: Path
    reason: str
    nbytes: int


def inventory(store: Store) -> Inventory:
    """What a store holds, without reading rows."""
    headers = store.headers()
    diverged = {digest for header in headers.values() for digest in header.diverged}
    groups: dict[tuple[str, str, str], list[tuple[str, Run]]] = {}
    for digest, run in store.digests().items():
        options = dict(run.recipe.options)
        memory = ", ".join(str(options[name]) for name in MEMORIES if options.get(name))
        groups.setdefault((run.problem, run.recipe.optimizer, memory), []).append((digest, run))
    holdings = [
        Holding(
            *names,
            len(runs),
            len({run.lr for _, run in runs}),
            len({run.seed for _, run in runs}),
            sum(digest in diverged for digest, _ in runs),
        )
        for names, runs in sorted(groups.items())
    ]
    return Inventory(
        store.path,
        store.made_by,
        tuple(holdings),
        len(headers),
        sum(header.rows for header in headers.values()),
        sum(_size(path) for path in store.path.rglob("*")),
        store.checkpoints(),
        store.damaged,
    )


def waste(store: Store, *, keep: Collection[str] | None = None) -> tuple[Waste, ...]:
    """The files of a store that are not needed.

    These are files that a crash left unfinished, damaged chunks, checkpoints whose runs are all finished, and chunks
    all of whose runs are in other chunks too.

    Args:
        store: The store.
        keep: Digests of runs; if given, chunks that have none of them are not needed either.
    """
    return tuple(Waste(path, reason, _size(path)) for path, reason in _unneeded(store, keep))


def clean(store: Store, *, keep: Collection[str] | None = None, dry_run: bool = False) -> tuple[Waste, ...]:
    """Remove what `waste` finds, while nobody else writes; return it.

    Args:
        store: The store.
        keep: Digests of runs; if given, chunks that have none of them are removed too.
        dry_run: Whether to remove nothing.
    """
    with nullcontext() if dry_run else store.writing():
        found = waste(store, keep=keep)
        for each in () if dry_run else found:
            each.path.unlink(missing_ok=True)
    return found


def _unneeded(store: Store, keep: Collection[str] | None) -> Iterator[tuple[Path, str]]:
    for folder in (store.path, *(store.path / name for name in ("chunks", "checkpoints", "problems"))):
        for path in sorted(folder.glob(".*.tmp")):
            if _UNFINISHED.fullmatch(path.name):
                yield path, "unfinished"
    for damage in store.damaged:
        yield damage.path, "damaged"
    finished = store.digests().keys()
    for key in store.checkpoints():
        runs = store.checkpoint_runs(key)
        if runs and finished >= set(runs):
            for ending in (".npz", ".json"):
                yield store.path / "checkpoints" / f"{key}{ending}", "its runs are finished"
    headers = store.headers()
    copies = Counter(digest for header in headers.values() for digest in header.runs)
    for path, header in sorted(
        headers.items(), key=lambda item: len(item[1].runs)
    ):  # a large chunk replaces small ones
        if all(copies[digest] > 1 for digest in header.runs):
            copies.subtract(header.runs.keys())
            yield path, "its runs are in other chunks too"
        elif keep is not None and not header.runs.keys() & set(keep):
            yield path, "none of its runs is to be kept"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a file that was being written
        return 0
