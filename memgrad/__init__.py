"""memgrad: choose, see, simulate and prove how an optimizer remembers past gradients."""

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

__version__ = "0.1.0"

__all__ = [
    "CONSTANT",
    "CUBIC",
    "LINEAR",
    "QUADRATIC",
    "SQUARE_ROOT",
    "Exponential",
    "FromDecays",
    "Instantaneous",
    "Logarithmic",
    "Memory",
    "Passport",
    "Polynomial",
    "PowerDecay",
    "Sampled",
    "Stretched",
    "__version__",
]
