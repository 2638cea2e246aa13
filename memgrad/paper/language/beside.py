"""What no claim is about: other methods on the language model, and the mixture on the paper's workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memgrad.experiments.comparison import Comparison
from memgrad.experiments.planning.methods import Method
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.paper.language.stages import ADAMW, METRIC, MIXTURE, Stages, Winners, multiples, plan
from memgrad.paper.language.study import Study
from memgrad.statistics import holm

OTHERS, OF_PAPER = "others", "workloads"
"""Their names beside those of claims."""

WORKLOADS = ("covtype-softmax", "fashion-mlp", "mnist-autoencoder", "cifar10-cnn")
"""The paper's workloads."""

SGD, HB, OVER_SQUARES = "SGD", "HB", "mixture over squares"
EXTENSIONS = 4
"""How often learning rates are extended at most, where the best of a method is the smallest or the largest."""

PAIRS = ((MIXTURE, SGD), (MIXTURE, HB), (OVER_SQUARES, ADAMW))
"""What is compared with what on a workload."""


def others(stages: Stages, winners: Winners) -> Spec:
    """Other methods at the short horizon, each tuned on the tuning seeds, beside AdamW and the mixture as tuned."""
    methods = [each.method(name) for name, each in winners.items()]
    for each in plan()["others"]:
        method = dict(each)
        if method.get("ramp") == "all":
            method["ramp"] = stages.own["short"]
        if stages.own.get("few"):
            method["lr"] = method["lr"][1:3]
            method["grid"] = {name: values[:1] for name, values in method.get("grid", {}).items()}
        methods.append(method)
    return stages.spec("lm-others", methods, long=False, tuning_seeds=list(stages.own["tuning_seeds"]))


def workload(stages: Stages, problem: str) -> Spec:
    """The mixture in MemSGD beside SGD and heavy ball, and in MemAdam beside AdamW, on a workload of the paper."""
    table = plan()["workloads"]
    own, few = table["problems"][problem], bool(stages.own.get("few"))
    values = 1 if few else 2  # of the option that a method is tuned in beside its learning rate
    memories = [f"inst + {gain}poly:8" for gain in ("(1+k)^0.25*", "")][:values]
    lrs, adam = (own[name][1:3] if few else own[name] for name in ("lr", "adam"))
    slow = [float(f"{lr / 4:.6g}") for lr in lrs]  # a gain of about 4 more makes steps as much longer
    methods: list[dict[str, Any]] = [
        {"name": SGD, "optimizer": "SGD", "lr": lrs},
        {
            "name": HB,
            "optimizer": "HeavyBall",
            "lr": [lr / 8 for lr in lrs],
            "grid": {"momentum": [0.9, 0.95][:values]},
        },
        {"name": MIXTURE, "optimizer": "MemSGD", "lr": slow, "grid": {"memory": memories}},
        {
            "name": ADAMW,
            "optimizer": "AdamW",
            "weight_decay": 0.0,  # as in the mixture: weight decay raises the training loss, which is compared
            "lr": adam,
            "grid": {"betas": [[0.9, 0.999], [0.6, 0.99]][:values]},
        },
        {
            "name": OVER_SQUARES,
            "optimizer": "MemAdam",
            "second_memory": "poly:8",
            "lr": adam,
            "grid": {"memory": memories},
        },
    ]
    data = {
        **table["common"],
        "name": f"lm-workload-{problem}",
        "problem": problem,
        "steps": own["steps"] if stages.own["decides"] else 20,
        "seeds": list(stages.own["seeds"][: table["seeds"]]),
        "tuning_seeds": list(stages.own["tuning_seeds"][: table["tuning_seeds"]]),
        "methods": methods,
        **({"sample": True} if stages.own.get("sample") else {}),
    }
    return Spec.of(data, where=f"{problem} at the scale {stages.scale}")


def widened(study: Study, spec: Spec) -> Spec:
    """An experiment whose learning rates go on, by a factor of 2, where the best of a method is at an end of its own.

    The best is that on the tuning seeds. Without this, a method could win because the grid of another is too short.
    Rehearsals are not extended.
    """
    for _ in range(EXTENSIONS if study.stages.own["decides"] else 0):
        tuning = spec.model_copy(update={"seeds": spec.tuning_seeds, "tuning_seeds": None})
        results = study.find(tuning)
        methods = [_wider(each, results.scores(each.name)) for each in spec.methods]
        if methods == spec.methods:
            break
        spec = spec.model_copy(update={"methods": methods})
    return spec


def _wider(method: Method, scores: Mapping[tuple[str, float], float]) -> Method:
    """A method with one learning rate more, if the best one is the smallest or the largest of several."""
    tried = sorted(method.step_sizes or ())
    best = min(scores, key=lambda setting: scores[setting])[1]
    if len(tried) < 2 or best not in (tried[0], tried[-1]):
        return method
    beyond = multiples(best, [2 if best == tried[-1] else 0.5])
    return method.model_copy(update={"lr": sorted([*tried, *beyond])})


def compared_others(study: Study) -> tuple[Comparison, ...]:
    """Other methods compared with AdamW, which comes first."""
    return study.find(widened(study, others(study.stages, study.short[1]))).compare(METRIC, ADAMW)


def compared_workload(study: Study, problem: str) -> tuple[Comparison, ...]:
    """The pairs on a workload, each with its reference."""
    return compared_pairs(study.find(widened(study, workload(study.stages, problem))), "loss", PAIRS)


def compared_pairs(results: Results, metric: str, pairs: Sequence[tuple[str, str]]) -> tuple[Comparison, ...]:
    """Methods compared each with a reference of its own, which stands before it.

    `method` is named `method / reference`. Holm's correction is for the number of pairs.
    """
    rows = []
    for method, reference in pairs:
        by_name = {each.method: each for each in results.compare(metric, reference)}
        rows += [by_name[reference], replace(by_name[method], method=f"{method} / {reference}")]
    adjusted = iter(holm([row.p_value for row in rows[1::2]]).tolist())
    return tuple(replace(row, adjusted_p_value=next(adjusted)) if row.difference is not None else row for row in rows)
