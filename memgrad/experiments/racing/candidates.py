"""Who takes part in a race: methods with a first guess of their learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

from memgrad.experiments.racing.learning_rates import learning_rate


@final
@dataclass(frozen=True)
class Candidate:
    """A method that takes part in a race.

    Attributes:
        name: Its name, different from that of every other candidate.
        lr: A guess of its learning rate, finite and > 0. The search starts there, a decade up and down.
        like: The candidate whose learning rate, once it is found, is a better guess; empty if there is none.
        factor: The guess is that learning rate times this factor, finite and > 0.
        baseline: Whether it is what people use today: the best other candidate is compared with the best of these.
        options: Whatever your training needs to know about it.

    Example:
        >>> Candidate("AdamW", lr=1e-3, baseline=True).name
        'AdamW'
    """

    name: str
    lr: float = 0.01
    like: str = ""
    factor: float = 1.0
    baseline: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise ValueError(f"a candidate needs a name of printable characters, got name={self.name!r}.")
        for key, value in (("lr", self.lr), ("factor", self.factor)):
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise ValueError(f"candidate {self.name!r} needs a finite {key} > 0, got {key}={value!r}.")


@final
@dataclass(frozen=True, order=True)
class Configuration:
    """A candidate at a learning rate: its name and the place on the grid of learning rates."""

    name: str
    place: int

    @property
    def lr(self) -> float:
        """The learning rate."""
        return learning_rate(self.place)

    def __str__(self) -> str:
        return f"{self.name}, lr {self.lr:g}"


def checked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates, if they can race; the first is the baseline if none is marked as one, or if all are."""
    names = [candidate.name for candidate in candidates]
    if len(names) < 2:
        raise ValueError(
            f"a race needs at least two methods to compare, got {', '.join(names) or 'none'}; add another, or leave "
            "the methods out for the default portfolio. `memgrad run` trains one method at several learning rates."
        )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"two candidates are called {name!r}; give them different names, as in \"AdamW(name='mine', ...)\"."
            )
    for candidate in candidates:
        if candidate.like and candidate.like not in names:
            raise ValueError(f"candidate {candidate.name!r} starts like {candidate.like!r}, which is not in the race.")
        followed, seen = candidate, {candidate.name}
        while followed.like:
            followed = candidates[names.index(followed.like)]
            if followed.name in seen:
                raise ValueError(f"candidate {candidate.name!r} starts like itself, by way of {', '.join(seen)}.")
            seen.add(followed.name)
    first, *others = candidates
    if any(each.baseline for each in candidates) and not all(each.baseline for each in candidates):
        return tuple(candidates)
    return (replace(first, baseline=True), *(replace(each, baseline=False) for each in others))
