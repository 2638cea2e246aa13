"""The paper's figures of training on real data, drawn from stored rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from memgrad import figures
from memgrad.experiments.results import Results
from memgrad.experiments.runs import Run
from memgrad.experiments.train import PIXEL
from memgrad.figures import Band, Ratio, TrainingPanel
from memgrad.paper.evidence import HB, SGD, Evidence
from memgrad.paper.scales import POLYADAM, PROBLEMS, SETTINGS
from memgrad.statistics import interval

Columns = Mapping[str, NDArray[np.generic]]

ROWS = {"mini": "mini batch", "full": "full batch"}
WARNING = "Rehearsal on samples: it decides nothing"

PUBLISHED_STEPS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"covtype": {SGD: 1.0, HB: 1.0}, "autoencoder": {SGD: 0.05, HB: 0.005}}
)
"""The best step sizes that can be read from the paper: from its text, and from the labels of its digits."""


@final
@dataclass(frozen=True)
class TrainingFigure:
    """A figure of the paper about training on real data.

    Attributes:
        name: Its name on the command line.
        label: Its label in the paper's source, or the section it is in.
        title: What it shows, in one line.
        published: What the paper says it shows.
        needs: The experiments whose rows it reads.
    """

    name: str
    label: str
    title: str
    published: str
    needs: tuple[str, ...]


@final
@dataclass(frozen=True, eq=False)
class DrawnRows:
    """A figure of stored rows, and the table behind it.

    Attributes:
        figure: The picture.
        columns: The numbers in it, as columns of equal length by name.
        evidence: What it was drawn from.
        needs: The experiments it shows.
    """

    figure: Figure
    columns: Columns
    evidence: Evidence
    needs: tuple[str, ...]

    def about(self) -> dict[str, Any]:
        """The scale and the experiments as plain data."""
        specs = {name: self.evidence[name].spec for name in self.needs}
        return {
            "scale": dataclasses.asdict(self.evidence.scale),
            "experiments": {name: spec.model_dump(mode="json", exclude_none=True) for name, spec in specs.items()},
        }


def draw_rows(name: str, evidence: Evidence, originals: Callable[[], NDArray[Any]]) -> DrawnRows:
    """Draw a figure of training on real data.

    Args:
        name: One of `TRAINING_FIGURES`.
        evidence: The results of the experiments it needs.
        originals: A function that gives the first test pictures, (pictures, height, width), for the figure of
            reconstructions: they are data, not rows.

    Raises:
        LookupError: What it shows was not kept.
    """
    figure, columns = _DRAWN[name](evidence, originals)
    return DrawnRows(figure, columns, evidence, TRAINING_FIGURES[name].needs)


def _over_iterations(metric: str, ylabel: str, problems: Sequence[str]) -> Any:
    def drawn(evidence: Evidence, _: Any) -> tuple[Figure, Columns]:
        table = _Table()
        rows = {
            ROWS[setting]: [
                _panel(evidence, f"{problem}-{setting}", PROBLEMS[problem], metric, table) for problem in problems
            ]
            for setting in SETTINGS
        }
        figure = figures.training_curves(rows, ylabel=ylabel, **_foot(evidence, TRAINING_FIGURES[_NAMES[metric]].needs))
        return figure, table.columns()

    return drawn


def _padam(evidence: Evidence, _: Any) -> tuple[Figure, Columns]:
    table = _Table()
    row = [
        _panel(evidence, POLYADAM, "loss", "loss", table, named=False),
        _panel(evidence, POLYADAM, "training accuracy", "accuracy", table, named=False),
    ]
    figure = figures.training_curves({"": row}, ylabel="", **_foot(evidence, (POLYADAM,)))
    return figure, table.columns()


def _step_sizes(evidence: Evidence, _: Any) -> tuple[Figure, Columns]:
    table = _Table()
    rows: dict[str, list[TrainingPanel]] = {ROWS[setting]: [] for setting in SETTINGS}
    for setting in SETTINGS:
        for problem, title in PROBLEMS.items():
            name = f"{problem}-{setting}"
            bands = {method: _finals(evidence[name], name, method, table) for method in (SGD, HB)}
            published = dict(PUBLISHED_STEPS.get(problem, {}))
            rows[ROWS[setting]].append(TrainingPanel(title, bands, _examples(evidence, name), published))
    foot = _foot(evidence, TRAINING_FIGURES["step-sizes"].needs)
    foot["caption"] = "filled = selected, dotted = the paper's, where it says, cross = diverged, " + foot["caption"]
    figure = figures.training_curves(rows, ylabel="final loss", xlabel="step size", over_step_sizes=True, **foot)
    return figure, table.columns()


def _reconstructions(evidence: Evidence, originals: Callable[[], NDArray[Any]]) -> tuple[Figure, Columns]:
    name = "autoencoder-mini"
    results, pictures = evidence[name], np.asarray(originals(), dtype=float)
    rows = {"original": pictures}
    for label, method, lr in _shown(results):
        rows[label] = _pictures(results, method, lr, pictures.shape)
    foot = _foot(evidence, (name,))
    foot["caption"] = f"{evidence.scale.name}: test examples, runs with the seed 0, {evidence.described(name)}"
    figure = figures.reconstructed(rows, **foot)
    places = np.indices(pictures.shape).reshape(3, -1)
    columns = {
        "label": np.repeat(list(rows), pictures.size),
        **{axis: np.tile(place, len(rows)) for axis, place in zip(("picture", "row", "column"), places, strict=True)},
        "value": np.concatenate([each.ravel() for each in rows.values()]),
    }
    return figure, columns


def _ratios(evidence: Evidence, _: Any) -> tuple[Figure, Columns]:
    table = _Table()
    rows: dict[str, dict[str, dict[str, Ratio]]] = {}
    for setting in SETTINGS:
        for problem, title in PROBLEMS.items():
            name = f"{problem}-{setting}"
            panel = rows.setdefault(ROWS[setting], {}).setdefault(title, {})
            results = evidence[name]
            for method in (method for method in results.methods if method != SGD):
                found = evidence.ratio("", name, method, SGD)
                panel[method] = Ratio(found.value, found.low, found.high)
                ends = [np.array([np.nan if end is None else end]) for end in (found.low, found.high)]
                lr, steps = results.best_lr(method), _run(results).steps
                table.add(name, method, lr, "final loss / SGD's", steps, found.value, *ends)
    what = "geometric mean over seeds and its 95 % interval, all at their selected step sizes, cross = diverged"
    foot = _foot(evidence, TRAINING_FIGURES["ratios"].needs, what)
    return figures.ratios(rows, xlabel="final loss / SGD's", **foot), table.columns()


def _pictures(results: Results, method: str, lr: float, shape: tuple[int, ...]) -> NDArray[Any]:
    """The pictures that the run with the seed 0 made in the end; grey where it diverged."""
    run = results.runs[method][lr][0]
    if run.digest in results.rows.diverged:
        return np.full(shape, 0.5)
    kept = np.array(
        [results.rows.series(run.digest, PIXEL.format(i, j))[1] for i, j in np.ndindex(shape[0], shape[1] * shape[2])]
    )
    if kept.size != np.prod(shape):
        raise LookupError(f"the rows of {method} have no pictures: they were made by an older version; train again.")
    return kept.reshape(shape)


def _panel(
    evidence: Evidence,
    name: str,
    title: str,
    metric: str,
    table: _Table,
    *,
    named: bool = True,
) -> TrainingPanel:
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
        bands[label] = Band(curve.steps, mean, low, high)
        table.add(name, method, lr, metric, curve.steps, mean, low, high)
    note = ", ".join([f"lr SGD {results.best_lr(SGD):g}", f"HB {results.best_lr(HB):g}"]) if SGD in bands else ""
    about = [note, _examples(evidence, name), _few(results) if metric == "gradient_norm" else ""]
    return TrainingPanel(title, bands, "\n".join(filter(None, about)) if named else "", share=share)


def _shown(results: Results) -> list[tuple[str, str, float]]:
    """Label, method and step size of each curve: all methods at their selected ones, and HB also at SGD's."""
    best = {method: results.best_lr(method) for method in results.methods}
    if HB not in best:
        return [(f"{method}, lr {lr:g}", method, lr) for method, lr in best.items()]
    shown = [(method if method != HB else "HB, best lr", method, lr) for method, lr in best.items()]
    if best[SGD] != best[HB] and best[SGD] in results.step_sizes(HB):
        shown.append(("HB, SGD's lr", HB, best[SGD]))
    return shown


def _finals(results: Results, name: str, method: str, table: _Table) -> Band:
    """The final losses over the step sizes; nan where a run diverged."""
    tried = np.array(results.step_sizes(method))
    with np.errstate(invalid="ignore"):
        found = [interval(np.log(results.final(method, "loss", lr=lr))) for lr in tried.tolist()]
        ends = [np.exp([getattr(each, end) for each in found]) for end in ("mean", "low", "high")]
    mean, low, high = (np.where(np.isfinite(each), each, np.nan) for each in ends)
    table.add(name, method, tried, "final loss", _run(results).steps, mean, low, high)
    return Band(tried, mean, low, high, results.best_lr(method))


def _examples(evidence: Evidence, name: str) -> str:
    """How many examples, where it is not all of them."""
    spec, run = evidence[name].spec, _run(evidence[name])
    return f"{run.examples:,} examples" if spec.sample or spec.examples is not None else ""


def _few(results: Results) -> str:
    few = _run(results).gradient_examples
    return "" if few is None else f"gradient of {few:,} examples"


def _run(results: Results) -> Run:
    """Any of the runs: they have the same steps and examples."""
    return next(run for step_sizes in results.runs.values() for seeds in step_sizes.values() for run in seeds.values())


def _foot(
    evidence: Evidence,
    needs: Sequence[str],
    what: str = "mean and 95 % interval over seeds, of logarithms where the axis is logarithmic",
) -> dict[str, Any]:
    ran = ", ".join(evidence.described(name) for name in needs)
    return {"caption": f"{evidence.scale.name}: {what}, {ran}", "warning": "" if evidence.scale.decides else WARNING}


class _Table:
    """The numbers behind a figure, block by block."""

    NAMES = ("experiment", "method", "lr", "metric", "step", "mean", "low", "high")

    def __init__(self) -> None:
        self._blocks: list[tuple[Any, ...]] = []

    def add(self, *block: Any) -> None:
        self._blocks.append(tuple(np.broadcast_to(part, np.shape(block[-1])) for part in block))

    def columns(self) -> Columns:
        if not self._blocks:  # nothing of it was measured
            return {name: np.empty(0) for name in self.NAMES}
        return {name: np.concatenate([block[i] for block in self._blocks]) for i, name in enumerate(self.NAMES)}


_ALL = tuple(f"{problem}-{setting}" for setting in SETTINGS for problem in PROBLEMS)
_CLASSIFIED = [problem for problem in PROBLEMS if problem != "autoencoder"]
_NAMES = {"loss": "results", "gradient_norm": "gradnorm", "accuracy": "acc", "step_norm": "stepnorm"}

TRAINING_FIGURES: Mapping[str, TrainingFigure] = MappingProxyType(
    {
        each.name: each
        for each in (
            TrainingFigure(
                "results",
                "results_iterations_main",
                "Loss over iterations.",
                "Long memory is faster than SGD in the convex case only; fast forgetting is as good as heavy ball; all "
                "reach similar losses, also in full batch.",
                _ALL,
            ),
            TrainingFigure(
                "gradnorm", "exp_loss", "Full gradient norm over iterations.", "The norms of the full gradients.", _ALL
            ),
            TrainingFigure(
                "acc",
                "exp_acc",
                "Training accuracy over iterations.",
                "The linear model on covtype reaches about 70 %; the networks can reach full training accuracy.",
                tuple(name for name in _ALL if not name.startswith("autoencoder")),
            ),
            TrainingFigure(
                "stepnorm",
                "exp_stepnorm",
                "Step norm over iterations.",
                "On the networks heavy ball, at its best step size, takes much smaller steps than SGD in almost all "
                "iterations; on covtype larger ones.",
                _ALL,
            ),
            TrainingFigure(
                "padam",
                "padam",
                "PolyAdam, Adam and Adagrad on the CNN: loss and training accuracy.",
                "Adam with a polynomial memory of squared gradients can be faster than both Adam and Adagrad.",
                (POLYADAM,),
            ),
            TrainingFigure(
                "rec",
                "exp_rec",
                "Original and reconstructed digits.",
                "Digits as the autoencoder of each method reconstructs them after convergence.",
                ("autoencoder-mini",),
            ),
            TrainingFigure(
                "step-sizes",
                "App. G",
                "Final loss over the step size, for SGD and heavy ball.",
                "The best step size of heavy ball is almost always a tenth of SGD's; on covtype both are 1.",
                _ALL,
            ),
            TrainingFigure(
                "ratios",
                "Sec. 5",
                "Final loss of each method over SGD's.",
                "Long memory gains in the convex case only; fast forgetting is as good as heavy ball, and both have a "
                "larger edge over SGD in full batch.",
                _ALL,
            ),
        )
    }
)
"""The figures of training on real data, in the paper's order; the last two show what it says in its text."""

_DRAWN: Mapping[str, Callable[[Evidence, Any], tuple[Figure, Columns]]] = MappingProxyType(
    {
        "results": _over_iterations("loss", "loss", list(PROBLEMS)),
        "gradnorm": _over_iterations("gradient_norm", "full gradient norm", list(PROBLEMS)),
        "acc": _over_iterations("accuracy", "training accuracy", _CLASSIFIED),
        "stepnorm": _over_iterations("step_norm", "step norm", list(PROBLEMS)),
        "padam": _padam,
        "rec": _reconstructions,
        "step-sizes": _step_sizes,
        "ratios": _ratios,
    }
)
