"""Commands that compute proven bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from memgrad.cli.layout import print_json, show
from memgrad.cli.options import AsJson, as_numbers
from memgrad.suggestions import did_you_mean

if TYPE_CHECKING:
    from memgrad.theory import Bound, Entry


def bound(
    name: Annotated[str | None, typer.Argument(metavar="BOUND", help="A bound by name [default: list all].")] = None,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Its arguments; t and k take several numbers, separated by commas."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute a proven bound and check its assumptions; without arguments, list the bounds or the arguments of one.

    For example:

    - `memgrad bound  # lists all bounds`
    - `memgrad bound memsgd  # lists the arguments of one`
    - `memgrad bound memsgd degree=2 lr=0.1 smoothness=1 distance=1 noise=0.5 dimension=10 k=10,100,1000`
    - `memgrad bound polynomial degree=3 distance=1 noise=0 dimension=2 t=1,10,100 --json`
    """
    from memgrad.theory import bounds

    known = bounds()
    if name is None:
        rows = [
            (each.name, each.summary, " ".join(p.name for p in each.parameters if p.required))
            for each in known.values()
        ]
        _table({"name": "bound", "about": "about", "takes": "takes"}, rows, as_json)
        return
    if name not in known:
        raise ValueError(f"unknown bound {name!r}{did_you_mean(name, known)} Known bounds: {', '.join(known)}.")
    entry = known[name]
    if not values:
        if not as_json:
            Console().print(f"{entry.name}: {entry.summary}", highlight=False, markup=False)
        takes = [(p.name, p.meaning, p.domain, "yes" if p.required else f"no ({p.default})") for p in entry.parameters]
        _table({"name": "argument", "meaning": "meaning", "domain": "domain", "required": "required"}, takes, as_json)
        return
    found = entry.compute(_arguments(entry, values))
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _arguments(entry: Entry, values: list[str]) -> dict[str, Any]:
    kinds = {parameter.name: parameter.kind for parameter in entry.parameters}
    arguments: dict[str, Any] = {}
    for word in values:
        name, equals, text = word.partition("=")
        if not equals or not name or not text:
            raise ValueError(f"arguments are written name=value, as in distance=1, got {word!r}.")
        if name in arguments:
            raise ValueError(f"{name} is given twice, the second time as {word!r}.")
        arguments[name] = _value(name, kinds.get(name, "number"), text)
    return arguments


def _value(name: str, kind: str, text: str) -> Any:
    if kind == "memory":
        return text
    if kind == "flag":
        if text not in ("true", "false"):
            raise ValueError(f"{name} is true or false, got {text!r}.")
        return text == "true"
    if kind == "code":
        raise ValueError(f"{name} is a function: give it in Python.")
    if text == "none":
        return None
    numbers = as_numbers(text, f"{name} is a number, got {text!r}.")
    if kind != "numbers":
        if len(numbers) > 1:
            raise ValueError(f"{name} is one number, got {text!r}.")
        return int(numbers[0]) if kind == "count" and numbers[0].is_integer() else numbers[0]
    return [int(n) if n.is_integer() else n for n in numbers] if name == "k" else numbers


def _table(headings: Mapping[str, str], rows: Sequence[Sequence[str]], as_json: bool) -> None:
    """Print rows as a table, or as JSON; the headings of the table by the names in JSON."""
    if as_json:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        show([*headings.values()], rows, prose={"about", "takes", "meaning", "domain"})


def _print(found: Bound) -> None:
    data = found.to_dict()
    numbers = [data[name] for name in ("at", "value", "rate", "ball")]
    columns = [[each] if isinstance(each, float | int) else each for each in numbers]
    rows = [[f"{number:.6g}" for number in row] for row in zip(*columns, strict=True)]
    show((found.variable, f"bound of {found.about}", "rate", "ball"), rows)
    console = Console()
    for what, text in found.rows():
        if what not in ("rate", "ball"):
            console.print(f"  {what:<9} {text}", highlight=False, markup=False)
