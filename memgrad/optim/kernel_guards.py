"""Checks of tensors before a step: whether they may be updated at all, and whether torch's fused kernels may do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from memgrad.optim.arithmetic import Tensors
from memgrad.optim.buckets import PLAIN_TYPES, Bucket, as_plain_tensors
from memgrad.optim.options import Group, name_of

FUSED_DTYPES = (torch.float32, torch.float64)
FUSED_DEVICES = ("cpu", "cuda")

# Looked up once: for small models, such lookups take most of the step.
_is_contiguous = Tensor.is_contiguous


class Inspector:
    """Inspects the tensors of buckets, and caches the result for as long as they do not change."""

    def __init__(self) -> None:
        self._found: dict[Any, tuple[Callable[..., bool], bool]] = {}

    def inspect(
        self, owner: str, group: Group, place: int, bucket: Bucket, names: Sequence[str]
    ) -> tuple[Bucket, bool]:
        """The bucket with tensors that the arithmetic accepts, and whether the fused kernels may be used on them.

        A gradient or a buffer whose shape differs from its parameter's is refused: the fused kernels do not check
        shapes, and would write past the end of the shorter tensor. `place` is the bucket's index in its group, and
        `names` are those of its buffers.
        """
        if type(bucket.k) is not int or group["differentiable"]:
            return _inspect(owner, group, bucket, names)
        tensors = [*bucket.x, *bucket.g, *[t for buffer in bucket.buffers for t in buffer]]
        key = (id(group), place, len(bucket.x), len(names))
        found = self._found.get(key)
        if found is not None and found[0](*tensors):
            return bucket, found[1]
        plain, fits = _inspect(owner, group, bucket, names)
        if plain is bucket:  # not a shard, about which the whole tensor says nothing
            self._found[key] = unless_changed(tensors), fits
        return plain, fits


def _inspect(owner: str, group: Group, bucket: Bucket, names: Sequence[str]) -> tuple[Bucket, bool]:
    if any(g.layout is not torch.strided for g in bucket.g):
        raise RuntimeError(
            f"{owner} does not support sparse gradients: a memory decays every entry at every step. "
            f"Use dense gradients (sparse=False), or torch.optim.SGD for this parameter."
        )
    _refuse_if_misshapen(owner, group, bucket, bucket, names)
    if group["differentiable"]:
        return bucket, False
    plain = as_plain_tensors(bucket)
    if plain is not bucket:
        _refuse_if_misshapen(owner, group, bucket, plain, names)  # shards may differ where the whole does not
    return plain, type(bucket.k) is int and fits_kernels(plain)


def _refuse_if_misshapen(owner: str, group: Group, bucket: Bucket, plain: Bucket, names: Sequence[str]) -> None:
    shapes = [t.shape for t in plain.x]
    for what, tensors in zip(("gradient", *map("state {!r}".format, names)), (plain.g, *plain.buffers), strict=True):
        others = [t.shape for t in tensors]
        if others != shapes:
            i = next(i for i, (one, other) in enumerate(zip(shapes, others, strict=True)) if one != other)
            index = next(j for j, p in enumerate(group["params"]) if p is bucket.x[i])
            way_out = "compute it again" if what == "gradient" else "delete that state, or make a new optimizer"
            raise RuntimeError(
                f"{owner}: the {what} of {name_of(group, index)} has the shape {list(others[i])}, the parameter "
                f"{list(shapes[i])}. If the parameter's data were replaced, {way_out}."
            )


def unless_changed(tensors: Tensors) -> Callable[..., bool]:
    """A function that tells whether tensors have the types, dtypes, devices, shapes and strides that these have now.

    It is one call of torch's own guards: checking each tensor in Python would take as long as the step of a small
    model. The guards are not public; where torch lacks them, the answer is no, and everything is inspected again.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    if not hasattr(guards, "TensorGuards"):
        return lambda *_: False
    return guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check  # type: ignore[no-any-return, union-attr]  # no types are known of it


def fits_kernels(bucket: Bucket) -> bool:
    """Whether torch's fused kernels are correct for these tensors. Each condition stems from a wrong result."""
    first = bucket.x[0]
    if first.device.type not in FUSED_DEVICES or first.dtype not in FUSED_DTYPES:
        return False  # the CPU kernel for SGD never updates bf16 and fp16 tensors of 16 elements or more
    return are_plain(bucket) and lies_alike(bucket)


def fits_widened(bucket: Bucket) -> bool:
    """Whether the fused kernels are correct for float32 copies of these parameters and gradients; the state is float32.

    Only on a CPU, where the copies are made in pieces that stay in its cache.
    """
    first = bucket.x[0]
    return (
        type(bucket.k) is int
        and first.is_cpu
        and first.dtype in (torch.bfloat16, torch.float16)
        and bool(bucket.buffers)
        and all(t.dtype is torch.float32 for tensors in bucket.buffers for t in tensors)
        and are_plain(bucket)
        and all(all(map(_is_contiguous, tensors)) for tensors in (bucket.x, bucket.g, *bucket.buffers))
    )


def are_plain(bucket: Bucket) -> bool:
    """Whether all tensors are plain: a subclass may lack the fused and foreach operators, or redefine them.

    This is checked beforehand, because an operator that fails may already have changed some tensors.
    """
    kinds = {type(bucket.x[0])}.union(*[map(type, tensors) for tensors in (bucket.g, *bucket.buffers)])
    return all(kind in PLAIN_TYPES or _overrides_nothing(kind) for kind in kinds)


def _overrides_nothing(kind: type[Tensor]) -> bool:
    plain = [getattr(each.__torch_function__, "__func__", each.__torch_function__) for each in PLAIN_TYPES]
    function = getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
    return function in plain and kind.__torch_dispatch__ is Tensor.__torch_dispatch__


def lies_alike(bucket: Bucket) -> bool:
    """Whether all tensors have one dtype and device, and those of each parameter the same memory layout.

    The fused kernels run through the storage in order, and would mix up elements of different layouts.
    """
    lists = (bucket.x, bucket.g, *bucket.buffers)
    dtype, device = bucket.x[0].dtype, bucket.x[0].device
    if any(t.dtype is not dtype or t.device != device for tensors in lists[1:] for t in tensors):
        return False
    if all(all(map(_is_contiguous, tensors)) for tensors in lists):
        return True
    return all(map(_same_layout, zip(*lists, strict=True)))


def _same_layout(tensors: tuple[Tensor, ...]) -> bool:
    """Whether tensors have the same strides, and no gaps."""
    stride = tensors[0].stride()
    if any(t.stride() != stride for t in tensors):
        return False
    return tensors[0].permute(sorted(range(len(stride)), key=lambda i: -stride[i])).is_contiguous()
