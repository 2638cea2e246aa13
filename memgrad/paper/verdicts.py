"""The synthetic and continuous-time claims, decided: results of experiments in, verdicts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrad.memory.passport import Progress
from memgrad.paper.claims import CLAIMS, Number, Verdict, decided, mean_over_runs, ratio_of_means
from memgrad.paper.continuous import (
    Velocities,
    contenders,
    exact_loss,
    velocity_variance,
    verif_noise,
    verif_noise_quadratic,
    warped_solutions,
)
from memgrad.paper.guarantees import s8
from memgrad.paper.odes import HEAVY_BALL_WINDOW, MEMORY_WINDOW, Odes, fitted_slope, momentum_and_memory_odes
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    SmoothingSettings,
    TimeWarpSettings,
)
from memgrad.paper.synthetic import Smoothing, p_verification
from memgrad.problems.objectives import Objective, Quadratic, Quartic

Array = NDArray[np.float64]

STANDARD_ERRORS = 4.0
"""How far a simulated moment may be from the exact one."""

SLOPE_TOLERANCE = 0.05
WARP_TOLERANCE = 1e-8
GROWTH_TOLERANCE = 0.01
"""How close Var V_N/t must be to 1/8, relatively: the rule says -> 1/8, and at t = 20 the exact value is 0.1 % away."""


def s1(found: Smoothing) -> Verdict:
    """Linear memory has the smoothest path, instantaneous the roughest.

    Example:
        >>> s1(p_verification(SmoothingSettings(steps=200, runs=20))).outcome  # fewer runs than the rule asks for
        'undecided'
    """
    z = found.settings.quantile
    roughness = [
        mean_over_runs(f"roughness {name}", samples, quantile=z)
        for name, samples in zip(found.settings.memories, found.roughness, strict=True)
    ]
    pairs = list(pairwise(roughness))
    held = all(one.below(other) for one, other in pairs)
    failed = any(other.below(one) for one, other in pairs)
    enough = found.settings.runs >= SmoothingSettings().runs
    return Verdict(
        CLAIMS["S1"],
        decided(held=held and enough, failed=failed and enough),
        tuple(roughness),
        _enough(enough, "the intervals are disjoint and in order." if held else "they are not disjoint and in order."),
        _smoothing_scale(found),
        (found.settings.seed,),
    )


def s2(found: Smoothing) -> Verdict:
    """Linear memory ends slightly above SGD: the ratio of mean final losses, those of the last 5 % of the steps."""
    names = found.settings.memories
    linear, sgd = (found.final_loss[names.index(name)] for name in ("poly:2", "inst"))
    z = found.settings.quantile
    ratio = ratio_of_means("final loss p=2 / inf", linear, sgd, quantile=z)
    assert ratio.low is not None
    assert ratio.high is not None
    held = ratio.low > 1 and ratio.value <= 2
    failed = ratio.high < 1 or ratio.low > 2
    enough = found.settings.runs >= SmoothingSettings().runs
    numbers = (
        ratio,
        mean_over_runs("final loss p=2", linear, quantile=z),
        mean_over_runs("final loss inf", sgd, quantile=z),
        ratio_of_means(
            "last half, p=2 / inf (does not decide)",
            *(found.tail_loss[names.index(name)] for name in ("poly:2", "inst")),
            quantile=z,
        ),
    )
    return Verdict(
        CLAIMS["S2"],
        decided(held=held and enough, failed=failed and enough),
        numbers,
        _enough(enough, f"the ratio is {'in' if held else 'not shown to be in'} (1, 2]."),
        _smoothing_scale(found),
        (found.settings.seed,),
    )


def s3(found: Velocities) -> Verdict:
    """Under a constant gradient, means and variances of the velocities are those of the proposition."""
    settings = found.settings
    assert isinstance(settings, ConstantNoiseSettings)
    numbers, worst = _deviations(found, 5)
    enough = settings.runs >= ConstantNoiseSettings().runs
    return Verdict(
        CLAIMS["S3"],
        decided(held=worst <= STANDARD_ERRORS and enough, failed=worst > STANDARD_ERRORS and enough),
        numbers,
        _enough(enough, f"the farthest of 20 moments is {worst:.2f} standard errors away."),
        f"{settings.runs} runs, h = {settings.dt:g}, {settings.scheme}, 5 times up to {found.t[-1]:g}",
        (settings.seed,),
    )


def s4(found: Velocities, moments: SecondMomentsSettings | None = None) -> Verdict:
    """On a quadratic, simulated moments are the exact ones, and Nesterov's variance grows as t/8."""
    settings = found.settings
    assert isinstance(settings, QuadraticNoiseSettings)
    moments = SecondMomentsSettings() if moments is None else moments
    numbers, worst = _deviations(found, 5)
    times = np.array([20.0, 100.0, 500.0])
    growth = velocity_variance(moments, times) / times / moments.sigma**2
    grows = bool(np.all(np.abs(8 * growth - 1) <= GROWTH_TOLERANCE))
    enough = settings.runs >= QuadraticNoiseSettings().runs
    held = worst <= STANDARD_ERRORS and grows
    rates = tuple(Number(f"Var V_N/t at t={t:g}", float(g)) for t, g in zip(times, growth, strict=True))
    return Verdict(
        CLAIMS["S4"],
        decided(held=held and enough, failed=not held and enough),
        (*rates, *numbers),
        _enough(
            enough,
            f"the farthest of 20 moments is {worst:.2f} standard errors away, and Var V_N/t is "
            f"{'within' if grows else 'not within'} 1 % of 1/8.",
        ),
        f"{settings.runs} runs, h = {settings.dt:g}, {settings.scheme}, 5 times up to {found.t[-1]:g}; exact moments",
        (settings.seed,),
    )


def s5(settings: AmplificationSettings | None = None) -> Verdict:
    """The exact expected losses of both equations, read as the rule says: one crossing, then growth and fall."""
    settings = AmplificationSettings() if settings is None else settings
    objective = Quadratic(settings.spectrum)
    t = np.linspace(0, settings.end, 6001)[1:]
    memory, nesterov = (
        exact_loss(each, t, settings.x0)
        for each in contenders(settings.degree, settings.viscosity, objective, settings.sigma)
    )
    return crossing_verdict(
        t, memory, nesterov, scale=f"sigma = {settings.sigma:g}, exact moments, T = {settings.end:g}"
    )


def crossing_verdict(t: Array, memory: Array, nesterov: Array, *, scale: str) -> Verdict:
    """The verdict on S5 for two curves of the expected loss."""
    ahead = nesterov < memory
    crossings = np.flatnonzero(ahead[1:] != ahead[:-1])
    numbers = [Number("crossings", float(len(crossings)))]
    numbers += [Number(f"crossing {i + 1}, t", float(t[at])) for i, at in enumerate(crossings)]
    if not len(crossings):
        return Verdict(CLAIMS["S5"], "not reproduced", tuple(numbers), "the expected losses do not cross.", scale)
    last = crossings[-1] + 1
    grows = bool(np.all(np.diff(nesterov[last:]) >= 0))
    falls = bool(np.all(np.diff(memory[last:]) <= 0))
    low = int(np.argmin(memory[last:])) + last
    numbers += [
        Number("E f_N, end / last crossing", float(nesterov[-1] / nesterov[last])),
        Number("E f_MG, end / last crossing", float(memory[-1] / memory[last])),
        Number("E f_MG lowest at t", float(t[low])),
        Number("E f_MG, end / lowest", float(memory[-1] / memory[low])),
    ]
    held = len(crossings) == 1 and not ahead[last] and grows and falls
    how = [
        f"they cross {len(crossings)} times" if len(crossings) > 1 else "they cross once",
        f"after the last crossing E f_N {'grows' if grows else 'does not always grow'}",
        f"and E f_MG {'falls' if falls else 'does not always fall'}.",
    ]
    return Verdict(CLAIMS["S5"], decided(held=held, failed=not held), tuple(numbers), ", ".join(how), scale)


def s6(settings: TimeWarpSettings | None = None) -> Verdict:
    """Without noise, memory at tau(t) and Nesterov's equation are one path, on the quadratic and on the quartic."""
    settings = TimeWarpSettings() if settings is None else settings
    problems: dict[str, Objective] = {"quadratic": Quadratic(settings.spectrum), "quartic": Quartic()}
    t = np.linspace(0, 50.0, 501)
    distances = []
    for name, objective in problems.items():
        _, warped, nesterov = warped_solutions(
            objective, settings.x0, t, degree=settings.degree, viscosity=settings.viscosity
        )
        distances.append(Number(f"max distance, {name}", float(np.linalg.norm(warped - nesterov, axis=1).max())))
    held = all(each.value <= WARP_TOLERANCE for each in distances)
    return Verdict(
        CLAIMS["S6"],
        decided(held=held, failed=not held),
        tuple(distances),
        f"the paths are {'within' if held else 'farther apart than'} 1e-8.",
        "501 times of Nesterov's equation up to 50, of memory up to 312.5; DOP853",
    )


def s7(found: Odes) -> Verdict:
    """The envelopes of the losses of App. F have the slopes of Bessel functions."""
    numbers, gaps = [], []
    for each in found.descents:
        if each.expected_slope is None:
            continue
        window = HEAVY_BALL_WINDOW if each.kind == "momentum" else MEMORY_WINDOW
        slope, error, peaks = fitted_slope(each.t, each.loss, window)
        half = 1.96 * error
        numbers.append(Number(f"slope {each.label} (exact {each.expected_slope:g})", slope, slope - half, slope + half))
        gaps.append(abs(slope - each.expected_slope) if peaks >= 3 else np.nan)
    seen = bool(np.all(np.isfinite(gaps))) and len(gaps) > 0
    held = seen and max(gaps) <= SLOPE_TOLERANCE
    settings = found.settings
    return Verdict(
        CLAIMS["S7"],
        decided(held=held, failed=seen and not held),
        tuple(numbers) or (Number("slopes fitted", 0.0),),
        f"the farthest slope is {max(gaps):.3f} away." if seen else "there are too few peaks to fit a slope.",
        f"peaks of {settings.method} solutions, momentum t in [{HEAVY_BALL_WINDOW[0]:g}, {HEAVY_BALL_WINDOW[1]:g}], "
        f"memory t in [{MEMORY_WINDOW[0]:g}, {MEMORY_WINDOW[1]:g}]",
    )


def _seeded(seed: int | None) -> dict[str, Any]:
    return {} if seed is None else {"seed": seed}


JUDGES: Mapping[str, Callable[[int | None, Progress | None], Verdict]] = MappingProxyType(
    {
        "S1": lambda seed, progress: s1(p_verification(SmoothingSettings(**_seeded(seed)), progress=progress)),
        "S2": lambda seed, progress: s2(p_verification(SmoothingSettings(**_seeded(seed)), progress=progress)),
        "S3": lambda seed, progress: s3(verif_noise(ConstantNoiseSettings(**_seeded(seed)), progress=progress)),
        "S4": lambda seed, progress: s4(
            verif_noise_quadratic(QuadraticNoiseSettings(**_seeded(seed)), progress=progress)
        ),
        "S5": lambda _, __: s5(),
        "S6": lambda _, __: s6(),
        "S7": lambda _, progress: s7(momentum_and_memory_odes(progress=progress)),
        "S8": lambda seed, progress: s8(progress=progress, **_seeded(seed)),
    }
)
"""What runs the experiment of a claim and decides it, by the claim's id."""


def judge(
    ids: Iterable[str] | None = None, *, seed: int | None = None, progress: Progress | None = None
) -> tuple[Verdict, ...]:
    """Run what claims need, and decide them.

    Args:
        ids: Which claims; all of them unless given.
        seed: Another seed than that of the settings.
        progress: Called as `progress(done, total)` for each claim.

    Example:
        >>> judge(["S9"])
        Traceback (most recent call last):
        ...
        ValueError: unknown claim 'S9'; known claims: S1, S2, S3, S4, S5, S6, S7, S8.
    """
    chosen = list(JUDGES) if ids is None else list(ids)
    for each in chosen:
        if each not in JUDGES:
            raise ValueError(f"unknown claim {each!r}; known claims: {', '.join(JUDGES)}.")
    return tuple(JUDGES[each](seed, progress) for each in chosen)


def _deviations(found: Velocities, count: int) -> tuple[tuple[Number, ...], float]:
    """Simulated moments at `count` even times as numbers, and the largest distance from the exact ones, in errors."""
    at = (np.arange(1, count + 1) * len(found.t) / count).round().astype(int) - 1
    n = found.settings.runs
    numbers, worst = [], 0.0
    for name, each in (("MG", found.memory), ("N", found.nesterov)):
        for i in at:
            # The standard error of a variance of n normal numbers is sqrt(2/(n-1)) of it.
            moments = {
                "E V": (each.mean[i], each.exact_mean[i], each.exact_sd[i] / np.sqrt(n)),
                "Var V": (each.sd[i] ** 2, each.exact_sd[i] ** 2, each.exact_sd[i] ** 2 * np.sqrt(2 / (n - 1))),
            }
            for what, (simulated, exact, error) in moments.items():
                worst = max(worst, float(abs(simulated - exact) / error))
                label = f"{what}_{name} at t={found.t[i]:g} (exact {exact:.4g})"
                low, high = float(simulated - 1.96 * error), float(simulated + 1.96 * error)
                numbers.append(Number(label, float(simulated), low, high))
    return (Number("farthest, in standard errors", worst), *numbers), worst


def _smoothing_scale(found: Smoothing) -> str:
    settings = found.settings
    return (
        f"{settings.runs} runs of {settings.steps} steps, lr = {settings.lr:g}, sigma = {settings.sigma:g}, same noise"
    )


def _enough(enough: bool, reason: str) -> str:
    return reason if enough else f"fewer runs than the rule asks for; {reason}"
