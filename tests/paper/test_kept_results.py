"""What a reproduction keeps, counts, copies and says, each by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import chunk_from, run_of

from memgrad.experiments.driver import Outcome
from memgrad.experiments.storing.store import Store
from memgrad.experiments.storing.upkeep import copy_rows
from memgrad.memory.passport import Progress
from memgrad.paper import guarantees, odes, power_laws, published, smoothing, verdicts
from memgrad.paper.claims import BEYOND, Claim, Verdict
from memgrad.paper.data_facts import DataFacts
from memgrad.paper.ledger import Ledger, source_digest
from memgrad.paper.pieces import Piece, make_pieces, pieces_of
from memgrad.paper.progress import Countdown, stage
from memgrad.paper.reproduction import Made, Reproduction, _why, countdown, reproduce
from memgrad.paper.scales import scales
from memgrad.paper.settings import OdesSettings, SmoothingSettings
from memgrad.problems import Problem
from memgrad.statistics import Estimate

CLAIM = Claim("X1", "nowhere", "something", "somehow")

# --- progress --------------------------------------------------------------------------------------------------------


def test_a_countdown_follows_the_pace_of_what_has_ended() -> None:
    times = iter([0.0, 30.0, 30.0, 50.0])
    left = Countdown({"a": 10.0, "b": 0.0, "c": 5.0, "d": 5.0}, in_seconds=True, clock=lambda: next(times))
    assert (left.begin("a"), left.after(), left.left()) == ("1 of 4", 10.0, 20.0)  # as expected, until one has ended
    assert (left.begin("b"), left.after(), left.left()) == ("2 of 4", 30.0, 30.0)  # three times as long
    assert (left.begin("c"), left.after(), left.left()) == ("3 of 4", 15.0, 30.0)  # what takes no time sets no pace
    assert (left.begin("d"), left.after(), left.left()) == ("4 of 4", 0.0, pytest.approx(5 * 50 / 15))


def test_a_countdown_without_seconds_has_no_answer_before_the_first_has_ended() -> None:
    times = iter([0.0, 7.0])
    left = Countdown({"a": 1.0, "b": 1.0, "c": 1.0}, in_seconds=False, clock=lambda: next(times))
    left.begin("a")
    assert (left.after(), left.left()) == (None, None)
    left.begin("b")
    assert (left.after(), left.left()) == (7.0, 14.0)


def test_the_countdown_of_a_reproduction_knows_what_is_left(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    unknown = countdown(["R10"], "quick", store, None)
    assert unknown.begin("covtype-mini") == "1 of 2"
    assert unknown.left() is None
    known = countdown(["R10"], "quick", store, {"covtype-mini": 3.0, "covtype-full": 4.0})
    known.begin("covtype-mini")
    assert (known.after(), known.left()) == (4.0, 7.0)


def test_a_stage_of_nothing_is_at_its_beginning() -> None:
    told: list[tuple[int, int]] = []
    report = stage(lambda done, total: told.append((done, total)), 1, 2)
    assert report is not None
    report(0, 0)
    report(1, 1)
    assert told == [(10_000, 20_000), (20_000, 20_000)]


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (lambda progress: guarantees.guarantees(2, progress=progress), [(1, 2), (2, 2)]),
        (
            lambda progress: odes.momentum_and_memory_odes(
                OdesSettings(powers=(3.0,), path_end=1.0, loss_end=1.0, heavy_ball_end=1.0, memory_end=1.0),
                progress=progress,
            ),
            [(0, 4), (1, 4), (2, 4), (3, 4)],
        ),
        (
            lambda progress: smoothing.p_verification(SmoothingSettings(steps=150, runs=2), progress=progress),
            [(0, 150), (100, 150)],
        ),
        (lambda progress: power_laws.measure(None, progress, steps=50), [(i, 4) for i in range(1, 5)]),
    ],
)
def test_an_experiment_says_how_far_it_is(run: Any, told: list[tuple[int, int]]) -> None:
    found: list[tuple[int, int]] = []
    run(lambda done, total: found.append((done, total)))
    assert found == told


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_verdicts_of_our_own_are_confirmed_or_refuted_and_few_runs_decide_nothing() -> None:
    own = Claim("M0", BEYOND, "s", "r")

    def outcome(claim: Claim, **facts: bool) -> tuple[str, str]:
        verdict = claim.verdict([Estimate(1.0)], reason="so.", scale="s", seeds=[1, 2], **facts)
        assert (verdict.seeds, verdict.scale) == ((1, 2), "s")
        return verdict.outcome, verdict.reason

    assert outcome(own, held=True, failed=False) == ("confirmed", "so.")
    assert outcome(own, held=False, failed=True) == ("refuted", "so.")
    few = ("undecided", "fewer runs than the rule asks for; so.")
    assert outcome(own, held=True, failed=False, enough=False) == few
    assert outcome(CLAIM, held=False, failed=True, enough=False) == few


def test_claims_without_data_are_judged_with_the_seed_and_progress_that_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, int | None, Progress | None]] = []

    class Enough(Exception):
        pass

    def draw(name: str, *, seed: int | None, progress: Progress | None) -> Any:
        asked.append((name, seed, progress))
        raise Enough

    monkeypatch.setattr(verdicts, "draw", draw)
    told = lambda done, total: None  # noqa: E731
    for claim in ("S1", "S7"):
        with pytest.raises(Enough):
            verdicts.judge([claim], seed=5, progress=told)
    assert asked == [("p-verification", 5, told), ("odes", None, told)]  # nothing is random in the second


def test_guarantees_keep_their_seed_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        guarantees, "guarantees", lambda problems, *, seed, progress: asked.append((problems, seed, progress)) or ()
    )
    assert [guarantees.all_guarantees(seed).seed for seed in (None, 3)] == [0, 3]
    assert asked == [(400, 0, None), (400, 3, None)]
    assert [each.name for each in guarantees.all_guarantees().printed] == [
        "printed ball of erratum 38",
        "printed condition of erratum 41",
    ]


def test_random_problems_are_those_that_were_described() -> None:
    rng = np.random.default_rng(0)
    drawn = [guarantees._Problem.draw(rng) for _ in range(200)]
    assert {len(each.x0) for each in drawn} == {1, 2, 3}
    assert {each.sigma for each in drawn} == {0.0, 0.1, 1.0}
    assert min(each.objective.mu for each in drawn) >= 1e-2
    assert max(each.objective.L for each in drawn) <= 10
    assert min(each.objective.mu for each in drawn) < 0.015
    assert max(each.objective.L for each in drawn) > 8
    one = drawn[0]
    assert one.facts() == {
        "distance": pytest.approx(np.linalg.norm(one.x0)),
        "noise": one.sigma,
        "dimension": len(one.x0),
    }
    assert one.gap == pytest.approx(one.x0 @ one.hessian @ one.x0 / 2)


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_ledger_gives_files_that_are_all_there_under_their_key(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.names == ()
    ledger.keep("odes", "key", files=["a.png", "a.csv"])
    assert ledger.files("odes", "key") is None  # they are not there
    for name in ("a.png", "a.csv"):
        (tmp_path / name).touch()
    assert Ledger(tmp_path).files("odes", "key") == (tmp_path / "a.png", tmp_path / "a.csv")
    assert Ledger(tmp_path).names == ("odes",)
    assert (ledger.files("odes", "other"), ledger.files("S1", "key"), ledger.verdict("odes", "key")) == (None,) * 3
    (tmp_path / "a.csv").unlink()
    assert ledger.files("odes", "key") is None
    (tmp_path / "a.csv").touch()
    ledger.forget("odes")  # it is about to be drawn again, and that may be interrupted
    assert Ledger(tmp_path).files("odes", "key") is None
    ledger.forget("odes")
    ledger.keep("odes", "key", files=[])
    assert ledger.files("odes", "key") is None
    (tmp_path / "made.json").write_text("[1]")
    assert Ledger(tmp_path).names == ()
    assert len(source_digest()) == 32


def test_what_is_known_of_data_is_computed_from_them_if_it_was_not_kept(tmp_path: Path) -> None:
    images = torch.rand(12, 784, generator=torch.Generator().manual_seed(0))
    half = Problem(
        "p", (torch.full((4, 784), 0.5),) * 2, lambda: torch.nn.Linear(1, 1), torch.dist, test=(images, images)
    )
    spec: Any = type("Spec", (), {"problem_choice": type("Choice", (), {"load": lambda self: half})()})
    specs = {"autoencoder-full": spec, "autoencoder-mini": spec}
    assert DataFacts().plateau_of(specs) == pytest.approx(784 * np.log(2))
    assert DataFacts(1.5).plateau_of({}) == 1.5
    pictures = DataFacts().originals_of(specs)
    assert pictures.shape == (10, 28, 28)
    assert pictures[3, 1, 2] == images[3, 30]
    DataFacts(None, np.array([[[0.0, 0.499 / 255, 0.501 / 255, 1.0]]])).save(tmp_path)
    assert json.loads((tmp_path / "known.json").read_text()) == {"plateau": None, "originals": [[[0, 0, 1, 255]]]}
    assert DataFacts.read(tmp_path).originals_of({}).tolist() == [[[0.0, 0.0, 1 / 255, 1.0]]]
    DataFacts(2.0).save(tmp_path)
    assert (DataFacts.read(tmp_path).plateau, DataFacts.read(tmp_path).originals) == (2.0, None)


def test_rows_are_copied_once_and_only_those_asked_for(tmp_path: Path) -> None:
    source, target = Store.open(tmp_path / "a"), Store.open(tmp_path / "b")
    one, two = run_of(seed=0), run_of(seed=1)
    for run in (one, two):
        source.write(chunk_from([run]))
    assert copy_rows(source, target, runs=[two.digest]) == 1
    assert set(target.digests()) == {two.digest}
    assert copy_rows(source, target) == 1
    assert set(target.digests()) == {one.digest, two.digest}
    assert copy_rows(source, target) == 0
    assert copy_rows(source, Store.open(tmp_path / "c"), runs=[]) == 0


def test_a_folder_of_published_rows_that_is_empty_says_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="it has those of: none"):
        published.published_store(tmp_path, "paper")


# --- pieces and the whole --------------------------------------------------------------------------------------------


def test_a_figure_is_made_with_the_claims_that_it_decides() -> None:
    assert pieces_of(["S1", "p-verification", "S2"]) == (("S1", "p-verification", "S2"),)
    assert pieces_of(["S1", "S2"]) == (("S1",), ("S2",))


def test_few_pieces_are_made_here_and_many_by_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, ...]] = []
    monkeypatch.setattr("memgrad.paper.pieces._make", lambda names, **_: made.append(names) or Piece({}, {}))

    def refused(kind: str) -> Any:
        raise RuntimeError(kind)

    monkeypatch.setattr("memgrad.paper.pieces.get_context", refused)
    monkeypatch.setattr("memgrad.paper.pieces.usable_cores", lambda: 2)
    few = ["memories", "odes", "S8"]
    assert len(list(make_pieces(few, tmp_path, ("png",)))) == 3
    assert made == [("memories",), ("odes",), ("S8",)]
    with pytest.raises(RuntimeError, match="spawn"):
        list(make_pieces([*few, "S4"], tmp_path, ("png",)))
    monkeypatch.setattr("memgrad.paper.pieces.usable_cores", lambda: 1)
    assert len(list(make_pieces([*few, "S4"], tmp_path, ("png",)))) == 4


def test_a_reproduction_counts_its_runs_and_is_plain_data() -> None:
    verdict = Verdict(CLAIM, "undecided", (Estimate(float("nan"), name="a"),), "r", "s")
    made = {name: Made(name, {"steps": 1}, runs, trained, ()) for name, runs, trained in (("a", 5, 2), ("b", 7, 0))}
    found = Reproduction(
        scales()["quick"], ("S1",), {"odes": (Path("x/odes.png"),)}, (verdict,), made, {}, False, 1.0, {}
    )
    assert (found.runs, found.trained, found.complete) == (12, 2, True)
    board = found.scoreboard()
    assert board["scale"]["name"] == "quick"
    assert board["verdicts"][0]["numbers"] == [{"name": "a", "value": None, "low": None, "high": None}]
    assert board["experiments"]["a"]["runs"] == 5
    assert (board["figures"], board["skipped"], board["interrupted"]) == ({"odes": ["odes.png"]}, {}, False)
    for skipped, interrupted in (({"a": "why"}, False), ({}, True)):
        other = Reproduction(scales()["quick"], (), {}, (), {}, skipped, interrupted, 1.0, {})
        assert not other.complete
        assert other.scoreboard()["skipped"] == skipped


def test_why_an_experiment_is_missing() -> None:
    assert _why(Outcome(interrupted=True, failed={"a": "x"})) == "it was interrupted"
    assert _why(Outcome(failed={"a": "no memory", "b": "no memory", "c": "nan"})) == "3 runs failed: no memory, nan"


def test_a_reproduction_without_data_says_what_it_makes_and_keeps_it(tmp_path: Path) -> None:
    store, said = Store.open(tmp_path / "store"), list[str]()

    def again(*formats: str) -> Reproduction:
        said.clear()
        return reproduce(
            ["bound-beta", "R10"],
            scale="quick",
            store=store,
            out=tmp_path,
            engine=None,
            told=said.append,
            formats=formats,
        )

    found = again("svg")
    assert said == ["Without data: bound-beta", "1 of 1: bound-beta: The lemma behind the linear rate."]
    assert [path.name for path in found.figures["bound-beta"]] == [
        "bound-beta.svg",
        "bound-beta.csv",
        "bound-beta.json",
    ]
    trains = "`memgrad reproduce --scale quick` trains what is missing"
    assert found.skipped == {
        "covtype-mini": f"the store has none of its runs; {trains}",
        "covtype-full": f"the store has none of its runs; {trains}",
        "R10": "it needs covtype-mini, covtype-full",
    }
    assert (found.asked, found.verdicts, found.interrupted, found.complete) == (("bound-beta", "R10"), (), False, False)
    assert found.seconds > 0
    assert json.loads((tmp_path / "scoreboard.json").read_text())["skipped"] == dict(found.skipped)
    assert again("svg").figures == found.figures
    assert said == []  # nothing is made twice
    assert len(again("svg", "png").figures["bound-beta"]) == 4
    assert said[0] == "Without data: bound-beta"  # another format
    for wrong in ({"scale": "tiny"}, {"formats": ("gif",)}):
        with pytest.raises(ValueError, match=r"tiny|gif"):
            reproduce(["bound-beta"], **{"scale": "quick", "store": store, "out": tmp_path, "engine": None, **wrong})
