"""What the figure about the language model shows, from the results so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memgrad.experiments.results import Results
from memgrad.figures.language import LanguagePanels, language
from memgrad.figures.ratios import ratios
from memgrad.figures.style import save
from memgrad.figures.training import Band
from memgrad.paper.language.beside import OTHERS, WORKLOADS
from memgrad.paper.language.claims import LEVEL
from memgrad.paper.language.savings import over_batch, over_horizon
from memgrad.paper.language.stages import ADAMW, METRIC, MIXTURE, SAVINGS, SECOND_TEXT, batch_size, share_name
from memgrad.paper.language.study import Study, if_finished, log_difference, parts
from memgrad.statistics import Estimate, interval

FIRST_TEXT = "sotu"


def panels(study: Study) -> LanguagePanels:
    """The panels whose experiments are complete."""
    return LanguagePanels(
        losses=if_finished(lambda: _losses(study)) or {},
        differences=if_finished(lambda: _differences(study)) or {},
        shares=if_finished(lambda: _shares(study)) or {},
        over_horizon=if_finished(lambda: {each.steps: each.saved for each in over_horizon(study)}) or {},
        over_batch=if_finished(lambda: {each.batch: each.saved for each in over_batch(study)}) or {},
        parts=if_finished(lambda: {name: interval(each).exp() for name, each in parts(study).items()}) or {},
    )


def write_figures(study: Study, found: Mapping[str, Any], folder: Path, formats: Sequence[str]) -> tuple[Path, ...]:
    """Draw what is known: the figure `language`, if a claim was asked for, and those of complete comparisons.

    Args:
        study: The study, whose results are found in a store.
        found: The board.
        folder: The folder to write to.
        formats: The endings of the files.
    """
    scale = found["scale"]
    warning = "" if scale["decides"] else "A rehearsal on a sample: it decides nothing."
    drawn = {}
    if found["verdicts"]:
        drawn["language"] = language(panels(study), caption=_caption(study), warning=warning)
    label = "ratio of final losses"
    methods = _ratios(found["compared"].get(OTHERS))
    if methods:
        panel = {"": {f"validation loss / AdamW, {study.stages.own['short']:,} steps": methods}}
        drawn["language-others"] = ratios(panel, xlabel=label, warning=warning)
    paper = {name: _ratios(found["compared"].get(name)) for name in WORKLOADS}
    if all(paper.values()):
        drawn["language-workloads"] = ratios({"training loss": paper}, xlabel=label, warning=warning)
    return tuple(save(figure, folder / f"{name}.{ending}") for name, figure in drawn.items() for ending in formats)


def _ratios(rows: Sequence[Mapping[str, Any]] | None) -> dict[str, Estimate]:
    """The ratios of a comparison, by method; infinite where a run diverged."""
    found = {}
    for row in rows or ():
        if row["difference"] is not None:
            ratio = {name: math.nan if each is None else each for name, each in row["ratio"].items()}
            value = math.inf if math.isnan(ratio["mean"]) else ratio["mean"]
            found[row["method"]] = Estimate(value, ratio["low"], ratio["high"])
    return found


def _caption(study: Study) -> str:
    own = study.stages.own
    sizes = {"layers": 2, "width": 64, "context": 32, **own.get("options", {})}
    model = ", ".join(f"{name} {sizes[name]}" for name in ("layers", "width", "context"))
    tested = f"{len(own['seeds'])} seeds, on which nothing was tuned"
    return f"character-level transformer, {model}, minibatches of {batch_size()}, T = {own['long']:,} steps, {tested}"


def _losses(study: Study) -> dict[str, Band]:
    whole = study.at_long((1.0,))
    fewer = study.at_long(SAVINGS[:1])
    first = share_name(SAVINGS[0])
    return {
        ADAMW: _band(whole, ADAMW),
        MIXTURE: _band(whole, MIXTURE),
        first: _band(fewer, first),
    }


def _band(results: Results, method: str) -> Band:
    curve = results.curve(method, METRIC)
    return Band(curve.steps, *curve.interval())


def _differences(study: Study) -> dict[str, Band]:
    found = {}
    for results in (study.at_long((1.0,)), study.at_short):
        mine, other = (results.curve(method, METRIC) for method in (MIXTURE, ADAMW))
        each = [interval(np.log(a) - np.log(b)).exp() for a, b in zip(mine.values, other.values, strict=True)]
        mean, low, high = (np.array([getattr(ratio, end) for ratio in each]) for end in ("value", "low", "high"))
        found[f"T = {mine.steps[-1]:,}"] = Band(mine.steps, mean, low, high)
    return found


def _shares(study: Study) -> dict[str, dict[float, Estimate]]:
    """The ratios by share of the steps: those of the first text, and of the second one if it is complete."""
    found = {FIRST_TEXT: {1.0: interval(log_difference(study.at_long((1.0,)), MIXTURE, ADAMW)).exp()}}
    found[FIRST_TEXT] |= {share: interval(each).exp() for share, each in study.savings(LEVEL).items()}
    second = if_finished(lambda: study.savings(LEVEL, SECOND_TEXT))
    if second and not study.stages.own.get("sample"):  # there is a sample of one text only
        found[SECOND_TEXT] = {share: interval(each).exp() for share, each in second.items()}
    return found
