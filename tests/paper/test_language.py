"""L1 to L6: the plan as it was written down, and verdicts in worlds whose truth is known. Nothing is trained."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from memgrad.experiments import Results, Run, Spec
from memgrad.experiments.digests import digest_of_runs
from memgrad.experiments.driver import Outcome, selected_step_sizes
from memgrad.experiments.planning.plan import expand, runs_in
from memgrad.experiments.planning.problem_choice import Facts
from memgrad.experiments.storing.chunk import chunk_of
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines.engine import Engine
from memgrad.figures.language import language
from memgrad.paper.language import running
from memgrad.paper.language import stages as of
from memgrad.paper.language.beside import PAIRS, WORKLOADS, compared_pairs, others, widened, workload
from memgrad.paper.language.board import board, headline, number_tables, verdict_table
from memgrad.paper.language.claims import CLAIMS, Finding, LanguageVerdict, verdicts
from memgrad.paper.language.costs import experiments
from memgrad.paper.language.pictures import panels, write_figures
from memgrad.paper.language.running import chosen, judge, stored
from memgrad.paper.language.savings import steps_saved
from memgrad.paper.language.stages import ADAMW, MIXTURE, AdamWSetting, Grid, MixtureSetting, Stages
from memgrad.paper.language.study import Study, Unfinished, log_difference
from memgrad.statistics import Estimate, holm

FACTS = Facts("char-transformer", "f" * 32, 100_000, 16, 4, ("loss", "validation_loss"), 1000)
Loss = Callable[[Run], float]


def world(tmp_path: Path, loss: Loss, *, metric: str = "validation_loss") -> Callable[[Spec], Results]:
    """Results of experiments in which a run ends with a given loss; infinite if it diverges."""
    store = Store.open(tmp_path / "world")

    def find(spec: Spec) -> Results:
        selected: dict[str, float] = {}
        while True:
            table = expand(spec, FACTS, selected)
            there = set(store.digests())
            by_length: dict[int, list[Run]] = {}
            for run in runs_in(table):
                if run.digest not in there:
                    by_length.setdefault(run.steps, []).append(run)
            with store.writing():
                for runs in by_length.values():
                    last = np.array([loss(run) for run in runs])
                    told = {run.digest: 5 for run, each in zip(runs, last, strict=True) if math.isinf(each)}
                    at = runs[0].evaluate_at
                    values = np.tile(np.where(np.isinf(last), np.nan, last), (len(at), 1))
                    store.write(chunk_of(runs, at, {metric: values}, told, {}))
            found = selected_step_sizes(spec, FACTS, store)
            if found == selected:
                return Results.read(spec, store, table)
            selected = found

    return find


def is_mixture(run: Run) -> bool:
    return run.recipe.optimizer == "MemAdam" and "poly:8" in run.recipe["memory"]


def noise(run: Run) -> float:
    """A part of a run's log loss that its seed determines, and a smaller one that is its own."""
    common = np.random.default_rng(run.seed).normal(0, 0.05)
    return float(common + np.random.default_rng(int(run.digest[:8], 16)).normal(0, 0.001))


def curved(run: Run, centers: tuple[float, float]) -> float:
    """What a learning rate costs: the optimum is inside of the grids."""
    return 0.05 * math.log2(run.lr / centers[is_mixture(run)]) ** 2


def gain(run: Run, size: float) -> float:
    return -size if is_mixture(run) else 0.0


def losses(size: float, *, per_step: float = 0.02) -> Loss:
    """The mixture is better by `size` in log loss at the long horizon; more steps are better for both."""

    def loss(run: Run) -> float:
        kappa_cost = 0.0
        if is_mixture(run) and "^0.25*" not in run.recipe["memory"]:
            kappa_cost = 0.01
        beta_cost = 0.01 if run.recipe.optimizer == "AdamW" and run.recipe["betas"][0] != 0.8 else 0.0
        grows = size * (1.0 if run.steps > 3000 else 0.5)
        log = 0.5 + noise(run) + curved(run, (6e-3, 4e-3)) + gain(run, grows) + kappa_cost + beta_cost
        return math.exp(log - per_step * math.log(run.steps / 6000))

    return loss


def outcomes(made: tuple[LanguageVerdict, ...]) -> dict[str, str]:
    return {each.finding.claim.id: each.outcome for each in made}


def test_the_plan_is_that_of_the_claims() -> None:
    stages = Stages("laptop")
    spec = stages.tuning("lm-tune-short", of.first_grid("laptop"), long=False)
    runs = runs_in(expand(spec, FACTS, {}))
    assert len(runs) == 2 * 64 * 3
    assert {run.seed for run in runs} == {100, 101, 102}
    assert {run.steps for run in runs} == {1500}
    assert {(run.schedule, run.clip, run.batch_size) for run in runs} == {("linear(warmup=0.05)", 1.0, 16)}
    kinds = {name: [run for run in runs if run.recipe.optimizer == name] for name in ("AdamW", "MemAdam")}
    assert {run.lr for run in kinds["AdamW"]} == {2e-3, 4e-3, 8e-3, 16e-3}
    assert {run.recipe["betas"] for run in kinds["AdamW"]} == {
        (one, two) for one in (0.7, 0.8, 0.9, 0.95) for two in (0.99, 0.999)
    }
    assert {run.recipe["weight_decay"] for run in kinds["AdamW"]} == {0.0, 0.1}
    assert {run.lr for run in kinds["MemAdam"]} == {1.5e-3, 3e-3, 6e-3, 12e-3}
    powers = ("(1+k)^0.35*", "(1+k)^0.25*", "(1+k)^0.15*", "")
    assert {run.recipe["memory"] for run in kinds["MemAdam"]} == {
        f"{fast} + {power}poly:8" for fast in ("inst", "exp:0.8") for power in powers
    }
    assert {run.recipe["second_memory"] for run in kinds["MemAdam"]} == {"poly:8"}
    assert {run.recipe["weight_decay"] for run in kinds["MemAdam"]} == {0.0, "independent=1/t"}
    winners = {ADAMW: AdamWSetting(4e-3, 0.8, 0.99, 0.0), MIXTURE: MixtureSetting(3e-3, 0.75, "inst", 0.0)}
    again = of.near(winners)
    assert {name: len(each) for name, each in again.settings().items()} == {ADAMW: 8, MIXTURE: 8}
    tests = runs_in(expand(stages.tests(winners, [0.8]), FACTS, {}))
    assert {run.seed for run in tests} == set(range(200, 220))
    assert {run.steps for run in tests} == {6000, 4800}
    second = stages.tests(winners, [0.8], text="shakespeare")
    assert second.options["data"] == "shakespeare"
    everything = [*stages.own["seeds"], *stages.own["tuning_seeds"]]
    assert not set(everything) & set(range(19))  # the pilot's


PINNED = (
    ("lm-tune-short", 384, "9007f9f28ed3cb3deccab5191e4a9012"),
    ("lm-tune-long", 48, "9423e4d77917ad622cf7d2e6f1523790"),
    ("lm-test-short", 40, "68b748ecad6958258b583729852a41a3"),
    ("lm-test-long", 100, "60965b037e6f11e8537507de7e26d37e"),
    ("lm-ablations", 87, "5e00c2f2517cb1814e03f9e100a62072"),
    ("lm-batch-64", 44, "d6601b5a69f2e1bf1f5474ed698a5367"),
    ("lm-batch-256", 44, "856befc34cbaec89208c9f3a9e40a0b1"),
    ("lm-large", 18, "a3b09e0b4478a6fad6bdbb55ca10ad40"),
)
"""Name, number of runs and digest of their digests for given winners, written down when the first run was started."""


@pytest.mark.parametrize(("name", "count", "digest"), PINNED, ids=[name for name, *_ in PINNED])
def test_the_runs_of_a_stage_are_those_that_were_started(name: str, count: int, digest: str) -> None:
    stages = Stages("laptop")
    winners = {
        ADAMW: AdamWSetting(4e-3, 0.8, 0.99, 0.1),
        MIXTURE: MixtureSetting(3e-3, 0.75, "exp:0.8", "independent=1/t"),
    }
    specs = (
        stages.tuning("lm-tune-short", of.first_grid("laptop"), long=False),
        stages.tuning("lm-tune-long", of.near(winners), long=True),
        stages.tests(winners, [1.0], long=False),
        stages.tests(winners, of.SAVINGS),
        stages.ablations(winners),
        *(stages.batch(winners, size) for size in (64, 256)),
        stages.large(winners),
    )
    (spec,) = (each for each in specs if each.name == name)
    selected = {each.name: (each.step_sizes or ())[0] for each in spec.methods if each.is_tuned}
    runs = runs_in(expand(spec, FACTS, selected))
    assert (len(runs), digest_of_runs(sorted(run.digest for run in runs))) == (count, digest)


def test_an_optimum_at_the_edge_extends_the_grids_of_both() -> None:
    grid = of.first_grid("laptop")
    inside = {ADAMW: AdamWSetting(4e-3, 0.8, 0.99, 0.0), MIXTURE: MixtureSetting(3e-3, 0.75, "inst", 0.0)}
    assert of.extended(grid, inside) == grid
    faster = of.extended(grid, {**inside, MIXTURE: MixtureSetting(12e-3, 0.75, "inst", 0.0)})
    assert (faster.adamw["lr"][-1], faster.mixture["lr"][-1]) == (32e-3, 24e-3)
    assert (len(faster.adamw["lr"]), len(faster.mixture["lr"])) == (5, 5)
    slower = of.extended(grid, {**inside, ADAMW: AdamWSetting(2e-3, 0.7, 0.99, 0.0)})
    assert (slower.adamw["lr"][0], slower.mixture["lr"][0]) == (1e-3, 0.75e-3)
    assert (min(slower.adamw["beta1"]), min(slower.mixture["kappa"])) == (0.6, 0.55)
    heavier = of.extended(grid, {**inside, ADAMW: AdamWSetting(4e-3, 0.95, 0.99, 0.0)})
    assert max(heavier.adamw["beta1"]) == 0.975
    # kappa = 1 is a constant gain, a bound of the method and not of the grid.
    assert of.extended(grid, {**inside, MIXTURE: MixtureSetting(3e-3, 1.0, "inst", 0.0)}) == grid


def test_a_better_mixture_confirms_the_claims_and_says_how_much_is_saved(tmp_path: Path) -> None:
    made = judge((), scale="laptop", find=world(tmp_path, losses(0.012, per_step=0.03)))
    assert outcomes(made) == {
        **dict.fromkeys(("L1", "L2", "L3", "L4"), "confirmed"),
        **dict.fromkeys(("L5", "L6"), "reported"),
    }
    first = made[0]
    # In log loss the gain is .012, and .75, .7 and .65 of the steps cost .0086, .0107 and .0129: the last is too few.
    assert "the last share of the steps that holds at 1% is 0.7" in first.reason
    assert first.finding.numbers[0].value == pytest.approx(math.exp(-0.012 - 0.03 * math.log(0.8)), abs=1e-3)


def test_equal_methods_leave_the_claims_undecided_and_a_worse_one_refutes_them(tmp_path: Path) -> None:
    equal = judge(["L1", "L2", "L4"], scale="laptop", find=world(tmp_path / "equal", losses(0.0, per_step=0.0)))
    assert set(outcomes(equal).values()) == {"undecided"}
    worse = judge(["L1", "L2"], scale="laptop", find=world(tmp_path / "worse", losses(-0.05)))
    assert outcomes(worse) == {"L1": "refuted", "L2": "refuted"}
    assert "no share holds" in worse[0].reason


def test_a_run_that_diverges_has_lost_and_no_seed_is_dropped(tmp_path: Path) -> None:
    good = losses(0.05)

    def loss(run: Run) -> float:
        return math.inf if run.seed == 207 and is_mixture(run) else good(run)

    find = world(tmp_path, loss)
    winners = {ADAMW: AdamWSetting(4e-3, 0.8, 0.99, 0.0), MIXTURE: MixtureSetting(3e-3, 0.75, "inst", 0.0)}
    differences = log_difference(find(Stages("laptop").tests(winners, [1.0])), MIXTURE, ADAMW)
    assert len(differences) == 20
    assert differences[7] == math.inf
    made = judge(["L1"], scale="laptop", find=find)
    assert outcomes(made) == {"L1": "undecided"}


def test_where_the_mixture_loses_no_part_of_it_carries_a_gain(tmp_path: Path) -> None:
    def loss(run: Run) -> float:
        """The mixture is worse than AdamW; its memory alone, over AdamW's squares, is as good as AdamW."""
        whole = is_mixture(run) and run.recipe["second_memory"] == "poly:8"
        return math.exp(noise(run) + (0.1 if whole else 0.0))

    (verdict,) = judge(["L3"], scale="laptop", find=world(tmp_path, loss))
    assert verdict.outcome != "confirmed"


def test_a_share_of_the_steps_holds_only_as_the_claim_itself_is_corrected() -> None:
    def found(name: str, *p_values: float) -> Finding:
        shares = dict(zip((0.8, 0.75, 0.7), p_values, strict=False))
        return Finding(CLAIMS[name], (Estimate(0.99, 0.98, 1.0),), p_values[0], 1.0, shares=shares)

    # By hand, with Holm: four tries of which two are measured, so .004 and .002 are multiplied by 3 and by 4.
    known = {"L1": found("L1", 0.004, 0.001), "L4": found("L4", 0.002, 0.0024, 0.0026)}
    first, second = verdicts(known, scale="laptop", decides=True)
    assert (first.outcome, second.outcome) == ("undecided", "confirmed")
    assert first.reason == "corrected p-values: 0.012 for it, 1 against it; no share holds"
    assert second.reason.endswith("the last share of the steps that holds at 1% is 0.75")


def test_what_cannot_be_trained_is_said_once_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def execute(spec: Spec, *_: object, **__: object) -> Outcome:
        calls.append(spec.name)
        return Outcome(failed={"a": "no memory left", "b": "no memory left"})

    monkeypatch.setattr(running, "execute", execute)
    find = running.trained(Store.open(tmp_path / "store"), cast(Engine, None))
    made = judge(["L1", "L2"], scale="quick", find=find)
    assert calls == ["lm-tune-short"]
    assert {each.reason for each in made} == {
        "it is not measured yet: 2 runs of lm-tune-short could not be trained: no memory left"
    }


def test_a_rehearsal_decides_nothing(tmp_path: Path) -> None:
    made = judge(["L1", "L5"], scale="quick", find=world(tmp_path, losses(0.3)))
    assert set(outcomes(made).values()) == {"undecided"}
    assert all("a rehearsal decides nothing" in each.reason for each in made)


def test_what_is_not_measured_yet_is_said_to_be(tmp_path: Path) -> None:
    find = stored(Store.open(tmp_path / "empty"))
    with pytest.raises(Unfinished, match="lm-tune-short has 0 of its runs"):
        find(Stages("laptop").tuning("lm-tune-short", of.first_grid("laptop"), long=False))
    made = judge(["L1"], scale="laptop", find=find)
    assert outcomes(made) == {"L1": "undecided"}
    assert made[0].reason == "it is not measured yet: lm-tune-short has 0 of its runs"


@pytest.mark.parametrize("scale", of.scales())
def test_every_scale_has_every_experiment(scale: str) -> None:
    stages = Stages(scale)
    winners = {ADAMW: AdamWSetting(4e-3, 0.8, 0.99, 0.0), MIXTURE: MixtureSetting(3e-3, 0.75, "inst", 0.0)}
    specs = [
        *(stages.tests(winners, [1.0], long=long) for long in (True, False)),
        *(stages.batch(winners, size) for size in stages.own["batches"]),
        *(workload(stages, problem) for problem in WORKLOADS),
        *(stages.ablations(winners), stages.large(winners), others(stages, winners)),
    ]
    names = [spec.name for spec in specs]
    assert len(set(names)) == len(names)
    # The same tokens in every batch, and no seed for tuning among those that are tested.
    for size in stages.own["batches"]:
        (spec,) = (each for each in specs if each.name == f"lm-batch-{size}")
        assert spec.steps == stages.own["long"] * 16 // size
    assert all(not set(spec.tuning_seeds or ()) & set(spec.seed_numbers) for spec in specs)


def test_the_plan_has_every_experiment_once_with_stand_ins_for_what_is_not_selected(tmp_path: Path) -> None:
    study = Study(Stages("laptop"), stored(Store.open(tmp_path / "empty")))
    names = [spec.name for spec in experiments(study, ())]
    assert names == [
        *("lm-tune-short", "lm-tune-long", "lm-test-long", "lm-test-short", "lm-ablations"),
        *("lm-test-long-shakespeare", "lm-batch-64", "lm-batch-256", "lm-large", "lm-others"),
        *(f"lm-workload-{problem}" for problem in WORKLOADS),
    ]
    assert [spec.name for spec in experiments(study, ["others"])] == ["lm-tune-short", "lm-others"]
    tests = next(spec for spec in experiments(study, ["L1", "L2"]) if spec.name == "lm-test-long")
    assert [method.steps_factor for method in tests.methods] == [1.0, 1.0, 0.8, 0.75, 0.7, 0.65]


# --- steps saved, the board and the figure ---------------------------------------------------------------------------


def test_a_loss_is_worth_the_steps_that_a_power_law_needs_for_it() -> None:
    # Where the loss falls as T^-0.5, a loss of 0.9 of another's takes 1/0.81 of its steps: 19 % are saved.
    assert steps_saved(np.log([0.9] * 4), 0.5).value == pytest.approx(0.19)
    assert steps_saved(np.log([1.1] * 4), 0.5).value == pytest.approx(1 - 1.21)
    found = steps_saved(np.log([0.9, 0.8]), 1.0)
    assert found.low < 1 - math.sqrt(0.72) < found.high
    assert found.value == pytest.approx(1 - math.sqrt(0.72))
    assert math.isnan(steps_saved(np.log([0.9] * 4), -0.1).value)


def test_the_board_says_what_is_saved_at_each_horizon_and_batch_size(tmp_path: Path) -> None:
    study = Study(Stages("laptop"), world(tmp_path, losses(0.012, per_step=0.03)))
    found = board(study, ["L1", "L2", "L5", "others"])
    assert found["saved"]["exponent"]["value"] == pytest.approx(0.03, abs=1e-3)
    # The gain is half as large at the short horizon, and for the fewer steps of larger minibatches.
    saved = {each["steps"]: each["saved"]["value"] for each in found["saved"]["horizon"]}
    assert saved == {
        6000: pytest.approx(1 - math.exp(-0.012 / 0.03), abs=0.03),
        1500: pytest.approx(1 - math.exp(-0.006 / 0.03), abs=0.03),
    }
    assert [(each["steps"], each["batch"]) for each in found["saved"]["batch"]] == [(6000, 16), (1500, 64), (375, 256)]
    assert found["selected"]["short"][MIXTURE]["memory"].endswith("(1+k)^0.25*poly:8")
    assert [row["method"] for row in found["compared"]["others"]][:3] == [ADAMW, MIXTURE, "AdEMAMix"]
    numbers = number_tables(found)
    assert re.search(r"^\| Schedule-Free \(betas=.*\) \|", numbers, re.MULTILINE)
    assert headline(found) == "**Confirmed: L1, L2; reported: L5.**"
    drawn = language(panels(study))
    titles = [axes.get_title() for axes in drawn.axes]
    assert len(titles) == 6
    assert all(axes.get_xlabel() for axes in drawn.axes)
    assert [text.get_text() for axes in drawn.axes for text in axes.texts] == []  # no panel is empty
    (line,) = (line for line in drawn.axes[3].lines if len(line.get_xdata()) == 2 and line.get_marker() == "^")
    assert list(line.get_xdata()) == [1500, 6000]
    assert list(line.get_ydata()) == pytest.approx([saved[1500], saved[6000]])


def test_a_refuted_claim_is_in_the_same_table(tmp_path: Path) -> None:
    found = board(Study(Stages("laptop"), world(tmp_path, losses(-0.05))), ["L1", "L2"])
    assert headline(found) == "**Refuted: L1, L2.**"
    assert re.search(
        r"^\| \*\*L1\*\* .* \| \*\*refuted\*\* \| loss mixture 0.8 T / AdamW = 1\.", verdict_table(found), re.M
    )
    assert all(each["saved"]["value"] < 0 for each in found["saved"]["horizon"])


def test_what_is_not_measured_yet_is_said_in_tables_and_in_the_figure(tmp_path: Path) -> None:
    study = Study(Stages("laptop"), stored(Store.open(tmp_path / "empty")))
    found = board(study)
    assert headline(found) == "**Not measured yet: L1, L2, L3, L4, L5, L6.**"
    assert verdict_table(found).count("| **not measured yet** | - |") == 6
    # Steps saved, settings at both horizons, other methods and four workloads.
    assert number_tables(found).count("not measured yet") == 8
    drawn = language(panels(study))
    assert [text.get_text() for axes in drawn.axes for text in axes.texts] == ["not measured yet"] * 6
    paths = write_figures(study, found, tmp_path, ("svg",))
    assert [path.name for path in paths] == ["language.svg"]
    assert write_figures(study, board(study, ["others"]), tmp_path, ("svg",)) == ()


def test_learning_rates_beside_the_claims_go_on_until_the_best_is_not_at_an_end(tmp_path: Path) -> None:
    best = {"SGD": 1.6, "HeavyBall": 0.025, "MemSGD": 0.00625, "AdamW": 100.0, "MemAdam": 1e-3}
    spec = workload(Stages("laptop"), "fashion-mlp")
    asked: list[Spec] = []

    def known(spec: Spec) -> Results:
        asked.append(spec)
        return find(spec)

    find = world(tmp_path, lambda run: 1 + abs(math.log(run.lr / best[run.recipe.optimizer])), metric="loss")
    found = widened(Study(Stages("laptop"), known), spec)
    assert {method.name: method.step_sizes for method in found.methods} == {
        "SGD": (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2),
        "HB": (0.00625, 0.0125, 0.025, 0.05),
        "mixture": (0.003125, 0.00625, 0.0125, 0.025, 0.05, 0.1),
        ADAMW: (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3, 64e-3),  # four times at most
        "mixture over squares": (5e-4, 1e-3, 2e-3, 4e-3),
    }
    assert {spec.seed_numbers for spec in asked} == {(100, 101)}  # no test seed is trained to extend a grid
    rehearsed = workload(Stages("quick"), "fashion-mlp")
    assert widened(Study(Stages("quick"), known), rehearsed) is rehearsed
    assert [each.at_edge for each in find(found).compare("loss", "SGD")] == [False, False, False, True, False]


def test_pairs_on_a_workload_have_references_of_their_own(tmp_path: Path) -> None:
    factors = {"SGD": 1.0, "HeavyBall": 0.5, "MemSGD": 0.6, "AdamW": 0.2, "MemAdam": 0.1}
    find = world(tmp_path, lambda run: factors[run.recipe.optimizer] * math.exp(noise(run)), metric="loss")
    found = compared_pairs(find(workload(Stages("laptop"), "fashion-mlp")), "loss", PAIRS)
    ratios = {row.method: row.ratio.value for row in found if row.ratio is not None}
    assert ratios == {
        "mixture / SGD": pytest.approx(0.6, rel=0.01),
        "mixture / HB": pytest.approx(1.2, rel=0.01),
        "mixture over squares / AdamW": pytest.approx(0.5, rel=0.01),
    }
    assert [row.method for row in found[::2]] == ["SGD", "HB", ADAMW]  # each stands before what is compared with it
    assert [row.difference for row in found[::2]] == [None] * 3
    assert [row.adjusted_p_value for row in found[1::2]] == holm([row.p_value for row in found[1::2]]).tolist()


def test_claims_are_known_by_their_names() -> None:
    assert chosen(["l6", "L1"]) == ("L1", "L6")
    with pytest.raises(ValueError, match="unknown claim 'L7'"):
        chosen(["L7"])
    grid = Grid({"lr": [1.0], "beta1": [0.9], "beta2": [0.99], "weight_decay": [0.0]}, of.first_grid("laptop").mixture)
    assert len(grid.settings()[ADAMW]) == 1
