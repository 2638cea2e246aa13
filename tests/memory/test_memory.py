"""The memory object against closed forms, mpmath and quadrature. Checks and rows: memory_table.py."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memory_table import (
    CONTINUOUS,
    EXAMPLES,
    ROWS,
    Case,
    Row,
    check_constant_gradient,
    check_decay,
    check_influence,
    check_influence_is_a_density,
    check_memory_function,
    check_rate,
    check_weights,
    log_uniform,
    name_of,
    of_degree,
    properties,
)
from scipy.special import gammaln

from memgrad.memory import (
    FAMILIES,
    Exponential,
    FromDecays,
    Instantaneous,
    Logarithmic,
    Memory,
    Polynomial,
    PowerDecay,
    Sampled,
    Stretched,
)

every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_continuous_row = pytest.mark.parametrize("row", CONTINUOUS, ids=str)
every_example = pytest.mark.parametrize("case", EXAMPLES, ids=name_of)

degrees = log_uniform(0.1, 200)
gradients = st.lists(st.floats(-100, 100), min_size=1, max_size=60)


def test_every_family_has_a_row_in_the_table() -> None:
    assert {case.memory.family for case in EXAMPLES} == set(FAMILIES)


# --- discrete time ---------------------------------------------------------------------------------------------------


@every_row
@properties
@given(data=st.data())
def test_decay_and_fresh_are_exact_to_1e_12_at_every_step(row: Row, data: st.DataObject) -> None:
    check_decay(data.draw(row.cases()), data.draw(row.steps()))


@every_example
def test_decay_and_fresh_are_exact_at_the_first_and_the_last_steps(case: Case) -> None:
    for k in (0, 1, 2, 10**3, 10**6, 10**9, 10**12, 10**15):
        if k <= case.row.last:
            check_decay(case, k)


@every_row
@properties
@given(data=st.data())
def test_decay_and_fresh_are_shares_for_all_parameters_that_are_allowed(row: Row, data: st.DataObject) -> None:
    memory = data.draw(row.cases(legal=True)).memory
    assert (memory.decay(0), memory.fresh(0)) == (0, 1)
    for k in (1, 2, 30, 10**6, row.last):
        b, fresh = memory.decay(min(k, row.last)), memory.fresh(min(k, row.last))
        assert 0 <= b <= 1
        assert 0 <= fresh <= 1
        assert b + fresh == pytest.approx(1, rel=1e-15)  # a few roundings


@every_row
@properties
@given(data=st.data())
def test_weights_are_a_distribution_of_the_exact_shares(row: Row, data: st.DataObject) -> None:
    check_weights(data.draw(row.cases()), data.draw(row.steps(2000)))


@every_row
@properties
@given(data=st.data(), g=st.floats(-1e6, 1e6))
def test_a_constant_gradient_is_averaged_to_itself(row: Row, data: st.DataObject, g: float) -> None:
    check_constant_gradient(data.draw(row.cases()), min(50, row.last), g)


@properties
@given(p=degrees, k=st.integers(0, 2000))
def test_weights_of_a_polynomial_memory_are_ratios_of_gamma_functions(p: float, k: int) -> None:
    j = np.arange(k + 1)
    # w(j,k) = p Gamma(j+p) Gamma(k+1) / (Gamma(j+1) Gamma(k+p+1))
    log_w = np.log(p) + gammaln(j + p) + gammaln(k + 1) - gammaln(j + 1) - gammaln(k + p + 1)
    # gammaln(2200) = 15,000 is rounded to 2e-12, four times.
    np.testing.assert_allclose(Polynomial(p).weights(k), np.exp(log_w), rtol=1e-10)


@properties
@given(p=degrees, k=st.integers(0, 10**15), later=st.integers(1, 10**6))
def test_a_polynomial_memory_keeps_ever_more(p: float, k: int, later: int) -> None:
    assert Polynomial(p).decay(k + later) >= Polynomial(p).decay(k)
    assert Polynomial(p).fresh(k + later) <= Polynomial(p).fresh(k)


def averages(memory: Memory, g: list[float]) -> list[float]:
    """The running averages u_k = b_k u_{k-1} + (1 - b_k) g_k, as an optimizer computes them."""
    u, all_u = math.pi, []
    for k, g_k in enumerate(g):
        u = memory.decay(k) * u + memory.fresh(k) * g_k
        all_u.append(u)
    return all_u


@properties
@given(g=gradients)
def test_degree_one_is_the_running_mean(g: list[float]) -> None:
    means = [math.fsum(g[: k + 1]) / (k + 1) for k in range(len(g))]
    for memory in (Polynomial(1), PowerDecay(1), Sampled(**of_degree(1), h=0.3)):
        # 60 steps of three roundings of numbers up to 100
        np.testing.assert_allclose(averages(memory, g), means, rtol=0, atol=60 * 3 * 1.2e-14)


@properties
@given(g=gradients, p=log_uniform(1e6, 1e300))
def test_a_large_degree_is_sgd(g: list[float], p: float) -> None:
    # b_k <= k/p is all that separates u_k from g_k, which is 200 away at most.
    np.testing.assert_allclose(averages(Polynomial(p), g), g, rtol=1e-15, atol=200 * 60 / p)


def test_instantaneous_memory_is_sgd() -> None:
    assert averages(Instantaneous(), [3.0, -1.0, 7.0]) == [3.0, -1.0, 7.0]


@properties
@given(g=gradients, beta=st.floats(0.01, 0.999))
def test_exponential_memory_is_the_bias_corrected_mean_of_adam(g: list[float], beta: float) -> None:
    m, adam = 0.0, []
    for t, g_t in enumerate(g, start=1):  # Kingma and Ba, Algorithm 1
        m = beta * m + (1 - beta) * g_t
        adam.append(m / (1 - beta**t))
    # Adam's own 1 - beta^t cancels: at beta = 0.999 and t = 1 it has lost three digits.
    np.testing.assert_allclose(averages(Exponential(beta), g), adam, rtol=0, atol=100 * 1e-12)


@properties
@given(p=st.floats(0.3, 6), h=log_uniform(1e-3, 10), factor=log_uniform(1e-6, 1e6), k=st.integers(0, 200))
def test_a_memory_function_matters_only_up_to_a_factor(p: float, h: float, factor: float, k: int) -> None:
    m, dm = of_degree(p).values()
    scaled = Sampled(lambda t: factor * m(t), lambda t: factor * dm(t), h)
    # A product of up to 200 ratios that differ by two roundings each.
    np.testing.assert_allclose(scaled.weights(k), Sampled(m, dm, h).weights(k), rtol=400 * 2.3e-16)


@properties
@given(p=st.floats(0.3, 6), h=log_uniform(1e-3, 10), factor=log_uniform(1e-3, 1e3), k=st.integers(0, 200))
def test_the_unit_of_time_does_not_matter_to_a_power_of_time(p: float, h: float, factor: float, k: int) -> None:
    m, dm = of_degree(p).values()
    # A rounding of the time is p roundings of m.
    np.testing.assert_allclose(
        Sampled(m, dm, factor * h).weights(k), Sampled(m, dm, h).weights(k), rtol=400 * (2 + p) * 2.3e-16
    )
    memory, t = Polynomial(p), h * (k + 1)
    assert memory.rate(factor * t) == pytest.approx(memory.rate(t) / factor, rel=1e-15)
    assert memory.influence(factor * h, factor * t) == pytest.approx(memory.influence(h, t) / factor, rel=1e-14)


# --- continuous time -------------------------------------------------------------------------------------------------


@every_continuous_row
@properties
@given(data=st.data(), t=log_uniform(1e-9, 1e6))
def test_the_memory_function_its_derivative_and_their_ratio_are_exact(row: Row, data: st.DataObject, t: float) -> None:
    case = data.draw(row.cases())
    check_memory_function(case, t)
    assert case.memory.m(0.0) == 0


@every_continuous_row
@properties
@given(data=st.data(), t=log_uniform(1e-9, 1e6), part=log_uniform(1e-20, 1))
def test_the_influence_is_exact_however_old(row: Row, data: st.DataObject, t: float, part: float) -> None:
    check_influence(data.draw(row.cases()), min(part * t, t), t)


@every_continuous_row
@properties
@given(data=st.data(), t=log_uniform(0.01, 5))
def test_the_influence_is_a_density(row: Row, data: st.DataObject, t: float) -> None:
    check_influence_is_a_density(data.draw(row.cases()), t)


OVERFLOWING = [(0, (200.0,)), (1, (0.9, 1.0)), (2, (10.0, 0.01)), (5, (0.5, 1.0)), (6, (1.5, 1.0)), (6, (3.0, 1.0))]


@pytest.mark.parametrize("case", [ROWS[i].case(*parameters) for i, parameters in OVERFLOWING], ids=name_of)
def test_rate_and_influence_are_exact_where_the_memory_function_overflows(case: Case) -> None:
    t = 1e6
    assert case.memory.m(t) == math.inf
    check_rate(case, t)
    for s in (0.1 * t, 0.5 * t, t * (1 - 1e-9), t):
        check_influence(case, s, t)
    arrays = case.memory.influence(np.array([0.5 * t, t]), t)
    assert arrays.tolist() == pytest.approx([case.memory.influence(0.5 * t, t), case.memory.influence(t, t)], rel=1e-14)


@every_continuous_row
@pytest.mark.parametrize("array", [np.float32, torch.tensor, jnp.float32], ids=["numpy", "torch", "jax"])
def test_the_continuous_side_answers_in_kind_and_precision(row: Row, array: Any) -> None:
    case = row.case(*row.examples[1])
    t = 0.75  # the same in float32
    x = array([t, t])
    assert str(x.dtype).endswith("float32")
    # An exponent of these examples is up to 10, which rounds to 10 * 6e-8 a few times.
    for name, exact in (("m", case.m(t)), ("dm", case.dm(t)), ("rate", case.dm(t) / case.m(t))):
        assert_in_kind(getattr(case.memory, name)(x), x, [float(exact)] * 2, tolerance=4e-6)
    exact = float(case.dm(t) / case.m(1))
    for s, now in ((x, 1.0), (t, x / t), (x, x / t)):  # a number beside an array takes its kind
        assert_in_kind(case.memory.influence(s, now), x, [exact] * 2, tolerance=4e-6)


@pytest.mark.parametrize("array", [np.float32, torch.tensor, jnp.float32], ids=["numpy", "torch", "jax"])
def test_the_rate_is_finite_at_the_paper_s_first_time_in_single_precision(array: Any) -> None:
    # At t = 2.2204e-16 (App. F) t^3 is 0 in float32, but dm/m = 3 t^2 e^(t^3)/(e^(t^3) - 1) is 3/t.
    assert float(Stretched(3).rate(array(2.2204e-16))) == pytest.approx(3 / 2.2204e-16, rel=1e-6)


@pytest.mark.parametrize("memory", [Instantaneous(), PowerDecay(0.8), FromDecays([0, 0.5])], ids=str)
def test_a_discrete_memory_says_that_it_has_no_memory_function(memory: Memory) -> None:
    for ask in (memory.m, memory.dm, memory.rate, lambda t: memory.influence(t, t)):
        with pytest.raises(NotImplementedError, match=r"discrete memory.*Sampled\(m, dm, h\)"):
            ask(1.0)


# --- kinds of number -------------------------------------------------------------------------------------------------


def compiled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="eager")


def unchanged(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return function


def both(memory: Memory) -> Callable[[Any], Any]:
    return lambda k: (memory.decay(k), memory.fresh(k))


@dataclass(frozen=True)
class Kind:
    name: str
    steps: Callable[[list[int]], Any]
    answer: Any
    wrap: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] = unchanged


KINDS = [
    Kind("numpy float64", lambda k: np.array(k, np.float64), np.float64),
    Kind("numpy float32", lambda k: np.array(k, np.float32), np.float32),
    Kind("numpy int64", lambda k: np.array(k, np.int64), np.float64),
    Kind("numpy int8", lambda k: np.array(k, np.int8), np.float64),
    Kind("torch float64", lambda k: torch.tensor(k, dtype=torch.float64), torch.float64),
    Kind("torch float32", lambda k: torch.tensor(k, dtype=torch.float32), torch.float32),
    Kind("torch bfloat16", lambda k: torch.tensor(k, dtype=torch.bfloat16), torch.bfloat16),
    Kind("torch int64", lambda k: torch.tensor(k, dtype=torch.int64), torch.float32),
    Kind("torch compiled", lambda k: torch.tensor(k, dtype=torch.float32), torch.float32, compiled),
    Kind("jax float32", lambda k: jnp.array(k, jnp.float32), jnp.float32),
    Kind("jax jit", lambda k: jnp.array(k, jnp.int32), jnp.float32, jax.jit),
    Kind("jax vmap", lambda k: jnp.array(k, jnp.int32), jnp.float32, jax.vmap),
]


def assert_in_kind(answer: Any, like: Any, exact: list[float], tolerance: float, atol: float = 0) -> None:
    assert isinstance(answer, type(like)), f"{type(answer)} in place of {type(like)}"
    assert answer.shape == like.shape
    assert answer.dtype == like.dtype
    values = answer.double().numpy() if isinstance(answer, torch.Tensor) else np.asarray(answer, np.float64)
    np.testing.assert_allclose(values, exact, rtol=tolerance, atol=atol)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@every_row
def test_decay_and_fresh_answer_in_kind_and_precision(row: Row, kind: Kind) -> None:
    k = [k for k in (0, 1, 2, 3, 7, 30, 59, 120, 1000) if k <= row.last and (k < 128 or "int8" not in kind.name)]
    steps = kind.steps(k)
    eps = torch.finfo(kind.answer).eps if "torch" in kind.name else float(jnp.finfo(kind.answer).eps)
    like = steps.to(kind.answer) if "torch" in kind.name else steps.astype(kind.answer)
    for parameters in row.examples[: 3 if kind.wrap is unchanged else 1]:  # compiling takes its time
        case = row.case(*parameters)
        b, fresh = kind.wrap(both(case.memory))(steps)
        assert float(b[0]) == 0, "decay(0) is exactly 0"
        assert float(fresh[0]) == 1, "fresh(0) is exactly 1"
        exact = [case.decay(i) for i in k]
        # A handful of operations that round once each; b_k is an absolute share, so exponents may round it absolutely.
        assert_in_kind(b, like, [float(x) for x in exact], tolerance=8 * eps, atol=4 * eps)
        assert_in_kind(fresh, like, [float(1 - x) for x in exact], 8 * eps, atol=4 * eps if row.only_decays else 0)


@every_row
def test_scalars_and_shapes_are_kept(row: Row) -> None:
    case = row.case(*row.examples[0])
    for number, answer in ((3, float), (3.0, float), (np.int16(3), np.float64), (np.float32(3), np.float32)):
        for ask in (case.memory.decay, case.memory.fresh):
            assert type(ask(number)) is answer
    table = np.arange(6).reshape(2, 3)
    assert case.memory.decay(table).shape == case.memory.fresh(table).shape == (2, 3)
    assert case.memory.fresh(np.array([], int)).shape == (0,)
    assert case.memory.decay(torch.tensor(3)).shape == case.memory.fresh(jnp.array(3)).shape == ()


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "memory",
    [Polynomial(2), Exponential(0.9), Exponential.from_alpha(1e-20), Stretched(1.5), Logarithmic(h=2), FromDecays([0])],
    ids=str,
)
def test_a_memory_is_a_value(memory: Memory) -> None:
    for twin in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory)), eval(repr(memory))):
        assert twin == memory
        assert hash(twin) == hash(memory)
    assert memory != Polynomial(2.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        memory.h = 3.0
