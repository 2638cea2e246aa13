"""The paper's figures show what was computed, and say how."""

from __future__ import annotations

import csv
import dataclasses
import json
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

from memgrad.cli import app
from memgrad.figures.style import EXACT
from memgrad.paper import figures as paper_figures
from memgrad.paper.catalogue import FIGURES, SYNTHETIC
from memgrad.paper.figures import Picture, draw
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    OdesSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    SmoothingSettings,
    TimeWarpSettings,
)
from memgrad.tables import write_table

SMALL: dict[str, Any] = {
    "hb-amplification": AmplificationSettings(end=4.0, dt=0.05, paths=20),
    "time-warp": TimeWarpSettings(end=4.0, dt=0.05),
    "verif-noise": ConstantNoiseSettings(runs=20, dt=0.05),
    "quadratic-variance": SecondMomentsSettings(end=4.0),
    "verif-noise-quadratic": QuadraticNoiseSettings(runs=20, dt=0.05, end=4.0),
    "odes": OdesSettings(powers=(1.0, 3.0), path_end=20.0, loss_end=40.0, heavy_ball_end=20.0, memory_end=40.0),
    "p-verification": SmoothingSettings(steps=60, runs=8),
}


@pytest.fixture(scope="module")
def drawn() -> dict[str, Picture]:
    return {name: draw(name, settings=SMALL.get(name)) for name in SYNTHETIC}


def line_data(figure: Figure, panel: int) -> list[tuple[Any, Any]]:
    return [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in figure.axes[panel].lines]


def has_line(figure: Figure, panel: int, x: Any, y: Any) -> bool:
    return any(
        len(one) == len(x) and np.allclose(one, x) and np.allclose(other, y) for one, other in line_data(figure, panel)
    )


def test_every_figure_can_be_drawn_and_has_its_table(drawn: dict[str, Picture]) -> None:
    for name, each in drawn.items():
        lengths = {len(column) for column in each.columns.values()}
        assert len(lengths) == 1, name
        assert lengths.pop() > 10, name


@pytest.mark.parametrize("name", [name for name in SYNTHETIC if name != "memories"])
def test_the_settings_are_written_on_the_figure(name: str, drawn: dict[str, Picture]) -> None:
    settings = SMALL.get(name, FIGURES[name].settings)
    assert drawn[name].figure.get_supxlabel().replace("\n", " ") == settings.caption()


def test_axes_are_labeled(drawn: dict[str, Picture]) -> None:
    for name, each in drawn.items():
        assert any(axes.get_xlabel() for axes in each.figure.axes), name
        assert any(axes.get_ylabel() for axes in each.figure.axes), name


def test_amplification_shows_paths_losses_and_exact_means(drawn: dict[str, Picture]) -> None:
    figure, found = drawn["hb-amplification"].figure, drawn["hb-amplification"].result
    for each in (found.memory, found.nesterov):
        assert has_line(figure, 0, *each.x.T)
        assert has_line(figure, 1, found.t, each.loss)
        assert has_line(figure, 1, found.t, each.exact)
        assert has_line(figure, 2, found.t, each.mean)
        assert has_line(figure, 2, found.t, each.exact)


def test_the_time_warp_shows_both_equations_and_the_warped_one(drawn: dict[str, Picture]) -> None:
    figure, found = drawn["time-warp"].figure, drawn["time-warp"].result
    assert has_line(figure, 0, *found.memory_x.T)
    assert has_line(figure, 0, *found.nesterov_x.T)
    for x in (found.memory_x, found.nesterov_x, found.warped_x):
        assert has_line(figure, 1, found.t, x[:, 0])
    for x in (found.memory_noisy, found.nesterov_noisy):
        assert has_line(figure, 2, *x.T)


@pytest.mark.parametrize("name", ["verif-noise", "verif-noise-quadratic"])
def test_velocities_are_shown_with_their_exact_moments(name: str, drawn: dict[str, Picture]) -> None:
    figure, found = drawn[name].figure, drawn[name].result
    for panel, each in enumerate((found.memory, found.nesterov)):
        assert has_line(figure, panel, found.t, each.mean)
        assert has_line(figure, panel, found.t, each.exact_mean)
        assert has_line(figure, panel, found.t, each.exact_mean + each.exact_sd)
        assert has_line(figure, panel, found.t, each.exact_mean - each.exact_sd)
        band = figure.axes[panel].collections[0].get_paths()[0].vertices
        assert band[:, 1].max() == pytest.approx((each.mean + each.sd).max())


def test_second_moments_are_shown_with_their_closed_form(drawn: dict[str, Picture]) -> None:
    figure, found = drawn["quadratic-variance"].figure, drawn["quadratic-variance"].result
    for i in range(3):
        assert has_line(figure, 0, found.t, found.nesterov[:, i])
        assert has_line(figure, 1, found.t, found.memory[:, i])
        assert has_line(figure, 1, found.t, found.memory_exact[:, i])
    assert has_line(figure, 0, found.t, found.t / 8)


def test_the_bounds_meet_at_the_root_of_mu(drawn: dict[str, Picture]) -> None:
    axes = drawn["bound-beta"].figure.axes[0]
    dot = axes.lines[-1]
    assert np.asarray(dot.get_xdata())[0] == pytest.approx(np.sqrt(10))
    assert "3.162" in axes.texts[0].get_text()


def test_the_region_shows_the_optimal_and_the_approximate_solution(drawn: dict[str, Picture]) -> None:
    points = [(float(x[0]), float(y[0])) for x, y in line_data(drawn["bound-beta-2"].figure, 0) if len(x) == 1]
    (best, gamma), (simple, lower) = points
    assert best + gamma == pytest.approx(2.5)
    assert (simple, lower) == pytest.approx((2.0, 0.5))
    assert gamma == pytest.approx(0.5 * best / (1 + best**2 / 10))  # on the curve


def test_the_equations_of_the_appendix_stand_side_by_side(drawn: dict[str, Picture]) -> None:
    figure, found = drawn["odes"].figure, drawn["odes"].result
    assert len(figure.axes) == 4 * 3  # constant, quadratic, exponential; momentum and memory, path and loss
    for i, each in enumerate(found.descents):
        row, column = i % 3, 2 * (i // 3)
        assert has_line(figure, 4 * row + column, *each.path.T)
        assert has_line(figure, 4 * row + column + 1, each.t, each.loss)
        guides = [y for x, y in line_data(figure, 4 * row + column + 1) if len(x) == 2]
        slopes = [np.log(y[1] / y[0]) / np.log(40.0 / 10.0) for y in guides]
        assert slopes == pytest.approx([-1, -2, -3, -4])
    exact = [line for line in figure.axes[1].lines if line.get_color() == EXACT["color"]]
    assert len(exact) == 1


def test_smoothing_shows_a_run_means_and_losses(drawn: dict[str, Picture]) -> None:
    figure, found = drawn["p-verification"].figure, drawn["p-verification"].result
    k = np.arange(61)
    for i in range(3):
        assert has_line(figure, 0, *found.first_x[i].T)
        assert has_line(figure, 1, k, found.mean_x[i, :, 0])
        assert has_line(figure, 2, k, found.mean_loss[i])
    bands = [each.get_paths()[0].vertices[:, 1].max() for each in figure.axes[2].collections]
    assert sorted(bands) == pytest.approx(sorted((found.mean_loss + 1.96 * found.error_loss).max(axis=1)))


def test_every_figure_says_where_it_is_in_the_paper_and_is_drawn_by_a_function() -> None:
    assert {FIGURES[name].where for name in ("results", "odes", "ratios")} == {
        "Fig. results_iterations_main",
        "App. F",
        "Sec. 5",
    }
    for figure in FIGURES.values():
        module, _, function = figure.drawn_by.partition(".")
        assert callable(getattr(import_module(f"memgrad.paper.{module}"), function)), figure.name
        assert (figure.settings is None) == bool(figure.needs), figure.name


def test_a_figure_of_training_needs_evidence() -> None:
    with pytest.raises(ValueError, match="'padam' needs the evidence of polyadam, got none"):
        draw("padam")


def test_wrong_settings_and_needless_seeds_are_refused() -> None:
    with pytest.raises(TypeError, match="takes SmoothingSettings, got settings of type OdesSettings"):
        draw("p-verification", settings=OdesSettings())
    with pytest.raises(ValueError, match="'bound-beta' does not depend on a seed, got seed=1; these do: hb-ampl"):
        draw("bound-beta", seed=1)
    with pytest.raises(ValueError, match="did you mean 'verif-noise'"):
        draw("verif-nose")


def test_a_table_is_read_back_as_it_was(tmp_path: Path, drawn: dict[str, Picture]) -> None:
    columns = drawn["odes"].columns
    with write_table(columns, tmp_path / "odes.csv", about=drawn["odes"].about()).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(columns)
    assert [float(row["loss"]) for row in rows] == columns["loss"].tolist()
    assert {row["equation"] for row in rows} == set(columns["equation"].tolist())
    about = json.loads((tmp_path / "odes.json").read_text())
    assert about["settings"]["powers"] == [1.0, 3.0]
    assert "path_end" in about["own_choices"]


# --- the command line ---


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "140", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands, with smaller settings behind them."""
    entries = {
        name: dataclasses.replace(each, settings=SMALL.get(name, each.settings)) for name, each in FIGURES.items()
    }
    monkeypatch.setattr(paper_figures, "FIGURES", MappingProxyType(entries))


@pytest.mark.usefixtures("small")
def test_a_figure_is_drawn_by_a_command(tmp_path: Path) -> None:
    out, data = tmp_path / "new" / "a.svg", tmp_path / "new" / "a.csv"
    result = run("plot", "verif-noise", "--out", str(out), "--data", str(data), "--seed", "3")
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"<?xml")
    assert data.read_text().startswith("t,memory_mean,")
    assert sorted(path.name for path in out.parent.iterdir()) == ["a.csv", "a.json", "a.svg"]
    again = run("plot", "verif-noise", "--out", str(tmp_path / "b.svg"), "--seed", "3")
    assert again.exit_code == 0
    assert (tmp_path / "b.svg").read_bytes() == out.read_bytes()
    run("plot", "verif-noise", "--out", str(tmp_path / "c.svg"))
    assert (tmp_path / "c.svg").read_bytes() != out.read_bytes()


def test_all_figures_are_drawn_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: dict[str, int | None] = {}
    one = Picture(Figure(), {"a": np.arange(3)}, SmoothingSettings())

    def noted(name: str, *, seed: int | None, progress: object) -> Picture:
        seeds[name] = seed
        return one

    monkeypatch.setattr(paper_figures, "draw", noted)
    result = run("plot", "all", "--out", str(tmp_path), "--ending", "svg", "--seed", "2")
    assert result.exit_code == 0, result.output
    assert seeds == {name: 2 if each.is_random else None for name, each in SYNTHETIC.items()}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{name}.{ending}" for name in SYNTHETIC for ending in ("csv", "json", "svg")
    )


@pytest.mark.parametrize("name", SYNTHETIC)
def test_each_command_says_what_to_type(name: str) -> None:
    result = run("plot", name, "--help")
    assert result.exit_code == 0
    assert f"memgrad plot {name} " in result.stdout
    assert ("--seed" in result.stdout) == FIGURES[name].is_random


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["plot", "odes", "--out", "a.gif"], "png, svg, pdf"),
        (["plot", "odes", "--data", "a.txt"], ".csv or .parquet"),
        (["plot", "all", "--ending", "gif"], "got --ending 'gif'"),
        (["plot", "verif-noise", "--seed", "-1"], "got seed=-1"),
        (["plot", "bound-beta", "--seed", "1"], "--seed"),
        (["plot", "verif-nose"], "verif-noise"),
    ],
)
def test_bad_input_is_refused_before_anything_is_run(words: list[str], complaint: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.output
