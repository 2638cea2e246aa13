"""The theorems as functions: bounds that check their assumptions, and the advice that follows from them.

Where to find what::

    continuous, master      bounds in continuous time: for one family, and for any memory
    discrete                bounds of MemSGD and of any discrete memory, step by step
    heavy_ball              bounds of the heavy-ball method
    linear_rates            bounds that decrease exponentially
    registry                the table of all bounds; a new one needs a line there
    bound                   `Bound` itself, the checks of assumptions and their shared wording
    quantities              the arguments of bounds: what each means, and its domain
    design, adjoint         the best memory and gain for a spectrum and a number of steps; gradients for that search
    advice, tables          what the bounds recommend; the paper's tables of rates
"""

from memgrad.deprecation import deprecated_modules
from memgrad.extras import require

require("memgrad.theory", extra="lab", modules=("scipy",))

from memgrad.theory.advice import Advice, best_degree, best_lr  # noqa: E402  # after the check, which names the extra
from memgrad.theory.bound import AssumptionError, Bound  # noqa: E402
from memgrad.theory.continuous import exponential, instantaneous, polynomial  # noqa: E402
from memgrad.theory.design import Candidate, Design, design, recipe  # noqa: E402
from memgrad.theory.discrete import discrete_master, memsgd  # noqa: E402
from memgrad.theory.heavy_ball import (  # noqa: E402
    Polyak,
    heavy_ball,
    heavy_ball_bounded,
    heavy_ball_gradient,
    polyak,
)
from memgrad.theory.linear_rates import (  # noqa: E402
    GammaBounds,
    best_gamma,
    exponential_general,
    exponential_strongly_convex,
    gamma_bounds,
    heavy_ball_strongly_convex,
)
from memgrad.theory.master import master  # noqa: E402
from memgrad.theory.registry import Entry, Parameter, bounds  # noqa: E402
from memgrad.theory.tables import TABLE_1, TABLE_3, Row  # noqa: E402

__all__ = [
    "TABLE_1",
    "TABLE_3",
    "Advice",
    "AssumptionError",
    "Bound",
    "Candidate",
    "Design",
    "Entry",
    "GammaBounds",
    "Parameter",
    "Polyak",
    "Row",
    "best_degree",
    "best_gamma",
    "best_lr",
    "bounds",
    "design",
    "discrete_master",
    "exponential",
    "exponential_general",
    "exponential_strongly_convex",
    "gamma_bounds",
    "heavy_ball",
    "heavy_ball_bounded",
    "heavy_ball_gradient",
    "heavy_ball_strongly_convex",
    "instantaneous",
    "master",
    "memsgd",
    "polyak",
    "polynomial",
    "recipe",
]

_BOUND = ("AssumptionError", "Bound", "assume", "assume_growth", "covariance_given", "noise_given")
deprecated_modules({"memgrad.theory.bounds": {name: f"memgrad.theory.bound.{name}" for name in _BOUND}})
