"""Figures show what the formulas say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memgrad import figures
from memgrad.memory import Exponential, Instantaneous, Mixture, Polynomial
from memgrad.problems import datasets


def test_the_area_under_each_curve_is_one() -> None:
    lines = [line for line in figures.memory_types(t=6.0).axes[0].lines if len(line.get_xdata()) > 2]
    assert len(lines) == 7
    for line in lines:
        s, w = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        # Trapezoids of 1/200 on curves with w'' <= 20: an error below 6 * 20 / (12 * 200**2) = 3e-4; the square root's
        # infinite slope at 0 adds as much.
        assert np.trapezoid(w, s) == pytest.approx(1, abs=1e-3)


def test_the_curves_are_those_of_table_2() -> None:
    s = np.linspace(0, 6, 1201)
    expected = [
        1 / (1 + s) / np.log(7),
        1 / 6 + 0 * s,
        1.5 * s**0.5 / 6**1.5,
        2 * s / 36,
        3 * s**2 / 216,
        np.exp(s) / (np.exp(6) - 1),
        1.5 * s**0.5 * np.exp(s**1.5) / (np.exp(6**1.5) - 1),
    ]
    lines = [line for line in figures.memory_types().axes[0].lines if len(line.get_xdata()) > 2]
    for line, values in zip(lines, expected, strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), values, rtol=1e-12)


def test_own_memories_can_be_drawn() -> None:
    figure = figures.memory_types({"a": Polynomial(0.5), "b": Exponential(0.9), "c": Instantaneous()}, t=50.0)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 3


def test_weights_of_mixtures_are_drawn_as_their_closed_forms_with_the_gain_in_the_legend() -> None:
    """Nesterov: 0.9^(age + 1), and 1 more for the newest; linear memory: 2 (j + 1)/((k + 1)(k + 2))."""
    mixtures = {"Nesterov": Mixture.parse("inst + 0.9*sum*exp:0.9"), "linear": Polynomial(2)}
    figure = figures.mixture_weights(mixtures, k=50)
    age = np.arange(51)
    drawn = {line.get_label(): np.asarray(line.get_ydata()) for line in figure.axes[0].lines}
    assert set(drawn) == {f"Nesterov (gain {(1 - 0.9**52) / 0.1:.4g})", "linear (gain 1)"}
    nesterov, linear = drawn.values()
    np.testing.assert_allclose(nesterov, 0.9 ** (age + 1) + (age == 0), rtol=1e-12)
    np.testing.assert_allclose(linear, 2 * (51 - age) / (51 * 52), rtol=1e-12)
    assert figure.axes[0].get_yscale() == "log"


def test_weights_of_one_size_are_drawn_on_a_linear_axis_from_0() -> None:
    axes = figures.mixture_weights({"all alike": 3 * Polynomial(1)}, k=9).axes[0]
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata()), 0.3, rtol=1e-12)
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[0] == 0


def test_a_single_weight_is_drawn_as_a_point() -> None:
    line = figures.mixture_weights({"SGD": Instantaneous(), "linear": Polynomial(2)}, k=100).axes[0].lines[0]
    y = np.asarray(line.get_ydata())
    assert y[0] == 1
    assert np.isnan(y[1:]).all()  # a logarithmic axis has no place for zeros
    assert line.get_marker() == "o"


def test_no_mixture_is_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="at least one memory or mixture to draw, got none"):
        figures.mixture_weights({}, k=10)


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    for ending in figures.FORMATS:
        one, two = (figures.save(figures.memory_types(), tmp_path / f"{name}.{ending}") for name in "ab")
        assert one.read_bytes() == two.read_bytes()


def test_a_failed_save_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figure.png"
    path.write_text("old")
    figure = figures.memory_types()
    monkeypatch.setattr(figure, "savefig", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        figures.save(figure, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_data_set_of_images_is_drawn_class_by_class() -> None:
    data = datasets.sample("mnist")
    sheet = np.asarray(figures.data_set(data, columns=3).axes[0].images[0].get_array())
    assert sheet.shape == (10 * 29, 3 * 29, 3)
    second_seven = data.train_inputs[data.train_targets == 7][1]
    # Black on white, and a white line between two images.
    np.testing.assert_allclose(sheet[7 * 29 : 7 * 29 + 28, 29 : 29 + 28, 1], 1 - second_seven, atol=1e-6)
    np.testing.assert_array_equal(sheet[28::29], 1)


def test_a_colored_image_keeps_its_colors() -> None:
    data = datasets.sample("cifar-10")
    sheet = np.asarray(figures.data_set(data, columns=2).axes[0].images[0].get_array())
    frog = data.train_inputs[data.train_targets == 6][0]
    np.testing.assert_allclose(sheet[6 * 33 + 4, 5], frog[:, 4, 5], atol=1e-6)


def test_a_table_is_drawn_by_its_classes() -> None:
    data = datasets.sample("covtype")
    bars, heat, _ = figures.data_set(data).axes
    assert [text.get_text() for text in bars.get_yticklabels()][:2] == ["Spruce/Fir (1)", "Lodgepole Pine (2)"]
    # UCI's frequencies, to within half a row of 2000 and the split's deviation.
    np.testing.assert_allclose(
        [bar.get_width() for bar in bars.patches],
        np.array([211840, 283301, 35754, 2747, 9493, 17367, 20510]) / 581012,
        atol=3 / 2000,
    )
    means = np.asarray(heat.images[0].get_array())
    assert means[3, 0] == pytest.approx(data.train_inputs[data.train_targets == 4][:, 0].mean())


def test_a_picture_without_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="columns >= 1, got columns=0"):
        figures.data_set(datasets.sample("mnist"), columns=0)


def test_the_gallery_shows_each_family_of_objectives_once() -> None:
    from memgrad.problems.objectives import FAMILIES, SU

    shown = figures.example_objectives()
    assert {type(each) for each in shown.values() if each is not SU} == set(FAMILIES.values())
    figure = figures.objective_shapes()
    assert [axes.get_title() for axes in figure.axes] == list(shown)


def test_curves_and_contours_are_those_of_the_objective() -> None:
    from memgrad.problems.objectives import Huber, Quadratic

    curve, contours = figures.objective_shapes({"a": Huber(1.0), "b": Quadratic((1.0, 1.0))}, radius=3.0).axes
    x, f = (np.asarray(values) for values in curve.lines[0].get_data())
    np.testing.assert_allclose(f, np.where(np.abs(x) <= 1, x**2 / 2, np.abs(x) - 0.5), atol=1e-12)
    path = np.stack([np.asarray(values) for values in contours.lines[0].get_data()], -1)
    np.testing.assert_allclose(path[:, 0], path[:, 1], atol=1e-12)  # straight to the centre of circles
    assert np.linalg.norm(path[-1]) < 3.0 / 50
    with pytest.raises(ValueError, match="finite radius > 0, got radius=0"):
        figures.objective_shapes(radius=0)
