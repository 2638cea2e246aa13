"""The cache: one npz file per data set, written atomically by one process while the others wait."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from memgrad.extras import require
from memgrad.files import written_whole
from memgrad.problems.datasets import formats, sources
from memgrad.problems.datasets.canonical import Arrays
from memgrad.problems.datasets.catalogue import UNUSED, Entry
from memgrad.problems.datasets.decode import checked
from memgrad.problems.datasets.download import ByteProgress

State = Literal["complete", "damaged", "missing"]
"""What the cache holds of a data set: the published arrays, something else, or nothing."""

_WAIT_BEFORE_SAYING_SO = 0.5  # seconds


def folder() -> Path:
    """The folder of the cache: MEMGRAD_CACHE, or the platform's folder for caches of the user."""
    if named := os.environ.get("MEMGRAD_CACHE"):
        return Path(named).expanduser() / "datasets"
    require("the cache of data sets", extra="lab", modules=("platformdirs",))
    import platformdirs

    return platformdirs.user_cache_path("memgrad", appauthor=False) / "datasets"


def path(entry: Entry) -> Path:
    """The file of a data set in the cache, whether it exists or not."""
    return folder() / f"{entry.name}.npz"


def read(entry: Entry) -> Arrays | None:
    """The arrays in the cache, checked against their digest; None if there are none.

    A ValueError says what is wrong with a damaged file.
    """
    try:
        data = path(entry).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return checked(entry, formats.npz(data))  # type: ignore[arg-type]  # checked() refuses what is not integer


def summary(entry: Entry) -> dict[str, Any]:
    """What a data set is and whether it is in the cache, as plain data."""
    kept = path(entry)
    return {
        "name": entry.name,
        "title": entry.title,
        "rows": entry.rows,
        "input_shape": list(entry.input_shape),
        "classes": len(set(entry.class_names) - {UNUSED}),
        "cached": kept.exists(),
        "bytes": kept.stat().st_size if kept.exists() else entry.nbytes,
        "path": str(kept),
        "license": entry.license,
    }


def downloaded_bytes(entry: Entry) -> int:
    """The bytes that interrupted downloads of a data set have left, from which the next one resumes."""
    return sum(file.stat().st_size for file in _downloads(entry).glob("*") if file.is_file())


def _downloads(entry: Entry) -> Path:
    return path(entry).with_suffix(".downloads")


def state(entry: Entry) -> State:
    """Whether the data set is in the cache, and is what was published."""
    try:
        return "missing" if read(entry) is None else "complete"
    except ValueError:
        return "damaged"


def obtain(entry: Entry, *, folder: Path | None = None, progress: ByteProgress | None = None) -> Arrays:
    """The arrays of a data set: from the cache, or from the first source that has it, and then kept in the cache."""
    # Reading takes no lock, so that a read-only cache can be used.
    arrays = _undamaged(entry)
    if arrays is not None:
        return arrays
    require("getting data sets", extra="lab", modules=("filelock", "PIL", "pooch"))
    report = progress or (lambda _what, _done, _total: None)
    with _written_by_us(entry), _alone(entry, report):
        arrays = _undamaged(entry)  # another process may have fetched it while we waited
        if arrays is None:
            work = _downloads(entry)
            work.mkdir(exist_ok=True)
            try:
                arrays = sources.first(entry, folder=folder, work=work, progress=report)
                _write(entry, arrays)
                shutil.rmtree(work, ignore_errors=True)
            finally:
                if work.exists() and not any(work.iterdir()):
                    work.rmdir()
    return arrays


def _undamaged(entry: Entry) -> Arrays | None:
    try:
        return read(entry)
    except ValueError as error:
        sources.logger.warning("%s: the cache file is damaged and will be made again: %s", entry.name, error)
        return None


def _write(entry: Entry, arrays: Arrays) -> None:
    kept = path(entry)
    for left in kept.parent.glob(f".{kept.name}.*.tmp"):  # of processes that were killed
        left.unlink()
    # Not compressed: reading is what happens often.
    with written_whole(kept) as unfinished, unfinished.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


@contextmanager
def _alone(entry: Entry, report: ByteProgress) -> Iterator[None]:
    """Keep other processes from fetching the same data set at the same time."""
    from filelock import FileLock, Timeout

    lock = FileLock(path(entry).with_suffix(".lock"))
    try:
        lock.acquire(timeout=_WAIT_BEFORE_SAYING_SO)
    except Timeout:
        report(f"waiting for another process that downloads {entry.name}", 0, 0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _written_by_us(entry: Entry) -> Iterator[None]:
    """Make the folder; say what to do if it cannot be written, or the disk is full."""
    place = folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        yield
    except sources.DatasetUnavailable:
        raise
    except OSError as error:
        raise OSError(
            f"{entry.name} cannot be kept in the cache {place}: {error.strerror or error}. It needs "
            f"{entry.nbytes / 1e6:.0f} MB there, and as much again while it is made: free some space, or set "
            "MEMGRAD_CACHE to a folder that can be written."
        ) from error
