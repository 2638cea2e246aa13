"""Which memory and which learning rate the MemSGD-p theorem recommends for a budget of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from memgrad.theory.bound import AssumptionError, Bound, assume
from memgrad.theory.discrete import memsgd
from memgrad.theory.quantities import numbers


@dataclass(frozen=True, eq=False)
class Advice:
    """The degree and learning rate for which the bound of MemSGD-p is smallest.

    Args:
        degree: The degree p to use.
        lr: The learning rate to use.
        steps: The budget.
        bound: The bound of `memsgd` after that many steps.
        why: The reason, in words.

    Example:
        >>> advice = best_lr(distance=1, noise=1, dimension=100, steps=10_000, smoothness=1)
        >>> print(advice)
        p = 2 with lr = 0.0005: E f(x_k) - f* <= 0.0999900009999 after 10000 steps
        p = 2 is the smallest degree of the theorem, and the bound grows with p for every lr.
        lr = (p-1)/p distance/(noise sqrt(d steps)), where rate and ball are equal.
    """

    degree: float
    lr: float
    steps: int
    bound: Bound
    why: str

    def to_dict(self) -> dict[str, Any]:
        """The advice as plain data.

        Example:
            >>> best_lr(distance=1, noise=0, dimension=1, steps=9, smoothness=1).to_dict()["lr"]
            0.5
        """
        return {**vars(self), "bound": self.bound.to_dict()}

    def __str__(self) -> str:
        first = f"p = {self.degree:.6g} with lr = {self.lr:.6g}: {self.bound.about} <= {self.bound.value:.12g}"
        return f"{first} after {self.steps} steps\n{self.why}"


def best_degree(
    *, lr: float, distance: float, noise: float, dimension: int, steps: int, smoothness: float | None = None
) -> Advice:
    r"""The degree $p \ge 2$ that makes the bound of MemSGD-p smallest after `steps` steps at this learning rate.

    It is always the smallest that the theorem admits, $p = \max(2, 1/(1 - \eta L))$. With $k$ steps,
    $A = |x_0-x^*|^2/(2\eta)$ and $N = \frac{1}{2} d\, \eta\, \varsigma_*^2 k$ the bound is
    $(A (p-1)^2/p + N p)/(k+p-1)$. Its derivative in $p$ has the sign of
    $((A+N)(k-1) + 2A)\, p^2 - 2 A p - A (k-1)$, which is $N (k-1) \ge 0$ at $p = 1$ and grows from there. So the
    theorem asks for a shorter memory than $p = 2$ only to allow a larger learning rate. The theory page of the
    documentation shows where this advice is wrong.

    Args:
        lr: $\eta$, > 0, and below $1/L$.
        distance: $|x_0 - x^*| \ge 0$.
        noise: $\varsigma_* \ge 0$, a standard deviation: $\varsigma_*^2$ bounds the variance of the gradient noise in
            each direction.
        dimension: $d \ge 1$.
        steps: The budget $k \ge 1$.
        smoothness: $L$, > 0, or `None` if it is not known; the advice then says for which $L$ it holds.

    Example:
        >>> best_degree(lr=0.1, distance=1, noise=1, dimension=1, steps=1000, smoothness=1).degree
        2.0
        >>> best_degree(lr=0.75, distance=1, noise=1, dimension=1, steps=1000, smoothness=1).degree
        4.0

    Reference:
        UAI 2019, Theorem E.2. The minimization is ours.
    """
    owner = "best_degree"
    lr, distance, noise, d, k = numbers(owner, lr=lr, distance=distance, noise=noise, dimension=dimension, steps=steps)
    p, why = 2.0, "p = 2 is the smallest degree of the theorem, and the bound grows with p at a given lr."
    if smoothness is not None:
        (smoothness,) = numbers(owner, smoothness=smoothness)
        if lr * smoothness >= 1:
            raise AssumptionError(
                f"best_degree needs lr < 1/L = {1 / smoothness:.6g}, got lr = {lr:.6g}: no degree admits it, because "
                f"(p-1)/(p L) stays below 1/L; take a smaller lr."
            )
        least = 1 / (1 - lr * smoothness)
        if least > p:
            p, why = least, f"p = {least:.6g} is the smallest degree that admits lr = {lr:.6g}, p = 1/(1 - lr L)."
    bound = memsgd(k=k, degree=p, lr=lr, smoothness=smoothness, distance=distance, noise=noise, dimension=int(d))
    return Advice(p, lr, int(k), bound, why + _unchecked(bound, smoothness))


def best_lr(
    *,
    distance: float,
    noise: float,
    dimension: int,
    steps: int,
    degree: float | None = None,
    smoothness: float | None = None,
) -> Advice:
    r"""The learning rate that makes the bound of MemSGD-p smallest after `steps` steps, and the degree if not given.

    With $\hat\eta = \frac{p}{p-1} \eta \le 1/L$ the bound is a product,

    $$\frac{p-1}{k+p-1} \left( \frac{|x_0-x^*|^2}{2 \hat\eta} + \frac{d\, \hat\eta\, \varsigma_*^2 k}{2} \right),$$

    so the two choices do not depend on each other: $p = 2$, and

    $$\hat\eta = \min \left( \frac{|x_0-x^*|}{\varsigma_* \sqrt{d k}}, \frac{1}{L} \right).$$

    Where the first term decides, rate and ball are equal and the bound is
    $\frac{p-1}{k+p-1} |x_0-x^*|\, \varsigma_* \sqrt{d k}$.

    Args:
        distance: $|x_0 - x^*|$, > 0.
        noise: $\varsigma_* \ge 0$, a standard deviation: $\varsigma_*^2$ bounds the variance of the gradient noise in
            each direction.
        dimension: $d \ge 1$.
        steps: The budget $k \ge 1$.
        degree: $p \ge 2$, or `None` to choose it too.
        smoothness: $L$, > 0, or `None` if it is not known; the advice then says for which $L$ it holds.

    Example:
        >>> advice = best_lr(distance=1, noise=1, dimension=1, steps=100, smoothness=1)
        >>> advice.degree, advice.lr
        (2.0, 0.05)

    Reference:
        UAI 2019, Theorem E.2. The minimization is ours.
    """
    owner = "best_lr"
    distance, noise, d, k = numbers(owner, distance=distance, noise=noise, dimension=dimension, steps=steps)
    if distance == 0:
        raise ValueError("best_lr needs distance > 0, got distance=0: from the minimizer, each step only adds noise.")
    reasons = []
    if degree is None:
        p = 2.0
        reasons.append("p = 2 is the smallest degree of the theorem, and the bound grows with p for every lr.")
    else:
        (p,) = numbers(owner, degree=degree)
        assume(owner, "p >= 2", p, 2.0, otherwise="take a larger degree, or None to have it chosen")
    balanced = distance / (noise * math.sqrt(d * k)) if noise > 0 else math.inf
    if smoothness is None and noise == 0:
        raise ValueError("best_lr needs smoothness if noise=0: the bound then falls as lr grows, up to (p-1)/(p L).")
    largest = math.inf if smoothness is None else 1 / numbers(owner, smoothness=smoothness)[0]
    if balanced <= largest:
        reasons.append("lr = (p-1)/p distance/(noise sqrt(d steps)), where rate and ball are equal.")
    else:
        reasons.append("lr = (p-1)/(p L) is the largest of the theorem, and there is too little noise to take less.")
    lr = (p - 1) / p * min(balanced, largest)
    bound = memsgd(k=k, degree=p, lr=lr, smoothness=smoothness, distance=distance, noise=noise, dimension=int(d))
    return Advice(p, lr, int(k), bound, "\n".join(reasons) + _unchecked(bound, smoothness))


def _unchecked(bound: Bound, smoothness: float | None) -> str:
    return "" if smoothness is not None else f"\nThis holds for {bound.given[1]}."
