"""The claims in continuous time and on synthetic problems: each with its rule, its thresholds and its judge."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np

from memgrad.kinds import Array
from memgrad.paper.claims import Claim, Verdict, judge_of
from memgrad.paper.continuous import Velocities, contenders, exact_loss, velocity_variance, warped_solutions
from memgrad.paper.odes import HEAVY_BALL_WINDOW, MEMORY_WINDOW, Odes, fitted_slope
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    SmoothingSettings,
    TimeWarpSettings,
)
from memgrad.paper.smoothing import Smoothing
from memgrad.problems.objectives import Objective, Quadratic, Quartic
from memgrad.statistics import NORMAL_QUANTILE, Estimate, interval, ratio_of_means

STANDARD_ERRORS = 4.0
"""The largest allowed distance of a simulated moment from the exact one (S3 and S4)."""


@judge_of(
    "S1",
    "Fig. p_verification",
    "Linear memory (p = 2) has a much smoother path than p = e and SGD.",
    "Mean squared second difference of the path: p = 2 < e < inf, each with disjoint CIs over 150 runs.",
    figure="p-verification",
)
def s1(claim: Claim, result: Smoothing) -> Verdict:
    """Linear memory has the smoothest path, instantaneous memory the roughest."""
    roughness = [
        interval(samples, quantile=result.settings.quantile, name=f"roughness {name}")
        for name, samples in zip(result.settings.memories, result.roughness, strict=True)
    ]
    pairs = list(pairwise(roughness))
    held = all(one.below(other) for one, other in pairs)
    return claim.verdict(
        roughness,
        held=held,
        failed=any(other.below(one) for one, other in pairs),
        reason="the intervals are disjoint and in order." if held else "they are not disjoint and in order.",
        **_smoothing_runs(result),
    )


@judge_of(
    "S2",
    "Fig. p_verification",
    "The asymptotic noise of linear memory is slightly higher than SGD's.",
    "Tail loss ratio p = 2 / inf in (1, 2], CI above 1.",
    figure="p-verification",
)
def s2(claim: Claim, result: Smoothing) -> Verdict:
    """Linear memory ends slightly above SGD: the ratio of mean final losses, those of the last 5 % of the steps."""
    least, most = 1.0, 2.0
    z = result.settings.quantile
    linear, sgd = (result.settings.memories.index(name) for name in ("poly:2", "inst"))
    final, tail = result.final_loss, result.tail_loss
    ratio = ratio_of_means(final[linear], final[sgd], quantile=z, name="final loss p=2 / inf")
    held = ratio.low > least and ratio.value <= most
    return claim.verdict(
        [
            ratio,
            interval(final[linear], quantile=z, name="final loss p=2"),
            interval(final[sgd], quantile=z, name="final loss inf"),
            ratio_of_means(tail[linear], tail[sgd], quantile=z, name="last half, p=2 / inf (does not decide)"),
        ],
        held=held,
        failed=ratio.high < least or ratio.low > most,
        reason=f"the ratio is {'in' if held else 'not shown to be in'} (1, 2].",
        **_smoothing_runs(result),
    )


@judge_of(
    "S3",
    "Prop. var, Fig. verif_noise",
    "Nesterov amplifies: E V = -t/4, Var t/7; quadratic memory: E V = -1, Var 9/(5t) (times sigma^2).",
    "1000 runs, within 4 standard errors at 5 times.",
    figure="verif-noise",
)
def s3(claim: Claim, result: Velocities) -> Verdict:
    """Under a constant gradient, means and variances of the velocities are those of the proposition."""
    numbers, worst = _deviations(result, 5)
    return claim.verdict(
        numbers,
        held=worst <= STANDARD_ERRORS,
        failed=worst > STANDARD_ERRORS,
        reason=f"the farthest of 20 moments is {worst:.2f} standard errors away.",
        scale=_velocity_scale(result),
        seeds=(result.settings.seed,),
        enough=result.settings.runs >= ConstantNoiseSettings().runs,
    )


@judge_of(
    "S4",
    "Figs. quadratic_variance, verif_noise_quadratic",
    "On x^2/2 Nesterov's velocity variance explodes, quadratic memory's converges.",
    "Simulation within 4 SE of the exact moments; Var V_N/t -> 1/8.",
    figure="verif-noise-quadratic",
)
def s4(claim: Claim, result: Velocities) -> Verdict:
    """On a quadratic, simulated moments are the exact ones, and Nesterov's variance grows as t/8."""
    tolerance = 0.01  # relative: the rule says -> 1/8, and at t = 20 the exact value is 0.1 % away
    numbers, worst = _deviations(result, 5)
    moments, times = SecondMomentsSettings(), np.array([20.0, 100.0, 500.0])
    growth = velocity_variance(moments, times) / times / moments.sigma**2
    grows = bool(np.all(np.abs(8 * growth - 1) <= tolerance))
    rates = [Estimate(float(g), name=f"Var V_N/t at t={t:g}") for t, g in zip(times, growth, strict=True)]
    held = worst <= STANDARD_ERRORS and grows
    return claim.verdict(
        [*rates, *numbers],
        held=held,
        failed=not held,
        reason=f"the farthest of 20 moments is {worst:.2f} standard errors away, and Var V_N/t is "
        f"{'within' if grows else 'not within'} 1 % of 1/8.",
        scale=f"{_velocity_scale(result)}; exact moments",
        seeds=(result.settings.seed,),
        enough=result.settings.runs >= QuadraticNoiseSettings().runs,
    )


@final
@dataclass(frozen=True, eq=False)
class ExpectedLosses:
    """The expected losses of two equations at the times t, arrays of shape (n,), and how they were computed."""

    t: Array
    memory: Array
    nesterov: Array
    scale: str


def expected_losses() -> ExpectedLosses:
    """The exact expected losses of both equations of Fig. HB_amplification."""
    settings = AmplificationSettings()
    t = np.linspace(0, settings.end, 6001)[1:]
    equations = contenders(settings, Quadratic(settings.spectrum), settings.sigma)
    memory, nesterov = (exact_loss(each, t, settings.x0) for each in equations)
    return ExpectedLosses(t, memory, nesterov, f"sigma = {settings.sigma:g}, exact moments, T = {settings.end:g}")


@judge_of(
    "S5",
    "Fig. HB_amplification",
    "Nesterov's SDE is faster first, then unstable; MG-SDE settles.",
    "Exact E f: one crossing; after it E f_N grows and E f_MG falls.",
    run=lambda *_: expected_losses(),
)
def s5(claim: Claim, result: ExpectedLosses) -> Verdict:
    """The expected losses, read as the rule says: one crossing, then growth and fall."""
    t, memory, nesterov = result.t, result.memory, result.nesterov
    ahead = nesterov < memory
    crossings = np.flatnonzero(ahead[1:] != ahead[:-1])
    numbers = [Estimate(float(len(crossings)), name="crossings")]
    numbers += [Estimate(float(t[at]), name=f"crossing {i}, t") for i, at in enumerate(crossings, 1)]
    if not len(crossings):
        reason = "the expected losses do not cross."
        return claim.verdict(numbers, held=False, failed=True, reason=reason, scale=result.scale)
    last = crossings[-1] + 1
    grows = bool(np.all(np.diff(nesterov[last:]) >= 0))
    falls = bool(np.all(np.diff(memory[last:]) <= 0))
    low = int(np.argmin(memory[last:])) + last
    numbers += [
        Estimate(float(nesterov[-1] / nesterov[last]), name="E f_N, end / last crossing"),
        Estimate(float(memory[-1] / memory[last]), name="E f_MG, end / last crossing"),
        Estimate(float(t[low]), name="E f_MG lowest at t"),
        Estimate(float(memory[-1] / memory[low]), name="E f_MG, end / lowest"),
    ]
    held = len(crossings) == 1 and not ahead[last] and grows and falls
    parts = [
        f"they cross {len(crossings)} times" if len(crossings) > 1 else "they cross once",
        f"after the last crossing E f_N {'grows' if grows else 'does not always grow'}",
        f"and E f_MG {'falls' if falls else 'does not always fall'}.",
    ]
    return claim.verdict(numbers, held=held, failed=not held, reason=", ".join(parts), scale=result.scale)


def warp_distances() -> dict[str, float]:
    """The largest distance between memory at tau(t) and Nesterov's equation, by objective."""
    settings, t = TimeWarpSettings(), np.linspace(0, 50.0, 501)
    problems: dict[str, Objective] = {"quadratic": Quadratic(settings.spectrum), "quartic": Quartic()}
    distances = {}
    for name, objective in problems.items():
        _, warped, nesterov = warped_solutions(settings, objective, t)
        distances[name] = float(np.linalg.norm(warped - nesterov, axis=1).max())
    return distances


@judge_of(
    "S6",
    "Fig. timewarp, App. time",
    "t^2/8 maps linear memory onto Nesterov's ODE, the paths coincide.",
    "Max distance <= 1e-8 on the quadratic and on one nonquadratic.",
    run=lambda *_: warp_distances(),
)
def s6(claim: Claim, result: dict[str, float]) -> Verdict:
    """Without noise, memory at tau(t) and Nesterov's equation are one path."""
    tolerance = 1e-8
    held = all(distance <= tolerance for distance in result.values())
    return claim.verdict(
        [Estimate(distance, name=f"max distance, {name}") for name, distance in result.items()],
        held=held,
        failed=not held,
        reason=f"the paths are {'within' if held else 'farther apart than'} 1e-8.",
        scale="501 times of Nesterov's equation up to 50, of memory up to 312.5; DOP853",
    )


@judge_of(
    "S7",
    "App. F",
    "Rates: 3/t viscosity aligned with 1/t^2 before the first inverse peak, linear memory with 1/t; p/t gives "
    "faster sublinear rates on quadratics.",
    "Fitted slopes within .05 of the exact envelopes: -q for momentum q/t, -(p - 1/2) for memory t^p.",
    figure="odes",
)
def s7(claim: Claim, result: Odes) -> Verdict:
    """The envelopes of the losses of App. F have the slopes of Bessel functions."""
    tolerance, least_peaks = 0.05, 3
    numbers, gaps = [], []
    for each in result.descents:
        if each.expected_slope is None:
            continue
        window = HEAVY_BALL_WINDOW if each.kind == "momentum" else MEMORY_WINDOW
        slope, error, peaks = fitted_slope(each.t, each.loss, window)
        half = NORMAL_QUANTILE * error
        name = f"slope {each.label} (exact {each.expected_slope:g})"
        numbers.append(Estimate(slope, slope - half, slope + half, name=name))
        gaps.append(abs(slope - each.expected_slope) if peaks >= least_peaks else np.nan)
    seen = bool(np.all(np.isfinite(gaps))) and len(gaps) > 0
    held = seen and max(gaps) <= tolerance
    return claim.verdict(
        numbers or [Estimate(0.0, name="slopes fitted")],
        held=held,
        failed=seen and not held,
        reason=f"the farthest slope is {max(gaps):.3f} away." if seen else "there are too few peaks to fit a slope.",
        scale=f"peaks of {result.settings.method} solutions, "
        f"momentum t in [{HEAVY_BALL_WINDOW[0]:g}, {HEAVY_BALL_WINDOW[1]:g}], "
        f"memory t in [{MEMORY_WINDOW[0]:g}, {MEMORY_WINDOW[1]:g}]",
    )


def _deviations(result: Velocities, count: int) -> tuple[list[Estimate], float]:
    """Simulated moments at `count` even times, and the largest distance from the exact ones, in standard errors."""
    at = (np.arange(1, count + 1) * len(result.t) / count).round().astype(int) - 1
    n = result.settings.runs
    numbers, worst = [], 0.0
    for name, each in (("MG", result.memory), ("N", result.nesterov)):
        for i in at:
            # The standard error of a variance of n normal numbers is sqrt(2/(n-1)) of it.
            moments = {
                "E V": (each.mean[i], each.exact_mean[i], each.exact_sd[i] / np.sqrt(n)),
                "Var V": (each.sd[i] ** 2, each.exact_sd[i] ** 2, each.exact_sd[i] ** 2 * np.sqrt(2 / (n - 1))),
            }
            for what, (simulated, exact, error) in moments.items():
                worst = max(worst, float(abs(simulated - exact) / error))
                label = f"{what}_{name} at t={result.t[i]:g} (exact {exact:.4g})"
                ends = (float(simulated - NORMAL_QUANTILE * error), float(simulated + NORMAL_QUANTILE * error))
                numbers.append(Estimate(float(simulated), *ends, name=label))
    return [Estimate(worst, name="farthest, in standard errors"), *numbers], worst


def _velocity_scale(result: Velocities) -> str:
    settings = result.settings
    return f"{settings.runs} runs, h = {settings.dt:g}, {settings.scheme}, 5 times up to {result.t[-1]:g}"


def _smoothing_runs(result: Smoothing) -> dict[str, Any]:
    """What was run for S1 and S2, as the arguments of a verdict."""
    ran = result.settings
    return {
        "scale": f"{ran.runs} runs of {ran.steps} steps, lr = {ran.lr:g}, sigma = {ran.sigma:g}, same noise",
        "seeds": (ran.seed,),
        "enough": ran.runs >= SmoothingSettings().runs,
    }
