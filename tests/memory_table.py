"""The one table of memories that the tests run over, with exact values, and the checks that every row must pass.

A new memory needs its row in `ROWS` and nothing else. The exact values are closed forms in 80-digit
arithmetic; nothing here calls the library except to build the memory and to ask it for the answer under test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from mpmath import MPContext
from scipy.integrate import fixed_quad

from memgrad.memory import (
    Aged,
    Cooled,
    Exponential,
    FromDecays,
    Instantaneous,
    Logarithmic,
    Memory,
    Polynomial,
    PowerDecay,
    RampedExponential,
    Sampled,
    Stretched,
)

mp = MPContext()  # our own context: nobody else's precision changes
mp.dps = 80  # 1 - b_k is down to 1e-45 (PowerDecay(3) at k = 1e15), where 80 digits leave 35

# The same examples on every machine, so that a failure is a change and not luck; no deadline, because mpmath is slow.
properties = settings(max_examples=20, deadline=None, derandomize=True)

LAST = 10**15
ATOL = 1e-300  # below it floats lose their relative precision


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log10(low), np.log10(high)).map(lambda exponent: float(10**exponent))


def near_one() -> st.SearchStrategy[float]:
    return log_uniform(1e-12, 0.5).map(lambda gap: 1 - gap)


@dataclass(frozen=True, repr=False)
class Row:
    """A family with the law of its parameters, and its exact formulas as functions of an mpmath k or t."""

    name: str
    build: Callable[..., Memory]
    parameters: st.SearchStrategy[tuple[float, ...]]
    examples: Sequence[tuple[float, ...]]
    total: Callable[..., Any] | None = None
    """M_k(k, *parameters)."""
    decay: Callable[..., Any] | None = None
    """b_k(k, *parameters), for the families whose M_k has no closed form."""
    m: Callable[..., Any] | None = None
    """m(t, *parameters), for those with a continuous side."""
    last: int = LAST
    """The last step that is asked for."""
    newest_falls: bool = True
    """Whether 1 - b_k falls with k for all these parameters."""
    legal: st.SearchStrategy[tuple[float, ...]] | None = None
    """All parameters that are allowed, where they reach further than those at which 1e-12 is promised."""
    is_data: bool = True
    """Whether it can be written as text and data."""
    only_decays: bool = False
    """Whether b_k is all there is, so that 1 - b_k can only be as exact as b_k: absolutely, to a rounding of 1."""

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # hypothesis would print all fields
        printer.text(self.name)

    def case(self, *parameters: float) -> Case:
        return Case(self, parameters, self.build(*parameters))

    def cases(self, *, legal: bool = False) -> st.SearchStrategy[Case]:
        parameters = self.legal if legal and self.legal is not None else self.parameters
        return parameters.map(lambda parameters: self.case(*parameters))

    def steps(self, last: int = LAST) -> st.SearchStrategy[int]:
        """Steps of all sizes up to `last`."""
        last = min(last, self.last)
        large = st.floats(0, np.log10(last)).map(lambda exponent: min(int(10**exponent), last))
        return st.integers(0, min(last, 20)) | large | st.just(last)


@dataclass(frozen=True)
class Case:
    """A memory with its exact values."""

    row: Row
    parameters: tuple[float, ...]
    memory: Memory

    def __repr__(self) -> str:
        return f"{self.row.name}{self.parameters}"

    def exactly(self, formula: Callable[..., Any], x: Any) -> Any:
        return formula(mp.mpf(x), *map(mp.mpf, self.parameters))

    def decay(self, k: int) -> Any:
        """b_k, exactly."""
        if self.row.decay:
            return self.exactly(self.row.decay, k)
        return self.exactly(self.row.total, k) / self.exactly(self.row.total, k + 1)

    def up_to(self, k: int, steps: Sequence[int]) -> dict[int, Any]:
        """M_{j+1}/M_{k+1}, the weight at step k of all gradients up to j, for j in `steps`."""
        if self.row.total:
            whole = self.exactly(self.row.total, k + 1)
            return {j: self.exactly(self.row.total, j + 1) / whole for j in steps}
        share, shares = mp.mpf(1), {}
        for j in range(k, min(steps) - 1, -1):
            shares[j] = share
            share *= self.decay(j) if j >= 0 else 0
        return shares

    def weights(self, k: int, steps: Sequence[int]) -> list[Any]:
        """w(j,k) for j in `steps`."""
        share = self.up_to(k, sorted({*steps, *(j - 1 for j in steps)}))
        return [share[j] - share[j - 1] for j in steps]

    def statistics(self, k: int) -> tuple[Any, int, Any]:
        """Mean age, half-life and sum of squares of the weights at step k, by summing them all."""
        share = self.up_to(k, range(-1, k + 1))
        w = {j: share[j] - share[j - 1] for j in range(k + 1)}
        # The smallest age such that all older gradients weigh <= 1/2 together. A tie counts, and 1e-13 is a tie.
        half_life = next(age for age in range(k + 1) if share[k - age - 1] <= 0.5 + 1e-13)
        return mp.fsum(w[j] * (k - j) for j in w), half_life, mp.fsum(x * x for x in w.values())

    def m(self, t: Any) -> Any:
        return self.exactly(self.row.m, t)

    def dm(self, t: Any) -> Any:
        t = mp.mpf(t)
        return mp.diff(lambda scale: self.m(scale * t), 1) / t  # mp.diff's step suits numbers near 1


def age(k: Any, age: Any, to: Any, start: Any, end: Any) -> Any:
    """The mean age that is asked of `Aged`: k/2 at first, then `age`, then a line to `to`."""
    share = min(max((k - start) / (end - start), mp.mpf(0)), mp.mpf(1))
    return min(k / 2, age + share * (to - age))


def product_of_betas(k: Any, beta: Any, start: Any, steps: Any) -> Any:
    """beta_0 ... beta_k of AdEMAMix: 1/log(beta_t) is a line in t = 1, ..., steps."""
    ramp = log_of_ramp(int(min(k + 1, steps)), beta, start, steps)
    return mp.exp(ramp + max(k + 1 - steps, 0) * mp.log(beta))


@lru_cache(maxsize=1000)
def log_of_ramp(last: int, beta: Any, start: Any, steps: Any) -> Any:
    """log(beta_1 ... beta_last) along the ramp. Weights at step k ask for it 2k times, mostly for all of it."""
    inverse = lambda t: (1 - t / steps) / mp.log(start) + t / steps / mp.log(beta)  # noqa: E731
    return mp.fsum(1 / inverse(t) for t in range(1, last + 1))


def ramped_decay(k: Any, beta: Any, start: Any, steps: Any) -> Any:
    """beta_k S_{k-1}/S_k of an average that starts from 0, whose weights sum to S_k = 1 - beta_0 ... beta_k."""
    if k == 0:
        return mp.mpf(0)
    before, now = product_of_betas(k - 1, beta, start, steps), product_of_betas(k, beta, start, steps)
    return now / before * (1 - before) / (1 - now)


def of_degree(p: float) -> dict[str, Any]:
    return {"m": lambda t: t**p, "dm": lambda t: p * t ** (p - 1)}


positive = st.floats(0, exclude_min=True, allow_infinity=False, allow_nan=False)
between_0_and_1 = st.floats(0, 1, exclude_min=True, exclude_max=True)
times = log_uniform(1e-12, 1e12)
decay_lists = st.lists(st.floats(0, 0.9999), min_size=60, max_size=60).map(lambda b: (0.0, *b[1:]))

ROWS = [
    Row(
        "Polynomial",
        build=Polynomial,
        parameters=st.tuples(log_uniform(0.1, 200)),
        examples=[(1.0,), (2.0,), (3.0,), (0.1,), (1.5,), (7.3,), (200.0,)],
        total=lambda k, p: mp.gamma(k + p) * mp.rgamma(k),
        m=lambda t, p: t**p,
        legal=st.tuples(positive),
    ),
    Row(
        "Exponential",
        build=lambda beta, h: Exponential(beta, h=h),
        parameters=st.tuples(st.floats(1e-3, 0.999) | near_one(), log_uniform(1e-3, 1e3)),
        examples=[(0.9, 1.0), (0.5, 0.1), (0.999, 1.0), (0.01, 1 / 3), (2**-0.25, 10.0)],
        total=lambda k, beta, h: beta**-k - 1,
        m=lambda t, beta, h: beta ** (-t / h) - 1,
        legal=st.tuples(between_0_and_1, st.just(1.0) | times),
    ),
    Row(
        "Exponential.from_alpha",
        build=Exponential.from_alpha,
        parameters=st.tuples(log_uniform(1e-12, 1e4), log_uniform(1e-3, 1e3)).map(lambda ah: (ah[0] / ah[1], ah[1])),
        examples=[(1e-12, 1.0), (10.0, 0.01), (0.3, 1 / 3), (1e4, 1.0), (0.25, 1.0)],
        total=lambda k, alpha, h: mp.expm1(alpha * h * k),
        m=lambda t, alpha, h: mp.expm1(alpha * t),
        # beta rounds to 1 below 1e-16, and to 0 above 745
        legal=st.tuples(log_uniform(1e-290, 1e290) | log_uniform(1e-18, 1e-14) | log_uniform(600, 900), times),
    ),
    Row(
        "Instantaneous",
        build=Instantaneous,
        parameters=st.just(()),
        examples=[()],
        decay=lambda k: mp.mpf(0),
    ),
    Row(
        "Logarithmic",
        build=lambda h: Logarithmic(h=h),
        parameters=st.tuples(log_uniform(1e-9, 1e6)),
        examples=[(1.0,), (1 / 3,), (1e-9,), (100.0,)],
        total=lambda k, h: mp.log1p(h * k),
        m=lambda t, h: mp.log1p(t),
        legal=st.tuples(log_uniform(1e-290, 1e290)),  # kh must stay a float
    ),
    Row(
        "Stretched, alpha <= 1",
        build=lambda alpha, h: Stretched(alpha, h=h),
        parameters=st.tuples(st.floats(0.1, 1), log_uniform(1e-3, 1e3)),
        examples=[(0.5, 1.0), (0.1, 1 / 3), (1.0, 0.1)],
        total=lambda k, alpha, h: mp.expm1((k * h) ** alpha),
        m=lambda t, alpha, h: mp.expm1(t**alpha),
    ),
    Row(
        "Stretched, alpha > 1",
        build=lambda alpha, h: Stretched(alpha, h=h),
        parameters=st.tuples(st.floats(1.001, 3), log_uniform(1e-3, 10)),
        legal=st.tuples(log_uniform(1, 20), times),
        examples=[(1.5, 1.0), (3.0, 0.01), (1.1, 1 / 3)],
        total=lambda k, alpha, h: mp.expm1((k * h) ** alpha),
        m=lambda t, alpha, h: mp.expm1(t**alpha),
        newest_falls=False,
    ),
    Row(
        "PowerDecay",
        build=PowerDecay,
        parameters=st.tuples(st.floats(0.05, 3)),
        examples=[(0.8,), (0.1,), (1.0,), (2.0,)],
        decay=lambda k, c: 1 - (k + 1) ** -c,
        legal=st.tuples(positive),
    ),
    Row(
        "Aged",
        build=lambda age, to, start, end: Aged(age, to=to, start=start, end=end),
        parameters=st.tuples(log_uniform(0.5, 1e4), log_uniform(0.5, 1e4), st.integers(0, 300)).map(
            lambda a: (a[0], a[1], float(a[2]), float(a[2] + 1 + 2 * int(abs(a[1] - a[0]))))
        ),
        examples=[(58.0, 26.0, 100.0, 900.0), (5.0, 20.0, 0.0, 40.0), (9.0, 9.0, 0.0, 1.0)],
        decay=lambda k, *ages: age(k, *ages) / (1 + age(max(k - 1, 0), *ages)),
        newest_falls=False,
    ),
    Row(
        "Cooled",
        build=lambda p, steps, power: Cooled(p, steps=steps, power=power),
        parameters=st.tuples(st.floats(0.3, 20), st.integers(1, 10**6), st.floats(0.3, 4)).map(
            lambda c: (c[0], float(c[1]), c[2])
        ),
        examples=[(1.5, 1000.0, 2.0), (3.0, 7.0, 1.0), (2.0, 100.0, 0.5)],
        decay=lambda k, p, steps, power: k * s / (k * s + p) if (s := max(1 - k / steps, 0) ** power) else mp.mpf(0),
        newest_falls=False,
    ),
    Row(
        "RampedExponential",
        build=lambda beta, start, steps: RampedExponential(beta, start=start, steps=steps),
        parameters=st.tuples(st.floats(0.5, 0.99999), st.floats(0.1, 0.5), st.integers(1, 50)).map(
            lambda b: (b[0], b[1], float(b[2]))
        ),
        examples=[(0.9999, 0.9, 100.0), (0.5, 0.5, 1.0), (0.99, 0.3, 7.0)],
        decay=ramped_decay,
        last=10**3,
        newest_falls=False,
    ),
    Row(
        "Sampled t^p",
        build=lambda p, h: Sampled(**of_degree(p), h=h),
        parameters=st.tuples(st.floats(0.3, 8), log_uniform(1e-3, 1e3)),
        examples=[(2.0, 0.1), (1.5, 1.0), (0.3, 1 / 3)],
        total=lambda k, p, h: k**p,
        m=lambda t, p, h: t**p,
        is_data=False,
    ),
    Row(
        "FromDecays of a sequence",
        build=lambda *b: FromDecays(b),
        parameters=decay_lists,
        examples=[(0.0, *(1 - 1 / k**0.5 for k in range(2, 61))), (0.0, *([0.9, 0.2, 0.0, 0.5] * 15)[:59])],
        decay=lambda k, *b: b[int(k)],
        last=59,
        newest_falls=False,
        only_decays=True,
    ),
    Row(
        "FromDecays of a function",
        build=lambda p: FromDecays(lambda k: k / (k + p)),
        parameters=st.tuples(st.floats(0.5, 20)),
        examples=[(2.0,)],
        decay=lambda k, p: k / (k + p),
        last=10**4,
        is_data=False,
        only_decays=True,
    ),
]

CONTINUOUS = [row for row in ROWS if row.m]
EXAMPLES = [row.case(*parameters) for row in ROWS for parameters in row.examples]


def name_of(case: Case) -> str:
    return f"{case.row.name}({', '.join(f'{x:.4g}' for x in case.parameters[:3])})"


def assert_close(what: str, actual: Any, exact: Any, *, rtol: float, atol: float = ATOL) -> None:
    """Compare with mpmath's numbers, with their own precision and range."""
    if exact >= mp.mpf(2) ** 1024:
        assert actual == np.inf, f"{what}: got {actual!r}, exactly {mp.nstr(exact, 5)}, beyond the floats"
        return
    error = abs(mp.mpf(float(actual)) - exact)
    assert error <= rtol * abs(exact) + atol, f"{what}: got {float(actual)!r}, exactly {mp.nstr(exact, 17)}"


# --- the checks ------------------------------------------------------------------------------------------------------


def check_decay(case: Case, k: int) -> None:
    """D4: b_k and 1 - b_k are right to 1e-12, a hundred roundings of the worst conditioned step (an exponential)."""
    b, fresh = case.memory.decay(k), case.memory.fresh(k)
    assert type(b) is float, f"decay({k}) is a {type(b)}"
    assert type(fresh) is float, f"fresh({k}) is a {type(fresh)}"
    exact = case.decay(k)
    assert 0 < fresh <= 1, f"1 - b_{k} of {case} is {fresh}"
    assert 0 <= b <= 1, f"b_{k} of {case} is {b}"
    assert_close(f"1 - b_{k} of {case}", fresh, 1 - exact, rtol=1e-12, atol=2e-16 if case.row.only_decays else ATOL)
    assert_close(f"b_{k} of {case}", b, exact, rtol=1e-12)


def check_weights(case: Case, k: int) -> None:
    """The weights are a distribution, and each is (M_{j+1} - M_j)/M_{k+1}."""
    w = case.memory.weights(k)
    assert w.shape == (k + 1,), f"{case}.weights({k}) has the shape {w.shape}"
    assert np.all(w >= 0), f"{case}.weights({k}) has {w.min()}"
    # Each of k + 1 weights is a product of up to k factors: k roundings at worst.
    assert_close(f"sum of {case}.weights({k})", w.sum(), mp.mpf(1), rtol=2e-16 * (k + 4))
    some = sorted({0, min(1, k), k // 2, max(k - 1, 0), k, *np.geomspace(1, k, 20).astype(int).tolist()} if k else {0})
    for j, exact in zip(some, case.weights(k, some), strict=True):
        # 2000 factors round to 4e-13 at worst; 1e-10 is asked for.
        assert_close(f"w({j},{k}) of {case}", w[j], exact, rtol=1e-10)


def check_constant_gradient(case: Case, k: int, g: float) -> None:
    """A constant gradient is averaged to itself at each step, whatever the buffer held at first."""
    u = -1e3
    for i in range(k + 1):
        u = case.memory.decay(i) * u + case.memory.fresh(i) * g
        # Three roundings a step, not one more than the memory keeps.
        assert abs(u - g) <= 4e-16 * (i + 1) * abs(g) + ATOL, f"u_{i} of {case} is {u}, not {g}"


def check_memory_function(case: Case, t: float) -> None:
    """D5: m, its derivative and their ratio. An exponent of up to 709 rounds to 1.6e-13."""
    assert_close(f"m({t}) of {case}", case.memory.m(t), case.m(t), rtol=1e-12)
    assert_close(f"dm({t}) of {case}", case.memory.dm(t), case.dm(t), rtol=1e-12)
    check_rate(case, t)


def check_rate(case: Case, t: float) -> None:
    """D5: rate = dm/m, also where m overflows."""
    assert_close(f"rate({t}) of {case}", case.memory.rate(t), case.dm(t) / case.m(t), rtol=1e-12)


def check_influence(case: Case, s: float, t: float) -> None:
    """D5: influence = dm(s)/m(t), also where both overflow."""
    assert_close(f"influence({s}, {t}) of {case}", case.memory.influence(s, t), case.dm(s) / case.m(t), rtol=1e-12)


def check_influence_is_a_density(case: Case, t: float) -> None:
    """D5: the integral of influence(s, t) over s is 1.

    s = t y^20 makes the integrand bounded at 0 for the exponents >= 0.1 of the table. The panels crowd at y = 0, where
    it may still have an infinite slope, and at y = 1, where short memories live.
    """

    def integrand(y: Any) -> Any:
        return case.memory.influence(t * y**20, t) * 20 * t * y**19

    edges = [0, *(4.0**-i for i in range(8, 0, -1)), 0.5, *(1 - 4.0**-i for i in range(1, 12)), 1]
    mass = sum(fixed_quad(integrand, a, b, n=24)[0] for a, b in itertools.pairwise(edges))
    # 24 Gauss points a panel are exact to 1e-10 for all rows; a wrong formula is off by far more.
    assert_close(f"mass of the influence of {case} at t={t}", mass, mp.mpf(1), rtol=1e-9)


def check_passport(case: Case, k: int) -> None:
    """The statistics of the passport are those of the exact weights, all of them summed."""
    mean_age, half_life, squares = case.statistics(k)
    check_statistics(case, k, mean_age, squares)
    passport = case.memory.passport(k)
    assert passport.half_life == half_life, f"half-life of {case} at {k}: {passport.half_life}, exactly {half_life}"
    assert passport.k == k
    assert passport.memory == str(case.memory)


def check_statistics(case: Case, k: int, mean_age: Any, squares: Any) -> None:
    """All of a passport that follows from the exact mean age, sum of squares and b_k. 1000 steps round to 1e-13."""
    passport, b = case.memory.passport(k), case.decay(k)
    assert_close(f"mean age of {case} at {k}", passport.mean_age, mean_age, rtol=1e-12)
    assert_close(f"variance factor of {case} at {k}", passport.variance_factor, squares, rtol=1e-12)
    assert_close(f"effective samples of {case} at {k}", passport.effective_samples, 1 / squares, rtol=1e-12)
    assert_close(f"newest weight of {case} at {k}", passport.newest_weight, 1 - b, rtol=1e-12)
    assert_close(f"beta of {case} at {k}", passport.equivalent_beta, mean_age / (1 + mean_age), rtol=1e-12)
    if k == 0:
        assert passport.local_degree is None
    elif b < ATOL:
        assert passport.local_degree == np.inf
    else:
        assert_close(f"degree of {case} at {k}", passport.local_degree, k * (1 - b) / b, rtol=1e-12)
