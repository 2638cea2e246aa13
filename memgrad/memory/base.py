"""What a memory is."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from memgrad.memory.kinds import Floats, as_step, as_steps, as_times, is_traced, namespace_of, quietly
from memgrad.memory.long_past import sum_the_past
from memgrad.memory.passport import Passport, Progress, Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memgrad.memory.gains import Gain
    from memgrad.memory.mixture import Mixture

Array = TypeVar("Array")
Data = dict[str, Any]


class Memory(ABC):
    r"""How past gradients are weighted, in discrete and in continuous time.

    A memory is an increasing sequence $M_0 = 0 < M_1 < M_2 < \dots$; at step $k$, the gradient of step $j$ has the
    weight $w(j,k) = (M_{j+1} - M_j)/M_{k+1}$, so that the weights sum to 1. Averages are kept by the recursion

    $$u_k = b_k u_{k-1} + (1 - b_k)\, g_k, \qquad b_k = M_k/M_{k+1}, \qquad k = 0, 1, 2, \dots$$

    $b_0 = 0$ makes $u_0 = g_0$, so no bias correction is ever needed. In continuous time $M$ is the memory function
    $m(t)$ of the paper, with the weights $\dot m(s)/m(t)$.

    `decay` ($b_k$) and `fresh` ($1 - b_k$) take a Python int, a numpy array, a torch tensor or a JAX array, and return
    the same kind in the same precision. Integers become the library's default float. The values of torch and JAX arrays
    are not checked, because that would wait for the device and could not be traced.

    Example:
        >>> Memory.parse("poly:2").decay(8)
        0.8
        >>> Memory.parse("poly:2").fresh(np.array([0, 2, 8]))
        array([1. , 0.5, 0.2])

    Reference:
        Orvieto, Kohler, Lucchi, *The Role of Memory in Stochastic Optimization*, UAI 2019, Sec. 3.1 (MG-ODE-INT) and
        Lemma 3.1 (normalization).
    """

    family: ClassVar[str]
    """Name of the family in text forms, as `poly` in `poly:2`."""
    example: ClassVar[str]
    """A text form that shows the parameters."""
    formula: ClassVar[str] = "-"
    """m(t) in plain text, or a dash."""
    decay_formula: ClassVar[str]
    """b_k in plain text."""
    _takes_integers_only: ClassVar[bool] = False
    """Whether the formulas are defined only at integer steps, so that a long past must be summed step by step."""

    # --- discrete time -------------------------------------------------------------------------------------------

    @overload
    def decay(self, k: int) -> float: ...
    @overload
    def decay(self, k: NDArray[Any]) -> NDArray[np.float64]: ...
    @overload
    def decay(self, k: Array) -> Array: ...
    def decay(self, k: Any) -> Any:
        r"""The share of the old average that is kept at step k: $b_k = M_k/M_{k+1}$, $b_0 = 0$.

        Example:
            >>> Memory.parse("poly:1").decay(3)
            0.75
        """
        if type(k) is int and 0 <= k < 1 << 60:  # the path of the optimizers, taken once per step
            return self._decay(float(k), Floats)
        k, xp = as_steps(k), namespace_of(k)
        with quietly(xp):
            return self._decay(k, xp)

    @overload
    def fresh(self, k: int) -> float: ...
    @overload
    def fresh(self, k: NDArray[Any]) -> NDArray[np.float64]: ...
    @overload
    def fresh(self, k: Array) -> Array: ...
    def fresh(self, k: Any) -> Any:
        r"""The weight of the newest gradient at step k: $1 - b_k$, without the cancellation of `1 - decay(k)`.

        Example:
            >>> Memory.parse("poly:2").fresh(10**15)
            1.999999999999996e-15
        """
        if type(k) is int and 0 <= k < 1 << 60:
            return self._fresh(float(k), Floats)
        k, xp = as_steps(k), namespace_of(k)
        with quietly(xp):
            return self._fresh(k, xp)

    def weights(self, k: int) -> NDArray[np.float64]:
        r"""The weights $w(0,k), \dots, w(k,k)$ of all gradients so far: k + 1 numbers >= 0 that sum to 1.

        Example:
            >>> Memory.parse("poly:1").weights(3)
            array([0.25, 0.25, 0.25, 0.25])
        """
        j = np.arange(as_step(k) + 1)
        kept = np.ones(len(j))
        kept[:-1] = np.cumprod(self.decay(j[:0:-1]))[::-1]  # the product of b_{j+1}, ..., b_k
        return self.fresh(j) * kept

    def passport(self, k: int, *, progress: Progress | None = None) -> Passport:
        """What the memory amounts to at step k: mean age, half-life, effective sample size and more.

        Uses closed forms where they are known. Otherwise it sums over the past, gradient by gradient up to step 131,072
        and by panels beyond (`memgrad.memory.long_past`), which takes milliseconds at any k. Only decays given by a
        function in code must be evaluated one by one. `progress(done, total)` is called during the summation.

        Example:
            >>> print(Memory.parse("exp:0.9").passport(1000))
            memory             exp:0.9
            step k             1000
            mean age           9 steps
            half-life          6 steps
            effective samples  19
            variance factor    0.0526316
            newest weight      0.1
            local degree p     111.111
            equivalent beta    0.9
        """
        k = as_step(k)
        age, half_life, squares = self._statistics(k, progress)
        b, fresh = self.decay(k), self.fresh(k)
        degree = None if k == 0 else math.inf if b == 0 else k * fresh / b
        return Passport(str(self), k, age, half_life, 1 / squares, squares, fresh, degree, age / (1 + age))

    @abstractmethod
    def _decay(self, k: Any, xp: Any) -> Any:
        """b_k for a float k >= 0 of the kind that the functions of `xp` accept."""

    @abstractmethod
    def _fresh(self, k: Any, xp: Any) -> Any:
        """1 - b_k, in a form that does not cancel."""

    def _statistics(self, k: int, progress: Progress | None) -> Statistics:
        return sum_the_past(str(self), k, [(1.0, self)], progress).statistics

    # --- continuous time -----------------------------------------------------------------------------------------

    def m(self, t: Any) -> Any:
        r"""The memory function $m(t)$, $t \ge 0$, with $m(0) = 0$; infinite where it overflows.

        Example:
            >>> Memory.parse("poly:3").m(2.0)
            8.0
        """
        return self._continuous("_m", as_times("t", t))

    def dm(self, t: Any) -> Any:
        r"""Its derivative $\dot m(t)$, $t \ge 0$.

        Example:
            >>> Memory.parse("poly:3").dm(2.0)
            12.0
        """
        return self._continuous("_dm", as_times("t", t))

    def rate(self, t: Any) -> Any:
        r"""The coefficient $\dot m(t)/m(t)$ of MG-ODE, $t > 0$; finite where $m$ itself overflows.

        Example:
            >>> Memory.parse("exp:alpha=10,h=0.001").rate(1e6)
            10.0
        """
        return self._continuous("_rate", as_times("t", t, positive=True))

    def influence(self, s: Any, t: Any) -> Any:
        r"""The weight density $\dot m(s)/m(t)$ of the gradient at time $s$ in the step at time $t$, $0 \le s \le t$.

        Example:
            >>> Memory.parse("poly:2").influence(3.0, 6.0)
            0.16666666666666666
        """
        s, t = as_times("s", s), as_times("t", t, positive=True)
        if namespace_of(s) in (Floats, np) and namespace_of(t) in (Floats, np) and np.any(np.asarray(s) > t):
            raise ValueError(f"the influence of the gradient at time s on time t needs s <= t, got s={s!r}, t={t!r}.")
        return self._continuous("_influence", s, t)

    def _continuous(self, name: str, *times: Any) -> Any:
        formula = getattr(self, name, None)
        if formula is None:
            raise NotImplementedError(
                f"{self} is a discrete memory: it has decays b_k but no memory function m(t). "
                f"Give Sampled(m, dm, h) a memory function with these decays to use it in continuous time."
            )
        # A Python number that comes with an array becomes an array of the same kind.
        like = next((t for t in times if namespace_of(t) is not Floats), times[0])
        times = tuple(like * 0.0 + t if namespace_of(t) is Floats else t for t in times)
        xp = namespace_of(like)
        with quietly(xp):
            return formula(*times, xp)

    # --- text and data -------------------------------------------------------------------------------------------

    @property
    def is_code(self) -> bool:
        """Whether the memory is defined by functions, so that `parse` cannot read its text form.

        Example:
            >>> Memory.parse("poly:2").is_code
            False
        """
        return False

    @property
    def _is_traced(self) -> bool:
        """Whether JAX is tracing one of its numbers, so that its decays have no values yet."""
        return any(map(is_traced, vars(self).values()))

    def to_dict(self) -> Data:
        """The memory as plain data, for checkpoints and TOML; `Memory.from_dict` reads it back.

        Example:
            >>> Memory.parse("poly:2").to_dict()
            {'family': 'poly', 'p': 2.0}
        """
        if self.is_code:
            raise ValueError(
                f"{self} is made of functions, which are code, not data, so it cannot be serialized. Rebuild it in "
                f"code, or keep its decays as data: FromDecays(memory.decay(np.arange(steps)))."
            )
        return {"family": self.family, **self._parameters()}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Memory:
        """The memory that `to_dict` wrote.

        Example:
            >>> Memory.from_dict({"family": "exp", "beta": 0.9})
            Exponential(beta=0.9)
        """
        from memgrad.memory.text import from_dict

        return from_dict(data)

    @staticmethod
    def parse(text: str) -> Any:
        """The memory with this text form: `poly:2`, `exp:0.9`, `inst`, or the paper's `p=2`, `p=e`, `p=inf`.

        The text form of a mixture, `inst + (1+k)^0.15*poly:8`, gives a `Mixture`.

        Example:
            >>> Memory.parse("p=e")
            Exponential(beta=0.9)
            >>> Memory.parse("inst + 5*exp:0.9").gain(10)
            6.0
        """
        from memgrad.memory.text import parse

        return parse(text)

    @staticmethod
    def from_age(
        age: float | Iterable[float] | Callable[[Any], Any],
        *,
        to: float | None = None,
        start: float = 0.0,
        end: float | None = None,
    ) -> Memory:
        r"""The memory with a given mean age at every step, in one buffer: $b_k = a_k/(1 + a_{k-1})$.

        Args:
            age: The mean age in steps, a number > 0; the memory is a plain average until it is that old (see `Aged`).
                Or the ages $a_0 = 0, a_1, \dots$ themselves, as a sequence or a function of k, with
                $0 \le a_k < 1 + a_{k-1}$.
            to: The age to which a constant `age` is annealed, linearly.
            start: The step at which the annealing begins.
            end: The step at which it is complete.

        Example:
            >>> Memory.from_age(9).decay(1000)  # in the long run that of exp:0.9
            0.9
            >>> Memory.from_age([0.0, 0.5, 1.0, 1.2]).passport(3).mean_age
            1.2
        """
        from memgrad.memory.scheduled import from_age

        return from_age(age, to=to, start=start, end=end)

    def __add__(self, other: Memory | Mixture) -> Mixture:
        from memgrad.memory.mixture import Mixture

        return Mixture.of(self) + other

    def __mul__(self, gain: Gain | float) -> Mixture:
        from memgrad.memory.mixture import Mixture

        return Mixture.of(self) * gain

    __rmul__ = __mul__

    def __str__(self) -> str:
        from memgrad.memory.text import write

        return write(self.family, self._parameters(), self._required())

    def _set(self, **values: Any) -> None:
        """Give the fields their checked values; for constructors."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _parameters(self) -> Data:
        """The constructor arguments that rebuild this memory, except those that have their default value."""
        values = [(field, getattr(self, field.name)) for field in self._fields()]
        return {field.name: value for field, value in values if value != field.default}

    @classmethod
    def _from_parameters(cls, parameters: Data) -> Memory:
        return cls(**parameters)

    @classmethod
    def _parameter_names(cls) -> Sequence[str]:
        return [field.name for field in cls._fields()]

    @classmethod
    def _required(cls) -> Sequence[str]:
        """The parameters that a text form must give, in the order in which they may be given without names."""
        return [field.name for field in cls._fields() if field.default is dataclasses.MISSING]

    @classmethod
    def _fields(cls) -> list[dataclasses.Field[Any]]:
        return [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]  # each family is a dataclass
