"""What the figures of training are given to draw: panels, bands, notes and captions, by the rows behind them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_results import REHEARSAL, evidence_of, results_of, usual_loss
from matplotlib.figure import Figure
from scipy import stats

from memgrad.experiments.driver import stored_results
from memgrad.figures import TrainingPanel
from memgrad.paper import figures, training_figures
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.evidence import Evidence
from memgrad.paper.published import published_store
from memgrad.paper.scales import EXPERIMENTS, POLYADAM, experiment, scales
from memgrad.paper.verdicts import JUDGES
from memgrad.statistics import Estimate

TITLES = ["Covtype Logreg", "MNIST Autoencoder", "FashionMNIST MLP", "CIFAR-10 CNN"]
METHODS = ["SGD", "HB, best lr", "MemSGD p=2", "MemSGD p=4", "MemSGD p=100", "MemSGD p=e", "HB, SGD's lr"]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return evidence_of()


class Shown:
    """What a drawing function of `memgrad.figures` was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.rows: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        monkeypatch.setattr(training_figures.figures, name, self)

    def __call__(self, rows: dict[str, Any], **options: Any) -> Figure:
        self.rows, self.options = rows, options
        return Figure()

    @property
    def panels(self) -> dict[str, TrainingPanel]:
        return {f"{row}: {panel.title}": panel for row, panels in self.rows.items() for panel in panels}


@pytest.mark.parametrize(
    ("draw", "figure", "titles", "ylabel", "share"),
    [
        (training_figures.loss, "results", TITLES, "loss", False),
        (training_figures.gradient_norm, "gradnorm", TITLES, "gradient norm", False),
        (training_figures.accuracy, "acc", [TITLES[0], *TITLES[2:]], "training accuracy", True),
        (training_figures.step_norm, "stepnorm", TITLES, "step norm", False),
    ],
)
def test_a_figure_over_iterations_has_a_panel_for_each_problem_and_setting(
    draw: Any, figure: str, titles: list[str], ylabel: str, share: bool, evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(monkeypatch, "training_curves")
    draw(evidence.only(FIGURES[figure].needs))
    assert list(shown.panels) == [f"{row} batch: {title}" for row in ("mini", "full") for title in titles]
    assert (shown.options["ylabel"], shown.options.get("ratio_label")) == (
        ylabel,
        "loss / SGD's" if figure == "results" else None,
    )
    assert shown.options["warning"] == ""
    for title, panel in shown.panels.items():
        # On covtype both best step sizes are equal, and a tenth of them was not run.
        expected = METHODS[:-1] if "Covtype" in title else METHODS
        assert list(panel.bands) == expected
        assert panel.share is share
        assert list(panel.ratios) == (expected[1:] if figure == "results" else [])
    below = "below each panel of losses these as a multiple of SGD's, paired by seed; laptop: mean over seeds"
    assert shown.options["caption"].startswith(below if figure == "results" else "laptop: mean over seeds")
    assert "covtype-mini 4 seeds, 200 steps, all 464,809 examples, " in shown.options["caption"]
    note = shown.panels["mini batch: FashionMNIST MLP"].note.splitlines()
    assert note[:2] == ["lr SGD 0.05, HB 0.005", "4 seeds"]
    assert len(note) == 2


def test_bands_are_means_with_students_intervals_of_logarithms_and_of_shares(
    evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for draw, metric, there, back in (
        (training_figures.loss, "loss", np.log, np.exp),
        (training_figures.accuracy, "accuracy", *[np.asarray] * 2),
    ):
        shown = Shown(monkeypatch, "training_curves")
        _, columns = draw(evidence.only(FIGURES["acc"].needs))
        band = shown.panels["full batch: CIFAR-10 CNN"].bands["HB, best lr"]
        values = there(evidence["cnn-full"].curve("HB", metric).values)
        ends = stats.ttest_1samp(values, 0.0, axis=1).confidence_interval(0.95)
        assert band.mean == pytest.approx(back(values.mean(axis=1)))
        assert (band.low, band.high) == (pytest.approx(back(ends.low)), pytest.approx(back(ends.high)))
        assert band.x.tolist() == evidence["cnn-full"].curve("HB", metric).steps.tolist()
        here = (columns["experiment"] == "cnn-full") & (columns["metric"] == metric) & (columns["method"] == "HB")
        here &= columns["lr"] == 0.005
        for name, expected in (("step", band.x), ("mean", band.mean), ("low", band.low), ("high", band.high)):
            assert columns[name][here].tolist() == expected.tolist()


def test_ratios_below_panels_are_paired_by_seed_at_the_steps_that_both_have(
    evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(monkeypatch, "training_curves")
    _, columns = training_figures.loss(evidence.only(FIGURES["results"].needs))
    band = shown.panels["mini batch: FashionMNIST MLP"].ratios["HB, SGD's lr"]
    mine, other = (evidence["mlp-mini"].curve(method, "loss", lr=0.05).values for method in ("HB", "SGD"))
    assert band.mean == pytest.approx(stats.gmean(mine / other, axis=1))
    assert set(columns["metric"].tolist()) == {"loss", "loss / SGD's"}


def test_a_panel_says_what_was_measured_on_few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evidence_of(names=["mlp-mini", "mlp-full"])
    shown = Shown(monkeypatch, "training_curves")
    for sample, said in (
        ({"sample": True}, ["4 seeds", "60,000 examples"]),
        ({"examples": 60_000}, ["4 seeds", "60,000 examples"]),
        ({}, ["4 seeds"]),
    ):
        for each in whole.results.values():
            each.spec = each.spec.model_copy(update={"sample": False, "examples": None} | sample)
        training_figures.gradient_norm(whole)
        assert shown.panels["mini batch: FashionMNIST MLP"].note.splitlines()[1:] == said


def test_a_metric_that_was_not_measured_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch, "training_curves")
    _, columns = training_figures.accuracy(evidence_of(names=["mlp-mini"], metrics=["loss"]))
    panel = shown.panels["mini batch: FashionMNIST MLP"]
    assert (panel.bands, panel.note) == ({}, "not measured\nat the scale\nlaptop")
    assert {name: len(column) for name, column in columns.items()} == dict.fromkeys(training_figures._Table.NAMES, 0)


def test_adaptive_methods_stand_side_by_side_with_their_step_sizes(
    evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(monkeypatch, "training_curves")
    training_figures.adaptive(evidence.only(["polyadam"]))
    [row] = shown.rows.values()
    assert [(panel.title, panel.share, panel.note) for panel in row] == [
        ("loss", False, ""),
        ("training accuracy", True, ""),
    ]
    assert all(label.endswith(", lr 0.001") for label in row[0].bands)
    assert len(row[0].bands) == 7
    assert (list(shown.rows), shown.options["ylabel"]) == ([""], "")


def test_step_sizes_show_finals_with_the_selected_and_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = lambda name, method, lr, seed: (method, lr, seed) == ("HB", 1.0, 2)  # noqa: E731
    evidence = evidence_of(names=["autoencoder-mini", "mlp-mini"], diverged=gone)
    shown = Shown(monkeypatch, "training_curves")
    _, columns = training_figures.step_sizes(evidence)
    first, second = shown.rows["mini batch"]
    assert (first.verticals, second.verticals) == ({"SGD": 0.05, "HB": 0.005}, {})
    assert (first.title, first.note) == ("MNIST Autoencoder", "4 seeds")
    band = second.bands["HB"]
    assert (band.x.tolist(), band.marked) == ([0.001, 0.005, 0.05, 1.0], 0.005)
    finals = evidence["mlp-mini"].final("HB", "loss", lr=0.05)
    assert band.mean[2] == pytest.approx(stats.gmean(finals))
    assert np.isnan([band.mean[3], band.low[3], band.high[3]]).all()
    options = shown.options
    assert (options["ylabel"], options["xlabel"], options["over_step_sizes"]) == ("final loss", "step size", True)
    assert options["caption"].startswith(
        "filled = selected on the seeds in the titles, dotted = the paper's, where it says, cross = diverged, "
    )
    assert set(columns["metric"].tolist()) == {"final loss"}
    assert set(columns["step"].tolist()) == {200}


def test_the_steps_of_one_seed_are_said_in_the_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch, "training_curves")
    training_figures.step_sizes(evidence_of(names=["mlp-mini"], seeds=1))
    assert shown.panels["mini batch: FashionMNIST MLP"].note == "1 seed"


def test_ratios_are_final_losses_beside_those_of_sgd(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(name: str, method: str, lr: float, seed: int, share: float) -> float:
        return usual_loss(name, "SGD", 0.05, seed, share) * (0.5 if method == "MemSGD p=2" else 1.0)

    shown = Shown(monkeypatch, "ratios")
    _, columns = training_figures.ratios(evidence_of(names=["mlp-full"], loss=half))
    found = shown.rows["full batch"]["FashionMNIST MLP"]
    assert list(found) == ["HB", "MemSGD p=2", "MemSGD p=4", "MemSGD p=100", "MemSGD p=e"]
    assert isinstance(found["HB"], Estimate)
    assert (found["MemSGD p=2"].value, found["MemSGD p=2"].low) == pytest.approx((0.5, 0.5))
    assert shown.options["xlabel"] == "final loss / SGD's"
    assert shown.options["caption"].startswith("laptop: geometric mean over seeds and its 95 % interval, all at their")
    assert columns["mean"].tolist() == pytest.approx([1, 0.5, 1, 1, 1])
    assert set(columns["metric"].tolist()) == {"final loss / SGD's"}


def test_a_rehearsal_warns_on_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch, "training_curves")
    training_figures.loss(evidence_of(REHEARSAL, names=["mlp-full"]))
    assert shown.options["warning"] == "Rehearsal on samples: it decides nothing"
    assert list(shown.rows) == ["mini batch", "full batch"]
    assert shown.rows["mini batch"] == []


def test_curves_have_labels_methods_and_step_sizes() -> None:
    found = training_figures._shown(results_of("mlp-mini"))
    best = {"HB": 0.005}
    expected = [(label, label.split(",")[0], best.get(label.split(",")[0], 0.05)) for label in METHODS[:-1]]
    assert found == [*expected, ("HB, SGD's lr", "HB", 0.05)]
    apart = results_of("mlp-mini", step_sizes={"HB": [0.005, 0.001]})
    assert [label for label, *_ in training_figures._shown(apart)] == METHODS[
        :-1
    ]  # SGD's step size was not tried for HB


def test_reconstructions_are_rows_of_pictures_and_their_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch, "reconstructed")
    shape = (2, 3, 3)
    monkeypatch.setattr(training_figures, "_pictures", lambda results, method, lr, wanted: np.full(wanted, lr))
    evidence = dataclasses.replace(
        evidence_of(names=["autoencoder-mini"]), originals=lambda: np.arange(18).reshape(shape) / 17
    )
    _, columns = training_figures.reconstructions(evidence)
    results = evidence["autoencoder-mini"]
    finals = [results.final(method, "loss", lr=lr)[0] for _, method, lr in training_figures._shown(results)]
    labels = [f"{label}: {final:.3g}" for label, final in zip(METHODS, finals, strict=True)]
    assert list(shown.rows) == ["original", *labels]
    assert shown.rows[labels[1]].tolist() == np.full(shape, 0.005).tolist()
    what = "laptop: test examples, final loss beside each method, runs with the seed 0, autoencoder-mini 4 seeds"
    assert shown.options["caption"].startswith(what)
    place = (
        (columns["label"] == "original") & (columns["picture"] == 1) & (columns["row"] == 2) & (columns["column"] == 0)
    )
    assert columns["value"][place].tolist() == [15 / 17]
    assert len(columns["value"]) == 18 * 8


def test_pictures_of_a_run_that_diverged_are_gray_and_missing_ones_are_told() -> None:
    results = results_of("autoencoder-mini", diverged=lambda name, method, lr, seed: method == "SGD" and lr == 1.0)
    assert training_figures._pictures(results, "SGD", 1.0, (1, 2, 2)).tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    with pytest.raises(LookupError, match="the rows of SGD have no pictures"):
        training_figures._pictures(results, "SGD", 0.05, (1, 2, 2))
    assert math.isfinite(results.selected_lr("SGD"))


@pytest.mark.parametrize("figure", [name for name, each in FIGURES.items() if len(each.needs) > 1])
def test_panels_of_experiments_that_are_not_complete_say_so(figure: str, evidence: Evidence) -> None:
    complete = FIGURES[figure].needs[0]
    picture = figures.draw(figure, evidence=evidence.only([complete]))
    assert set(picture.columns["experiment"]) == {complete}
    panels = [axes for axes in picture.figure.axes if axes.get_title()]
    assert len(panels) == len(FIGURES[figure].needs)
    written = [[text.get_text() for text in axes.texts] for axes in panels]
    assert [texts == ["not run"] for texts in written].count(True) == len(panels) - 1
    assert picture.about()["experiments"].keys() == {complete}


def test_claims_are_not_decided_from_a_part_of_their_experiments(evidence: Evidence) -> None:
    with pytest.raises(KeyError, match="covtype-full"):
        JUDGES["R1"].decide(evidence.only(["covtype-mini"]))


# --- from published rows, with step sizes that were tuned on other seeds ---------------------------------------------


@pytest.fixture(scope="module")
def published() -> Evidence:
    """The complete experiments of the scale workstation."""
    store = published_store(Path(__file__).parents[2] / "docs" / "results", "workstation")
    found = {name: stored_results(experiment(name, "workstation"), store) for name in EXPERIMENTS}
    whole = {name: each for name, each in found.items() if each is not None and each.finished}
    absent = tuple(name for name in EXPERIMENTS if name not in whole and name != POLYADAM)
    return Evidence(scales()["workstation"], whole, lambda: 0.0, lambda: np.zeros(0), absent)


def of_problems(evidence: Evidence, *, accuracy: bool = False) -> Evidence:
    names = [name for name in EXPERIMENTS if name != POLYADAM and not (accuracy and name.startswith("autoencoder"))]
    return evidence.available(names)


def test_heavy_ball_at_sgds_step_size_is_drawn_or_where_that_is_its_best_at_a_tenth_as_in_the_paper(
    published: Evidence,
) -> None:
    last = {name: training_figures._shown(published[name])[-1] for name in ("mlp-full", "cnn-mini", "covtype-full")}
    assert last == {
        "mlp-full": ("MemSGD p=e", "MemSGD p=e", 0.1),  # a tenth was run for tuning only
        "cnn-mini": ("HB, SGD's lr", "HB, SGD's lr", 0.1),
        "covtype-full": ("HB, a tenth of SGD's lr", "HB", 0.1),
    }


def test_panels_of_another_regime_say_so(published: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch, "training_curves")
    training_figures.loss(of_problems(published))
    said = {name for name, panel in shown.panels.items() if "another regime" in panel.note}
    assert "full batch: FashionMNIST MLP" in said
    assert not any(name.startswith("mini") for name in said)


@pytest.mark.parametrize(
    "metric",
    ["loss", "accuracy", *(pytest.param(each, marks=pytest.mark.slow) for each in ("gradient_norm", "step_norm"))],
)
def test_titles_stand_beside_each_other_and_numbers_are_there_once(metric: str, published: Evidence) -> None:
    draw = {"loss": training_figures.loss, "accuracy": training_figures.accuracy}.get(
        metric, getattr(training_figures, metric)
    )
    figure, columns = draw(of_problems(published, accuracy=metric == "accuracy"))
    rows = list(
        zip(*(columns[name].tolist() for name in ("experiment", "method", "lr", "metric", "step")), strict=True)
    )
    assert len(set(rows)) == len(rows)
    figure.draw_without_rendering()
    extents = [axes.title.get_window_extent() for axes in figure.axes if axes.get_title()]
    assert len(extents) == (6 if metric == "accuracy" else 8)
    for extent in extents:
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.x1
        assert sum(extent.overlaps(other) for other in extents) == 1  # itself


def test_a_curve_that_ends_early_ends_in_a_cross() -> None:
    gone = lambda name, method, lr, seed: method == "MemSGD p=2" and seed == 0  # noqa: E731
    evidence = evidence_of(names=["mlp-mini", "mlp-full"], diverged=gone)
    figure, _ = training_figures.gradient_norm(evidence)
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == 2
    whole, _ = training_figures.gradient_norm(evidence_of(names=["mlp-mini", "mlp-full"]))
    assert not [line for axes in whole.axes for line in axes.lines if line.get_marker() == "x"]
