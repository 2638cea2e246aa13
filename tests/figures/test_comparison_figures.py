"""Figures of experiments show the rows."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from tiny_runs import chunk_from, run_of

from memgrad import figures
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store

SPEC = Spec.parse("""
problem = "logistic"
steps = 30
seeds = 2
[[methods]]
optimizer = "SGD"
lr = [0.1, 1, 10]
[[methods]]
optimizer = "MemSGD"
memory = "poly:2"
lr = 1
""")
TABLE = {
    "SGD": {lr: {seed: run_of(lr=lr, seed=seed) for seed in (0, 1)} for lr in (0.1, 1.0, 10.0)},
    "MemSGD": {1.0: {seed: run_of("MemSGD", lr=1.0, seed=seed) for seed in (0, 1)}},
}


def loss(run: Run, step: int) -> float:
    return (2.0 if run.recipe.optimizer == "SGD" else 1.0) * (1 + run.seed) * (1 + abs(math.log10(run.lr))) / (1 + step)


def drawn(folder: Path, *, sign: float = 1.0, missing: str = "", **options: bool) -> Figure:
    runs = [run for name in TABLE if name != missing for at in TABLE[name].values() for run in at.values()]
    store = Store.open(folder)
    diverged = {TABLE["SGD"][10.0][1].digest: 20}
    store.write(chunk_from(runs, lambda run, step: sign * loss(run, step), diverged))
    return figures.comparison(Results.read(SPEC, store, TABLE), "loss", caption="two seeds", **options)


def test_curves_are_means_over_seeds_at_the_selected_step_sizes(tmp_path: Path) -> None:
    axes = drawn(tmp_path).axes[0]
    by_label = {line.get_label(): line for line in axes.lines}
    assert {"SGD, lr 1", "MemSGD, lr 1"} <= by_label.keys()
    steps = np.array([0, 10, 20, 30])
    np.testing.assert_array_equal(by_label["SGD, lr 1"].get_xdata(), steps)
    np.testing.assert_allclose(np.asarray(by_label["SGD, lr 1"].get_ydata()), 3 / (1 + steps))
    assert axes.get_yscale() == "log"


def test_bands_are_t_intervals(tmp_path: Path) -> None:
    band = drawn(tmp_path).axes[0].collections[0].get_paths()[0].vertices
    # Two numbers 2 and 4: mean 3, standard error 1, and Student's point of one degree is 12.706.
    at_start = sorted({round(float(y), 3) for x, y in band if x == 0})
    assert (at_start[0], at_start[-1]) == (pytest.approx(3 - 12.706, abs=1e-3), pytest.approx(3 + 12.706, abs=1e-3))


def test_final_values_stand_over_their_step_sizes_and_crosses_where_a_run_diverged(tmp_path: Path) -> None:
    axes = drawn(tmp_path).axes[1]
    points = [(float(x), float(y)) for line in axes.lines for x, y in line.get_xydata()]
    for lr, value in ((0.1, 6 / 31), (1.0, 3 / 31), (1.0, 1.5 / 31)):
        assert (lr, pytest.approx(value)) in points
    (cross,) = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert np.asarray(cross.get_xdata()).tolist() == [10.0]


def test_axes_are_logarithmic_where_that_is_asked_and_possible(tmp_path: Path) -> None:
    assert drawn(tmp_path / "a", log_steps=True).axes[0].get_xscale() == "symlog"
    assert drawn(tmp_path / "b", log_values=False).axes[0].get_yscale() == "linear"
    assert drawn(tmp_path / "c", sign=-1.0).axes[0].get_yscale() == "linear"


def test_a_method_that_is_not_finished_is_left_out_and_colors_stay(tmp_path: Path) -> None:
    both, one = drawn(tmp_path / "a"), drawn(tmp_path / "b", missing="SGD")
    color = {line.get_label(): line.get_color() for line in both.axes[0].lines}["MemSGD, lr 1"]
    assert {line.get_label(): line.get_color() for line in one.axes[0].lines} == {"MemSGD, lr 1": color}


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_names_that_are_broken_mathematics_are_shown_as_they_are_written(tmp_path: Path, ending: str) -> None:
    names = {"SGD": "$x_{$ costs $5", "MemSGD": "_memory & \x7f <b> $\\beta$"}
    spec = SPEC.model_copy(
        update={"methods": [m.model_copy(update={"name": names[m.optimizer]}) for m in SPEC.methods]}
    )
    store = Store.open(tmp_path / "store")
    store.write(chunk_from([run for lrs in TABLE.values() for at in lrs.values() for run in at.values()], loss))
    results = Results.read(spec, store, {names[name]: lrs for name, lrs in TABLE.items()})
    figure = figures.comparison(results, "loss", caption="$x_{$")
    path = figures.save(figure, tmp_path / f"figure.{ending}")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["\\$x_{\\$ costs \\$5, lr 1", "_memory &   <b> $\\beta$, lr 1"]
    if ending == "svg":
        ElementTree.parse(path)  # our own file


def test_the_figure_can_be_saved(tmp_path: Path) -> None:
    assert figures.save(drawn(tmp_path / "store"), tmp_path / "figure.svg").stat().st_size > 1000
