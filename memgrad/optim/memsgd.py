"""MemSGD: stochastic gradient descent along a memory of past gradients."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad.memory import Memory, Polynomial
from memgrad.optim.arithmetic import Arithmetic
from memgrad.optim.base import Group, MemoryOptimizer
from memgrad.optim.buckets import Bucket


class MemSGD(MemoryOptimizer):
    r"""SGD along a weighted average of all past gradients, whose weights sum to 1 from the first step on.

    $$u_k = b_k u_{k-1} + (1 - b_k)\, g_k, \qquad x_{k+1} = x_k - \eta\, u_k, \qquad k = 0, 1, \dots$$

    The memory fixes the decays $b_k$: `Polynomial(p)` is the paper's MemSGD-p ($b_k = k/(k+p)$), `Exponential(0.9)`
    its MemSGD (p=e), `Instantaneous()` plain SGD, which keeps no buffer. $k$ counts for each parameter the steps in
    which it had a gradient.

    For convex $L$-smooth $f$ and `Polynomial(p)` the paper's theorem gives a rate of $1/k$ to a ball of noise if
    $p \ge 2$ and $\eta \le (p-1)/(pL)$, $\eta$ constant. Outside these it promises nothing, though on quadratics
    MemSGD-p converges for every $\eta$.

    *Differs*: with a changing learning rate the paper's form $x_{k+1} = x_k + b_k (x_k - x_{k-1}) - (1-b_k)\eta_k g_k$
    weights each remembered gradient by the learning rate of its own time; here, as in `torch.optim`, the current one
    scales the whole average. With a constant one they are the same.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        memory: A `Memory` or its text form, one for each group.
        weight_decay: Factor of the L2 term, finite and >= 0.
        decoupled_weight_decay: Shrink the parameters directly (as AdamW does) instead of adding to the gradients.
        maximize: Ascend.
        foreach: Update all tensors of a group in one call. By default where that is faster (not on a CPU).
        fused: Call torch's fused kernel wherever it is right: `None` and `True` do, `False` does not.
        capturable: Keep $k$ on the device, for CUDA graphs and `torch.compile`.
        differentiable: Let gradients flow through the step.
        state_dtype: Precision of the average; the parameter's by default. Give `torch.float32` for bfloat16 or
            float16 parameters: the small updates of a long memory are lost in a state of 8 bits.

    Example:
        >>> x = torch.nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = MemSGD([x], lr=0.1, memory=Polynomial(2))
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     (x**2 / 2).sum().backward()
        ...     optimizer.step()
        >>> x.data
        tensor([0.8067])

    Reference:
        UAI 2019, Sec. 4.2 (MemSGD-p) and App. E, with errata 41-43.
    """

    buffers: ClassVar[tuple[str, ...]] = ("average",)
    memories: ClassVar[tuple[str, ...]] = ("memory",)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        memory: Memory | str = Polynomial(2),  # noqa: B008  # a frozen value
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "memory": memory,
                "weight_decay": weight_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "fused": fused,
                "capturable": capturable,
                "differentiable": differentiable,
                "state_dtype": state_dtype,
            },
        )

    def _buffer_names(self, group: Group) -> tuple[str, ...]:
        return () if group["memory"] == "inst" else self.buffers

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        x, k = bucket.x, bucket.k
        g = self._with_weight_decay(do, bucket, group)
        direction = g
        if bucket.buffers:
            (direction,) = bucket.buffers
            do.lerp_(direction, g, self._memory(group).fresh(k))
        do.add_(x, direction, -self._lr(group))

    def _fused_update(self, bucket: Bucket, group: Group) -> bool:
        decay = self._fused_decay(group, "memory", bucket) if bucket.buffers else 0.0
        return decay is not None and self._fused_sgd(bucket, group, decay, dampening=decay)
