"""The contract of problems: what `check_problem` tests, and its messages to the author of a problem."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from memgrad.problems import passes
from memgrad.problems.passes import Pair
from memgrad.problems.problem import Problem
from memgrad.problems.report import Finding, Report
from memgrad.user_code import EndedProcessError, contained

SEED = 0
ROWS = 40
"""The largest number of examples that a check uses: small enough to be fast, and not a multiple of the chunk size 7."""


class _Fault(Exception):  # noqa: N818  # what was found, not an error of ours
    """A check did not pass; the message is for the author of the problem."""


def check_problem(problem: Problem) -> Report:
    """Test whether a problem keeps the promises that experiments rely on.

    The checks are: the data are finite; the same seed gives the same parameters; the loss of a batch is one finite
    number; targets match outputs; the same batch gives the same loss; calls leave no trace in the model; double
    precision works; the loss is a mean over the batch; examples do not depend on each other, so that chunks give the
    full loss; gradients agree with finite differences; all metrics are finite; stacked runs equal single ones.

    Args:
        problem: The problem. It is not changed; at most 40 of its examples are used.

    Example:
        >>> from memgrad.problems import get
        >>> print(check_problem(get("least-squares")).passed)
        True
    """
    subject = _Subject(problem)
    findings: list[Finding] = []
    for name, (check, needs) in _CHECKS.items():
        bad = {finding.check for finding in findings if finding.status != "passed"}
        missing = ", ".join(each for each in needs if each in bad)
        findings.append(Finding(name, "skipped", f"needs {missing}") if missing else _try(name, check, subject))
    return Report(problem.name, tuple(findings))


def _try(name: str, check: Callable[[_Subject], str], subject: _Subject) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with contained():
                return Finding(name, "passed", check(subject))
    except _Fault as fault:
        return Finding(name, "failed", str(fault))
    except Exception as error:  # whatever the author's code raises is a finding
        cause = error.__cause__ if isinstance(error, EndedProcessError) and error.__cause__ is not None else error
        where = traceback.extract_tb(cause.__traceback__)[-1]
        kind = "warned" if isinstance(error, Warning) else "raised"
        one_line = " ".join(str(error).split())[:500]
        inputs, targets = map(_describe, subject.batch)
        return Finding(
            name,
            "failed",
            f"{subject.doing} {kind} {type(cause).__name__}: {one_line} ({where.filename}:{where.lineno}). "
            f"Inputs were {inputs}, targets {targets}.",
        )


@dataclass
class _Subject:
    """A problem under test, with what several checks need."""

    problem: Problem
    doing: str = "the check"

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        return self.problem.initial_parameters(SEED)

    @property
    def batch(self) -> Pair:
        return _head(self.problem.train, min(self.problem.batch_size, 64))

    @cached_property
    def precise(self) -> _Subject:
        """The same with few rows and in double precision, where comparisons can be strict."""
        return _Subject(self.few.to(dtype=torch.float64))

    @cached_property
    def few(self) -> Problem:
        test = None if self.problem.test is None else _head(self.problem.test)
        return replace(self.problem, train=_head(self.problem.train), test=test)

    def loss(self, pair: Pair | None = None) -> Tensor:
        self.doing = "the loss of a batch"
        return self.problem.batch_loss(self.parameters, *(pair or self.batch))


def _head(pair: Pair, rows: int = ROWS) -> Pair:
    return pair[0][:rows], pair[1][:rows]


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


# --- the checks ------------------------------------------------------------------------------------------------------


def _data(subject: _Subject) -> str:
    problem = subject.problem
    for name, pair in (("train", problem.train), ("test", problem.test)):
        for what, tensor, own in zip(("inputs", "targets"), pair or (), problem.train, strict=False):
            if tensor.is_floating_point() and not tensor.isfinite().all():
                count = int((~tensor.isfinite()).sum())
                raise _Fault(f"{name} {what} have {count} numbers that are nan or infinite: clean or fill them.")
            if (tensor.shape[1:], tensor.dtype) != (own.shape[1:], own.dtype):
                raise _Fault(
                    f"test {what} are {_describe(tensor)}, but those for training {_describe(own)}: prepare both alike."
                )
    if problem.batch_size > problem.examples:
        raise _Fault(
            f"batch_size is {problem.batch_size}, but there are {problem.examples} training examples: lower it."
        )
    return f"{problem.examples} examples, inputs {_describe(problem.train[0])}, targets {_describe(problem.train[1])}"


def _initialization(subject: _Subject) -> str:
    problem = subject.problem
    subject.doing = "make_model"
    first, again, other = (problem.initial_parameters(seed) for seed in (SEED, SEED, SEED + 1))
    if not first:
        raise _Fault("the model has no parameters: register its tensors as torch.nn.Parameter.")
    for name, p in first.items():
        if not p.is_floating_point() or not p.isfinite().all():
            raise _Fault(f"the initial parameter {name} is {_describe(p)} or not finite: initialize it with floats.")
        if not torch.equal(p, again[name]):
            raise _Fault(
                f"seed {SEED} gave two different initial values of {name}: make_model must draw from torch's default "
                f"generator alone, not from numpy, from another generator, or from what an earlier call left behind."
            )
    same = all(torch.equal(p, other[name]) for name, p in first.items())
    count = sum(p.numel() for p in first.values())
    return f"{count} parameters; the same for the same seed" + (" (and for every seed)" if same else "")


def _loss(subject: _Subject) -> str:
    loss = subject.loss()
    if not isinstance(loss, Tensor) or loss.shape != () or not loss.is_floating_point():
        got = _describe(loss) if isinstance(loss, Tensor) else repr(loss)
        raise _Fault(f"the loss of a batch must be a tensor with one float, got {got}: end it with .mean().")
    if not loss.isfinite():
        raise _Fault(
            f"the loss of the first batch at the initial parameters is {loss.item()}: scale inputs or weights."
        )
    return f"{loss.item():.6g} at the initial parameters"


def _targets(subject: _Subject) -> str:
    problem = subject.problem
    inputs, targets = subject.batch
    subject.doing = "the model"
    outputs = problem.outputs(subject.parameters, inputs)
    if outputs.ndim == 0 or len(outputs) != len(targets):
        raise _Fault(
            f"{len(inputs)} inputs gave outputs {_describe(outputs)}: the model must return one row for each example."
        )
    is_class = not targets.is_floating_point() and targets.ndim == 1 and outputs.ndim == 2 and outputs.shape[1] > 1
    for name, pair in (("training", problem.train), ("test", problem.test)):
        if is_class and pair is not None and not (int(pair[1].min()) >= 0 and int(pair[1].max()) < outputs.shape[1]):
            raise _Fault(
                f"{name} targets go from {int(pair[1].min())} to {int(pair[1].max())}, but the model has "
                f"{outputs.shape[1]} outputs, for classes from 0 on: relabel them, or widen the last layer."
            )
    return f"outputs {_describe(outputs)} for targets {_describe(targets)}"


def _determinism(subject: _Subject) -> str:
    one, two = subject.loss(), subject.loss()
    if not torch.equal(one, two):
        raise _Fault(
            f"the same batch and parameters gave the losses {one.item():.9g} and {two.item():.9g}: remove dropout and "
            f"other randomness from the model and the loss. Experiments draw their randomness themselves."
        )
    return "the same batch gave the same loss twice"


def _state(subject: _Subject) -> str:
    model = subject.problem._template
    before = {name: b.clone() for name, b in model.named_buffers()}
    subject.loss()
    changed = [name for name, b in model.named_buffers() if not torch.equal(b, before[name])]
    if changed:
        raise _Fault(
            f"a call of the model changed its buffer {changed[0]}: runs would disturb each other. Use a normalization "
            f"that keeps no statistics, such as GroupNorm or LayerNorm."
        )
    return "calls leave no trace in the model"


def _precision(subject: _Subject) -> str:
    loss, precise = subject.loss(), subject.precise.loss(subject.precise.batch)
    subject.doing = "the loss in double precision"
    if precise.dtype != torch.float64:
        raise _Fault(
            f"in double precision the loss is {_describe(precise)}: do not cast to a fixed dtype inside model or loss."
        )
    if not math.isclose(loss.item(), precise.item(), rel_tol=1e-2, abs_tol=1e-3):
        raise _Fault(
            f"the loss is {loss.item():.6g}, but {precise.item():.6g} in double precision: it loses digits. Use a "
            f"stable form, such as a loss of logits."
        )
    return "double precision gives the same loss"


def _mean(subject: _Subject) -> str:
    inputs, targets = subject.precise.batch
    once = subject.precise.loss().item()
    twice = subject.precise.loss((torch.cat([inputs, inputs]), torch.cat([targets, targets]))).item()
    if not math.isclose(once, twice, rel_tol=1e-9, abs_tol=1e-12):
        raise _Fault(
            f"a batch gave the loss {once:.6g}, the same batch with every example twice {twice:.6g}: a mean would not "
            f"change. Use reduction='mean', or divide by the number of examples."
        )
    return "doubling every example leaves the loss as it is"


def _chunks(subject: _Subject) -> str:
    problem = subject.precise.problem
    subject.doing = "the loss of all examples, in chunks of 7 and of 1,"
    whole = replace(problem, full_chunk=ROWS).evaluate(subject.precise.parameters, metrics=["loss"])["loss"]
    for rows in (7, 1):
        pieces = replace(problem, full_chunk=rows).evaluate(subject.precise.parameters, metrics=["loss"])["loss"]
        if not math.isclose(whole, pieces, rel_tol=1e-9, abs_tol=1e-12):
            outputs = problem.outputs(subject.precise.parameters, problem.train[0])
            raise _Fault(
                f"{problem.examples} examples at once gave the loss {whole:.6g}, in chunks of {rows} {pieces:.6g}: "
                f"examples depend on each other. Outputs are {_describe(outputs)} and targets "
                f"{_describe(problem.train[1])}; shapes that differ may be broadcast against each other, and batch "
                f"normalization mixes examples."
            )
    return "chunks of any size give the loss of the whole"


def _gradient(subject: _Subject) -> str:
    precise = subject.precise
    subject.doing = "the gradient of a batch"
    parameters, (inputs, targets) = precise.parameters, precise.batch
    g = precise.problem.gradient(parameters, inputs, targets)
    count = sum(p.numel() for p in parameters.values())
    norm = passes.squared_norm(g).sqrt().item()
    generator, h = torch.Generator().manual_seed(SEED), 1e-5
    for _ in range(5):
        v = {name: torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in parameters.items()}
        length = passes.squared_norm(v).sqrt()
        v = {name: (each / length).to(precise.problem.device) for name, each in v.items()}
        ends = [{name: p + s * h * v[name] for name, p in parameters.items()} for s in (1, -1)]
        up, down = (precise.problem.batch_loss(end, inputs, targets).item() for end in ends)
        slope, claimed = (up - down) / (2 * h), sum(float((g[name] * v[name]).sum()) for name in g)
        # Along a random direction the slope is about norm / sqrt(count); the rest is the rounding of the difference.
        allowed = 1e-3 * max(norm, abs(slope)) / math.sqrt(count) + 1e-14 * (abs(up) + abs(down)) / h
        if not abs(slope - claimed) <= allowed:
            raise _Fault(
                f"along a random direction the loss changes at the rate {slope:.6g}, but its gradient says "
                f"{claimed:.6g}: look for detach(), .data, .item(), torch.no_grad() or numpy inside model and loss, or "
                f"for a wrong hand-written backward."
            )
    return f"agrees with finite differences in 5 random directions; norm {norm:.6g}"


def _stacked(subject: _Subject) -> str:
    problem, runs = subject.precise.problem, 3
    subject.doing = "the stacked gradient"
    parameters = problem.stacked_initial_parameters(range(runs))
    rows = min(problem.batch_size, problem.examples, 16)
    batches = [(torch.arange(rows) + run) % problem.examples for run in range(runs)]
    inputs, targets = (torch.stack([t[chosen] for chosen in batches]) for t in problem.train)
    own = problem.stacked_gradient(parameters, inputs, targets)
    shared = problem.stacked_gradient(parameters, inputs[0], targets[0])
    numbers = problem.stacked_evaluate(parameters)
    for run in range(runs):
        alone = {name: p[run] for name, p in parameters.items()}
        for what, found, i in (("on its own batch", own, run), ("on a shared batch", shared, 0)):
            single = problem.gradient(alone, inputs[i], targets[i])
            for name, g in single.items():
                _compare(f"the gradient of {name} {what}", found[name][run], g)
        for name, value in problem.evaluate(alone).items():
            _compare(f"the metric {name}", numbers[name][run], torch.tensor(value, dtype=torch.float64))
    if problem.stacked is None and problem.stack_width == 1:
        return "runs are trained one after another (stack_width is 1)"
    return f"{runs} stacked runs equal {runs} single ones"


def _compare(what: str, stacked: Tensor, single: Tensor) -> None:
    scale = float(single.abs().max()) if single.numel() else 0.0
    error = float((stacked - single).abs().max()) if single.numel() else 0.0
    if stacked.shape != single.shape or not error <= 1e-9 * scale + 1e-12:
        raise _Fault(
            f"{what} differs by {error:.3g} between a stacked run and the same run alone, where it is of size "
            f"{scale:.3g}: correct `stacked`, or set stack_width=1 and leave `stacked` out."
        )


def _metrics(subject: _Subject) -> str:
    inputs, targets = subject.batch
    subject.doing = "a metric"
    outputs = subject.problem.outputs(subject.parameters, inputs).detach()
    for name, metric in subject.problem.metrics.items():
        subject.doing = f"the metric {name}"
        each = metric(outputs, targets)
        if not isinstance(each, Tensor) or each.shape != (len(inputs),) or not each.is_floating_point():
            got = _describe(each) if isinstance(each, Tensor) else repr(each)
            raise _Fault(f"the metric {name} must give one float for each of {len(inputs)} examples, got {got}.")
    subject.doing = "the evaluation"
    found = subject.few.evaluate(subject.parameters)
    wrong = [f"{name} = {value}" for name, value in found.items() if not math.isfinite(value)]
    if wrong:
        raise _Fault(f"at the initial parameters {', '.join(wrong)}: metrics must be finite there.")
    return ", ".join(f"{name} {value:.4g}" for name, value in found.items())


_CHECKS: dict[str, tuple[Callable[[_Subject], str], tuple[str, ...]]] = {
    "data": (_data, ()),
    "initialization": (_initialization, ()),
    "targets": (_targets, ("data", "initialization")),
    "loss": (_loss, ("targets",)),
    "determinism": (_determinism, ("loss",)),
    "state": (_state, ("loss",)),
    "precision": (_precision, ("loss", "determinism")),
    "mean": (_mean, ("precision", "determinism", "state")),
    "chunks": (_chunks, ("mean", "targets")),
    "gradient": (_gradient, ("precision", "determinism", "state")),
    "metrics": (_metrics, ("loss", "targets", "determinism", "state")),
    "stacked": (_stacked, ("gradient", "chunks", "metrics")),
}
"""The checks by name, in their order, and the checks that must pass before each."""
