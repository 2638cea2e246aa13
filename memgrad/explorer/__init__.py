"""The interactive page about memory: one file, built from the sources in `explorer/` at the top of the repository."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from memgrad.memory import Exponential, Memory

PAGE = Path(__file__).with_name("index.html")
"""The page itself. It needs no server and no network."""

STEPS = 6
"""The steps of the story that the page tells."""

FAMILIES = ("poly", "exp", "inst", "log", "stretch", "power")
"""The families of memories that the page shows, by the name of their text form."""


def view(*, step: int = 1, memory: Memory | str | None = None) -> str:
    """The part of an address after `#` that makes the page show this view.

    Args:
        step: Step of the story, 1 to 6.
        memory: A memory of one of `FAMILIES`, or its text form, instead of the step's own.

    Example:
        >>> view(step=2, memory="poly:3")
        'step=2&memory=poly:3'
        >>> view(memory="decays:0,0.5")
        Traceback (most recent call last):
        ...
        ValueError: the explorer shows the memories poly, exp, inst, log, stretch, power, got decays:0,0.5.
    """
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= STEPS:
        raise ValueError(f"the explorer's story has the steps 1 to {STEPS}, got step={step!r}.")
    words = [f"step={step}"]
    if memory is not None:
        words.append(f"memory={quote(_text(Memory.parse(memory) if isinstance(memory, str) else memory), safe=':,=')}")
    return "&".join(words)


def _text(memory: Memory) -> str:
    if memory.family not in FAMILIES:
        raise ValueError(f"the explorer shows the memories {', '.join(FAMILIES)}, got {memory}.")
    if isinstance(memory, Exponential):  # it may be given by alpha; the page's slider is beta
        return f"exp:{memory.beta!r}" + ("" if memory.h == 1 else f",h={memory.h!r}")
    return str(memory)
