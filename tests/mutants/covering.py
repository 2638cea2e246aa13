"""Which tests call which functions, seen by running the suite once in a random order, and changed files again."""

from __future__ import annotations

import hashlib
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

    def order(
        self, module: str, function: str, budget: float, files: int, without: frozenset[str] = frozenset()
    ) -> list[str]:
        """Tests worth `budget` seconds, of this many files at most: first those that call the function, then those of
        files that use the module; none of those `without`, which were tried before.
        """
        near = {key for key in self.calls if key.startswith(f"{module}\t") and self._holds(key, module, function)}
        direct = set().union(*(self.calls[key] for key in near))
        chosen: list[str] = []
        for group in (direct - without, self.around.get(module, set()) - direct - without):
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


def test_files(left_out: list[str]) -> dict[str, str]:
    """The files that hold tests or doctests, with the digest of each, without those whose paths start as `left_out`."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "tests", "memgrad", "docs", "README.md"]
    found = {}
    for name in subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        path = ROOT / name
        if name.startswith((*left_out, "tests/mutants", "docs/conf.py", "docs/extensions")) or not path.is_file():
            continue
        if path.name.startswith("test_") or path.suffix in (".py", ".md"):
            text = path.read_text(encoding="utf-8")
            if path.name.startswith("test_") or ">>>" in text:
                found[name] = hashlib.sha256(text.encode()).hexdigest()
    return found


def record(folder: Path, jobs: int, files: set[str], variants: float) -> None:
    """Run the tests of these files once, in a random order, and write what is called and what it costs."""
    for name, test in (("calls.tsv", lambda line: line), ("costs.jsonl", lambda line: json.loads(line)["test"])):
        lines = (folder / name).read_text().splitlines(keepends=True) if (folder / name).exists() else []
        kept = [line for line in lines if file_of(test(line)).partition(" (")[0] not in files]
        (folder / name).write_text("".join(kept))
    settings = {loading.CALLS: str(folder / "calls.tsv"), "MEMGRAD_MUTANTS_COSTS": str(folder / "costs.jsonl")}
    settings |= {"MEMGRAD_MUTANTS_SEED": "0", "MEMGRAD_MUTANTS_VARIANTS": str(variants)}
    environment = loading.environment(folder / "path", **settings)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "recording", "-n", str(jobs), *sorted(files)]
    code = subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode
    if code not in (0, 1, 5):  # 1: some tests fail, those of torch.compile which the recording of calls disturbs
        sys.exit(f"The suite ended with code {code}: no map of the tests.")


def coverage(folder: Path, jobs: int, left_out: list[str], variants: float) -> Coverage:
    """What earlier runs of the suite wrote, and a new one for the files that have changed since."""
    recorded, files = folder / "recorded.json", test_files(left_out)
    known = json.loads(recorded.read_text()) if recorded.exists() else {}
    changed = {name for name, digest in files.items() if known.get(name) != digest}
    if changed:
        print(f"Running the tests of {len(changed)} files once, to see which call which functions.", flush=True)
        record(folder, jobs, changed, variants)
        recorded.write_text(json.dumps(known | files))
    rows = [json.loads(line) for line in (folder / "costs.jsonl").read_text().splitlines()]
    # The processor's time, which a busy machine does not lengthen.
    seconds = {row["test"]: row["cpu"] for row in rows if row["passed"] and file_of(row["test"]) in files}
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
