"""Stochastic differential equations: many paths at once, with exact noise, reproducibly, in bounded memory."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.dynamics.equations import Equation
from memgrad.dynamics.integrators import EULER, together
from memgrad.dynamics.mixture_flow import MixtureFlow
from memgrad.dynamics.ordinary import position, times_wanted
from memgrad.dynamics.results import Ensemble, Observable, Recorder
from memgrad.dynamics.step_limits import refuse_hidden, refuse_overshooting, refuse_unstable
from memgrad.kinds import is_real
from memgrad.memory.passport import Progress

LANE = 8192
"""Paths that share one stream of random numbers. A constant, because it decides which path gets which number."""

# Maximum number of steps, about a second of work, between two progress reports and two checks for an interrupt.
_STEPS_AT_ONCE = 1024
_PATH_STEPS_AT_ONCE = 1 << 25


def simulate(
    equation: Equation,
    t: ArrayLike,
    x0: ArrayLike,
    *,
    paths: int,
    dt: float,
    seed: int,
    scheme: str = "exact",
    start: float | None = None,
    quantiles: Sequence[float] = (),
    observe: Mapping[str, Observable] | None = None,
    keep_paths: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    memory_limit: float = 4e9,
) -> Ensemble:
    r"""Simulate many paths of a stochastic differential equation from the position $x_0$ at time 0.

    Schemes, for steps from $t_n$ to $t_{n+1} = t_n + h$:

    - `exact`, also called `splitting`: half a step of the position, the kick of `memgrad.dynamics.kicks` with its exact
      $b, w, v$, and the other half: $V_{n+1} = b V_n - w g(Y_n) - \sqrt{v}\sigma\xi$, $Y_{n+1} = Y_n + h V_{n+1}$ with
      $Y = X + hV/2$. A step in which the velocity loses more than 28 % ($\int a > 1/3$; the first ones of every memory)
      moves position and velocity jointly, with the exact covariance of their noises, which takes two normals. It
      starts at 0, whatever the memory. Second order in the mean. Under a constant gradient the velocity has its exact
      law, and Var X and Cov(X, V) are within 1 % at any step; joint steps alone are exact.
    - `euler-maruyama`: it needs a `start` > 0 where the viscosity is singular. From $t = h$ the factor $1 - a(h) h$
      makes polynomial memory of degree $p$ overshoot by binomial coefficients of $p$, $10^{30}$ for $p = 100$; so it
      starts at the first time with $a(t) h \le 1$ unless `start` is given, and is refused where that factor is
      negative.
    - `milstein`: the paper's choice. It is Euler-Maruyama where the noise enters the velocity alone. A first-order flow
      with $\sigma(X)$ gets Milstein's correction, with a difference in place of the derivative of sigma (Platen):
      strong order 1, not 1/2. It needs noise from one Brownian motion, or a diagonal one.

    First-order flows have no velocity: `exact` moves them by the exact integrals of their gain.

    All schemes hold the gradient during a step, so errors grow with $h$ times the curvature. A step that overshoots
    the minimum, by more each time, is refused where the equation has its `hessian`; otherwise the numbers grow.

    Reference:
        Kloeden and Platen, *Numerical Solution of Stochastic Differential Equations*, 1992, Sec. 10.3 and 11.1, for
        Milstein's scheme and the one without derivatives.

    The numbers depend on the seed, the number of paths, the coordinates and the steps, and on nothing else: not on
    threads, progress, `keep_paths`, or the machine's memory. Only the present state of all paths is held, so a million
    paths need a few hundred megabytes.

    Args:
        equation: What to simulate.
        t: The requested times, each a multiple of dt; or the end time alone, for about 200 evenly spaced times.
        x0: The position at time 0: a number or d numbers.
        paths: Number of paths, >= 1.
        dt: The step h, finite and > 0.
        seed: An integer >= 0.
        scheme: `exact`, `splitting`, `euler-maruyama` or `milstein`.
        start: When Euler-Maruyama begins, a multiple of dt, > 0 for singular equations.
        quantiles: Levels of the quantiles, in (0, 1).
        observe: Functions of positions and velocities (paths, d) to one number per path, by name: their mean, standard
            deviation and quantiles are in the result.
        keep_paths: Whether to keep all paths at the requested times.
        threads: Number of threads; by default as many as the process may use.
        progress: Called as `progress(done, total)`, in steps.
        memory_limit: Maximum number of bytes to hold; a larger request is refused before anything is computed.

    Example:
        >>> from memgrad.dynamics import HeavyBallFlow, simulate
        >>> nesterov = HeavyBallFlow("3/t", gradient=np.ones_like, noise=1.0)
        >>> found = simulate(nesterov, [1.0], 0.0, paths=4000, dt=0.01, seed=0)
        >>> bool(abs(found.var_v[0, 0] - 1 / 7) < 4 * np.sqrt(2 / 4000) / 7)  # exactly t/7
        True
    """
    given = locals()  # all arguments, which are those of simulate_together but for the first
    return simulate_together((given.pop("equation"),), **given)[0]


def simulate_together(
    equations: Sequence[Equation],
    t: ArrayLike,
    x0: ArrayLike,
    *,
    paths: int,
    dt: float,
    seed: int,
    scheme: str = "exact",
    start: float | None = None,
    quantiles: Sequence[float] = (),
    observe: Mapping[str, Observable] | None = None,
    keep_paths: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    memory_limit: float = 4e9,
) -> tuple[Ensemble, ...]:
    r"""Simulate several equations driven by the same Brownian motion, path by path.

    In one step the noise of equation $i$ is $\int \phi_i\, dB$, with its own push $\phi_i$ of the same increments $dB$.
    These are drawn jointly, with their exact covariance $\int \phi_i \phi_j\, ds$, so that each equation alone has the
    right law and the equations together share one motion. Euler-Maruyama uses the increments themselves. An equation
    simulated with others has other paths than one simulated alone with the same seed.

    The arguments are those of `simulate`.

    Example:
        >>> from memgrad.dynamics import HeavyBallFlow, MemoryFlow, simulate_together
        >>> pair = [MemoryFlow("poly:3", gradient=lambda x: x, noise=1.0), HeavyBallFlow("3/t", gradient=lambda x: x)]
        >>> noisy, calm = simulate_together(pair, [1.0], [1.0], paths=10, dt=0.1, seed=1)
        >>> bool(noisy.var_x[0, 0] > 0), bool(calm.var_x[0, 0] > 0)
        (True, False)
    """
    stops, dt = _stops(t, dt), float(dt)
    paths, seed = _whole("paths", paths, least=1), _whole("seed", seed, least=0)
    levels = _levels(quantiles)
    x = position(x0)
    mixtures = [equation for equation in equations if isinstance(equation, MixtureFlow)]
    if mixtures and (len(equations) > 1 or scheme != "exact" or start is not None):
        raise ValueError(
            "the flow of a mixture is simulated alone, with the scheme 'exact' and no start; got "
            f"{len(equations)} equations, scheme={scheme!r}, start={start!r}."
        )
    _refuse_more_than(memory_limit, len(equations), paths, x.shape[1], len(stops), keep_paths)
    times = stops.astype(float) * dt
    recorders = [Recorder(times, paths, x.shape[1], levels, observe or {}, keep_paths) for _ in equations]
    if mixtures:
        return (mixtures[0]._paths(x, stops, dt, seed, recorders[0], progress),)
    integrators = together(tuple(equations), x, dt, scheme, start)
    states = [integrator.first(x, paths) for integrator in integrators.each]
    lanes = [slice(first, min(first + LANE, paths)) for first in range(0, paths, LANE)]
    streams = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(i,))) for i in range(len(lanes))]
    done, total, normals = 0, int(stops[-1]), 0
    for integrator, equation in zip(integrators.each, equations, strict=True) if total else ():
        for time in (0.0, total * dt):
            refuse_overshooting(equation, dt, partial(integrator.without_noise, time))
        if scheme not in EULER:
            for time in (dt, total * dt):
                refuse_hidden(equation, time, dt)
        elif start is None:
            refuse_unstable(equation, total * dt, dt)
    with np.errstate(all="ignore"), ThreadPoolExecutor(_threads(threads, len(lanes))) as pool:
        for i, stop in enumerate(stops.tolist()):
            while done < stop:
                upto = min(stop, done + max(1, min(_STEPS_AT_ONCE, _PATH_STEPS_AT_ONCE // paths)))
                steps = list(integrators.steps(done, upto))
                normals += paths * sum(len(each.mix) * integrators.normals_per_step(each) for each in steps)
                work = [
                    pool.submit(integrators.advance, [(x[lane], v[lane]) for x, v in states], steps, stream)
                    for lane, stream in zip(lanes, streams, strict=True)
                ]
                try:
                    for future in work:
                        future.result()
                except BaseException:  # Ctrl-C included: do not wait for lanes that have not started
                    pool.shutdown(cancel_futures=True)
                    raise
                done = upto
                if progress is not None:
                    progress(done, total)
            for recorder, integrator, state in zip(recorders, integrators.each, states, strict=True):
                recorder.record(i, *integrator.at(stop, x, *state))
    how = {"scheme": scheme, "dt": dt, "start": integrators.each[0].begin * dt}
    how |= {"seed": seed, "steps": total, "normals": normals}
    return tuple(
        recorder.ensemble(equation=str(equation), **how)
        for recorder, equation in zip(recorders, equations, strict=True)
    )


def _stops(t: ArrayLike, dt: float) -> NDArray[np.int64]:
    """The indices of the steps after which the state is recorded."""
    if not is_real(dt):
        raise TypeError(f"a step dt is a real number > 0, got dt={dt!r}.")
    if not (0 < dt < math.inf):
        raise ValueError(f"a step dt must be finite and > 0, got dt={dt!r}.")
    if np.ndim(t) == 0:
        steps = int(_stops(times_wanted(t)[-1:], dt)[0])
        return np.unique(np.linspace(0, steps, min(steps, 200) + 1).round().astype(np.int64))
    times = times_wanted(t)
    with np.errstate(over="ignore"):
        stops = np.rint(times / dt)
    if stops[-1] > 2**53:  # beyond this, floats cannot tell consecutive steps apart
        raise ValueError(
            f"t={times[-1].item()!r} with dt={dt!r} is {stops[-1]:.3g} steps, more than can be counted (9e15): "
            f"take a larger dt, or an earlier end."
        )
    off = np.abs(stops * dt - times) > 1e-6 * dt + 1e-12 * times
    if np.any(off):
        wrong = times[off][0]
        raise ValueError(
            f"requested times must be multiples of the step dt={dt!r}, got t={wrong.item()!r}; the nearest is "
            f"{float(np.rint(wrong / dt) * dt)!r}."
        )
    return stops.astype(np.int64)


def _whole(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {name}={value!r}.")
    return int(value)


def _levels(quantiles: Sequence[float]) -> tuple[float, ...]:
    if isinstance(quantiles, int | float):
        raise TypeError(f"quantiles must be a sequence of levels, such as (0.05, 0.5, 0.95), got {quantiles!r}.")
    levels = tuple(float(level) for level in quantiles)
    if wrong := [level for level in levels if not 0 < level < 1]:
        raise ValueError(f"levels of quantiles must lie between 0 and 1, got {wrong[0]!r}.")
    return levels


def _threads(threads: int | None, lanes: int) -> int:
    if threads is not None:
        return min(_whole("threads", threads, least=1), lanes)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, lanes)


def _refuse_more_than(limit: float, equations: int, paths: int, d: int, times: int, keep_paths: bool) -> None:
    """The bytes for the state, one copy of it while it is summarized, and the kept paths."""
    need = 8.0 * equations * paths * 2 * d * (3 + (times if keep_paths else 0))
    if not need <= limit:
        way_out = "keep fewer times, or moments and quantiles instead of paths" if keep_paths else "take fewer paths"
        raise ValueError(
            f"{paths} paths at {times} times need {need / 1e9:.1f} GB, more than memory_limit={limit / 1e9:g} GB: "
            f"{way_out}, or raise memory_limit."
        )
