r"""Run-steps per second of the experiment engine beside plain eager torch, one run after another.

    python benchmarks/sweep.py                          # all workloads, about six minutes on an idle machine
    python benchmarks/sweep.py covtype mlp --rounds 3
    python benchmarks/sweep.py --out table.md

A run-step is one step of one run. Plain torch is what one writes by hand: a model, a torch.optim.SGD with momentum, a
minibatch by indexing, backward, step. The engine trains a stack of runs of several methods, or one run with MemSGD
where stacking does not pay. Complete data sets are used (memgrad data get covtype mnist fashion-mnist cifar-10 sotu).
That both do the same is checked first: the engine's SGD with momentum must reach plain torch's loss.

One core: the process is held to it, both take turns, and time is the processor's. Two cores: two processes with a batch
each against one of them alone, by the wall, also in turns.
"""

from __future__ import annotations

import os
import time

CORES = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORES[-1]})  # before torch starts threads, which stay where they were started

import argparse  # noqa: E402
import multiprocessing as mp  # noqa: E402
import statistics  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from multiprocessing.synchronize import Barrier  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402

from memgrad.experiments.digests import initial_seed  # noqa: E402
from memgrad.experiments.planning.problem_choice import ProblemChoice, facts_about  # noqa: E402
from memgrad.experiments.planning.recipe import Recipe  # noqa: E402
from memgrad.experiments.planning.runs import Run  # noqa: E402
from memgrad.experiments.training.minibatch_order import MinibatchOrder  # noqa: E402
from memgrad.experiments.training.train import Training  # noqa: E402
from memgrad.files import written_whole  # noqa: E402
from memgrad.problems import Problem  # noqa: E402

MOMENTUM = 0.9
METHODS = (
    Recipe.of("SGD"),
    Recipe.of("SGD", momentum=MOMENTUM),
    Recipe.of("HeavyBall"),
    Recipe.of("MemSGD", memory="poly:2"),
    Recipe.of("MemSGD", memory="poly:4"),
    Recipe.of("MemSGD", memory="poly:100"),
    Recipe.of("MemSGD", memory="exp:0.9"),
)


@dataclass(frozen=True)
class Workload:
    """A problem, how many runs are trained at once on a core, and how many steps make a round."""

    name: str
    problem: str
    runs: int
    steps: int
    eager_steps: int
    full: bool = False
    target: float = 1.0
    one_seed: bool = False  # runs see the same minibatches, as in the groups that the engine makes


WORKLOADS = {
    each.name: each
    for each in (
        Workload("covtype", "covtype-softmax", 350, 300, 1500, target=40),
        Workload("covtype-full", "covtype-softmax", 70, 1, 3, full=True, target=4),
        Workload("mlp", "fashion-mlp", 8, 150, 600, target=1.6),
        Workload("autoencoder", "mnist-autoencoder", 1, 60, 60),
        Workload("cnn", "cifar10-cnn", 7, 12, 60, target=1.8, one_seed=True),
        Workload("transformer", "char-transformer", 4, 60, 200, target=1.3),
    )
}


def runs_of(work: Workload, problem: Problem, count: int, first_seed: int = 0) -> tuple[Run, ...]:
    """Runs of all methods in turn; a single one is MemSGD's."""
    facts = facts_about(ProblemChoice(work.problem), problem)
    recipes = [METHODS[3]] if count == 1 else [METHODS[i % len(METHODS)] for i in range(count)]
    batch = None if work.full else problem.batch_size
    return tuple(
        Run(
            *(facts.name, facts.fingerprint, facts.examples, None, batch, 10**6, (0, 10**6)),
            *((metric_of(problem),), recipe, 0.01, first_seed if work.one_seed else first_seed + i),
        )
        for i, recipe in enumerate(recipes)
    )


def plain_torch(work: Workload, problem: Problem, seed: int) -> tuple[torch.nn.Module, Callable[[int], None]]:
    """A model, and a function that takes its step k, written as one writes it by hand."""
    model = problem.model(initial_seed(problem.name, seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=MOMENTUM, weight_decay=problem.l2)
    inputs, targets = problem.train
    order = None if work.full else MinibatchOrder(problem.name, problem.examples, problem.batch_size, [seed])

    def step(k: int) -> None:
        optimizer.zero_grad()
        if order is None:
            problem.loss(model(inputs), targets).backward()
        else:
            rows = order.at(k)[0]
            problem.loss(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()

    return model, step


def metric_of(problem: Problem) -> str:
    """The loss over all training examples, or over those for validation if there are any."""
    return "loss" if problem.validation is None else "validation_loss"


def check(work: Workload, problem: Problem) -> None:
    """Refuse to compare the speeds of different things."""
    steps = 2 if work.full else 20
    runs = runs_of(work, problem, max(2, work.runs) if work.runs > 1 else 1)
    runs = (*runs[:1], *(run for run in runs[1:2])) if work.runs > 1 else (_with(runs[0], METHODS[1]),)
    training = Training(problem, runs)
    model, step = plain_torch(work, problem, runs[-1].seed)
    for k in range(steps):
        training.step()
        step(k)
    metric = metric_of(problem)
    ours = float(training.evaluate([metric]).values[metric][-1])
    theirs = problem.evaluate({n: p.detach() for n, p in model.named_parameters()}, metrics=[metric])[metric]
    if abs(ours - theirs) > 1e-4 * abs(theirs):
        raise SystemExit(f"{work.name}: the engine reaches the loss {ours} and plain torch {theirs}.")


def _with(run: Run, recipe: Recipe) -> Run:
    return Run.from_dict({**run.to_dict(), **recipe.to_dict()})


def spent(step: Callable[[int], None], first: int, steps: int) -> float:
    """Seconds of the processor for some steps."""
    began = time.process_time()
    for k in range(first, first + steps):
        step(k)
    return time.process_time() - began


def one_core(work: Workload, problem: Problem, rounds: int) -> tuple[list[float], list[float]]:
    """Run-steps per second of the processor's time: the engine's and plain torch's, round by round."""
    training = Training(problem, runs_of(work, problem, work.runs))
    _, plain = plain_torch(work, problem, 0)
    spent(plain, 0, 1)
    training.step()
    ours, theirs = [], []
    for i in range(rounds):
        ours.append(work.runs * work.steps / spent(lambda _: training.step(), 0, work.steps))
        theirs.append(work.eager_steps / spent(plain, 1 + i * work.eager_steps, work.eager_steps))
    return ours, theirs


def two_cores(work: Workload, rounds: int) -> list[float]:
    """Speed of two processes over that of one, by the wall, round by round."""
    context = mp.get_context("spawn")
    together = context.Barrier(2)
    found = []
    pipes, processes = [], []
    os.sched_setaffinity(0, CORES)
    for i, core in enumerate(CORES[:2]):
        ours, theirs = context.Pipe()
        process = context.Process(target=_both, args=(work, core, 1000 * i, together, rounds, theirs, i == 0))
        process.start()
        pipes.append(ours)
        processes.append(process)
    for _ in range(rounds):
        solo = pipes[0].recv()
        pair = max(pipe.recv() for pipe in pipes)
        found.append(2 * solo / pair)
    for process in processes:
        process.join()
    os.sched_setaffinity(0, {CORES[-1]})
    return found


def _both(work: Workload, core: int, first_seed: int, barrier: Barrier, rounds: int, pipe: object, leads: bool) -> None:
    """A round: the leader alone, then both."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    problem = ProblemChoice(work.problem).load()
    training = Training(problem, runs_of(work, problem, work.runs, first_seed))
    training.step()

    def timed() -> float:
        began = time.perf_counter()
        for _ in range(work.steps):
            training.step()
        return time.perf_counter() - began

    for _ in range(rounds):
        barrier.wait()
        if leads:
            pipe.send(timed())  # type: ignore[attr-defined]  # a Connection
        barrier.wait()
        pipe.send(timed())  # type: ignore[attr-defined]


def shown(values: list[float], digits: int) -> str:
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"among {', '.join(WORKLOADS)}; all unless given"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="write the table, as Markdown")
    args = parser.parse_args()
    unknown = [name for name in args.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; known: {', '.join(WORKLOADS)}")
    torch.set_num_threads(1)
    lines = [
        "| workload | runs per core | plain torch, steps/s | engine, run-steps/s | ratio | two cores / one |",
        "|---|---|---|---|---|---|",
    ]
    for name in args.workloads or WORKLOADS:
        work = WORKLOADS[name]
        problem = ProblemChoice(work.problem).load()
        check(work, problem)
        ours, theirs = one_core(work, problem, args.rounds)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        scaling = two_cores(work, args.rounds) if len(CORES) > 1 else []
        speed = f"{statistics.median(ours):,.{1 if work.full else 0}f}"
        plain = f"{statistics.median(theirs):,.{1 if work.full else 0}f}"
        cores = shown(scaling, 2) if scaling else ""
        lines.append(f"| {name} | {work.runs} | {plain} | {speed} | {shown(ratios, 2)} | {cores} |")
        print(lines[-1], flush=True)
    if args.out is not None:
        with written_whole(args.out) as unfinished:
            unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
