"""A data set as it is used: scaled, split, with the names of its classes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from memgrad.problems.datasets import formats
from memgrad.problems.datasets.canonical import Arrays
from memgrad.problems.datasets.catalogue import UNUSED, Entry
from memgrad.problems.datasets.formats import Integers

SPLIT_SEED = 2019
"""The seed of the permutation that decides which rows of covtype are for training."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set: inputs in [0, 1] as float32, targets as int64, for training and for testing.

    Args:
        name: Its name, such as `mnist`.
        train_inputs: The inputs to train on, one per row: features, pixels (28, 28) or (3, 32, 32).
        train_targets: Their labels.
        test_inputs: The inputs to test on.
        test_targets: Their labels.
        class_names: The name of each class, indexed by label, and so of each output of a model. Covtype's labels are 1
            to 7, so class 0 exists but is never used.
        is_sample: Whether this is the sample that comes with memgrad.

    Example:
        >>> from memgrad.problems import datasets
        >>> print(datasets.sample("mnist"))
        mnist (a sample): 1000 + 200 inputs (28, 28), 10 classes
    """

    name: str
    train_inputs: NDArray[np.float32]
    train_targets: NDArray[np.int64]
    test_inputs: NDArray[np.float32]
    test_targets: NDArray[np.int64]
    class_names: tuple[str, ...]
    is_sample: bool

    def __str__(self) -> str:
        """A one-line description."""
        shape = ", ".join(map(str, self.train_inputs.shape[1:]))
        return (
            f"{self.name}{' (a sample)' if self.is_sample else ''}: {len(self.train_inputs)} + {len(self.test_inputs)} "
            f"inputs ({shape}), {len(set(self.class_names) - {UNUSED})} classes"
        )

    def __repr__(self) -> str:
        """The same line: the arrays would fill the screen."""
        return f"<Dataset {self}>"


def prepared(entry: Entry, arrays: Arrays, *, is_sample: bool = False) -> Dataset:
    """The arrays as published, scaled to [0, 1] and split."""
    if "inputs" in arrays:
        arrays = split(arrays, entry.train_rows or len(arrays["inputs"]))
    return Dataset(
        name=entry.name,
        train_inputs=_scaled(arrays["train_inputs"], entry.ranges),
        train_targets=arrays["train_targets"].astype(np.int64),
        test_inputs=_scaled(arrays["test_inputs"], entry.ranges),
        test_targets=arrays["test_targets"].astype(np.int64),
        class_names=entry.class_names,
        is_sample=is_sample,
    )


def split(arrays: Arrays, train_rows: int) -> dict[str, Integers]:
    """The rows of a table in the order of a fixed permutation: the first `train_rows` for training, then the rest."""
    # RandomState, because its stream is frozen: the split is the same with every version of numpy.
    order = np.random.RandomState(SPLIT_SEED).permutation(len(arrays["inputs"]))
    rows = {"train": order[:train_rows], "test": order[train_rows:]}
    return {f"{part}_{what}": arrays[what][rows[part]] for part in rows for what in ("inputs", "targets")}


def _scaled(inputs: Integers, ranges: tuple[tuple[int, int], ...]) -> NDArray[np.float32]:
    low, high = np.array(ranges, dtype=np.float32).T.squeeze()  # numbers if all pixels have one range
    # In place, because the largest of these arrays is 600 MB.
    scaled = inputs.astype(np.float32)
    scaled -= low
    scaled /= high - low
    return scaled


def embedded(entry: Entry) -> Dataset:
    """The sample that comes with memgrad."""
    if entry.sample_rows is None:
        raise ValueError(f"the data set {entry.name!r} has no sample; load it complete, without sample=True.")
    return prepared(entry, sample_arrays(entry.name), is_sample=True)


def sample_arrays(name: str) -> Arrays:
    """The arrays of the sample of a data set or text, as `embed` wrote them."""
    data = files("memgrad.problems.datasets").joinpath("samples", f"{name}.npz").read_bytes()
    return formats.npz(data)  # type: ignore[return-value]  # they are integers
