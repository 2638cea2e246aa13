"""Take the results of `memgrad reproduce --scale laptop` into the documentation: scoreboard, table and figures.

    python docs/results/publish.py reproduction

The table in scoreboard.md is made of scoreboard.json alone, and a test makes it again.
"""

from __future__ import annotations

import argparse
import html
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

HERE = Path(__file__).parent
FIGURES = ("results", "gradnorm", "acc", "stepnorm", "padam", "rec", "step-sizes", "ratios")
"""The figures of training on real data; the others are drawn for the page about them."""


def main() -> None:
    """Copy what a folder has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what memgrad reproduce wrote")
    folder = parser.parse_args().folder
    board = shortened(json.loads((folder / "scoreboard.json").read_text(encoding="utf-8")))
    if board["skipped"] or board["interrupted"] or not board["scale"]["decides"]:
        parser.error(f"{folder} has no complete results that decide: {board['scale']['name']}, {board['skipped']}")
    (HERE / "scoreboard.json").write_text(json.dumps(board, indent=1) + "\n", encoding="utf-8")
    (HERE / "scoreboard.md").write_text(table(board), encoding="utf-8")
    for name in FIGURES:
        with Image.open(folder / f"{name}.png") as picture:  # with fewer colours, a third of the bytes
            picture.convert("RGB").quantize(128).save(HERE / f"{name}.png", optimize=True)


def shortened(board: Mapping[str, Any]) -> dict[str, Any]:
    """The scoreboard with the cost of each experiment in the place of one entry for each file of its rows."""
    found = dict(board)
    found["experiments"] = {name: _cost(made) for name, made in board["experiments"].items()}
    del found["figures"]
    found["about"] = {**board["about"], "machine": _machine(board["about"]["machine"])}
    return found


def _cost(made: Mapping[str, Any]) -> dict[str, Any]:
    abouts = made["abouts"]
    return {
        "spec": made["spec"],
        "runs": made["runs"],
        "core_hours": round(sum(each["cpu_seconds"] for each in abouts) / 3600, 3),
        "commits": sorted({each["commit"] for each in abouts if each["commit"]}),
        "versions": abouts[0]["versions"],
        "machine": _machine(abouts[0]["machine"]),
    }


def _machine(machine: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in machine.items() if name != "host"}


def table(board: Mapping[str, Any]) -> str:
    """The claims on real data, a row each, and below all numbers that decide them."""
    real = [verdict for verdict in board["verdicts"] if verdict["id"][0] in "RA"]
    rows = ["| claim | verdict | because |", "|---|---|---|"]
    rows += [f"| **{each['id']}** {each['statement']} | **{each['outcome']}** | {each['reason']} |" for each in real]
    for each in real:
        rows += ["", f"<details><summary>The numbers of {each['id']}. Rule: {html.escape(each['rule'])}</summary>", ""]
        rows += [f"- {_written(number)}" for number in each["numbers"]]
        rows += ["", "</details>"]
    return "\n".join(rows) + "\n"


def _written(number: Mapping[str, Any]) -> str:
    value = _digits(number["value"])
    ends = "" if number["low"] is None else f" [{_digits(number['low'])}, {_digits(number['high'])}]"
    return f"{number['name']} = {value}{ends}"


def _digits(value: float | None) -> str:
    return "not finite" if value is None or not math.isfinite(value) else f"{value:.4g}"


if __name__ == "__main__":
    main()
