"""The tables and the figure of the audit gallery: every row is an audit that is run when the pages are built.

A row says which memory an optimizer has, by its definition. The audit says how far that is from the truth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

STEPS = 100
ROUNDING = 1e-4  # a smaller share is rounding, of float32 at worst


@dataclass(frozen=True)
class Row:
    """A memory inside an optimizer.

    Args:
        call: How the optimizer is made, without parameters and learning rate.
        where: `step`, or the name of a buffer.
        memory: The text form of the memory that it should be.
        options: Keyword arguments.
        before_step: What is changed before each step.
        note: What is done by `before_step`.
    """

    call: str
    where: str
    memory: str
    options: Any = ()
    before_step: Callable[[Any, int], object] | None = None
    note: str = ""


def set_betas(optimizer: Any, k: int) -> None:
    """The decay of linear memory, step by step, in the place of Adam's first beta."""
    optimizer.param_groups[0]["betas"] = (k / (k + 2), 0.999)


def set_momentum(optimizer: Any, k: int) -> None:
    """The decay of linear memory, step by step, in the place of SGD's momentum and dampening."""
    optimizer.param_groups[0].update(momentum=k / (k + 2), dampening=k / (k + 2))


TORCH: tuple[Row, ...] = (
    Row("SGD", "step", "inst"),
    Row("SGD", "step", "exp:0.9", {"momentum": 0.9}),
    Row("SGD", "step", "exp:0.9", {"momentum": 0.9, "dampening": 0.9}),
    Row("SGD", "step", "exp:0.9", {"momentum": 0.9, "nesterov": True}),
    Row("SGD", "step", "poly:2", {}, set_momentum, "momentum and dampening $k/(k+2)$"),
    Row("Adam", "exp_avg", "exp:0.9"),
    Row("Adam", "exp_avg_sq", "exp:0.999"),
    Row("Adam", "exp_avg", "poly:2", {}, set_betas, r"$\beta_1 = k/(k+2)$"),
    Row("AdamW", "exp_avg_sq", "exp:0.999", {"weight_decay": 0.0}),
    Row("NAdam", "exp_avg", "exp:0.9"),
    Row("RAdam", "exp_avg", "exp:0.9"),
    Row("Adamax", "exp_avg", "exp:0.9"),
    Row("RMSprop", "square_avg", "exp:0.99"),
    Row("RMSprop", "grad_avg", "exp:0.99", {"centered": True}),
    Row("Adadelta", "square_avg", "exp:0.9"),
    Row("Adagrad", "sum", "poly:1"),
    Row("Adafactor", "variance", "power:0.8"),
    Row("ASGD", "step", "inst", {"lambd": 0.0}),
)

OPTAX: tuple[Row, ...] = (
    Row("sgd", "step", "exp:0.9", {"momentum": 0.9}),
    Row("sgd", "step", "exp:0.9", {"momentum": 0.9, "nesterov": True}),
    Row("adam", "mu", "exp:0.9"),
    Row("adam", "nu", "exp:0.999"),
    Row("nadam", "mu", "exp:0.9"),
    Row("lion", "mu", "exp:0.99", {"weight_decay": 0.0}),
    Row("rmsprop", "nu", "exp:0.9"),
    Row("adadelta", "e_g", "exp:0.9", {"rho": 0.9}),
    Row("adagrad", "sum_of_squares", "poly:1", {"initial_accumulator_value": 0.0}),
    Row("adafactor", "v", "power:0.8"),
    Row("contrib.ademamix", "m1", "exp:0.9"),
    Row("contrib.ademamix", "m2", "exp:0.9999"),
)


def audit_torch(row: Row, steps: int = STEPS) -> tuple[Any, NDArray[np.float64]]:
    """What was found where the row says, and the steps for a constant gradient."""
    import torch

    from memgrad.optim import audit

    make = getattr(torch.optim, row.call)
    found = audit(lambda params: make(params, lr=0.1, **dict(row.options)), steps, before_step=row.before_step)
    return found.step if row.where == "step" else found.buffers[row.where], found.constant_gain


def audit_optax(row: Row, steps: int = STEPS) -> tuple[Any, NDArray[np.float64]]:
    """The same for a transformation of optax, fed with impulses in float32."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # otherwise jax reports which devices it does not find
    import jax
    import optax

    from memgrad.optim.auditing.audit import Remembered

    make: Any = optax
    for name in row.call.split("."):
        make = getattr(make, name)
    transform = make(1.0, **dict(row.options))

    # Impulses, impulses twice as large and a constant gradient, in one program: compiling it takes most of the time.
    gradients = np.concatenate([np.eye(steps), 2 * np.eye(steps), np.ones((steps, 1))], axis=1)
    x = jax.numpy.zeros(gradients.shape[1])

    def step(carry: Any, g: Any) -> Any:
        x, state = carry
        updates, state = transform.update(g, state, x)
        return (x + updates, state), (-updates, _leaf(state, row.where, -updates))

    _, outcome = jax.lax.scan(step, (x, transform.init(x)), jax.numpy.asarray(gradients, "float32"))
    moved, seen = (np.asarray(each, np.float64) for each in outcome)
    weights, twice, total = seen[:, :steps], seen[:, steps:-1], seen[:, -1]
    power = 2 if row.where in ("nu", "e_g", "sum_of_squares", "v") else 1
    np.testing.assert_allclose(twice, 2**power * weights, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=1), total, rtol=1e-4)
    return Remembered(row.where, power, weights), moved[:, -1]


def _leaf(state: Any, name: str, otherwise: Any) -> Any:
    """The part of a state that has this name."""
    import jax

    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if getattr(path[-1], "name", None) == name:
            return leaf
    if name != "step":
        raise KeyError(name)
    return otherwise


def off_by(weights: NDArray[np.float64], memory: str) -> NDArray[np.float64]:
    """The share of the weight that lies elsewhere than the memory says (total variation), step by step."""
    from memgrad import Memory

    expected = Memory.parse(memory)
    found = weights / weights.sum(axis=1, keepdims=True)
    return np.array([np.abs(w[: k + 1] - expected.weights(k)).sum() / 2 for k, w in enumerate(found)])


def table(rows: Iterable[Row], run: Callable[[Row], tuple[Any, NDArray[np.float64]]]) -> str:
    """The audits of these rows in markdown."""
    lines = ["| optimizer | where | of | remembers | off by | gain | step for $g = 1$ |", "|---" * 7 + "|"]
    for row in rows:
        found, steps = run(row)
        off = off_by(found.weights, row.memory)
        options = ", ".join(f"{key}={value}" for key, value in dict(row.options).items())
        cells = [
            (f"`{row.call}({options})`" if options else f"`{row.call}`") + (f", {row.note}" if row.note else ""),
            f"`{found.name}`",
            "$g$" if found.power == 1 else "$g^2$",
            f"`{row.memory}`",
            f"{percent(off.max())}, at last {percent(off[-1])}" if off.max() >= ROUNDING else "0",
            between(found.gain[0], found.gain[-1]),
            between(steps[0], steps[-1]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.2g} %" if share >= ROUNDING else "0"


def between(first: float, last: float) -> str:
    """Two numbers, or one if they are the same to the digits that are shown."""
    shown = [f"{value:.4g}" for value in (first, last)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)


def draw() -> Any:
    """The figure: four memories beside what they should be, and the steps of five optimizers."""
    from memgrad import MemAdam, Memory, audit
    from memgrad.figures import audits

    shown = {
        "SGD, momentum 0.9": TORCH[1],
        "the same with Nesterov": TORCH[3],
        "Adagrad's sum": TORCH[15],
        "Adafactor's variance": TORCH[16],
    }
    weights = {label: audit_torch(row)[0].weights[-1] for label, row in shown.items()}
    exact = {label: Memory.parse(row.memory) for label, row in shown.items()}
    ours = audit(lambda params: MemAdam(params, lr=0.1, memory="poly:2", second_memory="exp:0.999"), STEPS)
    gains = {
        r"Adam, $\beta_1 = k/(k+2)$": audit_torch(TORCH[7])[1],
        "MemAdam, poly:2": ours.constant_gain,
        "RAdam": audit_torch(TORCH[10])[1],
        "Adagrad": audit_torch(TORCH[15])[1],
    }
    return audits(weights, gains, exact=exact)


def write(app: Sphinx) -> None:
    """Write the tables and the figure into `_generated`, beside the pages."""
    from memgrad import figures

    generated = Path(app.srcdir) / "_generated"
    generated.mkdir(exist_ok=True)
    (generated / "audits_torch.md").write_text(table(TORCH, audit_torch))
    (generated / "audits_optax.md").write_text(table(OPTAX, audit_optax))
    figures.save(draw(), generated / "audits.svg")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Audit when the builder is ready, not when this file is imported."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
