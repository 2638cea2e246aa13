"""Continuing the run of a torch optimizer with a memgrad optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor
from torch.optim.optimizer import Optimizer

from memgrad.optim.memadam import MemAdam
from memgrad.optim.memsgd import MemSGD
from memgrad.optim.methods import method_of
from memgrad.optim.options import Group, name_of

State = dict[str, Any]
SHARED = ("lr", "maximize", "initial_lr", "max_lr")
"""Options that have the same name in both, and what schedulers add to groups."""


def from_torch(optimizer: Optimizer, *, steps: int | None = None) -> MemSGD | MemAdam:
    r"""The memgrad optimizer that continues a torch optimizer from its current state, up to rounding.

    It has the parameters of the torch optimizer, which is not modified. You can then change `group["memory"]`, for
    example to a mixture with gain, `group["second_memory"]` or the weight decay. To continue a checkpoint, load it into
    the torch optimizer first.

    Args:
        optimizer: A `torch.optim.SGD`, `Adam`, `AdamW`, `NAdam` or `Adagrad`. Not supported are AMSGrad, an Adagrad
            with `lr_decay` or an initial sum above 0, and an SGD with dampening before every parameter has taken a
            step, because SGD does not dampen the first gradient.
        steps: The number of steps taken so far, for SGD, which does not count them: a memory that is chosen later
            continues from there. By default the number of steps that its momentum remembers. Refused for the others,
            which count their own.

    Example:
        >>> import torch
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> adam = torch.optim.AdamW([x], lr=0.1)
        >>> x.grad = torch.ones(1)
        >>> adam.step()
        >>> ours = from_torch(adam)
        >>> ours.param_groups[0]["memory"], ours.state[x]["step"]
        ('exp:0.9', 1)
        >>> ours.param_groups[0]["memory"] = "inst + (1+k)^0.25*poly:8"  # from here on with gain
        >>> ours.step()
    """
    name = type(optimizer).__name__
    if name not in _STATES or type(optimizer).__module__.partition(".")[0] != "torch":
        raise TypeError(f"from_torch reads torch.optim's {', '.join(_STATES)}, got {type(optimizer).__qualname__}.")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 0):
        raise ValueError(f"from_torch needs an integer steps >= 0, got steps={steps!r}.")
    if steps is not None and name != "SGD":
        raise ValueError(f"from_torch takes steps for SGD only; {name} counts its own, got steps={steps!r}.")
    groups = [_group(name, group) for group in optimizer.param_groups]
    ours: MemSGD | MemAdam = MemSGD(groups) if name == "SGD" else MemAdam(groups)
    for group in optimizer.param_groups:
        for index, p in enumerate(group["params"]):
            state = optimizer.state.get(p) or {}
            if name == "SGD" and p.requires_grad and state.get("momentum_buffer") is None:
                _refuse_to_dampen_the_first(group, index)
            if state:
                ours.state[p] = _STATES[name](state, group, steps)
            elif steps and p.requires_grad and not group.get("momentum"):  # without momentum SGD keeps no state
                ours.state[p] = {"step": steps}
    return ours


def _group(name: str, group: Group) -> Group:
    """The options of a group in our terms, or an error if no method has them."""
    continued = dict(group)
    if name == "SGD" and group["momentum"]:
        continued["dampening"] = 0.0  # its effect on the gain is in `_sgd_memory`
    method = method_of(name, continued)
    if method is None:
        telling = ("amsgrad", "lr_decay", "initial_accumulator_value", "momentum")
        refused = {key: group[key] for key in telling if key in group}
        raise ValueError(
            f"from_torch cannot continue {name} with these options: {refused}; no memory takes the same steps."
        )
    decay = method.weight_decay
    ours: Group = {
        "params": group["params"],
        **{key: _copied(group[key]) for key in SHARED if key in group},
        "memory": _sgd_memory(group) if name == "SGD" else str(method.mixture),
        "weight_decay": decay.amount,
        "decoupled_weight_decay": decay.kind == "decoupled",
        "differentiable": bool(group.get("differentiable")),
    }
    if "param_names" in group:
        ours["params"] = list(zip(group["param_names"], group["params"], strict=True))
    if name != "SGD":
        ours["eps"] = method.eps
        ours["second_memory"] = "sum*poly:1" if name == "Adagrad" else str(method.second_memory)
    return ours


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _refuse_to_dampen_the_first(group: Group, index: int) -> None:
    """Refuse a parameter without steps: SGD would not dampen its first gradient, and no memory can express that."""
    if group["momentum"] and group["dampening"]:
        raise ValueError(
            f"from_torch cannot continue SGD with dampening={group['dampening']!r} for {name_of(group, index)}, which "
            f"has taken no step: torch does not dampen its first gradient. Take a step with SGD first, or freeze it."
        )


def _sgd_memory(group: Group) -> str:
    """The mixture of SGD; where it dampens, from the second gradient on."""
    beta, gain = float(group["momentum"]), 1 - float(group["dampening"])  # plain numbers, which are written as text
    if not beta:
        return "inst"
    return f"inst + {beta!r}*sum*exp:{beta!r}" if group["nesterov"] else f"{gain!r}*sum*exp:{beta!r}"


def _sgd_state(state: State, group: Group, steps: int | None) -> State:
    beta, dampening, buffer = float(group["momentum"]), float(group["dampening"]), state.get("momentum_buffer")
    if buffer is None or not beta:  # without momentum SGD does not use the buffer of earlier steps
        return {"step": steps or 0}
    # After this many steps an exponential memory has forgotten its start: up to rounding, its decay is the momentum.
    forgotten = math.ceil(-40 / math.log(beta))
    # A first gradient that was not dampened has another weight than the others, until it is forgotten.
    t = steps if steps and not dampening else max(steps or 0, forgotten)
    return {"step": t, "average": buffer * ((1 - beta) / (1 - beta**t) / (1 - dampening))}


def _adam_state(state: State, group: Group, _: int | None) -> State:
    t, (beta1, beta2) = int(state["step"]), group["betas"]
    return {
        "step": t,
        "average": _corrected(state["exp_avg"], beta1, t),
        "square_average": _corrected(state["exp_avg_sq"], beta2, t),
    }


def _adagrad_state(state: State, _group: Group, _: int | None) -> State:
    t = int(state["step"])
    return {"step": t, "square_average": state["sum"] / max(t, 1)}


def _corrected(average: Tensor, beta: float, t: int) -> Tensor:
    return average / (1 - beta**t) if t else average.clone()


_STATES: Mapping[str, Callable[[State, Group, int | None], State]] = {
    "SGD": _sgd_state,
    "Adam": _adam_state,
    "AdamW": _adam_state,
    "NAdam": _adam_state,
    "Adagrad": _adagrad_state,
}


def decay_groups(
    parameters: Iterable[tuple[str, Tensor]],
    weight_decay: float | str,
    *,
    decays: Callable[[str, Tensor], bool] | None = None,
) -> list[Group]:
    """Two parameter groups: one with weight decay, and one without, for biases and normalization layers.

    Args:
        parameters: Named parameters, as `model.named_parameters()` gives them.
        weight_decay: The weight decay of the first group.
        decays: A function of name and parameter that returns whether it decays; by default, parameters with two or more
            dimensions do.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
        >>> groups = decay_groups(model.named_parameters(), 0.1)
        >>> [[name for name, _ in group["params"]] for group in groups]
        [['0.weight'], ['0.bias', '1.weight', '1.bias']]
        >>> optimizer = MemAdam(groups, lr=1e-3)
    """
    wants = decays if decays is not None else lambda _, p: p.ndim >= 2
    named = list(parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in named):
        raise TypeError("decay_groups needs named parameters, as model.named_parameters() gives them.")
    groups = [
        {"params": [pair for pair in named if bool(wants(*pair)) is decaying], "weight_decay": amount}
        for decaying, amount in ((True, weight_decay), (False, 0.0))
    ]
    return [group for group in groups if group["params"]]
