"""An import hook for memgrad: it reports the functions that a test calls, or changes one place. No file is edited.

It works in a test's subprocesses too: `environment` puts a `sitecustomize` that installs the hook on their path.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType

HERE = Path(__file__).resolve().parent
CALLS = "MEMGRAD_MUTANTS_CALLS"  # the file that calls are written to
MUTANT = "MEMGRAD_MUTANTS_MUTANT"  # "memgrad.memory.base:17": the seventeenth mutation of that module
_HIT = "__memgrad_mutants_hit__"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The variables of a process, and of its subprocesses, that has the hook with these settings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(HERE)!r})\nimport loading\nloading.install()\n"
    )
    paths = [str(folder), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | settings


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Each function with its name, as in `Polynomial.decay`."""

    def inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if isinstance(child, Function):
                    yield name, child
                yield from inside(child, f"{name}.")
            else:
                yield from inside(child, prefix)

    yield from inside(tree, "")


class Calls:
    """Writes each function once per test, as `test<tab>module<tab>function`."""

    def __init__(self, path: str) -> None:
        self.seen: set[str] = set()
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def __call__(self, function: str) -> None:
        if function not in self.seen:
            self.seen.add(function)
            os.write(self.file, f"{os.environ.get('PYTEST_CURRENT_TEST', '')}\t{function}\n".encode())

    def watched(self, tree: ast.Module, module: str) -> ast.Module:
        """The module, each of whose functions first reports that it was called."""
        for name, function in functions(tree):
            report = f"{module}\t{name}"
            call = ast.parse(f"{_HIT}({report!r})").body[0]
            for node in ast.walk(call):
                ast.copy_location(node, function.body[0])
            function.body.insert(1 if ast.get_docstring(function) is not None else 0, call)
        return ast.fix_missing_locations(tree)


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles from the source, whatever is cached, and caches nothing."""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_data(self.path), self.path)
        hit = getattr(builtins, _HIT, None)
        if hit is not None:
            tree = hit.watched(tree, fullname)
        module, _, index = os.environ.get(MUTANT, "").partition(":")
        if module == fullname:
            from mutations import mutants

            mutants(tree)[int(index)].apply()
            ast.fix_missing_locations(tree)
        return compile(tree, self.path, "exec", dont_inherit=True)


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != "memgrad":
            return None
        if CALLS not in os.environ and name != os.environ.get(MUTANT, "").partition(":")[0]:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return spec
        loader = _Loader(name, spec.loader.path)
        return importlib.util.spec_from_file_location(
            name, spec.loader.path, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )


def install() -> None:
    """Install the hook, where one of the two variables is set."""
    if CALLS in os.environ:
        setattr(builtins, _HIT, Calls(os.environ[CALLS]))
    if CALLS in os.environ or MUTANT in os.environ:
        sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]  # a finder is anything with find_spec
