"""What the command line says: sentences and tables about values that are known, at the borders of their rules."""

from __future__ import annotations

import json
import logging
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import printed
from rich.console import Console
from typer.testing import CliRunner

from memgrad.cli import app, comparison, data, design, experiments, reproduce, risks, run_display, store, terminal, tune
from memgrad.cli.layout import show
from memgrad.experiments.comparison import Comparison
from memgrad.experiments.driver import Outcome
from memgrad.experiments.planning.preview import Cost, Preview
from memgrad.experiments.racing.answer import Answer
from memgrad.experiments.racing.pace import Pace
from memgrad.experiments.racing.portfolio import portfolio
from memgrad.experiments.racing.sequential import Rules
from memgrad.experiments.racing.tune import Budget
from memgrad.method import METHODS, Method
from memgrad.paper.claims import Verdict
from memgrad.paper.verdicts import CLAIMS
from memgrad.statistics import Estimate

# --- progress, folders, messages -------------------------------------------------------------------------------------


def test_lines_of_progress_come_every_ten_seconds_and_say_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [100.0]
    monkeypatch.setattr("memgrad.cli.terminal.time.monotonic", lambda: clock[0])
    report = terminal._lines("it")
    said = []
    for now, done in ((109.9, 1), (110.0, 0), (119.9, 1), (120.0, 2)):
        clock[0] = now
        report(done, 8)
        said.append(capsys.readouterr().err)
    assert said == ["", "it: 0 %\n", "", "it: 25 %, 1 min 0 s left\n"]


def test_no_bar_is_nothing_to_report_to() -> None:
    with terminal.progress_bar("it", shown=False) as report:
        assert report is None
    with terminal.progress_bar("it") as report:
        assert report is not None


def missing_after(written: list[Path]) -> None:
    """Write files, and fail."""
    for path in written:
        path.touch()
    raise OSError("gone")


def test_a_folder_that_was_made_for_nothing_is_removed_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name, files, kept in (("new/deep", [], False), ("old", [], True), ("full", ["file"], True)):
        with pytest.raises(OSError, match="gone"), terminal.folder_for(tmp_path / name):
            missing_after([tmp_path / name / file for file in files])
        assert (tmp_path / name).exists() == kept
    assert not (tmp_path / "new").exists()
    with terminal.folder_for(tmp_path / "good"):
        pass
    assert (tmp_path / "good").is_dir()


def test_messages_of_a_logger_are_printed_once_and_the_logger_is_left_as_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("memgrad.tests.words")
    with terminal._printed(logger, Console(stderr=True)):
        logger.warning("[one] message")
        assert not logger.propagate
    assert capsys.readouterr().err == "[one] message\n"
    assert (logger.propagate, logger.handlers) == (True, [])


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (15, ["┏━━━━━━┳━━━━━━┓", "┃ a    ┃ b    ┃", "┡━━━━━━╇━━━━━━┩", "│ 1111 │ 2222 │", "└──────┴──────┘"]),
        (14, ["a     b", "1111  2222"]),
        (10, ["a     b", "1111  2222"]),
        (9, ["a: 1111", "  b  2222"]),
        (8, ["a: 1111", "  b", "    2222"]),
    ],
)
def test_a_table_has_rules_if_they_fit_and_is_told_in_paragraphs_if_its_cells_do_not(
    width: int, lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show(("a", "b"), [("1111", "2222")])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == lines


@pytest.mark.parametrize(("p", "text"), [(math.nan, ""), (0.00009, "< 0.0001"), (0.0001, "0.0001"), (0.25, "0.2500")])
def test_a_p_value_has_four_digits_or_is_small(p: float, text: str) -> None:
    assert comparison._shown_p(p) == text


def test_a_comparison_shows_steps_if_they_differ_what_is_unfinished_and_when_a_value_is_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    spec = SimpleNamespace(name="mine", problem="logistic", methods=[])
    results: Any = SimpleNamespace(spec=spec, missing=list)
    reach = Estimate(40.0, name="steps to loss 0.5")
    first = Comparison("A", 0.1, Estimate(2.0), None, False, math.nan, math.nan, 0, 3, 3, steps=100, reach=reach)
    other = Comparison("B", 0.2, Estimate(1.0), Estimate(-1.0), False, 0.5, 1.0, 1, 2, 3, variant="B2", steps=1200)
    comparison._print(results, "loss", "A", (first, other), "memgrad run mine.toml")
    text = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line[0] == "│"]
    assert rows == [
        ["A", "0.1", "100", "2", "", "", "", "0", "3", "40"],
        ["B2", "0.2", "1,200", "1", "-1", "0.5000", "1.0000", "1", "2 of 3", ""],
    ]
    heads = [[cell.strip() for cell in line.strip("┃").split("┃")] for line in text.splitlines() if line[0] == "┃"]
    assert [" ".join(filter(None, words)) for words in zip(*heads, strict=True)] == [
        *("method", "step size", "steps", "final loss", "difference to A", "p", "p (Holm)", "diverged", "runs"),
        "steps to loss 0.5",
    ]
    comparison._print(results, "loss", "A", (first, first), "memgrad run mine.toml")
    again = capsys.readouterr().out.splitlines()
    assert sum(line[0] == "│" and line.count("│") == 10 for line in again) == 2  # nine columns, without the steps


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0.0 kB"), (999_900, "999.9 kB"), (1_000_000, "1.0 MB"), (2_500_000_000, "2,500.0 MB")]
)
def test_a_size_is_in_megabytes_from_one_on(nbytes: int, text: str) -> None:
    assert store._size(nbytes) == text


def test_a_long_method_is_cut_with_its_length() -> None:
    assert design._short("x" * 90) == "x" * 90
    assert design._short("x" * 91) == "x" * 60 + "... (91 characters; --out keeps them)"


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "lines"),
    [
        (
            Outcome(trained=2, there=3, diverged=1, seconds=5.0),
            ["2 runs trained in 5 s, 3 already finished.",
             "1 of 5 runs diverged (a loss or parameter is not finite).",
             "Rows are in st. Next: memgrad compare a.toml"],
        ),
        (
            Outcome(failed={"a": "no", "b": "never", "c": "no"}, waiting=("M", "N")),
            ["0 runs trained in 0 s, 0 already finished.",
             "2 runs failed: no",
             "1 run failed: never",
             "No step size could be selected for M, N: runs they need failed.",
             "The others are in st; memgrad run a.toml retries the failed ones."],
        ),
        (
            Outcome(trained=1, waiting=("M",), interrupted=True),
            ["1 run trained in 0 s, 0 already finished.",
             "No run diverged.",
             "Stopped. Rows and checkpoints are in st; memgrad run a.toml resumes from there."],
        ),
    ],
)  # fmt: skip
def test_an_outcome_is_told_with_its_numbers_and_what_to_do_next(outcome: Outcome, lines: list[str]) -> None:
    assert experiments._in_words(outcome, Path("a.toml"), Path("st")).splitlines() == lines
    named = experiments._in_words(outcome, Path("a.toml"), Path("st"), named=True).splitlines()
    assert named[:-1] == lines[:-1]
    assert named[-1] == lines[-1].replace("a.toml", "a.toml --store st")


@pytest.mark.parametrize(
    ("losses", "text"),
    [
        (None, ""),
        (np.array([0.5]), "loss 0.5"),
        (np.array([2.0, math.nan, 0.25, math.inf]), "loss 0.25 to 2"),
        (np.array([math.nan, -math.inf]), "diverged"),
    ],
)
def test_losses_in_training_are_told_by_their_range(losses: Any, text: str) -> None:
    assert run_display._range(losses) == text


def previewed(seconds: float = 20.0) -> Preview:
    return Preview("it", (), 10, 10, 2, 3, Cost(seconds, 1.0, 1, 6.0))


@pytest.mark.parametrize(
    ("budget", "more"),
    [
        (Budget(), ""),
        (
            Budget(seconds=345.9),
            " The budget of 5 min 46 s that is left, about 173 runs, is likely to end before there is an answer.",
        ),
        (Budget(seconds=346.0), " The budget of 5 min 46 s that is left, about 173 runs, may end the race early."),
        (Budget(seconds=562.0), " The budget of 9 min 22 s that is left, about 281 runs, should be enough."),
        (Budget(runs=172), " The budget of 172 runs is likely to end before there is an answer."),
        (Budget(runs=173), " The budget of 173 runs may end the race early."),
        (Budget(runs=281), " The budget of 281 runs should be enough."),
        (
            Budget(20, 562.0),
            " The budget of 20 runs is likely to end before there is an answer. The budget of 9 min 22 s "
            "that is left, about 281 runs, should be enough.",
        ),
    ],
)
def test_the_forecast_of_tuning_says_what_a_budget_buys(
    budget: Budget, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two seconds per run; 173 to 281 runs, as the rules count them (see test_cli_tune).
    monkeypatch.setattr(tune, "measured", lambda *_, device: previewed())
    spec: Any = SimpleNamespace(methods=[], model_copy=lambda **_: None)
    pace = tune._pace(spec, 3, "cpu")
    assert pace == Pace(6.0, 2.0)
    said = tune._forecast(portfolio(), Rules(), budget, pace, 3)
    assert said == f"9 methods need about 173 to 281 runs: 5 min 46 s to 9 min 22 s on 3 workers, once started.{more}"


def test_what_measuring_took_is_taken_from_a_budget_of_time() -> None:
    assert tune._left(10.0, 7.5, Pace(2.5, 0.1)) == 2.5
    with pytest.raises(ValueError, match=r"measuring took 7\.5 s, and a run takes about 2\.6 s"):
        tune._left(10.0, 7.5, Pace(2.6, 0.1))
    with pytest.raises(ValueError, match=r"a run takes less than 0\.1 s"):
        tune._left(1.0, 7.5, Pace(0.04, 0.01))


def test_with_many_workers_the_rounds_of_tuning_count_and_not_its_runs() -> None:
    """Each round takes at least as long as one run, an hour: 13 to search, 1 to 6 to race, 1 or 2 to refine, and 1."""
    said = tune._forecast(portfolio(), Rules(), Budget(seconds=16 * 3600.0), Pace(3600.0, 36.0), 100)
    assert "173 to 281 runs: 16 h 0 min to 22 h 0 min on 100 workers" in said
    assert "about 173 runs, may end the race early" in said
    short = tune._forecast(portfolio(), Rules(most=4), Budget(), Pace(3600.0, 36.0), 100)
    assert "16 h 0 min to 18 h 0 min" in short  # one look at the race, or two


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("answered", None),
        ("failed", None),
        ("exhausted", "`memgrad tune it ...` with a larger budget continues; nothing trained is lost.\n"),
        ("interrupted", "`memgrad tune it ...` continues; nothing trained is lost.\n"),
    ],
)
def test_tuning_that_ended_early_says_how_it_continues(
    status: Any, said: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memgrad.experiments.racing.words.answer_in_words", lambda _: "the answer")
    tune._print(Answer(status, ""), "memgrad tune it")
    printed = capsys.readouterr()
    bad = status in ("failed", "interrupted")  # an answer is for a pipe, what went wrong is for the reader
    assert printed.out == ("" if bad else "the answer\n")
    assert printed.err == ("the answer\n" if bad else "") + (said or "")


@pytest.mark.parametrize(
    ("kept", "folder", "text"),
    [
        (0, None, "Interrupted. Nothing was downloaded yet: `memgrad data get x` starts again."),
        (2_500_000, Path("f"), "Interrupted. 2.5 MB of x are kept: `memgrad data get x --from f` resumes."),
    ],
)
def test_an_interrupted_download_says_what_is_kept(kept: int, folder: Path | None, text: str) -> None:
    assert data._how_to_resume("x", kept, folder).strip() == text


def test_a_scoreboard_shows_three_numbers_and_counts_outcomes() -> None:
    numbers = tuple(Estimate(float(i), name=f"[n{i}]") for i in range(5))
    some = [Verdict(CLAIMS["S1"], outcome, numbers, "r", "s") for outcome in ("undecided", "reproduced", "undecided")]
    assert reproduce._tally(some) == "1 reproduced, 2 undecided."
    assert reproduce._numbers(some[0]) == [r"\[n0] = 0", r"\[n1] = 1", r"\[n2] = 2", "and 2 more"]
    few = Verdict(CLAIMS["S1"], "reproduced", numbers[:3], "r", "s")
    assert len(reproduce._numbers(few)) == 3


# --- risks -----------------------------------------------------------------------------------------------------------


def risk(*words: str) -> Any:
    found = CliRunner().invoke(app, ["risk", *words, "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_risks_are_computed_at_eight_halvings_of_the_largest_learning_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(risks, "LARGEST", 8 * 30)
    found = risk("inst", "--steps", "30", "--noise", "99")  # much noise: the smallest learning rate is the best
    assert found["methods"][0]["lr"] == pytest.approx(found["sgd_limit"] / 256)
    refused = CliRunner().invoke(app, ["risk", "inst", "--steps", "31"], env={"COLUMNS": "200"})
    assert refused.exit_code == 2
    assert "8 settings of 31 steps take too long" in refused.output


@pytest.mark.parametrize(("steps", "known"), [("8", False), ("9", True)])
def test_an_exponent_is_fitted_to_nine_steps_or_more(steps: str, known: bool) -> None:
    (row,) = risk("inst", "--steps", steps, "--lr", "0.1")["methods"]
    assert (row["exponent"] is not None) == known
    if known:
        assert row["from"] <= row["exponent"] <= row["to"]


@pytest.mark.parametrize(
    ("method", "noise", "theory"),
    [
        ("inst", "0", 0.4),  # zeta
        ("inst + 0.1*(1+k)^0.5*poly:4", "0", 0.4 * 1.5),  # zeta (2 - kappa), at kappa = 1/nu
        ("inst + 0.1*(1+k)^0.6*poly:4", "0", None),  # kappa < 1/nu
        ("inst", "0.1", None),  # label noise
    ],
)
def test_theory_has_an_exponent_without_noise_and_from_kappa_one_over_nu_to_1(
    method: str, noise: str, theory: float | None
) -> None:
    words = ("--nu", "2", "--zeta", "0.4", "--steps", "9", "--lr", "1e-3", "--noise", noise)
    (row,) = risk(method, *words)["methods"]
    assert row["theory"] == (None if theory is None else pytest.approx(theory))


def test_the_name_of_a_method_is_answered_by_its_text_form() -> None:
    assert "'sgd' is the name of a method, not its text form, which is 'inst' by default" in printed("risk", "sgd")
    for name, make in METHODS.items():
        with pytest.raises(ValueError, match=re.escape(repr(str(make())))):
            Method.parse(name)


def test_claims_on_a_language_model_are_among_those_that_are_known() -> None:
    assert "by name: L1 to L6, others, workloads" in printed("reproduce", "R99")
