"""Steps compiled by `torch.compile`: the plain rule, for all parameters of a bucket together, in one pass over memory.

The rule is not compiled directly. At each step it is first run on `Paper`, which records its operations and the numbers
in them. The operations, which stay the same from step to step, are compiled; the numbers are passed as a tensor, so
that a new learning rate or decay does not cause another compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from memgrad.optim.arithmetic import Arithmetic, Scalar, Single, Tensors
from memgrad.optim.buckets import Bucket
from memgrad.optim.options import Group

Rule = Callable[[Arithmetic, Bucket, Group], None]
Step = Callable[[list[Tensors], Tensor], None]

_MANY_STEPS = 32
_NUMBER = torch.Size()


class Line(NamedTuple):
    """One operation of a rule: its name in `Arithmetic`, the lists of tensors it takes, and the list it returns."""

    name: str
    places: tuple[int, ...]
    numbers: int
    """How many of the step's numbers it uses, in order."""
    result: int | None = None


class Paper:
    """An `Arithmetic` that computes nothing and records the calls: lists of tensors by their places, and numbers."""

    def __init__(self, lists: Sequence[Tensors]) -> None:
        self.lines: list[Line] = []
        self.numbers: list[Scalar] = []
        self._kept = list(lists)  # kept alive, so that no other list gets the id of one of them

    def __getattr__(self, name: str) -> Callable[..., Tensors | None]:
        """The operation of this name, which records its call. Those that return new tensors return a placeholder."""

        def record(*given: Any) -> Tensors | None:
            each = [item for term in given[0] for item in term] if name == "combined" else given
            places = tuple([self._place(item) for item in each if isinstance(item, list)])
            numbers = [item for item in each if not isinstance(item, list)]
            self.numbers += numbers
            if name.endswith("_"):  # it changes its first list
                self.lines.append(Line(name, places, len(numbers)))
                return None
            self._kept.append([])
            self.lines.append(Line(name, places, len(numbers), len(self._kept) - 1))
            return self._kept[-1]

        return record

    def _place(self, tensors: Tensors) -> int:
        return next(i for i, each in enumerate(self._kept) if each is tensors)


class Compiler:
    """The compiled steps of one optimizer, by their operations."""

    def __init__(self) -> None:
        self._steps: dict[tuple[tuple[Line, ...], tuple[torch.Size, ...]], Step] = {}

    def take(self, owner: str, rule: Rule, bucket: Bucket, group: Group) -> None:
        """Take the rule's step."""
        lists = [bucket.x, bucket.g, *bucket.buffers]
        paper = Paper(lists)
        rule(cast(Arithmetic, paper), bucket, group)
        dtype = torch.float64 if bucket.x[0].dtype is torch.float64 else torch.float32
        numbers = torch.tensor(paper.numbers, dtype=dtype, device=bucket.x[0].device)
        shapes = tuple([t.shape for t in bucket.x])
        if _NUMBER in shapes:
            lists = [_without_numbers(tensors) for tensors in lists]
        key = (tuple(paper.lines), shapes)
        step = self._steps.get(key)
        if step is not None:
            step(lists, numbers)
            return
        try:
            step = _compiled(key[0], len(lists))
            step(lists, numbers)
        except RuntimeError as error:
            raise RuntimeError(
                f"{owner} with compiled=True needs torch.compile and its compiler for {bucket.x[0].device}, which "
                f"failed; no step was taken. compiled=False needs neither. Torch's error: {error}"
            ) from error
        if len(self._steps) >= _MANY_STEPS:  # a schedule of options must not accumulate them
            self._steps.clear()
        self._steps[key] = step


def _compiled(lines: tuple[Line, ...], given: int) -> Step:
    def step(lists: list[Tensors], numbers: Tensor) -> None:
        precise = lists[2] if given > 2 else lists[0]
        known: dict[int, Tensors] = dict(enumerate(lists))
        known[1] = [g.to(t.dtype) for g, t in zip(lists[1], precise, strict=True)]
        used = 0
        for line in lines:
            scalars = [numbers[i] for i in range(used, used + line.numbers)]
            used += line.numbers
            result = _do(line, [known[i] for i in line.places], scalars)
            if line.result is not None:
                known[line.result] = result

    # torch counts compilations per code object, and gives up after eight: each step gets its own.
    own = FunctionType(step.__code__.replace(), step.__globals__, step.__name__, None, step.__closure__)
    return cast(Step, torch.compile(own, dynamic=False))


def _do(line: Line, lists: list[Tensors], scalars: list[Tensor]) -> Any:
    if line.name == "combined":
        return Single.combined(list(zip(lists, scalars, strict=True)))
    if line.name == "lerp_":  # Single would round the weight to the precision of the average
        return [u.add_(scalars[0] * (g - u)) for u, g in zip(*lists, strict=True)]
    if line.name == "lerp_square_":
        return [v.add_(scalars[0] * (g * g - v)) for v, g in zip(*lists, strict=True)]
    return getattr(Single, line.name)(*lists, *scalars)


def _without_numbers(tensors: Tensors) -> Tensors:
    """Tensors with at least one dimension: torch.compile loses writes to float64 scalars (torch 2.13)."""
    return [t.view(1) if t.dim() == 0 else t for t in tensors]
