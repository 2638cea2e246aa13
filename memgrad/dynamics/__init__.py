"""Memory in continuous time: equations, their solutions, simulations, exact moments and changes of time.

Where to find what::

    equations, first_order  the differential equations; their friction is in `viscosity`, their noise in `noise`
    ordinary                solving them without noise
    stochastic              simulating them with noise; the schemes are in `integrators`, their coefficients in `kicks`,
                            and which steps are too long in `step_limits`
    moments, responses      exact moments in continuous time, and the closed forms behind them
    discrete                exact moments of the methods themselves, step by step
    risk, spectra           the exact risk of methods on least squares with any spectrum, power laws among them
    exponents               exponents of power laws: predicted, and fitted to curves
    mixture_flow            mixtures in continuous time
    timewarp, lagrangian    changes of time; the variational origin of memory
    results                 what a solution or a simulation returns; how paths are summarized, and divergence worded
    flows, quadrature       equations by name; points and weights of integration
"""

from memgrad.extras import require

require("memgrad.dynamics", extra="lab", modules=("scipy",))

from memgrad.dynamics.discrete import (  # noqa: E402  # after the check, which names the extra
    MethodMoments,
    laguerre_mean,
    limit_variance,
    method_moments,
)
from memgrad.dynamics.equations import (  # noqa: E402
    Equation,
    ExponentialFlow,
    HeavyBallFlow,
    MemoryFlow,
    SecondOrder,
)
from memgrad.dynamics.exponents import fit_exponent, kappa_of, predicted_exponent  # noqa: E402
from memgrad.dynamics.first_order import AmplifiedFlow, FirstOrder, GradientFlow  # noqa: E402
from memgrad.dynamics.integrators import SCHEMES  # noqa: E402
from memgrad.dynamics.lagrangian import MemoryLagrangian, integral_residual  # noqa: E402
from memgrad.dynamics.mixture_flow import GainWarp, MixtureFlow  # noqa: E402
from memgrad.dynamics.moments import Moments, moments  # noqa: E402
from memgrad.dynamics.ordinary import solve  # noqa: E402
from memgrad.dynamics.results import Ensemble, Statistics, Trajectory  # noqa: E402
from memgrad.dynamics.risk import Risk, exact_risk  # noqa: E402
from memgrad.dynamics.spectra import Spectrum, sgd_limit  # noqa: E402
from memgrad.dynamics.stochastic import simulate, simulate_together  # noqa: E402
from memgrad.dynamics.timewarp import TimeWarp, time_warp  # noqa: E402
from memgrad.dynamics.viscosity import (  # noqa: E402
    ConstantViscosity,
    HyperbolicViscosity,
    MemoryViscosity,
    Viscosity,
    as_viscosity,
)

__all__ = [
    "SCHEMES",
    "AmplifiedFlow",
    "ConstantViscosity",
    "Ensemble",
    "Equation",
    "ExponentialFlow",
    "FirstOrder",
    "GainWarp",
    "GradientFlow",
    "HeavyBallFlow",
    "HyperbolicViscosity",
    "MemoryFlow",
    "MemoryLagrangian",
    "MemoryViscosity",
    "MethodMoments",
    "MixtureFlow",
    "Moments",
    "Risk",
    "SecondOrder",
    "Spectrum",
    "Statistics",
    "TimeWarp",
    "Trajectory",
    "Viscosity",
    "as_viscosity",
    "exact_risk",
    "fit_exponent",
    "integral_residual",
    "kappa_of",
    "laguerre_mean",
    "limit_variance",
    "method_moments",
    "moments",
    "predicted_exponent",
    "sgd_limit",
    "simulate",
    "simulate_together",
    "solve",
    "time_warp",
]
