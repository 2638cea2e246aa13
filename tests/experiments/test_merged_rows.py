"""Merging the small files of a store: all runs stay, with their digests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_runs import chunk_from, run_of

from memgrad.experiments import Store
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.storing import store as store_module
from memgrad.experiments.storing.chunk import verified
from memgrad.experiments.storing.upkeep import clean, merge_alike


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
