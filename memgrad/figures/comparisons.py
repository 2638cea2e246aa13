"""Figures of the results of an experiment: metrics over steps and over step sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad.figures.method_styles import styles
from memgrad.figures.style import SMALL, as_label, mark_diverged, sheet
from memgrad.kinds import Array

if TYPE_CHECKING:
    from memgrad.experiments.results import Results


def comparison(
    results: Results, metric: str, *, log_steps: bool = False, log_values: bool | None = None, caption: str = ""
) -> Figure:
    """Methods compared: their curves at the selected step sizes, and final values over all step sizes.

    The right panel is left out if no method has more than one step size.

    Args:
        results: The results; methods without a selected step size are left out.
        metric: The metric to draw.
        log_steps: Whether steps are on a logarithmic axis, which includes step 0.
        log_values: Whether values are on a logarithmic axis; by default if all are positive.
        caption: The settings.
    """
    tried = any(len(results.step_sizes(method)) > 1 for method in results.methods)
    with sheet((7.2 if tried else 4.4, 3.0), as_label(caption)) as figure:
        axes = figure.subplots(1, 2 if tried else 1, squeeze=False)[0]
        curves(axes[0], results, metric, log_steps=log_steps, log_values=log_values)
        if tried:
            step_sizes(axes[1], results, metric, log_values=log_values)
    return figure


def curves(
    axes: Axes, results: Results, metric: str, *, log_steps: bool = False, log_values: bool | None = None
) -> None:
    """Draw a metric over the steps: a line with its 95 % band over seeds for each method at its selected step size.

    A line ends where one of the seeds diverged, at a cross.
    """
    axes.set(title=f"{as_label(metric)}: mean over seeds, 95 % interval", xlabel="steps", ylabel=as_label(metric))
    means: list[Array] = []
    named: dict[str, Artist] = {}
    for method, line in styles(results.methods).items():
        if not results.selectable(method):
            continue
        lr = results.selected_lr(method)
        curve = results.curve(method, metric, lr=lr)
        mean, low, high = curve.interval()
        means.append(mean)
        label = f"{as_label(method)}, lr {lr:g}"
        (named[label],) = axes.plot(curve.steps, mean, label=label, **line)
        axes.fill_between(curve.steps, low, high, color=line["color"], alpha=0.2, linewidth=0)
        known = np.flatnonzero(np.isfinite(mean))
        if curve.diverged and len(known):
            axes.plot(curve.steps[known[-1]], mean[known[-1]], "x", color=line["color"])
    if log_steps:
        axes.set_xscale("symlog", linthresh=1)
    _scale_values(axes, means, log_values)
    if means:  # with all labels, even those that matplotlib would hide because they begin with _
        axes.legend(list(named.values()), list(named), loc="best", fontsize=SMALL + 0.5)


def step_sizes(axes: Axes, results: Results, metric: str, *, log_values: bool | None = None) -> None:
    """Draw the final value over the step size: the mean over seeds with its 95 % interval, for each method.

    The selected step size has a filled marker. A step size at which a run diverged is a cross at the upper edge.
    """
    axes.set(title="final value over the step size", xlabel="step size", ylabel=as_label(metric), xscale="log")
    means: list[Array] = []
    for method, line in styles(results.methods).items():
        lrs = np.array(results.step_sizes(method))
        finals = [results.final_interval(method, metric, lr=lr) for lr in lrs.tolist()]
        mean = np.array([each.value for each in finals])
        reach = np.nan_to_num([[each.value - each.low, each.high - each.value] for each in finals]).reshape(-1, 2).T
        known = np.isfinite(mean)
        means.append(mean[known])
        style = {**line, "linewidth": 1.2, "markevery": None, "markerfacecolor": "white"}
        axes.errorbar(lrs[known], mean[known], reach[:, known], **style)
        if results.selectable(method):
            chosen = known & (lrs == results.selected_lr(method))
            axes.plot(lrs[chosen], mean[chosen], line["marker"], color=line["color"], markersize=5.5, zorder=3)
        mark_diverged(axes, [lr for lr in lrs.tolist() if results.diverged(method, lr)], line["color"])
    every = [lr for method in results.methods for lr in results.step_sizes(method)]
    axes.set_xlim(min(every) / 1.5, max(every) * 1.5)
    _scale_values(axes, means, log_values)


def _scale_values(axes: Axes, means: Iterable[Array], log_values: bool | None) -> None:
    """Make the axis logarithmic if possible or asked for; an interval that reaches 0 does not stretch it."""
    numbers = np.concatenate([np.empty(0), *means])
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers) or log_values is False or (log_values is None and numbers.min() <= 0):
        return
    axes.set_yscale("log")
    positive = numbers[numbers > 0]
    if len(positive):
        low, high = axes.get_ylim()
        axes.set_ylim(bottom=max(low, float(positive.min()) / 4))
        if high < 10 * positive.min():  # powers of ten would leave most of the axis without a number
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}")
