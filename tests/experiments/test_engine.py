"""Experiments carried out, disturbed in every way we know of, and compared with undisturbed ones bit by bit."""

from __future__ import annotations

import multiprocessing
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_trials import (
    LONG,
    QUICK,
    RUNS,
    Diary,
    Here,
    Row,
    end,
    files_in,
    is_running,
    memgrad,
    rows_of,
    spec_file,
    wait_until,
    workers_of,
)
from fast_cases import few

from memgrad.experiments.driver import RETRIES, Outcome, execute, facts_of, results_of
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.checkpoint import Checkpoint
from memgrad.experiments.training.engines.local import LocalEngine
from memgrad.experiments.training.events import Event, Failed, Finished, Lost, Saved, Stopped
from memgrad.experiments.training.train import Assignment

Rows = dict[str, list[Row]]


def carried_out(text: str, folder: Path, engine: Any = None, **rest: Any) -> tuple[Outcome, Store]:
    store = Store.open(folder)
    return execute(Spec.parse(text), store, engine or Here(), **rest), store


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of the quick experiment, undisturbed."""
    return rows_of(carried_out(QUICK, tmp_path_factory.mktemp("quick") / "store")[1])


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of the long experiment, undisturbed."""
    return rows_of(carried_out(LONG, tmp_path_factory.mktemp("long") / "store")[1])


# --- the driver ------------------------------------------------------------------------------------------------------


def test_every_run_is_trained_once_and_then_there(tmp_path: Path, quick: Rows) -> None:
    diary = Diary()
    outcome, store = carried_out(QUICK, tmp_path / "store", listener=diary)
    assert (outcome.trained, outcome.there, outcome.complete) == (RUNS, 0, True)
    assert [len(rows) for rows in quick.values()] == [9] * RUNS  # 5 losses and 4 lengths of steps
    assert rows_of(store) == quick
    assert diary.begun == [(9, 0), (3, 9)]  # the method that follows comes second
    engine = Here()
    again, store = carried_out(QUICK, tmp_path / "store", engine)
    assert (again.trained, again.there, again.complete) == (0, RUNS, True)
    assert engine.assignments == []
    assert engine.closed
    assert store.checkpoints() == ()


def test_the_step_size_of_a_follower_is_the_best_of_whom_it_follows(tmp_path: Path) -> None:
    text = QUICK.replace("lr = [0.1, 1.0]", "lr = [0.1, 1.0, 30.0, 1e30]").replace("steps = 60", "steps = 200")
    _, store = carried_out(text + "[select]\nlast = 0.4\n", tmp_path / "store")
    rows = store.read().described()

    def score(lr: float) -> float:
        """The mean over seeds of the mean over the last 2 of 5 evaluations; infinite if a seed has not all of them."""
        mine = (rows["optimizer"] == "SGD") & (rows["lr"] == lr) & (rows["metric"] == "loss") & (rows["step"] >= 150)
        finals = [rows["value"][mine & (rows["seed"] == seed)] for seed in range(3)]
        return float(np.mean([each.mean() if len(each) == 2 else np.inf for each in finals]))

    best = min((0.1, 1.0, 30.0, 1e30), key=score)
    assert score(1e30) == np.inf
    assert np.unique(rows["lr"][rows["optimizer"] == "MemSGD"]).tolist() == [best]
    assert results_of(Spec.parse(text + "[select]\nlast = 0.4\n"), store).selected_lr("S") == best


def lost_at(event: int, times: int, optimizer: str = "SGD") -> Here:
    """An engine that loses all run groups of an optimizer after this many events, the first times they are started."""

    def loses(assignment: Assignment, tries: int) -> int | None:
        return event if tries <= times and assignment.group.runs[0].recipe.optimizer == optimizer else None

    return Here(loses)


@pytest.mark.parametrize("event", few([0, 1, 9], fast=[1]))
def test_a_lost_batch_is_tried_again_from_its_checkpoint(tmp_path: Path, quick: Rows, event: int) -> None:
    engine, diary = lost_at(event, RETRIES), Diary()
    outcome, store = carried_out(QUICK, tmp_path / "store", engine, listener=diary, save_every=0.0)
    assert outcome.complete
    assert outcome.trained == RUNS
    assert rows_of(store) == quick
    assert store.checkpoints() == ()
    assert max(diary.starts) > 0 or event < 2
    assert max(engine.tries.values()) == RETRIES + 1


def test_a_batch_that_is_always_lost_is_tried_twice_more_and_reported_and_the_rest_goes_on(
    tmp_path: Path, quick: Rows
) -> None:
    engine = lost_at(2, 1000)
    outcome, store = carried_out(QUICK, tmp_path / "store", engine)
    assert not outcome.complete
    assert len(outcome.failed) == 6
    assert set(outcome.failed.values()) == {"tried 3 times: its process was killed by SIGKILL"}
    assert outcome.waiting == ("M",)
    assert outcome.trained == 3
    assert sorted(engine.tries.values()) == [1, 1, 1, 3, 3]
    assert all(quick[digest] == rows for digest, rows in rows_of(store).items())
    again, store = carried_out(QUICK, tmp_path / "store")
    assert (again.trained, again.there) == (9, 3)
    assert rows_of(store) == quick


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_with_a_checkpoint_and_the_next_time_goes_on_from_it(
    tmp_path: Path, quick: Rows, number: signal.Signals
) -> None:
    def act(event: Event) -> None:
        if isinstance(event, Saved) and event.k == 20:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    diary, engine = Diary(act), Here()
    outcome, store = carried_out(QUICK, tmp_path / "store", engine, listener=diary, save_every=0.0)
    assert outcome.interrupted
    assert not outcome.complete
    assert engine.closed
    assert signal.getsignal(number) is before
    assert any("Ctrl-C again" in message for message in diary.messages)
    stopped = [event.k for event in diary.events if isinstance(event, Stopped)]
    assert len(stopped) == 1
    assert stopped[0] >= 20
    assert len(store.checkpoints()) == 1
    diary = Diary()
    outcome, store = carried_out(QUICK, tmp_path / "store", listener=diary)
    assert outcome.complete
    assert diary.starts[0] == stopped[0]  # not from the start again
    assert rows_of(store) == quick
    assert store.checkpoints() == ()


@pytest.mark.parametrize("finished", [1, 3, 4, 6, 7])
def test_interrupted_after_any_batch_the_rows_are_the_same(tmp_path: Path, quick: Rows, finished: int) -> None:
    # Also where the step size of the followers is known before the others are done: they must not change groups.
    seen: list[Event] = []

    def act(event: Event) -> None:
        seen.extend([event] if isinstance(event, Finished) else [])
        if len(seen) == finished:
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append(event)

    carried_out(QUICK, tmp_path / "store", listener=Diary(act))
    outcome, store = carried_out(QUICK, tmp_path / "store")
    assert outcome.complete
    assert outcome.there > 0
    assert rows_of(store) == quick


def stopped_half_way(folder: Path) -> Store:
    """A store with some rows of the quick experiment, and a checkpoint of a group of three runs."""
    kept: list[Event] = []

    def act(event: Event) -> None:
        kept.extend([event] if isinstance(event, Finished) else [])
        if isinstance(event, Saved) and len(kept) == 1 and event.k > 20:
            os.kill(os.getpid(), signal.SIGTERM)
            kept.append(event)

    _, store = carried_out(QUICK, folder, listener=Diary(act), save_every=0.0)
    assert len(store.digests()) == 3
    assert len(store.checkpoints()) == 1
    return store


@pytest.mark.most(3)
@pytest.mark.parametrize(
    ("written", "instead", "runs", "kept", "resumed"),
    [
        ("lr = [0.1, 1.0]", "lr = [1.0, 0.1]", RUNS, 3, True),  # another order
        ("seeds = 3", "seeds = 4", 16, 3, True),
        ('optimizer = "Rprop"', 'optimizer = "Rprop"\netas = [0.4, 1.3]', RUNS, 3, True),  # another method
        ('[[methods]]\nname = "R"\noptimizer = "Rprop"\nlr = 0.01\n', "", 9, 3, True),
        ('name = "S"', 'name = "S"\nnesterov = false', RUNS, 3, True),
        ("steps = 60", "steps = 61", RUNS, 0, False),  # other numbers: everything anew
        ("lr = [0.1, 1.0]", "lr = [1.0]", 9, 0, True),  # the finished runs are no longer asked for, the others are
    ],
)
def test_an_experiment_changed_half_way_keeps_what_is_still_asked_for(
    tmp_path: Path, quick: Rows, written: str, instead: str, runs: int, kept: int, resumed: bool
) -> None:
    before = rows_of(stopped_half_way(tmp_path / "store"))
    diary = Diary()
    outcome, store = carried_out(QUICK.replace(written, instead), tmp_path / "store", listener=diary)
    assert outcome.complete
    assert (len(outcome.runs), outcome.there) == (runs, kept)
    assert diary.begun[0][1] == kept
    assert (diary.starts[0] > 0) is resumed
    after = rows_of(store)
    assert all(after[digest] == rows for digest, rows in before.items())  # nothing is lost
    outcome, store = carried_out(QUICK, tmp_path / "store")  # and what was asked for first can still be had
    assert outcome.complete
    for digest, rows in rows_of(store).items():
        if digest in quick:
            # Runs are in other groups after a change, which changes the rounding of their last digits.
            assert [row[:2] for row in rows] == [row[:2] for row in quick[digest]]
            assert [row[2] for row in rows] == pytest.approx([row[2] for row in quick[digest]], rel=1e-4)


def test_a_checkpoint_that_cannot_be_read_is_told_of_and_its_runs_start_again(tmp_path: Path, quick: Rows) -> None:
    store = stopped_half_way(tmp_path / "store")
    (key,) = store.checkpoints()
    (tmp_path / "store" / "checkpoints" / f"{key}.npz").write_bytes(b"garbage")
    diary = Diary()
    outcome, store = carried_out(QUICK, tmp_path / "store", listener=diary)
    assert outcome.complete
    assert any(key in message and "start again" in message for message in diary.messages)
    assert rows_of(store) == quick


def test_a_checkpoint_that_does_not_fit_is_told_of_and_its_runs_start_again(
    tmp_path: Path, quick: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    store = stopped_half_way(tmp_path / "store")
    (key,) = store.checkpoints()
    data = store.checkpoint(key)
    assert data is not None
    saved = Checkpoint.from_bytes(data)
    store.save_checkpoint(key, replace(saved, state={}).to_bytes(), runs=[run.digest for run in saved.runs])
    outcome, store = carried_out(QUICK, tmp_path / "store")
    assert outcome.complete
    assert rows_of(store) == quick
    assert f"checkpoint {key} does not fit its runs; they start again" in caplog.text


def test_facts_of_another_version_of_a_problem_are_not_used(tmp_path: Path, quick: Rows) -> None:
    store = Store.open(tmp_path / "store")
    choice = Spec.parse(QUICK).problem_choice
    facts = facts_of(choice, store, keep=True)
    (kept,) = (tmp_path / "store" / "problems").iterdir()
    store.save_facts(kept.stem, replace(facts, fingerprint="older", examples=1))
    assert facts_of(choice, store, keep=True) == facts


def test_a_truncated_chunk_is_put_aside_and_made_again(
    tmp_path: Path, quick: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    _, store = carried_out(QUICK, tmp_path / "store")
    chunk = sorted(store.headers())[0]
    lost = len(store.headers()[chunk].runs)
    os.truncate(chunk, chunk.stat().st_size - 100)
    outcome, store = carried_out(QUICK, tmp_path / "store")
    assert (outcome.trained, outcome.there) == (lost, RUNS - lost)
    assert rows_of(store) == quick
    assert "damaged" in caplog.text
    assert [damage.path.parent.name for damage in store.damaged] == ["damaged"]


UNSEEDED = """
import torch
from memgrad.problems import Problem

def problem():
    inputs = torch.randn(20, 3)
    return Problem("unseeded", (inputs, inputs[:, :1]), lambda: torch.nn.Linear(3, 1), torch.nn.functional.mse_loss)
"""


def test_a_problem_that_is_another_one_in_each_process_is_refused_before_rows_are_kept(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(UNSEEDED)
    text = 'problem = "own.py:problem"\nsteps = 5\nbatch = 4\nseeds = 2\n[[methods]]\noptimizer = "SGD"\nlr = 0.1\n'
    spec, store = Spec.load(spec_file(tmp_path, text)), Store.open(tmp_path / "store")
    with pytest.raises(ValueError, match=r"'unseeded' differs from one process to the next: its training inputs"):
        execute(spec, store, LocalEngine(1))
    assert len(store.digests()) == 0
    (tmp_path / "own.py").write_text(UNSEEDED.replace("(20, 3)", "(20, 3, generator=torch.Generator().manual_seed(0))"))
    assert execute(spec, store, LocalEngine(1)).complete
    assert len(store.digests()) == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no disk can be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096) > 0:
                pass
        except OSError:
            return ballast
    raise AssertionError


def test_a_full_disk_is_named_and_nothing_is_lost(small_disk: Path, quick: Rows) -> None:
    filled: list[Path] = []

    def act(event: Event) -> None:
        if isinstance(event, Finished) and not filled:
            filled.append(fill(small_disk))

    engine = Here()
    with pytest.raises(
        OSError,
        match=r"No space left on device: this file was not written, .* is lost; free some space.* is trained again",
    ):
        carried_out(QUICK, small_disk / "store", engine, listener=Diary(act))
    assert engine.closed
    store = Store.open(small_disk / "store")
    assert len(store.digests()) == 3
    assert not list(small_disk.glob("store/**/.*"))  # nothing half-written
    filled[0].unlink()
    outcome, store = carried_out(QUICK, small_disk / "store")
    assert (outcome.complete, outcome.there) == (True, 3)
    assert rows_of(store) == quick


@pytest.mark.parametrize("device", ["foo", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_a_worker_is_started(tmp_path: Path, device: str) -> None:
    engine = LocalEngine(1)
    with pytest.raises(ValueError, match=rf"device.* '{device}'"):
        execute(Spec.parse(QUICK), Store.open(tmp_path / "store"), engine, device=device)
    assert multiprocessing.active_children() == []


def test_a_second_driver_on_the_store_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    refused: list[str] = []

    def act(event: Event) -> None:
        if isinstance(event, Finished) and not refused:
            with pytest.raises(BlockingIOError) as caught:
                carried_out(QUICK, tmp_path / "store")
            refused.append(str(caught.value))

    outcome, _ = carried_out(QUICK, tmp_path / "store", listener=Diary(act))
    assert outcome.complete
    assert f"is being written by process {os.getpid()} on" in refused[0]
    assert "Wait for it, stop it, or name another folder" in refused[0]


# --- processes on this machine ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_do_not_depend_on_the_number_of_workers_nor_on_how_many_are_killed(tmp_path: Path, long: Rows) -> None:
    chance, killed = random.Random(1), []

    def act(event: Event) -> None:
        if isinstance(event, Saved) and len(killed) < 2 and chance.random() < 0.3:
            victim = chance.choice(multiprocessing.active_children())
            os.kill(victim.pid or 0, signal.SIGKILL)
            killed.append(victim.pid)

    diary = Diary(act)
    outcome, store = carried_out(LONG, tmp_path / "store", LocalEngine(2), listener=diary, save_every=0.05)
    assert outcome.complete, outcome.failed
    assert killed
    assert any(isinstance(event, Lost) and "SIGKILL (out of memory?)" in event.reason for event in diary.events)
    assert rows_of(store) == long
    assert store.checkpoints() == ()
    assert multiprocessing.active_children() == []


TROUBLE = """
import os, signal, torch
from memgrad.problems import Problem

class Model(torch.nn.Linear):
    def forward(self, inputs):
        size = float(self.weight.detach().abs().max())
        if size > 1e6:  # which step sizes decide
            os.kill(os.getpid(), signal.SIGKILL)
        if size > 10:
            raise RuntimeError(f"weights beyond 10 are [strange]")
        return super().forward(inputs)

def problem():
    inputs = torch.ones(4, 1)
    return Problem("trouble", (inputs, torch.zeros(4, 1)), lambda: Model(1, 1), torch.nn.functional.mse_loss)
"""
TROUBLED = """
problem = "trouble.py:problem"
batch = 2
steps = 10
seeds = 2
evaluate.times = 2
[[methods]]
name = "good"
optimizer = "SGD"
lr = 0.01
[[methods]]
name = "bad"
optimizer = "SGD"
lr = [100.0, 1e8]
[[methods]]
name = "follower"
optimizer = "MemSGD"
lr = "best of bad"
"""


@pytest.mark.slow
def test_what_ends_its_worker_is_tried_twice_more_what_raises_is_not_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "trouble.py").write_text(TROUBLE)
    diary, store = Diary(), Store.open(tmp_path / "store")
    spec = Spec.load(spec_file(tmp_path, TROUBLED.replace("seeds = 2", "seeds = [0]")))
    outcome = execute(spec, store, LocalEngine(2), listener=diary)
    assert (outcome.trained, len(outcome.failed), outcome.waiting) == (1, 2, ("follower",))
    by_lr = {run.lr: outcome.failed[run.digest] for run in outcome.runs if run.digest in outcome.failed}
    assert by_lr[100.0] == "RuntimeError: weights beyond 10 are [strange]"
    assert by_lr[1e8] == "tried 3 times: its process was killed by SIGKILL (out of memory?)"
    assert len([event for event in diary.events if isinstance(event, Lost)]) == 3
    assert len([event for event in diary.events if isinstance(event, Failed)]) == 1


PAGE_FAULTS = """
import resource
import sys

import torch

from memgrad.cli.costs import measured
from memgrad.experiments import Spec
from memgrad.experiments.training.engines.engine import prepare_worker

if "worker" in sys.argv:
    prepare_worker()
if "plan" in sys.argv:
    methods = [{"optimizer": "SGD", "lr": 1}]
    measured(Spec.of({"problem": "logistic", "steps": 1, "seeds": 1, "methods": methods}), None, 1)


def step():
    return [torch.ones(400_000) for _ in range(30)]  # 48 MB, freed at once


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


step(), step()
before = page_faults()
for _ in range(10):
    step()
print(page_faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
@pytest.mark.parametrize("process", ["worker", "plan"])
def test_what_trains_does_not_return_to_the_system_what_the_next_step_needs(process: str) -> None:
    """Without the setting each of the ten steps gets its 48 MB, 11,719 pages of 4 KiB, from the system again."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}

    def faults(*arguments: str) -> int:
        command = [sys.executable, "-c", PAGE_FAULTS, *arguments]
        return int(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)

    assert faults(process) < faults() / 10


@pytest.mark.parametrize("workers", [0, -1])
def test_an_engine_without_workers_is_refused(workers: int) -> None:
    with pytest.raises(ValueError, match=f"the number of workers must be at least 1, got {workers}"):
        LocalEngine(workers)


# --- the driver in a process of its own ------------------------------------------------------------------------------

RUN = ("run", "spec.toml", "--store", "store", "--save-every", "0.02", "--json", "--workers")


def kill_and_resume(folder: Path, kills: int, workers: int, chance: random.Random) -> Rows:
    """The rows of the long experiment, its driver or a worker killed at random moments, each time gone on with."""
    spec_file(folder, LONG)
    store = folder / "store"
    for _ in range(kills):
        driver = memgrad(*RUN, str(workers), cwd=folder)
        try:
            there = files_in(store)
            target = there + chance.randint(0, 2)
            if not wait_until(lambda target=target: files_in(store) > target, driver):
                break  # it was done before
            time.sleep(chance.random() * 0.2)
            trainers = workers_of(driver.pid)
            if trainers and chance.random() < 0.5:
                os.kill(chance.choice(trainers), signal.SIGKILL)
            driver.kill()
            driver.wait()
            # Whoever trained for it notices and leaves.
            wait_until(lambda trainers=trainers: not any(map(is_running, trainers)))
        finally:
            end(driver)
    driver = memgrad(*RUN, str(workers), cwd=folder)
    output, errors = driver.communicate(timeout=120)
    assert driver.returncode == 0, (output, errors)
    return rows_of(Store(store))


def test_a_driver_killed_at_any_moment_loses_and_doubles_nothing(tmp_path: Path, long: Rows) -> None:
    assert kill_and_resume(tmp_path, 2, 1, random.Random(5)) == long


@pytest.mark.slow
def test_twenty_kills_lose_and_double_nothing(tmp_path: Path, long: Rows) -> None:
    assert kill_and_resume(tmp_path, 20, 2, random.Random(6)) == long
