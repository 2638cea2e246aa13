"""Commands that draw the figures of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from memgrad.cli.options import check_outputs
from memgrad.cli.terminal import progress_bar, refusing
from memgrad.paper.catalogue import SYNTHETIC, PaperFigure

Data = Annotated[
    Path | None,
    typer.Option(help="Also write the numbers behind the figure: .csv (with its settings as .json) or .parquet."),
]


def _as_seed(text: str) -> int:
    """A seed, checked before anything is drawn."""
    with refusing():
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"a seed is an integer >= 0, got seed={text}.")
        return int(text)


Seed = Annotated[
    int | None,
    typer.Option(parser=_as_seed, metavar="N", help="Another seed for the random numbers, an integer >= 0."),
]


def plot_commands() -> dict[str, Callable[..., None]]:
    """A command, by name, for each figure of the paper that has no special command."""
    return {name: _command(figure) for name, figure in SYNTHETIC.items() if name != "memories"}


def plot_all(
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("figures"),
    ending: Annotated[str, typer.Option(help="The format: png, svg or pdf.")] = "png",
    seed: Seed = None,
) -> None:
    """Draw all figures of the paper that need no data set, each with its numbers (.csv) and settings (.json) beside it.

    It takes a minute or two.

    For example: `memgrad plot all --out figures --ending pdf`
    """
    from memgrad import figures

    if ending not in figures.FORMATS:
        raise ValueError(f"a figure is saved as {', '.join(figures.FORMATS)}, got --ending {ending!r}.")
    for name, figure in SYNTHETIC.items():
        _write(figure, out / f"{name}.{ending}", out / f"{name}.csv", seed if figure.is_random else None)


def _command(figure: PaperFigure) -> Callable[..., None]:
    default = Path(f"{figure.name.replace('-', '_')}.png")

    def seeded(
        out: Annotated[Path, typer.Option(help="The file to write: .png, .svg or .pdf.")] = default,
        data: Data = None,
        seed: Seed = None,
    ) -> None:
        _write(figure, out, data, seed)

    def plain(
        out: Annotated[Path, typer.Option(help="The file to write: .png, .svg or .pdf.")] = default,
        data: Data = None,
    ) -> None:
        _write(figure, out, data, None)

    command: Any = seeded if figure.is_random else plain
    again = f" --seed 1 --data {figure.name}.csv" if figure.is_random else f" --data {figure.name}.csv"
    command.__doc__ = (
        f"{figure.title}\n\n"
        f"The paper's {figure.where}: {figure.published}\n\n"
        f"For example:\n\n"
        f"- `memgrad plot {figure.name} --out {figure.name}.pdf`\n"
        f"- `memgrad plot {figure.name} --out {figure.name}.png{again}`\n"
    )
    return command  # type: ignore[no-any-return]  # one of the two above


def _write(figure: PaperFigure, out: Path, data: Path | None, seed: int | None) -> None:
    from memgrad import figures, tables
    from memgrad.paper.figures import draw

    check_outputs(table=data, figure=out)
    with progress_bar(figure.title) as report:
        picture = draw(figure.name, seed=seed, progress=report)
    typer.echo(f"wrote {figures.save(picture.figure, out)}")
    if data is not None:
        typer.echo(f"wrote {tables.write_table(picture.columns, data, about=picture.about())}")
