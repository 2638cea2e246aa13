"""Checkpoints: whether one fits an optimizer, and how its state is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from memgrad.optim.options import OPTIONS_ELSEWHERE, Group, name_of
from memgrad.optim.recall import AVERAGES, NEWEST

if TYPE_CHECKING:
    from memgrad.optim.groups import GroupedOptimizer

Checkpoint = dict[str, Any]

RULE = "optimizer"
"""The key of the rule's name. It is not in the groups, because distributed checkpoints refuse unknown options."""


def fitted(optimizer: GroupedOptimizer, saved: Checkpoint) -> Checkpoint:
    """The checkpoint as the optimizer loads it, with the optimizer's own `state_dtype`; or an error if it does not fit.

    Groups that differ in number or size are left to torch, which refuses them with its own message.
    """
    _refuse_unless_state_dict(saved)
    rule = saved.get(RULE, optimizer.rule)
    if rule != optimizer.rule:
        raise ValueError(
            f"this checkpoint is one of {rule}, not of {type(optimizer).__name__}. Load it into {rule}, or load only "
            f"the parameters and let {type(optimizer).__name__} start from scratch."
        )
    groups = []
    for i, (group, saved_group) in enumerate(zip(optimizer.param_groups, saved["param_groups"], strict=False)):
        where = f"group {i} of the checkpoint"
        own = group.get("state_dtype")
        taken = saved_group if own is None else {**saved_group, "state_dtype": own}
        options = _options(optimizer, taken, where)
        for index, (p, number) in enumerate(zip(group["params"], saved_group["params"], strict=False)):
            state = saved["state"].get(number)
            if state:
                _refuse_state_unless_fitting(optimizer, state, p, options, f"{name_of(group, index)} in {where}")
        groups.append(taken)
    return {**saved, "param_groups": [*groups, *saved["param_groups"][len(groups) :]]}


def _refuse_unless_state_dict(saved: Any) -> None:
    if _is_state_dict(saved):
        return
    keys = list(saved) if isinstance(saved, Mapping) else []
    has = f"has the keys {', '.join(map(str, keys[:5]))}" if keys else f"is a {type(saved).__name__} without them"
    inside = [key for key in keys if _is_state_dict(saved[key])]
    way_out = f"load its entry {inside[0]!r}" if inside else "load what the optimizer's state_dict() returned"
    raise ValueError(
        f"the state_dict of an optimizer has the keys state and param_groups; this one {has}: {way_out}. Nothing was "
        f"loaded."
    )


def _is_state_dict(value: Any) -> bool:
    return isinstance(value, Mapping) and {"state", "param_groups"} <= value.keys()


def _options(optimizer: GroupedOptimizer, saved_group: Group, where: str) -> Group:
    """The options of a saved group, checked; options newer than the checkpoint have the optimizer's own values."""
    own = {*optimizer._option_names(), *optimizer._derived_options}
    foreign = sorted((saved_group.keys() & OPTIONS_ELSEWHERE) - own)
    missing = [name for name in optimizer._required_options if name not in saved_group]
    if foreign or missing:
        differs = f"has the options {', '.join(foreign)}" if foreign else f"lacks the options {', '.join(missing)}"
        of_torch = " If it is one of torch's SGD, Adam or AdamW, load it there and pass that optimizer to from_torch."
        raise ValueError(
            f"this checkpoint is not one of {type(optimizer).__name__}: {where} {differs}; nothing was loaded."
            f"{of_torch if foreign else ''}"
        )
    options = {**optimizer.defaults, **saved_group}
    try:
        optimizer._check_group(options)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{where}: {error} Correct it in the checkpoint's param_groups; nothing was loaded."
        ) from None
    return options


def _refuse_state_unless_fitting(
    optimizer: GroupedOptimizer, state: dict[str, Any], p: Tensor, options: Group, where: str
) -> None:
    tensors = [name for name, value in state.items() if isinstance(value, Tensor) and name != "step"]
    # A memory that was changed since the last step may need averages that the next one begins.
    begins = {*AVERAGES, NEWEST} if {*tensors} <= {*optimizer.buffers} else set()
    missing = {"step", *optimizer._buffer_names(options)} - state.keys() - begins
    if missing:
        raise ValueError(
            f"this checkpoint is not one of {type(optimizer).__name__}: the state of {where} lacks "
            f"{', '.join(sorted(missing))}, it has {', '.join(map(str, state))}."
        )
    _refuse_unless_count(state["step"], where)
    for name in optimizer.buffers:
        value = state.get(name, p)
        if not isinstance(value, Tensor):
            raise ValueError(f"the state {name!r} of {where} must be a tensor, got {value!r}; nothing was loaded.")
        if value.shape != p.shape:
            raise ValueError(
                f"the state {name!r} of {where} has the shape {list(value.shape)}, the parameter {list(p.shape)}. "
                f"Load it together with the parameters it was saved with; nothing was loaded."
            )


def _refuse_unless_count(k: Any, where: str) -> None:
    if isinstance(k, Tensor) and k.numel() == 1:
        if k.device.type == "meta":
            return
        k = k.item()
    if not isinstance(k, int | float) or not 0 <= k < math.inf or k != int(k):
        raise ValueError(f"the state of {where} needs a count of steps >= 0, got step={k!r}; nothing was loaded.")


def take_over(optimizer: GroupedOptimizer, saved: Checkpoint) -> None:
    """Give the optimizer copies of the saved tensors, in the precision that its state has.

    torch casts them to the parameter's precision; if they have it already, it does not copy them, and steps would
    change the checkpoint.
    """
    for group, saved_group in zip(optimizer.param_groups, saved["param_groups"], strict=True):
        for p, number in zip(group["params"], saved_group["params"], strict=True):
            for name, value in (saved["state"].get(number) or {}).items():
                if isinstance(value, Tensor):
                    kept = optimizer._state_dtype(group, value) if name in optimizer.buffers else None
                    optimizer.state[p][name] = value.to(p.device, kept or value.dtype, copy=True)
