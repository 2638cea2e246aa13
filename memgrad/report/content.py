"""The content of a report, as values that the template only has to typeset."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

from memgrad.amounts import duration
from memgrad.experiments.results import Results
from memgrad.paper.catalogue import FIGURES, PaperFigure
from memgrad.paper.claims import OUTCOMES, Claim, Verdict
from memgrad.paper.pieces import NARROW
from memgrad.paper.reproduction import Reproduction
from memgrad.paper.verdicts import CLAIMS, JUDGES
from memgrad.report.embedding import Download, as_download, downloads, embedded, picture_of
from memgrad.report.methods import ExperimentPart, experiment_part, seconds_of
from memgrad.report.remarks import (
    headline,
    how_to_read,
    published,
    published_beside,
    synthetic_state,
    texts,
    to_decide,
)
from memgrad.report.wording import listed, number_text, sentence

FIRST_NUMBERS = 4
"""The number of estimates of a verdict that are shown at once; the others unfold."""

ABSENT = "not run"
MARKS: Mapping[str, str] = MappingProxyType(
    {"reproduced": "✓", "not reproduced": "✗", "confirmed": "✓", "refuted": "✗", "undecided": "?", ABSENT: "○"},
)
"""A mark for each outcome, so that color alone does not tell it."""


@final
@dataclass(frozen=True)
class ClaimRow:
    """A line of the scoreboard.

    Attributes:
        claim: The claim with its rule.
        verdict: Its verdict, or None if it was not decided.
        reason: Why, as a sentence.
        scale: What was run, part by part.
        figures: The names of the figures in this report that show it.
        remarks: How to read it, and what would decide it.
        published: The published outcomes, if it is not decided here: by version 2 and, if that differs, by version 1.
    """

    claim: Claim
    verdict: Verdict | None
    reason: str
    scale: tuple[str, ...]
    figures: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    published: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """One of the outcomes, or `not run`."""
        return ABSENT if self.verdict is None else self.verdict.outcome


@final
@dataclass(frozen=True)
class FigurePart:
    """A figure with everything the report says about it.

    Attributes:
        about: Its entry in the catalogue.
        picture: The picture as a data address; empty if there is none that a page can show.
        narrow: The same with two panels beside each other, for small screens; empty if there is none.
        settings: Name, value, and the reason if the paper leaves it open, of each setting.
        files: The numbers and settings behind it, inside the report.
        claims: The ids of the claims that it is about.
        missing: Why it is not here; empty if it is.
        without: The experiments that it needs and that are not complete, in words; empty if it shows all.
    """

    about: PaperFigure
    picture: str
    narrow: str
    settings: tuple[tuple[str, str, str], ...]
    files: tuple[Download, ...]
    claims: tuple[str, ...]
    missing: str
    without: str


@final
@dataclass(frozen=True)
class Maker:
    """A machine with its software, and the experiments whose rows were made there."""

    machine: str
    versions: str
    commit: str
    when: str
    made: str


@final
@dataclass(frozen=True)
class Content:
    """Everything that a report says.

    Attributes:
        reproduction: The reproduction it is about.
        headline: What was found, in a few words.
        synthetic_state: Which of the claims without data are decided, as a sentence.
        published_scale: The scale of the published verdicts.
        counts: The number of claims with each outcome, apart from 0.
        claims: The scoreboard.
        synthetic: The figures without data.
        trained: The figures of training.
        experiments: The results on real data.
        makers: The machines that made them.
        cost: Wall and CPU time of all training.
        errata: The errata that change what was run.
        scoreboard: The verdicts with all of their numbers, to be saved.
        missing: The experiments and figures that are missing; claims that are have their own banner.
    """

    reproduction: Reproduction
    headline: str
    synthetic_state: str
    published_scale: str
    counts: Mapping[str, int]
    claims: tuple[ClaimRow, ...]
    synthetic: tuple[FigurePart, ...]
    trained: tuple[FigurePart, ...]
    experiments: tuple[ExperimentPart, ...]
    makers: tuple[Maker, ...]
    cost: Mapping[str, str]
    errata: Sequence[Mapping[str, Any]]
    scoreboard: Download
    missing: tuple[str, ...]


def content_of(reproduction: Reproduction, results: Mapping[str, Results]) -> Content:
    """The content of a report.

    Args:
        reproduction: The reproduction.
        results: The results of the experiments on real data, by name; experiments without results have no numbers.
    """
    verdicts = {verdict.claim.id: verdict for verdict in reproduction.verdicts}
    claims = tuple(_claim(claim, verdicts.get(claim.id), reproduction) for claim in CLAIMS.values())
    counts = Counter(row.outcome for row in claims)
    made = reproduction.experiments
    outcomes = {row.claim.id: row.outcome for row in claims}
    return Content(
        reproduction,
        headline(outcomes, decides=reproduction.scale.decides, absent=ABSENT),
        synthetic_state({name: each for name, each in outcomes.items() if not JUDGES[name].needs}, ABSENT),
        published()["scale"],
        {outcome: counts[outcome] for outcome in (*OUTCOMES, ABSENT) if counts[outcome]},
        claims,
        tuple(_figure(each, reproduction) for each in FIGURES.values() if not each.needs),
        tuple(_figure(each, reproduction) for each in FIGURES.values() if each.needs),
        tuple(experiment_part(each, results.get(name)) for name, each in made.items()),
        _makers(reproduction),
        {clock: duration(sum(seconds_of(each, clock) for each in made.values())) for clock in ("wall", "cpu")},
        texts()["errata"],
        as_download("scoreboard (JSON)", "scoreboard.json", reproduction.scoreboard()),
        tuple(name for name in reproduction.skipped if name not in CLAIMS),
    )


def shows(figure: PaperFigure, claim: Claim) -> bool:
    """Whether a claim is about a figure: it names the figure, or its section and no figure.

    Example:
        >>> [claim.id for claim in CLAIMS.values() if shows(FIGURES["step-sizes"], claim)]
        ['R4']
    """
    places = [each.strip().removeprefix("Figs. ").removeprefix("Fig. ") for each in claim.where.split(",")]
    if figure.label.startswith(("App.", "Sec.")):
        return figure.label in places and "Fig" not in claim.where
    return figure.label in places or figure.name in places


# --- the scoreboard --------------------------------------------------------------------------------------------------


def _claim(claim: Claim, verdict: Verdict | None, reproduction: Reproduction) -> ClaimRow:
    return ClaimRow(
        claim,
        verdict,
        sentence(_why_not(claim.id, reproduction) if verdict is None else verdict.reason),
        () if verdict is None else _what_ran(verdict),
        tuple(name for name in FIGURES if name in reproduction.figures and shows(FIGURES[name], claim)),
        () if verdict is None else tuple(filter(None, [how_to_read(verdict), to_decide(verdict)])),
        _published_beside(claim, verdict, reproduction),
    )


def _published_beside(claim: Claim, verdict: Verdict | None, reproduction: Reproduction) -> tuple[str, ...]:
    """The published outcomes of a claim on real data that this reproduction does not decide."""
    decided = verdict is not None and reproduction.scale.decides
    return () if decided or not JUDGES[claim.id].needs else tuple(published_beside(claim.id))


def _what_ran(verdict: Verdict) -> tuple[str, ...]:
    """What was run: experiment by experiment for a claim on real data, in one line for the others."""
    if not JUDGES[verdict.claim.id].needs:
        return (verdict.scale,)
    return tuple(each.strip() for each in verdict.scale.split(";"))


def _why_not(name: str, reproduction: Reproduction) -> str:
    stopped = "it was stopped before" if reproduction.interrupted else "it was not asked for"
    return reproduction.skipped.get(name, stopped)


# --- figures ---------------------------------------------------------------------------------------------------------


def _figure(figure: PaperFigure, reproduction: Reproduction) -> FigurePart:
    files = reproduction.figures.get(figure.name, ())
    narrow = {path.suffix.lower(): path for path in files if path.stem.endswith(NARROW)}
    files = tuple(path for path in files if path not in narrow.values())
    by_ending = {path.suffix.lower(): path for path in files}
    shown, in_column = picture_of(by_ending), picture_of(narrow)
    return FigurePart(
        figure,
        "" if shown is None else embedded(shown),
        "" if in_column is None else embedded(in_column).replace(" ", "%20"),  # in a list of addresses they separate
        _settings(by_ending.get(".json")),
        downloads(files),
        tuple(claim.id for claim in CLAIMS.values() if shows(figure, claim)),
        "" if files else sentence(_why_not(figure.name, reproduction)),
        listed([name for name in figure.needs if name not in reproduction.experiments]) if files else "",
    )


def _settings(path: Path | None) -> tuple[tuple[str, str, str], ...]:
    """The settings of a figure that needs no data, with the reasons for our choices."""
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
    """Machines and software, each pair once, with the experiments that were trained there; this call is the last."""
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
