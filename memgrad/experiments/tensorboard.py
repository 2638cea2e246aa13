"""TensorBoard's event files of an experiment, beside the store's rows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from memgrad.experiments.driver import Listener
from memgrad.experiments.events import Evaluated, Event, Finished
from memgrad.experiments.plan import Batch
from memgrad.experiments.runs import Run
from memgrad.experiments.spec import Spec
from memgrad.extras import require


@final
class EventFiles:
    """A listener that writes a folder of event files for each run, as it is evaluated, and passes everything on.

    Args:
        folder: Where the folders are written: one a run, with method, step size and seed in its name.
        spec: The experiment, which names the methods.
        others: Who else listens.
    """

    def __init__(self, folder: Path, spec: Spec, others: Listener) -> None:
        require("--tensorboard", extra="tensorboard", modules=("tensorboard",))
        self._folder, self._others = folder / _as_file(spec.name), others
        self._names = {method.recipe: method.name for method in spec.methods}
        self._writers: dict[str, Any] = {}

    def began(self, batches: Sequence[Batch], finished: int) -> None:
        """Pass it on."""
        self._others.began(batches, finished)

    def started(self, batch: Batch, k: int) -> None:
        """Pass it on."""
        self._others.started(batch, k)

    def happened(self, batch: Batch, event: Event) -> None:
        """Write what was evaluated."""
        if isinstance(event, Evaluated):
            for i, run in enumerate(batch.runs):
                for metric, values in event.values.items():
                    if math.isfinite(values[i]):
                        self._writer(run).add_scalar(metric, values[i], event.k)
        elif isinstance(event, Finished):
            for run in batch.runs:
                if run.digest in self._writers:
                    self._writers.pop(run.digest).close()
        self._others.happened(batch, event)

    def said(self, message: str) -> None:
        """Pass it on."""
        self._others.said(message)

    def close(self) -> None:
        """Write what is left, of runs that were stopped."""
        while self._writers:
            self._writers.popitem()[1].close()

    def _writer(self, run: Run) -> Any:
        if run.digest not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            name = f"{_as_file(self._names[run.recipe])}/lr={run.lr:g}/seed={run.seed}"
            self._writers[run.digest] = SummaryWriter(str(self._folder / name))
        return self._writers[run.digest]


def _as_file(name: str) -> str:
    return re.sub(r"[^\w.=+-]+", "_", name) or "_"
