"""The exact step of a velocity against closed forms in 40 digits, quadrature, and the laws that exact steps obey."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from memory_table import log_uniform, of_degree, properties
from mpmath import MPContext
from scipy.integrate import quad
from scipy.special import spence

from memgrad.dynamics import AmplifiedFlow, Equation, ExponentialFlow, GradientFlow, HeavyBallFlow, MemoryFlow
from memgrad.dynamics.kicks import Kick, points
from memgrad.dynamics.viscosity import HyperbolicViscosity
from memgrad.memory import Exponential, Logarithmic, Memory, Polynomial, Sampled, Stretched

mp = MPContext()
mp.dps = 40  # 1 - m(t0)/m(t1) at t = 1e6, h = 1e-3 loses 9 of them, and 2p - 1 powers of it a few more

Exact = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Row:
    """An equation, and b, w and v over a step in 40 digits."""

    name: str
    equation: Equation
    exact: Callable[[Any, Any], Exact]
    closed: bool = True
    """Whether the library has a closed form; otherwise the points of a quadrature are floats."""

    def __repr__(self) -> str:
        return self.name

    def kick(self, t0: float, t1: float) -> Kick:
        return self.equation.kick(np.array(t0), np.array(t1))


def zero(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


def memory_row(name: str, memory: Memory, m: Callable[[Any], Any], square: Callable[..., Any], closed: bool) -> Row:
    """b = m(t0)/m(t1), w = 1 - b, v = int m'^2 / m(t1)^2."""

    def exact(t0: Any, t1: Any) -> Exact:
        b = m(t0) / m(t1)
        return b, 1 - b, square(t0, t1) / m(t1) ** 2

    return Row(name, MemoryFlow(memory, gradient=zero), exact, closed)


def polynomial(p: float) -> Row:
    return memory_row(f"poly:{p:g}", Polynomial(p), *power(p), closed=True)


def power(p: float) -> tuple[Callable[[Any], Any], Callable[..., Any]]:
    p = mp.mpf(p)
    return lambda t: t**p, lambda t0, t1: p**2 * (t1 ** (2 * p - 1) - t0 ** (2 * p - 1)) / (2 * p - 1)


def stretched(alpha: float) -> Row:
    a = mp.mpf(alpha)

    def square(t0: Any, t1: Any) -> Any:
        # With y = s^(2a-1) the integrand a^2 s^(2a-2) e^(2 s^a) has no singularity at 0.
        ends = mp.linspace(t0 ** (2 * a - 1), t1 ** (2 * a - 1), 5)
        return a**2 / (2 * a - 1) * mp.quad(lambda y: mp.exp(2 * y ** (a / (2 * a - 1))), ends)

    return memory_row(f"stretch:{alpha:g}", Stretched(alpha), lambda t: mp.expm1(t**a), square, closed=False)


def viscous_row(name: str, viscosity: Any, phi: Callable[[Any, Any], Any], closed: bool) -> Row:
    """b = phi(t0, t1), w and v the integrals of phi(s, t1) and of its square, phi = exp(-int_s^t1 a)."""

    def exact(t0: Any, t1: Any) -> Exact:
        ends = mp.linspace(t0, t1, 3)
        w, v = (mp.quad(lambda s: phi(s, t1) ** n, ends) for n in (1, 2))  # noqa: B023  # called at once
        return phi(t0, t1), w, v

    return Row(name, HeavyBallFlow(viscosity, gradient=zero), exact, closed)


def exponential(a: float) -> Row:
    a = mp.mpf(a)

    def square(t0: Any, t1: Any) -> Any:
        return a / 2 * (mp.exp(2 * a * t1) - mp.exp(2 * a * t0))

    memory = Exponential.from_alpha(float(a))
    return memory_row(f"exp:alpha={float(a):g}", memory, lambda t: mp.expm1(a * t), square, closed=True)


MEMORIES = [
    *map(polynomial, (0.6, 1.0, 1.5, 3.0, 100.0)),
    *map(exponential, (0.7, 10.0)),
    memory_row("log", Logarithmic(), mp.log1p, lambda t0, t1: 1 / (1 + t0) - 1 / (1 + t1), closed=True),
    *map(stretched, (0.6, 0.8, 1.5, 3.0)),
    memory_row("t^2 sampled", Sampled(**of_degree(2), h=0.1), *power(2), closed=False),
    memory_row("t^0.6 sampled", Sampled(**of_degree(0.6), h=0.1), *power(0.6), closed=False),
]
VISCOSITIES = [
    viscous_row("constant", 0.7, lambda s, t: mp.exp(mp.mpf(0.7) * (s - t)), closed=True),
    viscous_row("3/t", "3/t", lambda s, t: (s / t) ** 3, closed=True),
    viscous_row("0.5/t", "0.5/t", lambda s, t: mp.sqrt(s / t), closed=True),
    viscous_row("hyperbolic", HyperbolicViscosity(2.0), lambda s, t: mp.sinh(2 * s) / mp.sinh(2 * t), closed=False),
    viscous_row("rate of log", Logarithmic(), lambda s, t: mp.log1p(s) / mp.log1p(t), closed=False),
    viscous_row("rate of exp", Exponential.from_alpha(0.7), lambda s, t: mp.expm1(0.7 * s) / mp.expm1(0.7 * t), False),
]
OTHERS = [
    Row("gradient flow", GradientFlow(gradient=zero), lambda t0, t1: (1, t1 - t0, t1 - t0)),
    Row("amplified", AmplifiedFlow(gradient=zero), lambda t0, t1: (1, (t1**2 - t0**2) / 2, (t1**3 - t0**3) / 3)),
    Row(
        "exponential flow",
        ExponentialFlow(2.0, scale=0.3, gradient=zero),
        lambda t0, t1: (
            mp.exp(2 * (t0 - t1)),
            -mp.mpf(0.3) * mp.expm1(2 * (t0 - t1)) / 2,
            -(mp.mpf(0.3) ** 2) * mp.expm1(4 * (t0 - t1)) / 4,
        ),
    ),
]
ROWS = [*MEMORIES, *VISCOSITIES, *OTHERS]

every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_memory = pytest.mark.parametrize("row", MEMORIES, ids=str)
steps = [(0.0, 1e-3), (0.0, 0.1), (0.0, 2.0), (1e-3, 1e-3), (0.1, 0.1), (1.0, 0.01), (3.0, 1.0), (100.0, 0.001)]


def close(found: Any, exact: Any, rtol: float) -> None:
    assert float(abs(mp.mpf(float(found)) - exact)) <= rtol * float(abs(exact)) + 1e-300


# --- the coefficients ------------------------------------------------------------------------------------------------


@every_row
@pytest.mark.parametrize(("t0", "h"), steps)
def test_a_kick_is_exact(row: Row, t0: float, h: float) -> None:
    t1 = t0 + h
    found, exact = row.kick(t0, t1), row.exact(mp.mpf(t0), mp.mpf(t1))
    # Closed forms: powers up to 2p - 1 = 199 of a rounded ratio, 199 * 1.1e-16. Quadrature: its points are floats, and
    # the push over ulp(t1) changes by a(t1) ulp(t1); the steepest here (stretch:3 at t = 100) is cut at 1e-8.
    closed = 5e-14
    rtol = closed if row.closed else 2e-9 if row.name == "stretch:3" and t1 > 3.5 else 1e-11
    close(found.b, exact[0], 5e-13 if not row.closed else closed)
    close(found.w, exact[1], rtol)
    close(found.v, exact[2], rtol)


@every_row
def test_a_kick_agrees_with_quadrature_of_the_push(row: Row) -> None:
    t0, t1 = 0.7, 1.1
    for power, found in ((1, row.kick(t0, t1).w), (2, row.kick(t0, t1).v)):
        integral, _ = quad(lambda s: float(row.equation.push(np.array(s), np.array(t1))) ** power, t0, t1, epsabs=1e-14)  # noqa: B023
        assert found == pytest.approx(integral, rel=1e-10)


@pytest.mark.parametrize("row", [row for row in ROWS if row.closed], ids=str)
def test_nothing_cancels_at_large_times(row: Row) -> None:
    t0, t1 = 1e6, 1e6 + 1e-3  # a step of 8.6e6 ulps, exact as a difference of floats
    for found, exact in zip(row.kick(t0, t1), row.exact(mp.mpf(t0), mp.mpf(t1)), strict=True):
        close(found, exact, 5e-14)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.closed and row.name != "stretch:3"], ids=str)
def test_quadrature_at_large_times_is_as_exact_as_the_times_are(row: Row) -> None:
    t0, t1 = 1e6, 1e6 + 1e-3
    rate = {"stretch:1.5": 1500.0, "hyperbolic": 2.0}.get(row.name, 1.0)  # others are slower than 1
    for found, exact in zip(row.kick(t0, t1), row.exact(mp.mpf(t0), mp.mpf(t1)), strict=True):
        close(found, exact, 1e-12 + rate * 2.4e-10)  # two ulps of the time


@every_row
def test_the_step_from_zero_forgets_everything_where_the_viscosity_is_singular(row: Row) -> None:
    b = row.kick(0.0, 0.25).b
    if row.equation.is_singular:
        assert b == 0
    else:
        assert b == pytest.approx(float(row.exact(mp.mpf(0), mp.mpf(0.25))[0]), rel=1e-15)


@every_memory
def test_a_memory_kick_weighs_old_and_new_to_one(row: Row) -> None:
    t = np.concatenate([[0.0], np.geomspace(1e-4, 5.0, 200)])
    kick = row.equation.kick(t[:-1], t[1:])
    np.testing.assert_allclose(kick.b + kick.w, 1, rtol=0, atol=1e-12)
    assert np.all(kick.w > 0)


@every_row
def test_kicks_of_many_steps_are_those_of_each(row: Row) -> None:
    t0, t1 = np.array([[0.0, 0.1], [0.5, 2.0]]), np.array([[0.1, 0.2], [0.75, 2.5]])
    many = row.equation.kick(t0, t1)
    for index in np.ndindex(2, 2):
        for found, alone in zip(many, row.kick(t0[index], t1[index]), strict=True):
            assert found.shape == (2, 2)
            assert found[index] == pytest.approx(float(alone), rel=1e-15)


def test_a_push_far_shorter_than_the_step_is_not_missed() -> None:
    # e^(t^3) - 1 over [5, 10]: all of the integral of (m'/m)^2 lies within 0.01 of the end.
    a = mp.mpf(3)
    square = mp.quad(lambda s: (a * s**2 * mp.exp(s**3 - 1000)) ** 2, [5, 9, 9.9, 9.99, 10]) / (1 - mp.exp(-1000)) ** 2
    close(MemoryFlow(Stretched(3), gradient=zero).kick(np.array(5.0), np.array(10.0)).v, square, 1e-9)
    kick = HeavyBallFlow(HyperbolicViscosity(400.0), gradient=zero).kick(np.array(1.0), np.array(2.0))
    assert kick.w == pytest.approx(1 / 400, rel=1e-9)
    assert kick.v == pytest.approx(1 / 800, rel=1e-9)


# --- laws ------------------------------------------------------------------------------------------------------------


def compose(first: Kick, second: Kick) -> Kick:
    """One kick, then the other: V -> b2 (b1 V - w1 g - noise) - w2 g - noise."""
    return Kick(first.b * second.b, second.b * first.w + second.w, second.b**2 * first.v + second.v)


@every_row
@properties
@given(t0=log_uniform(1e-4, 10), h=log_uniform(1e-4, 1))
def test_two_half_steps_are_one_step(row: Row, t0: float, h: float) -> None:
    middle, t1 = t0 + h / 2, t0 + h
    both, whole = compose(row.kick(t0, middle), row.kick(middle, t1)), row.kick(t0, t1)
    # A rounding of a time is a(t) ulp(t) of b: p roundings for t^p, 3 t^3 = 4000 of them for stretch:3 at t = 11.
    rtol = 1e-10 if row.name == "stretch:3" else 1e-12
    for found, exact in zip(both, whole, strict=True):
        assert found == pytest.approx(float(exact), rel=rtol, abs=1e-300)


@every_row
def test_the_first_step_splits_too(row: Row) -> None:
    both, whole = compose(row.kick(0.0, 0.3), row.kick(0.3, 1.0)), row.kick(0.0, 1.0)
    for found, exact in zip(both, whole, strict=True):
        assert found == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


def chained(equation: Equation, t: np.ndarray) -> Kick:
    kicks = equation.kick(t[:-1], t[1:])
    total = Kick(*(each[0] for each in kicks))
    for each in zip(*(part[1:] for part in kicks), strict=True):
        total = compose(total, Kick(*each))
    return total


CHAINS = [
    *((polynomial(p).equation, lambda t, p=p: (1, p**2 / ((2 * p - 1) * t))) for p in (0.6, 1.0, 1.5, 3.0, 100.0)),
    *((exponential(a).equation, lambda t, a=a: (1, a / 2 / np.tanh(a * t / 2))) for a in (0.7, 10.0)),
    (MemoryFlow("log", gradient=zero), lambda t: (1, t / ((1 + t) * np.log1p(t) ** 2))),
    *((HeavyBallFlow(f"{q}/t", gradient=zero), lambda t, q=q: (t / (q + 1), t / (2 * q + 1))) for q in (0.5, 2.0, 3.0)),
    (HeavyBallFlow(0.7, gradient=zero), lambda t: (-np.expm1(-0.7 * t) / 0.7, -np.expm1(-1.4 * t) / 1.4)),
    (GradientFlow(gradient=zero), lambda t: (t, t)),
    (AmplifiedFlow(gradient=zero), lambda t: (t**2 / 2, t**3 / 3)),
]


@pytest.mark.parametrize(("equation", "exact"), CHAINS, ids=[str(equation) for equation, _ in CHAINS])
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_chained_kicks_give_the_closed_mean_and_variance(equation: Equation, exact: Any, n: int) -> None:
    """The mean -w g and the variance of V under a constant gradient, from any number of steps."""
    t = 2.5
    total = chained(equation, np.linspace(0, t, n + 1))
    w, v = exact(t)
    # Each step forgets the rounding of the one before as it forgets all else, so it does not add up.
    assert total.w == pytest.approx(w, rel=1e-13)
    assert total.v == pytest.approx(v, rel=1e-13)


@every_memory
def test_the_noise_is_never_less_than_that_of_an_averaged_step(row: Row) -> None:
    t = np.concatenate([[0.0], np.geomspace(1e-3, 5.0, 100)])
    kick, h = row.equation.kick(t[:-1], t[1:]), np.diff(t)
    ratio = kick.v * h / kick.w**2  # Jensen: int phi^2 >= (int phi)^2 / h
    assert np.all(ratio >= 1 - 1e-11)
    if row.name == "poly:1":
        np.testing.assert_allclose(ratio, 1, rtol=1e-13)  # a constant push, and only that, has equality
    else:
        assert ratio[0] > 1 + 1e-8


def test_the_excess_noise_of_degree_three_is_that_of_the_paper_s_first_steps() -> None:
    n = np.arange(4.0)
    kick = MemoryFlow("poly:3", gradient=zero).kick(n, n + 1)
    np.testing.assert_allclose(kick.v[:3] / kick.w[:3] ** 2, [1.8, 1.14, 1.05], atol=0.005)


# --- two equations ---------------------------------------------------------------------------------------------------


def overlap(push: Callable[..., Any], other: Callable[..., Any], t0: Any, t1: Any) -> Any:
    """The covariance of two equations' kicks by the same Brownian motion, as the integrators compute it."""
    s, ds = points(t0, t1)
    return np.sum(push(s, t1[..., None]) * other(s, t1[..., None]) * ds, axis=-1)


@pytest.mark.parametrize("p", [0.6, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("q", [0.6, 2.0, 50.0])
@pytest.mark.parametrize(("t0", "t1"), [(0.0, 0.01), (0.0, 2.0), (1.0, 1.5), (50.0, 50.01)])
def test_the_overlap_of_two_polynomial_memories_is_a_power(p: float, q: float, t0: float, t1: float) -> None:
    found = overlap(Polynomial(p).influence, Polynomial(q).influence, np.array(t0), np.array(t1))
    r, n = mp.mpf(t0) / mp.mpf(t1), mp.mpf(p) + mp.mpf(q) - 1
    close(found, mp.mpf(p) * mp.mpf(q) / n * (1 - r**n) / mp.mpf(t1), 1e-12)


@pytest.mark.parametrize("p", [0.6, 3.0])
@pytest.mark.parametrize("q", [0.5, 3.0])
@pytest.mark.parametrize(("t0", "t1"), [(0.0, 0.5), (1.0, 1.5)])
def test_the_overlap_of_a_memory_and_a_heavy_ball_is_a_power(p: float, q: float, t0: float, t1: float) -> None:
    ball = HeavyBallFlow(f"{q}/t", gradient=zero)
    found = overlap(Polynomial(p).influence, ball.push, np.array(t0), np.array(t1))
    n = p + q  # the integral of (p/t1) (s/t1)^(p-1) (s/t1)^q
    assert found == pytest.approx(p / n * (1 - (t0 / t1) ** n), rel=1e-12)


@every_row
@pytest.mark.parametrize(("t0", "t1"), [(0.0, 0.5), (1.0, 1.5)])
def test_an_equation_overlaps_with_itself_by_its_variance(row: Row, t0: float, t1: float) -> None:
    found = overlap(row.equation.push, row.equation.push, np.array(t0), np.array(t1))
    assert found == pytest.approx(float(row.kick(t0, t1).v), rel=1e-10)


@pytest.mark.parametrize("one", ROWS[::3], ids=str)
@pytest.mark.parametrize("other", ROWS[1::3], ids=str)
def test_the_covariance_of_two_kicks_is_one(one: Row, other: Row) -> None:
    t0, t1 = np.array([0.0, 0.1, 5.0]), np.array([0.1, 0.2, 5.01])
    shared = overlap(one.equation.push, other.equation.push, t0, t1)
    assert np.all(shared > 0)
    # Cauchy-Schwarz, with equality only for proportional pushes.
    product = one.equation.kick(t0, t1).v * other.equation.kick(t0, t1).v
    assert np.all(shared**2 <= product * (1 + 1e-10))


def test_the_variance_of_the_position_under_exponential_memory_is_the_dilogarithm() -> None:
    """Once more, by chaining noise into the position too: Var X from b, w, v on a fine grid."""
    a, t, n = 0.7, 2.0, 4000
    grid = np.linspace(0, t, n + 1)
    kick = exponential(a).equation.kick(grid[:-1], grid[1:])
    xx = xv = vv = 0.0
    h = t / n
    for b, v in zip(kick.b.tolist(), kick.v.tolist(), strict=True):
        vv = b * b * vv + v
        xv = b * xv
        # X += h V with the new V
        xx, xv = xx + 2 * h * xv + h * h * vv, xv + h * vv
    z = np.exp(-a * t)
    exact = t + (a * t * np.log1p(-z) - spence(1 - z) + np.pi**2 / 6) / a
    # Var V ~ 1/t near 0: a sum in place of its integrals misses h/t a step, h log n in all.
    assert xx == pytest.approx(exact, abs=1.2 * h * np.log(n))
    assert vv == pytest.approx(a / 2 / np.tanh(a * t / 2), rel=1e-12)
