"""What an experiment found, with rows whose means, intervals and best step sizes are known."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import printed
from scipy import stats
from tiny_runs import SGD, chunk_from, run_of, small_spec, trained_here

from memgrad.experiments.driver import facts_of
from memgrad.experiments.planning.plan import expand, runs_in
from memgrad.experiments.planning.problem_choice import facts_about
from memgrad.experiments.planning.runs import Run
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.sequential import Dropped
from memgrad.experiments.racing.words import dropped_in_words
from memgrad.experiments.results import Results
from memgrad.experiments.storing.chunk import Chunk, chunk_of
from memgrad.experiments.storing.store import Store
from memgrad.paper.loss_claims import _loss_at

SPEC = Spec.parse("""
problem = "logistic"
steps = 30
seeds = 3
select.last = 0.5
[[methods]]
optimizer = "SGD"
lr = [0.1, 1, 10]
[[methods]]
optimizer = "MemSGD"
memory = "poly:2"
lr = 1
""")
SEEDS = (0, 1, 2)
TABLE = {
    "SGD": {lr: {seed: run_of("SGD", lr=lr, seed=seed) for seed in SEEDS} for lr in (0.1, 1.0, 10.0)},
    "MemSGD": {1.0: {seed: run_of("MemSGD", lr=1.0, seed=seed) for seed in SEEDS}},
}
RUNS = [run for step_sizes in TABLE.values() for seeds in step_sizes.values() for run in seeds.values()]


def loss(run: Run, step: int) -> float:
    """SGD is best at 1; MemSGD is half as high for every seed."""
    height = {0.1: 4.0, 1.0: 2.0, 10.0: 3.0}[run.lr] * (1 + run.seed)
    return height * (0.5 if run.recipe.optimizer == "MemSGD" else 1.0) * (1 + 1 / (1 + step))


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Results]:
    def make(*chunks: Chunk, spec: Spec = SPEC) -> Results:
        store = Store.open(tmp_path / "store")
        for chunk in chunks:
            store.write(chunk)
        return Results.read(spec, store, TABLE)

    return make


def final(height: float) -> float:
    """By hand: the last half of the evaluations are those at 20 and 30."""
    return height * (1 + (1 / 21 + 1 / 31) / 2)


def test_final_values_are_means_over_the_last_evaluations(made: Callable[..., Results]) -> None:
    results = made(chunk_from(RUNS, loss))
    assert results.final("SGD", "loss", lr=10.0) == pytest.approx([final(3), final(6), final(9)])
    assert results.final("MemSGD", "accuracy") == pytest.approx([final(1) / 4, final(2) / 4, final(3) / 4])


@pytest.mark.parametrize(("share", "count"), [(1.0, 4), (0.65, 3), (0.6, 2), (0.5, 2), (0.4, 2), (0.25, 1), (0.001, 1)])
def test_the_last_share_is_at_least_one_evaluation(made: Callable[..., Results], share: float, count: int) -> None:
    spec = SPEC.model_copy(update={"select": SPEC.select.model_copy(update={"last": share})})
    results = made(chunk_from(RUNS, lambda run, step: float(step)), spec=spec)
    assert results.final("SGD", "loss", lr=1.0) == pytest.approx([np.mean([0, 10, 20, 30][-count:])] * 3)


@pytest.mark.parametrize(("diverged", "at_20", "at_30"), [(10, True, True), (20, True, True), (21, False, True)])
def test_a_run_that_diverges_at_the_step_that_is_compared_has_no_value_there(
    made: Callable[..., Results], diverged: int, at_20: bool, at_30: bool
) -> None:
    """Whether its value there is finite or not: 20 of 30 steps is two thirds of them."""
    gone = TABLE["MemSGD"][1.0][1].digest
    results = made(chunk_from(RUNS, loss, diverged={gone: diverged}))
    curve = results.curve("MemSGD", "loss", lr=1.0)
    assert [bool(np.isnan(curve.values[curve.steps == step, 1]).all()) for step in (20, 30)] == [at_20, at_30]
    for share, infinite in ((2 / 3, at_20), (1.0, at_30)):
        found = _loss_at(results, "MemSGD", share)
        assert math.isinf(found[1]) is infinite
        assert np.isfinite(np.delete(found, 1)).all()


def test_the_last_evaluations_of_a_metric_are_its_own(tmp_path: Path) -> None:
    run = replace(run_of(), steps=40, evaluate_at=(0, 10, 20, 30, 40), seldom=(("loss", (0, 20)),))
    values = {"loss": [4.0, np.nan, 2.0, np.nan, np.nan], "accuracy": [0.1, 0.2, 0.3, 0.4, 0.5]}
    store = Store.open(tmp_path / "store")
    tables = {metric: np.array(column)[:, None] for metric, column in values.items()}
    store.write(chunk_of([run], run.evaluate_at, tables, {}, {}))
    results = Results.read(SPEC, store, {"SGD": {0.1: {0: run}}})
    # Half of the evaluations: one of two losses, two of five accuracies.
    assert results.final("SGD", "loss") == pytest.approx([2.0])
    assert results.final("SGD", "accuracy") == pytest.approx([0.45])


def test_curves_have_a_column_a_seed_and_t_intervals(made: Callable[..., Results]) -> None:
    curve = made(chunk_from(RUNS, loss)).curve("SGD", "loss")
    assert (curve.steps.tolist(), curve.seeds) == ([0, 10, 20, 30], SEEDS)
    assert curve.values[:, 1] == pytest.approx([4 * (1 + 1 / (1 + step)) for step in (0, 10, 20, 30)])
    mean, low, high = curve.interval()
    for i in range(4):
        expected = stats.ttest_1samp(curve.values[i], 0.0).confidence_interval(0.95)
        assert (mean[i], low[i], high[i]) == pytest.approx((curve.values[i].mean(), expected.low, expected.high))


def test_the_step_size_with_the_best_mean_is_selected(made: Callable[..., Results]) -> None:
    results = made(chunk_from(RUNS, loss))
    assert (results.selected_lr("SGD"), results.selected_lr("MemSGD")) == (1.0, 1.0)
    assert results.step_sizes("SGD") == (0.1, 1.0, 10.0)
    assert results.methods == ("SGD", "MemSGD")


def test_more_may_be_better(made: Callable[..., Results]) -> None:
    spec = SPEC.model_copy(update={"select": SPEC.select.model_copy(update={"goal": "max", "metric": "accuracy"})})
    diverged = {TABLE["SGD"][0.1][1].digest: 10}
    results = made(chunk_from(RUNS, loss, diverged), spec=spec)
    assert results.selected_lr("SGD") == 10.0  # 0.1 would be highest, had it not diverged
    with pytest.warns(DeprecationWarning, match=r"^Results\.best_lr is deprecated; use selected_lr\.$"):
        assert results.best_lr("SGD") == 10.0
    assert results.final("SGD", "accuracy", lr=0.1)[1] == -math.inf


@pytest.mark.parametrize(("best", "at_edge"), [(0.1, True), (1.0, False), (10.0, True)])
def test_a_comparison_says_whether_the_step_size_is_at_the_edge_of_several(
    best: float, at_edge: bool, made: Callable[..., Results]
) -> None:
    sgd, memory = made(chunk_from(RUNS, lambda run, step: abs(math.log(run.lr / best)) + 1)).compare("loss")
    assert (sgd.lr, sgd.at_edge) == (best, at_edge)
    assert not memory.at_edge  # it has one step size


def test_of_equally_good_step_sizes_the_smaller_is_selected(made: Callable[..., Results]) -> None:
    assert made(chunk_from(RUNS, lambda run, step: 1.0)).selected_lr("SGD") == 0.1


def test_a_step_size_at_which_one_seed_diverged_is_infinitely_bad(made: Callable[..., Results]) -> None:
    run = TABLE["SGD"][1.0][2]
    results = made(chunk_from(RUNS, loss, {run.digest: 20}))
    assert results.selected_lr("SGD") == 10.0
    assert results.final("SGD", "loss", lr=1.0) == pytest.approx([final(2), final(4), math.inf])
    assert math.isnan(results.final("SGD", "accuracy", lr=1.0)[2])  # whether inf is bad is not known
    assert results.diverged("SGD", 1.0) == {2: 20}
    assert results.diverged("SGD") == {}
    assert results.complete("SGD")


def test_a_curve_ends_where_a_seed_diverged(made: Callable[..., Results]) -> None:
    run = TABLE["SGD"][1.0][2]
    curve = made(chunk_from(RUNS, loss, {run.digest: 20})).curve("SGD", "loss", lr=1.0)
    assert np.isnan(curve.values).tolist() == [[False] * 3, [False] * 3, [False, False, True], [False, False, True]]
    mean, low, _ = curve.interval()
    assert np.isnan(mean).tolist() == np.isnan(low).tolist() == [False, False, True, True]


def test_if_all_step_sizes_diverge_the_smallest_is_named(made: Callable[..., Results]) -> None:
    results = made(chunk_from(RUNS, loss, {run.digest: 0 for run in RUNS if run.recipe.optimizer == "SGD"}))
    assert results.selected_lr("SGD") == 0.1
    assert results.curve("SGD", "loss").values.shape == (0, 3)
    row = {each.method: each for each in results.compare("loss")}["SGD"]
    assert (row.final.mean, row.diverged) == (math.inf, 9)


def test_unfinished_runs_are_named_and_left_out(made: Callable[..., Results]) -> None:
    late = TABLE["SGD"][1.0][2]
    results = made(chunk_from([run for run in RUNS if run != late], loss))
    assert results.missing() == (late,)
    assert (results.complete("SGD"), results.complete("MemSGD")) == (False, True)
    assert results.selected_lr("SGD") == 10.0  # among those all of whose seeds are there
    curve = results.curve("SGD", "loss", lr=1.0)
    assert np.isnan(curve.values[:, 2]).all()
    mean, low, _ = curve.interval()
    assert mean == pytest.approx(curve.values[:, :2].mean(axis=1))
    assert np.isfinite(low).all()
    assert np.isnan(results.final("SGD", "loss", lr=1.0)).tolist() == [False, False, True]


def test_an_experiment_is_finished_when_every_run_of_every_method_is(made: Callable[..., Results]) -> None:
    almost = made(chunk_from(RUNS[:-1], loss))
    assert (len(almost.planned), almost.finished) == (12, False)
    every = made(chunk_from(RUNS[-1:], loss))
    assert list(every.planned.values()) == RUNS
    assert every.finished
    unknown = Results(SPEC, {"SGD": TABLE["SGD"]}, every.rows)  # MemSGD's runs are not planned yet
    assert (unknown.missing(), unknown.finished) == ((), False)


def test_nothing_finished_is_told_with_the_methods_name(made: Callable[..., Results]) -> None:
    results = made(chunk_from([RUNS[0]], loss))
    with pytest.raises(ValueError, match=r"method 'SGD' has no step size all of whose runs are finished.*memgrad run"):
        results.selected_lr("SGD")
    with pytest.raises(ValueError, match="method 'SGD' has no step size"):
        results.compare("loss")


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda results: results.selected_lr("SDG"), r"no method 'SDG'; did you mean 'SGD'\?"),
        (lambda results: results.curve("SGD", "lost"), "does not measure 'lost'; it measures loss, accuracy"),
        (lambda results: results.final("SGD", "loss", lr=7.0), r"step size 7.0; its step sizes: 0.1, 1, 10"),
    ],
)
def test_what_is_not_there_is_named(
    made: Callable[..., Results], ask: Callable[[Results], object], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        ask(made(chunk_from(RUNS, loss)))


def noisy(run: Run, step: int) -> float:
    rng = np.random.default_rng([run.seed, run.recipe.optimizer == "SGD"])
    return loss(run, step) * math.exp(0.1 * rng.normal())


def test_methods_are_compared_seed_by_seed_in_logarithms(made: Callable[..., Results]) -> None:
    sgd, memory = made(chunk_from(RUNS, noisy)).compare("loss")
    ends = {name: [np.mean([noisy(run, 20), noisy(run, 30)]) for run in TABLE[name][1.0].values()] for name in TABLE}
    test = stats.ttest_rel(np.log(ends["MemSGD"]), np.log(ends["SGD"]))
    low, high = test.confidence_interval(0.95)
    assert memory.difference is not None
    assert (memory.difference.low, memory.difference.high) == pytest.approx((low, high))
    assert (memory.p_value, memory.adjusted_p_value) == pytest.approx((test.pvalue, test.pvalue))
    assert memory.ratio is not None
    assert memory.ratio.mean == pytest.approx(stats.gmean(np.divide(ends["MemSGD"], ends["SGD"])))
    assert sgd.final.mean == pytest.approx(np.mean(ends["SGD"]))
    assert (sgd.lr, sgd.difference, sgd.ratio, sgd.finished, sgd.planned) == (1.0, None, None, 9, 9)
    assert math.isnan(sgd.p_value)
    assert {name: list(memory.to_dict()[name]) for name in ("final", "difference", "ratio")} == {
        name: ["mean", "low", "high", "n"] for name in ("final", "difference", "ratio")
    }
    assert memory.to_dict()["final"]["n"] == 3


def test_values_that_may_be_negative_are_compared_plainly(made: Callable[..., Results]) -> None:
    sgd, memory = made(chunk_from(RUNS, lambda run, step: noisy(run, step) - 3)).compare("loss", "MemSGD")
    assert (sgd.logarithmic, memory.difference) == (False, None)
    at = TABLE["MemSGD"][1.0], TABLE["SGD"][sgd.lr]
    ends = [[np.mean([noisy(run, 20), noisy(run, 30)]) for run in runs.values()] for runs in at]
    assert sgd.difference is not None
    assert sgd.difference.mean == pytest.approx(np.mean(np.subtract(ends[1], ends[0])))
    assert sgd.ratio is None


@pytest.mark.parametrize(
    ("goal", "value", "steps"),
    [("max", 15.0, 15.0), ("max", 31.0, math.inf), ("min", 15.0, 0.0), ("min", -1.0, math.inf)],
)
def test_a_value_is_reached_from_below_if_more_is_better(
    made: Callable[..., Results], goal: str, value: float, steps: float
) -> None:
    spec = SPEC.model_copy(update={"select": SPEC.select.model_copy(update={"goal": goal})})
    results = made(chunk_from(RUNS, lambda run, step: float(step)), spec=spec)
    reached = results.steps_to_reach("SGD", "loss", value)
    assert (reached.value, reached.n, reached.name) == (steps, 3, f"steps to loss {value:g}")
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="the value of loss that is to be reached must be finite"):
            results.steps_to_reach("SGD", "loss", bad)


def test_the_table_has_all_seeds_at_every_step_size(made: Callable[..., Results]) -> None:
    table = made(chunk_from(RUNS, loss)).table()
    assert len(table["value"]) == 12 * 4 * 2
    assert set(zip(table["method"].tolist(), table["lr"].tolist(), table["selected"].tolist(), strict=True)) == {
        ("SGD", 0.1, False), ("SGD", 1.0, True), ("SGD", 10.0, False), ("MemSGD", 1.0, True)
    }  # fmt: skip
    chosen = (table["method"] == "SGD") & (table["lr"] == 10) & (table["seed"] == 2) & (table["metric"] == "loss")
    assert table["value"][chosen] == pytest.approx([9 * (1 + 1 / (1 + step)) for step in (0, 10, 20, 30)])


def test_an_empty_store_gives_an_empty_table(made: Callable[..., Results]) -> None:
    results = made()
    assert [len(column) for column in results.table().values()] == [0] * len(results.table())
    assert len(results.missing()) == 12


WITH_ACCURACY: dict[str, Any] = {
    "problem": "covtype-softmax",
    "sample": True,
    "steps": 10,
    "seeds": 3,
    "evaluate": {"times": 2},
    "metrics": ["loss", "accuracy"],
}


METHODS = [{"name": name, "optimizer": "SGD", "lr": lr} for name, lr in (("A", 0.1), ("B", 0.2), ("C", 0.3))]


def results(folder: Path, methods: list[dict[str, Any]], *, diverged: bool) -> Results:
    spec = Spec.of({**WITH_ACCURACY, "select": {"metric": "accuracy", "goal": "max"}, "methods": methods})
    store = Store.open(folder)
    table = expand(spec, facts_of(spec.problem_choice, store, keep=True), {})
    lost = {table["C"][0.3][0].digest: 5} if diverged else {}
    loss = lambda run, step: 1 + 0.1 * run.seed + run.lr * (1 + run.seed % 2)  # noqa: E731
    store.write(chunk_from(runs_in(table), loss, lost))
    return Results.read(spec, store, table)


def test_a_run_that_diverged_changes_no_other_comparison(tmp_path: Path) -> None:
    for reference in ("A", "C"):
        whole, part = (
            {
                row.method: row
                for row in results(tmp_path / f"{reference}{d}", METHODS, diverged=d).compare("accuracy", reference)
            }
            for d in (False, True)
        )
        assert whole["A"].logarithmic
        assert part["A"].logarithmic
        if reference == "A":
            assert whole["B"].difference == part["B"].difference


def test_methods_without_a_common_seed_are_named(tmp_path: Path) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in WITH_ACCURACY.items() if name != "evaluate"]
    text = "\n".join([*lines, "[evaluate]", "times = 2"])
    for method in ({**METHODS[0], "seeds": [7, 8]}, METHODS[1]):
        text += "\n[[methods]]\n" + "\n".join(f"{name} = {json.dumps(value)}" for name, value in method.items())
    path, store = tmp_path / "apart.toml", Store.open(tmp_path / "store")
    path.write_text(text)
    spec = Spec.load(path)
    store.write(chunk_from(runs_in(expand(spec, facts_of(spec.problem_choice, store, keep=True), {}))))
    assert "No finished seed in common with A: B. Pass --reference" in printed(
        "compare", str(path), "--store", str(store.path)
    )


def test_a_metric_that_grows_is_reached_from_below() -> None:
    results = trained_here(small_spec(SGD, metrics=["loss", "accuracy"]))
    curve = results.curve("A", "accuracy")
    target = float(curve.values[[0, -1]].mean())  # between the first and the last, for each seed
    expected = []
    for values in curve.values.T:
        k = next(k for k in range(1, len(values)) if values[k] >= target)
        share = (target - values[k - 1]) / (values[k] - values[k - 1])
        expected.append(curve.steps[k - 1] + share * (curve.steps[k] - curve.steps[k - 1]))
    assert results.steps_to_reach("A", "accuracy", target).value == pytest.approx(np.mean(expected))
    assert results.steps_to_reach("A", "accuracy", 2.0).value == math.inf
    assert results.steps_to_reach("A", "loss", 1e9).value == 0


def test_a_bound_on_the_linear_scale_has_its_unit() -> None:
    dropped = Dropped("A", 4, "B", by=0.427)
    assert "by 0.427 times the median size of the losses or more" in dropped_in_words(dropped, "linear")
    assert "by 53.3 % or more" in dropped_in_words(dropped)


def test_the_reference_of_a_comparison_may_have_the_name_that_the_table_shows() -> None:
    grid = {**SGD, "grid": {"momentum": [0.0, 0.9]}}
    results = trained_here(small_spec(grid, {"name": "B", "optimizer": "AdamW", "lr": 0.01}))
    variant, _ = results.selected("A")
    by_variant, by_method = (results.compare("loss", name) for name in (variant, "A"))
    assert [each.difference for each in by_variant] == [each.difference for each in by_method]
    other = next(each.name for each in results.spec.methods[0].variants if each.name != variant)
    with pytest.raises(ValueError, match=r"is not what was selected for its method"):
        results.compare("loss", other)


def test_a_seed_that_is_not_finished_is_left_out_of_a_comparison() -> None:
    methods = [{**SGD, "lr": [0.3, 0.1]}, {"name": "B", "optimizer": "AdamW", "lr": [0.01, 0.02]}]
    spec = small_spec(*methods, seeds=3, tuning_seeds=[100])
    tuning = trained_here(spec)
    selected = {name: tuning.selected_lr(name) for name in ("A", "B")}
    partly = trained_here(spec, selected, without=("B", 2))
    finals = [partly.final(name, "loss")[:2] for name in ("B", "A")]
    [found] = [each for each in partly.compare("loss", reach=2.0) if each.difference is not None]
    assert found.difference is not None
    assert found.difference.value == pytest.approx(np.mean(np.log(finals[0]) - np.log(finals[1])))
    assert found.reach is not None
    assert (found.difference.n, found.reach.n) == (2, 2)


def test_exported_runs_have_their_schedule_and_their_clip() -> None:
    methods = [SGD, {**SGD, "name": "B", "schedule": "linear"}, {**SGD, "name": "C", "clip": 0.01}]
    table = trained_here(small_spec(*methods, seeds=1)).table()
    pairs = zip(table["schedule"], table["clip"], strict=True)
    settings = {(str(schedule), None if math.isnan(clip) else float(clip)) for schedule, clip in pairs}
    assert settings == {("constant", None), ("linear", None), ("constant", 0.01)}


def test_event_files_of_methods_that_differ_in_schedule_or_clip_are_apart(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from memgrad.experiments.driver import Silent
    from memgrad.experiments.storing.tensorboard import EventFiles

    methods = [SGD, {**SGD, "name": "B", "schedule": "linear"}, {**SGD, "name": "C", "clip": 0.01}]
    methods += [{"name": "D", "optimizer": "best of A", "steps_factor": 0.5}]
    spec = small_spec(*methods, seeds=1)
    facts = facts_about(spec.problem_choice, spec.problem_choice.load())
    table = expand(spec, facts, {"A": 0.3})
    files = EventFiles(tmp_path, spec, Silent())
    names = {name: files._name(next(iter(of_lr[0.3].values()))) for name, of_lr in table.items()}
    assert names == {"A": "A", "B": "B", "C": "C", "D": "A steps=10"}
