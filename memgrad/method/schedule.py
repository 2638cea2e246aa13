r"""Schedules of the learning rate as values: $\eta_k = \eta^* s_k$ with a peak $\eta^*$ and factors $s_k \le 1$."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from memgrad.kinds import is_real, number_form
from memgrad.suggestions import did_you_mean

Shape = Literal["constant", "linear", "cosine", "wsd", "inverse-root"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
EXAMPLE = "linear(warmup=0.05)"

_FORM = re.compile(r"(?P<shape>[a-z\-]+)\s*(?:\((?P<options>[^()]*)\))?")


@final
@dataclass(frozen=True)
class Schedule:
    r"""A schedule of the learning rate: a linear warm-up to the peak, then one of five shapes down to a floor.

    In a run of $T$ steps, with $w$ steps of warm-up and the floor $f$, for $k = 0, 1, \dots, T-1$:

    $$s_k = \frac{k+1}{w} \quad (k < w), \qquad s_k = f + (1-f)\, r_k \quad (k \ge w),$$

    - `constant`: $r_k = 1$.
    - `linear`: $r_k = (T-k)/(T-w)$.
    - `cosine`: $r_k = \frac12 (1 + \cos(\pi (k-w)/(T-w)))$.
    - `wsd` (warm-up, stable, decay): $r_k = 1$ until the last $d$ steps, then $(T-k)/d$.
    - `inverse-root`: $s_k = \max(f, \sqrt{w'/(k+1)})$ instead, with $w' = \max(w, 1)$.

    The floor would be reached at $k = T$, so no step is lost to a learning rate of 0.

    Args:
        shape: One of the five.
        warmup: The warm-up, 0 <= warmup: below 1 a share of the steps, otherwise a whole number of them.
        floor: $f$, the smallest factor after the warm-up, 0 <= floor <= 1.
        decay: Of `wsd` alone: the decay at the end, > 0; below 1 a share of the steps, otherwise a whole number.

    Example:
        >>> schedule = Schedule("linear", warmup=0.2)
        >>> schedule.factors(10)
        array([0.5  , 1.   , 1.   , 0.875, 0.75 , 0.625, 0.5  , 0.375, 0.25 ,
               0.125])
        >>> print(schedule)
        linear(warmup=0.2)
        >>> Schedule.parse("linear(warmup=0.2)") == schedule
        True

    Reference:
        Loshchilov and Hutter, ICLR 2017, for the cosine; Hu et al., arXiv 2404.06395, for `wsd`; Vaswani et al.,
        NeurIPS 2017, for the inverse root.
    """

    shape: Shape = "constant"
    warmup: float = 0.0
    floor: float = 0.0
    decay: float = 0.2

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(
                f"unknown schedule {self.shape!r}{did_you_mean(self.shape, SHAPES)} Known schedules: "
                f"{', '.join(SHAPES)}."
            )
        for name in ("warmup", "floor", "decay"):
            if not is_real(getattr(self, name)):
                raise TypeError(f"the schedule {self.shape} needs a number {name}, got {name}={getattr(self, name)!r}.")
            object.__setattr__(self, name, float(getattr(self, name)))
        if not 0 <= self.floor <= 1:
            raise ValueError(f"the schedule {self.shape} needs 0 <= floor <= 1, got floor={self.floor!r}.")
        for name, least in (("warmup", "0 <= warmup"), ("decay", "0 < decay")):
            value = getattr(self, name)
            is_part = 0 <= value < 1 or (value >= 1 and value.is_integer())
            if not is_part or (name == "decay" and value == 0):
                raise ValueError(
                    f"the schedule {self.shape} needs {least}, a share of the steps below 1 or a whole number of them, "
                    f"got {name}={value!r}."
                )
        for name, used in (("decay", self.shape == "wsd"), ("floor", self.shape != "constant")):
            if not used and getattr(self, name) != getattr(Schedule, name):
                raise ValueError(f"the schedule {self.shape} has no {name}, got {name}={getattr(self, name)!r}.")

    @property
    def is_constant(self) -> bool:
        """Whether the learning rate is its peak at every step.

        Example:
            >>> Schedule().is_constant, Schedule(warmup=10).is_constant
            (True, False)
        """
        return (self.shape == "constant" or self.floor == 1) and not self.warmup

    def check(self, steps: int) -> None:
        """Refuse a run that is shorter than the schedule: its warm-up, and its decay, must fit into the steps.

        Example:
            >>> Schedule("linear", warmup=100).check(50)
            Traceback (most recent call last):
            ...
            ValueError: the schedule linear(warmup=100) is longer than the run: a warm-up of 100 steps needs more than \
100 steps, got 50.
        """
        warmup, decay = self._steps(self.warmup, steps), self._steps(self.decay, steps) if self.shape == "wsd" else 0
        least = warmup + max(decay, 1)
        if steps < least:
            parts = f"a warm-up of {warmup} steps" + (f" and a decay of {decay}" if decay else "")
            rule = f"need at least {least}" if decay else f"needs more than {warmup}"
            raise ValueError(f"the schedule {self} is longer than the run: {parts} {rule} steps, got {steps}.")

    def factor(self, k: Any, steps: int) -> Any:
        """The factor $s_k$ at step k of a run of this many steps: a float for a number, an array for an array."""
        self.check(steps)
        at = np.asarray(k, dtype=np.float64)
        warmup = self._steps(self.warmup, steps)
        rising = (at + 1) / warmup if warmup else np.ones_like(at)
        values = np.where(at < warmup, rising, self._after(at, warmup, steps))
        return float(values) if np.ndim(k) == 0 else values

    def factors(self, steps: int) -> NDArray[np.float64]:
        """The factors of all steps of a run."""
        found: NDArray[np.float64] = self.factor(np.arange(steps), steps)
        return found

    def over(self, steps: int) -> Callable[[int], float]:
        """The factor as a function of the step, for `torch.optim.lr_scheduler.LambdaLR`; the last one after the end.

        Example:
            >>> Schedule("linear").over(4)(1)
            0.75
        """
        factors = self.factors(steps)
        return lambda k: float(factors[min(k, steps - 1)])

    def _after(self, k: NDArray[np.float64], warmup: int, steps: int) -> NDArray[np.float64]:
        """The factors after the warm-up; before it they mean nothing."""
        left = np.clip((steps - k) / (steps - warmup), 0.0, 1.0)
        if self.shape == "inverse-root":
            return np.asarray(np.maximum(self.floor, np.sqrt(max(warmup, 1) / (k + 1))))
        if self.shape == "linear":
            rest = left
        elif self.shape == "cosine":
            rest = (1 - np.cos(np.pi * left)) / 2
        elif self.shape == "wsd":
            rest = np.clip((steps - k) / self._steps(self.decay, steps), 0.0, 1.0)
        else:
            rest = np.ones_like(k)
        return np.asarray(self.floor + (1 - self.floor) * rest)

    @staticmethod
    def _steps(part: float, steps: int) -> int:
        """A part of the run in steps; a share of them is rounded, and at least one step where it is not 0."""
        return int(part) if part >= 1 or part == 0 else max(1, round(part * steps))

    @staticmethod
    def parse(text: str) -> Schedule:
        """The schedule with this text form, such as `linear(warmup=0.05)` or `wsd(warmup=100,decay=0.2,floor=0.1)`.

        Example:
            >>> Schedule.parse("cosine(floor=0.1)")
            Schedule(shape='cosine', warmup=0.0, floor=0.1, decay=0.2)
        """
        if not isinstance(text, str):
            raise TypeError(f"the text form of a schedule is a string such as {EXAMPLE!r}, got {text!r}.")
        found = _FORM.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is not a schedule; write one as in {EXAMPLE!r} or 'constant'.")
        options: dict[str, float] = {}
        known = [each.name for each in fields(Schedule) if each.name != "shape"]
        for part in filter(None, map(str.strip, (found["options"] or "").split(","))):
            name, _, value = map(str.strip, part.partition("="))
            if name not in known:
                hint = did_you_mean(name, known)
                raise ValueError(f"the schedule {text!r} has no option {name!r}{hint} It has {', '.join(known)}.")
            if name in options:
                raise ValueError(f"the schedule {text!r} gives {name} twice; give it once.")
            try:
                options[name] = float(value)
            except ValueError:
                raise ValueError(f"the schedule {text!r} needs a number for {name}, got {value!r}.") from None
        return Schedule(found["shape"], **options)  # type: ignore[arg-type]  # an unknown shape is refused there

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in ("warmup", "decay", "floor")}
        changed = {name: value for name, value in given.items() if value != getattr(Schedule, name)}
        options = [f"{name}={number_form(value)}" for name, value in changed.items()]
        return f"{self.shape}({','.join(options)})" if options else self.shape
