"""A report as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from memgrad.experiments.driver import results_of
from memgrad.experiments.results import Results
from memgrad.experiments.spec import Spec
from memgrad.experiments.store import Store
from memgrad.files import written_whole
from memgrad.paper.reproduction import Reproduction
from memgrad.report.content import FIRST_NUMBERS, content_of


def write_report(
    reproduction: Reproduction, results: Mapping[str, Results] | Store, path: str | os.PathLike[str]
) -> Path:
    """Write what was reproduced as one HTML file, whole or not at all; return its path.

    Pictures are part of the file; tables of numbers are linked, beside it. All that comes from data is escaped.

    Args:
        reproduction: What was reproduced.
        results: What its experiments on real data found, by name, or the store that has their rows.
        path: The file.
    """
    path = Path(path)
    if isinstance(results, Store):
        results = read_results(reproduction, results)
    text = render(reproduction, results, path.parent)
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path


def read_results(reproduction: Reproduction, store: Store) -> dict[str, Results]:
    """What the experiments of a reproduction found, by name, from the store it was made with."""
    specs = {name: Spec.of(made.spec, where=name) for name, made in reproduction.experiments.items()}
    return {name: results_of(spec, store) for name, spec in specs.items()}


def render(reproduction: Reproduction, results: Mapping[str, Results], folder: Path) -> str:
    """The report as HTML.

    Args:
        reproduction: What was reproduced.
        results: What its experiments on real data found.
        folder: Where it will be, from where files are named.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = content_of(reproduction, results, folder)
    return environment.get_template("report.html").render(page=page, first_numbers=FIRST_NUMBERS)
