"""Whether a problem is the same each time it is built: digests of its parts, and building it in fresh processes."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from memgrad import user_code
from memgrad.problems.check import SEED, check_problem
from memgrad.problems.lookup import NAMES, get
from memgrad.problems.problem import Problem
from memgrad.problems.report import Finding, Report

NAME = "repetition"
"""The name of the check that builds a problem twice."""

ADVICE = (
    "runs with the same seed would start differently. Draw data from a generator with a seed of its own, such as "
    "torch.Generator().manual_seed(0) or numpy.random.default_rng(0), and let nothing depend on the order of a set."
)
"""What to do about a problem that differs between builds."""

LOSS = "initial loss"
"""The part of a problem that is a number, not a digest."""

_CHILD = "from memgrad.problems.rebuild import _tell; _tell()"


def identity(problem: Problem) -> dict[str, str]:
    """What the seed or the file must determine: digests of data and initial parameters, and the first loss.

    That is the loss of the first minibatch at the initial parameters; it is left out if it raises an error.

    Example:
        >>> list(identity(get("logistic")))
        ['training inputs', 'training targets', 'initial parameters', 'initial loss']
    """
    told: dict[str, str] = {}
    for kind, pair in (("training", problem.train), ("test", problem.test), ("validation", problem.validation)):
        if pair is not None:
            told |= {f"{kind} inputs": _digest(pair[:1]), f"{kind} targets": _digest(pair[1:])}
    model = problem.model(SEED)
    told["initial parameters"] = _digest(model.parameters())  # frozen ones too
    if buffers := list(model.buffers()):
        told["buffers"] = _digest(buffers)
    try:
        with user_code.contained():
            batch = (each[: problem.batch_size] for each in problem.train)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(SEED)  # dropout is detected by another check
                told[LOSS] = float(problem.batch_loss(problem.initial_parameters(SEED), *batch)).hex()
    except Exception:  # noqa: S110  # the checks of the loss say what is wrong with it
        pass
    return told


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The parts in which two builds of a problem differ, where losses may differ by rounding."""
    return [name for name in dict.fromkeys((*one, *other)) if not _same(name, one.get(name), other.get(name))]


def _same(name: str, one: str | None, other: str | None) -> bool:
    if name != LOSS or one is None or other is None:
        return one == other
    # Threads and processors add in different orders, which changes far less than this in float32.
    return one == other or math.isclose(float.fromhex(one), float.fromhex(other), rel_tol=1e-4)


def check_by_name(name: str, *, sample: bool = False) -> Report:
    """`check_problem` for the problem with this name, which is also built twice, each time in a fresh process.

    Problems of the library are built once: the digests of their data sets pin them.

    Args:
        name: As `memgrad.problems.get` takes it.
        sample: Whether to use the rows that come with memgrad.
    """
    # In other processes first: code that ends the process would end this one too, which would look like success.
    repeated = None if name in NAMES or not user_code.names_code(name) else _repeated(name, sample)
    report = check_problem(get(name, sample=sample))
    return report if repeated is None else replace(report, findings=(repeated, *report.findings))


def _repeated(name: str, sample: bool) -> Finding:
    user_code.Reference.parse(name).check("a problem")
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / each for each in ("first", "second")]
        # Sets of strings have a different order in each process, unless the hash seed is the same.
        processes = [_start(name, sample, place, hash_seed=i) for i, place in enumerate(places, start=1)]
        try:
            codes = [process.wait() for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for code, place in zip(codes, places, strict=True):
            if not place.exists():
                raise ValueError(
                    f"problem {name!r} ended its process ({_how(code)}) while it was made: it must return a Problem, "
                    f"and neither crash nor end Python."
                )
        first, second = (json.loads(place.read_text(encoding="utf-8")) for place in places)
    if "error" in first or "error" in second:
        message = first.get("error") or second["error"]
        return Finding(NAME, "failed", f"in a process of its own it raised {message}")
    if other := differing(first, second):
        return Finding(NAME, "failed", f"made twice, its {' and '.join(other)} differ: {ADVICE}")
    return Finding(NAME, "passed", "made twice, in two processes, it has the same data, parameters and loss")


def _start(name: str, sample: bool, place: Path, hash_seed: int) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)  # '' is the current folder
    return subprocess.Popen(  # noqa: S603  # this Python, fixed words, and a name that is an argument
        [sys.executable, "-P", "-c", _CHILD, name, str(int(sample)), str(place)],
        env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": str(hash_seed)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _tell() -> None:
    """What the other process runs: build the problem and write its digests to a file."""
    name, sample, place = sys.argv[1:]
    try:
        with user_code.contained():
            told = identity(get(name, sample=sample == "1"))
    except Exception as error:
        told = {"error": user_code.described(error)}
    Path(place).write_text(json.dumps(told), encoding="utf-8")


def _digest(tensors: Iterable[Tensor]) -> str:
    content = hashlib.sha256()
    for tensor in tensors:
        content.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        if tensor.numel():
            content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()[:32]


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"exit code {code}"
