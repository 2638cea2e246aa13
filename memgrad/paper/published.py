"""Published results: the rows behind verdicts, kept in a folder of the repository, and verdicts whose rows are lost.

The rows of a scale are a small store, `FOLDER/rows/SCALE`, without checkpoints. Copying them into another store lets
`memgrad reproduce` resume there. `known.json` beside them has what verdicts and figures need of the data sets, so that
the published report can be made without them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from memgrad.experiments.storing.store import Store
from memgrad.paper.adaptive import DEGREES, RIVALS, weighed_degrees
from memgrad.paper.claims import Claim, FirstVersion, Outcome, Verdict, number
from memgrad.paper.evidence import EXAMPLES, weighed
from memgrad.paper.loss_claims import weighed_accuracies
from memgrad.paper.rules import LEAST_SHARE, Case, Kind, recompare
from memgrad.paper.scales import POLYADAM, scales
from memgrad.paper.step_size_claims import share_case
from memgrad.statistics import Estimate, t_quantile

ROWS = "rows"
"""The folder of published rows, which has a store for each scale."""


def published_scales(folder: Path) -> tuple[str, ...]:
    """The scales whose rows a folder has, from small to large."""
    return tuple(name for name in scales() if Store.exists(folder / ROWS / name))


def published_store(folder: Path, scale: str) -> Store:
    """The rows of a scale in a folder of published results."""
    place = folder / ROWS / scale
    if not Store.exists(place):
        known = ", ".join(published_scales(folder)) or "none"
        raise FileNotFoundError(f"{folder} has no published rows of the scale {scale!r}; it has those of: {known}.")
    return Store.open(place, create=False)


# --- verdicts whose rows are lost ------------------------------------------------------------------------------------


def retested(board: Mapping[str, Any]) -> tuple[Verdict, ...]:
    """Version 2 of the verdicts on real data in a scoreboard of version 1, from its published numbers alone.

    A mean, its 95 % t-interval and the number of seeds determine the t-tests. Whether runs had memorized their
    examples cannot be seen in them; where it matters, the full batch had too few examples anyway.

    Args:
        board: What `memgrad reproduce` wrote before there was a version 2, as plain data.
    """
    return tuple(_Retest(board, each).verdict() for each in board["verdicts"] if each["id"][0] in "RA")


@dataclass(frozen=True)
class _Retest:
    """A published verdict on real data, and the scoreboard it is from."""

    board: Mapping[str, Any]
    published: Mapping[str, Any]

    def verdict(self) -> Verdict:
        claim = Claim(*(self.published[name] for name in ("id", "where", "statement", "rule")))
        first = FirstVersion(self.published["outcome"], self.published["reason"])
        common = {"scale": self.published["scale"], "seeds": tuple(self.published["seeds"])}
        found = {"A1": self._a1, "R10": self._r10}.get(claim.id, self._compared)()
        findings = tuple(found.pop("findings", ()))
        return replace(claim.verdict(**found, **common), findings=findings, first=first)

    def _compared(self) -> dict[str, Any]:
        return weighed([self._case(number, place) for place, number in enumerate(self._numbers)], self._reported)

    @property
    def _numbers(self) -> list[Estimate]:
        numbers = [number(**each) for each in self.published["numbers"] if _decides(each)]
        return [replace(each, n=self._seeds(each.name)) for each in numbers]

    @property
    def _reported(self) -> list[Estimate]:
        return [number(**each) for each in self.published["numbers"] if not _decides(each)]

    def _experiment(self, name: str) -> str:
        """The experiment that a number is of; for a difference of two settings, that in full batch."""
        for each in sorted(self.board["experiments"], key=len, reverse=True):
            if re.search(rf"\b{each}\b", name):
                return str(each)
        problem = name.rpartition(", ")[2]
        return f"{problem}-full" if problem in EXAMPLES else POLYADAM

    def _seeds(self, name: str) -> int:
        seeds = self.board["experiments"][self._experiment(name)]["spec"]["seeds"]
        return seeds if isinstance(seeds, int) else len(seeds)

    def _regime(self, experiment: str) -> str:
        problem, _, setting = experiment.rpartition("-")
        examples = self.board["experiments"][experiment]["spec"].get("examples")
        if setting != "full" or examples is None or examples >= int(LEAST_SHARE[problem] * EXAMPLES[problem]):
            return ""
        return f"{examples:,} of {EXAMPLES[problem]:,} examples"

    def _case(self, number: Estimate, place: int) -> Case:
        experiment, claim = self._experiment(number.name), self.published["id"]
        kinds: dict[str, Kind] = {"R1": "less", "R2": "not less", "R7": "equal", "R8": "more", "R9": "less"}
        if claim == "R3":
            kinds["R3"] = "not less" if experiment.startswith("cnn") else "not more"
        if claim == "R6":
            width = max(number.value - number.low, number.high - number.value)  # a share is cut at 0 and 1
            case = share_case(number, np.array(number.value), np.array(width / t_quantile(number.n)), number.n)
        elif claim in kinds and number.has_interval:
            case = recompare(kinds[claim], number, ratio=claim != "R8")
        else:
            failed, still_open = (_count(self.published["reason"], word) for word in ("fail", "open"))
            case = Case(number, place >= failed + still_open, place < failed, tested=claim in kinds)
        return replace(case, regime=self._regime(experiment))

    def _r10(self) -> dict[str, Any]:
        numbers = self._numbers
        speaking = [each for each in numbers if not self._regime(self._experiment(each.name))]
        return weighed_accuracies(numbers, speaking=speaking)

    def _a1(self) -> dict[str, Any]:
        ratios = {each.name: each for each in self._numbers if each.name.startswith("loss p=")}
        tests = {}
        for degree in DEGREES:
            for rival in RIVALS:
                number = ratios[f"loss p={degree} / {rival}, last half"]
                known = number.has_interval
                tests[degree, rival] = recompare("less", number) if known else Case(number, False, False, tested=True)
        return weighed_degrees(tests)


def outcome_counts(verdicts: Sequence[Verdict | FirstVersion]) -> dict[Outcome, int]:
    """The number of verdicts with each outcome."""
    outcomes: tuple[Outcome, ...] = ("reproduced", "not reproduced", "undecided")
    return {each: sum(verdict.outcome == each for verdict in verdicts) for each in outcomes}


def _decides(published: Mapping[str, Any]) -> bool:
    return "does not decide" not in published["name"]


def _count(reason: str, word: str) -> int:
    """How many comparisons of a published reason such as `7 of 8 comparisons hold, 1 fails.` a word is about."""
    found = re.search(rf"(\d+) (?:is |are )?{word}", reason)
    return int(found.group(1)) if found else 0
