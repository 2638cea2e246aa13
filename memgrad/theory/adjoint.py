r"""The last risk of a mixture with one average on streaming least squares, and its derivatives in every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from memgrad.dynamics import Spectrum
from memgrad.kinds import Array


@final
@dataclass(frozen=True, eq=False)
class Steps:
    r"""What every step does: $x_{k+1} = x_k - e_k g_k - h_k u_k$, $u_k = b_k u_{k-1} + (1 - b_k) g_k$.

    Attributes:
        instant: $e_k$, the step along the newest gradient.
        memory: $h_k$, the step along the average.
        kept: $b_k$, with $b_0 = 0$.
        fresh: $1 - b_k$.
    """

    instant: Array
    memory: Array
    kept: Array
    fresh: Array


@final
@dataclass(frozen=True, eq=False)
class Derivatives:
    """The derivatives of the logarithm of the last risk: in each step's e, h and b."""

    instant: Array
    memory: Array
    kept: Array


def last_risk(steps: Steps, spectrum: Spectrum, *, batch: int, noise: float) -> tuple[float, Derivatives]:
    r"""The excess risk after the last step, and the derivatives of its logarithm, by one pass forward and one back.

    A step maps the second moments $(X, C, U)$ of a direction linearly: a 3 x 7 matrix $P_k$ times
    $(X, C, U, \lambda X, \lambda C, \lambda^2(1+\frac1B) X, \frac{\operatorname{tr}}{B} R)$. With the sensitivity
    $g_k$ of the last risk to the moments after step $k$, its derivative in $P_k$ is the sum over directions of
    $g_k$ times that vector, and $g_{k-1}$ is $P_k^T g_k$, folded back onto $(X, C, U)$. So the derivatives in all steps
    cost three times as much as the risk; the same through a tape of operations would cost some fifty times as much.

    Args:
        steps: The settings of all steps.
        spectrum: The problem.
        batch: The batch size $B$.
        noise: The standard deviation of the label noise.
    """
    lam, count = spectrum.curvature, len(steps.instant)
    own, share = lam**2 * (1 + 1 / batch), spectrum.trace / batch
    maps = _maps(steps)
    rows = np.zeros((count, 7, len(lam)))
    state = np.zeros((3, len(lam)))
    state[0] = spectrum.signal / lam
    for k in range(count):
        row = rows[k]
        row[:3] = state
        np.multiply(state[:2], lam, out=row[3:5])
        np.multiply(state[0], own, out=row[5])
        np.multiply(share, state[0] @ lam + noise**2, out=row[6])
        state = maps[k] @ row
    final = float(state[0] @ lam)
    back = np.zeros((count, 3, len(lam)))
    now = np.zeros((3, len(lam)))
    now[0] = lam / final
    for k in range(count - 1, -1, -1):
        back[k] = now
        pulled = maps[k].T @ now
        now = pulled[:3]
        now[0] += lam * pulled[3] + own * pulled[5] + lam * (pulled[6] @ share)
        now[1] += lam * pulled[4]
    return final / 2, _chained(np.matmul(back, rows.transpose(0, 2, 1)), steps)


def _maps(steps: Steps) -> Array:
    """The matrix of each step; the rows are X, C and U after it."""
    b, f = steps.kept, steps.fresh
    a, c = -steps.memory * b, -(steps.instant + steps.memory * f)  # x' = x + a u + c g
    maps = np.zeros((len(b), 3, 7))
    maps[:, 0] = np.stack([np.ones_like(a), 2 * a, a**2, 2 * c, 2 * c * a, c**2, c**2], axis=1)
    maps[:, 1, 1:] = np.stack([b, a * b, f, c * b + f * a, c * f, c * f], axis=1)
    maps[:, 2, 2], maps[:, 2, 4] = b**2, 2 * f * b
    maps[:, 2, 5] = maps[:, 2, 6] = f**2
    return maps


def _chained(slopes: Array, steps: Steps) -> Derivatives:
    """From the derivatives in the entries of the matrices to those in e, h and b, where f = 1 - b."""
    b, f = steps.kept, steps.fresh
    a, c = -steps.memory * b, -(steps.instant + steps.memory * f)
    x, y, z = slopes[:, 0], slopes[:, 1], slopes[:, 2]
    gx, gy, gz = (row[:, 5] + row[:, 6] for row in (x, y, z))
    by_a = 2 * x[:, 1] + 2 * a * x[:, 2] + 2 * c * x[:, 4] + b * y[:, 2] + f * y[:, 4]
    by_c = 2 * x[:, 3] + 2 * a * x[:, 4] + 2 * c * gx + b * y[:, 4] + f * gy
    by_b = y[:, 1] + a * y[:, 2] + c * y[:, 4] + 2 * b * z[:, 2] + 2 * f * z[:, 4]
    by_f = y[:, 3] + a * y[:, 4] + c * gy + 2 * b * z[:, 4] + 2 * f * gz
    return Derivatives(-by_c, -b * by_a - f * by_c, by_b - steps.memory * by_a - by_f + steps.memory * by_c)
