"""Problems: what is minimised, one run and many, in chunks or whole, by name."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from memgrad import problems
from memgrad.problems import Problem
from memgrad.problems.metrics import accuracy
from memgrad.problems.objectives import LeastSquares, Logistic
from memgrad.problems.workloads import covtype_softmax, mnist_autoencoder

SAMPLES = ("covtype-softmax", "mnist-autoencoder", "fashion-mlp", "cifar10-cnn")
# Parameters, batch size and examples: those of the paper.
PAPER = {
    "covtype-softmax": (432, 16),
    "mnist-autoencoder": (2_837_314, 16),
    "fashion-mlp": (101_770, 32),
    "cifar10-cnn": (62_006, 128),
}


def get(name: str) -> Problem:
    return problems.get(name, sample=name in SAMPLES)


def few(problem: Problem, rows: int = 30, **changes: Any) -> Problem:
    train = problem.train[0][:rows], problem.train[1][:rows]
    test = None if problem.test is None else (problem.test[0][:7], problem.test[1][:7])
    return replace(problem, train=train, test=test, **changes).to(dtype=torch.float64)


def curved(problem: Problem, seed: int = 0) -> dict[str, Tensor]:
    """Parameters at which nothing is zero by accident."""
    return problem.initial_parameters(seed)


every_problem = pytest.mark.parametrize("name", problems.names())


def small(**options: Any) -> Problem:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(11, 3, generator=generator, dtype=torch.float64)
    targets = torch.randint(2, (11,), generator=generator)
    given: dict[str, Any] = {"metrics": {"accuracy": accuracy}, "test": (inputs[:5], targets[:5]), "l2": 0.3}
    return Problem(
        "small",
        (inputs, targets),
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
        nn.functional.cross_entropy,
        **(given | options),
    )


# --- what is minimised ---------------------------------------------------------------------------------------------


def test_the_full_loss_gradient_and_metrics_are_those_of_plain_torch() -> None:
    problem = small(full_chunk=4)  # 11 rows in chunks of 4, 4 and 3
    model = problem.model(7)
    inputs, targets = problem.train
    outputs = model(inputs)
    squares = sum(p.square().sum() for p in model.parameters())
    loss = nn.functional.cross_entropy(outputs, targets) + 0.15 * squares
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    parameters = problem.initial_parameters(7)
    found = problem.evaluate(parameters)
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-12)
    assert found["gradient_norm"] == pytest.approx(
        math.sqrt(sum(float(g.square().sum()) for g in gradients)), rel=1e-12
    )
    right = (outputs.argmax(1) == targets).double()
    assert found["accuracy"] == pytest.approx(right.mean().item())
    assert found["test_accuracy"] == pytest.approx(right[:5].mean().item())
    test_loss = nn.functional.cross_entropy(outputs[:5], targets[:5]) + 0.15 * squares
    assert found["test_loss"] == pytest.approx(test_loss.item(), rel=1e-12)
    for name, g in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(problem.full_gradient(parameters)[name], g)
        torch.testing.assert_close(problem.gradient(parameters, inputs, targets)[name], g)
    torch.testing.assert_close(problem.batch_loss(parameters, inputs, targets), loss.detach())


def test_a_parameter_that_is_not_used_has_gradient_zero() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)  # type: ignore[no-any-return]

    problem = small(l2=0.0)
    problem = replace(problem, make_model=lambda: Idle().double())
    gradient = problem.full_gradient(problem.initial_parameters(0))
    assert gradient["idle.weight"].abs().max() == 0 < gradient["used.weight"].abs().max()


@pytest.mark.parametrize(("name", "objective"), [("least-squares", LeastSquares), ("logistic", Logistic)])
def test_the_regressions_are_the_objectives_of_the_same_name(name: str, objective: Any) -> None:
    problem = get(name).to(dtype=torch.float64)
    twin = objective(problem.train[0].numpy(), problem.train[1].numpy(), l2=problem.l2)
    parameters = problem.initial_parameters(3)
    (weight,) = parameters.values()
    found = problem.evaluate(parameters)
    assert found["loss"] == pytest.approx(twin.value(weight[0].numpy()), rel=1e-10)
    np.testing.assert_allclose(
        problem.full_gradient(parameters)["layers.0.weight"][0], twin.gradient(weight[0].numpy()), rtol=1e-9, atol=1e-12
    )
    assert found["gradient_norm"] == pytest.approx(np.linalg.norm(twin.gradient(weight[0].numpy())), rel=1e-9)


# --- seeds, devices, precision -------------------------------------------------------------------------------------


def test_a_seed_alone_decides_the_initial_parameters() -> None:
    problem = small()
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    one = problem.initial_parameters(5)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(456)
    two, other = problem.initial_parameters(5), problem.initial_parameters(6)
    torch.manual_seed(5)
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for name, p in plain.named_parameters():
        assert torch.equal(one[name], two[name])
        assert not torch.equal(one[name], other[name])
        assert torch.equal(
            one[name], p.detach().double()
        )  # PyTorch's default under that seed, then the data's precision


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_precision_is_that_of_the_data_or_the_one_asked_for(dtype: torch.dtype) -> None:
    problem = small().to(dtype=dtype)
    parameters = problem.initial_parameters(0)
    assert {p.dtype for p in parameters.values()} == {dtype}
    assert problem.train[1].dtype == torch.int64
    assert {g.dtype for g in problem.full_gradient(parameters).values()} == {dtype}
    assert math.isfinite(problem.evaluate(parameters)["loss"])


def test_parameters_of_models_on_integers_take_the_precision_asked_for() -> None:
    tokens = torch.randint(5, (8, 4))
    problem = Problem("tokens", (tokens, tokens[:, 0]), make_token_model, nn.functional.cross_entropy)
    assert problem.initial_parameters(0)["0.weight"].dtype == torch.float32
    assert problem.to(dtype=torch.float64).initial_parameters(0)["0.weight"].dtype == torch.float64


def make_token_model() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(12, 5))


def test_a_problem_moves_to_another_device() -> None:
    moved = small().to(device="meta")
    assert moved.device.type == "meta"
    assert {p.device.type for p in moved.initial_parameters(0).values()} == {"meta"}


# --- many runs -----------------------------------------------------------------------------------------------------


# torch's vmap of attention is right but slow, and says so; the transformer has a stack of its own.
@pytest.mark.most(10)
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@every_problem
@pytest.mark.parametrize("way", ["own", "vmap", "one by one"])
def test_a_stacked_run_is_the_run_alone(name: str, way: str) -> None:
    problem = few(get(name), full_chunk=17)
    if way == "vmap":
        problem = replace(problem, stacked=None, stack_width=3)
    elif way == "one by one":
        problem = replace(problem, stacked=None, stack_width=1)
    runs = 3 if name not in ("mnist-autoencoder", "char-transformer") else 2  # which are large
    parameters = problem.stacked_initial_parameters(range(runs))
    rows = torch.arange(runs * 4).reshape(runs, 4) % problem.examples
    inputs, targets = problem.train[0][rows], problem.train[1][rows]
    own = problem.stacked_gradient(parameters, inputs, targets)
    shared = problem.stacked_gradient(parameters, inputs[0], targets[0])
    full, numbers = problem.stacked_full_gradient(parameters), problem.stacked_evaluate(parameters)
    for run in range(runs):
        alone = problem.initial_parameters(run)
        same(own, run, problem.gradient(alone, inputs[run], targets[run]))
        same(shared, run, problem.gradient(alone, inputs[0], targets[0]))
        same(full, run, problem.full_gradient(alone))
        for metric, value in problem.evaluate(alone).items():
            assert numbers[metric].shape == (runs,)
            assert float(numbers[metric][run]) == pytest.approx(value, rel=1e-10, abs=1e-14)


def same(stacked: dict[str, Tensor], run: int, alone: dict[str, Tensor]) -> None:
    assert list(stacked) == list(alone)
    for name, g in alone.items():
        torch.testing.assert_close(stacked[name][run], g, rtol=1e-9, atol=1e-12)


@every_problem
def test_chunks_do_not_change_what_is_evaluated(name: str) -> None:
    problem = few(get(name), rows=23)
    parameters = problem.initial_parameters(0)
    whole = replace(problem, full_chunk=23).evaluate(parameters)
    pieces = replace(problem, full_chunk=5).evaluate(parameters)
    assert pieces == pytest.approx(whole, rel=1e-10)


def test_only_the_metrics_asked_for_are_computed() -> None:
    problem = small(metrics={"never": lambda *_: pytest.fail("was computed")})
    parameters = problem.initial_parameters(0)
    assert list(problem.evaluate(parameters, metrics=["loss"])) == ["loss"]
    assert list(problem.evaluate(parameters, metrics=["test_loss", "gradient_norm"])) == ["test_loss", "gradient_norm"]
    assert list(problem.evaluate(parameters, metrics=[])) == []


def test_diverged_parameters_have_numbers_too() -> None:
    problem = few(get("fashion-mlp"))
    parameters = {name: p * math.nan for name, p in problem.initial_parameters(0).items()}
    assert math.isnan(problem.evaluate(parameters)["loss"])


# --- the named problems --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_the_workloads_are_those_of_the_paper(name: str) -> None:
    problem = get(name)
    parameters, batch_size = PAPER[name]
    assert sum(p.numel() for p in problem.initial_parameters(0).values()) == parameters
    assert problem.batch_size == batch_size
    assert problem.name == name
    assert problem.test is not None
    assert ("accuracy" in problem.metric_names) == (name != "mnist-autoencoder")
    assert "step_norm" in problem.metric_names


def test_the_initial_losses_are_those_of_guessing() -> None:
    """Small initial weights give all classes, and both values of a pixel, about the same probability."""
    for name, classes in (("covtype-softmax", 8), ("fashion-mlp", 10), ("cifar10-cnn", 10)):
        loss = get(name).evaluate(get(name).initial_parameters(0), metrics=["loss"])["loss"]
        assert loss == pytest.approx(math.log(classes), rel=0.05)
    problem = few(get("mnist-autoencoder"))
    loss = problem.evaluate(problem.initial_parameters(0), metrics=["loss"])["loss"]
    assert loss == pytest.approx(784 * math.log(2), rel=0.05)


def test_covtype_keeps_its_labels_and_its_l2_term() -> None:
    problem = covtype_softmax(sample=True)
    assert (int(problem.train[1].min()), int(problem.train[1].max())) == (1, 7)
    assert problem.l2 == 1e-4
    assert covtype_softmax(sample=True, l2=0.0).l2 == 0
    assert 0 <= float(problem.train[0].min()) <= float(problem.train[0].max()) <= 1


def test_cifar_is_scaled_as_in_the_tutorial() -> None:
    inputs = get("cifar10-cnn").train[0]
    assert -1 <= float(inputs.min()) < -0.9
    assert 0.9 < float(inputs.max()) <= 1


def test_the_autoencoder_makes_pictures() -> None:
    problem = mnist_autoencoder(sample=True)
    pictures = problem.reconstructions(problem.initial_parameters(0), problem.train[0][:3])
    assert pictures.shape == (3, 28, 28)
    assert 0 < float(pictures.min()) <= float(pictures.max()) < 1
    with pytest.raises(ValueError, match=r"problem 'small' has no images"):
        small().reconstructions(small().initial_parameters(0), small().train[0])
    assert (
        mnist_autoencoder(sample=True, bias=False).initial_parameters(0).keys() < problem.initial_parameters(0).keys()
    )


@pytest.mark.parametrize("name", ["covtype-softmax", "fashion-mlp"])
def test_a_few_steps_of_gradient_descent_lower_the_loss(name: str) -> None:
    problem = get(name)
    parameters = problem.initial_parameters(0)
    start = problem.evaluate(parameters, metrics=["loss"])["loss"]
    for _ in range(5):
        g = problem.full_gradient(parameters)
        parameters = {key: p - 0.1 * g[key] for key, p in parameters.items()}
    assert problem.evaluate(parameters, metrics=["loss"])["loss"] < start - 0.05


# --- by name -------------------------------------------------------------------------------------------------------

OWN = """
import torch
from torch import nn
from memgrad.problems import Problem
import neighbour

def problem():
    return Problem("mine", (torch.eye(4), torch.arange(4)), lambda: nn.Linear(4, 4), nn.functional.cross_entropy)

def other(*, sample=False):
    return Problem(f"sample={sample}", (torch.eye(4), torch.arange(4)), lambda: nn.Linear(4, 4), neighbour.loss)

made = problem()

def broken():
    raise RuntimeError("no such disk")

def nothing():
    return 3
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("from torch.nn.functional import cross_entropy as loss\n")
    path = tmp_path / "my_problem.py"
    path.write_text(OWN)
    return path


def test_own_problems_are_found_in_files_and_modules(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.path)
    assert problems.get(str(own)).name == "mine"
    assert problems.get(f"{own}:problem").name == "mine"
    assert problems.get(f"{own}:made").name == "mine"
    assert problems.get(f"{own}:other", sample=True).name == "sample=True"
    monkeypatch.chdir(own.parent)
    assert problems.get("my_problem.py:other").name == "sample=False"
    assert problems.get("my_problem:problem", dtype=torch.float64).initial_parameters(0)["bias"].dtype == torch.float64
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("fashion_mlp", r"unknown problem 'fashion_mlp'; did you mean 'fashion-mlp'\? Known problems: covtype-softmax"),
        ("{own}:missing", r"has no 'missing'; it has problem, other, broken, nothing\. Write .*:NAME"),
        ("{own}:broken", r"could not be made: RuntimeError: no such disk \(.*my_problem\.py:\d+\)"),
        ("{own}:nothing", "must be a Problem or a function that returns one, got an object of the type int"),
        ("no_such_module:problem", "No module named 'no_such_module'"),
    ],
)
def test_names_that_give_no_problem_are_refused(own: Path, name: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        problems.get(name.format(own=own))


def test_a_sample_that_does_not_exist_is_refused_and_not_ignored(own: Path) -> None:
    with pytest.raises(ValueError, match="has no sample"):
        problems.get(f"{own}:problem", sample=True)
    with pytest.raises(ValueError, match="has no sample"):
        problems.get("logistic", sample=True)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.py"):
        problems.get(str(tmp_path / "missing.py"))


def test_names_and_objectives_load_no_torch() -> None:
    code = (
        "import sys; from memgrad import problems; problems.names(); problems.Objective.parse('su');"
        "from memgrad.problems import datasets; assert 'torch' not in sys.modules;"
        "problems.Problem; assert 'torch' in sys.modules; assert set(problems.__all__) <= set(dir(problems))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"train": torch.eye(2)}, r"needs train=\(inputs, targets\), two tensors, got Tensor"),
        ({"train": (torch.eye(2), torch.zeros(3))}, r"shapes \(2, 2\) and \(3,\)"),
        ({"train": (torch.zeros(0, 2), torch.zeros(0))}, "at least one"),
        ({"test": (torch.eye(2), np.zeros(2))}, "needs test="),
        ({"loss": None}, "needs a function loss, got loss=None"),
        ({"l2": -1.0}, "needs a finite l2 >= 0, got l2=-1.0"),
        ({"batch_size": 0}, "batch_size >= 1, got batch_size=0"),
        ({"full_chunk": 1.5}, "integer full_chunk >= 1, got full_chunk=1.5"),
        ({"metrics": {"loss": accuracy}}, "a metric called loss, which every problem has"),
    ],
)
def test_bad_problems_are_refused_at_once(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        replace(small(), **changes)


def test_wrong_questions_are_answered_with_the_way_out() -> None:
    problem = small()
    parameters = problem.initial_parameters(0)
    with pytest.raises(ValueError, match=r"no metric 'acuracy' to evaluate; known: loss, gradient_norm, accuracy"):
        problem.evaluate(parameters, metrics=["acuracy"])
    with pytest.raises(ValueError, match="the training loop computes it"):
        problem.evaluate(parameters, metrics=["step_norm"])
    with pytest.raises(ValueError, match="stacked_initial_parameters makes them"):
        problem.stacked_gradient(parameters, *problem.train)
    with pytest.raises(TypeError, match=r"make_model must return a torch\.nn\.Module, got 3"):
        replace(problem, make_model=lambda: 3).initial_parameters(0)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("largest", [1.0, 50.0, 500.0])
@pytest.mark.parametrize("shared", [True, False])
def test_the_slope_of_the_cross_entropy_is_autograd_s_for_logits_of_any_size(largest: float, shared: bool) -> None:
    """Both ways to the softmax: logits of 500 have exponentials beyond the floats."""
    from memgrad.problems.dense import slope_of_cross_entropy

    draw = torch.Generator().manual_seed(0)
    logits = (largest * torch.randn(3, 8, 300, generator=draw, dtype=torch.float64)).requires_grad_()
    targets = torch.randint(0, 8, (300,) if shared else (3, 300), generator=draw)
    losses = [
        torch.nn.functional.cross_entropy(logits[run].mT, targets if shared else targets[run]) for run in range(3)
    ]
    (expected,) = torch.autograd.grad(sum(losses), logits)
    torch.testing.assert_close(slope_of_cross_entropy(logits.detach(), targets), expected, rtol=1e-10, atol=1e-15)
    single = slope_of_cross_entropy(logits.detach().float(), targets)
    torch.testing.assert_close(single, expected.float(), rtol=1e-4, atol=1e-7)  # float32 logits of 500 carry 3e-5


POINTS, LABELS = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 2


def test_a_model_or_arrays_in_a_problem_are_answered_by_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"got a Linear; write lambda: Linear\(\.\.\.\)"):
        Problem("p", (POINTS, LABELS), nn.Linear(2, 2), nn.functional.cross_entropy)
    with pytest.raises(TypeError, match=r"got tuple of ndarray, ndarray; torch\.from_numpy"):
        Problem("p", (np.ones((3, 2)), np.ones(3)), lambda: nn.Linear(2, 2), torch.dist)  # type: ignore[arg-type]


def test_metrics_and_counts_of_a_problem() -> None:
    pair = (torch.eye(4), torch.eye(4))
    make: dict[str, Any] = {"make_model": lambda: nn.Linear(4, 4), "loss": nn.functional.mse_loss}
    with pytest.raises(ValueError, match="a metric called test_loss, which is that of its held-out data"):
        Problem("p", pair, **make, test=pair, metrics={"test_loss": lambda z, y: z[:, 0]})
    counted = Problem("p", pair, **make, batch_size=2.0, full_chunk=1e3)  # type: ignore[arg-type]
    assert (type(counted.batch_size), counted.batch_size, counted.full_chunk) == (int, 2, 1000)
    assert counted.evaluate(counted.initial_parameters(0))["loss"] > 0
