"""What runs measured, as columns: the rows of a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.recipe import MEMORIES
from memgrad.experiments.runs import Run

KINDS: dict[str, type[np.generic]] = {
    "problem": np.str_,
    "examples": np.int64,
    "dtype": np.str_,
    "batch": np.str_,
    "steps": np.int64,
    "optimizer": np.str_,
    **dict.fromkeys(MEMORIES, np.str_),
    "options": np.str_,
    "lr": np.float64,
    "seed": np.int64,
}
"""The columns that describe a run in a table, and what is in them."""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of finished runs, each once.

    Attributes:
        digest: The run of each row.
        step: The number of steps that were taken before it.
        metric: What was measured.
        value: The number.
        runs: The finished runs by digest, also those without a row.
        diverged: The runs, by digest, that left the finite numbers, and the step at which that was seen.
    """

    digest: NDArray[Any]
    step: NDArray[np.int64]
    metric: NDArray[Any]
    value: NDArray[np.float64]
    runs: Mapping[str, Run]
    diverged: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.value)

    def series(self, digest: str, metric: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The steps at which a run's metric was evaluated, increasing, and its values there.

        Example:
            >>> rows = Rows(np.array(["a"] * 2), np.array([0, 5]), np.array(["loss"] * 2), np.array([1.0, 0.5]), {}, {})
            >>> rows.series("a", "loss")
            (array([0, 5]), array([1. , 0.5]))
        """
        places = self._places.get((digest, metric), np.empty(0, dtype=np.intp))
        places = places[np.argsort(self.step[places], kind="stable")]
        return self.step[places], self.value[places]

    def places(self, digest: str) -> NDArray[np.intp]:
        """Where the rows of a run are."""
        found = [self._places[digest, metric] for metric in self.metrics if (digest, metric) in self._places]
        return np.concatenate(found) if found else np.empty(0, dtype=np.intp)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """What was measured, in the order of its first row."""
        return tuple(dict.fromkeys(metric for _, metric in self._places))

    def described(self) -> dict[str, NDArray[Any]]:
        """The rows with what their runs are, column by column, for a table.

        Options other than memories are one column of JSON; `diverged_at` is nan for a run that did not.
        """
        digests, place = np.unique(self.digest, return_inverse=True)
        about = [_described(self.runs[digest]) for digest in digests.tolist()]
        columns: dict[str, NDArray[Any]] = {}
        for name, kind in KINDS.items():
            columns[name] = np.array([each[name] for each in about], dtype=kind)[place]
        diverged = np.array([self.diverged.get(digest, np.nan) for digest in digests.tolist()], dtype=float)
        return {
            "digest": self.digest,
            **columns,
            "diverged_at": diverged[place],
            "step": self.step,
            "metric": self.metric,
            "value": self.value,
        }

    @cached_property
    def _places(self) -> dict[tuple[str, str], NDArray[np.intp]]:
        """Where the rows of each run and metric are. They come in blocks, so few comparisons find them."""
        if not len(self):
            return {}
        new = (self.digest[1:] != self.digest[:-1]) | (self.metric[1:] != self.metric[:-1])
        starts = np.concatenate([[0], np.flatnonzero(new) + 1])
        found: dict[tuple[str, str], list[NDArray[np.intp]]] = {}
        for start, end in zip(starts, [*starts[1:], len(self)], strict=True):
            found.setdefault((str(self.digest[start]), str(self.metric[start])), []).append(np.arange(start, end))
        return {key: np.concatenate(blocks) for key, blocks in found.items()}


def _described(run: Run) -> dict[str, Any]:
    options = dict(run.recipe.options)
    return {
        "problem": run.problem,
        "examples": run.examples,
        "dtype": run.dtype or "",
        "batch": "full" if run.batch is None else str(run.batch),
        "steps": run.steps,
        "optimizer": run.recipe.optimizer,
        **{name: options.get(name) or "" for name in MEMORIES},
        "options": json.dumps({name: value for name, value in options.items() if name not in MEMORIES}),
        "lr": run.lr,
        "seed": run.seed,
    }
