"""Memories that explain measured weights with free gains at every step, by variable projection."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memgrad.memory import Memory
from memgrad.optim.fitting import FAMILIES, Array, Family, rows_of
from memgrad.optim.least_squares import levenberg

RANGES = {"poly": (math.log(0.02), math.log(1e5)), "exp": (math.log(1e-7), math.log(20.0))}  # of log p and log alpha
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
    def is_older(self) -> NDArray[np.bool_]:
        """Which entries are older than the newest gradient, and so not affected by the part `inst`."""
        older: NDArray[np.bool_] = self.steps[None, :] < self.rows[:, None]
        return older

    def unit(self, memory: Memory) -> Array:
        return rows_of(memory, self.rows.astype(int), len(self.steps))


def memories_of(
    measured: Measured, averages: int, tolerance: float
) -> Iterator[tuple[tuple[Family, ...], Array, Array]]:
    """Families with parameters, log p or log alpha, that fit with free gains, and these gains."""
    for families in itertools.combinations_with_replacement(FAMILIES, averages):
        seen: list[Array] = []

        def residual(z: Array, families: tuple[Family, ...] = families) -> Array:
            return _with_free_gains(measured, families, z)[0].ravel()

        low, high = (np.array([RANGES[family.name][end] for family in families]) for end in (0, 1))
        for start in _starts(measured, families):
            z = levenberg(residual, start, low, high)
            rest, gains = _with_free_gains(measured, families, z)
            fits = np.abs(rest).sum(axis=1).mean() / 2 <= tolerance and (gains >= -1e-3 * measured.total).all()
            if fits and not any(np.allclose(z, other, atol=1e-3) for other in seen):
                seen.append(z)
                yield families, z, gains


def _with_free_gains(measured: Measured, families: Sequence[Family], z: Array) -> tuple[Array, Array]:
    """The residual of the shares of older gradients, and the gains, by least squares in each row."""
    rest = np.where(measured.is_older, measured.shares, 0.0)
    units = [
        np.where(measured.is_older, measured.unit(f.make(math.exp(x))), 0.0) for f, x in zip(families, z, strict=True)
    ]
    basis: list[Array] = []
    for unit in units:
        q = unit - sum((each * (each * unit).sum(axis=1, keepdims=True) for each in basis), np.zeros_like(unit))
        size = np.sqrt((q * q).sum(axis=1, keepdims=True))
        basis.append(np.divide(q, size, out=np.zeros_like(q), where=size > 1e-9))
    projections = [(q * rest).sum(axis=1) for q in basis]
    for q, projection in zip(basis, projections, strict=True):
        rest = rest - projection[:, None] * q
    gains = np.zeros((len(units), len(rest)))
    for i in reversed(range(len(units))):
        above = sum(
            (gains[j] * (basis[i] * units[j]).sum(axis=1) for j in range(i + 1, len(units))), np.zeros(len(rest))
        )
        size = (basis[i] * units[i]).sum(axis=1)
        gains[i] = np.divide(projections[i] - above, size, out=np.zeros_like(size), where=size > 1e-9)
    return rest, gains * measured.total


def _starts(measured: Measured, families: tuple[Family, ...]) -> list[Array]:
    """The best points of a grid, none of them neighbors."""
    grids = [np.arange(*RANGES[family.name], SPACING) for family in families]
    units = []
    for family, grid in zip(families, grids, strict=True):
        rows = [np.where(measured.is_older, measured.unit(family.make(math.exp(z))), 0.0) for z in grid]
        units.append(np.stack(rows))  # (grid, step, gradient)
    older = np.where(measured.is_older, measured.shares, 0.0)
    if len(families) == 1:
        explained = _explained_by_one(units[0], older)
    else:
        explained = _explained_by_two(units[0], units[1], older)
    order = np.argsort(-explained, axis=None)
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
    explained: Array = np.divide(product**2, square, out=np.zeros_like(square), where=square > 0).sum(axis=1)
    return explained


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
    explained: Array = np.maximum(alone, both).sum(axis=2)
    return explained
