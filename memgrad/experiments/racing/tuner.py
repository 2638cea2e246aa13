"""Ask and tell: tuning for training that cannot be a `Problem`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from memgrad.experiments.racing.answer import Answer, Measured, answer_of
from memgrad.experiments.racing.candidates import Candidate, Configuration, checked
from memgrad.experiments.racing.course import Course, Stage, Trial, follow
from memgrad.experiments.racing.sequential import Rules
from memgrad.files import written_whole
from memgrad.tables import json_ready

FORMAT = 1
"""The format of the file in which a tuner keeps its results."""

LAST = 0.05
"""The final loss is the mean over this last share of the evaluations."""


@final
class Tuner:
    """Tells which run is needed next, takes its losses, and knows the answer when it has enough of them.

    What it asks for depends only on the results so far. With a file it can be stopped at any time: a new tuner with the
    same candidates, rules and file continues.

    Args:
        candidates: The candidates, at least two. If none is a baseline, or all are, the first is.
        rules: The rules of the race.
        runs: The budget: the maximum number of runs in all, at least 1, without those that measured the answer of a
            smaller budget; None for as many as the race needs.
        file: Where to keep the results; None to keep nothing.
        problem: What is tuned, for the answer.

    Example:
        >>> import random
        >>> def train(method, lr, seed):  # stands for your training
        ...     noise = random.Random(seed).gauss(0, 0.01)
        ...     return {"SGD": 1.0, "mine": 0.8}[method] + noise + math.log10(lr / 0.1) ** 2
        >>> tuner = Tuner([Candidate("SGD", lr=0.1), Candidate("mine", lr=0.1)])
        >>> while trial := tuner.ask():
        ...     tuner.tell(trial, train(trial.name, trial.lr, trial.seed))
        >>> print(tuner.answer().verdict)
        Use mine at lr 0.1: its loss is 20.0 % lower than that of SGD at lr 0.1.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        *,
        rules: Rules | None = None,
        runs: int | None = None,
        file: str | os.PathLike[str] | None = None,
        problem: str = "",
    ) -> None:
        if runs is not None and runs < 1:
            raise ValueError(f"a tuner needs a budget of at least 1 run, got runs={runs!r}.")
        self.candidates, self.rules, self.runs, self.problem = checked(candidates), rules or Rules(), runs, problem
        self._file = None if file is None else Path(file)
        self._measured: dict[Configuration, dict[int, Measured]] = {}
        self._asked: set[Trial] = set()
        self._offered: set[Trial] = set()  # runs that may come, also after others have made them needless
        self._closed: Stage | None = None
        self._written = ""  # what this tuner knows to be in its file
        self._course: Course | None = None
        if self._file is not None and self._file.exists():
            self._load()

    @property
    def course(self) -> Course:
        """Where tuning is: its stage, the standing of the race, and the runs that are needed next."""
        if self._course is None:
            told = {each: {seed: run.final for seed, run in runs.items()} for each, runs in self._measured.items()}
            self._course = follow(
                self.candidates, told, self.rules, runs=self.runs, under_way=self._asked, closed=self._closed
            )
        return self._course

    @property
    def done(self) -> bool:
        """Whether no more runs are needed, or may be used."""
        return not self.course.wants

    def wanted(self) -> tuple[Trial, ...]:
        """All runs that are needed next, which may be trained at once, also those that were asked for already."""
        options = {candidate.name: candidate.options for candidate in self.candidates}
        self._offered |= {*self.course.wants}
        return tuple(replace(trial, options=options[trial.name]) for trial in self.course.wants)

    def ask(self) -> Trial | None:
        """The next run to train. None if there is none, or none before those asked for are told: see `done`."""
        for trial in self.wanted():
            if trial not in self._asked:
                self._asked.add(trial)
                return trial
        return None

    def forget(self, trial: Trial) -> None:
        """Offer a run again that was asked for, after its worker died."""
        self._asked.discard(trial)
        self._course = None

    def tell(self, trial: Trial, losses: float | Iterable[float], *, steps: Iterable[float] | None = None) -> None:
        """Take the result of a run.

        Args:
            trial: The run.
            losses: Its final loss, or its losses at evaluations that are evenly spaced from the start to the end, which
                also tell how many steps are saved; the final loss is then the mean of the last 5 % of them, at least
                one. A run with a loss that is not finite counts as diverged.
            steps: The numbers of steps after which these losses were evaluated, increasing; 0, 1, ... unless given.
        """
        self.tell_all({trial: measured(losses, steps)})

    def tell_all(self, results: Mapping[Trial, Measured]) -> None:
        """Take the results of several runs at once; if one of them was not asked for, none is taken."""
        wanted = {*self.course.wants, *self._offered}
        for trial in results:
            known = trial.seed in self._measured.get(trial.configuration, {})
            if known or trial not in wanted:
                why = "was told before" if known else "is not needed now"
                raise ValueError(f"the tuner was told about a run that {why}: {trial}. Tell what `ask` gave, once.")
        if self._file is not None:
            self._check_file(self._file)
        for trial, run in results.items():
            self._keep(trial.configuration, trial.seed, run)
            self._asked.discard(trial)
            self._offered.discard(trial)
        if self._file is not None:
            self._save(self._file)

    def close(self, stage: Stage = "refine") -> None:
        """Say that the time is up for a stage and those before it: only later ones still ask for runs.

        By default only fresh runs are still asked for. There is nothing to measure before the race has a leader.
        """
        self._closed, self._course = stage, None

    def answer(self) -> Answer:
        """The answer so far; its status says whether it is the last word."""
        return answer_of(self.course, self._measured, self.rules, problem=self.problem)

    def _keep(self, configuration: Configuration, seed: int, run: Measured) -> None:
        self._measured.setdefault(configuration, {})[seed] = run
        self._course = None

    def _check_file(self, path: Path) -> None:
        if path.exists() and path.read_text(encoding="utf-8") != self._written:
            raise ValueError(
                f"{path} was written by another tuner since this one read it, and what that one was told would be "
                "lost; use one tuner for a file, and tell it the results of all workers."
            )

    def _save(self, path: Path) -> None:
        told = [
            {"name": each.name, "place": each.place, "seed": seed, **vars(run)}
            for each, runs in self._measured.items()
            for seed, run in runs.items()
        ]
        whole = {"format": FORMAT, "problem": self.problem, "candidates": self._known(), "told": told}
        with written_whole(path) as unfinished:
            text = json.dumps(json_ready(whole)) + "\n"
            unfinished.write_text(text, encoding="utf-8")
        self._written = text

    def _known(self) -> dict[str, str]:
        """The candidates by name, with their options as text: results of others are not theirs."""
        return {each.name: json.dumps(dict(each.options), sort_keys=True, default=_named) for each in self.candidates}

    def _load(self) -> None:
        assert self._file is not None
        try:
            self._written = self._file.read_text(encoding="utf-8")
            data = json.loads(self._written)
            known, candidates, problem = data["format"], dict(data["candidates"]), data.get("problem", "")
            told = [_told(row) for row in data["told"]]
        except (OSError, OverflowError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{self._file} is not a file of a tuner ({error}); name another, or remove it.") from None
        if known != FORMAT:
            raise ValueError(f"{self._file} has format {known!r}, and this version reads {FORMAT}; name another file.")
        if problem and self.problem and problem != self.problem:
            raise ValueError(
                f"{self._file} is about the problem {problem!r}, got problem={self.problem!r}; name another file."
            )
        if candidates.keys() != self._known().keys():
            others = ", ".join(map(str, candidates))
            raise ValueError(f"{self._file} is about others ({others}); name another file, or give the same ones.")
        for name, options in self._known().items():
            if candidates[name] != options:
                raise ValueError(
                    f"{self._file} is about {name!r} with the options {candidates[name]}, got {options}; name another "
                    "file, or give the same options."
                )
        for each in told:
            self._keep(*each)


def measured(losses: float | Iterable[float], steps: Iterable[float] | None = None) -> Measured:
    """A run from its losses; see `Tuner.tell`."""
    try:
        if isinstance(losses, str | bytes | Mapping):
            raise TypeError
        # An array or tensor without an axis is a number.
        several = isinstance(losses, Iterable) and getattr(losses, "ndim", 1) > 0
        numbers = [float(x) for x in losses] if several else [float(losses)]  # type: ignore[union-attr, arg-type]  # checked
        at = None if steps is None else [float(step) for step in steps]
    except (TypeError, ValueError):
        raise ValueError(f"a tuner is told a loss or a list of losses, which are numbers, got {losses!r}.") from None
    if not numbers:
        raise ValueError("a tuner is told at least one loss per run, got none; tell nan if the run diverged.")
    if not all(map(math.isfinite, numbers)):
        return Measured(math.inf)
    if at is not None and (
        len(at) != len(numbers) or at[0] < 0 or not all(a < b < math.inf for a, b in pairwise([-math.inf, *at]))
    ):
        raise ValueError(
            f"steps must be finite, at least 0 and increasing, one for each of the {len(numbers)} losses, got {at!r}."
        )
    last = numbers[-max(1, round(LAST * len(numbers))) :]
    final = sum(last) / len(last)
    if len(numbers) == 1:
        return Measured(final)
    return Measured(final, tuple(at if at is not None else map(float, range(len(numbers)))), tuple(numbers))


def _told(row: Mapping[str, Any]) -> tuple[Configuration, int, Measured]:
    """A run and its result, as a tuner's file has them."""
    steps, losses = tuple(map(float, row["steps"])), tuple(map(_or_inf, row["losses"]))
    if steps and steps[0] < 0:  # which `tell` took in 0.2.0, and from which no share of steps follows
        steps, losses = (), ()
    configuration = Configuration(str(row["name"]), int(row["place"]))
    return configuration, int(row["seed"]), Measured(_or_inf(row["final"]), steps, losses)


def _named(value: Any) -> str:
    """An option that JSON has no form for, the same in every process: the name of a function or of a type."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _or_inf(x: Any) -> float:
    return math.inf if x is None else float(x)
