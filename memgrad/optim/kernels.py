"""Steps with torch's fused kernels. `kernel_guards` says for which tensors they are correct."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from memgrad.optim.arithmetic import Tensors, rounded_decay
from memgrad.optim.buckets import Bucket
from memgrad.optim.workspace import Workspace

# A beta2 that leaves the average of squares unchanged. With 1 itself the kernel would divide by 1 - 1^step = 0. In
# float32 this number rounds to 1, and 1e-16 times the new square is lost in the average, which contains it already.
_KEEP = 1 - 2.0**-53


@lru_cache(maxsize=16)
def _long_ago(device: torch.device) -> Tensor:
    """A step count at which 1 - beta^step, by which Adam's kernel divides, is 1 for every beta below 1.

    Its dtype is float32, because accelerators read it as such, whatever the default dtype is.
    """
    return torch.full((), 1e30, dtype=torch.float32, device=device)


def sgd(
    bucket: Bucket,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    maximize: bool,
    nesterov: bool = False,
) -> bool:
    """Take a step with the kernel for SGD, with one buffer or none; return False if it cannot, and change nothing."""
    if bucket.buffers and momentum == 0 and nesterov:
        return False
    # Without momentum every step is a first step, which writes the gradient into the buffer. The kernel refuses
    # momentum 0 with buffers; in a first step it uses the momentum only to look ahead, so it gets another number.
    first = bool(bucket.buffers and (momentum == 0 or bucket.begins or bucket.k == 0))
    torch._fused_sgd_(
        bucket.x,
        bucket.g,
        bucket.buffers[0] if bucket.buffers else [],
        weight_decay=weight_decay,
        momentum=momentum or (0.5 if first else 0.0),
        lr=lr,
        dampening=dampening,
        nesterov=nesterov,
        maximize=maximize,
        is_first_step=first,
    )
    return True


def adam(bucket: Bucket, u: Tensors, v: Tensors, *, decoupled: bool, **options: Any) -> None:
    """Take a step with the kernel for Adam, without its bias correction; `options` are the kernel's."""
    kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_
    steps = [_long_ago(bucket.x[0].device)] * len(bucket.x)
    kernel(bucket.x, bucket.g, u, v, [], steps, amsgrad=False, **options)


class Pull(NamedTuple):
    """What one average does in a step: its gain, and the weight of the newest gradient in it."""

    gain: float
    fresh: float


def sgd_of_mixture(
    bucket: Bucket,
    pulls: Sequence[Pull],
    workspace: Workspace,
    instant: float,
    lr: float,
    weight_decay: float,
    maximize: bool,
) -> bool:
    """Take a step along several averages and the newest gradient, with one call of the kernel each, if it can.

    `weight_decay` must be 0 unless there is only one call: a second one would see changed parameters.
    """
    decays = [rounded_decay(pull.fresh, bucket.x[0].dtype) for pull in pulls]
    if None in decays:
        return False
    for piece in workspace.pieces(bucket):
        for u, pull, decay in zip(piece.buffers, pulls, decays, strict=True):
            one = piece._replace(buffers=(u,), begins=())
            sgd(one, lr * pull.gain, decay, decay, weight_decay, maximize)  # type: ignore[arg-type]  # none is None
        if instant:
            sgd(piece._replace(buffers=()), lr * instant, 0.0, 0.0, weight_decay, maximize)
    return True


def adam_of_mixture(
    bucket: Bucket,
    pulls: Sequence[Pull],
    workspace: Workspace,
    *,
    instant: float,
    lr: float,
    second_decay: float,
    eps: float,
    shrink: float,
    maximize: bool,
) -> bool:
    """Take a step along averages and the newest gradient, each divided by the same root, if the kernel can.

    There is one call per average. The first updates the squares and shrinks the parameters; later ones leave both
    unchanged. The first includes the newest gradient: gain u + instant g, divided by gain + instant, is an average too,
    with a smaller decay, which the kernel computes in a copy of the old average. `bucket.buffers` are the squares, then
    the averages; `shrink` is the share of x that is removed.
    """
    dtype = bucket.x[0].dtype
    total = pulls[0].gain + instant
    if not lr * total or (len(pulls) > 1 and dtype is not torch.float32):
        return False  # the kernel multiplies its weight decay by lr, here 0; _KEEP would round squares in float64
    leading = (pulls[0].gain * pulls[0].fresh + instant) / total
    lrs = [lr * total, *[lr * pull.gain for pull in pulls[1:]]]
    decays = [rounded_decay(fresh, dtype) for fresh in (leading, *[pull.fresh for pull in pulls[1:]])]
    if None in decays:
        return False
    for piece in workspace.pieces(bucket):
        v, *averages = piece.buffers
        moved = [*averages]
        if instant:
            moved[0] = workspace.like(piece.x)
            torch._foreach_copy_(moved[0], averages[0])
        for i, (u, lr_, decay) in enumerate(zip(moved, lrs, decays, strict=True)):
            adam(
                piece,
                u,
                v,
                lr=lr_,
                beta1=decay,
                beta2=second_decay if i == 0 else _KEEP,
                eps=eps,
                weight_decay=shrink / lr_ if i == 0 else 0.0,  # the kernel multiplies it by the learning rate
                decoupled=True,
                maximize=maximize,
            )
        if instant:
            g = list(torch._foreach_neg(piece.g)) if maximize else piece.g
            torch._foreach_lerp_(averages[0], g, pulls[0].fresh)
    return True


def taken_widened(piece: Bucket, step: Callable[[Bucket], bool]) -> bool:
    """Take a step on float32 copies of parameters and gradients; if it is taken, round the parameters once."""
    wide = piece._replace(x=[t.float() for t in piece.x], g=[t.float() for t in piece.g])
    taken = step(wide)
    if taken:
        torch._foreach_copy_(piece.x, wide.x)
    return taken
