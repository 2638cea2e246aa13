r"""The statistics of a race: methods are dropped when paired seeds show them worse, at an error rate stated beforehand.

Let $v_i(s)$ be the final value of configuration $i$ with seed $s$, the logarithm of its loss, and $d_{ij} =
\mathbb{E}[v_i - v_j]$. After $n$ seeds, look $k = 0, 1, \dots$ at the data gives a lower bound of every $d_{ij}$,

$$B_{ij} = \bar v_i - \bar v_j - t_{n-1}(1 - \alpha c_{ij} w_k) \, \frac{s_{ij}}{\sqrt n},$$

with the standard deviation $s_{ij}$ of the paired differences and Student's quantile $t$. The shares $c_{ij}$ of the
ordered pairs sum to 1, and so do the shares $w_k = a/((k+a)(k+a+1))$ of the looks, however many follow.

**All statements of a race are right together with probability at least $1 - \alpha$.** If the differences of a pair
are independent and normal over seeds, $P(B_{ij} > d_{ij}) = \alpha c_{ij} w_k$ at each look, because each look is the
t-bound of a number of seeds fixed beforehand. The sum over pairs and looks is at most $\alpha$: with probability $1 -
\alpha$ no bound is ever above its $d_{ij}$, whichever of them the race reads, and whenever it stops. The race reads
two statements off the bounds: $B_{ij} > 0$, "$i$ is worse than $j$", by which $i$ is dropped; and $B_{ij} > -\tau$,
"$j$ is worse than $i$ by less than the tolerance $\tau$", by which the race ends if it holds for the leader $j$ and
every other $i$. In particular, if all configurations are equal in law, any of them is dropped with probability at
most $\alpha$.

The configurations must be fixed before the seeds of the race are used. So learning rates are searched on other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from memgrad.kinds import Array

SPREAD = 3
"""The $a$ in the shares of the looks: the larger, the more is left for later looks."""

RESERVED = 0.1
"""The share of the error rate for pairs with a configuration that only steps in where another diverged."""


@final
@dataclass(frozen=True)
class Rules:
    r"""The rules of a race, fixed before it starts.

    Attributes:
        error_rate: The probability that any statement of the race is false, in (0, 1).
        tolerance: A difference that does not matter, > 0: of logarithms of losses, so 0.01 is 1 %.
        first: The number of seeds at the first look, at least 2.
        most: The maximum number of seeds in the race.
        refine: The number of seeds on which the learning rates of the last two methods are refined, at least 1.
        fresh: The number of seeds on which the answer is measured, at least 2; none of them is used to choose.
        search: The numbers of seeds on which learning rates are compared, at spacings of a decade, half and a quarter
            of one.

    Example:
        >>> Rules(most=20).looks
        (3, 4, 6, 8, 11, 15, 20)
    """

    error_rate: float = 0.05
    tolerance: float = 0.01
    first: int = 3
    most: int = 15
    refine: int = 8
    fresh: int = 10
    search: tuple[int, int, int] = (1, 1, 2)

    def __post_init__(self) -> None:
        _check("error_rate", self.error_rate, 0 < self.error_rate < 1, "a number in (0, 1)")
        _check("tolerance", self.tolerance, 0 < self.tolerance < math.inf, "a finite number > 0")
        _check("first", self.first, self.first >= 2, "at least 2 seeds, since one has no spread")
        _check("most", self.most, self.most >= self.first, f"at least as many seeds as first={self.first}")
        _check("refine", self.refine, self.refine >= 1, "at least 1 seed")
        _check("fresh", self.fresh, self.fresh >= 2, "at least 2 seeds, since one has no interval")
        sensible = len(self.search) == 3 and all(n >= 1 for n in self.search) and sorted(self.search) == [*self.search]
        _check("search", self.search, sensible, "three numbers of seeds >= 1, none smaller than the one before")

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of seeds after which the race is judged: each a third more than the one before."""
        looks = [self.first]
        while looks[-1] < self.most:
            looks.append(min(self.most, math.ceil(looks[-1] * 4 / 3)))
        return tuple(looks)


def _check(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(f"the rules of a race need {name} to be {rule}, got {name}={value!r}.")


@final
@dataclass(frozen=True)
class Entrant:
    """A configuration in a race: a name, and whose place it takes if that one diverges; empty if it starts at once."""

    name: str
    instead_of: str = ""


@final
@dataclass(frozen=True)
class Dropped:
    """Why a configuration left the race.

    Attributes:
        name: The configuration.
        seeds: The number of seeds it had.
        worse_than: The configuration it was shown to be worse than; empty if a run of it diverged.
        by: The lower bound of the difference, which holds for all statements of the race together.
    """

    name: str
    seeds: int
    worse_than: str = ""
    by: float = math.inf


@final
@dataclass(frozen=True)
class Standing:
    """A race so far.

    Attributes:
        seeds: The number of seeds at the last look; 0 before the first.
        alive: The configurations that are still in the race, the best mean first.
        dropped: Those that left it, in order.
        means: The mean value of each configuration over the seeds it had at its last look.
        wants: The configurations that need more seeds, and how many in all; empty if the race is over.
        end: Why it is over: `one left`, `equivalent`, `undecided` after the last look, or `diverged` if all did.
    """

    seeds: int = 0
    alive: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    means: Mapping[str, float] = field(default_factory=dict)
    wants: Mapping[str, int] = field(default_factory=dict)
    end: str = ""

    @property
    def leader(self) -> str:
        """The configuration with the best mean, or an empty text if none in the race has one."""
        return next((name for name in self.alive if name in self.means), "")

    @property
    def raced(self) -> dict[str, int]:
        """The number of seeds with which each configuration raced; one that has just stepped in has none yet."""
        known = [name for name in self.alive if name in self.means]
        return dict.fromkeys(known, self.seeds) | {each.name: each.seeds for each in self.dropped}


def look_share(k: int) -> float:
    r"""The share $w_k$ of the error rate that look k has; they sum to 1 over all $k \ge 0$.

    Example:
        >>> [round(look_share(k), 4) for k in range(4)]
        [0.25, 0.15, 0.1, 0.0714]
    """
    return SPREAD / ((k + SPREAD) * (k + SPREAD + 1))


def pair_shares(reserve: Sequence[bool]) -> Array:
    """The share $c_{ij}$ of the error rate for each ordered pair; those with a reserve have a tenth of all together.

    Example:
        >>> pair_shares([False, False]).tolist()
        [[0.0, 0.5], [0.5, 0.0]]
    """
    late = np.asarray(reserve, dtype=bool)
    other = ~np.eye(len(late), dtype=bool)
    rare = other & (late[:, None] | late[None, :])
    main = other & ~rare
    shares = np.zeros(other.shape)
    both = main.any() and rare.any()
    for kind, part in ((main, 1 - RESERVED if both else 1.0), (rare, RESERVED if both else 1.0)):
        if kind.any():
            shares[kind] = part / kind.sum()
    return shares


def lower_bounds(values: ArrayLike, levels: ArrayLike) -> Array:
    """The lower bound of the difference of each ordered pair, each at its level; minus infinity on the diagonal.

    Args:
        values: The values, (..., configurations, seeds), finite, with at least 2 seeds.
        levels: The probability with which each bound may be too high, (configurations, configurations).

    Example:
        >>> lower_bounds([[2.0, 3.0, 4.0], [1.0, 2.1, 2.9]], [[0.0, 0.05], [0.05, 0.0]]).round(3)
        array([[  -inf,  0.831],
               [-1.169,   -inf]])
    """
    from scipy.special import stdtrit

    v = np.asarray(values, dtype=float)
    n = v.shape[-1]
    differences = v[..., :, None, :] - v[..., None, :, :]
    spread = differences.std(axis=-1, ddof=1) / math.sqrt(n)
    # Minus the lower quantile: 1 - level would lose the digits of a small level.
    quantiles = -stdtrit(n - 1, np.asarray(levels, dtype=float))
    with np.errstate(invalid="ignore"):  # infinity times 0, on the diagonal only
        bounds = differences.mean(axis=-1) - quantiles * spread
    bounds[..., np.eye(v.shape[-2], dtype=bool)] = -math.inf
    return np.asarray(bounds)


def race(entrants: Sequence[Entrant], values: Mapping[str, Sequence[float]], rules: Rules) -> Standing:
    """The race as far as the values go. The same values give the same race, whenever and in whatever order they came.

    Args:
        entrants: The configurations, fixed before the first seed.
        values: The values of each by seed, in the order of the seeds; infinite or nan where the run diverged. A
            configuration with a diverged run is out: its expected value is infinite.
        rules: The rules.

    Example:
        >>> flat = [0.1, 0.2, 0.15]
        >>> standing = race([Entrant("A"), Entrant("B")], {"A": flat, "B": [x + 5 + x / 9 for x in flat]}, Rules())
        >>> standing.leader, standing.end, standing.dropped[0].worse_than
        ('A', 'one left', 'A')
    """
    shares = pair_shares([bool(entrant.instead_of) for entrant in entrants])
    place = {entrant.name: i for i, entrant in enumerate(entrants)}
    alive = [entrant.name for entrant in entrants if not entrant.instead_of]
    dropped: list[Dropped] = []
    means: dict[str, float] = {}
    judged = 0
    for k, n in enumerate(rules.looks):
        wants = _admit(entrants, values, n, alive, dropped)
        if wants:
            return Standing(judged, _ranked(alive, means), tuple(dropped), means, wants)
        judged = n
        if not alive:
            return Standing(n, (), tuple(dropped), means, {}, "diverged")
        table = np.array([values[name][:n] for name in alive])
        means |= dict(zip(alive, table.mean(axis=-1).tolist(), strict=True))
        places = [place[name] for name in alive]
        bounds = lower_bounds(table, rules.error_rate * look_share(k) * shares[np.ix_(places, places)])
        leader = int(table.mean(axis=-1).argmin())
        worse = [i for i in range(len(alive)) if bounds[i].max() > 0]
        for i in worse:
            j = int(bounds[i].argmax())
            dropped.append(Dropped(alive[i], n, alive[j], float(bounds[i, j])))
        others = [i for i in range(len(alive)) if i not in worse and i != leader]
        within = all(bounds[i, leader] > -rules.tolerance for i in others)
        alive = [name for i, name in enumerate(alive) if i not in worse]
        end = "one left" if not others else "equivalent" if within else "undecided" if n == rules.most else ""
        if end:
            return Standing(n, _ranked(alive, means), tuple(dropped), means, {}, end)
    raise AssertionError("the last look ends the race")


def _admit(
    entrants: Sequence[Entrant],
    values: Mapping[str, Sequence[float]],
    n: int,
    alive: list[str],
    dropped: list[Dropped],
) -> dict[str, int]:
    """Drop what diverged within n seeds and let its reserve in; return what has fewer than n values."""
    while True:
        if wants := {name: n for name in alive if len(values.get(name, ())) < n}:
            return wants
        diverged = [name for name in alive if not np.isfinite(values[name][:n]).all()]
        if not diverged:
            return {}
        dropped += [Dropped(name, n) for name in diverged]
        stay = [name for name in alive if name not in diverged]
        alive[:] = stay + [entrant.name for entrant in entrants if entrant.instead_of in diverged]


def _ranked(alive: Sequence[str], means: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(alive, key=lambda name: means.get(name, math.inf)))
