"""Modules that moved: their names can still be imported from the old place, with a warning that gives the new one."""

from __future__ import annotations

import importlib

import pytest

MOVED = {
    "memgrad.durations": ("memgrad.amounts", "duration"),
    "memgrad.figures.methods": ("memgrad.figures.method_styles", "styles"),
    "memgrad.problems.models": ("memgrad.problems.metrics", "accuracy"),
    "memgrad.theory.bounds": ("memgrad.theory.bound", "assume"),
}


@pytest.mark.parametrize(("old", "new", "name"), [(old, new, name) for old, (new, name) in MOVED.items()])
def test_an_old_module_gives_the_same_thing_and_names_the_new_one(old: str, new: str, name: str) -> None:
    importlib.import_module(old.rpartition(".")[0])
    with pytest.warns(DeprecationWarning, match=rf"^{old}\.{name} is deprecated; use {new}\.{name}\.$"):
        found = getattr(importlib.import_module(old), name)
    assert found is getattr(importlib.import_module(new), name)
    if old != "memgrad.theory.bounds":  # whose name is that of a function
        owner, _, last = old.rpartition(".")
        assert getattr(importlib.import_module(owner), last) is importlib.import_module(old)  # `import a.b`, then a.b


def test_the_list_of_bounds_is_still_a_function() -> None:
    theory = importlib.import_module("memgrad.theory")
    assert "memsgd" in theory.bounds()
