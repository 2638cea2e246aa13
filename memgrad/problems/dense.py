"""Many dense networks at once, with hand-written gradients: the run axis costs a few batched products.

Values of layers have the shape (runs, units, batch), or (units, batch) for inputs that all runs share. With the batch
last, products need no copies and functions of the units, such as softmax, run along the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from memgrad.problems.models import ACTIVATIONS
from memgrad.problems.passes import Parameters

WIDE = 128
"""The smallest batch for which an explicit softmax is faster than torch's, which is tuned for small ones."""

SAFE = (1e-25, 1e25)
"""Sums of exponentials in this range lose no precision in float32."""


@final
@dataclass(frozen=True)
class StackedDense:
    """`Dense` networks with a leading run axis.

    Torch's `vmap` does the same for any model; for small ones most of its time is overhead, which this avoids.

    Args:
        activations: Those of the `Dense` network.
        slope: The derivative of the mean loss of a batch in the outputs, a function of outputs (runs, units, batch) and
            targets (runs, batch, ...) or (batch, ...).

    Example:
        >>> softmax = StackedDense((), slope_of_cross_entropy)
        >>> two_runs = {"layers.0.weight": torch.zeros(2, 8, 54)}
        >>> softmax.gradient(two_runs, torch.ones(2, 16, 54), torch.ones(2, 16).long())["layers.0.weight"][:, 1, 0]
        tensor([-0.8750, -0.8750])
    """

    activations: tuple[str, ...]
    slope: Callable[[Tensor, Tensor], Tensor]

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The outputs, (runs, batch, units).

        Args:
            parameters: Weights and biases with a leading run axis.
            inputs: Of shape (runs, batch, units), or (batch, units) if all runs share them.
        """
        return self._layers(parameters, inputs)[-1].mT

    def gradient(self, parameters: Parameters, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradients of the mean losses of all runs, with the names and shapes of `parameters`."""
        h = self._layers(parameters, inputs)
        delta = self.slope(h[-1], targets)
        gradients: dict[str, Tensor] = {}
        for i, name in reversed(list(enumerate(_weights(parameters)))):
            if (bias := _bias(name)) in parameters:
                gradients[bias] = delta.sum(-1)
            gradients[name] = _outer(delta, h[i])
            if i > 0:
                delta = ACTIVATIONS[self.activations[i - 1]][1](torch.bmm(parameters[name].mT, delta), h[i])
        return {name: gradients[name] for name in parameters}

    def _layers(self, parameters: Parameters, inputs: Tensor) -> list[Tensor]:
        """The values of all layers, from the inputs to the outputs."""
        h = [inputs.mT]
        for name, activation in zip(_weights(parameters), (*self.activations, "identity"), strict=True):
            z = _product(parameters[name], h[-1])
            if (bias := _bias(name)) in parameters:
                z.add_(parameters[bias][..., None])
            h.append(ACTIVATIONS[activation][0](z))
        return h


def _weights(parameters: Parameters) -> list[str]:
    return [name for name in parameters if name.endswith("weight")]


def _bias(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


def _product(w: Tensor, h: Tensor) -> Tensor:
    """W h of each run. Runs that share `h` are one product with all their weights, in which h is read once."""
    return torch.bmm(w, h) if h.ndim == 3 else (w.flatten(0, 1) @ h).view(*w.shape[:2], -1)


def _outer(delta: Tensor, h: Tensor) -> Tensor:
    """The sum over the batch of delta h^T of each run."""
    if h.ndim == 3:
        return torch.bmm(delta, h.mT)
    # Contiguous, as the parameters are: averaging a transposed gradient takes three to five times as long.
    return (delta.flatten(0, 1) @ h.mT).view(*delta.shape[:2], -1)


def slope_of_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of the cross entropy of logits: (softmax - one-hot) / batch.

    Example:
        >>> slope_of_cross_entropy(torch.zeros(1, 2, 1), torch.tensor([[1]])).flatten()
        tensor([ 0.5000, -0.5000])
    """
    runs, classes, batch = outputs.shape
    slope = _softmax(outputs)
    if targets.ndim == 1:  # all runs share one
        one_hot = slope.new_zeros(classes, batch).scatter_(0, targets[None], 1.0)
        return slope.sub_(one_hot).div_(batch)
    slope.scatter_add_(-2, targets[:, None], -slope.new_ones(()).expand(runs, 1, batch))
    return slope.div_(batch)


def _softmax(z: Tensor) -> Tensor:
    """Softmax over the units. On a CPU, large batches are first tried without subtracting the maximum: twice as fast.

    If a sum of exponentials is so large or so small that this loses digits, or is NaN, the usual form is computed.
    """
    if z.device.type == "cpu" and z.shape[-1] >= WIDE:
        powers = z.exp()
        sums = powers.sum(-2, keepdim=True)
        low, high = sums.aminmax()
        if low > SAFE[0] and high < SAFE[1]:
            return powers.mul_(sums.reciprocal_())
    return torch.softmax(z, -2)


def slope_of_logistic(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of the binary cross entropy of one logit z: (sigmoid(z) - y) / batch.

    Example:
        >>> slope_of_logistic(torch.zeros(1, 1, 1), torch.ones(1, 1)).item()
        -0.5
    """
    return (torch.sigmoid(outputs) - targets[..., None, :]) / outputs.shape[-1]


def slope_of_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    """Of (z - y)^2 / 2 for one output z: (z - y) / batch.

    Example:
        >>> slope_of_squares(torch.ones(1, 1, 2), torch.zeros(1, 2)).flatten()
        tensor([0.5000, 0.5000])
    """
    return (outputs - targets[..., None, :]) / outputs.shape[-1]
