"""memgrad: choose, see, simulate and prove how an optimizer remembers past gradients."""

from typing import TYPE_CHECKING

from memgrad.memory import (
    CONSTANT,
    CUBIC,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Exponential,
    FromDecays,
    Instantaneous,
    Logarithmic,
    Memory,
    Passport,
    Polynomial,
    PowerDecay,
    Sampled,
    Stretched,
)

if TYPE_CHECKING:
    from memgrad.optim import ADana, HeavyBall, MemAdam, MemSGD, Nesterov, PolyAdam, audit, memory_average

__version__ = "0.1.0"

__all__ = [
    "CONSTANT",
    "CUBIC",
    "LINEAR",
    "QUADRATIC",
    "SQUARE_ROOT",
    "ADana",
    "Exponential",
    "FromDecays",
    "HeavyBall",
    "Instantaneous",
    "Logarithmic",
    "MemAdam",
    "MemSGD",
    "Memory",
    "Nesterov",
    "Passport",
    "PolyAdam",
    "Polynomial",
    "PowerDecay",
    "Sampled",
    "Stretched",
    "__version__",
    "audit",
    "memory_average",
]


def __getattr__(name: str) -> object:
    # torch takes a second to load and may not be there: whoever only looks at memories must not need it.
    if name not in __all__:
        raise AttributeError(f"module 'memgrad' has no attribute {name!r}")
    from memgrad import optim

    return getattr(optim, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
