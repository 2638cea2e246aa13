"""How long rounds of runs take, against rounds on workers that each train one run at a time."""

from __future__ import annotations

import math

import pytest

from memgrad.experiments.racing.pace import LAST_ROUNDS, Pace

RUN = 60.0


def lasts(runs: int, workers: int) -> float:
    """The seconds of a round on so many workers, a minute per run."""
    return RUN * math.ceil(runs / workers)


@pytest.mark.parametrize("workers", [1, 2, 8, 16])
@pytest.mark.parametrize("before", [[6, 27, 1, 2, 1, 4], [6, 1, 27], [6, 27, 20, 9, 9, 2]])
def test_a_round_is_neither_taken_to_be_shorter_nor_more_than_a_run_longer(workers: int, before: list[int]) -> None:
    pace = Pace().after([(runs, lasts(runs, workers)) for runs in before])
    full = 27 / math.ceil(27 / workers) / workers  # how busy the workers were in the largest round
    for runs in range(1, 100):
        expected = pace.seconds(runs)
        assert lasts(runs, workers) <= expected + 1e-9
        assert expected <= lasts(runs, workers) / full + RUN


def test_the_first_round_starts_the_workers_and_counts_only_if_nothing_else_is_known() -> None:
    assert Pace().after([]) == Pace()
    assert Pace().after([(2, 50.0)]) == Pace(50.0, 25.0)
    assert Pace().after([(2, 50.0), (4, 8.0)]) == Pace(8.0, 2.0)
    assert Pace(3.0, 1.0).after([(2, 50.0)]) == Pace(3.0, 1.0)


def test_what_was_expected_is_forgotten_when_a_round_was_measured_and_a_round_after_some_others() -> None:
    assert Pace(3.0, 1.0).after([(2, 50.0), (2, 20.0)]) == Pace(20.0, 10.0)
    fast, slow = [(2, 50.0), (2, 4.0)], [(2, 20.0)] * LAST_ROUNDS
    assert Pace(3.0, 1.0).after(fast + slow[:-1]) == Pace(4.0, 2.0)
    assert Pace(3.0, 1.0).after(fast + slow) == Pace(20.0, 10.0)


def test_no_runs_take_no_time() -> None:
    assert Pace(3.0, 1.0).seconds(0) == 0.0
    assert Pace(3.0, 1.0).seconds(1) == 3.0
