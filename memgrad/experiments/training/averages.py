"""Averages of iterates, evaluated beside the run: a metric such as `loss@poly:8` is the loss of such an average."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from torch import Tensor

from memgrad.experiments.planning.runs import AT, average_in
from memgrad.memory import Memory
from memgrad.memory.text import as_memory

KEY = "average"
"""The beginning of their names in a checkpoint."""


@final
class Averages:
    r"""The averages of iterates of a run group: $\bar x_k = b_k \bar x_{k-1} + (1-b_k)\, x_{k+1}$, $k = 0, 1, \dots$

    $x_{k+1}$ is the iterate after step k, so the initial parameters do not count. Before the first step the average is
    the initial parameters.

    Args:
        metrics: The metrics of the runs; those with a memory, such as `loss@poly:8`, ask for an average.
        parameters: The initial parameters, with a run axis.
    """

    def __init__(self, metrics: Iterable[str], parameters: Mapping[str, Tensor]) -> None:
        texts = dict.fromkeys(text for metric in metrics if (text := average_in(metric)) is not None)
        self._memories: dict[str, Memory] = {
            text: as_memory("an average of iterates", "memory", text) for text in texts
        }
        self._tensors = {text: {name: p.clone() for name, p in parameters.items()} for text in texts}

    def update(self, parameters: Mapping[str, Tensor], k: int) -> None:
        """Include the parameters after step k."""
        for text, memory in self._memories.items():
            fresh = float(memory.fresh(k))
            for name, p in parameters.items():
                self._tensors[text][name].lerp_(p, fresh)

    def by_average(self, metrics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The metrics that ask for an average, by its memory: what to evaluate for each."""
        found: dict[str, dict[str, str]] = {}
        for metric in metrics:
            if (text := average_in(metric)) is not None:
                found.setdefault(text, {})[metric] = metric.partition(AT)[0]
        return found

    def __getitem__(self, text: str) -> dict[str, Tensor]:
        return self._tensors[text]

    def state(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        return {f"{KEY}/{text}/{name}": p for text, each in self._tensors.items() for name, p in each.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
