"""The answer of tuning: what to use, at which learning rate, what it is worth on fresh seeds, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from memgrad.experiments.racing.candidates import Configuration
from memgrad.experiments.racing.course import FIRST_SEED, Course, Scale, Status
from memgrad.experiments.racing.learning_rates import learning_rate
from memgrad.experiments.racing.sequential import Dropped, Rules
from memgrad.statistics import Estimate, interval, paired_difference
from memgrad.tables import json_ready


@final
@dataclass(frozen=True)
class Measured:
    """A run as it was measured.

    Attributes:
        final: The final loss; infinite if the run diverged, also if it is given as nan.
        steps: The numbers of steps after which the loss was evaluated; empty if only the final loss is known.
        losses: The losses at these steps.
    """

    final: float
    steps: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not math.isfinite(self.final):
            object.__setattr__(self, "final", math.inf)


Runs = Mapping[Configuration, Mapping[int, Measured]]
"""All measured runs, by configuration and seed."""


@final
@dataclass(frozen=True)
class Contestant:
    """A configuration as it was measured on fresh seeds.

    Attributes:
        name: The name of the candidate.
        lr: Its learning rate.
        final: The mean of its final losses; the geometric one on the scale `log`.
        diverged: How many of its fresh runs diverged.
        at_edge: Whether its learning rate is as far from the first guess as the search goes.
    """

    name: str
    lr: float
    final: Estimate
    diverged: int = 0
    at_edge: bool = False

    def __str__(self) -> str:
        return f"{self.name} at lr {self.lr:g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**vars(self), "final": self.final.to_dict()}


@final
@dataclass(frozen=True)
class Answer:
    """What tuning found.

    Attributes:
        status: `answered`; `exhausted` if the budget ended before the race did; `failed`; `interrupted`; or `running`.
        reason: Why it ended.
        challenger: The best method that is not a baseline, measured on fresh seeds; None if there is none yet.
        baseline: The best baseline, on the same seeds.
        ratio: The final loss of the challenger as a multiple of the baseline's, paired by seed; the difference if
            `ratio_scale` is `linear`.
        steps_saved: The share of the steps that the challenger saves: after the others its loss stays at or below the
            final loss of the baseline, seed by seed. On a seed on which it does not get there it is minus the share
            that the baseline saves.
        leader: The configuration with the best mean in the race.
        undecided: The configurations that the race could not tell from the leader.
        dropped: Those that it dropped, with the reason.
        seeds: The number of seeds in the race.
        runs: The number of runs of search, race, refining and fresh seeds together, without those that measured the
            answer of a smaller budget.
        scale: Whether search and race compare losses by logarithms (`log`) or as they are (`linear`).
        ratio_scale: The same for `ratio`: `linear` also if a loss on a fresh seed is not positive.
        rules: The rules, with the error rate of the race.
        raced: The final losses in the race by configuration, in the order of the seeds; infinite where a run diverged.
        profiles: The mean loss of the search by candidate and learning rate; infinite where a run diverged.
        found: The learning rate that the search found for each candidate.
        lines: The lines to paste, by library; empty where the candidates are not optimizers of memgrad or torch.
        problem: What was tuned.
        metric: The loss that is compared.
        first_seed: The first of the fresh seeds.
    """

    status: Status
    reason: str
    challenger: Contestant | None = None
    baseline: Contestant | None = None
    ratio: Estimate | None = None
    steps_saved: Estimate | None = None
    leader: str = ""
    undecided: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    seeds: int = 0
    runs: int = 0
    scale: Scale = "log"
    ratio_scale: Scale = "log"
    rules: Rules = Rules()  # noqa: RUF009  # a frozen value
    raced: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    found: Mapping[str, float] = field(default_factory=dict)
    lines: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    metric: str = "loss"
    first_seed: int = FIRST_SEED["fresh"]

    @property
    def better(self) -> bool:
        """Whether the challenger is shown to be better than the baseline on fresh seeds."""
        return self.ratio is not None and self.ratio.has_interval and self.ratio.high < self._neutral

    @property
    def pick(self) -> Contestant | None:
        """What to use: the challenger if it is shown to be better or has no rival, otherwise the baseline.

        One that diverged on fresh seeds is no rival; None if both did, or while fresh runs are missing.
        """
        if self._is_open:
            return None
        safe = [each for each in (self.challenger, self.baseline) if each is not None and not each.diverged]
        return safe[0 if self.better else -1] if safe else None

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        if self._is_open:
            return "No answer yet: not all runs have been told."
        if self.challenger is None or self.baseline is None or self.ratio is None:
            alone = self.pick
            gone = "every baseline" if self.baseline is None else "every other method than the baselines"
            return f"Use {alone}: {gone} diverged." if alone else f"No answer: {self.reason}."
        if self.better:
            saved = f", and it saves {self._saved()} of the steps" if self._saved() else ""
            return f"Use {self.challenger}: its {self.compared} is {self._beside()} that of {self.baseline}{saved}."
        if unsafe := [each for each in (self.challenger, self.baseline) if each.diverged]:
            shown = " and ".join(
                f"{each} diverged on {each.diverged} of {self.rules.fresh} fresh seeds" for each in unsafe
            )
            return f"Use {self.pick}: {shown}." if self.pick else f"No answer: {shown}. Lower their learning rates."
        known = f"the {self.compared} of {self.challenger}, the best other, is {self._beside()} its own"
        noise = "" if self.ratio.low > self._neutral else f", which is within the noise of {self.ratio.n} seeds"
        return f"Stay with {self.baseline}: {known}{noise}."

    @property
    def compared(self) -> str:
        """What is compared, in words, such as `validation loss`."""
        return self.metric.replace("_", " ")

    @property
    def _is_open(self) -> bool:
        return self.status == "running" and (self.ratio is None or self.ratio.n < self.rules.fresh)

    def _beside(self) -> str:
        """How the losses compare, as in `2.0 % lower than`."""
        assert self.ratio is not None
        change = self.ratio.value - self._neutral
        size = f"{100 * abs(change):.1f} %" if self.ratio_scale == "log" else f"{abs(change):.4g}"
        return f"{size} {'lower' if change < 0 else 'higher'} than"

    @property
    def _neutral(self) -> float:
        return 1.0 if self.ratio_scale == "log" else 0.0

    def _saved(self) -> str:
        saved = self.steps_saved
        return f"{saved.value:.0%}" if saved is not None and saved.has_interval and saved.low > 0 else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: what is infinite or unknown is None."""
        pick = self.pick
        whole = {
            "status": self.status,
            "reason": self.reason,
            "verdict": self.verdict,
            "problem": self.problem,
            "metric": self.metric,
            "pick": pick and {"name": pick.name, "lr": pick.lr},
            "better": self.better,
            "challenger": self.challenger and self.challenger.to_dict(),
            "baseline": self.baseline and self.baseline.to_dict(),
            "ratio" if self.ratio_scale == "log" else "difference": self.ratio and self.ratio.to_dict(),
            "steps_saved": self.steps_saved and self.steps_saved.to_dict(),
            "leader": self.leader,
            "undecided": list(self.undecided),
            "dropped": [
                {"name": each.name, "seeds": each.seeds, "worse_than": each.worse_than or None, "by_at_least": each.by}
                for each in self.dropped
            ],
            "seeds": self.seeds,
            "runs": self.runs,
            "error_rate": self.rules.error_rate,
            "tolerance": self.rules.tolerance,
            "raced": {name: list(losses) for name, losses in self.raced.items()},
            "found": dict(self.found),
            "learning_rates": {
                name: [{"lr": lr, "loss": loss} for lr, loss in profile.items()]
                for name, profile in self.profiles.items()
            },
            "lines": dict(self.lines),
        }
        return dict(json_ready(whole))


def answer_of(course: Course, runs: Runs, rules: Rules, *, problem: str = "") -> Answer:
    """The answer that a course has come to, from the runs that were measured."""
    standing = course.standing
    mine, others = (_fresh_runs(each, runs) for each in (course.challenger, course.baseline))
    # No factor leads to a loss of 0, which a network that memorized its examples can reach.
    positive = all(run.final > 0 for run in (*mine.values(), *others.values()))
    scale: Scale = course.scale if positive else "linear"
    pairs = [(run, others[seed]) for seed, run in mine.items() if seed in others]  # they may be told in any order
    alive = [name for name in standing.alive if name in standing.means]
    return Answer(
        course.status,
        course.reason,
        _contestant(course.challenger, mine, course, scale),
        _contestant(course.baseline, others, course, scale),
        _ratio(pairs, scale),
        _steps_saved(pairs),
        leader=standing.leader,
        undecided=tuple(alive[1:]),
        dropped=standing.dropped,
        seeds=standing.seeds,
        runs=course.runs,
        scale=course.scale,
        ratio_scale=scale,
        rules=rules,
        raced=_raced(course, runs),
        profiles=_profiles(course, runs),
        found={name: learning_rate(each.best) for name, each in course.searches.items() if not each.wants},
        problem=problem,
    )


def _fresh_runs(configuration: Configuration | None, runs: Runs) -> dict[int, Measured]:
    """The runs on fresh seeds, by seed."""
    if configuration is None:
        return {}
    return {seed: run for seed, run in sorted(runs.get(configuration, {}).items()) if seed >= FIRST_SEED["fresh"]}


def _contestant(
    configuration: Configuration | None, fresh: Mapping[int, Measured], course: Course, scale: Scale
) -> Contestant | None:
    if configuration is None or not fresh:
        return None
    finals = [run.final for run in fresh.values()]
    final = interval(np.log(finals)).exp() if scale == "log" else interval(finals)
    diverged = sum(not math.isfinite(loss) for loss in finals)
    name = configuration.name
    return Contestant(name, configuration.lr, final, diverged, name in course.at_edge)


def _ratio(pairs: Sequence[tuple[Measured, Measured]], scale: str) -> Estimate | None:
    """The ratio of the final losses, or their difference; None without a pair."""
    if not pairs:
        return None
    finals = np.array([[run.final for run in pair] for pair in pairs]).T
    return paired_difference(*finals) if scale == "linear" else paired_difference(*np.log(finals)).exp()


def _steps_saved(pairs: Sequence[tuple[Measured, Measured]]) -> Estimate | None:
    """The share of the steps that are saved, seed by seed; None unless the losses of all runs are known."""
    if not pairs or any(len(run.steps) < 2 or not math.isfinite(run.final) for pair in pairs for run in pair):
        return None
    return interval([_saved(run, other) - _saved(other, run) for run, other in pairs])


def _saved(run: Measured, other: Measured) -> float:
    """The share of its steps after which a run has the final loss of another for good; 0 if it never has."""
    return 1 - steps_to_stay_below(run, other.final) / run.steps[-1]


def steps_to_stay_below(run: Measured, target: float) -> float:
    """The number of steps after which the loss of a run stays at or below a target; all steps if it does not.

    The first step at which a noisy loss is below the target would come too early, even for a run's own final loss.
    Between evaluations the loss is interpolated.

    Example:
        >>> steps_to_stay_below(Measured(1.0, (0, 10, 20, 30), (4.0, 2.0, 1.0, 1.0)), 1.5)
        15.0
        >>> steps_to_stay_below(Measured(1.0, (0, 10, 20, 30), (4.0, 1.0, 2.0, 1.0)), 1.5)
        25.0
    """
    above = [i for i, loss in enumerate(run.losses) if not loss <= target]
    if not above:
        return float(run.steps[0])
    last = above[-1]
    if last == len(run.losses) - 1:
        return float(run.steps[-1])
    (k, x), (later, y) = zip(run.steps[last : last + 2], run.losses[last : last + 2], strict=True)
    if not math.isfinite(x):
        return float(later)
    return float(k + (later - k) * (x - target) / (x - y))


def _raced(course: Course, runs: Runs) -> dict[str, tuple[float, ...]]:
    """The final losses in the race, the leader first; runs that refine learning rates are no part of it."""
    standing = course.standing
    had, first = standing.raced, FIRST_SEED["race"]
    raced = {
        str(each): tuple(of_seed[seed].final for seed in range(first, first + had[str(each)]) if seed in of_seed)
        for each, of_seed in runs.items()
        if str(each) in had
    }
    return {name: raced[name] for name in sorted(raced, key=lambda x: standing.means.get(x, math.inf)) if raced[name]}


def _profiles(course: Course, runs: Runs) -> dict[str, dict[float, float]]:
    """The mean loss over the seeds of the search, by candidate and learning rate."""
    profiles: dict[str, dict[float, float]] = {}
    for name, found in course.searches.items():
        for configuration in sorted(each for each in runs if each.name == name and each.place in found.tried):
            losses = [run.final for seed, run in runs[configuration].items() if seed < FIRST_SEED["race"]]
            if losses:
                profiles.setdefault(name, {})[configuration.lr] = float(np.mean(losses))
    return profiles
