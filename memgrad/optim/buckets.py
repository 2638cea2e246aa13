"""Buckets: parameters that take the same step, and their tensors in the forms that kernels can take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from memgrad.optim.arithmetic import Tensors

Step = int | Tensor

# Looked up once: on small models the step is made of such look-ups.
_PLAIN_TYPES = (Tensor, torch.nn.Parameter)
_is_contiguous = Tensor.is_contiguous


class Bucket(NamedTuple):
    """Parameters of one group that take the same step: same count k, dtype, device and kind of tensor."""

    k: Step
    x: Tensors
    g: Tensors
    buffers: tuple[Tensors, ...]
    states: list[dict[str, Any]]


def counter(k: Step, p: Tensor, *, as_tensor: bool) -> Step:
    """The count k as an int, or as a tensor on the parameter's device.

    Of int64: float32 would stop at 2^24, and torch.compile takes a scalar of float64 for a number and drops what is
    written to it (torch 2.13).
    """
    return torch.full((), int(k), dtype=torch.int64, device=p.device) if as_tensor else int(k)


def lies_alike(bucket: Bucket) -> bool:
    """Whether all tensors have one dtype, and those of a parameter lie in memory alike.

    The fused kernels walk over storage and would mix up others.
    """
    lists = (bucket.x, bucket.g, *bucket.buffers)
    dtype = bucket.x[0].dtype
    if [t for tensors in lists[1:] for t in tensors if t.dtype is not dtype]:
        return False
    if all(all(map(_is_contiguous, tensors)) for tensors in lists):
        return True
    return all(map(_same_layout, zip(*lists, strict=True)))


def _same_layout(tensors: tuple[Tensor, ...]) -> bool:
    """Whether tensors have the same strides, without gaps."""
    stride = tensors[0].stride()
    if any(t.stride() != stride for t in tensors):
        return False
    return tensors[0].permute(sorted(range(len(stride)), key=lambda i: -stride[i])).is_contiguous()


def as_plain_tensors(bucket: Bucket) -> Bucket:
    """The bucket's tensors as views that the arithmetic can take: local shards of DTensors, complex as pairs of reals.

    All updates are elementwise, so a shard's is the shard of the update.
    """
    first = bucket.x[0]
    if type(first) not in _PLAIN_TYPES and hasattr(first, "to_local"):
        placed = [_placed_like(g, x) for g, x in zip(bucket.g, bucket.x, strict=True)]
        return as_plain_tensors(_map(bucket._replace(g=placed), _local))
    if first.is_complex():
        resolved = bucket._replace(g=[g.resolve_conj() for g in bucket.g])  # autograd conjugates lazily
        return _map(resolved, torch.view_as_real)
    return bucket


def _placed_like(g: Any, x: Any) -> Any:
    """A DTensor's gradient, placed as its parameter is: under tensor parallelism it may still have to be summed."""
    return g if g.placements == x.placements else g.redistribute(placements=x.placements)


def _local(t: Any) -> Tensor:
    local: Tensor = t.to_local()
    return local


def _map(bucket: Bucket, function: Callable[[Tensor], Tensor]) -> Bucket:
    return Bucket(
        bucket.k,
        [function(t) for t in bucket.x],
        [function(t) for t in bucket.g],
        tuple([function(t) for t in tensors] for tensors in bucket.buffers),
        bucket.states,
    )
