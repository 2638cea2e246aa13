"""What a store holds, which of its files are no longer needed, and rows copied from store to store."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from memgrad.experiments.planning.recipe import MEMORIES
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.storing.chunk import TIMES, Header
from memgrad.experiments.storing.store import Damage, Store
from memgrad.files import written_whole

_UNFINISHED = re.compile(r"\..+\.\d+\.tmp")


@final
@dataclass(frozen=True)
class Holding:
    """The finished runs of one optimizer, with its memories in text form, on one problem: how many there are."""

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
    """What a store holds: finished runs, numbers of chunks and rows, size, keys of checkpoints and damaged files.

    `made_by` is the version of memgrad that made it.
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
        """The number of finished runs."""
        return sum(holding.runs for holding in self.holdings)

    def to_dict(self) -> dict[str, Any]:
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
    """A file of a store that is not needed, why, and its size."""

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


def clean(store: Store, *, keep: Collection[str] | None = None, dry_run: bool = False) -> tuple[Waste, ...]:
    """Remove the files of a store that are not needed, with the store locked, and return them.

    These are incomplete files left by a crash, damaged chunks, checkpoints whose runs are all finished, and chunks
    all of whose runs are also in other chunks.

    Args:
        store: The store.
        keep: Digests of runs; if given, the rows of all others are removed too.
        dry_run: If true, nothing is removed.
    """
    with nullcontext() if dry_run else store.writing():
        mixed = [] if keep is None else [path for path, kept in _shares(store, keep).items() if 0 < kept < 1]
        found = tuple(Waste(path, reason, _size(path)) for path, reason in _unneeded(store, keep))
        if not dry_run:
            for each in found:
                each.path.unlink(missing_ok=True)
            store.merge([[path] for path in mixed if path.exists()], keep=keep)
    return (*found, *(Waste(path, "some of its runs are not to be kept", 0) for path in mixed))


def _shares(store: Store, keep: Collection[str]) -> dict[Path, float]:
    """The share of each chunk's runs that are to be kept."""
    wanted = set(keep)
    return {path: len(header.runs.keys() & wanted) / len(header.runs) for path, header in store.headers().items()}


def merge_alike(store: Store) -> tuple[int, int]:
    """Merge chunks that were made alike, with the store locked; return how many were merged, and into how many.

    These are chunks of one problem and number of steps, by the same version and commit on the same machine. A sweep of
    runs that are trained alone, or `memgrad tune`, leaves a small file for each. Copies of runs are removed.
    """
    with store.writing():
        headers = store.headers()
        copies = Counter(digest for header in headers.values() for digest in header.runs)
        alike: dict[str, list[Path]] = {}
        for path, header in headers.items():
            alike.setdefault(_made(header), []).append(path)
        several = [
            paths
            for paths in alike.values()
            if len(paths) > 1 or any(copies[digest] > 1 for digest in headers[paths[0]].runs)
        ]
        store.merge(several)
        left = len(store.headers())
    return sum(map(len, several)), left - (len(headers) - sum(map(len, several)))


def _made(header: Header) -> str:
    """What and how a chunk was made, but for its times."""
    how = {name: value for name, value in header.about.items() if name not in ("time", *TIMES)}
    what = sorted({(run.problem, run.fingerprint, run.steps) for run in header.runs.values()})
    return json.dumps([how, what], sort_keys=True)


def copy_rows(source: Store, target: Store, *, runs: Iterable[str] | None = None) -> int:
    """Copy finished runs from one store to another, and the facts about problems; return how many chunks were new.

    Args:
        source: Where they are.
        target: Where they go. What it has already stays.
        runs: The digests of the runs; all by default. A chunk is copied if it has one of them.
    """
    wanted, there, new = None if runs is None else set(runs), set(target.digests()), 0
    with target.writing():
        for path, header in source.headers().items():
            mine = set(header.runs)
            if (wanted is None or mine & wanted) and not mine <= there:
                _copy(path, target.path / "chunks" / path.name)
                new += 1
    for path in sorted((source.path / "problems").glob("*.json")):
        _copy(path, target.path / "problems" / path.name)
    return new


def _copy(path: Path, to: Path) -> None:
    if not to.exists():
        with written_whole(to) as unfinished:
            unfinished.write_bytes(path.read_bytes())


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
    # Small chunks first: large ones replace them.
    for path, header in sorted(headers.items(), key=lambda item: len(item[1].runs)):
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
