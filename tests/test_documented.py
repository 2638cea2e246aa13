"""Every public name has a description and its place in docs/api/; the pages name only tests that exist."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MODULES = (
    "memgrad",
    "memgrad.memory",
    "memgrad.method",
    "memgrad.optim",
    "memgrad.transforms",
    "memgrad.dynamics",
    "memgrad.theory",
    "memgrad.problems",
    "memgrad.problems.objectives",
    "memgrad.problems.datasets",
    "memgrad.experiments",
    "memgrad.figures",
    "memgrad.report",
)
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: (\S+?)(?:\(.*)?$")
# What every family has, as text for the command line; it is described once, at Memory.
SHARED = {"family", "example", "formula", "decay_formula"}
# torch describes these, and ours keep to it; the last is pydantic's, of models with a private attribute.
INHERITED_CONTRACT = {"add_param_group", "load_state_dict", "state_dict", "step", "zero_grad", "model_post_init"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A directive of the API page: what it shows, and which members."""

    kind: str
    name: str
    members: frozenset[str] | None  # None: all


def entries(page: str) -> Iterator[Entry]:
    """The autodoc directives of a page, with the members they list."""
    blocks = re.findall(r"```\{eval-rst\}\n(.*?)```", page, re.DOTALL)
    for block in blocks:
        for piece in re.split(r"\n(?=\.\. )", block):
            found = DIRECTIVE.match(piece.splitlines()[0]) if piece.strip() else None
            if found is None:
                continue
            members: frozenset[str] | None = frozenset()
            listed = re.search(r"^ +:members:(.*)$", piece, re.MULTILINE)
            if listed:
                names = frozenset(name.strip() for name in listed[1].split(",") if name.strip())
                members = names or None
            yield Entry(found[1], found[2], members)


def api_pages() -> str:
    """All pages of the API in one."""
    return "\n".join(path.read_text() for path in sorted((DOCS / "api").glob("*.md")))


def resolved(path: str) -> object:
    """The object at a dotted path. In `memgrad.theory.master` the function beats the module of that name."""
    module, _, name = path.rpartition(".")
    owner = importlib.import_module(module) if importlib.util.find_spec(module) else resolved(module)
    if not hasattr(owner, name):
        importlib.import_module(path)
    return getattr(owner, name)


def public_methods(cls: type) -> Iterator[str]:
    """The methods and properties that a class of ours defines itself, without hidden and deprecated ones."""
    for name, member in vars(cls).items():
        is_method = inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)
        is_old = (getattr(member, "__doc__", None) or "").startswith("Deprecated name of ")
        if is_method and not is_old and not name.startswith("_") and name not in SHARED | INHERITED_CONTRACT:
            yield name


def described(thing: object) -> bool:
    """Whether there is a docstring of its own that says something: dataclasses get their signature for one."""
    text = inspect.getdoc(thing) or ""
    name = getattr(thing, "__name__", "")
    return len(text.split()) >= 3 and not text.startswith(f"{name}(")


def method_described(cls: type, name: str) -> bool:
    """A method that overrides one of ours may leave the description to it."""
    return any(described(vars(base)[name]) for base in cls.__mro__ if name in vars(base) and _is_ours(base))


def _is_ours(thing: object) -> bool:
    return getattr(thing, "__module__", "").split(".")[0] in {"memgrad", "fake"}


def complaints(modules: list[ModuleType], page: str) -> list[str]:
    """What is public in these modules and missing on the page, or not described."""
    # Shown on the page: by identity, because a name may be exported from several places; values by their names too.
    listed = list(entries(page))
    shown = {id(resolved(entry.name)): entry for entry in listed if entry.kind not in ("module", "data")}
    values = {entry.name.rsplit(".", 1)[-1] for entry in listed if entry.kind == "data"}
    whole = {entry.name: entry.members for entry in listed if entry.kind == "module"}
    found = []
    for module in modules:
        for name in module.__all__:
            path, thing = f"{module.__name__}.{name}", getattr(module, name)
            if name == "__version__":
                continue
            if not (inspect.isclass(thing) or inspect.isroutine(thing)):
                found += [] if name in values else [f"{path} is not in docs/api/"]
                continue
            if not described(thing):
                found.append(f"{path} has no description")
            members = whole.get(thing.__module__, frozenset())
            entry = shown.get(id(thing))
            if entry is None and members is not None and name not in members:
                found.append(f"{path} is not in docs/api/")
                continue
            if inspect.isclass(thing) and _is_ours(thing):
                for method in public_methods(thing):
                    if not method_described(thing, method):
                        found.append(f"{path}.{method} has no description")
                    inherited = any(method in vars(base) and id(base) in shown for base in thing.__mro__[1:])
                    if entry and entry.members is not None and method not in entry.members and not inherited:
                        found.append(f"{path}.{method} is not in docs/api/")
    return sorted(set(found))


def test_every_public_name_is_in_the_api_with_a_description() -> None:
    modules = [importlib.import_module(name) for name in MODULES]
    assert complaints(modules, api_pages()) == []


def test_no_name_is_on_two_pages_of_the_api() -> None:
    names = [entry.name for entry in entries(api_pages()) if entry.kind != "module"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize("page", sorted((DOCS / "api").glob("*.md")), ids=lambda page: page.stem)
def test_the_tables_of_an_api_page_name_and_describe_what_is_on_it(page: Path) -> None:
    spec = importlib.util.spec_from_file_location("api_summary", DOCS / "extensions" / "api_summary.py")
    assert spec is not None
    assert spec.loader is not None
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    text = page.read_text()
    assert extension.PLACE in text
    rows = re.findall(r"^\| \{py:obj\}`~(\S+)` \| (.*) \|$", extension.tables(text), re.MULTILINE)
    assert {entry.name for entry in entries(text) if entry.kind != "module"} <= {name for name, _ in rows}
    assert [name for name, description in rows if len(description) < 10] == []


def test_no_subpackage_with_public_names_is_forgotten() -> None:
    inside = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in (ROOT / "memgrad").rglob("*.py")
        if re.search(r"^__all__ = ", path.read_text(), re.MULTILINE)
    }
    assert inside == set(MODULES)


# --- the checker itself, on a small module ---------------------------------------------------------------------------

FAKE = '''
__all__ = ["CONSTANT", "Thing", "make"]
CONSTANT = (1,)

class Thing:
    """A thing that is described."""

    def grow(self):
        """Make it larger than before."""

    def _hidden(self): ...

def make():
    """Make a thing of it."""
'''
PAGE = """
```{eval-rst}
.. autodata:: fake.CONSTANT
   :no-value:

.. autoclass:: fake.Thing
   :members: grow

.. autofunction:: fake.make
```
"""


def fake(monkeypatch: pytest.MonkeyPatch, source: str) -> ModuleType:
    module = ModuleType("fake")
    module.__spec__ = ModuleSpec("fake", None)
    monkeypatch.setitem(sys.modules, "fake", module)
    exec(source, vars(module))
    return module


def test_a_module_that_is_documented_has_no_complaints(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complaints([fake(monkeypatch, FAKE)], PAGE) == []


@pytest.mark.parametrize(
    ("removed", "complaint"),
    [
        (".. autofunction:: fake.make\n", "fake.make is not in docs/api/"),
        (".. autoclass:: fake.Thing\n   :members: grow\n", "fake.Thing is not in docs/api/"),
        (" grow", None),  # `:members:` alone shows all of them
        ("   :members: grow\n", "fake.Thing.grow is not in docs/api/"),
        (".. autodata:: fake.CONSTANT\n   :no-value:\n", "fake.CONSTANT is not in docs/api/"),
    ],
)
def test_a_name_removed_from_the_page_is_noticed(
    monkeypatch: pytest.MonkeyPatch, removed: str, complaint: str | None
) -> None:
    assert removed in PAGE
    found = complaints([fake(monkeypatch, FAKE)], PAGE.replace(removed, ""))
    assert found == ([complaint] if complaint else [])


@pytest.mark.parametrize(
    ("docstring", "complaint"),
    [
        ('"""Make a thing of it."""', "fake.make has no description"),
        ('"""A thing that is described."""', "fake.Thing has no description"),
        ('"""Make it larger than before."""', "fake.Thing.grow has no description"),
    ],
)
def test_a_removed_docstring_is_noticed(monkeypatch: pytest.MonkeyPatch, docstring: str, complaint: str) -> None:
    assert docstring in FAKE
    assert complaints([fake(monkeypatch, FAKE.replace(docstring, "pass"))], PAGE) == [complaint]


# --- pages -----------------------------------------------------------------------------------------------------------


def pages() -> list[Path]:
    return [path for path in DOCS.glob("*.md") if not path.name.startswith("_")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    there = {path.name for path in (ROOT / "tests").rglob("*.py")}
    named = set(re.findall(r"\b(?:test_[\w*]+|\w+_table)\.py\b", page.read_text()))
    assert [name for name in sorted(named) if not any(fnmatch(each, name) for each in there)] == []


def test_every_page_is_in_the_index_twice() -> None:
    """In the table, with the question that it answers, and in the list that makes the navigation."""
    index = (DOCS / "index.md").read_text()
    table, _, tree = index.partition("```{toctree}")
    for page in pages():
        if page.stem != "index":
            assert f"[]({page.name})" in table
            assert f"\n{page.stem}\n" in tree


@pytest.mark.parametrize("package", sorted((ROOT / "memgrad").rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_the_files_that_a_package_lists_exist(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse(package.read_text())) or ""
    rows = re.findall(r"^    ((?:\w+, )*\w+)  +\S", docstring, re.MULTILINE)
    listed = {name for row in rows for name in row.split(", ")}
    there = {path.stem for path in package.parent.iterdir()}
    assert listed <= there
    assert bool(listed) == ("::" in docstring)
