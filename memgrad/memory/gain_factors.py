"""The kinds of gain, as factors that depend on the step k. A new one is a class here and its place in `FACTORS`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from memgrad.kinds import as_number, number_form
from memgrad.memory.kinds import Floats, is_traced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memgrad.memory.base import Memory


class Factor(ABC):
    """One factor of a gain: a function of the step k and, for some, of the memory that the gain belongs to."""

    name: ClassVar[str]
    """Its name in text forms, as `ramp` in `ramp(1000)`."""

    @abstractmethod
    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        """Its value for a float k >= 0 of the kind that the functions of `xp` accept."""

    needs_memory: ClassVar[bool] = False
    """Whether its value depends on the memory that it multiplies."""

    def check(self, memory: Memory) -> None:  # noqa: B027  # most factors are defined for any memory
        """Raise an error if the factor is not defined for this memory."""

    def __str__(self) -> str:
        return self.name

    @property
    def is_code(self) -> bool:
        return False


@final
@dataclass(frozen=True)
class Power(Factor):
    r"""$(1+k)^a$: a gain that grows, as in Nesterov's method ($a = 1$), DANA and ADana ($a = 1-\kappa$), or falls.

    Args:
        exponent: $a$, a finite number.
    """

    exponent: float

    name: ClassVar[str] = "power"

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", as_number("a power (1+k)^a", "a", self.exponent))

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        return xp.pow(k + 1.0, self.exponent)

    def __str__(self) -> str:
        return "(1+k)" if self.exponent == 1 else f"(1+k)^{number_form(self.exponent)}"


@final
@dataclass(frozen=True)
class Ramp(Factor):
    r"""$\min((1+k)/T, 1)$, written `ramp(T)`: a linear ramp over the first $T$ steps, as in AdEMAMix.

    Args:
        steps: $T$, a finite number >= 1.
    """

    steps: float

    name: ClassVar[str] = "ramp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", as_number("a ramp", "steps", self.steps, least=1))

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        share = (k + 1.0) / self.steps
        return xp.where(share < 1, share, share * 0.0 + 1.0)

    def __str__(self) -> str:
        return f"ramp({number_form(self.steps)})"


@final
@dataclass(frozen=True)
class Cool(Factor):
    r"""$(1 - k/T)^q$, and 0 from step $T$ on, written `cool(T,q)`: a gain that is cooled to nothing over $T$ steps.

    Args:
        steps: $T$, a finite number >= 1.
        power: $q$, finite and > 0; 1 is a linear decay.
    """

    steps: float
    power: float = 1.0

    name: ClassVar[str] = "cool"

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", as_number("a cooled gain", "steps", self.steps, least=1))
        object.__setattr__(self, "power", as_number("a cooled gain", "power", self.power, least=0, excluded=True))

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        return remaining(k, self.steps, self.power, xp)

    def __str__(self) -> str:
        numbers = [self.steps] if self.power == 1 else [self.steps, self.power]
        return f"cool({','.join(map(number_form, numbers))})"


@final
@dataclass(frozen=True, init=False)
class Knots(Factor):
    r"""A gain through given points: its logarithm is linear in $\log(1+k)$ between them, and constant beyond.

    `knots(0,1,100,2.5)` rises from 1 at step 0 to 2.5 at step 100.

    Args:
        numbers: Steps and gains in turn, $k_1, v_1, k_2, v_2, \dots$: at least two points, with increasing steps >= 0
            and gains > 0.
    """

    numbers: tuple[float, ...]

    name: ClassVar[str] = "knots"

    def __init__(self, *numbers: float) -> None:
        values = tuple(as_number("a gain through knots", "number", number) for number in numbers)
        if len(values) < 4 or len(values) % 2:
            raise ValueError(
                f"a gain through knots needs steps and gains in turn, of two points or more, got {numbers}."
            )
        steps, gains = values[::2], values[1::2]
        if steps[0] < 0 or any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError(f"a gain through knots needs increasing steps >= 0, got {', '.join(map(str, steps))}.")
        if min(gains) <= 0:
            raise ValueError(f"a gain through knots needs gains > 0, got {min(gains)!r}.")
        object.__setattr__(self, "numbers", values)

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        steps, logs = self.numbers[::2], [math.log(gain) for gain in self.numbers[1::2]]
        x = xp.log1p(k)
        found = x * 0.0 + logs[0]
        for (first, a), (last, b) in pairwise(zip(steps, logs, strict=True)):
            left, right = math.log1p(first), math.log1p(last)
            found = xp.where(k > first, a + (b - a) * (x - left) / (right - left), found)
        return xp.exp(xp.where(k >= steps[-1], x * 0.0 + logs[-1], found))

    def __str__(self) -> str:
        return f"knots({','.join(map(number_form, self.numbers))})"


@final
@dataclass(frozen=True)
class Sum(Factor):
    r"""$1/(1-b_k)$: with this gain the newest gradient has weight 1, so gradients are *summed*, not averaged.

    `sum*exp:0.9` is heavy ball with momentum 0.9, whose gain is $(1-\beta^{k+1})/(1-\beta)$; `sum*poly:4` is heavy ball
    with the momentum $k/(k+3)$, whose gain is $(k+4)/4$.
    """

    name: ClassVar[str] = "sum"
    needs_memory: ClassVar[bool] = True

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        return 1 / memory._fresh(k, xp)


@final
@dataclass(frozen=True)
class Cold(Factor):
    r"""$1 - \prod_{h \le k} \beta_h$: the gain of an exponential average that starts from 0 and is not corrected.

    `cold*exp:0.9` is the plain moving average, with the gain $1 - \beta^{k+1}$, as in QHM and AdEMAMix.
    """

    name: ClassVar[str] = "cold"
    needs_memory: ClassVar[bool] = True

    def check(self, memory: Memory) -> None:
        if not hasattr(memory, "_cold"):
            raise ValueError(
                f"a cold start needs an exponential memory, such as 'cold*exp:0.9', got {memory}: "
                f"other memories have no constant decay."
            )

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        return memory._cold(k, xp)  # type: ignore[attr-defined]  # `check` has made sure of it


@final
@dataclass(frozen=True)
class Nadam(Factor):
    r"""The gains of NAdam, from its momentum $\mu_t = \beta(1 - \frac12 0.96^{t\psi})$ at the step $t = k + 1$.

    $(1-\mu_t)/(1-\prod_{i \le t} \mu_i)$ for the newest gradient; with `ahead`
    $\mu_{t+1}/(1-\prod_{i \le t+1}\mu_i)$, for the average that starts from 0. They are written `nadam(0.9,0.004)` and
    `nadam_ahead(0.9,0.004)`.

    Args:
        beta: $\beta$, 0 <= beta < 1.
        psi: $\psi$, the rate at which the momentum rises, finite and >= 0.
        ahead: Whether it is the second of the two.
    """

    beta: float
    psi: float
    ahead: bool = False
    _bias: tuple[float, ...] = field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "nadam"

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", as_number("NAdam's gain", "beta", self.beta, least=0))
        object.__setattr__(self, "psi", as_number("NAdam's gain", "psi", self.psi, least=0))
        if self.beta >= 1:
            raise ValueError(f"NAdam's gain needs 0 <= beta < 1, got beta={self.beta!r}.")
        object.__setattr__(self, "_bias", self._biases())  # here, because torch.compile does not trace a cache

    def _biases(self) -> tuple[float, ...]:
        """1 - mu_1 ... mu_n for n = 1, 2, ..., until it rounds to 1."""
        bias, product, n = [], 1.0, 0
        while product > 1e-17 and n < 10**6:
            n += 1
            product *= self._momentum(float(n), Floats)
            bias.append(1 - product)
        return tuple(bias)

    def _momentum(self, t: Any, xp: Any) -> Any:
        return self.beta * (1 - 0.5 * xp.exp(t * (self.psi * math.log(0.96))))

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        t = k + 2.0 if self.ahead else k + 1.0
        mu = self._momentum(t, xp)
        return (mu if self.ahead else 1 - mu) / entries(self._bias, t - 1, 1.0, xp)

    def __str__(self) -> str:
        name = "nadam_ahead" if self.ahead else "nadam"
        return f"{name}({number_form(self.beta)},{number_form(self.psi)})"


@final
@dataclass(frozen=True)
class Function(Factor):
    """A gain that a user writes, as a function of the step k.

    Args:
        function: Takes k (a Python int, or an array or tensor of steps) and returns a number >= 0.
    """

    function: Callable[[Any], Any]

    name: ClassVar[str] = "function"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a gain that is a function needs a function of k, got {self.function!r}.")

    def at(self, k: Any, xp: Any, memory: Memory) -> Any:
        if xp is Floats:
            return float(self.function(int(k)))
        if xp is np:
            return np.asarray([float(self.function(int(i))) for i in np.ravel(k)]).reshape(np.shape(k))[()]
        return self.function(k)

    def __str__(self) -> str:
        return f"{getattr(self.function, '__name__', 'gain')}(k)"

    @property
    def is_code(self) -> bool:
        return True


FACTORS: Mapping[str, Callable[..., Factor]] = {
    "ramp": Ramp,
    "cool": Cool,
    "knots": Knots,
    "sum": Sum,
    "cold": Cold,
    "nadam": partial(Nadam, ahead=False),
    "nadam_ahead": partial(Nadam, ahead=True),
}
"""The factors that a text form can name, in addition to `(1+k)^a`."""


def remaining(k: Any, steps: float, power: float, xp: Any) -> Any:
    """(1 - k/steps)^power before the last step, and 0 after it."""
    share = xp.where(k < steps, 1.0 - k / steps, k * 0.0)
    return share if not is_traced(power) and power == 1 else xp.pow(share, power)


def entries(table: Sequence[float] | NDArray[np.float64], index: Any, beyond: float, xp: Any) -> Any:
    """The entries of a table at steps of any kind, and `beyond` outside it."""
    if xp is Floats:
        return table[int(index)] if index < len(table) else beyond
    inside = (index >= 0) & (index < len(table))
    place = xp.where(inside, index, 0.0)
    if xp is np:
        found = np.asarray(table, index.dtype)[place.astype(np.int64)]
        return np.where(inside, found, index.dtype.type(beyond))[()]
    if hasattr(index, "new_tensor"):
        # Not `take`, which inductor turns into an index that is a Python number and cannot compile.
        found = xp.index_select(index.new_tensor(table), 0, place.to(xp.int64).flatten()).reshape(place.shape)
    else:
        found = xp.take(xp.asarray(table, dtype=index.dtype), place.astype(xp.int32))
    return xp.where(inside, found, index * 0.0 + beyond)
