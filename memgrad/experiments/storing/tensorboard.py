"""TensorBoard event files of an experiment, in addition to the store's rows."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, final

from memgrad.experiments.driver import Listener
from memgrad.experiments.planning.methods import Method
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
        self._names: dict[tuple[Any, ...], str] = {}
        for variant in variants:  # of methods that differ in nothing but their names, the first one's
            self._names.setdefault(_settings(spec, variant), variant.name)
        self._steps = (
            {each.name: spec.steps_of(each, spec.steps) for each in variants} if spec.steps is not None else {}
        )
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

    def _name(self, run: Run) -> str:
        """The method's name; a run that copies a method with other steps, schedule or clip has its own settings too."""
        exact = self._names.get((run.recipe, run.schedule, run.clip))
        name = exact or next(name for (recipe, *_), name in self._names.items() if recipe == run.recipe)
        if exact is None:
            name += f" schedule={run.schedule or 'constant'} clip={run.clip}"
        return name if run.steps == self._steps.setdefault(name, run.steps) else f"{name} steps={run.steps}"

    def _writer(self, run: Run) -> Any:
        if run.digest not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            name = f"{_as_file(self._name(run))}/lr={run.lr:g}/seed={run.seed}"
            self._writers[run.digest] = SummaryWriter(str(self._folder / name))
        return self._writers[run.digest]


def _settings(spec: Spec, method: Method) -> tuple[Any, ...]:
    """What tells the runs of methods apart, beside step size and seed."""
    schedule = spec.schedule_of(method)
    clip = spec.clip if method.clip is None else method.clip
    return method.recipe, None if schedule.is_constant else str(schedule), clip


def _as_file(name: str) -> str:
    return re.sub(r"[^\w.=+-]+", "_", name) or "_"
