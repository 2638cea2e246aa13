"""The time of one optimizer step beside torch.optim's, on three models: the CIFAR CNN, the autoencoder, GPT-2's shapes.

    python benchmarks/optimizer_step.py                    # about ten minutes
    python benchmarks/optimizer_step.py --models cnn --threads 1

Ours and torch's take turns in one process, and the ratio of medians is reported, because timings drift. Gigabytes per
second count what a step must move (each tensor read or written once) and stand beside a measured copy of tensors as
large as the model, whose speed is the limit of a step that does not fit into a cache.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from rich.progress import track

from memgrad import MemAdam, MemSGD

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
MODELS = {"cnn": CNN, "autoencoder": AUTOENCODER, "gpt2": [(50257, 768), (1024, 768), *BLOCK * 12, (768,), (768,)]}
ADANA = {"memory": "inst + (1+k)^0.15*poly:8", "second_memory": "poly:8"}
ADEMAMIX = {"memory": "exp:0.9 + 5*cold*exp:0.9999", "second_memory": "exp:0.999"}
MOST_COMPILED = 100
"""Tensors up to which a step is compiled here: it takes seconds for twenty and minutes for GPT-2's 148."""


def fused_adam(params: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(params, fused=True)


# name -> (torch's, ours, tensors of parameter size that a step moves)
PAIRS: dict[str, tuple[Callable[..., torch.optim.Optimizer], Callable[..., torch.optim.Optimizer], int]] = {
    "MemSGD / SGD(fused)": (lambda p: torch.optim.SGD(p, momentum=0.9, fused=True), MemSGD, 5),
    "MemSGD / SGD(foreach), both foreach": (
        lambda p: torch.optim.SGD(p, momentum=0.9, foreach=True),
        lambda p: MemSGD(p, foreach=True),
        5,
    ),
    "MemAdam / Adam(fused)": (lambda p: torch.optim.Adam(p, fused=True), MemAdam, 7),
    "MemAdam / Adam(foreach), both foreach": (
        lambda p: torch.optim.Adam(p, foreach=True),
        lambda p: MemAdam(p, foreach=True),
        7,
    ),
    "MemSGD inst + poly / SGD(fused)": (
        lambda p: torch.optim.SGD(p, momentum=0.9, fused=True),
        lambda p: MemSGD(p, memory=ADANA["memory"]),
        5,
    ),
    "ADana's step / Adam(fused)": (fused_adam, lambda p: MemAdam(p, **ADANA), 7),
    "ADana's step, compiled / Adam(fused)": (fused_adam, lambda p: MemAdam(p, **ADANA, compiled=True), 7),
    "AdEMAMix's step / Adam(fused)": (fused_adam, lambda p: MemAdam(p, **ADEMAMIX), 9),
    "AdEMAMix's step, compiled / Adam(fused)": (fused_adam, lambda p: MemAdam(p, **ADEMAMIX, compiled=True), 9),
}
try:  # not a dependency: the step that others publish, if it is installed
    from pytorch_optimizer import AdEMAMix
except ImportError:
    pass
else:
    PAIRS["pytorch_optimizer's AdEMAMix (not ours) / Adam(fused)"] = (fused_adam, AdEMAMix, 9)


def parameters(shapes: list[tuple[int, ...]]) -> list[torch.nn.Parameter]:
    tensors = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    for tensor in tensors:
        tensor.grad = torch.randn_like(tensor)
    return tensors


def seconds(step: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - start) / calls


def measure(model: str, threads: int, repeats: int) -> list[str]:
    torch.set_num_threads(threads)
    shapes = MODELS[model]
    size = sum(torch.Size(shape).numel() for shape in shapes)
    calls = max(1, 2_000_000 // size)
    repeats *= 10 if size < 1_000_000 else 1  # short steps are the noisiest
    source, target = torch.randn(size), torch.empty(size)
    copies = [seconds(lambda: target.copy_(source), calls) for _ in range(repeats)]
    copy_speed = 2 * 4 * size / statistics.median(copies) / 1e9
    rows = []
    for name, (make_theirs, make_ours, moved) in PAIRS.items():
        if "compiled" in name and len(shapes) > MOST_COMPILED:
            continue
        tensors = parameters(shapes)  # the same for both: where tensors lie in memory changes times by some percent
        theirs, ours = make_theirs(tensors), make_ours(tensors)
        times: tuple[list[float], list[float]] = ([], [])
        for repeat in track(range(repeats + 2), description=f"{model}, {threads} threads, {name}", transient=True):
            for optimizer, taken in zip((theirs, ours), times, strict=True):
                elapsed = seconds(optimizer.step, calls)
                if repeat >= 2:  # the first allocate
                    taken.append(elapsed)
        t, o = (statistics.median(taken) for taken in times)
        speed = moved * 4 * size / o / 1e9
        rows.append(
            f"| {model} ({size:,}) | {threads} | {name} | {1e6 * t:,.0f} | {1e6 * o:,.0f} | {o / t:.2f} | "
            f"{speed:.1f} | {copy_speed:.1f} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    table = [
        "| model (parameters) | threads | ours / torch's | torch's, µs | ours, µs | ratio | ours, GB/s | copy, GB/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for model in options.models:
        for threads in options.threads:
            table += measure(model, threads, options.repeats)
    print("\n".join(table))
    if options.out:
        options.out.write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
