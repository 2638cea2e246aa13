r"""Heavy-ball with constant momentum, the rows of the paper's Table 1, with the constants that it leaves out.

The method is $x_{k+1} = x_k + \beta (x_k - x_{k-1}) - \eta\, g_k$, $x_{-1} = x_0$. In the long run exponential memory
is heavy-ball with the learning rate $(1-\beta)\,\eta$.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from memgrad.theory.bound import CONVEX, Bound, assume, assume_start, covariance_given
from memgrad.theory.quantities import numbers, steps

AVERAGE = "E f(mean of x_0, ..., x_k) - f*"


@dataclass(frozen=True)
class Polyak:
    r"""Polyak's heavy-ball: the best constant learning rate and momentum for quadratics; see `polyak`.

    Args:
        lr: $\eta = 4/(\sqrt L + \sqrt\mu)^2$.
        momentum: $\beta = q^2$.
        q: $(\sqrt L - \sqrt\mu)/(\sqrt L + \sqrt\mu)$: the distance shrinks by this factor per step, asymptotically.
        memory_step: $h = 1/\sqrt{\mu L}$, the time step for which MG-SDE-exp becomes the method.
        memory_alpha: Its rate of forgetting, $\alpha = 4 L \mu/(\sqrt L + \sqrt\mu)^2$.
        heavy_ball_step: $h = 2/(\sqrt L + \sqrt\mu)$, the time step for which HB-SDE becomes the method.
        heavy_ball_alpha: Its viscosity, $\alpha = 2 \sqrt{L\mu}/(\sqrt L + \sqrt\mu)$.
    """

    lr: float
    momentum: float
    q: float
    memory_step: float
    memory_alpha: float
    heavy_ball_step: float
    heavy_ball_alpha: float


def polyak(*, smoothness: float, strong_convexity: float) -> Polyak:
    r"""Polyak's parameters and their rate $q = \frac{\sqrt L - \sqrt\mu}{\sqrt L + \sqrt\mu}$ on quadratics.

    For functions that are only strongly convex and smooth the rate is local: it needs a second derivative and a start
    near the minimizer. Both equations of the appendix, discretized with the right step, are this method exactly.

    Args:
        smoothness: $L$, > 0.
        strong_convexity: $\mu$, > 0 and at most $L$.

    Example:
        >>> best = polyak(smoothness=4, strong_convexity=1)
        >>> best.q, best.lr, best.momentum
        (0.3333333333333333, 0.4444444444444444, 0.1111111111111111)

    Reference:
        UAI 2019, Table 1 and the end of App. D.3; Polyak, USSR Comp. Math. 1964. *Differs*: the viscosities are not in
        the paper, and its comparison of the rates is the wrong way round (erratum 39).
    """
    big, small = numbers("polyak", smoothness=smoothness, strong_convexity=strong_convexity)
    assume("polyak", "mu <= L", small, big, otherwise="strong convexity cannot exceed smoothness")
    root, other = math.sqrt(big), math.sqrt(min(small, big))
    total = root + other
    q = (root - other) / total
    return Polyak(
        lr=4 / total**2,
        momentum=q**2,
        q=q,
        memory_step=1 / (root * other),
        memory_alpha=4 * (root * other / total) ** 2,
        heavy_ball_step=2 / total,
        heavy_ball_alpha=2 * root * other / total,
    )


def heavy_ball(
    *,
    k: Any,
    lr: float,
    momentum: float,
    smoothness: float,
    distance: float,
    gap: float,
    noise: float,
    dimension: int,
) -> Bound:
    r"""Heavy-ball on convex smooth functions: a bound for the mean of the iterates.

    $$\mathbb{E}[f(\bar x_k) - f^*] \le \frac{1}{k+1} \left( \frac{\beta}{1-\beta} (f(x_0) - f^*)
    + \frac{1-\beta}{2\eta} |x_0 - x^*|^2 \right) + \frac{d\, \eta\, \varsigma_*^2}{2 (1-\beta)}, \qquad
    \eta \le \frac{1-\beta}{L}$$

    where $\bar x_k = \frac{1}{k+1} \sum_{j=0}^{k} x_j$. It bounds the mean of $\mathbb{E}[f(x_j) - f^*]$ as well.

    Args:
        k: Step, an integer >= 0; one or an array.
        lr: $\eta$, > 0 and at most $(1-\beta)/L$.
        momentum: $\beta$, >= 0 and < 1.
        smoothness: $L$, > 0.
        distance: $|x_0 - x^*| \ge 0$.
        gap: $f(x_0) - f^* \ge 0$.
        noise: $\varsigma_* \ge 0$, a standard deviation: $\varsigma_*^2$ bounds the variance of the gradient noise in
            each direction. It is 0 in Table 1.
        dimension: $d \ge 1$.

    Example:
        >>> heavy_ball(k=99, lr=0.5, momentum=0.5, smoothness=1, distance=1, gap=0.5, noise=0, dimension=1).value
        0.01

    Reference:
        UAI 2019, Table 1; Ghadimi, Feyzmahdavian and Johansson, ECC 2015. *Differs*: their bound has
        $\frac{L}{2} |x_0 - x^*|^2$ for the gap and no noise.
    """
    k = steps("heavy_ball", k)
    lr, beta, big = numbers("heavy_ball", lr=lr, momentum=momentum, smoothness=smoothness)
    distance, gap, noise, d = numbers("heavy_ball", distance=distance, gap=gap, noise=noise, dimension=dimension)
    checked = (
        assume("heavy_ball", "lr <= (1-beta)/L", lr, (1 - beta) / big, otherwise="take a smaller lr or momentum"),
        assume_start(
            "heavy_ball", "gap <= L/2 distance^2", gap, big / 2 * distance**2, f"L = {big:g}", "larger smoothness"
        ),
    )
    return Bound(
        name="heavy_ball",
        about=AVERAGE,
        variable="k",
        at=k,
        rate=(beta / (1 - beta) * gap + (1 - beta) / (2 * lr) * distance**2) / (k + 1),
        ball=d * lr * noise**2 / (2 * (1 - beta)),
        theorem="UAI 2019, Table 1 (Ghadimi et al. 2015), with noise",
        assumptions=checked,
        given=(CONVEX, covariance_given(noise)),
    )


def heavy_ball_bounded(
    *,
    k: Any,
    lr: float,
    momentum: float,
    gradient: float,
    distance: float,
    gap: float,
    noise: float,
    dimension: int,
) -> Bound:
    r"""Heavy-ball on convex functions with bounded gradients: a bound for the mean iterate, at any learning rate.

    $$\mathbb{E}[f(\bar x_k) - f^*] \le \frac{1}{k+1} \left( \frac{\beta}{1-\beta} (f(x_0) - f^*)
    + \frac{1-\beta}{2\eta} |x_0 - x^*|^2 \right) + \frac{\eta\, (G^2 + d\, \varsigma_*^2)}{2 (1-\beta)}$$

    Smoothness is not needed. With $\eta$ proportional to $1/\sqrt{k+1}$, chosen for the last step $k$, the whole bound
    is $\mathcal{O}(1/\sqrt k)$.

    Args:
        k: Step, an integer >= 0; one or an array.
        lr: $\eta$, > 0.
        momentum: $\beta$, >= 0 and < 1.
        gradient: $G \ge 0$, the largest norm of the exact gradient.
        distance: $|x_0 - x^*| \ge 0$.
        gap: $f(x_0) - f^* \ge 0$, at most $G |x_0 - x^*|$.
        noise: $\varsigma_* \ge 0$, a standard deviation: $\varsigma_*^2$ bounds the variance of the gradient noise in
            each direction.
        dimension: $d \ge 1$.

    Example:
        >>> heavy_ball_bounded(k=99, lr=0.1, momentum=0.5, gradient=1, distance=1, gap=1, noise=0, dimension=1).value
        0.135

    Reference:
        UAI 2019, Table 1; Yang, Lin and Li, *Unified convergence analysis of stochastic momentum methods*, 2016.
    """
    k = steps("heavy_ball_bounded", k)
    lr, beta, big = numbers("heavy_ball_bounded", lr=lr, momentum=momentum, gradient=gradient)
    distance, gap, noise, d = numbers(
        "heavy_ball_bounded", distance=distance, gap=gap, noise=noise, dimension=dimension
    )
    has, statement = f"|gradient| <= {big:g}", "gap <= G distance"
    checked = assume_start("heavy_ball_bounded", statement, gap, big * distance, has, "larger gradient")
    return Bound(
        name="heavy_ball_bounded",
        about=AVERAGE,
        variable="k",
        at=k,
        rate=(beta / (1 - beta) * gap + (1 - beta) / (2 * lr) * distance**2) / (k + 1),
        ball=lr * (big**2 + d * noise**2) / (2 * (1 - beta)),
        theorem="UAI 2019, Table 1 (Yang et al. 2016)",
        assumptions=(checked,),
        given=(f"f is convex and |grad f(x)| <= {big:g} for all x", covariance_given(noise)),
    )


def heavy_ball_gradient(
    *,
    k: Any,
    lr: float,
    momentum: float,
    smoothness: float,
    gradient: float,
    gap: float,
    noise: float,
    dimension: int,
) -> Bound:
    r"""Heavy-ball on functions that need not be convex: a bound for the smallest expected squared gradient.

    $$\min_{j \le k} \mathbb{E} |\nabla f(x_j)|^2 \le \frac{2 (1-\beta)}{\eta\,(k+1)} (f(x_0) - f^*)
    + \frac{L \eta}{1-\beta} \left( d\, \varsigma_*^2
    + \frac{\beta^2 (G^2 + d\, \varsigma_*^2)}{(1-\beta)^2} \right), \qquad
    \eta \le \frac{1-\beta}{2L}$$

    With $\eta$ proportional to $1/\sqrt{k+1}$, chosen for the last step $k$, it is $\mathcal{O}(1/\sqrt k)$.

    Args:
        k: Step, an integer >= 0; one or an array.
        lr: $\eta$, > 0 and at most $(1-\beta)/(2L)$.
        momentum: $\beta$, >= 0 and < 1.
        smoothness: $L$, > 0.
        gradient: $G \ge 0$, the largest norm of the exact gradient.
        gap: $f(x_0) - f^* \ge 0$, where $f^*$ is any lower bound of $f$.
        noise: $\varsigma_* \ge 0$, a standard deviation: $\varsigma_*^2$ bounds the variance of the gradient noise in
            each direction.
        dimension: $d \ge 1$.

    Example:
        >>> bound = heavy_ball_gradient(
        ...     k=99, lr=0.25, momentum=0.5, smoothness=1, gradient=0, gap=1, noise=0, dimension=1
        ... )
        >>> bound.value
        0.04

    Reference:
        UAI 2019, Table 1; Yang, Lin and Li, *Unified convergence analysis of stochastic momentum methods*, 2016.
    """
    k = steps("heavy_ball_gradient", k)
    lr, beta, big = numbers("heavy_ball_gradient", lr=lr, momentum=momentum, smoothness=smoothness)
    slope, gap, noise, d = numbers("heavy_ball_gradient", gradient=gradient, gap=gap, noise=noise, dimension=dimension)
    limit = (1 - beta) / (2 * big)
    checked = assume("heavy_ball_gradient", "lr <= (1-beta)/(2L)", lr, limit, otherwise="take a smaller lr or momentum")
    s = lr / (1 - beta)  # the step of x_k + beta/(1-beta) (x_k - x_{k-1}), which moves like plain SGD
    variance = d * noise**2
    return Bound(
        name="heavy_ball_gradient",
        about="the least E |grad f(x_j)|^2 over j <= k",
        variable="k",
        at=k,
        rate=2 * gap / (s * (k + 1)),
        ball=big * s * (variance + beta**2 * (slope**2 + variance) / (1 - beta) ** 2),
        theorem="UAI 2019, Table 1 (Yang et al. 2016)",
        assumptions=(checked,),
        given=(f"f is L-smooth and |grad f(x)| <= {slope:g} for all x", covariance_given(noise)),
    )
