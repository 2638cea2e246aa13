"""Times, windows and counts behind published numbers, at their ends."""

from __future__ import annotations

import numpy as np
import pytest

from memgrad.paper.claims import FirstVersion
from memgrad.paper.continuous import _record_times
from memgrad.paper.evidence import Case, first_version
from memgrad.paper.odes import fitted_slope, momentum_and_memory_odes
from memgrad.paper.settings import OdesSettings
from memgrad.paper.step_size_claims import share_case
from memgrad.statistics import Estimate


def test_recorded_times_reach_the_end_though_steps_do_not_divide_it_in_floats() -> None:
    assert 0.3 / 0.1 < 3  # rounding
    assert _record_times(0.3, 0.1) == pytest.approx([0.0, 0.1, 0.2, 0.3])
    many = _record_times(5.0, 0.001)
    assert (len(many), many[-1]) == (1001, pytest.approx(5.0))


def test_open_comparisons_are_those_that_neither_hold_nor_fail() -> None:
    outcomes = [(True, False), (False, True), (False, False), (False, False)]
    cases = [Case(Estimate(1.0), held, failed) for held, failed in outcomes]
    assert first_version(cases) == FirstVersion("not reproduced", "1 of 4 comparisons hold, 1 fails, 2 are open.")
    assert first_version(cases[:1]) == FirstVersion("reproduced", "1 of 1 comparisons hold.")
    assert first_version([cases[0], cases[2]]) == FirstVersion("undecided", "1 of 2 comparisons hold, 1 is open.")


def test_the_window_of_a_fit_includes_peaks_at_both_ends() -> None:
    t = np.arange(1.0, 10.0)
    loss = np.where(t % 2 == 0, 1 / t, 0.0)  # peaks at 2, 4, 6 and 8
    slope, error, peaks = fitted_slope(t, loss, (2.0, 8.0))
    assert (slope, error, peaks) == (pytest.approx(-1), pytest.approx(0, abs=1e-12), 4)
    assert fitted_slope(t, loss, (2.5, 8.0))[2] == 3
    assert fitted_slope(t, loss, (2.0, 7.5))[2] == 3


def test_each_kind_of_ode_ends_at_its_own_time() -> None:
    settings = OdesSettings(powers=(3.0,), path_end=2.0, loss_end=8.0, heavy_ball_end=3.0, memory_end=6.0)
    ends = {each.label: each.t[-1] for each in momentum_and_memory_odes(settings).descents if each.power is not None}
    assert ends == {"HB 3/t": pytest.approx(3.0), "MG t^3": pytest.approx(6.0)}


def test_a_share_of_one_half_is_50_percent_or_less() -> None:
    half = share_case(Estimate(0.5, 0.5, 0.5, 3, "covtype"), np.array(0.5), np.array(0.1), 3)
    assert (half.held, half.failed) == (True, False)
