"""Atomic writes: readers see the old file or the complete new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside `path` for the block to write; it replaces `path` if the block ends without an error.

    The file is flushed to disk before it is renamed, and the folder afterward, so that a crash leaves the old file or
    the new one, and a power failure after the block leaves the new one. Missing folders are created.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with written_whole(Path(folder) / "numbers.csv") as unfinished:
        ...         _ = unfinished.write_text("1,2")
        ...     [path.name for path in Path(folder).iterdir()]
        ['numbers.csv']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # An error such as a full disk then shows the name of the file that was to be written.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{secrets.randbelow(10**9):09}.tmp")
    try:
        yield unfinished
        with unfinished.open("r+b") as file:  # Windows flushes only what may be written
            os.fsync(file.fileno())
        unfinished.replace(path)
        _flush_names(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _flush_names(folder: Path) -> None:
    """Flush a folder's entries, where possible: Windows cannot open folders, and some disks cannot flush them."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
