"""All figures of the paper: their names, settings, what the paper says they show, and what draws them.

This is the one table of figures. It is read by the command line at every start, so it loads nothing that takes time:
the function that draws a figure is given by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from memgrad.paper.scales import POLYADAM, PROBLEMS, SETTINGS
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    GammaBoundsSettings,
    GammaRegionSettings,
    MemoryTypesSettings,
    OdesSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    Settings,
    SmoothingSettings,
    TimeWarpSettings,
)

_ALL = tuple(f"{problem}-{setting}" for setting in SETTINGS for problem in PROBLEMS)
_CLASSIFIED = tuple(name for name in _ALL if not name.startswith("autoencoder"))


@final
@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper. It is drawn from `settings`, or from the rows of the experiments it `needs`.

    Attributes:
        name: Its name on the command line.
        label: Its label in the paper's source, or the section it is in.
        title: What it is about, in one line.
        published: What the paper says it shows.
        shows: The picture in words, for those who do not see it.
        drawn_by: The module in `memgrad.paper` and the function that draw it.
        settings: The settings it is run with.
        needs: The experiments on real data whose rows it shows.
    """

    name: str
    label: str
    title: str
    published: str
    shows: str
    drawn_by: str
    settings: Settings | None = None
    needs: tuple[str, ...] = ()

    @property
    def is_random(self) -> bool:
        """Whether it depends on a seed."""
        return hasattr(self.settings, "seed")

    @property
    def where(self) -> str:
        """Its place in the paper."""
        return self.label if self.label.startswith(("App. ", "Sec. ")) else f"Fig. {self.label}"


_FIGURES = (
    PaperFigure(
        "memories",
        "memory_types",
        "The influence of past gradients on a step.",
        published="Seven memory functions and the instantaneous one; the area under all curves is 1.",
        shows=(
            "One panel: the weights of past gradients over the time at which they were seen, for seven memories from "
            "decaying over constant to super-exponential, and an arrow for the instantaneous one."
        ),
        drawn_by="figures.memories",
        settings=MemoryTypesSettings(),
    ),
    PaperFigure(
        "hb-amplification",
        "HB_amplification",
        "Nesterov's SDE and quadratic memory under the same noise.",
        published="Nesterov's SDE is faster at the beginning, then becomes unstable; MG-SDE settles.",
        shows=(
            "Three panels: two paths in the plane, their losses over time, and mean losses of many runs with the exact "
            "expected losses on top; one curve for quadratic memory and one for Nesterov's SDE in each."
        ),
        drawn_by="figures.amplification",
        settings=AmplificationSettings(),
    ),
    PaperFigure(
        "time-warp",
        "timewarp",
        "Linear memory runs along Nesterov's path, at another speed.",
        published=(
            "The two paths are almost identical while gradients are large; near the solution Nesterov's diverges."
        ),
        shows=(
            "Three panels: paths without noise, their first coordinates over time with that of memory at the changed "
            "time, and paths with noise; one curve for linear memory and one for Nesterov's equation."
        ),
        drawn_by="figures.time_warp",
        settings=TimeWarpSettings(),
    ),
    PaperFigure(
        "verif-noise",
        "verif_noise",
        "Velocities under a constant gradient.",
        published=(
            "MG-SDE settles to -1 with decreasing variance; Nesterov's SDE amplifies gradient and noise linearly."
        ),
        shows=(
            "Two panels of velocity over time under a constant gradient, memory and Nesterov's SDE: mean and a band of "
            "one standard deviation, with dashed exact curves. Below them, up to a later time, the means with their "
            "intervals, at -1 and falling as -t/4, and the variances on logarithmic axes, falling and growing."
        ),
        drawn_by="figures.constant_noise",
        settings=ConstantNoiseSettings(),
    ),
    PaperFigure(
        "quadratic-variance",
        "quadratic_variance",
        "Exact second moments on a quadratic.",
        published="The covariance of Nesterov's velocity explodes; that of quadratic memory converges.",
        shows=(
            "Two panels of second moments over time on a quadratic, Nesterov's SDE and quadratic memory, with dashed "
            "reference curves."
        ),
        drawn_by="figures.second_moments",
        settings=SecondMomentsSettings(),
    ),
    PaperFigure(
        "verif-noise-quadratic",
        "verif_noise_quadratic",
        "Velocities on a quadratic.",
        published="The simulated covariance of Nesterov's velocity explodes; that of quadratic memory decreases.",
        shows=(
            "Two panels of velocity over time on a quadratic, memory and Nesterov's SDE: mean and a band of one "
            "standard deviation, with dashed exact curves."
        ),
        drawn_by="figures.quadratic_noise",
        settings=QuadraticNoiseSettings(),
    ),
    PaperFigure(
        "bound-beta",
        "bound_beta",
        "The lemma behind the linear rate.",
        published="Two simple lower bounds of the curve, which overlap at 3.13 (it is 3.162: erratum 35).",
        shows=(
            "A curve that rises to its maximum at beta = 3.162 and falls slowly, with a straight line and a hyperbola "
            "below it that meet at the maximum."
        ),
        drawn_by="figures.gamma_curve",
        settings=GammaBoundsSettings(),
    ),
    PaperFigure(
        "bound-beta-2",
        "bound_beta_2",
        "The feasible region of the linear rate.",
        published="The feasible region with the optimal and the approximate solution.",
        shows=(
            "The region below a curve, the smaller region below its two bounds, and a falling line that crosses the "
            "edge of each at the optimal and at the approximate solution."
        ),
        drawn_by="figures.gamma_region",
        settings=GammaRegionSettings(),
    ),
    PaperFigure(
        "odes",
        "App. F",
        "Momentum and memory without noise: paths and losses.",
        published=(
            "Losses on a quadratic fall faster for larger p; 1/t viscosity has the path of constant forgetting, 3/t "
            "that of linear forgetting."
        ),
        shows=(
            "Twenty panels, five rows for constant, linear, quadratic, cubic and exponential forgetting: path and loss "
            "of momentum, path and loss of memory, with dotted guides for powers of time."
        ),
        drawn_by="figures.odes",
        settings=OdesSettings(),
    ),
    PaperFigure(
        "p-verification",
        "p_verification",
        "MemSGD with linear, exponential and instantaneous forgetting on a quartic.",
        published="Linear memory has a much smoother path, and slightly more noise in the end, than SGD.",
        shows=(
            "Three panels: one run of each method in the plane, the mean of the first coordinate over steps, and mean "
            "losses over steps, for linear, exponential and instantaneous forgetting."
        ),
        drawn_by="figures.smoothing",
        settings=SmoothingSettings(),
    ),
    PaperFigure(
        "results",
        "results_iterations_main",
        "Loss over iterations.",
        published=(
            "Long memory is faster than SGD in the convex case only; fast forgetting is as good as heavy ball; all "
            "reach similar losses, also in full batch."
        ),
        shows=(
            "Eight panels of loss over iterations, logarithmic: minibatches above and full batches below, for covtype, "
            "autoencoder, MLP and CNN; one curve with its interval for each method."
        ),
        drawn_by="training_figures.loss",
        needs=_ALL,
    ),
    PaperFigure(
        "gradnorm",
        "exp_loss",
        "Full gradient norm over iterations.",
        published="The norms of the full gradients.",
        shows=(
            "Eight panels of full gradient norm over iterations, logarithmic: minibatches above and full batches "
            "below, for covtype, autoencoder, MLP and CNN; one curve with its interval for each method."
        ),
        drawn_by="training_figures.gradient_norm",
        needs=_ALL,
    ),
    PaperFigure(
        "acc",
        "exp_acc",
        "Training accuracy over iterations.",
        published="The linear model on covtype reaches about 70 %; the networks can reach full training accuracy.",
        shows=(
            "Six panels of training accuracy over iterations: minibatches above and full batches below, for covtype, "
            "MLP and CNN; one curve with its interval for each method."
        ),
        drawn_by="training_figures.accuracy",
        needs=_CLASSIFIED,
    ),
    PaperFigure(
        "stepnorm",
        "exp_stepnorm",
        "Step norm over iterations.",
        published=(
            "On the networks heavy ball, at its best step size, takes much smaller steps than SGD in almost all "
            "iterations; on covtype larger ones."
        ),
        shows=(
            "Eight panels of step norm over iterations, logarithmic: minibatches above and full batches below, for "
            "covtype, autoencoder, MLP and CNN; one curve with its interval for each method."
        ),
        drawn_by="training_figures.step_norm",
        needs=_ALL,
    ),
    PaperFigure(
        "padam",
        "padam",
        "PolyAdam, Adam and Adagrad on the CNN: loss and training accuracy.",
        published="Adam with a polynomial memory of squared gradients can be faster than both Adam and Adagrad.",
        shows=(
            "Two panels over iterations, loss and training accuracy of the CNN; one curve with its interval for Adam, "
            "Adagrad and PolyAdam with five degrees."
        ),
        drawn_by="training_figures.adaptive",
        needs=(POLYADAM,),
    ),
    PaperFigure(
        "rec",
        "exp_rec",
        "Original and reconstructed digits.",
        published="Digits as the autoencoder of each method reconstructs them after convergence.",
        shows=(
            "A row of original digits, and below it for each method a row of the same digits as its autoencoder "
            "reconstructs them."
        ),
        drawn_by="training_figures.reconstructions",
        needs=("autoencoder-mini",),
    ),
    PaperFigure(
        "step-sizes",
        "App. G",
        "Final loss over the step size, for SGD and heavy ball.",
        published="The best step size of heavy ball is almost always a tenth of SGD's; on covtype both are 1.",
        shows=(
            "Eight panels of final loss over step size, both logarithmic: minibatches above and full batches below, "
            "for covtype, autoencoder, MLP and CNN; one curve for SGD and one for heavy ball, selected step sizes "
            "filled."
        ),
        drawn_by="training_figures.step_sizes",
        needs=_ALL,
    ),
    PaperFigure(
        "ratios",
        "Sec. 5",
        "Final loss of each method over SGD's.",
        published=(
            "Long memory gains in the convex case only; fast forgetting is as good as heavy ball, and both have a "
            "larger edge over SGD in full batch."
        ),
        shows=(
            "Eight panels, minibatches above and full batches below, for covtype, autoencoder, MLP and CNN: for heavy "
            "ball and each MemSGD the final loss as a multiple of SGD's, logarithmic, a mark with its interval."
        ),
        drawn_by="training_figures.ratios",
        needs=_ALL,
    ),
)

FIGURES: Mapping[str, PaperFigure] = MappingProxyType({each.name: each for each in _FIGURES})
"""All figures, in the paper's order; the last two show what it says in its text."""

SYNTHETIC: Mapping[str, PaperFigure] = MappingProxyType({each.name: each for each in _FIGURES if not each.needs})
"""Those that need no data set."""
