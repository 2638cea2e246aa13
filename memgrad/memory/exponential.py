"""Exponential memory: the family of Adam's averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from memgrad.memory.base import Data, Memory
from memgrad.memory.kinds import Floats, as_real, namespace_of
from memgrad.memory.passport import Progress, Statistics


@final
@dataclass(frozen=True, repr=False)
class Exponential(Memory):
    r"""Short memory: $m(t) = e^{\alpha t} - 1$, $b_k = \beta (1-\beta^k)/(1-\beta^{k+1})$, $\beta = e^{-\alpha h}$.

    This is Adam's bias-corrected average, exactly: an exponential moving average of decay $\beta$ divided by
    $1 - \beta^{k+1}$.

    Args:
        beta: Long-run decay, 0 < beta < 1.
        h: Time between two steps, finite and > 0. It only relates the steps $k$ to the times $t = kh$.

    Example:
        >>> Exponential(0.5).weights(2) * 7
        array([1., 2., 4.])
        >>> Exponential.from_alpha(10.0, h=0.01).beta
        0.9048374180359595

    Reference:
        UAI 2019, eq. HB-sum_modified and Table 2. Kingma and Ba, *Adam*, ICLR 2015.
    """

    beta: float
    h: float = field(default=1.0, kw_only=True)
    alpha: float = field(init=False)

    family: ClassVar[str] = "exp"
    example: ClassVar[str] = "exp:0.9"
    formula: ClassVar[str] = "e^(alpha t) - 1"
    decay_formula: ClassVar[str] = "beta(1-beta^k)/(1-beta^(k+1))"

    def __post_init__(self) -> None:
        beta = as_real("Exponential memory", "beta", self.beta, "0 < beta < 1 (Instantaneous() is beta = 0)", below=1.0)
        h = as_real("Exponential memory", "h", self.h, "a finite time step h > 0")
        alpha = as_real("Exponential memory", "alpha", -namespace_of(beta).log(beta) / h, "a finite -log(beta)/h")
        self._set(beta=beta, h=h, alpha=alpha)

    @classmethod
    def from_alpha(cls, alpha: float, h: float = 1.0) -> Exponential:
        r"""The exponential memory with forgetting rate $\alpha$, sampled every $h$: $\beta = e^{-\alpha h}$.

        The result is exact even where $\beta$ rounds to 1 or to 0, because $\alpha h$ is kept.

        Args:
            alpha: Rate of forgetting, finite and > 0.
            h: Time between two steps, finite and > 0.

        Example:
            >>> Exponential.from_alpha(1e-20).fresh(3)
            0.25
        """
        alpha = as_real("Exponential memory", "alpha", alpha, "a finite forgetting rate alpha > 0")
        h = as_real("Exponential memory", "h", h, "a finite time step h > 0")
        as_real(
            "Exponential memory", "alpha*h", alpha * h, "a product alpha*h that is neither 0 nor infinite in floats"
        )
        memory = object.__new__(cls)
        memory._set(beta=namespace_of(alpha).exp(-alpha * h), h=h, alpha=alpha)
        return memory

    def _decay(self, k: Any, xp: Any) -> Any:
        x = self.alpha * self.h
        return self.beta * (xp.expm1(-x * k) / xp.expm1(-x * (k + 1)))

    def _fresh(self, k: Any, xp: Any) -> Any:
        x = self.alpha * self.h
        # The numerator has the precision of the denominator, so that their ratio is exactly 1 at k = 0.
        return xp.expm1(-x * (k * 0.0 + 1)) / xp.expm1(-x * (k + 1))

    def _cold(self, k: Any, xp: Any) -> Any:
        return -xp.expm1(-self.alpha * self.h * (k + 1))  # the weights of the average that starts from 0

    def _m(self, t: Any, xp: Any) -> Any:
        return xp.expm1(self.alpha * t)

    def _dm(self, t: Any, xp: Any) -> Any:
        return self.alpha * xp.exp(self.alpha * t)

    def _rate(self, t: Any, xp: Any) -> Any:
        return over_one_minus_exp(self.alpha * t, xp) / t

    def _influence(self, s: Any, t: Any, xp: Any) -> Any:
        return xp.exp(-self.alpha * (t - s)) * self._rate(t, xp)

    def _statistics(self, k: int, progress: Progress | None) -> Statistics:
        x = self.alpha * self.h
        if x >= 0.25:
            mean_age = 1 / Floats.expm1(x) - (k + 1) / Floats.expm1((k + 1) * x)
        else:  # the poles 1/x of the two terms cancel, so they are left out
            mean_age = _exp_sum_remainder(x) - (k + 1) * _exp_sum_remainder((k + 1) * x)

        return Statistics(mean_age, self._half_life(k), math.tanh(x / 2) / math.tanh((k + 1) * x / 2))

    def _half_life(self, k: int) -> int:
        r"""The smallest a with $M_{k-a} \le M_{k+1}/2$, or $\beta^{a+1} \le (1 + \beta^{k+1})/2$, in many digits."""
        from decimal import Decimal, localcontext  # only this needs it

        known = self._is_known_by_alpha()
        with localcontext() as context:
            # 30 digits more than it takes to tell beta^(k+1) from 1.
            context.prec = 50 + max(0, -math.frexp(self.alpha * self.h)[1])
            x = Decimal(self.alpha) * Decimal(self.h) if known else -Decimal(self.beta).ln()
            age = (2 / (1 + (-x * (k + 1)).exp())).ln() / x
            return max(0, math.ceil(age) - 1)

    def _parameters(self) -> Data:
        data: Data = {"alpha": self.alpha} if self._is_known_by_alpha() else {"beta": self.beta}
        return data if self.h == 1 else {**data, "h": self.h}

    @classmethod
    def _parameter_names(cls) -> Sequence[str]:
        return ["beta", "alpha", "h"]

    @classmethod
    def _from_parameters(cls, parameters: Data) -> Memory:
        if "alpha" not in parameters:
            return cls(**parameters)
        if "beta" in parameters:
            raise ValueError(f"Exponential memory takes beta or alpha, not both, got {parameters!r}.")
        return cls.from_alpha(**parameters)

    def _is_known_by_alpha(self) -> bool:
        return not 0 < self.beta < 1 or Exponential(self.beta, h=self.h) != self

    def __repr__(self) -> str:
        if self._is_known_by_alpha():
            return f"Exponential.from_alpha({self.alpha!r}, h={self.h!r})"
        return f"Exponential(beta={self.beta!r}" + ("" if self.h == 1 else f", h={self.h!r}") + ")"


def _exp_sum_remainder(y: float) -> float:
    r"""$1/(e^y - 1) - 1/y$ for $y > 0$: near 0 its Taylor series (Bernoulli numbers), where the terms would cancel."""
    if y >= 0.25:
        return 1 / Floats.expm1(y) - 1 / y
    z = y * y
    return -0.5 + y * (1 / 12 - z * (1 / 720 - z * (1 / 30240 - z * (1 / 1209600 - z / 47900160))))


def over_one_minus_exp(y: Any, xp: Any) -> Any:
    """The quotient y / (1 - e^-y), which is 1 at y = 0."""
    y = xp.where(y == 0, 1e-30, y)  # the value at a y that underflows, instead of 0/0
    return y / -xp.expm1(-y)
