r"""The exact risk of methods on streaming least squares: any mixture, any spectrum, many settings at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations_with_replacement
from threading import Event
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.dynamics.discrete import linear_steps
from memgrad.dynamics.spectra import Spectrum, as_batch
from memgrad.kinds import Array, is_real
from memgrad.memory import Memory, Mixture
from memgrad.memory.kinds import as_step
from memgrad.memory.passport import Progress
from memgrad.method import Method

Schedule = Callable[[NDArray[np.int64]], ArrayLike] | ArrayLike | None

FAR = 1e8
"""A run has diverged if its risk is this many times the initial risk, or is not finite."""
BLOCK = 48
"""Settings that are computed together: their moments, at 160 bins, stay in a processor's second cache."""
STRETCH = 512
"""Steps whose coefficients are computed together, and after which divergence is looked for."""


@final
@dataclass(frozen=True, eq=False)
class Risk:
    r"""Exact risks of methods at learning rates, over the steps.

    Attributes:
        k: The recorded steps, shape (n,).
        risk: The excess risk $\frac12 \sum_j \lambda_j \mathbb{E}\, x_j^2$, shape (methods, learning rates, n); inf
            from the step where a run diverged.
        diverged_at: The first step at which the risk was not finite or above 1e8 times the initial risk; -1 if there is
            none. Shape (methods, learning rates).
        methods: The methods.
        lr: The learning rates.
        spectrum: The problem's spectrum.
        batch: The batch size $B$.
        noise: The standard deviation $s$ of the label noise.
    """

    k: NDArray[np.int64]
    risk: Array
    diverged_at: NDArray[np.int64]
    methods: tuple[Method, ...]
    lr: Array
    spectrum: Spectrum
    batch: int
    noise: float

    @property
    def final(self) -> Array:
        """The risk at the last recorded step, shape (methods, learning rates)."""
        return self.risk[:, :, -1]

    def best(self, methods: Sequence[int] | None = None) -> tuple[int, int]:
        """The method and the learning rate with the smallest final risk, as indices.

        Args:
            methods: The indices of the methods to choose from; all by default.
        """
        chosen = list(range(len(self.methods))) if methods is None else list(methods)
        final = self.final[chosen]
        if not np.isfinite(final).any():
            first = int(self.diverged_at[chosen].max())
            raise ValueError(
                f"every one of these settings diverged, the last at step {first}: give smaller learning rates than "
                f"{self.lr.min():g}."
            )
        i, j = np.unravel_index(np.argmin(final), final.shape)
        return chosen[int(i)], int(j)


def exact_risk(
    methods: Method | Mixture | Memory | str | Sequence[Method | Mixture | Memory | str],
    spectrum: Spectrum,
    *,
    lr: ArrayLike,
    steps: int,
    batch: int = 1,
    noise: float = 0.0,
    schedule: Schedule = None,
    record: ArrayLike | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Risk:
    r"""The expected risk of every method at every learning rate on streaming least squares, without sampling.

    At each step $B$ fresh examples $a \sim N(0, H)$ with labels $y = a^T x^* + s\,\xi$ give the gradient $g$ of
    $\frac{1}{2B} \sum (a^T x - y)^2$. For Gaussian features
    $\mathbb{E}[a a^T D a a^T] = 2HDH + H \operatorname{tr}(HD)$, so that in the eigenbasis of $H$ the second moments
    of one direction depend on the others through the risk alone.
    A step of $z = (x_j, u^1_j, \dots, u^m_j)$ is $z' = K z + c\, g_j$, hence with $M = K + \lambda_j c\, e_0^T$

    $$S_j' = M S_j M^T + q_j\, c c^T, \qquad q_j = \frac{\lambda_j^2 X_j + \lambda_j R}{B}, \qquad
      R = \sum_i \lambda_i X_i + s^2, \qquad X_j = \mathbb{E}\, x_j^2.$$

    Args:
        methods: Methods without a second memory, mixtures, memories or text forms; one or several.
            Weight decay pulls toward the minimizer.
        spectrum: The eigenvalues and the start.
        lr: Learning rates > 0; every method is computed at each.
        steps: Number of steps, >= 1.
        batch: $B \ge 1$.
        noise: $s \ge 0$, the standard deviation of the label noise.
        schedule: The factor of the learning rate: numbers >= 0, one per step; or a function of an array of steps. It is
            1 by default, and at its peak.
        record: Steps between 0 and `steps` whose risk is kept, increasing; by default 0 and 300 in equal ratios.
        threads: Threads that share the settings; one per core by default.
        progress: Called as `progress(done, total)` with setting-steps.

    Example:
        >>> isotropic = Spectrum.of([1.0] * 3)  # SGD: each step multiplies the risk by 1 - 2 lr + lr^2 (1 + (d+1)/B)
        >>> found = exact_risk("inst", isotropic, lr=0.1, steps=2, record=[0, 1, 2])
        >>> found.risk[0, 0]
        array([1.5    , 1.275  , 1.08375])
    """
    listed = tuple(map(_linear_method, methods)) if isinstance(methods, list | tuple) else (_linear_method(methods),)
    if not listed:
        raise ValueError("exact_risk needs at least one method, got none.")
    rates = _learning_rates(lr)
    steps, batch = as_step(steps), as_batch("exact_risk", batch)
    if steps < 1:
        raise ValueError(f"exact_risk needs steps >= 1, got steps={steps!r}.")
    if not is_real(noise) or not 0 <= noise < np.inf:
        raise ValueError(f"exact_risk needs a finite noise >= 0, got noise={noise!r}.")
    kept = _recorded(record, steps)
    factor = _factors(schedule, steps)
    risk = np.full((len(listed), len(rates), len(kept)), np.inf)
    diverged = np.full((len(listed), len(rates)), -1)
    blocks, stopped = _blocks(listed, len(rates)), Event()
    done, total = [0], steps * risk.shape[0] * risk.shape[1]

    def compute(block: list[tuple[int, int]]) -> None:
        def moved(count: int) -> None:
            if stopped.is_set():
                raise InterruptedError("another thread has failed or was interrupted.")
            done[0] += count * len(block)
            if progress is not None:
                progress(done[0], total)

        settings = [(listed[i], float(rates[j])) for i, j in block]
        found, first = _block(settings, spectrum, steps, batch, float(noise), factor, kept, moved)
        rows, columns = zip(*block, strict=True)
        risk[rows, columns], diverged[rows, columns] = found, first

    with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, len(blocks))) as pool:
        try:
            for each in [pool.submit(compute, block) for block in blocks]:
                each.result()
        except BaseException:  # Ctrl-C too: the threads must stop
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Risk(kept, risk, diverged, listed, rates, spectrum, batch, float(noise))


def _factors(schedule: Schedule, steps: int) -> Array:
    """The factor of the learning rate at each step."""
    if schedule is None:
        return np.ones(steps)
    values = schedule(np.arange(steps)) if callable(schedule) else schedule
    factors = np.asarray(values, dtype=float)
    if factors.shape != (steps,):
        raise ValueError(
            f"exact_risk needs a schedule with one number for each of the {steps} steps, got the shape {factors.shape}."
        )
    wrong = ~(np.isfinite(factors) & (factors >= 0))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"exact_risk needs a schedule that is finite and >= 0, got {factors[k]!r} at step k={k}.")
    return factors


# --- one block of settings -------------------------------------------------------------------------------------------


def _block(
    settings: Sequence[tuple[Method, float]],
    spectrum: Spectrum,
    steps: int,
    batch: int,
    noise: float,
    factor: Array,
    kept: NDArray[np.int64],
    moved: Callable[[int], None],
) -> tuple[Array, NDArray[np.int64]]:
    """The risks at the kept steps of settings with the same number of averages, and where they diverged."""
    lam, n = spectrum.curvature, 1 + len(settings[0][0].mixture.averages)
    count, pairs = len(settings), n * (n + 1) // 2
    own = lam * (1 + 1 / batch)
    # Rows: S_ab, lambda S_0a, the part of E g^2 from the bin itself, and the share of the risk that each bin receives
    # as noise, which does not change. Two arrays, because no step may overwrite its input.
    now, after = (np.zeros((count, pairs + n + 2, len(lam))) for _ in range(2))
    now[:, 0] = spectrum.signal / lam
    now[:, -1] = after[:, -1] = spectrum.trace / batch
    risk, diverged = np.full((count, len(kept)), np.inf), np.full(count, -1)
    limit = max(FAR * (2 * spectrum.risk + noise**2), np.finfo(float).tiny)
    with np.errstate(all="ignore"):  # a diverging run may overflow within a stretch
        for begin in range(0, steps, STRETCH):
            k = np.arange(begin, min(begin + STRETCH, steps))
            maps = _coefficients(settings, k, factor[k])
            last = begin + len(k) == steps
            curve = np.empty((len(k) + last, count))
            for row, step in enumerate(maps):
                np.multiply(now[:, :n], lam, out=now[:, pairs:-2])
                np.matmul(now[:, 0], lam, out=curve[row])
                np.multiply(now[:, pairs], own, out=now[:, -2])
                step[:, :, -1] *= (curve[row] + noise**2)[:, None]
                np.matmul(step, now, out=after[:, :pairs])
                now, after = after, now
            if last:
                curve[-1] = now[:, 0] @ lam
            _note(curve, begin, kept, risk, diverged, limit)
            now[diverged >= 0, :-1] = 0.0
            moved(len(k))
    return risk / 2, diverged


def _note(
    curve: Array, begin: int, kept: NDArray[np.int64], risk: Array, diverged: NDArray[np.int64], limit: float
) -> None:
    """Keep the recorded steps of a stretch, and the first step of each setting beyond the limit."""
    beyond = ~(curve <= limit)
    for i in np.flatnonzero(beyond.any(axis=0) & (diverged < 0)):
        diverged[i] = begin + int(np.argmax(beyond[:, i]))
    inside = (kept >= begin) & (kept < begin + len(curve))
    steps = kept[inside]
    gone = (diverged >= 0)[:, None] & (steps[None] >= diverged[:, None])
    risk[:, inside] = np.where(gone, np.inf, curve[steps - begin].T)


def _coefficients(settings: Sequence[tuple[Method, float]], k: NDArray[np.int64], factor: Array) -> Array:
    """The matrix of each step and setting that maps the rows of `_block` to the next second moments.

    S' = K S K' + lambda (c S_0. K' + K S_.0 c') + E[g^2] c c', written for the entries on and above the diagonal. The
    last column is still to be multiplied by the risk.
    """
    kept, c = linear_steps(settings, k, factor)
    n = c.shape[-1]
    pairs = list(combinations_with_replacement(range(n), 2))
    maps = np.empty((*c.shape[:2], len(pairs), len(pairs) + n + 2))
    for row, (i, j) in enumerate(pairs):
        for column, (a, b) in enumerate(pairs):
            both = kept[..., i, a] * kept[..., j, b]
            maps[..., row, column] = both if a == b else both + kept[..., i, b] * kept[..., j, a]
        maps[..., row, len(pairs) : -2] = c[..., i, None] * kept[..., j, :] + c[..., j, None] * kept[..., i, :]
        maps[..., row, -2] = maps[..., row, -1] = c[..., i] * c[..., j]
    return maps


# --- arguments -------------------------------------------------------------------------------------------------------


def _blocks(methods: Sequence[Method], rates: int) -> list[list[tuple[int, int]]]:
    """Settings in blocks of methods with equally many averages."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for i, method in enumerate(methods):
        groups.setdefault(len(method.mixture.averages), []).extend((i, j) for j in range(rates))
    return [group[start : start + BLOCK] for group in groups.values() for start in range(0, len(group), BLOCK)]


def _linear_method(value: Any) -> Method:
    if isinstance(value, str):
        method = Method.parse(value)
    elif isinstance(value, Method):
        method = value
    else:
        method = Method(Mixture.of(value, "exact_risk", "methods"))
    if not method.is_linear:
        raise ValueError(
            f"exact_risk needs a method without a second memory, got {method}: a step that divides by past squares is "
            f"not linear, and its moments do not close."
        )
    return method


def _learning_rates(lr: ArrayLike) -> Array:
    rates = np.atleast_1d(np.asarray(lr, dtype=float))
    if rates.ndim != 1 or not len(rates) or not (np.isfinite(rates) & (rates > 0)).all():
        raise ValueError(f"exact_risk needs finite learning rates lr > 0, one or a list, got lr={lr!r}.")
    return rates


def _recorded(record: ArrayLike | None, steps: int) -> NDArray[np.int64]:
    if record is None:
        return np.unique(np.concatenate([[0], np.round(np.geomspace(1, steps, 300)).astype(np.int64)]))
    kept = np.atleast_1d(np.asarray(record))
    if kept.dtype.kind not in "iu" or kept.ndim != 1 or not len(kept):
        raise TypeError(f"exact_risk needs integer steps to record, got record={record!r}.")
    if (np.diff(kept) <= 0).any() or kept[0] < 0 or kept[-1] > steps:
        raise ValueError(f"exact_risk records increasing steps from 0 to steps={steps}, got record={record!r}.")
    return kept.astype(np.int64)
