r"""Exponents of power laws: what theory predicts for a gain, and what a curve shows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from memgrad.kinds import Array, as_number
from memgrad.memory import Gain, Mixture
from memgrad.statistics import Estimate

SLACK = 1e-6
"""The rounding of kappa below 1/nu that is accepted: 1/3 is often written 0.333333."""


def predicted_exponent(nu: float, zeta: float, *, kappa: float = 1.0) -> float:
    r"""The exponent $\theta$ of the risk $k^{-\theta}$ under the gain $(1+k)^{1-\kappa}$: $\theta = (2-\kappa)\zeta$.

    A memory of gain 1 has $\kappa = 1$ and SGD's exponent $\zeta$: it only averages. The mixture
    `inst + c*(1+k)^(1-kappa)*poly:delta` with $\kappa = 1/\nu$ has $\zeta(2 - 1/\nu)$: with its gain the method is a
    heavy ball in the time $k^{1-\kappa/2}$, and at time $\tau$ a heavy ball has learned the curvatures above
    $\tau^{-2}$ (the docs, *Power-law problems, exactly*, have the proof without noise).

    It holds at a constant learning rate that is small enough, without label noise (which leaves a floor), and for
    $\zeta < 2 - 1/\nu$; beyond that, the noise of the steep directions decides, and $\zeta$ is replaced by
    $2 - 1/\nu$. Below $\kappa = 1/\nu$ the noise of small batches grows until the method diverges.

    Args:
        nu: $\nu > 1$, the decay of the eigenvalues $j^{-\nu}$.
        zeta: $\zeta > 0$, as in `Spectrum.power_law`.
        kappa: $\kappa$, between $1/\nu$ and 1.

    Example:
        >>> predicted_exponent(2.0, 0.5), predicted_exponent(2.0, 0.5, kappa=1 / 2)
        (0.5, 0.75)

    Reference:
        The exponent at $\kappa = 1/\nu$: Yarotsky and Velikanov, *SGD with memory*, arXiv 2410.04228 (one scheduled
        memory); Ferbach et al., *Dimension-adapted momentum outscales SGD*, arXiv 2505.16098 (this mixture).
    """
    owner = "predicted_exponent"
    nu = as_number(
        owner, "nu", nu, least=1.0, excluded=True, why="the sum of the eigenvalues j^-nu is infinite otherwise"
    )
    zeta = as_number(owner, "zeta", zeta, least=0.0, excluded=True, why="the first risk is infinite otherwise")
    kappa = as_number(owner, "kappa", kappa, least=0.0, excluded=True, why="a larger gain diverges")
    if not 1 / nu - SLACK <= kappa <= 1:
        raise ValueError(
            f"predicted_exponent needs 1/nu = {1 / nu:.4g} <= kappa <= 1, got kappa={kappa!r}: a larger gain "
            f"diverges with small batches, and a falling one has no theory here."
        )
    return (2 - kappa) * min(zeta, 2 - 1 / nu)


def kappa_of(mixture: Mixture) -> float | None:
    r"""The $\kappa$ of a mixture whose gain grows as $k^{1-\kappa}$ in the long run; 1 if it tends to a constant.

    `None` if it ends, as `cool(20)*inst` does, or is known for some steps only.

    Example:
        >>> kappa_of(Mixture.parse("inst + 0.1*(1+k)^0.25*poly:8")), kappa_of(Mixture.parse("sum*exp:0.9"))
        (0.75, 1.0)
    """
    near, far, growth = 10**14, 10**16, []
    for part in mixture.parts:
        for term in part.gain.terms:
            try:
                first, last = (float(Gain((term,))(k, part.memory)) for k in (near, far))
            except (IndexError, ValueError):  # decays that were listed one by one
                return None
            if first > 0 and last > 0:
                growth.append(float(np.log(last / first) / np.log(far / near)))
    return round(1 - max(0.0, *growth), 6) if growth else None


def fit_exponent(k: ArrayLike, risk: ArrayLike, *, decades: float = 1.0, name: str = "exponent") -> Estimate:
    r"""The exponent $\theta$ of $k^{-\theta}$ over the last decade of a curve.

    The slope of the least-squares line through $(\log k, -\log \text{risk})$, with every point weighted by its share of
    the axis $\log k$. The interval is the range of the slopes over the thirds of that stretch: it says whether the
    slope still changes. It is not a confidence interval, because an exact curve has no sampling error.

    Args:
        k: Steps > 0, increasing; others, such as 0, are left out.
        risk: The curve at these steps, finite and > 0 over the stretch.
        decades: The length of the stretch in factors of 10, > 0.
        name: What it is the exponent of.

    Example:
        >>> k = np.arange(1, 1001)
        >>> print(fit_exponent(k, 5.0 * k**-0.5))
        exponent = 0.5 [0.5, 0.5]
    """
    steps, values = np.asarray(k, dtype=float), np.asarray(risk, dtype=float)
    if steps.ndim != 1 or steps.shape != values.shape:
        raise ValueError(f"fit_exponent needs one risk per step, got the shapes {steps.shape} and {values.shape}.")
    decades = as_number("fit_exponent", "decades", decades, least=0.0, excluded=True, why="a slope needs a stretch")
    last = steps[-1] if len(steps) else 0.0
    inside = (steps > 0) & (steps >= last / 10**decades)
    steps, values = steps[inside], values[inside]
    if len(steps) < 9 or (np.diff(steps) <= 0).any():
        raise ValueError(
            f"fit_exponent needs at least 9 increasing steps in the last {decades:g} decades, got {len(steps)}: "
            f"record more of them, or take more decades."
        )
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"fit_exponent needs risks that are finite and > 0, got {values[i]!r} at step {steps[i]:g}: the run "
            f"diverged, or has reached its floor."
        )
    x, y = np.log(steps), -np.log(values)
    thirds = np.linspace(x[0], x[-1], 4)
    pieces = [(x >= low - 1e-9) & (x <= high + 1e-9) for low, high in pairwise(thirds)]
    slopes = [_slope(x[piece], y[piece]) for piece in pieces if piece.sum() >= 2]
    value = _slope(x, y)
    return Estimate(value, min(*slopes, value), max(*slopes, value), name=name)


def _slope(x: Array, y: Array) -> float:
    weights = np.gradient(x) if len(x) > 2 else np.ones(len(x))
    x, y = x - np.average(x, weights=weights), y - np.average(y, weights=weights)
    return float((weights * x * y).sum() / (weights * x * x).sum())
