"""Memories that explain measured weights with free gains at every step, by variable projection."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from memgrad.kinds import Array
from memgrad.memory import Memory
from memgrad.optim.auditing.fitting import FAMILIES, Family, rows_of
from memgrad.optim.auditing.least_squares import levenberg

SPACING = 0.5  # of the grid of starting points, dense enough for the nearest one to lead to the minimum
STARTS = 4  # number of starting points of a search


@dataclass(frozen=True)
class Measured:
    """Weights at chosen steps, each row divided by its sum."""

    rows: Array
    total: Array
    shares: Array

    @classmethod
    def of(cls, weights: Array, count: int) -> Measured:
        k = np.unique(np.geomspace(1, len(weights), count).astype(int) - 1)
        total = weights[k].sum(axis=1)
        return cls(k.astype(float), total, weights[k] / total[:, None])

    @cached_property
    def steps(self) -> Array:
        return np.arange(self.shares.shape[1], dtype=float)

    @cached_property
    def older_shares(self) -> Array:
        return self.older(self.shares)

    def older(self, shares: Array) -> Array:
        """The shares of all gradients but the newest, which the part `inst` does not affect."""
        return np.where(self.steps < self.rows[:, None], shares, 0.0)

    def unit(self, memory: Memory) -> Array:
        return rows_of(memory, self.rows.astype(int), len(self.steps))


def memories_of(
    measured: Measured, averages: int, tolerance: float
) -> Iterator[tuple[tuple[Family, ...], Array, Array]]:
    """Families with their parameters z that fit with free gains, and these gains."""
    for families in itertools.combinations_with_replacement(FAMILIES, averages):
        seen: list[Array] = []

        def residual(z: Array, families: tuple[Family, ...] = families) -> Array:
            return _with_free_gains(measured, families, z)[0].ravel()

        low, high = np.array([family.inner_bounds for family in families]).T
        for start in _starts(measured, families):
            z = levenberg(residual, start, low, high)
            rest, gains = _with_free_gains(measured, families, z)
            fits = np.abs(rest).sum(axis=1).mean() / 2 <= tolerance and (gains >= -1e-3 * measured.total).all()
            if fits and not any(np.allclose(z, other, atol=1e-3) for other in seen):
                seen.append(z)
                yield families, z, gains


def _with_free_gains(measured: Measured, families: Sequence[Family], z: Array) -> tuple[Array, Array]:
    """The residual of the shares of older gradients, and the gains, by least squares in each row."""
    memories = [measured.older(measured.unit(family.make(x))) for family, x in zip(families, z, strict=True)]
    units = np.stack(memories, axis=2)  # (step, gradient, memory)
    shares = measured.older_shares
    gains = (np.linalg.pinv(units, rcond=1e-9) @ shares[..., None])[..., 0]
    return shares - (units @ gains[..., None])[..., 0], gains.T * measured.total


def _starts(measured: Measured, families: tuple[Family, ...]) -> list[Array]:
    """The best points of a grid, none of them neighbors: the peaks first, so that one ridge does not take them all."""
    grids = [np.arange(*family.inner_bounds, SPACING) for family in families]
    units = [  # (grid, step, gradient)
        np.stack([measured.older(measured.unit(family.make(z))) for z in grid])
        for family, grid in zip(families, grids, strict=True)
    ]
    older = measured.older(measured.shares)
    explained = _explained_by_one(units[0], older) if len(units) == 1 else _explained_by_two(units[0], units[1], older)
    around = sliding_window_view(np.pad(explained, 1, constant_values=-np.inf), [3] * explained.ndim)
    is_lower = explained < around.max(axis=(-1, -2)[: explained.ndim])
    order = np.lexsort((-explained.ravel(), is_lower.ravel()))
    best: list[tuple[int, ...]] = []
    for flat in order[:200]:
        place = tuple(int(i) for i in np.unravel_index(flat, explained.shape))
        if families[0] == families[-1] and len(place) == 2 and place[0] >= place[1]:
            continue
        if all(max(abs(a - b) for a, b in zip(place, other, strict=True)) > 1 for other in best):
            best.append(place)
        if len(best) == STARTS:
            break
    return [np.array([grid[i] for grid, i in zip(grids, place, strict=True)]) for place in best]


def _explained_by_one(units: Array, shares: Array) -> Array:
    """How much of the sum of squares each memory explains, over all rows."""
    product, square = np.einsum("aij,ij->ai", units, shares), np.einsum("aij,aij->ai", units, units)
    return np.asarray(np.divide(product**2, square, out=np.zeros_like(square), where=square > 0).sum(axis=1))


def _explained_by_two(first: Array, second: Array, shares: Array) -> Array:
    """The same for pairs of memories, with gains >= 0."""
    a, b = np.einsum("aij,ij->ai", first, shares)[:, None], np.einsum("bij,ij->bi", second, shares)[None, :]
    aa, bb = np.einsum("aij,aij->ai", first, first)[:, None], np.einsum("bij,bij->bi", second, second)[None, :]
    ab = np.einsum("aij,bij->abi", first, second)
    with np.errstate(all="ignore"):
        determinant = aa * bb - ab**2
        x, y = (bb * a - ab * b) / determinant, (aa * b - ab * a) / determinant
        alone = np.maximum(np.nan_to_num(a**2 / aa), np.nan_to_num(b**2 / bb))
        both = np.where((determinant > 1e-12 * aa * bb) & (x >= 0) & (y >= 0), x * a + y * b, 0.0)
    return np.asarray(np.maximum(alone, both).sum(axis=2))
