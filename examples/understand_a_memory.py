"""What does a memory do under noise? Its passport, many simulated paths, the exact moments and the proven bound.

    python examples/understand_a_memory.py --degree 3 --figure memory.png

The function is the paper's quadratic, f = 0.02 x1^2 + 0.005 x2^2 from (1, 1). Memory t^p is simulated beside Nesterov's
equation, driven by the same Brownian motion: Nesterov's noise grows forever, the memory's does not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from memgrad import Polynomial
from memgrad.dynamics import HeavyBallFlow, MemoryFlow, moments, simulate_together
from memgrad.figures import ensembles, save
from memgrad.problems.objectives import SU
from memgrad.theory import polynomial


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degree", type=float, default=3.0, help="degree p of the memory t^p, >= 1.5 (default: 3)")
    parser.add_argument("--noise", type=float, default=0.02, help="standard deviation sigma (default: 0.02)")
    parser.add_argument("--paths", type=int, default=500, help="paths of each equation (default: 500)")
    parser.add_argument("--until", type=float, default=200.0, help="end of the time (default: 200)")
    parser.add_argument("--figure", type=Path, help="write a figure: .png, .svg or .pdf")
    options = parser.parse_args()

    memory, x0 = Polynomial(options.degree), np.array([1.0, 1.0])
    print(memory.passport(1000), end="\n\n")

    hessian = SU.hessian(x0)
    flows = {
        f"memory t^{options.degree:g}": MemoryFlow(memory, gradient=SU.gradient, noise=options.noise, hessian=hessian),
        "Nesterov, 3/t": HeavyBallFlow("3/t", gradient=SU.gradient, noise=options.noise, hessian=hessian),
    }
    found = simulate_together(
        list(flows.values()),
        options.until,
        x0,
        paths=options.paths,
        dt=options.until / 4000,
        seed=0,
        observe={"f": lambda x, _: SU.value(x)},
    )
    exact = [moments(flow, found[0].t, x0) for flow in flows.values()]
    # tau = 2: on a quadratic <grad f, x - x*> is twice f - f*.
    bound = polynomial(
        t=options.until, degree=options.degree, distance=np.sqrt(2), noise=options.noise, dimension=2, tau=2.0
    )
    for name, ensemble, known in zip(flows, found, exact, strict=True):
        loss = ensemble.observed["f"]
        error = 2 * loss.sd[-1] / np.sqrt(options.paths)
        print(f"{name}: E f = {loss.mean[-1]:.2e} +- {error:.0e}, exactly {known.expected_loss(hessian)[-1]:.2e}")
    print(f"proven for the memory: E f <= {bound.value:.2e} ({bound.theorem})")
    if options.figure:
        drawn = ensembles(dict(zip(flows, found, strict=True)), dict(zip(flows, exact, strict=True)))
        print(f"wrote {save(drawn, options.figure)}")


if __name__ == "__main__":
    main()
