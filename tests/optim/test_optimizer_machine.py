"""Any sequence of what users do with an optimizer takes the steps of the definition, which keeps the whole history.

A state machine draws steps with missing gradients, new groups, options, memories and dtypes changed in mid-training,
checkpoints loaded into fresh optimizers, copies, and data that does not fit. Beside each parameter goes a twin in
NumPy: it knows the gradients of all its steps, and sums them with weights from closed forms of the decays. A twin whose
options never change is held against `memgrad.optim.reference` at the end.
"""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from memory_table import properties
from numpy.typing import NDArray
from torch.nn import Parameter

from memgrad import ADana, HeavyBall, MemAdam, Memory, MemSGD, Nesterov, PolyAdam
from memgrad.optim import reference
from memgrad.optim.base import MemoryOptimizer

Array = NDArray[np.float64]
Options = dict[str, Any]


def polynomial(p: float) -> Callable[[int], float]:
    return lambda k: k / (k + p)


def exponential(beta: float) -> Callable[[int], float]:
    return lambda k: beta * (1 - beta**k) / (1 - beta ** (k + 1))


DECAYS: Mapping[str, Callable[[int], float]] = {
    "inst": lambda k: 0.0,
    "poly:1": polynomial(1.0),
    "poly:2": polynomial(2.0),
    "poly:7.5": polynomial(7.5),
    "exp:0.5": exponential(0.5),
    "exp:0.9": exponential(0.9),
}
SHAPES = ((), (3,), (2, 2), (17,))
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
PATHS: Mapping[str, Options] = {
    "default": {"foreach": None, "fused": None, "capturable": False},
    "foreach": {"foreach": True, "fused": None, "capturable": False},
    "single": {"foreach": False, "fused": False, "capturable": False},
    "capturable": {"foreach": None, "fused": None, "capturable": True},
}


# --- the definition --------------------------------------------------------------------------------------------------


@dataclass
class Twin:
    """A parameter in double precision with the whole history of its gradients.

    Args:
        x: Its value.
        start: Its first value.
        gradients: Those of all steps, as they came.
        remembered: Those that are remembered, with the decays b_j (and c_j) of their steps.
        k: Number of steps.
        tolerance: What rounding may have done so far.
        changed: Whether options, or the precision, ever changed.
    """

    x: Array
    start: Array
    gradients: list[Array] = field(default_factory=list)
    remembered: list[tuple[Array, float, float]] = field(default_factory=list)
    k: int = 0
    tolerance: float = 0.0
    changed: bool = False

    def remember(self, g: Array, b: float, c: float = 0.0) -> None:
        first = not self.remembered
        self.remembered.append((g, 0.0 if first else b, 0.0 if first else c))

    def average(self, place: int, power: int = 1) -> Array:
        """The sum of all w(j,k) g_j^power, w(j,k) = (1 - b_j) b_{j+1} ... b_k."""
        decays = [entry[place] for entry in self.remembered]
        weights = [(1 - b) * math.prod(decays[j + 1 :]) for j, b in enumerate(decays)]
        return np.asarray(sum(w * entry[0] ** power for w, entry in zip(weights, self.remembered, strict=True)))

    def total(self) -> Array:
        """The sum of all g_j times the momenta of the steps since."""
        momenta = [entry[1] for entry in self.remembered]
        return np.asarray(sum(entry[0] * math.prod(momenta[j + 1 :]) for j, entry in enumerate(self.remembered)))


def shrink(twin: Twin, g: Array, o: Options) -> Array:
    """The gradient to descend, with the weight decay of either kind."""
    if o["decoupled_weight_decay"]:
        twin.x = twin.x * (1 - o["lr"] * o["weight_decay"])
        return g
    return g + o["weight_decay"] * twin.x


def memsgd(twin: Twin, g: Array, o: Options) -> None:
    g = shrink(twin, g, o)
    if o["memory"] == "inst":
        twin.remembered.clear()
        twin.x = twin.x - o["lr"] * g
        return
    twin.remember(g, DECAYS[o["memory"]](twin.k))
    twin.x = twin.x - o["lr"] * twin.average(1)


def memadam(twin: Twin, g: Array, o: Options) -> None:
    g = shrink(twin, g, o)
    twin.remember(g, DECAYS[o["memory"]](twin.k), DECAYS[o["second_memory"]](twin.k))
    twin.x = twin.x - o["lr"] * twin.average(1) / (np.sqrt(twin.average(2, 2)) + o["eps"])


def polyadam(twin: Twin, g: Array, o: Options) -> None:
    memory = "inst" if o["beta"] == 0 else f"exp:{o['beta']:g}"
    memadam(twin, g, {**o, "memory": memory, "second_memory": f"poly:{o['p']:g}", "decoupled_weight_decay": True})


def beta(k: int, o: Options) -> float:
    momentum: float = o["momentum"] if o["viscosity"] is None else k / (k + o["viscosity"])
    return momentum


def heavy_ball(twin: Twin, g: Array, o: Options) -> None:
    twin.remember(shrink(twin, g, o), beta(twin.k, o))
    twin.x = twin.x - o["lr"] * twin.total()


def nesterov(twin: Twin, g: Array, o: Options) -> None:
    g = shrink(twin, g, o)
    twin.remember(g, beta(twin.k, o))
    twin.x = twin.x - o["lr"] * (g + beta(twin.k + 1, o) * twin.total())


def adana(twin: Twin, g: Array, o: Options) -> None:
    b, k = polynomial(o["delta"])(twin.k), twin.k
    twin.remember(g, b, b)
    direction = (g + (1 + k) ** (1 - o["kappa"]) * twin.average(1)) / (np.sqrt(twin.average(2, 2)) + o["eps"])
    twin.x = twin.x - o["lr"] * (direction + o["omega"] / (k + 1) * twin.x)


# --- optimizers and their options ------------------------------------------------------------------------------------


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


COMMON = {"lr": one_of(0.02, 0.1), "maximize": st.booleans()}
DECAYED = {**COMMON, "weight_decay": one_of(0.0, 0.1), "decoupled_weight_decay": st.booleans()}
MEMORIES = one_of(*DECAYS)
FADING = one_of("poly:1", "poly:2", "poly:7.5", "exp:0.9")
MOMENTA = st.fixed_dictionaries(DECAYED).flatmap(
    lambda o: one_of(
        {**o, "momentum": 0.9, "viscosity": None},
        {**o, "momentum": 0.0, "viscosity": None},
        {**o, "momentum": None, "viscosity": 3.0},
    )
)


@dataclass(frozen=True)
class Kind:
    """One optimizer, the options its groups may have, its definition, and its reference."""

    optimizer: type[MemoryOptimizer]
    options: st.SearchStrategy[Options]
    step: Callable[[Twin, Array, Options], None]
    reference: Callable[[Any, Array, int, Options], Array]


def by_memories(function: Any, *names: str) -> Callable[[Any, Array, int, Options], Array]:
    def run(gradient: Any, x0: Array, steps: int, o: Options) -> Array:
        options = {name: o[name] if name == "eps" else Memory.parse(o[name]) for name in names}
        iterates: Array = function(gradient, x0, lr=o["lr"], steps=steps, **options)
        return iterates

    return run


def by_numbers(function: Any, *names: str) -> Callable[[Any, Array, int, Options], Array]:
    def run(gradient: Any, x0: Array, steps: int, o: Options) -> Array:
        iterates: Array = function(gradient, x0, lr=o["lr"], steps=steps, **{name: o[name] for name in names})
        return iterates

    return run


def polyadam_by_reference(gradient: Any, x0: Array, steps: int, o: Options) -> Array:
    memory = "inst" if o["beta"] == 0 else f"exp:{o['beta']}"
    both = {"memory": memory, "second_memory": f"poly:{o['p']}"}
    return by_memories(reference.memadam, *both)(gradient, x0, steps, {**o, **both})


KINDS: Mapping[str, Kind] = {
    "MemSGD": Kind(
        MemSGD,
        st.fixed_dictionaries({**DECAYED, "memory": MEMORIES}),
        memsgd,
        by_memories(reference.memsgd, "memory"),
    ),
    "MemAdam": Kind(
        MemAdam,
        st.fixed_dictionaries({**DECAYED, "memory": MEMORIES, "second_memory": FADING, "eps": one_of(1e-8, 0.1)}),
        memadam,
        by_memories(reference.memadam, "memory", "second_memory", "eps"),
    ),
    "PolyAdam": Kind(
        PolyAdam,
        st.fixed_dictionaries(
            {**COMMON, "weight_decay": one_of(0.0, 0.1), "p": one_of(1, 2, 7.5), "beta": one_of(0, 0.5, 0.9)}
        ).map(lambda o: {**o, "eps": 1e-8}),
        polyadam,
        polyadam_by_reference,
    ),
    "HeavyBall": Kind(HeavyBall, MOMENTA, heavy_ball, by_numbers(reference.heavy_ball, "momentum", "viscosity")),
    "Nesterov": Kind(Nesterov, MOMENTA, nesterov, by_numbers(reference.nesterov, "momentum", "viscosity")),
    "ADana": Kind(
        ADana,
        st.fixed_dictionaries(
            {**COMMON, "delta": one_of(1.0, 8.0), "kappa": one_of(0.5, 1.0), "omega": one_of(0.0, 1.0)}
        ).map(lambda o: {**o, "eps": 1e-8, "through_lr": True}),
        adana,
        by_numbers(reference.adana, "delta", "kappa", "omega", "eps", "through_lr"),
    ),
}


# --- the machine -----------------------------------------------------------------------------------------------------


def number(t: torch.Tensor) -> Array:
    return t.detach().to(torch.float64, copy=True).numpy()


class Machine(RuleBasedStateMachine):
    """One optimizer with up to three groups, and the twins of its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[Options] = []
        self.params: list[list[Parameter]] = []
        self.twins: list[list[Twin]] = []
        self.checkpoint: tuple[Any, Any] | None = None
        self.seed = 0

    # What the optimizer gets: its own options, how a step is computed, and the precision of the state.

    @initialize(kind=one_of(*KINDS), data=st.data())
    def make(self, kind: str, data: st.DataObject) -> None:
        self.kind = KINDS[kind]
        self.optimizer: Any = None
        self.add_group(data)

    @precondition(lambda self: len(self.groups) < 3)
    @rule(data=st.data())
    def add_group(self, data: st.DataObject) -> None:
        options = data.draw(self.kind.options, label="options")
        dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
        state_dtype = data.draw(st.sampled_from((None, *DTYPES)), label="state_dtype")
        path = data.draw(st.sampled_from(sorted(PATHS)), label="path")
        shapes = data.draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2), label="shapes")
        params = [Parameter(torch.from_numpy(np.asarray(self.draw(shape))).to(dtype)) for shape in shapes]
        group = {"params": params, **options, **self.path(path), "state_dtype": state_dtype}
        if self.optimizer is None:
            self.optimizer = self.kind.optimizer([group])
        else:
            self.optimizer.add_param_group(group)
        self.groups.append(options)
        self.params.append(params)
        self.twins.append([Twin(number(p), number(p)) for p in params])

    def path(self, name: str) -> Options:
        return {
            key: value for key, value in PATHS[name].items() if key in self.known(("foreach", "fused", "capturable"))
        }

    def known(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return names

    def draw(self, shape: tuple[int, ...]) -> Array:
        """Numbers of size 1/2 to 2 and either sign: what is divided by their root must not be next to 0."""
        self.seed += 1
        random = np.random.default_rng(self.seed)
        return np.asarray(random.uniform(0.5, 2.0, shape) * random.choice([-1.0, 1.0], shape))

    @rule(missing=st.integers(0, 15), steps=st.integers(1, 3))
    def step(self, missing: int, steps: int) -> None:
        """Take steps; bit i of `missing` leaves the i-th parameter without a gradient in the first of them."""
        for n in range(steps):
            place = 0
            for options, params, twins in zip(self.groups, self.params, self.twins, strict=True):
                for p, twin in zip(params, twins, strict=True):
                    p.grad = None
                    if n > 0 or not missing >> place & 1:
                        p.grad = torch.from_numpy(self.draw(tuple(p.shape))).to(p.dtype)
                        self.expect(p, twin, options)
                    place += 1
            self.optimizer.step()
            self.compare()

    def expect(self, p: Parameter, twin: Twin, options: Options) -> None:
        g = number(p.grad) if p.grad is not None else np.zeros(p.shape)
        twin.gradients.append(g)
        self.kind.step(twin, -g if options["maximize"] else g, options)
        twin.k += 1
        kept = [
            t.dtype for t in self.optimizer.state[p].values() if isinstance(t, torch.Tensor) and t.is_floating_point()
        ]
        unit = max(torch.finfo(dtype).eps for dtype in (p.dtype, torch.float64, *kept, *self.begins_with(p)))
        # A step rounds x, and a direction of up to 10 times 2 that the learning rate 0.1 brings to size 2, some ulps.
        twin.tolerance += 8 * unit * max(1.0, float(np.abs(twin.x).max(initial=0.0)), twin.k / 4)

    def begins_with(self, p: Parameter) -> list[torch.dtype]:
        """The precision of a state that is made in this step."""
        for group in self.optimizer.param_groups:
            if any(p is q for q in group["params"]) and group["state_dtype"] is not None:
                name = group["state_dtype"]
                return [name if isinstance(name, torch.dtype) else getattr(torch, name)]
        return []

    def compare(self) -> None:
        for params, twins in zip(self.params, self.twins, strict=True):
            for p, twin in zip(params, twins, strict=True):
                np.testing.assert_allclose(number(p), twin.x, rtol=0, atol=twin.tolerance)
                assert self.optimizer.state[p].get("step", 0) == twin.k
        if self.checkpoint is not None:
            saved, before = self.checkpoint
            for key, state in before["state"].items():
                for name, value in state.items():
                    assert torch.equal(torch.as_tensor(saved["state"][key][name]), torch.as_tensor(value)), name

    # What a user changes in mid-training.

    @rule(data=st.data())
    def change_options(self, data: st.DataObject) -> None:
        i = data.draw(st.integers(0, len(self.groups) - 1), label="group")
        options = data.draw(self.kind.options, label="options")
        group = self.optimizer.param_groups[i]
        for name, value in options.items():
            as_object = name in ("memory", "second_memory") and data.draw(st.booleans(), label="as object")
            group[name] = Memory.parse(value) if as_object else value
        if options != self.groups[i]:
            for twin in self.twins[i]:
                twin.changed = twin.changed or twin.k > 0
        self.groups[i] = options

    @precondition(lambda self: self.kind.optimizer is MemSGD)
    @rule(before=MEMORIES, after=one_of("poly:2", "exp:0.9"))
    def change_memory(self, before: str, after: str) -> None:
        """From one memory to none, whose steps count and keep no average, and on to another."""
        for memory in (before, "inst", after):
            for i, group in enumerate(self.optimizer.param_groups):
                group["memory"] = memory
                self.groups[i] = {**self.groups[i], "memory": memory}
                for twin in self.twins[i]:
                    twin.changed = True
            self.step(missing=0, steps=2)

    @rule(data=st.data(), path=one_of(*PATHS), state_dtype=one_of(None, *DTYPES))
    def change_path(self, data: st.DataObject, path: str, state_dtype: torch.dtype | None) -> None:
        i = data.draw(st.integers(0, len(self.groups) - 1), label="group")
        self.optimizer.param_groups[i].update({**self.path(path), "state_dtype": state_dtype})

    @rule(data=st.data(), dtype=one_of(*DTYPES))
    def change_dtype(self, data: st.DataObject, dtype: torch.dtype) -> None:
        """As `model.to(dtype)`: the parameters get other data, the state stays."""
        i = data.draw(st.integers(0, len(self.groups) - 1), label="group")
        for p, twin in zip(self.params[i], self.twins[i], strict=True):
            p.grad = None
            p.data = p.data.to(dtype)
            twin.x, twin.changed = number(p), True

    # Checkpoints, copies, and what is refused.

    @rule(own=one_of(None, *DTYPES))
    def load_into_a_fresh_optimizer(self, own: torch.dtype | None) -> None:
        file = io.BytesIO()
        torch.save(self.optimizer.state_dict(), file)
        file.seek(0)
        checkpoint = torch.load(file)
        self.checkpoint = (checkpoint, copy.deepcopy(checkpoint))
        self.params = [[Parameter(p.detach().clone()) for p in params] for params in self.params]
        self.optimizer = self.kind.optimizer([{"params": params} for params in self.params], state_dtype=own)
        self.optimizer.load_state_dict(checkpoint)
        for params, twins in zip(self.params, self.twins, strict=True):
            for p, twin in zip(params, twins, strict=True):
                kept = [
                    self.optimizer.state[p][name]
                    for name in self.kind.optimizer.buffers
                    if name in self.optimizer.state[p]
                ]
                if own is not None:
                    assert all(t.dtype == own for t in kept)
                    # A state that was rounded is off by half an ulp of its size, and moves x by no more than that.
                    twin.tolerance += 8 * torch.finfo(own).eps * max(1, twin.k) if kept else 0.0

    @rule()
    def copy_all(self) -> None:
        before = [[number(p) for p in params] for params in self.params]
        old = self.params
        self.params, self.optimizer = copy.deepcopy((self.params, self.optimizer))
        assert all(p is not q for ps, qs in zip(old, self.params, strict=True) for p, q in zip(ps, qs, strict=True))
        for params, values in zip(self.params, before, strict=True):
            for p, value in zip(params, values, strict=True):
                assert np.array_equal(number(p), value)

    @precondition(lambda self: any(twin.remembered for twins in self.twins for twin in twins))
    @rule(data=st.data())
    def refuse_data_of_another_shape(self, data: st.DataObject) -> None:
        """Whatever the path, a state that does not fit is refused, and no parameter of any group has moved."""
        places = [(i, j) for i, twins in enumerate(self.twins) for j, twin in enumerate(twins) if twin.remembered]
        i, j = data.draw(st.sampled_from(places), label="parameter")
        for params in self.params:
            for p in params:
                p.grad = torch.ones_like(p)
        odd = self.params[i][j]
        if self.kind.optimizer.buffers[0] not in self.optimizer.state[odd]:
            return
        if self.groups[i].get("memory") == "inst" and self.kind.optimizer is MemSGD:
            return  # it keeps no state that could be refused
        kept, odd.grad = odd.data, None
        odd.data = torch.zeros(1000, dtype=odd.dtype)
        odd.grad = torch.ones(1000, dtype=odd.dtype)
        with pytest.raises(RuntimeError, match=f"of parameter {j} has the shape"):
            self.optimizer.step()
        odd.grad, odd.data = None, kept
        self.compare()

    def teardown(self) -> None:
        for options, twins in zip(self.groups, self.twins, strict=True):
            for twin in twins:
                if twin.k and not twin.changed:
                    self.hold_against_the_reference(twin, options)

    def hold_against_the_reference(self, twin: Twin, o: Options) -> None:
        sign = -1.0 if o["maximize"] else 1.0
        factor = o.get("weight_decay", 0.0)
        decoupled = o.get("decoupled_weight_decay", self.kind.optimizer is PolyAdam)

        def gradient(x: Array, k: int) -> Array:
            return sign * twin.gradients[k] + (0.0 if decoupled else factor) * x

        x = twin.start
        if decoupled and factor:  # these gradients do not depend on x, so neither do the steps
            for step in np.diff(self.kind.reference(gradient, x, twin.k, o), axis=0):
                x = x * (1 - o["lr"] * factor) + step
        else:
            x = self.kind.reference(gradient, x, twin.k, o)[-1]
        np.testing.assert_allclose(twin.x, x, rtol=1e-11, atol=1e-11)


Machine.TestCase.settings = settings(properties, max_examples=200, stateful_step_count=14)
test_every_sequence_takes_the_steps_of_the_definition = Machine.TestCase
