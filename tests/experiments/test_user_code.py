"""Code of the user's own: problems, optimizers and memories in files; what it does wrong is told, never a success."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine_trials import Diary, Here, rows_of
from typer.testing import CliRunner, Result

from memgrad import problems, user_code
from memgrad.cli import app
from memgrad.experiments.driver import execute, results_of
from memgrad.experiments.planning.plan import expand
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines.local import LocalEngine
from memgrad.memory import Polynomial
from memgrad.method import memsgd
from memgrad.user_code import Reference, digest_of, load

FACTS = Facts("p", "f", examples=64, batch_size=8, stack_width=6, metrics=("loss", "step_norm"), nbytes=0)
OPTIMIZER = """
import torch

class Halved(torch.optim.SGD):
    '''SGD whose steps are half as long.'''

    def __init__(self, params, lr=0.1, share=0.5):
        if not 0 < share <= 1:
            raise ValueError(f"Halved needs a share > 0 and <= 1, got share={share!r}.")
        super().__init__(params, lr=lr * share)

number = 3
"""
MEMORY = """
from memgrad import FromDecays, Polynomial

MEMORY = FromDecays(lambda k: k / (k + 2.0))

def made():
    return Polynomial(2.0)

number = 3
"""
SPEC = """
problem = "logistic"
examples = 64
batch = 8
steps = 30
seeds = 2
evaluate.times = 4
metrics = ["loss"]
[[methods]]
name = "theirs"
optimizer = "{optimizer}"
lr = 0.2
[[methods]]
name = "SGD"
optimizer = "SGD"
lr = 0.1
[[methods]]
name = "memory"
optimizer = "MemSGD"
memory = "{memory}"
lr = 0.1
[[methods]]
name = "poly"
optimizer = "MemSGD"
memory = "poly:2"
lr = 0.1
[[methods]]
name = "squares"
optimizer = "MemAdam"
second_memory = "{memory}"
lr = 0.1
"""


def written(
    folder: Path, optimizer: str = "my_optimizer.py:Halved", memory: str = "my_memory.py:MEMORY", text: str = SPEC
) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "my_optimizer.py").write_text(OPTIMIZER)
    (folder / "my_memory.py").write_text(MEMORY)
    path = folder / "spec.toml"
    path.write_text(text.format(optimizer=optimizer, memory=memory))
    return path


def planned(path: Path) -> dict[str, list[Run]]:
    table = expand(Spec.load(path), FACTS, {})
    return {name: [run for seeds in of_lr.values() for run in seeds.values()] for name, of_lr in table.items()}


def digests(path: Path) -> dict[str, list[str]]:
    return {name: [run.digest for run in runs] for name, runs in planned(path).items()}


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"})


def said(result: Result) -> str:
    return " ".join(result.stderr.replace("│", " ").split())


# --- optimizers and memories in files --------------------------------------------------------------------------------


def test_optimizers_and_memories_beside_the_experiment_are_trained(tmp_path: Path) -> None:
    """Half of 0.2 is SGD's 0.1, and k/(k+2) is poly:2: each pair takes the same steps, by itself and in a stack."""
    spec = Spec.load(written(tmp_path / "spec"))
    store = Store.open(tmp_path / "store")
    assert execute(spec, store, Here()).complete
    results = results_of(spec, store)
    found = {name: results.curve(name, "loss").values for name in results.methods}
    np.testing.assert_allclose(found["theirs"], found["SGD"], rtol=1e-5)  # float32, in another order
    np.testing.assert_allclose(found["memory"], found["poly"], rtol=1e-5)
    assert abs(found["memory"][-1, 0] / found["SGD"][-1, 0] - 1) > 1e-3  # a memory does make a difference


def test_workers_find_them_and_a_second_run_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """Also where a run is by itself, with the public optimizer and its state: the width is 1."""
    spec = Spec.load(written(tmp_path / "spec", text=SPEC.replace("seeds = 2", "seeds = 1")))
    stores = [Store.open(tmp_path / name) for name in ("local", "here")]
    assert execute(spec, stores[0], LocalEngine(1), width=1).complete
    lossy = Here(lambda _, tries: 9 if tries == 1 else None)  # after some checkpoints
    diary = Diary()
    assert execute(spec, stores[1], lossy, listener=diary, save_every=0.0, width=1).complete
    assert sum(start > 0 for start in diary.starts) == 5
    assert rows_of(stores[0]) == rows_of(stores[1])


@pytest.mark.parametrize(
    ("optimizer", "memory"),
    [
        ("my_optimizer:Halved", "my_memory:MEMORY"),
        ("../spec/my_optimizer.py:Halved", "../spec/my_memory.py:MEMORY"),
        ("{folder}/my_optimizer.py:Halved", "{folder}/my_memory.py:MEMORY"),
    ],
)
def test_they_are_the_same_runs_however_their_place_is_written(tmp_path: Path, optimizer: str, memory: str) -> None:
    folder = tmp_path / "spec"
    first = digests(written(folder))
    assert digests(written(folder, optimizer.format(folder=folder), memory.format(folder=folder))) == first
    assert digests(written(tmp_path / "moved")) == first  # and wherever they are


def test_a_changed_file_makes_new_runs_and_only_of_those_that_name_it(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = digests(path)
    (tmp_path / "my_optimizer.py").write_text(OPTIMIZER.replace("lr=lr * share", "lr=lr * share * 1"))
    after = digests(path)
    assert {name for name in before if before[name] != after[name]} == {"theirs"}
    # Within the same second, and of the same size, which Python's cache of compiled files does not notice.
    (tmp_path / "my_memory.py").write_text(MEMORY.replace("k + 2.0", "k + 3.0"))
    again = digests(path)
    assert {name for name in before if after[name] != again[name]} == {"memory", "squares"}
    recipe = Spec.load(path).method("memory").recipe
    assert recipe.memory().decay(1) == 0.25
    assert digests(written(tmp_path)) == before


def test_a_file_that_changes_after_the_experiment_was_read_is_refused(tmp_path: Path) -> None:
    recipe = Spec.load(written(tmp_path)).method("memory").recipe
    (own,) = recipe.code
    del sys.modules[own.module_name]  # as in a worker, which has not loaded it yet
    (tmp_path / "my_memory.py").write_text(MEMORY.replace("2.0", "5.0"))
    with pytest.raises(ValueError, match=r"memory 'my_memory\.py:MEMORY'.*has changed since the experiment was read"):
        recipe.build([torch.zeros(1, requires_grad=True)], lr=0.1)


def test_a_run_with_code_survives_the_way_through_plain_data(tmp_path: Path) -> None:
    for runs in planned(written(tmp_path)).values():
        for run in runs:
            again = Run.from_dict(json.loads(json.dumps(run.to_dict())))
            assert (again, again.digest) == (run, run.digest)


def test_a_function_may_return_the_memory_and_the_method_has_it(tmp_path: Path) -> None:
    recipe = Spec.load(written(tmp_path, memory="my_memory.py:made")).method("memory").recipe
    assert recipe.method == memsgd(Polynomial(2.0))
    assert recipe["memory"] == "my_memory.py:made"
    assert recipe != Recipe.of("MemSGD", memory="poly:2")


def test_an_installed_optimizer_is_its_name_alone(tmp_path: Path) -> None:
    recipe = Spec.load(written(tmp_path, optimizer="torch.optim:Adagrad")).method("theirs").recipe
    assert recipe.code == ()
    assert "code" not in recipe.to_dict()


@pytest.mark.parametrize(
    ("optimizer", "memory", "answer"),
    [
        ("none.py:Halved", "inst", r"methods\[0\]\.optimizer: No such file, asked for an optimizer \(.*none\.py\)"),
        ("my_optimizer.py:Nope", "inst", r"optimizer: .*my_optimizer\.py has no 'Nope'; it has Halved\. Write .*:NAME"),
        (
            "my_optimizer.py",
            "inst",
            r"methods\[0\]\.optimizer: .*is given without a name; .*:NAME, with the name of a",
        ),
        (
            "my_optimizer.py:number",
            "inst",
            r"'my_optimizer\.py:number' must be a class derived from torch\.optim\.Optimizer, got 3",
        ),
        ("SGD", "none.py:MEMORY", r"methods\[2\]\.memory: No such file, asked for a memory \(.*none\.py\)"),
        ("SGD", "my_memory.py:NOPE", r"methods\[2\]\.memory: .*my_memory\.py has no 'NOPE'; it has MEMORY\. Write"),
        (
            "SGD",
            "my_memory.py:number",
            r"'my_memory\.py:number' must be a Memory or a function that returns one, got 3",
        ),
        ("SGD", "no_such_module:MEMORY", r"methods\[2\]\.memory: .*No module named 'no_such_module'"),
        ("SGD", "../spec/my_memory:MEMORY", r"methods\[2\]\.memory: a memory cannot be in .*neither a file that ends"),
    ],
)
def test_what_is_no_optimizer_or_memory_is_refused_by_key_file_and_rule(
    tmp_path: Path, optimizer: str, memory: str, answer: str
) -> None:
    with pytest.raises(ValueError, match=answer):
        Spec.load(written(tmp_path / "spec", optimizer, memory))


def test_an_option_of_an_optimizer_of_ones_own_is_refused_by_its_name(tmp_path: Path) -> None:
    text = SPEC.replace("lr = 0.2", "lr = 0.2\nshare = 1.5")
    with pytest.raises(
        ValueError, match=r"methods\[0\]\.share: my_optimizer\.py:Halved refuses share=1\.5: .*<= 1, got"
    ):
        Spec.load(written(tmp_path, text=text))


# --- code that ends the process --------------------------------------------------------------------------------------

MADE = """
import sys, torch
from memgrad.problems import Problem

class Stop(BaseException):
    pass

def raises(error):
    raise error

def model():
    return Problem("model", DATA, lambda: sys.exit(0), torch.nn.functional.mse_loss, batch_size=2)

def loss():
    return Problem("loss", DATA, lambda: torch.nn.Linear(1, 1), lambda o, t: sys.exit(), batch_size=2)

def itself():
    sys.exit(0)

def other():
    raise Stop("hm")

DATA = (torch.ones(4, 1), torch.ones(4, 1))
"""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("import sys\nsys.exit(0)", r"could not be made: it called sys\.exit\(0\) \(.*bad\.py:2\)"),
        ("import os\nos._exit(0)", r"it called os\._exit\(0\) \(.*bad\.py:2\)"),
        ("raise SystemExit('done')", r"it called sys\.exit\('done'\) \(.*bad\.py:1\)"),
        (
            "class Stop(BaseException): pass\nraise Stop('hm')",
            r"it raised Stop, which would end the process: hm \(.*:2\)",
        ),
        ("raise KeyError('x')", r"KeyError: 'x' \(.*bad\.py:1\)"),
        ("def problem(:", r"SyntaxError"),
        ("def problem():\n    quit()", r"it called sys\.exit\(\) \("),
    ],
)
def test_a_file_that_ends_the_process_is_an_error_that_names_it(tmp_path: Path, text: str, answer: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    before = set(sys.modules)
    with pytest.raises(ValueError, match=rf"problem '.*bad\.py' .*{answer}"):
        problems.get(str(tmp_path / "bad.py"))
    left = [sys.modules[name] for name in set(sys.modules) - before if "bad" in name]
    assert all(hasattr(module, "problem") for module in left)  # no module that is half-made


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 on, where there are threads
def test_a_process_that_the_code_forks_may_end(tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(
        "import os, torch\nfrom memgrad.problems import Problem\n"
        "def problem():\n"
        "    if (child := os.fork()) == 0:\n"
        "        os._exit(7)\n"
        "    name = f'status {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}'\n"
        "    return Problem(name, (torch.eye(2), torch.eye(2)), lambda: torch.nn.Linear(2, 2), torch.nn.MSELoss())\n"
    )
    # In a process of its own: JAX, which another test may have loaded, warns of every fork.
    code = (
        "import os, sys\nfrom memgrad import problems\nbefore = os._exit\n"
        "assert problems.get(sys.argv[1]).name == 'status 7'\nassert os._exit is before\nprint('done')"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "forks.py")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "done\n"


def test_ctrl_c_is_the_users_and_not_the_codes(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        problems.get(str(tmp_path / "bad.py"))


def test_a_check_finds_a_loss_and_a_model_that_end_the_process(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(MADE)
    for name, check in (("model", "initialization"), ("loss", "loss")):
        report = problems.check_problem(problems.get(f"{tmp_path}/bad.py:{name}"))
        assert report.failed == (check,)
        (message,) = (finding.message for finding in report.findings if finding.status == "failed")
        assert "it called sys.exit(" in message
        assert "bad.py:" in message


TINY = 'problem = "bad.py:{}"\nsteps = 2\nseeds = 1\n[[methods]]\noptimizer = "SGD"\nlr = 0.1\n'


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        ("itself", "could not be made: it called sys.exit(0)"),
        ("other", "it raised Stop, which would end the process: hm"),
        ("model", "cannot make its model: it called sys.exit(0)"),
    ],
)
def test_no_command_takes_it_for_success(tmp_path: Path, function: str, answer: str) -> None:
    (tmp_path / "bad.py").write_text(MADE)
    (tmp_path / "spec.toml").write_text(TINY.format(function))
    for command in ("plan", "run"):
        result = invoke(command, str(tmp_path / "spec.toml"), "--store", str(tmp_path / "store"))
        assert result.exit_code == 2, result.output
        assert answer in said(result)
        assert "bad.py" in said(result)


def test_a_loss_that_ends_the_process_fails_its_runs(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(MADE)
    (tmp_path / "spec.toml").write_text(TINY.format("loss"))
    outcome = execute(Spec.load(tmp_path / "spec.toml"), Store.open(tmp_path / "store"), Here())
    assert list(outcome.failed.values()) == ["it called sys.exit()"]
    result = invoke("plan", str(tmp_path / "spec.toml"), "--store", str(tmp_path / "store"))
    assert result.exit_code == 2
    assert "cannot be trained: it called sys.exit()" in said(result)


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("../mine:problem", r"for a file write \.\./mine\.py:problem\."),
        ("../mine", r"for a file write \.\./mine\.py:problem\."),
        ("..", r"for a file write file\.py:problem\."),
        ("..mine:problem", r"for a file write \.\.mine\.py:problem\."),
    ],
)
def test_a_path_without_its_ending_is_told_what_is_missing(name: str, way_out: str) -> None:
    with pytest.raises(ValueError, match=rf"a problem cannot be in '.*', which is neither a file that .*{way_out}"):
        problems.get(name)


def test_a_path_with_dots_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom memgrad.problems import Problem\n"
        "made = Problem('mine', (torch.eye(2), torch.eye(2)), lambda: torch.nn.Linear(2, 2), torch.nn.MSELoss())\n"
    )
    monkeypatch.chdir(tmp_path / "a")
    assert problems.get("../mine.py:made").name == "mine"


def test_files_in_two_folders_import_their_own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code, "_FOLDERS", set())
    for folder, factor in (("a", 1), ("b", 7)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "helper_of_both.py").write_text(f"FACTOR = {factor}\n")
        (tmp_path / folder / "mine.py").write_text(f"# {folder}\nfrom helper_of_both import FACTOR\n")
    asked: dict[str, Any] = {"wants": "a number", "offers": lambda _: []}
    for _ in range(2):
        for folder, factor in (("a", 1), ("b", 7)):
            reference = Reference(str(tmp_path / folder / "mine.py"), "FACTOR")
            assert load("number", reference, fresh=True, **asked) == factor
    # A folder with a checkout of memgrad in it, and another one: ours stays.
    monkeypatch.setattr(user_code, "_FOLDERS", {Path(user_code.__file__).parents[1]})
    (tmp_path / "a" / "memgrad").mkdir()
    (tmp_path / "a" / "memgrad" / "__init__.py").touch()
    with user_code.importable(tmp_path / "a"):
        assert sys.modules["memgrad"].__file__ == str(Path(user_code.__file__).with_name("__init__.py"))


def test_a_module_that_was_changed_is_refused_as_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "module_of_a_user.py"
    module.write_text("FACTOR = 1\n")
    planned = digest_of(module.read_bytes())
    asked: dict[str, Any] = {"wants": "a number", "offers": lambda _: []}
    reference = Reference("module_of_a_user", "FACTOR")
    assert load("number", reference, digest=planned, **asked) == 1
    assert load("number", reference, digest=planned, **asked) == 1
    module.write_text("FACTOR = 22\n")
    with pytest.raises(ValueError, match="its module has changed"):
        load("number", reference, digest="0" * 32, **asked)
    assert (
        load("number", reference, digest=digest_of(module.read_bytes()), **asked) == 22
    )  # not what was imported first
    del sys.modules["module_of_a_user"]
    with pytest.raises(ValueError, match="its module has changed"):
        load("number", reference, digest=planned, **asked)
