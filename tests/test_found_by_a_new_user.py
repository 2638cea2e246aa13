"""What a new user tried, and was not answered well: each case as it was typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from typer.testing import CliRunner

import memgrad
from memgrad import ADana, AdEMAMix, AggMo, HeavyBall, MemAdam, MemSGD, Nesterov, PolyAdam
from memgrad.cli import app
from memgrad.experiments.planning.spec import Spec
from memgrad.method import METHODS, Method
from memgrad.problems import Problem, check_problem


def trained(make: Callable[..., torch.optim.Optimizer]) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(3, 2)
    optimizer = make(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_what_is_not_a_state_dict_is_refused_with_the_part_that_is_one() -> None:
    model, optimizer = trained(lambda params: MemSGD(params, lr=0.1))
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with pytest.raises(
        ValueError, match=r"has the keys model, optimizer: load its entry 'optimizer'\. Nothing"
    ) as error:
        optimizer.load_state_dict(whole)
    assert len(str(error.value)) < 300
    with pytest.raises(
        ValueError, match=r"has the keys weight, bias: load what the optimizer's state_dict\(\) returned"
    ):
        optimizer.load_state_dict(model.state_dict())
    optimizer.load_state_dict(whole["optimizer"])


def test_a_checkpoint_of_torch_is_refused_with_the_way_to_continue_it() -> None:
    _, adamw = trained(torch.optim.AdamW)
    with pytest.raises(ValueError, match=r"amsgrad, betas; nothing was loaded.* pass that optimizer to from_torch"):
        MemAdam([torch.zeros(1)]).load_state_dict(adamw.state_dict())
    assert memgrad.from_torch(adamw).param_groups[0]["second_memory"] == "exp:0.999"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: MemSGD(p, momentum=0.9), TypeError, "'momentum'. Here memory='exp:0.9' .* at ten times the lr"),
        (
            lambda p: MemAdam(p, betas=(0.9, 0.99)),
            TypeError,
            "'betas'. Here memory='exp:0.9', second_memory='exp:0.999'",
        ),
        (lambda p: PolyAdam(p, betas=(0.9, 0.99)), TypeError, "'betas'. Did you mean 'beta'"),
        (lambda p: ADana(p, weight_decay=0.1), TypeError, r"'weight_decay'. Here the weight decay is omega/\(k\+1\)"),
        (lambda p: MemSGD(p, memmory="poly:2"), TypeError, "'memmory'. Did you mean 'memory'"),
        (lambda p: MemSGD(p, colour="red"), TypeError, "MemSGD got an unexpected keyword argument 'colour'.$"),
        (lambda p: ADana([{"params": p, "weight_decay": 0.0}]), ValueError, r"Here the weight decay is omega/\(k\+1\)"),
        (lambda p: MemSGD([{"params": p, "learning_rate": 0.1}]), ValueError, "Here the learning rate is lr"),
        (lambda p: MemSGD([{"params": p, "wd": 0.1}]), ValueError, "Here the weight decay is weight_decay"),
        (lambda p: AggMo(p, betas=0.9), TypeError, "several numbers 0 <= beta < 1, such as .*, got betas=0.9"),
    ],
)
def test_options_of_others_are_refused_with_what_they_are_here(
    make: Callable[..., Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make([nn.Parameter(torch.zeros(2))])


def test_ten_times_the_learning_rate_makes_an_average_of_a_momentum() -> None:
    x, y = (nn.Parameter(torch.zeros(2, dtype=torch.float64)) for _ in range(2))
    ours, theirs = MemSGD([x], lr=1.0, memory="exp:0.9"), torch.optim.SGD([y], lr=0.1, momentum=0.9)
    moved = []
    for _ in range(400):
        before = x.clone(), y.clone()
        x.grad, y.grad = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
        ours.step(), theirs.step()
        moved.append(((x - before[0])[0].item(), (y - before[1])[0].item()))
    assert moved[-1][0] == pytest.approx(moved[-1][1], rel=1e-12)


def test_own_arguments_of_a_subclass_are_its_own() -> None:
    class Mine(MemSGD):
        def __init__(self, params: Any, *, colour: str, **more: Any) -> None:
            super().__init__(params, **more)
            self.colour = colour

    assert Mine([torch.zeros(1)], colour="red", lr=0.3).param_groups[0]["lr"] == 0.3
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        Mine([torch.zeros(1)], colour="red", size=3)


@pytest.mark.parametrize("make", [HeavyBall, Nesterov, AdEMAMix])
def test_one_cycle_works_as_is_said_where_there_is_a_momentum(make: Callable[..., Any]) -> None:
    _, optimizer = trained(lambda params: make(params, lr=0.1))
    scheduler = OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    optimizer.step()
    scheduler.step()
    for other in (MemSGD, MemAdam):
        with pytest.raises(ValueError, match="cycle_momentum"):
            OneCycleLR(trained(lambda params, other=other: other(params))[1], max_lr=1.0, total_steps=10)


def test_a_viscosity_in_mid_run_says_what_to_set() -> None:
    _, optimizer = trained(lambda params: HeavyBall(params, lr=0.1))
    optimizer.param_groups[0]["viscosity"] = 3.0
    with pytest.raises(ValueError, match=r"got momentum=0\.9, viscosity=3\.0; set the other to None"):
        optimizer.step()


INPUTS, LABELS = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2


def test_labels_from_1_on_are_found_before_the_loss_fails() -> None:
    problem = Problem(
        "labels", (INPUTS, LABELS + 1), lambda: nn.Linear(2, 2), nn.functional.cross_entropy, batch_size=4
    )
    [failed] = [finding for finding in check_problem(problem).findings if finding.status == "failed"]
    assert failed.check == "targets"
    assert "targets go from 1 to 2, but the model has 2 outputs, for classes from 0 on" in failed.message


def test_a_model_or_arrays_in_a_problem_are_answered_by_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"got a Linear; write lambda: Linear\(\.\.\.\)"):
        Problem("p", (INPUTS, LABELS), nn.Linear(2, 2), nn.functional.cross_entropy)
    with pytest.raises(TypeError, match=r"got tuple of ndarray, ndarray; torch\.from_numpy"):
        Problem("p", (np.ones((3, 2)), np.ones(3)), lambda: nn.Linear(2, 2), torch.dist)  # type: ignore[arg-type]


def test_methods_with_one_bracket_are_answered_by_two() -> None:
    with pytest.raises(ValueError, match=r"methods: each method is a table of its own: write \[\[methods\]\]"):
        Spec.parse('problem = "logistic"\nepochs = 1\nseeds = 1\n[methods]\noptimizer = "SGD"\nlr = 0.1\n')


def run(*words: str) -> str:
    found = CliRunner().invoke(app, list(words), env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"})
    return re.sub(r"[\s│]+", " ", found.output)


def test_init_looks_at_a_problem_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\n\nfrom memgrad.problems import get\n\n"
        "def problem():\n    return replace(get('logistic'), name='mine')\n"
    )
    assert "No such file" in run("init", "a.toml", "--problem", "missing.py:problem")
    assert "mine.py has no 'problm'; did you mean 'problem'?" in run("init", "a.toml", "--problem", "mine.py:problm")
    (tmp_path / "half.py").write_text("def problem(:\n")
    assert "half.py, line 1, is not Python: invalid syntax." in run("init", "a.toml", "--problem", "half.py:problem")
    assert not (tmp_path / "a.toml").exists()
    (tmp_path / "all.py").write_text("from mine import *\n")
    assert "wrote all.toml" in run("init", "all.toml", "--problem", "all.py:problem")
    assert "wrote sub/a.toml" in run("init", "sub/a.toml", "--problem", "mine.py:problem")
    assert Spec.load(tmp_path / "sub" / "a.toml").problem_choice.load().name == "mine"
    assert "wrote b.toml" in run("init", "b.toml", "--problem", "mine.py")


def test_the_name_of_a_method_is_answered_by_its_text_form() -> None:
    assert "'sgd' is the name of a method, not its text form, which is 'inst' by default" in run("risk", "sgd")
    for name, make in METHODS.items():
        with pytest.raises(ValueError, match=re.escape(repr(str(make())))):
            Method.parse(name)


def test_claims_on_a_language_model_are_among_those_that_are_known() -> None:
    assert "by name: L1 to L6, others, workloads" in run("reproduce", "R99")
