"""How fast the equations descend on the paper's quadratic: slopes of the peaks of the loss."""

from __future__ import annotations

import math

import numpy as np
import pytest

from memgrad.dynamics import HeavyBallFlow, MemoryFlow, SecondOrder, solve
from memgrad.memory import Polynomial

SU = np.array([0.04, 0.01])  # f = .02 x1^2 + .005 x2^2, of Su, Boyd and Candes
PERIOD = 2 * math.pi / 0.2  # of x1^2 and x2^2 together, which turn at sqrt(.04) = .2 and sqrt(.01) = .1


def slope_of_the_peaks(equation: SecondOrder, time_of_phase: float, power: int) -> float:
    """The exponent of f at its highest in each period of s, fitted on periods 5 to 15; t = time_of_phase s^power."""
    periods, fine = np.arange(5, 15), np.linspace(0, 1, 200, endpoint=False)
    s = ((periods[:, None] + fine) * PERIOD).ravel()
    t = time_of_phase * s**power
    found = solve(equation, t, [1.0, 1.0], method="DOP853", tolerances=(1e-8, 1e-13))
    assert found.success
    f = (found.x**2 @ SU / 2).reshape(len(periods), -1)
    peaks = f.argmax(axis=1)
    rows = np.arange(len(periods))
    return float(np.polyfit(np.log(t.reshape(f.shape)[rows, peaks]), np.log(f[rows, peaks]), 1)[0])


@pytest.mark.parametrize("q", [1.0, 2.0, 3.0, 4.0])
def test_viscosity_q_over_t_descends_as_the_power_minus_q(q: float) -> None:
    equation = HeavyBallFlow(f"{q}/t", gradient=lambda x: x * SU)
    assert slope_of_the_peaks(equation, 1.0, 1) == pytest.approx(-q, abs=0.05)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, 4.0])
def test_memory_of_degree_p_descends_as_the_power_one_half_minus_p(p: float) -> None:
    # In time t = s^2/(4p) it turns as a heavy ball in time s does.
    equation = MemoryFlow(Polynomial(p), gradient=lambda x: x * SU)
    assert slope_of_the_peaks(equation, 1 / (4 * p), 2) == pytest.approx(-(p - 0.5), abs=0.05)


@pytest.mark.parametrize(
    ("equation", "constant", "power"),
    [
        (HeavyBallFlow("3/t", gradient=lambda x: x * SU), 2.0, 2),  # (q-1)^2/2
        (MemoryFlow("poly:2", gradient=lambda x: x * SU), 0.25, 1),  # (p-1)^2/(2p)
    ],
    ids=["3/t", "linear"],
)
def test_the_loss_is_below_the_rate_of_the_theorem(equation: SecondOrder, constant: float, power: int) -> None:
    """Claim S7: Nesterov's ODE is aligned with 1/t^2 and linear memory with 1/t; the constants are the theorems'."""
    found = solve(equation, np.geomspace(0.01, 1000, 300), [1.0, 1.0], method="DOP853")
    bound = constant * 2.0 / found.t**power
    share = found.x**2 @ SU / 2 / bound
    assert share.max() < 1
    assert share.max() > 0.2  # and not far below before the first peak
