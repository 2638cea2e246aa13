"""The steps of the integration schemes, applied to one lane of paths at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from memgrad.dynamics.equations import Equation, SecondOrder
from memgrad.dynamics.first_order import FirstOrder
from memgrad.dynamics.kicks import Glide, Kick, glide, points
from memgrad.dynamics.noise import PositionNoise, ScalarNoise
from memgrad.dynamics.step_limits import refuse_unstable
from memgrad.kinds import Array

EULER = ("euler-maruyama", "milstein")
SCHEMES = ("exact", "splitting", *EULER)
"""The names of the schemes. The first two are the same scheme; so are the last two, unless noise drives a position."""

FORGOTTEN = 1 / 3
r"""A step in which $\int a$ exceeds this moves position and velocity jointly, with two normals.

A plain step, which moves the position by a straight line, overestimates the growth of Var X and Cov(X, V) by
(x/2) coth(x/2), where x is the integral: by 1 % at most.
"""

_BLOCK_BYTES = 1 << 20  # normals drawn at once: few enough to stay in a core's cache until they are used


class Steps(NamedTuple):
    """The coefficients of consecutive steps, all plain or all joint: of each equation, and of the shared normals."""

    kicks: list[Kick]
    glides: list[Glide | None]
    mix: Array  # (steps, pushes, ranks)
    pushes: list[tuple[int, ...]]  # for each equation, which rows of `mix` push its velocity, and its position


@dataclass(frozen=True, eq=False)
class Integrator:
    r"""One equation and its scheme.

    The exact scheme of a second-order equation keeps $hV$, and in place of the position the point that a straight line
    reaches in half a step, $Y = X + hV/2$. A plain step, half a step of the position, the kick, and the other half, is
    then a kick of the velocity by the gradient at Y, and $Y \mathrel{+}= hV$.
    """

    equation: Equation
    scheme: str
    dt: float
    begin: int

    @property
    def is_euler(self) -> bool:
        """Whether coefficients are taken at the beginning of the step."""
        return self.scheme in EULER

    @property
    def is_ahead(self) -> bool:
        """Whether Y and hV are kept, in place of X and V."""
        return not self.is_euler and isinstance(self.equation, SecondOrder)

    def first(self, x0: Array, paths: int) -> tuple[Array, Array]:
        """All paths at the beginning."""
        x, v = self.equation.start(x0, self.begin * self.dt)
        if self.is_ahead:
            x, v = x + self.dt / 2 * v, self.dt * v
        return np.repeat(x, paths, axis=0), np.repeat(v, paths, axis=0)

    def at(self, step: int, x0: Array, x: Array, v: Array) -> tuple[Array, Array]:
        """Positions and velocities after a step, also before the beginning."""
        if step < self.begin or (step == 0 and self.is_ahead):
            x, v = (np.broadcast_to(part, x.shape) for part in self.equation.start(x0, step * self.dt))
        elif isinstance(self.equation, FirstOrder):
            v = -self.equation.gain(np.asarray(step * self.dt)) * np.asarray(self.equation.gradient(x))
        elif self.is_ahead:
            x, v = x - v / 2, v / self.dt
        return x, v

    def kick(self, t0: Array, t1: Array) -> Kick:
        """The coefficients of steps, of hV where that is kept."""
        if not self.is_euler:
            kick = self.equation.kick(t0, t1)
            return kick.times(self.dt) if self.is_ahead else kick
        h, gain = t1 - t0, self.equation.gain(t0)
        lost = self.equation.damping.rate(t0) * h if isinstance(self.equation, SecondOrder) else np.zeros(len(h))
        return Kick(1 - lost, gain * h, gain**2 * h)

    def push(self, s: Array, t: Array) -> Array:
        """The influence of the gradient at time s on V, or hV where that is kept, at time t."""
        return (self.dt if self.is_ahead else 1.0) * self.equation.push(s, t)

    def glide(self, kick: Kick, t0: Array, t1: Array) -> Glide | None:
        """The coefficients of joint steps, of Y and hV, in place of X and V; chi is that of X."""
        if not self.is_ahead:
            return None
        assert isinstance(self.equation, SecondOrder)
        h = self.dt
        half, a, w, chi = glide(self.equation.damping, self.equation.gain, t0, t1)
        # The step from 0 forgets the old velocity entirely, but the old velocity is the mean of the new one.
        half = np.where(t0 > 0, half / h - 0.5, 0.0)
        return Glide(half, a / h + (kick.b - 1) / 2, w + kick.w / 2, chi)

    def step(self, x: Array, v: Array, b: float, w: float, noise: Array | None, spare: Array) -> None:
        """Move positions and velocities by one plain step, in place."""
        if isinstance(self.equation, FirstOrder):
            if self.scheme == "milstein" and isinstance(self.equation.volatility, PositionNoise):
                assert noise is not None
                correction = self._milstein(x, w / np.sqrt(self.dt), noise)
                self._kick(x, x, b, w, noise, spare)
                x -= correction
            else:
                self._kick(x, x, b, w, noise, spare)
        elif self.is_euler:
            before = np.multiply(v, self.dt)
            self._kick(x, v, b, w, noise, spare)
            x += before
        else:
            self._kick(x, v, b, w, noise, spare)
            x += v

    def joint_step(self, y: Array, u: Array, kick: Kick, glide: Glide, noises: list[Array], spare: Array) -> None:
        """Move Y and hV by one step in which their noises differ, in place; kick and glide are of this step."""
        where = np.multiply(u, glide.half)
        where += y
        g = np.asarray(self.equation.gradient(where))
        y += np.multiply(u, glide.a, out=spare)
        y -= np.multiply(g, glide.w, out=spare)
        u *= kick.b
        u -= np.multiply(g, kick.w, out=spare)
        if noises:
            u -= self._pushed(where, noises[0])
            y -= self._pushed(where, noises[1])

    def _kick(self, x: Array, moved: Array, b: float, w: float, noise: Array | None, spare: Array) -> None:
        # The returned array belongs to the user and may be x itself, so it must not be overwritten.
        np.multiply(self.equation.gradient(x), w, out=spare)
        if noise is not None:
            spare += self._pushed(x, noise)
        if b != 1:
            moved *= b
        moved -= spare

    def _milstein(self, x: Array, k: float, z: Array) -> Array:
        r"""Milstein's correction $[\sigma(x - k\sigma(x)) - \sigma(x)]\,(z^2 - k^2)/(2k)$, for the noise $z = k\xi$.

        Platen replaces the derivative of sigma by a difference; the strong order is still 1.
        """
        if k == 0:
            return np.zeros_like(x)
        push, y = self.equation.volatility.push, (z**2 - k**2) / (2 * k)
        return push(x - push(x, np.full_like(z, k)), y) - push(x, y)

    def _pushed(self, x: Array, noise: Array) -> Array:
        """The noise as it enters the equation. A scalar sigma is part of the mix already."""
        volatility = self.equation.volatility
        return noise if isinstance(volatility, ScalarNoise) else volatility.push(x, noise)

    def without_noise(self, t: float, curvature: float, dt: float) -> Array:
        """A step dt from time t as a matrix, on the quadratic with this curvature and its minimum at 0."""
        t = max(t, dt, self.begin * self.dt)  # not the very first step, in which a memory forgets everything
        t0, t1, step = np.array([t]), np.array([t + dt]), replace(self, dt=dt)
        kick = step.kick(t0, t1)
        b, w = float(kick.b[0]), float(kick.w[0])
        if isinstance(self.equation, FirstOrder):
            return np.array([[b - w * curvature]])
        if (glide := step.glide(kick, t0, t1)) is None:
            return np.eye(2)  # Euler-Maruyama turns a velocity by its damping alone: see `refuse_unstable`
        half, a, of_point = (float(part[0]) for part in glide[:3])
        return np.array([[1.0, a], [0.0, b]]) - curvature * np.outer([of_point, w], [1.0, half])


@dataclass(frozen=True, eq=False)
class Integrators:
    """Equations that share a Brownian motion."""

    each: tuple[Integrator, ...]
    sources: int

    def steps(self, first: int, last: int) -> Iterator[Steps]:
        """The coefficients of the steps first, ..., last - 1; steps before the beginning are skipped."""
        begin, dt = self.each[0].begin, self.each[0].dt
        n = np.arange(max(first, begin), max(last, begin), dtype=float)
        if not len(n):
            return
        t0, t1 = n * dt, (n + 1) * dt
        kicks = [integrator.kick(t0, t1) for integrator in self.each]
        ahead = [kick.b for kick, integrator in zip(kicks, self.each, strict=True) if integrator.is_ahead]
        joint = np.any(np.array(ahead) < np.exp(-FORGOTTEN), axis=0) if ahead else np.zeros(len(n), dtype=bool)
        edges = [0, *(np.flatnonzero(np.diff(joint)) + 1).tolist(), len(n)]
        for i, j in pairwise(edges):
            part = [Kick(*(values[i:j] for values in kick)) for kick in kicks]
            glides: list[Glide | None] = [None] * len(part)
            if joint[i]:
                glides = [one.glide(kick, t0[i:j], t1[i:j]) for one, kick in zip(self.each, part, strict=True)]
            yield self._steps(part, glides, t0[i:j], t1[i:j])

    def normals_per_step(self, steps: Steps) -> int:
        """The number of normals that one path needs in each of the steps."""
        return self.sources * int(steps.mix.shape[2])

    def advance(self, states: list[tuple[Array, Array]], all_steps: list[Steps], stream: np.random.Generator) -> None:
        """Move a lane of paths of every equation through the steps, in place, drawing noise in blocks.

        A generator fills an array number after number, so the blocks do not change what a path gets.
        """
        paths = states[0][0].shape[0]
        for steps in all_steps:
            count, pushes, ranks = steps.mix.shape
            block = max(1, min(count, _BLOCK_BYTES // max(8 * paths * self.normals_per_step(steps), 1)))
            normals = np.empty((block, ranks, paths, self.sources))
            alone = ranks == pushes == 1
            move = self._mover(states, steps)
            for first in range(0, count, block):
                size = min(block, count - first)
                if ranks:
                    stream.standard_normal(out=normals[:size])
                if alone:
                    normals[:size] *= steps.mix[first : first + size, 0, :, None, None]
                # Set here, because threads do not inherit it; paths that diverge are counted.
                with np.errstate(all="ignore"):
                    for j in range(size):
                        move(first + j, [normals[j, 0]] if alone else mixed(steps.mix[first + j], normals[j]))

    def _mover(self, states: list[tuple[Array, Array]], steps: Steps) -> Callable[[int, list[Array]], None]:
        """A function that moves all equations by one step, given its index and the noise of its pushes."""
        spares = [np.empty_like(x) for x, _ in states]
        numbers = [
            [Kick(*each) for each in zip(*(part.tolist() for part in kick), strict=True)] for kick in steps.kicks
        ]
        work = list(zip(self.each, states, steps.glides, steps.pushes, numbers, spares, strict=True))

        def move(n: int, noises: list[Array]) -> None:
            for integrator, (x, v), glides, pushes, kicks, spare in work:
                if glides is None:
                    b, w, _ = kicks[n]
                    integrator.step(x, v, b, w, noises[pushes[0]] if pushes else None, spare)
                else:
                    glide = Glide(*(part[n] for part in glides))
                    integrator.joint_step(x, v, kicks[n], glide, [noises[i] for i in pushes], spare)

        return move

    def _steps(self, kicks: list[Kick], glides: list[Glide | None], t0: Array, t1: Array) -> Steps:
        """Kicks, glides, and the share of each normal in each push: a triangular root of the pushes' covariance."""
        noisy = [i for i, integrator in enumerate(self.each) if integrator.equation.is_stochastic]
        positions = {i: move.chi for i, move in enumerate(glides) if move is not None and i in noisy}
        owners = [*noisy, *positions]
        if len(owners) <= 1 or self.each[0].is_euler:
            # One equation, or increments of the motion themselves: signs do not matter, gains are positive.
            mix = np.sqrt([kicks[i].v for i in noisy]).reshape(len(noisy), len(t0)).T[:, :, None][:, :, : len(noisy)]
        else:
            s, ds = points(t0, t1)
            pushes = [self.each[i].push(s, t1[:, None]) for i in noisy] + list(positions.values())
            covariance = np.empty((len(t0), len(pushes), len(pushes)))
            for i, one in enumerate(pushes):
                for j, other in enumerate(pushes[: i + 1]):
                    covariance[:, i, j] = np.sum(one * other * ds, axis=1)
            for i, owner in enumerate(noisy):
                covariance[:, i, i] = kicks[owner].v
            mix = _triangular_root(covariance)
            # The noise of Y is that of X and half of hV's. Not before the root: where the velocity forgets fast its
            # noise is the larger by far, and what is left to X would be rounded away.
            for row, owner in enumerate(positions, start=len(noisy)):
                mix[:, row] += mix[:, noisy.index(owner)] / 2
        for row, owner in enumerate(owners):
            volatility = self.each[owner].equation.volatility
            if isinstance(volatility, ScalarNoise):
                mix[:, row] *= volatility.sigma
        rows = [tuple(row for row, owner in enumerate(owners) if owner == i) for i in range(len(self.each))]
        return Steps(kicks, glides, mix, rows)


def mixed(mix: Array, normals: Array) -> list[Array]:
    """The noise of each push, a row of `mix` times the normals, which are overwritten."""
    if mix.shape[1] == 1:
        return [share * normals[0] for (share,) in mix.tolist()]
    # In place, from the last row of the triangle to the first: a row needs no normals after its own.
    for i, row in reversed(list(enumerate(mix.tolist()))):
        normals[i] *= row[i]
        for share, z in zip(row[:i], normals[:i], strict=True):
            if share:
                normals[i] += share * z
    return list(normals)


def together(equations: tuple[Equation, ...], x0: Array, dt: float, scheme: str, start: float | None) -> Integrators:
    """The integrators of equations that share a Brownian motion, after all checks."""
    if not equations:
        raise ValueError("simulate_together needs at least one equation, got none.")
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}; known schemes: {', '.join(SCHEMES)}.")
    # More than one path, so that a gradient written for a single path is noticed, and not d of them, so that paths
    # and coordinates are not mistaken for each other.
    some = np.repeat(x0, 3 if x0.shape[1] == 2 else 2, axis=0)
    sources = set()
    for equation in equations:
        equation.slope(some)
        if equation.is_stochastic:
            sources.add(equation.volatility.sources(some))
        if scheme == "milstein" and isinstance(equation, FirstOrder):
            equation.volatility.refuse_areas(x0)
    if len(sources) > 1:
        raise ValueError(
            f"equations that share a Brownian motion need the same number of noise sources, got {sorted(sources)}: "
            f"give noise matrices with the same number of columns."
        )
    euler = scheme in EULER
    begin = max(_begin(equation, dt, start) for equation in equations) if euler else 0
    if start is not None and not euler:
        raise ValueError(f"scheme {scheme!r} starts at time 0, got start={start!r}; only euler-maruyama starts later.")
    each = tuple(Integrator(equation, scheme, dt, begin) for equation in equations)
    return Integrators(each, sources.pop() if sources else 0)


def _begin(equation: Equation, dt: float, start: float | None) -> int:
    """The step at which Euler-Maruyama begins."""
    if start is not None:
        steps = round(start / dt) if 0 <= start < np.inf else -1
        if steps < 0 or abs(steps * dt - start) > 1e-6 * dt:
            raise ValueError(f"a start must be a multiple >= 0 of the step dt={dt!r}, got start={start!r}.")
        if steps and not equation.is_singular:
            raise ValueError(f"{equation} is regular at 0, so it starts there, got start={start!r}: leave it out.")
        if steps == 0 and equation.is_singular:
            raise ValueError(f"{equation} has no coefficients at time 0: start must be > 0, got start={start!r}.")
        return steps
    if not isinstance(equation, SecondOrder):
        return 0
    if not equation.is_singular:
        refuse_unstable(equation, 0.0, dt)
        return 0
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
