"""Exact risk of streaming least squares: against sampling, closed forms, and the moments with additive noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memgrad.dynamics import Spectrum, exact_risk, method_moments, sgd_limit
from memgrad.memory import Memory
from memgrad.method import Method, WeightDecay

MIXTURES = (
    "inst",
    "exp:0.8",
    "inst + 0.2*(1+k)^0.5*poly:4",
    "sum*exp:0.7",
    "0.5*inst + 0.3*exp:0.5 + 0.2*poly:2",
)


def test_the_fourth_moment_identity_behind_the_recursion() -> None:
    """E[a a'D a a'] = 2HDH + H tr(HD) for a ~ N(0, H), by Isserlis' theorem entry by entry."""
    rng = np.random.default_rng(0)
    root, d = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    h, d = root @ root.T, d + d.T
    # E[a_i a_j a_k a_l] = H_ij H_kl + H_ik H_jl + H_il H_jk
    fourth = np.einsum("ij,kl->ijkl", h, h) + np.einsum("ik,jl->ijkl", h, h) + np.einsum("il,jk->ijkl", h, h)
    assert np.allclose(np.einsum("ijkl,jk->il", fourth, d), 2 * h @ d @ h + h * np.trace(h @ d))


def _sampled(method: Method, lam: np.ndarray, x0: np.ndarray, lr: np.ndarray, batch: int, noise: float) -> np.ndarray:
    """Half the squared error of 20,000 runs of real streaming least squares after all steps, one number per run."""
    rng, runs = np.random.default_rng(1), 20_000
    x = np.tile(x0, (runs, 1))
    averages = [np.zeros_like(x) for _ in method.mixture.parts]
    for k, eta in enumerate(lr):
        a = rng.normal(size=(runs, batch, len(lam))) * np.sqrt(lam)
        errors = np.einsum("rbj,rj->rb", a, x) - noise * rng.normal(size=(runs, batch))
        g = np.einsum("rb,rbj->rj", errors, a) / batch + method.weight_decay.l2(k) * x
        step = np.zeros_like(x)
        for i, part in enumerate(method.mixture.parts):
            b = part.memory.decay(k)
            averages[i] = b * averages[i] + (1 - b) * g
            step += part.gain(k, part.memory) * averages[i]
        x = (1 - method.weight_decay.shrink(k, eta, lr.max())) * x - eta * step
    return np.asarray(0.5 * x**2 @ lam)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_sampled_least_squares_agrees_within_four_standard_errors(mixture: str, batch: int) -> None:
    lam, x0, steps = np.array([1.0, 0.4, 0.1, 0.1]), np.array([1.0, -1.0, 2.0, 0.5]), 12
    schedule = np.linspace(1.0, 0.3, steps)
    kind = "l2" if batch == 1 else "decoupled"
    method = Method(mixture, weight_decay=WeightDecay(0.05, kind))
    found = exact_risk(
        method, Spectrum.of(lam, x0), lr=0.12, steps=steps, batch=batch, noise=0.5, schedule=schedule, record=[0, steps]
    ).risk[0, 0]
    samples = _sampled(method, lam, x0, 0.12 * schedule, batch, 0.5)
    assert found[0] == pytest.approx(0.5 * (lam * x0**2).sum())
    assert abs(samples.mean() - found[1]) < 4 * samples.std() / np.sqrt(len(samples))


@pytest.mark.parametrize(("d", "batch", "noise"), [(1, 1, 0.0), (5, 1, 0.3), (5, 4, 0.0), (8, 16, 1.0)])
def test_sgd_on_an_isotropic_problem_has_its_closed_form(d: int, batch: int, noise: float) -> None:
    # E|x'|^2 = (1 - 2 eta + eta^2 (1 + (d+1)/B)) E|x|^2 + eta^2 d s^2/B
    eta, k = 0.7 / (1 + (d + 1) / batch), np.arange(200)
    factor = 1 - 2 * eta + eta**2 * (1 + (d + 1) / batch)
    limit = eta**2 * d * noise**2 / batch / (1 - factor)
    expected = limit + (d - limit) * factor**k
    found = exact_risk("inst", Spectrum.of(np.ones(d)), lr=eta, steps=199, batch=batch, noise=noise, record=k)
    assert np.allclose(found.risk[0, 0], expected / 2, rtol=1e-12)


def test_sgd_in_many_directions_is_a_matrix_power() -> None:
    lam, x0, eta, batch = np.array([1.0, 0.5, 0.2]), np.array([1.0, 2.0, 3.0]), 0.2, 2
    matrix = np.diag((1 - eta * lam) ** 2 + eta**2 * lam**2 / batch) + eta**2 / batch * np.outer(lam, lam)
    expected = [0.5 * lam @ np.linalg.matrix_power(matrix, k) @ x0**2 for k in range(600)]
    found = exact_risk("inst", Spectrum.of(lam, x0), lr=eta, steps=599, batch=batch, record=np.arange(600))
    assert np.allclose(found.risk[0, 0], expected, rtol=1e-11)


@pytest.mark.parametrize("mixture", MIXTURES)
def test_large_batches_have_the_moments_with_additive_noise(mixture: str) -> None:
    """For B to infinity at s^2/B = sigma^2 the noise is additive, with the covariance sigma^2 H."""
    lam, x0, sigma, steps = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 3.0]), 0.4, 40
    moments = method_moments(
        mixture, lr=0.2, hessian=np.diag(lam), x0=x0, noise=np.diag(sigma * np.sqrt(lam)), steps=steps
    )
    expected = 0.5 * (moments.mean**2 + moments.var) @ lam
    found = exact_risk(
        mixture, Spectrum.of(lam, x0), lr=0.2, steps=steps, batch=10**12, noise=sigma * 1e6, record=np.arange(steps + 1)
    )
    assert np.allclose(found.risk[0, 0], expected, rtol=1e-9)


def test_equal_eigenvalues_may_share_a_bin() -> None:
    alone = Spectrum.of([1.0, 0.25, 0.25, 0.25], x0=[1.0, 1.0, 2.0, 3.0])
    together = Spectrum([1.0, 0.25], [1.0, 0.75], [1.0, 0.25 * 14])
    a, b = (exact_risk(MIXTURES[2], each, lr=0.1, steps=300).risk for each in (alone, together))
    assert np.allclose(a, b, rtol=1e-12)


def test_bins_of_a_power_law_agree_with_all_its_eigenvalues() -> None:
    """Within 0.3 %: bins have one curvature, so the error is of second order in their width (0.23 in the logarithm)."""
    nu, zeta, j = 1.5, 0.5, np.arange(1, 1001.0)
    every = Spectrum.of(j**-nu, np.sqrt(j ** (nu - nu * zeta - 1)))
    binned = Spectrum.power_law(nu, zeta, dimension=1000)
    assert binned.risk == pytest.approx(every.risk, rel=1e-12)
    assert binned.trace.sum() == pytest.approx(every.trace.sum(), rel=1e-12)
    a, b = (
        exact_risk(list(MIXTURES[:3]), each, lr=[0.05, 0.2], steps=600, record=[1, 60, 600]).risk
        for each in (every, binned)
    )
    assert np.abs(b / a - 1).max() < 3e-3


@pytest.mark.parametrize("dimension", [1, 5, 15, 16, 17, 40, 1000])
def test_a_power_law_has_its_eigenvalues_and_the_first_sixteen_a_bin_each(dimension: int) -> None:
    nu, zeta, j = 1.5, 0.4, np.arange(1, dimension + 1.0)
    found = Spectrum.power_law(nu, zeta, dimension=dimension)
    single = min(dimension, 16)
    assert len(found.curvature) == single if dimension <= 16 else len(found.curvature) > single
    assert found.curvature[:single] == pytest.approx(j[:single] ** -nu, rel=1e-9)
    assert found.trace[:single] == pytest.approx(j[:single] ** -nu, rel=1e-9)
    assert found.trace.sum() == pytest.approx((j**-nu).sum(), rel=1e-12)
    assert found.signal.sum() == pytest.approx((j ** (-nu * zeta - 1)).sum(), rel=1e-12)
    assert np.all(found.curvature >= j[-1] ** -nu * (1 - 1e-9))
    assert found.name == f"nu = 1.5, zeta = 0.4, {dimension} eigenvalues"
    if dimension > 17:
        assert found.trace[16] > (j[16:18] ** -nu).sum() * (1 - 1e-9)  # two eigenvalues at least


def test_many_settings_equal_single_ones_and_a_run_can_be_split_at_any_stretch() -> None:
    spectrum = Spectrum.power_law(2.0, 0.5)
    methods = [f"inst + {c}*(1+k)^0.5*poly:4" for c in (0.01, 0.02, 0.05)] + ["inst", "exp:0.9 + 0.1*exp:0.99"]
    lrs = np.geomspace(0.01, 0.3, 25)
    together = exact_risk(methods, spectrum, lr=lrs, steps=1025, threads=2)
    assert together.risk.shape[:2] == (5, 25)
    for i in (0, 3, 4):
        alone = exact_risk(methods[i], spectrum, lr=lrs[7], steps=1025)
        assert np.allclose(alone.risk[0, 0], together.risk[i, 7], rtol=1e-12)
    shorter = exact_risk("inst", spectrum, lr=lrs[7], steps=512)
    assert shorter.final[0, 0] == pytest.approx(
        exact_risk("inst", spectrum, lr=lrs[7], steps=1025, record=[512]).final[0, 0], rel=1e-12
    )


@pytest.mark.parametrize(("nu", "batch"), [(1.2, 1), (2.0, 1), (2.0, 8), (3.0, 1000)])
def test_sgd_converges_below_its_limit_and_diverges_above(nu: float, batch: int) -> None:
    spectrum = Spectrum.power_law(nu, 0.5, dimension=200)
    limit = sgd_limit(spectrum, batch=batch)
    found = exact_risk("inst", spectrum, lr=[0.95 * limit, 1.1 * limit], steps=20_000, batch=batch)
    below, above = found.diverged_at[0]
    assert below == -1
    assert found.risk[0, 0, -1] < 0.2 * found.risk[0, 0, 0]
    assert above > 0
    assert np.isinf(found.final[0, 1])


def test_divergence_is_reported_with_its_step() -> None:
    eta = 3.0
    factor = (1 - eta) ** 2 + 2 * eta**2  # per step, in one direction: 22
    found = exact_risk(["inst", "poly:2"], Spectrum.of([1.0]), lr=[eta, 0.1], steps=100, record=np.arange(101))
    first = int(np.ceil(np.log(1e8) / np.log(factor)))
    assert found.diverged_at[0, 0] == first
    assert np.isfinite(found.risk[0, 0, :first]).all()
    assert np.isinf(found.risk[0, 0, first:]).all()
    assert (found.diverged_at[:, 1] == -1).all()
    with pytest.raises(ValueError, match=r"every one of these settings diverged.*smaller learning rates than 3"):
        exact_risk("inst", Spectrum.of([1.0]), lr=3.0, steps=100).best()


def test_a_step_at_the_learning_rate_0_leaves_the_risk_as_it_is() -> None:
    found = exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=3, schedule=[1.0, 0.0, 1.0], record=[1, 2, 3])
    assert found.risk[0, 0, 1] == found.risk[0, 0, 0] > found.risk[0, 0, 2]


def test_the_first_and_last_step_are_recorded_and_progress_counts_setting_steps() -> None:
    seen: list[tuple[int, int]] = []
    options: dict[str, Any] = {"steps": 600, "threads": 1, "progress": lambda *each: seen.append(each)}
    found = exact_risk(["inst", "poly:2", "exp:0.5"], Spectrum.of([1.0]), lr=[0.1, 0.2], **options)
    assert (found.k[0], found.k[1], found.k[-1]) == (0, 1, 600)
    assert np.all(np.diff(found.k) > 0)
    # Stretches of 512 steps: two settings without an average, and four with one.
    assert seen == [(1024, 3600), (1200, 3600), (3248, 3600), (3600, 3600)]


def test_the_best_of_some_methods_is_named_by_its_place_among_all() -> None:
    found = exact_risk(["inst", "poly:2", "inst"], Spectrum.of([1.0]), lr=[1e-4, 0.3, 1e-5], steps=20)
    assert found.best() in ((0, 1), (2, 1), (1, 1))
    assert found.best([2]) == (2, 1)
    assert found.best([1, 2])[0] in (1, 2)


def test_a_schedule_may_be_a_function_or_numbers() -> None:
    spectrum, steps = Spectrum.power_law(1.5, 0.5), 50
    by_function = exact_risk("poly:2", spectrum, lr=0.2, steps=steps, schedule=lambda k: 1 - k / steps)
    by_numbers = exact_risk("poly:2", spectrum, lr=0.2, steps=steps, schedule=1 - np.arange(steps) / steps)
    assert np.array_equal(by_function.risk, by_numbers.risk)


def test_an_interrupted_computation_stops() -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exact_risk("inst", Spectrum.power_law(1.5, 0.5), lr=np.full(200, 0.1), steps=10**7, progress=interrupt)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Spectrum.power_law(1.0, 0.5), r"needs a finite nu > 1, got nu=1.0: the sum of the eigenvalues"),
        (lambda: Spectrum.power_law(np.nan, 0.5), r"needs a finite nu > 1, got nu=nan"),
        (lambda: Spectrum.power_law(2.0, 0.0), r"needs a finite zeta > 0, got zeta=0.0"),
        (lambda: Spectrum.power_law(2.0, 0.5, dimension=2.5), r"integer dimension >= 1 or inf, got dimension=2.5"),
        (lambda: Spectrum.of([1.0, 0.0]), r"every curvature > 0, got .*0.0.* in bin 1"),
        (lambda: Spectrum.of([1.0, -0.5]), r"every curvature > 0, got .*-0.5"),
        (lambda: Spectrum([1.0], [1.0, 2.0], [1.0]), r"one trace per bin, got 2 for 1"),
        (lambda: Spectrum([1.0], [1.0], [-1.0]), r"every signal >= 0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.0, steps=5), r"finite learning rates lr > 0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=0), r"steps >= 1, got steps=0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=5, batch=0), r"integer batch >= 1, got batch=0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=5, noise=-1), r"finite noise >= 0, got noise=-1"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=5, record=[3, 6]), r"increasing steps from 0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=5, record=[-1, 5]), r"increasing steps from 0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=5, record=[2, 2]), r"increasing steps from 0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=[], steps=5), r"finite learning rates lr > 0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=[[0.1]], steps=5), r"finite learning rates lr > 0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=5, noise=np.inf), r"noise >= 0, got noise=inf"),
        (lambda: sgd_limit(Spectrum.of([1.0]), batch=1.5), r"sgd_limit needs an integer batch >= 1, got batch=1.5"),
        (lambda: Spectrum([1.0], [0.0], [1.0]), r"every trace > 0, got .*0.0.* in bin 0"),
        (lambda: Spectrum.power_law(2.0, 0.5, per_octave=0.9), r"per_octave"),
        (lambda: Spectrum.power_law(2.0, 0.5, dimension=0), r"integer dimension >= 1 or inf, got dimension=0"),
        (lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=5, schedule=[1.0]), r"each of the 5 steps"),
        (
            lambda: exact_risk("inst", Spectrum.of([1.0]), lr=0.1, steps=2, schedule=[1.0, -1.0]),
            r"finite and >= 0, got .*-1.0.* at step k=1",
        ),
        (
            lambda: exact_risk("exp:0.9 / (sqrt(exp:0.99))", Spectrum.of([1.0]), lr=0.1, steps=2),
            r"without a second memory",
        ),
    ],
)
def test_bad_input_is_answered_by_name_rule_and_value(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_memories_mixtures_methods_and_texts_are_the_same() -> None:
    spectrum, memory = Spectrum.power_law(1.5, 0.5), Memory.parse("poly:2")
    found = exact_risk([memory, "poly:2", Method("poly:2")], spectrum, lr=0.1, steps=20)
    assert np.allclose(found.risk[0], found.risk[1], rtol=1e-13)
    assert np.allclose(found.risk[0], found.risk[2], rtol=1e-13)


def test_a_run_that_starts_at_the_minimizer_is_not_called_diverged() -> None:
    lr, noise = 0.1, 1.0
    found = exact_risk("inst", Spectrum.of([1.0], x0=0.0), lr=lr, noise=noise, steps=400, record=[0, 1, 400])
    # E x^2 is multiplied by 1 - 2 lr + 3 lr^2 (Gaussian features, one direction), and lr^2 noise^2 is added.
    floor = (lr * noise) ** 2 / (2 * lr - 3 * lr**2) / 2
    assert found.diverged_at.item() == -1
    assert found.risk[0, 0] == pytest.approx([0.0, (lr * noise) ** 2 / 2, floor], rel=1e-9)
