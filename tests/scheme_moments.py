"""Exact first and second moments of the schemes themselves on quadratics, where they are linear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad

from memgrad.dynamics import SecondOrder, integrators

JOINT = 1 / 3  # a step that forgets more than this, in -log b, moves position and velocity jointly


@dataclass(frozen=True)
class Held:
    """A step while the gradient is held: X += A V - B g, V = b V - w g, and the covariance of their noises."""

    b: float
    w: float
    half: float  # how far the old velocity goes in half the step
    a: float
    B: float
    xx: float
    xv: float
    vv: float


def polynomial(p: float) -> Callable[[float, float], Held]:
    """Memory t^p, p not 1: MATH C6."""

    def held(t0: float, t1: float) -> Held:
        h, r, one, two = t1 - t0, t0 / t1, 1 - (t0 / t1) ** p, (1 - (t0 / t1) ** (2 * p - 1)) / (2 * p - 1)
        a, half = (t0 * (1 - (t0 / t) ** (p - 1)) / (p - 1) if t0 else 0.0 for t in (t1, t0 + h / 2))
        xx = (p / (p - 1)) ** 2 * t1 * ((1 - r) - 2 * one / p + two)
        xv = p**2 / (p - 1) * (one / p - two)
        return Held(1 - one, one, half if t0 else h / 2, a, h - a, xx, xv, p**2 * two / t1)

    return held


def constant(alpha: float) -> Callable[[float, float], Held]:
    """A heavy ball of constant viscosity."""

    def held(t0: float, t1: float) -> Held:
        h = t1 - t0
        b, one, two = np.exp(-alpha * h), -np.expm1(-alpha * h) / alpha, -np.expm1(-2 * alpha * h) / (2 * alpha)
        half = -np.expm1(-alpha * h / 2) / alpha
        xx = (h - 2 * one + two) / alpha**2
        return Held(b, one, half if t0 else h / 2, one, (h - one) / alpha, xx, one**2 / 2, two)

    return held


def over_time(q: float) -> Callable[[float, float], Held]:
    """A heavy ball of viscosity q/t, q not 1, by quadrature."""

    def reach(s: float, t: float) -> float:
        return s * (1 - (s / t) ** (q - 1)) / (q - 1)

    def held(t0: float, t1: float) -> Held:
        h, r = t1 - t0, t0 / t1
        xx, xv, big = (
            quad(lambda s: f(reach(s, t1), (s / t1) ** q), t0, t1, epsabs=0, epsrel=1e-11)[0]  # noqa: B023
            for f in (lambda x, v: x * x, lambda x, v: x * v, lambda x, v: x)
        )
        w, vv = t1 * (1 - r ** (q + 1)) / (q + 1), t1 * (1 - r ** (2 * q + 1)) / (2 * q + 1)
        return Held(r**q, w, reach(t0, t0 + h / 2) if t0 else h / 2, reach(t0, t1), big, xx, xv, vv)

    return held


def exact_scheme(held: Callable[[float, float], Held], h: float, steps: int, lam: float) -> np.ndarray:
    """After each step: means of X and V from x0 = 1 (of memory's V, -lam), Var X, Cov, Var V."""
    half = np.array([[1.0, h / 2], [0.0, 1.0]])

    def step(n: int) -> tuple[np.ndarray, np.ndarray]:
        s = held(n * h, (n + 1) * h)
        if s.b < np.exp(-JOINT):
            # The gradient is held at what the old velocity reaches in half the step.
            move = np.array([[1.0, s.a], [0.0, s.b]]) - lam * np.outer([s.B, s.w], [1.0, s.half])
            return move, np.array([[s.xx, s.xv], [s.xv, s.vv]])
        push = half @ [0.0, np.sqrt(s.vv)]
        return half @ np.array([[1.0, 0.0], [-lam * s.w, s.b]]) @ half, np.outer(push, push)

    return _propagated(map(step, range(steps)), [1.0, -lam if held(0.0, h).w == 1 else 0.0])


def library_scheme(equation: SecondOrder, h: float, steps: int, lam: float) -> np.ndarray:
    """The same from the library's own coefficients, of Y = X + hV/2 and U = hV; the noise must be a number."""
    (x,), (v,) = (part[0] for part in equation.start(1.0, 0.0))
    every = integrators.together((equation,), np.ones((1, 1)), h, "exact", None)
    read = np.array([[1.0, -0.5], [0.0, 1 / h]])  # X and V of Y and U

    def each() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for part in every.steps(0, steps):
            (kick,), (glide,) = part.kicks, part.glides
            for n in range(len(kick.b)):
                b, w, mix = kick.b[n], kick.w[n], part.mix[n]
                if glide is None:
                    move, root = np.array([[1 - lam * w, b], [-lam * w, b]]), np.array([[1.0], [1.0]]) @ mix
                else:
                    weights, where = np.array([glide.w[n], w]), np.array([1.0, glide.half[n]])
                    move, root = np.array([[1.0, glide.a[n]], [0.0, b]]) - lam * np.outer(weights, where), mix[::-1]
                yield read @ move @ np.linalg.inv(read), read @ root @ root.T @ read.T

    return _propagated(each(), [x, v])


def _propagated(steps: Iterator[tuple[np.ndarray, np.ndarray]], start: list[float]) -> np.ndarray:
    mean, covariance, moments = np.array(start), np.zeros((2, 2)), []
    for move, noise in steps:
        mean, covariance = move @ mean, move @ covariance @ move.T + noise
        moments.append([*mean, covariance[0, 0], covariance[0, 1], covariance[1, 1]])
    return np.array(moments)
