"""What a report says, made of a reproduction: values that a template only has to set in type."""

from __future__ import annotations

import base64
import json
import os
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, final
from urllib.parse import quote

from memgrad.experiments.results import Results
from memgrad.paper.catalogue import FIGURES, PaperFigure
from memgrad.paper.claims import CLAIMS, OUTCOMES, Claim, Verdict
from memgrad.paper.names import FIGURE_NAMES
from memgrad.paper.realdata import JUDGES
from memgrad.paper.reproduction import Reproduction
from memgrad.paper.training import TRAINING_FIGURES, TrainingFigure
from memgrad.report.methods import ExperimentPart, experiment_part
from memgrad.report.wording import duration, ends_text, listed, number_text, whole_numbers

FIRST_NUMBERS = 4
"""So many numbers of a verdict are shown at once; the others unfold."""

ABSENT = "not run"
MARKS: Mapping[str, str] = MappingProxyType(
    {"reproduced": "✓", "not reproduced": "✗", "undecided": "?", ABSENT: "○"},
)
"""A sign for each outcome, so that it is not told by colour alone."""

MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}
"""The kinds of picture that a page can show, the preferred one first."""

PLAIN = " !$()*+,-./:;=?@_~"
"""What stands for itself in an address, and in an attribute, beside letters and digits."""

LARGEST = 600_000
"""Bytes of an SVG that is still shown as such: one of very many points is smaller as pixels."""

BIBTEX = """\
@inproceedings{orvieto2019memory,
  title     = {The Role of Memory in Stochastic Optimization},
  author    = {Orvieto, Antonio and Kohler, Jonas and Lucchi, Aurelien},
  booktitle = {Uncertainty in Artificial Intelligence (UAI)},
  year      = {2019}
}"""


@final
@dataclass(frozen=True)
class NumberText:
    """A number of a verdict: what it is, its value, and the ends of its interval."""

    name: str
    value: str
    ends: str


@final
@dataclass(frozen=True)
class ClaimRow:
    """A line of the scoreboard.

    Attributes:
        claim: The claim with its rule.
        outcome: One of the outcomes, or `not run`.
        mark: Its sign.
        kind: Its name where spaces are not allowed.
        rehearsal: Whether it was run at a scale that decides nothing.
        reason: Why, as a sentence.
        numbers: What decided it.
        scale: What was run, part by part.
        seeds: The seeds.
        figures: The names of the figures in this report that show it.
    """

    claim: Claim
    outcome: str
    mark: str
    kind: str
    rehearsal: bool
    reason: str
    numbers: tuple[NumberText, ...]
    scale: tuple[str, ...]
    seeds: str
    figures: tuple[str, ...]


@final
@dataclass(frozen=True)
class FigurePart:
    """A figure with all that is said about it.

    Attributes:
        name: Its name.
        title: What it shows.
        label: Where it is in the paper.
        published: What the paper says it shows.
        picture: The picture as an address that contains it; empty if there is none that a page can show.
        described: The picture in words.
        settings: What it was run with: name, value, and the reason where the paper leaves it open.
        experiments: The experiments on real data that it shows.
        files: The files beside the report, by what they are.
        claims: The ids of the claims that it is about.
        missing: Why it is not here, or nothing.
    """

    name: str
    title: str
    label: str
    published: str
    picture: str
    described: str
    settings: tuple[tuple[str, str, str], ...]
    experiments: tuple[str, ...]
    files: Mapping[str, str]
    claims: tuple[str, ...]
    missing: str


@final
@dataclass(frozen=True)
class Maker:
    """Who made rows: a machine with its software, and what was made there."""

    machine: str
    versions: str
    commit: str
    when: str
    made: str


@final
@dataclass(frozen=True)
class Erratum:
    """A slip of the paper that changes what was run."""

    number: int
    title: str
    printed: str
    used: str
    touches: tuple[str, ...]


@final
@dataclass(frozen=True)
class Content:
    """All that a report says.

    Attributes:
        reproduction: What it is about.
        counts: How many claims have each outcome, those without one left out.
        claims: The scoreboard.
        synthetic: The figures without data.
        trained: The figures of training.
        experiments: What was found on real data.
        makers: Where that was made.
        cost: Wall and CPU time of all training.
        took: How long this call took.
        skipped: What is missing, and why.
        errata: The errata that change what was run.
    """

    reproduction: Reproduction
    counts: Mapping[str, int]
    claims: tuple[ClaimRow, ...]
    synthetic: tuple[FigurePart, ...]
    trained: tuple[FigurePart, ...]
    experiments: tuple[ExperimentPart, ...]
    makers: tuple[Maker, ...]
    cost: Mapping[str, str]
    took: str
    skipped: Mapping[str, str]
    errata: tuple[Erratum, ...]
    bibtex: str = BIBTEX


def content_of(reproduction: Reproduction, results: Mapping[str, Results], folder: Path) -> Content:
    """What a report says.

    Args:
        reproduction: What was reproduced.
        results: What the experiments on real data found, by name; those without are told without numbers.
        folder: Where the report will be: files beside it are named from there.
    """
    verdicts = {verdict.claim.id: verdict for verdict in reproduction.verdicts}
    claims = tuple(_claim(claim, verdicts.get(claim.id), reproduction) for claim in CLAIMS.values())
    counts = Counter(row.outcome for row in claims)
    made = reproduction.experiments
    seconds = {key: sum(_seconds(each.abouts, key) for each in made.values()) for key in ("wall", "cpu")}
    return Content(
        reproduction,
        {outcome: counts[outcome] for outcome in (*OUTCOMES, ABSENT) if counts[outcome]},
        claims,
        tuple(_figure(figure, reproduction, folder) for figure in FIGURES.values()),
        tuple(_figure(figure, reproduction, folder) for figure in TRAINING_FIGURES.values()),
        tuple(experiment_part(each, results.get(name)) for name, each in made.items()),
        _makers(reproduction),
        {key: duration(value) for key, value in seconds.items()},
        duration(reproduction.seconds),
        reproduction.skipped,
        errata(),
    )


@cache
def errata() -> tuple[Erratum, ...]:
    """The errata that change what was run, in their order.

    Example:
        >>> errata()[-1].title
        'Labels of figures'
    """
    return tuple(Erratum(**{**each, "touches": tuple(each["touches"])}) for each in _texts()["errata"])


def shows(figure: PaperFigure | TrainingFigure, claim: Claim) -> bool:
    """Whether a claim is about a figure: it names the figure, or its section and no figure.

    Example:
        >>> [claim.id for claim in CLAIMS.values() if shows(TRAINING_FIGURES["step-sizes"], claim)]
        ['R4']
    """
    places = [each.strip().removeprefix("Figs. ").removeprefix("Fig. ") for each in claim.where.split(",")]
    if figure.label.startswith("App."):
        return figure.label in places and "Fig" not in claim.where
    return figure.label in places or figure.name in places


# --- the scoreboard --------------------------------------------------------------------------------------------------


def _claim(claim: Claim, verdict: Verdict | None, reproduction: Reproduction) -> ClaimRow:
    outcome = ABSENT if verdict is None else verdict.outcome
    everything: dict[str, PaperFigure | TrainingFigure] = {**FIGURES, **TRAINING_FIGURES}
    return ClaimRow(
        claim=claim,
        outcome=outcome,
        mark=MARKS[outcome],
        kind=outcome.replace(" ", "-"),
        rehearsal=verdict is not None and verdict.rehearsal,
        reason=_sentence(_why_not(claim.id, reproduction) if verdict is None else verdict.reason),
        numbers=() if verdict is None else tuple(_number(each) for each in verdict.numbers),
        scale=() if verdict is None else _what_ran(verdict),
        seeds="" if verdict is None or not verdict.seeds else whole_numbers(verdict.seeds),
        figures=tuple(name for name in FIGURE_NAMES if name in reproduction.figures and shows(everything[name], claim)),
    )


def _number(number: Any) -> NumberText:
    return NumberText(number.name, number_text(number.value), ends_text(number.low, number.high))


def _what_ran(verdict: Verdict) -> tuple[str, ...]:
    """What was run: experiment by experiment for a claim on real data, in one line for the others."""
    if verdict.claim.id not in JUDGES:
        return (verdict.scale,)
    return tuple(each.strip() for each in verdict.scale.split(";"))


def _why_not(name: str, reproduction: Reproduction) -> str:
    stopped = "it was stopped before" if reproduction.interrupted else "it was not asked for"
    return reproduction.skipped.get(name, stopped)


def _sentence(text: str) -> str:
    """A text with a capital and a full stop.

    Example:
        >>> _sentence("it was not asked for")
        'It was not asked for.'
    """
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?" else ".")


# --- figures ---------------------------------------------------------------------------------------------------------


def _figure(figure: PaperFigure | TrainingFigure, reproduction: Reproduction, folder: Path) -> FigurePart:
    files = reproduction.figures.get(figure.name, ())
    pictures = {path.suffix.lower(): path for path in files}
    shown = _shown(pictures)
    return FigurePart(
        name=figure.name,
        title=figure.title,
        label=figure.label if figure.label.startswith("App.") else f"Fig. {figure.label}",
        published=figure.published,
        picture="" if shown is None else _embedded(shown),
        described=_texts()["pictures"].get(figure.name, figure.title),
        settings=_settings(pictures.get(".json")),
        experiments=figure.needs if isinstance(figure, TrainingFigure) else (),
        files={path.suffix[1:].upper(): _address(path, folder) for path in files},
        claims=tuple(claim.id for claim in CLAIMS.values() if shows(figure, claim)),
        missing="" if files else _sentence(_why_not(figure.name, reproduction)),
    )


def _shown(files: Mapping[str, Path]) -> Path | None:
    pictures = [files[ending] for ending in MEDIA if ending in files]
    small = [path for path in pictures if path.suffix.lower() != ".svg" or path.stat().st_size <= LARGEST]
    return next(iter(small or pictures), None)


def _embedded(path: Path) -> str:
    """A picture as an address that contains it.

    An SVG too is an image and not a part of the page: ids of several pictures then cannot clash, and nothing in one
    can run. Its letters are drawn as curves by matplotlib, so that nothing to be searched is lost.
    """
    if path.suffix.lower() == ".svg":  # a fifth smaller than in base64; how wide a space is does not matter in it
        return f"data:{MEDIA['.svg']},{quote(' '.join(path.read_text(encoding='utf-8').split()), safe=PLAIN)}"
    return f"data:{MEDIA[path.suffix.lower()]};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def _address(path: Path, folder: Path) -> str:
    """The address of a file, seen from the report's folder."""
    try:
        relative = os.path.relpath(path, folder)
    except ValueError:  # on another drive
        return path.resolve().as_uri()
    return "./" + quote(Path(relative).as_posix())


def _settings(path: Path | None) -> tuple[tuple[str, str, str], ...]:
    """The settings of a figure without data, with the reasons of those that are ours."""
    if path is None:
        return ()
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    own = about.get("own_choices", {})
    return tuple((name, _plain(value), own.get(name, "")) for name, value in about.get("settings", {}).items())


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_plain(each) for each in value)
    return number_text(value) if isinstance(value, float) else str(value)


# --- where it was made -----------------------------------------------------------------------------------------------


def _makers(reproduction: Reproduction) -> tuple[Maker, ...]:
    """Machines and software, each pair once, with the experiments that were trained there; this call comes last."""
    found: dict[tuple[str, str, str], tuple[list[str], list[str]]] = {}
    origins = [(name, each) for name, made in reproduction.experiments.items() for each in made.abouts]
    for name, about in [*origins, ("figures, claims and this page", reproduction.about)]:
        times, names = found.setdefault(_origin(about), ([], []))
        times.append(str(about.get("time", "")))
        names.append(name)
    return tuple(
        Maker(machine, versions, commit, _span(times), listed(names))
        for (machine, versions, commit), (times, names) in found.items()
    )


def _origin(about: Mapping[str, Any]) -> tuple[str, str, str]:
    machine, versions = about.get("machine", {}), about.get("versions", {})
    if isinstance(machine, Mapping):
        parts = [machine.get("host"), machine.get("cpu"), f"{machine.get('cores', '?')} cores", machine.get("system")]
        text = ", ".join(str(each) for each in parts if each)
    else:
        text = str(machine)
    software = ", ".join(f"{name} {version}" for name, version in dict(versions).items())
    return text, software, str(about.get("commit") or "not in a repository")


def _span(times: Sequence[str]) -> str:
    known = sorted(filter(None, times))
    return " to ".join(dict.fromkeys([known[0], known[-1]])) if known else "unknown"


def _seconds(abouts: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(sum(each.get(f"{key}_seconds", 0.0) for each in abouts))


@cache
def _texts() -> Mapping[str, Any]:
    return MappingProxyType(tomllib.loads((Path(__file__).parent / "texts.toml").read_text(encoding="utf-8")))
