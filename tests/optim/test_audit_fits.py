"""The nearest memory: found over the whole range of both families, within the error that is stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrad import Memory, MemSGD, audit
from memgrad.memory import Exponential, Polynomial
from memgrad.optim.auditing.fitting import Fit, nearest_memory


def weights_of(memory: Memory, steps: int) -> Any:
    """Weights by the recursion that defines them, row by row."""
    w = np.zeros((steps, steps))
    for k in range(steps):
        w[k] = memory.decay(k) * w[k - 1] if k else 0.0
        w[k, k] = memory.fresh(k)
    return w


def contains(fit: Fit, memory: Memory) -> bool:
    value = memory.p if isinstance(memory, Polynomial) else memory.beta  # type: ignore[attr-defined]  # or exponential
    return type(fit.memory) is type(memory) and bool(fit.low <= value <= fit.high)


def memories() -> Any:
    degrees = st.floats(np.log(0.05), np.log(1e5)).map(lambda z: Polynomial(float(np.exp(z))))
    short = st.floats(np.log(1e-6), np.log(0.5)).map(lambda z: Exponential(float(np.exp(z))))
    long = st.floats(np.log(1e-8), np.log(0.5)).map(lambda z: Exponential(float(-np.expm1(z)) if z < -1 else 0.5))
    return st.one_of(degrees, short, long)


@settings(max_examples=40, deadline=None)
@given(memories(), st.integers(2, 60))
def test_the_memory_of_memsgd_is_found_within_the_stated_error(memory: Memory, steps: int) -> None:
    found = audit(lambda params: MemSGD(params, lr=0.1, memory=memory), steps).step
    assert found is not None
    assert found.found.fit is not None
    fits = [found.found.fit, *found.found.others]
    assert any(contains(fit, memory) for fit in fits)
    assert found.distance < 1e-10


FAR = ["poly:0.05", "poly:1", "poly:1.01", "poly:30", "poly:1000", "poly:100000"]
FAR += ["exp:1e-06", "exp:0.0133", "exp:0.5", "exp:0.9", "exp:0.999", "exp:0.99999999", "inst"]


@pytest.mark.parametrize("text", FAR)
@pytest.mark.parametrize("steps", [10, 100])
def test_memories_at_both_ends_are_told_apart_and_written_as_people_do(text: str, steps: int) -> None:
    found = nearest_memory(weights_of(Memory.parse(text), steps))
    assert found.fit is not None
    assert str(found.fit).split(" ")[0] == text
    assert not found.others
    assert not found.fit.at_bound


def test_two_steps_do_not_tell_families_apart_and_that_is_said() -> None:
    """One decay b_1 = 1/(1+p) = beta/(1+beta) is all there is."""
    found = audit(lambda params: MemSGD(params, lr=0.1, memory="exp:0.5"), 2).step
    assert found is not None
    names = {str(fit) for fit in (found.found.fit, *found.found.others)}
    assert names == {"poly:2", "exp:0.5"}
    assert "cannot be distinguished from exp:0.5 over 2 steps; audit more steps" in str(found)


def test_beyond_what_can_be_told_the_answer_is_the_limit_or_one_sided() -> None:
    assert str(nearest_memory(weights_of(Polynomial(1e14), 100)).fit) == "inst"
    assert str(nearest_memory(weights_of(Exponential.from_alpha(1e-14), 100)).fit) == "poly:1"
    first_alone = np.zeros((50, 50))
    first_alone[:, 0] = 1.0
    found = nearest_memory(first_alone).fit
    assert found is not None
    assert found.at_bound == "at most"
    assert str(found).endswith("or less")


def test_rounded_weights_widen_the_bounds() -> None:
    """With an error of 1 % a decay of 0.9 is not known to four digits, and bounds say so."""
    generator = np.random.default_rng(1)
    w = weights_of(Exponential(0.9), 40)
    found = nearest_memory(w * (1 + 0.01 * generator.uniform(-1, 1, w.shape)), rounding=0.01)
    assert found.fit is not None
    assert contains(found.fit, Exponential(0.9))
    assert found.fit.high - found.fit.low > 1e-3
    assert " to " in str(found.fit)


@pytest.mark.parametrize("scale", [-3.0, 1e-12, 1e12])
def test_the_scale_and_sign_of_all_weights_do_not_matter(scale: float) -> None:
    assert str(nearest_memory(scale * weights_of(Polynomial(2), 30)).fit) == "poly:2"


def test_no_distance_exceeds_1() -> None:
    generator = np.random.default_rng(2)
    for _ in range(5):
        w = np.tril(generator.exponential(size=(20, 20)) ** 8)
        found = nearest_memory(w).fit
        assert found is not None
        assert 0 <= found.distance <= 1


@pytest.mark.parametrize("last", [(0.1, 0.8, 0.1), (0.0, 0.5, 0.5), (0.6, 0.1, 0.3)])
def test_the_distance_is_the_share_of_the_weights_that_lie_elsewhere_on_average_over_steps(
    last: tuple[float, float, float],
) -> None:
    weights = np.array([(1.0, 0.0, 0.0), (0.6, 0.4, 0.0), last])
    fit = nearest_memory(weights).fit
    assert fit is not None
    moved = [np.abs(weights[k, : k + 1] - fit.memory.weights(k)).sum() / 2 for k in range(3)]
    assert fit.distance == pytest.approx(sum(moved) / 3, rel=1e-9)
    assert fit.distance > 0.01
