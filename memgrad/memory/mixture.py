r"""Sums of memories, each with a gain: accelerated momentum methods have this form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from memgrad.memory.base import Data, Memory
from memgrad.memory.families import Instantaneous
from memgrad.memory.gains import Gain
from memgrad.memory.kinds import as_real, as_step, as_times, is_traced, namespace_of
from memgrad.memory.long_past import sum_the_past
from memgrad.memory.passport import MixturePassport, Progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE = Gain.constant(1.0)


@final
@dataclass(frozen=True)
class Part:
    """One memory of a mixture, with its gain."""

    gain: Gain
    memory: Memory

    def __post_init__(self) -> None:
        object.__setattr__(self, "gain", Gain.of(self.gain))
        if not isinstance(self.memory, Memory):
            raise TypeError(f"a part of a mixture needs a Memory, got {self.memory!r}; parse its text form first.")
        try:
            self.gain.check(self.memory)
        except ValueError as error:
            raise ValueError(f"the part {str(self)!r} of a mixture is refused: {error}") from None

    def __str__(self) -> str:
        return " + ".join(str(self.memory) if str(term) == "1" else f"{term}*{self.memory}" for term in self.gain.terms)


@final
@dataclass(frozen=True)
class Mixture:
    r"""A sum of memories with gains: $n_k = \sum_i \gamma_i(k)\, u^i_k$, with averages $u^i$ of different memories.

    The weight of the gradient $j$ at step $k$ is $\sum_i \gamma_i(k) w_i(j,k)$, and their sum is the *gain*
    $\Gamma_k = \sum_i \gamma_i(k)$. A plain memory is the mixture of one part with gain 1. A gain above 1 amplifies: it
    is what accelerates heavy ball, Nesterov's method, AdEMAMix and ADana, and what makes them noisier.

    Mixtures are written as sums, in code and in text; parts of the same memory are merged, and share one buffer.

    Args:
        parts: The parts. At least one must have a gain above 0.

    Example:
        >>> from memgrad import Exponential, Instantaneous, Polynomial
        >>> mixture = Mixture.parse("inst + (1+k)^0.5*poly:1")
        >>> mixture == Instantaneous() + Gain.power(0.5) * Polynomial(1)
        True
        >>> mixture.weights(3)  # (1+3)^0.5 / 4 for each, and 1 for the newest
        array([0.5, 0.5, 0.5, 1.5])
        >>> mixture.gain(3)
        3.0

    Reference:
        The methods of this form are listed in the docs, *Methods as mixtures*.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        merged: dict[object, Part] = {}
        for part in self.parts:
            if not isinstance(part, Part):
                raise TypeError(f"a mixture consists of Parts, got {part!r}; Mixture.parse reads a text form.")
            key = _key(part.memory)
            merged[key] = Part(merged[key].gain + part.gain, part.memory) if key in merged else part
        parts = tuple(part for part in merged.values() if part.gain.fixed != 0)
        if not parts:
            raise ValueError("a mixture needs at least one part with a gain above 0, got none; 'inst' is plain SGD.")
        object.__setattr__(self, "parts", parts)

    @staticmethod
    def of(value: Mixture | Memory | str, owner: str = "a mixture", name: str = "memory") -> Mixture:
        """The mixture that a memory, a mixture or a text form stands for.

        Example:
            >>> print(Mixture.of("poly:2"))
            poly:2
        """
        if isinstance(value, Mixture):
            return value
        if isinstance(value, str):
            return Mixture.parse(value)
        if isinstance(value, Memory):
            return Mixture((Part(ONE, value),))
        raise TypeError(
            f"{owner} needs a Memory, a Mixture or a text form, such as 'inst + 5*exp:0.999', got {name}={value!r}."
        )

    @staticmethod
    def parse(text: str) -> Mixture:
        """The mixture with this text form, such as `inst + (1+k)^0.15*poly:8` or `exp:0.9 + 5*exp:0.9999`.

        Example:
            >>> Mixture.parse("sum*exp:0.5").gain(2)  # heavy ball: 1 + 0.5 + 0.25
            1.75
        """
        from memgrad.memory.text import parse_mixture

        return parse_mixture(text)

    # --- what it amounts to --------------------------------------------------------------------------------------

    @property
    def memory(self) -> Memory | None:
        """The memory itself if the mixture has one part, with gain 1; otherwise `None`."""
        only = self.parts[0]
        return only.memory if len(self.parts) == 1 and only.gain.fixed == 1 else None

    @property
    def instant(self) -> Gain | None:
        """The gain of the newest gradient, which needs no buffer, or `None`."""
        return next((part.gain for part in self.parts if isinstance(part.memory, Instantaneous)), None)

    @property
    def averages(self) -> tuple[Part, ...]:
        """The parts that need a buffer each: all except `inst`."""
        return tuple(part for part in self.parts if not isinstance(part.memory, Instantaneous))

    @property
    def is_normalized(self) -> bool:
        """Whether its gains are constant and sum to 1.

        Example:
            >>> Mixture.parse("0.5*inst + 0.5*exp:0.9").is_normalized
            True
        """
        fixed = [part.gain.fixed for part in self.parts]
        return abs(sum(gain for gain in fixed if gain is not None) - 1) < 1e-12 if None not in fixed else False

    def gain(self, k: Any) -> Any:
        r"""The total gain $\Gamma_k$, by which a constant gradient is multiplied; in the kind of k."""
        return sum((part.gain(k, part.memory) for part in self.parts[1:]), self.parts[0].gain(k, self.parts[0].memory))

    def weights(self, k: int) -> NDArray[np.float64]:
        """The weights of all gradients so far: k + 1 numbers >= 0 whose sum is the gain."""
        k = as_step(k)
        total: NDArray[np.float64] = sum(
            (part.gain(k, part.memory) * part.memory.weights(k) for part in self.parts), np.zeros(k + 1)
        )
        return total

    def influence(self, s: Any, t: Any, *, h: float = 1.0) -> Any:
        r"""The weight density $\sum_i \gamma_i(t/h)\, \dot m_i(s)/m_i(t)$ of the gradient at time s, at time t.

        The limit of `weights` for steps of length $h \to 0$ at $t = kh$, if all parts except `inst` have a memory
        function; the part `inst` adds a point mass of its gain at $s = t$.

        Example:
            >>> Mixture.parse("inst + 2*poly:2").influence(3.0, 6.0)
            0.3333333333333333
        """
        t, h = as_times("t", t, positive=True), as_real("Mixture.influence", "h", h, "a finite time step h > 0")
        xp = namespace_of(t)
        total = 0.0
        for part in self.averages:
            refuse_other_step("Mixture.influence", part.memory, h)
            total = total + part.gain._at(t / h, xp, part.memory) * part.memory.influence(s, t)
        if not self.averages:
            raise NotImplementedError(f"{self} has no density: all its weight is on the newest gradient.")
        return total

    def passport(self, k: int, *, progress: Progress | None = None) -> MixturePassport:
        """What the mixture amounts to at step k: its gain, mean age, noise and more.

        Example:
            >>> print(Mixture.parse("inst + (1+k)^0.15*poly:8").passport(1000))
            mixture                  inst + (1+k)^0.15*poly:8
            step k                   1000
            gain                     3.81881
            mean age                 82.0153 steps
            half-life                47 steps
            variance factor          1.07849
            newest weight            1.02237
            first gradient's weight  1.09647e-19
        """
        k = as_step(k)
        parts = [(float(part.gain(k, part.memory)), part.memory) for part in self.parts]
        past = sum_the_past(str(self), k, parts, progress, to_the_first=True)
        return MixturePassport(str(self), k, past.gain, *past.statistics, past.newest_weight, past.first_weight)

    # --- text and data -------------------------------------------------------------------------------------------

    @property
    def is_code(self) -> bool:
        """Whether a memory or a gain in it is a function, so that its text form cannot be read back."""
        return any(part.memory.is_code or part.gain.is_code for part in self.parts)

    def to_dict(self) -> Data:
        """The mixture as plain data; `Mixture.from_dict` reads it back.

        Example:
            >>> Mixture.parse("inst + 5*exp:0.9").to_dict()
            {'mixture': 'inst + 5*exp:0.9'}
        """
        if self.is_code:
            raise ValueError(
                f"{self} is made of functions, which are code, not data, so it cannot be serialized. "
                f"Rebuild it in code."
            )
        return {"mixture": str(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Mixture:
        """The mixture that `to_dict` wrote.

        Example:
            >>> print(Mixture.from_dict({"mixture": "inst + 5*exp:0.9"}))
            inst + 5*exp:0.9
        """
        if not isinstance(data, Mapping) or set(data) != {"mixture"}:
            raise ValueError(f"a mixture as data is a table such as {{'mixture': 'inst + 5*exp:0.9'}}, got {data!r}.")
        return Mixture.parse(data["mixture"])

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __add__(self, other: Mixture | Memory) -> Mixture:
        if not isinstance(other, Mixture | Memory):
            return NotImplemented
        return Mixture(self.parts + Mixture.of(other).parts)

    def __mul__(self, gain: Gain | float) -> Mixture:
        if callable(gain) and not isinstance(gain, Gain | Memory):
            raise TypeError(f"a gain that is a function of k is written Gain.of(f) * memory, got {gain!r} * {self}.")
        return Mixture(tuple(Part(Gain.of(gain) * part.gain, part.memory) for part in self.parts))

    __rmul__ = __mul__


def refuse_other_step(owner: str, memory: Memory, h: float) -> None:
    """Refuse a memory that relates steps to times by another step than h; polynomial memory has no scale of time."""
    own = getattr(memory, "h", h)
    if not (is_traced(own) or is_traced(h)) and abs(own - h) > 1e-9 * h:
        raise ValueError(
            f"{owner} got h={h!r} for {memory}, whose steps have the length {own!r}: give the memory the same h, as in "
            f"exp:0.9,h={h:g}."
        )


def _key(memory: Memory) -> object:
    """What is equal for equal memories; one with a traced parameter is equal to no other."""
    try:
        hash(memory)
    except TypeError:
        return object()
    return memory
