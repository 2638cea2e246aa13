"""Train a small network in JAX: with optax.sgd, with MemSGD and MemAdam in its place, and in many degrees at once.

    python examples/train_with_optax.py

Momentum sums past gradients, with a gain of 1 / (1 - 0.9) = 10; a memory averages them, with a gain of 1. The learning
rate of MemSGD is therefore ten times that of SGD, and both take steps of the same length.

The degree p of a polynomial memory may be traced, so one call of `jax.vmap` trains a network for each degree, in one
program: a larger p forgets faster.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from memgrad import Polynomial
from memgrad.transforms import memadam, memsgd

Params = dict[str, jax.Array]


def make_network(random: np.random.Generator) -> Params:
    weights = {"w1": random.normal(size=(10, 64)) / 10**0.5, "w2": random.normal(size=(64, 1)) / 64**0.5}
    return {name: jnp.asarray(x, jnp.float32) for name, x in weights.items()} | {
        "b1": jnp.zeros(64),
        "b2": jnp.zeros(1),
    }


def make_batches(random: np.random.Generator, steps: int, size: int) -> tuple[jax.Array, jax.Array]:
    """Inputs, and the noisy outputs of an unknown network for them; the first axis counts the batches."""
    x = random.normal(size=(steps, size, 10))
    teacher = random.normal(size=(10, 3)) / 10**0.5
    y = np.sin(2 * x @ teacher).sum(-1, keepdims=True) + 0.1 * random.normal(size=(steps, size, 1))
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


def mean_squared_error(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)


def train(optimizer: Any, params: Params, batches: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Train once over the batches; return the loss at each."""

    def step(carry: Any, batch: tuple[jax.Array, jax.Array]) -> Any:
        params, state = carry
        loss, gradients = jax.value_and_grad(mean_squared_error)(params, *batch)
        updates, state = optimizer.update(gradients, state, params)
        return (optax.apply_updates(params, updates), state), loss

    _, losses = jax.lax.scan(step, (params, optimizer.init(params)), batches)
    return losses


def report(name: str, losses: Any) -> None:
    """Print the mean loss over the first and the last 20 batches."""
    print(f"{name:16} loss {np.mean(losses[:20]):.4f} -> {np.mean(losses[-20:]):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="gradient steps of each training (default: 1000)")
    parser.add_argument("--batch-size", type=int, default=64, help="examples in a batch (default: 64)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and of the network (default: 0)")
    parser.add_argument("--degrees", type=float, nargs="+", default=[1, 2, 4, 8, 16, 32], help="degrees p to compare")
    options = parser.parse_args()

    random = np.random.default_rng(options.seed)
    params, batches = make_network(random), make_batches(random, options.steps, options.batch_size)

    report("SGD", train(optax.sgd(0.02, momentum=0.9), params, batches))
    report("MemSGD", train(memsgd(0.2, Polynomial(20)), params, batches))
    report("MemAdam", train(memadam(0.005), params, batches))

    def train_with_degree(p: jax.Array) -> jax.Array:
        return train(memsgd(0.2, Polynomial(p)), params, batches)

    table = np.asarray(jax.vmap(train_with_degree)(jnp.array(options.degrees)))
    for p, losses in zip(options.degrees, table, strict=True):
        report(f"MemSGD, p = {p:g}", losses)


if __name__ == "__main__":
    main()
