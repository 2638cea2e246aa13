"""Figures of audits: what optimizers remember."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from memgrad.figures.method_styles import styles
from memgrad.figures.style import EXACT, sheet
from memgrad.kinds import Array
from memgrad.memory import Memory

ROUNDING = 1e-9  # of the largest weight; what is below it has no sign


def audits(weights: Mapping[str, Array], gains: Mapping[str, Array], *, exact: Mapping[str, Memory]) -> Figure:
    r"""Audits: the weights of past gradients on the left, the steps for a constant gradient on the right.

    Args:
        weights: The weights $w(0,k), \dots, w(k,k)$ at the last step of an audit, by its label. They are drawn by age,
            divided by their sum, so they must be of one sign.
        gains: The step for a constant gradient in units of the learning rate, at each step, by its label.
        exact: The memory that an entry of `weights` should have, by the same label; drawn dashed.

    Example:
        >>> from memgrad.memory import Polynomial
        >>> linear = {"a": np.array([1.0, 2.0, 3.0])}
        >>> figure = audits(linear, {"a": np.ones(3)}, exact={"a": Polynomial(2)})
        >>> [len(axes.lines) for axes in figure.axes]
        [3, 1]
    """
    for label, w in weights.items():
        largest = np.max(np.abs(w))
        if largest == 0 or min(np.max(w), -np.min(w)) > ROUNDING * largest:
            raise ValueError(
                f"figures.audits draws shares of a sum, so it needs weights of one sign that are not all 0, got "
                f"{label!r} with weights from {np.min(w):.3g} to {np.max(w):.3g}; leave it out."
            )
    with sheet((7.2, 3.1)) as figure:
        past, steps = figure.subplots(1, 2)
        past.set(title="what a step remembers", xlabel="age of the gradient, in steps", ylabel="weight", yscale="log")
        for label, line in styles(weights).items():
            w = weights[label]
            age = np.arange(len(w))
            share = w[::-1] / w.sum()
            past.plot(age, np.where(share > 0, share, np.nan), label=label, **line)
            if label in exact:
                past.plot(age, exact[label].weights(len(w) - 1)[::-1], **EXACT)
        if exact:
            past.plot([], [], label="by definition", **EXACT)
        steps.set(title="step for a constant gradient", xlabel="step $k$", ylabel="in units of the learning rate")
        for label, line in styles(gains).items():
            steps.plot(np.arange(len(gains[label])), gains[label], label=label, **line)
        for axes in (past, steps):
            axes.legend(loc="best", fontsize=7.5)
    return figure
