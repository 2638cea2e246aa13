"""The families of memories. A new one is a class here, its place in `FAMILIES`, and its row in the test table.

`Exponential` is in a file of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from memgrad.memory.base import Memory
from memgrad.memory.exponential import over_one_minus_exp
from memgrad.memory.kinds import Floats, as_real, is_traced
from memgrad.memory.long_past import WALKED, first_true
from memgrad.memory.passport import Progress, Statistics


@final
@dataclass(frozen=True)
class Polynomial(Memory):
    r"""Long memory: $m(t) = t^p$, hence $\dot m/m = p/t$, and $b_k = k/(k+p)$ for $k = 0, 1, \dots$

    $p = 1$ is the plain average of all past gradients. A larger $p$ favors recent ones without ever forgetting at an
    exponential rate. $b_k = k/(k+p)$ is MemSGD-p's own memory, $M_k = \Gamma(k+p)/\Gamma(k)$, the only one that the
    paper's discrete theorem covers; it is not $m(t) = t^p$ sampled at $t = k$, which `Sampled` would give, but has
    the same tail $1 - p/k$.

    Args:
        p: Degree, finite and > 0. The paper names it by $p - 1$: degree 2 is *linear* memory.

    Example:
        >>> Polynomial(1.0).weights(3)
        array([0.25, 0.25, 0.25, 0.25])

    Reference:
        UAI 2019, Table 2 and MemSGD-p (Sec. 4.2). As an average of iterates it is the polynomial-decay averaging of
        Shamir and Zhang, ICML 2013, with $\eta = p - 1$.
    """

    p: float

    family: ClassVar[str] = "poly"
    example: ClassVar[str] = "poly:2"
    formula: ClassVar[str] = "t^p"
    decay_formula: ClassVar[str] = "k/(k+p)"

    def __post_init__(self) -> None:
        self._set(p=as_real("Polynomial memory", "p", self.p, "a finite degree p > 0"))

    def _decay(self, k: Any, xp: Any) -> Any:
        return k / (k + self.p)

    def _fresh(self, k: Any, xp: Any) -> Any:
        return self.p / (k + self.p)

    def _m(self, t: Any, xp: Any) -> Any:
        return xp.pow(t, self.p)

    def _dm(self, t: Any, xp: Any) -> Any:
        return self.p * xp.pow(t, self.p - 1)

    def _rate(self, t: Any, xp: Any) -> Any:
        return self.p / t

    def _influence(self, s: Any, t: Any, xp: Any) -> Any:
        return self.p / t * xp.pow(s / t, self.p - 1)

    def _statistics(self, k: int, progress: Progress | None) -> Statistics:
        if self.p not in (1, 2, 3):
            statistics = super()._statistics(k, progress)._replace(mean_age=k / (self.p + 1))
            whole = k > WALKED and self.p <= 1000 and self.p.is_integer()
            return statistics._replace(half_life=self._half_life(k)) if whole else statistics
        squares = {
            1: lambda: 1 / (k + 1),
            2: lambda: 2 * (2 * k + 3) / (3 * (k + 1) * (k + 2)),
            3: lambda: 3 * (3 * k * k + 12 * k + 10) / (5 * (k + 1) * (k + 2) * (k + 3)),
        }
        return Statistics(k / (self.p + 1), self._half_life(k), squares[int(self.p)]())

    def _half_life(self, k: int) -> int:
        """The half-life for an integer p, in integer arithmetic."""

        def big_m(n: int) -> int:  # M_n = n (n+1) ... (n+p-1)
            return math.prod(range(n, n + int(self.p)))

        now = big_m(k + 1)
        return first_true(lambda age: 2 * big_m(k - age) <= now, k)


@final
@dataclass(frozen=True)
class Instantaneous(Memory):
    r"""No memory: $b_k = 0$, plain SGD; the limit of all families as they forget faster ($p \to \infty$).

    Its weight in continuous time is a Dirac distribution, so it has no memory function.

    Example:
        >>> Instantaneous().weights(3)
        array([0., 0., 0., 1.])

    Reference:
        UAI 2019, Sec. 3.1, *instantaneous forgetting* (GD-ODE).
    """

    family: ClassVar[str] = "inst"
    example: ClassVar[str] = "inst"
    decay_formula: ClassVar[str] = "0"

    def _decay(self, k: Any, xp: Any) -> Any:
        return k * 0.0

    def _fresh(self, k: Any, xp: Any) -> Any:
        return k * 0.0 + 1.0

    def _statistics(self, k: int, progress: Progress | None) -> Statistics:
        return Statistics(0.0, 0, 1.0)


@final
@dataclass(frozen=True)
class Logarithmic(Memory):
    r"""Longer than long: $m(t) = \log(1+t)$, the only row of the paper's table that favors *old* gradients.

    $b_k = \log(1+kh)/\log(1+(k+1)h)$ and $\dot m/m = 1/((1+t)\log(1+t))$.

    Args:
        h: Time between two steps, 0 < h < 1e290.

    Example:
        >>> Logarithmic().weights(1)
        array([0.63092975, 0.36907025])

    Reference:
        UAI 2019, Table 2, *decaying* memory. *Differs*: the table prints $\dot m/m = 1/(t \log(t+1))$, which is not
        the derivative's ratio (erratum 4).
    """

    h: float = field(default=1.0, kw_only=True)

    family: ClassVar[str] = "log"
    example: ClassVar[str] = "log"
    formula: ClassVar[str] = "log(1+t)"
    decay_formula: ClassVar[str] = "log(1+kh)/log(1+(k+1)h)"

    def __post_init__(self) -> None:
        self._set(h=as_real("Logarithmic memory", "h", self.h, "a time step h < 1e290 and h > 0", below=1e290))

    def _decay(self, k: Any, xp: Any) -> Any:
        return xp.log1p(k * self.h) / xp.log1p((k + 1) * self.h)

    def _fresh(self, k: Any, xp: Any) -> Any:
        return xp.log1p(self.h / (1 + k * self.h)) / xp.log1p((k + 1) * self.h)

    def _m(self, t: Any, xp: Any) -> Any:
        return xp.log1p(t)

    def _dm(self, t: Any, xp: Any) -> Any:
        return 1 / (1 + t)

    def _rate(self, t: Any, xp: Any) -> Any:
        return 1 / ((1 + t) * xp.log1p(t))

    def _influence(self, s: Any, t: Any, xp: Any) -> Any:
        return 1 / ((1 + s) * xp.log1p(t))

    def _statistics(self, k: int, progress: Progress | None) -> Statistics:
        statistics = super()._statistics(k, progress)
        if k <= WALKED:
            return statistics
        numerator, denominator = self.h.as_integer_ratio()  # log(1+nh) <= log(1+(k+1)h)/2 is (1+nh)^2 <= 1+(k+1)h

        def reached(age: int) -> bool:
            return (denominator + (k - age) * numerator) ** 2 <= denominator * (denominator + (k + 1) * numerator)

        return statistics._replace(half_life=first_true(reached, k))


@final
@dataclass(frozen=True)
class Stretched(Memory):
    r"""Faster or slower than exponential: $m(t) = e^{t^\alpha} - 1$, $b_k = m(kh)/m((k+1)h)$.

    The paper's *super-exponential* forgetting for $\alpha > 1$, a stretched exponential for $\alpha < 1$.

    Args:
        alpha: Exponent, finite and > 0.
        h: Time between two steps, finite and > 0; h**alpha must not underflow.

    Example:
        >>> Stretched(1.5).weights(2).round(3)
        array([0.01 , 0.079, 0.911])

    Reference:
        UAI 2019, Table 2, *super-exp*.
    """

    alpha: float
    h: float = field(default=1.0, kw_only=True)

    family: ClassVar[str] = "stretch"
    example: ClassVar[str] = "stretch:1.5"
    formula: ClassVar[str] = "e^(t^alpha) - 1"
    decay_formula: ClassVar[str] = "m(kh)/m((k+1)h)"

    def __post_init__(self) -> None:
        alpha = as_real("Stretched memory", "alpha", self.alpha, "a finite exponent alpha > 0")
        h = as_real("Stretched memory", "h", self.h, "a finite time step h > 0")
        if not (is_traced(alpha) or is_traced(h) or 1e-300 < Floats.pow(h, alpha) < math.inf):
            raise ValueError(f"Stretched memory needs 1e-300 < h**alpha < inf, got h={h!r}, alpha={alpha!r}.")
        self._set(alpha=alpha, h=h)

    def _exponents(self, k: Any, xp: Any) -> tuple[Any, Any, Any]:
        """t_{k+1}^alpha, its share that t_k^alpha lacks, without cancellation, and whether it is negligible beside 1.

        A negligible one is replaced by 1: m(t) is then t^alpha up to rounding, whose ratios do not depend on h, while
        t^alpha itself may be 0 in single precision.
        """
        newer = xp.pow((k + 1) * self.h, self.alpha)
        is_tiny = newer <= 1e-20
        # At k = 0 the logarithm of t_k/t_{k+1} is infinite, and so would be the derivative by alpha.
        ratio = xp.where(k > 0, -1 / (k + 1), k * 0.0 - 0.5)
        share = xp.where(k > 0, -xp.expm1(self.alpha * xp.log1p(ratio)), k * 0.0 + 1.0)
        return xp.where(is_tiny, newer * 0.0 + 1.0, newer), share, is_tiny

    def _decay(self, k: Any, xp: Any) -> Any:
        newer, share, is_tiny = self._exponents(k, xp)
        b = xp.exp(-newer * share) * xp.expm1(-xp.pow(k * self.h, self.alpha)) / xp.expm1(-newer)
        return 1.0 * xp.where(is_tiny, xp.pow(k / (k + 1), self.alpha), b)

    def _fresh(self, k: Any, xp: Any) -> Any:
        newer, share, is_tiny = self._exponents(k, xp)
        # Times 1.0, because np.where turns a scalar into an array.
        return 1.0 * xp.where(is_tiny, share, xp.expm1(-newer * share) / xp.expm1(-newer))

    def _m(self, t: Any, xp: Any) -> Any:
        return xp.expm1(xp.pow(t, self.alpha))

    def _dm(self, t: Any, xp: Any) -> Any:
        return self.alpha * xp.pow(t, self.alpha - 1) * xp.exp(xp.pow(t, self.alpha))

    def _rate(self, t: Any, xp: Any) -> Any:
        return self.alpha / t * over_one_minus_exp(xp.pow(t, self.alpha), xp)

    def _influence(self, s: Any, t: Any, xp: Any) -> Any:
        near = -xp.pow(t, self.alpha) * xp.expm1(self.alpha * xp.log1p((s - t) / t))
        difference = xp.where(s < 0.5 * t, xp.pow(t, self.alpha) - xp.pow(s, self.alpha), near)  # t^alpha - s^alpha
        return self._rate(t, xp) * xp.pow(s / t, self.alpha - 1) * xp.exp(-difference)


@final
@dataclass(frozen=True)
class PowerDecay(Memory):
    r"""Adafactor's schedule: $1 - b_k = (k+1)^{-c}$, between constant memory ($c = 1$) and none ($c \to 0$).

    Its $\log M_k$ grows like $k^{1-c}/(1-c)$: a stretched exponential. Discrete only; $M$ has no closed form.

    Args:
        c: Exponent, finite and > 0. Adafactor's default is 0.8. For c > 1 the first gradients are never forgotten.

    Example:
        >>> PowerDecay(1.0).weights(3)
        array([0.25, 0.25, 0.25, 0.25])

    Reference:
        Shazeer and Stern, *Adafactor*, ICML 2018, Sec. 7 ($\hat\beta_{2t} = 1 - t^{-c}$, $t = k + 1$).
    """

    c: float

    family: ClassVar[str] = "power"
    example: ClassVar[str] = "power:0.8"
    decay_formula: ClassVar[str] = "1 - (k+1)^-c"

    def __post_init__(self) -> None:
        self._set(c=as_real("PowerDecay memory", "c", self.c, "a finite exponent c > 0"))

    def _decay(self, k: Any, xp: Any) -> Any:
        return -xp.expm1(-self.c * xp.log1p(k))

    def _fresh(self, k: Any, xp: Any) -> Any:
        return xp.pow(k + 1, -self.c)


CONSTANT = Polynomial(1)
"""The paper's *constant* forgetting, $m(t) = t$: the plain average."""
SQUARE_ROOT = Polynomial(1.5)
"""The paper's *square-root* forgetting, $m(t) = t^{1.5}$."""
LINEAR = Polynomial(2)
"""The paper's *linear* forgetting, $m(t) = t^2$, which a change of time maps to Nesterov's ODE."""
QUADRATIC = Polynomial(3)
"""The paper's *quadratic* forgetting, $m(t) = t^3$."""
CUBIC = Polynomial(4)
"""The paper's *cubic* forgetting, $m(t) = t^4$."""

NAMED: Mapping[str, Memory] = {
    "constant": CONSTANT,
    "square-root": SQUARE_ROOT,
    "linear": LINEAR,
    "quadratic": QUADRATIC,
    "cubic": CUBIC,
}
"""The paper's named rows of Table 2."""
