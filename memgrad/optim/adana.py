"""ADana: the log-time method of 2026, whose averages are polynomial memories."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad.memory.kinds import as_real
from memgrad.optim.arithmetic import Arithmetic
from memgrad.optim.base import Group, MemoryOptimizer
from memgrad.optim.buckets import Bucket


class ADana(MemoryOptimizer):
    r"""Adam with polynomial memory of both moments, a growing gain, and a weight decay that vanishes as $1/t$.

    $$x_{k+1} = x_k - \eta \left[ \frac{g_k + (1+k)^{1-\kappa} u_k}{\sqrt{v_k} + \epsilon}
    + \frac{\omega}{k+1} x_k \right], \qquad k = 0, 1, \dots$$

    $u_k$ and $v_k$ are the averages of gradients and squared gradients with the decays $k/(k+\delta)$: exactly
    `Polynomial(delta)`.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        delta: Degree of both memories, finite and > 0.
        kappa: Exponent of the gain, 0 <= kappa <= 1; at 1 the gain is constant.
        omega: Factor of the weight decay, finite and >= 0. As in its source it acts through the learning rate.
        eps: Added to the root, finite and >= 0.
        maximize: Ascend.
        foreach: Update all tensors of a group in one call. By default where that is faster (not on a CPU).
        capturable: Keep $k$ on the device, for CUDA graphs and `torch.compile`.
        differentiable: Let gradients flow through the step.
        state_dtype: Precision of the averages; the parameter's by default. Give `torch.float32` for bfloat16 or
            float16 parameters.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = ADana([x], lr=0.1, omega=0.0)
        >>> x.grad = torch.ones(1)
        >>> optimizer.step()
        >>> x.data  # the first step is twice Adam's: the gradient and its average
        tensor([0.8000])

    Reference:
        arXiv 2602.05298 (2026).
    """

    buffers: ClassVar[tuple[str, ...]] = ("average", "square_average")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        delta: float = 8.0,
        kappa: float = 0.85,
        omega: float = 4.0,
        eps: float = 1e-8,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "delta": delta,
                "kappa": kappa,
                "omega": omega,
                "eps": eps,
                "maximize": maximize,
                "foreach": foreach,
                "fused": False,
                "capturable": capturable,
                "differentiable": differentiable,
                "state_dtype": state_dtype,
            },
        )

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        group["delta"] = as_real("ADana", "delta", group["delta"], "a finite degree delta > 0")
        for name in ("omega", "eps", "kappa"):
            self._refuse_unless_real(group, name)
        if group["kappa"] > 1:
            raise ValueError(f"ADana needs 0 <= kappa <= 1, got kappa={group['kappa']!r}.")

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        x, k = bucket.x, bucket.k
        g = do.negated(bucket.g) if group["maximize"] else bucket.g
        u, v = bucket.buffers
        fresh = group["delta"] / (k + group["delta"])  # that of Polynomial(delta)
        do.lerp_(u, g, fresh)
        do.lerp_square_(v, g, fresh)
        lr = self._lr(group)
        if group["omega"] != 0:
            do.scale_(x, 1 - lr * group["omega"] / (k + 1))
        do.add_quotient_(x, do.plus(g, u, (1 + k) ** (1 - group["kappa"])), v, group["eps"], -lr)
