"""A problem on its way to other machines: its data as arrays that a machine holds once, the rest by value."""

from __future__ import annotations

import logging
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import Optimizer

import memgrad
from memgrad.experiments.choice import ProblemChoice
from memgrad.experiments.recipe import optimizer_class
from memgrad.problems import Problem

Bytes = NDArray[np.uint8]

ALIGNMENT = 64
"""Where torch lets memory begin; products may be rounded in another order elsewhere."""

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class Layout:
    """A tensor without its numbers.

    Attributes:
        array: Which array has them.
        dtype: Its precision.
        shape: Its shape in memory.
        axes: Which axis in memory each of its axes is.
    """

    array: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    axes: tuple[int, ...]


@final
@dataclass(frozen=True)
class Parcel:
    """A problem without the numbers of its data.

    Attributes:
        choice: The problem's name.
        version: Of the memgrad that packed it.
        device: Where its data were.
        tensors: The layouts of its training inputs and targets, and of those for testing if it has them.
        code: Everything else of the problem, pickled; None if that cannot be done.
    """

    choice: ProblemChoice
    version: str
    device: str
    tensors: tuple[Layout, ...] = ()
    code: bytes | None = None


def pack(choice: ProblemChoice) -> tuple[Parcel, list[Bytes]]:
    """Load a problem and take it apart: what is sent to every worker, and the arrays that a machine needs once.

    Code of the user's own, in files that are not installed, is sent by value: the machines need not have it. Where
    that cannot be done there are no arrays, and each worker makes the problem by its name.
    """
    problem = choice.load()
    rest = {f.name: getattr(problem, f.name) for f in fields(problem) if f.name not in ("train", "test")}
    try:
        with _by_value(choice.name):
            code = _cloudpickle().dumps(rest)
    except Exception as error:  # whatever a user's object raises when it is pickled
        logger.warning(
            "Problem %r cannot be sent to other processes (%s: %s). Each worker makes it by its name instead: its file "
            "and its data must be on every machine, at the same place.",
            choice.name,
            type(error).__name__,
            error,
        )
        return Parcel(_at_its_place(choice), memgrad.__version__, str(problem.device)), []
    arrays: list[Bytes] = []
    places: dict[int, Layout] = {}  # of tensors that were met: an autoencoder's targets are its inputs
    for tensor in (tensors := (*problem.train, *(problem.test or ()))):
        if id(tensor) not in places:
            array, places[id(tensor)] = _flat(tensor, len(arrays))
            arrays.append(array)
    layouts = tuple(places[id(tensor)] for tensor in tensors)
    return Parcel(choice, memgrad.__version__, str(problem.device), layouts, code), arrays


def unpack(parcel: Parcel, arrays: Sequence[Bytes], device: str | None = None) -> Problem:
    """The problem of a parcel, on top of the arrays: they are not copied, and never written to."""
    if parcel.version != memgrad.__version__:
        raise ValueError(
            f"memgrad is {memgrad.__version__} here and {parcel.version} where the experiment was started; numbers "
            f"may differ. Install the same version on every machine."
        )
    if parcel.code is None:
        return parcel.choice.load(device)
    try:
        rest = _cloudpickle().loads(parcel.code)
    except ImportError as error:
        raise ValueError(
            f"problem {parcel.choice.name!r} needs {error.name}, which is not installed here; install it on every "
            f"machine."
        ) from error
    tensors = [_tensor(arrays[layout.array], layout) for layout in parcel.tensors]
    test = (tensors[2], tensors[3]) if len(tensors) > 2 else None
    problem = Problem(**rest, train=(tensors[0], tensors[1]), test=test)
    wanted = device or parcel.device
    return problem if wanted == "cpu" else problem.to(device=wanted)


def pack_optimizers(names: Sequence[str]) -> bytes | None:
    """Those of the user's own, `module:Class`, by value; None if there is none."""
    own = {name: optimizer_class(name) for name in names if ":" in name}
    if not own:
        return None
    with _by_value(*own):
        code: bytes = _cloudpickle().dumps(own)
    return code


def unpack_optimizers(code: bytes | None) -> None:
    """Make optimizers that were packed known by their names, where their modules cannot be imported."""
    own: dict[str, type[Optimizer]] = {} if code is None else _cloudpickle().loads(code)
    for name, made_by in own.items():
        place, _, attribute = name.partition(":")
        try:
            optimizer_class(name)
        except ValueError:
            sys.modules.setdefault(place, ModuleType(place))
            setattr(sys.modules[place], attribute, made_by)


# --- tensors ---------------------------------------------------------------------------------------------------------


def _flat(tensor: Tensor, number: int) -> tuple[Bytes, Layout]:
    """The bytes of a tensor, in its own order: a matrix kept by columns stays so, and so do the roundings."""
    strides = tensor.stride()
    order = sorted(range(tensor.ndim), key=lambda axis: -strides[axis])
    inner = tensor.detach().cpu().permute(order).contiguous()
    axes = tuple(order.index(axis) for axis in range(tensor.ndim))
    # Bytes: NumPy lacks some of torch's precisions.
    return inner.reshape(-1).view(torch.uint8).numpy(), Layout(number, tensor.dtype, tuple(inner.shape), axes)


def _tensor(array: Bytes, layout: Layout) -> Tensor:
    with warnings.catch_warnings():
        # Shared memory is read-only, and training does not write to data.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        flat = torch.from_numpy(array)
    if flat.data_ptr() % ALIGNMENT:
        flat = flat.clone()
    return flat.view(layout.dtype).reshape(layout.shape).permute(layout.axes)


# --- code ------------------------------------------------------------------------------------------------------------


@contextmanager
def _by_value(*names: str) -> Iterator[None]:
    """Pickle the code of the user's own modules among `file.py:function` and `module:name`, and of their neighbours."""
    cloudpickle = _cloudpickle()
    known = cloudpickle.list_registry_pickle_by_value()
    modules = [m for folder in {_folder(name) for name in names} for m in _own_modules(folder)]
    added = [module for module in modules if module.__name__ not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _folder(name: str) -> Path:
    """Where a user's code is looked for."""
    file = _file(name)
    return Path.cwd() if file is None else file.resolve().parent


def _file(name: str) -> Path | None:
    place = name if name.endswith(".py") else name.rpartition(":")[0]
    return Path(place) if place.endswith(".py") else None


def _own_modules(folder: Path) -> list[ModuleType]:
    """The modules that were loaded from a folder, each once, but for what is installed there."""
    installed = [sysconfig.get_path("stdlib"), str(Path(memgrad.__file__).parent)]
    found = []
    for name, module in list(sys.modules.items()):
        if name == "__main__" or name != getattr(module, "__name__", None):  # always by value; or an alias
            continue
        file = str(getattr(module, "__file__", None) or "")
        ours = file.startswith(f"{folder}/") and not any(file.startswith(f"{place}/") for place in installed)
        if ours and "site-packages" not in file and "dist-packages" not in file:
            found.append(module)
    return found


def _at_its_place(choice: ProblemChoice) -> ProblemChoice:
    """The choice with the whole path of its file: workers may be in another folder."""
    file = _file(choice.name)
    return choice if file is None else replace(choice, name=choice.name.replace(str(file), str(file.resolve()), 1))


def _cloudpickle() -> Any:
    """Ray's, which has no types."""
    from ray import cloudpickle

    return cloudpickle
