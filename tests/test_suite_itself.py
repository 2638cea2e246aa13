"""Every test can fail: it asserts something, also when root runs it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from fast_cases import few, surplus

HERE = Path(__file__).parent
# What fails a test by itself: pytest's own, numpy's and torch's `testing`, mocks, and programs that must end well.
CHECKS = ("assert_", "raises", "warns", "fail", "check_call", "check_output", "doctest")
RIGHTS = ("geteuid", "getuid", "getegid")

Functions = dict[str, ast.FunctionDef]


def functions_of(tree: ast.Module) -> Functions:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def beside(module: str) -> Functions:
    """The functions of a module of this folder, and those that it takes from others."""
    path = HERE / f"{module}.py"
    if not path.exists():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return imported_from_beside(tree) | functions_of(tree)


def imported_from_beside(tree: ast.Module) -> Functions:
    found: Functions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name: alias.asname or alias.name for alias in node.names}
            found |= {names.get(name, name): function for name, function in beside(node.module).items()}
    return found


def asserts(node: ast.AST, helpers: Functions, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function asserts, itself or through a function that it names."""
    names = set()
    for part in ast.walk(node):
        match part:
            case ast.Assert():
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.startswith(CHECKS):
                return True
            case ast.keyword(arg="check", value=ast.Constant(value=True)):
                return True
            case ast.Name(id=name) if name in helpers:
                names.add(name)
    return any(asserts(helpers[name], helpers, seen | names) for name in names - seen)


def named_tests(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (function for name, function in functions_of(tree).items() if name.startswith("test_"))


def without_an_assertion(source: str) -> list[str]:
    tree = ast.parse(source)
    helpers = imported_from_beside(tree) | functions_of(tree)
    return [test.name for test in named_tests(tree) if not asserts(test, helpers)]


def skipped_for_rights(source: str) -> list[str]:
    """Tests whose marks, or whose conditions before a skip, ask who runs them."""
    found: list[str] = []
    if not any(name in source for name in RIGHTS):
        return found
    for test in named_tests(ast.parse(source)):
        before_skips = [node.test for node in ast.walk(test) if isinstance(node, ast.If) and "skip" in ast.dump(node)]
        parts = [part for condition in (*test.decorator_list, *before_skips) for part in ast.walk(condition)]
        called = [part.func for part in parts if isinstance(part, ast.Call)]
        if any(isinstance(function, ast.Attribute) and function.attr in RIGHTS for function in called):
            found.append(test.name)
    return found


def offenders(find: Callable[[str], list[str]]) -> dict[str, list[str]]:
    found = {path.name: find(path.read_text(encoding="utf-8")) for path in HERE.rglob("test_*.py")}
    return {name: tests for name, tests in found.items() if tests}


def test_every_test_asserts_something() -> None:
    assert offenders(without_an_assertion) == {}


def test_no_test_is_skipped_because_of_who_runs_it() -> None:
    """In containers tests run as root: what needs fewer rights gives them up for the while (`rights.locked`)."""
    assert offenders(skipped_for_rights) == {}


def test_a_test_that_cannot_fail_is_found() -> None:
    source = """
def helper(x): assert x
def through(x): return helper(x)
def idle(x): return x
def test_empty(): idle(1)
def test_named_only(): raises = 1
def test_helped(): through(1)
def test_given(): list(map(helper, [1]))
def test_raises():
    with pytest.raises(ValueError): idle(1)
def test_program(): subprocess.run(["true"], check=True)
def test_arrays(): np.testing.assert_allclose(1, 1)
"""
    assert without_an_assertion(source) == ["test_empty", "test_named_only"]


def test_a_skip_for_rights_is_found() -> None:
    source = """
@pytest.mark.skipif(os.geteuid() == 0, reason="root")
def test_marked(): assert 1
@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows")
def test_posix(): assert 1
def test_inside():
    if os.getuid() == 0: pytest.skip("root")
    assert 1
"""
    assert skipped_for_rights(source) == ["test_marked", "test_inside"]


def test_of_many_cases_some_are_fast_and_each_value_is_among_them() -> None:
    names = [f"test_a.py::test[{i}-{letter}]" for i in range(100) for letter in "abc"]
    others = [f"test_a.py::test_few[{i}]" for i in range(10)] + ["test_a.py::test_alone"]
    slow = surplus(dict.fromkeys(names, 30) | dict.fromkeys(others, 30))
    assert len(slow) == 270
    assert slow < {*names}
    assert {name[-2] for name in {*names} - slow} == {*"abc"}
    assert surplus(dict.fromkeys(reversed(names), 30)) == slow
    assert len(surplus(dict.fromkeys(names, 30) | dict.fromkeys(others, 4))) == 276


def test_cases_that_are_not_fast_are_slow() -> None:
    cases = few([(1, 2), (3, 4)], fast=[(3, 4)])
    assert [(case.values, [mark.name for mark in case.marks]) for case in cases] == [((1, 2), ["slow"]), ((3, 4), [])]
    assert [case.values for case in few(["a"], fast=[])] == [("a",)]
