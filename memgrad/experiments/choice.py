"""Which problem is trained on, as plain data, and what has to be known of it before anything is trained."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

import torch

from memgrad import problems
from memgrad.problems import Problem
from memgrad.problems.datasets.catalogue import find

DATA = {
    "covtype-softmax": "covtype",
    "mnist-autoencoder": "mnist",
    "fashion-mlp": "fashion-mnist",
    "cifar10-cnn": "cifar-10",
}
"""The data set of each problem of ours that has one."""


@final
@dataclass(frozen=True)
class ProblemChoice:
    """A problem by name, and which part of it.

    Attributes:
        name: One of `memgrad.problems.names()`, or `file.py:function`, or `module:function`.
        sample: Whether to use the rows that come with memgrad.
        examples: Train on this many training examples, drawn once for all runs; None for all.
        dtype: The precision, such as float64; None for the problem's own.
    """

    name: str
    sample: bool = False
    examples: int | None = None
    dtype: str | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it comes with memgrad, so that its name and the digest of its data say all of it."""
        return self.name in problems.names()

    def load(self, device: str | None = None) -> Problem:
        """The problem itself."""
        dtype = None if self.dtype is None else getattr(torch, self.dtype)
        problem = problems.get(self.name, sample=self.sample, device=device, dtype=dtype)
        return problem if self.examples is None else share_of(problem, self.examples)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


@final
@dataclass(frozen=True)
class Facts:
    """What a plan needs to know of a problem, without its data.

    Attributes:
        name: The name of the problem itself.
        fingerprint: A digest of data, model and loss: it changes when results would.
        examples: The number of training examples.
        batch_size: The size of a minibatch, unless an experiment says otherwise.
        stack_width: How many runs it pays to train at once.
        metrics: The metrics it has.
        nbytes: The memory that its data take.
    """

    name: str
    fingerprint: str
    examples: int
    batch_size: int
    stack_width: int
    metrics: tuple[str, ...]
    nbytes: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Facts:
        """The facts that `as_dict` made plain data of."""
        return cls(**{**data, "metrics": tuple(data["metrics"])})


def facts_about(choice: ProblemChoice, problem: Problem) -> Facts:
    """The facts about a problem that was loaded.

    Example:
        >>> choice = ProblemChoice("fashion-mlp", sample=True)
        >>> facts = facts_about(choice, choice.load())
        >>> facts.examples, facts.batch_size, facts.stack_width
        (600, 32, 8)
    """
    tensors = [*problem.train, *(problem.test or ())]
    return Facts(
        problem.name,
        fingerprint_of_ours(choice) if choice.is_ours else _fingerprint_of_users(choice, problem),
        problem.examples,
        problem.batch_size,
        problem.stack_width,
        problem.metric_names,
        sum(tensor.nbytes for tensor in tensors),
    )


def fingerprint_of_ours(choice: ProblemChoice) -> str:
    """The fingerprint of a problem of ours, known without loading it: its data are pinned by their digest."""
    data = DATA.get(choice.name)
    digest = find(data).digest if data else ""
    return digest_of(choice.name, str(choice.sample), digest)


def share_of(problem: Problem, examples: int) -> Problem:
    """The problem with some of its training examples, always the same ones.

    Example:
        >>> share_of(ProblemChoice("logistic").load(), 100).examples
        100
    """
    if not 0 < examples <= problem.examples:
        raise ValueError(
            f"problem {problem.name!r} has {problem.examples:,} training examples; examples must be one of 1 to that, "
            f"got {examples:,}."
        )
    chosen = torch.randperm(problem.examples, generator=generator("share", problem.name))[:examples].sort().values
    inputs, targets = (tensor[chosen.to(tensor.device)] for tensor in problem.train)
    return replace(problem, train=(inputs, targets))


def seed_from(*words: str | int) -> int:
    """A seed of 63 bits that all the words decide together.

    Example:
        >>> seed_from("order", "covtype-softmax", 0) == seed_from("order", "covtype-softmax", 1)
        False
    """
    return int(digest_of(*map(str, words))[:16], 16) >> 1


def generator(*words: str | int) -> torch.Generator:
    """A random generator that the words decide."""
    return torch.Generator().manual_seed(seed_from(*words))


def _fingerprint_of_users(choice: ProblemChoice, problem: Problem) -> str:
    """Source, data and initial parameters: a user's problem may read files that its name does not tell of."""
    content = hashlib.sha256(_source(choice.name, problem))
    try:
        initial = problem.initial_parameters(0)
    except Exception as error:  # whatever a user's model raises
        raise ValueError(f"problem {choice.name!r} cannot make its model: {type(error).__name__}: {error}") from error
    for tensor in (*problem.train, *(problem.test or ()), *initial.values()):
        content.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest_of(choice.name.rpartition(":")[2], content.hexdigest(), str(problem.l2))


def _source(name: str, problem: Problem) -> bytes:
    place = name if name.endswith(".py") else name.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place).read_bytes()
    found = importlib.util.find_spec(place)
    if found is not None and found.origin is not None and found.origin.endswith(".py"):
        return Path(found.origin).read_bytes()
    return inspect.getsource(problem.make_model).encode()


def digest_of(*words: str) -> str:
    """32 hexadecimal digits that all the words decide together."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:32]
