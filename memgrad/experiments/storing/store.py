"""Where rows are kept: a folder of files that are written atomically and named by their content."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad import __version__
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.storing.chunk import (
    COLUMNS,
    FORMAT,
    TIMES,
    Chunk,
    Header,
    Rows,
    UnknownHeaderError,
    decode_header,
    decode_rows,
    encode,
    file_name,
    joined,
    verified,
)
from memgrad.experiments.storing.folder import (
    VARIABLE,
    explaining,
    in_use,
    read_if_there,
    read_label,
    refuse_file,
    refuse_other_content,
    some,
    too_new,
)
from memgrad.files import written_whole

if TYPE_CHECKING:
    from filelock import BaseFileLock

logger = logging.getLogger(__name__)

_CHUNK = re.compile(r"[0-9a-f]{32}\.parquet")
_LOOKS = 100
_KEY = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]{0,127}")


@final
@dataclass(frozen=True)
class Damage:
    """A file of a store that does not hold what its name says, and why. Its runs count as unfinished."""

    path: Path
    reason: str


@final
class Store:
    """A folder with the rows of finished runs and the checkpoints of unfinished ones.

    ::

        store.json                    the format, and the version of memgrad that made the folder
        chunks/<SHA-256>.parquet      rows, named by the first 32 hexadecimal digits of their content's hash
        checkpoints/<key>.npz         the state of run groups in training
        problems/<key>.json           facts about problems
        damaged/                      chunks that a disk failure or a copy left incomplete
        lock, holder.json             which process is writing

    Writes are atomic: readers see the complete new file or none, and no file is ever modified. Parquet readers can take
    `chunks` for one table: `pandas.read_parquet("memgrad-store/chunks")`. Copying the chunks of one store into another
    merges them.

    Reading needs no lock. Writing chunks needs `writing()`, which one process at a time can enter.

    Args:
        path: The folder of an existing store; `Store.open` makes one.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store.open(Path(folder) / "store")
        ...     store.save_checkpoint("group", b"state")
        ...     len(store.digests()), store.checkpoints(), store.checkpoint("group")
        (0, ('group',), b'state')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.exists(path):
            refuse_file(self.path)
            way_out = f"name one with --store or {VARIABLE}, or train runs first"
            raise FileNotFoundError(errno.ENOENT, f"there is no store; {way_out}", str(path))
        self.format, self.made_by = read_label(self.path)
        self._lock: BaseFileLock | None = None
        self._held = 0
        self._seen: dict[tuple[str, int, int], Header | Damage] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = True) -> Store:
        """The store in a folder; if there is none, it is made, unless `create` is false.

        Raises:
            FileNotFoundError: There is none, and `create` is false.
            NotADirectoryError: There is a file with this name.
            ValueError: The folder has other things in it, or a newer version of memgrad made it.
            OSError: The folder cannot be made.
        """
        path = Path(path)
        if create and not cls.exists(path):
            refuse_other_content(path)
        if create and not (path / "store.json").exists():
            with explaining(path / "store.json"), written_whole(path / "store.json") as unfinished:
                unfinished.write_text(json.dumps({"format": FORMAT, "memgrad": __version__}) + "\n", encoding="utf-8")
        return cls(path)

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is a store in a folder."""
        return (Path(path) / "store.json").exists() or (Path(path) / "chunks").is_dir()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the store for this process while the block writes; blocks may be nested.

        Damaged chunks are moved aside.

        Raises:
            BlockingIOError: Another process holds the lock; the error names it.
        """
        lock = self._acquire()
        self._held += 1
        try:
            if self._held == 1:
                now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
                self._put(self.path / "holder.json", json.dumps(holder).encode())
                self._move_damaged_aside()
            yield
        finally:
            self._held -= 1
            if not self._held:
                (self.path / "holder.json").unlink(missing_ok=True)
            lock.release()

    def write(self, chunk: Chunk) -> Path:
        """Store the rows of a chunk and return their file; runs that are already stored are skipped."""
        known = {run.digest for run in chunk.runs}
        if not known:
            raise ValueError("a chunk needs at least one run, got none.")
        if strangers := set(np.unique(chunk.digest).tolist()) - known:
            raise ValueError(f"a chunk has rows of its own runs only, got {len(strangers)} others: {some(strangers)}.")
        with self.writing():
            there = _owners(self._scan()[0])
            new = known - there.keys()
            if not new:
                return self._file(there[next(iter(known))])
            data = encode(chunk if new == known else chunk.only(new))
            path = self._file(file_name(data))
            self._put(path, data)
            return path

    def merge(self, groups: Iterable[Iterable[Path]], *, keep: Collection[str] | None = None) -> None:
        """Write the rows of each group of chunks as one chunk, and remove them.

        Their times are added. Of several copies of a run the one that was read so far is kept.

        Args:
            groups: The chunks.
            keep: The digests of the runs whose rows are kept; all by default.
        """
        with self.writing():
            headers, new, old = self._scan()[0], {}, set()
            owners = {digest: name for digest, name in _owners(headers).items() if keep is None or digest in keep}
            for names in [{path.name for path in paths} for paths in groups]:
                owned = {digest for digest, name in owners.items() if name in names}
                rows = self.read(owned)
                if not names <= headers.keys() or rows.runs.keys() != owned:
                    raise ValueError(f"{len(names)} chunks of {self.path} cannot be merged: some are not there.")
                abouts = sorted((headers[name].about for name in names), key=lambda about: str(about.get("time")))
                spent = {name: sum(about.get(name, 0.0) for about in abouts) for name in TIMES}
                old |= names
                if owned:
                    columns = {name: getattr(rows, name) for name in COLUMNS}
                    about = {**abouts[-1], **spent}
                    chunk = Chunk(tuple(rows.runs.values()), **columns, diverged=rows.diverged, about=about)
                    data = encode(chunk, tuple(rows.runs))
                    new[file_name(data)] = data
                    written = decode_header(data)
                    assert set(written.runs) == owned, "a merged chunk lost runs"
                    assert written.rows == len(rows), "a merged chunk lost rows"
            for name, data in new.items():
                self._put(self._file(name), data)
            for name in old - new.keys():
                self._file(name).unlink(missing_ok=True)

    def digests(self) -> Mapping[str, Run]:
        """The finished runs by digest, including those that diverged."""
        headers = self._scan()[0]
        return {digest: headers[name].runs[digest] for digest, name in _owners(headers).items()}

    def read(self, digests: Iterable[str] | None = None) -> Rows:
        """The rows of those of these runs that are finished, or of all finished runs; no run appears twice."""
        wanted = None if digests is None else set(digests)
        runs: dict[str, Run] = {}
        diverged: dict[str, int] = {}
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
        headers = self._scan()[0]
        owned: dict[str, set[str]] = {}
        for digest, name in _owners(headers).items():
            if wanted is None or digest in wanted:
                owned.setdefault(name, set()).add(digest)
        for name, mine in owned.items():
            try:
                columns = decode_rows(verified(self._file(name)))
            except FileNotFoundError:  # removed in the meantime, because another file has its rows
                return self.read(wanted)
            except ValueError as error:
                logger.warning("%s is damaged: %s. Its rows are left out.", self._file(name), error)
                continue
            kept = np.isin(columns["digest"], list(mine))
            for column, values in columns.items():
                parts[column].append(values[kept])
            runs |= {digest: headers[name].runs[digest] for digest in mine}
            diverged |= {digest: step for digest, step in headers[name].diverged.items() if digest in mine}
        return Rows(**joined(parts), runs=runs, diverged=diverged)

    def abouts(self, digests: Iterable[str] | None = None) -> tuple[Mapping[str, Any], ...]:
        """The provenance of the chunks that hold these runs, or of all chunks: versions, machine, times."""
        headers = self._scan()[0]
        owners = _owners(headers)
        names = {owners[digest] for digest in (owners if digests is None else digests) if digest in owners}
        return tuple(headers[name].about for name in sorted(names))

    @property
    def damaged(self) -> tuple[Damage, ...]:
        """The chunks that cannot be read, and those that were moved aside earlier."""
        aside = sorted((self.path / "damaged").glob("*.damaged"))
        return (*self._scan()[1], *(Damage(path, "moved aside earlier") for path in aside))

    def headers(self) -> Mapping[Path, Header]:
        """What is known about each chunk without reading its rows, by its file."""
        return {self._file(name): header for name, header in self._scan()[0].items()}

    def save_checkpoint(self, key: str, data: bytes, *, runs: Iterable[str] = ()) -> None:
        """Store the state of a run group in training; it replaces an earlier one.

        No lock is needed. The store does not interpret the data.

        Args:
            key: Letters, digits, `.`, `_` and `-`.
            data: The state.
            runs: The digests of the runs, in run order; with them `memgrad gc` can tell when the checkpoint is no
                longer needed.
        """
        about = self._keyed("checkpoints", key, ".json")
        if digests := list(runs):
            text = json.dumps(digests).encode()
            if not about.exists() or about.read_bytes() != text:
                self._put(about, text)
        self._put(self._keyed("checkpoints", key, ".npz"), data)

    def checkpoint(self, key: str) -> bytes | None:
        """The state stored under this key, or None."""
        return read_if_there(self._keyed("checkpoints", key, ".npz"))

    def checkpoint_runs(self, key: str) -> tuple[str, ...]:
        """The digests of a checkpoint's runs in run order; empty if they were not stored."""
        data = read_if_there(self._keyed("checkpoints", key, ".json"))
        try:
            return () if data is None else tuple(str(digest) for digest in json.loads(data))
        except (ValueError, TypeError):
            return ()

    def checkpoints(self) -> tuple[str, ...]:
        """The keys of the checkpoints."""
        return tuple(sorted(path.stem for path in (self.path / "checkpoints").glob("[!.]*.npz")))

    def drop_checkpoint(self, key: str) -> None:
        """Remove a checkpoint if it exists."""
        for ending in (".npz", ".json"):
            self._keyed("checkpoints", key, ending).unlink(missing_ok=True)

    def facts(self, key: str) -> Facts | None:
        """The facts about a problem stored under this key, or None."""
        data = read_if_there(self._keyed("problems", key, ".json"))
        try:
            return None if data is None else Facts.from_dict(json.loads(data))
        except (ValueError, TypeError, KeyError):  # from another version: they can be computed again
            return None

    def save_facts(self, key: str, facts: Facts) -> None:
        """Store the facts about a problem. No lock is needed."""
        self._put(self._keyed("problems", key, ".json"), json.dumps(facts.to_dict()).encode())

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def _acquire(self) -> BaseFileLock:
        from filelock import FileLock, Timeout

        if self.format < FORMAT:
            raise ValueError(
                f"the store {self.path} has format {self.format}, made by memgrad {self.made_by}. memgrad "
                f"{__version__} reads it but writes format {FORMAT}: use a new folder with --store for new runs."
            )
        # One lock for all threads: a driver may write what its threads deliver.
        self._lock = self._lock or FileLock(self.path / "lock", thread_local=False)
        with explaining(self.path):
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise BlockingIOError(in_use(self.path)) from None
        return self._lock

    def _move_damaged_aside(self) -> None:
        for damage in self._scan()[1]:
            aside = self.path / "damaged" / f"{damage.path.name}.damaged"
            with explaining(aside):
                aside.parent.mkdir(exist_ok=True)
                damage.path.replace(aside)

    def _scan(self) -> tuple[dict[str, Header], list[Damage]]:
        """The chunks and the damaged ones. A file is read again only if its size or modification time changed.

        If a file has vanished since the folder was listed, its rows may be in another one that was not there yet.
        """
        for _ in range(_LOOKS):
            found = self._listed()
            if found is not None:
                return found
        raise FileNotFoundError(errno.ENOENT, f"chunks of the store vanished {_LOOKS} times", str(self.path))

    def _listed(self) -> tuple[dict[str, Header], list[Damage]] | None:
        """The chunks and the damaged ones; None if a file vanished in the meantime."""
        headers, damaged = {}, []
        for path in sorted((self.path / "chunks").glob("*.parquet")):
            if not _CHUNK.fullmatch(path.name):
                continue  # not a chunk of ours
            try:
                status = path.stat()
                key = (path.name, status.st_size, status.st_mtime_ns)
                found = self._seen[key] if key in self._seen else self._look(path)
            except FileNotFoundError:
                return None
            self._seen[key] = found
            if isinstance(found, Damage):
                damaged.append(found)
            elif found.format > FORMAT:
                raise ValueError(too_new(path, found.format, "a newer version"))
            else:
                headers[path.name] = found
        return headers, damaged

    def _look(self, path: Path) -> Header | Damage:
        try:
            return decode_header(verified(path))
        except UnknownHeaderError as error:  # its content has the digest in its name, so it is not damaged
            raise ValueError(
                f"{path} is of another version of memgrad ({error}); use the version that wrote it, or a newer one."
            ) from error
        except ValueError as error:
            logger.warning("%s is damaged: %s. Its runs count as unfinished.", path, error)
            return Damage(path, str(error))

    def _file(self, name: str) -> Path:
        return self.path / "chunks" / name

    def _keyed(self, folder: str, key: str, ending: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"a key in a store has 1 to 128 letters, digits, '.', '_' and '-', got {key!r}.")
        return self.path / folder / f"{key}{ending}"

    def _put(self, path: Path, data: bytes) -> None:
        with explaining(path), written_whole(path) as unfinished:
            unfinished.write_bytes(data)


def _owners(headers: Mapping[str, Header]) -> dict[str, str]:
    """The chunk that each run's rows are read from: the first by name if copies brought several."""
    owners: dict[str, str] = {}
    for name, header in headers.items():
        for digest in header.runs:
            owners.setdefault(digest, name)
    return owners
