"""Buckets: parameters that take the same step, with their tensors in a form that kernels accept."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from memgrad.optim.arithmetic import Scalar, Tensors

Step = int | Tensor

PLAIN_TYPES = (Tensor, torch.nn.Parameter)


class Weights(NamedTuple):
    """What a step at count k needs of the memories: all that may fail, so that it is computed before any change."""

    fresh: tuple[Scalar, ...] = ()
    """The weight $1 - b_k$ of the newest gradient in each average of gradients."""
    gains: tuple[Scalar, ...] = ()
    """The gain of each average."""
    instant: Scalar = 0.0
    """The gain of the newest gradient."""
    second_fresh: Scalar = 1.0
    """The weight of the newest square in the average of squares."""
    root: Scalar = 1.0
    """The square root of the gain of the second memory, by which the root of the average is multiplied."""


NO_WEIGHTS = Weights()


class Bucket(NamedTuple):
    """Parameters of one group that take the same step: same count k, dtype, device and kind of tensor."""

    k: Step
    x: Tensors
    g: Tensors
    buffers: tuple[Tensors, ...]
    states: list[dict[str, Any]]
    begins: tuple[str, ...]
    """Buffers that are new although earlier steps were counted, so that $b_k$ does not apply to them."""
    weights: Weights = NO_WEIGHTS


def counter(k: Step, p: Tensor, *, as_tensor: bool) -> Step:
    """The count k as an int, or as a tensor on the parameter's device.

    The tensor is int64: float32 would stop counting at 2^24, and torch.compile treats a float64 scalar as a constant
    and drops writes to it (torch 2.13).
    """
    return torch.full((), int(k), dtype=torch.int64, device=p.device) if as_tensor else int(k)


class Counters:
    """Which tensor counters are equal, without reading them at every step, which would synchronize with the device.

    Each is read once. Counters that were equal and have been incremented together since then are still equal, unless
    something else has written to them, which changes their version.
    """

    def __init__(self) -> None:
        self._known = WeakTensorKeyDictionary()

    def mark(self, k: Tensor) -> object:
        """A mark that equal counters share."""
        if k.is_inference() or k.device.type == "meta":
            return id(k)  # it has no version, or no value to read
        version, mark = self._known.get(k, (None, None))  # type: ignore[no-untyped-call]  # torch's is not typed
        return mark if version == k._version else int(k)

    def count(self, bucket: Bucket) -> None:
        """Count the step of a bucket's parameters, whose counters had the same mark."""
        mark = object()
        for state in bucket.states:
            k = state["step"].add_(1)
            if not k.is_inference():
                self._known[k] = (k._version, mark)


def is_capturing() -> bool:
    """Whether a CUDA graph is being recorded."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def as_plain_tensors(bucket: Bucket) -> Bucket:
    """The bucket's tensors as views that the arithmetic accepts: local shards of DTensors, complex as pairs of reals.

    All updates are elementwise, so the update of a shard is the shard of the update.
    """
    first = bucket.x[0]
    if type(first) not in PLAIN_TYPES and hasattr(first, "to_local"):
        placed = [_placed_like(g, x) for g, x in zip(bucket.g, bucket.x, strict=True)]
        return as_plain_tensors(_map(bucket._replace(g=placed), methodcaller("to_local")))
    if first.is_complex():
        resolved = bucket._replace(g=[g.resolve_conj() for g in bucket.g])  # autograd conjugates lazily
        return _map(resolved, torch.view_as_real)
    return bucket


def _placed_like(g: Any, x: Any) -> Any:
    """A DTensor's gradient, placed like its parameter: under tensor parallelism it may still have to be summed."""
    return g if g.placements == x.placements else g.redistribute(placements=x.placements)


def _map(bucket: Bucket, function: Callable[[Tensor], Tensor]) -> Bucket:
    x, g, *buffers = ([function(t) for t in tensors] for tensors in (bucket.x, bucket.g, *bucket.buffers))
    return bucket._replace(x=x, g=g, buffers=tuple(buffers))
