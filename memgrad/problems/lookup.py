"""Problems by name, the library's and the user's own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from memgrad import user_code
from memgrad.extras import require
from memgrad.suggestions import did_you_mean

if TYPE_CHECKING:
    import torch

    from memgrad.problems.problem import Problem

NAMES = (
    *("covtype-softmax", "mnist-autoencoder", "fashion-mlp", "cifar10-cnn"),
    *("least-squares", "logistic", "char-transformer"),
)
"""The library's problems; functions in `memgrad.problems.workloads` build them, with `_` in their names for `-`."""

DEFAULT = "problem"
"""The name that is looked up in a file if none is given."""


def names() -> tuple[str, ...]:
    """The names of the library's problems.

    Example:
        >>> names()
        ('covtype-softmax', 'mnist-autoencoder', 'fashion-mlp', 'cifar10-cnn', 'least-squares', 'logistic', \
'char-transformer')
    """
    return NAMES


def get(
    name: str,
    *,
    sample: bool = False,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    options: Mapping[str, Any] | None = None,
) -> Problem:
    """The problem with this name: one of `names()`, or your own as `path/to/file.py:function` or `module:function`.

    Your own function returns a `Problem`; a `Problem` defined in the file works too. If no name
    follows the file, it is `problem`. The file's code is run.

    Args:
        name: The name.
        sample: Use the real rows that come with memgrad, a few hundred of each data set, instead of the whole set.
        device: The device of data and parameters.
        dtype: The precision of data and parameters.
        options: Options of the function that makes the problem, by name.

    Example:
        >>> get("fashion-mlp", sample=True)
        <Problem fashion-mlp: inputs 600 x 784, cpu>
        >>> get("covtype")
        Traceback (most recent call last):
        ...
        ValueError: unknown problem 'covtype'; did you mean 'covtype-softmax'? Known problems: covtype-softmax, \
mnist-autoencoder, fashion-mlp, cifar10-cnn, least-squares, logistic, char-transformer; your own: file.py:function or \
module:function.
    """
    require("memgrad.problems.get", extra="torch", modules=("torch",))
    if name in NAMES:
        from memgrad.problems import workloads

        problem = _call(getattr(workloads, name.replace("-", "_")), name, sample, options or {})
    elif user_code.names_code(name):
        problem = _users(name, sample, options or {})
    else:
        raise ValueError(
            f"unknown problem {name!r}{did_you_mean(name, NAMES)} Known problems: {', '.join(NAMES)}; your own: "
            f"file.py:function or module:function."
        )
    return problem if device is None and dtype is None else problem.to(device=device, dtype=dtype)


def _users(name: str, sample: bool, options: Mapping[str, Any]) -> Problem:
    reference = user_code.Reference.parse(name)
    reference = reference if reference.attribute else replace(reference, attribute=DEFAULT)
    reference.check("a problem")
    what = f"problem {name!r}"
    with user_code.importable(reference.folder):
        maker = user_code.load(
            what, reference, wants="a function that returns a Problem", offers=_functions, fresh=True
        )
        with user_code.blaming(what):
            return _call(maker, name, sample, options)


def _call(maker: Any, name: str, sample: bool, options: Mapping[str, Any]) -> Problem:
    """The problem that `maker` makes or is. An option it does not have is refused, never dropped."""
    from memgrad.problems.problem import Problem

    known = list(inspect.signature(maker).parameters) if callable(maker) else []
    if sample and "sample" not in known:
        raise ValueError(f"problem {name!r} has no sample: it takes no argument of that name.")
    known = [each for each in known if each != "sample"]
    if unknown := [each for each in options if each not in known]:
        raise ValueError(
            f"problem {name!r} has no option {unknown[0]!r}{did_you_mean(unknown[0], known)} It has "
            f"{', '.join(known) or 'none'}."
        )
    problem = maker if isinstance(maker, Problem) else maker(**options, **({"sample": True} if sample else {}))
    if not isinstance(problem, Problem):
        kind = f"an object of the type {type(problem).__name__}"
        raise TypeError(f"problem {name!r} must be a Problem or a function that returns one, got {kind}.")
    return problem


def _functions(module: ModuleType) -> list[str]:
    """The names of the functions that a module defines itself."""
    return [n for n, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__]
