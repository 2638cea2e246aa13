"""Steps that are too long: for the rate at which a velocity forgets, or for the curvature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memgrad.dynamics.equations import Equation, SecondOrder
from memgrad.kinds import Array

FASTEST = 1e20
"""The largest rate times step. The noise of hV is larger than that of X by sqrt(a h/2), and 16 digits hold both."""


def refuse_unstable(equation: Equation, t: float, dt: float) -> None:
    """Refuse Euler-Maruyama where its factor 1 - a(t) h is negative: velocities change sign, or grow, at every step."""
    if not isinstance(equation, SecondOrder):
        return
    rate = float(equation.damping.rate(np.asarray(t)))
    if rate * dt > 1 + 1e-9:
        raise ValueError(
            f"Euler-Maruyama with dt={dt!r} is unstable for {equation}: its rate at t={t:g} is {rate:g}, above 1/dt. "
            f"Take a step dt <= {1 / rate:.3g}, or scheme 'exact'."
        )


def refuse_hidden(equation: Equation, t: float, dt: float) -> None:
    """Refuse steps in which the velocity forgets so fast that its noise would hide the position by rounding."""
    if not isinstance(equation, SecondOrder):
        return
    with np.errstate(all="ignore"):
        rate, smaller = (float(equation.damping.rate(np.asarray(time))) for time in (t, t / 1e3))
    if not rate * dt <= FASTEST:
        # Near 0 a rate is p/t: there no step is small enough.
        step = "" if smaller > 2 * rate else f"a step dt <= {FASTEST / rate:.3g}, or "
        raise ValueError(
            f"{equation} forgets at the rate {rate:.3g} at t={t:g}: with dt={dt!r} rounding would hide its position. "
            f"Take {step}gradient flow (gd), the limit of memories that forget at once."
        )


def refuse_overshooting(equation: Equation, dt: float, step: Callable[[float, float], Array]) -> None:
    """Refuse steps that are too long for the curvature, where that is known: positions would change sign and grow.

    Args:
        equation: The equation.
        dt: The step.
        step: From the curvature of a quadratic and dt, the matrix of a step without noise.
    """
    if equation.hessian is None:
        return
    curvature, shorter = float(np.linalg.eigvalsh(equation.curvature)[-1]), dt
    while curvature > 0 and _overshoots(step(curvature, shorter)):
        shorter /= 2
    if shorter < dt:
        raise ValueError(
            f"a step dt={dt!r} is too long for {equation} with the curvature {curvature:g}: positions would overshoot "
            f"the minimum, by more at every step. Take a step dt <= {shorter:.3g}."
        )


def _overshoots(step: Array) -> bool:
    """Whether a step takes a point to the other side of the minimum, farther away than it was."""
    factors = np.linalg.eigvals(step)
    return bool(np.any((factors.real < -1 - 1e-9) & (factors.imag == 0)))
