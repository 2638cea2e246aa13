"""Functions to minimize, with their gradients, Hessians, minimizers, constants and noise. numpy and torch alike.

Where to find what::

    base                    `Objective`: what every function provides
    formulas                test functions with a formula
    regression              least squares, logistic regression and their like, from data
    text                    text forms, and the table of functions by name
"""

from memgrad.problems.objectives.base import Objective
from memgrad.problems.objectives.formulas import SU, ConstantGradient, Huber, LogCosh, Quadratic, Quartic
from memgrad.problems.objectives.regression import LeastSquares, Logistic, PowerLaw
from memgrad.problems.objectives.text import FAMILIES

__all__ = [
    "FAMILIES",
    "SU",
    "ConstantGradient",
    "Huber",
    "LeastSquares",
    "LogCosh",
    "Logistic",
    "Objective",
    "PowerLaw",
    "Quadratic",
    "Quartic",
]
