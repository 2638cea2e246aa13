r"""Path-steps per second of memgrad.dynamics.simulate beside diffrax, torchsde and the bare normal numbers.

    pip install 'memgrad[bench]'                  # diffrax and torchsde; a peer that is missing is skipped
    python benchmarks/sde_paths.py                # about three minutes on an idle machine
    python benchmarks/sde_paths.py --repeats 3 --out table.md

All simulate dX = V dt, dV = -(3/t) (V + X) dt - (3/t) dB in float64: memory t^3 on the quadratic x^2/2 from X = 1. The
peers begin at t = 3 dt because their coefficients divide by t; ours begins at 0. All take the same number of steps.
Each runs with the number of paths at which it is fastest, which is measured first, and in the fastest layout that we
know of. Compilation is not counted. Means and variances at the end are compared with the exact ones before a time is
accepted.

The process is pinned to one core, and the contenders take turns. Times are processor times, because other processes on
the same core lengthen wall-clock times. The rows with two threads may use two cores and are timed by the wall clock.
"""

from __future__ import annotations

import os
import time

CORES = os.sched_getaffinity(0)
ONE_CORE = {max(CORES)}
os.sched_setaffinity(0, ONE_CORE)  # before torch and XLA start their threads, which stay where they were started

import argparse  # noqa: E402
from collections.abc import Callable  # noqa: E402
from concurrent.futures import ThreadPoolExecutor  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from scipy.integrate import solve_ivp  # noqa: E402

from memgrad.dynamics import MemoryFlow, simulate  # noqa: E402
from memgrad.files import written_whole  # noqa: E402

BEGAN = time.perf_counter()
P, DT, STEPS = 3.0, 1e-3, 200
START = 3 * DT  # of the peers
BLOCK = 8192  # normal numbers drawn at once: 64 kB

Sample = tuple[Any, Any] | None  # positions and velocities at the end, if any
Run = Callable[[int], Sample]  # from a seed


@dataclass
class Contender:
    """Something to time: who it is, how its paths lie, and how it is made for a number of paths."""

    name: str
    layout: str
    make: Callable[[int], Run]
    start: float = START
    threads: int = 1
    paths: int = 0
    run: Run | None = None
    processor: list[float] = field(default_factory=list)  # seconds per path-step, one entry per round
    wall: list[float] = field(default_factory=list)
    variance: str = ""

    def choose_paths(self, numbers: list[int]) -> None:
        """Take the number of paths that needs the least time per path-step."""
        best = np.inf
        for paths in numbers:
            run = self.make(paths)
            run(0)  # compiles
            taken = min(seconds(run, paths, max(numbers))[0] for _ in range(2))
            if taken < best:
                best, self.paths, self.run = taken, paths, run
        say(f"{self.name}, {self.layout}: best with {self.paths:,} paths, {1e-6 / best:.1f} M path-steps/s")

    def play(self, work: int) -> None:
        """One round."""
        assert self.run is not None
        os.sched_setaffinity(0, CORES if self.threads > 1 else ONE_CORE)
        processor, wall = seconds(self.run, self.paths, work)
        os.sched_setaffinity(0, ONE_CORE)
        self.processor.append(processor)
        self.wall.append(wall)

    def check(self) -> None:
        """Refuse to compare the speeds of different things: beyond 4 standard errors and the first order in dt."""
        assert self.run is not None
        sample = self.run(0)
        if sample is None:
            return
        x, v = (np.asarray(part).reshape(-1) for part in sample)
        end = self.start + STEPS * DT
        exact = exact_moments(self.start, end)
        found = np.array([x.mean(), v.mean(), x.var(), v.var()])
        errors = np.sqrt(np.array([exact[2], exact[3], 2 * exact[2] ** 2, 2 * exact[3] ** 2]) / len(x))
        if np.any(np.abs(found - exact) > 4 * errors + P * DT / end * np.maximum(np.abs(exact), 1)):
            raise SystemExit(
                f"{self.name} ({self.layout}) simulates something else: means and variances of X and V are {found}, "
                f"not {exact}, with standard errors {errors}."
            )
        self.variance = f"{100 * (found[3] / exact[3] - 1):+.1f} ± {100 * np.sqrt(2 / len(x)):.1f}"


def seconds(run: Run, paths: int, work: int) -> tuple[float, float]:
    """Processor and wall-clock time per path-step, over enough runs for `work` paths: a short run would flatter."""
    calls = max(1, work // paths)
    processor, wall = time.process_time(), time.perf_counter()
    for seed in range(calls):
        run(seed)
    done = calls * paths * STEPS
    return (time.process_time() - processor) / done, (time.perf_counter() - wall) / done


def say(line: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:4.0f} s] {line}", flush=True)


def bare_normals(threads: int) -> Callable[[int], Run]:
    def make(paths: int) -> Run:
        blocks = paths * STEPS // threads // BLOCK

        def draw(seed: int) -> None:
            stream, block = np.random.default_rng(seed), np.empty(BLOCK)
            for _ in range(blocks):
                stream.standard_normal(out=block)

        def run(seed: int) -> Sample:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(draw, range(seed, seed + threads)))
            return None

        return run

    return make


def ours(threads: int) -> Callable[[int], Run]:
    flow = MemoryFlow(f"poly:{P:g}", gradient=lambda x: x, noise=1.0)

    def make(paths: int) -> Run:
        def run(seed: int) -> Sample:
            ensemble = simulate(
                flow, [STEPS * DT], 1.0, paths=paths, dt=DT, seed=seed, scheme="exact", threads=threads, keep_paths=True
            )
            return ensemble.x, ensemble.v

        return run

    return make


def contenders_of_diffrax() -> list[Contender]:
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def solve(drift: Any, noise: Any, solver: Any, y0: Any) -> Any:
        terms = diffrax.MultiTerm(diffrax.ODETerm(drift), noise)
        # The cheapest that diffrax offers: no steps kept for a backward pass, no check for failed steps.
        return diffrax.diffeqsolve(
            terms, solver, START, START + STEPS * DT, DT, y0, max_steps=None, throw=False, adjoint=diffrax.ForwardMode()
        ).ys

    class VelocityNoise(diffrax.ControlTerm):
        def prod(self, vf: Any, control: Any) -> Any:
            return jnp.zeros_like(control), vf * control

    def together(solver: Any) -> Callable[[int], Run]:
        def make(paths: int) -> Run:
            @jax.jit
            def all_paths(key: Any) -> Any:
                motion = diffrax.UnsafeBrownianPath((paths,), key)
                x, v = solve(
                    lambda t, y, _: (y[1], -(P / t) * (y[1] + y[0])),
                    VelocityNoise(lambda t, *_: -P / t, motion),
                    solver,
                    (jnp.ones(paths), jnp.zeros(paths)),
                )
                return x[-1], v[-1]

            return lambda seed: jax.block_until_ready(all_paths(jax.random.key(seed)))

        return make

    def vmapped(solver: Any) -> Callable[[int], Run]:
        def one_path(key: Any) -> Any:
            motion = diffrax.UnsafeBrownianPath((), key)
            y = solve(
                lambda t, y, _: jnp.stack([y[1], -(P / t) * (y[1] + y[0])]),
                diffrax.ControlTerm(lambda t, *_: jnp.array([0.0, -P]) / t, motion),
                solver,
                jnp.array([1.0, 0.0]),
            )
            return y[-1, 0], y[-1, 1]

        def make(paths: int) -> Run:
            all_paths = jax.jit(lambda key: jax.vmap(one_path)(jax.random.split(key, paths)))
            return lambda seed: jax.block_until_ready(all_paths(jax.random.key(seed)))

        return make

    # ItoMilstein makes matrices of paths x paths where all paths are one state, so it must be vmapped.
    return [
        Contender("diffrax Euler", "one state of all paths, own product with the noise", together(diffrax.Euler())),
        Contender("diffrax Euler", "`vmap` over keys", vmapped(diffrax.Euler())),
        Contender("diffrax ItoMilstein", "`vmap` over keys", vmapped(diffrax.ItoMilstein())),
    ]


def contenders_of_torchsde() -> list[Contender]:
    import torch
    import torchsde

    torch.set_num_threads(1)

    class Equation(torch.nn.Module):
        noise_type, sde_type = "additive", "ito"

        def f(self, t: Any, y: Any) -> Any:
            x, v = y[:, 0], y[:, 1]
            return torch.stack((v, -(P / t) * (v + x)), 1)

        def g(self, t: Any, y: Any) -> Any:
            return self.g_prod(t, y, torch.ones_like(y[:, :1]))[:, :, None]

        def g_prod(self, t: Any, y: Any, v: Any) -> Any:
            push = torch.zeros_like(y)
            push[:, 1] = v[:, 0] * (-P / t)
            return push

    def batch(method: str) -> Callable[[int], Run]:
        def make(paths: int) -> Run:
            def run(seed: int) -> Sample:
                span = torch.tensor([START, START + STEPS * DT], dtype=torch.float64)
                y0 = torch.tensor([[1.0], [0.0]], dtype=torch.float64).repeat(1, paths).T
                # Told dt, the motion builds the right tree at once; it is twice as slow beyond 100 steps otherwise.
                motion = torchsde.BrownianInterval(
                    *span.tolist(), size=(paths, 1), dtype=torch.float64, entropy=seed, dt=DT
                )
                with torch.no_grad():
                    y = torchsde.sdeint(Equation(), y0, span, bm=motion, method=method, dt=DT)
                return y[-1, :, 0].numpy(), y[-1, :, 1].numpy()

            return run

        return make

    return [
        Contender("torchsde euler", "one batch, own product with the noise", batch("euler")),
        Contender("torchsde milstein", "one batch, own product with the noise", batch("milstein")),
    ]


def exact_moments(start: float, end: float) -> Any:
    """Means of X and V, then their variances, by the moment equations of the linear SDE from X = 1, V = 0 at start."""

    def rate(t: float, moments: Any) -> list[float]:
        x, v, xx, xv, vv = moments
        a = P / t
        return [v, -a * (v + x), 2 * xv, vv - a * (xv + xx), -2 * a * (vv + xv) + a * a]

    return solve_ivp(rate, (start, end), [1.0, 0, 0, 0, 0], rtol=1e-9, atol=1e-12).y[[0, 1, 2, 4], -1]


def ratio(one: list[float], other: list[float]) -> str:
    """The median over rounds, and quartiles."""
    low, middle, high = np.percentile(np.array(one) / np.array(other), [25, 50, 75])
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def speed(taken: list[float]) -> str:
    return f"{1e-6 / np.median(taken):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--paths", nargs="+", type=int, default=[10_000, 30_000, 100_000], help="numbers to choose from"
    )
    parser.add_argument("--repeats", type=int, default=7, help="rounds in which all take turns (7)")
    parser.add_argument("--out", type=Path, help="write the table to this file as well")
    options = parser.parse_args()

    # Ours begins at 0. What happens before 1e-7 moves the moments by as little.
    exact = Contender("memgrad `exact`", "arrays of 8192 paths", ours(1), start=1e-7)
    bare = Contender("bare normals", f"`standard_normal`, {BLOCK} at once", bare_normals(1))
    singles = [bare, exact]
    for name, make in {"diffrax": contenders_of_diffrax, "torchsde": contenders_of_torchsde}.items():
        try:
            singles += make()
        except ImportError as error:
            say(f"{name} is skipped: {error}. It comes with pip install 'memgrad[bench]'.")
    for contender in singles:
        contender.choose_paths(options.paths)
        contender.check()
    say("all simulate the same equation")

    most, doubles = max(options.paths), []
    if len(CORES) > 1:
        doubles = [
            Contender(one.name, "", make, threads=2, paths=most, run=make(most))
            for one, make in ((bare, bare_normals(2)), (exact, ours(2)))
        ]
    for round_ in range(options.repeats):
        for contender in singles + doubles:
            contender.play(most)
        say(f"round {round_ + 1} of {options.repeats}")

    table = [
        "| one core | layout | paths | million path-steps/s | time / ours | variance of V - exact, % |",
        "|---|---|---|---|---|---|",
    ]
    table += [
        f"| {one.name} | {one.layout} | {one.paths:,} | {speed(one.processor)} | "
        f"{ratio(one.processor, exact.processor)} | {one.variance} |"
        for one in singles
    ]
    if doubles:
        table += [
            "",
            "| two threads on two cores | wall, one thread / two | processor, two threads / one |",
            "|---|---|---|",
        ]
        table += [
            f"| {two.name} | {ratio(one.wall, two.wall)} | {ratio(two.processor, one.processor)} |"
            for one, two in zip((bare, exact), doubles, strict=True)
        ]
    print("\n".join(table))
    print(f"time / bare normals: exact {ratio(exact.processor, bare.processor)}")
    if options.out:
        with written_whole(options.out) as file:
            file.write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
