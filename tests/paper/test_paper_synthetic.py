"""The paper's synthetic experiment: MemSGD on a quartic."""

from __future__ import annotations

import numpy as np
import pytest

from memgrad.paper.settings import SmoothingSettings
from memgrad.paper.smoothing import p_verification


def test_it_is_memsgd_as_it_is_defined() -> None:
    """The first steps, by hand: the weighted sums of all past gradients, with the noise of the first run."""
    found = p_verification(SmoothingSettings(steps=3, runs=2))
    noise = np.random.default_rng(0).standard_normal((3, 2, 2))[:, 0]
    weights = {
        "poly:2": [[1], [1 / 3, 2 / 3], [1 / 6, 2 / 6, 3 / 6]],
        "exp:0.8": [[1], [0.8 / 1.8, 1 / 1.8], [0.64 / 2.44, 0.8 / 2.44, 1 / 2.44]],
        "inst": [[1], [0, 1], [0, 0, 1]],
    }
    for i, rows in enumerate(weights.values()):
        x, gradients = np.array([1.0, 1.0]), []
        for k, row in enumerate(rows):
            gradients.append(4 * np.array([0.8, 0.4]) * x**3 + noise[k])
            x = x - 0.05 * sum(w * g for w, g in zip(row, gradients, strict=True))
            assert found.first_x[i, k + 1] == pytest.approx(x)


def test_the_summaries_are_those_of_the_runs() -> None:
    settings = SmoothingSettings(memories=("inst",), steps=40, runs=3, sigma=0.0)
    found = p_verification(settings)  # without noise all runs are one
    x = found.first_x[0]
    assert found.mean_x[0] == pytest.approx(x)
    assert found.error_x[0] == pytest.approx(0 * x, abs=1e-12)
    loss = 0.8 * x[:, 0] ** 4 + 0.4 * x[:, 1] ** 4
    assert found.mean_loss[0] == pytest.approx(loss)
    assert found.final_loss[0] == pytest.approx([loss[-2:].mean()] * 3)
    assert found.tail_loss[0] == pytest.approx([loss[20:].mean()] * 3)
    second = x[2:] - 2 * x[1:-1] + x[:-2]
    assert found.roughness[0] == pytest.approx([(second**2).sum(axis=1).mean()] * 3)


def test_linear_memory_is_smoother_and_a_little_noisier_than_sgd() -> None:
    found = p_verification(SmoothingSettings())
    rough = found.roughness.mean(axis=1)
    assert rough[0] < 0.2 * rough[1] < 0.04 * rough[2]
    # 4/3 on a quadratic; five pairs of (lr, sigma) gave 1.16 to 1.58 on this quartic.
    assert 1.1 <= found.tail_loss[0].mean() / found.tail_loss[2].mean() <= 1.6


def test_the_same_seed_gives_the_same_runs() -> None:
    settings = SmoothingSettings(steps=20, runs=5)
    one, two = p_verification(settings), p_verification(settings)
    assert np.array_equal(one.mean_x, two.mean_x)
    assert not np.array_equal(one.mean_x, p_verification(SmoothingSettings(steps=20, runs=5, seed=1)).mean_x)
