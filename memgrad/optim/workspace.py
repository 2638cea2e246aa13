"""What an optimizer keeps between steps for speed alone: scratch memory, and views of tensors in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from memgrad.optim.arithmetic import Tensors
from memgrad.optim.buckets import Bucket

# Elements per thread that all calls of a step process before the next ones, so that they stay in a core's cache. The
# fastest power of 2 with one thread and with two: smaller pieces cost more in calls than they save.
PIECE = 1 << 18
_MANY_SHAPES = 64
_MANY_CUTS = 256


_Piece = tuple[slice, Tensors, tuple[Tensors, ...]]
"""Views of parameters and their buffers, and their place in the list of all."""


class Workspace:
    """A block of scratch memory that every step overwrites, and the pieces into which the last step cut its tensors."""

    def __init__(self) -> None:
        self._blocks: dict[torch.dtype, Tensor] = {}
        self._views: dict[tuple[torch.dtype, tuple[torch.Size, ...]], Tensors] = {}
        self._cuts: dict[int, tuple[Any, list[_Piece]]] = {}  # with the addresses of the tensors, while they stay there

    def like(self, tensors: Tensors) -> Tensors:
        """Uninitialized tensors of these shapes and strides."""
        first = tensors[0]
        if not first.is_cpu or not all(map(Tensor.is_contiguous, tensors)):
            return [torch.empty_like(t) for t in tensors]  # an accelerator has an allocator that reuses memory
        key = (first.dtype, tuple([t.shape for t in tensors]))
        views = self._views.get(key)
        if views is None:
            views = self._carved(first.dtype, key[1])
            if len(self._views) < _MANY_SHAPES:
                self._views[key] = views
        return views

    def _carved(self, dtype: torch.dtype, shapes: Sequence[torch.Size]) -> Tensors:
        total = sum(shape.numel() for shape in shapes)
        block = self._blocks.get(dtype)
        if block is None or block.numel() < total:
            self._views.clear()  # they are views of a smaller block, which is to be freed
            block = self._blocks[dtype] = torch.empty(total, dtype=dtype, device="cpu")
        parts = torch.split(block[:total], [shape.numel() for shape in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def pieces(self, bucket: Bucket) -> Iterator[Bucket]:
        """The bucket in pieces that fit into a CPU's cache, as views, so that steps change the tensors themselves."""
        size = PIECE * torch.get_num_threads()
        sizes = [t.numel() for t in bucket.x]
        lists = (bucket.x, *bucket.buffers)
        is_small = sum(sizes) <= size or not bucket.x[0].is_cpu
        if is_small or not all(all(map(Tensor.is_contiguous, tensors)) for tensors in (bucket.g, *lists)):
            yield bucket
            return
        # Views are made again only if a tensor has moved: making them takes longer than the step of a small tensor. A
        # view keeps its memory alive, so nothing else can be allocated at its address.
        place = (size, sizes, [[t.data_ptr() for t in tensors] for tensors in lists])
        known, pieces = self._cuts.get(id(bucket.states[0]), (None, []))
        if known != place:
            if len(self._cuts) >= _MANY_CUTS:
                self._cuts.clear()
            pieces = _pieces([_cut(tensors, size) for tensors in lists], size)
            self._cuts[id(bucket.states[0])] = place, pieces
        g = _cut(bucket.g, size)
        for where, x, buffers in pieces:
            yield bucket._replace(x=x, g=g[where], buffers=buffers)


def _cut(tensors: Tensors, size: int) -> Tensors:
    """The tensors, with those of more than `size` elements split into parts of that size."""
    return [part for t in tensors for part in ((t,) if t.numel() <= size else t.view(-1).unsafe_split(size))]


def _pieces(lists: list[Tensors], size: int) -> list[_Piece]:
    """Successive tensors of each list with at most `size` elements in total."""
    ends, held = [0], 0
    for i, t in enumerate(lists[0]):
        if held and held + t.numel() > size:
            ends.append(i)
            held = 0
        held += t.numel()
    slices = list(map(slice, ends, [*ends[1:], len(lists[0])]))
    return [(where, lists[0][where], tuple(tensors[where] for tensors in lists[1:])) for where in slices]
