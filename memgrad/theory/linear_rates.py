"""Bounds that fall exponentially: constant viscosity on functions with quadratic growth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from memgrad.kinds import Array
from memgrad.theory.bound import Bound, assume_growth, noise_given, quasi_convex_given
from memgrad.theory.quantities import QUANTITIES, numbers, series, times


def exponential_general(
    *,
    t: Any,
    alpha: float,
    growth: float,
    distance: float,
    gap: float,
    noise: float,
    dimension: int,
    tau: float = 1.0,
    tight: bool = False,
) -> Bound:
    r"""Constant viscosity in general, $dV = -\alpha V\,dt - \nabla \tilde f(X)\,dt + \tilde\sigma(X)\,dB$, $V(0) = 0$.

    $$\mathbb{E}[\tilde f(X(t)) - \tilde f^*] \le e^{-\gamma t} \left( \tilde f(x_0) - \tilde f^*
    + \frac{(\alpha-\gamma)^2}{2} |x_0 - x^*|^2 \right) + \frac{d\, \tilde\sigma_*^2}{2 \gamma} (1 - e^{-\gamma t})$$

    $\tilde f = C f$ and $\tilde\sigma = C \sigma$, where $C = \alpha$ is exponential memory
    (`exponential_strongly_convex`) and $C = 1$ is heavy-ball (`heavy_ball_strongly_convex`).
    The exponent $\gamma$ is `best_gamma`.

    Args:
        t: Time, finite and >= 0; one or an array.
        alpha: Viscosity, > 0.
        growth: $\tilde\mu > 0$ in the quadratic growth $\tilde f(x) - \tilde f^* \ge \frac{\tilde\mu}{2} |x - x^*|^2$.
        distance: $|x_0 - x^*| \ge 0$.
        gap: $\tilde f(x_0) - \tilde f^*$, at least $\frac{\tilde\mu}{2} |x_0 - x^*|^2$.
        noise: $\tilde\sigma_* \ge 0$, a standard deviation:
            $\tilde\sigma_*^2 = \sup_x \lVert \tilde\sigma(x)\tilde\sigma(x)^T \rVert$.
        dimension: $d \ge 1$.
        tau: Constant of weak quasi-convexity of $\tilde f$, > 0; 1 for convex functions, 2 for quadratics.
        tight: Whether to take the largest $\gamma$ that the proof allows, instead of the paper's simpler one.

    Example:
        >>> bound = exponential_general(t=[0, 9], alpha=1.5, growth=1, distance=1, gap=0.5, noise=0, dimension=1)
        >>> bound.value.round(4)
        array([1.    , 0.0111])

    Reference:
        UAI 2019, Proposition D.5. *Differs*: the factor $1 - e^{-\gamma t}$ of the ball is in the proof, not in the
        statement; the proof's own slips are errata 36 and 37.
    """
    alpha, growth, tau = numbers("exponential_general", alpha=alpha, growth=growth, tau=tau)
    distance, gap, noise, d = numbers(
        "exponential_general", distance=distance, gap=gap, noise=noise, dimension=dimension
    )
    g = best_gamma(alpha=alpha, growth=growth, tau=tau, tight=tight)
    t = times("exponential_general", t)
    return Bound(
        name="exponential_general",
        about="E f~(X(t)) - f~*",
        variable="t",
        at=t,
        rate=np.exp(-g * t) * (gap + (alpha - g) ** 2 / 2 * distance**2),
        ball=d * noise**2 / (2 * g) * -np.expm1(-g * t),
        theorem=f"UAI 2019, Proposition D.5, with gamma = {g:.6g}" + (" (the largest of its proof)" if tight else ""),
        assumptions=(assume_growth("exponential_general", "growth", growth, gap, distance),),
        given=(quasi_convex_given(tau), f"f~(x) - f~* >= {growth:g}/2 |x - x*|^2 (H2')", noise_given(noise)),
    )


def exponential_strongly_convex(
    *,
    t: Any,
    alpha: float,
    strong_convexity: float,
    distance: float,
    gap: float,
    noise: float,
    dimension: int,
    tight: bool = False,
) -> Bound:
    r"""Exponential memory on a strongly convex function: a bound for the last point that falls like $e^{-\gamma t}$.

    $$\mathbb{E}[f(X(t)) - f^*] \le e^{-\gamma t} \left( f(x_0) - f^*
    + \frac{(\alpha-\gamma)^2}{2\alpha} |x_0 - x^*|^2 \right)
    + \frac{d\, \alpha\, \sigma_*^2}{2 \gamma} (1 - e^{-\gamma t})$$

    for MG-SDE-exp, started at $V(0) = 0$. $\gamma = \alpha/3$ up to $\alpha = \frac{9}{4} \mu$, which is the best
    choice, and $\gamma = \frac{1}{2} (\alpha - \sqrt{\alpha^2 - 2 \alpha \mu})$ above it.

    Args:
        t: Time, finite and >= 0; one or an array.
        alpha: Rate of forgetting, > 0.
        strong_convexity: $\mu > 0$.
        distance: $|x_0 - x^*| \ge 0$.
        gap: $f(x_0) - f^*$, at least $\frac{\mu}{2} |x_0 - x^*|^2$.
        noise: $\sigma_* \ge 0$, a standard deviation: $\sigma_*^2 = \sup_x \lVert \sigma(x)\sigma(x)^T \rVert$.
        dimension: $d \ge 1$.
        tight: Whether to take the largest $\gamma$ that the proof allows, instead of the paper's simpler one.

    Example:
        >>> bound = exponential_strongly_convex(
        ...     t=4, alpha=2.25, strong_convexity=1, distance=1, gap=0.5, noise=0, dimension=1
        ... )
        >>> round(bound.value, 4)  # exp(-3) since gamma = 3/4
        0.0498

    Reference:
        UAI 2019, Theorem D.7. *Differs*: the ball's factor $1 - e^{-\gamma t}$ is in the proof, not in the statement.
    """
    owner, theorem = "exponential_strongly_convex", "UAI 2019, Theorem D.7"
    alpha, mu = numbers(owner, alpha=alpha, strong_convexity=strong_convexity)
    start = numbers(owner, distance=distance, gap=gap, noise=noise, dimension=dimension)
    return _strongly_convex(owner, theorem, t, alpha, mu, start, scale=alpha, tight=tight)


def heavy_ball_strongly_convex(
    *,
    t: Any,
    alpha: float,
    strong_convexity: float,
    distance: float,
    gap: float,
    noise: float,
    dimension: int,
    tight: bool = False,
) -> Bound:
    r"""HB-SDE, $dV = -\alpha V\,dt - \nabla f(X)\,dt + \sigma(X)\,dB$, on a strongly convex function: the last point.

    $$\mathbb{E}[f(X(t)) - f^*] \le e^{-\gamma t} \left( f(x_0) - f^*
    + \frac{(\alpha-\gamma)^2}{2} |x_0 - x^*|^2 \right) + \frac{d\, \sigma_*^2}{2 \gamma} (1 - e^{-\gamma t})$$

    $\gamma = \alpha/3$ up to $\alpha = \frac{3}{2} \sqrt\mu$, which is the best choice, and
    $\gamma = \frac{1}{2} (\alpha - \sqrt{\alpha^2 - 2 \mu})$ above it.

    Args:
        t: Time, finite and >= 0; one or an array.
        alpha: Viscosity, > 0.
        strong_convexity: $\mu > 0$.
        distance: $|x_0 - x^*| \ge 0$.
        gap: $f(x_0) - f^*$, at least $\frac{\mu}{2} |x_0 - x^*|^2$.
        noise: $\sigma_* \ge 0$, a standard deviation: $\sigma_*^2 = \sup_x \lVert \sigma(x)\sigma(x)^T \rVert$. In the
            model of heavy-ball with learning rate $\eta$ it is $\eta^{1/4} \varsigma_*$.
        dimension: $d \ge 1$.
        tight: Whether to take the largest $\gamma$ that the proof allows, instead of the paper's simpler one.

    Example:
        >>> bound = heavy_ball_strongly_convex(
        ...     t=1e9, alpha=0.1, strong_convexity=1, distance=1, gap=0.5, noise=1, dimension=1
        ... )
        >>> round(bound.ball, 9)  # the printed ball, 1.5, is below the true value 2.5
        15.0

    Reference:
        UAI 2019, Theorem D.8. *Differs*: the printed ball has a factor $\alpha$ too many and is violated (erratum 38);
        the factor $1 - e^{-\gamma t}$ is in the proof, not in the statement.
    """
    owner, theorem = "heavy_ball_strongly_convex", "UAI 2019, Theorem D.8, with its ball corrected (erratum 38)"
    alpha, mu = numbers(owner, alpha=alpha, strong_convexity=strong_convexity)
    start = numbers(owner, distance=distance, gap=gap, noise=noise, dimension=dimension)
    return _strongly_convex(owner, theorem, t, alpha, mu, start, scale=1.0, tight=tight)


def _strongly_convex(
    owner: str, theorem: str, t: Any, alpha: float, mu: float, start: tuple[float, ...], *, scale: float, tight: bool
) -> Bound:
    """Proposition D.5 for f~ = scale f and sigma~ = scale sigma, divided by the scale."""
    distance, gap, noise, d = start
    checked = assume_growth(owner, "mu", mu, gap, distance)
    t = times(owner, t)
    g = best_gamma(alpha=alpha, growth=scale * mu, tight=tight)
    return Bound(
        name=owner,
        about="E f(X(t)) - f*",
        variable="t",
        at=t,
        rate=np.exp(-g * t) * (gap + (alpha - g) ** 2 / (2 * scale) * distance**2),
        ball=scale * d * noise**2 / (2 * g) * -np.expm1(-g * t),
        theorem=f"{theorem}, with gamma = {g:.6g}" + (" (the largest of its proof)" if tight else ""),
        assumptions=(checked,),
        given=(f"f is smooth and strongly convex with mu = {mu:g} (H1, H2)", noise_given(noise)),
    )


def best_gamma(*, alpha: float, growth: float, tau: float = 1.0, tight: bool = False) -> float:
    r"""The exponent $\gamma$ of Proposition D.5: the rate $e^{-\gamma t}$ that is proved for the viscosity $\alpha$.

    The proof needs $\gamma = \alpha - \beta$ and $\gamma \le \tau\beta/(1 + \beta^2/\tilde\mu)$. The paper replaces the
    right side by the lower bounds of `gamma_bounds`, and gets

    $$\gamma = \frac{\tau}{\tau+2} \alpha \quad (\alpha \le \frac{\tau+2}{2} \sqrt{\tilde\mu}), \qquad
    \gamma = \frac{1}{2} \left( \alpha - \sqrt{\alpha^2 - 2 \tilde\mu \tau} \right) \quad (\text{above}).$$

    Args:
        alpha: Viscosity, > 0.
        growth: $\tilde\mu > 0$, the constant of quadratic growth.
        tau: Constant of weak quasi-convexity, > 0.
        tight: Whether to take the largest root of $\gamma (1 + (\alpha-\gamma)^2/\tilde\mu) = \tau (\alpha - \gamma)$
            instead.

    Example:
        >>> best_gamma(alpha=1.5, growth=1)
        0.5
        >>> round(best_gamma(alpha=1, growth=1, tight=True), 4), best_gamma(alpha=1, growth=1)
        (0.4302, 0.3333333333333333)

    Reference:
        UAI 2019, Proposition D.5 and the end of its proof.
    """
    alpha, growth, tau = numbers("best_gamma", alpha=alpha, growth=growth, tau=tau)
    if tight:
        return alpha * _largest_root(growth / alpha**2, tau)
    if alpha <= (tau + 2) / 2 * math.sqrt(growth):
        return tau / (tau + 2) * alpha
    root = math.sqrt(max(alpha**2 - 2 * growth * tau, 0.0))
    return growth * tau / (alpha + root)  # (alpha - root)/2 without cancellation


def _largest_root(kappa: float, tau: float) -> float:
    """The largest u in (0, 1) with u (1 + (1-u)^2/kappa) = tau (1-u), where u = gamma/alpha, kappa = growth/alpha^2."""

    def excess(u: float) -> float:  # > 0 if gamma is too large
        return u * (kappa + (1 - u) ** 2) - tau * kappa * (1 - u)

    low, high = 0.0, 1.0
    inside = 1 - 3 * kappa * (1 + tau)
    if inside > 0:  # the cubic has a maximum and a minimum in between, and up to three roots
        top, bottom = (2 - math.sqrt(inside)) / 3, (2 + math.sqrt(inside)) / 3
        if excess(bottom) <= 0:
            low = bottom
        else:
            high = top
    return float(brentq(excess, low, high, xtol=1e-300, rtol=1e-15))


@dataclass(frozen=True, eq=False)
class GammaBounds:
    r"""The curve that limits $\gamma$ in Proposition D.5 and its lower bounds; see `gamma_bounds`.

    Args:
        beta: The weights $\beta$.
        tau: Constant of weak quasi-convexity.
        mu: $\tilde\mu$, the constant of quadratic growth.
        curve: $\tau\beta/(1 + \beta^2/\tilde\mu)$: $\gamma$ may not be above it.
        linear: $\tau\beta/2$, below the curve where $\beta \le \sqrt{\tilde\mu}$.
        hyperbola: $\tau\tilde\mu/(2\beta)$, below the curve where $\beta \ge \sqrt{\tilde\mu}$.
        lower: The smaller of the two, below the curve everywhere.
        peak: $(\sqrt{\tilde\mu}, \frac{\tau}{2} \sqrt{\tilde\mu})$, where curve and bounds touch.
    """

    beta: Array
    tau: float
    mu: float
    curve: Array
    linear: Array
    hyperbola: Array
    lower: Array
    peak: tuple[float, float]

    def solution(self, alpha: float, *, tight: bool) -> tuple[float, float]:
        r"""The point $(\beta, \gamma)$ with the largest $\gamma$ on the line $\gamma = \alpha - \beta$.

        Args:
            alpha: Viscosity, > 0.
            tight: Whether it may reach up to the curve (the optimal solution) or to its lower bounds only (the
                paper's approximate one).

        Example:
            >>> gamma_bounds([1.0], tau=0.5, mu=10).solution(2.5, tight=False)
            (2.0, 0.5)
        """
        gamma = best_gamma(alpha=alpha, growth=self.mu, tau=self.tau, tight=tight)
        return alpha - gamma, gamma


def gamma_bounds(beta: Any, tau: float, mu: float) -> GammaBounds:
    r"""The lemma behind the exponent $\gamma$: how large $\gamma$ may be for each $\beta$, and two simple lower bounds.

    $$\frac{\tau\beta}{1 + \beta^2/\tilde\mu} \ge \frac{\tau}{2} \beta \quad (\beta \le \sqrt{\tilde\mu}), \qquad
    \frac{\tau\beta}{1 + \beta^2/\tilde\mu} \ge \frac{\tau \tilde\mu}{2\beta} \quad (\beta \ge \sqrt{\tilde\mu})$$

    The feasible region lies below the curve; `GammaBounds.solution` picks the best point on $\gamma = \alpha - \beta$.

    Args:
        beta: Weights $\beta$ of the position in the Lyapunov function, > 0; one or an array.
        tau: Constant of weak quasi-convexity, > 0. It is 0.5 in the paper's figure.
        mu: $\tilde\mu > 0$, the constant of quadratic growth. It is 10 in the paper's figure.

    Example:
        >>> bounds = gamma_bounds([1, 10], tau=0.5, mu=10)
        >>> bounds.curve.round(3), bounds.lower
        (array([0.455, 0.455]), array([0.25, 0.25]))

    Reference:
        UAI 2019, Lemma D.6 and its two figures. *Differs*: the bounds meet at $\sqrt{10} \approx 3.162$ (erratum 35).
    """
    tau, mu = numbers("gamma_bounds", tau=tau, mu=mu)
    values = series("gamma_bounds", "beta", beta)
    inside = (values > 0) & np.isfinite(values)
    if not np.all(inside):
        wrong = values[~inside].flat[0]
        raise ValueError(f"gamma_bounds needs beta to be {QUANTITIES['beta'].domain}, got beta={wrong:g}.")
    linear, hyperbola = tau / 2 * values, tau * mu / (2 * values)
    return GammaBounds(
        beta=values,
        tau=tau,
        mu=mu,
        curve=tau * values / (1 + values**2 / mu),
        linear=linear,
        hyperbola=hyperbola,
        lower=np.minimum(linear, hyperbola),
        peak=(math.sqrt(mu), tau / 2 * math.sqrt(mu)),
    )
