"""Watching an optimizer: the steps it takes and the state it keeps for a vector of parameters under given gradients."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from memgrad.kinds import Array

Make = Callable[[list[torch.nn.Parameter]], Optimizer]
Before = Callable[[Any, int], object]

LOOKED_INTO = 8  # most entries of a list or dict in the state; a longer one is a history, not a buffer

MAKING = (
    "make_optimizer is called with a list of that one torch.nn.Parameter: let it convert the list to what the "
    "optimizer expects, as in lambda params: Optimizer([{'params': params}], lr=0.1)."
)
STEPPING = "If it needs a call or a setting before each step, do that in before_step(optimizer, k)."

# What the text of an error suggests the optimizer needs, and what helps. The first pattern that is found applies.
NEEDS = (
    (
        r"sparse",
        "It takes only sparse gradients: let before_step convert them, with "
        "p = optimizer.param_groups[0]['params'][0]; p.grad = p.grad.to_sparse().",
    ),
    (
        r"\b[2-4]-?d\b|matri|\bndim|dimension|to unpack",
        "It seems to work on whole matrices, about which impulses say nothing: an audit needs an optimizer that takes "
        "a vector and updates each coordinate from its own gradients. Audit what it uses for vectors, if anything.",
    ),
    (
        r"train.?mode|\.train\(\)|eval.?mode",
        "It must be switched to training mode first: do so in before_step, as with "
        "before_step=lambda optimizer, k: optimizer.train().",
    ),
    (
        r"closure|backward|graph|grad_fn|hessian|requires? grad|differentiate",
        "It seems to need a loss that it can differentiate itself, but an audit has only gradients. Whatever else it "
        "needs can be set in before_step.",
    ),
)


@dataclass(frozen=True)
class Watched:
    """What was observed in one run.

    Args:
        optimizer: Name of its class.
        x: Row k holds the parameters before step k.
        moved: Row k holds how far step k moved each parameter, in units of the learning rate, against the gradient.
        states: The same for each buffer of the parameter's shape, after the step, by name. A buffer is 0 before it
            appears, and NaN after it has disappeared.
        kept: The data type of each buffer and, under `step`, of the parameters.
        numbers: Single numbers in the state, at the end.
        elsewhere: State that is kept in another form, and a description of that form.
        resolution: Row k holds the rounding error of x, in the units of `moved`.
        has_lr: Whether there is a learning rate; otherwise `moved` has the raw steps.
    """

    optimizer: str
    x: Array
    moved: Array
    states: Mapping[str, Array]
    kept: Mapping[str, torch.dtype]
    numbers: Mapping[str, float]
    elsewhere: Mapping[str, str]
    resolution: Array
    has_lr: bool

    def values(self, name: str) -> Array | None:
        """The steps, for the name `step`, or a buffer; `None` if there is none of that name."""
        return self.moved if name == "step" else self.states.get(name)


@dataclass(frozen=True)
class Watcher:
    """Runs an optimizer repeatedly, always in the same way.

    Args:
        make: Makes the optimizer.
        before_step: Called before each step.
        closure: Whether `step` is given a closure.
        dtype: Of the parameters and the gradients.
    """

    make: Make
    before_step: Before | None
    closure: bool = False
    dtype: torch.dtype = torch.float64

    def watch(self, gradients: Array, *, start: float = 0.0, held: bool = False) -> Watched:
        """Feed gradients, row by row, to parameters that begin at `start`; if held, each step begins there."""
        x = torch.nn.Parameter(torch.full((gradients.shape[1],), start, dtype=self.dtype, device="cpu"))
        optimizer = _make(self.make, x)
        log = _Log(x)
        for k, g in enumerate(gradients):
            if held:
                x.data.fill_(start)
            x.grad = torch.from_numpy(g.copy()).to(self.dtype)
            if self.before_step is not None:
                self.before_step(optimizer, k)
            lr = _learning_rate(optimizer)
            before = x.detach().clone()
            self._step(optimizer, x, k)
            log.add(before, x.detach(), lr or 1.0, optimizer.state.get(x, {}))
        return Watched(
            type(optimizer).__name__,
            np.stack(log.x),
            np.stack(log.moved),
            log.states(),
            log.kept,
            {name: number for name, number in log.numbers.items() if log.is_looked_into(name)},
            log.elsewhere,
            np.stack(log.resolution),
            lr is not None,
        )

    def _step(self, optimizer: Optimizer, x: torch.nn.Parameter, k: int) -> None:
        g = x.grad

        def closure() -> Tensor:
            x.grad = None if g is None else g.clone()
            return torch.ones((), device="cpu")

        try:
            if self.closure:
                optimizer.step(closure)  # type: ignore[arg-type]  # torch's own examples return a tensor too
            else:
                optimizer.step()
        except Exception as error:
            raise AuditError(_refusal(optimizer, x, k, error, self.closure)) from error


class AuditError(RuntimeError):
    """The optimizer raised an error during an audit; the message says what it seems to need."""


def watcher_for(make: Make, before_step: Before | None) -> Watcher:
    """A watcher that works for the optimizer: without a closure and in float64 if possible."""
    optimizer = _make(make, torch.nn.Parameter(torch.zeros(3, dtype=torch.float64, device="cpu")))
    takes = [*inspect.signature(optimizer.step).parameters.values()]
    must = bool(takes) and takes[0].default is takes[0].empty and takes[0].kind is takes[0].POSITIONAL_OR_KEYWORD
    closures = (True,) if must else (False, True) if takes else (False,)
    refusals = []
    for dtype in (torch.float64, torch.float32):
        for closure in closures:
            watcher = Watcher(make, before_step, closure, dtype)
            try:
                watcher.watch(np.array([[0.5, -1.0, 2.0]] * 2))
            except AuditError as refusal:
                refusals.append(refusal)
            else:
                return watcher
    raise refusals[0]


class _Log:
    """What is recorded at each step."""

    def __init__(self, x: torch.nn.Parameter) -> None:
        self.shape = x.shape
        self.x: list[Array] = []
        self.moved: list[Array] = []
        self.resolution: list[Array] = []
        self.rows: dict[str, dict[int, Array]] = {}
        self.kept: dict[str, torch.dtype] = {"step": x.dtype}
        self.numbers: dict[str, float] = {}
        self.elsewhere: dict[str, str] = {}

    def add(self, x: Tensor, after: Tensor, lr: float, state: Mapping[str, Any]) -> None:
        k = len(self.x)
        self.x.append(x.to(torch.float64).numpy().copy())
        self.moved.append((x - after).to(torch.float64).numpy() / lr)
        largest = torch.maximum(x.abs(), after.abs()).to(torch.float64)
        self.resolution.append(8 * torch.finfo(x.dtype).eps * largest.numpy() / lr)
        for key, value in _entries(state):
            name = "state[step]" if key == "step" else key  # `step`, usually a counter, here means the steps of x
            if (number := _number(value, self.shape)) is not None:
                self.numbers[name] = number
            elif isinstance(value, Tensor) and value.shape == self.shape and _is_plain(value):
                self.rows.setdefault(name, {})[k] = value.detach().to(torch.float64).numpy().copy()
                self.kept[name] = value.dtype
            elif (words := _other_form(value)) is not None:
                self.elsewhere[name] = words

    def states(self) -> dict[str, Array]:
        tables = {}
        for name, rows in self.rows.items():
            if self.is_looked_into(name):
                table = np.full((len(self.x), *self.shape), np.nan)
                table[: min(rows)] = 0.0
                for k, row in rows.items():
                    table[k] = row
                tables[name] = table
        return tables

    def is_looked_into(self, name: str) -> bool:
        """Whether it is not an entry of a list that became too long."""
        return name.split("[", maxsplit=1)[0] not in self.elsewhere


def _entries(state: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of a state by name; those of a short list or dict inside it as `name[key]`."""
    for key, value in state.items():
        name = f"{prefix}[{key}]" if prefix else str(key)
        inside = _inside(value)
        if inside is not None and len(inside) <= LOOKED_INTO and not prefix:
            yield from _entries(inside, name)
        else:
            yield name, value


def _inside(value: Any) -> Mapping[Any, Any] | None:
    """The entries of a list or dict, by place or key; `None` for anything else."""
    if isinstance(value, (list, tuple, deque)):
        return dict(enumerate(value))
    return value if isinstance(value, Mapping) else None


def _is_plain(value: Tensor) -> bool:
    return value.layout is torch.strided and not value.is_complex() and not value.is_quantized


def _number(value: Any, shape: torch.Size) -> float | None:
    """A single number in a state, `None` for anything else."""
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 and value.shape != shape and _is_plain(value) else None
    return float(value) if isinstance(value, (bool, int, float)) else None


def _other_form(value: Any) -> str | None:
    """A description of state that is neither a buffer nor a number; `None` if it holds no numbers at all."""
    if isinstance(value, Tensor):
        return f"a tensor of the shape {tuple(value.shape)}" + ("" if _is_plain(value) else f" ({value.dtype})")
    inside = _inside(value)
    if inside is not None:
        holds = any(isinstance(each, (Tensor, float)) or _inside(each) for each in inside.values())
        return f"a {type(value).__name__} of {len(inside)} entries" if holds else None
    return None if value is None or isinstance(value, str) or callable(value) else f"a {type(value).__name__}"


def _learning_rate(optimizer: Optimizer) -> float | None:
    """The learning rate, `None` for an optimizer that has none."""
    lr = optimizer.param_groups[0].get("lr")
    if not isinstance(lr, (int, float, Tensor)):
        return None
    if not float(lr) > 0:
        raise ValueError(
            f"an audit measures steps in units of the learning rate, which must be > 0, got lr={float(lr)!r}."
        )
    return float(lr)


def _make(make: Make, x: torch.nn.Parameter) -> Optimizer:
    try:
        optimizer = make([x])
    except Exception as error:
        raise AuditError(
            f"an audit makes the optimizer for one vector of {len(x)} parameters in float64, and making it raised "
            f"{_quoted(error)}. {_need(error, MAKING)}"
        ) from error
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"an audit needs a function that makes a torch optimizer, got one that makes {optimizer!r}.")
    if callable(getattr(optimizer, "train", None)):  # Schedule-Free methods can step only in this mode
        optimizer.train()  # type: ignore[attr-defined]  # found by its name
    return optimizer


def _refusal(optimizer: Optimizer, x: torch.nn.Parameter, k: int, error: Exception, closure: bool) -> str:
    given = "step(closure) with a closure that sets x.grad and returns 1" if closure else "step()"
    return (
        f"an audit cannot step {type(optimizer).__name__}: at step {k} it raised {_quoted(error)}. "
        f"It had one vector of {len(x)} parameters in {x.dtype} with a dense x.grad, and was called as {given}. "
        f"{_need(error, STEPPING)}"
    )


def _quoted(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}({text[:300]!r})"


def _need(error: Exception, otherwise: str) -> str:
    text = f"{type(error).__name__} {error}"
    return next((hint for pattern, hint in NEEDS if re.search(pattern, text, re.IGNORECASE)), otherwise)
