"""The course of tuning: from the losses measured so far to the runs that are needed next. Nothing is trained here.

It has four stages: the *search* for every candidate's learning rate; the *race* of the candidates, each at the learning
rate found, on other seeds; to *refine* the learning rates of the best challenger and the best baseline alike, on more
seeds than the search had; and *fresh* runs of these two, on seeds not used before, which say what the choice is worth.
Every run is as long as the training that is to be tuned: none is judged by a shorter one.

The course is a function of the measured values alone, so tuning that was killed and started again takes the same one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final, get_args

import numpy as np

from memgrad.amounts import counted
from memgrad.experiments.racing.candidates import Candidate, Configuration
from memgrad.experiments.racing.costs import reserved
from memgrad.experiments.racing.learning_rates import DECADE, HALF, QUARTER, Found, Search, learning_rate, place_of
from memgrad.experiments.racing.sequential import Entrant, Rules, Standing, race

Stage = Literal["search", "race", "refine", "fresh", "done"]
STAGES: tuple[str, ...] = get_args(Stage)
Scale = Literal["log", "linear"]
Status = Literal["running", "answered", "exhausted", "failed", "interrupted"]

FIRST_SEED: Mapping[str, int] = {"search": 0, "race": 1_000, "refine": 500_000, "fresh": 1_000_000}
"""The first seed of each stage: they share none, so that no choice is judged by its own luck, or changes one before."""

LEAST = float(np.finfo(np.float32).tiny)
"""What a loss of 0 counts as if there is no other: a network that memorized its examples can reach it."""


@final
@dataclass(frozen=True, order=True)
class Trial:
    """A run that is needed: train the candidate at this learning rate with this seed.

    Attributes:
        name: The name of the candidate.
        place: The place of its learning rate on the grid.
        seed: The seed. The same seed must mean the same initial parameters and minibatches for every candidate.
        stage: What it is for: `search`, `race`, `refine` or `fresh`.
        options: The options of the candidate.
    """

    name: str
    place: int
    seed: int
    stage: str
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def lr(self) -> float:
        """The learning rate."""
        return learning_rate(self.place)

    @property
    def configuration(self) -> Configuration:
        """The candidate at its learning rate."""
        return Configuration(self.name, self.place)

    def __str__(self) -> str:
        return f"{self.configuration}, seed {self.seed}"


Pair = tuple[Configuration | None, Configuration | None]
"""The best challenger and the best baseline; None where there is none yet."""

Told = Mapping[Configuration, Mapping[int, float]]
"""The final losses that were measured, by configuration and seed; not finite where the run diverged."""


@final
@dataclass(frozen=True)
class Course:
    """Where tuning is.

    Attributes:
        stage: The stage.
        wants: The runs that are needed next; empty at the end.
        searches: The search of each candidate that has begun.
        standing: The race, which begins once all learning rates are found.
        challenger: The best candidate that is not a baseline, at its learning rate; None until a race was judged,
            and if the budget ended among the fresh seeds.
        baseline: The best baseline, likewise.
        at_edge: The names of those of the two whose learning rates are as far from the first guess as the search goes.
        status: Whether it is `running`, `answered`, `exhausted` (the budget ended before the race did) or `failed`.
        reason: Why it ended, in words.
        runs: How many runs it took so far, without those that measured the answer to which a smaller budget led.
        scale: How final losses are compared: `log`; `linear` if one is negative, or one of the search is not positive.
    """

    stage: Stage
    wants: tuple[Trial, ...]
    searches: Mapping[str, Found]
    standing: Standing = Standing()  # noqa: RUF009  # a frozen value
    challenger: Configuration | None = None
    baseline: Configuration | None = None
    at_edge: frozenset[str] = frozenset()
    status: Status = "running"
    reason: str = ""
    runs: int = 0
    scale: Scale = "log"


def follow(
    candidates: Sequence[Candidate],
    told: Told,
    rules: Rules,
    *,
    runs: int | None = None,
    under_way: Collection[Trial] = (),
    closed: Stage | None = None,
) -> Course:
    """The course as far as the measured values go.

    Args:
        candidates: The candidates.
        told: The final losses so far.
        rules: The rules of the race.
        runs: The budget: the maximum number of runs in all; None for as many as the race needs.
        under_way: Runs that were asked for and not told yet. They count, also if they are no longer needed.
        closed: The stage for which the time is up, and for those before it: nothing new is wanted there.
    """
    return _Follower(candidates, told, rules, runs, under_way, closed).course()


@dataclass
class _Follower:
    """A call of `follow`: its arguments, and the course so far."""

    _candidates: Sequence[Candidate]
    _told: Told
    _rules: Rules
    _runs: int | None
    _under_way: Collection[Trial]
    _closed: Stage | None

    def __post_init__(self) -> None:
        self._searches: dict[str, Found] = {}
        self._standing = Standing()
        self._pair: Pair = (None, None)
        self._at_edge: frozenset[str] = frozenset()
        self._value: Callable[[float], float] = lambda loss: loss
        self._scale: Scale = "log"

    def course(self) -> Course:
        wants = self._search()
        if wants:
            return self._exhausted("search", wants) if self._over(wants) else self._running("search", wants)
        if all(found.diverged for found in self._searches.values()):
            return self._ended("failed", f"every run diverged: {self._tried_in_words()}")
        entrants = self._entrants()
        values = {str(each): self._values(each, "race") for each in entrants}
        named = {str(each): each for each in entrants}
        standing = self._standing = race(
            [Entrant(str(each), instead_of) for each, instead_of in entrants.items()], values, self._rules
        )
        if standing.wants:
            wants = self._missing("race", ((named[name], n) for name, n in standing.wants.items()))
            if not self._over(wants, reserve=reserved("race", standing, self._rules)):
                return self._running("race", wants)
            if not standing.leader:
                return self._exhausted("race", wants)
        if standing.end == "diverged":
            return self._ended("failed", "every candidate diverged in the race, at the learning rates found")
        return self._fresh(standing, named)

    # --- the search ---------------------------------------------------------------------------------------------------

    def _search(self) -> tuple[Trial, ...]:
        self._set_scale()
        wants: list[Trial] = []
        waiting = list(self._candidates)
        while waiting:
            ready = [each for each in waiting if not each.like or self._is_found(each.like)]
            if not ready:
                break
            for each in ready:
                self._searches[each.name], more = self._advanced(self._search_of(each), each.name, "search")
                wants += more
            waiting = [each for each in waiting if each not in ready]
        return tuple(wants)

    def _is_found(self, name: str) -> bool:
        return name in self._searches and not self._searches[name].wants

    def _search_of(self, candidate: Candidate) -> Search:
        known = self._searches.get(candidate.like)
        if known is None or known.diverged:
            return Search(place_of(candidate.lr), DECADE, self._rules.search)
        return Search(place_of(learning_rate(known.best) * candidate.factor), HALF, self._rules.search)

    def _advanced(self, search: Search, name: str, stage: str) -> tuple[Found, tuple[Trial, ...]]:
        """The search for a candidate's learning rate as far as the values of a stage go, and the runs it needs next."""
        told = {each.place: self._values(each, stage) for each in self._told if each.name == name}
        # What diverged with any seed before is as bad as can be, and needs no more runs.
        lost = dict.fromkeys(self._diverged(name), [math.inf] * search.seeds[-1]) if stage == "refine" else {}
        found = search.advance(told | lost)
        return found, self._missing(stage, ((Configuration(name, k), n) for k, n in found.wants.items()))

    def _diverged(self, name: str) -> set[int]:
        """The places at which a candidate is known to diverge, by seeds that may decide."""
        return {
            each.place
            for each, losses in self._told.items()
            if each.name == name
            and any(seed < FIRST_SEED["fresh"] and not math.isfinite(loss) for seed, loss in losses.items())
        }

    # --- the race -----------------------------------------------------------------------------------------------------

    def _entrants(self) -> dict[Configuration, str]:
        """The configurations in the race, each with the text of the one whose place it takes if that one diverges."""
        entrants: dict[Configuration, str] = {}
        for name, found in self._searches.items():
            if not found.diverged:
                first = Configuration(name, found.best)
                entrants[first] = ""
                if found.reserve is not None:
                    entrants[Configuration(name, found.reserve)] = str(first)
        return entrants

    # --- the answer ---------------------------------------------------------------------------------------------------

    def _fresh(self, standing: Standing, named: Mapping[str, Configuration]) -> Course:
        baselines = {candidate.name for candidate in self._candidates if candidate.baseline}
        ranked = self._ranked(standing, named)
        challenger = next((each for each in ranked if each.name not in baselines), None)
        baseline = next((each for each in ranked if each.name in baselines), None)
        self._pair = (challenger, baseline)
        self._at_edge = frozenset(each.name for each in self._pair if each is not None and self._ends_search(each))
        refined, at_edge, wants = self._refined()
        unrefined = "; the learning rates of the last two were not refined" if wants else ""
        if not wants:
            self._pair, self._at_edge = refined, at_edge
        elif not self._over(wants, reserve=reserved("refine", standing, self._rules)):
            return self._running("refine", wants)
        needs = [(each, self._rules.fresh) for each in self._pair if each is not None]
        if wants := self._missing("fresh", needs):
            if not self._over(wants):
                return self._running("fresh", wants)
            # A larger budget before may have measured a part of them, which is no answer.
            return replace(self._exhausted("fresh", wants), challenger=None, baseline=None)
        last = [each for each, _ in needs]
        if all(math.inf in self._values(each, "fresh")[: self._rules.fresh] for each in last):
            shown = " and ".join(map(str, last))
            return self._ended("failed", f"{shown} diverged on fresh seeds; try smaller learning rates or clipping")
        if standing.end and not unrefined:
            return self._ended("answered", ENDS[standing.end])
        if standing.end:
            return self._ended("exhausted", f"{ENDS[standing.end]}{unrefined}, because the budget ended")
        reason = f"the budget ended after {standing.seeds} seeds, with {len(standing.alive)} methods in the race"
        return self._ended("exhausted", reason + unrefined)

    def _ends_search(self, configuration: Configuration) -> bool:
        """Whether a configuration has the learning rate that was found at the edge of what the search may try."""
        found = self._searches[configuration.name]
        return found.at_edge and configuration.place == found.best

    def _ranked(self, standing: Standing, named: Mapping[str, Configuration]) -> list[Configuration]:
        """The configurations that did not diverge, by their mean difference to the leader over the seeds of both.

        One that was dropped may be better than one that is still in the race because its values scatter more. Last
        come those that have just stepped in, and that a budget gave no seeds: on fresh ones they are measured all the
        same.
        """
        lead = np.array(self._values(named[standing.leader], "race"))
        raced, gone = standing.raced, {each.name for each in standing.dropped if not each.worse_than}
        finished = [name for name in raced if name not in gone]

        def behind(name: str) -> float:
            n = raced[name]
            return float((np.array(self._values(named[name], "race")[:n]) - lead[:n]).mean())

        new = [name for name in standing.alive if name not in raced]
        return [named[name] for name in [*sorted(finished, key=behind), *new]]

    def _refined(self) -> tuple[Pair, frozenset[str], tuple[Trial, ...]]:
        """Both configurations at the best learning rates nearby, and the runs that are still needed to know these.

        Both are moved or none: otherwise the comparison would favor the one that was tuned better.
        """
        wants: list[Trial] = []
        better: list[Configuration | None] = []
        at_edge: set[str] = set()
        for each in self._pair:
            if each is None:
                better.append(None)
                continue
            search = Search(each.place, QUARTER, (self._rules.refine,) * 3)
            found, more = self._advanced(search, each.name, "refine")
            wants += more
            better.append(each if found.wants or found.diverged else Configuration(each.name, found.best))
            at_edge |= {each.name} if found.at_edge else set()
        return (better[0], better[1]), frozenset(at_edge), tuple(wants)

    # --- values and runs ----------------------------------------------------------------------------------------------

    def _set_scale(self) -> None:
        """Compare logarithms if all losses of the search are positive and none is negative; otherwise multiples.

        They are multiples of the median size of the losses of the search: a learning rate that is nearly too large
        gives losses of any size. A loss of 0 after the search counts as the smallest other one: its logarithm would
        outweigh all other seeds together. Fresh seeds have no say: they must not change what was chosen.
        """
        beyond, fresh = FIRST_SEED["race"], FIRST_SEED["fresh"]
        told = [
            (seed, loss)
            for seeds in self._told.values()
            for seed, loss in seeds.items()
            if seed < fresh and math.isfinite(loss)
        ]
        search = [loss for seed, loss in told if seed < beyond]
        if all(loss > 0 for loss in search) and all(loss >= 0 for _, loss in told):
            least = min((loss for _, loss in told if loss > 0), default=LEAST)
            self._scale, self._value = "log", lambda loss: math.log(max(loss, least))
            return
        size = float(np.median(np.abs(search))) or 1.0
        self._scale, self._value = "linear", lambda loss: loss / size

    def _values(self, configuration: Configuration, stage: str) -> list[float]:
        """The values of consecutive seeds of a stage, from its first one on."""
        losses, values = self._told.get(configuration, {}), list[float]()
        while (seed := FIRST_SEED[stage] + len(values)) in losses:
            values.append(self._value(losses[seed]) if math.isfinite(losses[seed]) else math.inf)
        return values

    def _missing(self, stage: str, needs: Iterable[tuple[Configuration, int]]) -> tuple[Trial, ...]:
        first = FIRST_SEED[stage]
        return tuple(
            Trial(each.name, each.place, seed, stage)
            for each, n in needs
            for seed in range(first, first + n)
            if seed not in self._told.get(each, {})
        )

    def _over(self, wants: Sequence[Trial], *, reserve: Sequence[int] = ()) -> bool:
        """Whether these runs would exceed the budget, of which a part is reserved for the answer."""
        stage = wants[0].stage
        if self._closed is not None and STAGES.index(stage) <= STAGES.index(self._closed):
            return True
        coming = len({*wants, *self._under_way})
        return self._runs is not None and self._used(stage) + coming + sum(reserve) > self._runs

    def _used(self, stage: str) -> int:
        """How many runs it took up to this stage.

        Those of later stages, and of others than the present pair, measured the answer to which a smaller budget led. A
        larger one then buys as much as if it had been given at once.
        """
        refine, fresh = FIRST_SEED["refine"], FIRST_SEED["fresh"]
        names = {each.name for each in self._pair if each is not None}
        pair = self._pair if stage in ("fresh", "done") else ()
        return sum(
            seed < refine or (each.name in names if seed < fresh else each in pair)
            for each, losses in self._told.items()
            for seed in losses
        )

    # --- courses ------------------------------------------------------------------------------------------------------

    def _running(self, stage: Stage, wants: tuple[Trial, ...]) -> Course:
        used = self._used(stage)
        pair, edge = self._pair, self._at_edge
        return Course(stage, wants, self._searches, self._standing, *pair, edge, runs=used, scale=self._scale)

    def _exhausted(self, stage: Stage, wants: tuple[Trial, ...]) -> Course:
        what = {
            "search": "the search for learning rates was",
            "race": f"the {'next' if self._standing.seeds else 'first'} look at the race was",
            "fresh": "fresh seeds were",
        }
        reason = f"the budget ended before {what[stage]} complete, with {counted(len(wants), 'run')} to go next"
        return self._ended("exhausted", reason)

    def _ended(self, status: Status, reason: str) -> Course:
        return replace(self._running("done", ()), status=status, reason=reason)

    def _tried_in_words(self) -> str:
        return "; ".join(
            f"{name} at learning rates from {learning_rate(min(found.tried)):g} to {learning_rate(max(found.tried)):g}"
            for name, found in self._searches.items()
        )


ENDS: Mapping[str, str] = {
    "one left": "one method is left in the race",
    "equivalent": "the leader is shown to be worse than any method left by less than the tolerance",
    "undecided": "the methods left in the race cannot be told apart with the most seeds it may use",
}
"""Why a race ended, in words."""
