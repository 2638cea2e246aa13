r"""What slows a velocity down: the coefficient $a(t)$ of $\dot V = -a(t) V - \dots$"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from memgrad.kinds import Array
from memgrad.memory import Exponential, Memory, Polynomial
from memgrad.memory.kinds import as_real


class Viscosity(ABC):
    r"""A viscosity $a(t)$, $t > 0$, and what it leaves of a velocity: $e^{-\int_s^t a}$.

    It is positive except for the warps of some memories, such as logarithmic memory, which forgets so slowly that its
    velocity grows in the heavy ball's time.
    """

    is_singular: bool
    """Whether $a(t)$ grows without bound as $t \\to 0$, so that the velocity at 0 cannot be chosen."""

    @abstractmethod
    def rate(self, t: Array) -> Array:
        r"""The viscosity $a(t)$ itself, $t > 0$ (also $t = 0$ unless it is singular)."""

    @abstractmethod
    def survival(self, s: Array, t: Array) -> Array:
        r"""The share $e^{-\int_s^t a(r) dr}$ of a velocity at time $s$ that is left at $t > 0$, $0 \le s \le t$."""

    def speed(self, t: Array) -> Array:
        """How fast a unit velocity moves the position: 1, except beside a gain."""
        return np.ones_like(t)

    def reach(self, s: Array, t: Array) -> Array | None:
        r"""How far a unit velocity at time $s$ moves until $t$, $\int_s^t e^{-\int_s^r a} dr$; None if not known."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """The text form, which `as_viscosity` reads if it is a number or q/t."""


@final
@dataclass(frozen=True)
class ConstantViscosity(Viscosity):
    r"""The same viscosity at all times, $a(t) = \alpha$: the heavy ball of Polyak.

    Args:
        alpha: The viscosity, finite and > 0.

    Example:
        >>> float(ConstantViscosity(2.0).survival(np.array(1.0), np.array(1.5)))
        0.36787944117144233
    """

    alpha: float
    is_singular = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_real("constant viscosity", "alpha", self.alpha, "a finite alpha > 0"))

    def rate(self, t: Array) -> Array:
        """The constant, in the shape of `t`."""
        return np.full(np.shape(t), self.alpha)

    def survival(self, s: Array, t: Array) -> Array:
        r"""The share $e^{-\alpha(t-s)}$."""
        return np.exp(-self.alpha * (np.asarray(t) - s))

    def reach(self, s: Array, t: Array) -> Array:
        r"""The distance $(1 - e^{-\alpha(t-s)})/\alpha$."""
        return np.asarray(-np.expm1(-self.alpha * (np.asarray(t) - s)) / self.alpha)

    def __str__(self) -> str:
        return _text(self.alpha)


@final
@dataclass(frozen=True)
class MemoryViscosity(Viscosity):
    r"""The viscosity $a(t) = \dot m(t)/m(t)$ of a memory; $q/t$ is that of $m(t) = t^q$.

    Args:
        memory: Any memory with a memory function.

    Example:
        >>> MemoryViscosity(Polynomial(3)).rate(np.array([1.0, 6.0]))
        array([3. , 0.5])
    """

    memory: Memory
    is_singular = True

    def __post_init__(self) -> None:
        refuse_discrete(self.memory)

    def rate(self, t: Array) -> Array:
        r"""The coefficient $\dot m(t)/m(t)$."""
        return np.asarray(self.memory.rate(np.asarray(t, dtype=float)))

    def survival(self, s: Array, t: Array) -> Array:
        r"""The share $m(s)/m(t)$, also where $m$ itself overflows."""
        s, t = np.broadcast_arrays(np.asarray(s, dtype=float), np.asarray(t, dtype=float))
        if isinstance(self.memory, Polynomial):
            return np.asarray((s / t) ** self.memory.p)
        later = np.where(s > 0, s, t)
        return np.where(s > 0, self.memory.influence(later, t) / self.memory.rate(later), 0.0)

    def reach(self, s: Array, t: Array) -> Array | None:
        r"""The distance $\int_s^t \frac{m(s)}{m(r)} dr$ for polynomial and exponential memory."""
        s, t = np.broadcast_arrays(np.asarray(s, dtype=float), np.asarray(t, dtype=float))
        with np.errstate(all="ignore"):
            match self.memory:
                case Polynomial(p=p):
                    reach = power_reach(p, s, t)
                case Exponential(alpha=a):
                    lost = -np.expm1(-a * (t - s))
                    q = lost / np.expm1(a * s)  # log(1 + q)/q is 1 where e^(as) overflows
                    reach = lost / a * np.where(q > 0, np.log1p(q) / q, 1.0)
                case _:
                    return None
        return np.where(s > 0, reach, 0.0)

    def __str__(self) -> str:
        return f"{_text(self.memory.p)}/t" if isinstance(self.memory, Polynomial) else f"m'/m of {self.memory}"


def power_reach(p: float, s: Array, t: Array) -> Array:
    r"""$\int_s^t (s/r)^p\, dr$, for any $p$ and $s > 0$."""
    log_r = np.where(s < t / 2, np.log(s / t), np.log1p((s - t) / t))
    return -s * (log_r if p == 1 else np.expm1((p - 1) * log_r) / (p - 1))


@final
@dataclass(frozen=True)
class HyperbolicViscosity(Viscosity):
    r"""The viscosity $a(t) = \omega \coth(\omega t)$: that of exponential memory after the change of time.

    Args:
        omega: The viscosity in the long run, finite and > 0.

    Example:
        >>> float(HyperbolicViscosity(2.0).rate(np.array(50.0)))
        2.0

    Reference:
        Not in the paper, which says that no other time change exists (erratum 11).
    """

    omega: float
    is_singular = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "omega", as_real("hyperbolic viscosity", "omega", self.omega, "a finite omega > 0"))

    def rate(self, t: Array) -> Array:
        r"""The viscosity $\omega \coth(\omega t)$."""
        return np.asarray(self.omega / np.tanh(self.omega * np.asarray(t)))

    def survival(self, s: Array, t: Array) -> Array:
        r"""The share $\sinh(\omega s)/\sinh(\omega t)$."""
        w, s, t = self.omega, np.asarray(s), np.asarray(t)
        return np.asarray(np.exp(-w * (t - s)) * np.expm1(-2 * w * s) / np.expm1(-2 * w * t))

    def __str__(self) -> str:
        return f"{self.omega:g} coth({self.omega:g} t)"


def refuse_discrete(memory: Memory) -> None:
    """Raise an error if a memory has decays but no memory function, before it is used in continuous time.

    Example:
        >>> refuse_discrete(Polynomial(2))
    """
    memory.rate(1.0)


def as_viscosity(value: float | str | Memory | Viscosity) -> Viscosity:
    """A viscosity from a number, `"3/t"`, a memory (its rate), or a viscosity itself.

    Example:
        >>> print(as_viscosity("3/t"), as_viscosity(0.5), as_viscosity(Polynomial(2)))
        3/t 0.5 2/t
    """
    if isinstance(value, Viscosity):
        return value
    if isinstance(value, Memory):
        return MemoryViscosity(value)
    if isinstance(value, str):
        number, over, time = value.partition("/")
        try:
            parsed = float(number)
        except ValueError:
            parsed = None
        if parsed is None or (over and time.strip() != "t"):
            raise ValueError(f"a viscosity is written as a number, 0.5, or as 3/t, got {value!r}.")
        if over:
            as_real("a viscosity q/t", "q", parsed, "a finite q > 0")
        return as_viscosity(Polynomial(parsed) if over else parsed)
    return ConstantViscosity(value)


def _text(number: float) -> str:
    """The number in few digits if that is exact, otherwise in all its digits."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
