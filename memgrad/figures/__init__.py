"""Figures of memories, data and results: functions from values to matplotlib figures. Nothing is run here.

A file holds the figures of one subject: `training` those of the paper's experiments, `comparisons` that of `memgrad
compare`, `races` that of `memgrad tune`. Two are shared: `style` has the common settings and saves figures;
`method_styles` is the table of the color, marker and line style of each method.
"""

from memgrad.deprecation import deprecated_modules, deprecated_names
from memgrad.extras import require

require("memgrad.figures", extra="lab", modules=("matplotlib",))

from memgrad.figures.audits import audits
from memgrad.figures.bounds import gamma_curve, gamma_region
from memgrad.figures.comparisons import comparison
from memgrad.figures.datasets import data_set
from memgrad.figures.descents import amplification, smoothing, time_warp
from memgrad.figures.ensembles import ensembles
from memgrad.figures.memories import PAPER_MEMORIES, memory_types, mixture_weights
from memgrad.figures.objectives import example_objectives, objective_shapes
from memgrad.figures.odes import Panel, momentum_and_memory
from memgrad.figures.races import race
from memgrad.figures.ratios import ratios
from memgrad.figures.risks import Curve, risk_curves, risk_map
from memgrad.figures.spectra import measured_spectrum
from memgrad.figures.style import FORMATS, figure_path, save
from memgrad.figures.training import Band, TrainingPanel, reconstructed, training_curves
from memgrad.figures.velocities import VelocityMoments, second_moments, velocity_noise

__getattr__ = deprecated_names(__name__, {"Ratio": "memgrad.statistics.Estimate"})

__all__ = [
    "FORMATS",
    "PAPER_MEMORIES",
    "Band",
    "Curve",
    "Panel",
    "TrainingPanel",
    "VelocityMoments",
    "amplification",
    "audits",
    "comparison",
    "data_set",
    "ensembles",
    "example_objectives",
    "figure_path",
    "gamma_curve",
    "gamma_region",
    "measured_spectrum",
    "memory_types",
    "mixture_weights",
    "momentum_and_memory",
    "objective_shapes",
    "race",
    "ratios",
    "reconstructed",
    "risk_curves",
    "risk_map",
    "save",
    "second_moments",
    "smoothing",
    "time_warp",
    "training_curves",
    "velocity_noise",
]

_STYLES = ("ADAPTIVE", "METHODS", "PLAIN", "Look", "lines", "look_of", "styles")
deprecated_modules({"memgrad.figures.methods": {name: f"memgrad.figures.method_styles.{name}" for name in _STYLES}})
