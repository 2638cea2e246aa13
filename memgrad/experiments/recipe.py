"""Optimizers as plain data: which one, with which options, but for the step size."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from memgrad import optim
from memgrad.memory import Memory

Plain = bool | int | float | str | tuple[float | None, ...] | None

MEMORIES = ("memory", "second_memory")
"""The options that hold a memory, in text form."""

NOT_OPTIONS = frozenset({"self", "params", "lr", "maximize", "foreach", "fused", "capturable", "differentiable"})
"""What a recipe may not say: the step size is a run's, problems are minimised, and the rest does not change results."""

OTHER_GRADIENTS = {"LBFGS": "evaluates the loss several times a step", "SparseAdam": "needs sparse gradients"}
"""Optimizers of torch that a run cannot serve, and why."""


@final
@dataclass(frozen=True)
class Recipe:
    """An optimizer and its options, all of them, also those left at their defaults.

    Two recipes are equal exactly if their optimizers do the same.

    Attributes:
        optimizer: One of `memgrad.optim` or `torch.optim` by its name, or any other as `module:Class`.
        options: Name and value of each option, sorted.

    Example:
        >>> Recipe.of("HeavyBall") == Recipe.of("HeavyBall", momentum=0.9)
        True
        >>> dict(Recipe.of("MemSGD", memory="p=2").options)["memory"]
        'poly:2'
    """

    optimizer: str
    options: tuple[tuple[str, Plain], ...]

    @classmethod
    def of(cls, optimizer: str, **options: Any) -> Recipe:
        """The recipe of an optimizer with these options; refused as the optimizer itself would refuse them."""
        made_by = optimizer_class(optimizer)
        known = _known_options(made_by)
        for name in options:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ValueError(f"{optimizer} has no option {name!r}; {hint}It has {', '.join(known) or 'none'}.")
        complete = {name: _plain(optimizer, name, options.get(name, usual), usual) for name, usual in known.items()}
        recipe = cls(optimizer, tuple(sorted(complete.items())))
        try:
            built = recipe.build([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        except Exception as error:  # whatever a constructor raises, it is about its options
            given = ", ".join(f"{name}={value!r}" for name, value in options.items())
            raise ValueError(f"{optimizer} refuses {given or 'its defaults'}: {error}") from error
        used = built.param_groups[0]  # where an option left open, such as a momentum, has its value
        complete = {name: used.get(name, value) if value is None else value for name, value in complete.items()}
        return cls(optimizer, tuple(sorted(complete.items())))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """The recipe that `as_dict` made plain data of."""
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in data["options"].items()}
        return cls(data["optimizer"], tuple(sorted(options.items())))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"optimizer": self.optimizer, "options": dict(self.options)}

    def __getitem__(self, option: str) -> Any:
        return dict(self.options)[option]

    def build(self, parameters: Iterable[Tensor], lr: float) -> Optimizer:
        """The optimizer itself."""
        make: Callable[..., Optimizer] = optimizer_class(self.optimizer)
        return make(parameters, lr=lr, **dict(self.options))


def optimizer_class(name: str) -> type[Optimizer]:
    """The class with this name.

    Example:
        >>> optimizer_class("AdamW").__module__
        'torch.optim.adamw'
    """
    module, colon, attribute = name.partition(":")
    if colon:
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except Exception as error:  # whatever the module does when it is imported
            raise ValueError(f"optimizer {name!r}: {module!r} cannot be imported: {error}.") from error
    elif name in OTHER_GRADIENTS:
        raise ValueError(f"{name} {OTHER_GRADIENTS[name]}, and a run has one dense gradient a step; use another.")
    else:
        found = getattr(optim, name, None) or getattr(torch.optim, name, None)
    if not (inspect.isclass(found) and issubclass(found, Optimizer) and found is not Optimizer):
        known = optimizer_names()
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"unknown optimizer {name!r}; {hint}Known: {', '.join(known)}; your own: module:Class, a torch Optimizer."
        )
    return found


def optimizer_names() -> tuple[str, ...]:
    """The optimizers known by name: ours, then torch's. Muon, for matrices alone, is not among them."""
    ours = [name for name in optim.__all__ if inspect.isclass(c := getattr(optim, name)) and issubclass(c, Optimizer)]
    theirs = [name for name, c in vars(torch.optim).items() if inspect.isclass(c) and issubclass(c, Optimizer)]
    return (*ours, *sorted(name for name in theirs if name not in {"Optimizer", "Muon", *OTHER_GRADIENTS}))


def _known_options(made_by: type[Optimizer]) -> dict[str, Any]:
    parameters = inspect.signature(made_by).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in NOT_OPTIONS]
    return {p.name: None if p.default is p.empty else p.default for p in named}


def _plain(optimizer: str, name: str, value: Any, default: Any) -> Plain:
    if name in MEMORIES:
        if not isinstance(value, Memory | str):
            raise ValueError(f"{optimizer} needs {name} in text form, such as 'poly:2', got {value!r}.")
        return str(Memory.parse(value) if isinstance(value, str) else value)
    if isinstance(value, list | tuple):
        if any(isinstance(each, bool) or not isinstance(each, int | float | None) for each in value):
            raise ValueError(f"{optimizer} needs numbers in {name}, got {value!r}.")
        return tuple(None if each is None else _float(optimizer, name, each) for each in value)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"{optimizer} needs a number, text or list of numbers for {name}, got {value!r}.")
    # 1 and 1.0 are one option, and one digest: as the default is written, and without a point where that says nothing.
    if isinstance(value, int) and not isinstance(value, bool):
        as_float = _float(optimizer, name, value)
        return as_float if isinstance(default, float) else value
    if isinstance(value, float) and value.is_integer() and not isinstance(default, float):
        return int(value)
    return value


def _float(optimizer: str, name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{optimizer} needs numbers below 1e308 for {name}, got a larger one.") from None
