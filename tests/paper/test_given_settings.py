"""Experiments of the paper run with the settings that are given, not with their own."""

from __future__ import annotations

import pytest

from memgrad.paper.continuous import time_warping
from memgrad.paper.settings import SmoothingSettings, TimeWarpSettings
from memgrad.paper.smoothing import p_verification


def test_the_time_warp_ends_where_it_is_told_to() -> None:
    settings = TimeWarpSettings(end=2.0, dt=0.01)
    found = time_warping(settings)
    assert found.settings == settings
    assert found.t[-1] == pytest.approx(2.0)


def test_smoothing_has_the_runs_that_it_is_told_to() -> None:
    settings = SmoothingSettings(steps=40, runs=3)
    found = p_verification(settings)
    assert found.settings == settings
    assert found.roughness.shape[-1] == 3
