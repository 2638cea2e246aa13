"""Mixtures: measured weights as a sum of the newest gradient and up to two averages, each with a gain.

This is variable projection, in two stages. First, the memories' parameters are fitted while the gains, which enter
linearly, are free at every step; this succeeds only if the weights are a mixture. Then each gain must follow a law,
such as $c (1+k)^a$, and the parameters of memories and laws are fitted together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from memgrad.kinds import Array
from memgrad.memory import COLD, SUM, Exponential, Gain, Instantaneous, Mixture
from memgrad.memory.mixture import Part
from memgrad.optim.auditing.fitting import EXACT, RESOLUTION, Family, digits, has_both_signs
from memgrad.optim.auditing.free_gains import Measured, memories_of
from memgrad.optim.auditing.least_squares import derivatives, levenberg, nonnegative

T = TypeVar("T")

INST = Instantaneous()
ROWS = 24  # steps used by the search
CHECKED = 100  # steps at which the result is checked
COARSEST = 1e-4  # with larger relative rounding errors, a mixture has too many degrees of freedom
KNOWN = 0.1  # a parameter with a larger relative error is not determined
ROUGHLY = 1.2  # a law whose ratio to the free gains varies by a larger factor is not tried
SURPLUS = 4  # required number of weights per free parameter


@dataclass(frozen=True)
class Law:
    """How a gain depends on the step, up to a constant factor.

    Args:
        name: Its name.
        values: Its values at the steps k, from the weights 1 - b_k of the newest gradient and its parameter, if any.
        gain: The gain with a given parameter.
        start: The initial parameter of a search, from gains at the steps k; `None` if it has no parameter.
    """

    name: str
    values: Callable[..., Array]
    gain: Callable[..., Gain]
    start: Callable[[Array, Array], float] | None = None

    def take(self, parameters: Iterator[T]) -> list[T]:
        """The next of the parameters, if the law has one."""
        return [next(parameters)] if self.start else []


def _slope(k: Array, gains: Array) -> float:
    late = (k >= k[-1] / 8) & (gains > 0)
    return float(np.polyfit(np.log1p(k[late]), np.log(gains[late]), 1)[0]) if late.sum() >= 2 else 0.0


def _end_of_ramp(k: Array, gains: Array) -> float:
    share = gains / gains[-1] if gains[-1] > 0 else np.ones_like(gains)
    rising = (share > 0) & (share < 0.95) & (k > 1)
    return math.log(float(np.median((1 + k[rising]) / share[rising]))) if rising.any() else math.log(2.0)


LAWS = (
    Law("constant", lambda k, _fresh: np.ones_like(k), lambda: Gain.constant(1.0)),
    Law("sum", lambda _k, fresh: 1 / fresh, lambda: SUM),
    Law("power", lambda k, _fresh, a: (1 + k) ** a, Gain.power, _slope),
    Law("ramp", lambda k, _fresh, log_steps: np.minimum((1 + k) / np.exp(log_steps), 1.0), Gain.ramp, _end_of_ramp),
)
CONSTANT, SUMMED, POWER, RAMP = LAWS


@dataclass(frozen=True)
class Known:
    """A parameter of a mixture, with lower and upper bounds."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MixtureFit:
    """A mixture that explains measured weights.

    Args:
        mixture: The mixture.
        distance: The share of the weight that lies elsewhere, including the gains, averaged over the steps.
        parameters: What was fitted, with bounds that reflect rounding: for each part, the parameter of its memory, the
            factor of its gain and the parameter of the gain's law.
        others: Mixtures with as many parameters that are equally near.
        shown: The mixture with at most four digits per number.
    """

    mixture: Mixture
    distance: float
    parameters: tuple[Known, ...]
    shown: Mixture
    others: tuple[Mixture, ...] = ()

    def __str__(self) -> str:
        return str(self.shown)


class _Kind(NamedTuple):
    """One part of a model: an average of a family, or the newest gradient (`None`), with a law for its gain."""

    family: Family | None
    law: Law


_Model = tuple[_Kind, ...]
"""Its parameters are, for each part in turn, that of its memory and that of its law, if it has them."""


def _count(model: _Model) -> int:
    """The number of parameters, including the factor of each part."""
    return sum(1 + (kind.family is not None) + (kind.law.start is not None) for kind in model)


MOST = 2
"""The largest number of averages in a mixture that is looked for; `free_gains` explains weights by one or by two."""


def mixture_of(weights: Array, rounding: float = 0.0, most: int = MOST) -> MixtureFit | None:
    """The mixture with the fewest averages and parameters that explains weights; `None` if none does with certainty.

    Args:
        weights: Row k holds the weights of the gradients 0 to k, then zeros.
        rounding: Relative error of the weights.
        most: The largest number of averages, 0 to 2.

    Example:
        >>> weights = np.tril(2.0 ** -np.subtract.outer(np.arange(9), np.arange(9)))
        >>> print(mixture_of(weights), mixture_of(weights + 3 * np.eye(9)))
        sum*exp:0.5 3*inst + sum*exp:0.5
    """
    if rounding > COARSEST or len(weights) < 4 or not np.isfinite(weights).all():
        return None
    if (weights.sum(axis=1) <= 0).any() or has_both_signs(weights, rounding):
        return None
    measured = Measured.of(weights, ROWS)
    check = Measured.of(weights, CHECKED)
    tolerance = max(EXACT, 4 * rounding)
    for averages in range(most + 1):
        candidates = _candidates(measured, averages, tolerance)
        for count, models in itertools.groupby(candidates, key=lambda each: _count(each[0])):
            if SURPLUS * count > weights.size / 2:
                break
            fits = [_fit(measured, check, *each, max(RESOLUTION, 4 * rounding)) for each in models]
            near = [fit for fit in fits if fit is not None and fit.distance <= tolerance]
            if near:
                others = [fit.shown for fit in near[1:] if str(fit) != str(near[0])]
                return replace(near[0], others=tuple(dict.fromkeys(others)))
    return None


def _candidates(measured: Measured, averages: int, tolerance: float) -> Iterator[tuple[_Model, Array]]:
    """Models with starting points, by their number of parameters, for the memories that fit with free gains."""
    if averages == 0:
        if (measured.older(measured.shares) > tolerance).any():
            return
        for law in (CONSTANT, POWER, RAMP):
            yield (_Kind(None, law),), np.array([law.start(measured.rows, measured.total)] if law.start else [])
        return
    candidates = []
    for families, z, gains in memories_of(measured, averages, tolerance):
        choices = []
        for family, x, gain in zip(families, z, gains, strict=True):
            laws = _plausible(measured.rows, gain, family.make(x).fresh(measured.rows))
            choices.append([(_Kind(family, law), [x, *start]) for law, start in laws])
        for newest, chosen in itertools.product(((), (_Kind(None, CONSTANT),)), itertools.product(*choices)):
            model = (*(kind for kind, _ in chosen), *newest)
            candidates.append((model, np.concatenate([start for _, start in chosen])))
    yield from sorted(candidates, key=lambda each: _count(each[0]))


def _plausible(k: Array, gains: Array, fresh: Array) -> Iterator[tuple[Law, list[float]]]:
    """The laws that gains roughly follow at the later steps, where they are accurate, each with a starting point."""
    late = k >= k[-1] / 4
    for law in LAWS:
        start = [law.start(k, gains)] if law.start else []
        ratio = (gains / law.values(k, fresh, *start))[late]
        if 0 < ratio.max() <= ROUGHLY * ratio.min():
            yield law, start


def _columns(measured: Measured, model: _Model, x: Array) -> Array:
    """The shares of each part for the factor 1, one column per part."""
    left = iter(x)
    columns = []
    for family, law in model:
        memory = family.make(next(left)) if family else INST
        gain = law.values(measured.rows, memory.fresh(measured.rows), *law.take(left))
        columns.append((gain / measured.total)[:, None] * measured.unit(memory))
    return np.stack([column.ravel() for column in columns], axis=1)


def _fit(measured: Measured, check: Measured, model: _Model, start: Array, tolerance: float) -> MixtureFit | None:
    """The nearest mixture of a model; `None` if a part vanishes or a parameter is not determined."""
    shares = measured.shares.ravel()

    def residual(x: Array) -> Array:
        columns = _columns(measured, model, x)
        return np.asarray(columns @ nonnegative(columns, shares) - shares)

    low, high = _ranges(model, len(measured.steps))
    x = levenberg(residual, start, low, high)
    columns = _columns(measured, model, x)
    scales = nonnegative(columns, shares)
    if not (scales > 0).all():
        return None
    errors = _errors(measured, model, x, scales, tolerance)
    if errors is None:
        return None
    parameters = _parameters(model, x, scales, errors)
    if any(known.high - known.low > 2 * KNOWN * _size(known) for known in parameters):
        return None
    if any(known.name == "ramp" and known.value > measured.rows[-1] for known in parameters):
        return None  # the end of the ramp was not observed
    mixture = _written(model, parameters, exact=True)
    theirs = np.stack([np.pad(mixture.weights(int(k)), (0, len(check.steps) - int(k) - 1)) for k in check.rows])
    off = np.abs(check.shares - theirs / check.total[:, None]).sum(axis=1) / 2
    return MixtureFit(mixture, float(off.mean()), parameters, _written(model, parameters, exact=False))


def _ranges(model: _Model, steps: int) -> Array:
    """The lower and the upper bounds of the parameters."""
    ranges = []
    for family, law in model:
        if family:
            ranges.append(family.inner_bounds)
        if law.start:
            ranges.append((-8.0, 8.0) if law is POWER else (0.0, math.log(4 * steps)))
    return np.array(ranges).reshape(-1, 2).T


def _size(known: Known) -> float:
    """What the error of a parameter is compared with; for a decay near 1, its distance to 1."""
    if known.name == "exp":
        return min(known.value, 1 - known.value)
    return 1.0 if known.name == "power" else abs(known.value)


def _errors(measured: Measured, model: _Model, x: Array, scales: Array, tolerance: float) -> Array | None:
    """The error of each parameter, by linearization: its change under noise of the size of the tolerance."""
    columns = _columns(measured, model, x)
    slopes = derivatives(lambda x: _columns(measured, model, x) @ scales, x, 1e-5)
    jacobian = np.column_stack([*slopes, columns * scales])  # with respect to the logarithms of the scales
    size = np.linalg.norm(jacobian, axis=0)
    if not np.isfinite(size).all() or (size == 0).any():
        return None
    if np.linalg.cond(jacobian / size) > 1e12:
        return None
    inverse = np.linalg.pinv(jacobian / size) / size[:, None]
    noise = np.linalg.norm(columns @ scales - measured.shares.ravel()) + tolerance * math.sqrt(len(measured.rows))
    return np.asarray(2 * noise * np.linalg.norm(inverse, axis=1))


def _parameters(model: _Model, x: Array, scales: Array, errors: Array) -> tuple[Known, ...]:
    """Parameters as in text forms: for each part that of its memory, its factor, and that of its law."""
    known = []
    left = zip(x, errors, strict=False)  # the errors of the scales come last
    for (family, law), scale, error in zip(model, scales, errors[len(x) :], strict=True):
        if family:
            known.append(_known(family.name, family.shown, *next(left)))
        known.append(_known("factor", math.exp, math.log(scale), error))
        known += [_known(law.name, math.exp if law is RAMP else float, *each) for each in law.take(left)]
    return tuple(known)


def _known(name: str, shown: Callable[[float], float], value: float, error: float) -> Known:
    error = min(error, 30.0)
    low, high = sorted((shown(value - error), shown(value + error)))
    return Known(name, shown(value), low, high)


def _written(model: _Model, parameters: Sequence[Known], *, exact: bool) -> Mixture:
    """The mixture with these parameters: the shortest numbers within the bounds, or with at most four digits."""

    def number(known: Known) -> float:
        return float(digits(known.value, known.low, known.high, most=17 if exact else None))

    left = iter(parameters)
    parts, summed = [], []
    for family, law in model:
        memory, factor = family.named(number(next(left))) if family else INST, next(left)
        if law is SUMMED and isinstance(memory, Exponential):
            summed.append((memory, factor))
        else:
            parts.append(Part(number(factor) * law.gain(*map(number, law.take(left))), memory))
    parts += _summed(summed, number)
    return Mixture(tuple(sorted(parts, key=lambda part: -float(part.memory.fresh(100)))))  # the shortest memory first


def _summed(parts: Sequence[tuple[Exponential, Known]], number: Callable[[Known], float]) -> list[Part]:
    """Parts as sums or, equivalently, as averages that start from 0: whichever have factors nearer to 1."""
    summed = [factor for _, factor in parts]
    cold = [_divided(factor, 1 - memory.beta) for memory, factor in parts]
    choices = ((SUM, summed), (COLD, cold))
    law, factors = min(choices, key=lambda choice: sum(abs(math.log(factor.value)) for factor in choice[1]))
    return [Part(number(factor) * law, memory) for (memory, _), factor in zip(parts, factors, strict=True)]


def _divided(known: Known, by: float) -> Known:
    return replace(known, value=known.value / by, low=known.low / by, high=known.high / by)
