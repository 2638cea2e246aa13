"""memgrad: choose, see, simulate and prove how an optimizer remembers past gradients.

Where to find what, each package built on those above it::

    memory                  what is remembered: memories, gains, mixtures
    method                  what a step does with them
    optim, transforms       methods as optimizers of torch, and as transformations of optax
    dynamics, theory        continuous time and exact moments; bounds, advice and design
    problems                what is optimized: objectives, data sets, models
    experiments             comparing methods: planning, training, storing, results, racing
    paper                   the paper's experiments, figures and claims, and our own
    figures, report         pictures; the report on a reproduction
    explorer, cli           the interactive page; the command line, which `__main__` starts

and what all of them share::

    statistics, tables      intervals, tests and their correction; tables of numbers as files
    files, user_code        atomic writes; code of the user's, by its name
    kinds, extras           kinds of arguments; optional dependencies
    amounts, suggestions    durations and counts in words; "did you mean ...?"
    deprecation             names that moved
"""

from typing import TYPE_CHECKING

from memgrad.deprecation import deprecated_modules
from memgrad.memory import (
    CONSTANT,
    CUBIC,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Aged,
    Cooled,
    Exponential,
    FromDecays,
    Gain,
    Instantaneous,
    Logarithmic,
    Memory,
    Mixture,
    Passport,
    Polynomial,
    PowerDecay,
    RampedExponential,
    Sampled,
    Stretched,
)

if TYPE_CHECKING:
    from memgrad.optim import (
        QHM,
        ADana,
        AdEMAMix,
        AggMo,
        HeavyBall,
        MemAdam,
        MemSGD,
        Nesterov,
        PolyAdam,
        memory_average,
    )
    from memgrad.optim.auditing.audit import audit
    from memgrad.optim.from_torch import from_torch

__version__ = "0.2.0"

deprecated_modules({"memgrad.durations": {"duration": "memgrad.amounts.duration"}})

__all__ = [
    "CONSTANT",
    "CUBIC",
    "LINEAR",
    "QHM",
    "QUADRATIC",
    "SQUARE_ROOT",
    "ADana",
    "AdEMAMix",
    "Aged",
    "AggMo",
    "Cooled",
    "Exponential",
    "FromDecays",
    "Gain",
    "HeavyBall",
    "Instantaneous",
    "Logarithmic",
    "MemAdam",
    "MemSGD",
    "Memory",
    "Mixture",
    "Nesterov",
    "Passport",
    "PolyAdam",
    "Polynomial",
    "PowerDecay",
    "RampedExponential",
    "Sampled",
    "Stretched",
    "__version__",
    "audit",
    "from_torch",
    "memory_average",
]


def __getattr__(name: str) -> object:
    # torch takes a second to load and may not be there: it must not be needed to look at memories.
    if name not in __all__:
        raise AttributeError(f"module 'memgrad' has no attribute {name!r}")
    from memgrad import optim

    return getattr(optim, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
