"""Evidence: which steps and buffers of an optimizer are weighted sums of gradients, or of their squares.

Weights are read off the response to impulses, and accepted only if they predict the response to other gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from memgrad.kinds import Array
from memgrad.optim.auditing.fitting import EXACT
from memgrad.optim.auditing.watching import Watched, Watcher

SIZES = (1.0, 100.0, 0.01)  # of the gradients, to detect clipping and other thresholds in between
ROUNDED = 0.05  # what differs from a weighted sum by more, relative to its size, is not near one
DECAY = 1e-6  # how accurately a weight decay must explain the observed steps
ZERO, ONE = 0, 1  # columns of the probes
# How far a sum that is kept in a data type may be from its definition; for other types nothing is claimed.
PRECISION = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: ROUNDED}

NOT_LINEAR = "changes with the gradients, but neither as a weighted sum of them nor of their squares: not identified"

MIXED = "changes with the gradients of other coordinates: not identified"
RANDOM = "is not a weighted sum, in runs that differ randomly: not identified"


@dataclass(frozen=True)
class Sums:
    """Weighted sums of gradients, or of their squares.

    Args:
        power: 1 or 2.
        weights: Row k holds the weights of the gradients 0 to k, then zeros.
        offset: The value at each step without gradients.
        rounding: The largest error of a prediction, relative to its size.
    """

    power: int
    weights: Array
    offset: Array
    rounding: float = 0.0

    @property
    def has_memory(self) -> bool:
        """Whether earlier gradients than the newest have a weight."""
        return bool(np.abs(np.tril(self.weights, -1)).max() > EXACT * np.abs(self.weights).max())

    def of(self, gradients: Array) -> Array:
        return np.asarray(self.offset[:, None] + self.weights @ gradients**self.power)

    def misses(self, values: Array, gradients: Array, resolution: Array | float = 0.0) -> float:
        """The largest difference between values and their prediction, relative to the sum of absolute terms.

        Errors within the resolution, or within float64's rounding at any step, do not count.
        """
        size = self._size(gradients)
        allowed = resolution + 16 * np.finfo(float).eps * size.max()  # terms may cancel that were larger before
        error = np.maximum(np.abs(values - self.of(gradients)) - allowed, 0).max(axis=1)
        return float(np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size > 0).max())

    def rounds(self, values: Array, gradients: Array) -> float:
        """The same without any allowance, where the sum is not close to 0: the size of rounding errors."""
        size = self._size(gradients)
        rows = size > DECAY * size.max()
        return float((np.abs(values - self.of(gradients)).max(axis=1)[rows] / size[rows]).max())

    def _size(self, gradients: Array) -> Array:
        return np.asarray((np.abs(self.weights) @ np.abs(gradients) ** self.power).max(axis=1))


@dataclass(frozen=True)
class Evidence:
    """What is known about an optimizer.

    Args:
        usual: The run under probes of the usual size.
        verdicts: The steps and buffers by name: weighted sums, or in words what else they are.
        constant_gain: The steps for a constant gradient.
        notes: What else one must know.
    """

    usual: Watched
    verdicts: Mapping[str, Sums | str]
    constant_gain: Array
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Runs:
    """The runs of an optimizer under impulses, and under probes of each size."""

    impulses: Watched
    probes: Mapping[float, Watched]

    @classmethod
    def of(cls, watcher: Watcher, probes: Array, *, held: bool = False) -> _Runs:
        impulses = watcher.watch(np.eye(len(probes)), held=held)
        return cls(impulses, {size: watcher.watch(size * probes, held=held) for size in SIZES})


def probes_for(steps: int) -> Array:
    """Gradients, in columns: all 0, all 1, and random ones of both signs, of many sizes, and of one sign."""
    generator = np.random.default_rng(20190722)
    random = generator.standard_normal((steps, 14))  # enough columns for every change of sign in two steps
    random[:, 6:12] *= 8 ** generator.uniform(-1, 1, (steps, 6))
    random[:, 12:] = np.abs(random[:, 12:])
    return np.concatenate([np.zeros((steps, 1)), np.ones((steps, 1)), random], axis=1)


def gather(watcher: Watcher, steps: int) -> Evidence:
    """Watch an optimizer under impulses and probes, from 0 and from another point, and judge what was observed."""
    probes, ones = probes_for(steps), np.ones((steps, 1))
    with np.errstate(all="ignore"):  # values that are not finite are detected and reported
        free = _Runs.of(watcher, probes)
        usual = free.probes[1.0]
        alone, again = watcher.watch(ones), watcher.watch(ones)
        elsewhere = watcher.watch(probes, start=_a_size_of(usual.x))
        names = ["step", *dict.fromkeys([*usual.states, *free.impulses.states])]
        chance = _differ(alone.moved, again.moved, alone.resolution)
        moves_with_x = {name for name in names if not chance and _depends_on_start(name, usual, elsewhere)}
        judge = _Judge(probes, free, elsewhere, _Runs.of(watcher, probes, held=True) if moves_with_x else None)
        verdicts = {name: judge.without_decay(name) if name in moves_with_x else judge.free(name) for name in names}
        if chance:
            verdicts = {name: RANDOM if each in (NOT_LINEAR, MIXED) else each for name, each in verdicts.items()}
        elif verdicts["step"] == NOT_LINEAR:
            earlier = "earlier gradients" if _remembers(watcher, steps) else "the newest gradient alone, where tried"
            verdicts["step"] = f"{NOT_LINEAR}; it depends on {earlier}"
        notes = _notes(watcher, usual, alone, chance=chance)
        if moves_with_x:
            notes.append(judge.decay_in_words() or "the steps depend on the parameters, but not as by weight decay")
        constant = watcher.watch(ones, held=True) if judge.decays else alone
    return Evidence(usual, {**verdicts, **_not_looked_into(free)}, constant.moved[:, 0], tuple(notes))


def _notes(watcher: Watcher, usual: Watched, alone: Watched, *, chance: bool) -> list[str]:
    """What one must know about how the optimizer was watched."""
    notes = []
    if not usual.has_lr:
        notes.append("its groups have no learning rate lr: steps are reported as they are")
    if watcher.closure:
        notes.append("it was stepped with a closure whose loss is always 1")
    if watcher.dtype != torch.float64:
        notes.append(f"it was watched in {watcher.dtype}: it refuses float64")
    if chance:
        notes.append("randomness: two runs with the same gradients differ, so weight decay cannot be detected")
    elif _differ(usual.moved[:, [ONE]], alone.moved, alone.resolution):
        notes.append("coordinates mix: a step depends on the gradients, or the number, of the other coordinates")
    return notes


def _not_looked_into(runs: _Runs) -> dict[str, str]:
    """State in other forms than buffers; numbers only if they change with the gradients, which counters do not."""
    usual, larger = runs.probes[SIZES[0]], runs.probes[SIZES[1]]
    forms = {name: f"is {form}: not inspected" for name, form in usual.elsewhere.items()}
    numbers = [name for name, number in usual.numbers.items() if larger.numbers.get(name) != number]
    return forms | dict.fromkeys(numbers, "is a single number that changes with the gradients: not inspected")


class _Judge:
    """Decides what a step or a buffer is, and records the weight decays that this required."""

    def __init__(self, probes: Array, free: _Runs, elsewhere: Watched, held: _Runs | None) -> None:
        self.probes, self.runs, self.elsewhere, self.held = probes, free, elsewhere, held
        self.decays: dict[str, float] = {}

    def free(self, name: str, runs: _Runs | None = None) -> Sums | str:
        """The weights from the impulses, if they predict the probes; otherwise the reason, in words."""
        runs = runs or self.runs
        usual = runs.probes[1.0]
        values = [watched.values(name) for watched in (runs.impulses, *runs.probes.values())]
        tables = [table for table in values if table is not None]
        if len(tables) < len(values) or not all(np.isfinite(table).all() for table in tables):
            return "is not finite, or not there, at some steps for some gradients: not identified"
        impulses, offset = tables[0], tables[1][:, ZERO]
        if all((table == offset[:, None]).all() for table in tables):
            return "is 0 whatever the gradients are" if not offset.any() else "is the same whatever the gradients are"
        weights = impulses - offset[:, None]
        if np.abs(np.triu(weights, 1)).max() > ROUNDED * np.abs(weights).max():
            return MIXED
        probed = [
            (table, size * self.probes, watched.resolution if name == "step" else 0.0)
            for table, (size, watched) in zip(tables[1:], runs.probes.items(), strict=True)
        ]
        by_power = {power: Sums(power, np.tril(weights), offset) for power in (1, 2)}
        misses = {power: [sums.misses(*each) for each in probed] for power, sums in by_power.items()}
        power = min(misses, key=lambda power: max(misses[power]))
        # A step is as imprecise as the least precise buffer that it may be computed from.
        kept = usual.kept.values() if name == "step" else [usual.kept[name]]
        if max(misses[power]) <= max(PRECISION.get(each, 0.0) for each in kept):
            sums = by_power[power]
            return replace(sums, rounding=max(sums.rounds(table, gradients) for table, gradients, _ in probed))
        return _not_linear(misses, usual.kept[name])

    def without_decay(self, name: str) -> Sums | str:
        """What is found with the parameters held at 0, if together with a weight decay it explains the free run."""
        assert self.held is not None  # it is made when something depends on the parameters
        found = self.free(name, self.held)
        values = self.elsewhere.values(name)
        decoupled = self._decoupled_rate() if name == "step" else None
        rate = self._l2_rate(found, values) if isinstance(found, Sums) and values is not None else None
        if decoupled is not None:
            # Without memory, a decay of the gradient and one of the step are the same. With memory a run in which the
            # parameters grow beyond all gradients may still be explained by both; then it is that of the gradients.
            both = "l2" if rate and isinstance(found, Sums) and found.has_memory else "either"
            self.decays["decoupled" if rate is None else both] = decoupled if rate is None or both == "either" else rate
        elif rate:
            self.decays["l2"] = rate
        if isinstance(found, str) or decoupled is not None or rate is not None:
            return found
        return "depends on the parameters in a way that weight decay does not explain: not identified"

    def _decoupled_rate(self) -> float | None:
        """The largest c_k if each step is the one with parameters held plus c_k x; `None` if it is not."""
        assert self.held is not None  # see above
        x, moved = self.elsewhere.x, self.held.probes[1.0].moved
        rest = self.elsewhere.moved - moved
        rates = (rest * x).sum(axis=1) / (x * x).sum(axis=1)
        size = np.maximum(np.abs(rest), np.abs(moved)).max(axis=1, keepdims=True)
        explained = (np.abs(rest - rates[:, None] * x) <= DECAY * size + self.elsewhere.resolution).all()
        return float(rates.max()) if explained and (rates >= -DECAY * rates.max()).all() else None

    def _l2_rate(self, sums: Sums, values: Array) -> float | None:
        """The c >= 0 if the values are the sums with c x added to the gradients; `None` if there is none."""
        allowed = max(DECAY, 4 * sums.rounding)
        rates = [0.0, *_rates_of_decay(sums, values, self.probes, self.elsewhere.x)]
        return next((c for c in rates if sums.misses(values, self.probes + c * self.elsewhere.x) <= allowed), None)

    def decay_in_words(self) -> str | None:
        """A description of the weight decay, or of another way in which parameters without gradients shrink."""
        held = "what follows is measured with the parameters held at 0, where it does nothing"
        if "either" in self.decays:
            rate = f"{self.decays['either']:.4g} x"
            return f"weight decay: found, {rate} is added to the gradients (L2) or the steps, the same here; {held}"
        if "l2" in self.decays:
            return f"weight decay: found, {self.decays['l2']:.4g} x is added to the gradients (L2); {held}"
        if "decoupled" in self.decays:
            return f"weight decay: found, up to {self.decays['decoupled']:.4g} x is added to a step (decoupled); {held}"
        shift = self.elsewhere.x[:, ZERO] - self.runs.probes[1.0].x[:, ZERO]
        if -1 < shift[-1] / shift[0] < 1 - EXACT:
            return (
                "parameters without gradients shrink, as by weight decay, but it cannot be separated: audit without it"
            )
        return None


def _remembers(watcher: Watcher, steps: int) -> bool:
    """Whether a step depends on earlier gradients: tried on one coordinate, held, after three kinds of past."""
    middle = steps // 2
    for newest in (0.0, 0.5):
        pasts = [np.full((middle + 1, 1), past) for past in (0.0, 16.0, -16.0)]
        for past in pasts:
            past[-1] = newest
        ends = np.array([watcher.watch(past, held=True).moved[-1, 0] for past in pasts])
        ends = ends[np.isfinite(ends)]
        if len(ends) and np.ptp(ends) > EXACT * np.abs(ends).max():
            return True
    return False


def _not_linear(misses: Mapping[int, list[float]], kept: torch.dtype) -> str:
    """A description of what is not a weighted sum, by how far sums of either power miss it at each gradient size."""
    power = min(misses, key=lambda power: misses[power][0])
    what, missed = "gradients" if power == 1 else "squared gradients", misses[power]
    if max(missed) <= ROUNDED:
        return f"is near a weighted sum of the {what}, but misses it by {max(missed):.1%}: rounded or not linear"
    if missed[0] <= PRECISION[torch.float64]:
        return (
            f"is a weighted sum of the {what} for gradients of size {SIZES[0]:g}, but not for all of size "
            f"{SIZES[2]:g} and {SIZES[1]:g}: not identified"
        )
    if PRECISION.get(kept, 1.0) >= PRECISION[torch.float16]:
        return f"is rounded, kept in {kept}: no weighted sum of gradients or their squares is near: not identified"
    return NOT_LINEAR


def _rates_of_decay(sums: Sums, values: Array, gradients: Array, x: Array) -> list[float]:
    """The rates c > 0 for which sums of gradients + c x may be nearest to the values: roots of the derivative in c."""
    rest = values - sums.of(gradients)
    if sums.power == 1:
        a, b = sums.weights @ x, np.zeros_like(x)
    else:
        a, b = 2 * sums.weights @ (gradients * x), sums.weights @ (x * x)
    derivative = [2 * (b * b).sum(), 3 * (a * b).sum(), (a * a).sum() - 2 * (rest * b).sum(), -(rest * a).sum()]
    if not np.isfinite(derivative).all():
        return []
    roots = np.roots(derivative)
    return sorted(float(root.real) for root in roots if root.real > 0 and abs(root.imag) <= DECAY * abs(root.real))


def _a_size_of(x: Array) -> float:
    """A starting point as large as the parameters become, so that rounding errors are of the same size."""
    largest = float(np.abs(x).max())
    return largest if 0 < largest < np.inf else 1.0


def _depends_on_start(name: str, usual: Watched, elsewhere: Watched) -> bool:
    """Whether something changes when all parameters are shifted, other than by the shift itself."""
    here, there = usual.values(name), elsewhere.values(name)
    if here is None or there is None:
        return False
    kept = usual.kept.get(name, torch.float64)
    precision = max(EXACT, 8 * torch.finfo(kept).eps if kept.is_floating_point else 0.0)
    size = np.maximum(np.abs(here), np.abs(there)).max(axis=1, keepdims=True)
    allowed = precision * size + (elsewhere.resolution if name == "step" else 0.0)
    shifts = (0.0,) if name == "step" else (0.0, elsewhere.x[0, ZERO])
    return not any((~(np.abs(there - here - shift) > allowed)).all() for shift in shifts)


def _differ(one: Array, other: Array, resolution: Array) -> bool:
    """Whether two runs differ by more than rounding; NaN in both counts as equal."""
    allowed = DECAY * np.maximum(np.abs(one), np.abs(other)).max() + resolution
    return bool((np.abs(one - other) > allowed).any())
