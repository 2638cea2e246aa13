r"""Mixtures in continuous time: a memory whose gain is a power of time, beside the newest gradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memgrad.dynamics.equations import Equation
from memgrad.dynamics.kicks import Kick, glide, memory_kick, points
from memgrad.dynamics.quadrature import legendre
from memgrad.dynamics.results import Ensemble, Recorder
from memgrad.dynamics.step_limits import refuse_overshooting
from memgrad.dynamics.timewarp import TimeWarp
from memgrad.dynamics.viscosity import MemoryViscosity, Viscosity, power_reach
from memgrad.kinds import Array, is_real
from memgrad.memory import Gain, Instantaneous, Memory, Mixture, Polynomial
from memgrad.memory.gain_factors import Power
from memgrad.memory.kinds import as_real
from memgrad.memory.mixture import refuse_other_step
from memgrad.memory.passport import Progress
from memgrad.memory.text import as_memory

_STEPS_AT_ONCE = 256


class _Step(NamedTuple):
    """The coefficients of a step of average and position, and of their noise."""

    b: float
    w: float
    half: float
    a: float
    of_position: float
    root: float
    shared: float
    own: float


@final
@dataclass(frozen=True, eq=False)
class MixtureFlow(Equation):
    r"""The limit of a mixture: $dX = -\gamma_0 (\nabla f\,dt + \sigma dB) - \gamma(t) U dt$, $\gamma(t) = c\,t^g$,

    $$dU = \frac{\dot m(t)}{m(t)}\,[(\nabla f(X) - U)\,dt + \sigma dB].$$

    $U$ is the weighted average of all past gradients; $\gamma_0 = 0$, $\gamma = 1$ is MG-SDE, with $V = -U$. It is the
    limit of small steps $h$ of $x_{k+1} = x_k - h (\gamma_0 g_k + \gamma(kh) u_k)$ at $t = kh$, with gradients of
    covariance $\sigma\sigma^T/h$. Without $\gamma_0$ the position obeys
    $\ddot X + (\frac{\dot m}{m} - \frac{g}{t}) \dot X + \gamma \frac{\dot m}{m} \nabla f(X) = 0$: a heavy ball in
    another time (`GainWarp`). With it there is a third term, $\gamma_0 \nabla^2 f(X)\, \dot X$: damping by curvature.

    `moments`, `simulate` and `solve` take it; the velocities in their results are $V = -U$.

    Args:
        memory: A memory with a memory function m(t), or its text form.
        scale: $c$, finite and > 0.
        growth: $g = 1 - \kappa$, finite and >= 0.
        instant: $\gamma_0$, finite and >= 0.
        gradient: $\nabla f$, (paths, d) to (paths, d).
        noise: The volatility, see `Equation`; a number or a matrix.
        hessian: The Hessian of a quadratic, for exact moments.

    Example:
        >>> print(MixtureFlow("poly:4", growth=0.5, instant=1.0, gradient=lambda x: x, noise=0.1))
        mixture SDE(1 inst + 1 t^0.5 poly:4), noise 0.1
    """

    memory: Memory
    scale: float = 1.0
    growth: float = 0.0
    instant: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "memory", as_memory("MixtureFlow", "memory", self.memory))
        if isinstance(self.memory, Instantaneous):
            raise ValueError("MixtureFlow needs a memory beside the newest gradient, got inst: use GradientFlow.")
        object.__setattr__(self, "scale", as_real("MixtureFlow", "scale", self.scale, "a finite scale > 0"))
        for name in ("growth", "instant"):
            value = getattr(self, name)
            if not is_real(value) or not 0 <= value < np.inf:
                raise ValueError(f"MixtureFlow needs a finite {name} >= 0, got {name}={value!r}.")
        MemoryViscosity(self.memory)  # refuses memories without a memory function
        if self.is_stochastic and self.degree <= 0.5 + 1e-6:
            raise ValueError(
                f"the average has infinite variance under {self.memory}: for m = t^p near 0 it needs p > 1/2."
            )

    @staticmethod
    def of(mixture: Mixture | str, *, h: float, gradient: Any, noise: Any = 0.0, hessian: Any = None) -> MixtureFlow:
        r"""The flow of a mixture of at most `inst` and one average with the gain $c\,(1+k)^a$, for steps of length h.

        $(1+k)^a$ is $(t/h)^a$ up to one step, so the scale is $c\,h^{-a}$.

        Example:
            >>> flow = MixtureFlow.of("inst + 0.1*(1+k)^0.5*poly:4", h=0.01, gradient=lambda x: x)
            >>> flow.instant, round(flow.scale, 12), flow.growth
            (1.0, 1.0, 0.5)
        """
        mixture, h = Mixture.of(mixture, "MixtureFlow.of", "mixture"), as_real("MixtureFlow.of", "h", h, "a step h > 0")
        instant = mixture.instant or Gain.constant(0.0)
        if len(mixture.averages) != 1 or instant.fixed is None or len(mixture.averages[0].gain.terms) != 1:
            raise ValueError(
                f"MixtureFlow.of takes one average, beside a constant times inst, as in 'inst + 0.1*(1+k)^0.5*poly:4', "
                f"got {mixture}."
            )
        (part,) = mixture.averages
        refuse_other_step("MixtureFlow.of", part.memory, h)
        (term,) = part.gain.terms
        if any(not isinstance(factor, Power) for factor in term.factors):
            raise ValueError(f"MixtureFlow.of takes gains that are a number times (1+k)^a, got {part.gain}.")
        growth = sum(factor.exponent for factor in term.factors if isinstance(factor, Power))
        given = {"gradient": gradient, "noise": noise, "hessian": hessian}
        return MixtureFlow(part.memory, term.scale * h**-growth, growth, instant.fixed, **given)

    is_singular = True

    @property
    def degree(self) -> float:
        """The exponent p of the power of t that the memory function is near 0."""
        return float(1e-12 * self.memory.rate(1e-12))

    @property
    def name(self) -> str:
        """Mixture ODE or SDE, with the parts."""
        instant = f"{self.instant:g} inst + " if self.instant else ""
        return f"mixture {self._kind()}({instant}{self.scale:g} t^{self.growth:g} {self.memory})"

    def gain(self, t: Array) -> Array:
        r"""$\gamma(t) = c\,t^g$, the gain of the average."""
        return np.asarray(self.scale * np.asarray(t, dtype=float) ** self.growth)

    def kick(self, t0: Array, t1: Array) -> Kick:
        """The exact step of the average while the gradient is held constant."""
        return memory_kick(self.memory, t0, t1)

    def push(self, s: Array, t: Array) -> Array:
        r"""$\dot m(s)/m(t)$, the influence of a gradient on the average."""
        return np.asarray(self.memory.influence(s, t))

    def drift(self, t: Array, x: Array, v: Array) -> tuple[Array, Array]:
        """The time derivatives of positions, and of V = -U, without noise."""
        g = self.slope(x)
        return -self.instant * g + self.gain(t) * v, -self.memory.rate(np.asarray(t, dtype=float)) * (g + v)

    def start(self, x0: ArrayLike, t0: float) -> tuple[Array, Array]:
        """Position and V = -U at a small time, where the gradient is still the first one."""
        x = np.atleast_2d(np.asarray(x0, dtype=float))
        g = self.slope(x)
        return x - self._displacement(t0) * g, -g

    def warp(self) -> GainWarp:
        """The change of time that makes a heavy ball of it: for polynomial memory without the newest gradient."""
        if not isinstance(self.memory, Polynomial):
            raise ValueError(f"GainWarp is known for polynomial memory, got {self.memory}.")
        if self.instant:
            raise ValueError(
                f"no change of time makes a heavy ball of a mixture with the newest gradient, got instant="
                f"{self.instant!r}: it damps each direction by its own curvature, and time is the same for all."
            )
        return GainWarp(self.memory.p, self.scale, self.growth)

    # --- simulated paths ---------------------------------------------------------------------------------------------

    def _paths(
        self,
        x0: Array,
        stops: NDArray[np.int64],
        dt: float,
        seed: int,
        recorder: Recorder,
        progress: Progress | None,
    ) -> Ensemble:
        r"""Simulate paths with steps that are exact while the gradient is held, at the point half a step ahead.

        The average and the position move jointly: with the push $\phi$ of the average and
        $\chi(s) = \dot m(s) \int_s^{t_1} \gamma/m$ of the position, their noises are the integrals of $\phi$ and
        $\gamma_0 + \chi$ over one Brownian motion, which two normals give with their exact covariance.
        """
        for t in (0.0, int(stops[-1]) * dt):
            refuse_overshooting(self, dt, partial(self._step_without_noise, t))
        paths = recorder.paths
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        noise = self.volatility
        x, v = (np.repeat(part, paths, axis=0) for part in self.start(x0, 0.0))
        sources = noise.sources(x)
        done, total, normals = 0, int(stops[-1]), 0
        with np.errstate(all="ignore"):
            for i, stop in enumerate(stops.tolist()):
                while done < stop:
                    upto = min(stop, done + _STEPS_AT_ONCE)
                    for step in self._steps(np.arange(done, upto) * dt, dt):
                        where = x + step.half * v
                        g = self.slope(where)
                        x = x + step.a * v - step.of_position * g
                        v = step.b * v - step.w * g
                        if not noise.is_zero:
                            first, second = rng.standard_normal((2, paths, sources))
                            normals += 2 * paths * sources
                            v -= noise.push(where, step.root * first)
                            x -= noise.push(where, step.shared * first + step.own * second)
                    done = upto
                    if progress is not None:
                        progress(done, total)
                recorder.record(i, x, v)
        return recorder.ensemble(
            equation=str(self), scheme="exact", dt=dt, start=0.0, seed=seed, steps=total, normals=normals
        )

    def _steps(self, t0: Array, dt: float) -> list[_Step]:
        """The coefficients of steps dt from these times."""
        t1 = t0 + dt
        kick = self.kick(t0, t1)
        moved = glide(_BesideGain(self), self.memory.rate, t0, t1)
        s, ds = points(t0, t1)
        push = self.instant + moved.chi
        shared = np.sum(self.push(s, t1[:, None]) * push * ds, axis=1) / np.sqrt(kick.v)
        own = np.sqrt(np.maximum(np.sum(push**2 * ds, axis=1) - shared**2, 0.0))
        # At 0 the velocity is that of the first gradient, which the step then forgets.
        half = np.where(t0 > 0, moved.half, self._gain_over(0.0, dt / 2))
        columns = (kick.b, kick.w, half, moved.a, self.instant * dt + moved.w, np.sqrt(kick.v), shared, own)
        return [_Step(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _gain_over(self, t0: float, t1: float) -> float:
        """The integral of the average's gain over a step."""
        power = 1 + self.growth
        return float(self.scale * (t1**power - t0**power) / power)

    def _step_without_noise(self, t: float, curvature: float, dt: float) -> Array:
        """The step from time t as a matrix, on the quadratic with this curvature and its minimum at 0."""
        (step,) = self._steps(np.array([max(t, dt)]), dt)  # not the first step, in which a memory forgets everything
        held = np.outer([step.of_position, step.w], [1.0, step.half])
        return np.array([[1.0, step.a], [0.0, step.b]]) - curvature * held

    # --- exact second moments ----------------------------------------------------------------------------------------

    def _near_zero(self, t: float, d: int, noise: Array) -> list[Array]:
        """Displacement, average and covariances at a small time, where the gradient is still the first one."""
        p, g, c, now = self.degree, self.growth, self.scale, self.instant
        one = np.ones(d)
        drawn = p**2 / (2 * p - 1) if np.any(noise) else 0.0
        xx = now**2 * t + 2 * now * c * t ** (1 + g) / (1 + g)
        xx += 2 * c**2 * drawn * t ** (1 + 2 * g) / ((p + g) * (1 + 2 * g))
        xv = now + c * drawn * t**g / (p + g)
        vv = drawn / t if t else 0.0
        return [self._displacement(t) * one, one, xx * noise, xv * noise, vv * noise]

    def _displacement(self, t: float) -> float:
        return float(self.instant * t + self._gain_over(0.0, t))


@final
@dataclass(frozen=True)
class _BesideGain(Viscosity):
    """The viscosity of a memory whose average moves the position with a gain."""

    flow: MixtureFlow
    is_singular = True

    @property
    def alone(self) -> MemoryViscosity:
        return MemoryViscosity(self.flow.memory)

    def rate(self, t: Array) -> Array:
        return self.alone.rate(t)

    def survival(self, s: Array, t: Array) -> Array:
        return self.alone.survival(s, t)

    def speed(self, t: Array) -> Array:
        return self.flow.gain(t)

    def reach(self, s: Array, t: Array) -> Array | None:
        r"""$\int_s^t \gamma(r) \frac{m(s)}{m(r)} dr$; beside exponential memory integrated by parts, once.

        The integral that is left is of a function that does not fall within a small part of the step.
        """
        s, t = np.broadcast_arrays(np.asarray(s, dtype=float), np.asarray(t, dtype=float))
        c, g = self.flow.scale, self.flow.growth
        if isinstance(self.flow.memory, Polynomial):
            with np.errstate(all="ignore"):
                return np.where(s > 0, c * s**g * power_reach(self.flow.memory.p - g, s, t), 0.0)
        reach = self.alone.reach(s, t)
        if reach is None or g == 0:
            return reach if reach is None else c * reach
        u, du = legendre(16)
        r = s[..., None] + (t - s)[..., None] * u
        before = self.alone.reach(s[..., None], r)
        assert before is not None
        with np.errstate(all="ignore"):
            later = np.nan_to_num(c * g * r ** (g - 1) * before) @ du
        return np.asarray(self.speed(t) * reach - (t - s) * later)

    def __str__(self) -> str:
        return str(self.alone)


@final
@dataclass(frozen=True)
class GainWarp(TimeWarp):
    r"""The time $s = \frac{2\sqrt{cp}}{1+g}\, t^{(1+g)/2}$ in which memory $t^p$ of gain $c\,t^g$ is a heavy ball.

    The viscosity is $q/s$ with $q = \frac{2p-1-g}{1+g}$. $g = 0$, $c = 1$ is the paper's warp, with $2p-1$; $g = 1$ is
    a heavy ball already, with $p - 1$, at another constant speed. So the path of a gain without noise is that of a
    memory of another degree, which it runs through as $t^{(1+g)/2}$ instead of $t^{1/2}$.

    Args:
        p: The degree of the memory, > (1+g)/2.
        scale: $c$, > 0.
        growth: $g$, >= 0.

    Example:
        >>> warp = GainWarp(4.0, 1.0, 0.5)
        >>> print(warp.viscosity)  # (8 - 1.5)/1.5
        4.333333333333333/t
    """

    p: float
    scale: float
    growth: float

    @property
    def viscosity(self) -> Viscosity:
        """q/s, or an error where q is not positive."""
        q = (2 * self.p - 1 - self.growth) / (1 + self.growth)
        if q <= 0:
            raise ValueError(
                f"memory t^p with the gain t^g is a heavy ball in another time for p > (1+g)/2, got p={self.p!r}, "
                f"g={self.growth!r}."
            )
        return MemoryViscosity(Polynomial(q))

    @property
    def _rate(self) -> float:
        return 2 * float(np.sqrt(self.scale * self.p)) / (1 + self.growth)

    def _stretch(self, t: Array) -> Array:
        r"""$\gamma\,\dot t$, because $\dot X = \gamma V$ in the flow of the mixture."""
        return self.scale * self.memory_time(t) ** self.growth * self.speed(t)

    def heavy_ball_time(self, tau: Any) -> Array:
        """The heavy ball's time of a time in the flow of the mixture."""
        return np.asarray(self._rate * np.asarray(tau, dtype=float) ** ((1 + self.growth) / 2))

    def memory_time(self, t: Any) -> Array:
        """The time in the flow of the mixture of the heavy ball's time."""
        return np.asarray((np.asarray(t, dtype=float) / self._rate) ** (2 / (1 + self.growth)))

    def speed(self, t: Any) -> Array:
        """How fast the flow's time runs at the heavy ball's time t."""
        power = 2 / (1 + self.growth)
        return np.asarray(power / self._rate * (np.asarray(t, dtype=float) / self._rate) ** (power - 1))
