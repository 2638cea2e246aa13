"""The mutation tool: what it changes, what it leaves alone, and that it changes no file."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent / "mutants"
ROOT = FOLDER.parents[1]


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"mutants_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # which dataclasses ask for
    spec.loader.exec_module(made)
    return made


mutations = module("mutations")
loading = module("loading")


def changes(source: str) -> list[str]:
    """Each mutant's changed line."""
    count = len(mutations.mutants(ast.parse(source)))
    return [mutations.mutants(ast.parse(source))[i].difference()[1] for i in range(count)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["x = a <= b", "x = a > b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a + b", ["x = a - b"]),
        ("x **= y", ["x *= y"]),
        ("x = -a", ["x = +a"]),
        ("x = 2", ["x = 3"]),
        ("x = 1e300", ["x = 2e+300"]),
        ("x = True", ["x = False"]),
        ("x = a and b", ["x = a or b"]),
        ("x = a if b else c", ["x = a if not b else c"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not a]"]),
        ("x = round(a)", ["x = int(a)"]),
        ("x = np.minimum(a, b)", ["x = np.maximum(a, b)"]),
        ("x = sorted(a, key=b)", ["x = list(a, key=b)", "x = sorted(a)"]),
        ("def f():\n    return a", ["return None"]),
        ("a.append(b)", ["None"]),
        ("raise ValueError(f'{1 + 2}')", ["None"]),
    ],
)
def test_a_mutant_is_a_small_mistake(source: str, expected: list[str]) -> None:
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: int | None, y: Literal[2] = a) -> Literal[3]:\n    ...",
        "@dataclass(frozen=True)\nclass A(B):\n    ...",
        "x = f'{a + 1}'",
        "x = zip(a, b, strict=True)",
        "if TYPE_CHECKING:\n    x = 1",
        "from a import b",
        '__all__ = ["a"]',
        '"""Text."""',
    ],
)
def test_types_decorators_and_words_are_left_alone(source: str) -> None:
    assert not changes(source)


def test_every_mutant_of_a_module_differs_and_compiles() -> None:
    source = (ROOT / "memgrad" / "dynamics" / "exponents.py").read_text(encoding="utf-8")
    original = ast.unparse(ast.parse(source))
    count = len(mutations.mutants(ast.parse(source)))
    assert count > 50
    for i in range(count):
        tree = ast.parse(source)
        mutations.mutants(tree)[i].apply()
        compile(ast.fix_missing_locations(tree), "mutant", "exec")
        assert ast.unparse(tree) != original


def test_what_is_listed_as_changing_nothing_is_still_there() -> None:
    listed = tomllib.loads((FOLDER / "equivalent.toml").read_text(encoding="utf-8"))["mutant"]
    for row in listed:
        source = (ROOT / row["module"].replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")
        there = mutations.mutants(ast.parse(source))
        places = [i for i, each in enumerate(there) if row["before"] in ast.unparse(each.statement)]
        found = [mutations.mutants(ast.parse(source))[i].difference() for i in places]
        assert (row["before"], row["after"]) in found, row


PROGRAM = "from memgrad.memory import Polynomial; print(Polynomial(1.0).decay(1))"


def printed(folder: Path, **settings: str) -> str:
    """What a process with the hook prints; that its path says, so that it holds for subprocesses too."""
    environment = loading.environment(folder, **settings)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_process_sees_the_mutant_and_the_file_is_as_it_was(tmp_path: Path) -> None:
    path = ROOT / "memgrad" / "memory" / "families.py"
    source = path.read_bytes()
    found = mutations.mutants(ast.parse(source))
    [number, *_] = [
        i for i, each in enumerate(found) if (each.function, each.kind) == ("Polynomial._decay", "arithmetic")
    ]
    assert printed(tmp_path) == "0.5"  # k/(k + 1)
    assert printed(tmp_path, **{loading.MUTANT: f"memgrad.memory.families:{number}"}) != "0.5"
    assert path.read_bytes() == source


def test_calls_are_written_once_with_the_test_that_made_them(tmp_path: Path) -> None:
    calls = tmp_path / "calls.tsv"
    printed(tmp_path, **{loading.CALLS: str(calls), "PYTEST_CURRENT_TEST": "test_x (call)"})
    lines = calls.read_text().splitlines()
    assert lines.count("test_x (call)\tmemgrad.memory.families\tPolynomial._decay") == 1
    assert "test_x (call)\tmemgrad.memory.families\tExponential._decay" not in lines


TRIAL = """
import json, sys
from pathlib import Path
from run import ROOT, Coverage, Place, Trial, mutants, _source, ast
folder, test = Path(sys.argv[1]), "memgrad/statistics.py::memgrad.statistics.holm"
path = ROOT / "memgrad" / "statistics.py"
found = mutants(ast.parse(_source(path)))
chosen = [i for i, each in enumerate(found) if (each.function, each.kind) == ("holm", "return")]
for calls in ({"memgrad.statistics\\tholm": {test}}, {}):
    trial = Trial(folder, Coverage({test: 0.1}, calls, {}), budget=1.0)
    trial.run([Place("statistics", path, i) for i in chosen], jobs=1)
    print("tried")
"""


def test_a_mutant_is_tried_once_and_killed_by_the_test_that_fails(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}
    words = [sys.executable, "-c", TRIAL, str(tmp_path)]
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [(row["outcome"], row["by"]) for row in rows] == [
        ("killed", "memgrad/statistics.py::memgrad.statistics.holm")
    ]
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["[1/1,", "tried", "tried"]
