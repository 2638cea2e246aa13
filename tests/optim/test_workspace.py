"""Scratch memory and pieces: what is kept between steps, where a piece ends, and when views are made again."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from memgrad.optim import workspace
from memgrad.optim.buckets import Bucket
from memgrad.optim.workspace import Workspace


def bucket_of(sizes: list[int]) -> Bucket:
    x, g, u = ([torch.arange(float(size)) for size in sizes] for _ in range(3))
    return Bucket(1, x, g, (u,), [{}], ())


@pytest.fixture(autouse=True)
def _pieces_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "PIECE", 4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [
        ([8], [[8]]),
        ([3, 5], [[3, 5]]),
        ([9], [[8], [1]]),
        ([20], [[8], [8], [4]]),
        ([4, 4, 4], [[4, 4], [4]]),
        ([5, 5], [[5], [5]]),
        ([8, 1, 7, 1], [[8], [1, 7], [1]]),
        ([1, 16], [[1], [8], [8]]),
    ],
    ids=str,
)
def test_a_piece_holds_as_many_elements_as_fit(sizes: list[int], pieces: list[list[int]]) -> None:
    bucket = bucket_of(sizes)
    found = list(Workspace().pieces(bucket))
    for lists in ([each.x for each in found], [each.g for each in found], [each.buffers[0] for each in found]):
        assert [[t.numel() for t in tensors] for tensors in lists] == pieces
    assert (found[0] is bucket) == (len(pieces) == 1)


def test_what_is_not_contiguous_stays_whole() -> None:
    bucket = bucket_of([16])
    bucket.g[0] = torch.arange(32.0)[::2]
    assert list(Workspace().pieces(bucket)) == [bucket]


def views(space: Workspace, bucket: Bucket) -> list[Tensor]:
    return [t for piece in space.pieces(bucket) for t in (*piece.x, *piece.buffers[0])]


def test_views_are_made_again_only_where_a_tensor_has_moved() -> None:
    space, bucket = Workspace(), bucket_of([20])
    first = views(space, bucket)
    assert all(a is b for a, b in zip(first, views(space, bucket), strict=True))
    bucket.buffers[0][0] = torch.zeros(20)
    second = views(space, bucket)
    assert not any(a is b for a, b in zip(first, second, strict=True))
    assert second[1].data_ptr() == bucket.buffers[0][0].data_ptr()


def test_gradients_are_those_of_this_step() -> None:
    space, bucket = Workspace(), bucket_of([20])
    list(space.pieces(bucket))
    bucket.g[0] = torch.full((20,), 7.0)
    assert torch.equal(torch.cat([t for piece in space.pieces(bucket) for t in piece.g]), bucket.g[0])


def test_scratch_is_reused_and_grows_once() -> None:
    space = Workspace()
    small = space.like([torch.zeros(2, 3), torch.zeros(4)])
    assert [t.shape for t in small] == [(2, 3), (4,)]
    assert small[1].data_ptr() == small[0].data_ptr() + 6 * 4  # float32, one behind the other
    assert space.like([torch.ones(2, 3), torch.ones(4)]) is small
    assert space.like([torch.zeros(10)])[0].data_ptr() == small[0].data_ptr()  # it fits
    large = space.like([torch.zeros(11)])
    assert space.like([torch.zeros(2, 3), torch.zeros(4)])[0].data_ptr() == large[0].data_ptr()
    assert space.like([torch.zeros(2, dtype=torch.float64)])[0].dtype == torch.float64


def test_scratch_has_the_strides_of_its_model() -> None:
    transposed = torch.zeros(3, 4).T
    (found,) = Workspace().like([transposed])
    assert (found.shape, found.stride()) == (transposed.shape, transposed.stride())


def test_shapes_and_cuts_do_not_accumulate() -> None:
    space = Workspace()
    for size in range(1, 80):
        space.like([torch.zeros(size)])
        space.like([torch.zeros(80 - size)])
    assert len(space._views) <= 64
    buckets = [bucket_of([9]) for _ in range(300)]
    for bucket in buckets:
        list(space.pieces(bucket))
    assert 0 < len(space._cuts) <= 256
