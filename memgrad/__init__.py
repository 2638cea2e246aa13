"""memgrad: choose, see, simulate and prove how an optimizer remembers past gradients."""

from typing import TYPE_CHECKING

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
    from memgrad.optim.audit import audit

__version__ = "0.2.0"

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
