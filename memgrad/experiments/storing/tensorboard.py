"""TensorBoard event files of an experiment, in addition to the store's rows."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, final

from memgrad.experiments.driver import Listener
from memgrad.experiments.planning.plan import RunGroup
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.training.events import Evaluated, Event, Finished
from memgrad.extras import require


@final
class EventFiles:
    """A listener that writes a folder of event files per run as it is evaluated, and passes everything on.

    Args:
        folder: Where the folders are written: one per run, with method, step size and seed in its name.
        spec: The experiment, which names the methods.
        others: The listener that everything is passed on to.
    """

    def __init__(self, folder: Path, spec: Spec, others: Listener) -> None:
        require("--tensorboard", extra="tensorboard", modules=("tensorboard",))
        self._folder, self._others = folder / _as_file(spec.name), others
        self.began, self.started, self.said = others.began, others.started, others.said
        variants = [each for method in spec.methods if method.copies is None for each in method.variants]
        self._names = {variant.recipe: variant.name for variant in variants}
        self._writers: dict[str, Any] = {}

    def happened(self, group: RunGroup, event: Event) -> None:
        """Write what was evaluated, and pass the event on."""
        if isinstance(event, Evaluated):
            for i, run in enumerate(group.runs):
                for metric, values in event.values.items():
                    if math.isfinite(values[i]):
                        self._writer(run).add_scalar(metric, values[i], event.k)
        elif isinstance(event, Finished):
            for run in group.runs:
                if run.digest in self._writers:
                    self._writers.pop(run.digest).close()
        self._others.happened(group, event)

    def close(self) -> None:
        """Close the files of runs that were stopped."""
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
