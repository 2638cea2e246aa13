"""The user's own optimizers and memories, in files beside an experiment or in modules."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard, final

from torch.optim import Optimizer

from memgrad.memory import FAMILIES, Memory, Mixture
from memgrad.user_code import Reference, beside, blaming, digest_of, importable, load, names_code

OPTIMIZER = "optimizer"
"""The key of the optimizer, among those of its options."""

_MEMORY = re.compile(r".*\.py(?::\w+)?|[\w.\-/\\]+:[^\W\d]\w*")
"""A memory in code. Families are excluded elsewhere: `log:x` is an invalid text form, not a module."""


@final
@dataclass(frozen=True)
class OwnCode:
    """The user's own optimizer or memory in a recipe.

    Attributes:
        option: `optimizer`, or the option that holds the memory.
        label: Its name without the folder, such as `my_optimizer.py:Mine`.
        digest: The digest of its source: a modified file makes new runs.
        place: Its file or module, which does not affect equality.
    """

    option: str
    label: str
    digest: str
    place: str = field(default="", compare=False)

    @classmethod
    def find(cls, option: str, name: str, folder: str | os.PathLike[str] | None) -> OwnCode | None:
        """The code that a name in an experiment refers to; None if it refers to something installed.

        Files and modules are looked for in `folder`, that of the experiment.
        """
        if not _is_code(option, name):
            return None
        reference = Reference.parse(beside(name, folder))
        what = "an optimizer" if option == OPTIMIZER else "a memory"
        reference.check(what)
        if option == OPTIMIZER and not reference.is_file and reference.is_installed():
            return None  # it is identified by its name, like torch's own
        if option != OPTIMIZER and not reference.is_file:
            load(f"memory {name!r}", reference, wants="a Memory", offers=_memories)
        source = reference.source()
        if source is None:
            raise ValueError(f"{what} must be in a Python file, got {reference.place}.")
        place = str(Path(reference.place).resolve()) if reference.is_file else reference.place
        return cls(option, reference.label, digest_of(source), place)

    @property
    def reference(self) -> Reference:
        """The reference to its file or module."""
        named = Reference.parse(self.label)
        return Reference(self.place or named.place, named.attribute)

    @property
    def module_name(self) -> str:
        """The name of its module in `sys.modules`."""
        return self.reference.module_name(self.digest)

    def optimizer(self) -> type[Optimizer]:
        """The class of the optimizer."""
        wants = "a class derived from torch.optim.Optimizer"
        found = self._load(wants, _optimizers)
        if not is_optimizer(found):
            raise ValueError(f"optimizer {self.label!r} must be {wants}, got {found!r}.")
        return found

    def memory(self) -> Memory | Mixture:
        """The memory or mixture."""
        found = self._load("a Memory, or of a function that returns one", _memories)
        with importable(self.reference.folder), blaming(f"memory {self.label!r}"):
            made = found() if callable(found) and not isinstance(found, Memory | Mixture) else found
        if not isinstance(made, Memory | Mixture):
            raise ValueError(f"memory {self.label!r} must be a Memory or a function that returns one, got {made!r}.")
        return made

    def object(self) -> Any:
        """The object itself, to be sent to machines without its file."""
        return self._load("what is in it", _memories)

    def _load(self, wants: str, offers: Callable[[ModuleType], list[str]]) -> Any:
        what = f"{OPTIMIZER if self.option == OPTIMIZER else 'memory'} {self.label!r}"
        return load(what, self.reference, wants=wants, offers=offers, digest=self.digest)


def is_optimizer(found: object) -> TypeGuard[type[Optimizer]]:
    """Whether it is an optimizer class that can be built."""
    return inspect.isclass(found) and issubclass(found, Optimizer) and found is not Optimizer


def _is_code(option: str, name: str) -> bool:
    if option == OPTIMIZER:
        return names_code(name)
    return _MEMORY.fullmatch(name) is not None and name.partition(":")[0].strip().lower() not in FAMILIES


def _optimizers(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if is_optimizer(value)]


def _memories(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Memory)]
