"""Many `TutorialCNN` networks at once: the runs are groups of channels of one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from memgrad.problems.passes import Parameters

LAST = torch.channels_last
"""The layout of images in which channels are contiguous, so that kernels work on those of all runs at once."""


@final
@dataclass(frozen=True)
class StackedCNN:
    """`TutorialCNN` networks with a leading run axis.

    A convolution to 6 channels leaves most of a vector register unused, and pooling them one at a time takes as long as
    convolving. As channels of one network, those of eight runs fill the registers, and images that the runs share are
    read once.

    Example:
        >>> from memgrad.problems.models import TutorialCNN
        >>> two_runs = {name: torch.stack([p.detach()] * 2) for name, p in TutorialCNN().named_parameters()}
        >>> StackedCNN().outputs(two_runs, torch.zeros(4, 3, 32, 32)).shape
        torch.Size([2, 4, 10])
    """

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """The logits, (runs, batch, 10); `inputs` are (runs, batch, 3, 32, 32), or shared by all runs."""
        runs, shared = len(parameters["convolution1.bias"]), inputs.ndim == 4
        # (batch, channels of all runs, height, width)
        h = (inputs if shared else inputs.transpose(0, 1).flatten(1, 2)).contiguous(memory_format=LAST)
        for name, groups in (("convolution1", 1 if shared else runs), ("convolution2", runs)):
            weight = parameters[f"{name}.weight"].flatten(0, 1).contiguous(memory_format=LAST)
            z = torch.conv2d(h, weight, parameters[f"{name}.bias"].flatten(), groups=groups)
            h = torch.relu(torch.max_pool2d(z, 2))  # in this order ReLU has a quarter of the work
        h = h.reshape(len(h), runs, -1).transpose(0, 1)
        for name in ("dense1", "dense2", "dense3"):
            z = torch.baddbmm(parameters[f"{name}.bias"][:, None], h, parameters[f"{name}.weight"].mT)
            h = torch.relu(z)
        return z

    def gradient(self, parameters: Parameters, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradients of the mean losses of all runs, with the names and shapes of `parameters`."""
        leaves = {name: p.detach().requires_grad_() for name, p in parameters.items()}
        with torch.enable_grad():
            logits = self.outputs(leaves, inputs)
            runs, batch = logits.shape[:2]
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.expand(runs, batch).flatten())
            # A run's parameters are in its own loss alone, so the gradient of the sum has those of all runs.
            found = torch.autograd.grad(runs * loss, tuple(leaves.values()))
        return dict(zip(leaves, found, strict=True))
