"""MemAdam and PolyAdam: Adam with any memory of gradients and of squared gradients."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad.memory import Exponential, Gain, Instantaneous, Memory, Mixture, Part, Polynomial
from memgrad.optim import kernels, options
from memgrad.optim.arithmetic import Arithmetic, rounded_decay
from memgrad.optim.base import MemoryOptimizer
from memgrad.optim.buckets import Bucket, Step, Weights
from memgrad.optim.options import Group, given
from memgrad.optim.recall import AVERAGES, NEWEST, Recall

_FORGETFUL = Recall((Part(Gain.constant(1.0), Instantaneous()),), None, (NEWEST,), is_memory=True)
# The square of a gradient below 2e-4 is 0 in float16, and so is eps: the step would divide by 0.
_WIDER = {torch.float16: torch.float32, torch.complex32: torch.complex64}
_MEMORY_OF = {"p": "second_memory", "beta": "memory"}  # PolyAdam's options and the memories they determine


class MemAdam(MemoryOptimizer):
    r"""Adam with any memory in its two averages. Both are normalized, so there is no bias to correct.

    $$u_k = b_k u_{k-1} + (1-b_k)\, g_k, \qquad v_k = c_k v_{k-1} + (1-c_k)\, g_k^2, \qquad
    x_{k+1} = x_k - \eta\, \frac{u_k}{\sqrt{v_k} + \epsilon}, \qquad k = 0, 1, \dots$$

    with the decays $b_k$ of `memory` and $c_k$ of `second_memory`. With `Exponential(0.9)` and `Exponential(0.999)` it
    equals `torch.optim.AdamW` (or `Adam`) up to rounding. With `Polynomial(1)` as the second memory it is AdamNC, and
    without a first memory and with the learning rate $\eta/\sqrt{k+1}$ also Adagrad. Unlike Adam's, its decays may
    change from step to step and the averages stay exact.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        memory: Memory of gradients; a `Memory`, a `Mixture` such as `inst + (1+k)^0.25*poly:8`, or a text form. A
            mixture keeps a buffer for each of its memories except `inst`.
        second_memory: Memory of squared gradients. It may have a gain: `sum*poly:1` is the sum of all squares, as in
            Adagrad.
        eps: Added to the root, finite and >= 0.
        weight_decay: Factor of the weight decay, finite and >= 0; or a text that states its kind, such as
            `independent=4/t` (see `memgrad.method.WeightDecay`). An independent one uses the group's `peak_lr`, by
            default the first `lr`; under `OneCycleLR` the scheduler's `max_lr`.
        decoupled_weight_decay: Shrink the parameters (AdamW) instead of adding an L2 term to the gradients (Adam).
        state_dtype: Precision of the averages; the parameter's by default, but float32 for float16 parameters, because
            squares of gradients below 2e-4 are 0 in float16. Use `torch.float32` with bfloat16 parameters.
        maximize, foreach, fused, capturable, differentiable, compiled: See `MemSGD`.

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

    rule: ClassVar[str] = "MemAdam"
    buffers: ClassVar[tuple[str, ...]] = ("square_average", *AVERAGES, NEWEST)
    memories: ClassVar[tuple[str, ...]] = ("memory", "second_memory")
    mixtures: ClassVar[tuple[str, ...]] = ("memory",)
    scaled: ClassVar[tuple[str, ...]] = ("second_memory",)
    has_decay_kinds: ClassVar[bool] = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        memory: Memory | Mixture | str = Exponential(0.9),  # noqa: B008  # a frozen value
        second_memory: Memory | Mixture | str = Polynomial(4),  # noqa: B008
        eps: float = 1e-8,
        weight_decay: float | str = 0.0,
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        compiled: bool = False,
    ) -> None:
        super().__init__(params, given(locals()))

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        options.refuse_unless_real(type(self).__name__, group, "eps")

    def _state_dtype(self, group: Group, like: Tensor | None = None) -> torch.dtype | None:
        dtype = super()._state_dtype(group, like)
        if dtype in _WIDER:
            raise ValueError(
                f"{type(self).__name__} keeps squares of gradients, which are 0 in float16 for gradients below 2e-4, "
                f"got state_dtype='float16'; use torch.float32, or torch.bfloat16, which has the same range."
            )
        return _WIDER.get(like.dtype) if dtype is None and like is not None else dtype

    def _buffer_names(self, group: Group) -> tuple[str, ...]:
        # The averages come last, so that a state with the last name has them all, whatever the mixture was before.
        return ("square_average", *self._recall(group).names)

    def _recall(self, group: Group) -> Recall:
        recall = super()._recall(group)
        # `inst` is kept like an average that forgets everything: no kernel divides a plain gradient.
        return recall if recall.names or not recall.is_memory else _FORGETFUL

    def _weights(self, k: Step, begins: tuple[str, ...], group: Group) -> Weights:
        second, recall = self._memories[group["second_memory"]], self._recall(group)
        memory = second.parts[0].memory if isinstance(second, Mixture) else second
        root = second.gain(k) ** 0.5 if isinstance(second, Mixture) else 1.0
        return self._weights_of(recall, k, begins, self._fresh(memory, "square_average", k, begins), root)

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        recall, weights = self._recall(group), bucket.weights
        g = self._with_weight_decay(do, bucket, group)
        v, *averages = bucket.buffers
        for u, fresh in zip(averages, weights.fresh, strict=True):
            do.lerp_(u, g, fresh)
        do.lerp_square_(v, g, weights.second_fresh)
        if recall.is_memory:
            (step,) = averages
        else:
            terms = list(zip(averages, weights.gains, strict=True))
            if recall.instant is not None:
                terms.append((g, weights.instant))
            step = do.combined(terms)
        root = weights.root  # n/(root sqrt(v) + eps) is n/root over sqrt(v) + eps/root
        do.add_quotient_(bucket.x, step, v, group["eps"] / root, -self._lr(group) / root)

    def _fused_update(self, bucket: Bucket, group: Group) -> bool:
        recall, weights, dtype = self._recall(group), bucket.weights, bucket.x[0].dtype
        k, lr = int(bucket.k), float(self._lr(group))
        l2, shrink = self._decays(group, k, lr)
        if not recall.parts or (l2 and not recall.is_memory):
            return False  # each average of a mixture takes its own step, from which the L2 term would be missing
        second_decay = rounded_decay(weights.second_fresh, dtype)  # type: ignore[arg-type]  # k is an int
        if second_decay is None:
            return False
        root = float(weights.root)
        lr, eps = lr / root, group["eps"] / root
        if not recall.is_memory:
            return kernels.adam_of_mixture(
                bucket,
                self._pulls(weights),
                self._workspace,
                instant=float(weights.instant),
                lr=lr,
                second_decay=second_decay,
                eps=eps,
                shrink=shrink,
                maximize=group["maximize"],
            )
        decay = rounded_decay(weights.fresh[0], dtype)  # type: ignore[arg-type]  # k is an int
        if decay is None or (shrink and not lr):
            return False  # the kernel multiplies its weight decay by the learning rate
        v, u = bucket.buffers
        kernels.adam(
            bucket,
            u,
            v,
            lr=lr,
            beta1=decay,
            beta2=second_decay,
            eps=eps,
            weight_decay=l2 or (shrink / lr if shrink else 0.0),
            decoupled=not l2,
            maximize=group["maximize"],
        )
        return True

    @staticmethod
    def _decays(group: Group, k: int, lr: float) -> tuple[float, float]:
        """The factor of the L2 term at step k, and the share by which x is shrunk."""
        decay = group["weight_decay"]
        if type(decay) is str:
            kind = options.decay_of(decay)
            return kind.l2(k), kind.shrink(k, lr, options.peak_lr(group))
        return (0.0, lr * decay) if group["decoupled_weight_decay"] else (decay, 0.0)


class PolyAdam(MemAdam):
    r"""The paper's Adam with a polynomial memory of squared gradients: $c_k = k/(k+p)$.

    `MemAdam` with `memory=Exponential(beta)` and `second_memory=Polynomial(p)`. It lies between Adagrad ($p = 1$),
    which never forgets a squared gradient, and Adam, which forgets exponentially.

    Args:
        lr: Learning rate, finite and >= 0.
        p: Degree of the memory of squared gradients, finite and > 0. The paper does not state it.
        beta: Decay of the memory of gradients, 0 <= beta < 1; 0 means no memory.
        eps: Added to the root, finite and >= 0.
        weight_decay: Factor of the decoupled weight decay, finite and >= 0.
        params, maximize, foreach, fused, capturable, differentiable, state_dtype, compiled: See `MemAdam`.

    Example:
        >>> PolyAdam([torch.nn.Parameter(torch.ones(1))], p=2).param_groups[0]["second_memory"]
        'poly:2'

    Reference:
        UAI 2019, Sec. 6 and the figure of PolyAdam. The paper gives no formula; this one is implied by its text.
    """

    constructor_options: ClassVar[tuple[str, ...]] = tuple(_MEMORY_OF)

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
        compiled: bool = False,
    ) -> None:
        options = given(locals(), memory=_first_memory(beta), second_memory=Polynomial(p), decoupled_weight_decay=True)
        del options["p"], options["beta"]
        MemoryOptimizer.__init__(self, params, options)

    def _complete_group(self, group: Group) -> None:
        for option, name in _MEMORY_OF.items():
            if option in group and name in group:
                raise ValueError(
                    f"PolyAdam takes one of {option} and {name} in a group, "
                    f"got {option}={group[option]!r}, {name}={group[name]!r}."
                )
        self._put_into_memories(group)

    def _look_up(self, group: Group) -> None:
        self._put_into_memories(group)  # the user may have written group["p"] = 2
        super()._look_up(group)

    def _put_into_memories(self, group: Group) -> None:
        if "p" in group:
            group["second_memory"] = Polynomial(group.pop("p"))
        if "beta" in group:
            group["memory"] = _first_memory(group.pop("beta"))


def _first_memory(beta: float) -> Memory:
    return Instantaneous() if beta == 0 and not isinstance(beta, bool) else Exponential(beta)
