r"""The best memory for a power-law problem and a number of steps, found through the exact risk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from memgrad.dynamics import Spectrum, exact_risk, sgd_limit
from memgrad.kinds import Array, number_form
from memgrad.memory import Cooled, FromDecays, Gain, Instantaneous, Memory, Mixture, Part
from memgrad.memory.gain_factors import Cool, Knots, Power
from memgrad.memory.gains import Term
from memgrad.memory.passport import Progress
from memgrad.method import Method
from memgrad.theory.adjoint import Steps, last_risk

Slopes = Callable[[Array], tuple[float, Array]]

COARSE = 1.5
"""Bins per octave while optimizing; the risks that are reported have the usual 3."""
MOST_STEPS = 20_000
"""The largest number of steps: the moments of all of them are kept, some 5 KB each."""
DEGREE = 1.5
"""The first degree of the recipe's memory."""


@final
@dataclass(frozen=True, eq=False)
class Candidate:
    """A method with its learning rate and schedule, and the exact risk after the last step.

    Attributes:
        name: What it is called.
        method: The method.
        lr: The learning rate.
        schedule: `constant`, or `linear` for a decay to 0 over the steps.
        risk: The excess risk after the last step.
    """

    name: str
    method: Method
    lr: float
    schedule: str
    risk: float

    def __str__(self) -> str:
        text = str(self.method)
        shown = text if len(text) <= 100 else f"{text[:80]}... ({len(text)} characters)"
        return f"{self.name}: {self.risk:.4g}, lr = {self.lr:.4g} ({self.schedule}), {shown}"


@final
@dataclass(frozen=True, eq=False)
class Design:
    r"""The best schedules that were found for a problem, beside a recipe and the named methods.

    Attributes:
        nu: The problem's $\nu$.
        zeta: Its $\zeta$.
        noise: The standard deviation of its label noise.
        batch: The batch size.
        steps: The number of steps.
        best: The designed method: gains through knots for the newest gradient and the average, and free decays.
        recipe: The best of the cooled family, `memgrad.theory.recipe`.
        named: The best of each named method, the best one first.
        knots: The steps of the knots.
        instant: The step along the newest gradient at each.
        memory: The step along the average at each.
        degree: The local degree of the memory at each: $b_k = k/(k+p_k)$.
        iterations: The number of iterations of the optimizer.
        converged: Whether it stopped because the risk fell no further.
    """

    nu: float
    zeta: float
    noise: float
    batch: int
    steps: int
    best: Candidate
    recipe: Candidate
    named: tuple[Candidate, ...]
    knots: Array
    instant: Array
    memory: Array
    degree: Array
    iterations: int
    converged: bool

    @property
    def gain(self) -> float:
        """How much lower its risk is than that of the best named method, as a share of the latter."""
        return 1 - self.best.risk / self.named[0].risk

    @property
    def kept(self) -> float:
        """The share of that gain which the recipe keeps."""
        return (self.named[0].risk - self.recipe.risk) / (self.named[0].risk - self.best.risk)

    def to_dict(self) -> dict[str, Any]:
        """The design as plain data."""
        plain = {name: getattr(self, name) for name in ("nu", "zeta", "noise", "batch", "steps", "iterations")}
        arrays = {name: getattr(self, name).tolist() for name in ("knots", "instant", "memory", "degree")}
        candidates = [{**vars(c), "method": c.method.to_dict()} for c in (self.best, self.recipe, *self.named)]
        return {**plain, "converged": self.converged, **arrays, "candidates": candidates}

    def __str__(self) -> str:
        where = f"nu = {self.nu:g}, zeta = {self.zeta:g}, noise {self.noise:g}, batch {self.batch}, {self.steps} steps"
        kept = f"of which the recipe keeps {100 * self.kept:.0f} %"
        first = f"{where}: {100 * self.gain:.0f} % below the best named method, {kept}"
        return "\n".join([first, *(f"  {each}" for each in (self.best, self.recipe, *self.named))])


def recipe(steps: int, *, strength: float, cooling: float = 1.8) -> Method:
    r"""A cooled mixture, a simple form of what `design` finds: two numbers, whatever the problem.

    With $s_k = 1 - k/T$, the newest gradient has the gain $s_k^{q/4}$, and a memory that is `poly:1.5` at first and
    grows young again as $s_k^q$ has the gain $c\,(1+k)\,s_k^q$: Nesterov's linear growth, made small enough for the
    noise by $c$, and cooled before the learning rate.

    Args:
        steps: The number of steps $T$, >= 1.
        strength: $c$, > 0.
        cooling: $q$, > 0; more where there is more label noise.

    Example:
        >>> print(recipe(1000, strength=0.02, cooling=2.0))
        cool(1000,0.5)*inst + 0.02*(1+k)*cool(1000,2)*cooled:1.5,1000
    """
    instant = Gain((Term(1.0, (Cool(steps, cooling / 4),)),))
    memory = Gain((Term(strength, (Power(1.0), Cool(steps, cooling))),))
    cooled = Cooled(DEGREE, steps=steps, power=cooling)
    return Method(Mixture((Part(instant, Instantaneous()), Part(memory, cooled))))


def design(
    nu: float,
    zeta: float,
    *,
    noise: float = 0.0,
    batch: int = 1,
    steps: int = 1000,
    iterations: int = 400,
    progress: Progress | None = None,
) -> Design:
    r"""The schedules of instant step, gain and decay with the smallest exact risk after a number of steps.

    $x_{k+1} = x_k - e_k g_k - h_k u_k$ with one average $u$ of local degree $p_k$, $b_k = k/(k+p_k)$. The logarithms of
    $e$, $h$ and $p$ are linear in $\log(1+k)$ between knots at powers of 2 from both ends, so that every iterate is a
    valid method. L-BFGS follows the exact derivatives of the risk (`memgrad.theory.adjoint`), from the best of a few
    mixtures. The optimum is local: nothing proves that there is no better one.

    Args:
        nu: $\nu > 1$, the decay of the eigenvalues.
        zeta: $\zeta > 0$, as in `Spectrum.power_law`.
        noise: The standard deviation of the label noise, >= 0.
        batch: The batch size, >= 1.
        steps: The number of steps, from 16 to some thousands: 1,000 take about ten seconds.
        iterations: The largest number of iterations, >= 1.
        progress: Called as `progress(done, total)`.

    Example:
        >>> found = design(1.5, 0.5, batch=4, steps=64, iterations=40)
        >>> found.best.risk < found.named[0].risk
        True
    """
    if not 16 <= steps <= MOST_STEPS or not 1 <= iterations <= MOST_STEPS:
        raise ValueError(
            f"design needs steps >= 16 and iterations >= 1, both at most {MOST_STEPS:,}, got steps={steps!r}, "
            f"iterations={iterations!r}."
        )
    nu, zeta = float(nu), float(zeta)
    fine = Spectrum.power_law(nu, zeta)
    named = named_methods(fine, nu, noise=noise, batch=batch, steps=steps)
    if not named:
        raise ValueError(f"design finds no named method that stays finite here: take less noise, got noise={noise!r}.")
    coarse = Spectrum.power_law(nu, zeta, per_octave=COARSE)
    schedules = _Schedules(coarse, batch, float(noise), steps)
    limit = sgd_limit(coarse, batch=batch)
    bounds = schedules.bounds(smallest=named[0].lr)
    found = _minimized(schedules.value, schedules.start(limit, nu), bounds, iterations, progress)
    rate, strength, cooling = _cooled(schedules, found.x, limit)
    lr = float(schedules.steps(found.x).instant.max())
    e, h, p = (np.exp(part) for part in np.split(found.x, 3))

    def candidate(name: str, method: Method, lr: float) -> Candidate:
        exact = exact_risk(method, fine, lr=lr, steps=steps, batch=batch, noise=noise, record=[0, steps])
        return Candidate(name, method, lr, "constant", float(exact.final[0, 0]))

    return Design(
        nu, zeta, float(noise), batch, steps,
        candidate("designed", schedules.method(found.x, lr), lr),
        candidate("recipe", recipe(steps, strength=strength, cooling=cooling), rate),
        named, schedules.knots.astype(float), e, h, p, int(found.nit), bool(found.success),
    )  # fmt: skip


def named_methods(spectrum: Spectrum, nu: float, *, noise: float, batch: int, steps: int) -> tuple[Candidate, ...]:
    """The named methods, each at the best of twenty learning rates and two schedules; the best method first.

    If the best of a method is the largest or the smallest that was tried, all go on beyond: an average of gain 1 is
    stable beyond SGD's limit, and with much noise small ones are the best.
    """
    families = {
        "SGD": ("inst",),
        "poly": ("poly:2", "poly:8"),
        "exp": ("exp:0.9", "exp:0.99"),
        "heavy ball": ("sum*exp:0.9", "sum*exp:0.99"),
        "Nesterov": ("inst + 0.25*(1+k)*poly:4",),
        "DANA": tuple(
            f"inst + {c:g}*(1+k)^{number_form(1 - 1 / nu)}*poly:{delta}"
            for c in (30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01)
            for delta in (2, 4, 8)
        ),
    }
    texts = [text for members in families.values() for text in members]
    limit, plans = sgd_limit(spectrum, batch=batch), {"constant": None, "linear": lambda k: 1 - k / steps}
    best: dict[str, Candidate] = {}

    def tried(halvings: Array) -> tuple[bool, bool]:
        """Try these learning rates; say whether the best of a method is the largest, or the smallest, of them."""
        rates = limit * 0.5**halvings
        for schedule, factor in plans.items():
            found = exact_risk(
                texts, spectrum, lr=rates, steps=steps, batch=batch, noise=noise, schedule=factor, record=[0, steps]
            )
            for name, members in families.items():
                here = [texts.index(text) for text in members]
                if not np.isfinite(found.final[here]).any():
                    continue  # a gain that grows as k may diverge at all of them
                i, j = found.best(here)
                candidate = Candidate(name, found.methods[i], float(rates[j]), schedule, float(found.final[i, j]))
                if name not in best or candidate.risk < best[name].risk:
                    best[name] = candidate
        chosen = {each.lr for each in best.values()}
        return float(rates[0]) in chosen, not best or float(rates[-1]) in chosen

    at_largest, at_smallest = tried(np.arange(0.5, 10.5, 0.5))
    for octave in range(0, 12, 3) if at_largest else ():
        if not tried(np.arange(-octave - 2.5, -octave + 0.5, 0.5))[0]:
            break
    for octave in range(10, 50, 10) if at_smallest else ():
        if not tried(np.arange(octave + 0.5, octave + 10.5, 0.5))[1]:
            break
    return tuple(sorted(best.values(), key=lambda each: each.risk))


# --- schedules through knots -----------------------------------------------------------------------------------------


@final
class _Schedules:
    """Schedules as numbers: the logarithms of e, h and p at the knots."""

    def __init__(self, spectrum: Spectrum, batch: int, noise: float, steps: int) -> None:
        self._spectrum, self._batch, self._noise = spectrum, batch, noise
        self.k = np.arange(steps)
        powers = 2 ** np.arange(int(np.log2(steps)) + 1)
        middle = np.round(steps * np.array([0.35, 0.5, 0.65])).astype(int)
        begin, end = powers[powers < steps / 2], steps - 1 - powers[powers < steps / 4]
        self.knots = np.unique(np.concatenate([begin, middle, end, np.array([0, steps - 1])]))
        x, at = np.log1p(self.k), np.log1p(self.knots)
        left = np.clip(np.searchsorted(at, x, side="right") - 1, 0, len(at) - 2)
        share = (x - at[left]) / (at[left + 1] - at[left])
        self._between = np.zeros((steps, len(at)))
        self._between[self.k, left] = 1 - share
        self._between[self.k, left + 1] += share

    def bounds(self, *, smallest: float) -> list[tuple[float, float]]:
        """Beyond them a step or a memory is as good as none; the smallest learning rate of interest is given."""
        n = len(self.knots)
        low = min(-14.0, float(np.log(smallest)) - 4)  # with much noise the best learning rates are tiny
        return [(low, 7.0)] * n + [(low - 2, 12.0)] * n + [(np.log(0.6), np.log(3000.0))] * n

    def start(self, limit: float, nu: float) -> Array:
        """The best of a few mixtures with the gain (1+k)^(1-1/nu)."""
        ones, growth = np.ones(len(self.knots)), (1 - 1 / nu) * np.log1p(self.knots)
        starts = [
            np.concatenate([np.log(limit * share) * ones, np.log(limit * share * c) + growth, np.log(3.0) * ones])
            for share in (0.25, 0.06)
            for c in (1.0, 0.1, 0.01)
        ]
        return min(starts, key=lambda theta: self.value(theta)[0])

    def steps(self, theta: Array) -> Steps:
        e, h, p = (np.exp(self._between @ part) for part in np.split(theta, 3))
        return Steps(e, h, self.k / (self.k + p), p / (self.k + p))

    def value(self, theta: Array) -> tuple[float, Array]:
        """The logarithm of the last risk, and its slopes."""
        steps = self.steps(theta)
        value, by_log = self.logarithmic(steps)
        return value, np.concatenate([self._between.T @ slope for slope in by_log])

    def logarithmic(self, steps: Steps) -> tuple[float, tuple[Array, Array, Array]]:
        """The logarithm of the last risk, and its slopes in the logarithms of e, h and p at every step."""
        with np.errstate(all="ignore"):  # a trial step may diverge
            risk, slopes = last_risk(steps, self._spectrum, batch=self._batch, noise=self._noise)
        if not np.isfinite(risk) or risk <= 0:
            zero = np.zeros(len(self.k))
            return 1e3, (zero, zero, zero)
        by_degree = -slopes.kept * steps.kept * steps.fresh  # db/dlog p = -k p/(k+p)^2
        return float(np.log(risk)), (slopes.instant * steps.instant, slopes.memory * steps.memory, by_degree)

    def method(self, theta: Array, lr: float) -> Method:
        """The schedules as a method, relative to a learning rate."""
        e, h, _ = (np.exp(part) for part in np.split(theta, 3))
        steps = self.steps(theta)
        parts: list[tuple[Array, Memory]] = [(e, Instantaneous()), (h, FromDecays(steps.kept.tolist()))]
        return Method(Mixture(tuple(Part(self._gain(values / lr), memory) for values, memory in parts)))

    def _gain(self, values: Array) -> Gain:
        numbers = np.stack([self.knots, values], axis=1).ravel()
        return Gain((Term(1.0, (Knots(*(float(f"{number:.6g}") for number in numbers)),)),))


def _cooled(schedules: _Schedules, theta: Array, limit: float) -> tuple[float, float, float]:
    """The learning rate, the strength and the cooling of the recipe with the smallest risk."""
    k, total = schedules.k, len(schedules.k)
    growth, left = np.log1p(k), np.log(1 - k / total)
    early = int(np.searchsorted(schedules.knots, total / 8))
    e, h, _ = np.split(theta, 3)
    start = np.array([e[early], h[early] - np.log1p(schedules.knots[early]), 1.8])

    def value(x: Array) -> tuple[float, Array]:
        lr, strength, cooling = x
        p = np.exp(np.minimum(np.log(DEGREE) - cooling * left, 30.0))
        steps = Steps(
            np.exp(lr + cooling / 4 * left), np.exp(strength + growth + cooling * left), k / (k + p), p / (k + p)
        )
        found, (by_e, by_h, by_p) = schedules.logarithmic(steps)
        by_cooling = ((by_e / 4 + by_h - by_p) * left).sum()
        return found, np.array([by_e.sum(), by_h.sum(), by_cooling])

    bounds = [(np.log(limit) - 12, np.log(limit) + 2), (-30.0, 10.0), (0.2, 6.0)]
    x = _minimized(value, start, bounds, 200, None).x
    return float(np.exp(x[0])), float(f"{np.exp(x[1] - x[0]):.4g}"), float(f"{x[2]:.3g}")


def _minimized(
    value: Slopes, start: Array, bounds: Sequence[tuple[float, float]], iterations: int, progress: Progress | None
) -> Any:
    from scipy.optimize import minimize

    done = [0]

    def told(_: Array) -> None:
        done[0] += 1
        if progress is not None:
            progress(done[0], iterations)

    options = {"maxiter": iterations, "maxcor": 30, "ftol": 1e-10}
    return minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, callback=told, options=options)
