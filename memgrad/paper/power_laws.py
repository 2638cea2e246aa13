"""Beyond the paper: exponents of memories and mixtures on power-law problems, by the exact recursion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from memgrad.dynamics import Spectrum, exact_risk, fit_exponent, predicted_exponent, sgd_limit
from memgrad.memory.passport import Progress
from memgrad.paper.claims import BEYOND, Claim, Verdict, judge_of
from memgrad.statistics import Estimate

PROBLEMS: tuple[tuple[float, float], ...] = ((1.2, 0.3), (1.5, 0.5), (2.0, 0.5), (3.0, 0.4))
"""The pairs (nu, zeta) of the claim."""

STEPS = 60_000
"""The number of steps that a verdict needs."""

# A small grid for each family, of round numbers. All have the same learning rates, relative to the largest at which SGD
# converges, and are represented by the setting with the smallest final risk: no slope is looked at to choose it.
SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01)
GAIN_ONE: Mapping[str, tuple[str, ...]] = {
    "SGD": ("inst",),
    "exp": ("exp:0.9", "exp:0.99"),
    "poly": ("poly:2", "poly:8"),
}
MIXTURE = "mixture"

MARGIN, MARGIN_OF_MIXTURE = 0.02, 0.03


@final
@dataclass(frozen=True)
class Slope:
    """The exponent of a family on one problem.

    Attributes:
        nu: The problem's nu.
        zeta: Its zeta.
        family: SGD, exp, poly or mixture.
        exponent: The fit over the last decade.
        theory: What theory predicts.
    """

    nu: float
    zeta: float
    family: str
    exponent: Estimate
    theory: float

    @property
    def fits(self) -> bool:
        """Whether it is as close to theory as the rule asks for."""
        margin = MARGIN_OF_MIXTURE if self.family == MIXTURE else MARGIN
        return abs(self.exponent.value - self.theory) <= margin


@final
@dataclass(frozen=True)
class Slopes:
    """All exponents, and the number of steps they were measured over."""

    slopes: tuple[Slope, ...]
    steps: int


def measure(_seed: int | None = None, progress: Progress | None = None, *, steps: int = STEPS) -> Slopes:
    """The exponents of all families on all problems, at a constant learning rate, batch 1 and no label noise.

    Nothing is random: the seed has no effect.
    """
    slopes: list[Slope] = []
    for i, (nu, zeta) in enumerate(PROBLEMS):
        slopes += _on_problem(nu, zeta, steps)
        if progress is not None:
            progress(i + 1, len(PROBLEMS))
    return Slopes(tuple(slopes), steps)


def _on_problem(nu: float, zeta: float, steps: int) -> list[Slope]:
    spectrum = Spectrum.power_law(nu, zeta)
    mixtures = tuple(f"inst + {c:g}*(1+k)^{1 - 1 / nu!r}*poly:4" for c in STRENGTHS)
    families = {**GAIN_ONE, MIXTURE: mixtures}
    methods = [text for texts in families.values() for text in texts]
    found = exact_risk(methods, spectrum, lr=sgd_limit(spectrum) * np.array(SHARES), steps=steps)
    slopes = []
    for family, texts in families.items():
        i, j = found.best([methods.index(text) for text in texts])
        name = f"{family}, nu = {nu:g}, zeta = {zeta:g}"
        theory = predicted_exponent(nu, zeta, kappa=1 / nu if family == MIXTURE else 1.0)
        exponent = fit_exponent(found.k, found.risk[i, j], name=name)
        slopes.append(Slope(nu, zeta, family, exponent, theory))
    return slopes


@judge_of(
    "M1",
    BEYOND,
    "At a constant learning rate no memory of gain 1 improves SGD's exponent on power-law quadratics; the mixture "
    "inst + c(1+k)^(1-1/nu) poly:delta reaches zeta(2-1/nu).",
    "Exact recursion, (nu, zeta) = (1.2, .3), (1.5, .5), (2, .5), (3, .4): slopes over the last decade to k = 60,000 "
    "within .02 of zeta for SGD, exp and poly, within .03 of the theory for the mixture.",
    run=measure,
)
def m1(claim: Claim, result: Slopes) -> Verdict:
    wrong = [slope for slope in result.slopes if not slope.fits]
    farthest = max(result.slopes, key=lambda slope: abs(slope.exponent.value - slope.theory))
    reason = (
        f"{len(result.slopes) - len(wrong)} of {len(result.slopes)} exponents are within their margins; "
        f"the farthest is {farthest.exponent.name}: {farthest.exponent.value:.3f} for {farthest.theory:.3f}."
    )
    return claim.verdict(
        [slope.exponent for slope in (*wrong, *(each for each in result.slopes if each.fits))],
        held=not wrong,
        failed=bool(wrong),
        reason=reason,
        scale=f"{result.steps:,} steps, batch 1, {len(SHARES)} learning rates each, the best by final risk",
        enough=result.steps >= STEPS,
    )
