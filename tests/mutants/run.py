"""Mutation testing: change one place of the library, run the tests that call it, and expect one to fail.

    python tests/mutants/run.py --package memory --package theory --sample 25 --seed 0

First, once, the whole suite runs (in a random order) to see which tests call which functions; later, only files that
have changed. Then each mutant of the sample runs the tests of its function, each test's first variants first, cheap
files first, until `--budget` seconds are spent: a mutant that survives survived these. Results are kept in `.mutants/`;
a run that is stopped goes on there.

Why our own: mutmut leaves out decorated functions, dataclasses and module tables, which is most of this library;
cosmic-ray edits the files in place and runs one command, the whole suite, per mutant.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import random
import resource
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import loading
import pytest
from covering import ROOT, Coverage, coverage, file_of
from mutations import Mutant, mutants

PACKAGES = ("memory", "optim", "dynamics", "theory", "experiments", "statistics", "paper", "problems")
# Loaded once, before the fork of each mutant. Not jax, whose threads do not survive a fork, nor plugins.
HEAVY = (
    "hypothesis.internal.conjecture.engine",
    "mpmath",
    "pyarrow.parquet",
    "pydantic",
    "rich.table",
    "scipy.integrate",
)
HEAVY += ("scipy.optimize", "scipy.special", "scipy.stats", "torch", "typer.testing")
# Most mutants are killed at once, by the files that call them most; those that are not meet all the others.
FIRST: dict[str, Any] = {"budget": 8.0, "files": 3}
BROKEN = 70  # the code of a process that failed before or after pytest
SURVIVED, KILLED, TIMED_OUT, EQUIVALENT = "survived", "killed", "timed out", "equivalent"


# --- which mutants ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A mutant by number, with all that names it."""

    package: str
    path: Path
    index: int

    @property
    def module(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def mutant(self) -> Mutant:
        return mutants(ast.parse(_source(self.path)))[self.index]

    @property
    def key(self) -> str:
        return f"{self.module}:{self.index}:{hashlib.sha256(_source(self.path).encode()).hexdigest()[:12]}"


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sample(package: str, count: int, seed: int) -> list[Place]:
    """Mutants of a package, drawn without replacement; a larger sample contains the smaller."""
    folder = ROOT / "memgrad" / package
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    places = [Place(package, path, i) for path in paths for i in range(len(mutants(ast.parse(_source(path)))))]
    return random.Random(f"{package} {seed}").sample(places, len(places))[:count]


@cache
def equivalents() -> dict[tuple[str, str, str], str]:
    """Mutants that no test can tell from the library, by module and change, with the reason."""
    listed = tomllib.loads((loading.HERE / "equivalent.toml").read_text(encoding="utf-8"))
    return {(row["module"], row["before"], row["after"]): row["reason"] for row in listed["mutant"]}


# --- a mutant's life --------------------------------------------------------------------------------------------------


class Selection:
    """A pytest plugin: these tests in this order, and the name of the one that failed."""

    def __init__(self, tests: list[str], log: Path) -> None:
        self.rank = {test: i for i, test in enumerate(tests)}
        self.log = log

    def pytest_configure(self) -> None:
        loading.install()  # before pytest's own hook, which would load the modules whose doctests are asked for

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.rank), key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.log.with_suffix(".failed").write_text(report.nodeid)


def start(tests: list[str], log: Path, environment: dict[str, str], cpu: int) -> int:
    """Fork a process that runs the tests in `cpu` seconds of its own; its code is pytest's. Returns its id."""
    log.with_suffix(".failed").unlink(missing_ok=True)
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1), os.dup2(file, 2)
        os.environ.clear(), os.environ.update(environment)
        os.chdir(ROOT)
        sys.path[:0] = [str(ROOT)]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
        files = list(dict.fromkeys(map(file_of, tests)))
        # What was imported before the fork is no longer rewritten, nor need it be.
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = pytest.main([*options, *files], plugins=[Selection(tests, log)])
    except BaseException:
        traceback.print_exc()
        code = BROKEN
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)


def finished(running: dict[int, float]) -> Iterator[tuple[int, int | None]]:
    """Processes that have ended, with their codes; None for one that was killed at its deadline."""
    for pid, deadline in list(running.items()):
        done, status = os.waitpid(pid, os.WNOHANG)
        late = time.monotonic() > deadline
        if done or late:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # and what its tests left running
            if not done:
                os.waitpid(pid, 0)
            del running[pid]
            yield pid, os.waitstatus_to_exitcode(status) if done else None


class Trial:
    """Runs mutants, several at once, and writes what became of each."""

    def __init__(self, folder: Path, tests: Coverage, budget: float) -> None:
        self.folder, self.tests, self.budget = folder, tests, budget
        self.trusted: set[str] = set()
        self.results = folder / "results.jsonl"
        rows = self.results.read_text().splitlines() if self.results.exists() else []
        self.known = {row["key"]: row for row in map(json.loads, rows)}

    def run(self, places: list[Place], jobs: int) -> None:
        second: dict[str, Any] = {"budget": self.budget - FIRST["budget"], "files": 1000}
        waiting = [(place, FIRST) for place in places if place.key not in self.known]
        total, began = len(waiting), time.monotonic()
        running: dict[int, float] = {}
        of: dict[int, tuple[Place, dict[str, Any], list[str], Path]] = {}
        done = 0
        while waiting or running:
            while waiting and len(running) < jobs:
                place, extent = waiting.pop(0)
                listed = (place.module, *place.mutant().difference()) in equivalents()
                tests = self.tests.order(place.module, place.mutant().function, **extent)
                if listed or not tests:
                    done += 1
                    self.write(place, EQUIVALENT if listed else SURVIVED, "no further test calls it", tests)
                    continue
                log = self.folder / "logs" / f"{place.module}.{place.index}.txt"
                settings = {loading.MUTANT: f"{place.module}:{place.index}"}
                # A loop without end uses up its processor time. Waiting proves nothing: the machine may be busy.
                cpu = 60 + int(6 * sum(self.tests.seconds[test] for test in tests))
                pid = start(tests, log, loading.environment(self.folder / "path", **settings), cpu)
                running[pid] = time.monotonic() + 10 * cpu
                of[pid] = place, extent, tests, log
            for pid, code in finished(running):
                place, extent, tests, log = of.pop(pid)
                failed = log.with_suffix(".failed")
                by = failed.read_text() if failed.exists() else ""
                if code == 1 and by and not self.passes_alone(by):
                    self.tests.seconds.pop(by, None)
                    waiting.insert(0, (place, extent))
                    continue
                if code in (0, 5) and extent is FIRST:
                    # At once, and not at the end: a run that is stopped must not have met the easy ones alone.
                    waiting.insert(0, (place, second | {"without": frozenset(tests)}))
                    continue
                if code == BROKEN:
                    sys.exit(f"The tests of {place.module}:{place.index} could not be run: see {log}.")
                done += 1
                outcome = SURVIVED if code in (0, 5) else TIMED_OUT if code is None else KILLED
                row = self.write(place, outcome, by or f"pytest's code {code}", tests)
                left = (time.monotonic() - began) / done * (total - done) / 60
                print(f"[{done}/{total}, {left:.0f} min left] {_said(row)}", flush=True)
            time.sleep(0.05)

    def passes_alone(self, test: str) -> bool:
        """Whether a test that failed passes without a mutant, once per file: a fork may be what it cannot bear."""
        if file_of(test) not in self.trusted:
            cpu = 60 + int(6 * self.tests.seconds[test])
            pid = start([test], self.folder / "alone.txt", loading.environment(self.folder / "path"), cpu)
            running = {pid: float("inf")}
            while running:
                for _, code in finished(running):
                    if code != 0:
                        return False
                time.sleep(0.02)
            self.trusted.add(file_of(test))
        return True

    def write(self, place: Place, outcome: str, by: str, tests: list[str]) -> dict[str, Any]:
        mutant = place.mutant()
        before, after = mutant.difference()
        where = f"{place.path.relative_to(ROOT)}:{mutant.line}"
        row = {"key": place.key, "package": place.package, "outcome": outcome, "by": by, "tests": len(tests)}
        row |= {"where": where, "function": mutant.function, "kind": mutant.kind, "before": before, "after": after}
        self.known[place.key] = row
        if outcome != EQUIVALENT:
            with self.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return row


def _said(row: dict[str, Any]) -> str:
    text = f"{row['outcome']:9s} {row['where']} ({row['kind']}), {row['tests']} tests: {row['by']}"
    return text if row["outcome"] == KILLED else f"{text}\n    - {row['before']}\n    + {row['after']}"


def report(rows: list[dict[str, Any]]) -> str:
    """A table of the shares, then what was not killed. What timed out counts as such: it must be looked at."""
    lines = [
        "| package | mutants | equivalent | killed | survived | timed out | killed |",
        "|---|---|---|---|---|---|---|",
    ]
    for package in [*dict.fromkeys(row["package"] for row in rows), "all"]:
        count = Counter(row["outcome"] for row in rows if package in (row["package"], "all"))
        tried = len([row for row in rows if package in (row["package"], "all")]) - count[EQUIVALENT]
        share = f"{100 * count[KILLED] / tried:.0f} %" if tried else ""
        numbers = tried, count[EQUIVALENT], count[KILLED], count[SURVIVED], count[TIMED_OUT], share
        lines.append(f"| {package} | {' | '.join(map(str, numbers))} |")
    return "\n".join([*lines, "", *(_said(row) for row in rows if row["outcome"] in (SURVIVED, TIMED_OUT))])


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation testing of memgrad.")
    parser.add_argument("--package", action="append", choices=PACKAGES, help="may be repeated [default: all]")
    parser.add_argument("--sample", type=int, default=30, help="mutants per package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=40.0, help="seconds of tests per mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants")
    parser.add_argument("--leave-out", action="append", default=[], help="tests whose path starts so; may be repeated")
    parser.add_argument("--variants", type=float, default=float("inf"), help="of a test, at most [default: all]")
    options = parser.parse_args()
    folder = options.folder.resolve()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    trial = Trial(folder, coverage(folder, options.jobs, options.leave_out, options.variants), options.budget)
    for name in HEAVY:
        importlib.import_module(name)
    samples = [sample(name, options.sample, options.seed) for name in options.package or PACKAGES]
    # A package's first, the next package's first, and so on: a run that is stopped has seen some of each.
    trial.run([place for turn in itertools.zip_longest(*samples) for place in turn if place], options.jobs)
    print(report([trial.known[place.key] for places in samples for place in places]))


if __name__ == "__main__":
    main()
