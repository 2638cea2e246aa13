"""How many steps the mixture saves: what a ratio of losses after equal steps is worth in steps of AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from memgrad.experiments.results import Results
from memgrad.kinds import Array
from memgrad.paper.language.stages import ADAMW, MIXTURE, batch_size
from memgrad.paper.language.study import Study, final_logs, log_difference
from memgrad.statistics import Estimate, interval


def exponent(study: Study) -> Estimate:
    r"""How AdamW's final loss falls with the number of steps: $a$ in $L \propto T^{-a}$, between the two horizons.

    Both are complete runs on the same seeds, each with the settings that were selected for its horizon.
    """
    own = study.stages.own
    falls = final_logs(study.at_short, ADAMW) - final_logs(study.at_long((1.0,)), ADAMW)
    return interval(falls / math.log(own["long"] / own["short"]), name="exponent of AdamW's loss over the steps")


def steps_saved(differences: Array, a: float) -> Estimate:
    r"""The share of the steps that the mixture saves, $1 - e^{d/a}$, for the mean difference $d$ of log losses.

    AdamW would need $e^{-d/a}$ times the steps to reach the loss of the mixture, if its loss falls as $T^{-a}$. It is
    negative where the mixture is worse. The interval is that of $d$; $a$ counts as known.

    Args:
        differences: Log loss of the mixture minus AdamW's after equal steps, one per seed.
        a: The exponent, > 0; the result is nan for others.

    Example:
        >>> print(steps_saved(np.log([0.9, 0.9, 0.9]), 0.5))
        0.19 [0.19, 0.19]
    """
    d = interval(differences)
    if not a > 0:
        return Estimate(math.nan, n=d.n)
    with np.errstate(over="ignore"):
        value, low, high = (1 - np.exp(np.array([d.value, d.high, d.low]) / a)).tolist()
    return Estimate(value, low, high, d.n)


@final
@dataclass(frozen=True)
class Saving:
    """What is saved at a horizon or a batch size.

    Attributes:
        steps: The number of steps of both methods.
        batch: The size of their minibatches.
        loss: AdamW's final loss.
        ratio: The loss of the mixture as a multiple of AdamW's.
        saved: The share of the steps that it is worth.
    """

    steps: int
    batch: int
    loss: Estimate
    ratio: Estimate
    saved: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "steps": self.steps,
            "batch": self.batch,
            "loss": self.loss.to_dict(),
            "ratio": self.ratio.to_dict(),
            "saved": self.saved.to_dict(),
        }


def over_horizon(study: Study) -> tuple[Saving, ...]:
    """What is saved at the short and at the long horizon."""
    own, a = study.stages.own, exponent(study).value
    both = {own["short"]: study.at_short, own["long"]: study.at_long((1.0,))}
    return tuple(_saving(steps, batch_size(), results, a) for steps, results in both.items())


def over_batch(study: Study) -> tuple[Saving, ...]:
    """What is saved with minibatches of each size, for the same number of tokens."""
    own, usual, a = study.stages.own, batch_size(), exponent(study).value
    found = [_saving(own["long"], usual, study.at_long((1.0,)), a)]
    found += [_saving(own["long"] * usual // size, size, study.with_batch(size), a) for size in own["batches"]]
    return tuple(found)


def _saving(steps: int, batch: int, results: Results, a: float) -> Saving:
    differences = log_difference(results, MIXTURE, ADAMW)
    loss = interval(final_logs(results, ADAMW)).exp()
    return Saving(steps, batch, loss, interval(differences).exp(), steps_saved(differences, a))
