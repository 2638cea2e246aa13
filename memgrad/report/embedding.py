"""Pictures and files as data addresses, so that a report is one file."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import final
from urllib.parse import quote

PICTURES: Mapping[str, str] = MappingProxyType({".svg": "image/svg+xml", ".png": "image/png"})
"""The formats of pictures that a page can show, the preferred one first."""

DOWNLOADS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        ".csv": ("application/gzip", "numbers (CSV, compressed)"),
        ".json": ("application/json", "settings (JSON)"),
        ".pdf": ("application/pdf", "figure (PDF)"),
    }
)
"""The media types and the names of files that can be saved from the page."""

PLAIN = " !$()*+,-./:;=?@_~"
"""Characters that need no quoting in an address or an attribute, besides letters and digits."""

LARGEST = 600_000
"""The largest SVG, in bytes, that is embedded as such: one of very many points is smaller as a PNG."""


@final
@dataclass(frozen=True)
class Download:
    """A file inside the report.

    Attributes:
        title: What it is.
        name: The name under which it is saved.
        address: Its content as a data address.
    """

    title: str
    name: str
    address: str


def picture_of(files: Mapping[str, Path]) -> Path | None:
    """The picture to show, of files by their extension; None if a page can show none of them."""
    pictures = [files[ending] for ending in PICTURES if ending in files]
    small = [path for path in pictures if path.suffix.lower() != ".svg" or path.stat().st_size <= LARGEST]
    return next(iter(small or pictures), None)


def embedded(path: Path) -> str:
    """A picture as a data address.

    An SVG is embedded as an image too, not as a part of the page: ids in several pictures cannot clash, and nothing in
    one can run. Its letters are curves, so that no searchable text is lost.
    """
    if path.suffix.lower() == ".svg":  # a fifth smaller than in base64; how wide a space is does not matter in it
        return f"data:{PICTURES['.svg']},{quote(' '.join(path.read_text(encoding='utf-8').split()), safe=PLAIN)}"
    return _data(PICTURES[path.suffix.lower()], path.read_bytes())


def downloads(files: Iterable[Path]) -> tuple[Download, ...]:
    """The numbers and settings behind a figure, and a figure that a page cannot show."""
    return tuple(_download(path) for path in files if path.suffix.lower() in DOWNLOADS)


def _download(path: Path) -> Download:
    media, title = DOWNLOADS[path.suffix.lower()]
    content, name = path.read_bytes(), path.name
    if path.suffix.lower() == ".csv":  # a quarter of its size, and with no date in it the same each time
        content, name = gzip.compress(content, mtime=0), f"{name}.gz"
    return Download(title, name, _data(media, content))


def as_download(title: str, name: str, plain: object) -> Download:
    """Plain data, to be saved as JSON."""
    return Download(title, name, _data(DOWNLOADS[".json"][0], (json.dumps(plain, indent=1) + "\n").encode()))


def _data(media: str, content: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode('ascii')}"
