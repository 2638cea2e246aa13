"""Downloads that can be resumed.

pooch names, checks and keeps the files, but starts over after an interruption. Its downloader is therefore ours: what
has arrived is kept in a file with the extension `.part`, and the rest is requested from the server (HTTP `Range`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from memgrad.problems.datasets.catalogue import Download

ByteProgress = Callable[[str, int, int], None]
"""A function of the current activity, the bytes done and the total number of bytes, 0 if that is unknown."""

_CHUNK = 1 << 16  # bytes per write: at most this many are lost if the process ends
_TIMEOUTS = (10, 60)  # seconds to connect, and between two bytes
_PARTIAL, _NOT_SATISFIABLE = 206, 416


def download(wanted: Download, folder: Path, progress: ByteProgress) -> Path:
    """The file in `folder`, downloaded and checked against its hash unless it already exists."""
    import pooch

    part = folder / f"{wanted.file}.part"

    def resuming(url: str, output_file: str, _pooch: Any) -> None:
        resume(url, part, progress)
        os.replace(part, output_file)

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # `progress` shows messages of our own
    try:
        return Path(pooch.retrieve(wanted.url, wanted.hash, fname=wanted.file, path=folder, downloader=resuming))
    except ValueError as error:
        raise ValueError(
            f"{wanted.url} is not the published file: its hash is not {wanted.hash}. It was removed."
        ) from error
    finally:
        logger.setLevel(level)


def resume(url: str, part: Path, progress: ByteProgress) -> None:
    """Download the rest of `url` into `part`; after a lost connection, retry as long as there is progress."""
    import requests
    import urllib3

    while True:
        before = _size(part)
        try:
            _continue(url, part, progress)
            return
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if _size(part) <= before:
                raise OSError(_reason(url, error)) from error


def _continue(url: str, part: Path, progress: ByteProgress) -> None:
    import requests

    have = _size(part)
    # No transfer encoding: the kept bytes must be those of the file, or the rest would not match.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUTS) as response:
        span = response.headers.get("Content-Range", "")
        if response.status_code == _NOT_SATISFIABLE and span == f"bytes */{have}":
            return  # it was complete already
        goes_on = response.status_code == _PARTIAL
        if response.status_code == _NOT_SATISFIABLE or (goes_on and not span.startswith(f"bytes {have}-")):
            part.unlink()  # it seems to belong to another file; without it, the whole file is requested
            _continue(url, part, progress)
            return
        response.raise_for_status()
        done = have if goes_on else 0
        total = done + int(response.headers.get("Content-Length", 0))
        with part.open("ab" if goes_on else "wb") as file:
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                file.write(chunk)
                file.flush()  # what has arrived outlives even a killed process
                done += len(chunk)
                progress(f"downloading {part.stem}", done, total)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _reason(url: str, error: Exception) -> str:
    """What went wrong, in plain words: the messages of the HTTP packages name internal classes."""
    import requests

    host = urlsplit(url).netloc
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{host} answers {error.response.status_code} {error.response.reason} for {url}."
    if isinstance(error, requests.exceptions.ProxyError):
        return f"the proxy does not connect to {host}."
    if isinstance(error, requests.Timeout):
        return f"{host} does not respond."
    if isinstance(error, requests.ConnectionError):
        return f"no connection to {host}."
    return f"the connection to {host} was lost; what has arrived is kept."
