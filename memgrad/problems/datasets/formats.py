"""Decoders of the file formats of data sets: bytes in, integer arrays out. Nothing read here is executed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]


def unpacked(data: bytes) -> bytes:
    """The content of a gzip, bzip2 or xz file, recognized by its first bytes; other data unchanged.

    Example:
        >>> unpacked(gzip.compress(b"1,2")), unpacked(b"1,2")
        (b'1,2', b'1,2')
    """
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        if data.startswith(b"BZh"):
            return bz2.decompress(data)
        if data.startswith(b"\xfd7zXZ"):
            return lzma.decompress(data)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"the compressed file is damaged or incomplete: {error}.") from error
    return data


def idx(data: bytes) -> Integers:
    """The array of an idx file of unsigned bytes, the format of MNIST.

    Its header is two zero bytes, the type 8, the number of axes, and the length of each axis as a big-endian int32.

    Example:
        >>> idx(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([5, 0, 4]))
        array([5, 0, 4], dtype=uint8)
    """
    if data[:3] != bytes([0, 0, 8]) or len(data) < 4 + 4 * data[3]:
        raise ValueError(f"not an idx file of unsigned bytes: it starts with {data[:4].hex(' ') or 'nothing'}.")
    axes = data[3]
    shape = tuple(int(n) for n in np.frombuffer(data, ">i4", count=axes, offset=4))
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * axes)
    if len(values) != np.prod(shape, dtype=np.int64):
        raise ValueError(f"the idx file announces the shape {shape} and holds {len(values)} bytes.")
    return values.reshape(shape)


def csv(data: bytes) -> Integers:
    r"""The rows of a file of comma-separated integers; a first line of column names is skipped.

    Example:
        >>> csv(b"height,kind\n2596,5\n-6,2\n")
        array([[2596,    5],
               [  -6,    2]], dtype=int32)
    """
    first, _, rest = data.partition(b"\n")
    named = first[:1].isalpha() or first[:1] == b'"'
    lines = (rest if named else data).splitlines()
    if not lines:
        raise ValueError("the csv file has no rows.")
    try:
        return np.loadtxt(lines, delimiter=",", dtype=np.int32, ndmin=2)
    except ValueError as error:
        raise ValueError(f"not a csv file of integers: {error}") from error


def libsvm(data: bytes, columns: int) -> tuple[Integers, Integers]:
    r"""Rows and labels of LIBSVM text: `label column:value ...` per line, columns from 1, zeros omitted.

    Example:
        >>> libsvm(b"5 1:2596 3:1\n2 2:-6\n", columns=3)
        (array([[2596,    0,    1],
               [   0,   -6,    0]], dtype=int32), array([5, 2], dtype=int32))
    """
    lines = data.splitlines()
    pairs = np.array([line.count(b":") for line in lines], dtype=np.int64)
    try:
        numbers = np.array(data.replace(b":", b" ").split(), dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"not LIBSVM text: {error}.") from error
    # A row of c pairs is 1 + 2c numbers: where each row starts tells labels, columns and values apart.
    starts = np.cumsum(1 + 2 * pairs) - (1 + 2 * pairs)
    if not len(lines) or len(numbers) != np.sum(1 + 2 * pairs):
        raise ValueError("not LIBSVM text: each line must be a label and pairs column:value.")
    is_label = np.zeros(len(numbers), dtype=bool)
    is_label[starts] = True
    labels, rest = numbers[is_label], numbers[~is_label]
    at, values = rest[0::2], rest[1::2]
    if not all(np.array_equal(part, np.rint(part)) for part in (labels, at, values)):
        raise ValueError("the LIBSVM text holds fractions, so it is a scaled version; get the unscaled one.")
    if len(at) and not (at.min() >= 1 and at.max() <= columns):
        raise ValueError(f"the columns must be 1 to {columns}, found {at.min():g} to {at.max():g}.")
    rows = np.zeros((len(lines), columns), dtype=np.int32)
    rows[np.repeat(np.arange(len(lines)), pairs), at.astype(np.int64) - 1] = values
    return rows, labels.astype(np.int32)


def npz(data: bytes) -> dict[str, NDArray[np.generic]]:
    """The arrays of an npz file. Arrays of Python objects, which are pickles, are refused.

    Example:
        >>> file = io.BytesIO()
        >>> np.savez(file, y_train=np.array([5, 0]))
        >>> npz(file.getvalue())
        {'y_train': array([5, 0])}
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (
        *(ValueError, EOFError, KeyError, OSError, AttributeError, zipfile.BadZipFile, zlib.error),
        *(NotImplementedError, RuntimeError),  # a changed bit may ask for a compression or an encryption
    ) as error:
        raise ValueError(f"not an npz file of numbers, or damaged: {error}") from error


def cifar_binary(data: bytes, shape: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Images and labels of a binary batch of CIFAR: a label and the bytes of an image of `shape`, one after the other.

    Example:
        >>> cifar_binary(bytes([6, 59, 62, 63, 9, 1, 2, 3]), (3, 1, 1))[1]
        array([6, 9], dtype=uint8)
    """
    size = 1 + int(np.prod(shape))
    if not data or len(data) % size:
        raise ValueError(f"a binary batch is made of records of {size} bytes, got {len(data)} bytes.")
    records = np.frombuffer(data, np.uint8).reshape(-1, size)
    return records[:, 1:].reshape(-1, *shape), records[:, 0]


def sheet(data: bytes, shape: tuple[int, ...]) -> Integers:
    """The images of a PNG sheet in which each row of pixels is one image, of `shape` (colors, height, width)."""
    from PIL import Image, UnidentifiedImageError

    colors, height, width = shape
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.mode != "RGB" or image.width != height * width:
                raise ValueError(
                    f"a sheet has {height * width} RGB pixels per row, got {image.width} {image.mode} ones."
                )
            pixels = np.asarray(image)
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise ValueError(f"not a PNG file, or damaged: {error}.") from error
    return pixels.reshape(-1, height, width, colors).transpose(0, 3, 1, 2)


def json_labels(data: bytes) -> Integers:
    """The labels of a JSON list of integers.

    Example:
        >>> json_labels(b"[6, 9, 9]")
        array([6, 9, 9])
    """
    try:
        labels = json.loads(data)
    except ValueError as error:
        raise ValueError(f"not a JSON file: {error}.") from error
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError("the labels must be a JSON list of integers.")
    return np.array(labels)
