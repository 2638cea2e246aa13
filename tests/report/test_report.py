"""The report: all claims and figures are in it, nothing in the data can act in it, and a browser shows it well."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from known_results import DECIDING, REHEARSAL, evidence_of
from typer.testing import CliRunner

from memgrad import figures
from memgrad.cli import app
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import BEYOND, Verdict
from memgrad.paper.reproduction import Made, Reproduction
from memgrad.paper.scales import Scale
from memgrad.paper.verdicts import CLAIMS, JUDGES
from memgrad.report import content, embedding, page, write_report
from memgrad.report.remarks import texts
from memgrad.statistics import Estimate

HOSTILE = "\"'><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)>"
ABOUT = {
    "versions": {"memgrad": "0.1.0", "python": "3.12.1", "torch": "2.13.0"},
    "commit": "0123456789abcdef0123456789abcdef01234567+",
    "machine": {"host": "laboratory", "system": "Linux", "cores": 2, "cpu": "A CPU"},
    "time": "2026-01-02T03:04:05+00:00",
}
VOID = {"meta", "link", "img", "input", "br", "hr", "source"}


class Parsed(HTMLParser):
    """The elements of a page with their attributes, its text, and whether each that was opened was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if self._open[-1:] != ["style"] else ""

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


def made_of(results: Mapping[str, Results]) -> dict[str, Made]:
    about = {**ABOUT, "device": "cpu", "wall_seconds": 61.0, "cpu_seconds": 60.0}
    return {
        name: Made(name, each.spec.model_dump(mode="json", exclude_none=True), 100, 7, (about,))
        for name, each in results.items()
    }


def figure_files(folder: Path, name: str) -> tuple[Path, ...]:
    """A small picture, numbers and settings, in the place of a figure's."""
    files = tuple(folder / f"{name}.{ending}" for ending in ("png", "svg", "csv", "json"))
    files[0].write_bytes(b"not shown: there is an SVG")
    files[1].write_text('<svg xmlns="http://www.w3.org/2000/svg" width="1152" height="360" viewBox="0 0 1152 360"/>')
    files[2].write_text("t,x\n0.0,1.0\n")
    files[3].write_text(json.dumps({"settings": {"sigma": 0.02}, "own_choices": {"sigma": "none is given"}}))
    return files


@cache
def known_evidence(scale: Scale) -> tuple[dict[str, Results], tuple[Verdict, ...]]:
    evidence = evidence_of(scale)
    return dict(evidence.results), tuple(judge.decide(evidence) for judge in JUDGES.values() if judge.needs)


def reproduction_of(folder: Path, scale: Scale = DECIDING, **changes: Any) -> tuple[Reproduction, dict[str, Results]]:
    results, verdicts = known_evidence(scale)
    synthetic = [
        Verdict(
            claim,
            "confirmed" if claim.where == BEYOND else "reproduced",
            (Estimate(1e-12, 1e-13, 2e-12, name="distance"),),
            "it is small.",
            "1000 runs",
            (0,),
        )
        for claim in CLAIMS.values()
        if not JUDGES[claim.id].needs
    ]
    found = Reproduction(
        scale,
        (*FIGURES, *CLAIMS),
        {name: figure_files(folder, name) for name in FIGURES},
        (*synthetic, *verdicts),
        made_of(results),
        {},
        False,
        12.5,
        ABOUT,
    )
    return dataclasses.replace(found, **changes), results


def written(folder: Path, scale: Scale = DECIDING, **changes: Any) -> str:
    found, results = reproduction_of(folder, scale, **changes)
    return write_report(found, results, folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("report"))


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_every_claim_is_there_with_its_rule_and_verdict(report: str) -> None:
    parsed = Parsed(report)
    for claim in CLAIMS.values():
        assert f"claim-{claim.id}" in parsed.ids
        assert claim.statement in parsed.text
        assert claim.rule in parsed.text
    assert "[1e-13, 2e-12]" in parsed.text


def test_every_claim_has_the_badge_of_its_outcome(tmp_path: Path) -> None:
    found, results = reproduction_of(tmp_path)
    text = write_report(found, results, tmp_path / "report.html").read_text(encoding="utf-8")
    rows = {row[: row.index('"')]: row for row in text.split('id="claim-')[1:]}
    for verdict in found.verdicts:
        badge = re.search(r'class="badge ([a-z-]+)"', rows[verdict.claim.id])
        assert badge is not None
        assert badge[1] == verdict.outcome.replace(" ", "-"), verdict.claim.id
        if verdict.first is not None:
            told = verdict.first.reason[0].upper() + verdict.first.reason[1:]
            assert f"{verdict.first.outcome}</strong>. {told}" in html.unescape(rows[verdict.claim.id])


def test_every_figure_is_there_with_words_files_and_what_the_paper_showed(report: str) -> None:
    parsed = Parsed(report)
    pictures = parsed.all("img")
    assert len(pictures) == len(FIGURES)
    assert all(len(each["alt"]) > 10 for each in pictures)
    assert all(each["src"].startswith("data:image/svg+xml,%3Csvg") for each in pictures)
    saved = {each["download"]: each["href"] for each in parsed.all("a") if "download" in each}
    for name, figure in FIGURES.items():
        assert f"figure-{name}" in parsed.ids
        assert figure.published in parsed.text
        assert figure.shows in parsed.text
        numbers = base64.b64decode(saved[f"{name}.csv.gz"].removeprefix("data:application/gzip;base64,"))
        assert gzip.decompress(numbers) == b"t,x\n0.0,1.0\n"
        assert f"{name}.json" in saved
    assert "ours: none is given" in parsed.text


def test_every_experiment_has_a_table_of_its_methods(report: str) -> None:
    parsed = Parsed(report)
    for name in FIGURES["results"].needs:
        assert f"experiment-{name}" in parsed.ids
    assert "ratio to SGD" in parsed.text
    assert "ratio to Adam" in parsed.text
    assert "that of SGD" in parsed.text
    assert "1 min 1 s of all processes together" in parsed.text


def test_where_it_was_made_and_how_to_cite_it_are_there(report: str) -> None:
    text = " ".join(Parsed(report).text.split())
    assert "laboratory, A CPU, 2 cores, Linux" in text
    assert "torch 2.13.0" in text
    assert ABOUT["commit"] in text
    assert "@inproceedings{orvieto2019memory" in text
    assert "100, of which 7 were trained now" in text


def test_numbers_of_the_tables_are_those_of_the_rows(tmp_path: Path) -> None:
    found, results = reproduction_of(tmp_path)
    rows = content.content_of(found, results).experiments[0].rows
    compared = results["covtype-mini"].compare("loss", "SGD")
    assert [row.name for row in rows] == [each.method for each in compared]
    assert rows[0].lr == "1"
    assert rows[0].at_edge  # 1 is the largest that was tried
    assert rows[1].loss == compared[1].final
    assert compared[1].ratio is not None
    assert rows[1].ratio == compared[1].ratio


def test_a_method_that_diverged_is_told_so(tmp_path: Path) -> None:
    found, _ = reproduction_of(tmp_path)
    evidence = evidence_of(DECIDING, ["mlp-full"], diverged=lambda name, method, lr, seed: method == "HB" and seed == 1)
    parts = content.content_of(found, evidence.results).experiments
    (part,) = [each for each in parts if each.name == "mlp-full"]
    (row,) = [each for each in part.rows if each.name == "HB"]
    assert (row.loss.value, row.diverged, row.diverged_in_all) == (float("inf"), "1 of 4", "4 of 16")
    assert not row.loss.has_interval


def test_titles_of_errata_are_those_of_the_documentation() -> None:
    pages = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
    for erratum in texts()["errata"]:
        found = re.search(rf"^\*\*{erratum['number']}\.\*\* (.*?) \(", pages, re.MULTILINE)
        assert found is not None
        assert found[1].replace("*", "") == erratum["title"]
        assert set(erratum["touches"]) <= {*CLAIMS, *FIGURES}


def test_how_to_cite_is_what_the_citation_file_says() -> None:
    root = Path(__file__).parents[2]
    cited = (root / "CITATION.cff").read_text().partition("preferred-citation:")[2]
    template = (root / "memgrad" / "report" / "templates" / "report.html").read_text()
    shown = template.partition("@inproceedings")[2].partition("</pre>")[0]
    for field in ("title", "year", "family-names", "given-names"):
        values = re.findall(rf'{field}: "?(.+?)"?$', cited, re.MULTILINE)
        assert values, field
        assert all(value in shown for value in values if "Proceedings" not in value), field


# --- what is not decided, and what is missing ------------------------------------------------------------------------


def test_a_rehearsal_says_so_above_everything(tmp_path: Path) -> None:
    text = written(tmp_path, REHEARSAL)
    assert text.index("A rehearsal: nothing here is decided") < text.index("<main")
    assert text.count("What follows decides nothing") == 2


def test_a_scale_that_decides_has_no_such_warning(report: str) -> None:
    assert "rehearsal" not in Parsed(report).text
    assert 'class="banner' not in report


def test_what_was_skipped_is_named_with_its_reason(tmp_path: Path) -> None:
    found, results = reproduction_of(tmp_path)
    left = {name: results[name] for name in ("covtype-mini", "mlp-mini")}
    skipped = {
        "cnn-mini": "the data set cifar10 is not there",
        "results": "it needs cnn-mini",
        "R2": "it needs cnn-mini",
    }
    partial = dataclasses.replace(
        found,
        figures={name: files for name, files in found.figures.items() if name not in ("results", "odes")},
        verdicts=tuple(verdict for verdict in found.verdicts if verdict.claim.id not in ("R2", "S6")),
        experiments=made_of(left),
        skipped=skipped,
        interrupted=True,
    )
    text = Parsed(write_report(partial, left, tmp_path / "report.html").read_text()).text
    assert "cnn-mini, results are missing." in text
    assert "2 of 20 claims were not run" in text
    assert "the data set cifar10 is not there" in text
    assert "It needs cnn-mini." in text
    assert "It was stopped before" in text
    assert len(re.findall("Not in this report", text)) == 2


def test_nothing_at_all_is_a_report_too(tmp_path: Path) -> None:
    empty = Reproduction(DECIDING, (), {}, (), {}, {}, False, 0.0, ABOUT)
    parsed = Parsed(write_report(empty, {}, tmp_path / "new" / "report.html").read_text())
    assert parsed.text.count("Not in this report") == len(FIGURES)
    assert "It was not asked for." in parsed.text
    assert "No experiment on real data is complete." in parsed.text


def test_a_figure_without_svg_is_shown_by_its_png_and_one_in_pdf_is_linked(tmp_path: Path) -> None:
    files = figure_files(tmp_path, "odes")
    (tmp_path / "rec.pdf").write_bytes(b"%PDF")
    chosen = {"odes": (files[0],), "rec": (tmp_path / "rec.pdf",)}
    parsed = Parsed(written(tmp_path, figures=chosen))
    (picture,) = parsed.all("img")
    assert picture["src"].startswith("data:image/png;base64,")
    [saved] = [each for each in parsed.all("a") if each.get("download") == "rec.pdf"]
    assert saved["href"] == "data:application/pdf;base64,JVBERg=="
    assert "a format that a web page cannot show" in parsed.text


def test_a_small_screen_gets_the_form_for_a_column(tmp_path: Path) -> None:
    (tmp_path / "drawn").mkdir()
    wide, narrow = tmp_path / "drawn" / "results.svg", tmp_path / "drawn" / "results-narrow.svg"
    for path, width in ((wide, 8), (narrow, 4)):
        path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="1"> </svg>')
    parsed = Parsed(written(tmp_path, figures={"results": (wide, narrow)}))
    [(small,), (picture,)] = parsed.all("source"), parsed.all("img")
    assert "width=%228%22" in picture["src"]
    assert small["media"] == "(max-width: 40rem)"
    assert "width=%224%22" in small["srcset"]
    assert " " not in small["srcset"]  # it would end the address
    assert not [each for each in parsed.all("a") if each.get("download", "").startswith("results-narrow")]


def test_a_very_large_svg_gives_way_to_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "LARGEST", 10)
    (picture,) = Parsed(written(tmp_path, figures={"odes": figure_files(tmp_path, "odes")})).all("img")
    assert picture["src"].startswith("data:image/png;base64,")


# --- what it does not do ---------------------------------------------------------------------------------------------


def test_it_runs_nothing_and_asks_for_nothing(report: str) -> None:
    parsed = Parsed(report)
    assert not parsed.all("script")
    assert not parsed.all("iframe")
    assert all(each["src"].startswith("data:") for _, each in parsed.elements if "src" in each)
    assert [each["href"] for each in parsed.all("link")] == ["data:,"]
    assert all(each["href"].startswith("#") or "download" in each for each in parsed.all("a"))
    assert all(each["href"].startswith("data:") for each in parsed.all("a") if "download" in each)
    assert not any(name.startswith("on") or name == "style" for _, each in parsed.elements for name in each)
    (policy,) = [each["content"] for each in parsed.all("meta") if "http-equiv" in each]
    assert policy.startswith("default-src 'none'; img-src data:;")
    (style,) = re.findall(r"<style>(.*?)</style>", report, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style


def test_ids_are_unique_and_links_inside_it_lead_somewhere(report: str) -> None:
    parsed = Parsed(report)
    assert len(set(parsed.ids)) == len(parsed.ids)
    inside = {each["href"][1:] for each in parsed.all("a") if each["href"].startswith("#")}
    assert inside <= set(parsed.ids)
    described = {each[key] for _, each in parsed.elements for key in ("aria-labelledby", "for") if key in each}
    assert described <= set(parsed.ids)


def test_hostile_names_and_messages_are_shown_not_obeyed(tmp_path: Path) -> None:
    found, results = reproduction_of(tmp_path, REHEARSAL)
    made = found.experiments["covtype-mini"]
    evil = dataclasses.replace(
        made,
        name=HOSTILE,
        spec={**made.spec, "problem": HOSTILE, "metrics": [HOSTILE]},
        abouts=({**ABOUT, "machine": {"host": HOSTILE}, "device": HOSTILE, "commit": HOSTILE},),
    )
    number = Estimate(1.0, name=HOSTILE)
    verdict = Verdict(CLAIMS["R1"], "undecided", (number,), HOSTILE, HOSTILE, rehearsal=True)
    folder = tmp_path / HOSTILE.replace("/", "")
    folder.mkdir()
    hostile = dataclasses.replace(
        found,
        scale=Scale(HOSTILE, HOSTILE, decides=False),
        verdicts=(verdict,),
        figures={"odes": figure_files(folder, "odes")},
        experiments={HOSTILE: evil},
        skipped={HOSTILE: HOSTILE},
        about={**ABOUT, "versions": {"memgrad": HOSTILE, HOSTILE: HOSTILE}, "time": HOSTILE},
    )
    spec = results["covtype-mini"].spec
    named = spec.model_copy(
        update={"methods": [each.model_copy(update={"name": HOSTILE}) for each in spec.methods[:1]]}
    )
    runs = {HOSTILE: results["covtype-mini"].runs["SGD"]}
    parsed = Parsed(
        write_report(
            hostile, {HOSTILE: Results(named, runs, results["covtype-mini"].rows)}, tmp_path / "r.html"
        ).read_text()
    )
    assert not parsed.all("script")
    assert len(parsed.all("img")) == 1
    assert not any(name.startswith("on") for _, each in parsed.elements for name in each)
    assert all(each["href"].startswith("#") or "download" in each for each in parsed.all("a"))
    assert all(each["href"].startswith("data:") for each in parsed.all("a") if "download" in each)
    assert parsed.text.count(HOSTILE) > 12


def test_a_failure_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    before = (tmp_path / "report.html").read_text()
    monkeypatch.setattr(page.Path, "write_text", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(*reproduction_of(tmp_path, REHEARSAL)[:2], tmp_path / "report.html")
    monkeypatch.undo()
    assert (tmp_path / "report.html").read_text() == before


# --- the command -----------------------------------------------------------------------------------------------------


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["report", *words], env={"COLUMNS": "140", "NO_COLOR": "1", "TERM": "dumb"})


def test_the_command_trains_nothing_and_says_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(tmp_path / "store")
    monkeypatch.setattr("memgrad.paper.reproduction._Reproducing._synthetic", lambda *_: None)
    result = run("--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "out" / "report.html") in result.stdout
    assert "left out covtype-mini: the store has none of its runs" in result.stderr
    assert "the store has none of its runs" in (tmp_path / "out" / "report.html").read_text()
    assert not list((tmp_path / "store").glob("problems/*"))


def test_a_reproduction_ends_with_its_report(tmp_path: Path) -> None:
    words = ["reproduce", "bound-beta", "--store", str(tmp_path / "store"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert f"The report is {tmp_path / 'out' / 'report.html'}" in result.stdout
    parsed = Parsed((tmp_path / "out" / "report.html").read_text())
    assert len(parsed.all("img")) == 1
    assert (tmp_path / "out" / "bound-beta.csv").exists()


def test_the_command_refuses_a_store_and_a_scale_that_are_not_there(tmp_path: Path) -> None:
    missing = run("--store", str(tmp_path / "none"), "--out", str(tmp_path / "out"))
    assert missing.exit_code == 1
    assert "there is no store" in missing.stderr
    unknown = run("--scale", "laptops")
    assert unknown.exit_code == 2
    assert "laptop" in unknown.stderr
    assert not (tmp_path / "out").exists()


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opened_file(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a real picture, long names and a hostile one; not made where the browser is skipped."""
    folder = tmp_path_factory.mktemp("opened")
    found, results = reproduction_of(folder, REHEARSAL)
    figures.save(figures.memory_types(), folder / "memories.svg")
    skipped = {"A1": "it needs polyadam", HOSTILE: "x" * 300}
    return write_report(dataclasses.replace(found, skipped=skipped), results, folder / "report.html")


@pytest.mark.most(2)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1400])
def test_a_browser_shows_it_without_complaint_or_request(
    browser: Any, opened_file: Path, width: int, theme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    try:
        opened = context.new_page()
        complaints: list[str] = []
        requests: list[str] = []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on("request", lambda request: requests.append(request.url))
        opened.goto(opened_file.as_uri())
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.evaluate("[...document.images].every(each => each.complete && each.naturalWidth > 100)")
        visible = "() => [...document.querySelectorAll('.claim')].filter(row => row.offsetHeight > 0).length"
        assert opened.evaluate(visible) == len(CLAIMS)
        opened.get_by_label(re.compile("^reproduced")).check(force=True)
        assert opened.evaluate(visible) == 8
        opened.emulate_media(media="print")
        assert opened.evaluate(visible) == len(CLAIMS)
        assert complaints == []
        assert [each for each in requests if not each.startswith("data:")] == [opened_file.as_uri()]
    finally:
        context.close()
