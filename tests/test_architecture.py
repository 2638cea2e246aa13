"""The tree is the concept map: arrows point one way, and names say what they hold."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "memgrad"

# What every part may import: it knows nothing of ours, and loads numpy at most.
EVERYWHERE = {"suggestions", "amounts", "kinds"}
# part -> the parts of ours that it may import, beside those. What is not listed here may not exist.
ARROWS: dict[str, set[str]] = {
    "suggestions": set(),
    "amounts": set(),
    "kinds": set(),
    "memory": {"deprecation"},
    "extras": set(),
    "files": set(),
    "deprecation": set(),
    "statistics": {"deprecation"},
    "user_code": set(),
    "method": {"memory"},
    "optim": {"memory", "method", "extras"},
    "transforms": {"memory", "method", "deprecation", "extras"},
    "dynamics": {"memory", "method", "statistics", "extras"},
    "theory": {"memory", "method", "dynamics", "deprecation", "extras"},
    "problems": {"deprecation", "extras", "files", "user_code"},
    "tables": {"files", "extras"},
    "experiments": {"memory", "method", "optim", "dynamics", "problems", "statistics", "tables", "extras", "files"}
    | {"deprecation", "user_code", "__init__"},
    "figures": {"memory", "dynamics", "theory", "problems", "experiments", "statistics", "deprecation", "extras"}
    | {"files"},
    "paper": {"memory", "optim", "dynamics", "theory", "problems", "experiments", "statistics", "tables", "figures"}
    | {"deprecation", "extras", "files"},
    "explorer": {"memory"},
    "report": {"paper", "experiments", "statistics", "files", "extras"},
    "__init__": {"memory", "optim", "deprecation"},
    "cli": {"memory", "dynamics", "theory", "problems", "experiments", "statistics", "tables", "figures", "paper"}
    | {"report", "explorer", "extras", "files", "__init__"},
    "__main__": {"cli", "extras"},
}
# part -> the packages it may import when it is loaded, beside the standard library.
LOADED_PACKAGES: dict[str, set[str]] = {
    "suggestions": set(),
    "amounts": set(),
    "kinds": {"numpy"},
    "memory": {"numpy"},
    "extras": set(),
    "files": set(),
    "deprecation": set(),
    "statistics": {"numpy"},
    "method": {"numpy"},
    "user_code": set(),
    "optim": {"numpy", "torch"},
    "transforms": {"jax", "optax"},
    "dynamics": {"numpy", "scipy"},
    "theory": {"numpy", "scipy"},
    "problems": {"numpy", "torch"},
    "tables": {"numpy"},
    "experiments": {"numpy", "torch", "pydantic"},
    "figures": {"numpy", "matplotlib"},
    "paper": {"numpy", "matplotlib"},
    "explorer": set(),
    "report": {"jinja2"},
    "cli": {"typer", "rich"},
    "__init__": set(),
    "__main__": set(),
}
SAYS_NOTHING = {"util", "utils", "misc", "common", "helper", "helpers"}


def part_of(path: Path, package: Path) -> str:
    inside = path.relative_to(package)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def imported_modules(tree: ast.AST) -> list[str]:
    """Every module imported anywhere in a file, also inside functions."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names] if node.level == 0 else ["<relative>"]
    return names


def imported_when_loaded(tree: ast.Module) -> list[str]:
    typing_only = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    body = [node for node in tree.body if node not in typing_only]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    top = [node for node in body if not isinstance(node, functions) and not isinstance(node, ast.ClassDef)]
    return imported_modules(ast.Module(body=top, type_ignores=[]))


def violations(package: Path) -> list[str]:
    """All forbidden imports of a package laid out as ours, as readable lines."""
    found = []
    for path in sorted(package.rglob("*.py")):
        part, name = part_of(path, package), path.relative_to(package).as_posix()
        if part not in ARROWS:
            found.append(f"{name}: the part {part!r} has no arrows in ARROWS")
            continue
        tree = ast.parse(path.read_text())
        for module in imported_modules(tree):
            if module == "<relative>":
                found.append(f"{name}: relative import")
                continue
            root, _, rest = module.partition(".")
            if root == "memgrad":
                target = rest.split(".")[0]
                target = target if target in ARROWS else "__init__"
                if target != part and target not in ARROWS[part] | EVERYWHERE:
                    found.append(f"{name}: {part} must not import {target}")
        for module in imported_when_loaded(tree):
            root = module.split(".")[0]
            if root not in LOADED_PACKAGES[part] | {"memgrad", "__future__"} and root not in sys.stdlib_module_names:
                found.append(f"{name}: {part} must not load {root}")
    return found


def test_arrows_point_one_way() -> None:
    assert violations(PACKAGE) == []


def test_the_arrows_have_no_cycle() -> None:
    assert not any(ARROWS[part] for part in EVERYWHERE)
    done: set[str] = set()
    while ready := {part for part, targets in ARROWS.items() if targets <= done} - done:
        done |= ready
    assert done == set(ARROWS)


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("memory/base.py", "import memgrad.cli", "memory must not import cli"),
        ("suggestions.py", "import memgrad.memory", "suggestions must not import memory"),
        ("amounts.py", "import numpy", "amounts must not load numpy"),
        ("memory/base.py", "from memgrad import figures", "memory must not import figures"),
        ("memory/base.py", "def f():\n    from memgrad.cli import app", "memory must not import cli"),
        ("memory/base.py", "from memgrad import Polynomial", "memory must not import __init__"),
        ("memory/base.py", "import torch", "memory must not load torch"),
        ("memory/base.py", "try:\n    import scipy.special\nexcept ImportError: pass", "memory must not load scipy"),
        ("memory/base.py", "from . import families", "relative import"),
        ("optim/base.py", "from memgrad import figures", "optim must not import figures"),
        ("optim/base.py", "import scipy", "optim must not load scipy"),
        ("theory/bound.py", "from memgrad import optim", "theory must not import optim"),
        ("theory/bound.py", "import torch", "theory must not load torch"),
        ("problems/datasets/cache.py", "from memgrad.memory import Memory", "problems must not import memory"),
        ("problems/datasets/cache.py", "import pooch", "problems must not load pooch"),
        ("problems/problem.py", "import scipy", "problems must not load scipy"),
        ("figures/style.py", "from memgrad import cli", "figures must not import cli"),
        ("figures/style.py", "from memgrad import paper", "figures must not import paper"),
        ("paper/claims.py", "from memgrad import cli", "paper must not import cli"),
        ("paper/claims.py", "from memgrad import report", "paper must not import report"),
        ("report/page.py", "import torch", "report must not load torch"),
        ("paper/claims.py", "import scipy", "paper must not load scipy"),
        ("explorer/__init__.py", "from memgrad import theory", "explorer must not import theory"),
        ("explorer/__init__.py", "import numpy", "explorer must not load numpy"),
        ("__init__.py", "import torch", "__init__ must not load torch"),
        ("utilities.py", "", "has no arrows"),
    ],
)
def test_a_forbidden_import_is_noticed(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    assert any(complaint in violation for violation in violations(tmp_path))


def test_a_typing_only_or_late_import_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\ndef f():\n    import torch\n"
    )
    assert violations(tmp_path) == []


def test_no_file_or_folder_has_a_name_that_says_nothing() -> None:
    paths = [path for folder in ("memgrad", "tests", "docs") for path in (ROOT / folder).rglob("*")]
    assert [path for path in paths if path.stem.lower() in SAYS_NOTHING and "_build" not in path.parts] == []


PACKAGES_WITH_ROOMS = [
    *(".", "memory", "method", "optim", "transforms", "dynamics", "theory", "explorer"),
    *("problems", "problems/datasets", "problems/objectives"),
    *("experiments", "experiments/planning", "experiments/training", "experiments/training/engines"),
    *("experiments/storing", "experiments/racing", "experiments/measuring", "paper", "paper/language", "report"),
]


@pytest.mark.parametrize("package", PACKAGES_WITH_ROOMS)
def test_a_package_says_what_each_of_its_files_holds(package: str) -> None:
    folder = PACKAGE / package
    told = set(re.findall(r"\w+", ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""))
    rooms = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert sorted(rooms - told - {"__init__"}) == []


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
