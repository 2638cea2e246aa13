"""The results of an experiment on real data, as a table of its methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

from memgrad.amounts import duration
from memgrad.experiments.comparison import Comparison
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.results import Results
from memgrad.paper.evidence import any_run, regime_of
from memgrad.paper.reproduction import Made
from memgrad.paper.scales import EXPERIMENTS, GRID, POLYADAM, PROBLEMS, experiment
from memgrad.report.wording import listed, number_text, whole_numbers
from memgrad.statistics import Estimate

ACCURACY = "accuracy"


@final
@dataclass(frozen=True)
class MethodRow:
    """A method of an experiment, as a row of the table.

    Attributes:
        name: Its name.
        lr: The selected step size.
        tried: The step sizes it was selected from.
        at_edge: Whether it is the smallest or the largest that was tried, so that a better one may lie outside.
        loss: The mean final loss and its interval.
        ratio: The ratio of final losses to the reference; None for the reference, and where losses are not positive.
        accuracy: The mean final accuracy and its interval; None where it was not measured.
        diverged: The number of diverged runs at the selected step size.
        diverged_in_all: The same at all step sizes.
    """

    name: str
    lr: str
    tried: str
    at_edge: bool
    loss: Estimate
    ratio: Estimate | None
    accuracy: Estimate | None
    diverged: str
    diverged_in_all: str


@final
@dataclass(frozen=True)
class ExperimentPart:
    """An experiment on real data, as a section of the report.

    Attributes:
        name: Its name.
        title: The problem as the paper calls it, and the setting.
        facts: What was run, by property.
        reference: The method to which ratios refer.
        has_accuracy: Whether accuracy was measured.
        rows: Its methods; none if its rows were not given.
        settings: Name, the paper's value and ours, setting by setting.
        regime: Why it does not speak for its data set; empty if it does, or its rows were not given.
    """

    name: str
    title: str
    facts: Mapping[str, str]
    reference: str
    has_accuracy: bool
    rows: tuple[MethodRow, ...]
    settings: tuple[tuple[str, str, str], ...] = ()
    regime: str = ""


def experiment_part(made: Made, results: Results | None) -> ExperimentPart:
    """The section of the report on an experiment.

    Args:
        made: The experiment.
        results: Its results, if they are to be shown.
    """
    rows: tuple[MethodRow, ...] = ()
    reference, has_accuracy = "", False
    if results is not None:
        reference, has_accuracy = results.methods[0], ACCURACY in results.metrics
        rows = tuple(_row(results, each, has_accuracy) for each in results.compare("loss", reference))
    facts = _facts(made, results)
    settings = beside_the_papers(made, facts)
    regime = "" if results is None or made.name not in EXPERIMENTS else regime_of(results, made.name)[0]
    return ExperimentPart(made.name, title_of(made.name), facts, reference, has_accuracy, rows, settings, regime)


NOT_GIVEN = "not given"

OF_PROBLEMS: Mapping[str, tuple[tuple[str, str, str], ...]] = MappingProxyType(
    {
        "covtype": (
            ("data", "464,809 rows", "80 % of all rows, drawn at random"),
            ("features", NOT_GIVEN, "scaled to [0, 1]: with the raw ones its step size 1 diverges"),
            ("L2 term", "strongly convex", "1e-4, without which softmax regression is not strongly convex"),
        ),
        "autoencoder": (
            ("pixels", NOT_GIVEN, "scaled to [0, 1]"),
            ("loss", "cross entropy by pixel", "summed over pixels: with their mean its step sizes end on the plateau"),
        ),
        "mlp": (("pixels", NOT_GIVEN, "scaled to [0, 1]"),),
        "cnn": (("pixels", NOT_GIVEN, "scaled to [-1, 1], as in PyTorch's tutorial; images are not augmented"),),
    }
)
"""What our problems decide, beside what the paper says; `experiments.toml` has the reasons at length."""


def beside_the_papers(made: Made, facts: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    """The settings of an experiment beside those of the paper; none if it is not one of the paper's.

    Args:
        made: The experiment.
        facts: What was run, by property.
    """
    if made.name not in EXPERIMENTS:
        return ()
    paper = experiment(made.name)
    batch = str(paper.batch) if paper.batch == "full" else f"{paper.batch} examples"
    if made.name == POLYADAM:
        batch, grid = NOT_GIVEN, NOT_GIVEN
    else:
        grid = ", ".join(map(number_text, GRID))
    evaluate = made.spec.get("evaluate", {})
    share, measured = evaluate.get("loss_examples"), evaluate.get("gradient_examples")
    if made.name == POLYADAM:
        options = (
            ("PolyAdam", "no formula", "squares averaged by k/(k+p) v + p/(k+p) g²; decay 0.9 of gradients"),
            ("Adam", NOT_GIVEN, "decays 0.9 and 0.999"),
        )
    else:
        options = (("decay of p = e", NOT_GIVEN, "0.9, as heavy ball's"), ("momentum of heavy ball", "0.9", "0.9"))
    return (
        ("training examples", "all", facts["training examples"]),
        ("batch", batch, facts["batch"]),
        ("minibatches", NOT_GIVEN, "none" if paper.batch == "full" else "without replacement within an epoch"),
        ("steps", NOT_GIVEN, facts["steps"]),
        ("seeds", "10", facts["seeds"]),
        *((f"step sizes, {name}", grid, tried) for name, tried in _grids(made.spec).items()),
        ("step sizes selected by", NOT_GIVEN, "final training loss, mean over seeds"),
        ("loss over", NOT_GIVEN, _share(share)),
        *([] if made.name == POLYADAM else [("gradient norm over", NOT_GIVEN, _share(measured))]),
        *options,
        *OF_PROBLEMS["cnn" if made.name == POLYADAM else made.name.rpartition("-")[0]],
        ("initial parameters", NOT_GIVEN, "PyTorch's default for each layer"),
    )


def _share(examples: int | None) -> str:
    return "all training examples" if examples is None else f"{examples:,} training examples, always the same"


def _grids(spec: Mapping[str, Any]) -> dict[str, str]:
    """The step sizes that were tried, by method, with the seeds of tuning."""
    found, seeds = {}, spec.get("tuning_seeds")
    for method in spec.get("methods", []):
        if isinstance(method.get("lr"), list):
            on = f" (on seeds {whole_numbers(seeds)})" if seeds else ""
            found[str(method.get("name"))] = ", ".join(map(number_text, method["lr"])) + on
    return found


def title_of(name: str) -> str:
    """The paper's name of an experiment, or its own if it is not one of the paper's.

    Example:
        >>> title_of("mlp-full"), title_of("polyadam"), title_of("mine")
        ('FashionMNIST MLP, full batch', 'CIFAR-10 CNN, adaptive methods', 'mine')
    """
    if name == POLYADAM:
        return f"{PROBLEMS['cnn']}, adaptive methods"
    problem, _, setting = name.rpartition("-")
    return f"{PROBLEMS[problem]}, {setting} batch" if problem in PROBLEMS else name


def _row(results: Results, found: Comparison, has_accuracy: bool) -> MethodRow:
    tried, follows = results.step_sizes(found.method), results.spec.method(found.method).follows
    at_selected = results.seeds(found.method, found.lr)  # without those for tuning
    lost = [seed for seed in results.diverged(found.method) if seed in at_selected]
    lost_in_all, _, planned = results.counts(found.method)
    return MethodRow(
        name=found.method,
        lr=number_text(found.lr),
        tried=f"that of {follows}" if follows else f"of {', '.join(map(number_text, tried))}",
        at_edge=follows is None and len(tried) > 2 and found.lr in (tried[0], tried[-1]),
        loss=found.final,
        ratio=found.ratio,
        accuracy=results.final_interval(found.method, ACCURACY) if has_accuracy else None,
        diverged=f"{len(lost)} of {len(at_selected)}",
        diverged_in_all=f"{lost_in_all} of {planned}",
    )


def _facts(made: Made, results: Results | None) -> dict[str, str]:
    spec = made.spec
    seeds = spec.get("seeds", 0)
    run = None if results is None else any_run(results)
    return {
        "problem": str(spec.get("problem", "")),
        "batch": _batch(spec, run),
        "steps": f"{run.steps:,}" if run else str(spec.get("steps") or f"{spec.get('epochs')} epochs"),
        "seeds": whole_numbers(seeds if isinstance(seeds, list) else range(seeds)),
        "training examples": _examples(spec, run),
        "evaluated": _evaluated(spec),
        "runs": f"{made.runs}, of which {made.trained} were trained now",
        "time": f"{duration(seconds_of(made, 'wall'))} of all processes together, "
        f"{duration(seconds_of(made, 'cpu'))} of CPU",
        "device": listed(str(each.get("device", "unknown")) for each in made.abouts) or "unknown",
    }


def _evaluated(spec: Mapping[str, Any]) -> str:
    """How often each metric was evaluated.

    Example:
        >>> _evaluated({"evaluate": {"times": {"loss": 21, "step_norm": 41}}, "metrics": ["loss", "step_norm"]})
        'loss 21 times, step_norm 41 times'
    """
    times, metrics = spec.get("evaluate", {}).get("times", "?"), spec.get("metrics", ["loss"])
    if isinstance(times, Mapping):
        return ", ".join(f"{metric} {times.get(metric, '?')} times" for metric in metrics)
    return f"{times} times, {', '.join(metrics)}"


def _batch(spec: Mapping[str, Any], run: Run | None) -> str:
    if run is not None:
        return "full" if run.batch_size is None else f"{run.batch_size} examples"
    return str(spec.get("batch", "the problem's own"))


def _examples(spec: Mapping[str, Any], run: Run | None) -> str:
    count = f"{run.examples:,}" if run is not None else str(spec.get("examples", ""))
    if spec.get("sample"):
        return f"{count} of the sample that comes with memgrad".strip()
    return f"{count}, a fixed random share of all".strip() if spec.get("examples") else f"all {count}".strip()


def seconds_of(made: Made, clock: str) -> float:
    """How long the training of an experiment took, by the `wall` clock of each process or in `cpu` time."""
    return float(sum(each.get(f"{clock}_seconds", 0.0) for each in made.abouts))
