"""Ordinary differential equations, solved by scipy's solve_ivp from a start where it is accurate."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from memgrad.dynamics.equations import Equation, NotFiniteError, SecondOrder
from memgrad.dynamics.first_order import FirstOrder
from memgrad.dynamics.mixture_flow import MixtureFlow
from memgrad.dynamics.results import Trajectory
from memgrad.kinds import Array

TOLERANCES = MappingProxyType({"paper": (1e-5, 1e-10), "tight": (1e-10, 1e-12)})
"""Relative and absolute tolerance by name. The paper's are those of its App. F."""

MACHINE_START = 2.220446049250313e-16
"""The time at which the paper begins to integrate."""

SERIES_START = 1e-6
"""The earliest time from which an implicit method is accurate."""

EXPLICIT = ("RK45", "DOP853", "RK23")
METHODS = (*EXPLICIT, "Radau", "LSODA")


class _TooManyEvaluationsError(Exception):
    """Raised inside the solver, which has no such limit itself."""


def solve(
    equation: Equation,
    t: ArrayLike,
    x0: ArrayLike,
    *,
    v0: ArrayLike | None = None,
    method: str = "RK45",
    tolerances: str | tuple[float, float] = "tight",
    start: float | None = None,
    max_evaluations: int = 5_000_000,
) -> Trajectory:
    r"""Solve an equation without its noise, from the position $x_0$ at time 0.

    Where the viscosity grows without bound as $t \to 0$, integration begins at a small `start` with the position and
    velocity that the equation has there (`SecondOrder.start`). Explicit methods can begin at 2.2e-16, as the paper
    does. Implicit ones cannot: they report `success` with wrong numbers (Radau on a quadratic: off by 0.4), and so they
    begin at 1e-6. BDF is refused: with p = 100 and the paper's tolerances it is still off by 1e-3.

    Args:
        equation: What to solve.
        t: The requested times: increasing, the first >= 0; or the end time alone, for 201 evenly spaced times.
        x0: The position at time 0: a number or d numbers.
        v0: The velocity at time 0, for equations that are not singular there; 0 by default.
        method: A method of `scipy.integrate.solve_ivp`: RK45 (MATLAB's ode45), DOP853, RK23, Radau or LSODA.
        tolerances: `"tight"` (1e-10, 1e-12), `"paper"` (1e-5, 1e-10), or a pair (relative, absolute).
        start: When to begin, for singular equations: 0 < start <= the first positive time requested.
        max_evaluations: Maximum number of gradient evaluations before the solver gives up.

    Example:
        >>> from memgrad.dynamics import MemoryFlow, solve
        >>> found = solve(MemoryFlow("poly:1.5", gradient=lambda x: x), [0.0, 1.0, 2.0], 1.0)
        >>> z = np.sqrt(6 * found.t[1:])  # the exact solution of this one is sin(z)/z
        >>> bool(np.allclose(found.x[1:, 0], np.sin(z) / z, atol=1e-9))
        True

    Reference:
        UAI 2019, App. F: ode45 with absolute tolerance 1e-10 and relative tolerance 1e-5 from 2.2204e-16.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known methods: {', '.join(METHODS)}.")
    rtol, atol = _tolerances(tolerances)
    times, x = times_wanted(t), position(x0)
    begin = _begin(equation, method, start, times)
    first, derivative = _system(equation, x, v0, begin)
    count = 0

    def counted(time: float, y: Array) -> Array:
        nonlocal count
        count += 1
        if count > max_evaluations:
            raise _TooManyEvaluationsError
        return derivative(time, y)

    at = None
    with np.errstate(all="ignore"):
        try:
            span = (begin, max(float(times[-1]), begin))
            solution: Any = solve_ivp(counted, span, first, method=method, rtol=rtol, atol=atol, dense_output=True)
            status, message = int(solution.status), str(solution.message)
        except _TooManyEvaluationsError:
            status = -3
            message = f"gave up after max_evaluations={max_evaluations} gradients; try another method or tolerances."
        except NotFiniteError as error:
            status, message = -2, f"the solution did not stay finite: {error}"
        except ValueError as error:
            # Radau meets a number that is not finite in its linear algebra.
            if np.all(np.isfinite(first)) and "infs or NaNs" in str(error):
                status, message = -2, "the solution did not stay finite."
            else:
                raise
        found = np.full((2, len(times), x.shape[1]), math.nan)
        if status >= 0:
            at = _between(equation, solution.sol, x, begin)
            found = np.stack(at(times))
            if not np.all(np.isfinite(found)):
                at, status, message = None, -2, "the solution did not stay finite."
    return Trajectory(
        t=times,
        x=found[0],
        v=found[1],
        equation=str(equation),
        success=status >= 0,
        message=message,
        status=status,
        method=method,
        rtol=rtol,
        atol=atol,
        start=begin,
        evaluations=count,
        at=at,
    )


def times_wanted(t: ArrayLike) -> Array:
    """Increasing times >= 0, at least one of them; one number is the end of 201 evenly spaced times.

    Example:
        >>> times_wanted(2.0)[[0, 1, -1]]
        array([0.  , 0.01, 2.  ])
    """
    times = np.asarray(t, dtype=float)
    if times.ndim == 0:
        if not (np.isfinite(times) and times > 0):
            raise ValueError(f"the end time must be finite and > 0, got t={t!r}.")
        return np.linspace(0.0, float(times), 201)
    if times.ndim != 1 or not times.size:
        raise ValueError(f"times are one number or a sequence of them, got an array of shape {times.shape}.")
    if not np.all(np.isfinite(times)) or times[0] < 0:
        raise ValueError(f"times must be finite and >= 0, got t={times[~(times >= 0) | np.isinf(times)][0].item()!r}.")
    if np.any(np.diff(times) <= 0):
        raise ValueError("times must increase strictly; sort them and drop duplicates.")
    return times


def position(x0: ArrayLike) -> Array:
    """A position of d coordinates in the shape (1, d) that gradients take.

    Example:
        >>> position(1.0).shape, position([1.0, 2.0]).shape
        ((1, 1), (1, 2))
    """
    x = np.asarray(x0, dtype=float)
    if x.ndim > 1 or not x.size or not np.all(np.isfinite(x)):
        raise ValueError(f"a position x0 is a finite number or a sequence of d of them, got {x0!r}.")
    return x.reshape(1, -1)


def _tolerances(tolerances: str | tuple[float, float]) -> tuple[float, float]:
    if isinstance(tolerances, str):
        if tolerances not in TOLERANCES:
            raise ValueError(
                f"unknown tolerances {tolerances!r}; known: {', '.join(TOLERANCES)}, or a pair of numbers."
            )
        return TOLERANCES[tolerances]
    try:
        rtol, atol = map(float, tolerances)
    except (TypeError, ValueError):
        raise TypeError(f"tolerances are a name or a pair (relative, absolute), got {tolerances!r}.") from None
    if not (0 < rtol < 1 and 0 <= atol < math.inf):
        raise ValueError(f"tolerances need 0 < relative < 1 and absolute >= 0, got {tolerances!r}.")
    return rtol, atol


def _begin(equation: Equation, method: str, start: float | None, times: Array) -> float:
    """The start of the integration: 0 where the equation is regular there, otherwise just after."""
    if not equation.is_singular:
        if start not in (None, 0):
            raise ValueError(f"{equation} is regular at 0, so it starts there, got start={start!r}.")
        return 0.0
    earliest = MACHINE_START if method in EXPLICIT else SERIES_START
    if start is None:
        return earliest
    if not start > 0:
        raise ValueError(f"{equation} has no coefficients at time 0: start must be > 0, got start={start!r}.")
    if start < earliest:
        raise ValueError(
            f"{method} from start={start!r} reports success with wrong numbers, because its Jacobian is singular at 0: "
            f"start at {SERIES_START} or later, or use RK45 or DOP853."
        )
    positive = times[times > 0]
    if positive.size and start > positive[0]:
        raise ValueError(f"start={start!r} is later than the first requested time, t={positive[0].item()!r}.")
    return float(start)


def _system(
    equation: Equation, x: Array, v0: ArrayLike | None, begin: float
) -> tuple[Array, Callable[[float, Array], Array]]:
    """The state at the beginning, and its time derivative."""
    d = x.shape[1]
    if isinstance(equation, FirstOrder):
        if v0 is not None:
            raise ValueError(f"{equation} has no velocity, got v0={v0!r}.")
        equation.slope(x)
        return x.ravel(), lambda t, y: equation.drift(np.asarray(t), y[None]).ravel()
    assert isinstance(equation, SecondOrder | MixtureFlow)
    x_begin, v_begin = equation.start(x, begin)
    if v0 is not None:
        if equation.is_singular:
            raise ValueError(f"{equation} forgets its initial velocity and determines V(0+) itself, got v0={v0!r}.")
        v_begin = position(v0)
        if v_begin.shape != x.shape:
            raise ValueError(f"a velocity v0 needs as many coordinates as x0, {d}, got {v_begin.size}.")

    def derivative(t: float, y: Array) -> Array:
        return np.concatenate(equation.drift(np.asarray(t), y[None, :d], y[None, d:]), axis=1).ravel()

    return np.concatenate([x_begin, v_begin], axis=1).ravel(), derivative


def _between(
    equation: Equation, solution: Callable[[Array], Array], x0: Array, begin: float
) -> Callable[[Array], tuple[Array, Array]]:
    """The solution as a function of time, from 0 on."""
    d = x0.shape[1]

    def at(t: Array) -> tuple[Array, Array]:
        t = np.atleast_1d(np.asarray(t, dtype=float))
        y = solution(np.maximum(t, begin)).T
        if isinstance(equation, FirstOrder):
            return y, equation.drift(t[:, None], y)
        x, v = y[:, :d].copy(), y[:, d:].copy()
        for i in np.flatnonzero(t < begin):
            x[i], v[i] = (part[0] for part in equation.start(x0, float(t[i])))
        return x, v

    return at
