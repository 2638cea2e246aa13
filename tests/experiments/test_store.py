"""The store: whole files or none, whatever happens to the process, the disk or the folder."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from rights import locked
from tiny_runs import chunk_from, run_of

from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.storing import chunk as chunk_files
from memgrad.experiments.storing import store as store_module
from memgrad.experiments.storing.chunk import Chunk
from memgrad.experiments.storing.folder import default_path
from memgrad.experiments.storing.store import Store
from memgrad.experiments.storing.upkeep import clean, merge_alike
from memgrad.files import written_whole

SELDOM = (("accuracy", (0, 30)),)

FACTS = Facts("logistic", "f" * 32, 100, 16, 64, ("loss", "accuracy"), 12345)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def three() -> Chunk:
    return chunk_from([run_of(seed=seed) for seed in range(3)])


def files(store: Store) -> set[str]:
    return {str(path.relative_to(store.path)) for path in store.path.rglob("*") if path.is_file()} - {"lock"}


def contents(store: Store) -> dict[tuple[str, int, str], float]:
    """The rows, read by pyarrow alone."""
    table = parquet.read_table(store.path / "chunks").to_pylist()
    assert len({(row["digest"], row["step"], row["metric"]) for row in table}) == len(table)
    return {(row["digest"], row["step"], row["metric"]): row["value"] for row in table}


# Rows, written and read.


def test_rows_come_back_as_they_were(store: Store, three: Chunk) -> None:
    store.write(three)
    rows = Store.open(store.path).read()
    order = np.lexsort((three.step, three.metric, three.digest))
    again = np.lexsort((rows.step, rows.metric, rows.digest))
    for name in ("digest", "step", "metric", "value"):
        assert np.array_equal(getattr(rows, name)[again], getattr(three, name)[order])
    assert rows.runs == {run.digest: run for run in three.runs}
    assert (rows.diverged, store.abouts()) == ({}, ({"machine": "tiny"},))


def test_a_runs_series_is_found_whatever_the_order_of_the_rows(store: Store) -> None:
    run = run_of(seed=4)
    chunk = chunk_from([run])
    mixed = np.random.default_rng(0).permutation(len(chunk.value))
    store.write(Chunk(chunk.runs, *(column[mixed] for column in chunk.columns.values()), {}, {}))
    steps, values = store.read().series(run.digest, "loss")
    assert steps.tolist() == [0, 10, 20, 30]
    assert values.tolist() == [5.0, 15.0, 25.0, 35.0]
    assert store.read().series(run.digest, "else")[0].size == 0


def test_some_runs_are_read_alone(store: Store, three: Chunk) -> None:
    store.write(three)
    wanted = three.runs[1].digest
    rows = store.read([wanted, "0" * 32])
    assert set(rows.digest.tolist()) == set(rows.runs) == {wanted}
    assert len(store.read([])) == 0


def test_divergence_is_kept_also_of_a_run_without_rows(store: Store) -> None:
    runs = [run_of(lr=lr) for lr in (1.0, 2.0)]
    store.write(chunk_from(runs, diverged={runs[0].digest: 20, runs[1].digest: 0}))
    rows = store.read()
    assert rows.diverged == {runs[0].digest: 20, runs[1].digest: 0}
    assert rows.series(runs[0].digest, "loss")[0].tolist() == [0, 10]
    assert set(store.digests()) == {run.digest for run in runs}


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the threads of a process are in /proc on Linux only")
def test_reading_starts_no_thread_that_may_outlive_python(store: Store, three: Chunk) -> None:
    """With pyarrow's own threads, every tenth process or so was aborted at its end."""
    store.write(three)
    [file] = (store.path / "chunks").iterdir()
    script = """
        import os, sys
        from pathlib import Path
        from memgrad.experiments.storing.chunk import decode_header, decode_rows
        data = Path(sys.argv[1]).read_bytes()
        decode_header(data)  # imports pyarrow
        before = len(os.listdir("/proc/self/task"))
        decode_rows(data)
        print(len(os.listdir("/proc/self/task")) - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(file)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"


def test_a_chunk_without_any_row_can_be_kept(store: Store) -> None:
    run = run_of(lr=9.0)
    store.write(chunk_from([run], diverged={run.digest: 0}))
    assert (len(store.read()), set(store.digests())) == (0, {run.digest})


def test_the_name_of_a_chunk_is_the_hash_of_its_content(store: Store, three: Chunk) -> None:
    path = store.write(three)
    found = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout
    assert path.name == found[:32] + ".parquet"


def test_one_reader_of_parquet_takes_the_folder_for_one_table(store: Store, three: Chunk) -> None:
    store.write(three)
    store.write(chunk_from([run_of("MemSGD", seed=7)]))
    run = run_of(lr=9.0)
    store.write(chunk_from([run], diverged={run.digest: 0}))
    assert len(contents(store)) == 4 * 4 * 2
    schemas = [parquet.read_schema(path).remove_metadata() for path in (store.path / "chunks").iterdir()]
    assert len(schemas) == 3
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert pyarrow.types.is_dictionary(schemas[0].field("metric").type)


def test_finished_runs_are_not_kept_twice(store: Store, three: Chunk) -> None:
    path = store.write(three)
    assert store.write(chunk_from(three.runs, lambda run, step: 0.5)) == path
    both = chunk_from([three.runs[0], run_of(seed=9)], lambda run, step: 0.25)
    store.write(both)
    assert len(store.digests()) == 4
    rows = contents(store)
    assert rows[three.runs[0].digest, 30, "loss"] == 31.0
    assert rows[both.runs[1].digest, 30, "loss"] == 0.25


def test_chunks_copied_from_another_store_merge_with_each_run_once(store: Store, three: Chunk, tmp_path: Path) -> None:
    store.write(three)
    other = Store.open(tmp_path / "other")
    path = other.write(chunk_from([*three.runs, run_of(seed=9)], lambda run, step: 0.5))
    (store.path / "chunks" / path.name).write_bytes(path.read_bytes())
    rows = store.read()
    assert (len(rows.runs), len(rows)) == (4, 4 * 4 * 2)


@pytest.mark.parametrize("value", [0.5, 0.25, 0.125, 0.0625])
def test_of_two_copies_of_a_run_the_file_whose_name_comes_first_is_read(
    store: Store, three: Chunk, tmp_path: Path, value: float
) -> None:
    """Names are hashes, so that it does not depend on who copied what when."""
    mine = store.write(three)
    theirs = Store.open(tmp_path / "other").write(chunk_from(three.runs, lambda run, step: value))
    (store.path / "chunks" / theirs.name).write_bytes(theirs.read_bytes())
    run = three.runs[0]
    expected = [1.0 + run.seed + step for step in (0, 10, 20, 30)] if mine.name < theirs.name else [value] * 4
    assert store.read().series(run.digest, "loss")[1].tolist() == expected
    assert Store(store.path).read([run.digest]).series(run.digest, "loss")[1].tolist() == expected


def test_rows_of_strangers_and_chunks_without_runs_are_refused(store: Store, three: Chunk) -> None:
    with pytest.raises(ValueError, match="rows of its own runs only, got 2 others"):
        store.write(Chunk(three.runs[:1], *three.columns.values(), {}, {}))
    with pytest.raises(ValueError, match="at least one run"):
        store.write(Chunk((), *(column[:0] for column in three.columns.values()), {}, {}))


def test_what_all_runs_share_is_kept_once(store: Store) -> None:
    runs = [run_of(seed=seed, steps=range(0, 5000, 10)) for seed in range(20)]
    metadata = parquet.read_metadata(store.write(chunk_from(runs))).metadata[b"memgrad"]
    assert metadata.count(b"4990") == 2  # the last step, and the last evaluation
    assert list(store.digests().values()) == runs


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "own", [{"clip": 1.0}, {"schedule": "cosine"}, {"gradient_examples": 8}, {"loss_examples": 8}, {"seldom": SELDOM}]
)
def test_a_setting_that_only_one_run_of_a_chunk_has_stays_its_own(
    store: Store, own: dict[str, Any], first: bool
) -> None:
    plain, special = run_of(seed=0), replace(run_of(seed=1), **own)
    runs = (special, plain) if first else (plain, special)
    store.write(chunk_from(runs))
    assert Store(store.path).digests() == {run.digest: run for run in runs}


def test_rows_are_described_by_their_runs(store: Store) -> None:
    runs = [run_of("MemSGD", lr=0.5, seed=3), run_of(lr=2.0)]
    store.write(chunk_from(runs, diverged={runs[1].digest: 10}))
    table = store.read().described()
    columns = [table[name].tolist() for name in ("problem", "optimizer", "memory", "lr", "seed")]
    described = set(zip(*columns, strict=True))
    assert described == {("logistic", "MemSGD", "poly:2", 0.5, 3), ("logistic", "SGD", "", 2.0, 0)}
    assert set(table["diverged_at"][table["optimizer"] == "SGD"]) == {10.0}
    assert np.isnan(table["diverged_at"][table["optimizer"] == "MemSGD"]).all()
    assert json.loads(table["options"][0])["weight_decay"] == 0
    assert len(Store.open(store.path).read([]).described()["lr"]) == 0


# Opening.


def test_a_store_is_made_with_its_format_and_version(tmp_path: Path) -> None:
    Store.open(tmp_path / "a" / "b")
    label = json.loads((tmp_path / "a" / "b" / "store.json").read_text())
    assert label["format"] == 1
    assert Store.open(tmp_path / "a" / "b", create=False).made_by == label["memgrad"]


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no store; name one with --store.*nowhere"):
        Store.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()
    assert (Store.exists(tmp_path / "nowhere"), Store.exists(Store.open(tmp_path / "here").path)) == (False, True)


def test_a_file_or_a_folder_of_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(NotADirectoryError, match=r"a store is a folder.*thesis"):
        Store.open(tmp_path / "thesis.tex")
    with pytest.raises(ValueError, match=r"not a store: it has no store.json, but thesis.tex"):
        Store.open(tmp_path)
    with pytest.raises(OSError, match=r"--store or MEMGRAD_STORE.*thesis"):
        Store.open(tmp_path / "thesis.tex" / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(PermissionError, match=r"Permission denied: this file was not written.*--store.*store.json"):
        Store.open(tmp_path / "store")


def test_a_read_only_folder_is_read_but_not_written(three: Chunk) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = Store.open(Path(name) / "store")
        written = store.write(three)
        parquet.read_table(written)  # imports all that is needed
        for file in store.path.rglob("*"):
            file.chmod(0o755 if file.is_dir() else 0o644)
        with locked(*(path for path in store.path.rglob("*") if path.is_dir()), store.path, Path(name)):
            assert len(Store.open(store.path).digests()) == 3
            with pytest.raises(PermissionError, match="--store"):
                store.write(chunk_from([run_of(seed=9)]))
        assert len(store.digests()) == 3


def test_a_newer_store_is_refused_with_the_way_out(store: Store) -> None:
    (store.path / "store.json").write_text('{"format": 99, "memgrad": "7.0"}')
    with pytest.raises(ValueError, match=r"format 99, made by memgrad 7.0.*up to 1.*pip install -U"):
        Store.open(store.path)


def test_a_newer_chunk_is_refused_and_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch, three: Chunk) -> None:
    monkeypatch.setattr(chunk_files, "FORMAT", 2)
    path = store.write(three)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"format 2.*pip install -U"):
        Store.open(store.path).write(chunk_from([run_of(seed=9)]))
    assert path.exists()


def test_an_older_store_is_read_but_not_added_to(store: Store, three: Chunk, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(three)
    monkeypatch.setattr(store_module, "FORMAT", 2)
    older = Store.open(store.path)
    assert len(older.read()) == 24
    with pytest.raises(ValueError, match=r"has format 1, made by memgrad.*writes format 2: use a new folder"):
        older.write(chunk_from([run_of(seed=9)]))


@pytest.mark.parametrize("label", [b"", b"{", b"[]", b'{"format": "x", "memgrad": "1"}', b"\xff\x00"])
def test_a_broken_label_is_told_and_made_anew_when_deleted(store: Store, three: Chunk, label: bytes) -> None:
    store.write(three)
    (store.path / "store.json").write_bytes(label)
    with pytest.raises(ValueError, match=r"delete this one file and it is written again; no row is lost"):
        Store.open(store.path)
    (store.path / "store.json").unlink()
    assert len(Store.open(store.path, create=False).digests()) == 3
    assert len(Store.open(store.path).digests()) == 3
    assert (store.path / "store.json").exists()


def test_the_default_store_is_that_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMGRAD_STORE", raising=False)
    assert default_path() == Path("memgrad-store")
    monkeypatch.setenv("MEMGRAD_STORE", "/data/rows")
    assert default_path() == Path("/data/rows")


# Damage.


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 3
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("damage", [truncated, flipped, lambda data: b"", lambda data: data + b"\0"])
def test_a_damaged_chunk_costs_its_own_runs_only(
    store: Store, three: Chunk, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    path = store.write(three)
    other = chunk_from([run_of("MemSGD", seed=5)])
    store.write(other)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    fresh = Store.open(store.path)
    with caplog.at_level(logging.WARNING):
        assert set(fresh.digests()) == {run.digest for run in other.runs}
    assert f"{path} is damaged" in caplog.text
    assert len(fresh.read()) == 8
    (found,) = fresh.damaged
    assert (found.path, path.exists()) == (path, True)
    assert "SHA-256" in found.reason
    with fresh.writing():  # moves it aside
        assert not path.exists()
    assert {str(each.path.relative_to(store.path)) for each in fresh.damaged} == {f"damaged/{path.name}.damaged"}
    assert fresh.write(three) == path
    assert len(fresh.digests()) == 4
    assert len(contents(fresh)) == 32


def test_damage_is_noticed_also_by_a_store_that_has_read_the_chunk_before(store: Store, three: Chunk) -> None:
    path = store.write(three)
    assert len(store.digests()) == 3
    path.write_bytes(truncated(path.read_bytes()))
    assert (len(store.digests()), len(store.read())) == (0, 0)


def test_a_flipped_bit_that_hides_behind_size_and_time_gives_no_wrong_rows(store: Store, three: Chunk) -> None:
    path = store.write(three)
    assert len(store.digests()) == 3
    before = path.stat()
    path.write_bytes(flipped(path.read_bytes()))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(store.read()) == 0


def test_a_chunk_with_the_right_name_but_not_of_ours_is_damage(store: Store) -> None:
    out = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({"x": [1]}), out)
    data = out.getvalue().to_pybytes()
    path = store.path / "chunks" / f"{hashlib.sha256(data).hexdigest()[:32]}.parquet"
    path.parent.mkdir()
    path.write_bytes(data)
    assert "not a chunk of memgrad's" in store.damaged[0].reason


def test_foreign_files_are_left_alone(store: Store, three: Chunk) -> None:
    store.write(three)
    foreign = ["chunks/notes.txt", "chunks/mine.parquet", "checkpoints/readme", "thesis.tex", "problems/x.json"]
    for name in foreign:
        (store.path / name).parent.mkdir(exist_ok=True)
        (store.path / name).write_text("precious")
    store.write(chunk_from([run_of(seed=9)]))
    fresh = Store.open(store.path)
    assert (len(fresh.digests()), fresh.damaged, fresh.checkpoints(), fresh.facts("x")) == (4, (), (), None)
    assert all((store.path / name).read_text() == "precious" for name in foreign)


# Checkpoints and facts.


def test_checkpoints_are_kept_replaced_and_dropped(store: Store) -> None:
    assert (store.checkpoint("a"), store.checkpoints()) == (None, ())
    store.save_checkpoint("b", b"\x00\xff", runs=["d2", "d1"])
    store.save_checkpoint("a", b"1")
    store.save_checkpoint("a", b"2")
    assert (store.checkpoint("a"), store.checkpoint("b")) == (b"2", b"\x00\xff")
    assert store.checkpoints() == ("a", "b")
    assert (store.checkpoint_runs("a"), store.checkpoint_runs("b")) == ((), ("d2", "d1"))  # in their order
    (store.path / "checkpoints" / "b.json").write_text("[")
    assert store.checkpoint_runs("b") == ()
    store.drop_checkpoint("b")
    store.drop_checkpoint("b")
    assert store.checkpoints() == ("a",)
    assert files(store) == {"store.json", "checkpoints/a.npz"}


def test_facts_are_kept(store: Store) -> None:
    assert store.facts("logistic") is None
    store.save_facts("logistic", FACTS)
    assert Store.open(store.path).facts("logistic") == FACTS
    (store.path / "problems" / "logistic.json").write_text('{"name": "of another version"}')
    assert store.facts("logistic") is None


@pytest.mark.parametrize("key", ["", "../x", "a/b", ".hidden", "x" * 129, "a\0b"])
def test_a_key_is_a_plain_name(store: Store, key: str) -> None:
    for use in (store.checkpoint, store.facts, store.drop_checkpoint):
        with pytest.raises(ValueError, match="a key in a store has 1 to 128 letters"):
            use(key)


# A full disk.


def test_a_full_disk_leaves_no_half_file_and_says_so(
    store: Store, three: Chunk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(three)
    before = files(store)
    real = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if "chunks" not in self.parts:
            return real(self, data)
        real(self, data[: len(data) // 2])
        with open("/dev/full", "wb", buffering=0) as disk:
            return disk.write(data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        OSError, match=r"No space left on device: this file was not written.*free some space.*chunks"
    ) as error:
        store.write(chunk_from([run_of(seed=9)]))
    assert error.value.errno == errno.ENOSPC
    assert files(store) == before
    monkeypatch.undo()
    assert len(store.read()) == 24
    store.write(chunk_from([run_of(seed=9)]))
    assert len(store.digests()) == 4


@contextmanager
def small_disk(path: Path, kilobytes: int) -> Iterator[None]:
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", path], capture_output=True)
    if made.returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def test_a_real_full_disk_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256):
        store = Store.open(tmp_path / "disk" / "store")
        written: set[str] = set()

        def fill() -> None:
            for seed in range(1000):
                run = run_of(seed=seed, steps=range(0, 20000, 10))
                store.write(chunk_from([run], lambda run, step: np.sin(run.seed + step)))
                written.add(run.digest)

        with pytest.raises(OSError, match="free some space") as error:
            fill()
        assert error.value.errno == errno.ENOSPC
        assert written
        with pytest.raises(OSError, match="free some space"):
            store.save_checkpoint("a", bytes(300_000))
        fresh = Store.open(store.path)
        assert (set(fresh.digests()), fresh.damaged, fresh.checkpoints()) == (written, (), ())
        assert not [name for name in files(store) if name.endswith(".tmp")]


# Several processes.

HOLD = """
    import sys, time
    from memgrad.experiments.storing.store import Store
    with Store.open(sys.argv[1]).writing():
        print("held", flush=True)
        time.sleep(60)
"""

KILL_WRITERS = """
    import itertools, os, random, signal, sys, time
    sys.path.insert(0, sys.argv[2])
    from tiny_runs import chunk_from, run_of
    from memgrad.experiments.storing.store import Store
    import filelock, pyarrow.parquet  # once, not in each child, and so with the first optimizer, which takes seconds
    run_of()

    def write_for_ever(out):
        store = Store.open(sys.argv[1])
        done = len(store.digests())
        with store.writing():
            for seed in itertools.count(done):
                chunk = chunk_from([run_of(seed=seed)])
                store.save_checkpoint("batch", bytes([seed % 256]) * 100_000)
                store.write(chunk)
                os.write(out, chunk.runs[0].digest.encode())

    moments = random.Random(0)
    for kill in range(10):
        told, out = os.pipe()
        child = os.fork()  # nothing has made threads yet, and importing again would take seconds
        if not child:
            write_for_ever(out)
        first = os.read(told, 32)
        time.sleep(moments.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(out)
        with os.fdopen(told, "rb") as rest:
            print((first + rest.read()).decode(), flush=True)
"""


@contextmanager
def process(program: str, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            yield running
        finally:
            running.kill()


def line_of(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def test_two_writers_are_told_of_each_other(store: Store, three: Chunk) -> None:
    with process(HOLD, store.path) as holder:
        assert line_of(holder) == "held"
        with pytest.raises(BlockingIOError, match=rf"written by process {holder.pid} on .+ since .+ UTC.*--store"):
            store.write(three)
        assert len(store.read()) == 0  # reading is possible
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    store.write(three)  # a killed writer holds nothing
    assert len(store.digests()) == 3


def test_writing_may_be_nested_and_is_given_back(store: Store, three: Chunk) -> None:
    with store.writing():
        with store.writing():
            store.write(three)
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} "):
            Store.open(store.path).write(three)
    Store.open(store.path).write(chunk_from([run_of(seed=9)]))
    assert not (store.path / "holder.json").exists()


def test_a_writer_killed_at_any_moment_leaves_a_readable_store(store: Store) -> None:
    with process(KILL_WRITERS, store.path, Path(__file__).parents[1]) as killer:
        for _ in range(10):
            words = line_of(killer)
            told = {words[i : i + 32] for i in range(0, len(words), 32)}
            assert told
            fresh = Store.open(store.path)  # while the next one writes
            assert told <= set(fresh.digests())
            assert fresh.damaged == ()
    kept = fresh.checkpoint("batch")
    assert kept is not None
    assert kept == kept[:1] * 100_000
    assert len(contents(fresh)) == len(fresh.read()) == 8 * len(fresh.digests())


def test_the_name_of_a_new_file_is_flushed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[bool] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").resolve().is_dir())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    with written_whole(tmp_path / "a") as unfinished:
        unfinished.write_text("1")
    assert flushed == [False, True]


# --- merging ---------------------------------------------------------------------------------------------------------


def made(seeds: Sequence[int], commit: str = "c", seconds: float = 1.0, worse: float = 0.0) -> Chunk:
    """A chunk of runs with these seeds; the one with seed 1 diverged at step 20."""
    runs = [run_of(seed=seed) for seed in seeds]
    chunk = chunk_from(
        runs, lambda run, step: run.seed + step + worse, {run_of(seed=1).digest: 20} if 1 in seeds else {}
    )
    time = f"2026-01-0{max(seeds) % 9 + 1}"
    return replace(chunk, about={"commit": commit, "time": time, "wall_seconds": seconds, "cpu_seconds": seconds / 2})


def test_merging_keeps_all_rows_and_adds_times_for_each_way_they_were_made(store: Store) -> None:
    for seed in range(4):
        store.write(made([seed], seconds=1.0 + seed))
    other = store.write(made([4], commit="another"))
    longer = store.write(replace(chunk_from([run_of(steps=(0, 10, 40))]), about=made([0]).about))
    rows, digests = contents(store), set(store.digests())
    assert merge_alike(store) == (4, 1)
    [merged] = store.headers().keys() - {other, longer}
    assert contents(store) == rows
    assert set(store.digests()) == digests
    about = store.headers()[merged].about
    assert about == {"commit": "c", "time": "2026-01-04", "wall_seconds": 10.0, "cpu_seconds": 5.0}
    assert store.read().diverged == {run_of(seed=1).digest: 20}
    assert other.exists()
    assert longer.exists()
    assert merge_alike(store) == (0, 0)


@pytest.mark.parametrize("commit", ["c", "d", "e", "f"])  # which decides the order of the files' names
def test_merging_does_not_change_which_copy_of_a_run_is_read(tmp_path: Path, store: Store, commit: str) -> None:
    (store.path / "chunks").mkdir()
    chunks = [
        made([0, 1]),
        made([1, 2], worse=0.5),
        made([2, 3], commit, worse=0.25),
        made([3, 0], commit, worse=0.75),
        made([0, 4], "alone", worse=0.125),
        made([2], "in vain", worse=0.375),
    ]
    for i, chunk in enumerate(chunks):
        path = Store.open(tmp_path / str(i)).write(chunk)
        (store.path / "chunks" / path.name).write_bytes(path.read_bytes())

    def read() -> dict[tuple[Any, ...], float]:
        rows = store.read()
        return {key[:3]: key[3] for key in zip(rows.digest, rows.step, rows.metric, rows.value, strict=True)}

    before = read()
    merge_alike(store)
    assert read() == before
    assert sum(len(header.runs) for header in store.headers().values()) == 5


def test_a_merge_that_was_interrupted_loses_nothing_and_is_cleaned_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [store.write(made([seed])) for seed in range(3)]
    rows = contents(store)
    with monkeypatch.context() as patched:

        def killed(path: Path, **_: object) -> None:
            if path.suffix == ".parquet":
                raise KeyboardInterrupt

        patched.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            merge_alike(store)
    (store.path / "holder.json").unlink(missing_ok=True)
    assert {each.path for each in clean(store)} == set(small)
    assert contents(store) == rows


def test_who_reads_while_chunks_are_merged_gets_all_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        store.write(made([seed]))
    reader, merged = Store(store.path), []

    def late(path: Path) -> bytes:
        if not merged:  # between looking at the folder and reading the first file
            merged.append(True)
            merge_alike(store)
        return chunk_files.verified(path)

    assert len(reader.digests()) == 3
    monkeypatch.setattr(store_module, "verified", late)
    assert len(reader.read()) == len(contents(store))
    assert merged


def test_chunks_that_are_gone_are_not_merged(store: Store) -> None:
    path = store.write(made([0]))
    with pytest.raises(ValueError, match=r"1 chunks of .* cannot be merged: some are not there"):
        store.merge([[path], [path.with_name("0" * 32 + ".parquet")]])
    assert list(store.headers()) == [path]
