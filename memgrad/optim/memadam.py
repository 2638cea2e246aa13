"""MemAdam and PolyAdam: Adam with any memory of gradients and of squared gradients."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad.memory import Exponential, Instantaneous, Memory, Polynomial
from memgrad.optim.arithmetic import Arithmetic
from memgrad.optim.base import Group, MemoryOptimizer
from memgrad.optim.buckets import Bucket

# The fused kernel divides by 1 - beta^step, which at this count is 1 for every `rounded_decay`.
_LONG_AGO = 1e30


class MemAdam(MemoryOptimizer):
    r"""Adam whose two averages have any memory. Both are normalised, so there is no bias to correct.

    $$u_k = b_k u_{k-1} + (1-b_k)\, g_k, \qquad v_k = c_k v_{k-1} + (1-c_k)\, g_k^2, \qquad
    x_{k+1} = x_k - \eta\, \frac{u_k}{\sqrt{v_k} + \epsilon}, \qquad k = 0, 1, \dots$$

    with the decays $b_k$ of `memory` and $c_k$ of `second_memory`. With `Exponential(0.9)` and `Exponential(0.999)` it
    is `torch.optim.AdamW` (or `Adam`), to rounding. With `Polynomial(1)` as second memory it is AdamNC; with no first
    memory besides and a learning rate $\eta/\sqrt{k+1}$, Adagrad. Unlike Adam's, its decays may change from step to
    step and stay exact.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        memory: Memory of gradients; a `Memory` or its text form.
        second_memory: Memory of squared gradients.
        eps: Added to the root, finite and >= 0.
        weight_decay: Factor of the weight decay, finite and >= 0.
        decoupled_weight_decay: Shrink the parameters (AdamW) instead of adding an L2 term to the gradients (Adam).
        maximize: Ascend.
        foreach: Update all tensors of a group in one call. By default where that is faster (not on a CPU).
        fused: Call torch's fused kernel wherever it is right: `None` and `True` do, `False` does not.
        capturable: Keep $k$ on the device, for CUDA graphs and `torch.compile`.
        differentiable: Let gradients flow through the step.
        state_dtype: Precision of the averages; the parameter's by default. Give `torch.float32` for bfloat16 or
            float16 parameters.

    Example:
        >>> x = torch.nn.Parameter(torch.tensor([1.0]))
        >>> optimizer = MemAdam([x], lr=0.1, second_memory="poly:4")
        >>> (3 * x).sum().backward()
        >>> optimizer.step()
        >>> x.data
        tensor([0.9000])

    Reference:
        UAI 2019, Sec. 6 and App. B.2 with errata 18 and 19; Kingma and Ba, ICLR 2015; Reddi, Kale and Kumar, ICLR 2018
        (AdamNC). The nearest ancestor is NosAdam (Huang, Wang and Dong, arXiv 1805.07557), whose second memory is
        $c_k = B_k/B_{k+1}$, $B_k = \sum_{i \le k} i^{-\gamma}$.
    """

    buffers: ClassVar[tuple[str, ...]] = ("average", "square_average")
    memories: ClassVar[tuple[str, ...]] = ("memory", "second_memory")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        memory: Memory | str = Exponential(0.9),  # noqa: B008  # a frozen value
        second_memory: Memory | str = Polynomial(4),  # noqa: B008
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = True,
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
                "second_memory": second_memory,
                "eps": eps,
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

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        self._refuse_unless_real(group, "eps")

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        x, k = bucket.x, bucket.k
        g = self._with_weight_decay(do, bucket, group)
        u, v = bucket.buffers
        do.lerp_(u, g, self._memory(group).fresh(k))
        do.lerp_square_(v, g, self._memory(group, "second_memory").fresh(k))
        do.add_quotient_(x, u, v, group["eps"], -self._lr(group))

    def _fused_update(self, bucket: Bucket, group: Group) -> bool:
        decay = self._fused_decay(group, "memory", bucket)
        second_decay = self._fused_decay(group, "second_memory", bucket)
        if decay is None or second_decay is None:
            return False
        kernel = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
        step = torch.full((), _LONG_AGO, device=bucket.x[0].device)
        kernel(
            bucket.x,
            bucket.g,
            bucket.buffers[0],
            bucket.buffers[1],
            [],
            [step] * len(bucket.x),
            lr=float(self._lr(group)),
            beta1=decay,
            beta2=second_decay,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=group["maximize"],
        )
        return True


class PolyAdam(MemAdam):
    r"""The paper's Adam with a polynomial memory of squared gradients: $c_k = k/(k+p)$.

    `MemAdam` with `memory=Exponential(beta)` and `second_memory=Polynomial(p)`. It stands between Adagrad, which never
    forgets a squared gradient ($p = 1$), and Adam, which forgets exponentially.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate, finite and >= 0.
        p: Degree of the memory of squared gradients, finite and > 0. The paper gives none.
        beta: Decay of the memory of gradients, 0 <= beta < 1; 0 is no memory.
        eps: Added to the root, finite and >= 0.
        weight_decay: Factor of the decoupled weight decay, finite and >= 0.
        maximize: Ascend.
        foreach: See `MemAdam`.
        fused: See `MemAdam`.
        capturable: See `MemAdam`.
        differentiable: See `MemAdam`.
        state_dtype: See `MemAdam`.

    Example:
        >>> PolyAdam([torch.nn.Parameter(torch.ones(1))], p=2).param_groups[0]["second_memory"]
        'poly:2'

    Reference:
        UAI 2019, Sec. 6 and the figure of PolyAdam. The paper gives no formula; this is the one that its text implies.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        p: float = 4.0,
        beta: float = 0.9,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            memory=Instantaneous() if beta == 0 and not isinstance(beta, bool) else Exponential(beta),
            second_memory=Polynomial(p),
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            foreach=foreach,
            fused=fused,
            capturable=capturable,
            differentiable=differentiable,
            state_dtype=state_dtype,
        )
