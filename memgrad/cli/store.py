"""Commands that list, export and clean up a store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memgrad.cli.layout import print_json, show
from memgrad.cli.options import AsJson, StoreFolder, check_outputs, results_in, store_in

if TYPE_CHECKING:
    from memgrad.experiments.storing.store import Store


def ls(store: StoreFolder = None, as_json: AsJson = False) -> None:
    """List what a store holds: finished runs by problem and optimizer, checkpoints, damaged files.

    For example:

    - `memgrad ls`
    - `memgrad ls --store /data/rows --json`
    """
    from memgrad.experiments.storing.upkeep import inventory

    found = inventory(store_in(store))
    if as_json:
        print_json(found.to_dict())
        return
    rows = [
        (held.problem, held.optimizer, held.memory, *map(str, (held.runs, held.step_sizes, held.seeds, held.diverged)))
        for held in found.holdings
    ]
    if rows:
        show(("problem", "optimizer", "memory", "runs", "step sizes", "seeds", "diverged"), rows, prose={"problem"})
    typer.echo(
        f"{found.path}: {found.runs:,} runs, {found.rows:,} rows in {found.chunks:,} chunks, "
        f"{len(found.checkpoints)} checkpoints, {_size(found.nbytes)}; made by memgrad {found.made_by}"
    )
    for damage in found.damaged:
        typer.echo(f"damaged: {damage.path}: {damage.reason}; `memgrad run` trains its runs again", err=True)


def export(
    out: Annotated[Path | None, typer.Argument(metavar="OUT", help="The file to write: .csv or .parquet.")] = None,
    store: StoreFolder = None,
    spec: Annotated[Path | None, typer.Option(help="Only the runs of this experiment, with its method names.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write CSV to standard output, or to OUT.")] = False,
) -> None:
    """Write all rows as one table, each with its problem, optimizer, options, step size and seed.

    With --spec there are also the columns `method` and `selected`: whether the step size was selected for the method.

    For example:

    - `memgrad export rows.parquet`
    - `memgrad export rows.csv --spec experiment.toml`
    - `memgrad export --csv | gzip > rows.csv.gz`
    """
    from memgrad import tables

    if out is None and not as_csv:
        raise ValueError("name a file ending in .csv or .parquet, or pass --csv for standard output.")
    if out is not None and as_csv and out.suffix.lower() != ".csv":
        raise ValueError(f"--csv writes a file ending in .csv, got {str(out)!r}.")
    check_outputs(table=out)
    kept = store_in(store)
    columns = kept.read().described() if spec is None else results_in(spec, kept).table()
    if out is None:
        tables.write_csv(columns, sys.stdout)
    else:
        typer.echo(f"wrote {tables.write_table(columns, out)}: {len(columns['value']):,} rows")


def gc(
    store: StoreFolder = None,
    keep: Annotated[
        Path | None, typer.Option(help="Also remove the rows of all runs except those of this experiment; needs --yes.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that rows are to be removed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    merge: Annotated[bool, typer.Option("--merge", help="Then merge small files of rows into few large ones.")] = False,
) -> None:
    """Remove what a store does not need: incomplete and damaged files, checkpoints of finished runs, duplicates.

    No rows are lost, unless --keep is given.

    For example:

    - `memgrad gc --dry-run`
    - `memgrad gc --keep experiment.toml --yes`
    - `memgrad gc --merge`
    """
    from memgrad.experiments.storing.upkeep import clean, merge_alike

    if merge and dry_run:
        raise ValueError("--merge rewrites files: leave out --dry-run, or --merge to see what would be removed.")

    kept = store_in(store)
    wanted = None if keep is None else _runs_to_keep(keep, kept)
    if keep is not None and not (yes or dry_run):
        raise ValueError("--keep removes rows permanently: add --yes to confirm, or --dry-run to see which.")
    found = clean(kept, keep=wanted, dry_run=dry_run)
    for each in found:
        typer.echo(f"{each.path.relative_to(kept.path)}: {each.reason}")
    size = _size(sum(each.nbytes for each in found))
    typer.echo(f"{len(found)} files, {size}, {'would be removed' if dry_run else 'were removed'}")
    if merge:
        many, few = merge_alike(kept)
        typer.echo(f"{many:,} files of rows were merged into {few:,}")


def _runs_to_keep(spec: Path, store: Store) -> set[str]:
    results = results_in(spec, store)
    unknown = [method.name for method in results.spec.methods if method.name not in results.methods]
    if results.spec.tuning_seeds is not None:  # the runs that test a setting are known once it is selected
        unknown += [
            method.name for method in results.spec.methods if method.is_tuned and not results.tuned(method.name)
        ]
    if unknown:
        raise ValueError(
            f"the runs of {', '.join(unknown)} are known only after their step size is selected: finish "
            f"`memgrad run {spec}` first."
        )
    return set(results.planned)


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.1f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.1f} kB"
