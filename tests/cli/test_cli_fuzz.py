"""Every command with bad words: an answer within seconds, no traceback, a status that is not 0, and no files left."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_fuzzing import (
    BROKEN,
    DIGITS,
    GOOD,
    LONG,
    MEMORIES,
    NUMBERS,
    SECONDS,
    VALUES,
    WORDS,
    Case,
    all_commands,
    call,
    pair_cases,
    sampled,
    single_cases,
)

TESTS = Path(__file__).parents[1]
PATIENCE = 120.0
"""A process that has been silent for this many seconds hangs where no signal reaches it, and is killed."""

NEW_FILE = {"new/x.png", "x.svg/"}
NEW_NAME = {word for word in (*NUMBERS, *WORDS) if word not in ("", LONG, DIGITS)} | NEW_FILE | {"out.gif"}
NEW_FOLDER = NEW_NAME | {".", "directory"}
MANY = {str(10**30), "1_000"}
ANY = (*VALUES, *MEMORIES)

FINE: dict[tuple[str, str], Collection[str]] = {
    ("*", "seed"): {"0", *MANY},
    ("*", "workers"): MANY,
    ("*", "width"): MANY,
    ("*", "out"): NEW_FILE,
    ("*", "figure"): NEW_FILE,
    ("*", "spec"): {"spec.toml"},
    ("*", "keep"): {"spec.toml"},
    ("passport", "memory"): {"poly:1e308", "poly:1e-320", "exp:alpha=1e308", "stretch:1e308"},
    ("explore", "memory"): {"poly:1e308", "poly:1e-320", "exp:alpha=1e308", "stretch:1e308"},
    ("plot memories", "memory"): {"poly:1e308", "poly:1e-320"},
    ("passport", "at"): {"0", "1e308", "1e30", *MANY},
    ("simulate", "flow"): {"1.5", "1e-320", *MANY},
    ("simulate", "objective"): {"powerlaw:1e9,1"},
    ("simulate", "start"): {"-1", "0", "1.5", "1e-320", "1e30", "1,2", *MANY},
    **{(name, "nu"): {"1.5", "1_000"} for name in ("risk", "design")},
    **{(name, "zeta"): {"1.5", "1_000", "1e-320"} for name in ("risk", "design")},
    **{(name, "noise"): {"0", "1.5", "1e-320", "1e30", *MANY} for name in ("risk", "design")},
    **{(name, "batch"): {"1_000", "1e30", str(10**30), DIGITS, "1e308"} for name in ("risk", "design", "spectrum")},
    ("risk", "lr"): {"1.5", "1e-320", "1_000", "1,2", "1e30", "1e308", str(10**30), DIGITS},
    ("risk", "methods"): {"poly:1e308", "poly:1e-320", "exp:alpha=1e308", "stretch:1e308", "log:h=1e300"},
    ("risk", "steps"): {"1_000"},
    ("design", "steps"): {"1_000"},
    ("design", "iterations"): {"1_000"},
    ("spectrum", "steps"): {"0", "1_000"},
    ("spectrum", "lr"): {"1.5", "1e-320", "1_000"},
    ("spectrum", "rows"): {"1_000"},
    ("spectrum", "probes"): {"1_000"},
    ("spectrum", "lanczos"): {"1_000"},
    ("spectrum", "seeds"): {"1_000"},
    ("spectrum", "seed"): {"0", "1_000"},
    ("simulate", "noise"): {"0", "1.5", "1e-320", "1e30", *MANY},
    ("simulate", "paths"): {"1_000"},
    ("simulate", "until"): {"1.5", "1e-320", "1_000"},
    ("simulate", "dt"): {"1.5", "1e308", "1e30", *MANY},  # a step is never longer than the whole time
    ("plot memories", "time"): {"1.5", "1e30", *MANY},
    ("plot memories", "at"): {"0"},
    ("explore", "port"): {"0", "1_000"},
    ("init", "path"): NEW_NAME,
    ("init", "problem"): {word for word in VALUES if ":" in word or word.endswith(".py")},  # may be written later
    ("plan", "store"): NEW_FOLDER | {word for word in VALUES if "/" in word},  # nothing is written there
    ("run", "store"): NEW_FOLDER,
    ("run", "tensorboard"): NEW_FOLDER,
    ("run", "save_every"): {"0", "1.5", "inf", "1e308", "1e-320", "1e30", DIGITS, *MANY},
    ("run", "device"): ANY,  # judged by what trains, which is replaced here
    ("reproduce", "device"): ANY,
    ("reproduce", "store"): NEW_FOLDER,
    ("reproduce", "out"): NEW_FOLDER,
    ("report", "out"): NEW_FOLDER,
    ("plot all", "out"): NEW_FOLDER,
    ("compare", "reach"): {
        "-1",
        "0",
        "1.5",
        "1e-320",
        "1e30",
        "1e308",
        "-1e308",
        *MANY,
    },  # any finite value of a metric
    ("tune", "runs"): MANY,
    ("tune", "store"): NEW_FOLDER,
    ("data get", "folder"): {".", "directory"},
}
"""The values that are right, odd as they are: with these a status of 0 is allowed. All others must be refused."""


class Worker:
    """The process that tries cases, started again after one that had to be killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options, self._count = folder, options, 0
        self._process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        with (place / "stderr").open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, str(TESTS / "cli_fuzzing.py"), str(place), *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", (place / "stderr").read_text()
        return process

    def tried(self, case: Case) -> dict[str, Any]:
        """What became of a case."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case.words) + "\n")
        self._process.stdin.flush()
        there, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        if there and (line := self._process.stdout.readline()):
            found: dict[str, Any] = json.loads(line)
            return found
        self.close()
        self._process = self._started()
        return {"status": -1, "fault": "it hung or ended its process", "said": "", "left": [], "seconds": PATIENCE}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def worker(folder: Path, *options: str) -> Iterator[Worker]:
    made = Worker(folder, *options)
    try:
        yield made
    finally:
        made.close()


def is_answered(case: Case, found: dict[str, Any]) -> bool:
    """Whether a case was taken for right. `tune` ends with 3 where its budget is used up, and keeps what it trained."""
    return found["status"] == 0 or (case.command == "tune" and found["status"] == 3)


def complaints(case: Case, found: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the answer to a case."""
    what = f"memgrad {' '.join(word[:60] for word in case.words)!r}"
    if found["fault"]:
        yield f"{what}: {found['fault']}"
        return
    fine = FINE.get((case.command, case.parameter), FINE.get(("*", case.parameter), ()))
    answered = is_answered(case, found)
    if answered and case.value not in fine:
        yield f"{what}: accepted {case.value[:60]!r} for {case.parameter}"
    if not answered and found["left"]:
        yield f"{what}: failed and left {found['left'][:5]}"
    if "Traceback" in found["said"]:
        yield f"{what}: {found['said']}"


def all_complaints(cases: Sequence[Case], folder: Path) -> list[str]:
    with worker(folder) as trying:
        return [each for case in cases for each in complaints(case, trying.tried(case))]


@pytest.mark.slow
def test_good_words_are_accepted(tmp_path: Path) -> None:
    """Otherwise each bad word would be refused for the sake of another one."""
    # There is no data set in the cache, no complete reproduction in the store, and a budget of one run is refused.
    missing = {"data path", "report", "tune"}
    with worker(tmp_path) as trying:
        for name, command in all_commands().items():
            words = call(name, command, GOOD.get(name, {}))
            if name not in missing | {"data verify", "export"}:
                found = trying.tried(Case(name, "", "", words))
                assert (found["status"], found["fault"]) == (0, ""), (words, found)


def test_every_parameter_of_every_command_refuses_bad_values(tmp_path: Path) -> None:
    cases = sampled(single_cases(), each=3, seed=0)
    assert {case.command for case in cases} == all_commands().keys()
    assert all_complaints(cases, tmp_path) == []


@pytest.mark.slow
def test_the_fuzz_finds_faults(tmp_path: Path) -> None:
    """Commands that are broken in each of the ways it looks for are found, and the next case is tried."""
    with worker(tmp_path, "--broken") as trying:
        found = {
            name: [*complaints(case, trying.tried(case))]
            for name in BROKEN
            for case in [Case(name, "parameter", "x", (name,))]
        }
    expected = {
        "raises": "RuntimeError: a fault",
        "hangs": f"no answer within {SECONDS:g} s",
        "exits": "it hung or ended its process",
        "litters": "failed and left ['litter']",
        "accepts": "accepted 'x' for parameter",
    }
    assert found.keys() == expected.keys()
    for name, (complaint,) in found.items():
        assert expected[name] in complaint


@pytest.mark.slow
def test_all_bad_values_one_at_a_time(tmp_path: Path) -> None:
    assert all_complaints(single_cases(), tmp_path) == []


@pytest.mark.slow
def test_bad_values_in_pairs(tmp_path: Path) -> None:
    """Which of two may be right is not asked, only that there is an answer without a traceback that leaves nothing."""
    with worker(tmp_path) as trying:
        found = [(case, trying.tried(case)) for case in pair_cases(3000, seed=0)]
    assert [(case.words, each["fault"]) for case, each in found if each["fault"]] == []
    assert [(case.words, each["left"]) for case, each in found if not is_answered(case, each) and each["left"]] == []
