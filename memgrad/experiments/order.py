"""The order of the minibatches: drawn without replacement in each epoch, from the problem and the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from memgrad.experiments.choice import generator


@final
class Order:
    """Which examples each run sees at each step. Runs with the same seed see the same ones, whatever their method.

    An epoch is a permutation of all examples, cut into minibatches of one size; what is left over is not used in that
    epoch. The permutation is drawn from the problem's name, the seed and the number of the epoch, so a run can begin
    anywhere.

    Args:
        problem: The name of the problem.
        examples: The number of training examples.
        batch: The size of a minibatch.
        seeds: The seed of each run.

    Example:
        >>> order = Order("p", examples=4, batch=2, seeds=[7, 7])
        >>> sorted(order.at(0)[0].tolist() + order.at(1)[0].tolist())
        [0, 1, 2, 3]
        >>> order.at(1)[0].equal(order.at(1)[1])
        True
    """

    def __init__(self, problem: str, examples: int, batch: int, seeds: Sequence[int]) -> None:
        if not 1 <= batch <= examples:
            raise ValueError(f"problem {problem!r}: minibatches have 1 to {examples} examples, got batch={batch}.")
        self._problem, self._examples, self._batch = problem, examples, batch
        self._seeds = sorted(set(seeds))
        self._row = torch.tensor([self._seeds.index(seed) for seed in seeds])
        self.steps_an_epoch = examples // batch
        self._epoch = -1
        self._permutations = torch.empty(0)

    def at(self, k: int) -> Tensor:
        """The numbers of the examples of step k = 0, 1, ...: a minibatch for each run, (runs, batch)."""
        epoch, place = divmod(k, self.steps_an_epoch)
        if epoch != self._epoch:
            self._permutations = torch.stack([self._permutation(seed, epoch) for seed in self._seeds])
            self._epoch = epoch
        found = self._permutations[:, place * self._batch : (place + 1) * self._batch]
        return found if len(self._row) == 1 else found[self._row]

    def _permutation(self, seed: int, epoch: int) -> Tensor:
        drawn = torch.randperm(self._examples, generator=generator("order", self._problem, seed, epoch))
        return drawn.to(torch.int32)  # half the memory, for hundreds of seeds on large data sets
