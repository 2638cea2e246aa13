"""Writing the report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from memgrad.amounts import duration
from memgrad.experiments.driver import results_of
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store
from memgrad.files import written_whole
from memgrad.paper.reproduction import Reproduction
from memgrad.report.content import FIRST_NUMBERS, MARKS, content_of
from memgrad.report.remarks import seeds_needed
from memgrad.report.wording import ends_text, number_text, sentence, whole_numbers


def write_report(
    reproduction: Reproduction, results: Mapping[str, Results] | Store, path: str | os.PathLike[str]
) -> Path:
    """Write the report on a reproduction as one HTML file, atomically; return its path.

    Pictures and the numbers behind them are embedded. Everything that comes from data is escaped.

    Args:
        reproduction: The reproduction.
        results: The results of its experiments on real data, by name, or the store that has their rows.
        path: The file.
    """
    path = Path(path)
    if isinstance(results, Store):
        store, specs = results, {name: made.spec for name, made in reproduction.experiments.items()}
        results = {name: results_of(Spec.of(spec, where=name), store) for name, spec in specs.items()}
    text = render(reproduction, results)
    with written_whole(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path


def render(reproduction: Reproduction, results: Mapping[str, Results]) -> str:
    """The report as HTML.

    Args:
        reproduction: The reproduction.
        results: The results of its experiments on real data, by name.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": duration,
        "number": number_text,
        "ends": ends_text,
        "ranges": whole_numbers,
        "seeds_needed": seeds_needed,
        "sentence": sentence,
        "kind": lambda outcome: outcome.replace(" ", "-"),  # in the names of classes, which have no spaces
    }
    page = content_of(reproduction, results)
    return environment.get_template("report.html").render(page=page, first_numbers=FIRST_NUMBERS, marks=MARKS)
