"""Mixtures in continuous time: their limits, moments, paths and changes of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import hyp0f1

from memgrad.dynamics import (
    GainWarp,
    HeavyBallFlow,
    MemoryFlow,
    MixtureFlow,
    method_moments,
    moments,
    simulate,
    simulate_together,
    solve,
)
from memgrad.memory import Mixture


def on_quadratic(lam: Any, noise: Any = 1.0) -> dict[str, Any]:
    hessian = np.diag(np.atleast_1d(lam))
    return {"gradient": lambda x: x @ hessian, "noise": noise, "hessian": hessian}


def test_gain_one_without_the_newest_gradient_is_memory() -> None:
    lam, t = [1.0, 0.3], [0.5, 2.0, 10.0]
    ours, theirs = (moments(flow("poly:3", **on_quadratic(lam)), t, [1.0, 2.0]) for flow in (MixtureFlow, MemoryFlow))
    for name in ("mean_x", "mean_v", "cov_xx", "cov_xv", "cov_vv"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-6, abs=1e-8)


def test_a_linear_gain_is_a_heavy_ball_also_with_noise() -> None:
    """X'' + (p-1)/t X' + cp (f' + sigma B') = 0: viscosity p - 1, gradient and noise times cp."""
    p, c, lam, sigma, t = 4.0, 0.5, 0.7, 0.3, [0.5, 2.0, 8.0]
    ours = moments(MixtureFlow("poly:4", scale=c, growth=1.0, **on_quadratic(lam, sigma)), t, 1.0)
    ball = HeavyBallFlow(f"{p - 1:g}/t", **on_quadratic(c * p * lam, c * p * sigma))
    theirs = moments(ball, t, 1.0)
    assert ours.mean_x == pytest.approx(theirs.mean_x, rel=1e-6, abs=1e-9)
    assert ours.cov_xx == pytest.approx(theirs.cov_xx, rel=1e-5)


@pytest.mark.parametrize(("growth", "instant"), [(0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (1.0, 0.5)])
def test_it_is_the_limit_of_the_method(growth: float, instant: float) -> None:
    """The error of E x^2 halves with the step, within a fifth, and ends below 1 %."""
    lam, sigma, end = 0.8, 0.5, 4.0
    flow = MixtureFlow("poly:3", scale=0.5, growth=growth, instant=instant, **on_quadratic(lam, sigma))
    exact = moments(flow, [end], 1.0)
    expected = exact.mean_x[-1, 0] ** 2 + exact.var_x[-1, 0]
    errors = []
    for h in (0.02, 0.01, 0.005):
        text = f"{instant}*inst + {0.5 * h**growth!r}*(1+k)^{growth}*poly:3"
        found = method_moments(text, lr=h, hessian=lam, x0=1.0, noise=sigma / np.sqrt(h), steps=round(end / h))
        errors.append(float(found.mean[-1, 0] ** 2 + found.var[-1, 0] - expected))
    assert abs(errors[-1]) < 0.01 * expected
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.2)
    assert errors[2] == pytest.approx(errors[1] / 2, rel=0.2)


@pytest.mark.parametrize(("p", "c", "g", "n"), [(3.0, 0.5, 0.25, 0.8), (2.5, 1.3, 1.0, 0.0), (0.8, 1.0, 0.0, 2.0)])
def test_the_moments_under_a_constant_gradient_are_integrals_of_the_pushes(
    p: float, c: float, g: float, n: float
) -> None:
    """The noise at r pushes X by phi(r) = n + c p r^(p-1) int_r^t s^(g-p) ds, and V by psi(r) = p r^(p-1)/t^p."""

    def integral(t: float, first: str, second: str) -> float:
        def push(r: float, which: str) -> float:
            if which == "v":
                return p * r ** (p - 1) / t**p
            return n + c * p * r ** (p - 1) * (t ** (g - p + 1) - r ** (g - p + 1)) / (g - p + 1)

        # r = t u^3 takes the power of r at 0 away.
        return quad(lambda u: push(t * u**3, first) * push(t * u**3, second) * 3 * t * u**2, 0, 1, epsabs=1e-13)[0]

    flow = MixtureFlow(f"poly:{p}", scale=c, growth=g, instant=n, gradient=np.ones_like, noise=0.5, hessian=0.0)
    found = moments(flow, [0.0, 1e-4, 2.0], 1.0)
    for i, t in enumerate(found.t.tolist()):
        assert found.mean_x[i, 0] == pytest.approx(1 - n * t - c * t ** (1 + g) / (1 + g), rel=1e-9)
        assert found.mean_v[i, 0] == pytest.approx(-1.0)
        if t:
            exact = [0.25 * integral(t, *pair) for pair in ("xx", "xv", "vv")]
            assert [found.cov_xx[i, 0, 0], found.cov_xv[i, 0, 0], found.cov_vv[i, 0, 0]] == pytest.approx(
                exact, rel=1e-6
            )
            early = [part.item() for part in flow._near_zero(t, 1, np.array([[0.25]]))[2:]]
            assert early == pytest.approx(exact, rel=1e-6)  # the gradient is the first one at all times
    assert found.cov_xx[0, 0, 0] == 0
    assert found.cov_xv[0, 0, 0] == pytest.approx(found.cov_xv[1, 0, 0], abs=0.1)


def test_a_gain_has_the_velocity_of_memory_at_time_0_too() -> None:
    gradient = {"gradient": lambda x: 2 * x}
    for p, c, g in ((3.0, 0.5, 0.5), (4.0, 1.0, 1.0)):
        warp = MixtureFlow(f"poly:{p}", scale=c, growth=g, **gradient).warp()
        ball = solve(HeavyBallFlow(warp.viscosity, **gradient), [0.0, 1.0], 3.0)
        assert warp.to_memory(ball).v[0] == pytest.approx([-6.0], rel=1e-6)  # V(0+) = -gradient


def test_paths_say_how_many_steps_and_normals_they_took() -> None:
    flow, seen = MixtureFlow("poly:4", instant=1.0, **on_quadratic([1.0, 0.4], 0.5)), []
    noise = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]])
    found = simulate(flow, [3.0], [1.0, 1.0], paths=3, dt=0.005, seed=0, progress=lambda *each: seen.append(each))
    assert (found.steps, found.normals) == (600, 2 * 600 * 3 * 2)
    assert seen == [(256, 600), (512, 600), (600, 600)]
    wide = MixtureFlow("poly:4", gradient=lambda x: x, noise=noise)
    assert simulate(wide, [0.5], [1.0, 1.0], paths=2, dt=0.1, seed=0).normals == 2 * 5 * 2 * 3


def test_paths_have_the_exact_moments() -> None:
    """Within four standard errors and 1 % for the steps of first order."""
    flow = MixtureFlow("poly:4", scale=0.8, growth=0.5, instant=0.6, **on_quadratic([1.0, 0.4], 0.5))
    t, paths = [1.0, 3.0], 20_000
    found, exact = simulate(flow, t, [1.0, -1.0], paths=paths, dt=0.005, seed=3), moments(flow, t, [1.0, -1.0])
    error = np.sqrt(exact.var_x / paths)
    assert np.all(np.abs(found.mean_x - exact.mean_x) < 4 * error + 0.01)
    for ours, theirs in ((found.var_x, exact.var_x), (found.var_v, exact.var_v)):
        assert np.all(np.abs(ours / theirs - 1) < 4 * np.sqrt(2 / paths) + 0.015)


@pytest.mark.parametrize(
    ("p", "scale", "growth"), [(2.0, 1.0, 0.0), (4.0, 1.0, 0.5), (3.0, 0.3, 1.0), (1.5, 2.0, 0.25)]
)
def test_a_gain_is_a_heavy_ball_in_another_time(p: float, scale: float, growth: float) -> None:
    """On a quartic, which no closed form knows: the paths coincide, velocities too."""
    quartic: dict[str, Any] = {"gradient": lambda x: 4 * x**3 * np.array([0.8, 0.3])}
    flow = MixtureFlow(f"poly:{p}", scale=scale, growth=growth, **quartic)
    warp = flow.warp()
    t = np.linspace(0.2, 5.0, 25)
    memory = solve(flow, t, [1.0, 1.2])
    ball = solve(HeavyBallFlow(warp.viscosity, **quartic), warp.heavy_ball_time(t), [1.0, 1.2])
    assert np.abs(memory.x - ball.x).max() < 1e-8
    there = warp.to_heavy_ball(memory)
    assert np.abs(there.v - ball.v).max() < 1e-6
    assert np.abs(warp.to_memory(ball).v - memory.v).max() < 1e-6
    assert warp.memory_time(warp.heavy_ball_time(t)) == pytest.approx(t)


def test_the_viscosities_of_known_cases() -> None:
    assert str(GainWarp(2.0, 1.0, 0.0).viscosity) == "3/t"  # the paper's: linear memory is Nesterov
    assert str(GainWarp(4.0, 1.0, 1.0).viscosity) == "3/t"  # and so is Nesterov's own mixture


def test_without_noise_the_exponent_is_zeta_times_two_minus_kappa() -> None:
    """A power law in 2,000 curvatures: the loss falls as t^-(zeta (1+g)) before its flattest directions move."""
    zeta, growth = 0.5, 0.5
    lam = np.geomspace(1e-10, 1, 2000)
    weight = lam**zeta  # of each logarithmic interval in the first loss
    t = np.geomspace(30, 3000, 9)
    warp = GainWarp(4.0, 1.0, growth)
    order = (2 * 4.0 - 1 - growth) / (1 + growth) / 2 + 0.5
    loss = [float(weight @ hyp0f1(order, -lam * s**2 / 4) ** 2) for s in warp.heavy_ball_time(t)]
    slope = -np.polyfit(np.log(t), np.log(loss), 1)[0]
    assert slope == pytest.approx(zeta * (1 + growth), abs=0.02)


def test_damping_by_curvature_equation() -> None:
    """X'' + (a - g/t) X' + n H X' + (c t^g a + n (a - g/t)) f' = 0 with the newest gradient at n."""
    lam, n, p, g, c = 0.9, 0.7, 3.0, 0.5, 1.3
    flow = MixtureFlow("poly:3", scale=c, growth=g, instant=n, **on_quadratic(lam, 0.0))
    t = np.linspace(1.0, 4.0, 3001)
    x = solve(flow, t, 1.0).x[:, 0]
    h = t[1] - t[0]
    first, second = (x[2:] - x[:-2]) / (2 * h), (x[2:] - 2 * x[1:-1] + x[:-2]) / h**2
    s, y = t[1:-1], x[1:-1]
    a = p / s
    rest = second + (a - g / s) * first + n * lam * first + (c * s**g * a + n * (a - g / s)) * lam * y
    assert np.abs(rest).max() < 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MixtureFlow("inst", gradient=np.ones_like), "use GradientFlow"),
        (lambda: MixtureFlow("poly:2", growth=-1.0, gradient=np.ones_like), "finite growth >= 0, got growth=-1.0"),
        (lambda: MixtureFlow("poly:2", growth=np.inf, gradient=np.ones_like), "finite growth >= 0, got growth=inf"),
        (lambda: MixtureFlow("poly:2", instant=-0.1, gradient=np.ones_like), "finite instant >= 0, got instant=-0.1"),
        (lambda: MixtureFlow("poly:2", scale=0.0, gradient=np.ones_like), "finite scale > 0, got scale=0.0"),
        (lambda: MixtureFlow("poly:0.5", gradient=np.ones_like, noise=1.0), "p > 1/2"),
        (lambda: MixtureFlow("poly:2", instant=1.0, gradient=np.ones_like).warp(), "no change of time"),
        (lambda: MixtureFlow("exp:0.9", gradient=np.ones_like).warp(), "polynomial memory, got exp:0.9"),
        (lambda: GainWarp(0.5, 1.0, 0.5).viscosity, r"p > \(1\+g\)/2"),
        (lambda: MixtureFlow.of("exp:0.9 + poly:2", h=0.1, gradient=np.ones_like), "one average"),
        (lambda: MixtureFlow.of("ramp(10)*poly:2", h=0.1, gradient=np.ones_like), r"times \(1\+k\)\^a"),
        (
            lambda: simulate_together(
                [MixtureFlow("poly:2", gradient=np.ones_like)] * 2, [1.0], 1.0, paths=1, dt=0.1, seed=0
            ),
            "simulated alone",
        ),
    ],
)
def test_bad_input_is_answered_by_name_rule_and_value(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def same(x: Any) -> Any:
    return x


def constant(x: Any) -> Any:
    return 0 * x + 1.0


@pytest.mark.parametrize("memory", ["poly:100", "exp:alpha=100", "poly:3"])
@pytest.mark.parametrize(("growth", "instant"), [(0.0, 0.0), (0.5, 1.0)])
def test_paths_of_a_mixture_that_forgets_fast_have_the_exact_variances(
    memory: str, growth: float, instant: float
) -> None:
    flow = MixtureFlow(memory, growth=growth, instant=instant, gradient=constant, noise=1.0, hessian=0.0)
    paths = 4000
    found, exact = simulate(flow, [2.0], 0.0, paths=paths, dt=0.1, seed=0), moments(flow, [2.0], 0.0)
    for ours, theirs in ((found.var_x, exact.var_x), (found.var_v, exact.var_v)):
        assert ours.item() / theirs.item() == pytest.approx(1, abs=4 * np.sqrt(2 / paths))


def test_a_flow_or_density_for_steps_of_length_h_refuses_a_memory_with_other_steps() -> None:
    mixture = Mixture.parse("2*exp:0.9,h=0.1")
    assert mixture.influence(4.55, 5.05, h=0.1) == pytest.approx(mixture.weights(50)[45] / 0.1, rel=0.06)
    for call in (
        lambda: MixtureFlow.of("exp:0.9", h=0.1, gradient=same),
        lambda: Mixture.parse("2*exp:0.9").influence(4.55, 5.05, h=0.1),
        lambda: Mixture.parse("log").influence(4.55, 5.05, h=0.1),
    ):
        with pytest.raises(ValueError, match=r"h=0\.1 .* whose steps have the length 1\.0: .*exp:0\.9,h=0\.1"):
            call()
    with pytest.raises(ValueError, match="h > 0, got h=0"):
        Mixture.parse("(1+k)^0.5*poly:2").influence(1.0, 2.0, h=0)


def test_the_average_of_a_mixture_has_infinite_variance_at_0() -> None:
    both = [make("poly:2", gradient=same, noise=1.0, hessian=1.0) for make in (MixtureFlow, MemoryFlow)]
    ours, theirs = (moments(flow, [0.0, 1.0], 1.0).cov_vv.ravel() for flow in both)
    assert ours[0] == theirs[0] == np.inf
    assert ours[1] == pytest.approx(theirs[1], rel=1e-6)
    assert moments(MixtureFlow("poly:2", gradient=same, hessian=1.0), [0.0], 1.0).cov_vv.item() == 0
