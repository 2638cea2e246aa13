"""Objectives against closed forms, autograd, finite differences, and the inequalities their constants stand for."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memgrad.problems.objectives import (
    FAMILIES,
    SU,
    ConstantGradient,
    Huber,
    LeastSquares,
    LogCosh,
    Logistic,
    Objective,
    PowerLaw,
    Quadratic,
    Quartic,
)

Array = NDArray[np.float64]
properties = settings(max_examples=50, deadline=None)


def some_data(n: int = 12, d: int = 3, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(n)


INPUTS, TARGETS = some_data()
LABELS = (TARGETS > 0).astype(float)
LABELS[:2] = 1 - LABELS[:2]


@dataclass(frozen=True)
class Row:
    """An objective with its constants, which were derived by hand."""

    objective: Objective
    L: float
    mu: float
    tau: float | None


# L and mu of the regressions come from singular values here, not from the eigenvalues of the library.
SINGULAR = np.linalg.svd(INPUTS, compute_uv=False) ** 2 / len(INPUTS)
ROWS = {
    "su": Row(SU, 0.04, 0.01, 2),
    "quadratic": Row(Quadratic((3.0, 1.0, 0.5)), 3, 0.5, 2),
    "rotated": Row(Quadratic((3.0, 1.0, 0.5), rotation=7), 3, 0.5, 2),
    "flat": Row(Quadratic((1.0, 0.0)), 1, 0, 2),
    "quartic": Row(Quartic(), math.inf, 0, 4),
    "huber": Row(Huber(1.0), 1, 0, 1),
    "huber-2d": Row(Huber(0.3, dimension=2), 1, 0, 1),
    "logcosh": Row(LogCosh(dimension=2), 1, 0, 1),
    "constant": Row(ConstantGradient((1.0, -2.0)), 0, 0, None),
    "least-squares": Row(LeastSquares(INPUTS, TARGETS), SINGULAR[0], SINGULAR[-1], 2),
    "ridge": Row(LeastSquares(INPUTS, TARGETS, l2=0.1), SINGULAR[0] + 0.1, SINGULAR[-1] + 0.1, 2),
    "logistic": Row(Logistic(INPUTS, LABELS), SINGULAR[0] / 4, 0, 1),
    "logistic-l2": Row(Logistic(INPUTS, LABELS, l2=0.1), SINGULAR[0] / 4 + 0.1, 0.1, 1),
}
POWER_LAW = PowerLaw(1.0, 0.5, dimension=3, ambient=9, seed=1)
ALL = {name: row.objective for name, row in ROWS.items()} | {"powerlaw": POWER_LAW}
every_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
every_objective = pytest.mark.parametrize("objective", ALL.values(), ids=ALL)


def points(objective: Objective, shape: tuple[int, ...] = (7,), scale: float = 2.0, seed: int = 0) -> Array:
    return scale * np.random.default_rng(seed).standard_normal((*shape, objective.dimension))


# --- closed forms --------------------------------------------------------------------------------------------------


def test_values_are_those_of_the_formulas() -> None:
    x = np.array([[1.0, 1.0], [-2.0, 0.5]])
    np.testing.assert_allclose(SU.value(x), [0.025, 0.08 + 0.00125], rtol=1e-15)
    np.testing.assert_allclose(SU.gradient(x), [[0.04, 0.01], [-0.08, 0.005]], rtol=1e-15)
    np.testing.assert_allclose(Quartic().value(x), [1.2, 0.8 * 16 + 0.4 / 16], rtol=1e-15)
    np.testing.assert_allclose(Quartic().gradient(x), [[3.2, 1.6], [-25.6, 0.2]], rtol=1e-15)
    np.testing.assert_allclose(Huber(1.0, dimension=2).value(x), [1.0, 1.5 + 0.125], rtol=1e-15)
    np.testing.assert_allclose(Huber(0.5, dimension=2).value(x), [0.75, 0.875 + 0.125], rtol=1e-15)
    np.testing.assert_allclose(ConstantGradient((3.0, -1.0)).value(x), [2.0, -6.5], rtol=1e-15)
    cosh = np.log(np.cosh(x)).sum(-1)
    np.testing.assert_allclose(LogCosh(dimension=2).value(x), cosh, rtol=1e-14)


@given(st.floats(1e-150, 1e150))
def test_log_cosh_is_accurate_from_the_smallest_to_the_largest_argument(x: float) -> None:
    import mpmath

    with mpmath.workdps(400):
        expected = float(mpmath.log(mpmath.cosh(x))) if x < 700 else x - math.log(2)
    assert LogCosh().value(np.array([x])) == pytest.approx(expected, rel=1e-14, abs=0)


def test_regressions_are_means_over_the_examples() -> None:
    x = np.array([0.3, -1.0, 2.0])
    each = [(a @ x - y) ** 2 / 2 for a, y in zip(INPUTS, TARGETS, strict=True)]
    assert LeastSquares(INPUTS, TARGETS, l2=0.1).value(x) == pytest.approx(np.mean(each) + 0.05 * (x @ x))
    each = [-math.log(1 / (1 + math.exp(-z if y else z))) for z, y in zip(INPUTS @ x, LABELS, strict=True)]
    assert Logistic(INPUTS, LABELS, l2=0.1).value(x) == pytest.approx(np.mean(each) + 0.05 * (x @ x))


def test_the_power_law_loss_is_the_mean_over_its_data() -> None:
    """E over a of (<W^T a, x> - <a, c>)^2 / 2, with the features W read off the data's map, not from H."""
    w, j = POWER_LAW._features, np.arange(1.0, 10.0)
    x = np.array([0.5, -1.0, 2.0])
    errors = w @ x - 1 / np.sqrt(j)
    assert POWER_LAW.value(x) == pytest.approx(0.5 * sum(errors**2 / j**2))
    assert np.abs(w).max() < 5 / math.sqrt(3)
    wide = PowerLaw(1.0, 0.5, dimension=50, ambient=2000)
    # 10^5 entries of variance 1/d: the standard error of the variance is sqrt(2/10^5) of it.
    assert wide._features.var() * 50 == pytest.approx(1, abs=4 * math.sqrt(2e-5))


def test_a_rotation_turns_the_axes_and_keeps_the_spectrum() -> None:
    turned = Quadratic((3.0, 1.0), rotation=((0.0, 1.0), (-1.0, 0.0)))
    assert turned.value(np.array([1.0, 0.0])) == pytest.approx(0.5)
    assert turned.value(np.array([0.0, 1.0])) == pytest.approx(1.5)
    drawn = Quadratic((3.0, 1.0, 0.5), rotation=7)
    np.testing.assert_allclose(np.linalg.eigvalsh(drawn.hessian(np.zeros(3))), [0.5, 1, 3], rtol=1e-12)
    assert np.abs(np.linalg.eigh(drawn.hessian(np.zeros(3)))[1]).max() < 0.999


# --- derivatives, shapes, kinds ------------------------------------------------------------------------------------


@every_objective
def test_the_gradient_is_torchs_gradient_of_the_value(objective: Objective) -> None:
    x = torch.tensor(points(objective, (4, 5)), requires_grad=True)
    objective.value(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(objective.gradient(x.detach()), x.grad, rtol=1e-12, atol=1e-12)


@every_objective
def test_the_hessian_is_torchs_jacobian_of_the_gradient(objective: Objective) -> None:
    for x in torch.tensor(points(objective, (5,))):
        jacobian: Any = torch.func.jacrev(objective.gradient)(x)
        torch.testing.assert_close(objective.hessian(x), jacobian, rtol=1e-12, atol=1e-12)


@every_objective
def test_the_gradient_agrees_with_finite_differences(objective: Objective) -> None:
    x, direction, h = points(objective, (20,)), points(objective, (20,), 1.0, seed=1), 1e-5
    slope = (objective.value(x + h * direction) - objective.value(x - h * direction)) / (2 * h)
    # h^2 times a third derivative, and rounding / h. Huber's kink, within h of a point, is met by no seed of these.
    np.testing.assert_allclose(slope, (objective.gradient(x) * direction).sum(-1), rtol=1e-7, atol=1e-7)


@every_objective
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0,), (2000,), (3, 700)])
def test_points_are_independent_of_each_other(objective: Objective, shape: tuple[int, ...]) -> None:
    d, x = objective.dimension, points(objective, shape)
    value, gradient, hessian = objective.value(x), objective.gradient(x), objective.hessian(x)
    assert (value.shape, gradient.shape, hessian.shape) == (shape, (*shape, d), (*shape, d, d))
    if 0 not in shape:
        last = (-1,) * len(shape)
        np.testing.assert_allclose(value[last], objective.value(x[last]), rtol=1e-12)
        np.testing.assert_allclose(gradient[last], objective.gradient(x[last]), rtol=1e-12)
        np.testing.assert_allclose(hessian[last], objective.hessian(x[last]), rtol=1e-12)


@every_objective
def test_numpy_and_torch_give_the_same_numbers_in_their_own_precision(objective: Objective) -> None:
    x = points(objective, (4,))
    for function in (objective.value, objective.gradient, objective.hessian, objective.noise_covariance):
        torch.testing.assert_close(function(torch.tensor(x)), torch.tensor(function(x)), rtol=1e-12, atol=1e-14)
        assert function(x.astype(np.float32)).dtype == np.float32
        assert function(torch.tensor(x, dtype=torch.float32)).dtype == torch.float32


def test_points_that_are_not_contiguous_or_not_float_are_taken() -> None:
    x = np.arange(8000.0).reshape(2, 4000)
    np.testing.assert_array_equal(Quadratic((2.0, 3.0)).gradient(x.T), x.T * [2, 3])
    np.testing.assert_array_equal(SU.gradient(np.array([100, 100])), [4.0, 1.0])
    np.testing.assert_array_equal(SU.gradient([100, 100]), [4.0, 1.0])


def test_objectives_do_not_import_torch() -> None:
    code = (
        "import sys, numpy as np; from memgrad.problems.objectives import FAMILIES, Objective, Logistic;"
        "Objective.parse('su').gradient(np.ones(2)); Logistic(np.ones((2, 1)), np.array([0, 1])).minimizer;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- minimizers and constants --------------------------------------------------------------------------------------


@every_row
def test_the_constants_are_those_derived_by_hand(row: Row) -> None:
    assert pytest.approx(row.L) == row.objective.L
    assert row.objective.mu == pytest.approx(row.mu, abs=1e-15)
    assert row.objective.tau == row.tau
    assert (row.objective.minimizer is None) == (row.tau is None)


def test_the_constants_of_power_law_features_are_squared_singular_values() -> None:
    singular = np.linalg.svd(POWER_LAW._features / np.arange(1.0, 10.0)[:, None], compute_uv=False)
    np.testing.assert_allclose([POWER_LAW.L, POWER_LAW.mu], singular[[0, -1]] ** 2, rtol=1e-9)
    assert POWER_LAW.tau == 2


@every_objective
def test_no_point_is_below_the_minimum(objective: Objective) -> None:
    x = objective.minimizer
    if x is None:
        assert objective.minimum == -math.inf
        return
    assert objective.value(x) == pytest.approx(objective.minimum, abs=1e-14)
    np.testing.assert_allclose(objective.gradient(x), 0, atol=1e-12)
    assert np.all(objective.value(x + points(objective, (500,))) >= objective.minimum)


coordinates = st.lists(st.floats(-50, 50), min_size=3, max_size=3)


@every_objective
@given(coordinates, coordinates)
@properties
def test_the_constants_satisfy_their_inequalities(objective: Objective, one: list[float], two: list[float]) -> None:
    x, y = (np.array(each[: objective.dimension]) for each in (one, two))
    g, h = objective.gradient(x), objective.gradient(y)
    distance = float(np.linalg.norm(x - y))
    # Rounding of the values compared, in their own size.
    slack = 1e-9 * (1 + float(np.abs(objective.value(np.stack([x, y]))).max()))
    smoothness = min(objective.L, objective.local_L(50.0))
    assert np.linalg.norm(g - h) <= smoothness * distance * (1 + 1e-9) + slack
    assert (g - h) @ (x - y) >= objective.mu * distance**2 * (1 - 1e-9) - slack
    if objective.tau is not None:
        assert g @ (x - objective.minimizer) >= objective.tau * (objective.value(x) - objective.minimum) - slack


@every_objective
@given(coordinates)
@properties
def test_the_hessian_lies_between_mu_and_l(objective: Objective, one: list[float]) -> None:
    eigenvalues = np.linalg.eigvalsh(objective.hessian(np.array(one[: objective.dimension])))
    assert eigenvalues[0] >= objective.mu - 1e-9
    assert eigenvalues[-1] <= objective.local_L(50.0) + 1e-9


def ratio(objective: Objective, x: Array) -> Any:
    assert objective.minimizer is not None
    y = x - objective.minimizer
    return (objective.gradient(x) * y).sum(-1) / (objective.value(x) - objective.minimum)


@pytest.mark.parametrize("name", ["su", "quadratic", "rotated", "quartic", "least-squares", "ridge", "powerlaw"])
def test_tau_is_exact_at_every_point_of_a_homogeneous_objective(name: str) -> None:
    objective = ALL[name]
    assert ratio(objective, points(objective, (50,))) == pytest.approx(objective.tau, rel=1e-10)


@pytest.mark.parametrize("name", ["huber", "huber-2d", "logcosh", "logistic"])
def test_tau_is_approached_far_away(name: str) -> None:
    """f grows like s |x| - c there, and the ratio is 1 + c/(s |x|) + ...: no constant above 1 holds."""
    objective = ALL[name]
    far = ratio(objective, 1e6 * np.ones((1, objective.dimension)))
    assert 1 <= far < 1 + 1e-5


@every_objective
def test_l_and_mu_are_attained_or_approached(objective: Objective) -> None:
    """The curvature is largest at the origin, or at a corner for the quartic, and smallest far away for the valleys."""
    if isinstance(objective, Quartic):
        assert np.linalg.eigvalsh(objective.hessian(np.array([3.0, 0.0])))[-1] == pytest.approx(objective.local_L(3.0))
        assert np.all(objective.hessian(np.zeros(2)) == 0)
        return
    assert np.linalg.eigvalsh(objective.hessian(np.zeros(objective.dimension)))[-1] == pytest.approx(objective.L)
    far = np.linalg.eigvalsh(objective.hessian(1e4 * np.ones(objective.dimension)))[0]
    assert far == pytest.approx(objective.mu, rel=1e-9, abs=1e-12)


def test_the_local_constant_of_the_quartic_is_the_papers() -> None:
    assert Quartic().local_L(1.0) == pytest.approx(9.6)
    assert math.inf == Quartic().L
    assert LogCosh().local_L(3.0) == 1.0


def test_the_old_name_of_the_minimizer_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="minimiser is deprecated; use minimizer"):
        assert np.array_equal(Objective.parse("su").minimiser, [0.0, 0.0])


def test_the_logistic_minimizer_is_that_of_scipy() -> None:
    from scipy.optimize import minimize

    objective = Logistic(INPUTS, LABELS, l2=0.01)
    found = minimize(objective.value, np.zeros(3), jac=objective.gradient, tol=1e-12)
    assert objective.minimizer == pytest.approx(found.x, abs=1e-6)  # BFGS stops at about the root of epsilon


def test_separable_data_have_no_logistic_minimizer_without_l2() -> None:
    inputs, labels = np.array([[1.0], [2.0], [-1.0]]), np.array([1, 1, 0])
    assert Logistic(inputs, labels).minimizer is None
    assert Logistic(inputs, labels).tau is None
    assert Logistic(inputs, labels).minimum == 0
    assert Logistic(inputs, labels, l2=0.1).minimizer is not None


def test_almost_separable_data_are_refused_with_the_way_out() -> None:
    inputs, labels = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([1, 1, 0])
    with pytest.raises(ValueError, match=r"give it an L2 term, such as l2=1e-4"):
        _ = Logistic(inputs, labels).minimizer


# --- noise ---------------------------------------------------------------------------------------------------------

PATHS = 200_000
NOISY = {
    "scalar": Quadratic((3.0, 1.0), sigma=0.5),
    "matrix": Huber(1.0, dimension=2, sigma=((1.0, 0.0), (2.0, 0.5))),
    "least-squares": LeastSquares(INPUTS, TARGETS, l2=0.2, batch_size=2),
    "logistic": Logistic(INPUTS, LABELS, batch_size=3),
    "powerlaw": PowerLaw(1.0, 0.5, dimension=2, ambient=6, batch_size=2),
}


@pytest.mark.parametrize("objective", NOISY.values(), ids=NOISY)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_stochastic_gradients_have_the_mean_and_covariance_they_claim(objective: Objective, kind: str) -> None:
    x = points(objective, ())
    at = np.broadcast_to(x, (PATHS, objective.dimension))
    if kind == "numpy":
        drawn = objective.stochastic_gradient(at, np.random.default_rng(0))
    else:
        drawn = objective.stochastic_gradient(torch.tensor(at.copy()), torch.Generator().manual_seed(0)).numpy()
    covariance = objective.noise_covariance(x)
    error = np.sqrt(np.diag(covariance) / PATHS)
    assert np.all(np.abs(drawn.mean(0) - objective.gradient(x)) <= 5 * error)
    # The standard error of a variance is sqrt((kurtosis - 1)/n) of it; 20 bounds the kurtosis of these.
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.all(np.abs(np.cov(drawn.T) - covariance) <= 5 * scale * math.sqrt(19 / PATHS))


def test_the_minibatch_covariance_is_the_definition() -> None:
    x = np.array([0.3, -1.0, 2.0])
    each = np.array([a * (a @ x - y) for a, y in zip(INPUTS, TARGETS, strict=True)])
    expected = np.cov(each.T, bias=True) / 4
    np.testing.assert_allclose(
        LeastSquares(INPUTS, TARGETS, l2=3.0, batch_size=4).noise_covariance(x), expected, rtol=1e-12
    )


def test_no_noise_is_the_default_and_draws_nothing() -> None:
    for objective in ALL.values():
        x, generator = points(objective), np.random.default_rng(0)
        np.testing.assert_array_equal(objective.stochastic_gradient(x, generator), objective.gradient(x))
        assert np.all(objective.noise_covariance(x) == 0)
        assert generator.standard_normal() == np.random.default_rng(0).standard_normal()


def test_a_generator_of_the_other_library_is_refused() -> None:
    noisy = replace(SU, sigma=1.0)
    with pytest.raises(TypeError, match=r"numpy\.random\.default_rng"):
        noisy.stochastic_gradient(np.zeros(2), torch.Generator())
    with pytest.raises(TypeError, match=r"torch\.Generator"):
        noisy.stochastic_gradient(torch.zeros(2), np.random.default_rng(0))


# --- text, errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "objective"),
    [
        ("su", SU),
        ("su:sigma=0.02", replace(SU, sigma=0.02)),
        (" Quadratic:1,0.1 ", Quadratic((1.0, 0.1))),
        ("quadratic:1,0.1,rotation=7,sigma=2", Quadratic((1.0, 0.1), rotation=7, sigma=2.0)),
        ("quartic", Quartic()),
        ("quartic:1,2,3", Quartic((1.0, 2.0, 3.0))),
        ("huber:0.5", Huber(0.5)),
        ("huber:dimension=3", Huber(1.0, dimension=3)),
        ("logcosh:dimension=2", LogCosh(dimension=2)),
        ("constant:1,sigma=10", ConstantGradient((1.0,), sigma=10.0)),
        ("powerlaw:1,0.5,dimension=4,batch_size=2", PowerLaw(1.0, 0.5, dimension=4, batch_size=2)),
    ],
)
def test_text_forms_are_read_and_written(text: str, objective: Objective) -> None:
    assert Objective.parse(text) == objective
    assert Objective.parse(str(objective)) == objective
    assert objective.name == str(objective)
    assert hash(objective) == hash(Objective.parse(text))


def test_every_family_shows_an_example_that_works() -> None:
    for family in FAMILIES.values():
        if family not in (LeastSquares, Logistic):
            assert isinstance(Objective.parse(family.example), family)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hubert:1", "did you mean 'huber:1'"),
        ("nothing", "Known objectives: su, quadratic"),
        ("quadratic", "does not give spectrum"),
        ("quadratic:x", "needs a number where it says 'x'"),
        ("quadratic:1,rotation=matrix", "only be given in code"),
        ("quadratic:-1", r"needs a finite spectrum\[0\] >= 0, got spectrum\[0\]=-1.0"),
        ("huber:1,2", "takes 1, delta"),
        ("huber:0", "needs a finite delta > 0, got delta=0.0"),
        ("huber:1,dimension=1.5", "needs an integer dimension >= 1, got dimension=1.5"),
        ("huber:1,width=2", "gives width, but huber takes delta, dimension, sigma"),
        ("huber:1,delta=2", "gives delta twice"),
        ("huber:sigma=1,sigma=2", "gives sigma twice"),
        ("su:1", "takes no parameter but sigma"),
        ("constant:1,sigma=-1", "needs a finite sigma >= 0, got sigma=-1.0"),
        ("powerlaw:1,1,ambient=3", "needs a finite ambient >= 10"),
        ("logistic", r"is defined by data.*Logistic\(inputs, targets\)"),
    ],
)
def test_bad_text_is_refused_with_the_value_and_the_rule(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Objective.parse(text)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Quadratic(()), "needs a sequence of numbers spectrum"),
        (lambda: Quadratic((1.0, 2.0), rotation=np.ones((2, 2))), "orthogonal matrix rotation"),  # type: ignore[arg-type]
        (lambda: Quadratic((1.0, 2.0), sigma=np.ones((3, 3))), "2 x 2 matrix, got the shape"),  # type: ignore[arg-type]
        (lambda: LeastSquares(INPUTS, TARGETS[:-1]), r"got shapes \(12, 3\) and \(11,\)"),
        (lambda: LeastSquares(INPUTS * np.nan, TARGETS), "finite inputs"),
        (lambda: LeastSquares(INPUTS, TARGETS, batch_size=0), "batch_size >= 1, got batch_size=0"),
        (lambda: Logistic(INPUTS, 2 * LABELS - 1), r"targets 0 or 1, got -1 .* \(y \+ 1\) / 2"),
        (lambda: SU.gradient(np.zeros(3)), r"dimension 2: .* got the shape \(3,\)"),
        (lambda: SU.gradient(np.zeros(2, dtype=bool)), "real numbers, got an array of dtype bool"),
        (lambda: Objective.parse(2), "a string such as 'huber:1'"),  # type: ignore[arg-type]
        (lambda: Quartic().local_L(0), "needs a finite radius > 0"),
    ],
)
def test_bad_arguments_are_refused_with_the_value_and_the_rule(make: Any, complaint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=complaint):
        make()


def test_objectives_are_frozen_values() -> None:
    with pytest.raises(FrozenInstanceError):
        SU.spectrum = (1.0,)  # type: ignore[misc]
    bottom = LeastSquares(INPUTS, TARGETS)
    bottom.minimizer[:] = 0
    assert np.any(bottom.minimizer != 0)
