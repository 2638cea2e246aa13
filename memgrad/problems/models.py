"""The models of the paper's four workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import final

import torch
from torch import Tensor, nn

from memgrad.deprecation import deprecated_names

__getattr__ = deprecated_names(__name__, {"accuracy": "memgrad.problems.metrics.accuracy"})

ACTIVATIONS: Mapping[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = MappingProxyType(
    {
        "tanh": (torch.tanh, torch.ops.aten.tanh_backward),
        "sigmoid": (torch.sigmoid, torch.ops.aten.sigmoid_backward),
        "identity": (lambda z: z, lambda slope, _: slope),
    }
)
"""Activations h = phi(z) by name, each with the slope of a loss in z as a function of that in h and of h."""


@final
class Dense(nn.Module):
    r"""A feed-forward network: $h_0 = x$, $h_{l+1} = \phi_l(W_l h_l + b_l)$, and no activation after the last layer.

    Args:
        widths: The numbers of units, from the inputs to the outputs; at least two. Inputs with several axes, such as
            images, are flattened.
        activations: The $\phi_l$ of the hidden layers: `tanh`, `sigmoid` or `identity`.
        bias: Whether there are the biases $b_l$.

    Example:
        >>> network = Dense((784, 128, 10), ("tanh",))
        >>> count_parameters(network)
        101770
        >>> network(torch.zeros(5, 28, 28)).shape
        torch.Size([5, 10])
    """

    def __init__(self, widths: Sequence[int], activations: Sequence[str] = (), *, bias: bool = True) -> None:
        super().__init__()
        if len(widths) != len(activations) + 2:
            raise ValueError(
                f"Dense needs an activation for each hidden layer: {len(widths) - 2} for widths {tuple(widths)}, "
                f"got {tuple(activations)}."
            )
        unknown = [name for name in activations if name not in ACTIVATIONS]
        if unknown:
            raise ValueError(f"unknown activation {unknown[0]!r}; known activations: {', '.join(ACTIVATIONS)}.")
        self.activations = tuple(activations)
        self.layers = nn.ModuleList(nn.Linear(i, o, bias=bias) for i, o in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, before any activation."""
        x = x.flatten(1)
        for layer, name in zip(self.layers, (*self.activations, "identity"), strict=True):
            x = ACTIVATIONS[name][0](layer(x))
        return x


def softmax_regression() -> Dense:
    """Softmax regression 54 -> 8 without bias, 432 parameters: covtype's labels 1 to 7 as they are, class 0 unused.

    Example:
        >>> count_parameters(softmax_regression())
        432
    """
    return Dense((54, 8), bias=False)


def autoencoder(*, bias: bool = True) -> Dense:
    """The 784-1000-500-250-30 autoencoder, mirrored: sigmoids in all layers but the central one.

    Its outputs are logits: the last sigmoid is part of the loss, where it is numerically stable.

    Args:
        bias: Whether there are biases, PyTorch's default. The 2,833,000 parameters of the paper are the weights alone;
            with biases there are 2,837,314.

    Example:
        >>> count_parameters(autoencoder()), count_parameters(autoencoder(bias=False))
        (2837314, 2833000)

    Reference:
        Hinton and Salakhutdinov, *Reducing the Dimensionality of Data with Neural Networks*, Science 2006.
    """
    sigmoids = ["sigmoid"] * 3
    return Dense((784, 1000, 500, 250, 30, 250, 500, 1000, 784), (*sigmoids, "identity", *sigmoids), bias=bias)


def tanh_network() -> Dense:
    """The 784-128-10 network with tanh, 101,770 parameters.

    Example:
        >>> count_parameters(tanh_network())
        101770
    """
    return Dense((784, 128, 10), ("tanh",))


@final
class TutorialCNN(nn.Module):
    """The convolutional network of PyTorch's CIFAR-10 tutorial, 62,006 parameters.

    Two 5 x 5 convolutions, to 6 and to 16 channels, each with ReLU and 2 x 2 max pooling; then dense layers of 120, 84
    and 10 units.

    Example:
        >>> count_parameters(TutorialCNN())
        62006
        >>> TutorialCNN()(torch.zeros(4, 3, 32, 32)).shape
        torch.Size([4, 10])
    """

    def __init__(self) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(3, 6, 5)
        self.convolution2 = nn.Conv2d(6, 16, 5)
        self.dense1 = nn.Linear(16 * 5 * 5, 120)
        self.dense2 = nn.Linear(120, 84)
        self.dense3 = nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of ten classes for images of shape (batch, 3, 32, 32)."""
        for convolution in (self.convolution1, self.convolution2):
            x = torch.max_pool2d(torch.relu(convolution(x)), 2)
        x = torch.relu(self.dense1(x.flatten(1)))
        return self.dense3(torch.relu(self.dense2(x)))  # type: ignore[no-any-return]  # modules are typed so


def count_parameters(model: nn.Module) -> int:
    """The number of parameters.

    Example:
        >>> count_parameters(nn.Linear(3, 2))
        8
    """
    return sum(parameter.numel() for parameter in model.parameters())


# --- losses ----------------------------------------------------------------------------------------------------------


def pixelwise_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Binary cross entropy of the logits of pixels: the sum over the pixels, averaged over the images of the batch.

    Args:
        outputs: Logits, of shape (batch, ...).
        targets: Pixels in [0, 1], of the same size.

    Example:
        >>> pixelwise_cross_entropy(torch.zeros(2, 784), torch.ones(2, 784)) / 784  # log 2
        tensor(0.6931)
    """
    pixels = targets.reshape(outputs.shape)
    return nn.functional.binary_cross_entropy_with_logits(outputs, pixels, reduction="sum") / len(outputs)
