"""What a bound is: a number with the theorem it comes from and the assumptions under which it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memgrad.kinds import Array

Values = float | Array

CONVEX = "f is convex and L-smooth (H1)"

# Two ways to compute the same limit differ by rounding; a value within it counts as at the limit.
ROUNDING = 1e-12


class AssumptionError(ValueError):
    """An assumption of a theorem does not hold for the numbers given, so the theorem says nothing about them."""


@dataclass(frozen=True, eq=False)
class Bound:
    r"""A proven upper bound, as a value: the number, its two parts, and what it rests on.

    `value = rate + ball`: the *rate* is the effect of the start, which vanishes with time, and the *ball* is the effect
    of the noise, which stays. They are floats for a single time or step, and arrays for an array of times or steps.

    Args:
        name: The function of `memgrad.theory` that made it.
        about: The quantity that it bounds.
        variable: `t` for continuous time, `k` for steps.
        at: The times or steps.
        rate: The part that the start contributes.
        ball: The part that the noise contributes.
        theorem: Where it is proved, and the erratum where the printed form is corrected.
        assumptions: What was checked, with the numbers put in.
        given: What cannot be checked from numbers and is assumed to hold.

    Example:
        >>> from memgrad.theory import polynomial
        >>> bound = polynomial(t=10, degree=2, distance=1, noise=0.5, dimension=3)
        >>> bound.value, bound.rate, bound.ball
        (0.775, 0.025, 0.75)
        >>> print(bound)
        E f(X(t)) - f* <= 0.775 at t = 10
          rate      0.025
          ball      0.75
          theorem   UAI 2019, Theorem D.3
          checked   p >= 1 + 1/tau (2 >= 2)
          given     f is smooth and tau-weakly quasi-convex (H1') with tau = 1
          given     |sigma(x) sigma(x)^T| <= noise^2 = 0.25 for all x (H0c)
    """

    name: str
    about: str
    variable: str
    at: Values
    rate: Values
    ball: Values
    theorem: str
    assumptions: tuple[str, ...]
    given: tuple[str, ...]
    value: Values = field(init=False)

    def __post_init__(self) -> None:
        at, rate, ball = np.broadcast_arrays(self.at, self.rate, self.ball)
        parts = {"at": at, "rate": rate, "ball": ball, "value": rate + ball}
        for name, part in parts.items():
            values = np.array(part, dtype=np.float64)
            values.setflags(write=False)  # frozen, as the rest
            object.__setattr__(self, name, values.item() if values.ndim == 0 else values)

    def to_dict(self) -> dict[str, Any]:
        """The bound as plain data, arrays as lists.

        Example:
            >>> from memgrad.theory import memsgd
            >>> bound = memsgd(k=[0, 9], degree=2, lr=0.5, smoothness=1, distance=1, noise=0, dimension=1)
            >>> bound.to_dict()["value"]
            [0.5, 0.05]
        """
        numbers = {name: getattr(self, name) for name in ("at", "value", "rate", "ball")}
        return {
            "name": self.name,
            "about": self.about,
            "variable": self.variable,
            **{name: part if isinstance(part, float) else part.tolist() for name, part in numbers.items()},
            "theorem": self.theorem,
            "assumptions": list(self.assumptions),
            "given": list(self.given),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Each entry as (what it is, its text), ready to print.

        Example:
            >>> from memgrad.theory import instantaneous
            >>> instantaneous(t=1, distance=1, noise=1, dimension=1).rows()[0]
            ('rate', '0.5')
        """
        return [
            ("rate", _text(self.rate)),
            ("ball", _text(self.ball)),
            ("theorem", self.theorem),
            *(("checked", statement) for statement in self.assumptions),
            *(("given", statement) for statement in self.given),
        ]

    def __str__(self) -> str:
        first = f"{self.about} <= {_text(self.value)} at {self.variable} = {_text(self.at)}"
        return "\n".join([first, *(f"  {what:<9} {text}" for what, text in self.rows())])


def _text(values: Values) -> str:
    if isinstance(values, float):
        return f"{values:.6g}"
    flat = [f"{value:.6g}" for value in values.flat]
    return ", ".join(flat if len(flat) <= 6 else [*flat[:3], "...", *flat[-2:]])


def assume(owner: str, statement: str, value: float, limit: float, *, otherwise: str) -> str:
    """The statement with its numbers; raises an `AssumptionError` with the statement and the way out, `otherwise`.

    The statement is `name >= rule` or `name <= rule`, where `rule` has the value `limit`.
    """
    name, relation, rule = statement.split(" ", 2)
    slack = ROUNDING * abs(limit)
    if not (value >= limit - slack if relation == ">=" else value <= limit + slack):
        equals = "" if rule == f"{limit:g}" else f" = {limit:.6g}"
        raise AssumptionError(f"{owner} needs {statement}{equals}, got {name} = {value:.6g}: {otherwise}.")
    return f"{statement} ({value:.6g} {relation} {limit:.6g})"


def assume_start(owner: str, statement: str, gap: float, limit: float, has: str, change: str) -> str:
    """The statement that some function that `has` a property can have the gap f(x0) - f* at the distance |x0 - x*|."""
    way_out = (
        f"no function with {has} has such a start; give gap = f(x0) - f* and distance = |x0 - x*| of the same x0, or "
        f"a {change}"
    )
    return assume(owner, statement, gap, limit, otherwise=way_out)


def assume_growth(owner: str, letter: str, constant: float, gap: float, distance: float) -> str:
    """The same for a function that grows at least like constant/2 |x - x*|^2."""
    has, limit = f"{letter} = {constant:g}", constant / 2 * distance**2
    return assume_start(owner, f"gap >= {letter}/2 distance^2", gap, limit, has, f"smaller {letter}")


def noise_given(noise: float) -> str:
    """(H0c), with its number."""
    return f"|sigma(x) sigma(x)^T| <= noise^2 = {noise**2:g} for all x (H0c)"


def covariance_given(noise: float) -> str:
    """(H0d), with its number."""
    return f"the covariance of the stochastic gradient is <= noise^2 = {noise**2:g} in every direction (H0d)"


def quasi_convex_given(tau: float) -> str:
    """(H1'), with its number."""
    return f"f is smooth and tau-weakly quasi-convex (H1') with tau = {tau:g}"
