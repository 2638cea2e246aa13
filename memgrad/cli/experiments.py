"""Commands that carry out experiments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from memgrad.cli.live import Display, duration, live
from memgrad.cli.terminal import AsJson, refusing

if TYPE_CHECKING:
    from memgrad.experiments.driver import Listener, Outcome
    from memgrad.experiments.engines.engine import Engine
    from memgrad.experiments.preview import Preview
    from memgrad.experiments.spec import Spec

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The experiment; `memgrad init` writes one.")]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", help="The folder of the rows [default: $MEMGRAD_STORE or memgrad-store].")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="How many processes, each with one thread [default: one a core].")
]


def init(
    path: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The file to write.")] = Path("experiment.toml"),
    problem: Annotated[
        str, typer.Option(help="A problem's name, or your own as my_problem.py:function.")
    ] = "fashion-mlp",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write an example of an experiment, with comments, to change and to run.

    For example:

    - `memgrad init` writes experiment.toml: four methods on a sample of Fashion-MNIST, done in a minute
    - `memgrad init mine.toml --problem my_problem.py:problem` compares them on a problem of your own
    """
    with refusing():
        from memgrad import problems
        from memgrad.experiments.example import example
        from memgrad.files import written_whole

        if path.exists() and not force:
            raise ValueError(f"{path} is there already; --force writes over it, or name another file.")
        if ":" not in problem and not problem.endswith(".py") and problem not in problems.names():
            problems.get(problem)  # says which ones there are
        with written_whole(path) as unfinished:
            unfinished.write_text(example(problem), encoding="utf-8")
        typer.echo(f"wrote {path}. Next: memgrad plan {path}, memgrad run {path}, memgrad compare {path}")


def plan(spec: SpecFile, store: StoreFolder = None, workers: Workers = None, as_json: AsJson = False) -> None:
    """Show the runs of an experiment and what they would cost, before anything is spent.

    A second of each kind of batch is trained to tell the time.

    For example:

    - `memgrad plan experiment.toml`
    - `memgrad plan experiment.toml --workers 64` is what a larger machine of the same kind would take
    """
    with refusing():
        from memgrad.experiments.engines.local import usable_cores
        from memgrad.experiments.preview import preview
        from memgrad.experiments.spec import Spec
        from memgrad.experiments.store import Store, default_path

        chosen = Spec.load(spec)
        folder = store or default_path()
        with Console(stderr=True).status("Trying a little of it ..."):
            found = preview(
                chosen,
                Store.open(folder, create=False) if Store.exists(folder) else None,
                workers=workers or usable_cores(),
            )
        if as_json:
            typer.echo(json.dumps(found.as_dict(), indent=2))
            return
        table = Table("method", "optimizer", "step sizes", "runs", "there", title=f"{chosen.name}: {found.title}")
        for method in found.methods:
            table.add_row(method.name, method.optimizer, method.step_sizes, str(method.runs), str(method.finished))
        Console().print(table)
        typer.echo(_cost_in_words(found))


def _cost_in_words(found: Preview) -> str:
    if found.cost is None:
        return f"All {found.runs} runs are there: nothing is left to do."
    return (
        f"{found.left} of {found.runs} runs are left, in {found.batches} batches. On {found.workers} workers about "
        f"{duration(found.cost.seconds)} and {found.cost.nbytes / 1e9:.1f} GB of memory "
        f"({found.cost.run_steps:,.0f} run-steps/s a worker)."
    )


def run(
    spec: SpecFile,
    store: StoreFolder = None,
    workers: Workers = None,
    engine: Annotated[str, typer.Option(help="local, or ray (extra `ray`).")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster: auto, or host:port of its head [default: one is started].")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where to train, such as cuda [default: cpu].")] = None,
    save_every: Annotated[
        float, typer.Option(min=0.0, help="Seconds between the checkpoints of a batch of runs.")
    ] = 120.0,
    width: Annotated[
        int | None, typer.Option(min=1, help="At most so many runs at once in a process [default: what pays].")
    ] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write event files for TensorBoard here.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but errors.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train what an experiment asks for and is not there yet.

    Run it again to go on: finished runs are skipped, interrupted ones continue from their checkpoint, and the rows are
    the same, bit by bit, as if nothing had happened. Ctrl-C and SIGTERM stop it with checkpoints.

    For example:

    - `memgrad run experiment.toml`
    - `memgrad run experiment.toml --workers 8 --save-every 600 --tensorboard events`
    - `memgrad run experiment.toml --engine ray --address auto`
    """
    with refusing():
        from memgrad.experiments.driver import execute
        from memgrad.experiments.spec import Spec
        from memgrad.experiments.store import Store, default_path

        chosen = Spec.load(spec)
        trains = chosen_engine(engine, workers, address)
        kept = Store.open(store or default_path())
        with live(quiet=quiet or as_json) as display, _event_files(tensorboard, chosen, display) as listener:
            outcome = execute(
                chosen, kept, trains, listener=listener, device=device, save_every=save_every, width=width
            )
        if as_json:
            typer.echo(json.dumps(_as_dict(outcome, chosen), indent=2))
        elif not quiet or not outcome.complete:
            typer.echo(_in_words(outcome, spec, kept.path), err=not outcome.complete)
        if outcome.interrupted:
            raise typer.Exit(130)
        if not outcome.complete:
            raise typer.Exit(1)


@contextmanager
def _event_files(folder: Path | None, spec: Spec, display: Display) -> Iterator[Listener]:
    """The display alone, or with it TensorBoard's files."""
    if folder is None:
        yield display
        return
    from memgrad.experiments.tensorboard import EventFiles

    files = EventFiles(folder, spec, display)
    try:
        yield files
    finally:
        files.close()


def chosen_engine(name: str, workers: int | None, address: str | None) -> Engine:
    """The engine with this name."""
    if name == "local":
        if address is not None:
            raise ValueError(f"--address is for --engine ray, got --engine local --address {address}.")
        from memgrad.experiments.engines.local import LocalEngine

        return LocalEngine(workers)
    if name == "ray":
        from memgrad.experiments.engines.ray import RayEngine

        return RayEngine(address, workers)
    raise ValueError(f"the engine is local or ray, got {name!r}.")


def _in_words(outcome: Outcome, spec: Path, store: Path) -> str:
    lines = [f"{outcome.trained} runs trained in {duration(outcome.seconds)}, {outcome.there} were there already."]
    reasons: dict[str, int] = {}
    for reason in outcome.failed.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    lines += [f"{count} runs failed: {reason}" for reason, count in reasons.items()]
    if outcome.waiting and not outcome.interrupted:
        lines.append(f"No step size could be selected for {', '.join(outcome.waiting)}: runs they need failed.")
    if outcome.interrupted:
        lines.append(f"Stopped. Rows and checkpoints are in {store}; memgrad run {spec} goes on from there.")
    elif outcome.failed:
        lines.append(f"The others are in {store}; memgrad run {spec} tries the failed ones again.")
    else:
        lines.append(f"Rows are in {store}. Next: memgrad compare {spec}")
    return "\n".join(lines)


def _as_dict(outcome: Outcome, spec: Spec) -> dict[str, Any]:
    return {
        "experiment": spec.name,
        "runs": len(outcome.runs),
        "trained": outcome.trained,
        "there": outcome.there,
        "failed": outcome.failed,
        "waiting": list(outcome.waiting),
        "interrupted": outcome.interrupted,
        "seconds": outcome.seconds,
    }
