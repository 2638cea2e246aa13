"""User-defined memories: by a memory function, or by the decays themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, final

import numpy as np

from memgrad.memory.base import Data, Memory
from memgrad.memory.gain_factors import entries
from memgrad.memory.kinds import Floats, as_real, quietly


@cache
def _quadrature() -> tuple[tuple[float, float], ...]:
    """Points and weights of Gauss-Legendre on [0, 1].

    Over one step in which m at most doubles, 16 points integrate dm to rounding: the nearest singularity of a memory
    function, at t = 0, is then at least a step away.
    """
    from numpy.polynomial.legendre import leggauss  # here, because it takes a tenth of the time of importing memgrad

    return tuple(((1 + x) / 2, w / 2) for x, w in zip(*(a.tolist() for a in leggauss(16)), strict=True))


@final
@dataclass(frozen=True, init=False)
class Sampled(Memory):
    r"""A memory given by any memory function, sampled every $h$: $b_k = m(kh)/m((k+1)h)$.

    $1 - b_k$ is the integral of `dm` over the step divided by $m$ (Gauss-Legendre) where $b_k > 1/2$, so it does not
    cancel for long memories. The functions are called with a Python float or with the kind of array that `decay` gets:
    write them with operators, or with functions that accept that kind.

    The constructor checks, at the first 100 steps and at log-spaced steps up to `steps`, that m(0) = 0, that m is
    finite and increasing, and that dm is its derivative.

    Args:
        m: The memory function, for t >= 0.
        dm: Its derivative.
        h: Time between two steps, finite and > 0.
        steps: The number of steps up to which the functions are checked. Beyond it, a value that is not finite raises
            an error when it occurs.

    Example:
        >>> memory = Sampled(lambda t: t**2, lambda t: 2 * t, h=0.1)
        >>> memory.weights(3) * 16
        array([1., 3., 5., 7.])
    """

    function: Callable[[Any], Any]
    derivative: Callable[[Any], Any]
    h: float
    steps: int
    _points: tuple[tuple[float, float], ...] = field(repr=False, compare=False)

    family: ClassVar[str] = "sampled"
    example: ClassVar[str] = "Sampled(m, dm, h)"
    formula: ClassVar[str] = "any m(t)"
    decay_formula: ClassVar[str] = "m(kh)/m((k+1)h)"

    def __init__(self, m: Callable[[Any], Any], dm: Callable[[Any], Any], h: float, *, steps: int = 10_000) -> None:
        if not (callable(m) and callable(dm)):
            raise TypeError(f"Sampled memory needs two functions of time, got m={m!r}, dm={dm!r}.")
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ValueError(f"Sampled memory needs an integer steps >= 1, got steps={steps!r}.")
        h = as_real("Sampled memory", "h", h, "a finite time step h > 0")
        # The points are kept, because torch.compile does not trace a cache.
        self._set(function=m, derivative=dm, h=h, steps=steps, _points=_quadrature())
        with np.errstate(all="ignore"):
            self._check()

    def _check(self) -> None:
        at_zero = float(self.function(0.0))
        if at_zero != 0:
            raise ValueError(f"a memory function needs m(0) = 0, got m(0) = {at_zero!r}; subtract it from m.")
        k = np.unique(np.concatenate([np.arange(100.0), np.floor(np.geomspace(1, self.steps, 200)) - 1]))
        k = k[k < self.steps]
        t = (k + 1) * self.h
        try:
            m, m_next, dm_next = self.function(k * self.h), self.function(t), self.derivative(t)
            fresh = self._integral_of_dm(k) / m_next
        except TypeError as error:
            raise TypeError(
                f"m and dm must also take numpy arrays: write them with operators or numpy's functions, "
                f"such as np.log1p instead of math.log1p ({error})."
            ) from error
        self._refuse(~np.isfinite(m_next), t, m_next, "m(t) must be finite")
        self._refuse(~(m_next > m), t, m_next, "m(t) must increase from each step to the next")
        self._refuse(~np.isfinite(dm_next), t, dm_next, "dm(t) must be finite for t > 0")
        # A step in which m more than doubles is too long for the quadrature to judge.
        wrong = (m > 0.5 * m_next) & ~(np.abs(fresh - (1 - m / m_next)) <= 1e-6 * fresh + 1e-13)
        self._refuse(wrong, t, dm_next, "dm must be the derivative of m")

    def _refuse(self, wrong: Any, t: Any, values: Any, rule: str) -> None:
        if np.any(wrong):
            i = int(np.argmax(wrong))
            values = np.broadcast_to(values, np.shape(t))
            raise ValueError(
                f"{rule}, got {float(values[i])!r} at t={float(t[i])!r} (step {round(t[i] / self.h)} of the "
                f"steps={self.steps} checked). Correct the function or, if it is right for as long as it will be "
                f"used, check fewer steps; a memory function that overflows can be given as FromDecays."
            )

    def _integral_of_dm(self, k: Any) -> Any:
        return self.h * sum(w * self.derivative((k + x) * self.h) for x, w in self._points)

    def _decay(self, k: Any, xp: Any) -> Any:
        b = self._ratio(k, xp)
        return float(b) if xp is Floats else b

    def _fresh(self, k: Any, xp: Any) -> Any:
        b = self._ratio(k, xp)
        fresh = xp.where(b < 0.5, 1 - b, self._integral_of_dm(k) / self.function((k + 1) * self.h))
        return float(fresh) if xp is Floats else fresh[()]  # np.where turns a scalar into an array

    def _ratio(self, k: Any, xp: Any) -> Any:
        try:
            with quietly(np if xp is Floats else xp):  # numpy's functions also warn if a Python float overflows
                b = self.function(k * self.h) / self.function((k + 1) * self.h)
        except OverflowError:
            b = math.nan
        if (xp is Floats or xp is np) and not np.all(np.isfinite(b)):
            raise ValueError(
                f"{self} overflows at step k={k!r}: m(kh)/m((k+1)h) is {b!r}. "
                f"Define a memory that grows this fast as Exponential, Stretched or FromDecays."
            )
        return b

    def _m(self, t: Any, xp: Any) -> Any:
        return self.function(t)

    def _dm(self, t: Any, xp: Any) -> Any:
        return self.derivative(t) + 0 * t  # dm may be a constant, which ignores the kind of t

    def _rate(self, t: Any, xp: Any) -> Any:
        return self._dm(t, xp) / self.function(t)

    def _influence(self, s: Any, t: Any, xp: Any) -> Any:
        return self._dm(s, xp) / self.function(t)

    @property
    def is_code(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"sampled:{getattr(self.function, '__name__', 'm')},h={self.h:g}"


@final
@dataclass(frozen=True)
class FromDecays(Memory):
    r"""A memory given by its decays: $b_k$ from a sequence, or from a function of k.

    Args:
        b: Decays $b_0, b_1, \dots$, with $b_0 = 0$ and $0 \le b_k < 1$; or a function that takes a Python int k and
            returns $b_k$ (steps that are torch or JAX arrays are passed to it as they are). A step past the end of a
            sequence raises an error, or gives NaN if the steps are torch or JAX arrays.

    Example:
        >>> FromDecays([0.0, 0.5, 0.5]).weights(2)
        array([0.25, 0.25, 0.5 ])
        >>> FromDecays(lambda k: min(k / (k + 1), 0.9)).decay(1000)
        0.9
    """

    b: tuple[float, ...] | Callable[[Any], Any]

    family: ClassVar[str] = "decays"
    example: ClassVar[str] = "decays:0,0.5,0.6"
    decay_formula: ClassVar[str] = "as given"
    _takes_integers_only: ClassVar[bool] = True

    def __init__(self, b: Iterable[float] | Callable[[Any], Any]) -> None:
        if not callable(b):
            if not isinstance(b, Iterable):
                raise TypeError(f"FromDecays needs a sequence of decays or a function of k, got {b!r}.")
            b = tuple(_decay_value(k, value) for k, value in enumerate(b))
            if not b:
                raise ValueError("FromDecays needs at least the decay b_0 = 0, got an empty sequence.")
        self._set(b=b)
        first = self.decay(0)
        if first != 0:
            raise ValueError(f"FromDecays needs b_0 = 0 (there is nothing to keep before step 0), got b_0={first!r}.")

    def _decay(self, k: Any, xp: Any) -> Any:
        return self._at(k, xp, lambda b: b)

    def _fresh(self, k: Any, xp: Any) -> Any:
        return self._at(k, xp, lambda b: 1 - b)

    def _at(self, k: Any, xp: Any, value: Callable[[Any], Any]) -> Any:
        """`value(b_k)`, computed in double precision wherever the decays are Python floats."""
        if xp is Floats:
            return value(self._decay_at(int(k)))
        if xp is np:
            answers = [value(self._decay_at(int(i))) for i in np.ravel(k)]
            return np.asarray(answers, k.dtype).reshape(np.shape(k))[()]
        if callable(self.b):
            return value(self.b(k))
        return entries(tuple(map(value, self.b)), k, math.nan, xp)

    def _decay_at(self, k: int) -> float:
        if callable(self.b):
            return _decay_value(k, self.b(k))
        if k >= len(self.b):
            raise ValueError(
                f"FromDecays was given {len(self.b)} decays, for the steps 0..{len(self.b) - 1}, and was asked for "
                f"step k={k}; give it more decays, or a function of k."
            )
        return self.b[k]

    @property
    def is_code(self) -> bool:
        return callable(self.b)

    def __str__(self) -> str:
        if callable(self.b):
            return f"decays:{getattr(self.b, '__name__', 'b')}"
        return super().__str__()

    def _parameters(self) -> Data:
        return {"b": list(self.b)}  # type: ignore[arg-type]  # `to_dict` and `__str__` take care of functions


def _decay_value(k: int, value: Any) -> float:
    try:
        if isinstance(value, bool | str):
            raise TypeError
        b = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"a decay must be a number in [0, 1), got b_{k}={value!r}.") from None
    if not 0 <= b < 1:
        raise ValueError(f"a decay must be in [0, 1), got b_{k}={b!r}.")
    return b
