"""Each format is decoded as its publisher describes it, and what is not data is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_datasets import COLORS, DIGITS, IDX_FILES, TABLE, colors, digits, idx_bytes, table, write_files

from memgrad.problems.datasets import formats, pickles
from memgrad.problems.datasets.archives import archive, in_folder
from memgrad.problems.datasets.canonical import Field, canonical, digest
from memgrad.problems.datasets.decode import decode


def npz_bytes(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def assert_same(found: Any, expected: dict[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


# --- numbers


def test_an_idx_file_is_read_by_its_header() -> None:
    np.testing.assert_array_equal(
        formats.idx(bytes.fromhex("00000803 00000001 00000002 00000003") + bytes(range(6))),
        [[[0, 1, 2], [3, 4, 5]]],
    )


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "starts with nothing"),
        (b"<!DOCTYPE html>", "not an idx file"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1]), "not an idx file of unsigned bytes"),
        (bytes([0, 0, 8, 3, 0, 0]), "not an idx file"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2]), r"announces the shape \(3,\) and holds 2 bytes"),
    ],
)
def test_what_is_not_idx_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        formats.idx(data)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_files_are_told_by_their_content(pack: Any) -> None:
    assert formats.unpacked(pack(b"2596,51")) == b"2596,51"
    with pytest.raises(ValueError, match="damaged or incomplete"):
        formats.unpacked(pack(b"2596,51" * 100)[:-9])


def test_a_csv_file_may_have_a_header_and_windows_lines() -> None:
    np.testing.assert_array_equal(formats.csv(b"1,-2\n3,4\n"), [[1, -2], [3, 4]])
    np.testing.assert_array_equal(formats.csv(b"Elevation,Cover_Type\r\n1,-2\r\n3,4\r\n"), [[1, -2], [3, 4]])
    with pytest.raises(ValueError, match="not a csv file of integers"):
        formats.csv(b"1,2\n3,x\n")
    with pytest.raises(ValueError, match="no rows"):
        formats.csv(b"a,b\n")


def test_libsvm_text_leaves_out_zeros() -> None:
    rows, labels = formats.libsvm(b"5 1:2596 3:1\n2 1:-6 2:51\n7 \n", columns=3)
    np.testing.assert_array_equal(rows, [[2596, 0, 1], [-6, 51, 0], [0, 0, 0]])
    np.testing.assert_array_equal(labels, [5, 2, 7])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"5 1:0.5\n", "holds fractions, so it is a scaled version"),
        (b"5 4:1\n", "columns must be 1 to 3, found 4 to 4"),
        (b"5 0:1\n", "columns must be 1 to 3, found 0 to 0"),
        (b"<html>\n", "not LIBSVM text"),
        (b"5 1:2 7\n", "a label and pairs"),
        (b"", "a label and pairs"),
    ],
)
def test_what_is_not_unscaled_libsvm_text_is_refused(text: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        formats.libsvm(text, columns=3)


def test_an_npz_file_with_objects_is_refused() -> None:
    with pytest.raises(ValueError, match="not an npz file of numbers"):
        formats.npz(npz_bytes(x=np.array([{"a": 1}], dtype=object)))
    with pytest.raises(ValueError, match="not an npz file"):
        formats.npz(npz_bytes(x=np.arange(1000))[:-30])


# --- pickles


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_plain_data_are_read_in_every_protocol(protocol: int) -> None:
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    value = {
        b"labels": [6, 9, 300, -70_000, 2**40],
        "text": "Gänse",
        "nothing": None,
        "yes": True,
        "half": 0.5,
        "pair": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "data": image,
        "turned": np.asfortranarray(image),
        "big": image.astype(">i4"),
        "again": image,
    }
    read = pickles.read(pickle.dumps(value, protocol=protocol))
    arrays = {"data", "turned", "big", "again"}
    assert {key: read[key] for key in value if key not in arrays} == {
        key: value[key] for key in value if key not in arrays
    }
    for key in arrays:
        np.testing.assert_array_equal(read[key], value[key])
        assert read[key].dtype == value[key].dtype


def python_2_batch(images: np.ndarray, labels: list[int]) -> bytes:
    """A batch as Python 2 and its numpy wrote those of CIFAR-10, by their opcodes (protocol 2)."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    data = images.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
        b"(K\x01K" + bytes([images.shape[0]]) + b"K" + bytes([images.shape[1]]) + b"\x86"
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + struct.pack("<i", len(data)) + data + b"tb"
    )
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return (
        b"\x80\x02}q\x01(" + text(b"batch_label") + text(b"training batch 1 of 5") + text(b"labels") + listed
        + text(b"data") + array + b"u."
    )  # fmt: skip


def test_the_batches_of_python_2_are_read() -> None:
    batch = pickles.read(python_2_batch(np.array([[59, 43], [255, 0]], dtype=np.uint8), [6, 9]))
    np.testing.assert_array_equal(batch[b"data"], [[59, 43], [255, 0]])
    assert batch[b"data"].dtype == np.uint8
    assert (batch[b"labels"], batch[b"batch_label"]) == ([6, 9], b"training batch 1 of 5")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_calls_a_function_is_refused_and_not_executed(tmp_path: Path, protocol: int) -> None:
    trap = tmp_path / "sprung"
    data = pickle.dumps({"data": Evil(trap), "labels": [1]}, protocol=protocol)
    with pytest.raises(ValueError, match=r"calls (posix|nt)\.mkdir, which is not data"):
        pickles.read(data)
    assert not trap.exists()
    pickle.loads(data)  # the trap is a real one
    assert trap.exists()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "pickle"),
        (b"\x80\x02", "exhausted before"),
        (b".", "damaged"),
        (b"\x80\x02}q\x00U\x04data", "exhausted before"),
        (b"cbuiltins\neval\n.", "holds builtins.eval, which is not data"),
        (b"(i__main__\nEvil\n.", "uses INST"),
        (b"\x80\x02cbuiltins\nobject\n)\x81.", "uses NEWOBJ"),
        (b"\x80\x02]}b.", "sets the state of a list"),
        (b"\x80\x02cnumpy\ndtype\nU\x01O\x85R.", None),
        (b"]q\x00" + b"]" * 5000 + b"a" * 5000 + b".", "damaged"),
    ],
)
def test_damaged_and_strange_pickles_are_refused(data: bytes, complaint: str | None) -> None:
    if complaint is None:  # a type alone is harmless, and is no array
        assert not isinstance(pickles.read(data), np.ndarray)
        return
    with pytest.raises(ValueError, match=complaint):
        pickles.read(data)


def test_a_pickle_of_objects_in_an_array_is_refused() -> None:
    with pytest.raises(ValueError, match="only numbers are read"):
        pickles.read(pickle.dumps(np.array([{}], dtype=object), protocol=2))


def test_a_pickle_that_multiplies_itself_is_read_in_no_time() -> None:
    nested: list[Any] = [0] * 10
    for _ in range(40):  # 10**41 numbers, if what is shared were copied
        nested = [nested] * 10
    assert len(pickles.read(pickle.dumps(nested))) == 10


# --- files that make a data set


def test_idx_files_make_the_set_packed_or_not_and_with_a_dot(tmp_path: Path) -> None:
    packed = {f"{name}.gz": gzip.compress(data) for name, data in IDX_FILES.items()}
    dotted = {name.replace("-idx", ".idx"): data for name, data in IDX_FILES.items()}
    for i, files in enumerate((IDX_FILES, packed, dotted)):
        assert_same(decode(digits(), in_folder(write_files(tmp_path / str(i), files))), DIGITS)


def test_keras_files_make_the_set(tmp_path: Path) -> None:
    old, new = ("x_train", "y_train", "x_test", "y_test"), tuple(DIGITS)
    arrays = dict(zip(old, DIGITS.values(), strict=True))
    write_files(tmp_path, {"digits.npz": npz_bytes(**arrays)})
    assert_same(decode(digits(), in_folder(tmp_path)), DIGITS)
    last = {
        keras: COLORS[name].transpose(0, 2, 3, 1) if "inputs" in name else COLORS[name][:, None].astype(np.int64)
        for keras, name in zip(old, new, strict=True)
    }
    write_files(tmp_path, {"colors.npz": npz_bytes(**last)})
    assert_same(decode(colors(), in_folder(tmp_path)), COLORS)


BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
IMAGES = [*COLORS["train_inputs"], *COLORS["test_inputs"]]
LABELS = [6, 9, 9, 4, 1, 3]


def cifar_files(kind: str) -> dict[str, bytes]:
    if kind == "python 2":
        return {
            name: python_2_batch(image.reshape(1, 12), [label])
            for name, image, label in zip(BATCHES, IMAGES, LABELS, strict=True)
        }
    if kind == "python 3":
        return {
            name: pickle.dumps({b"data": image.reshape(1, 12), b"labels": [label]})
            for name, image, label in zip(BATCHES, IMAGES, LABELS, strict=True)
        }
    if kind == "binary":
        return {
            f"{name}.bin": bytes([label]) + image.tobytes()
            for name, image, label in zip(BATCHES, IMAGES, LABELS, strict=True)
        }
    sheets = {}
    for name, image in zip(BATCHES, IMAGES, strict=True):
        file = io.BytesIO()
        # One row of pixels an image: the colors of a pixel lie beside each other.
        pixels = np.stack([image[colour].ravel() for colour in range(3)], axis=-1)
        Image.fromarray(pixels[None]).save(file, "PNG")
        sheets[f"{name}.png"] = file.getvalue()
    labels = {"train_lables.json": json.dumps(LABELS[:5]), "test_lables.json": json.dumps(LABELS[5:])}
    return sheets | {name: text.encode() for name, text in labels.items()}


@pytest.mark.parametrize("kind", ["python 2", "python 3", "binary", "sheets"])
def test_cifar_files_of_each_kind_make_the_same_set(tmp_path: Path, kind: str) -> None:
    files = cifar_files(kind)
    assert_same(decode(colors(), in_folder(write_files(tmp_path / "folder", files))), COLORS)
    tar, zipped = tmp_path / "cifar.tar.gz", tmp_path / "cifar.zip"
    with tarfile.open(tar, "w:gz") as packed, zipfile.ZipFile(zipped, "w") as other:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches/{name}")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
            other.writestr(f"cifar/{name}", data)
    for path in (tar, zipped):
        inside = archive(path)
        assert inside is not None
        assert_same(decode(colors(), inside), COLORS)


CSV = b"2596,0,1,5\n-6,51,0,2\n0,0,0,7\n7,8,1,1\n"
LIBSVM = b"5 1:2596 3:1\n2 1:-6 2:51\n7\n1 1:7 2:8 3:1\n"


@pytest.mark.parametrize(
    "files",
    [
        {"covtype.data": CSV},
        {"covtype.data.gz": gzip.compress(CSV)},
        {"covtype.csv": b"Elevation,Aspect,Soil,Cover_Type\n" + CSV},
        {"covtype": LIBSVM},
        {"covtype.bz2": bz2.compress(LIBSVM)},
        {"covtype.npz": npz_bytes(**TABLE)},
    ],
    ids=lambda files: next(iter(files)),
)
def test_tables_of_each_kind_make_the_same_set(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert_same(decode(table(), in_folder(write_files(tmp_path, files))), TABLE)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"covtype.libsvm.binary.bz2": b""}, "two-class version of Covertype"),
        ({"covtype": b"2 1:1\n1 2:1\n1 1:1\n2 3:1\n"}, "two-class version of Covertype"),
        ({"covtype.scale01.bz2": b""}, "scaled version of Covertype"),
        ({"covtype": b"5 1:0.25\n"}, "scaled version"),
        ({"covtype.data": CSV[:-8]}, r"inputs has the shape \(3, 3\)"),
        ({"covtype.data": CSV.replace(b"51", b"52")}, "are not the published ones"),
        ({"covtype.data": CSV.replace(b"2596", b"99999")}, "from -6 to 99999, which do not fit its type int16"),
        ({"covtype.npz": npz_bytes(inputs=TABLE["inputs"] / 7, targets=TABLE["targets"])}, "not scaled"),
        ({"covtype.npz": npz_bytes(x=TABLE["inputs"])}, "the arrays inputs, targets are missing; found: x"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else None,
)
def test_other_versions_and_wrong_tables_are_refused(tmp_path: Path, files: dict[str, bytes], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode(table(), in_folder(write_files(tmp_path, files)))


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"data_batch_1": b""}, "data_batch_2, data_batch_3, data_batch_4, data_batch_5, test_batch are missing"),
        (cifar_files("binary") | {"test_batch.bin": b"123"}, r"test_batch\.bin: .* records of 13 bytes, got 3"),
        (cifar_files("python 3") | {"test_batch": pickle.dumps([1])}, "test_batch: the batch is not a dict"),
        (cifar_files("python 3") | {"test_batch": pickle.dumps({"data": 1})}, "needs an array 'data'"),
        (cifar_files("sheets") | {"test_batch.png": b"no"}, r"test_batch\.png: not a PNG file"),
        (cifar_files("sheets") | {"train_lables.json": b"[1, "}, r"train_lables\.json: not a JSON file"),
        (cifar_files("sheets") | {"train_lables.json": b"[1.5]"}, "JSON list of integers"),
    ],
    ids=range(7),
)
def test_incomplete_and_damaged_cifar_files_are_refused(
    tmp_path: Path, files: dict[str, bytes], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode(colors(), in_folder(write_files(tmp_path, files)))


def test_sheets_of_another_width_are_refused() -> None:
    file = io.BytesIO()
    Image.new("RGB", (5, 1)).save(file, "PNG")
    with pytest.raises(ValueError, match="4 RGB pixels per row, got 5 RGB ones"):
        formats.sheet(file.getvalue(), (3, 2, 2))


def test_a_second_recipe_is_tried_when_the_first_files_are_wrong(tmp_path: Path) -> None:
    write_files(tmp_path, {"covtype.npz": b"no", "covtype.data": CSV})
    assert_same(decode(table(), in_folder(tmp_path)), TABLE)


def test_a_folder_without_its_files_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file of Five digits"):
        decode(digits(), in_folder(tmp_path))


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    for name in ("a.tar.gz", "a.tgz", "a.zip", "a.whl"):
        (tmp_path / name).write_bytes(b"no")
        with pytest.raises(ValueError, match=f"archive {name} is damaged"):
            archive(tmp_path / name)
    assert archive(tmp_path / "a.png") is None


# --- canonical form


def test_the_digest_is_that_of_names_types_shapes_and_bytes() -> None:
    # printf 'x <i2 1,2\n\x01\x00\x02\x01' | sha256sum
    expected = "b0a5068720b8ac7fe1649c69ae8e32c3b77c3025e06c19f1a488157f8d8e526d"
    array = np.array([[1, 258]], dtype=np.int16)
    assert digest({"x": array}) == digest({"x": array.astype(">i2")}) == digest({"x": np.asfortranarray(array)})
    assert digest({"x": array}) == expected


@pytest.mark.parametrize(
    "other",
    [
        {"y": np.array([[1, 258]], dtype="<i2")},
        {"x": np.array([[1, 258]], dtype="<i4")},
        {"x": np.array([[1], [258]], dtype="<i2")},
        {"x": np.array([[1, 259]], dtype="<i2")},
    ],
)
def test_another_name_type_shape_or_value_is_another_digest(other: dict[str, np.ndarray]) -> None:
    assert digest(other) != digest({"x": np.array([[1, 258]], dtype="<i2")})


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="the arrays targets are missing; found: inputs"):
        canonical([Field("inputs", "|u1", (1,)), Field("targets", "|u1", (1,))], {"inputs": np.zeros(1, np.uint8)})


def test_idx_bytes_of_this_file_are_the_ones_of_the_format() -> None:
    assert idx_bytes(np.array([5, 0], dtype=np.uint8)) == bytes.fromhex("00000801 00000002 0500")


def test_a_pickle_with_deep_keys_does_not_end_the_process() -> None:
    deep = b"\x80\x02}" + b")" + b"\x85" * 300_000 + b"K\x01s."
    code = "import sys; from memgrad.problems.datasets import pickles\ntry: pickles.read(sys.stdin.buffer.read())"
    code += "\nexcept ValueError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], input=deep, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"neither a text nor a number" in done.stdout
    assert pickles.read(b"\x80\x02}K\x01K\x02s.") == {1: 2}
