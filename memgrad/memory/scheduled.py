"""Memories whose decay follows a schedule: a given mean age, or a ramp between two exponential memories."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from memgrad.memory.base import Memory
from memgrad.memory.custom import FromDecays
from memgrad.memory.gain_factors import entries, remaining
from memgrad.memory.kinds import as_real, is_traced, namespace_of


@final
@dataclass(frozen=True)
class Aged(Memory):
    r"""The memory with a given mean age $a_k$, constant or annealed: $b_k = a_k/(1 + a_{k-1})$, in one buffer.

    The mean age of any memory obeys $A_k = b_k (1 + A_{k-1})$, $A_0 = 0$, so these decays give exactly the ages
    $a_k = \min(k/2, \text{target}_k)$: a plain average of all gradients until it is old enough, then the target. The
    target is `age` up to the step `start`, then changes linearly to `to` at the step `end`, and stays there.

    Args:
        age: The mean age in steps, finite and > 0. A memory of constant age is, in the long run, `exp:beta` with
            $\beta/(1-\beta)$ = `age`.
        to: The age to anneal to, finite and > 0; `age` by default.
        start: The step at which the change begins, >= 0.
        end: The step at which it is complete, > `start`; required if `to` is given. The age may rise by less than 1
            per step.

    Example:
        >>> memory = Aged(20, to=5, start=100, end=200)
        >>> [round(memory.passport(k).mean_age, 9) for k in (10, 40, 100, 150, 1000)]
        [5.0, 20.0, 20.0, 12.5, 5.0]
    """

    age: float
    to: float | None = field(default=None, kw_only=True)
    start: float = field(default=0.0, kw_only=True)
    end: float | None = field(default=None, kw_only=True)

    family: ClassVar[str] = "age"
    example: ClassVar[str] = "age:58,to=26,start=1000,end=3000"
    decay_formula: ClassVar[str] = "a_k/(1 + a_{k-1})"

    def __post_init__(self) -> None:
        who = "a memory of a given age"
        self._set(age=as_real(who, "age", self.age, "a finite mean age > 0"))
        if (self.to is None) != (self.end is None):
            raise ValueError(f"{who} takes both to and end, or neither, got to={self.to!r}, end={self.end!r}.")
        if is_traced(self.start) or self.start != 0 or isinstance(self.start, bool):
            self._set(start=as_real(who, "start", self.start, "a finite start >= 0"))
        if self.to is None or self.end is None:
            if is_traced(self.start) or self.start:
                raise ValueError(f"{who} takes start only together with to and end, got start={self.start!r}.")
            return
        self._set(to=as_real(who, "to", self.to, "a finite mean age to > 0"))
        self._set(end=as_real(who, "end", self.end, "a finite step end > 0"))
        if any(map(is_traced, (self.age, self.to, self.start, self.end))):
            return
        if not self.end > self.start:
            raise ValueError(f"{who} needs start < end, got start={self.start!r}, end={self.end!r}.")
        if not self._slope < 1:
            raise ValueError(
                f"{who} cannot age by 1 or more per step, got {self.age!r} to {self.to!r} in the "
                f"{self.end - self.start:g} steps from start={self.start:g} to end={self.end:g}."
            )

    @property
    def _slope(self) -> float:
        return 0.0 if self.to is None or self.end is None else (self.to - self.age) / (self.end - self.start)

    def _age(self, k: Any, xp: Any) -> Any:
        target = k * 0.0 + self.age
        if self.to is not None and self.end is not None:
            changing = self.age + self._slope * (k - self.start)
            target = xp.where(k < self.start, target, xp.where(k < self.end, changing, k * 0.0 + self.to))
        return xp.where(0.5 * k < target, 0.5 * k, target)

    def _decay(self, k: Any, xp: Any) -> Any:
        return self._age(k, xp) / (1 + self._age_before(k, xp))

    def _fresh(self, k: Any, xp: Any) -> Any:
        before = self._age_before(k, xp)
        return (1 + (before - self._age(k, xp))) / (1 + before)

    def _age_before(self, k: Any, xp: Any) -> Any:
        return self._age(xp.where(k > 0, k - 1, k * 0.0), xp)


def from_age(
    age: float | Iterable[float] | Callable[[Any], Any], *, to: float | None, start: float, end: float | None
) -> Memory:
    """The memory with given mean ages; see `Memory.from_age`."""
    # The type of arrays, and of numbers that JAX is tracing, is iterable, although those of dimension 0 are not.
    if getattr(age, "ndim", None) == 0 or not (callable(age) or isinstance(age, Iterable)):
        return Aged(age, to=to, start=start, end=end)  # type: ignore[arg-type]  # one number
    if to is not None or end is not None or start:
        raise ValueError("Memory.from_age takes to, start and end with a single age, not with the ages of all steps.")
    if callable(age):
        ages = age
        # (k - 1)(k > 0) is max(k - 1, 0), for tensors too.
        return FromDecays(lambda k: _decay_of_ages(k, ages(k), ages((k - 1) * (k > 0))))
    listed = list(age)
    return FromDecays(_decay_of_ages(k, a, listed[max(k - 1, 0)]) for k, a in enumerate(listed))


def _decay_of_ages(k: Any, age: Any, before: Any) -> Any:
    if not isinstance(k, int):
        return age / (1 + before)  # a tensor's values are not checked, as elsewhere
    if isinstance(age, bool | str) or not 0 <= age < 1 + before or (k == 0 and age != 0):
        rule = "a_0 = 0" if k == 0 else f"0 <= a_{k} < 1 + a_{k - 1} = {1 + before!r}"
        raise ValueError(f"mean ages need {rule}, got a_{k}={age!r}.")
    return age / (1 + before)


@final
@dataclass(frozen=True)
class Cooled(Memory):
    r"""Polynomial memory that grows young again toward a last step: $b_k = k s_k/(k s_k + p)$, $s_k = (1-k/T)^q$.

    At first it is `poly:p`, whose mean age is $k/(p+1)$. Its local degree $p/s_k$ grows without bound as the $T$ steps
    run out, and from step $T$ on only the newest gradient counts. That is the shape which the best schedules of
    `memgrad.theory.design` have.

    Args:
        p: The degree at the start, finite and > 0.
        steps: $T$, finite and >= 1.
        power: $q$, finite and > 0.

    Example:
        >>> memory = Cooled(1.5, steps=1000, power=2)
        >>> [round(memory.passport(k).mean_age, 1) for k in (10, 100, 500, 900, 990)]
        [4.0, 36.4, 90.3, 6.8, 0.1]
    """

    p: float
    steps: float = field(kw_only=True)
    power: float = field(default=2.0, kw_only=True)

    family: ClassVar[str] = "cooled"
    example: ClassVar[str] = "cooled:1.5,1000,power=2"
    decay_formula: ClassVar[str] = "k s_k/(k s_k + p), s_k = (1 - k/T)^q"

    def __post_init__(self) -> None:
        who = "a cooled memory"
        p = as_real(who, "p", self.p, "a finite degree p > 0")
        steps = as_real(who, "steps", self.steps, "a finite number of steps >= 1")
        if not (is_traced(steps) or steps >= 1):
            raise ValueError(f"{who} needs a finite number of steps >= 1, got steps={self.steps!r}.")
        self._set(p=p, steps=steps, power=as_real(who, "power", self.power, "a finite power > 0"))

    def _decay(self, k: Any, xp: Any) -> Any:
        old = k * remaining(k, self.steps, self.power, xp)
        return old / (old + self.p)

    def _fresh(self, k: Any, xp: Any) -> Any:
        return self.p / (k * remaining(k, self.steps, self.power, xp) + self.p)


@final
@dataclass(frozen=True)
class RampedExponential(Memory):
    r"""Exponential memory whose decay rises from `start` to `beta` over the first steps, as in AdEMAMix.

    The average $u_k = \beta_k u_{k-1} + (1-\beta_k) g_k$ from $u_{-1} = 0$, divided by the sum
    $S_k = 1 - \prod_{h \le k} \beta_h$ of its weights: $b_k = \beta_k S_{k-1}/S_k$. $1/\log\beta_k$, the half-life, is
    linear in $t = k + 1$ up to `steps`.

    Args:
        beta: The last decay, 0 < beta < 1.
        start: The first decay, 0 < start <= beta.
        steps: Number of steps of the ramp, an integer >= 1.

    Example:
        >>> memory = RampedExponential(0.999, start=0.9, steps=100)
        >>> memory.decay(0), round(memory.decay(10_000), 4)
        (0.0, 0.999)

    Reference:
        Pagliardini, Ablin and Grangier, *The AdEMAMix optimizer*, arXiv 2409.03137, Sec. 3 and App. A.1.
    """

    beta: float
    start: float = field(kw_only=True)
    steps: float = field(kw_only=True)
    _logs: Any = field(init=False, repr=False, compare=False)
    _array: Any = field(init=False, repr=False, compare=False)

    family: ClassVar[str] = "expramp"
    example: ClassVar[str] = "expramp:0.9999,0.9,1000"
    decay_formula: ClassVar[str] = "beta_k S_(k-1)/S_k"

    def __post_init__(self) -> None:
        who = "a ramped exponential memory"
        beta = as_real(who, "beta", self.beta, "0 < beta < 1", below=1.0)
        start = as_real(who, "start", self.start, "0 < start < 1", below=1.0)
        steps = as_real(who, "steps", self.steps, "an integer number of steps >= 1")
        if is_traced(steps):
            raise TypeError(
                f"{who} keeps a number per step, so steps must be known and not traced, got steps={steps!r}."
            )
        if not (is_traced(start) or is_traced(beta)) and start > beta:
            raise ValueError(f"{who} needs start <= beta, got start={start!r}, beta={beta!r}.")
        if steps != math.floor(steps):
            raise ValueError(f"{who} needs an integer number of steps >= 1, got steps={self.steps!r}.")
        self._set(beta=beta, start=start, steps=steps)
        logs = self._summed_logs()  # here, because torch.compile does not trace a cache
        self._set(_logs=logs, _array=np.array(logs) if isinstance(logs, tuple) else logs)

    def _log_beta(self, k: Any, xp: Any) -> Any:
        share = (k + 1.0) / self.steps
        share = xp.where(share < 1, share, share * 0.0 + 1.0)
        return 1 / ((1 - share) / _log(self.start) + share / _log(self.beta))

    def _summed_logs(self) -> Any:
        """The logarithms of beta_0 ... beta_k over the ramp, until the product is negligible compared with 1.

        If JAX is tracing a decay, no one knows when that is, and they are summed to the end of the ramp.
        """
        traced = next((number for number in (self.beta, self.start) if is_traced(number)), None)
        if traced is not None:
            xp = namespace_of(traced)
            return xp.cumsum(self._log_beta(xp.arange(self.steps), xp))
        longest = min(self.steps, 1 + 40 / -math.log(self.beta))
        logs = np.cumsum(self._log_beta(np.arange(longest), np))
        return tuple(logs[: 1 + np.count_nonzero(logs >= -40)].tolist())

    def _log_product(self, k: Any, xp: Any) -> Any:
        logs = self._array if xp is np else self._logs  # a table of a million numbers is not made an array each time
        last = len(logs) - 1
        inside = entries(logs, xp.where(k < last, k, k * 0.0 + last), logs[-1], xp)
        return inside + xp.where(k > last, k - last, k * 0.0) * _log(self.beta)

    def _cold(self, k: Any, xp: Any) -> Any:
        return -xp.expm1(self._log_product(k, xp))

    def _decay(self, k: Any, xp: Any) -> Any:
        before = xp.where(k > 0, self._cold(xp.where(k > 0, k - 1, k * 0.0), xp), k * 0.0)
        return xp.exp(self._log_beta(k, xp)) * before / self._cold(k, xp)

    def _fresh(self, k: Any, xp: Any) -> Any:
        # Both are the same at k = 0, except for the rounding of a table in single precision.
        return 1.0 * xp.where(k > 0, -xp.expm1(self._log_beta(k, xp)) / self._cold(k, xp), k * 0.0 + 1.0)


def _log(number: Any) -> Any:
    """The logarithm of a number that JAX may be tracing."""
    return namespace_of(number).log(number)
