"""The paper's synthetic and continuous-time figures: their names, settings, and what the paper says they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from memgrad.paper import settings


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper.

    Attributes:
        name: Its name on the command line.
        label: Its label in the paper's source, or the section it is in.
        title: What it shows, in one line.
        published: What the paper says it shows.
        settings: What it is run with.
    """

    name: str
    label: str
    title: str
    published: str
    settings: settings.Settings

    @property
    def is_random(self) -> bool:
        """Whether it depends on a seed."""
        return hasattr(self.settings, "seed")


_FIGURES = (
    PaperFigure(
        "memories",
        "memory_types",
        "The influence of past gradients on a step.",
        "Seven memory functions and the instantaneous one; the area under all curves is 1.",
        settings.MemoryTypesSettings(),
    ),
    PaperFigure(
        "hb-amplification",
        "HB_amplification",
        "Nesterov's SDE and quadratic memory under the same noise.",
        "Nesterov's SDE is faster at the beginning, then becomes unstable; MG-SDE settles.",
        settings.AmplificationSettings(),
    ),
    PaperFigure(
        "time-warp",
        "timewarp",
        "Linear memory runs along Nesterov's path, at another speed.",
        "The two paths are almost identical while gradients are large; near the solution Nesterov's diverges.",
        settings.TimeWarpSettings(),
    ),
    PaperFigure(
        "verif-noise",
        "verif_noise",
        "Velocities under a constant gradient.",
        "MG-SDE settles to -1 with decreasing variance; Nesterov's SDE amplifies gradient and noise linearly.",
        settings.ConstantNoiseSettings(),
    ),
    PaperFigure(
        "quadratic-variance",
        "quadratic_variance",
        "Exact second moments on a quadratic.",
        "The covariance of Nesterov's velocity explodes; that of quadratic memory converges.",
        settings.SecondMomentsSettings(),
    ),
    PaperFigure(
        "verif-noise-quadratic",
        "verif_noise_quadratic",
        "Velocities on a quadratic.",
        "The simulated covariance of Nesterov's velocity explodes; that of quadratic memory decreases.",
        settings.QuadraticNoiseSettings(),
    ),
    PaperFigure(
        "bound-beta",
        "bound_beta",
        "The lemma behind the linear rate.",
        "Two simple lower bounds of the curve, which overlap at 3.13 (it is 3.162: erratum 35).",
        settings.GammaBoundsSettings(),
    ),
    PaperFigure(
        "bound-beta-2",
        "bound_beta_2",
        "The feasible region of the linear rate.",
        "The feasible region with the optimal and the approximate solution.",
        settings.GammaRegionSettings(),
    ),
    PaperFigure(
        "odes",
        "App. F",
        "Momentum and memory without noise: paths and losses.",
        "Losses on a quadratic fall faster for larger p; 1/t viscosity has the path of constant forgetting, "
        "3/t that of linear forgetting.",
        settings.OdesSettings(),
    ),
    PaperFigure(
        "p-verification",
        "p_verification",
        "MemSGD with linear, exponential and instantaneous forgetting on a quartic.",
        "Linear memory has a much smoother path, and slightly more noise in the end, than SGD.",
        settings.SmoothingSettings(),
    ),
)

FIGURES: Mapping[str, PaperFigure] = MappingProxyType({each.name: each for each in _FIGURES})
"""All figures, in the paper's order."""
