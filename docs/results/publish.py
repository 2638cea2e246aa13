"""Take results into the documentation: the rows of experiments as they finish, and the scoreboard when all have.

    python docs/results/publish.py rows STORE --scale workstation
    python docs/results/publish.py scoreboard reproduction
    python docs/results/publish.py language [STORE]
    python docs/results/publish.py tuning STORE

The rows of a scale go to rows/SCALE, where `memgrad report --from docs/results` finds them, and `memgrad reproduce
--scale SCALE --from docs/results` resumes from them. The scoreboard of a scale goes to SCALE/scoreboard.json with its
figures; its table, SCALE/scoreboard.md, and the numbers in the README's table are made of scoreboard.json alone, and
tests make them again. That of the scale laptop, whose rows are gone, was written by version 1 of the rules; version 2
of its verdicts was computed from its numbers and added. The rows behind L1 to L6 go to
rows/language-SCALE; language.json, the tables language.md and language_numbers.md and the figures language*.svg are
made of all rows that are there. They say what is not measured yet, and a test makes the tables again. The rows of
benchmarks/tune.py go to rows/tuning. All of this may be called while runs are being trained.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from memgrad.experiments.driver import stored_results
from memgrad.experiments.storing.store import Store
from memgrad.experiments.storing.upkeep import copy_rows, merge_alike
from memgrad.files import written_whole
from memgrad.paper.catalogue import FIGURES as CATALOGUE
from memgrad.paper.claims import Verdict
from memgrad.paper.data_facts import DataFacts
from memgrad.paper.language.board import board as language_board
from memgrad.paper.language.board import write_board
from memgrad.paper.language.pictures import write_figures
from memgrad.paper.language.running import stored
from memgrad.paper.language.stages import Stages
from memgrad.paper.language.stages import scales as language_scales
from memgrad.paper.language.study import Study
from memgrad.paper.published import ROWS
from memgrad.paper.rules import Finding
from memgrad.paper.scales import EXPERIMENTS, SETTINGS, experiment, scales
from memgrad.paper.verdicts import JUDGES
from memgrad.report.wording import number_text
from memgrad.statistics import Estimate

HERE = Path(__file__).parent
OUTCOMES = HERE.parent.parent / "memgrad" / "report" / "published.json"
"""What reports on rehearsals show beside their own verdicts."""

LABELS = {"covtype": "covtype", "autoencoder": "autoencoder", "mlp": "MLP", "cnn": "CNN"}
"""What the README calls the problems."""

FIGURES = tuple(name for name, figure in CATALOGUE.items() if figure.needs)
"""The figures of training on real data; the others are drawn for the page about them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Publish rows or a scoreboard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    rows = kinds.add_parser("rows", help="copy the rows of finished runs")
    rows.add_argument("store", type=Path, help="the store that has them")
    rows.add_argument("--scale", default="workstation", choices=[name for name in scales() if scales()[name].decides])
    board = kinds.add_parser("scoreboard", help="copy the scoreboard and the figures of a complete reproduction")
    board.add_argument("folder", type=Path, help="what memgrad reproduce wrote")
    language = kinds.add_parser("language", help="copy the rows of finished runs of the language model, and draw them")
    language.add_argument("store", type=Path, nargs="?", help="the store that has them [default: what is here]")
    language.add_argument(
        "--scale", default="laptop", choices=[n for n, each in language_scales().items() if each.decides]
    )
    tuning = kinds.add_parser("tuning", help="copy the rows of finished runs of benchmarks/tune.py")
    tuning.add_argument("store", type=Path, help="the store that has them")
    given = parser.parse_args(arguments)
    if given.kind == "tuning":
        target = Store.open(HERE / ROWS / "tuning")
        copy_rows(Store.open(given.store, create=False), target)
        merge_alike(target)
        print(f"{len(target.digests()):,} runs")
    elif given.kind == "language":
        publish_language(None if given.store is None else Store.open(given.store, create=False), given.scale)
    elif given.kind == "rows":
        publish_rows(Store.open(given.store, create=False), given.scale)
    else:
        publish_scoreboard(given.folder, parser)


def published_outcomes(board: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of each claim by version 2 and version 1 of the rules, for reports on rehearsals."""
    found = {each["id"]: [each["outcome"]] for each in board["verdicts"]}
    for each in both_versions(board):
        assert each.first is not None
        found[each.claim.id] = [each.outcome, each.first.outcome]
    return {"scale": board["scale"]["name"], "verdicts": found}


def publish_language(store: Store | None, scale: str) -> None:
    """Copy the rows of finished runs of the language model; make the board, its tables and figures of all rows."""
    target = Store.open(HERE / ROWS / f"language-{scale}")
    if store is not None:
        copy_rows(store, target)
    merge_alike(target)
    here = HERE if scale == "laptop" else HERE / f"language-{scale}"
    here.mkdir(exist_ok=True)
    study = Study(Stages(scale), stored(target))
    found = language_board(study)
    for path in (*write_board(found, here), *write_figures(study, found, here, ("svg",))):
        print(f"wrote {path}")
    for each in found["verdicts"]:
        print(f"{each['id']}: {each['outcome']}, {each['reason']}")


def publish_rows(store: Store, scale: str) -> None:
    """Copy the rows of an experiment's finished runs, and what else its verdicts need; say what is complete."""
    target = Store.open(HERE / ROWS / scale)
    for name in EXPERIMENTS:
        results = stored_results(experiment(name, scale), store)
        if results is None:
            print(f"{name}: no runs")
            continue
        copy_rows(store, target, runs=results.rows.runs)
        missing = f"{len(results.missing())} known ones missing"
        print(f"{name}: {len(results.rows.runs)} runs, {'complete' if results.finished else missing}")
    merge_alike(target)
    specs = {name: experiment(name, scale) for name in ("autoencoder-mini", "autoencoder-full")}
    DataFacts(DataFacts().plateau_of(specs), DataFacts().originals_of(specs)).save(target.path)


def publish_scoreboard(folder: Path, parser: argparse.ArgumentParser) -> None:
    """Copy the scoreboard and the figures of a complete reproduction."""
    whole = json.loads((folder / "scoreboard.json").read_text(encoding="utf-8"))
    if whole["skipped"] or whole["interrupted"] or not whole["scale"]["decides"]:
        parser.error(f"{folder} has no complete results that decide: {whole['scale']['name']}, {whole['skipped']}")
    there = {each["id"] for each in whole["verdicts"]} | {*whole["figures"]}
    if missing := [name for name in (*JUDGES, *FIGURES) if name not in there]:
        parser.error(f"{folder} is without {', '.join(missing)}: reproduce all claims and figures")
    board = shortened(whole)
    pictures = {}
    for name in FIGURES:
        with Image.open(folder / f"{name}.png") as picture:  # with fewer colors, a third of the bytes
            pictures[name] = picture.convert("RGB").quantize(128)
    here = HERE / board["scale"]["name"]
    here.mkdir(exist_ok=True)
    texts = {
        here / "scoreboard.json": json.dumps(board, indent=1) + "\n",
        here / "scoreboard.md": table(board),
    }
    for path, text in texts.items():
        with written_whole(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    *_, latest = published_boards().values()
    with written_whole(OUTCOMES) as unfinished:
        unfinished.write_text(json.dumps(published_outcomes(latest), indent=1) + "\n", encoding="utf-8")
    for name, picture in pictures.items():
        with written_whole(here / f"{name}.png") as unfinished:
            picture.save(unfinished, format="png", optimize=True)


def published_boards() -> dict[str, dict[str, Any]]:
    """The published scoreboards by scale, from small to large."""
    paths = {scale: HERE / scale / "scoreboard.json" for scale in scales()}
    return {scale: json.loads(path.read_text(encoding="utf-8")) for scale, path in paths.items() if path.exists()}


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
        "versions": _distinct(each["versions"] for each in abouts),
        "machines": _distinct(_machine(each["machine"]) for each in abouts),
    }


def _distinct(parts: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [*{json.dumps(each, sort_keys=True): each for each in parts}.values()]


def _machine(machine: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in machine.items() if name != "host"}


def both_versions(board: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """The verdicts on real data by version 2 of the rules, each with that of version 1."""
    return tuple(Verdict.from_dict(each) for each in board["verdicts"] if each["id"][0] in "RA")


def table(board: Mapping[str, Any]) -> str:
    """The claims on real data by both versions of the rules, a row each, and below all numbers that decide them."""
    real = both_versions(board)
    rows = ["| claim | version 2 | because | version 1 | because |", "|---|---|---|---|---|"]
    for each in real:
        assert each.first is not None
        name = f"**{each.claim.id}** {each.claim.statement}"
        rows.append(f"| {name} | **{each.outcome}** | {each.reason} | **{each.first.outcome}** | {each.first.reason} |")
    counts = {2: Counter(each.outcome for each in real), 1: Counter(each.first.outcome for each in real if each.first)}
    outcomes = ("reproduced", "not reproduced", "undecided")
    said = [f"version {n}: {', '.join(f'{counts[n][each]} {each}' for each in outcomes)}" for n in (2, 1)]
    rows += ["", f"{'; '.join(said).capitalize()}."]
    for each in real:
        rule = html.escape(each.claim.rule)
        rows += ["", f"<details><summary>The numbers of {each.claim.id}. Rule: {rule}</summary>", ""]
        findings = [*each.findings, *[None] * (len(each.numbers) - len(each.findings))]
        rows += [f"- {_written(*pair)}" for pair in zip(each.numbers, findings, strict=True)]
        rows += ["", "</details>"]
    return "\n".join([*rows, "", *costs(board)]) + "\n"


def costs(board: Mapping[str, Any]) -> list[str]:
    """What each experiment took, as the lines of a table."""
    experiments = board["experiments"]
    lines = ["| experiment | examples | steps | runs | core-hours |", "|---|---|---|---|---|"]
    for name, made in experiments.items():
        spec = made["spec"]
        examples = f"{spec['examples']:,}" if "examples" in spec else "all"
        lines.append(f"| {name} | {examples} | {spec['steps']:,} | {made['runs']} | {made['core_hours']:.2f} |")
    runs, hours = (sum(made[key] for made in experiments.values()) for key in ("runs", "core_hours"))
    return [*lines, f"| all | | | {runs} | {hours:.1f} |"]


def readme_cells(board: Mapping[str, Any]) -> dict[str, str]:
    """What the README's table says of these numbers, by the beginning of its row."""
    return {**_synthetic_cells(board), **_training_cells(board)}


def _synthetic_cells(board: Mapping[str, Any]) -> dict[str, str]:
    found = {
        each["id"]: {number["name"]: number for number in each["numbers"]}
        for each in board["verdicts"]
        if not JUDGES[each["id"]].needs
    }
    first, *_, last = (number["value"] for name, number in found["S5"].items() if name.startswith("crossing "))
    moments = [name for name in found["S3"] if name[:2] in ("E ", "Va")]
    off = [
        abs(number["value"] - float(exact[1]))
        for name, number in found["S7"].items()
        if (exact := re.search(r"exact (-?[\d.]+)", name))
    ]
    rough = {name.removeprefix("roughness "): number["value"] for name, number in found["S1"].items()}
    tail = found["S2"]["final loss p=2 / inf"]
    smoother = f"{rough['inst'] / rough['poly:2']:.0f} times smaller than SGD's"
    ratio = f"{tail['value']:.2f} [{tail['low']:.2f}, {tail['high']:.2f}]"
    apart = max(number["value"] for number in found["S6"].values())
    return {
        "HB_amplification": f"last crossing at t = {last:.1f}; memory is ahead before {first:.1f}",
        "verif_noise": f"within {found['S3']['farthest, in standard errors']['value']:.1f} standard errors "
        f"({len(moments)} moments)",
        "timewarp": f"one path, to {apart:.0e}; with noise similar ones",
        "App. F": f"slopes -q and -(p-1/2) to {max(off):.2f}",
        "p_verification": f"mean squared second difference {smoother}; {ratio} times its loss",
    }


def _training_cells(board: Mapping[str, Any]) -> dict[str, str]:
    """About training: only what speaks for its data set."""
    verdicts = {each.claim.id: each for each in both_versions(board)}
    numbers = {each.name: each for verdict in verdicts.values() for each in verdict.numbers}
    speaking = [
        number.name.rpartition(", ")[2]
        for number, finding in zip(verdicts["R6"].numbers, verdicts["R6"].findings, strict=True)
        if not finding.regime
    ]

    def by_problem(text: Callable[[str], str]) -> str:
        parts = []
        for problem, label in LABELS.items():
            told = [
                f"{text(f'{problem}-{setting}')} ({setting})"
                for setting in SETTINGS
                if f"{problem}-{setting}" in speaking
            ]
            parts.append(f"{label} {', '.join(told)}")
        return "; ".join(parts)

    def loss(name: str) -> str:
        if name.startswith("covtype"):
            return f"{numbers[f'loss p=2 / SGD, {name} at 100%'].value:.3f}"
        found = numbers[f"final loss MemSGD p=2 / SGD, {name}"]
        return f"{found.value:.2f}" if found.has_interval else "a run diverged"

    def step_sizes(name: str) -> str:
        [found] = filter(
            None, (re.match(rf"best step size HB / SGD, {name} \((.*) / (.*)\)", each) for each in numbers)
        )
        return " and ".join(found.groups())

    def accuracy(setting: str) -> str:
        best = max(each.value for name, each in numbers.items() if re.match(f"best accuracy .*-{setting}$", name))
        return f"{100 * best:.1f} % ({setting})"

    def last_half(rival: str) -> str:
        found = numbers[f"loss p=4 / {rival}, last half"]
        return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}] times {rival}'s"

    def smaller(name: str) -> str:
        return f"{100 * numbers[f'share of evaluations with smaller steps of HB, {name}'].value:.0f} %"

    return {
        "results_iterations": f"p = 2 over SGD: {by_problem(loss)}",
        "exp_loss": ", ".join(accuracy(setting) for setting in SETTINGS if f"covtype-{setting}" in speaking),
        "exp_stepnorm": f"smaller at this share of evaluations: {by_problem(smaller)}",
        "App. G, step sizes": f"HB and SGD: {by_problem(step_sizes)}",
        "padam": f"p = 4: {last_half('Adam')} loss, {last_half('Adagrad')}",
    }


def _written(number: Estimate, finding: Finding | None) -> str:
    ends = "" if not number.has_interval else f" [{_digits(number.low)}, {_digits(number.high)}]"
    text = f"{number.name} = {_digits(number.value)}{ends}"
    if finding is not None and " / " in number.name and number.value == 0:
        text += " (a run of the reference diverged)"
    if finding is None:
        return text
    tests = "" if math.isnan(finding.p_for) else f", p = {finding.p_for:.2g} for, {finding.p_against:.2g} against"
    return f"{text}: {finding.status}{tests}{f' ({finding.regime})' if finding.regime else ''}"


def _digits(value: float) -> str:
    return number_text(value) if math.isfinite(value) else "not finite"


if __name__ == "__main__":
    main()
