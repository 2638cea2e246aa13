"""The minibatch order: drawn without replacement in each epoch, from the problem and the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from memgrad.experiments.digests import epoch_generator


@final
class MinibatchOrder:
    """Which examples each run sees at each step: the same for runs with the same seed, whatever their method.

    An epoch is a permutation of all examples, cut into minibatches of equal size; the remaining examples are not used
    in that epoch. The permutation depends on the problem's name, the seed and the number of the epoch only, so a run
    can resume at any step.

    Args:
        problem: The name of the problem.
        examples: The number of training examples.
        batch_size: The size of a minibatch.
        seeds: The seed of each run.

    Example:
        >>> order = MinibatchOrder("p", examples=4, batch_size=2, seeds=[7, 7])
        >>> sorted(order.at(0)[0].tolist() + order.at(1)[0].tolist())
        [0, 1, 2, 3]
        >>> order.at(1)[0].equal(order.at(1)[1])
        True
    """

    def __init__(self, problem: str, examples: int, batch_size: int, seeds: Sequence[int]) -> None:
        if not 1 <= batch_size <= examples:
            raise ValueError(f"problem {problem!r}: minibatches have 1 to {examples} examples, got {batch_size=}.")
        self._problem, self._examples, self._batch_size = problem, examples, batch_size
        self._seeds = sorted(set(seeds))
        self._row = torch.tensor([self._seeds.index(seed) for seed in seeds])
        self.steps_per_epoch = examples // batch_size
        self._epoch = -1
        self._permutations = torch.empty(0)

    def at(self, k: int) -> Tensor:
        """The indices of the examples of step k = 0, 1, ...: one minibatch per run, (runs, batch_size)."""
        epoch, place = divmod(k, self.steps_per_epoch)
        if epoch != self._epoch:
            self._permutations = torch.stack([self._permutation(seed, epoch) for seed in self._seeds])
            self._epoch = epoch
        minibatches = self._permutations[:, place * self._batch_size : (place + 1) * self._batch_size]
        return minibatches if len(self._row) == 1 else minibatches[self._row]

    def _permutation(self, seed: int, epoch: int) -> Tensor:
        drawn = torch.randperm(self._examples, generator=epoch_generator(self._problem, seed, epoch))
        return drawn.to(torch.int32)  # half the memory, with hundreds of seeds on large data sets
