"""What figures draw: intervals, frames, guides and marks at the places that their definitions give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad import figures
from memgrad.dynamics import MemoryFlow, moments, simulate
from memgrad.experiments.measuring.measure import Measured
from memgrad.experiments.racing.answer import Answer
from memgrad.figures.language import LanguagePanels, language
from memgrad.figures.style import log_ticks, sheet, thousands
from memgrad.memory import Exponential, Polynomial
from memgrad.statistics import Estimate

QUANTILE = 1.96
"""The 97.5 % quantile of the normal distribution, to three digits."""


def data_of(line: Any) -> tuple[Any, Any]:
    return np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)


def marks(axes: Axes, marker: str) -> list[tuple[float, float]]:
    """The places of a marker, in the coordinates that it was drawn in."""
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in zip(*data_of(line), strict=True)]


def edges(axes: Axes, place: int, x: float) -> tuple[float, float]:
    """The lower and the upper edge of a band."""
    at = [float(y) for u, y in axes.collections[place].get_paths()[0].vertices if np.isclose(u, x)]
    return min(at), max(at)


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


# --- ensembles -------------------------------------------------------------------------------------------------------


def test_bands_of_ensembles_are_standard_errors_of_the_loss_and_deviations_of_the_coordinates() -> None:
    equation = MemoryFlow("poly:3", gradient=lambda x: x, noise=1.0, hessian=np.eye(1))
    observe = {"f": lambda x, _: (x**2).sum(axis=1) / 2}
    found = simulate(equation, 1.0, [1.0], paths=4, dt=0.05, seed=0, observe=observe)
    exact = moments(equation, found.t, [1.0])
    loss, x, v = figures.ensembles({"memory": found}, {"memory": exact}).axes
    f = found.observed["f"]
    half = QUANTILE * f.sd[-1] / 2  # four paths
    assert edges(loss, 0, 1.0) == pytest.approx((f.mean[-1] - half, f.mean[-1] + half))
    assert loss.get_yscale() == "log"
    for axes, mean, variance in ((x, found.mean_x, found.var_x), (v, found.mean_v, found.var_v)):
        sd = math.sqrt(variance[-1, 0])
        assert edges(axes, 0, 1.0) == pytest.approx((mean[-1, 0] - sd, mean[-1, 0] + sd))
    for axes, mean, variance in ((x, exact.mean_x, exact.var_x), (v, exact.mean_v, exact.var_v)):
        ends = sorted(
            float(data_of(line)[1][-1]) for line in axes.lines if line.get_linewidth() == 0.6 and len(line.get_xdata())
        )
        sd = math.sqrt(variance[-1, 0])
        assert ends == pytest.approx([mean[-1, 0] - sd, mean[-1, 0] + sd])
    late = found.t >= 0.05
    reach = 1.1 * np.max(np.abs(found.mean_v[late, 0]) + np.sqrt(found.var_v[late, 0]))
    assert v.get_ylim() == pytest.approx((-reach, reach))


# --- risks -----------------------------------------------------------------------------------------------------------


def test_lines_of_predicted_slopes_begin_below_all_curves_and_fall_as_they_say() -> None:
    k = np.arange(1, 401)
    curves = {"inst": figures.Curve(k, k**-0.5, Estimate(0.5)), "up": figures.Curve(k, 2.0 + 0 * k, Estimate(-0.1))}
    figure = figures.risk_curves(curves, slopes={"half": 0.5, "one": 1.0})
    *_, half, one = figure.axes[0].lines
    for line, exponent in ((half, 0.5), (one, 1.0)):
        x, y = data_of(line)
        assert x.tolist() == [20.0, 400.0]  # the last decade and a third
        assert y == pytest.approx([20**-0.5 / 5, 20**-0.5 / 5 * 20**-exponent])
    assert figure.axes[0].get_ylim()[1] == pytest.approx(1.5 * 2.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["inst: $k^{-0.500}$", "up"]


def test_a_map_of_risks_has_cells_around_its_values_a_star_at_the_best_and_hatches_where_it_diverged() -> None:
    final = np.array([[3.0, 2.0, 900.0], [0.5, math.inf, 7.0]])
    x, y = np.array([1.0, 2.0, 4.0]), np.array([0.1, 0.4])
    steps = np.array([[-1, -1, -1], [-1, 1234, -1]])
    figure = figures.risk_map(final, x, y, xlabel="kappa", ylabel="lr", marks={"here": 3.0}, diverged_at=steps)
    axes = figure.axes[0]
    mesh: Any = axes.collections[0]
    corners = mesh.get_coordinates()
    assert corners[0, :, 0].tolist() == pytest.approx([0.5, 1.5, 3.0, 5.0])
    assert corners[:, 0, 1].tolist() == pytest.approx([0.05, 0.2, 0.8])  # halfway in logarithms
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0.5, 50.0)  # at most a hundred times the best
    (cell,) = axes.patches
    assert cell.get_bbox().bounds == pytest.approx((1.5, 0.2, 1.5, 0.6))
    assert marks(axes, "*") == [(1.0, 0.4)]
    assert figure.legends[0].get_texts()[0].get_text() == "diverged, at steps 1,234 to 1,234"
    assert figure.get_supxlabel().startswith("star: kappa = 1, lr = 0.4, ")
    assert [data_of(line)[0].tolist() for line in axes.lines if line.get_marker() != "*"] == [[3.0, 3.0]]


# --- spectra ---------------------------------------------------------------------------------------------------------


def measured() -> Measured:
    """A problem that is exactly a power law, at every place."""
    j, k, none = np.arange(1.0, 9.0), np.geomspace(1, 300, 20), np.empty(0)
    one = Estimate(1.0)
    return Measured(
        *("mine", 1000, 64, "hessian", 300, 0.1, 8, 3.0 * j**-1.5, 0.0, one, Estimate(1.5, 1.4, 1.6)),
        *(one, one, one, Estimate(0.5, 0.4, 0.6), 0.2, none, none, none, none, k, 0.2 + 0.7 * k**-0.5),
    )


def test_lines_of_power_laws_go_through_what_is_exactly_one() -> None:
    spectrum, curve = figures.measured_spectrum(measured()).axes
    (line,) = [each for each in spectrum.lines if str(each.get_label()).startswith(r"$\nu$")]
    np.testing.assert_allclose(data_of(line)[1], 3.0 * np.arange(1.0, 9.0) ** -1.5)
    assert line.get_label() == r"$\nu$ = 1.50 [1.40, 1.60]"
    (line,) = [each for each in curve.lines if str(each.get_label()).startswith(r"$\zeta$")]
    k, loss = data_of(line)
    assert k[0] >= 10  # the last thirtieth and more
    np.testing.assert_allclose(loss, 0.2 + 0.7 * k**-0.5)
    assert line.get_label() == r"$\zeta$ = 0.50 [0.40, 0.60], floor 0.2"


def test_counts_by_quadrature_leave_out_what_is_no_whole_eigenvalue_and_the_null_space() -> None:
    counts = np.array([0.4, 0.5, 10.0, 998.9, 999.0])
    found = replace(measured(), density_at=np.array([5.0, 4.0, 3.0, 2.0, 1.0]), density_counts=counts)
    found = replace(found, density_low=0.1 * counts, density_high=2 * counts)
    axes = figures.measured_spectrum(found).axes[0]
    (line,) = [each for each in axes.lines if each.get_label() == "quadrature, 95 %"]
    assert data_of(line)[0].tolist() == [0.5, 10.0, 998.9]
    assert axes.collections[0].get_paths()[0].vertices[:, 0].min() == 0.3


# --- ratios ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "reach", "cut"),
    [
        (Estimate(2.0, 1.5, 3.0), 3.0, []),
        (Estimate(0.5, 0.4, 0.9), 2.5, []),
        (Estimate(3.0, 0.01, 4.0), 9.0, ["<"]),  # cut at the square of the ratio
        (Estimate(3.0, 2.0, 100.0), 9.0, [">"]),
        (Estimate(1.2), 1.2, []),
        (Estimate(1.001), 1.02, []),
        (Estimate(math.inf), 1.02, []),
    ],
)
def test_the_axis_of_ratios_reaches_all_of_them_and_ends_that_are_not_too_far(
    found: Estimate, reach: float, cut: list[str]
) -> None:
    axes = figures.ratios({"": {"": {"HB": found}}}, xlabel="ratio").axes[0]
    low, high = axes.get_xlim()
    assert (low, high) == pytest.approx((reach**-1.08, reach**1.08))
    for mark, edge in (("<", low), (">", high)):
        assert marks(axes, mark) == ([(pytest.approx(edge), 0)] if mark in cut else [])


def test_a_ratio_of_a_run_that_diverged_is_a_cross_at_its_side() -> None:
    panel = {"SGD": Estimate(math.inf), "HB": Estimate(0.0), "p": Estimate(math.nan), "MemSGD p=2": Estimate(1.1)}
    axes = figures.ratios({"": {"": panel}}, xlabel="ratio").axes[0]
    assert marks(axes, "x") == [(0.98, 0), (0.02, 1), (0.5, 2)]  # of the method, of the reference, of both
    assert marks(axes, "^") == [(1.1, 3)]


# --- training --------------------------------------------------------------------------------------------------------


def band(mean: Any, half: float = 0.1) -> figures.Band:
    mean = np.asarray(mean, dtype=float)
    return figures.Band(np.arange(len(mean)), mean, mean - half, mean + half)


def drawn(bands: dict[str, figures.Band], **options: Any) -> Figure:
    return figures.training_curves({"": [figures.TrainingPanel("one", bands, **options)]}, ylabel="loss")


def test_a_curve_that_diverges_is_cut_at_half_more_than_the_others_reach() -> None:
    falling = np.linspace(2.0, 1.0, 9)
    high = {"SGD": band(falling), "HB": band(falling), "MemSGD p=2": band(np.append(falling[:-1], 1e6))}
    low, top = drawn(high).axes[0].get_ylim()
    room = 3.0**0.08
    assert (low, top) == pytest.approx((1 / room, room * 1.5 * 2.0))
    low, top = drawn({"SGD": band(falling)}).axes[0].get_ylim()
    assert (low, top) == pytest.approx((2**-0.08, 2 * 2**0.08))


def test_shares_are_drawn_between_0_and_1_and_intervals_end_at_the_frame() -> None:
    axes = drawn({"SGD": band([0.5, 0.9, 1.0])}, share=True).axes[0]
    assert (axes.get_yscale(), axes.get_ylim()[1]) == ("linear", 1.0)
    # The beginning, 0.5, is outside and written at the edge, which is below the rest by a tenth of its range and 0.01.
    assert axes.get_ylim()[0] == pytest.approx(0.9 - 0.1 * 0.1 - 0.01)
    assert [text.get_text() for text in axes.texts] == ["0.5"]
    # Of the intervals of 0.5 and 0.9, and of the curve.
    assert marks(axes, "v") == [(x, pytest.approx(0.88)) for x in (0.0, 1.0, 0.0)]
    tops = [float(path.vertices[:, 1].max()) for path in axes.collections[0].get_paths()]
    assert max(tops) == 1.0
    assert marks(axes, "^")[-1] == (2.0, 1.0)


def test_a_curve_has_four_intervals_between_those_of_the_others() -> None:
    flat = np.ones(101)
    axes = drawn({"SGD": band(flat, 0.01), "HB": band(flat, 0.01)}).axes[0]
    places = [sorted(float(path.vertices[0, 0]) for path in each.get_paths()) for each in axes.collections]
    # Shares 1/3 and 2/3 of a quarter, rounded to steps.
    assert places == [[8, 33, 58, 83], [17, 42, 67, 92]]


def test_the_frame_of_ratios_fits_most_of_what_comes_after_a_tenth() -> None:
    late = np.append(np.full(2, 50.0), np.full(18, 1.2))
    far = np.append(np.full(2, 50.0), np.full(18, 9.0))
    ratios = {"HB": band(late), "MemSGD p=2": band(late), "Nesterov": band(far)}
    low, high = drawn({name: band(np.ones(20)) for name in ratios}, ratios=ratios).axes[1].get_ylim()
    assert (low, high) == pytest.approx((1.2**-2.5, 1.2**2.5))  # 1.25 times twice the median, in logarithms
    same = drawn({"HB": band(np.ones(20))}, ratios={"HB": band(np.ones(20))}).axes[1].get_ylim()
    assert same == pytest.approx((1 / 1.03, 1.03))


# --- races, comparisons, language ------------------------------------------------------------------------------------


def test_the_search_of_a_race_marks_what_was_found_and_leaves_no_room_for_slow_divergence() -> None:
    profiles = {"A": {0.1: 1.0, 0.3: 2.0, 1.0: 1e9}, "B": {0.1: 3.0, 0.3: math.inf}}
    axes = figures.race(Answer("running", "", profiles=profiles, found={"A": 0.3, "B": 0.3})).axes[0]
    assert axes.get_ylim()[1] == pytest.approx(30 * 2.5)  # the median of 1, 2, 3 and 1e9
    filled = [line for line in axes.lines if line.get_markersize() == 6.0 and line.get_marker() != "x"]
    assert [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in filled] == [(0.3, 2.0)]
    assert marks(axes, "x") == [(0.3, 1.0)]


def test_panels_of_the_language_model_show_ratios_savings_and_runs_that_diverged() -> None:
    over = {100: Estimate(0.2, 0.1, 0.4), 400: Estimate(math.nan)}
    shares = {"one": {1.0: Estimate(0.9)}, "two": {0.8: Estimate(1.1)}}
    parts = {"mixture": Estimate(0.9, 0.8, 1.0), "poly alone": Estimate(math.inf)}
    fall = figures.Band(np.arange(0, 101, 5), np.linspace(9, 1, 21), np.zeros(21), np.ones(21))
    panels = LanguagePanels(losses={"AdamW": fall}, shares=shares, over_horizon=over, parts=parts)
    losses, differences, fewer, horizon, _, alone = language(panels).axes
    assert differences.texts[0].get_text() == "not measured yet"
    assert losses.get_ylim() == pytest.approx((1 - 0.1 * 7.2, 8.2 + 0.1 * 7.2))  # the tenth of the steps and later
    assert horizon.get_xlim() == pytest.approx((100 / 1.5, 400 * 1.5))
    assert marks(horizon, "x") == [(400.0, 0.98)]
    segments: Any = horizon.containers[0].lines[2][0]
    assert segments.get_segments()[0][:, 1] == pytest.approx([0.1, 0.4])
    assert [
        float(line.get_xdata()[0]) for line in fewer.lines if line.get_marker() == "^" and len(line.get_xdata())
    ] == (pytest.approx([1.0 - 0.003, 0.8 + 0.003]))
    assert (marks(alone, "^"), marks(alone, "x")) == ([(0.9, 0)], [(0.98, 1)])
    assert alone.get_ylim() == (1.5, -0.5)
    assert any(data_of(line)[0].tolist() == [0.8, 1.0] for line in alone.lines)


# --- memories, equations, style --------------------------------------------------------------------------------------


def test_a_steep_memory_leaves_the_frame_and_the_legend_says_how_high_it_is() -> None:
    memories = {"a": Polynomial(1), "b": Polynomial(2), "steep": Exponential.from_alpha(40.0)}
    axes = figures.memory_types(memories, t=2.0).axes[0]
    assert axes.get_ylim() == pytest.approx((0, 1.05 * 2.5 * 1.0))  # peaks 1/2, 1 and 40
    assert legend_of(axes) == ["a", "b", "steep (up to 40)"]
    assert figures.memory_types({"a": Polynomial(1)}, t=2.0).axes[0].get_ylim() == pytest.approx((0, 1.05 * 0.5))


def test_guides_beside_a_loss_fall_with_their_powers_from_time_10() -> None:
    t = np.geomspace(1, 100, 20)
    panel = figures.Panel("one", np.ones((3, 2)), t, 5.0 / t, np.array([1.0, 15.0, 90.0, 500.0]), np.ones(4), -1.5)
    _, loss = figures.momentum_and_memory({"": [panel]}, guides=(1, 3), end=1000.0).axes
    guides = [data_of(line) for line in loss.lines if line.get_linestyle() == ":"]
    assert [(x.tolist(), y.tolist()) for x, y in guides] == [
        ([10.0, 1000.0], [5.0, pytest.approx(5.0 * 100.0**-power)]) for power in (1, 3)
    ]
    assert loss.get_ylim() == pytest.approx((5e-12, 25.0))
    assert loss.get_title() == r"$f(X(t))$, peaks $\sim t^{-1.5}$"
    thin = [data_of(line)[0].tolist() for line in loss.lines if line.get_linewidth() == 0.5]
    assert thin == [[1.0, 15.0], [500.0]]  # sparse up to a fifth of what was solved, a band beyond it


@pytest.mark.parametrize(
    ("limits", "labels"),
    [
        ((0, 900), ["0", "400", "800"]),
        ((0, 2000), ["0", "1k", "2k"]),
    ],
)
def test_steps_from_a_thousand_on_are_written_with_k(limits: tuple[float, float], labels: list[str]) -> None:
    axes = Figure().subplots()
    axes.set_xlim(*limits)
    thousands(axes.xaxis)
    assert [label.get_text() for label in axes.get_xticklabels() if label.get_text() in labels] == labels


@pytest.mark.parametrize(("high", "plain"), [(9.9, True), (99.0, True), (100.0, False)])
def test_an_axis_of_less_than_two_decades_has_plain_numbers(high: float, plain: bool) -> None:
    axes = Figure().subplots()
    axes.set(yscale="log", ylim=(1.0, high))
    log_ticks(axes.yaxis, 4)
    labels = [label.get_text() for label in axes.get_yticklabels() if label.get_text()]
    assert all(label.replace(".", "").isdigit() for label in labels) == plain
    assert not any(label.get_text() for label in axes.yaxis.get_minorticklabels())


def test_settings_are_broken_at_commas_where_the_figure_ends_and_a_warning_stands_above() -> None:
    # 3 inches of 72 points hold 63 letters of 6.5 points, each 0.52 as wide as high. TeX markup takes no room.
    first = r"$\alpha$ = " + "x" * 40 + ", " + "y" * 10
    for last, between in (("z", " "), ("zz", "\n")):
        with sheet((3.0, 2.0), f"{first}, {last}", "careful") as figure:
            figure.subplots()
        assert figure.get_supxlabel() == f"{first},{between}{last}"
    assert figure.get_suptitle() == "careful"
    with sheet((3.0, 2.0)) as bare:
        bare.subplots()
    assert (bare.get_supxlabel(), bare.get_suptitle()) == ("", "")
