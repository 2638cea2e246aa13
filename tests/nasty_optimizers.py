"""Optimizers made to mislead an audit: each remembers, rounds, refuses or depends on something in its own way."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer


class Made(Optimizer):
    """An optimizer of one function: `update` returns what is subtracted, times lr."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.update(p, p.grad, self.state[p]), alpha=group.get("lr", 1.0))

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        raise NotImplementedError


def average(state: dict[str, Any], name: str, value: Tensor, beta: float = 0.9) -> Tensor:
    """Adam's average without its correction."""
    before: Tensor = state.get(name, torch.zeros_like(value))
    state[name] = after = beta * before + (1 - beta) * value
    return after


class Nonlinear(Made):
    """The step is a sign, so that only the buffer can tell; the buffer averages a function of the gradient."""

    def function(self, g: Tensor) -> Tensor:
        raise NotImplementedError

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return average(state, "buffer", self.function(g)).sign()


class AverageOfAbsolutes(Nonlinear):
    def function(self, g: Tensor) -> Tensor:
        return g.abs()


class AverageOfCubes(Nonlinear):
    def function(self, g: Tensor) -> Tensor:
        return g**3


class AverageOfSignedSquares(Nonlinear):
    def function(self, g: Tensor) -> Tensor:
        return g * g.abs()


class AverageOfRoots(Nonlinear):
    def function(self, g: Tensor) -> Tensor:
        return g.abs().sqrt()


class AverageOfSigns(Nonlinear):
    def function(self, g: Tensor) -> Tensor:
        return g.sign()


class AverageOfClipped(Nonlinear):
    def function(self, g: Tensor) -> Tensor:
        return g.clamp(-1, 1)


class SquareOfTheSum(Made):
    """Quadruples with the gradients, but has products of different gradients."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        total = average(state, "total", g)
        state["buffer"] = total**2
        return total.sign()


class Maximum(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        state["buffer"] = torch.maximum(state.get("buffer", g.abs()), g.abs())
        return g.sign()


class Belief(Made):
    """AdaBelief's second moment: squared differences from the average."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        m = average(state, "m", g)
        return m / (average(state, "buffer", (g - m) ** 2, 0.99).sqrt() + 1e-8)


class ClippedFarOut(Nonlinear):
    """Linear for gradients of size 1, but not of size 100."""

    def function(self, g: Tensor) -> Tensor:
        return g.clamp(-50, 50)


class DeadNearZero(Nonlinear):
    """Linear for gradients of size 1, but not for the smallest ones of size 0.01."""

    def function(self, g: Tensor) -> Tensor:
        return torch.where(g.abs() < 1e-6, 0.0, g)


class Bfloat16(Made):
    """A momentum kept in bfloat16."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        before: Tensor = state.get("buffer", torch.zeros_like(g)).to(g)
        state["buffer"] = after = (0.9 * before + 0.1 * g).to(torch.bfloat16)
        return after.to(g).sign()


class Int8(Made):
    """A momentum kept in 8 bits with a common scale."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        m = 0.1 * g
        if "buffer" in state:
            m = m + 0.9 * state["buffer"].to(g) * state["scale"]
        state["scale"] = m.abs().max() / 127 + 1e-300
        state["buffer"] = (m / state["scale"]).round().to(torch.int8)
        return m.sign()


class Constant(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        state["buffer"] = torch.full_like(g, 3.0)
        return g.sign()


class Difference(Made):
    """A fast average minus a slow one: the weights sum to zero in the long run, and exactly with this correction."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Any:
        k = state["k"] = state.get("k", 0) + 1
        fast, slow = (average(state, f"average {beta}", g, beta) / (1 - beta**k) for beta in (0.5, 0.9))
        return fast - slow


class Lookahead(Made):
    """More than the newest gradient, less the average: weights of both signs, with the sum 1."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Any:
        k = state["k"] = state.get("k", 0) + 1
        return 2 * g - average(state, "average", g) / (1 - 0.9**k)


class InDict(Made):
    """AggMo's state: velocities in a dict."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        inside = state.setdefault("velocity", {})
        return sum((average(inside, str(beta), g, beta) for beta in (0.5, 0.9)), start=torch.zeros_like(g)).sign()


class LongHistory(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        history = state.setdefault("history", deque(maxlen=20))
        history.append(g.clone())
        return torch.stack(tuple(history)).median(dim=0).values


class OtherShape(Made):
    """Both averages in one tensor."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return average(state, "both", torch.stack([g, g * g]))[0].sign()


class Hidden(Made):
    """Remembers, but not in its state."""

    m: Any = 0.0

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        self.m = 0.9 * self.m + g
        return torch.as_tensor(self.m).sign()


class Sign(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return g.sign()


class Still(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return torch.zeros_like(g)


class CalledStep(Made):
    """A buffer with the name that the step itself has."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return average(state, "step", g).sign()


class Vanishing(Made):
    """A buffer that is there at every other step only."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        k = state["k"] = state.get("k", 0) + 1
        state.pop("buffer", None)
        if k % 2:
            state["buffer"] = g.clone()
        return g.sign()


class GlobalNorm(Made):
    """Normalized by all coordinates."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Any:
        return average(state, "buffer", g) / (g.norm() + 1e-12)


class Noisy(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return average(state, "buffer", g + torch.randn_like(g))


class TrustRatio(Made):
    """As long as the parameter is large."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return (1 + p.abs()) * average(state, "buffer", g)


class NoRate(Made):
    def __init__(self, params: Any) -> None:
        Optimizer.__init__(self, params, {"rate": 1.0})

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return 0.1 * average(state, "buffer", g)


class WantsClosure(Made):
    def step(self, closure: Any) -> Any:  # type: ignore[override]  # as L-BFGS has it
        closure()
        super().step()

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        return average(state, "buffer", g)


class AsksForClosure(WantsClosure):
    def step(self, closure: Any = None) -> Any:
        if closure is None:
            raise RuntimeError("a closure is needed")
        super().step(closure)


class WantsMatrices(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        rows, columns = g.shape
        return g.reshape(rows, columns)


class WantsTrain(Made):
    """As Schedule-Free methods are."""

    training = False

    def train(self) -> None:
        self.training = True

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        if not self.training:
            raise RuntimeError("not in train mode")
        return average(state, "buffer", g)


class WantsFloat32(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        if g.dtype != torch.float32:
            raise RuntimeError("expected dtype float")
        return average(state, "buffer", g)


class WantsCalls(Made):
    ready = False

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        if not self.ready:
            raise RuntimeError("prepare() has not been called")
        self.ready = False
        return average(state, "buffer", g)


class Breaks(Made):
    def update(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> Tensor:
        k = state["k"] = state.get("k", 0) + 1
        if k > 5:
            raise IndexError("list index out of range")
        return g
