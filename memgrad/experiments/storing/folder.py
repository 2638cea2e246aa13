"""The folder of a store: where it is, what its label says, who is writing to it, and errors that say what to do."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memgrad import __version__
from memgrad.experiments.storing.chunk import FORMAT

VARIABLE = "MEMGRAD_STORE"
"""The environment variable that names the default store."""


def default_path() -> Path:
    """The default store: the folder in `MEMGRAD_STORE`, or memgrad-store in the current folder."""
    return Path(os.environ.get(VARIABLE) or "memgrad-store")


def refuse_file(path: Path) -> None:
    """Refuse a path that is a file."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a store is a folder and this is a file; name another", str(path))


def refuse_other_content(path: Path) -> None:
    """Refuse to make a store of a folder that has other things in it."""
    refuse_file(path)
    if path.is_dir() and (others := [each.name for each in path.iterdir() if not each.name.startswith(".")]):
        raise ValueError(
            f"the folder {path} is not a store: it has no store.json, but {some(others)}. Name an empty or new folder "
            f"with --store or {VARIABLE}."
        )


def read_label(path: Path) -> tuple[int, str]:
    """The format of a store and the version of memgrad that made it."""
    label = path / "store.json"
    data = read_if_there(label)
    if data is None:  # a folder of chunks alone; each states its own format
        return FORMAT, "an unknown version"
    try:
        content = json.loads(data)
        number, version = int(content["format"]), str(content["memgrad"])
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{label} is not the label of a store: delete this one file and it is written again; no row is lost."
        ) from None
    if number > FORMAT:
        raise ValueError(too_new(path, number, f"memgrad {version}"))
    return number, version


def too_new(path: Path, number: int, maker: str) -> str:
    """The error for a format that this version of memgrad cannot read."""
    return (
        f"{path} has format {number}, made by {maker}; memgrad {__version__} knows formats up to {FORMAT}: update it "
        "with pip install -U memgrad, or use another folder with --store."
    )


def in_use(path: Path) -> str:
    """The error for a store that another process is writing to."""
    try:
        holder = json.loads((path / "holder.json").read_bytes())
        who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, TypeError, KeyError):  # it has just taken the lock, or is about to release it
        who = "another process"
    return (
        f"the store {path} is being written by {who}. Wait for it, stop it, or name another folder with --store or "
        f"{VARIABLE}; it can be read in the meantime."
    )


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Make an error say which file could not be written, that the others are safe, and what to do."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        way_out = "free some space" if full else f"name a folder that can be written with --store or {VARIABLE}"
        reason = error.strerror or str(error)
        message = (
            f"{reason}: this file was not written, and nothing already stored is lost; {way_out}, and start again: "
            f"what was not stored yet is trained again"
        )
        raise OSError(error.errno, message, str(path)) from error


def read_if_there(path: Path) -> bytes | None:
    """The content of a file, or None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def some(names: Iterable[str]) -> str:
    """At most three of these names."""
    shown = sorted(names)
    return ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "")
