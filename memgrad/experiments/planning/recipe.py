"""Optimizers as plain data: which one, and its options except for the step size."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from memgrad import optim
from memgrad.deprecation import renamed
from memgrad.experiments.planning.own_code import OPTIMIZER, OwnCode, is_optimizer
from memgrad.memory import Memory, Mixture
from memgrad.memory.text import parse
from memgrad.method import Method
from memgrad.optim.methods import method_of
from memgrad.suggestions import did_you_mean
from memgrad.user_code import blaming, contained, described, importable

Plain = bool | int | float | str | tuple[float | None, ...] | None

MEMORIES = ("memory", "second_memory")
"""The options that hold a memory, in text form."""

NOT_OPTIONS = frozenset(
    {"self", "params", "lr", "maximize", "foreach", "fused", "capturable", "differentiable", "compiled"}
)
"""Options a recipe excludes: runs have the step size, problems are minimized, and the others do not change results."""

OTHER_GRADIENTS = {"LBFGS": "evaluates the loss several times per step", "SparseAdam": "needs sparse gradients"}
"""Optimizers of torch that need more than one dense gradient per step, and what they need."""

_EXCLUDED = "__dynamo_disable"
"""Where torch keeps the form of a function that its compiler does not look into."""

FORMER: Mapping[str, Mapping[str, Plain]] = {"ADana": {"through_lr": True}}
"""Options that are newer than stored rows, with what those did: at that value they are left out of data and digests."""


class OptionError(ValueError):
    """An optimizer refuses one of its options; `option` names it."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


@final
@dataclass(frozen=True)
class Recipe:
    """An optimizer and all its options, including those left at their defaults.

    Two recipes are equal exactly if their optimizers behave identically.

    Attributes:
        optimizer: One of `memgrad.optim` or `torch.optim` by its name, or any other as `file.py:Class` or
            `module:Class`.
        options: Name and value of each option, sorted.
        code: The optimizer and the memories that are the user's own, in files.

    Example:
        >>> Recipe.of("HeavyBall") == Recipe.of("HeavyBall", momentum=0.9)
        True
        >>> dict(Recipe.of("MemSGD", memory="p=2").options)["memory"]
        'poly:2'
    """

    optimizer: str
    options: tuple[tuple[str, Plain], ...]
    code: tuple[OwnCode, ...] = ()

    @classmethod
    def of(cls, optimizer: str, /, **options: Any) -> Recipe:
        """The recipe of an optimizer with these options, which are checked by building it."""
        return cls.read(optimizer, options)

    @classmethod
    def read(
        cls, optimizer: str, options: Mapping[str, Any], *, folder: str | os.PathLike[str] | None = None
    ) -> Recipe:
        """The same, with the user's own files looked for in a folder: that of the experiment that names them."""
        code: dict[str, OwnCode] = {}
        with _about(OPTIMIZER):
            if own := OwnCode.find(OPTIMIZER, optimizer, folder):
                code[OPTIMIZER], optimizer = own, own.label
            known = _known_options(own.optimizer() if own else optimizer_class(optimizer))
        for name in options:
            if name not in known:
                hint = did_you_mean(name, known)
                raise OptionError(
                    name, f"{optimizer} has no option {name!r}{hint} It has {', '.join(known) or 'none'}."
                )
        complete: dict[str, Plain] = {}
        for name, usual in known.items():
            value = options.get(name, usual)
            with _about(name):
                if name in MEMORIES and isinstance(value, str) and (own := OwnCode.find(name, value, folder)):
                    own.memory()
                    code[name], complete[name] = own, own.label
                else:
                    complete[name] = _plain(optimizer, name, value, usual)
        recipe = cls(optimizer, tuple(sorted(complete.items())), tuple(code[name] for name in sorted(code)))
        used = recipe._tried(options, known)  # has values for options left at None, such as a momentum
        if None in complete.values():
            # One that depends on the learning rate, or is no plain value, is left for the optimizer to choose.
            again = recipe._built_or_error(lr=0.5)
            fixed = {} if isinstance(again, Exception) else again
            complete = {
                name: used[name] if value is None and _is_fixed(used.get(name), fixed.get(name)) else value
                for name, value in complete.items()
            }
        return replace(recipe, options=tuple(sorted(complete.items())))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """The inverse of `to_dict`, which has the digests of the user's own code but not the code."""
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in data["options"].items()}
        options = {**FORMER.get(data["optimizer"], {}), **options}
        named = {OPTIMIZER: data["optimizer"], **options}
        code = tuple(OwnCode(name, named[name], digest) for name, digest in sorted(data.get("code", {}).items()))
        return cls(data["optimizer"], tuple(sorted(options.items())), code)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON. The key `code` is left out if there is none, so that older digests stay valid."""
        code = {"code": {own.option: own.digest for own in self.code}} if self.code else {}
        former = FORMER.get(self.optimizer, {})
        options = {name: value for name, value in self.options if name not in former or value != former[name]}
        return {"optimizer": self.optimizer, "options": options, **code}

    as_dict = renamed("as_dict", "to_dict")

    def __getitem__(self, option: str) -> Any:
        return dict(self.options)[option]

    @property
    def method(self) -> Method | None:
        """The method, or None if the optimizer is not one, so that its runs are trained alone.

        Example:
            >>> print(Recipe.of("AdamW").method)
            exp:0.9 / (sqrt(exp:0.999) + 1e-08); decay=0.01
        """
        options = dict(self.options)
        if options.get("state_dtype") is not None:
            return None
        memories = {name: self.memory(name) for name in MEMORIES if name in options}
        return method_of(self.optimizer, {**options, **memories})

    def memory(self, option: str = "memory") -> Memory | Mixture:
        """The memory or mixture that an option holds."""
        own = {each.option: each for each in self.code}
        return own[option].memory() if option in own else parse(self[option])

    def build(self, parameters: Iterable[Tensor], lr: float) -> Optimizer:
        """Build the optimizer."""
        own = {each.option: each for each in self.code}
        theirs = own.pop(OPTIMIZER, None)
        make: Callable[..., Optimizer] = theirs.optimizer() if theirs else optimizer_class(self.optimizer)
        memories = {name: each.memory() for name, each in own.items()}
        return make(parameters, lr=lr, **(dict(self.options) | memories))

    def _tried(self, given: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the built optimizer; an error names the option that it refuses."""
        used = self._built_or_error()
        if not isinstance(used, Exception):
            return used
        why = str(used) if isinstance(used, ValueError | TypeError) else described(used)
        for name, value in given.items():
            otherwise = tuple(sorted((dict(self.options) | {name: usual[name]}).items()))
            code = tuple(own for own in self.code if own.option != name)
            if not isinstance(replace(self, options=otherwise, code=code)._built_or_error(), Exception):
                raise OptionError(name, f"{self.optimizer} refuses {name}={value!r}: {why}") from used
        said = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise ValueError(f"{self.optimizer} refuses {said or 'its defaults'}: {why}") from used

    def _built_or_error(self, lr: float = 1.0) -> dict[str, Any] | Exception:
        """The options of the optimizer that is built, or the error that its constructor raises about them."""
        try:
            with contained(), _without_compiler():
                return self.build([torch.nn.Parameter(torch.zeros(1))], lr=lr).param_groups[0]
        except Exception as error:
            return error


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Build optimizers that are never trained without importing torch's compiler, which takes longer than all of ours.

    torch excludes `add_param_group` from compilation when it is first called, and remembers that beside the function.
    """
    plain = getattr(Optimizer.add_param_group, "__wrapped__", None)
    if plain is None or hasattr(plain, _EXCLUDED):
        yield
        return
    setattr(plain, _EXCLUDED, plain)
    try:
        yield
    finally:
        delattr(plain, _EXCLUDED)


def optimizer_class(name: str) -> type[Optimizer]:
    """The class with this name.

    Example:
        >>> optimizer_class("AdamW").__module__
        'torch.optim.adamw'
    """
    module, colon, attribute = name.partition(":")
    if colon:
        with importable(Path.cwd()), blaming(f"optimizer {name!r}"):
            found = getattr(importlib.import_module(module), attribute, None)
    elif name in OTHER_GRADIENTS:
        raise ValueError(f"{name} {OTHER_GRADIENTS[name]}, and a run has one dense gradient per step; use another.")
    else:
        found = getattr(optim, name, None) or getattr(torch.optim, name, None)
    if not is_optimizer(found):
        known = optimizer_names()
        raise ValueError(
            f"unknown optimizer {name!r}{did_you_mean(name, known)} Known: {', '.join(known)}; your own: "
            f"file.py:Class or module:Class, a torch Optimizer."
        )
    return found


def optimizer_names() -> tuple[str, ...]:
    """The optimizers known by name: ours, then torch's, without Muon, which is for matrices only."""
    ours = [name for name in optim.__all__ if is_optimizer(getattr(optim, name))]
    theirs = {name for name, each in vars(torch.optim).items() if is_optimizer(each)}
    return (*ours, *sorted(theirs - {"Muon", *OTHER_GRADIENTS}))


@contextmanager
def _about(option: str) -> Iterator[None]:
    """Make errors name the key of a method that they are about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise OptionError(option, str(error)) from error
    except OSError as error:  # a missing or unreadable file
        raise OptionError(option, f"{error.strerror} ({error.filename}).") from error


def _known_options(made_by: type[Optimizer]) -> dict[str, Any]:
    parameters = inspect.signature(made_by).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in NOT_OPTIONS]
    return {p.name: None if p.default is p.empty else p.default for p in named}


def _is_fixed(value: Any, other: Any) -> bool:
    """Whether two optimizers at different learning rates have the same plain value."""
    plain = bool | int | float | str
    if isinstance(value, tuple):
        return isinstance(other, tuple) and all(isinstance(each, plain) for each in value) and value == other
    return isinstance(value, plain) and type(value) is type(other) and value == other


def _plain(optimizer: str, name: str, value: Any, default: Any) -> Plain:
    if name in MEMORIES:
        if not isinstance(value, Memory | Mixture | str):
            raise ValueError(f"{optimizer} needs {name} in text form, such as 'poly:2', got {value!r}.")
        return str(Memory.parse(value) if isinstance(value, str) else value)
    if isinstance(value, list | tuple):
        if any(isinstance(each, bool) or not isinstance(each, int | float | None) for each in value):
            raise ValueError(f"{optimizer} needs numbers in {name}, got {value!r}.")
        return tuple(None if each is None else _float(optimizer, name, each) for each in value)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError(f"{optimizer} needs a number, text or list of numbers for {name}, got {value!r}.")
    # 1 and 1.0 must have one digest: take the type of the default, and an integer if that does not decide.
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
