"""Figures of races: how methods compare as seeds are added, and losses over the learning rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from memgrad.figures.method_styles import styles
from memgrad.figures.style import SMALL, as_label, log_ticks, mark_diverged, sheet

if TYPE_CHECKING:
    from memgrad.experiments.racing.answer import Answer


def race(answer: Answer, *, caption: str = "") -> Figure:
    """A race: the mean loss beside the leader's as seeds are added, and the loss over the learning rate in the search.

    A line ends at a cross where its method was dropped. Learning rates that were found have filled markers.

    Args:
        answer: The answer of tuning; the left panel is left out before the first look at the race.
        caption: The settings.
    """
    shown = bool(answer.leader and len(answer.raced) > 1)
    rows = math.ceil(len(answer.profiles) / 2)
    with sheet((7.6 if shown else 4.4, 3.0 + 0.17 * rows), as_label(caption)) as figure:
        panels = figure.subplots(1, 2 if shown else 1, squeeze=False)[0]
        looks = styles(answer.profiles)
        if shown:
            _standings(panels[0], answer, looks)
        _profiles(panels[-1], answer, looks)
        handles, labels = panels[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=SMALL)  # the caption is below
    return figure


def _standings(axes: Axes, answer: Answer, looks: dict[str, dict[str, Any]]) -> None:
    """The mean over the first n seeds of the difference to the leader, for n = 1, 2, ..."""
    logarithmic = answer.scale == "log"
    known = np.concatenate([np.array(losses) for losses in answer.raced.values()])
    # A loss of 0 counts as the smallest other one of the race.
    least = known[known > 0].min(initial=np.inf) if logarithmic else -np.inf
    lead = np.maximum(answer.raced[answer.leader], least)
    dropped = {each.name for each in answer.dropped}
    means = []
    for name, losses in answer.raced.items():
        mine = np.maximum(losses, least)
        mine = mine[: np.flatnonzero(~np.isfinite(mine))[0]] if not np.isfinite(mine).all() else mine
        n = min(len(mine), len(lead))
        if not n:
            continue
        change = np.log(mine[:n]) - np.log(lead[:n]) if logarithmic else mine[:n] - lead[:n]
        mean = np.cumsum(change) / np.arange(1, n + 1)
        mean = np.exp(mean) if logarithmic else mean
        means.append(mean)
        look = looks[name.rpartition(", lr ")[0]]
        axes.plot(np.arange(1, n + 1), mean, color=look["color"], linestyle=look["linestyle"], linewidth=1.4)
        if name in dropped:
            axes.plot(n, mean[-1], "x", color=look["color"], markersize=6)
    axes.set(title="the race: mean over seeds, x: dropped", xlabel="seeds")
    axes.set_ylabel(as_label(f"{answer.compared} {'as a multiple of' if logarithmic else 'minus'} the leader's"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if logarithmic:
        axes.set_yscale("log")
        log_ticks(axes.yaxis, 6)


def _profiles(axes: Axes, answer: Answer, looks: dict[str, dict[str, Any]]) -> None:
    finite = []
    for name, profile in answer.profiles.items():
        look = looks[name]
        lrs = np.array([*profile])
        losses = np.array([*profile.values()])
        known = np.isfinite(losses)
        finite += losses[known].tolist()
        style = {**look, "linewidth": 1.2, "markevery": None, "markerfacecolor": "white"}
        axes.plot(lrs[known], losses[known], label=as_label(name), **style)
        found = answer.found.get(name, np.nan)
        if np.isfinite(profile.get(found, np.nan)):
            axes.plot(found, profile[found], look["marker"], color=look["color"], markersize=6, zorder=3)
        mark_diverged(axes, lrs[~known], look["color"])
    axes.set(title="the search: learning rates tried", xlabel="learning rate", xscale="log")
    axes.set_ylabel(as_label(answer.compared))
    if finite and min(finite) > 0:
        axes.set_yscale("log")
        # What diverges slowly would leave no room for the rest.
        axes.set_ylim(top=min(axes.get_ylim()[1], 30 * float(np.median(finite))))
        log_ticks(axes.yaxis, 6)
