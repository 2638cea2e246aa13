r"""`memgrad tune` beside an exhaustive grid over the same portfolio, and beside Optuna with at most as many runs.

    python benchmarks/tune.py errors                                  # error rates of races of equal methods
    python benchmarks/tune.py simulate                                # whole tunings of methods with known losses
    python benchmarks/tune.py validate covtype-softmax --sample --epochs 12 --repetitions 10
    python benchmarks/tune.py validate covtype-softmax --steps 5000 --times 11 --loss-examples 20000
    python benchmarks/tune.py validate fashion-mlp --steps 2000 --times 11 --loss-examples 5000
    python benchmarks/tune.py validate mnist-autoencoder --sample --steps 200 --times 6
    python benchmarks/tune.py validate cifar10-cnn --batch 32 --steps 200 --times 6 --loss-examples 2000
    python benchmarks/tune.py validate ... --nu 1.38                  # and tunings that know the spectrum
    python benchmarks/tune.py validate benchmarks/tune_language.toml  # its methods, schedule, metric
    python benchmarks/tune.py validate ... --out table.md
    python docs/results/publish.py tuning STORE                       # keep the rows of finished runs
    python benchmarks/tune.py validate ... --from docs/results/rows/tuning    # begin with them
    python benchmarks/tune_summary.py covtype=covtype.md MLP=mlp.md           # several tables as one, and as a figure

`validate` trains the grid once: every method of the portfolio, or of an experiment's file, at every quarter of a
decade over four decades (or over `--range`), with ten seeds. Its pick is the cell with the best mean loss. Then it
tunes several times, each time with other seeds. Optuna (default sampler, TPE, with its median pruner, and with
successive halving; `pip install optuna`, left out if missing) searches the cells of the grid in twice as many trials as
tuning took runs, and with at most as many runs, a pruned run counting as the share of its steps and a repeated one as
nothing: with one seed per study, and with another seed per trial. The grid with one seed is another row: what a study
with that seed could find if it tried all cells. All picks are trained on the same twenty test seeds, which nothing
else used. Regret is the ratio of the geometric mean of the losses of a pick to that of the grid's pick, minus 1. All of
it is stored, and resumes where it was stopped: complete data, networks and the language model take core-hours. From
complete rows the table is made again without training and without data sets.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memgrad.experiments import LocalEngine, Results, Spec, Store, execute, results_of
from memgrad.experiments.racing.answer import Measured
from memgrad.experiments.racing.candidates import Candidate
from memgrad.experiments.racing.course import ENDS, LEAST
from memgrad.experiments.racing.learning_rates import learning_rate, place_of
from memgrad.experiments.racing.portfolio import candidates_of, portfolio, racing_methods
from memgrad.experiments.racing.sequential import Rules, look_share, lower_bounds, pair_shares
from memgrad.experiments.racing.tune import SEEDS_APART, tune
from memgrad.experiments.racing.tuner import Tuner
from memgrad.experiments.storing.upkeep import copy_rows
from memgrad.files import written_whole

GRID_SEEDS = range(500_000_000, 500_000_010)
TEST_SEEDS = range(900_000_000, 900_000_020)
MOST_REPETITIONS = GRID_SEEDS[0] // SEEDS_APART - 1
"""With more repetitions, tuning would use the seeds of the grid."""
PLACES = {
    True: range(-16, 1),
    False: range(-10, 7),
}
"""Places of the grid, by whether a method divides by a root of squares: 1e-4 to 1, and 3e-3 to 30."""
CLOSE = 0.02
EPOCHS = 10

Cell = tuple[str, float]


@dataclass
class Row:
    """A way to choose: how many runs it took and how much worse its pick is, per repetition."""

    name: str
    runs: list[float]
    regrets: list[float]

    def cells(self) -> list[str]:
        close = sum(regret <= CLOSE for regret in self.regrets)
        return [
            self.name,
            f"{np.mean(self.runs):.0f}",
            f"{100 * np.mean(self.regrets):+.1f} %",
            f"{100 * np.max(self.regrets):+.1f} %",
            f"{close} of {len(self.regrets)}",
        ]


def of_problem(options: argparse.Namespace, candidates: Sequence[Candidate]) -> Spec:
    """The experiment of a problem by name, with these methods."""
    problem = {name: getattr(options, name) for name in ("problem", "sample", "examples", "batch")}
    length = {"steps": options.steps} if options.steps else {"epochs": options.epochs or EPOCHS}
    evaluate = {"times": options.times, "loss_examples": options.loss_examples}
    given = {**problem, **length, "evaluate": {name: value for name, value in evaluate.items() if value}}
    return spec_of({name: value for name, value in given.items() if value}, candidates)


def spec_of(problem: Mapping[str, Any], candidates: Sequence[Candidate]) -> Spec:
    methods = [{"name": each.name, "lr": each.lr, **each.options} for each in candidates]
    return Spec.of({"metrics": ["loss"], "methods": methods, **problem}, folder=Path.cwd())


def cells_of(candidates: Sequence[Candidate], ends: Sequence[float] | None) -> dict[str, list[float]]:
    between = None if ends is None else range(place_of(ends[0]), place_of(ends[1]) + 1)
    scaled = {each.name: "Adam" in each.options["optimizer"] for each in candidates}
    return {name: [learning_rate(k) for k in between or PLACES[scaled[name]]] for name in scaled}


def trained(spec: Spec, cells: Mapping[str, Sequence[float]], seeds: Sequence[int], store: Store) -> Results:
    """The results of these cells, trained where they are not in the store."""
    methods = [
        method.model_copy(update={"lr": sorted(cells[method.name])}) for method in spec.methods if method.name in cells
    ]
    whole = spec.model_copy(update={"methods": methods, "seeds": list(seeds)})
    outcome = execute(whole, store, LocalEngine())
    if not outcome.complete:
        sys.exit("stopped; run it again to resume")
    return results_of(whole, store)


def mean_log(results: Results, cell: Cell) -> float:
    finals = results.final(cell[0], results.spec.select.metric, lr=cell[1])
    return float(np.log(np.maximum(finals, LEAST)).mean()) if np.isfinite(finals).all() else math.inf


def optuna_pick(
    results: Results, cells: Mapping[str, Sequence[float]], runs: int, number: int, pruner: Any, *, paired: bool
) -> tuple[Cell, float]:
    """The pick of a study over the cells of the grid, and its cost in complete runs; if paired, with one seed."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    shares: dict[tuple[str, float, int], float] = {}  # how much of each run was trained
    metric = results.spec.select.metric

    def objective(trial: Any) -> float:
        name = trial.suggest_categorical("method", list(cells))
        lr = cells[name][trial.suggest_int(f"place {name}", 0, len(cells[name]) - 1)]
        seed = (number + (0 if paired else trial.number)) % len(GRID_SEEDS)
        run = results.runs[name][lr][GRID_SEEDS[seed]]
        steps, losses = results.rows.series(run.digest, metric)
        for i, (step, loss) in enumerate(zip(steps, losses, strict=True)):
            if step == 0:  # the loss before the first step says nothing about the method
                continue
            trial.report(float(loss), i)
            if trial.should_prune():
                shares[name, lr, seed] = max(shares.get((name, lr, seed), 0.0), step / run.steps)
                raise optuna.TrialPruned
        shares[name, lr, seed] = 1.0
        final = results.final(name, metric, lr=lr)[seed]
        if not math.isfinite(final):
            raise optuna.TrialPruned
        return float(final)

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=number), pruner=pruner())
    while sum(shares.values()) < runs and len(study.trials) < 2 * runs:  # what is pruned or repeated costs less
        study.optimize(objective, n_trials=1)
    name = study.best_params["method"]
    return (name, cells[name][study.best_params[f"place {name}"]]), sum(shares.values())


def grid_pick(results: Results, cells: Mapping[str, Sequence[float]], number: int) -> tuple[Cell, float]:
    """The pick of all cells of the grid with one seed, and its cost."""
    metric, seed = results.spec.select.metric, number % len(GRID_SEEDS)
    finals = {(name, lr): results.final(name, metric, lr=lr)[seed] for name in cells for lr in cells[name]}
    return min(finals, key=lambda cell: float(np.nan_to_num(finals[cell], nan=np.inf))), len(finals)


def validate(options: argparse.Namespace) -> None:
    if options.repetitions > MOST_REPETITIONS:
        sys.exit(f"at most {MOST_REPETITIONS} repetitions, got {options.repetitions}")
    if options.problem.endswith(".toml"):
        own = ("sample", "examples", "batch", "steps", "epochs", "times", "loss_examples", "nu")
        if given := [name for name in own if getattr(options, name)]:
            sys.exit(f"an experiment's file says all but the range of the grid, got {', '.join(given)}")
        spec = Spec.load(Path(options.problem))
        spec = spec.model_copy(update={"methods": list(racing_methods(spec)), "tuning_seeds": None})
        candidates = candidates_of(spec)
    else:
        candidates = portfolio()
        spec = of_problem(options, candidates)
    store = Store.open(options.store)
    if options.start is not None:
        copy_rows(Store.open(options.start, create=False), store)
    cells = cells_of(candidates, options.range)
    grid = trained(spec, cells, GRID_SEEDS, store)
    best = min(((name, lr) for name in cells for lr in cells[name]), key=lambda cell: mean_log(grid, cell))
    size = len(GRID_SEEDS) * sum(map(len, cells.values()))
    print(f"grid: {size} runs, pick {best}", flush=True)
    picks = {"memgrad tune": list(tuned(spec, candidates, options.repetitions, store))}
    picks["grid, one seed"] = [grid_pick(grid, cells, number) for number in range(options.repetitions)]
    picks |= dict(optuna_picks(grid, cells, [int(runs) for _, runs in picks["memgrad tune"]]))
    if options.nu is not None:
        knowing = portfolio(nu=options.nu)
        known = of_problem(options, knowing)
        picks[f"memgrad tune, nu = {options.nu:g} known"] = list(tuned(known, knowing, options.repetitions, store))
        spec = of_problem(options, list({each.name: each for each in (*candidates, *knowing)}.values()))
    rows = [Row("exhaustive grid", [size], [0.0])]
    wanted: dict[str, set[float]] = {}
    for name, lr in [best, *(cell for each in picks.values() for cell, _ in each)]:
        wanted.setdefault(name, set()).add(lr)
    test = trained(spec, {name: sorted(lrs) for name, lrs in wanted.items()}, TEST_SEEDS, store)
    base = mean_log(test, best)
    if not math.isfinite(base):
        sys.exit(f"the grid's pick, {best}, diverges on a test seed: there is nothing to compare with")
    for way, each in picks.items():
        rows.append(Row(way, [cost for _, cost in each], [math.expm1(mean_log(test, cell) - base) for cell, _ in each]))
    report(rows, options.out)


def tuned(spec: Spec, candidates: Sequence[Candidate], repetitions: int, store: Store) -> Iterator[tuple[Cell, float]]:
    """The pick and the runs of tuning, each time with other seeds."""
    for number in range(repetitions):
        began = time.monotonic()
        answer = tune(spec, store, LocalEngine(), candidates=candidates, seed=number + 1)
        if answer.pick is None or answer.status != "answered":
            sys.exit(f"repetition {number}: {answer.status}, {answer.reason}")
        print(f"{number}: {answer.runs} runs, {time.monotonic() - began:.0f} s: {answer.verdict}", flush=True)
        yield (answer.pick.name, answer.pick.lr), answer.runs


def optuna_picks(
    grid: Results, cells: Mapping[str, Sequence[float]], budgets: Sequence[int]
) -> Iterator[tuple[str, list[tuple[Cell, float]]]]:
    try:
        import optuna
    except ImportError:
        print("without Optuna, which is not installed", file=sys.stderr)
        return
    pruners: dict[str, Callable[[], Any]] = {
        "Optuna, TPE, median pruner": optuna.pruners.MedianPruner,
        "Optuna, TPE, successive halving": optuna.pruners.SuccessiveHalvingPruner,
    }
    for name, pruner in pruners.items():
        for paired, seeds in ((True, "one seed"), (False, "a seed per trial")):
            picks = [
                optuna_pick(grid, cells, runs, number, pruner, paired=paired) for number, runs in enumerate(budgets)
            ]
            yield f"{name}, {seeds}", picks


def report(rows: Sequence[Row], out: Path | None) -> None:
    head = ["way to choose", "runs", "mean regret", "largest regret", f"within {100 * CLOSE:.0f} %"]
    lines = ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *(row.cells() for row in rows))]
    print("\n".join(lines))
    write(lines, out)


def write(lines: Sequence[str], out: Path | None) -> None:
    if out is not None:
        with written_whole(out) as unfinished:
            unfinished.write_text("\n".join(lines) + "\n")


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "Student's t, 3 degrees of freedom": lambda rng, size: rng.standard_t(3, size=size),
    "Laplace": lambda rng, size: rng.laplace(size=size),
    "log-normal": lambda rng, size: rng.lognormal(sigma=1.0, size=size),
    "uniform": lambda rng, size: rng.uniform(size=size),
}
"""Laws of a method's noise, beside what all methods share with a seed."""

SKEWED: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "half exponential, half normal": lambda rng, size: rng.exponential(size=size) - 1,
    "half log-normal, half normal": lambda rng, size: rng.lognormal(sigma=1.0, size=size) - math.exp(0.5),
    "half with 5 % of seeds worse by 50 standard deviations": lambda rng, size: (
        50 * ((rng.random(size) < 0.05) - 0.05) + rng.normal(size=size)
    ),
}
"""Laws with mean 0 of half of the methods, while the others are normal: then the differences are skewed."""


def errors(options: argparse.Namespace) -> None:
    """The share of races of equal methods in which any bound of the race is above its true difference, which is 0."""
    rules = Rules()
    lines = ["| noise | 2 methods | 4 methods | 8 methods |", "|---|---|---|---|"]
    for law, draw in {**LAWS, **SKEWED}.items():
        shares = []
        for methods in (2, 4, 8):
            rng = np.random.default_rng(methods)
            values = draw(rng, (options.races, methods, rules.most))
            if law in SKEWED:
                spread = 1.0 if "seeds" in law else 0.2
                values[:, methods // 2 :] = spread * rng.normal(size=values[:, methods // 2 :].shape)
            false = np.zeros(options.races, dtype=bool)
            for k, n in enumerate(rules.looks):
                levels = rules.error_rate * look_share(k) * pair_shares([False] * methods)
                false |= (lower_bounds(values[..., :n], levels) > 0).any(axis=(-1, -2))
            shares.append(f"{100 * false.mean():.2f} %")
        lines.append(f"| {law} | {' | '.join(shares)} |")
        print(lines[-1], flush=True)
    write(lines, options.out)


def simulate(options: argparse.Namespace) -> None:
    """Whole tunings of equal methods, search included, and of methods of which one is better."""
    lines = [
        "| methods | paired spread | a false statement | challenger recommended | pick within 2 % | runs |",
        "|---|---|---|---|---|---|",
    ]
    settings = [(gap, spread) for gap in (0.0, 0.03, 0.1) for spread in (0.005, 0.02, 0.05)]
    for gap, spread in settings:
        false = used = close = 0
        runs = []
        for number in range(options.races):
            rng = np.random.default_rng([number, round(1000 * gap), round(1000 * spread)])
            gaps = np.concatenate([[0.0], np.full(7, gap)]) if gap else np.zeros(8)
            order = rng.permutation(8)
            answer, truth = simulated(rng, gaps[order], spread)
            wrong = any(
                truth[each.worse_than] >= truth[each.name] - 1e-12 for each in answer.dropped if each.worse_than
            )
            if answer.reason == ENDS["equivalent"]:  # the other kind of statement: no method left is better by more
                limit = truth[answer.leader] - answer.rules.tolerance
                wrong |= any(truth[name] < limit - 1e-12 for name in answer.undecided)
            false += wrong
            used += answer.better
            pick = answer.pick
            assert pick is not None
            close += truth[f"{pick.name}, lr {pick.lr:g}"] <= min(truth.values()) + CLOSE
            runs.append(answer.runs)
        what = "all equal" if not gap else f"one better by {100 * gap:.0f} %"
        shares = [f"{100 * count / options.races:.1f} %" for count in (false, used, close)]
        lines.append(f"| {what} | {100 * spread:.1f} % | {' | '.join(shares)} | {np.mean(runs):.0f} |")
        print(lines[-1], flush=True)
    write(lines, options.out)


def simulated(rng: np.random.Generator, gaps: np.ndarray, spread: float) -> tuple[Any, dict[str, float]]:
    """A tuning of eight methods whose log loss is a parabola over the logarithm of the learning rate, plus noise."""
    names = [f"method {i}" for i in range(8)]
    best = rng.integers(-6, 7, size=8)  # places of the grid, so that equal methods are equal at their best
    noise: dict[Any, float] = {}
    truth: dict[str, float] = {}

    def loss(trial: Any) -> float:
        i = names.index(trial.name)
        mean = gaps[i] + 0.01 * (trial.place - best[i]) ** 2
        truth[f"{trial.name}, lr {trial.lr:g}"] = mean
        shared = noise.setdefault(trial.seed, 0.05 * rng.normal())
        return math.exp(mean + shared + spread / math.sqrt(2) * rng.normal())

    tuner = Tuner([Candidate(name, lr=1.0, baseline=i == 0) for i, name in enumerate(names)], rules=Rules())
    while trials := tuner.wanted():
        tuner.tell_all({trial: Measured(loss(trial)) for trial in trials})
    return tuner.answer(), truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    rates = commands.add_parser("errors")
    rates.add_argument("--races", type=int, default=10_000)
    rates.set_defaults(run=errors)
    simulation = commands.add_parser("simulate")
    simulation.add_argument("--races", type=int, default=1000)
    simulation.set_defaults(run=simulate)
    validation = commands.add_parser("validate")
    validation.add_argument("problem", help="a problem's name, or an experiment's file with methods that race")
    validation.add_argument("--range", type=float, nargs=2, metavar=("LOW", "HIGH"), help="learning rates of the grid")
    validation.add_argument("--sample", action="store_true")
    validation.add_argument("--examples", type=int)
    validation.add_argument("--batch", type=int)
    validation.add_argument("--steps", type=int)
    validation.add_argument("--epochs", type=int, help=f"if no steps are given [default: {EPOCHS}]")
    validation.add_argument("--times", type=int, help="evaluations per run")
    validation.add_argument("--loss-examples", type=int, help="evaluate the loss over this many examples")
    validation.add_argument("--repetitions", type=int, default=10)
    validation.add_argument("--nu", type=float, help="tune with this nu as well, as memgrad spectrum measured it")
    validation.add_argument("--store", type=Path, default=Path("tune-store"))
    validation.add_argument("--from", dest="start", type=Path, metavar="FOLDER", help="begin with these rows")
    validation.set_defaults(run=validate)
    for each in (rates, simulation, validation):
        each.add_argument("--out", type=Path, help="write the table")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
