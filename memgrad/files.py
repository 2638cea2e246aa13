"""Files that are whole or not there: nothing half-written is ever found under its name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new file beside `path`, to be written by the block; it becomes `path` when the block ends without an error.

    It is flushed to the disk before it takes the name, and the name before the block is left, so that a crash leaves
    the old file or the new one, and a power cut after it the new one. Missing folders are made.

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
    # The name tells whose it is, should the disk be full or the folder not writable.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
        _flush_names(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _flush_names(folder: Path) -> None:
    """Flush the list of a folder's files, where the system can: Windows opens no folders, some disks flush none."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
