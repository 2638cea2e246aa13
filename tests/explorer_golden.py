"""What the explorer's page must compute, by the library: cases of a function, its arguments and its result.

`python tests/explorer_golden.py` writes them to tests/explorer_golden.json. The page is asked for the same numbers in
a browser, and the library again by the tests, so that the two cannot drift apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from memgrad import Exponential, Gain, Instantaneous, Memory, Mixture, Polynomial, Sampled
from memgrad.dynamics import (
    GradientFlow,
    HeavyBallFlow,
    MemoryFlow,
    limit_variance,
    method_moments,
    moments,
    solve,
    time_warp,
)
from memgrad.memory.mixture import Part
from memgrad.optim import reference
from memgrad.problems.objectives import LogCosh, Quadratic, Quartic
from memgrad.theory import memsgd

GOLDEN = Path(__file__).with_name("explorer_golden.json")
Array = np.ndarray[Any, np.dtype[np.float64]]
Case = dict[str, Any]

# Python and the browser have different libraries of exp and log, which differ in the last digits.
ROUNDING = 1e-11
# Two solvers of the same equation, each to ten digits a step; their errors add up along the way.
SOLVED = 1e-6

DRAWN = [8 + (i * 37) % 91 for i in range(26)]
DRAWN_TEXT = "draw:" + "".join(f"{height:02d}" for height in DRAWN)
STEPS_A_KNOT = 4

CONTINUOUS = (
    "poly:1",
    "poly:2",
    "poly:3.7",
    "poly:100",
    "exp:0.5",
    "exp:0.9",
    "exp:0.999",
    "exp:0.9,h=0.1",
    "log",
    "log:h=0.1",
    "stretch:0.5",
    "stretch:1.5,h=0.05",
    DRAWN_TEXT,
)
DISCRETE = ("inst", "power:0.8", "power:1", "power:1.5")


def memory_of(text: str) -> Memory:
    return drawn_memory() if text == DRAWN_TEXT else Memory.parse(text)


def drawn_memory(h: float = 1.0, unit: float = 1.0) -> Memory:
    """m' linear between knots every four steps, and constant past the last; `unit` is the memory's time in a step."""
    knots = STEPS_A_KNOT * np.arange(len(DRAWN), dtype=float)
    areas = np.concatenate([[0.0], np.cumsum(np.convolve(DRAWN, [0.5, 0.5], "valid") * STEPS_A_KNOT)])

    def dm(t: Any) -> Any:
        return np.interp(np.asarray(t) * unit, knots, DRAWN) * unit

    def m(t: Any) -> Any:
        s = np.asarray(t, dtype=float) * unit
        i = np.minimum((s // STEPS_A_KNOT).astype(int), len(DRAWN) - 1)
        return areas[i] + (s - knots[i]) * (np.asarray(DRAWN)[i] + np.interp(s, knots, DRAWN)) / 2

    return Sampled(m, dm, h, steps=1000)


def in_time_of(text: str, lr: float) -> Memory:
    """The memory whose steps take the time lr."""
    if text == DRAWN_TEXT:
        return drawn_memory(lr, 1 / lr)
    memory = Memory.parse(text)
    if isinstance(memory, Polynomial):
        return memory
    if isinstance(memory, Exponential):
        return Exponential(memory.beta, h=lr)
    c = memory.h / lr  # type: ignore[attr-defined]  # log and stretch have one
    return Sampled(lambda t: memory.m(c * t), lambda t: c * memory.dm(c * t), lr, steps=200)


def valley(x: Array) -> Array:
    a, b = x[..., 0], x[..., 1]
    bend = b - a**2
    return np.stack([(a - 1) / 10 - a * bend, bend / 2], axis=-1)


def valley_value(x: Array) -> Array:
    a, b = x[..., 0], x[..., 1]
    return np.asarray((1 - a) ** 2 / 20 + (b - a**2) ** 2 / 4)


def gradient_of(name: str, kappa: float) -> Callable[[Any], Any]:
    objectives = {"quadratic": Quadratic((1 / kappa, 1.0)), "quartic": Quartic(), "logcosh": LogCosh(2)}
    return valley if name == "valley" else objectives[name].gradient


def value_of(name: str, kappa: float, x: Any) -> Array:
    objectives = {"quadratic": Quadratic((1 / kappa, 1.0)), "quartic": Quartic(), "logcosh": LogCosh(2)}
    return np.asarray((valley_value if name == "valley" else objectives[name].value)(np.asarray(x)))


def case(function: str, *arguments: Any, result: Any, tolerance: float = ROUNDING) -> Case:
    return {"function": function, "arguments": arguments, "result": plain(result), "tolerance": tolerance}


def plain(value: Any) -> Any:
    """Lists and numbers; what JSON cannot say, as the page's answers cannot either, is null."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in np.asarray(value).tolist()]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value


def memories() -> Iterator[Case]:
    k = [0, 1, 2, 10, 100, 1000]
    for text in (*CONTINUOUS, *DISCRETE):
        memory = memory_of(text)
        # Drawn decays are ratios of areas whose knots are whole numbers; Sampled integrates them by quadrature.
        yield case("decays", text, k, result=memory.decay(np.array(k)))
        yield case("fresh", text, k, result=memory.fresh(np.array(k)))
        for step in (0, 7, 60):
            yield case("weights", text, step, result=memory.weights(step))
        for step in (0, 5, 150, 1000):
            passport = memory.passport(step)
            yield case(
                "passport",
                text,
                step,
                result={
                    "k": step,
                    "meanAge": passport.mean_age,
                    "halfLife": passport.half_life,
                    "effectiveSamples": passport.effective_samples,
                    "varianceFactor": passport.variance_factor,
                    "newestWeight": passport.newest_weight,
                    "localDegree": passport.local_degree,
                    "equivalentBeta": passport.equivalent_beta,
                },
                # The library has closed forms where the page walks over the past.
                tolerance=1e-9,
            )
    for text in CONTINUOUS:
        memory, t = memory_of(text), [0.1, 1.0, 6.0, 25.0]
        s = [0.5, 3.0, 6.0, 20.0, 25.0]
        yield case("rates", text, t, result=memory.rate(np.array(t)))
        yield case("influences", text, s, 25.0, result=memory.influence(np.array(s), 25.0))
        yield case("survivals", text, s, 25.0, result=memory.m(np.array(s)) / memory.m(25.0))


MIXTURES = (
    "sum*exp:0.9",  # heavy ball
    "sum*poly:4",  # heavy ball, viscosity 3/t
    "inst + 0.9*sum*exp:0.9",  # Nesterov
    "inst + 0.25*(1+k)*poly:4",  # Nesterov, viscosity 3/t
    "inst + (1+k)^0.15*poly:8",
    "exp:0.9 + 5*exp:0.9999",
)
# Text forms as people write them, which the library writes in another way.
WRITTEN = (
    "5*exp:0.999 + inst + exp:0.999",
    "inst+2*(k+1)^0.5*(1+k)^0.25*linear",
    "0.3*inst + 0.7*cold*exp:0.999",
    "exp:0.9 + 5*ramp(100)*cold*exp:0.9999",
)


def mixtures() -> Iterator[Case]:
    k = [0, 1, 10, 100, 1000]
    for text in MIXTURES:
        mixture = Mixture.parse(text)
        yield case("mixtureGains", text, k, result=mixture.gain(np.array(k)))
        for step in (0, 7, 60):
            yield case("mixtureWeights", text, step, result=mixture.weights(step))
    for text in (*MIXTURES, *WRITTEN):
        mixture = Mixture.parse(text)
        yield case("mixtureText", text, result=str(mixture))
        passports = [mixture.passport(step) for step in k[:4]]
        result = {
            "gain": [each.gain for each in passports],
            "noise": [each.variance_factor for each in passports],
            "first": [each.first_weight for each in passports],
        }
        yield case("histories", text, k[:4], result=result, tolerance=1e-9)
        for each in passports:
            result = {
                "gain": each.gain,
                "meanAge": each.mean_age,
                "halfLife": each.half_life,
                "varianceFactor": each.variance_factor,
                "newestWeight": each.newest_weight,
                "firstWeight": each.first_weight,
            }
            yield case("mixturePassport", text, each.k, result=result, tolerance=1e-9)


def normalized(mixture: Mixture) -> Mixture:
    """The mixture with its gain divided out: what equal effective steps are."""
    return Mixture(
        tuple(
            Part(Gain.of(lambda k, part=part: part.gain(k, part.memory) / mixture.gain(k)), part.memory)
            for part in mixture
        )
    )


def one_curvature(mixture: Mixture | str, lam: float, steps: int) -> Any:
    """Moments for steps of size 1 and a unit of noise."""
    return method_moments(mixture, lr=1.0, hessian=lam, x0=1.0, noise=1.0, steps=steps)


def modes() -> Iterator[Case]:
    lr, momentum, lam, x0, sigma, steps = 0.1, 0.8, 0.3, -1.2, 0.4, 40
    for text in (*MIXTURES, *WRITTEN):
        for equal in (False, True):
            mixture = normalized(Mixture.parse(text)) if equal else text
            found = method_moments(mixture, lr=lr, hessian=lam, x0=x0, noise=sigma, steps=steps)
            result = {"mean": found.mean[:, 0], "variance": found.var[:, 0]}
            yield case("methodMoments", "memory", text, lr, momentum, lam, x0, sigma, steps, equal, result=result)
    for text in ("poly:2", "inst + 0.25*(1+k)*poly:4"):
        curvatures, loss = 50.0 ** (np.arange(9) / 8 - 1), np.zeros(steps + 1)
        for each in curvatures:
            found = method_moments(text, lr=lr, hessian=each, x0=np.sqrt(2 / (9 * each)), noise=sigma, steps=steps)
            loss += each * (found.mean[:, 0] ** 2 + found.var[:, 0]) / 2
        result = {"curvatures": curvatures, "total": loss}
        yield case("lossParts", text, lr, 50.0, sigma, steps, result=result)


# The families of the map, as the library writes them.
ATLAS: dict[str, Callable[[float], str]] = {
    "poly": lambda p: f"poly:{p}",
    "exp": lambda beta: f"exp:{beta}",
    "hb": lambda beta: f"sum*exp:{beta}",
    "nag": lambda q: f"inst + {1 / (q + 1)}*(1+k)*poly:{q + 1}",
    "dana": lambda kappa: f"inst + (1+k)^{1 - kappa}*poly:8",
}


def map_cells() -> Iterator[Case]:
    steps = 120
    for family, values in (("poly", (0.5, 2.0, 20.0)), ("exp", (0.3, 0.95)), ("hb", (0.5, 0.9)), ("nag", (1.0, 3.0)),
                           ("dana", (0.25, 0.75))):  # fmt: skip
        for value in values:
            for lam in (0.004, 0.3, 1.7, 4.5):
                found = one_curvature(ATLAS[family](value), lam, steps)
                mean, n = found.mean[:, 0], steps + 1
                left = np.abs(mean[int(0.8 * n) :]).max()
                before = np.abs(mean[int(0.4 * n) : int(0.6 * n)]).max()
                result = {
                    "left": left,
                    "crossings": int(np.sum(mean[1:] * mean[:-1] < 0)),
                    "noise": 2 * lam * found.var[-1, 0],
                    "grows": int(left > 1 and left > before),
                }
                yield case("atlasCell", family, value, lam, steps, result=result, tolerance=1e-7)


def streaming_risk(text: str, lr: float, spectrum: Array, batch: int, label: float, at: list[int]) -> list[float]:
    """The exact risk of streaming least squares, by full second moments of (x, buffers) in every direction."""
    mixture = Mixture.parse(text)
    lam, multiplicity, square = spectrum
    n = 1 + len(mixture.averages)
    second = np.zeros((len(lam), n, n))
    second[:, 0, 0] = square
    found = []
    for k in range(at[-1] + 1):
        excess = float(multiplicity @ (lam * second[:, 0, 0]))
        if k in at:
            found.append(excess)
        # The variance of the gradient's coordinate j, for normal features: (lam_j^2 E x_j^2 + lam_j R) / B.
        variance = (lam**2 * second[:, 0, 0] + lam * (excess + label**2)) / batch
        instant = mixture.instant
        step = np.zeros((len(lam), n, n))
        push = np.zeros(n)
        push[0] = -lr * (0.0 if instant is None else instant(k, Instantaneous()))
        step[:, 0, 0] = 1.0
        for i, part in enumerate(mixture.averages, start=1):
            b, gain = part.memory.decay(k), lr * part.gain(k, part.memory)
            step[:, i, i], step[:, 0, i] = b, -gain * b
            push[i] = 1 - b
            push[0] -= gain * (1 - b)
        step[:, :, 0] += lam[:, None] * push
        second = step @ second @ step.swapaxes(1, 2) + variance[:, None, None] * np.outer(push, push)
    return found


def power_laws() -> Iterator[Case]:
    j = np.arange(1, 41)
    spectrum = np.array([j**-1.5, np.ones(40), j ** (-1.5 * 0.5 - 1 + 1.5)])
    spectrum[1, 30:] = 7  # as bins of several directions have it
    at = [0, 1, 5, 60, 300]
    for text in ("inst", "poly:8", "inst + 0.1*(1+k)^0.333*poly:4", "exp:0.9 + 0.5*exp:0.99", "0.1*sum*exp:0.9"):
        for batch, label in ((1, 0.0), (16, 0.3)):
            result = streaming_risk(text, 0.1, spectrum, batch, label, at)
            yield case("risks", text, 0.1, spectrum.tolist(), batch, label, at, result=result, tolerance=1e-9)
    for nu, zeta in ((1.5, 0.5), (2.0, 0.5)):
        # The bins of the page against the sums over all directions, a thousand one by one, the others by an integral.
        result = {"trace": zeta_sum(nu), "risk": zeta_sum(nu * zeta + 1)}
        yield case("powerLaw", nu, zeta, result=result, tolerance=1e-6)


def zeta_sum(exponent: float, last: float = 1e8) -> float:
    """The sum of j^-exponent for j up to `last`."""
    first = np.arange(1, 1000, dtype=float)
    tail = (1000 ** (1 - exponent) - last ** (1 - exponent)) / (exponent - 1) + 1000**-exponent / 2
    return float((first**-exponent).sum() + tail)


def landscapes() -> Iterator[Case]:
    x = [[0.3, -0.7], [-1.2, 0.9], [2.5, 1.5]]
    for name in ("quadratic", "quartic", "logcosh", "valley"):
        yield case("values", name, 10.0, x, result=value_of(name, 10.0, x))


STARTS = {"quadratic": [-1.2, 0.9], "quartic": [1.0, 1.0], "logcosh": [-3.0, 2.0], "valley": [-1.4, 1.2]}


def iterates(
    method: str, memory: Memory, lr: float, momentum: float, oracle: Any, x0: Any, steps: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    if method == "hb":
        return reference.heavy_ball(oracle, x0, lr=lr, momentum=momentum, steps=steps)
    if method == "nag":
        return reference.nesterov(oracle, x0, lr=lr, viscosity=3.0, steps=steps)
    return reference.memsgd(oracle, x0, lr=lr, memory=memory if method == "memory" else Instantaneous(), steps=steps)


def trajectories() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    steps, lr, momentum, kappa = 30, 0.1, 0.8, 10.0
    for name, start in STARTS.items():
        noise = (0.2 * rng.standard_normal((steps, 2))).round(6)
        gradient = gradient_of(name, kappa)
        runs = [("sgd", "inst"), ("hb", "inst"), ("nag", "inst")]
        runs += [("memory", text) for text in (*CONTINUOUS, *DISCRETE)] if name == "valley" else [("memory", "poly:2")]
        for method, text in runs:

            def oracle(x: Array, k: int, gradient: Any = gradient, noise: Array = noise) -> Array:
                return np.asarray(gradient(x[None])[0] + noise[k])

            found = iterates(method, memory_of(text), lr, momentum, oracle, np.array(start), steps)
            arguments = (method, text, lr, momentum, name, kappa, start, noise.ravel().tolist())
            yield case("run", *arguments, result=found.ravel())


def flows() -> Iterator[Case]:
    lr, kappa, times = 0.1, 10.0, [0.05, 0.5, 1.0, 3.0, 8.0]
    texts = ("poly:1", "poly:2", "poly:3.7", "exp:0.9", "log", "stretch:1.5,h=0.05", DRAWN_TEXT)
    for name, start in STARTS.items():
        gradient = gradient_of(name, kappa)
        wanted = texts if name == "valley" else ("poly:2",)
        for text in wanted:
            solution = solve(MemoryFlow(in_time_of(text, lr), gradient=gradient), times, start, method="DOP853")
            # The knots of a drawn memory are kinks, at which both solvers lose digits.
            tolerance = 1e-4 if text == DRAWN_TEXT else SOLVED
            yield case("flow", text, lr, name, kappa, start, times, result=solution.x.ravel(), tolerance=tolerance)
        free = solve(GradientFlow(gradient=gradient), times, start, method="DOP853")
        yield case("flow", "inst", lr, name, kappa, start, times, result=free.x.ravel(), tolerance=SOLVED)
        nesterov = solve(HeavyBallFlow("3/t", gradient=gradient), times, start, method="DOP853")
        yield case("nesterovFlow", name, kappa, start, times, result=nesterov.x.ravel(), tolerance=SOLVED)


def by_impulses(method: str, lr: float, momentum: float, lam: float, x0: float, sigma: float, steps: int) -> Case:
    """Mean and variance of a method, which is linear, from its answers to a unit of noise at each step."""

    def path(start: float, kicked: int | None) -> Array:
        def oracle(x: Array, k: int) -> Array:
            return lam * x + (1.0 if k == kicked else 0.0)

        return iterates(method, Instantaneous(), lr, momentum, oracle, np.array([start]), steps).ravel()

    variance = sigma**2 * np.sum([path(0.0, j) ** 2 for j in range(steps)], axis=0)
    return {"mean": path(x0, None), "variance": variance}


def exact_moments() -> Iterator[Case]:
    lr, momentum, lam, x0, sigma, steps = 0.2, 0.8, 0.7, -1.2, 0.4, 30
    for text in (*CONTINUOUS, *DISCRETE):
        found = method_moments(memory_of(text), lr=lr, hessian=lam, x0=x0, noise=sigma, steps=steps)
        result = {"mean": found.mean[:, 0], "variance": found.var[:, 0]}
        yield case("methodMoments", "memory", text, lr, momentum, lam, x0, sigma, steps, result=result)
    for method in ("sgd", "hb", "nag"):
        result = by_impulses(method, lr, momentum, lam, x0, sigma, steps)
        yield case("methodMoments", method, "inst", lr, momentum, lam, x0, sigma, steps, result=result)
    spectrum, start = [0.1, 1.0], [-1.2, 0.9]
    found = method_moments("poly:2", lr=lr, hessian=np.diag(spectrum), x0=start, noise=sigma, steps=steps)
    loss = (found.mean**2 + found.var) @ np.array(spectrum) / 2
    yield case("expectedLoss", "memory", "poly:2", lr, momentum, spectrum, start, sigma, steps, result=loss)
    times = [0.1, 1.0, 5.0, 20.0]
    for text in ("poly:1", "poly:2", "poly:3.7", "exp:0.9", "log"):
        flow = MemoryFlow(in_time_of(text, 0.1), gradient=lambda x: lam * x, noise=1.0, hessian=lam)
        variance = moments(flow, times, 0.0).var_x[:, 0]
        yield case("memoryVariance", text, 0.1, lam, times, result=variance, tolerance=SOLVED)
    nesterov = HeavyBallFlow("3/t", gradient=lambda x: lam * x, noise=1.0, hessian=lam)
    variance = moments(nesterov, times, 0.0).var_x[:, 0]
    yield case("nesterovVariance", lam, times, result=variance, tolerance=SOLVED)
    for text in ("poly:2", "poly:3.7", "exp:0.9", "inst"):
        limit = limit_variance(text, lr=lr, curvature=lam, noise=sigma)
        yield case("limitVariance", text, lr, lam, sigma, result=limit)


def bounds() -> Iterator[Case]:
    k = [0, 1, 10, 500]
    for p in (2.0, 3.7, 20.0):
        of_steps = memsgd(k=k, degree=p, lr=0.05, smoothness=None, distance=1.5, noise=0.4, dimension=2)
        yield case("memsgdBound", k, p, 0.05, 1.5, 0.4, 2, result=of_steps.value)


def warps() -> Iterator[Case]:
    lr, t = 0.1, [0.2, 1.0, 4.0, 9.0]
    for text in ("poly:1", "poly:2", "poly:3.7", "exp:0.9", "log", "stretch:1.5,h=0.05"):
        warp = time_warp(in_time_of(text, lr))
        result = {"memoryTime": warp.memory_time(t), "back": t, "viscosity": warp.viscosity.rate(np.array(t))}
        # The general warp is found by quadrature and differences, by fewer points on the page.
        tolerance = ROUNDING if text.startswith(("poly", "exp")) else 1e-6
        yield case("warp", text, lr, t, result=result, tolerance=tolerance)
        # A heavy ball that is solved as one must be where the warped memory is.
        gradient, start = gradient_of("valley", 10.0), STARTS["valley"]
        memory = MemoryFlow(in_time_of(text, lr), gradient=gradient)
        warped = solve(memory, warp.memory_time(t), start, method="DOP853").x
        yield case("warpedFlow", text, lr, "valley", 10.0, start, t, result=warped.ravel(), tolerance=1e-5)


def cases() -> list[Case]:
    return [
        *memories(),
        *mixtures(),
        *modes(),
        *map_cells(),
        *power_laws(),
        *landscapes(),
        *trajectories(),
        *flows(),
        *exact_moments(),
        *bounds(),
        *warps(),
    ]


def name_of(case: Case) -> str:
    return f"{case['function']}({', '.join(json.dumps(each) for each in case['arguments'])})"[:160]


def differences(name: str, found: Any, expected: Any, tolerance: float) -> list[str]:
    """Where two results differ by more than the tolerance, relative to the largest number beside them."""
    if isinstance(expected, dict):
        return [
            each
            for key, value in expected.items()
            for each in differences(f"{name}.{key}", found[key], value, tolerance)
        ]
    if isinstance(expected, str):
        return [] if found == expected else [f"{name}: {found!r}, expected {expected!r}"]
    if expected is None or found is None:
        return [] if found is None and expected is None else [f"{name}: {found}, expected {expected}"]
    a, b = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    if a.shape != b.shape:
        return [f"{name}: {a.shape} numbers, expected {b.shape}"]
    # A passport's or weight's own size matters; a path may pass through 0, where its coordinates have none.
    size = np.abs(b) if b.size < 8 else np.maximum(np.abs(b), np.abs(b).max() * 1e-3)
    off = np.abs(a - b) > tolerance * size + 1e-15
    if not np.any(off):
        return []
    worst = float((np.abs(a - b) / np.maximum(size, 1e-300)).max())
    return [f"{name}: off by {worst:.1e} of its size, {tolerance:.0e} allowed"]


def write() -> None:
    lines = ",\n".join(json.dumps(each) for each in cases())
    GOLDEN.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    write()
