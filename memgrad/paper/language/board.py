"""The board of L1 to L6: verdicts, steps saved, selected settings and comparisons as plain data, and as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from memgrad import tables
from memgrad.experiments.comparison import Comparison
from memgrad.files import written_whole
from memgrad.paper.language.beside import OF_PAPER, OTHERS, WORKLOADS, compared_others, compared_workload
from memgrad.paper.language.running import chosen, judged
from memgrad.paper.language.savings import exponent, over_batch, over_horizon
from memgrad.paper.language.stages import scales
from memgrad.paper.language.study import Study, if_finished

MISSING = "not measured yet"


def board(study: Study, names: Iterable[str] = ()) -> dict[str, Any]:
    """All that is known so far about claims, as plain data; None where an experiment is not complete.

    Args:
        study: The study, whose results are found in a store.
        names: The claims, `others` and `workloads`; all by default.
    """
    wanted = chosen(names)
    verdicts = [each.to_dict() for each in judged(study, wanted)]
    selected = {
        "short": if_finished(lambda: {name: each.method() for name, each in study.short[1].items()}),
        "long": if_finished(lambda: {name: each.method() for name, each in study.long.items()}),
    }
    saved = {
        "exponent": if_finished(lambda: exponent(study).to_dict()),
        "horizon": if_finished(lambda: [each.to_dict() for each in over_horizon(study)]),
        "batch": if_finished(lambda: [each.to_dict() for each in over_batch(study)]),
    }
    compared = {
        name: if_finished(lambda: [row.to_dict() for row in find(study)])  # noqa: B023  # it is called at once
        for name, find in _comparisons(wanted).items()
    }
    found: dict[str, Any] = tables.json_ready(
        {
            "scale": asdict(scales()[study.stages.scale]),
            "verdicts": verdicts,
            "selected": selected,
            "saved": saved,
            "compared": compared,
        }
    )
    return found


def finish(study: Study, names: Iterable[str] = ()) -> None:
    """Train all that claims, `others` and `workloads` need, with a study whose results are found by training."""
    wanted = chosen(names)
    judged(study, wanted)
    for find in _comparisons(wanted).values():
        if_finished(lambda: find(study))  # noqa: B023  # it is called at once


def _comparisons(wanted: Iterable[str]) -> dict[str, Callable[[Study], tuple[Comparison, ...]]]:
    found: dict[str, Callable[[Study], tuple[Comparison, ...]]] = {}
    if OTHERS in wanted:
        found[OTHERS] = compared_others
    if OF_PAPER in wanted:
        found |= {problem: partial(compared_workload, problem=problem) for problem in WORKLOADS}
    return found


def write_board(found: Mapping[str, Any], folder: Path, *, about: Mapping[str, Any] | None = None) -> tuple[Path, ...]:
    """Write a board as language.json, its verdicts as language.md and its other tables as language_numbers.md.

    Args:
        found: The board.
        folder: The folder to write to.
        about: Where and when it was made, for the JSON file.
    """
    whole = {**found, **({} if about is None else {"about": tables.json_ready(about)})}
    texts = {
        "language.json": json.dumps(whole, indent=1) + "\n",
        "language.md": verdict_table(found),
        "language_numbers.md": number_tables(found),
    }
    for name, text in texts.items():
        with written_whole(folder / name) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    return tuple(folder / name for name in texts)


# --- as tables -------------------------------------------------------------------------------------------------------


def headline(found: Mapping[str, Any]) -> str:
    """The claims by their outcome, in one sentence."""
    by_outcome: dict[str, list[str]] = {}
    for each in found["verdicts"]:
        by_outcome.setdefault(_outcome(each), []).append(each["id"])
    parts = [f"{outcome}: {', '.join(names)}" for outcome, names in by_outcome.items()]
    text = "; ".join(parts) or "no claim was asked for"
    return f"**{text[:1].upper()}{text[1:]}.**"


def verdict_table(found: Mapping[str, Any]) -> str:
    """The verdicts as a table, a row for each claim, whatever came out."""
    lines = [headline(found), ""]
    if not found["scale"]["decides"]:
        lines = [f"**{found['scale']['about'].capitalize()}.**", ""]
    lines += ["| claim | verdict | measured, with 95 % intervals |", "|---|---|---|"]
    for each in found["verdicts"]:
        numbers = "<br>".join(named(number) for number in each["numbers"])
        lines.append(_row((f"**{each['id']}** {each['statement']}", f"**{_outcome(each)}**", numbers or "-")))
    reasons = [f"- {each['id']}: {each['reason']}." for each in found["verdicts"] if each["numbers"]]
    return "\n".join([*lines, *(["", *reasons] if reasons else [])]) + "\n"


def number_tables(found: Mapping[str, Any]) -> str:
    """Steps saved, selected settings and comparisons as tables, negative results among them."""
    lines = [*_savings(found["saved"]), "", *_settings(found["selected"])]
    for name, rows in found["compared"].items():
        lines += ["", *_comparison(name, rows)]
    return "\n".join(lines) + "\n"


def _outcome(verdict: Mapping[str, Any]) -> str:
    return str(verdict["outcome"]) if verdict["numbers"] else MISSING


def _savings(saved: Mapping[str, Any]) -> list[str]:
    lines = [
        "| steps | batch | AdamW's loss | loss mixture / AdamW, equal steps | share of the steps that it is worth |",
        "|---|---|---|---|---|",
    ]
    measured = [*(saved["horizon"] or ())]
    measured += [each for each in saved["batch"] or () if each not in measured]
    for each in measured:
        numbers = _number(each["loss"]), _number(each["ratio"]), _percent(each["saved"])
        lines.append(_row((f"{each['steps']:,}", str(each["batch"]), *numbers)))
    lines += [] if measured else [_row((MISSING, "", "", "", ""))]
    if saved["exponent"] is not None:
        lines += ["", f"AdamW's final loss falls as T^-a with a = {_number(saved['exponent'])}."]
    return lines


def _settings(selected: Mapping[str, Any]) -> list[str]:
    lines = ["| horizon | method | selected on the tuning seeds |", "|---|---|---|"]
    for horizon, methods in selected.items():
        for name, options in (methods or {"": None}).items():
            shown = (
                MISSING
                if options is None
                else ", ".join(f"{key} {_plain(v)}" for key, v in options.items() if key != "name")
            )
            lines.append(_row((horizon, name, shown)))
    return lines


def _comparison(name: str, rows: Sequence[Mapping[str, Any]] | None) -> list[str]:
    head = f"| {comparison_title(name)} | learning rate | final loss | ratio | p (Holm) |"
    return [head, "|---|---|---|---|---|", *(_row(cells) for cells in comparison_cells(rows))]


def comparison_title(name: str) -> str:
    """What is compared, in words."""
    if name == OTHERS:
        return "the language model at the short horizon, ratios to AdamW"
    return f"{name}, in minibatches"


def comparison_cells(rows: Sequence[Mapping[str, Any]] | None) -> list[tuple[str, ...]]:
    """A row of cells for each comparison: the method, its step size, final loss, ratio and corrected p-value."""
    found: list[tuple[str, ...]] = []
    for row in rows or ():
        p = row["adjusted_p_value"]
        shown = "" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}"
        setting = row["variant"].partition(" [")[2].rstrip("]")
        method = row["method"] + (f" ({setting})" if setting else "")
        ratio = "" if row["difference"] is None else _number(_estimate(row["ratio"]))
        lr = f"{row['lr']:g}" + (" (at the end of what was tried)" if row["at_edge"] else "")
        found.append((method, lr, _number(_estimate(row["final"])), ratio, shown))
    return found or [(MISSING, "", "", "", "")]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _estimate(found: Mapping[str, Any] | None) -> dict[str, Any]:
    """A number of a comparison in the form of the others."""
    found = found or {"mean": None, "low": None, "high": None}
    return {"value": found["mean"], "low": found["low"], "high": found["high"]}


def named(number: Mapping[str, Any]) -> str:
    """A number with its name and interval."""
    return f"{number['name']} = {_number(number)}"


def _number(number: Mapping[str, Any]) -> str:
    if number["value"] is None:
        return "not finite: a run diverged"
    ends = "" if number["low"] is None else f" [{number['low']:.4g}, {number['high']:.4g}]"
    return f"{number['value']:.4g}{ends}"


def _percent(number: Mapping[str, Any]) -> str:
    if number["value"] is None:
        return "-"
    ends = "" if number["low"] is None else f" [{100 * number['low']:.3g}, {100 * number['high']:.3g}]"
    return f"{100 * number['value']:.3g}{ends} %"


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
