"""What equations say of themselves, and what equations, `solve` and `simulate` refuse."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from memgrad.dynamics import (
    AmplifiedFlow,
    Equation,
    ExponentialFlow,
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
    simulate,
    simulate_together,
    solve,
)
from memgrad.dynamics.flows import parse_flow
from memgrad.dynamics.noise import MatrixNoise, PositionNoise, ScalarNoise, as_noise
from memgrad.dynamics.viscosity import HyperbolicViscosity, as_viscosity
from memgrad.memory import FromDecays, Instantaneous, Polynomial, PowerDecay, Sampled

H = np.diag([1.0, 4.0])
X = np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]])  # three paths, two coordinates
V = np.array([[0.1, 0.2], [-1.0, 0.0], [2.0, 1.0]])


def quadratic(x: np.ndarray) -> np.ndarray:
    return x @ H


# --- drifts ----------------------------------------------------------------------------------------------------------

T = 2.0
DRIFTS = [
    # The viscosity a(2) and the gain c(2), by hand.
    (MemoryFlow("poly:3", gradient=quadratic), 1.5, 1.5),
    (MemoryFlow("exp:alpha=2", gradient=quadratic), 2 / (1 - math.exp(-4)), 2 / (1 - math.exp(-4))),
    (MemoryFlow("log", gradient=quadratic), 1 / (3 * math.log(3)), 1 / (3 * math.log(3))),  # erratum 4
    (HeavyBallFlow("3/t", gradient=quadratic), 1.5, 1.0),
    (HeavyBallFlow(0.25, gradient=quadratic), 0.25, 1.0),
    (HeavyBallFlow(HyperbolicViscosity(2.0), gradient=quadratic), 2 / math.tanh(4), 1.0),
    (HeavyBallFlow(Polynomial(2), gradient=quadratic), 1.0, 1.0),
    (ExponentialFlow(2.0, gradient=quadratic), 2.0, 2.0),
    (ExponentialFlow(2.0, scale=0.5, gradient=quadratic), 2.0, 0.5),
]


@pytest.mark.parametrize(("equation", "a", "c"), DRIFTS, ids=[str(row[0]) for row in DRIFTS])
def test_the_drift_of_a_velocity(equation: Any, a: float, c: float) -> None:
    dx, dv = equation.drift(np.array(T), X, V)
    np.testing.assert_array_equal(dx, V)
    np.testing.assert_allclose(dv, -a * V - c * X @ H, rtol=1e-14)
    # Many times at once, a time a path.
    _, each = equation.drift(np.full((3, 1), T), X, V)
    np.testing.assert_allclose(each, dv, rtol=1e-14)


@pytest.mark.parametrize(("flow", "c"), [(GradientFlow, 1.0), (AmplifiedFlow, T)])
def test_the_drift_of_a_position(flow: Any, c: float) -> None:
    np.testing.assert_allclose(flow(gradient=quadratic).drift(np.array(T), X), -c * X @ H, rtol=1e-15)


# --- starts ----------------------------------------------------------------------------------------------------------

STARTS = [
    # V(t0) = -velocity(t0) g0 and X(t0) = x0 - position(t0) g0 to first order.
    ("poly:0.7", MemoryFlow("poly:0.7", gradient=quadratic), lambda t: 1.0, lambda t: t),
    ("poly:100", MemoryFlow("poly:100", gradient=quadratic), lambda t: 1.0, lambda t: t),
    ("exp", MemoryFlow("exp:alpha=10", gradient=quadratic), lambda t: 1.0, lambda t: t),
    ("log", MemoryFlow("log", gradient=quadratic), lambda t: 1.0, lambda t: t),
    ("3/t", HeavyBallFlow("3/t", gradient=quadratic), lambda t: t / 4, lambda t: t**2 / 8),
    ("0.5/t", HeavyBallFlow("0.5/t", gradient=quadratic), lambda t: t / 1.5, lambda t: t**2 / 3),
    ("coth", HeavyBallFlow(HyperbolicViscosity(2.0), gradient=quadratic), lambda t: t / 2, lambda t: t**2 / 4),
    ("constant", HeavyBallFlow(0.3, gradient=quadratic), lambda t: t, lambda t: t**2 / 2),
    ("MG-exp", ExponentialFlow(2.0, scale=0.5, gradient=quadratic), lambda t: 0.5 * t, lambda t: 0.25 * t**2),
]


@pytest.mark.parametrize(("name", "equation", "velocity", "moved"), STARTS, ids=[row[0] for row in STARTS])
@pytest.mark.parametrize("t0", [0.0, 1e-9, 1e-5])
def test_the_start_is_that_of_the_solution(name: str, equation: Any, velocity: Any, moved: Any, t0: float) -> None:
    g0 = np.array([[1.0, 8.0]])
    x, v = equation.start([1.0, 2.0], t0)
    # Of first order: a relative rest of (viscosity) * t0, at most 10 * 1e-5.
    np.testing.assert_allclose(v, -velocity(t0) * g0, rtol=1e-4, atol=0)
    np.testing.assert_allclose(x, [[1.0, 2.0]] - moved(t0) * g0, rtol=0, atol=1e-4 * moved(t0) * 8 + 5e-16)
    assert x.shape == v.shape == (1, 2)


def test_the_start_takes_a_number_and_leaves_what_it_is_given_alone() -> None:
    x0 = np.array([1.0, 2.0])
    x, _ = MemoryFlow("poly:2", gradient=lambda x: x).start(x0, 0.0)
    x += 1
    assert x0.tolist() == [1.0, 2.0]
    assert MemoryFlow("poly:2", gradient=lambda x: x).start(3.0, 0.0)[1].tolist() == [[-3.0]]


# --- what they are ---------------------------------------------------------------------------------------------------

TEXTS = [
    (MemoryFlow("poly:3", gradient=quadratic), "MG-ODE(poly:3)", True, False),
    (MemoryFlow("poly:3", gradient=quadratic, noise=0.5), "MG-SDE(poly:3), noise 0.5", True, True),
    (MemoryFlow("exp:0.9", gradient=quadratic, noise=0), "MG-ODE(exp:0.9)", True, False),
    (HeavyBallFlow("3/t", gradient=quadratic, noise=np.ones((2, 3))), "HB-SDE(3/t), noise 2x3 matrix", True, True),
    (HeavyBallFlow(0.5, gradient=quadratic), "HB-ODE(0.5)", False, False),
    (HeavyBallFlow(Polynomial(2), gradient=quadratic), "HB-ODE(2/t)", True, False),
    (HeavyBallFlow(HyperbolicViscosity(2.0), gradient=quadratic), "HB-ODE(2 coth(2 t))", True, False),
    (ExponentialFlow(2.0, gradient=quadratic), "MG-ODE-exp(2)", False, False),
    (ExponentialFlow(2.0, scale=3.0, gradient=quadratic, noise=1.0), "MG-SDE-exp-G(2, C=3), noise 1", False, True),
    (GradientFlow(gradient=quadratic, noise=lambda x: x[:, 0]), "GD-SDE, noise sigma(x)", False, True),
    (GradientFlow(gradient=quadratic), "GD-ODE", False, False),
    (AmplifiedFlow(gradient=quadratic), "amplified GD-ODE", False, False),
]


@pytest.mark.parametrize(("equation", "text", "singular", "stochastic"), TEXTS, ids=[row[1] for row in TEXTS])
def test_an_equation_says_what_it_is(equation: Equation, text: str, singular: bool, stochastic: bool) -> None:
    assert str(equation) == text
    assert equation.is_singular is singular
    assert equation.is_stochastic is stochastic


def test_an_equation_is_a_value() -> None:
    equation = MemoryFlow("poly:3", gradient=quadratic)
    assert equation.memory == Polynomial(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        equation.noise = 1.0  # type: ignore[misc]
    assert dataclasses.replace(equation, noise=2.0).is_stochastic


def test_a_hessian_is_kept_or_asked_for() -> None:
    np.testing.assert_array_equal(MemoryFlow("poly:3", gradient=quadratic, hessian=H).curvature, H)
    np.testing.assert_array_equal(GradientFlow(gradient=lambda x: x, hessian=2.0).curvature, [[2.0]])
    with pytest.raises(ValueError, match=r"exact moments of GD-ODE need its constant Hessian: give hessian=H"):
        _ = GradientFlow(gradient=quadratic).curvature


@pytest.mark.parametrize("text", ["3/t", " 3 / t ", "3/ t", "3.0/t"])
def test_a_viscosity_over_time_is_read(text: str) -> None:
    assert str(as_viscosity(text)) == "3/t"


def test_a_viscosity_that_is_a_number_is_read() -> None:
    assert as_viscosity("0.5") == as_viscosity(0.5)
    assert str(as_viscosity("0.5")) == "0.5"


# --- noise -----------------------------------------------------------------------------------------------------------

Z2, Z3 = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), np.arange(9.0).reshape(3, 3)
SIGMA = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])  # d = 2, r = 3
NOISES = [
    (0.5, 2, Z2, 0.5 * Z2),
    (SIGMA, 3, Z3, np.array([SIGMA @ z for z in Z3])),
    (lambda x: x[:, 0], 2, Z2, X[:, :1] * Z2),
    (lambda x: 0.5, 2, Z2, 0.5 * Z2),
    (lambda x: SIGMA, 3, Z3, np.array([SIGMA @ z for z in Z3])),
    (lambda x: x[:, :1, None] * SIGMA, 3, Z3, np.array([x[0] * SIGMA @ z for x, z in zip(X, Z3, strict=True)])),
]


@pytest.mark.parametrize(("value", "sources", "z", "pushed"), NOISES, ids=list("abcdef"))
def test_noise_pushes_each_path(value: Any, sources: int, z: np.ndarray, pushed: np.ndarray) -> None:
    noise = as_noise(value)
    assert noise.sources(X) == sources
    np.testing.assert_allclose(noise.push(X, z), pushed, rtol=1e-15)


def test_the_covariance_of_noise() -> None:
    np.testing.assert_array_equal(as_noise(3.0).covariance(2), 9 * np.eye(2))
    np.testing.assert_array_equal(as_noise(SIGMA).covariance(2), [[5.0, 2.0], [2.0, 2.0]])
    with pytest.raises(ValueError, match=r"constant noise, got a function sigma\(x\)"):
        as_noise(lambda x: 1.0).covariance(2)


def test_the_largest_noise_has_a_finite_variance() -> None:
    assert np.isfinite(as_noise(1e150).covariance(1)).all()
    with pytest.raises(ValueError, match="at most 1e150"):
        as_noise(1.01e150)


def test_noise_is_recognised() -> None:
    assert isinstance(as_noise(0.1), ScalarNoise)
    assert isinstance(as_noise(SIGMA), MatrixNoise)
    assert isinstance(as_noise(lambda x: 1.0), PositionNoise)
    noise = as_noise(0.1)
    assert as_noise(noise) is noise
    assert as_noise(0.0).is_zero


# --- what is refused -------------------------------------------------------------------------------------------------

mg = MemoryFlow("poly:3", gradient=lambda x: x, noise=1.0)
calm = MemoryFlow("poly:3", gradient=lambda x: x)
ball = HeavyBallFlow(0.5, gradient=lambda x: x)


def flow(**changed: Any) -> MemoryFlow:
    return MemoryFlow(changed.pop("memory", "poly:3"), gradient=changed.pop("gradient", quadratic), **changed)


def run(equation: Equation = mg, t: Any = (1.0,), x0: Any = 1.0, **changed: Any) -> Any:
    return simulate(equation, t, x0, **{"paths": 3, "dt": 0.1, "seed": 0, **changed})


def root(p: float) -> Sampled:
    return Sampled(lambda t: t**p, lambda t: p * t ** (p - 1), h=0.1)


def one_path_alone(x: np.ndarray) -> np.ndarray:
    return x[0]


def half_a_gradient(x: np.ndarray) -> np.ndarray:
    return x[:, :1]


def transposed(x: np.ndarray) -> np.ndarray:
    return x.T


def not_a_number(x: np.ndarray) -> np.ndarray:
    return x * math.nan


Refusal = tuple[str, Callable[[], Any], type[Exception], str]

EQUATIONS: list[Refusal] = [
    ("gradient", lambda: flow(gradient=3.0), TypeError, r"needs a gradient, a function of positions, got 3\.0"),
    ("memory", lambda: flow(memory=3.0), TypeError, r"MemoryFlow needs a Memory or its text form.*memory=3\.0"),
    ("memory text", lambda: flow(memory="polly:3"), ValueError, r"unknown memory 'polly:3'.*poly:2"),
    ("instantaneous", lambda: flow(memory=Instantaneous()), ValueError, r"no velocity of its own: use GradientFlow"),
    ("inst", lambda: flow(memory="inst"), ValueError, r"use GradientFlow\(gradient=\.\.\.\)"),
    ("power", lambda: flow(memory=PowerDecay(0.8)), NotImplementedError, r"power:0\.8 is a discrete memory.*Sampled"),
    ("decays", lambda: flow(memory=FromDecays([0, 0.5])), NotImplementedError, r"decays:0,0\.5 is a discrete memory"),
    ("discrete ball", lambda: HeavyBallFlow(PowerDecay(0.8), gradient=quadratic), NotImplementedError, r"discrete mem"),
    ("p = 1/2", lambda: flow(memory="poly:0.5", noise=1.0), ValueError, r"infinite variance under poly:0\.5.*p > 1/2"),
    ("p < 1/2", lambda: flow(memory="poly:0.3", noise=1.0), ValueError, r"infinite variance under poly:0\.3"),
    ("p < 1/2 in text", lambda: flow(memory="poly:0.3", noise=SIGMA), ValueError, r"infinite variance under poly:0\.3"),
    ("stretch", lambda: flow(memory="stretch:0.4", noise=1.0), ValueError, r"infinite variance under stretch:0\.4"),
    ("stretch 1/2", lambda: flow(memory="stretch:0.5", noise=1.0), ValueError, r"infinite variance under stretch:0\.5"),
    ("sampled t^.4", lambda: flow(memory=root(0.4), noise=1.0), ValueError, r"infinite variance under sampled"),
    ("noise < 0", lambda: flow(noise=-1.0), ValueError, r"standard deviation sigma >= 0, got -1\.0"),
    ("noise nan", lambda: flow(noise=math.nan), ValueError, r"noise must be finite.*got nan"),
    ("noise inf", lambda: flow(noise=[[math.inf]]), ValueError, r"noise must be finite.*got \[\[inf\]\]"),
    ("noise (d,)", lambda: flow(noise=[1.0, 2.0]), ValueError, r"array of shape \(2,\); write np\.diag"),
    ("noise empty", lambda: flow(noise=np.ones((2, 0))), ValueError, r"array of shape \(2, 0\)"),
    ("noise 3-d", lambda: flow(noise=np.ones((2, 2, 2))), ValueError, r"matrix of shape \(d, r\).*\(2, 2, 2\)"),
    ("hessian", lambda: flow(hessian=np.ones((2, 3))), ValueError, r"finite square matrix, got the shape \(2, 3\)"),
    ("hessian nan", lambda: flow(hessian=[[math.nan]]), ValueError, r"a Hessian is a finite square matrix"),
    ("hessian skew", lambda: flow(hessian=[[1.0, 2.0], [0.0, 1.0]]), ValueError, r"a Hessian is symmetric"),
    ("alpha", lambda: ExponentialFlow(-1.0, gradient=quadratic), ValueError, r"a finite alpha > 0, got alpha=-1\.0"),
    ("scale", lambda: ExponentialFlow(1.0, scale=0.0, gradient=quadratic), ValueError, r"scale C > 0, got scale=0\.0"),
    ("viscosity 0", lambda: HeavyBallFlow(0.0, gradient=quadratic), ValueError, r"a finite alpha > 0, got alpha=0\.0"),
    ("viscosity nan", lambda: HeavyBallFlow(math.nan, gradient=quadratic), ValueError, r"alpha > 0, got alpha=nan"),
    (
        "viscosity -1/t",
        lambda: HeavyBallFlow("-1/t", gradient=quadratic),
        ValueError,
        r"viscosity q/t needs a finite q > 0, got q=-1\.0",
    ),
    ("viscosity 3t", lambda: HeavyBallFlow("3t", gradient=quadratic), ValueError, r"0\.5, or as 3/t, got '3t'"),
    ("viscosity 3/", lambda: HeavyBallFlow("3/", gradient=quadratic), ValueError, r"0\.5, or as 3/t, got '3/'"),
    ("viscosity 3/s", lambda: HeavyBallFlow("3/s", gradient=quadratic), ValueError, r"0\.5, or as 3/t, got '3/s'"),
    ("viscosity t", lambda: HeavyBallFlow("t", gradient=quadratic), ValueError, r"0\.5, or as 3/t, got 't'"),
    ("viscosity None", lambda: HeavyBallFlow(None, gradient=quadratic), TypeError, r"a real number alpha.*NoneType"),
    ("t0 < 0", lambda: mg.start(1.0, -0.1), ValueError, r"time t0 >= 0, got t0=-0\.1"),
    ("t0 nan", lambda: mg.start(1.0, math.nan), ValueError, r"time t0 >= 0, got t0=nan"),
    ("drift at 0", lambda: mg.drift(np.array(0.0), X, V), ValueError, r"must be finite and > 0.*t=0\.0"),
    ("misspelt", lambda: flow(nosie=1.0), TypeError, r"unexpected keyword argument 'nosie'"),
]

SOLVING: list[Refusal] = [
    ("method", lambda: solve(calm, 1.0, 1.0, method="rk45"), ValueError, r"unknown method 'rk45'; known.*RK45, DOP853"),
    ("BDF", lambda: solve(calm, 1.0, 1.0, method="BDF"), ValueError, r"unknown method 'BDF'"),
    ("tolerances", lambda: solve(calm, 1.0, 1.0, tolerances="loose"), ValueError, r"'loose'; known: paper, tight"),
    ("tolerance", lambda: solve(calm, 1.0, 1.0, tolerances=1e-5), TypeError, r"pair \(relative, absolute\), got 1e-05"),
    ("three", lambda: solve(calm, 1.0, 1.0, tolerances=(1, 2, 3)), TypeError, r"pair.*got \(1, 2, 3\)"),
    ("rtol 0", lambda: solve(calm, 1.0, 1.0, tolerances=(0.0, 1e-9)), ValueError, r"0 < relative < 1.*\(0\.0, 1e-09\)"),
    ("atol -1", lambda: solve(calm, 1.0, 1.0, tolerances=(1e-9, -1.0)), ValueError, r"absolute >= 0.*-1\.0"),
    ("rtol nan", lambda: solve(calm, 1.0, 1.0, tolerances=(math.nan, 1e-9)), ValueError, r"0 < relative < 1.*nan"),
    ("start 0", lambda: solve(calm, 1.0, 1.0, start=0.0), ValueError, r"MG-ODE\(poly:3\).*start must be > 0.*0\.0"),
    ("start -1", lambda: solve(calm, 1.0, 1.0, start=-1.0), ValueError, r"start must be > 0, got start=-1\.0"),
    ("start nan", lambda: solve(calm, 1.0, 1.0, start=math.nan), ValueError, r"start must be > 0, got start=nan"),
    ("late", lambda: solve(calm, [0.5, 1.0], 1.0, start=0.7), ValueError, r"start=0\.7 is later than.*t=0\.5"),
    ("regular", lambda: solve(ball, 1.0, 1.0, start=0.1), ValueError, r"HB-ODE\(0\.5\) is regular at 0.*start=0\.1"),
    ("v0 singular", lambda: solve(calm, 1.0, 1.0, v0=0.0), ValueError, r"determines V\(0\+\) itself, got v0=0\.0"),
    ("v0 flow", lambda: solve(GradientFlow(gradient=quadratic), 1.0, 1.0, v0=0.0), ValueError, r"no velocity.*v0=0\.0"),
    ("v0 shape", lambda: solve(ball, 1.0, 1.0, v0=[1.0, 2.0]), ValueError, r"as many coordinates as x0, 1, got 2"),
    ("x0 nan", lambda: solve(calm, 1.0, math.nan), ValueError, r"a position x0 is a finite number.*got nan"),
    ("x0 empty", lambda: solve(calm, 1.0, []), ValueError, r"a position x0 is a finite number.*got \[\]"),
    ("x0 matrix", lambda: solve(calm, 1.0, [[1.0]]), ValueError, r"a position x0.*got \[\[1\.0\]\]"),
    ("end 0", lambda: solve(calm, 0.0, 1.0), ValueError, r"the end time must be finite and > 0, got t=0\.0"),
    ("end nan", lambda: solve(calm, math.nan, 1.0), ValueError, r"the end time must be finite.*t=nan"),
    ("t < 0", lambda: solve(calm, [-1.0, 1.0], 1.0), ValueError, r"times must be finite and >= 0, got t=-1\.0"),
    ("t nan", lambda: solve(calm, [0.0, math.nan], 1.0), ValueError, r"times must be finite and >= 0, got t=nan"),
    ("t twice", lambda: solve(calm, [0.0, 1.0, 1.0], 1.0), ValueError, r"times must increase"),
    ("t falls", lambda: solve(calm, [1.0, 0.5], 1.0), ValueError, r"times must increase"),
    ("t none", lambda: solve(calm, [], 1.0), ValueError, r"one number or a sequence.*shape \(0,\)"),
    (
        "gradient shape",
        lambda: solve(flow(gradient=half_a_gradient), 1.0, [1.0, 2.0]),
        ValueError,
        r"\(1, 2\), got \(1",
    ),
    ("gradient nan", lambda: solve(flow(gradient=not_a_number), 1.0, 1.0), ValueError, r"not finite at x=\[1\.0\]"),
]

STIFF = MemoryFlow("exp:alpha=30", gradient=lambda x: x, noise=1.0)
WIDE = GradientFlow(gradient=lambda x: x, noise=SIGMA)
ONE_A_COORDINATE = GradientFlow(gradient=quadratic, noise=lambda x: np.ones(2))
SIMULATING: list[Refusal] = [
    ("dt 0", lambda: run(dt=0.0), ValueError, r"dt must be finite and > 0, got dt=0\.0"),
    ("dt < 0", lambda: run(dt=-0.1), ValueError, r"dt must be finite and > 0, got dt=-0\.1"),
    ("dt nan", lambda: run(dt=math.nan), ValueError, r"dt must be finite and > 0, got dt=nan"),
    ("dt inf", lambda: run(dt=math.inf), ValueError, r"dt must be finite and > 0, got dt=inf"),
    ("dt text", lambda: run(dt="0.1"), TypeError, r"dt is a real number > 0, got dt='0\.1'"),
    ("dt bool", lambda: run(dt=True), TypeError, r"dt is a real number > 0, got dt=True"),
    ("paths 0", lambda: run(paths=0), ValueError, r"paths must be an integer >= 1, got paths=0"),
    ("paths 1.5", lambda: run(paths=1.5), ValueError, r"paths must be an integer >= 1, got paths=1\.5"),
    ("seed -1", lambda: run(seed=-1), ValueError, r"seed must be an integer >= 0, got seed=-1"),
    ("seed None", lambda: run(seed=None), ValueError, r"seed must be an integer >= 0, got seed=None"),
    ("threads 0", lambda: run(threads=0), ValueError, r"threads must be an integer >= 1, got threads=0"),
    ("scheme", lambda: run(scheme="heun"), ValueError, r"unknown scheme 'heun'; known schemes: exact, splitting"),
    ("start exact", lambda: run(start=0.1), ValueError, r"scheme 'exact' starts at time 0, got start=0\.1"),
    ("start 0", lambda: run(scheme="milstein", start=0.0), ValueError, r"start must be > 0, got start=0\.0"),
    ("start off", lambda: run(scheme="milstein", start=0.15), ValueError, r"multiple >= 0.*dt=0\.1, got start=0\.15"),
    ("start < 0", lambda: run(scheme="milstein", start=-0.1), ValueError, r"multiple >= 0.*start=-0\.1"),
    ("start nan", lambda: run(scheme="milstein", start=math.nan), ValueError, r"multiple >= 0.*start=nan"),
    ("start inf", lambda: run(scheme="milstein", start=math.inf), ValueError, r"multiple >= 0.*start=inf"),
    (
        "unstable",
        lambda: run(STIFF, scheme="milstein"),
        ValueError,
        r"dt=0\.1 is unstable for MG-SDE\(exp",
    ),
    (
        "t off",
        lambda: run(t=[0.5, 0.77]),
        ValueError,
        r"multiples of the step dt=0\.1, got t=0\.77; the nearest is 0\.8",
    ),
    (
        "end off",
        lambda: run(t=1.0, dt=0.4),
        ValueError,
        r"multiples of the step dt=0\.4, got t=1\.0; the nearest is 0",
    ),
    ("end near", lambda: run(t=0.01), ValueError, r"multiples of the step dt=0\.1, got t=0\.01"),
    ("t falls", lambda: run(t=[1.0, 0.5]), ValueError, r"times must increase"),
    ("t < 0", lambda: run(t=[-0.1, 0.5]), ValueError, r"times must be finite and >= 0, got t=-0\.1"),
    (
        "level 0",
        lambda: run(quantiles=[0.5, 0.0]),
        ValueError,
        r"levels of quantiles must lie between 0 and 1, got 0\.0",
    ),
    ("level 1.5", lambda: run(quantiles=[1.5]), ValueError, r"levels of quantiles must lie between 0 and 1, got 1\.5"),
    (
        "level nan",
        lambda: run(quantiles=[math.nan]),
        ValueError,
        r"levels of quantiles must lie between 0 and 1, got nan",
    ),
    (
        "observable",
        lambda: run(observe={"f": lambda x, v: x}),
        ValueError,
        r"'f' must return.*shape \(3,\), got \(3, 1\)",
    ),
    (
        "memory",
        lambda: run(paths=10**6, memory_limit=1e6),
        ValueError,
        r"1000000 paths at 1 times.*memory_limit=0\.001",
    ),
    ("kept", lambda: run(t=10.0, paths=10**6, keep_paths=True, memory_limit=1e9), ValueError, r"keep fewer times"),
    ("x0", lambda: run(x0=[[1.0]]), ValueError, r"a position x0.*got \[\[1\.0\]\]"),
    ("gradient alone", lambda: run(flow(gradient=one_path_alone), x0=[1.0, 2.0]), ValueError, r"shape it is given"),
    ("gradient half", lambda: run(flow(gradient=half_a_gradient), x0=[1.0, 2.0]), ValueError, r"shape it is given"),
    ("gradient.T", lambda: run(flow(gradient=transposed), x0=[1.0, 2.0]), ValueError, r"shape it is given.*got \(2, "),
    ("gradient nan", lambda: run(flow(gradient=not_a_number)), ValueError, r"gradient is not finite at x=\[1\.0\]"),
    ("noise rows", lambda: run(WIDE, x0=[1.0, 2.0, 3.0]), ValueError, r"one row per coordinate, 3 .*\(2, 3\)"),
    (
        "matrix rows",
        lambda: run(WIDE, x0=1.0),
        ValueError,
        r"1 of .*\(2, 3\)",
    ),
    ("sigma(x) of d", lambda: run(ONE_A_COORDINATE, x0=[1.0, 2.0]), ValueError, r"noise sigma\(x\).*got \(2,\)"),
    (
        "sigma(x) of (n, d)",
        lambda: run(GradientFlow(gradient=lambda x: x, noise=lambda x: x), x0=[1.0, 2.0, 3.0]),
        ValueError,
        r"noise sigma\(x\) for positions.*needs the shape \(paths,\), \(paths, d, r\) or \(d, r\)",
    ),
    ("none", lambda: simulate_together([], 1.0, 1.0, paths=1, dt=0.1, seed=0), ValueError, r"at least one equation"),
    (
        "sources",
        lambda: simulate_together([flow(noise=SIGMA), flow(noise=1.0)], [1.0], [1.0, 2.0], paths=1, dt=0.1, seed=0),
        ValueError,
        r"the same number of noise sources, got \[2, 3\]: give noise matrices",
    ),
]


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [row[1:] for row in EQUATIONS + SOLVING + SIMULATING],
    ids=[row[0] for row in EQUATIONS + SOLVING + SIMULATING],
)
def test_bad_input_is_refused_by_rule_and_value(ask: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        ask()
    assert re.search(message, str(refused.value), re.DOTALL), str(refused.value)


@pytest.mark.parametrize("memory", ["poly:0.3", "poly:0.5", "stretch:0.4"])
def test_a_memory_of_infinite_variance_has_an_equation_without_noise(memory: str) -> None:
    assert not flow(memory=memory).is_stochastic


@pytest.mark.parametrize("memory", ["poly:0.51", "stretch:0.51", "log", "exp:0.9", root(0.51)], ids=str)
def test_a_memory_of_finite_variance_takes_noise(memory: Any) -> None:
    assert flow(memory=memory, noise=1.0).is_stochastic


def same(x: Any) -> Any:
    return x


@pytest.mark.parametrize("flow", [GradientFlow(gradient=same), HeavyBallFlow(1.0, gradient=same)])
def test_regular_equations_have_no_later_start(flow: Any) -> None:
    with pytest.raises(ValueError, match=r"is regular at 0, so it starts there, got start=1\.0"):
        simulate(flow, [1.0, 2.0], 1.0, paths=2, dt=0.01, seed=0, scheme="euler-maruyama", start=1.0)


def test_time_0_alone_can_be_asked_for() -> None:
    flow = MemoryFlow("poly:2", gradient=same, noise=1.0)
    assert simulate(flow, [0.0], 1.5, paths=10, dt=0.1, seed=0).mean_x.item() == 1.5


def test_flows_by_name() -> None:
    assert isinstance(parse_flow("1e-3", same), HeavyBallFlow)
    with pytest.raises(ValueError, match=r"unknown memory 'nesterov'.*\(Nesterov's is 3/t\), gd or amplified"):
        parse_flow("nesterov", same)
