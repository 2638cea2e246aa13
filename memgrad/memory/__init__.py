"""What is remembered: `Memory`, its families, and their passports.

Everything else in memgrad is made of this one object. It imports the standard library and numpy alone.
"""

from memgrad.memory.base import Memory
from memgrad.memory.custom import FromDecays, Sampled
from memgrad.memory.families import (
    CONSTANT,
    CUBIC,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Exponential,
    Instantaneous,
    Logarithmic,
    Polynomial,
    PowerDecay,
    Stretched,
)
from memgrad.memory.passport import Passport
from memgrad.memory.text import FAMILIES

__all__ = [
    "CONSTANT",
    "CUBIC",
    "FAMILIES",
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
]
