"""The experiments behind L1 to L6, as their plan states them: settings, seeds, steps, and what is not measured."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memgrad.experiments.planning.spec import Spec
from memgrad.paper.language import stages as of
from memgrad.paper.language.beside import others, workload
from memgrad.paper.language.board import board
from memgrad.paper.language.claims import CLAIMS, Finding, _saving, findings, verdicts
from memgrad.paper.language.stages import ADAMW, MIXTURE, AdamWSetting, Grid, MixtureSetting, Stages, Winners
from memgrad.paper.language.study import Study, Unfinished, log_difference, p_below_zero
from memgrad.statistics import Estimate

WINNERS: Winners = {ADAMW: AdamWSetting(4e-3, 0.8, 0.99, 0.1), MIXTURE: MixtureSetting(3e-3, 0.75, "inst", 0.05)}
MIXTURES = {"memory": "inst + (1+k)^0.25*poly:8", "second_memory": "poly:8", "weight_decay": 0.05}


def plan(spec: Spec) -> dict[str, Any]:
    """Steps, seeds and batch of an experiment, and the learning rates of its methods."""
    lrs = {method.name: list(method.step_sizes or ()) for method in spec.methods}
    return {"steps": spec.steps, "seeds": spec.seed_numbers, "batch": spec.batch, "lr": lrs}


def recipes(spec: Spec) -> dict[str, dict[str, Any]]:
    return {method.name: dict(method.recipe.options) for method in spec.methods}


def test_a_method_of_an_ablation_has_one_part_of_the_mixture() -> None:
    spec = Stages("laptop").ablations(WINNERS)
    assert spec.tuning_seeds == [100, 101, 102]
    assert plan(spec) == {
        "steps": 6000,
        "seeds": tuple(range(200, 220)),
        "batch": 16,
        "lr": {
            "memory alone": [1.5e-3, 3e-3, 6e-3],
            "second moment alone": [2e-3, 4e-3, 8e-3],
            "weight decay alone": [2e-3, 4e-3, 8e-3],
        },
    }
    parts = {
        name: (each["memory"], each["second_memory"], each["weight_decay"]) for name, each in recipes(spec).items()
    }
    assert parts == {
        "memory alone": ("inst + (1+k)^0.25*poly:8", "exp:0.99", 0.1),
        "second moment alone": ("exp:0.8", "poly:8", 0.1),
        "weight decay alone": ("exp:0.8", "exp:0.99", 0.05),
    }


@pytest.mark.parametrize(("size", "steps", "factors"), [(64, 1500, (0.5, 1, 2, 4)), (8, 12_000, (0.25, 0.5, 1, 2))])
def test_another_batch_sees_the_same_tokens_and_larger_ones_larger_rates(
    size: int, steps: int, factors: tuple[float, ...]
) -> None:
    spec = Stages("laptop").batch(WINNERS, size)
    assert spec.tuning_seeds == [100, 101, 102]
    assert plan(spec) == {
        "steps": steps,
        "seeds": tuple(range(200, 210)),
        "batch": size,
        "lr": {ADAMW: [pytest.approx(4e-3 * f) for f in factors], MIXTURE: [pytest.approx(3e-3 * f) for f in factors]},
    }


def test_the_larger_model_gives_the_mixture_fewer_steps() -> None:
    spec = Stages("laptop").large(WINNERS)
    assert spec.tuning_seeds == [100]
    assert spec.options == {"layers": 4, "width": 128, "context": 64}
    assert {method.name: method.steps_factor for method in spec.methods} == {ADAMW: 1.0, MIXTURE: 0.8}
    factors = (0.125, 0.25, 0.5, 1.0)
    assert plan(spec) == {
        "steps": 6000,
        "seeds": tuple(range(200, 205)),
        "batch": 16,
        "lr": {ADAMW: [4e-3 * f for f in factors], MIXTURE: [3e-3 * f for f in factors]},
    }


def test_a_workload_has_smaller_rates_for_methods_with_longer_steps() -> None:
    spec = workload(Stages("laptop"), "fashion-mlp")
    assert spec.tuning_seeds == [100, 101]
    assert not spec.sample
    adam = [5e-4, 1e-3, 2e-3, 4e-3]
    assert plan(spec) == {
        "steps": 5000,
        "seeds": tuple(range(200, 205)),
        "batch": None,
        "lr": {
            "SGD": [0.05, 0.1, 0.2, 0.4],
            "HB": [0.00625, 0.0125, 0.025, 0.05],
            "mixture": [0.0125, 0.025, 0.05, 0.1],
            ADAMW: adam,
            "mixture over squares": adam,
        },
    }
    assert spec.method("HB").grid == {"momentum": [0.9, 0.95]}
    assert spec.method(ADAMW).grid == {"betas": [[0.9, 0.999], [0.6, 0.99]]}
    assert [spec.method(name).recipe["weight_decay"] for name in (ADAMW, "mixture over squares")] == [0.0, 0.0]
    tried = [spec.method(name).grid for name in ("mixture", "mixture over squares")]
    assert tried == [{"memory": ["inst + (1+k)^0.25*poly:8", "inst + poly:8"]}] * 2
    rehearsed = workload(Stages("quick"), "fashion-mlp")
    assert (rehearsed.steps, rehearsed.sample, rehearsed.seed_numbers) == (20, True, (200, 201, 202))


def test_other_methods_are_tuned_at_the_short_horizon_beside_the_winners() -> None:
    spec = others(Stages("laptop"), WINNERS)
    assert (spec.steps, spec.tuning_seeds) == (1500, [100, 101, 102])
    assert [method.name for method in spec.methods][:4] == [ADAMW, MIXTURE, "AdEMAMix", "NAdam"]
    assert spec.method("AdEMAMix").recipe["ramp"] == 1500
    assert spec.method("SGD").step_sizes == (0.25, 0.5, 1.0, 2.0)
    few = others(Stages("quick"), WINNERS)
    assert (few.method("SGD").step_sizes, few.method("AdEMAMix").recipe["ramp"]) == ((0.5, 1.0), 40)
    assert few.method("Nesterov").grid == {"momentum": [0.8]}


@pytest.mark.parametrize(
    ("scale", "text", "long", "name", "steps", "options"),
    [
        ("laptop", None, True, "lm-test-long", 6000, {}),
        ("laptop", None, False, "lm-test-short", 1500, {}),
        ("laptop", "shakespeare", True, "lm-test-long-shakespeare", 6000, {"data": "shakespeare"}),
        ("quick", "shakespeare", True, "lm-test-long-shakespeare", 80, {"layers": 1, "width": 32, "context": 16}),
    ],
)
def test_tests_are_on_fresh_seeds_with_everything_frozen(
    scale: str, text: str | None, long: bool, name: str, steps: int, options: dict[str, Any]
) -> None:
    spec = Stages(scale).tests(WINNERS, [0.8, 1.0], long=long, text=text)
    assert (spec.name, spec.steps, spec.sample) == (name, steps, scale == "quick")
    assert spec.options.items() >= options.items()
    assert ("data" in spec.options) == ("data" in options)
    assert {method.name: method.steps_factor for method in spec.methods} == {ADAMW: 1, "mixture 0.8 T": 0.8, MIXTURE: 1}
    recipe = recipes(spec)
    assert recipe[ADAMW].items() >= {"betas": (0.8, 0.99), "weight_decay": 0.1}.items()
    assert recipe[MIXTURE].items() >= MIXTURES.items()
    assert recipe[MIXTURE] == recipe["mixture 0.8 T"]
    assert spec.evaluate.times == {80: 5, 1500: 5, 6000: 21}[steps]


def test_grids_near_the_winners_have_the_next_larger_kappa() -> None:
    grid = of.near(WINNERS)
    assert grid.adamw == {"lr": [1e-3, 2e-3, 4e-3, 8e-3], "beta1": [0.8], "beta2": [0.99, 0.999], "weight_decay": [0.1]}
    assert grid.mixture["lr"] == [0.75e-3, 1.5e-3, 3e-3, 6e-3]
    assert (grid.mixture["fast"], grid.mixture["weight_decay"]) == (["inst"], [0.05])
    for kappa, other in ((0.55, 0.65), (0.65, 0.75), (0.75, 0.85), (0.85, 1.0), (1.0, 0.85)):
        winners = {**WINNERS, MIXTURE: MixtureSetting(3e-3, kappa, "inst", 0.0)}
        assert of.near(winners).mixture["kappa"] == [kappa, other]


@pytest.mark.parametrize(
    ("lr", "kappa", "expected"),
    [
        ((2e-3, 3e-3), 0.75, ([1e-3, 2e-3, 4e-3, 8e-3, 16e-3], [0.75e-3, 1.5e-3, 3e-3, 6e-3, 12e-3])),
        ((4e-3, 1.5e-3), 0.75, ([1e-3, 2e-3, 4e-3, 8e-3, 16e-3], [0.75e-3, 1.5e-3, 3e-3, 6e-3, 12e-3])),
        ((16e-3, 3e-3), 0.75, ([2e-3, 4e-3, 8e-3, 16e-3, 32e-3], [1.5e-3, 3e-3, 6e-3, 12e-3, 24e-3])),
        (
            (2e-3, 12e-3),
            0.75,
            ([1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3], [0.75e-3, 1.5e-3, 3e-3, 6e-3, 12e-3, 24e-3]),
        ),
    ],
)
def test_learning_rates_are_extended_by_two_at_the_end_of_either_method(
    lr: tuple[float, float], kappa: float, expected: tuple[list[float], list[float]]
) -> None:
    winners = {ADAMW: AdamWSetting(lr[0], 0.8, 0.99, 0.0), MIXTURE: MixtureSetting(lr[1], kappa, "inst", 0.0)}
    wider = of.extended(of.first_grid("laptop"), winners)
    assert (wider.adamw["lr"], wider.mixture["lr"]) == expected
    assert (len(wider.adamw["beta1"]), len(wider.mixture["kappa"])) == (4, 4)


def test_momentum_and_kappa_are_extended_together_at_the_nearer_end() -> None:
    grid = of.first_grid("laptop")
    for beta1, kappa, betas in (
        (0.8, 0.65, [0.6, 0.7, 0.8, 0.9, 0.95]),  # 0.8 is nearer to 0.7
        (0.9, 0.65, [0.7, 0.8, 0.9, 0.95, 0.975]),
        (0.7, 0.75, [0.6, 0.7, 0.8, 0.9, 0.95]),
        (0.95, 0.75, [0.7, 0.8, 0.9, 0.95, 0.975]),
    ):
        winners = {ADAMW: AdamWSetting(4e-3, beta1, 0.99, 0.0), MIXTURE: MixtureSetting(3e-3, kappa, "inst", 0.0)}
        wider = of.extended(grid, winners)
        assert wider.adamw["beta1"] == betas
        assert wider.mixture["kappa"] == [0.55, 0.65, 0.75, 0.85, 1.0]
    one = Grid({**grid.adamw, "beta1": [0.9]}, grid.mixture)  # a rehearsal has one value, which is no edge
    assert of.extended(one, {**WINNERS, ADAMW: AdamWSetting(4e-3, 0.9, 0.99, 0.0)}) == one


def test_the_first_of_equally_good_settings_wins() -> None:
    grid = of.first_grid("quick")
    scores = {f"{name} {i}": 1.0 for name, each in grid.settings().items() for i in range(len(each))}
    first = {name: each[0] for name, each in grid.settings().items()}
    assert of.winners_of(grid, scores) == first
    assert of.winners_of(grid, {**scores, f"{ADAMW} 2": 0.5})[ADAMW] == grid.settings()[ADAMW][2]


# --- verdicts --------------------------------------------------------------------------------------------------------


def finding(name: str, p_for: float, p_against: float = 1.0, remark: str = "") -> Finding:
    return Finding(CLAIMS[name], (Estimate(1.0),), p_for, p_against, remark)


def test_one_percent_over_four_claims_confirms_and_refutes() -> None:
    """Holm: the smallest of four p-values counts four times, the next three times; what is missing counts as 1."""
    known = {"L1": finding("L1", 0.0025), "L2": finding("L2", 0.0034), "L3": finding("L3", 1.0, 0.0025, "so it is")}
    made = verdicts(known, scale="laptop", decides=True)
    assert [each.outcome for each in made] == ["confirmed", "undecided", "refuted"]
    assert made[0].reason == "corrected p-values: 0.01 for it, 1 against it"
    assert made[2].reason == "corrected p-values: 1 for it, 0.01 against it; so it is"
    assert verdicts({"L1": finding("L1", 0.0026)}, scale="laptop", decides=True)[0].outcome == "undecided"


def test_what_has_no_rule_is_reported_and_a_rehearsal_of_it_too() -> None:
    known = {"L5": Finding(CLAIMS["L5"], (Estimate(1.0),)), "L6": Finding(CLAIMS["L6"], remark="no runs")}
    made = verdicts(known, scale="laptop", decides=True)
    assert [(each.outcome, each.reason) for each in made] == [
        ("reported", "no rule was fixed; the numbers are reported"),
        ("undecided", "it is not measured yet: no runs"),
    ]
    quick = verdicts(known, scale="quick", decides=False)
    assert [each.outcome for each in quick] == ["undecided", "undecided"]
    assert [each.reason.startswith("a rehearsal decides nothing; ") for each in quick] == [True, False]


def test_a_saving_is_the_smallest_share_that_holds_and_the_first_decides() -> None:
    below, above = -np.array([0.1, 0.11, 0.12, 0.1]), np.array([0.1, -0.1, 0.2, -0.2])
    found = _saving("L1", {0.8: below, 0.75: 2 * below, 0.7: above})
    assert found.shares == {0.8: p_below_zero(below), 0.75: p_below_zero(2 * below), 0.7: p_below_zero(above)}
    (verdict,) = verdicts({"L1": found}, scale="laptop", decides=True)
    assert verdict.reason.endswith("; the last share of the steps that holds at 1% is 0.75")
    assert [each.name for each in found.numbers] == [f"loss mixture {share} T / AdamW" for share in (0.8, 0.75, 0.7)]
    assert found.numbers[0].value == pytest.approx(math.exp(-0.1075))
    assert (found.p_for, found.p_against) == (p_below_zero(below), p_below_zero(-below))
    (verdict,) = verdicts({"L4": _saving("L4", {0.8: above})}, scale="laptop", decides=True)
    assert verdict.reason.endswith("; no share holds")


def test_a_run_that_diverged_has_lost_also_beside_one_that_did() -> None:
    finals = {"a": np.array([1.0, np.inf, np.inf, 2.0]), "b": np.array([2.0, 1.0, np.inf, np.inf])}
    results: Any = SimpleNamespace(final=lambda method, metric: finals[method])
    found = log_difference(results, "a", "b")
    assert found.tolist() == [-math.log(2), math.inf, math.inf, -math.inf]
    assert p_below_zero(np.array([1.0])) == 1.0  # one seed tells nothing


def unfinished(spec: Spec) -> Any:
    raise Unfinished(f"{spec.name} is missing")


def test_a_claim_without_results_says_what_is_missing_and_others_are_left_out(tmp_path: Path) -> None:
    found = findings(Study(Stages("quick"), unfinished), ["L2", "L6"])
    assert {name: (each.numbers, each.remark) for name, each in found.items()} == {
        "L2": ((), "lm-tune-short is missing"),
        "L6": ((), "lm-tune-short is missing"),
    }
    compared = board(Study(Stages("quick"), unfinished), ["others", "workloads"])["compared"]
    assert compared == dict.fromkeys(["others", "covtype-softmax", "fashion-mlp", "mnist-autoencoder", "cifar10-cnn"])


# --- what a study asks for -------------------------------------------------------------------------------------------


def test_a_study_asks_for_each_experiment_with_what_was_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Spec] = []
    study = Study(Stages("laptop"), lambda spec: asked.append(spec) or spec)  # type: ignore[arg-type, return-value]
    vars(study).update(short=(of.first_grid("laptop"), WINNERS), long=WINNERS)  # as if it was tuned
    study.at_long((0.8,), "shakespeare"), study.at_long((0.8, 0.75))
    for name in ("at_short", "ablations", "large"):
        assert getattr(study, name) is asked[-1]
    study.find(others(study.stages, study.short[1]))
    study.with_batch(64), study.find(workload(study.stages, "fashion-mlp"))
    assert [(spec.name, spec.steps) for spec in asked] == [
        ("lm-test-long-shakespeare", 6000),
        ("lm-test-long", 6000),
        ("lm-test-short", 1500),
        ("lm-ablations", 6000),
        ("lm-large", 6000),
        ("lm-others", 1500),
        ("lm-batch-64", 1500),
        ("lm-workload-fashion-mlp", 5000),
    ]
    assert [method.name for method in asked[1].methods] == [ADAMW, "mixture 0.8 T", "mixture 0.75 T"]
    assert [method.name for method in asked[2].methods] == [ADAMW, MIXTURE]


def test_shares_are_tested_in_order_until_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    below, level = np.array([-0.1, -0.11, -0.12, -0.1]), np.array([0.1, -0.1, 0.2, -0.2])
    asked: list[tuple[tuple[float, ...], str | None]] = []

    class Known:
        def at_long(self, shares: tuple[float, ...], text: str | None) -> Any:
            asked.append((shares, text))
            logs = {ADAMW: np.zeros(4), of.share_name(shares[-1]): below if len(shares) < 3 else level}
            return SimpleNamespace(final=lambda method, metric: np.exp(logs[method]))

    found = Study.savings(Known(), 0.01, "shakespeare")  # type: ignore[arg-type]
    assert list(found) == [0.8, 0.75, 0.7]
    assert asked == [((0.8,), "shakespeare"), ((0.8, 0.75), "shakespeare"), ((0.8, 0.75, 0.7), "shakespeare")]
    assert found[0.75] == pytest.approx(below)


LONG, SHORT = np.array([-0.30, -0.31, -0.33]), np.array([-0.10, -0.12, -0.10])
ALONE = {"memory alone": np.array([-0.25, -0.24, -0.26]), "second moment alone": np.zeros(3)}


def finals(**logs: Any) -> Any:
    return SimpleNamespace(final=lambda method, metric: np.exp(logs[method]), methods=tuple(logs))


def known_study() -> Any:
    return SimpleNamespace(
        at_short=finals(AdamW=np.ones(3), mixture=1 + SHORT),
        at_long=lambda shares: finals(AdamW=np.ones(3), mixture=1 + LONG) if shares == (1.0,) else None,
        ablations=finals(**{name: 1 + each for name, each in ALONE.items()}),
        large=finals(AdamW=np.ones(3), mixture=1 + SHORT),
        with_batch=lambda size: finals(AdamW=np.ones(3), mixture=np.ones(3) + size / 64),
        stages=SimpleNamespace(own={"batches": [64, 128]}),
    )


@pytest.mark.parametrize(
    ("name", "tested", "values"),
    [
        ("L2", LONG - SHORT, {"log loss mixture - AdamW, long minus short horizon": (LONG - SHORT).mean()}),
        ("L2", LONG - SHORT, {"loss mixture / AdamW, long": np.exp(LONG.mean())}),
        ("L2", LONG - SHORT, {"loss mixture / AdamW, short": np.exp(SHORT.mean())}),
        (
            "L3",
            ALONE["memory alone"] - 2 * LONG / 3,
            {
                "log loss of the memory alone, minus 2/3 of the whole gain": -0.25 + 2 * 0.94 / 9,
                "loss mixture / AdamW": np.exp(LONG.mean()),
                "loss memory alone / AdamW": np.exp(-0.25),
                "loss second moment alone / AdamW": 1.0,
            },
        ),
        (
            "L5",
            None,
            {
                "loss mixture / AdamW, batch 16": np.exp(LONG.mean()),
                "loss mixture / AdamW, batch 64": np.exp(1),
                "loss mixture / AdamW, batch 128": np.exp(2),
            },
        ),
        ("L6", None, {"loss mixture 0.8 T / AdamW, larger model": np.exp(SHORT.mean())}),
    ],
)
def test_claims_are_measured_as_their_rules_say(name: str, tested: Any, values: dict[str, float]) -> None:
    found = findings(known_study(), [name])[name]
    numbers = {each.name: each.value for each in found.numbers}
    assert {each: numbers[each] for each in values} == pytest.approx(values)
    assert found.claim.id == name
    if tested is None:
        assert (found.p_for, found.p_against) == (None, None)
    else:
        t = tested.mean() / tested.std(ddof=1) * np.sqrt(3)
        p = 0.5 + t / (2 * np.sqrt(2 + t**2))  # Student's distribution with 2 degrees of freedom
        assert (found.p_for, found.p_against) == pytest.approx((p, 1 - p))
