"""The paper's figures of training on real data, drawn from stored rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from memgrad import figures
from memgrad.experiments.results import Results
from memgrad.experiments.training.train import PIXEL
from memgrad.figures import Band, TrainingPanel
from memgrad.kinds import Array
from memgrad.paper.evidence import HB, METHODS, SGD, Evidence, any_run
from memgrad.paper.scales import HB_AT_SGDS, POLYADAM, PROBLEMS, SETTINGS
from memgrad.statistics import Estimate, log_interval
from memgrad.tables import Columns

Drawing = tuple[Figure, Columns]

ROWS = {"mini": "mini batch", "full": "full batch"}
WARNING = "Rehearsal on samples: it decides nothing"
FEWEST = 3
"""With fewer seeds no interval is drawn: that of two would cover the panel."""

MEANS = (
    f"mean over seeds and, at some places and with at least {FEWEST} seeds, its 95 % interval, of logarithms where the "
    "axis is logarithmic, a triangle where an interval goes on beyond the panel, with a number if the curve does, "
    "a cross where a run diverged"
)

PUBLISHED_STEPS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"covtype": {SGD: 1.0, HB: 1.0}, "autoencoder": {SGD: 0.05, HB: 0.005}}
)
"""The best step sizes that can be read from the paper: from its text, and from the labels of its digits."""

HB_AT_A_TENTH = "HB, a tenth of SGD's lr"

NOT_RUN = "not run"
"""What stands in the panel of an experiment that is not complete."""


class NoPicturesError(LookupError):
    """The rows of an experiment have no reconstructions."""


def over_iterations(
    evidence: Evidence, metric: str, ylabel: str, *, reference: str = "", across: int | None = None
) -> Drawing:
    """A metric over iterations, a panel for each problem and setting; with the ratios to a reference below, if any."""
    table = _Table()
    rows = {
        setting: [
            _panel(evidence, name, PROBLEMS[problem], metric, table, reference=reference)
            for problem, name in names.items()
        ]
        for setting, names in _rows_of_panels(evidence).items()
    }
    figure = figures.training_curves(rows, ylabel=ylabel, across=across, **_foot(evidence, of=reference))
    return figure, table.columns()


loss = partial(over_iterations, metric="loss", ylabel="loss", reference=SGD)
"""Fig. results_iterations_main."""

gradient_norm = partial(over_iterations, metric="gradient_norm", ylabel="gradient norm")
"""Fig. exp_loss, whose reference leads to the gradient norms (erratum 46)."""

accuracy = partial(over_iterations, metric="accuracy", ylabel="training accuracy")
"""Fig. exp_acc."""

step_norm = partial(over_iterations, metric="step_norm", ylabel="step norm")
"""Fig. exp_stepnorm."""


def adaptive(evidence: Evidence) -> Drawing:
    """Fig. padam."""
    table = _Table()
    titles = {"loss": "loss", "accuracy": "training accuracy"}
    row = [
        _panel(evidence, POLYADAM, title, metric, table, notes=False, reference="Adam" if metric == "loss" else "")
        for metric, title in titles.items()
    ]
    return figures.training_curves({"": row}, ylabel="", **_foot(evidence, of="Adam")), table.columns()


def step_sizes(evidence: Evidence, *, across: int | None = None) -> Drawing:
    """Final losses over the step sizes, which App. G reports in words."""
    table, rows = _Table(), _rows_of_panels(evidence)
    panels = {}
    for setting, names in rows.items():
        panels[setting] = [
            TrainingPanel(PROBLEMS[problem], {}, NOT_RUN)
            if name in evidence.absent
            else TrainingPanel(
                PROBLEMS[problem],
                {method: _finals(evidence[name], name, method, table) for method in (SGD, HB)},
                _tried_on(evidence, name),
                dict(PUBLISHED_STEPS.get(problem, {})),
            )
            for problem, name in names.items()
        ]
    foot = _foot(evidence)
    how = "filled = selected on the seeds in the titles, dotted = the paper's, where it says, cross = diverged, "
    foot["caption"] = how + foot["caption"]
    figure = figures.training_curves(
        panels, ylabel="final loss", xlabel="step size", over_step_sizes=True, across=across, **foot
    )
    return figure, table.columns()


def reconstructions(evidence: Evidence) -> Drawing:
    """Fig. exp_rec."""
    (name, results), *_ = evidence.results.items()
    pictures = np.asarray(evidence.originals(), dtype=float)
    rows, shown = {"original": pictures}, ["original"]
    for label, method, lr in _shown(results):
        final = results.final(method, "loss", lr=lr)[0]
        rows[label] = _pictures(results, method, lr, pictures.shape)
        shown.append(f"{label}: {final:.3g}" if np.isfinite(final) else label)
    foot = _foot(evidence)
    what = "test examples, final loss beside each method, runs with the seed 0"
    foot["caption"] = f"{evidence.scale.name}: {what}, {evidence.described(name)}"
    places = np.indices(pictures.shape).reshape(3, -1)
    columns = {
        "label": np.repeat(list(rows), pictures.size),
        **{axis: np.tile(place, len(rows)) for axis, place in zip(("picture", "row", "column"), places, strict=True)},
        "value": np.concatenate([each.ravel() for each in rows.values()]),
    }
    return figures.reconstructed(dict(zip(shown, rows.values(), strict=True)), **foot), columns


def ratios(evidence: Evidence, *, across: int | None = None) -> Drawing:
    """Final losses over SGD's, which Sec. 5 reports in words."""
    table = _Table()
    rows: dict[str, dict[str, dict[str, Estimate]]] = {}
    for setting, names in _rows_of_panels(evidence).items():
        for problem, name in names.items():
            if name in evidence.absent:
                rows.setdefault(setting, {})[PROBLEMS[problem]] = {}
                continue
            results = evidence[name]
            found = {method: evidence.ratio("", name, method, SGD) for method in METHODS if method != SGD}
            title = PROBLEMS[problem] + ("\nanother regime" if evidence.regime(name) else "")
            rows.setdefault(setting, {})[title] = found
            for method, ratio in found.items():
                numbers = ([ratio.value], [ratio.low], [ratio.high])
                table.add(
                    name, method, results.selected_lr(method), "final loss / SGD's", any_run(results).steps, *numbers
                )
    what = (
        "geometric mean over seeds and its 95 % interval, all at their selected step sizes, cross = diverged, "
        "a triangle where an interval goes on beyond the panel"
    )
    figure = figures.ratios(rows, xlabel="final loss / SGD's", empty=NOT_RUN, across=across, **_foot(evidence, what))
    return figure, table.columns()


def _rows_of_panels(evidence: Evidence) -> dict[str, dict[str, str]]:
    """The experiments by setting and problem: a row of panels for each setting, a panel for each problem."""
    asked = {*evidence.results, *evidence.absent}
    return {
        ROWS[setting]: {problem: name for problem in PROBLEMS if (name := f"{problem}-{setting}") in asked}
        for setting in SETTINGS
    }


def _panel(
    evidence: Evidence, name: str, title: str, metric: str, table: _Table, *, notes: bool = True, reference: str = ""
) -> TrainingPanel:
    if name in evidence.absent:
        return TrainingPanel(title, {}, NOT_RUN)
    results = evidence[name]
    if metric not in results.metrics:
        return TrainingPanel(title, {}, f"not measured\nat the scale\n{evidence.scale.name}")
    bands, share = {}, metric == "accuracy"
    for label, method, lr in _shown(results):
        curve = results.curve(method, metric, lr=lr)
        if not share:
            with np.errstate(divide="ignore"):
                curve = dataclasses.replace(curve, values=np.log(curve.values))
        mean, low, high = (each if share else np.exp(each) for each in curve.interval())
        bands[label] = _band(curve.steps, mean, low, high, curve.seeds)
        table.add(name, method, lr, metric, curve.steps, mean, low, high)
    lrs = f"lr SGD {results.selected_lr(SGD):g}, HB {results.selected_lr(HB):g}" if SGD in bands else ""
    run = any_run(results)
    few = {"gradient_norm": run.gradient_examples, "step_norm": None}.get(metric, run.loss_examples)
    seeds = f"{len(results.spec.seed_numbers)} seeds"
    if HB_AT_SGDS in bands and HB_AT_SGDS in results.methods:
        seeds += f" ({HB_AT_SGDS}: {len(results.seeds(HB_AT_SGDS, results.selected_lr(SGD)))})"
    # Short lines: a panel is 26 letters wide.
    measured = "" if few is None else f"{'gradient' if metric == 'gradient_norm' else metric} of {few:,}"
    regime = "another regime" if notes and evidence.regime(name) else ""
    lines = [lrs, seeds, _examples(evidence, name), measured, regime]
    below = _ratios_to(reference, results, name, metric, table) if reference else {}
    return TrainingPanel(title, bands, "\n".join(filter(None, lines)) if notes else "", share=share, ratios=below)


def _ratios_to(compared: str, results: Results, name: str, metric: str, table: _Table) -> dict[str, Band]:
    """Each method's curve as a multiple of another's: the geometric mean over the seeds that both have."""
    reference, found = results.curve(compared, metric), {}
    for label, method, lr in _shown(results):
        if method == compared:
            continue
        curve = results.curve(method, metric, lr=lr)
        seeds = [seed for seed in curve.seeds if seed in reference.seeds]
        steps = np.intersect1d(curve.steps, reference.steps)
        mine, other = (
            each.values[np.isin(each.steps, steps)][:, [each.seeds.index(seed) for seed in seeds]]
            for each in (curve, reference)
        )
        ratio = dataclasses.replace(curve, steps=steps, values=np.log(mine) - np.log(other), seeds=tuple(seeds))
        mean, low, high = map(np.exp, ratio.interval())
        found[label] = _band(steps, mean, low, high, seeds)
        table.add(name, method, lr, f"{metric} / {compared}'s", steps, mean, low, high)
    return found


def _band(steps: NDArray[Any], mean: Array, low: Array, high: Array, seeds: Sequence[int]) -> Band:
    """A curve with its interval, if there are enough seeds for one."""
    none = np.full_like(mean, np.nan)
    return Band(steps, mean, *((low, high) if len(seeds) >= FEWEST else (none, none)))


def _shown(results: Results) -> list[tuple[str, str, float]]:
    """Label, method and step size of each curve: all methods at their selected ones, and HB also at SGD's.

    Where these two step sizes of HB are equal, the paper shows HB at a tenth of it instead, and so do we if it was run.
    """
    compared = [name for name in results.methods if name != HB_AT_SGDS]
    best = {method: results.selected_lr(method) for method in compared}
    if HB not in best:
        return [(f"{method}, lr {lr:g}", method, lr) for method, lr in best.items()]
    shown = [(method if method != HB else "HB, best lr", method, lr) for method, lr in best.items()]
    tuning = set(results.spec.tuning_seeds or ())
    drawable = [lr for lr in results.step_sizes(HB) if set(results.seeds(HB, lr)) - tuning]
    if best[SGD] == best[HB]:
        shown += [(HB_AT_A_TENTH, HB, lr) for lr in drawable if math.isclose(lr, best[HB] / 10)]
    elif best[SGD] in drawable:
        shown.append((HB_AT_SGDS, HB, best[SGD]))
    elif HB_AT_SGDS in results.methods:
        shown.append((HB_AT_SGDS, HB_AT_SGDS, best[SGD]))
    return shown


def _finals(results: Results, name: str, method: str, table: _Table) -> Band:
    """The final losses over the step sizes; nan where a run diverged."""
    sizes = np.array(results.step_sizes(method))
    found = [log_interval(results.final(method, "loss", lr=lr, tuning=True)) for lr in sizes.tolist()]
    ends = [np.array([getattr(each, end) for each in found]) for end in ("value", "low", "high")]
    mean, low, high = (np.where(np.isfinite(each), each, np.nan) for each in ends)
    table.add(name, method, sizes, "final loss", any_run(results).steps, mean, low, high)
    band = _band(sizes, mean, low, high, results.seeds(method, float(sizes[0]), tuning=True))
    return dataclasses.replace(band, marked=results.selected_lr(method))


def _pictures(results: Results, method: str, lr: float, shape: tuple[int, ...]) -> NDArray[Any]:
    """The final reconstructions of the run with seed 0; gray if it diverged."""
    run = results.runs[method][lr][0]
    if run.digest in results.rows.diverged:
        return np.full(shape, 0.5)
    kept = np.array(
        [results.rows.series(run.digest, PIXEL.format(i, j))[1] for i, j in np.ndindex(shape[0], shape[1] * shape[2])]
    )
    if kept.size != np.prod(shape):
        raise NoPicturesError(
            f"the rows of {method} have no pictures: they were made by an older version of memgrad; train again."
        )
    return kept.reshape(shape)


def _examples(evidence: Evidence, name: str) -> str:
    """The number of examples, if it is not all of them."""
    spec = evidence[name].spec
    partial = spec.sample or spec.examples is not None
    return f"{any_run(evidence[name]).examples:,} examples" if partial else ""


def _tried_on(evidence: Evidence, name: str) -> str:
    """The seeds and the examples that step sizes were tried on."""
    seeds = len(evidence[name].seeds(SGD, evidence[name].step_sizes(SGD)[0], tuning=True))
    return ", ".join(filter(None, [f"{seeds} {'seed' if seeds == 1 else 'seeds'}", _examples(evidence, name)]))


def _foot(evidence: Evidence, what: str = MEANS, *, of: str = "") -> dict[str, Any]:
    """The caption and the warning of a figure; `of` is the method to which ratios refer."""
    below = f"below each panel of losses these as a multiple of {of}'s, paired by seed; " if of else ""
    ran = ", ".join(map(evidence.described, evidence.results))
    warning = "" if evidence.scale.decides else WARNING
    found = {"caption": f"{below}{evidence.scale.name}: {what}, {ran}", "warning": warning}
    return found | {"ratio_label": f"loss / {of}'s"} if of else found


class _Table:
    """The numbers behind a figure, block by block; what is drawn twice is there once."""

    NAMES = ("experiment", "method", "lr", "metric", "step", "mean", "low", "high")

    def __init__(self) -> None:
        self._blocks: list[tuple[Any, ...]] = []
        self._there: set[str] = set()

    def add(self, *block: Any) -> None:
        what = str(block[:4])  # experiment, method, step size or sizes, metric
        if what not in self._there:
            self._there.add(what)
            self._blocks.append(tuple(np.broadcast_to(part, np.shape(block[-1])) for part in block))

    def columns(self) -> Columns:
        if not self._blocks:  # nothing of it was measured
            return {name: np.empty(0) for name in self.NAMES}
        return {name: np.concatenate([block[i] for block in self._blocks]) for i, name in enumerate(self.NAMES)}
