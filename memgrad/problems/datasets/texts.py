"""Texts, to train language models on: from the catalogue, as a sample, or the user's own file. Tokens are bytes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memgrad.problems.datasets import cache, dataset, sources
from memgrad.problems.datasets.catalogue import TEXTS, find
from memgrad.problems.datasets.download import ByteProgress
from memgrad.problems.datasets.formats import Integers

DEFAULT_TEXT = "sotu"
"""The text that is used unless another is named."""

HELD_OUT = 0.05
"""The share of a text, at its end, that is for testing, and the share before it that is for validation."""


@dataclass(frozen=True, eq=False)
class Text:
    """A text, split by position: its beginning is for training, and of the rest the end for testing.

    Args:
        name: Its name, or the path of the user's own.
        train: The bytes to train on.
        validation: The bytes to select settings by.
        test: The bytes to test on.
        is_sample: Whether this is the sample that comes with memgrad.

    Example:
        >>> text = load_text("sotu", sample=True)
        >>> bytes(text.train[:15])
        b'Fellow-Citizens'
        >>> len(text.train), len(text.validation), len(text.test)
        (270000, 15000, 15000)
    """

    name: str
    train: NDArray[np.uint8]
    validation: NDArray[np.uint8]
    test: NDArray[np.uint8]
    is_sample: bool

    def __repr__(self) -> str:
        """What it is, without its bytes."""
        sample = " (a sample)" if self.is_sample else ""
        return f"<Text {self.name}{sample}: {len(self.train):,} + {len(self.validation):,} + {len(self.test):,} bytes>"


def load_text(
    name: str,
    *,
    sample: bool = False,
    folder: str | os.PathLike[str] | None = None,
    progress: ByteProgress | None = None,
) -> Text:
    """A text of the catalogue, from the cache or its source as `load` does it, or the text in a file.

    Args:
        name: One of `text_names()`, or the path of a text file in UTF-8.
        sample: Give the sample that comes with memgrad instead: no network, no cache.
        folder: A folder with files of the text, as they were published.
        progress: Called with what is being done, the bytes done and all bytes.

    Example:
        >>> load_text("sotus")
        Traceback (most recent call last):
        ...
        ValueError: unknown text 'sotus'; did you mean 'sotu'? Known texts: sotu, shakespeare; your own: the path of a \
text file.
    """
    if sample:
        known = [each for each, entry in TEXTS.items() if entry.sample_rows is not None]
        if name not in known:
            raise ValueError(f"the text {name!r} has no sample; {' and '.join(known)} has one.")
        return _split(name, dataset.sample_arrays(name)["text"], is_sample=True)
    if name in TEXTS:
        return _split(name, cache.obtain(find(name), folder=sources.named_folder(folder), progress=progress)["text"])
    return _split(name, np.frombuffer(_read(name), dtype=np.uint8))


def digest_of_text(name: str) -> str:
    """The SHA-256 of a text: from the catalogue, or of the user's own file."""
    return find(name).digest if name in TEXTS else hashlib.sha256(_read(name)).hexdigest()


def _read(name: str) -> bytes:
    """The bytes of the user's own text file, or an error if it is not a text."""
    path = Path(os.path.expanduser(name))  # which leaves ~someone who does not exist as it is
    if not path.exists() and os.sep not in name and not path.suffix:
        from memgrad.suggestions import did_you_mean

        raise ValueError(
            f"unknown text {name!r}{did_you_mean(name, TEXTS)} Known texts: {', '.join(TEXTS)}; your own: the path of "
            f"a text file."
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the text file {path} cannot be read: {error.strerror}.") from error
    if not content:
        raise ValueError(f"the text file {path} is empty; a text needs at least a few thousand characters.")
    if (at := content.find(b"\0")) >= 0:
        raise ValueError(f"the file {path} is binary, not a text: byte {at} is 0.")
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"the file {path} is not a text in UTF-8: {error.reason} at byte {error.start}.") from None
    return content


def _split(name: str, content: Integers, *, is_sample: bool = False) -> Text:
    held = int(HELD_OUT * len(content))
    text = np.array(content, dtype=np.uint8)  # a writable copy, which torch requires
    end = len(text) - 2 * held
    return Text(name, text[:end], text[end : end + held], text[end + held :], is_sample)
