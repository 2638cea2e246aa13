"""`memgrad tune` as a person would use it."""

from __future__ import annotations

import json
import signal
import tomllib
from pathlib import Path

import pytest
from engine_trials import end, memgrad, wait_until
from typer.testing import CliRunner, Result

from memgrad.cli import app
from memgrad.cli.tune import as_nu, as_seconds
from memgrad.experiments import Store
from memgrad.experiments.racing.costs import expected_runs
from memgrad.experiments.racing.portfolio import portfolio
from memgrad.experiments.racing.sequential import Rules

QUICK = [
    *("logistic", "--examples", "64", "--batch", "8", "--steps", "20", "--workers", "1", "--most", "3", "--fresh", "2"),
    *("--method", "SGD", "--method", "MemSGD(memory='poly:8')"),
]

OTHER = ("--workers", "1", "--most", "3", "--fresh", "2", "--json")


@pytest.fixture(autouse=True)
def _short_trials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("memgrad.experiments.planning.preview.SECONDS", 0.01)
    monkeypatch.chdir(tmp_path)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["tune", *words], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def said(result: Result) -> str:
    return " ".join(result.stderr.replace("│", " ").split())


def test_an_answer_has_a_verdict_a_line_to_paste_a_figure_and_an_experiment_and_comes_again(tmp_path: Path) -> None:
    result = invoke(*QUICK, "--out", "race.svg", "--repeat", "new/tuned.toml")
    assert result.exit_code == 0, result.output
    assert "optimizer = " in result.stdout
    assert "fresh seeds" in result.stdout
    assert "2 methods need" in said(result)
    assert "Search for learning rates" in said(result)
    assert (tmp_path / "race.svg").read_text().count("MemSGD") >= 1
    repeated = tomllib.loads((tmp_path / "new" / "tuned.toml").read_text())
    assert sorted(method["optimizer"] for method in repeated["methods"]) == ["MemSGD", "SGD"]
    again = invoke(*QUICK, "--json")
    assert again.exit_code == 0
    answer = json.loads(again.stdout)
    assert answer["status"] == "answered"
    assert answer["verdict"] in result.stdout
    small = invoke(*QUICK, "--runs", "7")
    assert small.exit_code == 3
    assert "continues; nothing trained is lost" in said(small)


def test_a_full_batch_is_tuned_too() -> None:
    result = invoke(*QUICK, "--batch", "full", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["status"] == "answered"


def test_another_loss_is_compared_and_named_everywhere(tmp_path: Path) -> None:
    result = invoke(*QUICK, "--metric", "loss@p=2", "--out", "race.svg", "--repeat", "tuned.toml")
    assert result.exit_code == 0, result.output
    assert "final loss@poly:2" in result.stdout
    assert "Loss@poly:2 ratio on 2 fresh seeds" in result.stdout
    repeated = tomllib.loads((tmp_path / "tuned.toml").read_text())
    assert (repeated["metrics"], repeated["select"]["metric"]) == (["loss@poly:2"], "loss@poly:2")
    # An experiment that selects by the average can be tuned by the loss itself.
    asks = {"loss@poly:2": (), "loss": ("--metric", "loss")}
    answers = {metric: json.loads(invoke("tuned.toml", *OTHER, *words).stdout) for metric, words in asks.items()}
    assert {metric: answer["metric"] for metric, answer in answers.items()} == {metric: metric for metric in asks}
    assert answers["loss"]["raced"] != answers["loss@poly:2"]["raced"]
    # One that lists no metrics, and one with a number of evaluations for each of them.
    for name, times in (("all.toml", "3"), ("table.toml", "{ loss = 3, gradient_norm = 2, step_norm = 2 }")):
        (tmp_path / name).write_text(
            f'problem = "logistic"\nexamples = 64\nbatch = 8\nsteps = 20\nevaluate.times = {times}\n'
            '[[methods]]\noptimizer = "SGD"\nlr = 1.0\n[[methods]]\noptimizer = "MemSGD"\nlr = 1.0\n'
        )
        words = (name, "--metric", "loss@poly:2", "--runs", "6", "--workers", "1", "--json")
        assert json.loads(invoke(*words).stdout)["metric"] == "loss@poly:2"


def test_the_loss_of_an_experiment_that_evaluates_all_metrics_needs_no_other_runs(tmp_path: Path) -> None:
    (tmp_path / "all.toml").write_text(
        'problem = "logistic"\nexamples = 64\nbatch = 8\nsteps = 20\nevaluate.times = 3\n'
        '[[methods]]\noptimizer = "SGD"\nlr = 1.0\n[[methods]]\noptimizer = "MemSGD"\nlr = 1.0\n'
    )
    first = invoke("all.toml", *OTHER)
    assert first.exit_code == 0, first.output
    known = Store.open("memgrad-store").digests().keys()
    again = invoke("all.toml", *OTHER, "--metric", "loss", "--repeat", "again.toml")
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert Store.open("memgrad-store").digests().keys() == known
    assert "metrics" not in tomllib.loads((tmp_path / "again.toml").read_text())


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("logistic", "--method", "AdamW"), "at least two methods to compare, got AdamW"),
        (("logistic", "--method", "MemSGD(memory='poly:x')", "--method", "SGD"), "memory"),
        (("logistic", "--method", "MemSGD(lr=", "--method", "SGD"), "a method is OPTIMIZER or OPTIMIZER(option=value"),
        (("logistics",), "did you mean 'logistic'?"),
        (("logistic", "--budget", "soon"), "a time is written as 90s, 30m or 1h30m, got 'soon'"),
        (("logistic", "--steps", "100000000", "--budget", "1s"), "is too short for one run"),
        (("logistic", "--steps", "5", "--epochs", "5"), "give --steps or --epochs, got both"),
        (("logistic", "--method", "SGD", "--like", "a.toml"), "give --method or --like, got both"),
        (("logistic", "--batch", "0"), "a batch has at least one example, or is full, got '0'"),
        (("logistic", "--schedule", "spiral"), "schedule"),
        (("logistic", "--metric", "accuracy"), "--metric takes one such as validation_loss, got 'accuracy'"),
        (("logistic", "--metric", "validation_loss"), "'logistic' has no metric 'validation_loss'; it has loss"),
        (("logistic", "--clip", "0"), "clip"),
        (("logistic", "--runs", "5"), "--runs 5 is too few: the first learning rates to compare take 6 runs"),
        (("logistic", "--most", "1"), "most to be at least as many seeds as first=2, got most=1"),
        (("logistic", "--nu", "steep"), "nu is a number > 1 or a file of `memgrad spectrum`, got 'steep'"),
        (("logistic", "--nu", "flat.json"), "flat.json has nu = 0.7; a gain needs nu > 1"),
        (("logistic", "--nu", "other.json"), "other.json is not a file of `memgrad spectrum`"),
        (("logistic", "--nu", "0.5"), "finite nu > 1"),
        (("logistic", "--error-rate", "0"), "error_rate to be a number in (0, 1), got error_rate=0"),
        (("logistic", "--out", "race.doc"), "a figure is saved as"),
        (("logistic", "--repeat", "flat.json/again.toml"), "flat.json is not a folder in which you may write"),
        (("logistic", "--repeat", "."), ". cannot be written: it is a folder; name another file."),
        (("logistic", "--repeat", "flat.json"), "flat.json already exists and is not what an earlier --repeat wrote"),
        (("nothing.toml",), "No such file"),
        (("most.toml",), "most.toml selects by a large 'accuracy'; add --metric loss."),
        (("logistic", "--seed", "1000000001"), "less than or equal to 1000000000, got '1000000001'"),
    ],
)
def test_bad_words_are_refused_before_anything_is_trained(
    words: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "flat.json").write_text('{"nu": {"value": 0.7}}')
    (tmp_path / "other.json").write_text("[]")
    (tmp_path / "most.toml").write_text(
        'problem = "covtype-softmax"\nsample = true\nsteps = 20\nselect = {metric = "accuracy", goal = "max"}\n'
        '[[methods]]\noptimizer = "SGD"\nlr = 1.0\n[[methods]]\noptimizer = "AdamW"\nlr = 1.0\n'
    )
    result = invoke(*words)
    assert result.exit_code in (1, 2)
    assert complaint in said(result)
    assert not list(tmp_path.glob("memgrad-store/chunks/*"))


@pytest.mark.slow
def test_methods_come_from_an_experiment_too(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'problem = "logistic"\nexamples = 64\nbatch = 8\nsteps = 20\nevaluate.times = 3\n'
        '[[methods]]\noptimizer = "SGD"\nlr = 1.0\n[[methods]]\noptimizer = "AdamW"\nlr = "best of SGD"\n'
    )
    whole = invoke("mine.toml", "--runs", "3", "--workers", "1", "--json")
    assert whole.exit_code == 3
    assert json.loads(whole.stdout)["problem"] == "logistic"
    like = invoke("least-squares", "--like", "mine.toml", "--steps", "9", "--runs", "3", "--workers", "1", "--json")
    assert like.exit_code == 3
    assert json.loads(like.stdout)["runs"] == 3


@pytest.mark.slow
def test_ctrl_c_stops_with_what_is_trained_and_the_same_command_comes_to_the_same_answer(tmp_path: Path) -> None:
    words = ["tune", *QUICK]
    words[words.index("20")] = "300"
    whole = memgrad(*words, "--store", "whole", "--json", cwd=tmp_path).communicate()[0]
    process = memgrad(*words, "--store", "cut", cwd=tmp_path)
    try:
        wait_until(lambda: len(list((tmp_path / "cut" / "chunks").glob("*.parquet"))) >= 2, process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == 130
    again = memgrad(*words, "--store", "cut", "--json", cwd=tmp_path).communicate()[0]
    assert json.loads(again) == json.loads(whole)


def test_nu_comes_from_the_file_of_a_measured_spectrum(tmp_path: Path) -> None:
    from memgrad import problems
    from memgrad.experiments.measuring.measure import measure

    found = measure(problems.get("logistic"), steps=0, rows=64, probes=2, lanczos_steps=20)
    path = tmp_path / "logistic.spectrum.json"
    path.write_text(json.dumps(found.to_dict()))
    assert found.nu.value > 1
    assert as_nu(str(path)) == found.nu.value


def test_the_cost_that_is_said_beforehand_is_that_of_the_rules() -> None:
    # Two searches of about 11 runs and seven of about 8; 3 to 15 seeds of nine methods; 6 * 8 to refine; 2 * 10 fresh.
    assert expected_runs(portfolio(), Rules()) == (78 + 27 + 68, 78 + 135 + 68)
    assert as_seconds("1h 30min") == 5400
