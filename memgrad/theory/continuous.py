"""Bounds of MG-SDE on convex functions, the rows of the paper's Table 3."""

from __future__ import annotations

from typing import Any

from memgrad.theory.bound import Bound, assume, noise_given, quasi_convex_given
from memgrad.theory.quantities import numbers, times

LAST = "E f(X(t)) - f*"
UNIFORM = "E f(X(s)) - f* for s uniform in [0, t], hence for convex f of the mean of X over [0, t],"


def instantaneous(*, t: Any, distance: float, noise: float, dimension: int, tau: float = 1.0) -> Bound:
    r"""No memory, the model $dX = -\nabla f(X)\,dt + \sigma(X)\,dB$ of SGD: a bound for the mean of the path.

    $$\mathbb{E}[f(\bar X(t)) - f^*] \le \frac{|x_0 - x^*|^2}{2 \tau t} + \frac{d\, \sigma_*^2}{2 \tau}, \qquad
    \bar X(t) = \frac{1}{t} \int_0^t X(s)\,ds$$

    where $f$ is convex ($\tau = 1$). Under $\tau$-weak quasi-convexity alone, $X(s)$ at a time $s$ drawn uniformly from
    $[0, t]$ takes the place of $\bar X(t)$.

    Args:
        t: Time, finite and > 0; one or an array.
        distance: $|x_0 - x^*| \ge 0$.
        noise: $\sigma_* \ge 0$, a standard deviation: $\sigma_*^2 = \sup_x \lVert \sigma(x)\sigma(x)^T \rVert$. In the
            model of a method with learning rate $\eta$ it is $\sqrt\eta\, \varsigma_*$.
        dimension: $d \ge 1$.
        tau: Constant of weak quasi-convexity, > 0; 1 for convex functions.

    Example:
        >>> instantaneous(t=10, distance=1, noise=0.5, dimension=2).value
        0.3

    Reference:
        UAI 2019, Table 3; Mertikopoulos and Staudigl, *On the convergence of gradient-like flows with noisy gradient
        input*, SIAM J. Optim. 2018. *Differs*: $\bar X$ is divided by $t$ (erratum 10).
    """
    t = times("instantaneous", t, positive=True)
    distance, noise, d, tau = numbers("instantaneous", distance=distance, noise=noise, dimension=dimension, tau=tau)
    return Bound(
        name="instantaneous",
        about=UNIFORM,
        variable="t",
        at=t,
        rate=distance**2 / (2 * tau * t),
        ball=d * noise**2 / (2 * tau),
        theorem="UAI 2019, Table 3, instantaneous forgetting; erratum 10",
        assumptions=(),
        given=(quasi_convex_given(tau), noise_given(noise)),
    )


def exponential(
    *, t: Any, alpha: float, distance: float, gap: float, noise: float, dimension: int, tau: float = 1.0
) -> Bound:
    r"""Exponential memory: a bound for the mean of the path, whose ball does not depend on the memory.

    $$\mathbb{E}[f(\bar X(t)) - f^*] \le \frac{1}{\tau t} \left( \frac{f(x_0) - f^*}{\alpha}
    + \frac{|x_0 - x^*|^2}{2} \right) + \frac{d\, \sigma_*^2}{2 \tau}$$

    with $\bar X(t) = \frac{1}{t} \int_0^t X(s)\,ds$ where $f$ is convex, and $X(s)$ at a time $s$ drawn uniformly from
    $[0, t]$ in its place otherwise. The equation is MG-SDE-exp: $\dot m/m$ is replaced by its limit $\alpha$, and
    $V(0) = 0$.

    Args:
        t: Time, finite and > 0; one or an array.
        alpha: Rate of forgetting, > 0.
        distance: $|x_0 - x^*| \ge 0$.
        gap: $f(x_0) - f^* \ge 0$.
        noise: $\sigma_* \ge 0$, a standard deviation: $\sigma_*^2 = \sup_x \lVert \sigma(x)\sigma(x)^T \rVert$.
        dimension: $d \ge 1$.
        tau: Constant of weak quasi-convexity, > 0; 1 for convex functions.

    Example:
        >>> exponential(t=10, alpha=0.5, distance=1, gap=0.25, noise=0, dimension=1).value
        0.1

    Reference:
        UAI 2019, Theorem D.4 and Table 3. *Differs*: $\bar X$ is divided by $t$ (erratum 10).
    """
    t = times("exponential", t, positive=True)
    alpha, distance, gap, noise, d, tau = numbers(
        "exponential", alpha=alpha, distance=distance, gap=gap, noise=noise, dimension=dimension, tau=tau
    )
    return Bound(
        name="exponential",
        about=UNIFORM,
        variable="t",
        at=t,
        rate=(gap / alpha + distance**2 / 2) / (tau * t),
        ball=d * noise**2 / (2 * tau),
        theorem="UAI 2019, Theorem D.4; erratum 10",
        assumptions=(),
        given=(quasi_convex_given(tau), noise_given(noise)),
    )


def polynomial(
    *,
    t: Any,
    degree: float,
    distance: float,
    noise: float,
    dimension: int,
    tau: float = 1.0,
    start: float = 0.0,
    gap: float | None = None,
    tight: bool = False,
) -> Bound:
    r"""Polynomial memory $m(t) = t^p$: a bound for the last point of the path.

    $$\mathbb{E}[f(X(t)) - f^*] \le \frac{(p-1)^2 |x_0 - x^*|^2}{2 p t} + \frac{p\, d\, \sigma_*^2}{2}, \qquad
    p \ge 1 + \frac{1}{\tau}$$

    Convex functions need $p \ge 2$. Started at $\epsilon > 0$ with $X(\epsilon) = x_0$ and $V(\epsilon) = 0$, the
    rate grows by $\epsilon\,(f(x_0) - f^*)/t$, and the ball is multiplied by $(t - \epsilon)/t$.

    `tight` chooses the best Lyapunov function for each $t$: the one with $\lambda(s) = \frac{s}{p-1} + c\, s^p$ and the
    largest $c$ that the master inequality admits up to $t$. With $y = \frac{(\tau+2)(p-1)}{2p-1} - 1 \ge 0$ it divides
    the rate by $(1+y)^2$, and multiplies the ball by $(1 + \frac{2y}{p} + \frac{y^2}{2p-1})/(1+y)^2$. For large $p$
    both shrink to about $4/(\tau+2)^2$ of their size; at $p = 1 + 1/\tau$ nothing changes.

    Args:
        t: Time, finite, > 0 and not before `start`; one or an array.
        degree: $p \ge 1 + 1/\tau$.
        distance: $|x_0 - x^*| \ge 0$.
        noise: $\sigma_* \ge 0$, a standard deviation: $\sigma_*^2 = \sup_x \lVert \sigma(x)\sigma(x)^T \rVert$.
        dimension: $d \ge 1$.
        tau: Constant of weak quasi-convexity, > 0; 1 for convex functions, 2 for quadratics.
        start: $\epsilon \ge 0$, the time at which the equation starts.
        gap: $f(x_0) - f^* \ge 0$, required if `start` is not 0.
        tight: Whether to take the best Lyapunov function for each $t$, instead of the paper's; `start` must be 0.

    Example:
        >>> polynomial(t=10, degree=2, distance=1, noise=0.5, dimension=3).value
        0.775
        >>> loose = polynomial(t=10, degree=8, distance=1, noise=1, dimension=1)
        >>> tight = polynomial(t=10, degree=8, distance=1, noise=1, dimension=1, tight=True)
        >>> loose.ball, round(tight.ball, 3)
        (4.0, 2.267)
        >>> polynomial(t=10, degree=1.5, distance=1, noise=0.5, dimension=3)
        Traceback (most recent call last):
        ...
        memgrad.theory.bound.AssumptionError: polynomial needs p >= 1 + 1/tau = 2, got p = 1.5: take a larger degree.

    Reference:
        UAI 2019, Theorem D.3, the remark after it (on the start), and Table 3. `tight` is ours, from Lemma D.2.
    """
    t = times("polynomial", t, positive=True)
    p, distance, noise, d, tau, start = numbers(
        "polynomial", degree=degree, distance=distance, noise=noise, dimension=dimension, tau=tau, start=start
    )
    checked = [assume("polynomial", "p >= 1 + 1/tau", p, 1 + 1 / tau, otherwise="take a larger degree")]
    gap = gap_at_start("polynomial", gap, start)
    if start > 0:
        checked.append(assume_after_start("polynomial", float(t.min()), start))
    y = 0.0  # c s^p in units of s/(p-1), at the last time
    theorem = "UAI 2019, Theorem D.3" + (" and the remark after it" if start > 0 else "")
    if tight:
        if start > 0:
            raise ValueError(
                f"polynomial has a tight form only for start=0, got start={start:g}: use master with a lam."
            )
        y = max((tau + 2) * (p - 1) / (2 * p - 1) - 1, 0.0)
        theorem = "UAI 2019, Lemma D.2, with the largest lambda(s) = s/(p-1) + c s^p"
    return Bound(
        name="polynomial",
        about=LAST,
        variable="t",
        at=t,
        rate=(p - 1) ** 2 * distance**2 / (2 * p * t) / (1 + y) ** 2 + start * gap / t,
        ball=p * d * noise**2 / 2 * ((t - start) / t) * (1 + 2 * y / p + y**2 / (2 * p - 1)) / (1 + y) ** 2,
        theorem=theorem,
        assumptions=tuple(checked),
        given=(quasi_convex_given(tau), noise_given(noise)),
    )


def gap_at_start(owner: str, gap: float | None, start: float) -> float:
    """The gap f(x0) - f*, which is needed only for a start after 0."""
    if gap is not None:
        return numbers(owner, gap=gap)[0]
    if start > 0:
        raise ValueError(f"{owner} started at {start:g} needs the gap f(x0) - f* as well: give gap, or start at 0.")
    return 0.0


def assume_after_start(owner: str, earliest: float, start: float) -> str:
    """The statement that no time lies before the start."""
    return assume(owner, "t >= start", earliest, start, otherwise="ask for later times, or start earlier")
