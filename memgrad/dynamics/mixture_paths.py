r"""Paths of the flow of a mixture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memgrad.dynamics.step_limits import refuse_overshooting

if TYPE_CHECKING:
    from memgrad.dynamics.record import Recorder
    from memgrad.dynamics.results import Ensemble
    from memgrad.memory.passport import Progress

Array = NDArray[np.float64]


def mixture_paths(
    flow: Any,
    x0: Array,
    stops: NDArray[np.int64],
    dt: float,
    seed: int,
    recorder: Recorder,
    progress: Progress | None,
) -> Ensemble:
    r"""Simulate paths of a `MixtureFlow` with steps of first order.

    In a step the gradient is held. The average then moves by the exact kick of its memory, whose noise has the variance
    $v$, and the newest gradient's noise is the increment of the same Brownian motion, of variance $h$; their covariance
    is the weight $w = 1 - b$ of the step's gradients, and two normals give both. The position moves by the integral of
    the gain times the new average.
    """
    for t in (0.0, int(stops[-1]) * dt):
        refuse_overshooting(flow, dt, partial(_without_noise, flow, t))
    paths = recorder.paths
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    noise = flow.volatility
    x, v = (np.repeat(part, paths, axis=0) for part in flow.start(x0, 0.0))
    sources = noise.sources(x)
    done, total, normals = 0, int(stops[-1]), 0
    with np.errstate(all="ignore"):
        for i, stop in enumerate(stops.tolist()):
            while done < stop:
                t0, t1 = done * dt, (done + 1) * dt
                b, w, var = (float(part) for part in flow.kick(np.array(t0), np.array(t1)))
                g = flow.slope(x)
                v = b * v - w * g
                moved = _gain(flow, t0, t1)
                x = x - flow.instant * dt * g
                if not noise.is_zero:
                    first, second = rng.standard_normal((2, paths, sources))
                    normals += 2 * paths * sources
                    shared = first * (w / np.sqrt(var)) + second * np.sqrt(max(dt - w * w / var, 0.0))
                    v -= noise.push(x, np.sqrt(var) * first)
                    x = x - flow.instant * noise.push(x, shared)
                x = x + moved * v
                done += 1
                if progress is not None and done % 256 == 0:
                    progress(done, total)
            recorder.record(i, x, v)
    return recorder.ensemble(
        equation=str(flow), scheme="exact", dt=dt, start=0.0, seed=seed, steps=total, normals=normals
    )


def _gain(flow: Any, t0: float, t1: float) -> float:
    """The integral of the average's gain over a step."""
    power = 1 + flow.growth
    return float(flow.scale * (t1**power - t0**power) / power)


def _without_noise(flow: Any, t: float, curvature: float, dt: float) -> Array:
    """The step from time t as a matrix, on the quadratic with this curvature and its minimum at 0."""
    t = max(t, dt)  # not the very first step, in which a memory forgets everything
    b, w, _ = (float(part) for part in flow.kick(np.array(t), np.array(t + dt)))
    moved = _gain(flow, t, t + dt)
    return np.array([[1 - (flow.instant * dt + moved * w) * curvature, moved * b], [-w * curvature, b]])
