"""What a memory or a mixture amounts to after k steps: its passport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

from memgrad.deprecation import renamed

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Passport:
    r"""What a memory remembers at step k, in numbers that can be compared between families.

    With the weights $w(j,k)$ of the gradients $j = 0, \dots, k$, which sum to 1:

    Args:
        memory: Text form of the memory.
        k: The step, counted from 0.
        mean_age: $\sum_j w(j,k)\,(k-j)$, in steps.
        half_life: The smallest age $a$ such that the gradients older than $a$ steps weigh at most 1/2 together.
        effective_samples: $1/\sum_j w(j,k)^2$, the number of equally weighted gradients with the same variance.
        variance_factor: $\sum_j w(j,k)^2$, by which averaging multiplies the variance of independent gradient noise.
        newest_weight: $w(k,k) = 1 - b_k$.
        local_degree: The degree $p$ of the polynomial memory with the same $1 - b_k$; infinite where $b_k = 0$,
            `None` at $k = 0$, where all memories agree.
        equivalent_beta: The constant decay $\beta$ of the exponential average that is, in the long run, equally old:
            $\beta/(1-\beta)$ is the mean age.

    Example:
        >>> from memgrad import Polynomial
        >>> passport = Polynomial(2).passport(1000)
        >>> round(passport.mean_age, 1), passport.half_life
        (333.3, 293)
    """

    memory: str
    k: int
    mean_age: float
    half_life: int
    effective_samples: float
    variance_factor: float
    newest_weight: float
    local_degree: float | None
    equivalent_beta: float

    def to_dict(self) -> dict[str, str | int | float | None]:
        """The passport as plain data.

        Example:
            >>> from memgrad import Instantaneous
            >>> Instantaneous().passport(5).to_dict()["mean_age"]
            0.0
        """
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Each entry as (what it is, its value), ready to print.

        Example:
            >>> from memgrad import Polynomial
            >>> Polynomial(2).passport(1000).rows()[2]
            ('mean age', '333.333 steps')
        """
        degree = "any" if self.local_degree is None else f"{self.local_degree:.6g}"
        return [
            ("memory", self.memory if len(self.memory) <= 40 else self.memory[:37] + "..."),
            ("step k", str(self.k)),
            ("mean age", f"{self.mean_age:.6g} steps"),
            ("half-life", f"{self.half_life} steps"),
            ("effective samples", f"{self.effective_samples:.6g}"),
            ("variance factor", f"{self.variance_factor:.6g}"),
            ("newest weight", f"{self.newest_weight:.6g}"),
            ("local degree p", degree),
            ("equivalent beta", f"{self.equivalent_beta:.6g}"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{what:<18} {value}" for what, value in self.rows())


@dataclass(frozen=True)
class MixturePassport:
    r"""What a mixture remembers at step k, and how strongly.

    With the weights $W(j,k) = \sum_i \gamma_i(k) w_i(j,k)$ of the gradients $j = 0, \dots, k$:

    Args:
        mixture: Its text form.
        k: The step, counted from 0.
        gain: $\Gamma_k = \sum_j W(j,k)$, by which a constant gradient is multiplied.
        mean_age: $\sum_j W(j,k)\,(k-j)/\Gamma_k$, in steps.
        half_life: The smallest age $a$ such that the gradients older than $a$ steps weigh at most $\Gamma_k/2$.
        variance_factor: $\sum_j W(j,k)^2$, by which the variance of independent gradient noise is multiplied.
        newest_weight: $W(k,k)$.
        first_weight: $W(0,k)$, what is left of the first gradient.

    Example:
        >>> from memgrad import Memory
        >>> passport = Memory.parse("inst + 0.9*sum*exp:0.9").passport(1000)  # Nesterov with momentum 0.9
        >>> round(passport.gain, 6), round(passport.newest_weight, 6)
        (10.0, 1.9)
    """

    mixture: str
    k: int
    gain: float
    mean_age: float
    half_life: int
    variance_factor: float
    newest_weight: float
    first_weight: float

    noise_factor = renamed("noise_factor", "variance_factor")

    def to_dict(self) -> dict[str, str | int | float]:
        """The passport as plain data."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Each entry as (what it is, its value), ready to print."""
        return [
            ("mixture", self.mixture if len(self.mixture) <= 60 else self.mixture[:57] + "..."),
            ("step k", str(self.k)),
            ("gain", f"{self.gain:.6g}"),
            ("mean age", f"{self.mean_age:.6g} steps"),
            ("half-life", f"{self.half_life} steps"),
            ("variance factor", f"{self.variance_factor:.6g}"),
            ("newest weight", f"{self.newest_weight:.6g}"),
            ("first gradient's weight", f"{self.first_weight:.6g}"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{what:<24} {value}" for what, value in self.rows())


class Statistics(NamedTuple):
    """The three numbers of a passport that need the whole past."""

    mean_age: float
    half_life: int
    sum_of_squares: float
