"""The rows in the repository: every verdict that was published from them is computed anew, and a store resumes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from memgrad.experiments.driver import results_of, stored_results
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store
from memgrad.experiments.storing.upkeep import copy_rows
from memgrad.paper.claims import Verdict
from memgrad.paper.data_facts import DataFacts
from memgrad.paper.evidence import Evidence
from memgrad.paper.published import published_scales, published_store
from memgrad.paper.scales import EXPERIMENTS, experiment, scales
from memgrad.paper.verdicts import JUDGES
from memgrad.tables import json_ready

FOLDER = Path(__file__).parents[2] / "docs" / "results"
LARGEST = 4_000_000
"""The bytes that the rows of a scale may take in the repository."""


def stored(store: Store, scale: str) -> dict[str, Results]:
    """The experiments of which there are runs."""
    found = {name: stored_results(experiment(name, scale), store) for name in EXPERIMENTS}
    return {name: results for name, results in found.items() if results is not None}


@pytest.mark.parametrize("scale", published_scales(FOLDER))
def test_published_rows_are_small_and_those_of_their_scale(scale: str) -> None:
    store = published_store(FOLDER, scale)
    assert not store.damaged
    assert sum(path.stat().st_size for path in store.path.rglob("*") if path.is_file()) < LARGEST
    planned = {digest for results in stored(store, scale).values() for digest in results.rows.runs}
    assert set(store.digests()) <= planned


@pytest.mark.parametrize("scale", published_scales(FOLDER))
def test_every_verdict_that_was_published_follows_from_the_rows(scale: str) -> None:
    store, board = published_store(FOLDER, scale), FOLDER / scale / "scoreboard.json"
    results = {name: each for name, each in stored(store, scale).items() if each.finished}
    data = DataFacts.read(store.path)
    evidence = Evidence(
        scales()[scale],
        results,
        lambda: data.plateau_of({name: each.spec for name, each in results.items()}),
        lambda: np.zeros(0),
    )
    now = {
        name: judge.decide(evidence)
        for name, judge in JUDGES.items()
        if judge.needs and set(judge.needs) <= results.keys()
    }
    for verdict in now.values():
        assert verdict.first is not None
    if not board.exists():
        return
    published = {each["id"]: each for each in json.loads(board.read_text(encoding="utf-8"))["verdicts"]}
    assert list(now) == [name for name in published if JUDGES[name].needs]
    for name, verdict in now.items():
        # As JSON has it: a number that is not finite is None there.
        found, expected = (Verdict.from_dict(data) for data in (json_ready(verdict.to_dict()), published[name]))
        assert (found.outcome, found.reason, found.first) == (expected.outcome, expected.reason, expected.first)
        assert list(map(str, found.numbers)) == list(map(str, expected.numbers))
        assert [(each.status, each.regime) for each in found.findings] == [
            (each.status, each.regime) for each in expected.findings
        ]
        for mine, other in zip(found.findings, expected.findings, strict=True):
            assert (mine.p_for, mine.p_against) == pytest.approx((other.p_for, other.p_against), rel=1e-6, nan_ok=True)


def test_the_table_of_workloads_is_that_of_the_rows() -> None:
    """In docs/which_memory.md, to as many digits as it has."""
    names = {"covtype-mini": 3, "autoencoder-mini": 2, "mlp-mini": 2, "cnn-mini": 2}
    results = stored(published_store(FOLDER, "workstation"), "workstation")
    page = (FOLDER.parent / "which_memory.md").read_text(encoding="utf-8")
    seeds = [len(results[name].spec.seed_numbers) for name in names]
    assert "| method | covtype, {} seeds | autoencoder, {} | MLP, {} | CNN, {} |".format(*seeds) in page
    methods = {"MemSGD `poly:2`": "MemSGD p=2", "MemSGD `poly:4`": "MemSGD p=4", "MemSGD `poly:100`": "MemSGD p=100"}
    methods |= {"MemSGD `exp:0.9`": "MemSGD p=e", "HeavyBall 0.9, own learning rate": "HB"}
    for label, method in methods.items():
        cells = []
        for name, digits in names.items():
            logs = np.log(results[name].final(method, "loss")) - np.log(results[name].final("SGD", "loss"))
            mean, half = logs.mean(), stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
            value, low, high = (f"{math.exp(each):.{digits}f}" for each in (mean, mean - half, mean + half))
            cells.append(f"{value} [{low}, {high}]")
        assert f"| {label} | {' | '.join(cells)} |" in page


def test_copied_rows_are_not_trained_again(tmp_path: Path) -> None:
    from memgrad.experiments.driver import execute
    from memgrad.experiments.planning.spec import Spec
    from memgrad.experiments.training.engines.local import LocalEngine

    methods = [{"name": "tuning", "optimizer": "SGD", "lr": [0.1, 0.01], "seeds": [7]}]
    methods += [{"optimizer": "MemSGD", "memory": "poly:2", "lr": "best of tuning"}]
    spec = Spec.of({"problem": "logistic", "steps": 4, "seeds": 2, "methods": methods})
    source, target = Store.open(tmp_path / "a"), Store.open(tmp_path / "b")
    first = execute(spec, source, LocalEngine(1))
    assert (first.trained, len(first.runs)) == (4, 4)
    assert copy_rows(source, target) > 0
    assert copy_rows(source, target) == 0
    again = execute(spec, target, LocalEngine(1))
    assert (again.trained, again.there) == (0, 4)
    results = results_of(spec, target)
    assert results.seeds("tuning", 0.1) == (7,)
    assert results.seeds("MemSGD", results.selected_lr("MemSGD")) == (0, 1)
    assert results.selected_lr("MemSGD") == results.selected_lr("tuning")


def test_a_folder_without_rows_says_which_it_has(tmp_path: Path) -> None:
    Store.open(tmp_path / "rows" / "laptop")
    assert published_scales(tmp_path) == ("laptop",)
    with pytest.raises(FileNotFoundError, match=r"no published rows of the scale 'paper'; it has those of: laptop\."):
        published_store(tmp_path, "paper")


def test_what_is_known_of_the_data_survives_a_round_trip(tmp_path: Path) -> None:
    shades = np.arange(2 * 3 * 3).reshape(2, 3, 3) / 255
    DataFacts(211.5, shades).save(tmp_path)
    again = DataFacts.read(tmp_path)
    assert again.plateau_of({}) == 211.5
    np.testing.assert_array_equal(again.originals_of({}), shades)
    assert DataFacts.read(tmp_path / "nowhere").plateau is None
