"""The command that tunes: which memory, at which learning rate, and is it worth it?"""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memgrad.amounts import counted, duration
from memgrad.cli.costs import measured
from memgrad.cli.layout import print_json, show
from memgrad.cli.options import (
    Address,
    AsJson,
    Device,
    EngineName,
    Sample,
    SaveEvery,
    StoreFolder,
    Workers,
    check_outputs,
    chosen_engine,
    store_in,
)
from memgrad.cli.run_display import live
from memgrad.cli.terminal import refusing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memgrad.experiments.planning.spec import Spec
    from memgrad.experiments.racing.answer import Answer
    from memgrad.experiments.racing.candidates import Candidate
    from memgrad.experiments.racing.pace import Pace
    from memgrad.experiments.racing.sequential import Rules
    from memgrad.experiments.racing.tune import Budget

EXITS = {"answered": 0, "failed": 1, "exhausted": 3, "interrupted": 130}
"""The exit status of each status of the answer. 2 is for bad input."""

EPOCHS = 10
"""The length of the runs unless one is given."""

_UNITS = {"h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0}


def as_seconds(text: str) -> float:
    """A duration such as 30m, 1h30m or 90s, in seconds.

    Example:
        >>> as_seconds("30m"), as_seconds("1h30m"), as_seconds("90s")
        (1800.0, 5400.0, 90.0)
    """
    with refusing():
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*(h|min|m|s)", text)
        if not parts or re.sub(r"\d+(?:\.\d+)?\s*(h|min|m|s)|\s", "", text):
            raise ValueError(f"a time is written as 90s, 30m or 1h30m, got {text!r}.")
        return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def as_batch(text: str) -> int | str:
    """The size of a minibatch: a number of examples, or full.

    Example:
        >>> as_batch("16"), as_batch("full")
        (16, 'full')
    """
    with refusing():
        if text != "full" and not (text.isdecimal() and int(text) >= 1):
            raise ValueError(f"a batch has at least one example, or is full, got {text!r}.")
        return text if text == "full" else int(text)


def as_nu(text: str) -> float:
    """The decay of a problem's curvature: a number, or what `memgrad spectrum` wrote to a file."""
    with refusing():
        if not text.endswith(".json"):
            try:
                return float(text)
            except ValueError:
                raise ValueError(f"nu is a number > 1 or a file of `memgrad spectrum`, got {text!r}.") from None
        try:
            measured = json.loads(Path(text).read_text(encoding="utf-8"))
            # Of the largest eigenvalues and of the density below them, the one that is known better.
            both = (measured["nu"], measured.get("nu_density") or {"value": None})
            known = [each for each in both if each["value"] is not None]
            nu = float(min(known, key=_width)["value"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{text} is not a file of `memgrad spectrum` with a known nu; measure again.") from None
        if not nu > 1:
            raise ValueError(f"{text} has nu = {nu:.3g}; a gain needs nu > 1. Leave --nu out for the default gains.")
        return nu


def _width(estimate: dict[str, Any]) -> float:
    low, high = estimate.get("low"), estimate.get("high")
    return math.inf if low is None or high is None else float(high) - float(low)


def tune(
    problem: Annotated[
        str,
        typer.Argument(metavar="PROBLEM", help="A problem's name, your own as my_problem.py:function, or a SPEC.toml."),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="METHOD",
            help="A method, such as \"MemSGD(memory='poly:8')\"; repeatable [default: a portfolio of nine].",
        ),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(metavar="SPEC.toml", help="Take the methods of this experiment instead.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Length of each run in steps.")] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help=f"Length of each run in epochs, instead of --steps [default: {EPOCHS}].")
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(parser=as_batch, metavar="SIZE", help="Size of a minibatch, or full [default: the problem's]."),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="Schedule of the learning rate, such as 'linear(warmup=0.05)' [default: constant]."),
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Clip gradients to this norm [default: no clipping].")] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="LOSS",
            help="The loss to compare, such as validation_loss [default: loss, or that of the experiment].",
        ),
    ] = None,
    sample: Sample = False,
    examples: Annotated[int | None, typer.Option(min=1, help="Train on this many examples [default: all].")] = None,
    budget: Annotated[
        float | None,
        typer.Option(parser=as_seconds, metavar="TIME", help="Maximum time of this command, such as 30m or 1h30m."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of runs, those of this tuning in the store included."),
    ] = None,
    error_rate: Annotated[float, typer.Option(help="Bound on the probability that any statement is false.")] = 0.05,
    tolerance: Annotated[float, typer.Option(help="A relative difference of losses that does not matter.")] = 0.01,
    most: Annotated[int, typer.Option(help="Maximum number of seeds in the race.")] = 15,
    fresh: Annotated[int, typer.Option(help="Number of fresh seeds on which the answer is measured.")] = 10,
    nu: Annotated[
        float | None,
        typer.Option(
            parser=as_nu,
            metavar="NU",
            help="Decay of the curvature, or a file of `memgrad spectrum`: sets the gains of the default portfolio.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=10**9, help="Another number repeats it with other seeds.")] = 0,
    store: StoreFolder = None,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    device: Device = None,
    save_every: SaveEvery = 120.0,
    out: Annotated[Path | None, typer.Option(help="Write a figure of race and search: .png, .svg or .pdf.")] = None,
    repeat: Annotated[
        Path | None, typer.Option(metavar="SPEC.toml", help="Write an experiment that repeats the last comparison.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but the answer.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find out which memory to use, at which learning rate, and whether it is worth it.

    Learning rates are searched coarse to fine. Then the methods race on paired seeds: a method is dropped when it is
    shown to be worse. If differences over seeds are normal, the probability that any such statement is false is at most
    the error rate. The best challenger and the best baseline are measured on fresh seeds, which were not used to
    choose. All runs have the full length.

    Run it again to continue, also with a larger budget: runs in the store are not trained again, and a killed race
    comes to the same answer. The exit status is 0 with an answer, 3 if the budget ended first, 1 if it failed.

    For example:

    - `memgrad tune my_problem.py:problem --epochs 20 --out race.svg`
    - `memgrad tune fashion-mlp --sample --budget 30m`
    - `memgrad tune char-transformer --sample --steps 300 --metric validation_loss`
    - `memgrad tune covtype-softmax --sample --method Adam --method "MemAdam(memory='poly:8')" --runs 100`
    - `memgrad tune experiment.toml --repeat tuned.toml --json`
    """
    from memgrad import figures
    from memgrad.experiments.planning.methods import canonical_schedule
    from memgrad.experiments.racing.sequential import Rules
    from memgrad.experiments.racing.tune import Budget
    from memgrad.experiments.racing.tune import tune as tuned
    from memgrad.experiments.racing.words import is_repeating, repeating
    from memgrad.experiments.training.engines.engine import check_device
    from memgrad.files import written_whole

    began = time.monotonic()
    check_outputs(figure=out, text=repeat)
    if (
        repeat is not None
        and repeat.exists()
        and not is_repeating(repeat.read_text(encoding="utf-8", errors="replace"))
    ):
        raise ValueError(f"{repeat} already exists and is not what an earlier --repeat wrote; name another file.")
    rules = Rules(error_rate=error_rate, tolerance=tolerance, most=most, first=3 if most >= 3 else 2, fresh=fresh)
    limits = Budget(runs, budget)
    settings: dict[str, Any] = {"steps": steps, "epochs": epochs, "batch": batch, "examples": examples}
    settings |= {"sample": sample or None, "schedule": schedule and canonical_schedule(schedule), "clip": clip}
    spec, candidates = asked(problem, method, like, nu, settings, metric)
    _refuse_too_few(candidates, limits.runs)
    here = engine == "local"
    check_device(device, here=here)
    kept = store_in(store, create=True)
    trains = chosen_engine(engine, workers, address)
    try:
        pace = _pace(spec, trains.slots, device if here else None)
        if limits.seconds is not None:  # a budget is for the whole command, and measuring took a part of it
            limits = replace(limits, seconds=_left(limits.seconds, time.monotonic() - began, pace))
    except BaseException:  # otherwise tuning closes it
        trains.close()
        raise
    forecast = _forecast(candidates, rules, limits, pace, trains.slots)
    if not here:
        forecast += " The speed is that of this machine's processor; the cluster's may differ."
    if known := len(kept.digests()):
        forecast += f" The store has {counted(known, 'run')}; what is of this tuning is not trained again."
    with live(quiet=quiet or as_json) as display:
        display.said(forecast)
        answer = tuned(
            spec,
            kept,
            trains,
            candidates=candidates,
            rules=rules,
            budget=limits,
            listener=display,
            seed=seed,
            device=device,
            save_every=save_every,
            pace=pace,
        )
    if as_json:
        print_json(answer.to_dict())
    else:
        _print(answer, f"memgrad tune {problem}")
    if out is not None and answer.profiles:
        typer.echo(f"wrote {figures.save(figures.race(answer, caption=_caption(spec)), out)}", err=as_json)
    if repeat is not None and answer.pick is not None:
        with written_whole(repeat) as unfinished:
            unfinished.write_text(repeating(spec, answer, repeat.parent), encoding="utf-8")
        typer.echo(f"wrote {repeat}", err=as_json)
    elif repeat is not None:
        typer.echo(f"{repeat} was not written: there is no method to repeat yet.", err=True)
    if status := EXITS[answer.status]:
        raise typer.Exit(status)


def asked(
    problem: str,
    methods: Sequence[str] | None,
    like: Path | None,
    nu: float | None,
    settings: dict[str, Any],
    metric: str | None = None,
) -> tuple[Spec, tuple[Candidate, ...]]:
    """The experiment and the candidates that the words of the command ask for."""
    from memgrad.experiments.planning.spec import Spec
    from memgrad.experiments.racing.candidates import checked
    from memgrad.experiments.racing.portfolio import candidates_of, parse_candidate, portfolio

    if methods and like is not None:
        raise ValueError(f"give --method or --like, got both: {methods[0]!r} and {like}.")
    given = {name: value for name, value in settings.items() if value is not None}
    if {"steps", "epochs"} <= given.keys():
        raise ValueError(f"give --steps or --epochs, got both: {given['steps']} and {given['epochs']}.")
    whole = Spec.load(problem) if problem.endswith(".toml") else None
    source = whole if like is None else Spec.load(like)
    if nu is not None and (methods or source is not None):
        raise ValueError(f"--nu is for the default portfolio, and other methods were given, got --nu {nu:g}.")
    if source is not None and not methods:
        candidates, own = candidates_of(source), source.methods
    else:
        candidates = checked([parse_candidate(each) for each in methods]) if methods else portfolio(nu=nu)
        data = [{"name": each.name, "lr": each.lr, **each.options} for each in candidates]
        alone = {"problem": "logistic", "steps": 1, "methods": data}
        own = Spec.of(alone, where="--method", folder=Path.cwd()).methods
    default = {} if {"steps", "epochs"} & given.keys() else {"epochs": EPOCHS}
    place = problem if whole is None else whole.problem
    compared = metric or "loss"
    if not compared.partition("@")[0].endswith("loss"):
        raise ValueError(f"tuning makes a loss small: --metric takes one such as validation_loss, got {metric!r}.")
    if whole is not None and metric is None and whole.select.goal != "min":
        by = whole.select.metric
        raise ValueError(f"tuning makes a loss small, and {problem} selects by a large {by!r}; add --metric loss.")
    compares = {"metrics": [compared], "select": {"metric": compared}}
    bare = {"problem": place, "methods": [{"optimizer": "SGD", "lr": 1.0}], **compares, **given, **default}
    spec = Spec.of(bare, where="memgrad tune", folder=Path.cwd())  # checks what was given, for a whole experiment too
    if whole is None:
        return spec.model_copy(update={"methods": own}), candidates
    length = {} if default else {"steps": None, "epochs": None}
    if metric is not None:
        name, times = spec.select.metric, whole.evaluate.times
        given["select"] = whole.select.model_copy(update={"metric": name, "goal": "min"})
        if whole.metrics is not None or "@" in name:  # without a list the problem's own are evaluated, averages are not
            metrics = given["metrics"] = list(dict.fromkeys([*(whole.metrics or ["loss"]), name]))
            if not isinstance(times, int):
                often = {each: times.get(each, max(times.values())) for each in metrics}
                given["evaluate"] = whole.evaluate.model_copy(update={"times": often})
    return whole.model_copy(update={**length, **given, "methods": own}), candidates


def _refuse_too_few(candidates: Sequence[Candidate], runs: int | None) -> None:
    """Refuse a budget that is too small for the first three learning rates of the methods to start with."""
    first = 3 * sum(not candidate.like for candidate in candidates)
    if runs is not None and runs < first:
        raise ValueError(f"--runs {runs} is too few: the first learning rates to compare take {first} runs; give more.")


def _pace(spec: Spec, workers: int, device: str | None) -> Pace:
    """How long rounds take on this many workers, measured on this machine."""
    from memgrad.experiments.racing.pace import Pace

    # Two learning rates at which nothing diverges, with two seeds: a method's runs are stacked, as in a round.
    first = [method.model_copy(update={"lr": [1e-6, 1e-7], "seeds": None}) for method in spec.methods]
    short = spec.model_copy(update={"methods": first, "seeds": [0, 1], "tuning_seeds": None})
    found = measured(short, None, workers, device=device)
    assert found.cost is not None
    return Pace(found.cost.longest, found.cost.seconds / found.runs)


def _forecast(candidates: Sequence[Candidate], rules: Rules, limits: Budget, pace: Pace, workers: int) -> str:
    """The expected cost of tuning and what the budget allows, in words, given how long rounds take."""
    from memgrad.experiments.racing.costs import expected_rounds, expected_runs

    least, most = expected_runs(candidates, rules)
    # With many workers the rounds count, which wait for one another, and otherwise the runs.
    shortest, longest = (
        max(runs * pace.more, rounds * pace.alone)
        for runs, rounds in zip((least, most), expected_rounds(rules), strict=True)
    )
    runs, takes = str(least), duration(shortest)
    if most > least:
        runs, takes = f"{least} to {most}", f"{takes} to {duration(longest)}"
    needs = f"{len(candidates)} methods need about {runs} runs: {takes} on {counted(workers, 'worker')}, once started."
    budgets = [] if limits.runs is None else [(counted(limits.runs, "run"), float(limits.runs))]
    if limits.seconds is not None:
        bought = limits.seconds / shortest * least
        budgets.append((f"{duration(limits.seconds)} that is left, about {bought:.0f} runs,", bought))
    for budget, bought in budgets:
        early = "may end the race early" if bought >= least else "is likely to end before there is an answer"
        needs += f" The budget of {budget} {'should be enough' if bought >= most else early}."
    return needs


def _left(seconds: float, spent: float, pace: Pace) -> float:
    """What is left of a budget of time after the cost of a run was measured."""
    if seconds < spent + pace.alone:
        about = f"about {duration(pace.alone)}" if pace.alone >= 0.05 else "less than 0.1 s"
        raise ValueError(
            f"--budget {duration(seconds)} is too short for one run: loading the problem and measuring took "
            f"{duration(spent)}, and a run takes {about}; give more."
        )
    return seconds - spent


def _print(answer: Answer, again: str) -> None:
    from memgrad.experiments.racing.words import answer_in_words

    contestants = [each for each in (answer.challenger, answer.baseline) if each is not None]
    if contestants:
        rows = [(each.name, f"{each.lr:g}", str(each.final), str(each.diverged)) for each in contestants]
        final = f"final {answer.compared}"
        title = f"On {answer.rules.fresh} fresh seeds"
        show(("method", "learning rate", final, "diverged"), rows, title=title, prose={"method"})
    typer.echo(answer_in_words(answer), err=answer.status in ("failed", "interrupted"))
    if answer.status in ("exhausted", "interrupted"):
        more = "" if answer.status == "interrupted" else " with a larger budget"
        typer.echo(f"`{again} ...`{more} continues; nothing trained is lost.", err=True)


def _caption(spec: Spec) -> str:
    length = f"{spec.steps:,} steps" if spec.steps is not None else f"{spec.epochs:,} epochs"
    return f"{Path(spec.problem).name}, {length}"
