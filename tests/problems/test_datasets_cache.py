"""The cache holds whole files, made once; each thing that can go wrong with it is seen here."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rights import locked
from tiny_datasets import DIGITS, GZ_FILES, IDX_FILES, digits, serving, write_files

from memgrad.problems.datasets import cache
from memgrad.problems.datasets.formats import npz
from memgrad.problems.datasets.sources import DatasetUnavailable

TESTS = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("MEMGRAD_DATA", raising=False)
    monkeypatch.setenv("MEMGRAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files of the data set."""
    return write_files(tmp_path / "files", IDX_FILES)


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_files_in_a_folder_of_another_name_are_not_searched_for(folder: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "mine" / "of another name", IDX_FILES)
    with pytest.raises(DatasetUnavailable):
        cache.obtain(digits(), folder=tmp_path / "mine")


def test_a_set_is_fetched_once_and_read_afterwards(folder: Path) -> None:
    with serving() as server:
        entry = digits(server.base)
        assert cache.state(entry) == "missing"
        cache.obtain(entry)
        arrays = cache.obtain(entry)
        assert len(server.requests) == 4
    assert {name: array.tolist() for name, array in arrays.items()} == {n: a.tolist() for n, a in DIGITS.items()}
    assert cache.state(entry) == "complete"
    assert kept(folder) == ["digits.npz"]
    with np.load(folder / "digits.npz", allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["train_inputs"], DIGITS["train_inputs"])


def cut_short(data: bytes) -> bytes:
    return data[: len(data) // 2]


def one_bit(data: bytes) -> bytes:
    at = data.index(DIGITS["test_inputs"].tobytes())
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def another_set(_data: bytes) -> bytes:
    with tempfile.TemporaryFile() as file:
        np.savez(file, **{name: array // 2 for name, array in DIGITS.items()})
        file.seek(0)
        return file.read()


@pytest.mark.parametrize("damage", [cut_short, one_bit, another_set, lambda _: b"", lambda _: b"no zip"])
def test_a_damaged_cache_is_noticed_and_made_again(
    folder: Path, files: Path, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cache.obtain(digits(), folder=files)
    path = folder / "digits.npz"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert cache.state(digits()) == "damaged"
    cache.obtain(digits(), folder=files)
    assert "digits: the cache file is damaged and will be made again" in caplog.text
    assert path.read_bytes() == whole


def test_a_pickle_in_the_cache_is_not_loaded(folder: Path, files: Path) -> None:
    folder.mkdir(parents=True)
    with (folder / "digits.npz").open("wb") as file:
        np.savez(file, allow_pickle=True, **dict.fromkeys(DIGITS, np.array([{}], dtype=object)))  # type: ignore[arg-type]
    assert cache.state(digits()) == "damaged"


# Whoever starts the tests in the background makes them, and their processes, ignore Ctrl-C.
PROCESS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
from tiny_datasets import digits
from memgrad.problems.datasets import cache, catalogue, download
download._CHUNK = 5
entry = digits({base!r})
"""


@contextmanager
def started(code: str, base: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", PROCESS.format(tests=str(TESTS), base=base) + code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=TESTS.parent, **pipes, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def test_two_processes_at_once_do_the_work_once(folder: Path) -> None:
    code = (
        "said = []\n"
        "arrays = cache.obtain(entry, progress=lambda what, done, total: said.append(what))\n"
        "print(sorted({what.split()[0] for what in said}), arrays['test_targets'].tolist())"
    )
    # The first waits 4 x 0.4 s for the server: the second, which says so after 0.5 s, finds it at work.
    with serving(seconds_before=0.4) as server, started(code, server.base) as one, started(code, server.base) as two:
        told = sorted(process.communicate(timeout=60)[0].strip() for process in (one, two))
        assert (one.returncode, two.returncode) == (0, 0)
        assert sorted(name for name, _ in server.requests) == sorted(GZ_FILES)
    assert told[0] == "['downloading', 'reading'] [7, 2]"
    # On a busy machine the second may come too late to wait.
    assert told[1] in ("['waiting'] [7, 2]", "[] [7, 2]")


def test_a_killed_process_leaves_a_part_which_the_next_one_goes_on_with(folder: Path) -> None:
    with serving(stop_after=25) as server, started("cache.obtain(entry)", server.base) as process:
        part = folder / "digits.downloads" / "train-images-idx3-ubyte.gz.part"
        wait_for(part, 25)
        process.kill()
        process.communicate(timeout=60)
        server.released.set()
        (folder / ".digits.npz.99999.tmp").write_bytes(b"what a killed process may leave")
        server.stop_after = None
        cache.obtain(digits(server.base))
        assert server.requests[1] == ("train-images-idx3-ubyte.gz", "bytes=25-")
    assert kept(folder) == ["digits.npz"]


def wait_for(path: Path, size: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < deadline, f"{path} does not grow to {size} bytes"
        time.sleep(0.02)


def test_ctrl_c_leaves_what_was_downloaded_and_says_how_to_go_on(folder: Path) -> None:
    code = "catalogue.CATALOGUE = {'digits': entry}\nfrom memgrad.cli import app\napp(['data', 'get', 'digits'])"
    with serving(stop_after=25) as server, started(code, server.base) as process:
        wait_for(folder / "digits.downloads" / "train-images-idx3-ubyte.gz.part", 25)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "Interrupted." in err
        assert "`memgrad data get digits` resumes." in err
        assert "Traceback" not in out + err
        downloads = folder / "digits.downloads"
        assert kept(folder) == ["digits.downloads"]
        assert [path.name for path in downloads.iterdir()] == ["train-images-idx3-ubyte.gz.part"]
        server.released.set()
        server.stop_after = None
        cache.obtain(digits(server.base))
        assert server.requests[1] == ("train-images-idx3-ubyte.gz", "bytes=25-")
    assert kept(folder) == ["digits.npz"]


def test_a_full_disk_is_told_and_leaves_no_rubbish(folder: Path, files: Path) -> None:
    # A limit on the size of files is the nearest to a full disk that a test can make for real.
    code = (
        "import resource, pathlib\n"
        "import filelock, pooch, PIL, platformdirs\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
        f"cache.obtain(entry, folder=pathlib.Path({str(files)!r}))"
    )
    pytest.importorskip("resource")
    with started(code, "http://127.0.0.1:9/", env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    last = err.strip().splitlines()[-1]
    assert last.startswith(f"OSError: digits cannot be kept in the cache {folder}: File too large.")
    assert last.endswith("free some space, or set MEMGRAD_CACHE to a folder that can be written.")
    assert kept(folder) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_errors_of_the_disk_end_the_search_for_sources(
    folder: Path, files: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("memgrad.problems.datasets.download.os.replace", fail)
    with serving() as one, serving() as other:
        with pytest.raises(OSError, match=f"cannot be kept in the cache .*: {os.strerror(number)}. It needs"):
            cache.obtain(digits(one.base, other.base))
        assert (len(one.requests), len(other.requests)) == (1, 0)


@contextmanager
def without_rights() -> Iterator[Path]:
    """A folder that can be read and not written, also if the tests are run by root."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "datasets").mkdir()
        yield place
        place.chmod(0o755)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights of folders are those of POSIX")
def test_a_read_only_cache_is_read_and_its_lack_is_told(
    files: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # made, then read, elsewhere: nobody may be unable to import what that needs
        cache.obtain(digits(), folder=files)
    whole = (folder / "digits.npz").read_bytes()
    with without_rights() as place, serving() as server:
        monkeypatch.setenv("MEMGRAD_CACHE", str(place))
        complaint = "cannot be kept in the cache .*/datasets: Permission denied.*MEMGRAD_CACHE"
        with locked(place / "datasets", place), pytest.raises(OSError, match=complaint):
            cache.obtain(digits(server.base))
        assert server.requests == []  # nothing is downloaded in vain
        (place / "datasets" / "digits.npz").write_bytes(whole)
        with locked(place / "datasets", place):
            arrays = cache.obtain(digits(server.base))
            assert cache.state(digits()) == "complete"
        assert arrays["train_targets"].tolist() == [5, 0, 4]
        assert kept(place / "datasets") == ["digits.npz"]


def test_a_cache_that_is_no_folder_is_told(folder: Path, files: Path) -> None:
    folder.parent.write_text("a file")
    with pytest.raises(OSError, match="digits cannot be kept in the cache"):
        cache.obtain(digits(), folder=files)


def test_what_no_source_has_is_not_taken_for_a_fault_of_the_cache(folder: Path) -> None:
    with pytest.raises(DatasetUnavailable, match="What you can do"):
        cache.obtain(digits())
    assert kept(folder) == []


def test_the_cache_is_in_the_platforms_folder_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import platformdirs

    monkeypatch.delenv("MEMGRAD_CACHE", raising=False)
    assert cache.path(digits()) == Path(platformdirs.user_cache_dir("memgrad", False)) / "datasets" / "digits.npz"
    monkeypatch.setenv("MEMGRAD_CACHE", str(tmp_path))
    assert cache.path(digits()) == tmp_path / "datasets" / "digits.npz"


def test_every_changed_bit_of_a_cache_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.arange(5))
    data = path.read_bytes()
    for place in range(0, len(data) * 8, 3):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        try:
            npz(bytes(changed))
        except ValueError:
            continue
    with zipfile.ZipFile(path, "a") as archive:
        archive.infolist()[0].compress_type = 99
    with pytest.raises(ValueError, match="damaged"):
        npz(data.replace(b"\x08\x00", b"\x63\x00"))
