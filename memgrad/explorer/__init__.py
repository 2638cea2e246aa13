"""The interactive page about memory: one file, built from the sources in `explorer/` at the top of the repository.

`server` shows it in a browser.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from memgrad.memory import Exponential, Memory, Mixture

PAGE = Path(__file__).with_name("index.html")
"""The page itself. It needs no server and no network."""

STEPS = 13
"""The scenes of the story that the page tells."""

FAMILIES = ("poly", "exp", "inst", "log", "stretch", "power")
"""The families of memories that the page shows, by the name of their text form."""

FACTORS = frozenset({"power", "ramp", "sum", "cold"})
"""The factors of gains that the page shows, by their names; numbers need none."""


def view(*, step: int = 1, memory: Mixture | Memory | str | None = None) -> str:
    """The part of an address after `#` that makes the page show this view.

    Args:
        step: Scene of the story, 1 to 13.
        memory: A memory of one of `FAMILIES`, a mixture of such memories, or a text form, instead of the scene's own.

    Example:
        >>> view(step=2, memory="poly:3")
        'step=2&memory=poly:3'
        >>> view(step=13, memory="inst + (1+k)^0.15*poly:8")
        'step=13&memory=inst+(1+k)^0.15*poly:8'
        >>> view(memory="decays:0,0.5")
        Traceback (most recent call last):
        ...
        ValueError: the explorer shows the memories poly, exp, inst, log, stretch, power, got decays:0,0.5.
    """
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= STEPS:
        raise ValueError(f"the explorer's story has the scenes 1 to {STEPS}, got step={step!r}.")
    words = [f"step={step}"]
    if memory is not None:
        words.append(f"memory={quote(_text(Mixture.of(memory, 'the explorer')).replace(' ', ''), safe=':,=+()*^')}")
    return "&".join(words)


def _text(mixture: Mixture) -> str:
    """The text form in parameters that the page has sliders for."""
    parts = []
    for part in mixture:
        memory = part.memory
        if memory.family not in FAMILIES:
            raise ValueError(f"the explorer shows the memories {', '.join(FAMILIES)}, got {memory}.")
        name = str(memory)
        if isinstance(memory, Exponential):  # it may be given by alpha; the page's slider is beta
            name = f"exp:{memory.beta!r}" + ("" if memory.h == 1 else f",h={memory.h!r}")
        names = {factor.name for term in part.gain.terms for factor in term.factors}
        if not names <= FACTORS:
            raise ValueError(f"the explorer shows gains of numbers, (1+k)^a, ramp, sum and cold, got {part}.")
        parts += [name if str(term) == "1" else f"{term}*{name}" for term in part.gain.terms]
    return " + ".join(parts)
