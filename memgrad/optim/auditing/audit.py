"""Audits: what any torch optimizer actually remembers, measured by feeding it impulses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from memgrad.memory import Memory
from memgrad.optim.auditing.evidence import gather
from memgrad.optim.auditing.fitting import EXACT, Nearest, has_both_signs, nearest_memory, negative_share
from memgrad.optim.auditing.mixing import MOST, MixtureFit, mixture_of
from memgrad.optim.auditing.watching import Before, Make, watcher_for

KNOWN = 1e-4  # a memory that is off by a larger share of its weight is close to what was measured, but not equal


@dataclass(frozen=True)
class Remembered:
    r"""One memory inside an optimizer, as measured.

    Args:
        name: Where it was found: `step` for the step itself, otherwise the name of a buffer in the optimizer's state.
        power: 1 for a memory of gradients, 2 for one of their squares.
        weights: Row k holds the weights $w(0,k), \dots, w(k,k)$, then zeros.
        rounding: The largest difference between the value and the weighted sum, relative to its size, over all
            gradients that were tried.
        offset: The value at each step without any gradient, such as the initial value of a sum.
        kept: The data type in which it is kept, if known.
    """

    name: str
    power: int
    weights: NDArray[np.float64]
    rounding: float = 0.0
    offset: NDArray[np.float64] | None = None
    kept: str = ""

    @property
    def gain(self) -> NDArray[np.float64]:
        """The sum of the weights at each step, 1 where they are normalized."""
        return np.asarray(self.weights.sum(axis=1))

    @property
    def mean_age(self) -> float:
        """The mean age of the gradients at the last step, in steps; nan if the weights have both signs or are 0."""
        w = self.weights[-1]
        if not w.any() or has_both_signs(w, self.rounding):
            return math.nan
        return float(w @ np.arange(len(w) - 1, -1, -1) / w.sum()) + 0.0  # not -0.0

    @cached_property
    def found(self) -> Nearest:
        """The nearest memory with bounds for its parameter, and the memories it cannot be distinguished from."""
        return nearest_memory(self.weights, self.rounding)

    @property
    def nearest(self) -> Memory | None:
        """The polynomial, exponential or instantaneous memory whose weights are nearest, over all steps.

        `None` if the weights have both signs: such weights are not shares, and no memory is near them.
        """
        return self.found.fit.memory if self.found.fit else None

    @property
    def distance(self) -> float:
        """Its distance: the share of the weight that lies elsewhere (total variation), averaged over the steps."""
        return self.found.fit.distance if self.found.fit else math.nan

    @cached_property
    def mixture(self) -> MixtureFit | None:
        """The memories with their gains: up to two averages beside the newest gradient.

        `None` if the weights, over all steps and with their gains, are not such a mixture, or if the measurements do
        not determine its parameters. A single memory with a gain is a mixture too, such as `sum*exp:0.9` of heavy ball.
        """
        return mixture_of(self.weights, self.rounding, most=1 if self.distance <= EXACT else MOST)

    def __str__(self) -> str:
        what = "gradients" if self.power == 1 else "squared gradients"
        lines = [f"{self.name} remembers {what} {self._as()}"]
        if self._is_known and self.mixture and str(self.mixture) != str(self.found.fit):
            lines.append(f"with its gain: {self.mixture}{self._told_from(self.mixture.others)}")
        if self.rounding > EXACT:
            cause = f"it is kept in {self.kept}" if self.kept else "it is rounded, or not exactly linear"
            lines.append(f"rounded: this holds only to a relative error of {self.rounding:.1g}; {cause}")
        if (first := int(np.argmax(self.weights.any(axis=1)))) > 0:
            lines.append(f"it is empty before step {first}")
        if self.offset is not None and abs(self.offset[-1]) > EXACT * np.abs(self.weights[-1]).sum():
            lines.append(f"plus {self.offset[-1]:.4g} at the last step that does not come from gradients")
        lines.append(self._in_numbers())
        return "\n    ".join(lines)

    def _as(self) -> str:
        fit, others = self.found.fit, self.found.others
        if fit is None:
            share = 100 * negative_share(self.weights)
            return f"with weights of both signs ({share:.2g} % opposite to the sum): no known family has such weights"
        if self._is_known or self.mixture is None:
            way = "as" if self._is_known else "unlike poly, exp, inst and their mixtures; nearest is"
            return f"{way} {fit}, off by {100 * fit.distance:.2f} %{self._told_from(others)}"
        mixture = self.mixture
        return f"as {mixture}, off by {100 * mixture.distance:.2f} %{self._told_from(mixture.others)}"

    @property
    def _is_known(self) -> bool:
        """Whether the shares are those of a single memory."""
        return self.distance <= max(KNOWN, 4 * self.rounding)

    def _told_from(self, others: Sequence[object]) -> str:
        names = " or ".join(map(str, others))
        return (
            f"; cannot be distinguished from {names} over {len(self.weights)} steps; audit more steps" if others else ""
        )

    def _in_numbers(self) -> str:
        w = self.weights[-1]
        cancels = abs(w.sum()) <= max(EXACT, self.rounding) * np.abs(w).sum()
        gain = "0 (the weights cancel)" if cancels and w.any() else f"{w.sum():.4g}"
        age = "no mean age" if math.isnan(self.mean_age) else f"mean age {self.mean_age:.4g} steps"
        return f"gain {gain}, {age}, weight of the first gradient {w[0]:.2g}"


@dataclass(frozen=True)
class Audit:
    r"""What an optimizer remembers.

    Args:
        optimizer: Name of its class.
        steps: The number of steps of the audit.
        step: The memory in its steps, if they are linear in the gradients; `None` for an adaptive method.
        buffers: The memories in its state, by name.
        constant_gain: Entry k is step k under a constant gradient of 1, in units of the learning rate: 1 for all k if
            the method is normalized.
        unidentified: What is known, in words, about the step and buffers that are not weighted sums, and about state
            that was not inspected, by name.
        notes: What else one must know to read the audit: weight decay, coordinates that mix, randomness.
        unit: The unit of steps; empty for an optimizer without a learning rate.
    """

    optimizer: str
    steps: int
    step: Remembered | None
    buffers: Mapping[str, Remembered]
    constant_gain: NDArray[np.float64]
    unidentified: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unit: str = "lr"

    def __str__(self) -> str:
        lines = [f"{self.optimizer} over {self.steps} steps"]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {each}" for each in ([self.step] if self.step else self.buffers.values())]
        unknown = {name: words for name, words in self.unidentified.items() if name != "step" or not self.buffers}
        lines += [f"  {name} {words}" for name, words in unknown.items()]
        if not (self.step or self.buffers or self.unidentified.keys() - {"step"}):
            lines.append("  no state was found that changes with the gradients")
        gain = self.constant_gain
        units = f", in units of {self.unit}" if self.unit else ""
        lines.append(f"  step for a constant gradient{units}: {gain[0]:.4g} at first, {gain[-1]:.4g} at last")
        return "\n".join(lines)


def audit(make_optimizer: Make, steps: int = 100, *, before_step: Before | None = None) -> Audit:
    r"""Find out what a torch optimizer remembers.

    A parameter with one coordinate per step receives impulses: coordinate j has the gradient 1 at step j and 0 at all
    others, so its displacement at step k is the weight $w(j,k)$ times the learning rate. A method whose steps are not
    linear in the gradients, such as Adam, is audited through its buffers. Weights are reported only if they also
    predict the response to other gradients, or to their squares: constant ones and random ones of either sign, in three
    sizes. What they do not predict, such as a maximum, is reported as not identified.

    Weight decay is detected by starting from a point other than 0. The weights are then measured with the parameters
    held at 0, where weight decay has no effect, and together with a weight decay they must explain the free run.

    Args:
        make_optimizer: A function that makes the optimizer for a list of parameters. The optimizer must update each
            coordinate from its own gradients alone; if it does not, a note says so.
        steps: The number of steps, >= 2.
        before_step: Called as `before_step(optimizer, k)` before each step, to change what a schedule would change. The
            gradients are already set, and can be changed too.

    Raises:
        AuditError: If the optimizer raises an error, for example because it accepts only matrices. The message says
            what it was given, and what may help.

    Example:
        >>> print(audit(lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.5), steps=50))  # doctest: +ELLIPSIS
        SGD over 50 steps
          step remembers gradients as exp:0.5, off by 0.00 %
            with its gain: sum*exp:0.5
            gain 2, mean age 1 steps, weight of the first gradient ...e-15
          step for a constant gradient, in units of lr: 1 at first, 2 at last
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 2:
        raise ValueError(f"an audit needs an integer steps >= 2, got steps={steps!r}.")
    if not callable(make_optimizer):
        raise TypeError(
            f"an audit needs a function that makes an optimizer for its parameters, got {make_optimizer!r}."
        )
    with torch.random.fork_rng(devices=[]):  # an optimizer may draw random numbers, but not from the caller's generator
        evidence = gather(watcher_for(make_optimizer, before_step), steps)
    usual, found, words = evidence.usual, {}, {}
    for name, verdict in evidence.verdicts.items():
        if isinstance(verdict, str):
            words[name] = verdict
        else:
            kept = "" if usual.kept[name] == torch.float64 else str(usual.kept[name])
            found[name] = Remembered(name, verdict.power, verdict.weights, verdict.rounding, verdict.offset, kept)
    return Audit(
        usual.optimizer,
        steps,
        found.pop("step", None),
        found,
        evidence.constant_gain,
        words,
        evidence.notes,
        "lr" if usual.has_lr else "",
    )
