"""Data sets of a few bytes, written down by hand, and a server for their files: what the tests of data sets share."""

from __future__ import annotations

import gzip
import hashlib
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from memgrad.problems.datasets.canonical import Field
from memgrad.problems.datasets.catalogue import Download, Entry, Package


def independent_digest(arrays: dict[str, np.ndarray]) -> str:
    """What docs/datasets.md says the digest is, written a second time."""
    text = b"".join(
        f"{name} {array.dtype.str} {','.join(map(str, array.shape))}\n".encode() + array.tobytes("C")
        for name, array in arrays.items()
    )
    return hashlib.sha256(text).hexdigest()


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


DIGITS = {
    "train_inputs": np.arange(3 * 4, dtype=np.uint8).reshape(3, 2, 2),
    "train_targets": np.array([5, 0, 4], dtype=np.uint8),
    "test_inputs": np.arange(200, 208, dtype=np.uint8).reshape(2, 2, 2),
    "test_targets": np.array([7, 2], dtype=np.uint8),
}
IDX_FILES = {
    "train-images-idx3-ubyte": idx_bytes(DIGITS["train_inputs"]),
    "train-labels-idx1-ubyte": idx_bytes(DIGITS["train_targets"]),
    "t10k-images-idx3-ubyte": idx_bytes(DIGITS["test_inputs"]),
    "t10k-labels-idx1-ubyte": idx_bytes(DIGITS["test_targets"]),
}
# A fixed time makes the same file each time.
GZ_FILES = {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in IDX_FILES.items()}


def _fields(arrays: dict[str, np.ndarray]) -> tuple[Field, ...]:
    return tuple(Field(name, array.dtype.str, array.shape) for name, array in arrays.items())


def digits(*bases: str, package: Package | None = None) -> Entry:
    """A data set like MNIST, to be had from the servers at `bases`."""
    return Entry(
        name="digits",
        title="Five digits",
        layout="idx",
        fields=_fields(DIGITS),
        digest=independent_digest(DIGITS),
        class_names=tuple("0123456789"),
        ranges=((0, 255),),
        mirrors=tuple(
            tuple(Download(base + file, f"md5:{hashlib.md5(data).hexdigest()}") for file, data in GZ_FILES.items())
            for base in bases
        ),
        package=package,
        subfolders=("digits", "Digits/raw"),
        files="four idx files",
        homepage="https://digits.example",
    )


COLORS = {
    "train_inputs": np.arange(5 * 12, dtype=np.uint8).reshape(5, 3, 2, 2),
    "train_targets": np.array([6, 9, 9, 4, 1], dtype=np.uint8),
    "test_inputs": np.arange(100, 112, dtype=np.uint8).reshape(1, 3, 2, 2),
    "test_targets": np.array([3], dtype=np.uint8),
}


def colors() -> Entry:
    """A data set like CIFAR-10, with one image a batch."""
    return Entry(
        name="colors",
        title="Six images",
        layout="cifar",
        fields=_fields(COLORS),
        digest=independent_digest(COLORS),
        class_names=tuple("abcdefghij"),
        ranges=((0, 255),),
    )


TABLE = {
    "inputs": np.array([[2596, 0, 1], [-6, 51, 0], [0, 0, 0], [7, 8, 1]], dtype="<i2"),
    "targets": np.array([5, 2, 7, 1], dtype=np.uint8),
}


def table() -> Entry:
    """A data set like covtype."""
    return Entry(
        name="covtype",
        title="Four rows",
        layout="table",
        fields=_fields(TABLE),
        digest=independent_digest(TABLE),
        class_names=tuple("01234567"),
        ranges=((-6, 2596), (0, 51), (0, 1)),
        train_rows=3,
    )


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@dataclass
class Server:
    """What the server gives, how it misbehaves, and what it was asked for: (path, range) of each request."""

    files: dict[str, bytes]
    base: str = ""
    ranges: bool = True
    cut_after: int | None = None  # bytes after which the connection is lost, once for each request
    stop_after: int | None = None  # bytes after which nothing more comes, until `released`
    seconds_before: float = 0.0
    status: int | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(**options: Any) -> Iterator[Server]:
    """A server on this machine for the gz files, or for `files`."""
    server = Server(**({"files": dict(GZ_FILES)} | options))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, asked = self.path.rsplit("/", 1)[1], self.headers.get("Range")
            server.requests.append((name, asked))
            time.sleep(server.seconds_before)
            data = server.files.get(name)
            if data is None or server.status:
                self.send_error(server.status or 404)
                return
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and server.ranges else 0
            if start >= len(data) and asked and server.ranges:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            end = len(data) if server.cut_after is None else start + server.cut_after
            if (stop := server.stop_after) is not None:
                self.wfile.write(data[start : start + stop])
                self.wfile.flush()
                server.released.wait(30)
                return
            self.wfile.write(data[start:end])

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.base = f"http://127.0.0.1:{httpd.server_port}/"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        httpd.shutdown()
        httpd.server_close()
        thread.join()
