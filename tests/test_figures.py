"""Figures show what the formulas say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memgrad import figures
from memgrad.memory import Exponential, Instantaneous, Polynomial


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
