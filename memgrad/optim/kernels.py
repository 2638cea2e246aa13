"""Steps by torch's fused kernels. `kernel_guards` says which tensors they may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from memgrad.optim.arithmetic import Tensors, rounded_decay
from memgrad.optim.buckets import Bucket
from memgrad.optim.workspace import Workspace

# A beta2 that keeps the squares as they are. 1 itself would make the kernel divide by 1 - 1^step = 0; in float32, this
# rounds to 1, and the 1e-16 of the new square are lost beside the average that holds it already.
_KEEP = 1 - 2.0**-53


@lru_cache(maxsize=16)
def _long_ago(device: torch.device) -> Tensor:
    """A count of steps at which 1 - beta^step, by which Adam's kernel divides, is 1 for every beta below 1.

    Of float32, as which an accelerator reads it, whatever the default dtype is.
    """
    return torch.full((), 1e30, dtype=torch.float32, device=device)


def sgd(
    bucket: Bucket,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    maximize: bool,
    nesterov: bool = False,
) -> bool:
    """Step by the kernel for SGD with one buffer, or none, if it can: False, and nothing done, if not."""
    if bucket.buffers and momentum == 0 and nesterov:
        return False
    # Without momentum every step is a first one, which writes the gradient into the buffer. The kernel refuses the
    # momentum 0 beside buffers; on a first step it would use it only to look ahead, so it gets another number.
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


def adam(
    bucket: Bucket,
    u: Tensors,
    v: Tensors,
    *,
    lr: float,
    decay: float,
    second_decay: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> None:
    """Step by the kernel for Adam, without its bias correction."""
    kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_
    step = _long_ago(bucket.x[0].device)
    kernel(
        bucket.x,
        bucket.g,
        u,
        v,
        [],
        [step] * len(bucket.x),
        lr=lr,
        beta1=decay,
        beta2=second_decay,
        weight_decay=weight_decay,
        eps=eps,
        amsgrad=False,
        maximize=maximize,
    )


class Pull(NamedTuple):
    """What one average does in a step: its gain, and the weight of the newest gradient in it."""

    gain: float
    fresh: float


def sgd_of_mixture(
    bucket: Bucket,
    pulls: Sequence[Pull],
    workspace: Workspace,
    *,
    instant: float,
    lr: float,
    weight_decay: float,
    maximize: bool,
) -> bool:
    """Step along several averages and the newest gradient: one call of the kernel for each of them, if it can.

    `weight_decay` is that of one average alone: a second call would see other parameters.
    """
    decays = [rounded_decay(pull.fresh, bucket.x[0].dtype) for pull in pulls]
    if None in decays:
        return False
    for piece in workspace.pieces(bucket):
        for u, pull, decay in zip(piece.buffers, pulls, decays, strict=True):
            sgd(
                piece._replace(buffers=(u,), begins=()),
                lr=lr * pull.gain,
                momentum=decay,  # type: ignore[arg-type]  # none is None
                dampening=decay,  # type: ignore[arg-type]
                weight_decay=weight_decay,
                maximize=maximize,
            )
        if instant:
            sgd(
                piece._replace(buffers=()),
                lr=lr * instant,
                momentum=0.0,
                dampening=0.0,
                weight_decay=weight_decay,
                maximize=maximize,
            )
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
    """Step along averages and the newest gradient, each divided by the same root, if the kernel can.

    One call for each average. The first updates the squares and shrinks the parameters; those after it keep both. The
    first takes the newest gradient as well: gain u + instant g, divided by gain + instant, is an average too, with a
    smaller decay, which the kernel makes in a copy of the one before. `bucket.buffers` are the squares, then the
    averages; `shrink` is the share of x that is taken away.
    """
    dtype = bucket.x[0].dtype
    total = pulls[0].gain + instant
    if not lr * total or (len(pulls) > 1 and dtype is not torch.float32):
        return False  # the kernel's weight decay goes through its learning rate; _KEEP would round squares of doubles
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
                decay=decay,  # type: ignore[arg-type]  # none is None
                second_decay=second_decay if i == 0 else _KEEP,
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
    """Take a step on float32 copies of parameters and gradients, and round the parameters once, if it is taken."""
    wide = piece._replace(x=[t.float() for t in piece.x], g=[t.float() for t in piece.g])
    taken = step(wide)
    if taken:
        torch._foreach_copy_(piece.x, wide.x)
    return taken
