"""Memory in continuous time: equations, their solutions, simulations, exact moments and changes of time."""

from memgrad.extras import require

require("memgrad.dynamics", extra="lab", modules=("scipy",))

from memgrad.dynamics.equations import (  # noqa: E402  # after the check, which names the extra
    AmplifiedFlow,
    Equation,
    ExponentialFlow,
    FirstOrder,
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
    SecondOrder,
)
from memgrad.dynamics.integrators import SCHEMES  # noqa: E402
from memgrad.dynamics.ordinary import solve  # noqa: E402
from memgrad.dynamics.results import Ensemble, Statistics, Trajectory  # noqa: E402
from memgrad.dynamics.stochastic import simulate, simulate_together  # noqa: E402

__all__ = [
    "SCHEMES",
    "AmplifiedFlow",
    "Ensemble",
    "Equation",
    "ExponentialFlow",
    "FirstOrder",
    "GradientFlow",
    "HeavyBallFlow",
    "MemoryFlow",
    "SecondOrder",
    "Statistics",
    "Trajectory",
    "simulate",
    "simulate_together",
    "solve",
]
