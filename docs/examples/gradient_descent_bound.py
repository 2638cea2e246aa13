"""A bound written by hand: gradient descent without noise."""

from typing import Any

from memgrad.theory import Bound
from memgrad.theory.bound import assume
from memgrad.theory.quantities import numbers, steps


def gradient_descent(*, k: Any, lr: float, smoothness: float, distance: float) -> Bound:
    r"""Gradient descent on a convex function: $f(x_k) - f^* \le D^2/(2 \eta k)$.

    Args:
        k: Steps, >= 1; one or an array.
        lr: Learning rate $\eta$, > 0.
        smoothness: $L > 0$.
        distance: $D = |x_0 - x^*| \ge 0$.
    """
    k = steps("gradient_descent", k)
    lr, smoothness, distance = numbers("gradient_descent", lr=lr, smoothness=smoothness, distance=distance)
    checked = assume("gradient_descent", "lr <= 1/L", lr, 1 / smoothness, otherwise="take a smaller learning rate")
    return Bound(
        name="gradient_descent",
        about="f(x_k) - f*",
        variable="k",
        at=k,
        rate=distance**2 / (2 * lr * k),
        ball=0.0,
        theorem="Beck and Teboulle 2009, Theorem 3.1",
        assumptions=(checked,),
        given=("f is convex and L-smooth",),
    )
