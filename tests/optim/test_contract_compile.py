"""The contract, part 5: `torch.compile` of the step. Rows: optimizer_table.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from optimizer_table import ROWS, Row, some_gradients, some_params, train, values
from torch._dynamo.testing import CompileCounterWithBackend

# Inductor, once it is imported, uses what torch itself has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
STEPS = 10
# No zero-dimensional one: torch 2.13 loses what a compiled function does in place to a float64 number on the CPU, also
# in its own SGD and Adam.
SHAPES = ((1,), (5,), (3, 4))
FAST = {
    ("MemSGD poly:2", True),
    ("MemAdam growing", False),
}

# eager traces by Dynamo alone; aot_eager functionalises as well, and has been wrong where eager was right.
CASES = [
    pytest.param(
        row,
        backend,
        capturable,
        id=f"{row}-{backend}-{'capturable' if capturable else 'default'}",
        marks=() if (row.name, capturable) in FAST and backend == "aot_eager" else pytest.mark.slow,
    )
    for row in ROWS
    for backend in ("eager", "aot_eager", "inductor")
    for capturable in (False, True)
]


@pytest.fixture(autouse=True)
def _forget_what_was_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(optimizer: torch.optim.Optimizer, backend: str) -> CompileCounterWithBackend:
    """Compile the step of an optimizer in place; the result counts how often it was compiled."""
    counter = CompileCounterWithBackend(backend)
    optimizer.step = torch.compile(optimizer.step, backend=counter)  # type: ignore[method-assign]  # as users do
    return counter


@pytest.mark.parametrize(("row", "backend", "capturable"), CASES)
def test_a_compiled_step_is_the_eager_step_and_is_not_compiled_again_as_k_grows(
    row: Row, backend: str, capturable: bool
) -> None:
    params, eager = some_params(SHAPES), some_params(SHAPES)
    gradients = some_gradients(params, STEPS)
    optimizer = row.make(params, capturable=capturable)
    counter = compiled(optimizer, backend)
    train(optimizer, params, gradients[:3])  # with no state, with a first one, and with any other
    first = counter.frame_count
    train(optimizer, params, gradients[3:])
    train(row.make(eager), eager, gradients)
    assert 1 <= first <= 3
    assert counter.frame_count == first
    # Rounding, in another order of operations.
    assert np.allclose(values(params), values(eager), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_learning_rate_in_a_tensor_may_change_without_compiling_again() -> None:
    row = ROWS[0]
    params, eager = some_params(SHAPES), some_params(SHAPES)
    gradients = some_gradients(params, STEPS)
    rate = torch.tensor(0.1, dtype=torch.float64)
    optimizer, plain = row.make(params, lr=rate, capturable=True), row.make(eager)
    counter = compiled(optimizer, "aot_eager")
    counts: list[int] = []
    for k, step in enumerate(gradients):
        rate.fill_(0.1 / (k + 1))
        plain.param_groups[0]["lr"] = 0.1 / (k + 1)
        train(optimizer, params, [step])
        train(plain, eager, [step])
        counts.append(counter.frame_count)
    assert counts[2] == counts[-1]
    assert np.allclose(values(params), values(eager), rtol=1e-12, atol=1e-12)


def test_a_compiled_optimizer_writes_a_checkpoint_that_an_eager_one_continues() -> None:
    row = ROWS[0]
    params, eager = some_params(SHAPES), some_params(SHAPES)
    gradients = some_gradients(params, STEPS)
    optimizer = row.make(params)
    compiled(optimizer, "aot_eager")
    train(optimizer, params, gradients[:6])
    train(row.make(eager), eager, gradients)
    resumed = row.make(params)
    resumed.load_state_dict(optimizer.state_dict())
    train(resumed, params, gradients[6:])
    assert np.allclose(values(params), values(eager), rtol=1e-12, atol=1e-12)
