"""Several tables of `benchmarks/tune.py validate` as one table and one figure.

python benchmarks/tune_summary.py covtype=covtype.md MLP=mlp.md --out summary.md --figure summary.svg
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from memgrad import figures
from memgrad.figures.style import SMALL, sheet
from memgrad.files import written_whole

STYLES = {
    "memgrad tune": ("#B00000", "o"),
    "grid, one seed": ("#444444", "s"),
    "Optuna, TPE, median pruner, one seed": ("#0072B2", "v"),
    "Optuna, TPE, median pruner, a seed per trial": ("#56B4E9", "^"),
    "Optuna, TPE, successive halving, one seed": ("#009E73", "<"),
    "Optuna, TPE, successive halving, a seed per trial": ("#88C9A1", ">"),
}
"""The color and the marker of each way to choose that the figure shows."""


@dataclass(frozen=True)
class Cell:
    """A way to choose on a problem, as its table has it: means over repetitions, and regrets in percent."""

    runs: float
    mean: float
    worst: float
    close: str

    @classmethod
    def of(cls, runs: str, mean: str, worst: str, close: str) -> Cell:
        return cls(float(runs), *(float(share.removesuffix(" %")) for share in (mean, worst)), close)

    def __str__(self) -> str:
        parts = (self.close, f"{self.worst:+.1f} %", f"{self.runs:.0f} runs")
        return "; ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)  # a line each in a narrow column


Tables = Mapping[str, Mapping[str, Cell]]
"""Cells by problem and way to choose; the first way is the grid itself."""


def read(path: Path) -> dict[str, Cell]:
    """The table that `validate` wrote."""
    rows = [line.strip("|").split("|") for line in path.read_text(encoding="utf-8").splitlines()[2:] if line.strip()]
    return {way.strip(): Cell.of(*(cell.strip() for cell in cells)) for way, *cells in rows}


def in_one(tables: Tables) -> list[str]:
    """The lines of one table: how often each way to choose was close, its largest regret and its runs."""
    ways = list(dict.fromkeys(way for table in tables.values() for way in [*table][1:]))
    rows = [["way to choose", *tables], ["---"] * (1 + len(tables))]
    rows += [[way, *(str(table.get(way, "")) for table in tables.values())] for way in ways]
    return [f"| {' | '.join(row)} |" for row in rows]


def picture(tables: Tables) -> Figure:
    """Regret over cost, a panel for each problem: the mean as a marker, with a line up to the largest."""
    across = min(3, len(tables))
    down = -(-len(tables) // across)
    caption = "markers: mean of ten repetitions; lines: to the largest; dotted: 2 %; the ordinate is linear up to 2 %"
    cells = [cell for table in tables.values() for cell in table.values()]
    seen = [regret for cell in cells for regret in (cell.mean, cell.worst) if math.isfinite(regret)]
    low, high = min(-1.0, 1.3 * min(seen)), max(30.0, 1.3 * max(seen))
    costs = [
        100 * each.runs / grid.runs for table in tables.values() for grid, *ways in [table.values()] for each in ways
    ]
    shown: dict[str, Any] = {}
    with sheet((max(7.5, 2.5 * across), 2.2 * down + 0.7), caption) as figure:
        panels = figure.subplots(down, across, squeeze=False).flatten()
        for axes, (problem, table) in zip(panels, tables.items(), strict=False):
            grid, *_ = table.values()
            for way, (color, marker) in STYLES.items():
                if (cell := table.get(way)) is not None:
                    cost = 100 * cell.runs / grid.runs
                    mean, worst = min(cell.mean, high), min(cell.worst, high)  # a pick that diverged is at the top
                    axes.plot([cost] * 2, [mean, worst], color=color, linewidth=1.0)
                    [shown[way]] = axes.plot(cost, mean, marker, color=color, markersize=5)
            axes.axhline(2.0, color="black", linewidth=0.8, linestyle=":")
            axes.set(title=problem, xscale="log", xlabel="runs, % of the grid's", ylabel="regret, %")
            axes.set_yscale("symlog", linthresh=2.0)
            axes.set_ylim(low, high)
            axes.set_yticks([-1, 0, 1, 2, 5, 10, 20], ["-1", "0", "1", "2", "5", "10", "20"])
            axes.set_xlim(0.8 * min(0.5, *costs), 1.2 * max(33.0, *costs))
            axes.set_xticks([1, 3, 10, 30], ["1", "3", "10", "30"])
            axes.minorticks_off()
        for axes in panels[len(tables) :]:
            axes.set_visible(False)
        known = [way for way in STYLES if way in shown]
        figure.legend([shown[way] for way in known], known, loc="outside upper center", ncols=2, fontsize=SMALL)
    return figure


def named(word: str) -> tuple[str, dict[str, Cell]]:
    """A problem and its table, as the command has them."""
    problem, equals, path = word.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"a table is given as PROBLEM=TABLE.md, got {word!r}")
    try:
        return problem, read(Path(path))
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{path} cannot be read ({error.strerror}); name what validate wrote"
        ) from None


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=named, metavar="PROBLEM=TABLE.md", help="what validate wrote")
    parser.add_argument("--out", type=Path, help="write the table")
    parser.add_argument("--figure", type=Path, help="write the figure")
    options = parser.parse_args(words)
    tables = dict(options.tables)
    lines = in_one(tables)
    print("\n".join(lines))
    if options.out is not None:
        with written_whole(options.out) as unfinished:
            unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if options.figure is not None:
        figures.save(picture(tables), options.figure)


if __name__ == "__main__":
    main()
