"""Files that can be read by name, in a folder or in a tar or zip archive. Nothing is unpacked."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_COMPRESSED = (".gz", ".bz2", ".xz")
_TAR = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
_ZIP = (".zip", ".whl")


@dataclass(frozen=True)
class Files:
    """Files by the last part of their names, without an ending such as `.gz`; `read` gives the bytes of one."""

    where: str
    paths: Mapping[str, str]
    read_path: Callable[[str], bytes]

    def __contains__(self, name: str) -> bool:
        return name in self.paths

    def find(self, *names: str) -> str | None:
        """The first of `names` that exists."""
        return next((name for name in names if name in self.paths), None)

    def read(self, name: str) -> bytes:
        """The bytes of a file, as they are stored."""
        return self.read_path(self.paths[name])


def in_folder(folder: Path, *, deep: bool = False) -> Files:
    """The files of a folder; of its subfolders too if `deep`."""
    paths = sorted(path for path in (folder.rglob("*") if deep else folder.iterdir()) if path.is_file())
    return Files(str(folder), _by_name(str(path) for path in paths), lambda path: Path(path).read_bytes())


def in_tar(path: Path) -> Files:
    """The files of a tar archive, compressed or not."""

    def read(name: str) -> bytes:
        with _readable(path), tarfile.open(path) as archive:
            file = archive.extractfile(name)
            assert file is not None  # only regular files were listed
            return file.read()

    with _readable(path), tarfile.open(path) as archive:
        return Files(str(path), _by_name(member.name for member in archive if member.isreg()), read)


def in_zip(path: Path) -> Files:
    """The files of a zip archive."""

    def read(name: str) -> bytes:
        with _readable(path), zipfile.ZipFile(path) as archive:
            return archive.read(name)

    with _readable(path), zipfile.ZipFile(path) as archive:
        return Files(str(path), _by_name(name for name in archive.namelist() if not name.endswith("/")), read)


def archive(path: Path) -> Files | None:
    """The files of an archive, recognized by its extension; None for other files."""
    name = path.name.lower()
    if name.endswith(_TAR):
        return in_tar(path)
    return in_zip(path) if name.endswith(_ZIP) else None


def _by_name(paths: Iterator[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for path in paths:
        last = Path(path)
        named.setdefault(last.stem if last.suffix in _COMPRESSED else last.name, path)
    return named


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (
        *(tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError),
        *(NotImplementedError, RuntimeError),  # a changed bit may ask for a compression or an encryption
    ) as error:
        raise ValueError(f"the archive {path.name} is damaged or incomplete: {error}.") from error
