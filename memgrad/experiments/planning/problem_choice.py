"""Which problem, data and share a spec names, and what a plan has to know about it."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

import torch

from memgrad import problems
from memgrad.deprecation import renamed
from memgrad.experiments.digests import digest_of, share_generator
from memgrad.problems import Problem
from memgrad.problems.datasets.catalogue import TEXTS, find
from memgrad.problems.datasets.texts import DEFAULT_TEXT, digest_of_text
from memgrad.problems.lookup import DEFAULT
from memgrad.problems.rebuild import ADVICE, differing, identity
from memgrad.user_code import Reference, contained, described

DATA = {
    "covtype-softmax": "covtype",
    "mnist-autoencoder": "mnist",
    "fashion-mlp": "fashion-mnist",
    "cifar10-cnn": "cifar-10",
}
"""The data set of each built-in problem that has one."""

OF_TEXT = ("char-transformer",)
"""The built-in problems whose option `data` is a text."""

Option = bool | int | float | str


class OtherProblemError(ValueError):
    """A rebuilt problem differs from the one the experiment was planned with."""


@final
@dataclass(frozen=True)
class ProblemChoice:
    """A problem by name, and the share of its data.

    Attributes:
        name: One of `memgrad.problems.names()`, or `file.py:function`, or `module:function`.
        sample: Whether to use the data sample that comes with memgrad.
        examples: Train on this many training examples, drawn once for all runs; None for all.
        dtype: The precision, such as float64; None for the problem's own.
        options: Options of the function that makes the problem, sorted by name.
    """

    name: str
    sample: bool = False
    examples: int | None = None
    dtype: str | None = None
    options: tuple[tuple[str, Option], ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it is built in, so that its name and the digest of its data identify it."""
        return self.name in problems.names()

    @property
    def is_pinned(self) -> bool:
        """Whether its data are the same everywhere and always: it is built in, and not on a text file of the user."""
        return self.is_ours and (self.name not in OF_TEXT or dict(self.options).get("data", DEFAULT_TEXT) in TEXTS)

    def load(self, device: str | None = None) -> Problem:
        """The problem itself."""
        dtype = None if self.dtype is None else getattr(torch, self.dtype)
        problem = problems.get(self.name, sample=self.sample, device=device, dtype=dtype, options=dict(self.options))
        return problem if self.examples is None else share_of(problem, self.examples)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; without options if there are none, so that older keys stay valid."""
        data = {name: value for name, value in asdict(self).items() if name != "options"}
        return {**data, "options": dict(self.options)} if self.options else data

    as_dict = renamed("as_dict", "to_dict")


@final
@dataclass(frozen=True)
class Facts:
    """What a plan needs to know about a problem, without its data.

    Attributes:
        name: The name of the problem.
        fingerprint: A digest of data, model and loss; it changes whenever results would.
        examples: The number of training examples.
        batch_size: The default size of a minibatch.
        stack_width: How many runs are efficiently trained at once.
        metrics: Its metrics.
        nbytes: The memory of its data.
        parts: The digests of its data and initial parameters, and its initial loss, by name, to check a rebuilt problem
            against; empty for a problem whose data are pinned.
    """

    name: str
    fingerprint: str
    examples: int
    batch_size: int
    stack_width: int
    metrics: tuple[str, ...]
    nbytes: int
    parts: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; without parts, since only facts about pinned problems are stored."""
        return {name: value for name, value in asdict(self).items() if name != "parts"}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Facts:
        """The inverse of `to_dict`."""
        return cls(**{**data, "metrics": tuple(data["metrics"])})

    as_dict = renamed("as_dict", "to_dict")


def facts_about(problem_choice: ProblemChoice, problem: Problem) -> Facts:
    """The facts about a loaded problem.

    Example:
        >>> problem_choice = ProblemChoice("fashion-mlp", sample=True)
        >>> facts = facts_about(problem_choice, problem_choice.load())
        >>> facts.examples, facts.batch_size, facts.stack_width
        (600, 32, 8)
    """
    tensors = [*problem.train, *(problem.test or ()), *(problem.validation or ())]
    ours = problem_choice.is_ours
    fingerprint = fingerprint_of_ours(problem_choice) if ours else _fingerprint_of_users(problem_choice, problem)
    return Facts(
        problem.name,
        fingerprint,
        problem.examples,
        problem.batch_size,
        problem.stack_width,
        problem.metric_names,
        sum(tensor.nbytes for tensor in tensors),
        () if problem_choice.is_pinned else tuple(identity(problem).items()),
    )


def refuse_other(problem: Problem, parts: Iterable[tuple[str, str]]) -> None:
    """Refuse a rebuilt problem whose parts do not have these digests; without digests any problem passes."""
    if (planned := dict(parts)) and (other := differing(planned, identity(problem))):
        raise OtherProblemError(
            f"problem {problem.name!r} differs from one process to the next: its {' and '.join(other)} are not what "
            f"the experiment was planned with, or its file has changed since; {ADVICE} `memgrad check` says "
            f"more."
        )


def fingerprint_of_ours(problem_choice: ProblemChoice) -> str:
    """The fingerprint of a built-in problem, known without loading it: its data are pinned by their digest."""
    options = dict(problem_choice.options)
    if problem_choice.name in OF_TEXT:
        data = str(options.pop("data", DEFAULT_TEXT))
        digest = digest_of_text(data)
    else:
        name = DATA.get(problem_choice.name)
        digest = find(name).digest if name else ""
    words = [problem_choice.name, str(problem_choice.sample), digest]
    return digest_of(*words, *([json.dumps(options, sort_keys=True)] if options else []))


def share_of(problem: Problem, examples: int) -> Problem:
    """The problem with fewer training examples, always the same ones.

    Example:
        >>> share_of(ProblemChoice("logistic").load(), 100).examples
        100
    """
    if not 0 < examples <= problem.examples:
        raise ValueError(
            f"problem {problem.name!r} has {problem.examples:,} training examples; examples must be from 1 to that, "
            f"got {examples:,}."
        )
    kept = torch.randperm(problem.examples, generator=share_generator(problem.name))[:examples].sort().values
    inputs, targets = (tensor[kept.to(tensor.device)] for tensor in problem.train)
    return replace(problem, train=(inputs, targets))


def _fingerprint_of_users(problem_choice: ProblemChoice, problem: Problem) -> str:
    """The digest of source, options, data and initial parameters: a user's problem may read any file.

    An option may change the loss alone. Of one that names a file, the name counts and not the folder: the data do.
    """
    source = Reference.parse(problem_choice.name).source()
    content = hashlib.sha256(inspect.getsource(problem.make_model).encode() if source is None else source)
    try:
        with contained():
            model = problem.model(0)
    except Exception as error:  # whatever a user's model raises
        raise ValueError(f"problem {problem_choice.name!r} cannot make its model: {described(error)}") from error
    initial = (*model.parameters(), *model.buffers())  # frozen ones too
    for tensor in (*problem.train, *(problem.test or ()), *(problem.validation or ()), *initial):
        content.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    options = {name: _without_folder(value) for name, value in problem_choice.options}
    named = Reference.parse(problem_choice.name).attribute  # the folder does not matter
    words = [named or DEFAULT, content.hexdigest(), str(problem.l2)]
    return digest_of(*words, *([json.dumps(options, sort_keys=True)] if options else []))


def _without_folder(value: Any) -> Any:
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value
