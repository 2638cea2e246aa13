"""The methods that race by default, and those that a text or an experiment names."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memgrad.experiments.planning.methods import Method, fitting
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.candidates import Candidate, checked


def portfolio(*, nu: float | None = None) -> tuple[Candidate, ...]:
    r"""The default portfolio: SGD with momentum and AdamW, then memories and mixtures in MemSGD and MemAdam.

    A memory of gain 1 averages, so its learning rate is guessed as ten times that of momentum 0.9, which sums. The
    second AdamW has the betas that won on our language model: beside torch's own alone, a memory would win too easily.

    Args:
        nu: How fast the problem's spectrum falls, $\lambda_j = j^{-\nu}$ with $\nu > 1$, if known: a mixture in MemSGD
            and one in MemAdam then have the gain $(1+k)^{1-1/\nu}$ that is best on such quadratics.

    Example:
        >>> for candidate in portfolio():
        ...     print(candidate.name)
        SGD momentum 0.9
        AdamW
        AdamW betas 0.6 0.99
        MemSGD poly:8
        MemSGD poly:32
        MemSGD inst + (1+k)^0.25*poly:8
        MemAdam poly:8
        MemAdam inst + (1+k)^0.15*poly:8
        MemAdam inst + (1+k)^0.25*poly:8
    """
    if nu is not None and not 1 < nu < math.inf:
        raise ValueError(f"the portfolio needs a finite nu > 1, as `j^-nu` for the j-th curvature, got nu={nu!r}.")
    growth = 0.25 if nu is None else round(1 - 1 / nu, 3)
    mixed = f"inst + (1+k)^{growth:g}*poly:8"
    sgd, adamw = "SGD momentum 0.9", "AdamW"
    as_in_torch = {"optimizer": "AdamW", "weight_decay": 0.01}
    plain = [("poly:8", 10.0), ("poly:32", 10.0), (mixed, 3.0)]
    scaled = [("poly:8", 1.0), ("inst + (1+k)^0.15*poly:8", 0.5), (mixed, 0.3)]
    return (
        Candidate(sgd, 0.03, baseline=True, options={"optimizer": "SGD", "momentum": 0.9}),
        Candidate(adamw, 3e-3, baseline=True, options=as_in_torch),
        Candidate("AdamW betas 0.6 0.99", like=adamw, baseline=True, options={**as_in_torch, "betas": [0.6, 0.99]}),
        *(
            Candidate(f"MemSGD {memory}", like=sgd, factor=factor, options={"optimizer": "MemSGD", "memory": memory})
            for memory, factor in plain
        ),
        *(
            Candidate(
                f"MemAdam {memory}",
                like=adamw,
                factor=factor,
                options={"optimizer": "MemAdam", "memory": memory, "second_memory": "poly:8", "weight_decay": 0.01},
            )
            for memory, factor in dict(scaled).items()  # both mixtures are one if nu gives the gain 0.15
        ),
    )


GUESSES = {"SGD": 0.03, "HeavyBall": 0.03, "Nesterov": 0.03, "MemSGD": 0.3, "QHM": 0.3, "AggMo": 0.03}
"""First guesses of learning rates by optimizer; 0.003 for the others, which divide by a root of squares."""

BASELINES = {"SGD", "Adam", "AdamW"}
"""What people use today."""


def parse_candidate(text: str) -> Candidate:
    """The candidate that a text describes, written as a call without parameters: options are numbers, texts and lists.

    Example:
        >>> parse_candidate("MemSGD(memory='poly:8')").options
        {'optimizer': 'MemSGD', 'memory': 'poly:8'}
        >>> parse_candidate("AdamW(weight_decay=0.1)").name, parse_candidate("AdamW").lr
        ('AdamW weight_decay 0.1', 0.003)
    """
    refusal = f"a method is OPTIMIZER or OPTIMIZER(option=value, ...), such as MemSGD(memory='poly:8'), got {text!r}"
    name, parenthesis, rest = text.partition("(")
    name = name.strip()
    options: dict[str, Any] = {}
    if parenthesis:
        try:
            call = ast.parse(f"f({rest}", mode="eval").body
            if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
                raise ValueError("options have names")
            for keyword in call.keywords:
                if keyword.arg is None:
                    raise ValueError("options have names")
                try:
                    options[keyword.arg] = ast.literal_eval(keyword.value)
                except ValueError:
                    raise ValueError(f"{keyword.arg} is no number, text in quotes or list of these") from None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"{refusal}: {error.args[0] if error.args else 'it cannot be read'}.") from None
    if not name:
        raise ValueError(f"{refusal}.")
    for option in ("grid", "seeds", "steps_factor"):
        if option in options:
            raise ValueError(f"{refusal}: {option} is of an experiment's file, which --like takes.")
    lr, given = options.pop("lr", GUESSES.get(name, 3e-3)), options.pop("name", None)
    place, colon, attribute = name.rpartition(":")
    short = f"{Path(place).name}{colon}{attribute}"
    described = ", ".join(str(value) if key == "memory" else f"{key} {value}" for key, value in options.items())
    called = f"{short} {described}".strip() if given is None else str(given)
    return Candidate(fitting(called), lr, baseline=name in BASELINES, options={"optimizer": name, **options})


def candidates_of(spec: Spec) -> tuple[Candidate, ...]:
    """The methods of an experiment as candidates: their learning rates are where the search starts.

    Of several learning rates it starts at the middle one; `best of NAME` starts at what was found for that method. A
    grid over other options makes one candidate for each combination.
    """
    first = {method.name: method.variants[0].name for method in spec.methods}  # a search starts like one variant
    return checked([_of_method(method, first) for method in racing_methods(spec)])


def racing_methods(spec: Spec) -> tuple[Method, ...]:
    """The methods of an experiment, one for each combination of a grid over their options."""
    for method in spec.methods:
        if method.copies is not None or method.steps_factor != 1:
            raise ValueError(
                f"method {method.name!r} cannot race: each method needs options and a learning rate of its own, and "
                f"all have the same steps, got optimizer={method.optimizer!r} and steps_factor={method.steps_factor:g}."
            )
    return tuple(variant for method in spec.methods for variant in method.variants)


def _of_method(method: Method, first: Mapping[str, str]) -> Candidate:
    options = {"optimizer": method.optimizer, **(method.model_extra or {})}
    baseline = method.optimizer in BASELINES
    if method.step_sizes is None:
        return Candidate(method.name, like=first.get(method.follows or "", ""), baseline=baseline, options=options)
    middle = sorted(method.step_sizes)[len(method.step_sizes) // 2]
    return Candidate(method.name, middle, baseline=baseline, options=options)
