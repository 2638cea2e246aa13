"""The models of the paper, their sizes and their losses, and dense networks with a run axis."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from memgrad.problems.convolutional import StackedCNN
from memgrad.problems.dense import StackedDense, slope_of_cross_entropy, slope_of_logistic, slope_of_squares
from memgrad.problems.metrics import accuracy
from memgrad.problems.models import (
    Dense,
    TutorialCNN,
    autoencoder,
    count_parameters,
    pixelwise_cross_entropy,
    softmax_regression,
    tanh_network,
)


def test_the_models_have_the_papers_sizes() -> None:
    assert count_parameters(softmax_regression()) == 432 == 54 * 8
    assert count_parameters(autoencoder(bias=False)) == 2_833_000
    assert count_parameters(autoencoder()) == 2_837_314 == 2_833_000 + 2 * (1000 + 500 + 250) + 30 + 784
    assert count_parameters(tanh_network()) == 101_770
    assert count_parameters(TutorialCNN()) == 62_006


def test_the_autoencoder_is_mirrored_and_linear_in_its_centre_alone() -> None:
    model = autoencoder()
    widths = [layer.weight.shape[1] for layer in model.layers] + [784]  # type: ignore[union-attr, index]
    assert widths == widths[::-1] == [784, 1000, 500, 250, 30, 250, 500, 1000, 784]
    seen: list[Tensor] = []
    for layer in model.layers:
        layer.register_forward_hook(lambda _m, arguments, _o: seen.append(arguments[0]))
    model(torch.rand(3, 784))
    hidden = seen[1:]
    inside = [bool(((h >= 0) & (h <= 1)).all()) for h in hidden]
    assert inside == [True] * 3 + [False] + [True] * 3


def test_dense_networks_are_what_the_formula_says() -> None:
    model = Dense((3, 4, 2), ("tanh",)).double()
    (w1, b1, w2, b2), x = [p.detach() for p in model.parameters()], torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(model(x).detach(), torch.tanh(x @ w1.T + b1) @ w2.T + b2)


def test_the_tutorial_network_is_the_sequence_it_is_described_as() -> None:
    model = TutorialCNN()
    twin = nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2, 2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )
    with torch.no_grad():
        for own, other in zip(model.parameters(), twin.parameters(), strict=True):
            other.copy_(own)
    x = torch.randn(4, 3, 32, 32)
    torch.testing.assert_close(model(x), twin(x))


def test_pixels_are_summed_and_images_averaged() -> None:
    outputs, targets = torch.randn(6, 784, dtype=torch.float64), torch.rand(6, 28, 28, dtype=torch.float64)
    p, t = torch.sigmoid(outputs), targets.flatten(1)
    expected = -(t * p.log() + (1 - t) * (1 - p).log()).sum(1).mean()
    torch.testing.assert_close(pixelwise_cross_entropy(outputs, targets), expected)
    far = pixelwise_cross_entropy(torch.full((1, 4), -1000.0), torch.ones(1, 4))
    assert far.item() == 4000  # logits stay finite where probabilities do not


def test_accuracy_is_one_number_an_example() -> None:
    outputs = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    assert accuracy(outputs, torch.tensor([1, 1, 1])).tolist() == [1, 0, 1]
    assert accuracy(torch.zeros(2, 4), torch.tensor([0, 3])).tolist() == [0.25, 0.25]
    assert accuracy(torch.full((1, 4), math.nan), torch.tensor([0])).tolist() == [0]
    many, classes = torch.randn(100, 5), torch.randint(5, (100,))
    assert torch.equal(accuracy(many, classes), (many.argmax(1) == classes).float())


@pytest.mark.parametrize(
    ("widths", "activations", "complaint"),
    [
        ((3, 4, 2), (), r"an activation for each hidden layer: 1 for widths \(3, 4, 2\), got \(\)"),
        ((3, 4, 2), ("relu",), "unknown activation 'relu'; known activations: tanh, sigmoid, identity"),
    ],
)
def test_bad_networks_are_refused(widths: tuple[int, ...], activations: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Dense(widths, activations)


# --- a run axis ------------------------------------------------------------------------------------------------------

LOSSES = {
    "cross entropy": (slope_of_cross_entropy, nn.functional.cross_entropy),
    "logistic": (
        slope_of_logistic,
        lambda z, y: nn.functional.binary_cross_entropy_with_logits(z[:, 0], y.to(z.dtype)),
    ),
    "squares": (slope_of_squares, lambda z, y: (z[:, 0] - y).square().mean() / 2),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shared", [False, True], ids=["own inputs", "shared inputs"])
@given(
    st.lists(st.sampled_from(["tanh", "sigmoid", "identity"]), max_size=3),
    st.booleans(),
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
)
@settings(max_examples=20, deadline=None)
def test_gradients_by_hand_are_autograds(
    loss: str, shared: bool, activations: list[str], bias: bool, size: tuple[int, int]
) -> None:
    runs, batch = size
    slope, function = LOSSES[loss]
    outputs = 3 if loss == "cross entropy" else 1
    widths = (4, *range(5, 5 + len(activations)), outputs)
    models = [Dense(widths, activations, bias=bias).double() for _ in range(runs)]
    parameters = {
        name: torch.stack([dict(m.named_parameters())[name].detach() for m in models])
        for name, _ in models[0].named_parameters()
    }
    lead = () if shared else (runs,)
    inputs = torch.randn(*lead, batch, 4, dtype=torch.float64)
    targets = torch.randint(outputs if outputs > 1 else 2, (*lead, batch))
    stacked = StackedDense(tuple(activations), slope)
    found, values = stacked.gradient(parameters, inputs, targets), stacked.outputs(parameters, inputs)
    assert list(found) == list(parameters)
    for run, model in enumerate(models):
        x, y = (inputs, targets) if shared else (inputs[run], targets[run])
        torch.testing.assert_close(values[run], model(x).detach())
        for name, g in zip(found, torch.autograd.grad(function(model(x), y), list(model.parameters())), strict=True):
            torch.testing.assert_close(found[name][run], g, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shared", [False, True], ids=["own inputs", "shared inputs"])
@pytest.mark.parametrize("runs", [1, 3])
def test_convolutional_networks_at_once_are_each_alone(shared: bool, runs: int) -> None:
    torch.manual_seed(runs)
    models = [TutorialCNN().double() for _ in range(runs)]
    parameters = {
        name: torch.stack([dict(m.named_parameters())[name].detach() for m in models])
        for name, _ in models[0].named_parameters()
    }
    lead = () if shared else (runs,)
    inputs, targets = torch.randn(*lead, 4, 3, 32, 32, dtype=torch.float64), torch.randint(10, (*lead, 4))
    # Flat regions, as photographs have them: all four pixels of a window are the largest, and one of them counts.
    inputs[..., :16, :] = 0.5
    found, values = StackedCNN().gradient(parameters, inputs, targets), StackedCNN().outputs(parameters, inputs)
    assert list(found) == list(parameters)
    for run, model in enumerate(models):
        x, y = (inputs, targets) if shared else (inputs[run], targets[run])
        torch.testing.assert_close(values[run], model(x).detach())
        loss = nn.functional.cross_entropy(model(x), y)
        for name, g in zip(found, torch.autograd.grad(loss, list(model.parameters())), strict=True):
            torch.testing.assert_close(found[name][run], g, rtol=1e-10, atol=1e-12)


def test_the_slope_of_cross_entropy_at_zero_is_the_uniform_distribution_minus_the_class() -> None:
    slope = slope_of_cross_entropy(torch.zeros(1, 4, 2), torch.tensor([[0, 3]]))
    assert slope[0, :, 0].tolist() == [-0.375, 0.125, 0.125, 0.125]
    assert math.isclose(slope.sum().item(), 0, abs_tol=1e-7)
