"""Problems by name: the paper's four workloads, two regressions on data drawn from a seed, and a language model.

Where the paper leaves something open, the docstring of the function states our choice and its reason.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from memgrad.problems import datasets
from memgrad.problems.convolutional import StackedCNN
from memgrad.problems.datasets import texts
from memgrad.problems.dense import StackedDense, slope_of_cross_entropy, slope_of_logistic, slope_of_squares
from memgrad.problems.kinds import as_count
from memgrad.problems.metrics import accuracy
from memgrad.problems.models import (
    Dense,
    TutorialCNN,
    autoencoder,
    pixelwise_cross_entropy,
    softmax_regression,
    tanh_network,
)
from memgrad.problems.passes import Pair, Score
from memgrad.problems.problem import Problem
from memgrad.problems.transformer import StackedTransformer, Transformer, next_token_loss


def covtype_softmax(*, sample: bool = False, l2: float = 1e-4) -> Problem:
    """Softmax regression on covtype: 464,809 examples, 54 features in [0, 1], 432 parameters, convex.

    What the paper leaves open: the features are scaled to [0, 1], without which its step size 1 would diverge; the
    labels 1 to 7 are kept, because 432 = 54 x 8; the L2 term makes the problem strongly convex, which softmax alone is
    not.

    Args:
        sample: Use the rows that come with memgrad.
        l2: The factor of the L2 term, >= 0.

    Example:
        >>> covtype_softmax(sample=True)
        <Problem covtype-softmax: inputs 2000 x 54, cpu>
    """
    train, test = _load("covtype", sample)
    return Problem(
        "covtype-softmax",
        train,
        softmax_regression,
        nn.functional.cross_entropy,
        test=test,
        l2=l2,
        metrics={"accuracy": accuracy},
        batch_size=16,
        stack_width=350,
        full_chunk=1 << 15,
        stacked=StackedDense((), slope_of_cross_entropy),
    )


def mnist_autoencoder(*, sample: bool = False, bias: bool = True) -> Problem:
    """The 784-1000-500-250-30 autoencoder on MNIST: 60,000 images, 2,837,314 parameters.

    What the paper leaves open: the cross entropy is summed over the pixels of an image and averaged over images. With
    the mean over the pixels, whose gradients are 784 times smaller, the largest step size of its grid does not leave
    the first plateau in 20,000 steps, while .05, the one it found best for SGD, does with the sum. Biases are kept,
    PyTorch's default; its count of 2,833,000 parameters is that of the weights.

    Args:
        sample: Use the images that come with memgrad.
        bias: Whether the model has biases.

    Example:
        >>> mnist_autoencoder(sample=True)
        <Problem mnist-autoencoder: inputs 1000 x 784, cpu>
    """
    (train, _), (test, _) = _load("mnist", sample)
    images, unseen = train.flatten(1), test.flatten(1)
    return Problem(
        "mnist-autoencoder",
        (images, images),
        lambda: autoencoder(bias=bias),
        pixelwise_cross_entropy,
        test=(unseen, unseen),
        batch_size=16,
        full_chunk=2000,
        reconstruct=lambda outputs: torch.sigmoid(outputs).reshape(-1, 28, 28),
    )


def fashion_mlp(*, sample: bool = False) -> Problem:
    """The 784-128-10 tanh network on Fashion-MNIST: 60,000 images, 101,770 parameters.

    What the paper leaves open: pixels are scaled to [0, 1] and nothing more.

    Args:
        sample: Use the images that come with memgrad.

    Example:
        >>> fashion_mlp(sample=True).batch_size
        32
    """
    train, test = _load("fashion-mnist", sample)
    return Problem(
        "fashion-mlp",
        (train[0].flatten(1), train[1]),
        tanh_network,
        nn.functional.cross_entropy,
        test=(test[0].flatten(1), test[1]),
        metrics={"accuracy": accuracy},
        batch_size=32,
        stack_width=8,
        full_chunk=8000,
        stacked=StackedDense(("tanh",), slope_of_cross_entropy),
    )


def cifar10_cnn(*, sample: bool = False) -> Problem:
    """The network of PyTorch's tutorial on CIFAR-10: 50,000 images, 62,006 parameters.

    What the paper leaves open: pixels are scaled to [-1, 1], as in the tutorial; images are not augmented, because a
    full batch must be the same each time.

    Args:
        sample: Use the images that come with memgrad.

    Example:
        >>> cifar10_cnn(sample=True).batch_size
        128
    """
    train, test = _load("cifar-10", sample)
    return Problem(
        "cifar10-cnn",
        (train[0].mul_(2).sub_(1), train[1]),  # in place: the whole set is 600 MB
        TutorialCNN,
        nn.functional.cross_entropy,
        test=(test[0].mul_(2).sub_(1), test[1]),
        metrics={"accuracy": accuracy},
        batch_size=128,
        stack_width=8,
        full_chunk=1000,
        stacked=StackedCNN(),
    )


def least_squares(*, examples: int = 1000, dimension: int = 20, alpha: float = 1.0, seed: int = 0) -> Problem:
    r"""Linear regression on synthetic data: $y = \langle a, c \rangle$ + noise, with the spectrum $j^{-2\alpha}$.

    The same function as the objective `LeastSquares` on these data.

    Args:
        examples: Number of examples.
        dimension: Number of parameters.
        alpha: Decay of the features' spectrum, >= 0.
        seed: Seed of the data.

    Example:
        >>> least_squares()
        <Problem least-squares: inputs 1000 x 20, cpu>
    """
    inputs, clean, noise = _drawn(examples, dimension, alpha, seed)
    return _linear("least-squares", (inputs, clean + noise), _half_squares, slope_of_squares)


def logistic(*, examples: int = 1000, dimension: int = 20, alpha: float = 1.0, seed: int = 0) -> Problem:
    r"""Logistic regression on synthetic data with the spectrum $j^{-2\alpha}$ and an L2 term of 1e-4.

    The same function as the objective `Logistic` on these data.

    Args:
        examples: Number of examples.
        dimension: Number of parameters.
        alpha: Decay of the features' spectrum, >= 0.
        seed: Seed of the data.

    Example:
        >>> logistic().l2
        0.0001
    """
    inputs, clean, noise = _drawn(examples, dimension, alpha, seed)
    labels = (clean + noise > 0).to(inputs.dtype)
    return _linear("logistic", (inputs, labels), _logistic_loss, slope_of_logistic, l2=1e-4)


def char_transformer(
    *,
    data: str = texts.DEFAULT_TEXT,
    sample: bool = False,
    layers: int = 2,
    width: int = 64,
    heads: int | None = None,
    context: int = 32,
    held_out: int = 1024,
) -> Problem:
    """A decoder-only transformer that predicts the next byte of a text: `Transformer`, 2 layers of width 64 by default.

    The examples are the pieces of the text of `context` bytes, one after the other, each with the bytes that follow its
    own. The end of the text is held out: the last twentieth for testing, the one before it for validation.

    Args:
        data: A text of the catalogue, `sotu` or `shakespeare`, or the path of a text file in UTF-8.
        sample: Use the sample of the text that comes with memgrad.
        layers: The number of layers.
        width: The number of units per position.
        heads: The number of attention heads, a divisor of the width; one for every 32 units unless given.
        context: The number of bytes that a prediction sees at most.
        held_out: At most this many examples are used for validation, and for testing, evenly spaced.

    Example:
        >>> problem = char_transformer(sample=True)
        >>> problem
        <Problem char-transformer: inputs 8437 x 32, cpu>
        >>> problem.metric_names
        ('loss', 'gradient_norm', 'test_loss', 'validation_loss', 'step_norm')
    """
    owner = "problem 'char-transformer'"
    for option, value in (("layers", layers), ("width", width), ("context", context), ("held_out", held_out)):
        as_count(owner, option, value)
    heads = max(1, width // 32) if heads is None else as_count(owner, "heads", heads)
    if width % heads:
        raise ValueError(f"{owner} needs a width that its heads divide, got width={width} and heads={heads}.")
    try:
        text = datasets.load_text(data, sample=sample)
    except ValueError as error:
        raise ValueError(f"{owner} cannot use data={data!r}: {error}") from error
    whole = len(text.train) + len(text.validation) + len(text.test)
    if len(text.validation) <= context:
        least = math.ceil((context + 1) / texts.HELD_OUT)
        raise ValueError(
            f"{owner} needs a text of at least {least:,} bytes for context={context}: a twentieth of it is for "
            f"validation and must hold a context and the byte after it; data={data!r} has {whole:,}."
        )
    used = torch.from_numpy(np.unique(np.concatenate([text.train, text.validation, text.test])))
    code = torch.zeros(256, dtype=torch.uint8)
    code[used.long()] = torch.arange(len(used), dtype=torch.uint8)
    train, validation, test = (
        _pieces(code[torch.from_numpy(part).long()], context) for part in (text.train, text.validation, text.test)
    )
    return Problem(
        "char-transformer",
        train,
        lambda: Transformer(len(used), layers=layers, width=width, heads=heads, context=context),
        next_token_loss,
        test=_spread(test, held_out),
        validation=_spread(validation, held_out),
        batch_size=16,
        stack_width=4,
        full_chunk=256,
        stacked=StackedTransformer(layers, heads),
    )


def _pieces(tokens: Tensor, context: int) -> Pair:
    """Tokens cut into pieces of this length, and each with the tokens that follow its own."""
    count = (len(tokens) - 1) // context
    return tokens[: count * context].view(count, context), tokens[1 : count * context + 1].view(count, context)


def _spread(pair: Pair, most: int) -> Pair:
    """At most this many examples, evenly spaced over all."""
    places = torch.linspace(0, len(pair[0]) - 1, min(most, len(pair[0]))).long()
    return pair[0][places], pair[1][places]


def _linear(name: str, train: Pair, loss: Score, slope: Score, *, l2: float = 0.0) -> Problem:
    return Problem(
        name,
        train,
        lambda: Dense((train[0].shape[1], 1), bias=False),
        loss,
        l2=l2,
        batch_size=16,
        stack_width=350,
        full_chunk=1 << 16,
        stacked=StackedDense((), slope),
    )


def _half_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square().mean() / 2


def _logistic_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets)


def _drawn(examples: int, dimension: int, alpha: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs with the spectrum j^(-2 alpha), a linear function of them, and noise of a tenth of its variance."""
    generator = torch.Generator().manual_seed(seed)
    j = torch.arange(1, dimension + 1, dtype=torch.float32)
    inputs = torch.randn(examples, dimension, generator=generator) * j**-alpha
    clean = inputs @ torch.randn(dimension, generator=generator)
    return inputs, clean, torch.randn(examples, generator=generator) * clean.std() * math.sqrt(0.1)


def _load(name: str, sample: bool) -> tuple[Pair, Pair]:
    data = datasets.load(name, sample=sample)
    train = torch.from_numpy(data.train_inputs), torch.from_numpy(data.train_targets)
    return train, (torch.from_numpy(data.test_inputs), torch.from_numpy(data.test_targets))
