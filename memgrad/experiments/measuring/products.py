"""Products of a problem's curvature matrices with vectors, on a fixed set of its examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from memgrad.problems import Problem
from memgrad.problems.passes import drawn

MATRICES = ("hessian", "gauss-newton")
"""The curvature matrices: the Hessian, and the Gauss-Newton matrix, which leaves out the model's own curvature."""


@final
class Curvature:
    """The loss of a problem over some of its examples, around a point: gradient and products with curvature.

    Args:
        problem: The problem.
        parameters: The point.
        rows: The number of examples, drawn without replacement, always the same ones.
        matrix: One of `MATRICES`.
    """

    def __init__(self, problem: Problem, parameters: Mapping[str, Tensor], rows: int, matrix: str) -> None:
        self._problem, self._matrix = problem, matrix
        self._parameters = {name: p.detach() for name, p in parameters.items()}
        self._pair = drawn(problem, rows)
        self.rows, self.dimension = rows, sum(p.numel() for p in parameters.values())
        self.dtype = next(iter(parameters.values())).dtype

    def vector(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Tensors by name as one vector."""
        return torch.cat([tensors[name].reshape(-1) for name in self._parameters])

    def tensors(self, vector: Tensor) -> dict[str, Tensor]:
        """One vector as tensors by name."""
        pieces = torch.split(vector, [p.numel() for p in self._parameters.values()])
        return {name: piece.view_as(p) for (name, p), piece in zip(self._parameters.items(), pieces, strict=True)}

    def product(self, vector: Tensor) -> Tensor:
        """The matrix times a vector, in chunks of examples, the L2 term included."""
        direction = self.tensors(vector)
        one = self._hessian if self._matrix == "hessian" else self._gauss_newton
        return self._mean(lambda *chunk: one(direction, *chunk), *self._pair) + self._problem.l2 * vector

    def gradient(self, places: Tensor | None = None) -> Tensor:
        """The gradient over all these examples, or over those at some places among them, as a vector."""
        inputs, targets = self._pair if places is None else (each[places] for each in self._pair)
        return self._mean(lambda *chunk: self._problem.gradient(self._parameters, *chunk), inputs, targets)

    def _mean(self, of: Callable[[Tensor, Tensor], Mapping[str, Tensor]], inputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over examples of what a function returns for a chunk of them, as a vector."""
        total, size = torch.zeros(self.dimension, dtype=self.dtype), self._problem.full_chunk
        for start in range(0, len(inputs), size):
            chunk = inputs[start : start + size], targets[start : start + size]
            total += self.vector(of(*chunk)) * (len(chunk[0]) / len(inputs))
        return total

    def _hessian(self, direction: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The derivative of gradient times direction."""
        theta = self._leaves()
        outputs = self._problem.outputs(theta, inputs)
        slopes = _slopes(self._problem.loss(outputs, targets), theta, graph=True)
        along: Any = sum((slope * direction[name]).sum() for name, slope in slopes.items())
        return _slopes(along, theta)

    def _gauss_newton(self, direction: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """J' L J v, with the Jacobian J of the outputs and the Hessian L of the loss in the outputs."""
        theta = self._leaves()
        outputs = self._problem.outputs(theta, inputs)
        # J'u is linear in u, so its derivative in u along v is J v: no forward mode is needed.
        weights = torch.zeros_like(outputs, requires_grad=True)
        pulled = _slopes((outputs * weights).sum(), theta, graph=True)
        along: Any = sum((slope * direction[name]).sum() for name, slope in pulled.items())
        (moved,) = torch.autograd.grad(along, weights, retain_graph=True)
        held = outputs.detach().requires_grad_()
        (slope,) = torch.autograd.grad(self._problem.loss(held, targets), held, create_graph=True)
        (bent,) = torch.autograd.grad((slope * moved).sum(), held, allow_unused=True, materialize_grads=True)
        return _slopes((outputs * bent).sum(), theta)

    def _leaves(self) -> dict[str, Tensor]:
        return {name: p.detach().requires_grad_() for name, p in self._parameters.items()}


def _slopes(value: Any, theta: dict[str, Tensor], *, graph: bool = False) -> dict[str, Tensor]:
    if not value.requires_grad:  # a function that does not depend on the parameters, as the gradient of a linear one
        return {name: torch.zeros_like(p) for name, p in theta.items()}
    found = torch.autograd.grad(
        value, tuple(theta.values()), create_graph=graph, allow_unused=True, materialize_grads=True
    )
    return dict(zip(theta, found, strict=True))
