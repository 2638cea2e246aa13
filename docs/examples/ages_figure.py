"""A figure drawn by hand: how old what is remembered is."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from memgrad import Memory
from memgrad.figures.method_styles import styles
from memgrad.figures.style import sheet


def ages(memories: Mapping[str, Memory], *, steps: int) -> Figure:
    """The mean age of each memory over the steps.

    Args:
        memories: What to draw, by the label in the legend.
        steps: How far, >= 1.
    """
    k = np.unique(np.geomspace(1, steps, 60).astype(int))
    with sheet((6.4, 3.8)) as figure:
        axes = figure.add_subplot(xlabel="step $k$", ylabel="mean age, in steps", xscale="log", yscale="log")
        for label, line in styles(memories).items():
            memory = memories[label]
            axes.plot(k, [memory.passport(int(step)).mean_age for step in k], label=label, **line)
        axes.legend()
    return figure
