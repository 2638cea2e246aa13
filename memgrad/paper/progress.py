"""Progress of an experiment that has several stages, and the time that several experiments will still take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import final

from memgrad.memory.passport import Progress

_FINE = 10_000


def stage(progress: Progress | None, number: int, stages: int) -> Progress | None:
    """The progress of one of several stages of about the same length, as progress of the whole.

    Args:
        progress: The callback for the whole, or None.
        number: Which stage, from 0.
        stages: The number of stages.

    Example:
        >>> second = stage(lambda done, total: print(done / total), 1, 4)
        >>> second(1, 2)
        0.375
    """
    if progress is None:
        return None
    return lambda done, total: progress(int(_FINE * (number + done / max(total, 1))), _FINE * stages)


@final
class Countdown:
    """How long experiments that follow each other will still take, from what was expected and what they took so far.

    Args:
        expected: What each experiment is expected to take, in their order: 0 for a finished one, otherwise
            seconds, or 1 for each where nothing is known about them.
        in_seconds: Whether these are seconds. Otherwise there is no answer before the first experiment has ended.
        clock: The time in seconds.

    Example:
        >>> times = iter([0.0, 30.0])
        >>> countdown = Countdown({"a": 10.0, "b": 20.0, "c": 40.0}, in_seconds=True, clock=lambda: next(times))
        >>> countdown.begin("a"), countdown.after()
        ('1 of 3', 60.0)
        >>> countdown.begin("b"), countdown.after()
        ('2 of 3', 120.0)
    """

    def __init__(
        self, expected: Mapping[str, float], *, in_seconds: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._expected, self._in_seconds, self._clock = dict(expected), in_seconds, clock
        self._ended: dict[str, float] = {}
        self._now: str | None = None
        self._began = 0.0

    def begin(self, name: str) -> str:
        """Say which experiment begins, which ends the one before; the answer is its place among all of them."""
        now = self._clock()
        if self._now is not None:
            self._ended[self._now] = now - self._began
        self._now, self._began = name, now
        return f"{list(self._expected).index(name) + 1} of {len(self._expected)}"

    def after(self) -> float | None:
        """The seconds that all experiments after this one will take, or None if that is not known yet."""
        return self._seconds(name for name in self._expected if name not in self._ended and name != self._now)

    def left(self) -> float | None:
        """The seconds that this experiment, which has just begun, and all after it will take, or None."""
        return self._seconds(name for name in self._expected if name not in self._ended)

    def _seconds(self, names: Iterable[str]) -> float | None:
        done = {name: spent for name, spent in self._ended.items() if self._expected[name] > 0}
        pace = sum(done.values()) / sum(map(self._expected.__getitem__, done)) if done else None
        if pace is None and not self._in_seconds:
            return None
        return (1.0 if pace is None else pace) * sum(map(self._expected.__getitem__, names))
