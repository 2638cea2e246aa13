"""The digests and seeds of experiments: each depends on the arguments of its function and on nothing else.

What a run's digest depends on is in `planning.runs` and `planning.recipe`; here it is hashed. Stores outlive versions
of memgrad, so what a function here returns for given arguments must never change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import torch


def digest_of(*words: str) -> str:
    """32 hexadecimal digits that depend on all the words."""
    return digest_of_bytes("\0".join(words).encode())


def digest_of_bytes(data: bytes) -> str:
    """The first 32 hexadecimal digits of the SHA-256 of some bytes: the name of a chunk's file."""
    return hashlib.sha256(data).hexdigest()[:32]


def digest_of_data(data: Mapping[str, Any]) -> str:
    """32 hexadecimal digits for plain data, in any order of its keys: the digest of a run, the key of a problem."""
    return digest_of_bytes(json.dumps(data, sort_keys=True).encode())


def digest_of_runs(digests: Iterable[str]) -> str:
    """32 hexadecimal digits for runs in their order: the key of a run group, which names its checkpoint."""
    return digest_of_bytes("\n".join(digests).encode())


def seed_from(*words: str | int) -> int:
    """A seed of 63 bits that depends on all the words.

    Example:
        >>> seed_from("order", "covtype-softmax", 0) == seed_from("order", "covtype-softmax", 1)
        False
    """
    return int(digest_of(*map(str, words))[:16], 16) >> 1


def initial_seed(problem: str, seed: int) -> int:
    """The seed of a run's initial parameters."""
    return seed_from("initial", problem, seed)


def noise_seed(problem: str, seed: int) -> int:
    """The seed of the random numbers that a model draws during training, such as those of dropout."""
    return seed_from("noise", problem, seed)


def epoch_generator(problem: str, seed: int, epoch: int) -> torch.Generator:
    """The generator of the minibatch order in one epoch."""
    return torch.Generator().manual_seed(seed_from("order", problem, seed, epoch))


def share_generator(problem: str) -> torch.Generator:
    """The generator that draws which training examples a smaller problem keeps."""
    return torch.Generator().manual_seed(seed_from("share", problem))
