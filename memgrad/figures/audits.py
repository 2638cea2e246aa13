"""What optimizers were found to remember."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from memgrad.figures.style import EXACT, drawing, lines
from memgrad.memory import Memory

Array = NDArray[np.float64]


def audits(weights: Mapping[str, Array], gains: Mapping[str, Array], *, exact: Mapping[str, Memory]) -> Figure:
    r"""Audits: on the left the weights of past gradients, on the right the steps for a constant gradient.

    Args:
        weights: The weights $w(0,k), \dots, w(k,k)$ at the last step of an audit, by its label. They are drawn by age,
            divided by their sum.
        gains: The step for a constant gradient in units of the learning rate, at each step, by its label.
        exact: The memory that an entry of `weights` should have, by the same label; drawn dashed.

    Example:
        >>> from memgrad.memory import Polynomial
        >>> linear = {"a": np.array([1.0, 2.0, 3.0])}
        >>> figure = audits(linear, {"a": np.ones(3)}, exact={"a": Polynomial(2)})
        >>> [len(axes.lines) for axes in figure.axes]
        [3, 1]
    """
    with drawing():
        figure = Figure(figsize=(7.2, 3.1), layout="constrained")
        past, steps = figure.subplots(1, 2)
        past.set(title="what a step remembers", xlabel="age of the gradient, in steps", ylabel="weight", yscale="log")
        for (label, w), line in zip(weights.items(), lines(), strict=False):
            age = np.arange(len(w))
            share = w[::-1] / w.sum()
            past.plot(age, np.where(share > 0, share, np.nan), label=label, **line)
            if label in exact:
                past.plot(age, exact[label].weights(len(w) - 1)[::-1], **EXACT)
        if exact:
            past.plot([], [], label="by definition", **EXACT)
        steps.set(title="step for a constant gradient", xlabel="step $k$", ylabel="in units of the learning rate")
        for (label, gain), line in zip(gains.items(), lines(), strict=False):
            steps.plot(np.arange(len(gain)), gain, label=label, **line)
        for axes in (past, steps):
            axes.legend(loc="best", fontsize=7.5)
    return figure
