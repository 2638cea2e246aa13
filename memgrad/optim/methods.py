"""The method of each optimizer class, memgrad's and torch's, as a function of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from memgrad import method as methods
from memgrad.memory import SUM, Gain, Mixture, Polynomial
from memgrad.method import Method, WeightDecay
from memgrad.method.text import parse_decay

Options = Mapping[str, Any]


def method_of(optimizer: str, options: Options) -> Method | None:
    """The method of an optimizer of `memgrad.optim` or `torch.optim` with these options, or None if there is none.

    Args:
        optimizer: The name of its class.
        options: All options of its constructor, including defaults, except the learning rate.

    Example:
        >>> print(method_of("HeavyBall", {"momentum": 0.5, "viscosity": None, "weight_decay": 0.0,
        ...                               "decoupled_weight_decay": False}))
        sum*exp:0.5
        >>> method_of("Rprop", {}) is None
        True
    """
    write = METHOD_OF.get(optimizer)
    return None if write is None else write(options)


def _with_decay(method: Method, options: Options, *, decoupled: bool) -> Method:
    given = options["weight_decay"]
    decay = (
        parse_decay(given, given) if isinstance(given, str) else WeightDecay(given, "decoupled" if decoupled else "l2")
    )
    return replace(method, weight_decay=decay)


def _made_by(make: Callable[..., Method], *names: str) -> Callable[[Options], Method]:
    """The function that gives these options to one of `memgrad.method`; None stands for its default there."""

    def of(options: Options) -> Method:
        method = make(**{name: options[name] for name in names if options[name] is not None})
        if "weight_decay" not in options:
            return method
        return _with_decay(method, options, decoupled=options.get("decoupled_weight_decay", True))

    return of


def _sgd(options: Options) -> Method | None:
    if options["momentum"] and options["dampening"]:
        return None  # torch does not dampen the first gradient, which no memory can express
    if options["momentum"] >= 1:
        return None  # torch allows it, but no average has such weights
    make = methods.nesterov if options["nesterov"] else methods.heavy_ball
    return _with_decay(make(options["momentum"]), options, decoupled=False)


def _memadam(options: Options) -> Method | None:
    second = Mixture.of(options["second_memory"]).parts[0]
    root = second.gain.fixed
    if root is None:
        if second.gain != SUM or not isinstance(second.memory, Polynomial) or second.memory.p != 1:
            return None  # the root of a gain is not always a gain
        method = Method(options["memory"], second.memory, root=Gain.power(0.5), eps=options["eps"])
    else:
        method = Method(options["memory"], second.memory, root=root**0.5, eps=options["eps"])
    return _with_decay(method, options, decoupled=options["decoupled_weight_decay"])


def _adam(options: Options) -> Method | None:
    if options["amsgrad"]:
        return None  # a maximum is not a memory
    decoupled = bool(options.get("decoupled_weight_decay"))
    return _with_decay(methods.adam(options["betas"], eps=options["eps"]), options, decoupled=decoupled)


def _nadam(options: Options) -> Method:
    method = methods.nadam(options["betas"], eps=options["eps"], psi=options["momentum_decay"])
    return _with_decay(method, options, decoupled=options["decoupled_weight_decay"])


def _adagrad(options: Options) -> Method | None:
    if options["lr_decay"] or options["initial_accumulator_value"]:
        return None  # another learning rate, and a sum that starts above 0
    return methods.adagrad(eps=options["eps"], weight_decay=options["weight_decay"])


METHOD_OF: Mapping[str, Callable[[Options], Method | None]] = MappingProxyType(
    {
        "MemSGD": _made_by(methods.memsgd, "memory"),
        "HeavyBall": _made_by(methods.heavy_ball, "momentum", "viscosity"),
        "Nesterov": _made_by(methods.nesterov, "momentum", "viscosity"),
        "MemAdam": _memadam,
        "PolyAdam": _made_by(methods.polyadam, "p", "beta", "eps"),
        "ADana": _made_by(methods.adana, "delta", "kappa", "omega", "eps", "through_lr"),
        "QHM": _made_by(methods.qhm, "nu", "beta"),
        "AggMo": _made_by(methods.aggmo, "betas"),
        "AdEMAMix": _made_by(methods.ademamix, "betas", "alpha", "ramp", "eps"),
        "SGD": _sgd,
        "Adam": _adam,
        "AdamW": lambda options: _adam({**options, "decoupled_weight_decay": True}),
        "NAdam": _nadam,
        "Adagrad": _adagrad,
    }
)
"""The method of each optimizer class, as a function of its options; `None` if they do not give a method."""
