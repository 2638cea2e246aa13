"""The commands that carry out experiments, used as a person would use them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import printed
from engine_trials import (
    LONG,
    MEMGRAD,
    QUICK,
    RUNS,
    Diary,
    Here,
    end,
    files_in,
    memgrad,
    rows_of,
    spec_file,
    wait_until,
)
from typer.testing import CliRunner, Result

from memgrad.cli import app
from memgrad.cli.run_display import Display, live
from memgrad.experiments import LocalEngine, results_of
from memgrad.experiments.driver import execute
from memgrad.experiments.planning.plan import RunGroup, expand, run_groups, runs_in
from memgrad.experiments.planning.problem_choice import ProblemChoice, facts_about
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.events import Evaluated, Failed, Finished, Lost, Progressed, Saved

# Long enough to be interrupted on any machine; the two lone runs take minutes unless they are.
ENDLESS = QUICK.replace("steps = 60", "steps = 1_000_000").replace("seeds = 3", "seeds = 1")
TINY = QUICK.replace("seeds = 3", "seeds = 1").replace("steps = 60", "steps = 6")


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def said(result: Result) -> str:
    return " ".join(result.stderr.replace("│", " ").split())


# --- init ------------------------------------------------------------------------------------------------------------


def test_init_writes_an_experiment_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "mine.toml"
    result = invoke("init", str(path))
    assert result.exit_code == 0
    assert f"memgrad run {path}" in result.stdout
    assert [method.name for method in Spec.load(path).methods] == ["SGD", "MemSGD p=2", "HeavyBall", "AdamW"]


def test_init_does_not_write_over_a_file_unless_told_to(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    result = invoke("init", str(path))
    assert result.exit_code == 2
    assert "--force" in said(result)
    assert path.read_text() == "precious"
    assert invoke("init", str(path), "--force", "--problem", "logistic").exit_code == 0
    assert Spec.load(path).problem == "logistic"


def test_init_takes_a_problem_of_ones_own_and_refuses_one_that_there_is_not(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("make = None\n")
    assert invoke("init", str(tmp_path / "a.toml"), "--problem", f"{mine}:make").exit_code == 0
    assert Spec.load(tmp_path / "a.toml").problem == f"{mine}:make"
    result = invoke("init", str(tmp_path / "b.toml"), "--problem", "logistics")
    assert result.exit_code == 2
    assert "did you mean 'logistic'?" in said(result)
    assert not (tmp_path / "b.toml").exists()


# --- plan ------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrad.experiments.planning.preview.SECONDS", 0.01)


def test_plan_shows_the_runs_and_what_they_cost_and_leaves_nothing(tmp_path: Path) -> None:
    result = invoke("plan", str(spec_file(tmp_path)), "--store", str(tmp_path / "store"), "--workers", "3")
    assert result.exit_code == 0, result.output
    lines = [re.split(r"\s*[│┃]\s*", line.strip("│┃ \n")) for line in result.stdout.splitlines()]
    assert ["S", "SGD", "0.1, 1", "6", "0"] in lines
    assert ["M", "MemSGD", "best of S", "3", "0"] in lines
    assert ["R", "Rprop", "0.01", "3", "0"] in lines
    assert "logistic, 64 examples, minibatches of 8, 60 steps, 3 seeds" in " ".join(result.stdout.split())
    assert f"Left: {RUNS} of {RUNS} runs, in 6 groups. On 3 workers about" in result.stdout
    assert not (tmp_path / "store").exists()


def test_plan_as_json_is_the_same_as_data(tmp_path: Path) -> None:
    result = invoke("plan", str(spec_file(tmp_path)), "--store", str(tmp_path / "store"), "--json")
    found = json.loads(result.stdout)
    assert (found["runs"], found["left"], found["batches"]) == (RUNS, RUNS, 6)
    assert [method["runs"] for method in found["methods"]] == [6, 3, 3]
    assert found["cost"]["seconds"] > 0
    assert found["cost"]["run_steps"] > 0


BROKEN = """
import torch
from memgrad.problems import Problem

def in_model():
    return Problem("broken", (torch.ones(4, 1), torch.ones(4, 1)), lambda: 1 / 0, torch.nn.functional.mse_loss)

def in_loss():
    def loss(outputs, targets):
        raise KeyError("no such [thing]")
    return Problem("broken", (torch.ones(4, 1), torch.ones(4, 1)), lambda: torch.nn.Linear(1, 1), loss, batch_size=2)
"""


@pytest.mark.parametrize(
    ("function", "answer"), [("in_model", "ZeroDivisionError: division by zero"), ("in_loss", "no such [thing]")]
)
def test_an_error_in_a_users_problem_is_told_without_a_traceback(tmp_path: Path, function: str, answer: str) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    text = TINY.replace('"logistic"', f'"broken.py:{function}"').replace("examples = 64\nbatch = 8\n", "")
    path = spec_file(tmp_path, text)
    result = invoke("plan", str(path), "--store", str(tmp_path / "store"))
    assert result.exit_code == 2, result.output
    assert answer in said(result)
    if function == "in_model":
        result = invoke("run", str(path), "--store", str(tmp_path / "store"))
        assert result.exit_code == 2, result.output
        assert answer in said(result)


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    result = invoke("run", str(spec_file(tmp_path)), "--store", "/proc/store")
    assert result.exit_code == 1
    assert "nothing already stored is lost; name a folder that can be written with --store" in said(result)
    (tmp_path / "file").touch()
    result = invoke("run", str(spec_file(tmp_path)), "--store", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert "a store is a folder and this is a file; name another" in said(result)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--engine", "cloud"), "the engine is local or ray, got 'cloud'"),
        (("--address", "auto"), "--address is for --engine ray"),
        (("--workers", "0"), "--workers"),
        (("--width", "0"), "--width"),
        (("--device", "foo"), "the device must be one that torch knows, such as cpu, cuda or cuda:1, got 'foo'"),
        (("--device", "meta"), "the device 'meta' cannot be used on this machine"),
        (("--device", "cuda:99"), "the device 'cuda:99' cannot be used on this machine"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, words: tuple[str, ...], answer: str) -> None:
    result = invoke("run", str(spec_file(tmp_path)), "--store", str(tmp_path / "store"), *words)
    assert result.exit_code == 2
    assert answer in said(result)
    assert not (tmp_path / "store").exists()


# --- run -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose experiment was run, quietly."""
    made = tmp_path_factory.mktemp("folder")
    spec_file(made, TINY)
    words = ("--store", str(made / "memgrad-store"), "--workers", "1", "--quiet")
    result = invoke("run", str(made / "spec.toml"), *words)
    assert (result.exit_code, result.output) == (0, "")
    return made


def test_what_was_run_quietly_is_there(folder: Path) -> None:
    rows = Store(folder / "memgrad-store").read()
    assert len(rows.runs) == 4
    plan = json.loads(
        invoke("plan", str(folder / "spec.toml"), "--store", str(folder / "memgrad-store"), "--json").stdout
    )
    assert (plan["left"], plan["cost"]) == (0, None)
    assert [method["finished"] for method in plan["methods"]] == [2, 1, 1]


def test_run_again_has_nothing_to_do_and_says_so(folder: Path) -> None:
    result = invoke("run", str(folder / "spec.toml"), "--store", str(folder / "memgrad-store"))
    assert result.exit_code == 0
    assert re.search(r"0 runs trained in [\d.]+ s, 4 already finished\.", result.stdout)
    assert "No run diverged" in result.stdout
    assert f"Next: memgrad compare {folder / 'spec.toml'}" in result.stdout
    result = invoke("run", str(folder / "spec.toml"), "--store", str(folder / "memgrad-store"), "--json")
    found = json.loads(result.stdout)
    assert {name: found[name] for name in ("runs", "trained", "there", "failed", "waiting", "interrupted")} == {
        "runs": 4,
        "trained": 0,
        "there": 4,
        "failed": {},
        "waiting": [],
        "interrupted": False,
    }


@pytest.mark.slow
def test_a_step_size_more_is_trained_with_plain_lines_where_there_is_no_terminal(folder: Path, tmp_path: Path) -> None:
    store = shutil.copytree(folder / "memgrad-store", tmp_path / "memgrad-store")  # others count the runs of the folder
    (tmp_path / "more.toml").write_text(TINY.replace("[0.1, 1.0]", "[0.1, 1.0, 1e-9]"))
    result = invoke("run", str(tmp_path / "more.toml"), "--store", str(store), "--workers", "1")
    assert result.exit_code == 0
    assert "1 run in 1 group; 3 already finished." in result.stderr
    assert re.search(r"1 run trained in [\d.]+ s, 4 already finished\.", result.stdout)
    assert "\x1b" not in result.output


@pytest.mark.slow
def test_stopped_by_a_cluster_it_keeps_checkpoints_and_says_how_to_go_on(tmp_path: Path) -> None:
    spec_file(tmp_path, ENDLESS)
    process = memgrad("run", "spec.toml", "--workers", "2", "--save-every", "0.5", cwd=tmp_path)
    try:
        assert wait_until(lambda: files_in(tmp_path / "memgrad-store") == 2, process)
        os.killpg(process.pid, signal.SIGTERM)  # to the driver and its workers
        output, errors = process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "its process was killed" not in errors
    assert "Stopping: saving checkpoints (press Ctrl-C again to stop at once)." in errors
    assert "Stopped. Rows and checkpoints are in memgrad-store; memgrad run spec.toml resumes from there." in errors
    assert output == ""
    assert len(list(tmp_path.glob("memgrad-store/checkpoints/*.npz"))) == 2
    assert not list(tmp_path.glob("memgrad-store/holder.json"))


def test_on_a_terminal_there_are_bars_and_ctrl_c_is_heard(tmp_path: Path) -> None:
    spec_file(tmp_path, ENDLESS)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
    process = subprocess.Popen(
        [*MEMGRAD, "run", "spec.toml", "--workers", "1"],
        cwd=tmp_path,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown, asked = "", False
    try:
        while select.select([ours], [], [], 90)[0]:
            try:
                shown += os.read(ours, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
            if "steps/s" in shown and not asked:
                os.killpg(process.pid, signal.SIGINT)  # to the driver and its workers, as a terminal does
                asked = True
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert "━" in shown
    assert "run-steps/s" in shown
    assert "resumes from there" in re.sub(r"\s+", " ", shown)
    assert "its process was killed" not in shown
    assert len(list(tmp_path.glob("memgrad-store/checkpoints/*.npz"))) == 1


# --- what is shown ---------------------------------------------------------------------------------------------------


def some_groups() -> tuple[RunGroup, ...]:
    choice = ProblemChoice("logistic", examples=64)
    facts = facts_about(choice, choice.load())
    return run_groups(runs_in(expand(Spec.parse(QUICK), facts, {})), facts)


def test_the_time_that_is_left_counts_what_was_done_now(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("memgrad.cli.run_display.time.monotonic", lambda: clock[0])
    first, second, *_ = some_groups()  # two runs of 60 steps each
    with live() as display:
        assert isinstance(display, Display)
        display.began([first, second], 0)
        display.started(first, 0)
        clock[0] += 20
        display.happened(first, Progressed(40))
        # 80 of 240 run-steps in 20 s
        assert "33 %, 0 of 2 groups, 4 run-steps/s, 40 s left" in capsys.readouterr().err
        display.happened(first, Lost("gone"))
        display.started(first, 30)  # from its checkpoint, which was made now
        clock[0] += 20
        display.happened(first, Progressed(40))
        assert "33 %, 0 of 2 groups, 2 run-steps/s, 1 min 20 s left" in capsys.readouterr().err


def test_halves_take_the_place_of_a_group_that_an_error_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("memgrad.cli.run_display.time.monotonic", lambda: clock[0])
    first, second, *_ = some_groups()  # two runs of 60 steps each
    with live() as display:
        display.began([first, second], 0)
        display.started(first, 0)
        clock[0] += 5
        display.happened(first, Failed("nan", in_training=True))
        display.started(second, 0)
        display.happened(second, Failed("nan", in_training=True))
        told = capsys.readouterr().err
        assert told.count("2 runs of logistic: nan; they are trained again in smaller groups.") == 1
        for half in (*first.halves, *second.halves):
            display.started(half, 0)
        clock[0] += 15
        display.happened(first.halves[0], Progressed(40))
        # 40 of 240 run-steps in 20 s
        assert "17 %, 0 of 4 groups, 2 run-steps/s, 1 min 40 s left" in capsys.readouterr().err
        display.happened(first.halves[1], Failed("nan", in_training=True))
        assert re.search(r"SGD lr .* seed .: nan\n", capsys.readouterr().err)


def test_what_was_done_before_does_not_count_as_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("memgrad.cli.run_display.time.monotonic", lambda: clock[0])
    first, second, *_ = some_groups()
    with live() as display:
        display.began([first, second], 3)
        assert "4 runs in 2 groups; 3 already finished." in capsys.readouterr().err
        display.started(first, 30)
        clock[0] += 20
        display.happened(first, Progressed(40))
        # 20 run-steps now, 60 before, 160 to go
        assert "33 %, 0 of 2 groups, 1 run-steps/s, 2 min 40 s left" in capsys.readouterr().err


def test_what_is_left_after_a_resume_is_counted_from_the_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a run group waits with its checkpoint, and where loading the data took a minute before."""
    clock = [1000.0]
    monkeypatch.setattr("memgrad.cli.run_display.time.monotonic", lambda: clock[0])
    first, second = (replace(group, done=done) for group, done in zip(some_groups()[:2], (30, 50), strict=True))
    with live() as display:
        clock[0] += 60  # the data are loaded
        display.began([first, second], 0)
        display.started(first, 30)
        clock[0] += 20
        display.happened(first, Progressed(40))
        # 20 run-steps in 20 s; of the 240 run-steps 80 and 100 are done: 60 to go
        assert "75 %, 0 of 2 groups, 1 run-steps/s, 1 min 0 s left" in capsys.readouterr().err
        display.happened(first, Progressed(2))  # the checkpoint of the first did not fit: 4 run-steps in 20 s
        clock[0] += 20
        display.happened(first, Progressed(20))  # 40 run-steps in 40 s; 240 - 40 - 100 to go
        assert "58 %, 0 of 2 groups, 1 run-steps/s, 1 min 40 s left" in capsys.readouterr().err


def test_the_driver_says_how_far_each_batch_is_by_its_checkpoint(tmp_path: Path) -> None:
    spec, store = Spec.parse(QUICK), Store.open(tmp_path / "store")
    diary = Diary(lambda event: os.kill(os.getpid(), signal.SIGTERM) if isinstance(event, Saved) else None)
    assert execute(spec, store, Here(), listener=diary, save_every=0.0).interrupted
    (key,) = store.checkpoints()
    begun: dict[str, int] = {}

    class Noting(Diary):
        def began(self, groups: Sequence[RunGroup], finished: int) -> None:
            begun.update({group.key: group.done for group in groups})

    noting = Noting()
    assert execute(spec, store, Here(), listener=noting).complete
    assert begun[key] == noting.starts[0] > 0
    assert sum(done > 0 for done in begun.values()) == 1


def test_run_says_how_many_runs_diverged(tmp_path: Path) -> None:
    path = spec_file(tmp_path, TINY.replace("[0.1, 1.0]", "[0.1, 1e30]").replace("steps = 6", "steps = 60"))
    execute(Spec.load(path), Store.open(tmp_path / "store"), Here())
    result = invoke("run", str(path), "--store", str(tmp_path / "store"))
    assert result.exit_code == 0, result.output
    assert "1 of 4 runs diverged (a loss or parameter is not finite)." in result.stdout
    result = invoke("run", str(path), "--store", str(tmp_path / "store"), "--json")
    assert json.loads(result.stdout)["diverged"] == 1


def test_one_of_several_experiments_has_a_title_and_the_time_that_all_of_them_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("memgrad.cli.run_display.time.monotonic", lambda: clock[0])
    first, *_ = some_groups()  # two runs of 60 steps each
    with live(title="experiment 1 of 2, mlp", after=100.0) as display:
        display.began([first], 0)
        display.started(first, 0)
        clock[0] += 20
        display.happened(first, Progressed(40))
    assert "experiment 1 of 2, mlp: 67 %" in (said := capsys.readouterr().err)
    assert "10 s left, 1 min 50 s in total" in said


def test_tensorboard_gets_a_folder_a_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from memgrad.experiments.storing.tensorboard import EventFiles
    from memgrad.experiments.training.train import Training

    spec = Spec.parse(QUICK)
    (group, *_) = some_groups()
    with live(quiet=True) as display:
        files = EventFiles(tmp_path, spec, display)
        files.began([group], 0)
        files.started(group, 0)
        for event in Training(spec.problem_choice.load(), group.runs).events():
            assert isinstance(event, Evaluated | Finished | Progressed)
            files.happened(group, event)
        files.close()
    made = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("events.*"))
    assert made == ["experiment/S/lr=0.1/seed=0", "experiment/S/lr=0.1/seed=1"]


@pytest.mark.slow
def test_stopped_by_ctrl_c_and_gone_on_with_the_rows_are_the_same(tmp_path: Path) -> None:
    spec, store = spec_file(tmp_path, LONG), Store.open(tmp_path / "undisturbed")
    execute(Spec.load(spec), store, Here())
    words = ("run", "spec.toml", "--workers", "1", "--store", "store", "--quiet")
    process = memgrad(*words, "--save-every", "0.02", cwd=tmp_path)
    try:
        wait_until(lambda: files_in(tmp_path / "store") > 1, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        end(process)
    assert process.returncode == 130
    assert "resumes from there" in errors
    assert len(Store(tmp_path / "store").digests()) < RUNS
    process = memgrad(*words, cwd=tmp_path)
    assert process.communicate(timeout=120) == ("", "")
    assert rows_of(Store(tmp_path / "store")) == rows_of(store)


def test_init_looks_at_a_problem_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\n\nfrom memgrad.problems import get\n\n"
        "def problem():\n    return replace(get('logistic'), name='mine')\n"
    )
    assert "No such file" in printed("init", "a.toml", "--problem", "missing.py:problem")
    assert "mine.py has no 'problm'; did you mean 'problem'?" in printed(
        "init", "a.toml", "--problem", "mine.py:problm"
    )
    (tmp_path / "half.py").write_text("def problem(:\n")
    assert "half.py, line 1, is not Python: invalid syntax." in printed(
        "init", "a.toml", "--problem", "half.py:problem"
    )
    assert not (tmp_path / "a.toml").exists()
    (tmp_path / "all.py").write_text("from mine import *\n")
    assert "wrote all.toml" in printed("init", "all.toml", "--problem", "all.py:problem")
    assert "wrote sub/a.toml" in printed("init", "sub/a.toml", "--problem", "mine.py:problem")
    assert Spec.load(tmp_path / "sub" / "a.toml").problem_choice.load().name == "mine"
    assert "wrote b.toml" in printed("init", "b.toml", "--problem", "mine.py")


def test_compare_names_the_methods_that_can_be_the_reference(tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text(
        'problem = "covtype-softmax"\nsample = true\nsteps = 5\nseeds = 1\nevaluate.times = 2\n[[methods]]\n'
        'name = "A"\noptimizer = "SGD"\nlr = 0.1\ngrid = { momentum = [0.0, 0.9] }\n'
    )
    spec, store = Spec.load(tmp_path / "e.toml"), Store.open(tmp_path / "store")
    execute(spec, store, LocalEngine(1))
    variant = next(v.name for v in spec.methods[0].variants if v.name != results_of(spec, store).selected("A")[0])
    words = ["compare", str(tmp_path / "e.toml"), "--store", str(tmp_path / "store"), "--reference", variant]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 2
    assert "is not what was selected" in result.output
