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

import numpy as np

from memgrad.memory import COLD, SUM, Exponential, Gain, Instantaneous, Mixture
from memgrad.memory.mixture import Part
from memgrad.optim.fitting import EXACT, RESOLUTION, Array, Family, digits, has_both_signs
from memgrad.optim.free_gains import RANGES, Measured, memories_of
from memgrad.optim.least_squares import levenberg, nonnegative

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
        values: Its values at the steps k, for a parameter and the weight 1 - b_k of the newest gradient.
        gain: The gain with a given parameter.
        start: The initial parameter of a search, from gains at the steps k; `None` if it has no parameter.
    """

    name: str
    values: Callable[[Array, float, Array], Array]
    gain: Callable[[float], Gain]
    start: Callable[[Array, Array], float] | None = None


def _slope(k: Array, gains: Array) -> float:
    late = (k >= k[-1] / 8) & (gains > 0)
    return float(np.polyfit(np.log1p(k[late]), np.log(gains[late]), 1)[0]) if late.sum() >= 2 else 0.0


def _end_of_ramp(k: Array, gains: Array) -> float:
    share = gains / gains[-1] if gains[-1] > 0 else np.ones_like(gains)
    rising = (share > 0) & (share < 0.95) & (k > 1)
    return math.log(float(np.median((1 + k[rising]) / share[rising]))) if rising.any() else math.log(2.0)


LAWS = (
    Law("constant", lambda k, _a, _fresh: np.ones_like(k), lambda _: Gain.constant(1.0)),
    Law("sum", lambda _k, _a, fresh: 1 / fresh, lambda _: SUM),
    Law("power", lambda k, a, _fresh: (1 + k) ** a, Gain.power, _slope),
    Law("ramp", lambda k, log_steps, _fresh: np.minimum((1 + k) / np.exp(log_steps), 1.0), Gain.ramp, _end_of_ramp),
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


@dataclass(frozen=True)
class _Model:
    """Averages of given families with laws for their gains, with or without the newest gradient."""

    families: tuple[Family, ...]
    laws: tuple[Law, ...]
    newest: Law | None

    @property
    def parameters(self) -> int:
        laws = [law for law in (self.newest, *self.laws) if law is not None]
        return len(self.families) + len(laws) + sum(law.start is not None for law in laws)


def mixture_of(weights: Array, rounding: float = 0.0, most: int = 2) -> MixtureFit | None:
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
        fits: list[tuple[int, MixtureFit]] = []
        for model, start in _candidates(measured, averages, tolerance):
            if SURPLUS * model.parameters > weights.size / 2 or any(model.parameters > known for known, _ in fits):
                continue
            fit = _fit(measured, check, model, start, max(RESOLUTION, 4 * rounding))
            if fit is not None and fit.distance <= tolerance:
                fits.append((model.parameters, fit))
        if fits:
            fits.sort(key=lambda each: each[0])  # a stable sort: ties stay in the order of the candidates
            same = [fit for known, fit in fits if known == fits[0][0]]
            others = [fit.shown for fit in same[1:] if str(fit) != str(same[0])]
            return replace(same[0], others=tuple(dict.fromkeys(others)))
    return None


def _candidates(measured: Measured, averages: int, tolerance: float) -> Iterator[tuple[_Model, Array]]:
    """Models with starting points, the simplest first, for the memories that fit with free gains."""
    if averages == 0:
        if (measured.shares[measured.is_older] > tolerance).any():
            return
        for law in (CONSTANT, POWER, RAMP):
            yield _Model((), (), law), np.array([law.start(measured.rows, measured.total)] if law.start else [])
        return
    candidates = []
    for families, z, gains in memories_of(measured, averages, tolerance):
        fresh = [family.make(math.exp(x)).fresh(measured.rows) for family, x in zip(families, z, strict=True)]
        laws = [list(_plausible(measured.rows, *each)) for each in zip(gains, fresh, strict=True)]
        for newest, chosen in itertools.product((None, CONSTANT), itertools.product(*laws)):
            model = _Model(families, tuple(law for law, _ in chosen), newest)
            candidates.append((model, np.array([*z, *(x for law, x in chosen if law.start)])))
    yield from sorted(candidates, key=lambda each: each[0].parameters)


def _plausible(k: Array, gains: Array, fresh: Array) -> Iterator[tuple[Law, float]]:
    """The laws that gains roughly follow at the later steps, where they are accurate, each with a starting point."""
    late = k >= k[-1] / 4
    for law in LAWS:
        x = law.start(k, gains) if law.start else 0.0
        ratio = (gains / law.values(k, x, fresh))[late]
        if 0 < ratio.max() <= ROUGHLY * ratio.min():
            yield law, x


def _columns(measured: Measured, model: _Model, x: Array) -> Array:
    """The shares of each part for the factor 1, one column per part; `inst` is the last, if present."""
    count = len(model.families)
    extra = iter(x[count:])
    columns = []
    for family, law, z in zip(model.families, model.laws, x, strict=False):
        memory = family.make(math.exp(z))
        gain = law.values(measured.rows, next(extra) if law.start else 0.0, memory.fresh(measured.rows))
        columns.append((gain / measured.total)[:, None] * measured.unit(memory))
    if model.newest is not None:
        one = np.ones_like(measured.rows)
        gain = model.newest.values(measured.rows, next(extra) if model.newest.start else 0.0, one)
        columns.append((gain / measured.total)[:, None] * (measured.steps[None, :] == measured.rows[:, None]))
    return np.stack([column.ravel() for column in columns], axis=1)


def _fit(measured: Measured, check: Measured, model: _Model, start: Array, tolerance: float) -> MixtureFit | None:
    """The nearest mixture of a model; `None` if a part vanishes or a parameter is not determined."""
    shares = measured.shares.ravel()

    def residual(x: Array) -> Array:
        columns = _columns(measured, model, x)
        rest: Array = columns @ nonnegative(columns, shares) - shares
        return rest

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


def _ranges(model: _Model, steps: int) -> tuple[Array, Array]:
    laws = [law for law in (*model.laws, model.newest) if law is not None and law.start]
    ranges = [RANGES[family.name] for family in model.families]
    ranges += [(-8.0, 8.0) if law is POWER else (0.0, math.log(4 * steps)) for law in laws]
    return np.array([low for low, _ in ranges]), np.array([high for _, high in ranges])


def _size(known: Known) -> float:
    """What the error of a parameter is compared with; for a decay near 1, its distance to 1."""
    if known.name == "exp":
        return min(known.value, 1 - known.value)
    return 1.0 if known.name == "power" else abs(known.value)


def _errors(measured: Measured, model: _Model, x: Array, scales: Array, tolerance: float) -> Array | None:
    """The error of each parameter, by linearization: its change under noise of the size of the tolerance."""
    columns = _columns(measured, model, x)
    derivatives = []
    for i in range(len(x)):
        h = 1e-5 * max(1.0, abs(x[i]))
        up, down = x.copy(), x.copy()
        up[i] += h
        down[i] -= h
        derivatives.append((_columns(measured, model, up) - _columns(measured, model, down)) @ scales / (2 * h))
    jacobian = np.column_stack([*derivatives, columns * scales])  # with respect to the logarithms of the scales
    size = np.linalg.norm(jacobian, axis=0)
    if not np.isfinite(size).all() or (size == 0).any():
        return None
    if np.linalg.cond(jacobian / size) > 1e12:
        return None
    inverse = np.linalg.pinv(jacobian / size) / size[:, None]
    noise = np.linalg.norm(columns @ scales - measured.shares.ravel()) + tolerance * math.sqrt(len(measured.rows))
    errors: Array = 2 * noise * np.linalg.norm(inverse, axis=1)
    return errors


def _parameters(model: _Model, x: Array, scales: Array, errors: Array) -> tuple[Known, ...]:
    """Parameters as in text forms: for each part that of its memory, its factor, and that of its law."""
    count, known = len(model.families), []
    extra = iter(range(count, len(x)))
    for i, law in enumerate([*model.laws, *([model.newest] if model.newest else [])]):
        if i < count:
            known.append(_known(model.families[i].name, _shown_by(model.families[i]), x[i], errors[i]))
        known.append(_known("factor", math.exp, math.log(scales[i]), errors[len(x) + i]))
        if law.start is not None:
            j = next(extra)
            known.append(_known(law.name, math.exp if law is RAMP else float, x[j], errors[j]))
    return tuple(known)


def _shown_by(family: Family) -> Callable[[float], float]:
    return lambda z: family.shown(math.exp(z))


def _known(name: str, shown: Callable[[float], float], value: float, error: float) -> Known:
    error = min(error, 30.0)
    low, high = sorted((shown(value - error), shown(value + error)))
    return Known(name, shown(value), low, high)


def _written(model: _Model, parameters: Sequence[Known], *, exact: bool) -> Mixture:
    """The mixture with these parameters: the shortest numbers within the bounds, or with at most four digits."""

    def number(known: Known) -> float:
        return _shortest(known) if exact else float(digits(known.value, known.low, known.high))

    left = iter(parameters)
    parts, summed = [], []
    for family, law in zip(model.families, model.laws, strict=True):
        memory, factor = family.named(number(next(left))), next(left)
        if law is SUMMED and isinstance(memory, Exponential):
            summed.append((memory, factor))
        else:
            parts.append(Part(number(factor) * _law_of(law, left, number), memory))
    parts += _summed(summed, number)
    if model.newest is not None:
        factor = next(left)
        parts.append(Part(number(factor) * _law_of(model.newest, left, number), INST))
    return Mixture(tuple(sorted(parts, key=lambda part: -float(part.memory.fresh(100)))))  # the shortest memory first


def _law_of(law: Law, left: Iterator[Known], number: Callable[[Known], float]) -> Gain:
    return law.gain(number(next(left)) if law.start else 0.0)


def _summed(parts: Sequence[tuple[Exponential, Known]], number: Callable[[Known], float]) -> list[Part]:
    """Parts as sums or, equivalently, as averages that start from 0: whichever have factors nearer to 1."""
    cold = [_divided(factor, 1 - memory.beta) for memory, factor in parts]
    factors = [factor for _, factor in parts]
    is_cold = _far_from_1(cold) < _far_from_1(factors)
    law = COLD if is_cold else SUM
    chosen = cold if is_cold else factors
    return [Part(number(factor) * law, memory) for (memory, _), factor in zip(parts, chosen, strict=True)]


def _divided(known: Known, by: float) -> Known:
    return replace(known, value=known.value / by, low=known.low / by, high=known.high / by)


def _far_from_1(factors: Sequence[Known]) -> float:
    return sum(abs(math.log(factor.value)) for factor in factors)


def _shortest(known: Known) -> float:
    """The shortest decimal between the bounds, as a person would write it, or the number itself."""
    short = (float(f"{known.value:.{n}g}") for n in range(1, 17))
    return next((each for each in short if known.low <= each <= known.high), known.value)
