"""The statistics of a race: bounds, error rates by simulation, power, and the search for a learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from memgrad.experiments.racing.learning_rates import DECADE, HALF, REACH, Search, learning_rate, place_of
from memgrad.experiments.racing.sequential import (
    Entrant,
    Rules,
    look_share,
    lower_bounds,
    pair_shares,
    race,
)

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

NAMES = tuple("ABCDEFGH")

# Noise of one method's values beside the part that all methods share with a seed.
LAWS: dict[str, Draw] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t, 3 degrees of freedom": lambda rng, size: rng.standard_t(3, size=size),
    "Laplace": lambda rng, size: rng.laplace(size=size),
    "log-normal": lambda rng, size: rng.lognormal(sigma=1.0, size=size),
}


def test_a_bound_is_that_of_the_paired_t_test() -> None:
    values = np.random.default_rng(0).normal(size=(3, 6))
    bounds = lower_bounds(values, np.full((3, 3), 0.01))
    for i, j in ((0, 1), (1, 0), (2, 0)):
        test = stats.ttest_rel(values[i], values[j], alternative="greater")
        assert bounds[i, j] == pytest.approx(test.confidence_interval(0.99).low, rel=1e-9)


def test_the_shares_of_looks_and_pairs_sum_to_one() -> None:
    # Telescoping: the first n shares sum to 1 - a/(n + a), with a = 3.
    assert sum(look_share(k) for k in range(1000)) == pytest.approx(1 - 3 / 1003)
    for reserve in ([False] * 5, [False, False, True, True], [True, True], [False, True]):
        shares = pair_shares(reserve)
        assert shares.sum() == pytest.approx(1)
        assert (np.diag(shares) == 0).all()
    assert pair_shares([False, False, True])[0, 1] == pytest.approx(0.45)


@pytest.mark.parametrize("law", LAWS)
def test_equal_methods_are_dropped_no_more_often_than_stated(law: str) -> None:
    """2000 races of eight methods, equal in law: a wrong statement in at most 5 % of them, within its error."""
    rng = np.random.default_rng(20)
    races, rules = 2000, Rules(error_rate=0.05)
    seed_effect = rng.normal(size=(races, 1, rules.most))
    values = seed_effect + LAWS[law](rng, (races, len(NAMES), rules.most))
    false = np.zeros(races, dtype=bool)
    shares = pair_shares([False] * len(NAMES))
    for k, n in enumerate(rules.looks):  # any bound above 0, also of pairs that the race would not look at any more
        false |= (lower_bounds(values[..., :n], rules.error_rate * look_share(k) * shares) > 0).any(axis=(-1, -2))
    # The 99.9 % point of the number of errors if the rate were exactly as stated.
    assert false.sum() <= stats.binom.ppf(0.999, races, rules.error_rate)


def test_the_race_itself_keeps_to_the_error_rate_and_to_the_bounds() -> None:
    rng = np.random.default_rng(21)
    rules = Rules(error_rate=0.2, most=11)
    entrants = [Entrant(name) for name in NAMES[:4]]
    wrong = 0
    for _ in range(400):
        values = dict(zip(NAMES, rng.normal(size=(4, rules.most)).tolist(), strict=False))
        wrong += bool(race(entrants, values, rules).dropped)
    assert wrong <= stats.binom.ppf(0.999, 400, rules.error_rate)


def test_a_race_drops_what_is_worse_and_spends_seeds_on_the_rest() -> None:
    """Eight methods, from equal to 30 % worse, with a paired spread of 2 %: what a table of pilots looks like."""
    rng = np.random.default_rng(22)
    gaps = np.array([0.0, 0.005, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3])
    rules = Rules()
    used, kept_best, seeds_of_worst = [], 0, []
    for _ in range(200):
        seed_effect = 0.05 * rng.normal(size=rules.most)
        table = gaps[:, None] + seed_effect + 0.02 / math.sqrt(2) * rng.normal(size=(8, rules.most))
        standing = race([Entrant(name) for name in NAMES], dict(zip(NAMES, table.tolist(), strict=True)), rules)
        left = {each.name: each.seeds for each in standing.dropped}
        used.append(sum(left.get(name, standing.seeds) for name in NAMES))
        kept_best += "A" in standing.alive
        seeds_of_worst.append(left.get("H", standing.seeds))
    assert kept_best >= stats.binom.ppf(0.001, 200, 0.95)
    assert np.mean(seeds_of_worst) <= 6  # 30 % is seen at the second or third look
    assert np.mean(used) <= 0.65 * len(NAMES) * rules.most  # a fixed number of seeds would be 160 runs


def test_a_diverged_run_ends_a_configuration_and_its_reserve_steps_in() -> None:
    entrants = [Entrant("A"), Entrant("B"), Entrant("A at a smaller rate", instead_of="A")]
    values = {"A": [1.0, math.inf, 1.0], "B": [2.0, 2.1, 1.9]}
    standing = race(entrants, values, Rules())
    assert standing.wants == {"A at a smaller rate": 3}
    assert standing.dropped[0].worse_than == ""
    values["A at a smaller rate"] = [1.0, math.nan, 1.0]
    standing = race(entrants, values, Rules())
    assert (standing.alive, standing.end) == (("B",), "one left")
    values["B"] = [math.nan] * 3
    assert race(entrants, values, Rules()).end == "diverged"


def test_equal_values_end_the_race_as_equivalent() -> None:
    standing = race([Entrant("A"), Entrant("B")], {"A": [1.0, 2.0, 3.0], "B": [1.001, 2.001, 3.001]}, Rules())
    assert standing.end == "one left"  # every seed is worse by the same: a spread of 0 decides
    standing = race([Entrant("A"), Entrant("B")], {"A": [1.0, 2.0, 3.0], "B": [1.0, 2.0, 3.0]}, Rules())
    assert (standing.end, standing.seeds) == ("equivalent", 3)


def test_a_race_does_not_depend_on_values_beyond_its_look() -> None:
    values = np.random.default_rng(3).normal(size=(2, 20)).tolist()
    entrants = [Entrant("A"), Entrant("B")]
    standing = race(entrants, {"A": values[0][:3], "B": values[1][:3]}, Rules())
    assert standing.wants == {"A": 4, "B": 4}
    early = race(entrants, {"A": values[0], "B": values[1][:3]}, Rules())  # the seeds of A came first
    assert early.wants == {"B": 4}
    assert (early.means, early.alive) == (standing.means, standing.alive)


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"error_rate": 0.0}, "error_rate to be a number in"),
        ({"tolerance": 0.0}, "tolerance to be a finite number > 0"),
        ({"first": 1}, "first to be at least 2 seeds"),
        ({"most": 2}, "most to be at least as many seeds as first=3"),
        ({"fresh": 1}, "fresh to be at least 2 seeds"),
        ({"search": (2, 1, 1)}, "search to be three numbers of seeds"),
    ],
)
def test_bad_rules_are_refused(rules: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Rules(**rules)  # type: ignore[arg-type]  # that is the point


# --- learning rates --------------------------------------------------------------------------------------------------


def searched(search: Search, loss: Callable[[int, int], float]) -> tuple[int, int]:
    """The best place and the number of runs it took."""
    told: dict[int, list[float]] = {}
    while wants := (found := search.advance(told)).wants:
        for k, n in wants.items():
            told[k] = [loss(k, seed) for seed in range(n)]
    assert search.advance(told) == found  # replayed with everything that came later
    return found.best, sum(map(len, told.values()))


@given(st.integers(-40, 40))
def test_places_and_learning_rates_are_inverse(k: int) -> None:
    assert place_of(learning_rate(k)) == k


@given(st.integers(-REACH + 1, REACH - 1), st.sampled_from([DECADE, HALF]), st.floats(0.5, 3))
def test_a_search_finds_the_minimum_of_a_convex_curve(best: int, spacing: int, power: float) -> None:
    found, runs = searched(Search(0, spacing), lambda k, _: abs(k - best) ** (1 + power))
    assert found == best
    assert runs <= 22


def test_a_search_goes_down_where_all_runs_diverge_and_says_so() -> None:
    search, told = Search(0), {}
    while wants := (found := search.advance(told)).wants:
        told |= {k: [math.inf] * n for k, n in wants.items()}
    assert found.diverged
    assert found.best == -REACH
    assert found.at_edge


def test_the_reserve_is_the_next_smaller_rate_that_did_not_diverge() -> None:
    search, told = Search(0, HALF), {}
    while wants := (found := search.advance(told)).wants:
        told |= {k: [math.inf if k > 3 else float(-k)] * n for k, n in wants.items()}
    assert (found.best, found.reserve) == (3, 2)
