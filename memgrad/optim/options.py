"""The options of parameter groups, and which values are refused."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

from memgrad.kinds import is_real
from memgrad.method import WeightDecay
from memgrad.method.text import parse_decay
from memgrad.suggestions import nearest

Group = dict[str, Any]

# Options of other optimizers. In a group they would be ignored silently.
OPTIONS_ELSEWHERE = frozenset(
    {"alpha", "amsgrad", "beta", "betas", "centered", "dampening", "decoupled_weight_decay", "delta", "eps", "kappa"}
    | {"learning_rate", "lr_decay", "memory", "momentum", "nesterov", "omega", "p", "rho", "second_memory"}
    | {"viscosity", "wd", "weight_decay"}
)
WRITTEN_AS = {
    "momentum": "memory='exp:0.9' averages as momentum=0.9 does, at ten times the lr",
    "betas": "memory='exp:0.9', second_memory='exp:0.999' are betas=(0.9, 0.999)",
    "nesterov": "memgrad.Nesterov is SGD with nesterov=True",
    "weight_decay": "the weight decay is omega/(k+1)",
    "learning_rate": "the learning rate is lr",
    "wd": "the weight decay is weight_decay",
}
"""How options of torch's optimizers and others are written here, in optimizers that do not have them."""

SWITCHES = ("maximize", "capturable", "differentiable", "decoupled_weight_decay", "compiled")
PATHS = ("foreach", "fused")  # None leaves the choice to the optimizer
MISSPELLED = 0.8  # similarity to an option from which a key is refused; other keys may be the user's own tags


def given(arguments: Mapping[str, Any], **more: Any) -> Group:
    """The options of a constructor by name, from its `locals()`; they are the defaults of its groups."""
    return {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")} | more


def name_of(group: Group, index: int) -> str:
    """How errors refer to a parameter: by its name if the group has names, otherwise by its index in the group."""
    names = group.get("param_names")
    return f"parameter {names[index]!r}" if names else f"parameter {index}"


def refuse_unless_known(owner: str, group: Group, known: Sequence[str]) -> None:
    """Refuse misspelled options and those of other optimizers; any other key may be a tag of the user's."""
    for option in group:
        if option in known:
            continue
        if near := nearest(option, known, cutoff=MISSPELLED):
            raise ValueError(f"{owner} has no option {option!r}; did you mean {near!r}?")
        if option in OPTIONS_ELSEWHERE:
            raise ValueError(
                f"{owner} has no option {option!r} in its groups; it has {list(known)}.{_hint(option, known)}"
            )


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that refuses an argument it does not take with the way to write it here."""
    parameters = inspect.signature(init).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return init
    taken = tuple(parameters)

    @wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        for option in given.keys() - {*taken}:
            near = nearest(option, taken, cutoff=MISSPELLED)
            also = f" Did you mean {near!r}?" if near else _hint(option, taken)
            raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {option!r}.{also}")
        init(self, *args, **given)

    return checked


def _hint(option: str, known: Sequence[str]) -> str:
    """How an option of another optimizer is written, if it can be written with the known ones."""
    if option not in WRITTEN_AS or (option in ("momentum", "betas") and "memory" not in known):
        return ""
    if (option == "betas" and "second_memory" not in known) or (option == "weight_decay" and "omega" not in known):
        return ""
    return f" Here {WRITTEN_AS[option]}."


def refuse_unless_switches(owner: str, group: Group) -> None:
    """Refuse switches that are not booleans, and combinations of options that exclude each other."""
    for name in (*SWITCHES, *PATHS):
        value = group.get(name, False)
        if isinstance(value, np.bool_):
            group[name] = value = bool(value)  # plain data, for checkpoints
        if not isinstance(value, bool) and not (value is None and name in PATHS):
            either = "True, False or None" if name in PATHS else "True or False"
            raise TypeError(f"{owner} needs {name} to be {either}, got {name}={value!r}.")
    if group["foreach"] and group["fused"]:
        raise ValueError(f"{owner} takes one of foreach=True and fused=True, got both.")
    if group["differentiable"] and (group["foreach"] or group["fused"]):
        raise ValueError(f"{owner} with differentiable=True needs foreach and fused not to be True.")
    for other in ("foreach", "fused", "capturable", "differentiable"):
        if group.get("compiled") and group[other]:
            raise ValueError(f"{owner} takes one of compiled=True and {other}=True, got both.")


def refuse_unless_real(owner: str, group: Group, name: str, *, tensor: bool = False, high: float = math.inf) -> None:
    """Refuse anything except a finite number >= 0 (and < high), or, if allowed, a tensor with one such number."""
    value = group[name]
    if tensor and isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"{owner} needs a tensor {name} with 1 element, got {value.numel()}.")
        if value.device.type == "meta" or torch.compiler.is_compiling():
            return
        value = value.item()
    if not is_real(value):
        raise TypeError(f"{owner} needs a real number {name}, got {name}={value!r}.")
    if isinstance(value, np.generic):
        group[name] = value = value.item()  # plain data, for checkpoints
    if not 0 <= value < high:
        rule = f"a finite {name} >= 0" if math.isinf(high) else f"0 <= {name} < {high:g}"
        raise ValueError(f"{owner} needs {rule}, got {name}={value!r}.")


def state_dtype(owner: str, group: Group) -> torch.dtype | None:
    """The dtype in a group's option, which is replaced by its name: plain data, for checkpoints."""
    name = group["state_dtype"]
    if isinstance(name, torch.dtype):
        name = group["state_dtype"] = str(name).removeprefix("torch.")
    if name not in (None, "float64", "float32", "bfloat16", "float16"):
        raise ValueError(
            f"{owner} needs state_dtype None or torch.float64, float32, bfloat16 or float16, got state_dtype={name!r}."
        )
    return None if name is None else getattr(torch, name)


def decay_of(text: str) -> WeightDecay:
    """The weight decay with this text form, such as `independent=4/t`."""
    # `torch.compile` traces through a cache and warns about it; what is compiled reads the text only once.
    return parse_decay(text, text) if torch.compiler.is_compiling() else _known_decay(text)


@lru_cache(maxsize=256)
def _known_decay(text: str) -> WeightDecay:
    return parse_decay(text, text)


def complete_decay(owner: str, group: Group) -> None:
    """Check a weight decay in text form. An independent one needs the peak learning rate, by default the first `lr`."""
    try:
        decay = decay_of(group["weight_decay"])
    except ValueError as error:
        raise ValueError(f"{owner}, weight_decay={group['weight_decay']!r}: {error}") from None
    group["weight_decay"] = str(decay)
    if decay.kind == "independent":
        lr: Any = group.get("initial_lr", group["lr"])  # schedulers store the first before they change `lr`
        group.setdefault("peak_lr", float(lr.item() if isinstance(lr, Tensor) else lr))
        if not 0 < peak_lr(group) < math.inf:
            raise ValueError(
                f"{owner} with an independent weight decay needs a peak learning rate that is finite and > 0, "
                f"got peak_lr={peak_lr(group)!r}; give peak_lr in the group, or the peak as lr."
            )


def lacks_peak(group: Group) -> bool:
    """Whether an independent weight decay was written into the group after it was checked."""
    text = group.get("weight_decay")
    if type(text) is not str or "peak_lr" in group or "max_lr" in group:
        return False
    return decay_of(text).kind == "independent"


def peak_lr(group: Group) -> float:
    """The peak learning rate, which an independent weight decay is relative to; OneCycleLR stores it as `max_lr`."""
    peak: float = group["max_lr"] if "max_lr" in group else group.get("peak_lr", 1.0)
    return float(peak)


def refuse_to_overshoot(owner: str, group: Group, k: int, lr: Any) -> None:
    """Refuse a weight decay that would subtract more than the weights themselves, and flip their signs."""
    share = float(decay_of(group["weight_decay"]).shrink(k, float(lr), peak_lr(group)))
    if share > 1:
        raise ValueError(
            f"{owner} with weight_decay={group['weight_decay']!r} would subtract {100 * share:.0f} % of the weights "
            f"at step k={k}. Warm up the learning rate, which scales this decay, or choose a smaller one."
        )
