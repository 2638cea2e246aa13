r"""How strongly a memory counts: gains, as sums of products of the factors in `gain_factors`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np

from memgrad.kinds import is_real, number_form
from memgrad.memory.gain_factors import Cold, Factor, Function, Power, Ramp, Sum
from memgrad.memory.kinds import Floats, as_steps, is_traced, namespace_of, quietly, without_jax

if TYPE_CHECKING:
    from memgrad.memory.base import Memory
    from memgrad.memory.mixture import Mixture

FAR = 10**9
"""The number of steps up to which a gain must be finite."""


@final
@dataclass(frozen=True)
class Term:
    """A number times factors: what precedes a memory in the text form of a mixture.

    The number may be one that JAX is tracing, which is not checked.
    """

    scale: float = 1.0
    factors: tuple[Factor, ...] = ()

    def __post_init__(self) -> None:
        scale = without_jax(self.scale)
        if not is_traced(scale):
            if not is_real(scale):
                raise TypeError(
                    f"a gain is a number >= 0, a Gain or a function of k, got {scale!r} of type {type(scale).__name__}."
                )
            if not (math.isfinite(scale) and scale >= 0):
                raise ValueError(f"a gain must be finite and >= 0, got {scale!r}.")
            scale = float(scale)
        object.__setattr__(self, "scale", scale)
        powers = sum(factor.exponent for factor in self.factors if isinstance(factor, Power))
        rest = sorted((f for f in self.factors if not isinstance(f, Power)), key=lambda f: (f.name, str(f)))
        object.__setattr__(self, "factors", (*([Power(powers)] if powers else []), *rest))

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        value = self.scale
        for factor in self.factors:
            value = value * factor.at(k, xp, memory)
        return value if self.factors else k * 0.0 + value

    def __str__(self) -> str:
        words = [str(factor) for factor in self.factors]
        return "*".join(words if self.scale == 1 and words else [number_form(self.scale), *words])


@final
@dataclass(frozen=True)
class Gain:
    r"""How strongly a memory counts at step k: a sum of terms, each a number times factors such as $(1+k)^a$.

    Make gains with `Gain.constant`, `Gain.power`, `Gain.ramp` and `Gain.of` (a function), or use the constants `SUM`
    (heavy ball's gain, which depends on the memory) and `COLD`. Gains can be multiplied by each other, by numbers, and
    by memories.

    Args:
        terms: The terms of the sum; terms that differ only in their number are combined.

    Example:
        >>> from memgrad import Polynomial
        >>> gain = 2 * Gain.power(0.5)
        >>> gain(3, Polynomial(8))
        4.0
        >>> print(gain * Polynomial(8))
        2*(1+k)^0.5*poly:8
    """

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        scales: dict[tuple[Factor, ...], float] = {}
        for term in self.terms:
            scales[term.factors] = scales.get(term.factors, 0.0) + term.scale
        terms = tuple(Term(scale, factors) for factors, scale in scales.items() if is_traced(scale) or scale != 0)
        object.__setattr__(self, "terms", terms or (Term(0.0),))

    @classmethod
    def constant(cls, value: float) -> Gain:
        """The same number at every step.

        Example:
            >>> print(Gain.constant(5))
            5
        """
        return cls((Term(value),))

    @classmethod
    def power(cls, exponent: float) -> Gain:
        """The gain (1+k)^exponent.

        Example:
            >>> print(Gain.power(0.15))
            (1+k)^0.15
        """
        return cls((Term(1.0, (Power(exponent),)),))

    @classmethod
    def ramp(cls, steps: float) -> Gain:
        """A linear ramp from 0 to 1 over the first steps.

        Example:
            >>> print(5 * Gain.ramp(1000))
            5*ramp(1000)
        """
        return cls((Term(1.0, (Ramp(steps),)),))

    @classmethod
    def of(cls, value: Gain | float | Callable[[Any], Any]) -> Gain:
        """A gain from a number, a function of k, or a gain.

        Example:
            >>> def halved(k): return 2.0**-k
            >>> print(Gain.of(halved))
            halved(k)
        """
        if isinstance(value, Gain):
            return value
        return cls((Term(1.0, (Function(value),)),)) if callable(value) else cls.constant(value)

    def __call__(self, k: Any, memory: Memory) -> Any:
        """The gain of this memory at step k, in the kind of k."""
        if type(k) is int and k >= 0:
            value = self._at(float(k), Floats, memory)
            # The path of the optimizers, which need it at every step: without numpy.
            return value if type(value) is float and 0 <= value < math.inf else self._checked(value, k)
        k, xp = as_steps(k), namespace_of(k)
        with quietly(xp):
            values = self._at(k, xp, memory)
        return self._checked(values, k) if xp is np else values

    def _at(self, k: Any, xp: Any, memory: Memory) -> Any:
        return sum((term.at(k, xp, memory) for term in self.terms[1:]), self.terms[0].at(k, xp, memory))

    def _checked(self, values: Any, k: Any) -> Any:
        wrong = ~(np.isfinite(values) & (np.asarray(values) >= 0))
        if np.any(wrong):
            i = int(np.argmax(np.ravel(wrong)))
            raise ValueError(
                f"the gain {self} must be finite and >= 0 at every step, got {float(np.ravel(values)[i])!r} at step "
                f"k={int(np.ravel(k)[i])}."
            )
        return values

    def check(self, memory: Memory) -> None:
        """Raise an error if the gain is not defined for this memory, or overflows."""
        for term in self.terms:
            for factor in term.factors:
                factor.check(memory)
        if any(is_traced(term.scale) for term in self.terms):
            return
        alone = [tuple(f for f in term.factors if not (f.needs_memory or f.is_code)) for term in self.terms]
        far = Gain(tuple(Term(term.scale, factors) for term, factors in zip(self.terms, alone, strict=True)))
        if not np.isfinite(far._at(float(FAR), Floats, memory)):
            raise ValueError(f"the gain {self} overflows within {FAR:.0e} steps; give a smaller exponent or number.")
        if not (memory.is_code or memory._is_traced):
            self(0, memory)

    @property
    def fixed(self) -> float | None:
        """Its value if it is known and the same at every step, otherwise `None`; one that JAX is tracing is not known.

        Example:
            >>> Gain.constant(5).fixed, Gain.power(1).fixed
            (5.0, None)
        """
        only = self.terms[0]
        return only.scale if len(self.terms) == 1 and not (only.factors or is_traced(only.scale)) else None

    @property
    def is_code(self) -> bool:
        """Whether any part of it is a function, so that its text form cannot be read back."""
        return any(factor.is_code for term in self.terms for factor in term.factors)

    def __add__(self, other: Gain | float) -> Gain:
        return Gain(self.terms + Gain.of(other).terms)

    __radd__ = __add__

    @overload
    def __mul__(self, other: Gain | float) -> Gain: ...
    @overload
    def __mul__(self, other: Memory | Mixture) -> Mixture: ...
    def __mul__(self, other: Any) -> Any:
        other = without_jax(other)
        if isinstance(other, int | float | np.integer | np.floating):
            other = float(other)
        if isinstance(other, float) or is_traced(other):
            other = Gain.constant(other)
        if not isinstance(other, Gain):
            return NotImplemented  # the memory or the mixture multiplies
        pairs = [(a, b) for a in self.terms for b in other.terms]
        return Gain(tuple(Term(a.scale * b.scale, a.factors + b.factors) for a, b in pairs))

    __rmul__ = __mul__

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))


SUM = Gain((Term(1.0, (Sum(),)),))
"""Heavy ball's gain: gradients are summed, not averaged."""
COLD = Gain((Term(1.0, (Cold(),)),))
"""The gain of an exponential average that starts from 0 and is not corrected."""
