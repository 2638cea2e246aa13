"""`memgrad reproduce` on tiny experiments, end to end: what is run, drawn, decided, kept, skipped, and said."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_results import DECIDING, REHEARSAL, evidence_of
from typer.testing import CliRunner, Result

from memgrad.cli import app
from memgrad.experiments import driver
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.training.events import Event
from memgrad.experiments.training.train import Assignment, train
from memgrad.paper import pieces, reproduction, scales
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import Verdict
from memgrad.paper.figures import draw
from memgrad.paper.ledger import Ledger
from memgrad.paper.training_figures import WARNING
from memgrad.paper.verdicts import CLAIMS, NAMES, chosen, needed
from memgrad.problems.datasets import DatasetUnavailable
from memgrad.statistics import Estimate

WHOLE = scales.experiment


class Here:
    """An engine that trains in this process: no worker has to load torch."""

    slots = 1

    def __init__(self) -> None:
        self._events: list[tuple[str, Event]] = []

    def start(self, assignment: Assignment) -> None:
        problem = assignment.problem_choice.load()
        self._events += [(assignment.group.key, event) for event in train(assignment, problem, lambda: False)]

    def wait(self, seconds: float) -> list[tuple[str, Event]]:
        found, self._events = self._events, []
        return found

    def stop(self) -> None: ...

    def close(self) -> None: ...


def tiny(name: str, scale: str = "paper") -> Spec:
    """The experiment with a few steps on a few examples of the sample."""
    spec, tried = WHOLE(name, "quick"), 1 if name.startswith("autoencoder") else 2
    methods = [
        method.model_copy(update={"lr": list(method.step_sizes)[:tried]}) if method.step_sizes else method
        for method in spec.methods
    ]
    evaluate = spec.evaluate.model_copy(update={"times": 5})
    changes: dict[str, Any] = {"steps": 4, "seeds": tried, "methods": methods, "evaluate": evaluate, "examples": 32}
    return spec.model_copy(update=changes | ({} if spec.batch == "full" else {"batch": 16}))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(reproduction, "experiment", tiny)
    monkeypatch.setattr(scales, "experiment", tiny)
    monkeypatch.setattr("memgrad.cli.reproduce.chosen_engine", lambda *_: Here())
    folders = ["--store", str(tmp_path / "store"), "--out", str(tmp_path / "out")]
    return lambda *words: CliRunner().invoke(app, ["reproduce", *words, *folders])


def scoreboard(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "out" / "scoreboard.json").read_text())
    return found


def test_a_claim_and_a_figure_end_to_end(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("r10", "bound-beta", "S1")
    assert result.exit_code == 0, result.output
    board = scoreboard(tmp_path)
    assert [each["id"] for each in board["verdicts"]] == ["S1", "R10"]
    assert board["verdicts"][1]["outcome"] == "undecided"
    assert board["verdicts"][1]["rehearsal"]
    assert board["scale"]["name"] == "quick"
    # Only what R10 needs was run: 2 step sizes of SGD and HB and 4 of MemSGD, 2 seeds, two settings.
    assert list(board["experiments"]) == ["covtype-mini", "covtype-full"]
    assert [made["trained"] for made in board["experiments"].values()] == [16, 16]
    about = board["experiments"]["covtype-mini"]["abouts"][0]
    assert {"versions", "machine", "commit", "wall_seconds"} <= about.keys()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(f"bound-beta.{ending}" for ending in ("png", "svg", "csv", "json")),
        *("scoreboard.json", "made.json", "report.html"),
    }
    assert "a rehearsal, which decides nothing" in " ".join(result.output.split())
    # How long the first will take is not known; the second is expected to take as long as the first.
    assert "\nexperiment 1 of 2, covtype-mini, quick\n" in result.stderr
    assert re.search(
        r"\nexperiment 2 of 2, covtype-full, quick: about [\d.]+ s of training left in total\n", result.stderr
    )


def test_a_second_call_does_nothing_twice(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("R10", "bound-beta", "S1").exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("bound-beta.*")}
    first = scoreboard(tmp_path)["verdicts"]
    monkeypatch.setattr("memgrad.paper.pieces.draw", lambda *_: pytest.fail("drawn again"))
    monkeypatch.setattr("memgrad.paper.verdicts.judge", lambda *_: pytest.fail("judged again"))
    monkeypatch.setattr(Here, "start", lambda *_: pytest.fail("trained again"))
    result = run("R10", "bound-beta", "S1")
    assert result.exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("bound-beta.*")} == before
    assert scoreboard(tmp_path)["verdicts"] == first
    assert "0 of 32 runs trained now" in " ".join(result.output.split())


def test_a_plan_says_what_is_left_and_trains_nothing(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memgrad.experiments.planning.preview.SECONDS", 0.01)
    monkeypatch.setenv("COLUMNS", "200")
    result = run("R10", "--plan")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "store").exists()
    words = " ".join(result.output.replace("│", " ").split())
    assert "covtype-mini covtype-softmax, 32 examples, minibatches of 16, 4 steps, 2 seeds 16 of 16" in words
    assert "covtype-full" in words
    assert "in total, on processors like this one." in words
    assert run("R10").exit_code == 0
    assert "Nothing is left to train." in run("R10", "--plan").output


def test_scales_that_decide_say_first_what_they_cost(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memgrad.experiments.planning.preview.SECONDS", 0.01)
    asked = []
    monkeypatch.setattr(reproduction, "execute", lambda *_, **__: asked.append(1) or driver.Outcome(interrupted=True))
    result = run("R10", "--scale", "laptop")
    assert "Left to train, laptop, on" in result.output
    assert asked == [1]
    assert re.search(
        r"experiment 1 of 2, covtype-mini, laptop: about [\d.]+ s of training left in total", result.stderr
    )
    assert "Left to train" not in run("R10", "--scale", "laptop", "--quiet").output
    assert "Left to train" not in run("R10").output


@pytest.mark.slow
def test_what_was_made_before_and_not_asked_for_now_stays_in_the_report(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("R10", "bound-beta", "S1").exit_code == 0
    result = run("memories")
    assert result.exit_code == 0
    assert "R10" not in result.output  # the terminal shows what was asked for
    board = scoreboard(tmp_path)
    assert [each["id"] for each in board["verdicts"]] == ["S1", "R10"]
    assert list(board["figures"]) == ["memories", "bound-beta"]
    assert list(board["experiments"]) == ["covtype-mini", "covtype-full"]
    report = (tmp_path / "out" / "report.html").read_text()
    assert report.count("<img") == 2
    # What would be made otherwise now is no longer shown.
    monkeypatch.setattr(reproduction, "source_digest", lambda: "other")
    assert run("memories").exit_code == 0
    assert scoreboard(tmp_path)["verdicts"] == []


@pytest.mark.parametrize("columns", ["80", "200"])
def test_the_scoreboard_fits_the_terminal(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    result = run("S6")
    words = " ".join(result.output.replace("│", " ").split())
    assert "S6 reproduced: t^2/8 maps" in words if columns == "80" else "│ S6 t^2/8 maps" in result.output
    assert "1 reproduced." in result.output
    board = result.stdout.partition("1 reproduced.")[0]
    assert max(map(len, board.splitlines())) <= int(columns)


@pytest.mark.slow
def test_pieces_made_by_several_processes_are_those_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["memories", "bound-beta", "bound-beta-2", "S6"]
    monkeypatch.setattr(pieces, "usable_cores", lambda: 2)
    found: dict[str, dict[str, Any]] = {}
    for where, few in (("here", 10), ("elsewhere", 0)):
        monkeypatch.setattr(pieces, "FEW", few)
        (tmp_path / where).mkdir()
        made = list(pieces.make_pieces(names, tmp_path / where, ["svg"]))
        files = {path.name: path.read_bytes() for piece in made for paths in piece.files.values() for path in paths}
        found[where] = {**files, **{name: verdict for piece in made for name, verdict in piece.verdicts.items()}}
    assert found["here"].keys() == found["elsewhere"].keys() >= {"memories.svg", "bound-beta.csv", "S6"}
    assert found["here"]["S6"] == found["elsewhere"]["S6"]
    assert all(found["here"][name] == found["elsewhere"][name] for name in found["here"] if name.endswith(".csv"))


def test_what_was_made_by_other_code_is_made_again(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("bound-beta").exit_code == 0
    before = (tmp_path / "out" / "bound-beta.png").stat().st_mtime_ns
    monkeypatch.setattr(reproduction, "source_digest", lambda: "other")
    assert run("bound-beta").exit_code == 0
    assert (tmp_path / "out" / "bound-beta.png").stat().st_mtime_ns > before


@pytest.mark.slow
def test_digits_come_from_rows(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("rec", "--ending", "pdf")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "rec.pdf").exists()
    with (tmp_path / "out" / "rec.csv").open() as file:
        rows = list(csv.DictReader(file))
    labels = list(dict.fromkeys(row["label"] for row in rows))
    assert labels[:3] == ["original", "SGD", "HB, best lr"]
    assert len(rows) == len(labels) * 10 * 28 * 28
    originals = np.array([float(row["value"]) for row in rows if row["label"] == "original"])
    sample = tiny("autoencoder-mini").problem_choice.load()
    assert sample.test is not None
    assert np.allclose(originals, sample.test[0][:10].numpy().ravel())
    # Trained or not, pixels are probabilities.
    assert all(0 <= float(row["value"]) <= 1 for row in rows)


def test_a_missing_data_set_skips_what_needs_it_and_the_exit_status_tells(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = driver.facts_of

    def missing(choice: Any, *args: Any, **options: Any) -> Any:
        if choice.name == "cifar10-cnn":
            raise DatasetUnavailable("cifar-10 is nowhere to be had; memgrad data get cifar-10 says why.")
        return loaded(choice, *args, **options)

    monkeypatch.setattr(driver, "facts_of", missing)
    result = run("A1", "R10")
    assert result.exit_code == 1
    assert "skipped polyadam: cifar-10 is nowhere to be had" in result.output
    assert "skipped A1: it needs polyadam." in result.output
    board = scoreboard(tmp_path)
    assert [each["id"] for each in board["verdicts"]] == ["R10"]
    assert set(board["skipped"]) == {"polyadam", "A1"}


def test_an_interrupted_call_says_how_to_go_on(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduction, "execute", lambda *_, **__: driver.Outcome(interrupted=True))
    result = run("R10")
    assert result.exit_code == 130
    said = "".join(result.output.split())  # lines are broken anywhere in a path
    assert f"memgradreproduceR10--scalequick--store{tmp_path / 'store'}--out{tmp_path / 'out'}resumes" in said
    assert scoreboard(tmp_path)["interrupted"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["result"], "did you mean 'results'?"),
        (["r11"], "did you mean 'R1'?"),
        (["R4", "--scale", "labtop"], "unknown scale 'labtop'; did you mean 'laptop'?"),
        (["R4", "--engine", "slurm"], "the engine is local or ray, got 'slurm'"),
        (["bound-beta", "--ending", "gif"], "unknown format 'gif'. Known: png, svg, pdf"),
    ],
)
def test_what_is_misspelt_is_answered_before_anything_is_run(
    words: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["reproduce", *words])
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.replace("│", " ").split())


def test_names_choose_what_is_run() -> None:
    assert chosen([]) == NAMES
    assert chosen(["a1", "Results", "a1"]) == ("results", "A1")
    assert needed(["S1", "memories"]) == ()
    assert needed(["R2"]) == tuple(f"{p}-{s}" for p in ("autoencoder", "mlp", "cnn") for s in ("mini", "full"))
    assert needed(NAMES) == scales.EXPERIMENTS


def test_a_ledger_that_is_damaged_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "made.json").write_text("{")
    ledger = Ledger(tmp_path)
    assert ledger.verdict("S6", "key") is None
    verdict = Verdict(
        CLAIMS["S6"],
        "reproduced",
        (Estimate(float("inf"), name="d"), Estimate(1.0, 0.5, 2.0, name="e")),
        "r",
        "s",
        (1,),
    )
    ledger.keep("S6", "key", verdict=verdict.to_dict())
    assert Ledger(tmp_path).verdict("S6", "key") == verdict
    assert Ledger(tmp_path).verdict("S6", "other") is None


# --- the figures ---


@pytest.fixture(scope="module")
def evidence() -> Any:
    return evidence_of()


@pytest.mark.parametrize("name", [name for name, each in FIGURES.items() if each.needs and name != "rec"])
def test_figures_show_means_and_intervals_of_rows(name: str, evidence: Any) -> None:
    drawn = draw(name, evidence=evidence)
    columns = drawn.columns
    assert len({len(column) for column in columns.values()}) == 1
    panels = {"padam": 4, "acc": 6, "results": 16}.get(name, 8)
    assert len(drawn.figure.axes) == panels
    low, mean, high = (np.asarray(columns[end], dtype=float) for end in ("low", "mean", "high"))
    assert np.all((low <= mean) & (mean <= high))
    assert set(drawn.about()["experiments"]) == set(FIGURES[name].needs)


@pytest.mark.parametrize("name", [name for name, each in FIGURES.items() if len(each.needs) > 1])
def test_figures_of_several_experiments_have_a_form_for_a_column(name: str, evidence: Any) -> None:
    wide, narrow = (draw(name, evidence=evidence, across=across) for across in (None, 2))
    assert narrow.figure.get_figwidth() < 0.8 * wide.figure.get_figwidth()
    shown = [[axes.get_title() for axes in each.figure.axes if axes.get_title()] for each in (wide, narrow)]
    assert shown[0] == shown[1]
    assert {name: column.tolist() for name, column in wide.columns.items()} == {
        name: column.tolist() for name, column in narrow.columns.items()
    }


def test_what_was_not_measured_is_said() -> None:
    evidence = evidence_of(names=FIGURES["gradnorm"].needs, metrics=["loss"])
    figure = draw("gradnorm", evidence=evidence).figure
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["not measured\nat the scale\nlaptop"] * 8


def test_the_loss_is_averaged_as_its_axis_shows_it(evidence: Any) -> None:
    columns = draw("results", evidence=evidence).columns
    here = (columns["experiment"] == "mlp-mini") & (columns["method"] == "SGD") & (columns["step"] == 200)
    results = evidence["mlp-mini"]
    values = results.curve("SGD", "loss").values[-1]
    assert columns["mean"][here] == pytest.approx(np.exp(np.log(values).mean()))
    assert columns["lr"][here] == pytest.approx(0.05)


def test_accuracies_are_on_linear_axes_within_0_and_1(evidence: Any) -> None:
    accuracy = draw("acc", evidence=evidence).figure
    loss, other, ratios, nothing = draw("padam", evidence=evidence).figure.axes
    assert (ratios.get_ylabel(), nothing.axison) == ("loss / Adam's", False)
    assert loss.get_yscale() == "log"
    for axes in (*accuracy.axes, other):
        low, high = axes.get_ylim()
        assert axes.get_yscale() == "linear"
        assert 0 <= low < high <= 1


def test_ratios_are_those_that_claims_are_decided_by(evidence: Any) -> None:
    columns = draw("ratios", evidence=evidence).columns
    here = (columns["experiment"] == "mlp-full") & (columns["method"] == "MemSGD p=4")
    finals = [evidence["mlp-full"].final(method, "loss") for method in ("MemSGD p=4", "SGD")]
    assert columns["mean"][here] == pytest.approx([np.exp(np.mean(np.log(finals[0] / finals[1])))])
    assert len(columns["mean"]) == 8 * 5


def test_a_method_that_diverged_has_a_cross_at_the_side_it_left_by() -> None:
    gone = lambda name, method, lr, seed: (name, method, seed) == ("cnn-mini", "MemSGD p=2", 1)  # noqa: E731
    evidence = evidence_of(names=FIGURES["ratios"].needs, diverged=gone)
    figure = draw("ratios", evidence=evidence).figure
    crosses = [[line for line in axes.lines if line.get_marker() == "x"] for axes in figure.axes]
    (cross,) = crosses.pop(3)  # minibatches are above, the CNN is last
    assert float(np.asarray(cross.get_xdata())[0]) > 0.9  # of the panel's width
    assert not any(crosses)


def test_heavy_ball_is_also_shown_at_the_step_size_of_sgd(evidence: Any) -> None:
    columns = draw("results", evidence=evidence).columns
    mine = (columns["experiment"] == "cnn-full") & (columns["method"] == "HB")
    assert set(columns["lr"][mine].tolist()) == {0.005, 0.05}


def test_step_sizes_mark_the_selected_and_the_papers(evidence: Any) -> None:
    figure = draw("step-sizes", evidence=evidence).figure
    autoencoder = figure.axes[1]
    vertical = {float(np.asarray(line.get_xdata())[0]) for line in autoencoder.lines if line.get_linestyle() == ":"}
    assert vertical == {0.05, 0.005}
    filled = [line for line in autoencoder.lines if line.get_markersize() == 6 and len(np.asarray(line.get_xdata()))]
    assert {float(np.asarray(line.get_xdata())[0]) for line in filled} == {0.05, 0.005}


def test_a_rehearsal_is_marked_on_every_figure(evidence: Any) -> None:
    rehearsal = dataclasses.replace(evidence, scale=REHEARSAL)
    for scale_evidence, marked in ((rehearsal, True), (evidence, False)):
        figure = draw("padam", evidence=scale_evidence).figure
        titles = [legend.get_title().get_text().replace("\n", " ") for legend in figure.legends]
        assert (WARNING in titles) == marked
    assert DECIDING.decides
