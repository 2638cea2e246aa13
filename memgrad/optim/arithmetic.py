"""The few operations on lists of tensors that all update rules consist of.

A rule is written once in terms of these operations. `Single` applies them tensor by tensor, `Foreach` to the whole list
in one call. Scalars are Python numbers, or tensors for CUDA graphs, `torch.compile` and differentiation through the
optimizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import torch
from torch import Tensor

Scalar = float | Tensor
Tensors = list[Tensor]

_FLOAT32 = Struct("f")
_SMALLEST_FRESH = {
    dtype: 500 * torch.finfo(dtype).eps / 2 for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16)
}


def rounded_decay(fresh: float, dtype: torch.dtype) -> float | None:
    """The decay 1 - fresh, rounded to `dtype`, so that 1 minus it is exact and the two weights sum to 1.

    If the kernel rounded the decay instead, they would not: at 1 - b = 2e-6 in float32 the two weights would sum to
    1 +- 3e-8, and over the 5e5 steps that such a memory averages, the error would grow to 1.5 %.

    None where rounding changes `fresh`, and thus the memory's degree, by more than 0.2 %. There, b u would also be
    rounded in the same direction at every step, because u hardly moves, and the average would drift: by up to 1 % at
    1 - b = 3e-6.
    """
    if fresh < _SMALLEST_FRESH[dtype]:
        return None
    if dtype is torch.float32:  # the common case; a tensor would take ten times as long
        return _FLOAT32.unpack(_FLOAT32.pack(1 - fresh))[0]  # type: ignore[no-any-return]  # struct is not typed
    return torch.tensor(1 - fresh, dtype=dtype, device="cpu").item()


def _in_precision_of(u: Tensors, g: Tensors) -> Tensors:
    """The gradients g in the precision of the averages u, which may differ between the averages of a parameter."""
    return [b if b.dtype is a.dtype else b.to(a.dtype) for a, b in zip(u, g, strict=True)]


class Single:
    """The operations tensor by tensor."""

    @staticmethod
    def combined(terms: Sequence[tuple[Tensors, Scalar]]) -> Tensors:
        """The sum of tensors times numbers, as new tensors."""
        (first, factor), *others = terms
        total = [a * factor for a in first]
        for tensors, scale in others:
            total = Single.plus(total, tensors, scale)
        return total

    @staticmethod
    def negated(x: Tensors) -> Tensors:
        return [-a for a in x]

    @staticmethod
    def plus(x: Tensors, y: Tensors, scale: Scalar) -> Tensors:
        """The sum x + scale y, as new tensors in the precision of x."""
        return [
            (a + scale * b if isinstance(scale, Tensor) else a.add(b, alpha=scale)).to(a.dtype)
            for a, b in zip(x, y, strict=True)
        ]

    @staticmethod
    def scale_(x: Tensors, factor: Scalar) -> None:
        for a in x:
            if isinstance(factor, Tensor) and factor.requires_grad:
                a.copy_(a.clone() * factor)  # autograd saves the clone, because a itself is about to change
            else:
                a.mul_(factor)

    @staticmethod
    def add_(x: Tensors, y: Tensors, scale: Scalar) -> None:
        """Let x += scale y."""
        for a, b in zip(x, y, strict=True):
            if isinstance(scale, Tensor):
                a.add_((scale * b).to(a.dtype))
            else:
                a.add_(b, alpha=scale)

    @staticmethod
    def lerp_(u: Tensors, g: Tensors, weight: Scalar) -> None:
        """Let u += weight (g - u)."""
        for a, b in zip(u, _in_precision_of(u, g), strict=True):
            a.lerp_(b, weight.to(a.dtype) if isinstance(weight, Tensor) else weight)

    @staticmethod
    def lerp_square_(v: Tensors, g: Tensors, weight: Scalar) -> None:
        """Let v += weight (g^2 - v)."""
        for a, b in zip(v, _in_precision_of(v, g), strict=True):
            if isinstance(weight, Tensor):
                a.lerp_(b * b, weight.to(a.dtype))
            elif (decay := rounded_decay(weight, a.dtype)) is not None:
                a.mul_(decay).addcmul_(b, b, value=1 - decay)  # no copy of g^2
            else:
                a.lerp_(b * b, weight)

    @staticmethod
    def add_quotient_(x: Tensors, u: Tensors, v: Tensors, eps: Scalar, scale: Scalar) -> None:
        """Let x += scale u / (sqrt(v) + eps)."""
        for a, b, c in zip(x, u, v, strict=True):
            if isinstance(scale, Tensor):
                a.add_((scale * b / (c.sqrt() + eps)).to(a.dtype))
            elif a.dtype == b.dtype:
                a.addcdiv_(b, c.sqrt() + eps if c.requires_grad else c.sqrt().add_(eps), value=scale)
            else:
                a.add_(b / (c.sqrt() + eps), alpha=scale)


class Foreach(Single):
    """The operations on all tensors of a list in one call."""

    @staticmethod
    def combined(terms: Sequence[tuple[Tensors, Scalar]]) -> Tensors:
        if any(isinstance(scale, Tensor) for _, scale in terms):
            return Single.combined(terms)
        (first, factor), *others = terms
        total = list(torch._foreach_mul(first, factor))
        for tensors, scale in others:
            torch._foreach_add_(total, tensors, alpha=scale)  # type: ignore[arg-type]  # none is a tensor
        return total

    @staticmethod
    def negated(x: Tensors) -> Tensors:
        return list(torch._foreach_neg(x))

    @staticmethod
    def plus(x: Tensors, y: Tensors, scale: Scalar) -> Tensors:
        if isinstance(scale, Tensor):
            return Single.plus(x, y, scale)
        return [s.to(a.dtype) for s, a in zip(torch._foreach_add(x, y, alpha=scale), x, strict=True)]

    @staticmethod
    def scale_(x: Tensors, factor: Scalar) -> None:
        torch._foreach_mul_(x, factor)

    @staticmethod
    def add_(x: Tensors, y: Tensors, scale: Scalar) -> None:
        if isinstance(scale, Tensor):
            Single.add_(x, y, scale)
        else:
            torch._foreach_add_(x, y, alpha=scale)

    @staticmethod
    def lerp_(u: Tensors, g: Tensors, weight: Scalar) -> None:
        if isinstance(weight, Tensor):
            Single.lerp_(u, g, weight)
        else:
            torch._foreach_lerp_(u, _in_precision_of(u, g), weight)

    @staticmethod
    def lerp_square_(v: Tensors, g: Tensors, weight: Scalar) -> None:
        if isinstance(weight, Tensor):
            Single.lerp_square_(v, g, weight)
            return
        g = _in_precision_of(v, g)
        if (decay := rounded_decay(weight, v[0].dtype)) is not None:
            torch._foreach_mul_(v, decay)
            torch._foreach_addcmul_(v, g, g, 1 - decay)
        else:
            torch._foreach_lerp_(v, torch._foreach_mul(g, g), weight)

    @staticmethod
    def add_quotient_(x: Tensors, u: Tensors, v: Tensors, eps: Scalar, scale: Scalar) -> None:
        if isinstance(scale, Tensor) or x[0].dtype != u[0].dtype:
            Single.add_quotient_(x, u, v, eps, scale)
            return
        roots = torch._foreach_sqrt(v)
        torch._foreach_add_(roots, eps)
        torch._foreach_addcdiv_(x, u, roots, scale)


Arithmetic = type[Single]
"""Where a rule finds its operations."""
