"""Experiments as files: what is refused, in which words, and that nothing else ever happens to bad input."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tiny_runs import SGD, small_spec, trained_here
from typer.testing import CliRunner, Result

from memgrad.cli import app
from memgrad.experiments.planning.example import example as example_text
from memgrad.experiments.planning.recipe import Recipe, optimizer_class, optimizer_names
from memgrad.experiments.planning.spec import Evaluate, Spec

VALID = """
name = "short"
problem = "logistic"
steps = 10
batch = 8
seeds = 2
examples = 64
dtype = "float64"
metrics = ["loss", "step_norm"]
note = "of no importance"

[evaluate]
times = 3
spacing = "log"

[select]
metric = "loss"
goal = "min"
last = 0.5

[[methods]]
name = "S"
optimizer = "SGD"
momentum = 0.5
lr = [0.1, 0.2]

[[methods]]
name = "M"
optimizer = "MemSGD"
memory = "poly:2"
lr = "best of S"

[[methods]]
optimizer = "AdamW"
betas = [0.8, 0.9]
weight_decay = 0.01
lr = 0.01
"""


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def said(result: Result) -> str:
    """What a command said on its standard error, in one line: boxes are broken where the terminal ends."""
    return " ".join(result.stderr.replace("│", " ").split())


# --- what is written is what is meant --------------------------------------------------------------------------------


@pytest.mark.slow
def test_options_are_checked_without_the_compiler_which_takes_as_long_to_import_as_torch() -> None:
    code = f"""
import sys
import torch
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.spec import Spec
Spec.parse({VALID!r})
Recipe.of("ADana")
assert "torch._dynamo" not in sys.modules
torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
assert "torch._dynamo" in sys.modules  # those that are trained are built as torch builds them
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_everything_written_is_read() -> None:
    spec = Spec.parse(VALID)
    assert (spec.name, spec.problem, spec.steps, spec.epochs, spec.batch) == ("short", "logistic", 10, None, 8)
    assert spec.seed_numbers == (0, 1)
    assert [method.name for method in spec.methods] == ["S", "M", "AdamW"]
    assert [method.step_sizes for method in spec.methods] == [(0.1, 0.2), None, (0.01,)]
    assert [method.follows for method in spec.methods] == [None, "S", None]
    assert spec.methods[2].recipe == Recipe.of("AdamW", betas=(0.8, 0.9), weight_decay=0.01)
    assert (spec.problem_choice.examples, spec.problem_choice.dtype, spec.problem_choice.sample) == (
        64,
        "float64",
        False,
    )
    assert spec.method("M").recipe["memory"] == "poly:2"


def test_seeds_are_counted_from_0_or_listed() -> None:
    assert Spec.parse(VALID.replace("seeds = 2", "seeds = [7, 3]")).seed_numbers == (7, 3)
    assert Spec.parse(VALID.replace("seeds = 2\n", "")).seed_numbers == tuple(range(10))


@pytest.mark.parametrize("problem", ["fashion-mlp", "logistic", "mine.py:make", 'quoted".py:make'])
def test_the_example_of_every_problem_can_be_read(problem: str) -> None:
    spec = Spec.parse(example_text(problem))
    assert spec.problem == problem
    assert spec.sample is (problem == "fashion-mlp")


@pytest.mark.parametrize(("written", "function"), [("mine.py:make", ":make"), ("mine.py", ""), ("sub/mine.py:m", ":m")])
def test_a_problems_file_is_found_beside_the_experiments(tmp_path: Path, written: str, function: str) -> None:
    (tmp_path / "spec.toml").write_text(VALID.replace("logistic", written))
    place = tmp_path / written.partition(":")[0]
    assert Spec.load(tmp_path / "spec.toml").problem == f"{place}{function}"


@pytest.mark.parametrize("problem", ["/elsewhere/mine.py:make", "package.module:make", "logistic"])
def test_a_problem_with_a_place_of_its_own_is_left_there(tmp_path: Path, problem: str) -> None:
    (tmp_path / "spec.toml").write_text(VALID.replace("logistic", problem))
    assert Spec.load(tmp_path / "spec.toml").problem == problem


# --- when metrics are evaluated --------------------------------------------------------------------------------------

evaluations = st.builds(Evaluate, times=st.integers(2, 300), spacing=st.sampled_from(["even", "log"]))


@given(evaluations, st.integers(1, 10**12))
@example(Evaluate(times=2, spacing="log"), 100)
def test_evaluations_are_at_the_start_the_end_and_between(evaluate: Evaluate, last: int) -> None:
    steps = evaluate.steps(last)
    assert list(steps) == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, last)
    assert isinstance(evaluate.times, int)
    assert len(steps) <= evaluate.times
    assert all(type(step) is int for step in steps)


@given(st.integers(2, 50), st.integers(1, 1000))
def test_there_are_as_many_evaluations_as_asked_for_if_there_are_steps_enough(times: int, scale: int) -> None:
    assert len(Evaluate(times=times).steps((times - 1) * scale)) == times


def test_evaluations_are_evenly_spaced_in_steps_or_in_their_logarithm() -> None:
    assert Evaluate(times=6).steps(50) == (0, 10, 20, 30, 40, 50)
    assert Evaluate(times=6, spacing="log").steps(10_000) == (0, 1, 10, 100, 1000, 10_000)


def test_metrics_may_have_numbers_of_evaluations_of_their_own() -> None:
    evaluate = Evaluate(times={"loss": 2, "step_norm": 6})
    assert evaluate.steps(50, "loss") == (0, 50)
    assert evaluate.steps(50, "step_norm") == (0, 10, 20, 30, 40, 50)


# --- what is refused, in which words ---------------------------------------------------------------------------------

METHOD = '[[methods]]\noptimizer = "SGD"\nlr = 0.1\n'
REFUSED: list[tuple[str, str, str]] = [  # what is written instead of what, and what is answered
    ("steps = 10", "steps = 0", r"steps: the number of steps is an integer from 1 to 1e12, got 0\."),
    ("steps = 10", "steps = 10.0", r"steps: .*integer.*, got 10\.0\."),
    ("steps = 10", 'steps = "10"', r"steps: .*integer.*, got '10'\."),
    ("steps = 10", "steps = true", r"steps: .*integer.*, got True\."),
    ("steps = 10", "steps = 2000000000000", r"steps: .*1e12, got 2000000000000\."),
    ("steps = 10", "epochs = -1", r"epochs: .*1 to 1e9, got -1\."),
    ("steps = 10", "", r"give either steps or epochs, got steps=None and epochs=None"),
    ("steps = 10", "steps = 10\nepochs = 2", r"give either steps or epochs, got steps=10 and epochs=2"),
    ("steps = 10", "step = 10", r"step: unknown key; did you mean 'steps'\?"),
    ("steps = 10", "steps = 10\nwhatever = 1", r"whatever: unknown key; known: problem, methods, name, steps"),
    ("batch = 8", "batch = 0", r"batch: the size of a minibatch is an integer from 1 to 1e12, or 'full', got 0\."),
    ("batch = 8", 'batch = "half"', r"batch: .*or 'full', got 'half'\."),
    ("seeds = 2", "seeds = 0", r"seeds: seeds are a number of them from 1 to 100,000, or a list .*, got 0\."),
    ("seeds = 2", "seeds = [1, 1]", r"each seed may be listed only once"),
    ("seeds = 2", "seeds = [-1]", r"seeds: .*integers from 0 to.*, got \[-1\]\."),
    ("seeds = 2", "seeds = []", r"seeds: .*, got \[\]\."),
    ("seeds = 2", "seeds = [9223372036854775808]", r"seeds: .*, got \[9223372036854775808\]\."),
    (
        "examples = 64",
        "examples = 0",
        r"examples: the number of training examples is an integer from 1 to 1e12, got 0\.",
    ),
    ('dtype = "float64"', 'dtype = "float16"', r"dtype: the precision is 'float32' or 'float64', got 'float16'\."),
    ('metrics = ["loss", "step_norm"]', 'metrics = "loss"', r"metrics: metrics are a list of names, got 'loss'\."),
    ('metrics = ["loss", "step_norm"]', "metrics = []", r"metrics: metrics are a list of names, got \[\]\."),
    ('name = "short"', 'name = ""', r"name: .*, got ''\."),
    ('problem = "logistic"', "", r"problem: is missing\."),
    ('problem = "logistic"', "problem = 3", r"problem: .*string, got 3\."),
    ("times = 3", "times = 1", r"evaluate\.times: .*integer from 2 to 100,000, or a table .*, got 1\."),
    ("times = 3", "times = { loss = 1 }", r"evaluate\.times: .*integer from 2 to 100,000, or a table .*\."),
    ("times = 3", "gradient_examples = 0", r"evaluate\.gradient_examples: .*greater than or equal to 1, got 0\."),
    ("times = 3", "loss_examples = 0", r"evaluate\.loss_examples: .*greater than or equal to 1, got 0\."),
    ("times = 3", "time = 3", r"evaluate\.time: unknown key; did you mean 'times'\?"),
    ('spacing = "log"', 'spacing = "cubic"', r"evaluate\.spacing: .*'even' or 'log', got 'cubic'\."),
    ("last = 0.5", "last = 0.0", r"select\.last: .*greater than 0, got 0\.0\."),
    ("last = 0.5", "last = nan", r"select\.last: .*, got nan\."),
    ('goal = "min"', 'goal = "best"', r"select\.goal: .*'min' or 'max', got 'best'\."),
    ('goal = "min"', 'gaol = "min"', r"select\.gaol: unknown key; did you mean 'goal'\?"),
    (
        'metric = "loss"',
        'metric = "step_norm"',
        r"select\.metric: step sizes cannot be selected by the length of steps; use the loss",
    ),
    ("lr = 0.01", "lr = 0", r"methods\[2\]\.lr: a step size is a number > 0, a list of them, .*, got 0\."),
    ("lr = 0.01", "lr = -0.5", r"methods\[2\]\.lr: .*, got -0\.5\."),
    ("lr = 0.01", "lr = inf", r"methods\[2\]\.lr: .*, got inf\."),
    ("lr = 0.01", "lr = nan", r"methods\[2\]\.lr: .*, got nan\."),
    ("lr = 0.01", f"lr = 1{'0' * 400}", r"methods\[2\]\.lr: .*, got 1000*\.\.\.\."),
    ("lr = 0.01", "lr = []", r"methods\[2\]\.lr: .*, got \[\]\."),
    ("lr = 0.01", "lr = [0.1, 0.1]", r"methods\[2\]\.lr: .*each once.*, got \[0\.1, 0\.1\]\."),
    ("lr = 0.01", 'lr = "fast"', r"methods\[2\]\.lr: .*or 'best of NAME' with another method's name, got 'fast'\."),
    ("lr = 0.01", 'lr = "best of "', r"methods\[2\]\.lr: .*'best of NAME'.*, got 'best of '\."),
    ("lr = 0.01", "", r"methods\[2\]\.lr: is missing\."),
    ('optimizer = "AdamW"', "", r"methods\[2\]\.optimizer: is missing\."),
    (
        'optimizer = "AdamW"',
        'optimizer = "AdamWW"',
        r"methods\[2\]\.optimizer: unknown optimizer 'AdamWW'; did you mean 'AdamW'\?",
    ),
    (
        'optimizer = "AdamW"',
        'optimizer = "Memory"',
        r"methods\[2\]\.optimizer: unknown optimizer 'Memory'\. Known: .*ADana",
    ),
    ('optimizer = "AdamW"', 'optimizer = "LBFGS"', r"methods\[2\]\.optimizer: LBFGS .*"),
    (
        'optimizer = "AdamW"',
        'optimizer = "no_such:Class"',
        r"methods\[2\]\.optimizer: optimizer 'no_such:Class' .*No module named 'no_such'\.$",
    ),
    (
        'optimizer = "AdamW"',
        'optimizer = ".x:Class"',
        r"methods\[2\]\.optimizer: an optimizer cannot be in '\.x', .*module",
    ),
    ('optimizer = "AdamW"', 'optimizer = ":"', r"methods\[2\]\.optimizer: an optimizer cannot be in '', .*module"),
    ('optimizer = "AdamW"', 'optimizer = "os:path"', r"methods\[2\]\.optimizer: unknown optimizer 'os:path'"),
    (
        "weight_decay = 0.01",
        "wieght_decay = 0",
        r"methods\[2\]\.wieght_decay: AdamW has no option 'wieght_decay'; did you mean 'weight_decay'\?",
    ),
    (
        "weight_decay = 0.01",
        "weight_decay = -1",
        r"methods\[2\]\.weight_decay: AdamW refuses weight_decay=-1: Invalid weight_decay value: -1",
    ),
    ("weight_decay = 0.01", f"weight_decay = 1{'0' * 400}", r"methods\[2\]\.weight_decay: AdamW .*weight_decay"),
    ("weight_decay = 0.01", "maximize = true", r"methods\[2\]\.maximize: AdamW has no option 'maximize'"),
    ("betas = [0.8, 0.9]", "betas = 0.8", r"methods\[2\]\.betas: AdamW refuses betas=0\.8"),
    (
        "betas = [0.8, 0.9]",
        "betas = [0.8, true]",
        r"methods\[2\]\.betas: AdamW needs numbers in betas, got \[0\.8, True\]",
    ),
    ("betas = [0.8, 0.9]", f"betas = [0.8, 1{'0' * 400}]", r"methods\[2\]\.betas: AdamW .*betas"),
    (
        "betas = [0.8, 0.9]",
        "betas = 2026-01-01",
        r"methods\[2\]\.betas: AdamW needs a number, text or list of numbers for betas",
    ),
    ('memory = "poly:2"', 'memory = "poli:2"', r"methods\[1\]\.memory: unknown memory"),
    (
        'optimizer = "AdamW"\nbetas = [0.8, 0.9]\nweight_decay = 0.01',
        'optimizer = "HeavyBall"\nmomentum = 1.5\nweight_decay = 0.01',
        r"methods\[2\]\.momentum: HeavyBall refuses momentum=1\.5: .* needs .*momentum.* 1, got momentum=1\.5\.$",
    ),
    (
        'optimizer = "AdamW"\nbetas = [0.8, 0.9]\nweight_decay = 0.01',
        'optimizer = "HeavyBall"\nmomentum = 0.9\nviscosity = 3',
        r"methods\[2\]\.momentum: HeavyBall refuses momentum=0\.9: .*takes one of momentum and viscosity",
    ),
    ('memory = "poly:2"', 'memory = "poly:-2"', r"methods\[1\]\.memory: Polynomial memory needs .*p > 0, got p=-2"),
    ('memory = "poly:2"', 'memory = "log:x"', r"methods\[1\]\.memory: memory 'log:x' needs a number"),
    (
        'memory = "poly:2"',
        "memory = 2",
        r"methods\[1\]\.memory: MemSGD needs memory in text form, such as 'poly:2', got 2",
    ),
    (
        '"best of S"',
        '"best of Adamw"',
        r"method 'M' takes the best step size of 'Adamw', .*\(known: S, AdamW\); did you mean 'AdamW'\?",
    ),
    ('"best of S"', '"best of M"', r"method 'M' takes the best step size of 'M', .*\(known: S, AdamW\)"),
    ('name = "M"', 'name = "S"', r"two methods are called 'S'; give them different names"),
    ("[[methods]]", "[methods]", r"not TOML"),
]


@pytest.mark.parametrize(("written", "instead", "answer"), REFUSED, ids=[f"{i}" for i in range(len(REFUSED))])
def test_bad_input_is_answered_by_file_key_rule_and_value(written: str, instead: str, answer: str) -> None:
    assert written in VALID
    with pytest.raises(ValueError, match=rf"(?m)^my\.toml: {answer}") as refused:
        Spec.parse(VALID.replace(written, instead), where="my.toml")
    assert "Traceback" not in str(refused.value)
    assert "pydantic" not in str(refused.value)


def test_every_complaint_is_a_line_and_is_made_once() -> None:
    with pytest.raises(ValueError, match="steps") as refused:
        Spec.parse(VALID.replace("steps = 10", 'steps = "x"').replace("seeds = 2", "seeds = -1"), where="my.toml")
    lines = str(refused.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["steps", "seeds"]


def test_a_method_that_is_not_there_is_answered_by_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"experiment 'short' has no method 'Adam'; did you mean 'AdamW'\? It has S, M"
    ):
        Spec.parse(VALID).method("Adam")


@pytest.mark.parametrize("name", ["LBFGS", "SparseAdam"])
def test_optimizers_that_need_other_gradients_are_refused_before_anything_is_trained(name: str) -> None:
    assert name not in optimizer_names()
    with pytest.raises(ValueError, match=name):
        Recipe.of(name)


def test_every_optimizer_that_is_listed_can_be_had_by_its_name() -> None:
    for name in optimizer_names():
        assert optimizer_class(name).__name__ == name
        assert Recipe.of(name) == Recipe.from_dict(json.loads(json.dumps(Recipe.of(name).to_dict())))


def test_an_optimizer_whose_module_is_broken_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_optimizer_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"broken_optimizer_module:Mine. could not be made: .*division by zero"):
        Recipe.of("broken_optimizer_module:Mine")


# --- files that are not experiments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"", r"problem: is missing"),
        (b"\xff\xfe\x00", r"not a text file in UTF-8"),
        (b"a\x00b", r"not TOML"),
        (b"x = " + b"[" * 5000, r"not TOML"),
        (b"x = " + b"[" * 400 + b"]" * 400, r"unknown key"),
        (b"steps = " + b"9" * 5000, r"not TOML"),
        (b"steps = 0x" + b"f" * 5000, r"steps"),
        (b"steps = nan", r"steps"),
        (b"methods = 3", r"methods: .*write \[\[methods\]\].*, got 3"),
        (b"methods = [3]", r"methods\[0\]"),
        (b"methods = [{}]", r"methods\[0\]\.optimizer: is missing"),
        (b"[methods.lr]", r"methods"),
        (b"[evaluate]\n[evaluate.times]", r"evaluate\.times"),
        (b'problem = "a\\u0000b"\nsteps = 1\n' + METHOD.encode(), r"problem: .*"),
    ],
    ids=range(14),
)
def test_files_that_are_no_experiments_are_named(tmp_path: Path, content: bytes, answer: str) -> None:
    (tmp_path / "spec.toml").write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?s)spec\.toml: .*{answer}") as refused:
        Spec.load(tmp_path / "spec.toml")
    assert "spec.toml" in str(refused.value)
    assert len(str(refused.value)) < 2000
    for command in ("plan", "run"):
        result = invoke(command, str(tmp_path / "spec.toml"), "--store", str(tmp_path / "store"))
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
    assert not (tmp_path / "store").exists()


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "no.toml", "No such file")):
        result = invoke("run", str(path), "--store", str(tmp_path / "store"))
        assert result.exit_code == 1
        assert reason in said(result)
        assert path.name in said(result)
        assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    ("written", "instead", "answer"),
    [
        ('problem = "logistic"', 'problem = "logistics"', "did you mean 'logistic'?"),
        ('problem = "logistic"', 'problem = "mine.py:make"', "No such file"),
        ("batch = 8", "batch = 65", 'a minibatch has at most as many, got batch=65. Write batch = "full" for all.'),
        ("examples = 64", "examples = 1001", "has 1,000 training examples"),
        ('metrics = ["loss", "step_norm"]', 'metrics = ["loss", "los"]', "has no metric 'los'; it has loss"),
        ('metrics = ["loss", "step_norm"]', 'metrics = ["gradient_norm"]', "selected by 'loss', which is not in metri"),
        ('metric = "loss"', 'metric = "accuracy"', "has no metric 'accuracy'"),
        ("steps = 10", "steps = 10\nsample = true", "has no sample"),
    ],
)
def test_what_the_problem_refuses_is_said_before_anything_is_trained(
    tmp_path: Path, written: str, instead: str, answer: str
) -> None:
    (tmp_path / "spec.toml").write_text(VALID.replace(written, instead))
    for command in ("plan", "run"):
        result = invoke(command, str(tmp_path / "spec.toml"), "--store", str(tmp_path / "store"))
        assert result.exit_code in (1, 2)
        assert isinstance(result.exception, SystemExit)
        assert answer in said(result), result.output


# --- whatever is written ---------------------------------------------------------------------------------------------

TIMES = st.datetimes() | st.dates() | st.times()
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400), 2**63, 10**12])
    | st.floats()
    | st.text(max_size=20)
    | TIMES
)
KEYS = st.sampled_from([*Spec.model_fields, *Evaluate.model_fields, "optimizer", "lr", "memory", "betas"]) | st.text(
    max_size=8
)
DATA = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def plain(data: Any) -> dict[str, Any]:
    """A valid experiment, as data."""
    return json.loads(json.dumps(data))


BASE: dict[str, Any] = {
    "problem": "logistic",
    "steps": 10,
    "methods": [{"optimizer": "SGD", "lr": [0.1]}, {"optimizer": "MemSGD", "memory": "poly:2", "lr": "best of SGD"}],
    "evaluate": {"times": 3},
    "select": {"metric": "loss"},
}


def places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in nested data."""
    yield place
    for key in data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield from places(data[key], (*place, key))


def tried(make: Callable[[], Spec]) -> tuple[Spec | None, str]:
    """The experiment, or why it was refused. Any other error is not caught: it fails the test."""
    try:
        return make(), ""
    except ValueError as error:
        return None, str(error)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(KEYS, DATA, max_size=6))
def test_data_of_any_shape_make_an_experiment_or_a_value_error(data: dict[str, Any]) -> None:
    spec, answer = tried(lambda: Spec.of(data))
    assert spec or answer.startswith("spec: ")


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(list(places(BASE))[1:]))
def test_one_change_of_an_experiment_makes_an_experiment_or_a_value_error(data: st.DataObject, place: Any) -> None:
    changed = plain(BASE)
    inside = changed
    for key in place[:-1]:
        inside = inside[key]
    if isinstance(inside, dict) and data.draw(st.booleans()):
        inside[data.draw(KEYS)] = data.draw(DATA)
    else:
        inside[place[-1]] = data.draw(DATA)
    spec, answer = tried(lambda: Spec.of(changed))
    assert answer.startswith("spec: ") if spec is None else all(method.recipe for method in spec.methods)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(VALID)), st.integers(0, 30), st.text(max_size=6)), min_size=1, max_size=3))
def test_changed_texts_make_an_experiment_or_a_value_error(changes: list[tuple[int, int, str]]) -> None:
    text = VALID
    for start, length, instead in changes:
        text = text[:start] + instead + text[start + length :]
    spec, answer = tried(lambda: Spec.parse(text))
    assert spec or answer.startswith("spec: ")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200)
    | st.tuples(st.integers(0, len(VALID)), st.binary(max_size=6)).map(
        lambda change: VALID.encode()[: change[0]] + change[1] + VALID.encode()[change[0] :]
    )
)
def test_no_file_ends_in_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    def trained(*_: object, **__: object) -> None:
        raise ValueError("trained")

    # What would be trained is not the question here, and may take long.
    monkeypatch.setattr("memgrad.experiments.planning.preview.cost_of", trained)
    monkeypatch.setattr("memgrad.experiments.driver.run_groups_of", trained)
    path = tmp_path / "spec.toml"
    path.write_bytes(content)
    for command in ("plan", "run"):
        result = invoke(command, str(path), "--store", str(tmp_path / "store"))
        assert result.exit_code in (1, 2), result.output
        assert isinstance(result.exception, SystemExit)


def test_dates_are_answered_like_any_other_value() -> None:
    with pytest.raises(ValueError, match=r"spec: steps: .*got datetime\.date\(2026, 1, 1\)"):
        Spec.of({**BASE, "steps": datetime.date(2026, 1, 1)})


WITH_ACCURACY: dict[str, Any] = {
    "problem": "covtype-softmax",
    "sample": True,
    "steps": 10,
    "seeds": 3,
    "evaluate": {"times": 2},
    "metrics": ["loss", "accuracy"],
}


METHODS = [{"name": name, "optimizer": "SGD", "lr": lr} for name, lr in (("A", 0.1), ("B", 0.2), ("C", 0.3))]


def test_what_selects_by_no_loss_says_whether_more_is_better() -> None:
    with pytest.raises(ValueError, match="say whether less or more of 'accuracy' is better: goal = \"min\" or"):
        Spec.of({**WITH_ACCURACY, "select": {"metric": "accuracy"}, "methods": METHODS})
    for select in ({"metric": "accuracy", "goal": "max"}, {"metric": "loss"}, {"metric": "loss@poly:2"}):
        metrics = ["loss", "accuracy", "loss@poly:2"]
        Spec.of({**WITH_ACCURACY, "metrics": metrics, "select": select, "methods": METHODS})


def test_methods_with_one_bracket_are_answered_by_two() -> None:
    with pytest.raises(ValueError, match=r"methods: each method is a table of its own: write \[\[methods\]\]"):
        Spec.parse('problem = "logistic"\nepochs = 1\nseeds = 1\n[methods]\noptimizer = "SGD"\nlr = 0.1\n')


def test_a_copy_of_a_copy_and_a_copied_schedule_that_is_too_long_are_refused_before_training() -> None:
    copies = [{"name": "B", "optimizer": "best of A", "lr": [0.1]}, {"name": "C", "optimizer": "best of B", "lr": 0.1}]
    with pytest.raises(ValueError, match="'C' has the optimizer of 'B', which has that of 'A' itself; name that one"):
        small_spec(SGD, *copies)
    long = {**SGD, "schedule": "linear(warmup=15)"}
    with pytest.raises(ValueError, match=r"methods\[0\]\.schedule"):
        small_spec(long, {"name": "B", "optimizer": "best of A", "steps_factor": 0.5})


def test_the_metric_that_selects_and_the_times_of_metrics_are_read_as_metrics_are() -> None:
    spec = small_spec(
        SGD,
        metrics=["loss", "loss@p=2"],
        select={"metric": "loss@p=2"},
        evaluate={"times": {"loss": 3, "loss@p=2": 2}},
    )
    assert spec.select.metric == "loss@poly:2"
    assert trained_here(spec).final("A", "loss@poly:2").shape == (2,)


def test_a_method_may_not_have_the_name_of_a_variant() -> None:
    grid = {"name": "A", "optimizer": "MemSGD", "lr": 1.0, "grid": {"memory": ["poly:2", "poly:4"]}}
    with pytest.raises(ValueError, match=r"two methods are called 'A \[memory=poly:2\]'; give them different names"):
        small_spec(grid, {**SGD, "name": "A [memory=poly:2]"})
