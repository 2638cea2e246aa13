"""What is remembered: `Memory`, its families, and their passports.

Everything else in memgrad is made of this one object. It imports the standard library and numpy alone.
"""

from memgrad.memory.base import Memory
from memgrad.memory.custom import FromDecays, Sampled
from memgrad.memory.exponential import Exponential
from memgrad.memory.families import (
    CONSTANT,
    CUBIC,
    LINEAR,
    QUADRATIC,
    SQUARE_ROOT,
    Instantaneous,
    Logarithmic,
    Polynomial,
    PowerDecay,
    Stretched,
)
from memgrad.memory.gains import COLD, SUM, Gain
from memgrad.memory.mixture import Mixture, Part
from memgrad.memory.passport import MixturePassport, Passport
from memgrad.memory.scheduled import Aged, RampedExponential
from memgrad.memory.text import FAMILIES

__all__ = [
    "COLD",
    "CONSTANT",
    "CUBIC",
    "FAMILIES",
    "LINEAR",
    "QUADRATIC",
    "SQUARE_ROOT",
    "SUM",
    "Aged",
    "Exponential",
    "FromDecays",
    "Gain",
    "Instantaneous",
    "Logarithmic",
    "Memory",
    "Mixture",
    "MixturePassport",
    "Part",
    "Passport",
    "Polynomial",
    "PowerDecay",
    "RampedExponential",
    "Sampled",
    "Stretched",
]
