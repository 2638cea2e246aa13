"""The time of a step beside torch.optim's: the CIFAR CNN, the autoencoder, four large layers, GPT-2's shapes.

    python benchmarks/optimizer_step.py                    # about ten minutes
    python benchmarks/optimizer_step.py --models cnn --threads 1

All optimizers take turns in one process, each after the others have written over the caches, as a model would. The
ratio is the median over the rounds of the ratio within a round, with its quartiles, because timings drift. With one
thread it is of processor time, which other programs on the machine disturb least; with more of elapsed time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from rich.progress import track

from memgrad import ADana, AdEMAMix, MemAdam, MemSGD

CNN = [(6, 3, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 400), (120,), (84, 120), (84,), (10, 84), (10,)]
WIDTHS = [784, 1000, 500, 250, 30, 250, 500, 1000, 784]
AUTOENCODER = [shape for a, b in pairwise(WIDTHS) for shape in ((b, a), (b,))]
BLOCK = [
    (768,),
    (768,),
    (2304, 768),
    (2304,),
    (768, 768),
    (768,),
    (768,),
    (768,),
    (3072, 768),
    (3072,),
    (768, 3072),
    (768,),
]
LAYERS = [(2048, 2048)] * 4
GPT2 = [(50257, 768), (1024, 768), *BLOCK * 12, (768,), (768,)]
MODELS: dict[str, Sequence[tuple[int, ...]]] = {"cnn": CNN, "autoencoder": AUTOENCODER, "layers": LAYERS, "gpt2": GPT2}
MOST_COMPILED = 100
"""Tensors up to which a step is compiled here: it takes seconds for twenty and minutes for GPT-2's 148."""
CALLS = 500_000
"""Elements that are updated between two looks at the clock: a small model takes several steps."""

MANY = 50_000_000
"""Parameters from which pairs are measured one after the other: the states of all optimizers would not fit."""

Make = Callable[[Any], torch.optim.Optimizer]


@dataclass(frozen=True)
class Row:
    """An optimizer, and the one of torch that it is compared with."""

    name: str
    make: Make
    base: str | None = None
    dtype: torch.dtype = torch.float32


FLOAT32: dict[str, Any] = {"state_dtype": torch.float32}
BFLOAT16 = torch.bfloat16
ROWS = [
    Row("SGD(fused)", lambda p: torch.optim.SGD(p, momentum=0.9, fused=True)),
    Row("SGD(foreach)", lambda p: torch.optim.SGD(p, momentum=0.9, foreach=True)),
    Row("Adam(fused)", lambda p: torch.optim.Adam(p, fused=True)),
    Row("Adam(foreach)", lambda p: torch.optim.Adam(p, foreach=True)),
    Row("Adam, bfloat16", torch.optim.Adam, dtype=BFLOAT16),
    Row("MemSGD", MemSGD, "SGD(fused)"),
    Row("MemSGD, foreach", lambda p: MemSGD(p, foreach=True), "SGD(foreach)"),
    Row("MemSGD inst + poly", lambda p: MemSGD(p, memory="inst + (1+k)^0.15*poly:8"), "SGD(fused)"),
    Row("MemAdam", MemAdam, "Adam(fused)"),
    Row("MemAdam, foreach", lambda p: MemAdam(p, foreach=True), "Adam(foreach)"),
    Row("MemAdam, bfloat16, state of float32", lambda p: MemAdam(p, **FLOAT32), "Adam, bfloat16", BFLOAT16),
    Row("ADana", ADana, "Adam(fused)"),
    Row("ADana, compiled", lambda p: ADana(p, compiled=True), "Adam(fused)"),
    Row("ADana, bfloat16, state of float32", lambda p: ADana(p, **FLOAT32), "Adam, bfloat16", BFLOAT16),
    Row("AdEMAMix", AdEMAMix, "Adam(fused)"),
    Row("AdEMAMix, compiled", lambda p: AdEMAMix(p, compiled=True), "Adam(fused)"),
]
try:  # not a dependency: the step that others publish, if it is installed
    from pytorch_optimizer import AdEMAMix as Theirs
except ImportError:
    pass
else:
    ROWS.append(Row("pytorch_optimizer's AdEMAMix", Theirs, "Adam(fused)"))


def parameters(shapes: Sequence[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    tensors = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    for tensor in tensors:
        tensor.grad = torch.randn(tensor.shape).to(dtype)
    return tensors


def timed(
    rows: Sequence[Row], shapes: Sequence[tuple[int, ...]], what: str, rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """The times of a step of each optimizer, one per round."""
    # The same tensors for all: where tensors lie in memory changes times by some percent.
    tensors = {dtype: parameters(shapes, dtype) for dtype in {row.dtype for row in rows}}
    optimizers = {row.name: row.make(tensors[row.dtype]) for row in rows}
    calls = max(1, CALLS // sum(torch.Size(shape).numel() for shape in shapes))
    times: dict[str, list[float]] = {row.name: [] for row in rows}
    for each in track(range(rounds + 2), description=what, transient=True):
        for name, optimizer in optimizers.items():
            start = clock()
            for _ in range(calls):
                optimizer.step()
            if each >= 2:  # the first allocate and compile
                times[name].append((clock() - start) / calls)
    return times


def measure(model: str, threads: int, rounds: int) -> list[str]:
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    shapes = MODELS[model]
    size = sum(torch.Size(shape).numel() for shape in shapes)
    rows = [row for row in ROWS if "compiled" not in row.name or len(shapes) <= MOST_COMPILED]
    pairs = [[base, row] for row in rows for base in rows if row.base == base.name]
    table = []
    for lot in [rows] if size < MANY else pairs:
        times = timed(lot, shapes, f"{model}, threads: {threads}, {lot[-1].name}", rounds, clock)
        for row in lot:
            if row.base is None:
                continue
            ratios = [ours / theirs for ours, theirs in zip(times[row.name], times[row.base], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            t, o = (1e6 * statistics.median(times[name]) for name in (row.base, row.name))
            table.append(
                f"| {model} ({size:,}) | {threads} | {row.name} | {row.base} | {t:,.0f} | {o:,.0f} | {middle:.2f} | "
                f"{low:.2f} to {high:.2f} |"
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, help="[default: 200 for the CNN, 40 up to 10 million parameters, or 15]")
    parser.add_argument("--out", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    table = [
        "| model (parameters) | threads | optimizer | of torch | torch's, µs | its own, µs | ratio | quartiles |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model in options.models:
        for threads in options.threads:
            table += measure(model, threads, options.rounds or {"cnn": 200, "autoencoder": 40}.get(model, 15))
    print("\n".join(table))
    if options.out:
        options.out.write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
