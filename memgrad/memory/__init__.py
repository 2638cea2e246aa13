"""What is remembered: `Memory`, its families, gains, mixtures and passports.

Everything else in memgrad is built on this package, which imports only the standard library and numpy.

Where to find what::

    base                    `Memory`: what every family provides
    families, exponential   the families; their fields are the parameters of their text forms, and a new family needs
                            a line in `text.FAMILIES`
    scheduled, custom       memories that follow a schedule, and memories that users define
    gains                   `Gain`: how strongly a memory counts
    gain_factors            the kinds of gain, such as powers and ramps, and their names in text forms
    mixture                 `Mixture`: several memories, each with its gain
    text                    text forms and plain data, in both directions
    passport                mean age, half-life and other statistics after k steps, as values and as rows
    long_past               computing them; families with closed forms override `Memory._statistics`
    kinds                   Python, numpy, torch and JAX numbers, from one formula
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
from memgrad.memory.scheduled import Aged, Cooled, RampedExponential
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
    "Cooled",
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
