"""Problems by name, the library's and the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from memgrad.extras import require

if TYPE_CHECKING:
    import torch

    from memgrad.problems.problem import Problem

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "covtype-softmax": "covtype_softmax",
        "mnist-autoencoder": "mnist_autoencoder",
        "fashion-mlp": "fashion_mlp",
        "cifar10-cnn": "cifar10_cnn",
        "least-squares": "least_squares",
        "logistic": "logistic",
    }
)
"""The problems of the library: the function of `memgrad.problems.workloads` that makes each."""

DEFAULT = "problem"
"""What is taken from a file that is given without a name."""


def names() -> tuple[str, ...]:
    """The names of the library's problems.

    Example:
        >>> names()
        ('covtype-softmax', 'mnist-autoencoder', 'fashion-mlp', 'cifar10-cnn', 'least-squares', 'logistic')
    """
    return tuple(NAMES)


def get(
    name: str, *, sample: bool = False, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Problem:
    """The problem with this name: one of `names()`, or your own as `path/to/file.py:function` or `module:function`.

    A function of your own is called without arguments and returns a `Problem`; a `Problem` made in the file will do
    too. A file without a name after it is asked for `problem`. Its code is run.

    Args:
        name: The name.
        sample: Use the real rows that come with memgrad, a few hundred of each data set, instead of the whole set.
        device: Where the data shall be, and the parameters be made.
        dtype: The precision of data and parameters.

    Example:
        >>> get("fashion-mlp", sample=True)
        <Problem fashion-mlp: inputs 600 x 784, cpu>
        >>> get("covtype")
        Traceback (most recent call last):
        ...
        ValueError: unknown problem 'covtype'; did you mean 'covtype-softmax'? Known problems: covtype-softmax, \
mnist-autoencoder, fashion-mlp, cifar10-cnn, least-squares, logistic; your own: file.py:function or module:function.
    """
    require("memgrad.problems.get", extra="torch", modules=("torch",))
    if name in NAMES:
        from memgrad.problems import workloads

        problem = _call(getattr(workloads, NAMES[name]), name, sample)
    elif ":" in name or name.endswith(".py"):
        problem = _users(name, sample)
    else:
        import difflib  # only an error needs it

        near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"unknown problem {name!r}; {hint}Known problems: {', '.join(NAMES)}; your own: file.py:function or "
            f"module:function."
        )
    return problem if device is None and dtype is None else problem.to(device=device, dtype=dtype)


def _users(name: str, sample: bool) -> Problem:
    place, colon, attribute = name.rpartition(":")
    if not colon or attribute.endswith(".py"):  # no name is given, or the colon is that of a Windows drive
        place, attribute = name, DEFAULT
    path = Path(place)
    is_file = place.endswith(".py")
    if is_file and not path.is_file():
        raise FileNotFoundError(2, "No such file, asked for a problem", str(path))
    with _importable(path.resolve().parent if is_file else Path.cwd()):
        with _blaming(name):
            module = _load_file(path.resolve()) if is_file else importlib.import_module(place)
        if not hasattr(module, attribute):
            raise ValueError(
                f"problem {name!r}: {place} has no {attribute!r}, but {', '.join(_defined(module)) or 'no function'}; "
                f"write {place}:NAME, with the name of a function that returns a Problem."
            )
        with _blaming(name):
            return _call(getattr(module, attribute), name, sample)


def _call(maker: Any, name: str, sample: bool) -> Problem:
    """The problem that `maker` makes or is. An option it does not have is refused, never dropped."""
    from memgrad.problems.problem import Problem

    takes_sample = callable(maker) and "sample" in inspect.signature(maker).parameters
    if sample and not takes_sample:
        raise ValueError(f"problem {name!r} has no sample: it takes no argument of that name.")
    problem = maker if isinstance(maker, Problem) else maker(**({"sample": True} if sample else {}))
    if not isinstance(problem, Problem):
        raise TypeError(f"problem {name!r} must be a Problem or a function that returns one, got {problem!r}.")
    return problem


def _load_file(path: Path) -> ModuleType:
    """The module in a file, run once; workers and classes find it again under its name."""
    name = f"memgrad_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # it ends with .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def _blaming(name: str) -> Iterator[None]:
    """Answer an error in the user's code by its message and its place there."""
    try:
        yield
    except Exception as error:
        ours = str(Path(__file__).parents[1])
        frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((ours, "<"))]
        place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        raise ValueError(f"problem {name!r} could not be made: {type(error).__name__}: {error}{place}") from error


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let the user's file import its neighbours, as it could if it were run as a script."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _defined(module: ModuleType) -> list[str]:
    """The names of the functions that a module defines itself."""
    return [n for n, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__]
