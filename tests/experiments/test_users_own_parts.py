"""Problems, optimizers and stores of users: what is not trained, nested state, modules, chunks of other versions."""

from __future__ import annotations

import json
import math
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import SGD, SMALL, chunk_from, run_of
from torch import nn

from memgrad.experiments import LocalEngine, Spec, execute
from memgrad.experiments.digests import initial_seed
from memgrad.experiments.planning.plan import run_groups
from memgrad.experiments.planning.problem_choice import (
    Facts,
    OtherProblemError,
    ProblemChoice,
    facts_about,
    refuse_other,
)
from memgrad.experiments.planning.recipe import Recipe
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.storing import chunk as chunks
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.checkpoint import Checkpoint
from memgrad.experiments.training.events import Finished, Saved
from memgrad.experiments.training.nested import UnsavableError, packed, unpacked
from memgrad.experiments.training.train import Training
from memgrad.problems import Problem
from memgrad.statistics import paired_p_value
from memgrad.user_code import Reference

OPTIMIZERS = """
import numpy as np
import torch


class Own(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            self.before(group)
            for p in group["params"]:
                p.sub_(self.direction(p), alpha=group["lr"] * group.get("scale", [1.0])[0])

    def before(self, group):
        pass

    def direction(self, p):
        return p.grad


class History(Own):
    "The mean of the last three gradients, which are kept in a list."

    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    def direction(self, p):
        past = self.state[p].setdefault("past", [])
        past.append(p.grad.clone())
        del past[:-3]
        return sum(past) / len(past)


class Shrinking(Own):
    "A factor in a list of the group, which falls at every step, and a count that is NumPy's."

    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr, scale=[1.0], count=np.int64(0)))

    def before(self, group):
        group["count"] += 1
        group["scale"] = [1.0 / float(group["count"])]


class Odd(Own):
    "Keeps a set, which no checkpoint can hold."

    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    def direction(self, p):
        self.state[p]["odd"] = {1, 2}
        return p.grad


class Final(Own):
    "An option that depends on the learning rate unless it is given, and one that does not."

    def __init__(self, params, lr=0.1, final_lr=None, power=None, hook=None):
        given = lr / 100 if final_lr is None else final_lr
        hook = (lambda: None) if hook is None else hook
        super().__init__(params, dict(lr=lr, final_lr=given, power=0.5 if power is None else power, hook=hook))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OPTIMIZERS)
    return tmp_path


def data(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + shape[-1]))


def problem_of(make_model: type[nn.Module], *, l2: float = 0.0) -> Problem:
    return Problem(
        "own", (data(64, 3), data(64, 1)), make_model, nn.functional.mse_loss, l2=l2, batch_size=16, stack_width=4
    )


def run(recipe: Recipe, *, seed: int = 0, batch: int | None = 16, steps: int = 30) -> Run:
    return Run("own", "f", 64, None, batch, steps, (0, steps), ("loss",), recipe, 0.1, seed)


def trained(problem: Problem, *runs: Run) -> Training:
    training = Training(problem, runs)
    *_, end = training.events()
    assert isinstance(end, Finished)
    return training


# --- what is not trained ---------------------------------------------------------------------------------------------


class RandomFeatures(nn.Module):
    """A random projection in a buffer, then a layer that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("features", torch.randn(3, 8))
        self.layer = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.tanh(x @ self.features))  # type: ignore[no-any-return, operator]  # modules are typed so


class FrozenLayer(nn.Module):
    """The same with the projection in a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 8).requires_grad_(False)
        self.layer = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.tanh(self.first(x)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("model", [RandomFeatures, FrozenLayer])
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("batch", [16, None])
def test_runs_alone_and_in_a_stack_train_the_same_parameters_of_the_same_model(
    model: type[nn.Module], l2: float, batch: int | None
) -> None:
    problem, recipe = problem_of(model, l2=l2), Recipe.of("SGD")
    both = [run(recipe, seed=seed, batch=batch) for seed in (3, 4)]
    stack = trained(problem, *both)
    for i, each in enumerate(both):
        alone = trained(problem, each)
        assert set(alone._program.parameters) == {"layer.weight", "layer.bias"}
        for name, p in alone._program.parameters.items():
            torch.testing.assert_close(p[0], stack._program.parameters[name][i])


@pytest.mark.parametrize("model", [RandomFeatures, FrozenLayer])
def test_the_stored_loss_is_that_of_the_model_that_was_trained(model: type[nn.Module]) -> None:
    """By hand: gradient descent on one model object, built with the run's seed and the buffers of all runs."""
    problem = problem_of(model)
    training = trained(problem, run(Recipe.of("SGD"), seed=5, batch=None))
    by_hand = problem.model(initial_seed("own", 5))
    for _ in range(30):
        by_hand.zero_grad()
        nn.functional.mse_loss(by_hand(problem.train[0]), problem.train[1]).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for p in by_hand.parameters():
                if p.grad is not None:
                    p -= 0.1 * p.grad
    loss = nn.functional.mse_loss(by_hand(problem.train[0]), problem.train[1]).item()
    assert training._values["loss"][-1][0] == pytest.approx(loss, rel=1e-5)
    first, second = problem.model(1), problem.model(2)
    assert not torch.equal(*(m.get_parameter("layer.weight") for m in (first, second)))
    name = "features" if model is RandomFeatures else "first.weight"
    assert torch.equal(first.state_dict()[name], second.state_dict()[name])


OWN_PROBLEM = """
import torch
from torch import nn
from memgrad.problems import Problem

def layer():
    made = nn.Linear(2, 1)
    made.bias.requires_grad_(False).fill_(1.0)
    return made

def problem():
    return Problem("p", (torch.eye(2), torch.ones(2, 1)), layer, nn.functional.mse_loss)
"""


def fingerprint(place: Path, text: str, ending: str = ":problem") -> str:
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    choice = ProblemChoice(f"{place}{ending}")
    return facts_about(choice, choice.load()).fingerprint


def test_frozen_parameters_are_part_of_a_problems_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is frozen comes from elsewhere, so that the text of the file is the same.
    text = OWN_PROBLEM.replace("fill_(1.0)", "fill_(float(__import__('os').environ['FROZEN']))")
    found = set()
    for value in ("1.0", "2.0"):
        monkeypatch.setenv("FROZEN", value)
        found.add(fingerprint(tmp_path / "mine.py", text))
    assert len(found) == 2


def test_the_folder_of_a_problem_without_a_name_does_not_matter(tmp_path: Path) -> None:
    places = [tmp_path / name / "mine.py" for name in ("a", "b")]
    assert len({fingerprint(place, OWN_PROBLEM, ending) for place in places for ending in ("", ":problem")}) == 1


# --- optimizers of users ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["History", "Shrinking"])
def test_a_run_whose_optimizer_keeps_lists_resumes_to_the_same_bits(name: str, folder: Path) -> None:
    problem = problem_of(lambda: nn.Linear(3, 1))  # type: ignore[arg-type]
    own = run(Recipe.read(f"own.py:{name}", {}, folder=folder))
    whole = trained(problem, own)
    begun = Training(problem, (own,))
    for _ in range(13):
        begun.step()
    resumed = Training(problem, (own,), Checkpoint.from_bytes(begun.save()))
    for _ in range(17):
        resumed.step()
    for p, q in zip(whole._program.parameters.values(), resumed._program.parameters.values(), strict=True):
        assert torch.equal(p, q)


def test_what_no_checkpoint_can_hold_is_said_and_training_goes_on(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = run(Recipe.read("own.py:Odd", {}, folder=folder))
    events = list(Training(problem_of(lambda: nn.Linear(3, 1)), (own,)).events(save_every=0.0))  # type: ignore[arg-type]
    assert isinstance(events[-1], Finished)
    assert not any(isinstance(each, Saved) for each in events)
    assert [r.message for r in caplog.records] == [
        "No checkpoint: own.py:Odd keeps 'odd' in its state: set values cannot be kept in a checkpoint. If it is "
        "stopped, this run starts again."
    ]


plain = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=3)
nested = st.recursive(
    plain,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.tuples(inside, inside)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 9), inside, max_size=3)
    ),
    max_leaves=8,
)


@given(nested)
def test_nested_values_survive_json(value: object) -> None:
    again = unpacked(json.loads(json.dumps(packed(value, []))), [])
    assert again == value
    assert repr(again) == repr(value)  # tuples stay tuples, and 1 is not 1.0


def test_tensors_are_kept_beside_and_what_is_unknown_is_refused() -> None:
    tensors: list[torch.Tensor] = []
    text = json.dumps(packed({"a": [torch.ones(2), (torch.zeros(1), 3)]}, tensors))
    again = unpacked(json.loads(text), tensors)
    assert torch.equal(again["a"][0], torch.ones(2))
    assert torch.equal(again["a"][1][0], torch.zeros(1))
    with pytest.raises(UnsavableError, match="set values cannot be kept"):
        packed([{1}], [])


def test_an_option_that_depends_on_the_learning_rate_is_left_to_the_optimizer(folder: Path) -> None:
    recipe = Recipe.read("own.py:Final", {}, folder=folder)
    assert dict(recipe.options) == {"final_lr": None, "power": 0.5, "hook": None}
    for lr in (1.0, 0.1, 0.001):
        built = recipe.build([nn.Parameter(torch.zeros(1))], lr)
        assert built.param_groups[0]["final_lr"] == pytest.approx(lr / 100)
    assert Recipe.read("own.py:Final", {"final_lr": 0.25}, folder=folder)["final_lr"] == 0.25


def test_a_module_that_the_user_works_on_is_part_of_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worked_on").mkdir()
    (tmp_path / "worked_on" / "__init__.py").touch()
    place = tmp_path / "worked_on" / "mine.py"
    place.write_text("import torch\n\nclass Mine(torch.optim.SGD):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    name = "worked_on.mine:Mine"
    first = Recipe.read(name, {}, folder=tmp_path)
    assert [own.label for own in first.code] == [name]
    place.write_text("import torch\n\nclass Mine(torch.optim.SGD):\n    changed = True\n")
    assert Recipe.read(name, {}, folder=tmp_path).to_dict() != first.to_dict()
    assert Reference.parse("torch.optim:SGD").is_installed()
    assert Reference.parse("no_such_package.module:Class").is_installed()


def test_code_below_the_prefix_of_python_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In containers the prefix is often /usr/local, and the user's code below it."""
    (tmp_path / "below_the_prefix.py").touch()
    monkeypatch.chdir(tmp_path)
    own = dict(sysconfig.get_paths())
    monkeypatch.setattr(sysconfig, "get_paths", lambda *_: {**own, "data": str(tmp_path), "scripts": str(tmp_path)})
    assert not Reference.parse("below_the_prefix:Class").is_installed()
    assert Reference.parse("json.decoder:JSONDecoder").is_installed()


# --- groups, grids, stores and tests ---------------------------------------------------------------------------------


def test_a_run_that_is_refused_does_not_take_its_neighbors_with_it() -> None:
    facts = Facts("own", "f", 64, 16, 8, ("loss",), 1000)
    too_much = Recipe.of("MemAdam", weight_decay="decay=4/t")
    runs = [run(Recipe.of("MemSGD", memory="poly:2"), seed=seed) for seed in range(3)]
    runs += [replace(run(too_much), lr=lr) for lr in (0.01, 0.25, 0.26)]  # of 4 lr, at the first step
    sizes = {each.digest: len(group.runs) for group in run_groups(runs, facts, width=8) for each in group.runs}
    assert [sizes[each.digest] for each in runs] == [5, 5, 5, 5, 5, 1]


def test_a_grid_is_counted_before_it_is_made() -> None:
    values = list(range(40))
    grid = dict.fromkeys(("beta1", "beta2", "eps", "weight_decay", "clip", "momentum"), values)
    method = {"optimizer": "AdamW", "lr": 1.0, "grid": grid}
    with pytest.raises(ValueError, match=r"combinations are tried, got 4,096,000,000"):
        Spec.of({"problem": "logistic", "steps": 5, "methods": [method]})


def test_a_whole_chunk_of_another_version_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path)
    with store.writing():
        store.write(chunk_from([run_of("SGD", lr=0.1, seed=0)], lambda run, step: 1.0))
    there = sorted(path.name for path in (tmp_path / "chunks").iterdir())
    real = Run.from_dict
    monkeypatch.setattr(chunks.Run, "from_dict", lambda data: real({**data, "from_the_future": 1}))
    with pytest.raises(ValueError, match=r"is of another version of memgrad .*; use the version that wrote it"):
        Store.open(tmp_path).digests()
    assert sorted(path.name for path in (tmp_path / "chunks").iterdir()) == there


def test_tiny_differences_have_a_p_value() -> None:
    assert paired_p_value([1e-200, 2e-200, 3e-200], [0.0, 0.0, 0.0]) == pytest.approx(
        paired_p_value([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    )
    assert math.isfinite(paired_p_value([1e-300, -1e-300], [0.0, 0.0]))


PROBLEM = """
from pathlib import Path

import torch
from torch import nn

from memgrad.problems import Problem

def problem():
    scale = float((Path(__file__).parent / "scale.txt").read_text())
    x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
    return Problem("mine", (x, scale * x[:, :1]), lambda: nn.Linear(2, 1), nn.functional.mse_loss, batch_size=8)
"""


def test_an_engine_that_is_kept_trains_the_problem_that_was_planned(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROBLEM)
    table = {"problem": f"{tmp_path / 'mine.py'}:problem", "steps": 5, "seeds": 1}
    spec = Spec.of({**table, "methods": [{"optimizer": "SGD", "lr": 0.1}]})

    def losses(engine: LocalEngine, name: str, *, close: bool) -> list[float]:
        store = Store.open(tmp_path / name)
        assert not execute(spec, store, engine, close=close).failed
        rows = store.read()
        return rows.value[rows.metric == "loss"].tolist()

    kept = LocalEngine(1)
    (tmp_path / "scale.txt").write_text("1")
    one = losses(kept, "one", close=False)
    (tmp_path / "scale.txt").write_text("3")
    three = losses(kept, "three", close=True)
    assert three != one
    assert three == losses(LocalEngine(1), "again", close=True)


def test_buffers_are_part_of_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        PROBLEM.replace("scale * x[:, :1]", "x[:, :1]").replace("lambda: nn.Linear(2, 1)", "lambda: Scaled(scale)")
        + """
class Scaled(nn.Linear):
    def __init__(self, scale):
        super().__init__(2, 1)
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, x):
        return self.scale * super().forward(x)
"""
    )
    fingerprints = []
    for scale in ("1", "5", "1"):
        (tmp_path / "scale.txt").write_text(scale)
        choice = ProblemChoice(f"{path}:problem")
        fingerprints.append(facts_about(choice, choice.load()).fingerprint)
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


OWN = """
import torch
from functools import partial
from memgrad.problems import Problem

def problem(smoothing=0.0, data=""):
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    loss = partial(torch.nn.functional.cross_entropy, label_smoothing=smoothing)
    return Problem("own", (x, y), lambda: torch.nn.Linear(3, 2), loss)
"""


def test_an_option_of_a_users_problem_makes_other_runs(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    common = {**SMALL, "problem": "own.py:problem", "sample": False, "methods": [SGD]}
    found = {}
    for options in ({}, {"smoothing": 0.0}, {"smoothing": 0.9}):
        spec = Spec.of({**common, "options": options}, folder=tmp_path)
        facts = facts_about(spec.problem_choice, spec.problem_choice.load())
        found[str(options)] = facts.fingerprint
    assert len(set(found.values())) == 3


def test_the_folder_of_a_file_that_an_option_names_does_not_matter(tmp_path: Path) -> None:
    found = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.py").write_text(OWN)
        (tmp_path / name / "x.txt").write_text("abc")
        own = {"problem": "own.py:problem", "sample": False, "methods": [SGD], "options": {"data": "x.txt"}}
        spec = Spec.of({**SMALL, **own}, folder=tmp_path / name)
        assert Path(str(dict(spec.problem_choice.options)["data"])).is_absolute()
        found.add(facts_about(spec.problem_choice, spec.problem_choice.load()).fingerprint)
    assert len(found) == 1


def test_a_text_file_that_changes_after_planning_is_refused_by_a_worker(tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text(400 * "hello, world. ")
    choice = ProblemChoice("char-transformer", options=(("context", 8), ("data", str(text)), ("width", 16)))
    facts = facts_about(choice, choice.load())
    refuse_other(choice.load(), facts.parts)
    text.write_text(400 * "something else. ")
    with pytest.raises(OtherProblemError, match="or its file has changed since"):
        refuse_other(choice.load(), facts.parts)
    assert not facts_about(ProblemChoice("logistic"), ProblemChoice("logistic").load()).parts
