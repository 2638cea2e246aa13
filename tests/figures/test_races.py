"""The figure of a race."""

from __future__ import annotations

import math

import numpy as np

from memgrad.experiments.racing.answer import Answer
from memgrad.experiments.racing.sequential import Dropped
from memgrad.figures import race


def test_a_line_for_each_method_that_ends_at_a_cross_where_it_was_dropped() -> None:
    rng = np.random.default_rng(0)
    raced = {f"{name}, lr 0.1": tuple(rng.uniform(1, 2, size=n)) for name, n in (("A", 6), ("B", 6), ("C", 3))}
    answer = Answer(
        "answered",
        "",
        leader="A, lr 0.1",
        dropped=(Dropped("C, lr 0.1", 3, "A, lr 0.1", 0.1),),
        raced=raced,
        profiles={name: {0.1: 1.0, 0.32: 2.0, 1.0: math.inf} for name in "ABC"},
        found=dict.fromkeys("ABC", 0.1),
        metric="validation_loss",
    )
    figure = race(answer, caption="settings")
    left, right = figure.axes
    lines = [line for line in left.get_lines() if len(line.get_xdata()) > 1]
    assert [len(line.get_xdata()) for line in lines] == [6, 6, 3]
    # The mean of log ratios over the first two seeds, by hand.
    a, b = (np.log(raced[f"{name}, lr 0.1"][:2]) for name in "AB")
    assert np.isclose(lines[1].get_ydata()[1], np.exp((b - a).mean()))
    assert [line.get_xdata()[0] for line in left.get_lines() if line.get_marker() == "x"] == [3]
    assert right.get_xscale() == "log"
    assert right.get_ylabel() == "validation loss"
    assert len([line for line in right.get_lines() if line.get_marker() == "x"]) == 3


def test_before_the_race_only_the_search_is_drawn_also_for_losses_that_are_not_positive() -> None:
    answer = Answer("running", "", profiles={"A": {0.1: -1.0}}, scale="linear")
    assert len(race(answer).axes) == 1
    linear = Answer(
        "running",
        "",
        leader="A, lr 1",
        raced={"A, lr 1": (-1.0, 0.0), "B, lr 1": (math.inf, 1.0)},
        profiles={"A": {1.0: -1.0}, "B": {1.0: 1.0}},
        scale="linear",
    )
    assert len(race(linear).axes) == 2


def test_a_loss_of_0_is_drawn_as_the_smallest_other_one() -> None:
    raced = {"A, lr 1": (1.0, 0.0, 1.0), "B, lr 1": (2.0, 1.0, 2.0)}
    answer = Answer("answered", "", leader="A, lr 1", raced=raced, profiles={"A": {1.0: 1.0}, "B": {1.0: 2.0}})
    lines = race(answer).axes[0].get_lines()
    assert np.allclose(lines[1].get_ydata(), [2.0, math.sqrt(2.0), 4 ** (1 / 3)])


def test_neither_the_caption_nor_many_methods_cover_the_panels() -> None:
    names = [f"MemAdam inst + (1+k)^0.{i}*poly:8" for i in range(10, 30)]
    answer = Answer(
        "answered",
        "",
        leader=f"{names[0]}, lr 1",
        raced={f"{name}, lr 1": (1.0, 2.0) for name in names},
        profiles={name: {1.0: 1.0, 10.0: 2.0} for name in names},
    )
    figure = race(answer, caption="my_problem.py:problem, 40 steps")
    figure.draw_without_rendering()
    [legend] = figure.legends
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    drawn = legend.get_window_extent()
    assert not any(box.overlaps(drawn) for box in boxes)
    caption = figure.findobj(lambda each: getattr(each, "get_text", str)() == figure.get_supxlabel())[0]
    assert not caption.get_window_extent().overlaps(drawn)
    assert all(box.y0 >= 0 and box.y1 <= figure.bbox.height for box in boxes)
    assert min(axes.get_window_extent().height for axes in figure.axes) > 100
