"""MemSGD: stochastic gradient descent along a memory of past gradients."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad.memory import Memory, Mixture, Polynomial
from memgrad.optim import kernels
from memgrad.optim.arithmetic import Arithmetic, rounded_decay
from memgrad.optim.base import MemoryOptimizer
from memgrad.optim.buckets import Bucket, Step, Weights
from memgrad.optim.options import Group, given
from memgrad.optim.recall import AVERAGES


class MemSGD(MemoryOptimizer):
    r"""SGD along a weighted average of all past gradients, whose weights sum to 1 from the first step on.

    $$u_k = b_k u_{k-1} + (1 - b_k)\, g_k, \qquad x_{k+1} = x_k - \eta\, u_k, \qquad k = 0, 1, \dots$$

    The memory fixes the decays $b_k$: `Polynomial(p)` is the paper's MemSGD-p ($b_k = k/(k+p)$), `Exponential(0.9)`
    its MemSGD (p=e), and `Instantaneous()` plain SGD, which keeps no buffer. For each parameter, $k$ counts the steps
    in which it had a gradient.

    For convex $L$-smooth $f$ and `Polynomial(p)`, the paper's theorem gives the rate $1/k$, up to a ball of noise, if
    $p \ge 2$ and $\eta \le (p-1)/(pL)$ is constant. Otherwise it says nothing, although on quadratics MemSGD-p
    converges for every $\eta$.

    *Differs*: with a changing learning rate the paper's form $x_{k+1} = x_k + b_k (x_k - x_{k-1}) - (1-b_k)\eta_k g_k$
    weights each remembered gradient by the learning rate of its own step; here, as in `torch.optim`, the current
    learning rate scales the whole average. With a constant learning rate the two agree.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        memory: A `Memory`, a `Mixture` such as `inst + 5*exp:0.99`, or a text form; one per group. A mixture keeps a
            buffer for each of its memories except `inst`.
        weight_decay: Factor of the L2 term, finite and >= 0; or a text that states its kind, such as `decay=0.1/t` (see
            `memgrad.method.WeightDecay`). An independent one uses the group's `peak_lr`, by default the first `lr`;
            under `OneCycleLR` the scheduler's `max_lr`.
        decoupled_weight_decay: Shrink the parameters directly (as AdamW does) instead of adding to the gradients.
        maximize: Maximize instead of minimizing.
        foreach: Update all tensors of a group in one call; by default where that is faster, which is not on a CPU.
        fused: Use torch's fused kernels wherever they are correct (`None` and `True`), or never (`False`).
        capturable: Keep $k$ on the device, for CUDA graphs and `torch.compile`.
        differentiable: Make the step differentiable by autograd.
        state_dtype: Precision of the average; the parameter's by default. Use `torch.float32` with bfloat16 or float16
            parameters: the 8 bits of bfloat16 lose the small updates of a long memory.
        compiled: Compile the step with `torch.compile`: one pass over memory for any mixture and precision, after a few
            seconds at the first step. It pays off for large models; for small ones the fused kernels are faster.

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

    rule: ClassVar[str] = "MemSGD"
    buffers: ClassVar[tuple[str, ...]] = AVERAGES
    memories: ClassVar[tuple[str, ...]] = ("memory",)
    mixtures: ClassVar[tuple[str, ...]] = ("memory",)
    has_decay_kinds: ClassVar[bool] = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        memory: Memory | Mixture | str = Polynomial(2),  # noqa: B008  # a frozen value
        weight_decay: float | str = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        compiled: bool = False,
    ) -> None:
        super().__init__(params, given(locals()))

    def _buffer_names(self, group: Group) -> tuple[str, ...]:
        return self._recall(group).names

    def _weights(self, k: Step, begins: tuple[str, ...], group: Group) -> Weights:
        return self._weights_of(self._recall(group), k, begins)

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        lr, weights = self._lr(group), bucket.weights
        g = self._with_weight_decay(do, bucket, group)
        for u, fresh, gain in zip(bucket.buffers, weights.fresh, weights.gains, strict=True):
            do.lerp_(u, g, fresh)
            do.add_(bucket.x, u, -lr * gain)
        if self._recall(group).instant is not None:
            do.add_(bucket.x, g, -lr * weights.instant)

    def _fused_update(self, bucket: Bucket, group: Group) -> bool:
        recall, weights = self._recall(group), bucket.weights
        if type(group["weight_decay"]) is str:
            return False
        shrinks = group["decoupled_weight_decay"] and group["weight_decay"]
        if shrinks or (group["weight_decay"] and len(recall.parts) + (recall.instant is not None) > 1):
            return False  # the kernel has no such decay; the L2 term of a second call would see changed parameters
        lr, weight_decay, maximize = float(self._lr(group)), group["weight_decay"], group["maximize"]
        if not recall.is_memory:
            pulls, instant = self._pulls(weights), float(weights.instant)
            return kernels.sgd_of_mixture(bucket, pulls, self._workspace, instant, lr, weight_decay, maximize)
        decay: float | None = 0.0
        if recall.parts:
            decay = rounded_decay(weights.fresh[0], bucket.x[0].dtype)  # type: ignore[arg-type]  # k is an int
        return decay is not None and kernels.sgd(bucket, lr, decay, decay, weight_decay, maximize)
