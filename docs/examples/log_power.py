"""A memory written by hand: the power of a logarithm."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, final

from memgrad import Memory
from memgrad.memory.kinds import as_real


@final
@dataclass(frozen=True)
class LogPower(Memory):
    r"""Longer than constant memory: $m(t) = \log(1+t)^q$, sampled every $h$.

    Args:
        q: Exponent, finite and > 0; q = 1 is `Logarithmic`.
        h: Time between two steps, finite and > 0.

    Example:
        >>> LogPower(2.0).weights(2).round(3)
        array([0.25 , 0.378, 0.372])
    """

    q: float
    h: float = field(default=1.0, kw_only=True)

    family: ClassVar[str] = "logpower"
    example: ClassVar[str] = "logpower:2"
    formula: ClassVar[str] = "log(1+t)^q"
    decay_formula: ClassVar[str] = "(log(1+kh)/log(1+(k+1)h))^q"

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", as_real("LogPower memory", "q", self.q, "a finite exponent q > 0"))
        object.__setattr__(self, "h", as_real("LogPower memory", "h", self.h, "a finite time step h > 0"))

    def _decay(self, k: Any, xp: Any) -> Any:
        return xp.pow(xp.log1p(k * self.h) / xp.log1p((k + 1) * self.h), self.q)

    def _fresh(self, k: Any, xp: Any) -> Any:
        # The step of the logarithm relative to it, without the cancellation of 1 - log/log.
        step = xp.log1p(self.h / (1 + k * self.h)) / xp.log1p((k + 1) * self.h)
        return -xp.expm1(self.q * xp.log1p(-step))

    def _m(self, t: Any, xp: Any) -> Any:
        return xp.pow(xp.log1p(t), self.q)

    def _dm(self, t: Any, xp: Any) -> Any:
        return self.q * xp.pow(xp.log1p(t), self.q - 1) / (1 + t)

    def _rate(self, t: Any, xp: Any) -> Any:
        return self.q / ((1 + t) * xp.log1p(t))

    def _influence(self, s: Any, t: Any, xp: Any) -> Any:
        return self._rate(t, xp) * xp.pow(xp.log1p(s) / xp.log1p(t), self.q - 1) * (1 + t) / (1 + s)
