"""A problem sent to other machines: its data as arrays that each machine holds once, the rest by value."""

from __future__ import annotations

import importlib
import logging
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import memgrad
from memgrad.experiments.planning.own_code import OPTIMIZER
from memgrad.experiments.planning.problem_choice import ProblemChoice, refuse_other
from memgrad.experiments.planning.recipe import Recipe, optimizer_class
from memgrad.problems import Problem
from memgrad.user_code import Reference

Bytes = NDArray[np.uint8]

ALIGNMENT = 64
"""The alignment of torch's own memory, in bytes; at others, products may be rounded in a different order."""

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class Layout:
    """A tensor without its numbers.

    Attributes:
        array: The index of the array that has them.
        dtype: Its precision.
        shape: Its shape in memory.
        axes: For each of its axes, the axis in memory.
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
        problem_choice: The problem and its share of the data.
        version: The version of memgrad that packed it.
        device: Where its data were.
        tensors: The layouts of its training inputs and targets, and of its test inputs and targets if it has them.
        code: Everything else of the problem, pickled; None if it cannot be pickled.
    """

    problem_choice: ProblemChoice
    version: str
    device: str
    tensors: tuple[Layout, ...] = ()
    code: bytes | None = None


def pack(problem_choice: ProblemChoice, parts: Iterable[tuple[str, str]] = ()) -> tuple[Parcel, list[Bytes]]:
    """Load a problem and split it into what is sent to every worker and the arrays that each machine needs once.

    The user's own code, in files that are not installed, is sent by value: the machines need not have it. If it cannot
    be sent, there are no arrays and each worker builds the problem by its name.

    Args:
        problem_choice: The problem.
        parts: The digests that the parts of a user's own problem must have.
    """
    problem = problem_choice.load()
    refuse_other(problem, parts)
    rest = {f.name: getattr(problem, f.name) for f in fields(problem) if f.name not in ("train", "test")}
    try:
        with _by_value(Reference.parse(problem_choice.name).folder):
            code = _cloudpickle().dumps(rest)
    except Exception as error:  # whatever a user's object raises on being pickled
        logger.warning(
            "Problem %r cannot be sent to other processes (%s: %s). Each worker builds it by its name instead: its "
            "file and its data must be on every machine, at the same path.",
            problem_choice.name,
            type(error).__name__,
            error,
        )
        return Parcel(_with_full_path(problem_choice), memgrad.__version__, str(problem.device)), []
    arrays: list[Bytes] = []
    places: dict[int, Layout] = {}  # of tensors seen so far: an autoencoder's targets are its inputs
    for tensor in (tensors := (*problem.train, *(problem.test or ()))):
        if id(tensor) not in places:
            array, places[id(tensor)] = _flat(tensor, len(arrays))
            arrays.append(array)
    layouts = tuple(places[id(tensor)] for tensor in tensors)
    return Parcel(problem_choice, memgrad.__version__, str(problem.device), layouts, code), arrays


def unpack(parcel: Parcel, arrays: Sequence[Bytes], device: str | None = None) -> Problem:
    """The problem of a parcel, which shares the arrays' memory: they are not copied, and never written to."""
    if parcel.version != memgrad.__version__:
        raise ValueError(
            f"memgrad is {memgrad.__version__} here and {parcel.version} where the experiment was started; numbers "
            f"may differ. Install the same version on every machine."
        )
    if parcel.code is None:
        return parcel.problem_choice.load(device)
    try:
        rest = _cloudpickle().loads(parcel.code)
    except ImportError as error:
        raise ValueError(
            f"problem {parcel.problem_choice.name!r} needs {error.name}, which is not installed here; install it on "
            f"every machine."
        ) from error
    tensors = [_tensor(arrays[layout.array], layout) for layout in parcel.tensors]
    test = (tensors[2], tensors[3]) if len(tensors) > 2 else None
    problem = Problem(**rest, train=(tensors[0], tensors[1]), test=test)
    wanted = device or parcel.device
    return problem if wanted == "cpu" else problem.to(device=wanted)


def pack_code(recipes: Iterable[Recipe]) -> bytes | None:
    """The user's own optimizers and memories in recipes, by value; None if there are none."""
    own: dict[tuple[str, str], Any] = {}  # by the names of the module and of the object
    folders = {Path.cwd()}
    for recipe in set(recipes):
        for code in recipe.code:
            own[code.module_name, code.reference.attribute] = code.object()
            folders.add(code.reference.folder)
        if ":" in recipe.optimizer and OPTIMIZER not in {code.option for code in recipe.code}:
            module, _, attribute = recipe.optimizer.partition(":")
            own[module, attribute] = optimizer_class(recipe.optimizer)
    if not own:
        return None
    with _by_value(*folders):
        packed: bytes = _cloudpickle().dumps(own)
    return packed


def unpack_code(packed: bytes | None) -> None:
    """Add packed objects to their modules, where these cannot be imported."""
    own: dict[tuple[str, str], Any] = {} if packed is None else _cloudpickle().loads(packed)
    for (module, attribute), code in own.items():
        try:
            importlib.import_module(module)
        except Exception:  # whatever it raises: the packed object replaces it
            sys.modules[module] = ModuleType(module)
        if not hasattr(sys.modules[module], attribute):
            setattr(sys.modules[module], attribute, code)


# --- tensors ---------------------------------------------------------------------------------------------------------


def _flat(tensor: Tensor, number: int) -> tuple[Bytes, Layout]:
    """The bytes of a tensor, in its own memory layout, so that results are rounded as on the original."""
    strides = tensor.stride()
    order = sorted(range(tensor.ndim), key=lambda axis: -strides[axis])
    inner = tensor.detach().cpu().permute(order).contiguous()
    axes = tuple(order.index(axis) for axis in range(tensor.ndim))
    # As bytes, because NumPy lacks some of torch's precisions.
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
def _by_value(*folders: Path) -> Iterator[None]:
    """Pickle by value the user's own modules, those loaded from these folders."""
    cloudpickle = _cloudpickle()
    known = cloudpickle.list_registry_pickle_by_value()
    modules = {m.__name__: m for folder in folders for m in _own_modules(folder)}
    added = [module for name, module in modules.items() if name not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _own_modules(folder: Path) -> list[ModuleType]:
    """The modules loaded from a folder, each once, except those installed there."""
    installed = [sysconfig.get_path("stdlib"), str(Path(memgrad.__file__).parent)]
    found = []
    for name, module in list(sys.modules.items()):
        if name == "__main__" or name != getattr(module, "__name__", None):  # pickled by value anyway; or an alias
            continue
        file = str(getattr(module, "__file__", None) or "")
        ours = file.startswith(f"{folder}/") and not any(file.startswith(f"{place}/") for place in installed)
        if ours and "site-packages" not in file and "dist-packages" not in file:
            found.append(module)
    return found


def _with_full_path(problem_choice: ProblemChoice) -> ProblemChoice:
    """The problem choice with the absolute path of its file: workers may be in another folder."""
    reference = Reference.parse(problem_choice.name)
    if not reference.is_file:
        return problem_choice
    whole = str(Path(reference.place).resolve())
    return replace(problem_choice, name=f"{whole}:{reference.attribute}" if reference.attribute else whole)


def _cloudpickle() -> Any:
    """Ray's copy of cloudpickle, which has no types."""
    from ray import cloudpickle

    return cloudpickle
