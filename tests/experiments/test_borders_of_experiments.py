"""Borders and sums that decide what is trained, kept or refused, each against its rule by hand. Nothing is trained."""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import chunk_from, run_of
from torch import nn

from memgrad.experiments.comparison import Curve
from memgrad.experiments.planning import preview
from memgrad.experiments.planning.plan import RunGroup, run_groups
from memgrad.experiments.planning.problem_choice import Facts, ProblemChoice, facts_about, share_of
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing import tune as tuning
from memgrad.experiments.racing.answer import Measured
from memgrad.experiments.racing.candidates import Candidate
from memgrad.experiments.racing.course import Trial
from memgrad.experiments.racing.pace import Pace
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tuner import Tuner
from memgrad.experiments.storing.store import Store
from memgrad.experiments.storing.upkeep import clean
from memgrad.experiments.training.engines import engine, local
from memgrad.experiments.training.minibatch_order import MinibatchOrder
from memgrad.experiments.training.schedule_free import ScheduleFreeAdamW
from memgrad.problems import Problem

FACTS = Facts("logistic", "f" * 32, 100, 16, 350, ("loss", "accuracy"), nbytes=7_000)


# --- plans and their cost --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "width", "sizes"),
    [
        (1, None, [1]),
        (3, None, [2, 1]),  # at least two together, though four parts would have one each
        (8, None, [2, 2, 2, 2]),
        (10, None, [2, 3, 3, 2]),  # at most a fourth, rounded up: three
        (5, 2, [2, 1, 2]),
        (5, 1, [1, 1, 1, 1, 1]),
        (4, 4, [4]),
        (0, None, []),
    ],
)
def test_the_same_runs_make_the_same_groups_in_every_version(runs: int, width: int | None, sizes: list[int]) -> None:
    """Sums over a stack are rounded by its runs, so other groups would be other last digits."""
    group = [run_of(seed=seed) for seed in range(runs)]
    cut = run_groups(group, FACTS, width=width)
    assert [len(each.runs) for each in cut] == sizes
    assert [run for each in cut for run in each.runs] == group


def group_of(runs: int, steps: int) -> RunGroup:
    return RunGroup(tuple(run_of(seed=seed, steps=(0, steps)) for seed in range(runs)))


@contextmanager
def two_threads() -> Iterator[None]:
    """The block may use another number of threads, but must give two back."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("workers", "seconds", "busy"), [(1, 61.5, 1), (3, 25.5, 3), (9, 18.0, 4)])
def test_the_cost_of_groups_is_that_of_the_busiest_worker(
    monkeypatch: pytest.MonkeyPatch, workers: int, seconds: float, busy: int
) -> None:
    measured: list[tuple[int, int, int]] = []

    def speed(_: Problem, group: RunGroup) -> preview._Speed:
        size = len(group.runs), group.runs[0].steps
        measured.append((*size, torch.get_num_threads()))
        return preview._Speed(0.25 * size[0], size[0] * size[1] / 30 + (size[0] == 2), 1000 * size[0])

    monkeypatch.setattr(preview, "_measured", speed)
    # One of each size is measured: 30 steps of 0.5 s and 3 s of evaluations, twice; 7.5 + 1 s; 15 + 2 s.
    groups = [group_of(2, 30), group_of(2, 30), group_of(1, 30), group_of(1, 60)]
    with two_threads():
        cost = preview.cost_of(None, FACTS, groups, workers=workers)  # type: ignore[arg-type]
    assert measured == [(2, 30, 1), (1, 30, 1), (1, 60, 1)]
    assert cost.seconds == pytest.approx(seconds)
    assert cost.run_steps == pytest.approx((60 + 60 + 30 + 60) / (15 + 15 + 7.5 + 15))
    assert cost.nbytes == busy * (350_000_000 + 7_000 + 2000)


def test_a_problem_that_cannot_be_trained_is_named_and_the_threads_are_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> preview._Speed:
        raise RuntimeError("no such layer")

    monkeypatch.setattr(preview, "_measured", broken)
    mine: Any = SimpleNamespace(name="mine")
    refused = pytest.raises(
        ValueError, match=r"'mine' cannot be trained: RuntimeError: no such layer\. `memgrad check`"
    )
    with two_threads(), refused:
        preview.cost_of(mine, FACTS, [group_of(1, 3)], workers=1)


def pair(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(rows, 3), torch.zeros(rows, dtype=torch.int64)


def test_facts_count_the_bytes_of_all_data_and_a_share_may_be_all_of_them(tmp_path: Path) -> None:
    problem = Problem("p", pair(8), lambda: nn.Linear(3, 2), nn.CrossEntropyLoss(), test=pair(2), validation=pair(1))
    (tmp_path / "mine.py").write_text("")
    facts = facts_about(ProblemChoice(str(tmp_path / "mine.py")), problem)
    assert (facts.nbytes, facts.examples) == ((8 + 2 + 1) * (3 * 4 + 8), 8)
    assert share_of(problem, 8).examples == 8
    assert share_of(problem, 1).examples == 1
    for count in (0, 9):
        with pytest.raises(ValueError, match=f"8 training examples; examples must be from 1 to that, got {count}"):
            share_of(problem, count)


@pytest.mark.parametrize(("size", "allowed"), [(0, False), (1, True), (4, True), (5, False)])
def test_a_minibatch_has_from_one_to_all_examples(size: int, allowed: bool) -> None:
    if allowed:
        assert MinibatchOrder("p", 4, size, [0]).at(0).shape == (1, size)
    else:
        with pytest.raises(ValueError, match=f"minibatches have 1 to 4 examples, got batch_size={size}"):
            MinibatchOrder("p", 4, size, [0])


# --- a budget of time ------------------------------------------------------------------------------------------------


class FourRuns:
    """Wants the same four runs until it is told of them or closed."""

    rules = Rules(fresh=3, refine=1)

    def __init__(self, stage: str) -> None:
        standing = SimpleNamespace(seeds=3 if stage in ("race", "refine") else 0)
        stage = "race" if stage == "first look" else stage
        self.course, self.closed, self.told = SimpleNamespace(stage=stage, standing=standing, searches={}), False, False

    def wanted(self) -> tuple[str, ...]:
        return () if self.told or self.closed else ("four", "runs")

    def close(self, stage: str) -> None:
        assert stage == self.course.stage
        self.closed = True

    def tell_all(self, results: object) -> None:
        assert results == "results"
        self.told = True


@pytest.mark.parametrize(
    ("stage", "seconds", "trains"),
    [
        ("search", None, True),
        ("search", 18.0, True),  # 10 s are spent, and four runs take 2 s each
        ("search", 17.9, False),
        ("first look", 30.0, True),  # 12 s are left for three fresh runs of two methods
        ("first look", 29.9, False),
        ("race", 46.0, True),  # and 16 s to refine, eight learning rates with one seed
        ("race", 45.9, False),
        ("refine", 30.0, True),
        ("refine", 29.9, False),
        ("fresh", 0.1, True),  # an answer that has begun is measured
    ],
)
def test_runs_that_would_not_fit_into_the_time_are_not_started(
    monkeypatch: pytest.MonkeyPatch, stage: str, seconds: float | None, trains: bool
) -> None:
    trained: list[object] = []
    heard: list[str] = []
    courses: list[Any] = []
    training: Any = SimpleNamespace(
        pace=Pace(2.0, 2.0),
        missing=lambda wants: [3, 1] if wants == ("four", "runs") else [],
        train=trained.append,
        results=lambda wants: "results",
        hopeless=lambda searches: "",
        listener=SimpleNamespace(said=heard.append),
    )
    clock = iter([100.0, 110.0])
    monkeypatch.setattr(tuning, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(tuning, "course_in_words", lambda course: course.stage)
    tuner: Any = FourRuns(stage)
    assert tuning._drive(tuner, training, seconds, courses.append) is None
    assert (tuner.told, tuner.closed, bool(trained)) == (trains, not trains, trains)
    assert heard == ([tuner.course.stage] if trains else [])
    assert len(courses) == 1 + trains  # before the runs, and at the end


class Trains:
    """Trains nine methods of known loss on a clock of its own, at a known pace."""

    pace = Pace(60.0, 15.0)

    def __init__(self) -> None:
        self.now = 0.0
        self.listener = SimpleNamespace(said=lambda text: None)

    def missing(self, wants: Sequence[Trial]) -> list[int]:
        return [len(wants)]

    def train(self, wants: Sequence[Trial]) -> None:
        self.now += self.pace.seconds(len(wants))

    def results(self, wants: Sequence[Trial]) -> dict[Trial, Measured]:
        return {trial: Measured(self.loss(trial)) for trial in wants}

    def hopeless(self, searches: object) -> str:
        return ""

    @staticmethod
    def loss(trial: Trial) -> float:
        best, noise = -2 + 0.1 * int(trial.name[1]), random.Random(str(trial)).gauss(0, 0.05)
        return math.exp(noise + 0.3 * (math.log10(trial.lr) - best) ** 2)


@pytest.mark.parametrize("seconds", range(2750, 6000, 250))
def test_time_that_is_left_when_a_race_is_cut_short_refines(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    trains: Any = Trains()
    monkeypatch.setattr(tuning, "time", SimpleNamespace(monotonic=lambda: trains.now))
    tuner = Tuner([Candidate(f"m{i}", lr=0.01, baseline=i < 3) for i in range(9)])
    assert tuning._drive(tuner, trains, float(seconds), None) is None
    answer = tuner.answer()
    assert answer.ratio is not None
    assert trains.now <= seconds
    if "not refined" in answer.reason:
        assert seconds - trains.now < trains.pace.seconds(6 * tuner.rules.refine)


def test_the_largest_seed_of_a_repetition_is_allowed(tmp_path: Path) -> None:
    methods = [{"optimizer": "SGD", "lr": 1.0}, {"optimizer": "AdamW", "lr": 1.0}]
    spec, store = Spec.of({"problem": "logistic", "steps": 3, "methods": methods}), Store.open(tmp_path / "store")
    for seed in (0, 10**9):  # the next complaint is about the candidates
        with pytest.raises(ValueError, match="no method 'X'"):
            tuning.tune(spec, store, SimpleNamespace(), candidates=[Candidate("X")], seed=seed)  # type: ignore[arg-type]


# --- stores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "removed"),
    [
        ([[0], [0, 1], [0, 1, 2]], 2),  # the largest has all
        ([[0, 1], [1, 2], [0, 2]], 1),  # without any one of them the others are needed
        ([[0, 1], [1], [1, 2]], 1),
        ([[0], [1]], 0),
        ([[0, 1, 2], [2, 3]], 0),
    ],
)
@pytest.mark.parametrize("machine", ["a", "b", "c", "d"])  # which decides the order of the files' names
def test_cleaning_up_removes_copies_small_ones_first_and_never_the_last_one(
    tmp_path: Path, chunks: list[list[int]], removed: int, machine: str
) -> None:
    store = Store.open(tmp_path / "store")
    (store.path / "chunks").mkdir()
    sizes = {}
    for i, seeds in enumerate(chunks):
        chunk = replace(chunk_from([run_of(seed=seed) for seed in seeds]), about={"machine": machine})
        path = Store.open(tmp_path / str(i)).write(chunk)
        shutil.copy(path, store.path / "chunks")
        sizes[path.name] = len(seeds)
    before, rows = set(store.digests()), len(store.read())
    with store.writing():  # which listing needs no lock for
        would = clean(Store(store.path), dry_run=True)
        if removed:
            with pytest.raises(BlockingIOError, match="is being written by"):
                clean(Store(store.path))
    assert {path.name for path in (store.path / "chunks").iterdir()} == set(sizes)
    found = clean(store)
    assert [each.path for each in found] == [each.path for each in would]
    assert {each.reason for each in found} <= {"its runs are in other chunks too"}
    assert [sizes[each.path.name] for each in found] == sorted(sizes.values())[:removed]
    assert set(store.digests()) == before
    assert len(store.read()) == rows


def test_cleaning_up_removes_checkpoints_of_finished_runs_and_files_of_crashes_alone(tmp_path: Path) -> None:
    store, runs = Store.open(tmp_path / "store"), [run_of(seed=0), run_of(seed=1)]
    store.write(chunk_from(runs))
    digests = [run.digest for run in runs]
    for key, own in {"all": digests, "one": digests[:1], "going": [digests[0], "0" * 32], "unknown": []}.items():
        store.save_checkpoint(key, b"x", runs=own)
    for name in (".b.parquet.12.tmp", ".a.parquet.12.tmp", ".mine.tmp"):
        (store.path / "chunks" / name).write_text("x")
    found = [(str(each.path.relative_to(store.path)), each.reason, each.nbytes > 0) for each in clean(store)]
    finished = [f"checkpoints/{key}{ending}" for key in ("all", "one") for ending in (".npz", ".json")]
    assert found == [
        *((f"chunks/.{name}.parquet.12.tmp", "unfinished", True) for name in "ab"),
        *((path, "its runs are finished", True) for path in finished),
    ]
    assert store.checkpoints() == ("going", "unknown")
    assert (store.path / "chunks" / ".mine.tmp").exists()


def test_of_a_chunk_with_one_run_to_keep_this_run_is_kept(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    mixed, lost = (store.write(chunk_from([run_of(seed=seed), run_of(seed=seed + 1)])) for seed in (0, 2))
    size = lost.stat().st_size
    [waste, rewritten] = clean(store, keep={run_of(seed=1).digest})
    assert (waste.path, waste.nbytes, waste.reason) == (lost, size, "none of its runs is to be kept")
    assert (rewritten.path, rewritten.reason) == (mixed, "some of its runs are not to be kept")
    assert not lost.exists()
    assert set(store.digests()) == {run_of(seed=1).digest}


def test_a_store_whose_holder_cannot_be_written_is_not_left_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path / "store")

    def full(*_: object) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(Store, "_put", full)
        with pytest.raises(OSError, match="full"), store.writing():
            raise AssertionError("the block was entered")
    with Store(store.path).writing():
        assert (store.path / "holder.json").exists()
    with store.writing():
        with store.writing():
            assert (store.path / "holder.json").exists()
        assert (store.path / "holder.json").exists()  # the outer block still writes
    assert not (store.path / "holder.json").exists()


# --- engines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (None, "its process ended with exit code None"),
        (0, "its process ended with exit code 0"),
        (3, "its process ended with exit code 3"),
        (-9, "its process was killed by SIGKILL (out of memory?)"),
        (-15, "its process was killed by SIGTERM"),
        (-200, "its process was killed by signal 200"),
    ],
)
def test_the_end_of_a_worker_is_told_by_its_exit_code(code: int | None, words: str) -> None:
    assert local._cause(code) == words


@pytest.mark.parametrize(
    ("device", "here", "complaint"),
    [
        (None, True, ""),
        ("cpu", True, ""),
        ("cuda", True, ""),
        ("cuda:0", True, ""),
        ("cuda:1", True, "cannot be used on this machine: torch sees 1 CUDA devices here"),
        ("cuda:1", False, ""),  # another machine may have it
        ("meta", False, "cannot be used on this machine"),
        ("gpu", False, r"the device must be one that torch knows, .*, got 'gpu' \(\w+"),
    ],
)
def test_a_device_is_refused_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, device: str | None, here: bool, complaint: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    if complaint:
        with pytest.raises(ValueError, match=complaint):
            engine.check_device(device, here=here)
    else:
        engine.check_device(device, here=here)


def test_a_throttled_question_is_asked_at_once_and_then_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([50.0, 50.9, 51.0, 51.5, 52.5])
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: next(times)))
    answers = iter([False, False, True])
    asked = engine.Throttled(lambda: next(answers), 1.0)
    assert [asked() for _ in range(5)] == [False, False, False, False, True]
    assert not list(answers)


def test_variables_are_set_for_a_block_and_as_before_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMGRAD_A", "before")
    monkeypatch.delenv("MEMGRAD_B", raising=False)
    with engine.environment({"MEMGRAD_A": "1", "MEMGRAD_B": "2", "MEMGRAD_C": "3"}):
        assert [os.environ[f"MEMGRAD_{name}"] for name in "ABC"] == ["1", "2", "3"]
        del os.environ["MEMGRAD_C"]
    assert [os.environ.get(f"MEMGRAD_{name}") for name in "ABC"] == ["before", None, None]


def test_a_signal_has_its_handler_again_after_the_block() -> None:
    def handlers() -> Any:
        return signal.getsignal(signal.SIGTERM)

    before = handlers()
    with engine.handler_kept(signal.SIGTERM, signal.SIG_IGN):
        assert handlers() == signal.SIG_IGN
    assert handlers() == before
    with engine.handler_kept(signal.SIGTERM):
        assert handlers() == before
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert handlers() == before
    seen: list[Any] = []

    def elsewhere() -> None:
        with engine.handler_kept(signal.SIGTERM, signal.SIG_IGN):
            seen.append(handlers())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


# --- curves and averages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "diverged", "mean", "half"),
    [
        # Two seeds that are 2 apart: Student's t with one degree of freedom times a standard error of 1.
        ([2.0, 4.0], [1.0, 3.0], {}, 3.0, math.tan(0.475 * math.pi)),
        ([2.0, np.nan], [1.0, np.nan], {}, 2.0, np.nan),  # the other is not finished: one seed has no interval
        ([2.0, np.nan], [1.0, 3.0], {}, np.nan, np.nan),  # it is, and was not evaluated here
        ([2.0, np.nan], [1.0, np.nan], {1: 0}, np.nan, np.nan),
    ],
)
def test_the_interval_of_a_curve_is_over_finished_seeds(
    first: list[float], second: list[float], diverged: dict[int, int], mean: float, half: float
) -> None:
    middle, low, high = Curve(np.array([0, 9]), np.array([first, second]), (0, 1), diverged).interval()
    ends = [middle[0], low[0], high[0]]
    assert ends == pytest.approx([mean, mean - half, mean + half], nan_ok=True)


def test_schedule_free_without_memory_averages_plain_steps() -> None:
    """With betas of 0, no eps and a positive gradient each step of z is lr, and x is the mean of all z."""
    parameter = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = ScheduleFreeAdamW([parameter], lr=0.1, betas=(0.0, 0.0), eps=0.0)
    for _ in range(3):
        parameter.grad = torch.tensor([5.0], dtype=torch.float64)
        optimizer.step()
    assert float(parameter.detach()) == pytest.approx(0.7)  # y = z
    optimizer.eval()
    assert float(parameter.detach()) == pytest.approx((0.9 + 0.8 + 0.7) / 3)
    optimizer.train()
    assert float(parameter.detach()) == pytest.approx(0.7)
