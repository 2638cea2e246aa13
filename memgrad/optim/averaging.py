"""Averages of iterates with the same memory object."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from memgrad.memory import Memory
from memgrad.memory.text import as_memory


def memory_average(memory: Memory | str) -> Callable[[Tensor, Tensor, Tensor | int], Tensor]:
    r"""The averaging function of `torch.optim.swa_utils.AveragedModel` with this memory of iterates.

    $$\bar x_k = b_k \bar x_{k-1} + (1-b_k)\, x_k, \qquad k = 0, 1, \dots$$

    `Polynomial(1)` is the plain average (SWA's), `Polynomial(p)` polynomial-decay averaging with $\eta = p - 1$
    (Shamir and Zhang), and `Exponential(beta)` an exponential moving average *with* bias correction, which does not
    overweight the initial parameters.

    Args:
        memory: A `Memory` or its text form.

    Example:
        >>> from torch.optim.swa_utils import AveragedModel
        >>> model = torch.nn.Linear(1, 1)
        >>> average = AveragedModel(model, avg_fn=memory_average("poly:2"))
        >>> for value in (3.0, 6.0):
        ...     _ = torch.nn.init.constant_(model.weight, value)
        ...     average.update_parameters(model)
        >>> average.module.weight.data  # weights 1/3 and 2/3
        tensor([[5.]])

    Reference:
        Shamir and Zhang, *Stochastic gradient descent for non-smooth optimization*, ICML 2013, Sec. 4.
    """
    remembered = as_memory("memory_average", "memory", memory)

    @torch.no_grad()
    def average(averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
        fresh = remembered.fresh(int(count))
        if not averaged.is_floating_point() and not averaged.is_complex():
            return current.clone()  # a counter, such as BatchNorm's, has no meaningful average
        return torch.lerp(averaged, current.to(averaged.dtype), fresh)

    return average
