"""How an optimizer stores a memory or a mixture: which averages it keeps, and under which names."""

from __future__ import annotations

from typing import NamedTuple

from memgrad.memory import Gain, Instantaneous, Memory, Mixture, Part
from memgrad.memory.text import as_memory, parse
from memgrad.optim.arithmetic import Scalar
from memgrad.optim.buckets import Step

_ONE = Gain.constant(1.0)
_INST = Instantaneous()
MOST_AVERAGES = 8
NEWEST = "newest"
"""The buffer of the newest gradient, where a rule needs one. It is no average: a memory that replaces `inst` begins."""

AVERAGES = ("average", *(f"average_{i}" for i in range(2, MOST_AVERAGES + 1)))
"""The names under which averages of gradients are kept, in the order of the mixture's parts."""


class Recall(NamedTuple):
    """What is kept of past gradients: one average per part; the newest gradient, with gain `instant`, needs none."""

    parts: tuple[Part, ...]
    instant: Gain | None
    names: tuple[str, ...]
    is_memory: bool
    """Whether it is a single memory with gain 1, which can be updated faster."""

    def gains(self, k: Step) -> list[Scalar]:
        """The gain of each average at step k."""
        if self.is_memory:
            return [1.0] * len(self.parts)
        return [part.gain.fixed if part.gain.fixed is not None else part.gain(k, part.memory) for part in self.parts]

    def instant_gain(self, k: Step) -> Scalar:
        """The gain of the newest gradient at step k; 0 if it is not a part."""
        if self.instant is None:
            return 0.0
        return self.instant.fixed if self.instant.fixed is not None else self.instant(k, _INST)


def recall_of(memory: Memory | Mixture) -> Recall:
    """What an optimizer keeps for this memory or mixture."""
    mixture = Mixture.of(memory)
    if mixture.memory is not None:
        if isinstance(mixture.memory, Instantaneous):
            return Recall((), _ONE, (), is_memory=True)
        return Recall(mixture.averages, None, AVERAGES[:1], is_memory=True)
    if len(mixture.averages) > MOST_AVERAGES:
        raise ValueError(
            f"an optimizer keeps at most {MOST_AVERAGES} averages, got the mixture {str(mixture)!r} of "
            f"{len(mixture.averages)}; several exponential averages can often be one memory of the same mean age."
        )
    return Recall(mixture.averages, mixture.instant, AVERAGES[: len(mixture.averages)], is_memory=False)


def memory_of(owner: str, name: str, value: Memory | Mixture | str, *, mixes: bool, scales: bool) -> Memory | Mixture:
    """The memory in an option, or a mixture if the option may mix memories or scale one by a gain."""
    if not mixes and not scales:
        return as_memory(owner, name, value)
    mixture = Mixture.of(value, owner, name)
    if not mixes and len(mixture.parts) > 1:
        raise ValueError(
            f"{owner} needs one memory, which may have a gain such as 'sum*poly:1', got {name}={str(mixture)!r}."
        )
    return mixture if mixture.memory is None else mixture.memory


def is_its_text(memory: Memory | Mixture) -> bool:
    """Whether the text form determines the memory: it is neither defined by code nor of a class of the user's."""
    try:
        return bool(parse(str(memory)) == memory)
    except (TypeError, ValueError):
        return False
