"""The steps of the schemes, for a lane of paths at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memgrad.dynamics.equations import Equation, FirstOrder, SecondOrder
from memgrad.dynamics.kicks import Kick, overlap
from memgrad.dynamics.noise import ScalarNoise

Array = NDArray[np.float64]

_EULER = ("euler-maruyama", "milstein")
SCHEMES = ("exact", "splitting", *_EULER)
"""The names of the schemes; the last two are one."""

_BLOCK_BYTES = 1 << 20  # noise drawn at once: small enough to stay in a core's cache until it is used


class Steps(NamedTuple):
    """The numbers of some steps: a kick an equation, and how each equation mixes the normals that all share."""

    kicks: list[Kick]
    mix: Array  # (steps, equations, ranks)


@dataclass(frozen=True, eq=False)
class Integrator:
    """One equation and its scheme."""

    equation: Equation
    scheme: str
    dt: float
    begin: int

    @property
    def is_euler(self) -> bool:
        """Whether coefficients are taken at the beginning of the step."""
        return self.scheme in _EULER

    def first(self, x0: Array, paths: int) -> tuple[Array, Array]:
        """All paths at the beginning."""
        x, v = self._start(x0, self.begin)
        return np.repeat(x, paths, axis=0), np.repeat(v, paths, axis=0)

    def at(self, step: int, x0: Array, x: Array, v: Array) -> tuple[Array, Array]:
        """Positions and velocities after a step, also before the beginning."""
        if step < self.begin:
            x, v = (np.broadcast_to(part, x.shape) for part in self._start(x0, step))
        elif isinstance(self.equation, FirstOrder):
            v = -self.equation.gain(np.asarray(step * self.dt)) * np.asarray(self.equation.gradient(x))
        return x, v

    def kick(self, t0: Array, t1: Array) -> Kick:
        """The coefficients of steps."""
        if not self.is_euler:
            return self.equation.kick(t0, t1)
        h, gain = t1 - t0, self.equation.gain(t0)
        lost = self.equation.damping.rate(t0) * h if isinstance(self.equation, SecondOrder) else np.zeros(len(h))
        return Kick(1 - lost, gain * h, gain**2 * h)

    def step(self, x: Array, v: Array, b: float, w: float, noise: Array | None, spare: Array) -> None:
        """Move positions and velocities by one step, in place."""
        h = self.dt
        if self.scheme == "splitting" and isinstance(self.equation, SecondOrder):
            x += np.multiply(v, h / 2, out=spare)
            self._kick(x, v, b, w, noise, spare)
            x += np.multiply(v, h / 2, out=spare)
        elif isinstance(self.equation, FirstOrder):
            self._kick(x, x, b, w, noise, spare)
        elif self.is_euler:
            before = np.multiply(v, h)
            self._kick(x, v, b, w, noise, spare)
            x += before
        else:
            self._kick(x, v, b, w, noise, spare)
            x += np.multiply(v, h, out=spare)

    def _kick(self, x: Array, moved: Array, b: float, w: float, noise: Array | None, spare: Array) -> None:
        # What the gradient returns is the user's, perhaps x itself: it must not be written into.
        np.multiply(self.equation.gradient(x), w, out=spare)
        if noise is not None:
            spare += (
                noise if isinstance(self.equation.volatility, ScalarNoise) else self.equation.volatility.push(x, noise)
            )
        if b != 1:
            moved *= b
        moved -= spare

    def _start(self, x0: Array, step: int) -> tuple[Array, Array]:
        t = step * self.dt
        if isinstance(self.equation, FirstOrder):
            return x0.copy(), self.equation.drift(np.asarray(t), x0)
        assert isinstance(self.equation, SecondOrder)
        return self.equation.start(x0, t)


@dataclass(frozen=True, eq=False)
class Integrators:
    """Equations that share a Brownian motion."""

    each: tuple[Integrator, ...]
    dt: float
    begin: int
    sources: int
    ranks: int

    @property
    def normals_a_step(self) -> int:
        """The normal numbers that one path needs for one step."""
        return self.sources * self.ranks

    def steps(self, first: int, last: int) -> Steps:
        """The coefficients of the steps numbered first, ..., last - 1; those before the beginning do not happen."""
        n = np.arange(max(first, self.begin), max(last, self.begin), dtype=float)
        t0, t1 = n * self.dt, (n + 1) * self.dt
        kicks = [integrator.kick(t0, t1) for integrator in self.each]
        mix = np.zeros((len(n), len(self.each), self.ranks))
        if self.ranks:
            noisy = [i for i, integrator in enumerate(self.each) if integrator.equation.is_stochastic]
            mix[:, noisy] = self._shares([kicks[i] for i in noisy], [self.each[i] for i in noisy], t0, t1)
            for i in noisy:
                volatility = self.each[i].equation.volatility
                if isinstance(volatility, ScalarNoise):
                    mix[:, i] *= volatility.sigma
        return Steps(kicks, mix)

    def advance(self, states: list[tuple[Array, Array]], steps: Steps, stream: np.random.Generator) -> None:
        """Move a lane of paths of every equation through the steps, in place, drawing noise in blocks.

        A generator fills an array number after number, so the blocks do not change what a path gets.
        """
        count, paths = len(steps.mix), states[0][0].shape[0]
        spares = [np.empty_like(x) for x, _ in states]
        numbers = [[(float(b), float(w)) for b, w in zip(kick.b, kick.w, strict=True)] for kick in steps.kicks]
        block = max(1, min(count, _BLOCK_BYTES // max(8 * paths * self.normals_a_step, 1)))
        normals = np.empty((block, self.ranks, paths, self.sources))
        alone = self.ranks == 1 and len(self.each) == 1
        for first in range(0, count, block):
            size = min(block, count - first)
            if self.ranks:
                stream.standard_normal(out=normals[:size])
            if alone:
                normals[:size] *= steps.mix[first : first + size, 0, :, None, None]
            with np.errstate(all="ignore"):  # here, because threads do not inherit it; what diverges is counted
                for j in range(size):
                    n = first + j
                    for i, (integrator, (x, v)) in enumerate(zip(self.each, states, strict=True)):
                        if not integrator.equation.is_stochastic:
                            noise = None
                        elif alone:
                            noise = normals[j, 0]
                        else:
                            shares = steps.mix[n, i].tolist()
                            noise = sum(share * z for share, z in zip(shares, normals[j], strict=True))
                        integrator.step(x, v, *numbers[i][n], noise, spares[i])

    def _shares(self, kicks: list[Kick], integrators: list[Integrator], t0: Array, t1: Array) -> Array:
        """How much of each shared normal goes to each equation: a triangular root of the kicks' covariance."""
        if self.ranks == 1:
            # One equation, or increments of the motion themselves: signs do not matter, gains are positive.
            return np.stack([np.sqrt(kick.v) for kick in kicks], axis=1)[:, :, None]
        covariance = np.empty((len(t0), len(kicks), len(kicks)))
        for i, one in enumerate(integrators):
            covariance[:, i, i] = kicks[i].v
            for j, other in enumerate(integrators[:i]):
                covariance[:, i, j] = overlap(one.equation.push, other.equation.push, t0, t1)
        return _triangular_root(covariance)


def together(equations: tuple[Equation, ...], x0: Array, dt: float, scheme: str, start: float | None) -> Integrators:
    """The integrators of equations that share a Brownian motion, everything about them checked."""
    if not equations:
        raise ValueError("simulate_together needs at least one equation, got none.")
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}; known schemes: {', '.join(SCHEMES)}.")
    # More than one path, so that a gradient for one alone is noticed, and not as many as coordinates, so that the two
    # are not mistaken for each other.
    some = np.repeat(x0, 3 if x0.shape[1] == 2 else 2, axis=0)
    sources = set()
    for equation in equations:
        equation.slope(some)
        if equation.is_stochastic:
            sources.add(equation.volatility.sources(some))
    if len(sources) > 1:
        raise ValueError(
            f"equations that share a Brownian motion need noise from as many sources, got {sorted(sources)}: give "
            f"noise matrices with as many columns."
        )
    euler = scheme in _EULER
    noisy = sum(equation.is_stochastic for equation in equations)
    begin = max(_begin(equation, dt, start) for equation in equations) if euler else 0
    if start is not None and not euler:
        raise ValueError(f"scheme {scheme!r} starts at time 0, got start={start!r}; only euler-maruyama starts later.")
    return Integrators(
        each=tuple(Integrator(equation, scheme, dt, begin) for equation in equations),
        dt=dt,
        begin=begin,
        sources=sources.pop() if sources else 0,
        ranks=min(noisy, 1) if euler else noisy,
    )


def _begin(equation: Equation, dt: float, start: float | None) -> int:
    """The step at which Euler-Maruyama begins."""
    if start is not None:
        steps = round(start / dt) if 0 <= start < np.inf else -1
        if steps < 0 or abs(steps * dt - start) > 1e-6 * dt:
            raise ValueError(f"a start must be a multiple >= 0 of the step dt={dt!r}, got start={start!r}.")
        if steps == 0 and equation.is_singular:
            raise ValueError(f"{equation} has no coefficients at time 0: start must be > 0, got start={start!r}.")
        return steps
    if not equation.is_singular:
        return 0
    assert isinstance(equation, SecondOrder)
    for first in range(1, 10_000_000, 1 << 16):
        block = np.arange(first, first + (1 << 16), dtype=float)
        # From a(t) h <= 1 on, no factor 1 - a(t) h is negative. For p/t that is t = ph, where it may round above 1.
        stable = equation.damping.rate(block * dt) * dt <= 1 + 1e-12
        if np.any(stable):
            return int(block[np.argmax(stable)])
    raise ValueError(f"Euler-Maruyama with dt={dt!r} is unstable for {equation}: take a smaller step.")


def _triangular_root(covariance: Array) -> Array:
    """A lower triangular root of semidefinite matrices, of which only the lower triangles are read.

    Not numpy's Cholesky: kicks of short steps are almost the same, and their covariance singular up to rounding.
    """
    n = covariance.shape[1]
    root = np.zeros_like(covariance)
    for j in range(n):
        rest = covariance[:, j, j] - np.sum(root[:, j, :j] ** 2, axis=1)
        root[:, j, j] = np.sqrt(np.maximum(rest, 0))
        for i in range(j + 1, n):
            rest = covariance[:, i, j] - np.sum(root[:, i, :j] * root[:, j, :j], axis=1)
            root[:, i, j] = np.divide(rest, root[:, j, j], out=np.zeros_like(rest), where=root[:, j, j] > 0)
    return root
