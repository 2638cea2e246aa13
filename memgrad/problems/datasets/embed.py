"""Make the samples that come with memgrad, from the complete data sets: `python -m memgrad.problems.datasets.embed`.

Of each class a share of rows is drawn, in proportion to its frequency and without replacement, by a fixed seed: from
the training part for training, from the test part for testing. The shares are rounded so that they add up (largest
remainders first). Of a text it is the beginning.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memgrad.files import written_whole
from memgrad.problems.datasets import cache, dataset
from memgrad.problems.datasets.catalogue import CATALOGUE, TEXTS, find
from memgrad.problems.datasets.formats import Integers

SEED = 0


def stratified(targets: Integers, rows: int, seed: int) -> NDArray[np.int64]:
    """The indices of `rows` rows in which each class is as frequent as in `targets`, up to rounding.

    Example:
        >>> targets = np.repeat([1, 2, 3], [60, 30, 10])
        >>> np.bincount(targets[stratified(targets, 10, seed=0)])
        array([0, 6, 3, 1])
    """
    classes, counts = np.unique(targets, return_counts=True)
    shares = rows * counts / len(targets)
    chosen = np.floor(shares).astype(int)
    chosen[np.argsort(chosen - shares, kind="stable")[: rows - chosen.sum()]] += 1
    random = np.random.RandomState(seed)  # its stream is frozen
    drawn = [
        random.choice(np.flatnonzero(targets == label), size, replace=False)
        for label, size in zip(classes, chosen, strict=True)
    ]
    return random.permutation(np.concatenate(drawn))


def embed(name: str, folder: Path) -> Path:
    """Write the sample of a data set into `folder`."""
    entry = find(name)
    if entry.sample_rows is None:
        raise ValueError(f"the data set {name!r} has no sample: set sample_rows in its entry of the catalogue.")
    arrays = cache.obtain(entry)
    if entry.train_rows is not None:
        arrays = dataset.split(arrays, entry.train_rows)
    parts = {}
    if entry.layout == "text":
        parts["text"] = arrays["text"][: entry.sample_rows[0]]
    else:
        for part, rows in zip(("train", "test"), entry.sample_rows, strict=True):
            chosen = stratified(arrays[f"{part}_targets"], rows, SEED)
            parts |= {each: arrays[each][chosen] for each in (f"{part}_inputs", f"{part}_targets")}
    path = folder / f"{name}.npz"
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **parts)
    return path


if __name__ == "__main__":
    for each in sys.argv[1:] or [name for name, entry in {**CATALOGUE, **TEXTS}.items() if entry.sample_rows]:
        made = embed(each, Path(__file__).parent / "samples")
        sys.stdout.write(f"{made}: {made.stat().st_size:,} bytes\n")
