"""Which tests call which functions, seen by running the suite once in a random order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import loading

ROOT = loading.HERE.parents[1]


@dataclass(frozen=True)
class Coverage:
    """What each test costs, and which tests call a function, or any function of a module."""

    seconds: dict[str, float]
    calls: dict[str, set[str]]
    around: dict[str, set[str]]

    def order(self, module: str, function: str, budget: float, files: int) -> list[str]:
        """Tests worth `budget` seconds, of this many files at most: first those that call the function, then those of
        files that use the module.
        """
        near = {key for key in self.calls if key.startswith(f"{module}\t") and self._holds(key, module, function)}
        direct = set().union(*(self.calls[key] for key in near))
        chosen: list[str] = []
        for group in (direct, self.around.get(module, set()) - direct):
            variants: Counter[str] = Counter()
            ranked = []
            for test in sorted(group & self.seconds.keys(), key=lambda test: (self.seconds[test], test)):
                variants[test.partition("[")[0]] += 1
                ranked.append((variants[test.partition("[")[0]], self.seconds[test], test))
            within = self._about(group, files)
            for _, seconds, test in sorted(ranked):
                budget -= (seconds + 0.01) * (file_of(test) in within)
                if file_of(test) in within and (budget > 0 or not chosen):
                    chosen.append(test)
        return self._by_file(chosen)

    def _about(self, tests: set[str], count: int) -> set[str]:
        """The files that are most about these tests: many of the file's tests, and a large share."""
        often, size = Counter(map(file_of, tests)), Counter(map(file_of, self.seconds))
        return set(sorted(often, key=lambda file: (-(often[file] ** 2) / max(size[file], 1), file))[:count])

    @staticmethod
    def _holds(key: str, module: str, function: str) -> bool:
        """A mutant in a class's body is that of all its functions."""
        name = key.removeprefix(f"{module}\t")
        return bool(function) and (
            name == function or name.startswith(f"{function}.") or function.startswith(f"{name}.")
        )

    def _by_file(self, tests: list[str]) -> list[str]:
        """Cheap files first, and each file once, so that what its tests share is made once."""
        cost: dict[str, float] = defaultdict(float)
        for test in tests:
            cost[file_of(test)] += self.seconds[test]
        return sorted(tests, key=lambda test: (cost[file_of(test)], file_of(test), self.seconds[test]))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def record(folder: Path, jobs: int) -> None:
    """Run the suite once, in a random order, and write what is called and what it costs."""
    for name in ("calls.tsv", "costs.jsonl"):
        (folder / name).unlink(missing_ok=True)
    settings = {loading.CALLS: str(folder / "calls.tsv"), "MEMGRAD_MUTANTS_COSTS": str(folder / "costs.jsonl")}
    environment = loading.environment(folder / "path", **settings, MEMGRAD_MUTANTS_SEED="0")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "recording", "-n", str(jobs)]
    code = subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode
    if code not in (0, 1):  # 1: some tests fail, those of torch.compile which the recording of calls disturbs
        sys.exit(f"The suite ended with code {code}: no map of the tests.")
    (folder / "complete").touch()


def coverage(folder: Path, jobs: int) -> Coverage:
    """What an earlier run of the suite wrote, or a new one."""
    if not (folder / "complete").exists():
        print("Running the whole suite once, to see which tests call which functions.", flush=True)
        record(folder, jobs)
    rows = [json.loads(line) for line in (folder / "costs.jsonl").read_text().splitlines()]
    seconds = {row["test"]: row["seconds"] for row in rows if row["passed"]}
    of_file: dict[str, set[str]] = defaultdict(set)
    for test in seconds:
        of_file[file_of(test)].add(test)
    calls: dict[str, set[str]] = defaultdict(set)
    shared: dict[str, set[str]] = defaultdict(set)
    users: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "calls.tsv").read_text().splitlines():
        context, _, key = line.partition("\t")
        test, _, phase = context.rpartition(" ")
        users[key.partition("\t")[0]].add(file_of(test))
        # What a fixture or a table of a file calls belongs to all its tests: a shared fixture is made for one of them.
        (calls if phase == "(call)" else shared)[key].add(test if phase == "(call)" else file_of(test))
    for key, paths in shared.items():
        calls[key] |= {test for path in paths for test in of_file.get(path, ())}
    around = {module: {test for path in paths for test in of_file.get(path, ())} for module, paths in users.items()}
    return Coverage(seconds, calls, around)
