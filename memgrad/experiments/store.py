"""Where rows are kept: a folder of files, each whole and named by its content, that no crash can corrupt."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad import __version__
from memgrad.experiments.choice import Facts
from memgrad.experiments.chunk import Chunk
from memgrad.experiments.parquet import FORMAT, Header, decode_header, decode_rows, encode
from memgrad.experiments.rows import Rows
from memgrad.experiments.runs import Run
from memgrad.files import written_whole

if TYPE_CHECKING:
    from filelock import BaseFileLock

VARIABLE = "MEMGRAD_STORE"
"""The environment variable that names the store where nothing else does."""

logger = logging.getLogger(__name__)

_CHUNK = re.compile(r"[0-9a-f]{32}\.parquet")
_KEY = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]{0,127}")


def default_path() -> Path:
    """The folder of the store where none is named: that of `MEMGRAD_STORE`, or memgrad-store in the current folder."""
    return Path(os.environ.get(VARIABLE) or "memgrad-store")


@final
@dataclass(frozen=True)
class Damage:
    """A file of a store that cannot be read as what its name says, and why. Its runs count as not done."""

    path: Path
    reason: str


@final
class Store:
    """A folder with the rows of finished runs and the checkpoints of unfinished ones.

    ::

        store.json                    the format, and the version of memgrad that made the folder
        chunks/<SHA-256>.parquet      rows, named by the first 32 hexadecimal digits of their content's hash
        checkpoints/<key>.npz         the state of runs that are being made
        problems/<key>.json           facts about problems
        damaged/                      chunks that a crash of the disk or a copy left incomplete
        lock, holder.json             who is writing

    Every file is written under another name, flushed and renamed, so that it is whole or not there, and no file is
    ever changed. Any reader of Parquet takes `chunks` for one table: `pandas.read_parquet("memgrad-store/chunks")`.
    Copying the chunks of one store into another merges them.

    Reading needs no lock. Who writes chunks holds `writing()`; one process at a time can.

    Args:
        path: The folder of a store that exists; `Store.open` makes one.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store.open(Path(folder) / "store")
        ...     store.save_checkpoint("batch", b"state")
        ...     len(store.digests()), store.checkpoints(), store.checkpoint("batch")
        (0, ('batch',), b'state')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.exists(path):
            _refuse_file(self.path)
            way_out = f"name one with --store or {VARIABLE}, or make runs first"
            raise FileNotFoundError(errno.ENOENT, f"there is no store; {way_out}", str(path))
        self.format, self.made_by = _read_label(self.path)
        self._lock: BaseFileLock | None = None
        self._held = 0
        self._seen: dict[tuple[str, int, int], Header | Damage] = {}

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = True) -> Store:
        """The store in a folder, made if there is none yet and `create` says so.

        Raises:
            FileNotFoundError: There is none, and it shall not be made.
            NotADirectoryError: There is a file with this name.
            ValueError: The folder has other things in it, or a newer version of memgrad made it.
            OSError: It cannot be made.
        """
        path = Path(path)
        if create and not cls.exists(path):
            _refuse_folder_of_other_things(path)
        if create and not (path / "store.json").exists():
            with _told(path / "store.json"), written_whole(path / "store.json") as unfinished:
                unfinished.write_text(json.dumps({"format": FORMAT, "memgrad": __version__}) + "\n", encoding="utf-8")
        return cls(path)

    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether there is a store in a folder."""
        return (Path(path) / "store.json").exists() or (Path(path) / "chunks").is_dir()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the store alone while the block writes; blocks may be nested.

        Chunks that turn out to be damaged are moved aside.

        Raises:
            BlockingIOError: Another process holds it; it is named.
        """
        self._acquire()
        try:
            yield
        finally:
            self._held -= 1
            if not self._held:
                (self.path / "holder.json").unlink(missing_ok=True)
            assert self._lock is not None
            self._lock.release()

    def write(self, chunk: Chunk) -> Path:
        """Keep the rows of a chunk and return their file; runs that are there already are not kept twice."""
        known = {run.digest for run in chunk.runs}
        if not known:
            raise ValueError("a chunk has the rows of at least one run, got none.")
        if strangers := set(np.unique(chunk.digest).tolist()) - known:
            raise ValueError(f"a chunk has rows of its own runs only, got {len(strangers)} others: {_some(strangers)}.")
        with self.writing():
            there = _owners(self._scan()[0])
            new = known - there.keys()
            if not new:
                return self._file(there[next(iter(known))])
            data = encode(chunk if new == known else _part(chunk, new))
            path = self._file(f"{hashlib.sha256(data).hexdigest()[:32]}.parquet")
            self._put(path, data)
            return path

    def digests(self) -> Mapping[str, Run]:
        """The finished runs by digest: those that diverged too."""
        headers = self._scan()[0]
        return {digest: headers[name].runs[digest] for digest, name in _owners(headers).items()}

    def read(self, digests: Iterable[str] | None = None) -> Rows:
        """The rows of these runs, as far as they are finished, or of all; each run's once."""
        wanted = None if digests is None else set(digests)
        runs: dict[str, Run] = {}
        diverged: dict[str, int] = {}
        parts: dict[str, list[NDArray[Any]]] = {"digest": [], "step": [], "metric": [], "value": []}
        headers = self._scan()[0]
        owned: dict[str, set[str]] = {}
        for digest, name in _owners(headers).items():
            if wanted is None or digest in wanted:
                owned.setdefault(name, set()).add(digest)
        for name, mine in owned.items():
            try:
                columns = decode_rows(_verified(self._file(name)))
            except FileNotFoundError:  # cleaned up meanwhile
                continue
            except ValueError as error:
                logger.warning("%s is damaged: %s. Its rows are left out.", self._file(name), error)
                continue
            kept = np.isin(columns["digest"], list(mine))
            for column, values in columns.items():
                parts[column].append(values[kept])
            runs |= {digest: headers[name].runs[digest] for digest in mine}
            diverged |= {digest: step for digest, step in headers[name].diverged.items() if digest in mine}
        kinds = {"digest": np.str_, "step": np.int64, "metric": np.str_, "value": np.float64}
        joined = {
            name: np.concatenate(values) if values else np.empty(0, kinds[name]) for name, values in parts.items()
        }
        return Rows(**joined, runs=runs, diverged=diverged)

    def abouts(self, digests: Iterable[str] | None = None) -> tuple[Mapping[str, Any], ...]:
        """What the makers of the chunks that hold these runs, or of all chunks, said about them."""
        headers = self._scan()[0]
        owners = _owners(headers)
        names = {owners[digest] for digest in (owners if digests is None else digests) if digest in owners}
        return tuple(headers[name].about for name in sorted(names))

    @property
    def damaged(self) -> tuple[Damage, ...]:
        """The chunks that cannot be read, and those that were moved aside before."""
        aside = sorted((self.path / "damaged").glob("*.damaged"))
        return (*self._scan()[1], *(Damage(path, "moved aside before") for path in aside))

    def headers(self) -> Mapping[Path, Header]:
        """What is known of each chunk without reading its rows, by its file."""
        return {self._file(name): header for name, header in self._scan()[0].items()}

    def save_checkpoint(self, key: str, data: bytes, *, runs: Iterable[str] = ()) -> None:
        """Keep the state of runs that are being made; it takes the place of an earlier one.

        It needs no lock, so that workers can keep their own. The data mean nothing to the store.

        Args:
            key: Letters, digits, `.`, `_` and `-`.
            data: The state.
            runs: The digests of the runs, in the order they have in the state; with them `memgrad gc` can tell when
                the checkpoint is no longer needed.
        """
        about = self._keyed("checkpoints", key, ".json")
        if digests := list(runs):
            text = json.dumps(digests).encode()
            if not about.exists() or about.read_bytes() != text:
                self._put(about, text)
        self._put(self._keyed("checkpoints", key, ".npz"), data)

    def checkpoint(self, key: str) -> bytes | None:
        """The state that was kept under this key, or None."""
        return _read_if_there(self._keyed("checkpoints", key, ".npz"))

    def checkpoint_runs(self, key: str) -> tuple[str, ...]:
        """The digests of a checkpoint's runs in their order, as far as its maker told."""
        data = _read_if_there(self._keyed("checkpoints", key, ".json"))
        try:
            return () if data is None else tuple(str(digest) for digest in json.loads(data))
        except (ValueError, TypeError):
            return ()

    def checkpoints(self) -> tuple[str, ...]:
        """The keys of the checkpoints."""
        return tuple(sorted(path.stem for path in (self.path / "checkpoints").glob("[!.]*.npz")))

    def drop_checkpoint(self, key: str) -> None:
        """Remove a checkpoint, if it is there."""
        for ending in (".npz", ".json"):
            self._keyed("checkpoints", key, ending).unlink(missing_ok=True)

    def facts(self, key: str) -> Facts | None:
        """The facts about a problem that were kept under this key, or None."""
        data = _read_if_there(self._keyed("problems", key, ".json"))
        try:
            return None if data is None else Facts.from_dict(json.loads(data))
        except (ValueError, TypeError, KeyError):  # of another version: they can be had again
            return None

    def save_facts(self, key: str, facts: Facts) -> None:
        """Keep the facts about a problem. It needs no lock."""
        self._put(self._keyed("problems", key, ".json"), json.dumps(facts.as_dict()).encode())

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def _acquire(self) -> None:
        from filelock import FileLock, Timeout

        if self.format < FORMAT:
            raise ValueError(
                f"the store {self.path} has format {self.format}, made by memgrad {self.made_by}. memgrad "
                f"{__version__} reads it but writes format {FORMAT}: use a new folder with --store for new runs."
            )
        # Not one lock a thread: a driver may write what its threads bring.
        self._lock = self._lock or FileLock(self.path / "lock", thread_local=False)
        with _told(self.path):
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise BlockingIOError(_in_use(self.path)) from None
        self._held += 1
        if self._held == 1:
            try:
                holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": _now()}
                self._put(self.path / "holder.json", json.dumps(holder).encode())
                self._move_damaged_aside()
            except BaseException:
                self._held -= 1
                self._lock.release()
                raise

    def _move_damaged_aside(self) -> None:
        for damage in self._scan()[1]:
            aside = self.path / "damaged" / f"{damage.path.name}.damaged"
            with _told(aside):
                aside.parent.mkdir(exist_ok=True)
                damage.path.replace(aside)

    def _scan(self) -> tuple[dict[str, Header], list[Damage]]:
        """The chunks and the damaged ones. A file is read again only if its size or time changed."""
        headers, damaged = {}, []
        for path in sorted((self.path / "chunks").glob("*.parquet")):
            if not _CHUNK.fullmatch(path.name):
                continue  # not one of ours
            try:
                status = path.stat()
                key = (path.name, status.st_size, status.st_mtime_ns)
                found = self._seen[key] if key in self._seen else self._look(path)
            except FileNotFoundError:  # cleaned up meanwhile
                continue
            self._seen[key] = found
            if isinstance(found, Damage):
                damaged.append(found)
            elif found.format > FORMAT:
                raise ValueError(_newer(path, found.format, "a newer version"))
            else:
                headers[path.name] = found
        return headers, damaged

    def _look(self, path: Path) -> Header | Damage:
        try:
            return decode_header(_verified(path))
        except ValueError as error:
            logger.warning("%s is damaged: %s. Its runs count as not done.", path, error)
            return Damage(path, str(error))

    def _file(self, name: str) -> Path:
        return self.path / "chunks" / name

    def _keyed(self, folder: str, key: str, ending: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"a key in a store has 1 to 128 letters, digits, '.', '_' and '-', got {key!r}.")
        return self.path / folder / f"{key}{ending}"

    def _put(self, path: Path, data: bytes) -> None:
        with _told(path), written_whole(path) as unfinished:
            unfinished.write_bytes(data)


def _refuse_file(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a store is a folder and this is a file; name another", str(path))


def _refuse_folder_of_other_things(path: Path) -> None:
    _refuse_file(path)
    if path.is_dir() and (others := [each.name for each in path.iterdir() if not each.name.startswith(".")]):
        raise ValueError(
            f"the folder {path} is not a store: it has no store.json, but {_some(others)}. Name an empty or new folder "
            f"with --store or {VARIABLE}."
        )


def _owners(headers: Mapping[str, Header]) -> dict[str, str]:
    """The chunk that each run's rows are taken from: the first by name, should a copy have brought two."""
    owners: dict[str, str] = {}
    for name, header in headers.items():
        for digest in header.runs:
            owners.setdefault(digest, name)
    return owners


def _read_label(path: Path) -> tuple[int, str]:
    """The format of a store and the version that made it."""
    label = path / "store.json"
    data = _read_if_there(label)
    if data is None:  # a folder of chunks, which say themselves in which format they are
        return FORMAT, "an unknown version"
    try:
        content = json.loads(data)
        number, version = int(content["format"]), str(content["memgrad"])
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{label} is not a store's: delete this one file, and it is made anew; no row is lost."
        ) from None
    if number > FORMAT:
        raise ValueError(_newer(path, number, f"memgrad {version}"))
    return number, version


def _newer(path: Path, number: int, maker: str) -> str:
    return (
        f"{path} has format {number}, made by {maker}; memgrad {__version__} knows formats up to {FORMAT}: update it "
        "with pip install -U memgrad, or use another folder with --store."
    )


def _in_use(path: Path) -> str:
    try:
        holder = json.loads((path / "holder.json").read_bytes())
        who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, TypeError, KeyError):  # it has just taken it, or is about to leave it
        who = "another process"
    return (
        f"the store {path} is being written by {who}. Wait for it, stop it, or name another folder with --store or "
        f"{VARIABLE}; reading is possible meanwhile."
    )


def _verified(path: Path) -> bytes:
    """The content of a chunk's file; ValueError if it is not what the name says."""
    data = path.read_bytes()
    if f"{hashlib.sha256(data).hexdigest()[:32]}.parquet" != path.name:
        raise ValueError(f"its {len(data):,} bytes are not those that were written, by their SHA-256")
    return data


def _part(chunk: Chunk, digests: set[str]) -> Chunk:
    kept = np.isin(chunk.digest, list(digests))
    return Chunk(
        tuple(run for run in chunk.runs if run.digest in digests),
        chunk.digest[kept],
        chunk.step[kept],
        chunk.metric[kept],
        chunk.value[kept],
        {digest: step for digest, step in chunk.diverged.items() if digest in digests},
        chunk.about,
    )


def _read_if_there(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say what failed, that nothing is lost, and what to do."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        way_out = "free some space" if full else f"name a folder that can be written with --store or {VARIABLE}"
        reason = error.strerror or str(error)
        message = f"{reason}: nothing was written, and nothing that was there is lost; {way_out}, and start again"
        raise OSError(error.errno, message, str(path)) from error


def _some(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
