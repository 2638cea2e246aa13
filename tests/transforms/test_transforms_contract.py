"""What optax asks of a transformation, every one of ours does. That they take the right steps: test_transforms.py."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from test_package import HIDE, run_python
from test_transforms import descend

from memgrad import Instantaneous, Polynomial, transforms
from memgrad.transforms import (
    adana,
    average_iterates,
    from_method,
    memadam,
    memsgd,
    polyadam,
    scale_by_memory,
    scale_by_memory_adam,
    scale_by_method,
)

# A new transformation needs a row here, and one of NONSENSE for each of its options.
ROWS: dict[str, Callable[..., Any]] = {
    "scale_by_memory": lambda **options: scale_by_memory("poly:2", **options),
    "scale_by_memory_adam": lambda **options: scale_by_memory_adam("poly:2", "exp:0.99", **options),
    "memsgd": lambda **options: memsgd(0.05, **options),
    "memsgd, L2": lambda **options: memsgd(0.05, weight_decay=0.1, **options),
    "memadam": lambda **options: memadam(0.05, "log", "power:0.8", **options),
    "memadam, decoupled": lambda **options: memadam(0.05, weight_decay=0.1, **options),
    "polyadam": lambda **options: polyadam(0.05, **options),
    "adana": lambda **options: adana(0.05, **options),
    "adana, independent": lambda **options: adana(0.05, omega=0.5, **options),
    "adana, through lr": lambda **options: adana(0.05, omega=4.0, through_lr=True, **options),
    "scale_by_method": lambda **options: scale_by_method("inst + 2*exp:0.9 / (sqrt(exp:0.99) + 1e-08)", **options),
    "from_method": lambda **options: from_method(0.05, "poly:2 + 0.5*exp:0.9", **options),
    "from_method, L2": lambda **options: from_method(0.05, "poly:2; l2=0.1/t", **options),
    "from_method, decoupled": lambda **options: from_method(0.05, "poly:2; decay=0.1/t", **options),
    "from_method, independent": lambda **options: from_method(0.05, "poly:2; independent=0.1", **options),
    "average_iterates": lambda **options: average_iterates("stretch:0.5", **options),
}
NEED_PARAMS = {"average_iterates", *(name for name in ROWS if "," in name)}
PUBLIC = {name: f for name, f in vars(transforms).items() if inspect.isfunction(f) and name in transforms.__all__}
every_row = pytest.mark.parametrize("name", ROWS)
eager_and_jit = pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])

EPS = 1.2e-7  # of float32, in which this file computes


def some_tree(dtype: Any = jnp.float32, seed: int = 0) -> Any:
    """Parameters in the containers that a model may have, one of them empty and one None."""
    numbers = np.random.default_rng(seed)

    def leaf(*shape: int) -> Any:
        x = numbers.normal(size=shape)
        return jnp.asarray(x + 1j * numbers.normal(size=shape) if jnp.issubdtype(dtype, complex) else x, dtype)

    return {"dense": (leaf(2), [leaf(2)]), "none": None, "empty": {}, "scalar": leaf()}


def types(tree: Any) -> Any:
    return jax.tree.map(lambda x: (x.shape, x.dtype, getattr(x, "weak_type", False)), tree)


def counts(state: Any) -> set[int]:
    return {int(count) for _, count in optax.tree_utils.tree_get_all_with_path(state, "count")}


def assert_trees_close(ours: Any, theirs: Any, rtol: float = 8 * EPS) -> None:
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def updates_of(optimizer: Any, gradients: Any, x: Any, *, jit: bool = True) -> list[Any]:
    """All updates, the parameters left where they are."""
    update = jax.jit(optimizer.update) if jit else optimizer.update
    state, updates = optimizer.init(x), []
    for g in gradients:
        u, state = update(g, state, x)
        updates.append(u)
    return updates


def test_every_public_transformation_has_a_row() -> None:
    assert {name.split(",")[0] for name in ROWS} == set(PUBLIC)


# --- jit, shapes and dtypes ------------------------------------------------------------------------------------------

DTYPES = {
    "float32": (jnp.float32, None),
    "bfloat16": (jnp.bfloat16, None),
    "complex64": (jnp.complex64, None),
    "bfloat16 in float32": (jnp.bfloat16, jnp.float32),
    "float32 in bfloat16": (jnp.float32, "bfloat16"),
    "complex64 in float32": (jnp.complex64, jnp.float32),
}


@every_row
@pytest.mark.parametrize("dtypes", DTYPES.values(), ids=DTYPES)
def test_updates_are_typed_as_gradients_and_the_state_as_before(name: str, dtypes: Any) -> None:
    dtype, accumulator = dtypes
    x, g = some_tree(dtype), some_tree(dtype, seed=1)
    optimizer = ROWS[name](accumulator_dtype=accumulator)
    state = optimizer.init(x)
    updates, new_state = jax.eval_shape(optimizer.update, g, state, x)
    assert types(updates) == types(g)
    assert types(new_state) == types(state)  # else lax.scan and lax.cond refuse it
    kept = {x.dtype for x in jax.tree.leaves(state)} - {jnp.dtype(jnp.int32)}
    if accumulator is not None:
        assert kept <= {jnp.dtype(accumulator), jnp.promote_types(accumulator, jnp.complex64)}


@cache
def compiled(name: str) -> tuple[Any, Any, list[int]]:
    """A row's transformation, its compiled update, and a list that grows when that is traced."""
    optimizer, traces = ROWS[name](), []

    def update(g: Any, state: Any, x: Any) -> Any:
        traces.append(1)
        return optimizer.update(g, state, x)

    return optimizer, jax.jit(update), traces


@pytest.mark.most(6)
@every_row
def test_jit_changes_nothing_and_compiles_once(name: str) -> None:
    optimizer, update, traces = compiled(name)
    x = some_tree()
    state = plain_state = optimizer.init(x)
    for k in range(3):
        updates, state = update(some_tree(seed=k), state, x)
        plain, plain_state = optimizer.update(some_tree(seed=k), plain_state, x)
        assert_trees_close(updates, plain)
        assert counts(state) == {k + 1}
        x = optax.apply_updates(x, updates)
    assert len(traces) == 1


@every_row
def test_the_count_stops_at_the_last_int32_and_the_steps_stay_finite(name: str) -> None:
    optimizer, update, traces = compiled(name)
    x = some_tree()
    state = optax.tree_utils.tree_set(optimizer.init(x), count=jnp.asarray(2**31 - 2, jnp.int32))
    for _ in range(2):
        updates, state = update(x, state, x)
        assert counts(state) == {2**31 - 1}
        assert all(bool(jnp.isfinite(u).all()) for u in jax.tree.leaves((updates, state)))
    assert len(traces) == 1


@every_row
def test_extra_arguments_are_accepted(name: str) -> None:
    optimizer, x = ROWS[name](), jnp.array([1.0, -2.0])
    state = optimizer.init(x)
    updates, _ = optimizer.update(x, state, x, value=1.0, loss_fn=sum)
    assert_trees_close(updates, optimizer.update(x, state, params=x)[0], rtol=0)


@every_row
def test_parameters_are_asked_for_only_where_they_are_needed(name: str) -> None:
    optimizer, x = ROWS[name](), jnp.ones(2)
    if name in NEED_PARAMS:
        with pytest.raises(ValueError, match="params"):
            optimizer.update(x, optimizer.init(x))
    else:
        optimizer.update(x, optimizer.init(x))


@every_row
def test_optax_finds_the_parameters_in_the_state(name: str) -> None:
    ones = optax.tree_map_params(ROWS[name](), jnp.ones_like, ROWS[name]().init(jnp.zeros(2)))
    assert counts(ones) == {0}  # the count is none
    assert {tuple(x.tolist()) for x in jax.tree.leaves(ones) if x.shape} == {(1.0, 1.0)}


# --- low precision, complex numbers ----------------------------------------------------------------------------------

COMPLEX = [np.array([1 + 2j, -3j], np.complex64), np.array([0.5j, 4.0], np.complex64)]


def test_small_updates_are_lost_in_bfloat16_and_kept_in_an_accumulator_of_float32() -> None:
    # The plain average of a thousand 1's and a thousand 1.5's is 1.25. Each of the latter moves it by less than
    # 0.5/1000, and bfloat16 has nothing between 1 and 1.0078.
    gradients = jnp.repeat(jnp.array([[1.0], [1.5]], jnp.bfloat16), 1000, axis=0)

    def last_update(**options: Any) -> Any:
        transform = scale_by_memory("poly:1", **options)
        state = transform.init(gradients[0])
        _, updates = jax.lax.scan(lambda state, g: transform.update(g, state)[::-1], state, gradients)
        assert updates.dtype == jnp.bfloat16
        return float(updates[-1, 0])

    assert last_update() == 1.0
    assert last_update(accumulator_dtype=jnp.float32) == 1.25  # a bfloat16


def test_squares_are_taken_in_the_precision_of_the_accumulator() -> None:
    g = jnp.array([1e-4, 300.0], jnp.float16)  # their squares are no float16 numbers
    transform = scale_by_memory_adam("poly:2", "poly:2", eps=1e-10, accumulator_dtype=jnp.float32)
    updates, state = transform.update(g, transform.init(g))
    np.testing.assert_allclose(state.square_average, np.asarray(g, np.float64) ** 2, rtol=2 * EPS)
    np.testing.assert_array_equal(updates, np.ones(2, np.float16))


def test_a_complex_leaf_is_a_pair_of_reals_for_an_average() -> None:
    for accumulator in (None, jnp.float32):
        whole = updates_of(memsgd(0.1, accumulator_dtype=accumulator), COMPLEX, COMPLEX[0], jit=False)
        for part in (jnp.real, jnp.imag):
            alone = updates_of(memsgd(0.1), [part(g) for g in COMPLEX], part(COMPLEX[0]), jit=False)
            assert_trees_close([part(u) for u in whole], alone)


def test_a_complex_leaf_is_scaled_by_its_modulus_as_in_optax() -> None:
    optimizers = (memadam(0.1, "exp:0.9", "exp:0.999"), optax.adam(0.1))
    ours, theirs = (updates_of(optimizer, COMPLEX, COMPLEX[0]) for optimizer in optimizers)
    assert_trees_close(ours, theirs, rtol=1e-4)  # in float32 optax's 1 - 0.999^k is off by that


# --- vmap, scan ------------------------------------------------------------------------------------------------------

OF_RATE_AND_DEGREE = {
    "memsgd": lambda lr, p: memsgd(lr, Polynomial(p)),
    "memadam": lambda lr, p: memadam(lr, Polynomial(p), "exp:0.99"),
    "polyadam p": lambda lr, p: polyadam(lr, p=p),
    "polyadam beta": lambda lr, p: polyadam(lr, beta=1 / (1 + p)),
    "adana": lambda lr, p: adana(lr, delta=p),
    "average_iterates": lambda lr, p: optax.chain(optax.sgd(lr), average_iterates(Polynomial(p))),
}


@pytest.mark.parametrize("name", OF_RATE_AND_DEGREE)
def test_one_program_trains_with_all_step_sizes_and_degrees_at_once(name: str) -> None:
    def trained(lr: Any, p: Any) -> Any:
        xs, state = descend(OF_RATE_AND_DEGREE[name](lr, p), lambda x: jnp.sum(x**4), [1.0, -0.5], steps=20)
        return xs[-1], state

    rates, degrees = jnp.array([0.01, 0.1]), jnp.array([0.5, 2.0, 8.0])
    table = jax.jit(jax.vmap(jax.vmap(trained, (None, 0)), (0, None)))(rates, degrees)
    # One corner by itself, with plain numbers. Twenty steps round twenty times.
    assert_trees_close(jax.tree.map(lambda x: x[1, 2], table), trained(0.1, 8.0), rtol=100 * EPS)
    # All six differ, but for an average of iterates, which does not steer them.
    assert len(np.unique(table[0].reshape(6, 2), axis=0)) == (2 if name == "average_iterates" else 6)


# --- optax's combinations --------------------------------------------------------------------------------------------


def test_a_chain_applies_the_memory_where_it_stands() -> None:
    optimizer = optax.chain(optax.clip(1.0), scale_by_memory("poly:1"), optax.scale(-0.1))
    gradients = [jnp.array([g, -g]) for g in (0.5, 100.0, 0.3)]
    np.testing.assert_allclose(updates_of(optimizer, gradients, gradients[0])[-1], [-0.06, 0.06], rtol=8 * EPS)


def test_each_group_of_a_multi_transform_has_its_own_memory() -> None:
    memories = {"mean": memsgd(0.1, "poly:1"), "last": memsgd(0.1, "inst")}
    optimizer = optax.multi_transform(memories, {"a": "mean", "b": "last"})
    gradients = [{"a": jnp.array([g]), "b": jnp.array([g])} for g in (1.0, 2.0, 6.0)]
    last = updates_of(optimizer, gradients, gradients[0])[-1]
    assert_trees_close(last, {"a": np.array([-0.3]), "b": np.array([-0.6])})


@every_row
def test_what_is_masked_passes_and_has_no_state(name: str) -> None:
    x = {"a": jnp.ones(2), "b": jnp.full(3, 7.0)}
    optimizer = optax.masked(ROWS[name](), {"a": True, "b": False})
    updates, state = optimizer.update(x, optimizer.init(x), x)
    np.testing.assert_array_equal(updates["b"], x["b"])
    assert {leaf.shape for leaf in jax.tree.leaves(state)} == {(), (2,)}
    assert_trees_close(updates["a"], ROWS[name]().update(x["a"], ROWS[name]().init(x["a"]), x["a"])[0])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["float32", "bfloat16"])
def test_multi_steps_counts_the_steps_that_it_takes(dtype: Any) -> None:
    optimizer = optax.MultiSteps(memsgd(1.0, "poly:1"), every_k_schedule=2)
    gradients = [jnp.array([g], dtype) for g in (1.0, 3.0, 4.0, 8.0)]  # means of pairs: 2, 6; their mean: 4
    updates = updates_of(optimizer, gradients, jnp.zeros(1, dtype))
    assert [float(u[0]) for u in updates] == [0.0, -2.0, 0.0, -4.0]
    assert {u.dtype for u in updates} == {jnp.dtype(dtype)}


@every_row
def test_multi_steps_takes_every_transformation(name: str) -> None:
    optimizer, x = optax.MultiSteps(ROWS[name](), every_k_schedule=2), some_tree()
    state = optimizer.init(x)
    result = jax.eval_shape(optimizer.update, x, state, x)  # tracing refuses branches of different types
    assert types(result) == types((x, state))


@eager_and_jit
@pytest.mark.parametrize("alias", [memsgd, memadam, polyadam, adana], ids=lambda f: f.__name__)
def test_hyperparameters_that_are_injected_change_nothing_by_themselves(alias: Any, jit: bool) -> None:
    x, gradients = jnp.array([1.0, -2.0]), [jnp.array([0.3, 4.0]), jnp.array([-1.0, 1.0])]
    injected = updates_of(optax.inject_hyperparams(alias)(0.05), gradients, x, jit=jit)
    assert_trees_close(injected, updates_of(alias(0.05), gradients, x, jit=jit))


ZEROS = {
    "weight_decay": lambda: optax.inject_hyperparams(memsgd)(0.1, weight_decay=0.0),
    "learning_rate": lambda: optax.inject_hyperparams(memsgd)(optax.linear_schedule(0.0, 0.1, 5), weight_decay=0.1),
    "beta": lambda: optax.inject_hyperparams(polyadam)(0.1, beta=0.0, weight_decay=0.1),
    "kappa": lambda: optax.inject_hyperparams(adana)(0.1, kappa=0.0),
    "omega": lambda: optax.inject_hyperparams(adana)(0.1, omega=0.0),
}


@eager_and_jit
@pytest.mark.parametrize("name", ZEROS)
def test_a_hyperparameter_that_may_be_zero_may_be_injected_as_zero(name: str, jit: bool) -> None:
    x = jnp.array([1.0, -2.0])
    assert all(bool(jnp.isfinite(u).all()) for u in updates_of(ZEROS[name](), [x, x], x, jit=jit))


@eager_and_jit
def test_an_injected_learning_rate_and_degree_may_change_at_every_step(jit: bool) -> None:
    def of_degree(learning_rate: Any, p: Any) -> Any:
        return memsgd(learning_rate, Polynomial(p))

    optimizer = optax.inject_hyperparams(of_degree)(learning_rate=0.1, p=2.0)
    update, state, u = jax.jit(optimizer.update) if jit else optimizer.update, optimizer.init(jnp.zeros(1)), 0.0
    for k, (lr, p, g) in enumerate([(0.1, 2.0, 1.0), (0.3, 2.0, -2.0), (0.3, 5.0, 4.0), (0.01, 0.5, 1.0)]):
        state.hyperparams.update(learning_rate=jnp.asarray(lr), p=jnp.asarray(p))
        updates, state = update(jnp.array([g]), state)
        u = k / (k + p) * u + p / (k + p) * g
        np.testing.assert_allclose(updates, [-lr * u], rtol=8 * EPS)


@eager_and_jit
def test_an_injected_beta_may_change_at_every_step(jit: bool) -> None:
    optimizer, x = optax.inject_hyperparams(polyadam)(0.1, beta=0.9, p=1.0, weight_decay=0.01), jnp.zeros(1)
    update, state, u, v = jax.jit(optimizer.update) if jit else optimizer.update, optimizer.init(x), 0.0, 0.0
    for k, (beta, g) in enumerate([(0.9, 1.0), (0.5, -2.0), (0.99, 4.0), (0.1, 1.0)]):
        state.hyperparams["beta"] = jnp.asarray(beta)
        updates, state = update(jnp.array([g]), state, x)
        b = beta * (1 - beta**k) / (1 - beta ** (k + 1))
        u, v = b * u + (1 - b) * g, (k * v + g * g) / (k + 1)
        np.testing.assert_allclose(updates, [-0.1 * u / math.sqrt(v)], rtol=1e-5)  # 1 - 0.99 has lost two digits


# --- refusals --------------------------------------------------------------------------------------------------------

NEGATIVE = (math.nan, math.inf, -1.0, True, "0.1", None, 1j, jnp.array(-1.0))
MEMORIES = ("ploy:2", "poly", "poly:0", "poly:nan", "exp:1", "", 2, None, True)
# Each option, values that make no sense for it, and words that the refusal must contain.
NONSENSE: dict[str, tuple[tuple[Any, ...], str]] = {
    "memory": (MEMORIES, r"[Mm]emory"),
    "second_memory": (MEMORIES, r"[Mm]emory"),
    "learning_rate": (NEGATIVE, "learning_rate"),
    "weight_decay": (NEGATIVE, "weight_decay"),
    "eps": ((*NEGATIVE, 0.0), r"\beps\b"),
    "p": ((*NEGATIVE, 0.0, jnp.array([1.0, 2.0])), r"\bp\b"),
    "beta": ((*NEGATIVE, 1.0, False, jnp.array(1.0)), r"\bbeta\b"),
    "delta": ((*NEGATIVE, 0.0), "delta|degree"),
    "kappa": ((*NEGATIVE, 1.5, jnp.array(1.5)), "kappa"),
    "omega": (NEGATIVE, "omega"),
    "method": (("ploy:2", "poly:2 / 3", "poly:2; decay=x", 2, None), "[Mm]ethod|memory"),
    "through_lr": ((1, 0.0, "yes", None), "through_lr"),
    "peak_learning_rate": ((*(value for value in NEGATIVE if value is not None), 0.0), "peak_learning_rate"),
    "mask": ((1, "bias"), "mask"),
    "accumulator_dtype": ((jnp.int32, "float33", 32, bool), "accumulator_dtype"),
}
GIVEN = {"learning_rate": 0.1, "memory": "poly:2", "second_memory": "poly:2", "method": "poly:2; independent=0.1"}
REFUSED = [
    pytest.param(name, option, value, NONSENSE[option][1], id=f"{name} {option}={value!r}"[:60])
    for name, transform in PUBLIC.items()
    for option in inspect.signature(transform).parameters
    for value in NONSENSE[option][0]
]


@pytest.mark.parametrize(("name", "option", "value", "words"), REFUSED)
def test_what_makes_no_sense_is_refused_at_construction(name: str, option: str, value: Any, words: str) -> None:
    given = {key: GIVEN[key] for key in inspect.signature(PUBLIC[name]).parameters if key in GIVEN}
    with pytest.raises((TypeError, ValueError), match=words):
        PUBLIC[name](**{**given, option: value})


@pytest.mark.parametrize("zero", [0, 0.0, np.float32(0), jnp.zeros(())], ids=["int", "float", "numpy", "jax"])
def test_zero_is_accepted_where_it_makes_sense(zero: Any) -> None:
    x = jnp.array([1.0, -2.0])
    for optimizer in (memsgd(zero, weight_decay=zero), polyadam(zero, beta=zero), adana(zero, kappa=zero, omega=zero)):
        updates, _ = optimizer.update(3 * x, optimizer.init(x), x)
        assert updates.tolist() == [0.0, 0.0]  # a learning rate of 0 moves nothing


# --- the package -----------------------------------------------------------------------------------------------------


def test_importing_memgrad_never_imports_jax() -> None:
    printed = run_python("import sys, memgrad; print({'jax', 'jaxlib', 'optax'} & set(sys.modules))")
    assert printed.strip() == "set()"


@pytest.mark.parametrize("hidden", ["jax", "optax"])
def test_a_missing_package_is_named_with_its_extra(hidden: str) -> None:
    code = HIDE.format(hidden={hidden}) + "import memgrad.transforms"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    words = f"ImportError: memgrad.transforms needs {hidden}, which is not installed: pip install 'memgrad[jax]'"
    assert words in done.stderr


@pytest.mark.parametrize("name", PUBLIC)
def test_the_documented_signature_is_the_real_one(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api" / "transforms.md").read_text()
    signature = inspect.signature(PUBLIC[name])
    names = [p.replace(annotation=p.empty) for p in signature.parameters.values()]  # types are left out there
    shown = signature.replace(parameters=names, return_annotation=signature.empty)
    assert f".. autofunction:: memgrad.transforms.{name}{shown}\n" in page


def test_the_epsilon_beside_a_mixture_may_be_traced_and_is_checked() -> None:
    x, g = jnp.array([1.0, -2.0]), jnp.array([0.5, 1.0])
    plain = transforms.memadam(0.1, "inst + 5*exp:0.9")
    traced = optax.inject_hyperparams(transforms.memadam)(learning_rate=0.1, memory="inst + 5*exp:0.9")
    expected, _ = plain.update(g, plain.init(x), x)
    found, _ = jax.jit(traced.update)(g, traced.init(x), x)
    assert np.allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"eps=0\.0"):
        transforms.memadam(0.1, "inst + exp:0.9", eps=0.0)


def test_a_degree_inside_a_mixture_may_be_traced() -> None:
    def first(p: jax.Array) -> jax.Array:
        optimizer = transforms.memsgd(0.5, Instantaneous() + 5 * Polynomial(p))
        state = optimizer.init(jnp.ones(1))
        _, state = optimizer.update(jnp.ones(1), state)
        return optimizer.update(2 * jnp.ones(1), state)[0][0]

    # u_1 = 1/(1+p) + 2p/(1+p), and the step is -0.5 (2 + 5 u_1)
    p = np.array([1.0, 2.0])
    assert np.allclose(jax.vmap(first)(jnp.array(p)), -0.5 * (2 + 5 * (1 + 2 * p) / (1 + p)), rtol=1e-6)
