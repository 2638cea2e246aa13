"""Commands that plan and run experiments."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack, closing, nullcontext
from errno import ENOTDIR
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrad.amounts import counted, duration
from memgrad.cli.costs import measured
from memgrad.cli.layout import print_json, show
from memgrad.cli.options import (
    Address,
    AsJson,
    Device,
    EngineName,
    SaveEvery,
    SpecFile,
    StoreFolder,
    Workers,
    chosen_engine,
    store_in,
)
from memgrad.cli.run_display import live
from memgrad.cli.terminal import folder_for

if TYPE_CHECKING:
    from memgrad.experiments.driver import Listener, Outcome
    from memgrad.experiments.planning.preview import Preview


def init(
    path: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="The file to write.")] = Path("experiment.toml"),
    problem: Annotated[
        str, typer.Option(help="A problem's name, or your own as my_problem.py:function.")
    ] = "fashion-mlp",
    data: Annotated[
        str | None, typer.Option(help="The text for char-transformer: sotu, shakespeare or a text file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented example of an experiment, to edit and run.

    For example:

    - `memgrad init  # writes experiment.toml: four methods on a sample of Fashion-MNIST, done in a minute`
    - `memgrad init mine.toml --problem my_problem.py:problem  # the four methods on your own problem`
    - `memgrad init lm.toml --problem char-transformer --data my.txt  # AdamW and a mixture on a language model`
    """
    from memgrad import problems
    from memgrad.experiments.planning.example import example, named_in
    from memgrad.files import written_whole
    from memgrad.problems.datasets import text_names

    if path.exists() and not force:
        raise ValueError(f"{path} already exists; pass --force to overwrite it, or name another file.")
    _refuse_unknown(problem)
    problem = named_in(path.resolve().parent, problem)
    if data is not None and data not in text_names():
        problems.get(problem, options={"data": data})  # refuses a text that cannot be trained on
        # Paths in an experiment are relative to its file.
        data = os.path.relpath(Path(data).expanduser().resolve(), path.resolve().parent)
    with written_whole(path) as unfinished:
        unfinished.write_text(example(problem, data), encoding="utf-8")
    typer.echo(f"wrote {path}. Next: memgrad plan {path}, memgrad run {path}, memgrad compare {path}")


def _refuse_unknown(problem: str) -> None:
    """Refuse the name of a problem that there is not; files are looked at later."""
    from memgrad import problems

    if ":" not in problem and not problem.endswith(".py") and problem not in problems.names():
        problems.get(problem)  # raises, with the known names


def plan(spec: SpecFile, store: StoreFolder = None, workers: Workers = None, as_json: AsJson = False) -> None:
    """Show the runs of an experiment and their expected cost, before any of them is trained.

    One group of runs of each size is trained for a second to estimate the time.

    For example:

    - `memgrad plan experiment.toml`
    - `memgrad plan experiment.toml --workers 64  # for a larger machine of the same kind`
    """
    from memgrad.experiments.planning.spec import Spec
    from memgrad.experiments.storing.folder import default_path
    from memgrad.experiments.storing.store import Store

    chosen = Spec.load(spec)
    folder = store or default_path()
    if folder.is_file():
        raise NotADirectoryError(ENOTDIR, "A store is a folder, not a file", str(folder))
    found = measured(chosen, Store.open(folder, create=False) if Store.exists(folder) else None, workers)
    if as_json:
        print_json(found.to_dict())
        return
    rows = [(m.name, m.optimizer, m.step_sizes, str(m.runs), str(m.finished)) for m in found.methods]
    title = f"{chosen.name}: {found.title}"
    show(("method", "optimizer", "step sizes", "runs", "finished"), rows, title=title, prose={"method", "step sizes"})
    typer.echo(_cost_in_words(found))


def _cost_in_words(found: Preview) -> str:
    if found.cost is None:
        return f"Nothing is left to do: of {counted(found.runs, 'run')} all are finished."
    return (
        f"Left: {found.left} of {counted(found.runs, 'run')}, in {counted(found.run_groups, 'group')}. On "
        f"{counted(found.workers, 'worker')} about "
        f"{duration(found.cost.seconds)} and {found.cost.nbytes / 1e9:.1f} GB of memory "
        f"({found.cost.run_steps:,.0f} run-steps/s per worker)."
    )


def run(
    spec: SpecFile,
    store: StoreFolder = None,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    device: Device = None,
    save_every: SaveEvery = 120.0,
    width: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of runs trained together [default: set by the problem].")
    ] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write event files for TensorBoard to this folder.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing but errors.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train the runs of an experiment that are not in the store yet.

    Run it again to resume: finished runs are skipped, interrupted ones continue from their checkpoints, and the rows
    are bit-identical to those of an uninterrupted run. Ctrl-C and SIGTERM stop it with checkpoints.

    For example:

    - `memgrad run experiment.toml`
    - `memgrad run experiment.toml --workers 8 --save-every 600 --tensorboard events`
    - `memgrad run experiment.toml --engine ray --address auto`
    """
    from memgrad.experiments.driver import execute
    from memgrad.experiments.planning.spec import Spec
    from memgrad.experiments.storing.tensorboard import EventFiles
    from memgrad.experiments.training.engines.engine import check_device

    chosen = Spec.load(spec)
    check_device(device, here=engine == "local")
    trains = chosen_engine(engine, workers, address)
    _refuse_unknown(chosen.problem)
    if tensorboard is not None and not str(tensorboard).isprintable():
        raise ValueError(f"TensorBoard needs a path of printable characters, got {str(tensorboard)!r}.")
    with nullcontext() if tensorboard is None else folder_for(tensorboard):
        kept = store_in(store, create=True)
    with ExitStack() as stack:
        listener: Listener = stack.enter_context(live(quiet=quiet or as_json))
        if tensorboard is not None:
            listener = stack.enter_context(closing(EventFiles(tensorboard, chosen, listener)))
        outcome = execute(chosen, kept, trains, listener=listener, device=device, save_every=save_every, width=width)
    if as_json:
        print_json({"experiment": chosen.name, **vars(outcome), "runs": len(outcome.runs)})
    elif not quiet or not outcome.complete:
        typer.echo(_in_words(outcome, spec, kept.path, named=store is not None), err=not outcome.complete)
    if outcome.interrupted:
        raise typer.Exit(130)
    if not outcome.complete:
        raise typer.Exit(1)


def _in_words(outcome: Outcome, spec: Path, store: Path, *, named: bool = False) -> str:
    """What happened, and the command for what comes next, with the store if it was named."""
    also = f" --store {store}" if named else ""
    trained = f"{counted(outcome.trained, 'run')} trained in {duration(outcome.seconds)}"
    lines = [f"{trained}, {outcome.there} already finished."]
    if finished := outcome.trained + outcome.there:
        some = f"{outcome.diverged} of {counted(finished, 'run')} diverged (a loss or parameter is not finite)."
        lines.append(some if outcome.diverged else "No run diverged.")
    lines += [f"{counted(count, 'run')} failed: {reason}" for reason, count in Counter(outcome.failed.values()).items()]
    if outcome.waiting and not outcome.interrupted:
        lines.append(f"No step size could be selected for {', '.join(outcome.waiting)}: runs they need failed.")
    if outcome.interrupted:
        lines.append(f"Stopped. Rows and checkpoints are in {store}; memgrad run {spec}{also} resumes from there.")
    elif outcome.failed:
        lines.append(f"The others are in {store}; memgrad run {spec}{also} retries the failed ones.")
    else:
        lines.append(f"Rows are in {store}. Next: memgrad compare {spec}{also}")
    return "\n".join(lines)
