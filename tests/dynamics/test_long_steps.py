"""Steps that are too long for the curvature: paths would leave the minimum, and stay finite for a long time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from memgrad.dynamics import Equation, GradientFlow, HeavyBallFlow, MemoryFlow, MixtureFlow, simulate, simulate_together
from memgrad.memory import Exponential, Polynomial

H = 0.1
LIMITS: dict[str, tuple[Callable[..., Equation], float]] = {
    # x - h lam x turns and grows from h lam = 2 on.
    "gradient flow": (GradientFlow, 2 / H),
    # Memories that forget at once are gradient flow.
    "fast exponential memory": (lambda **given: MemoryFlow(Exponential.from_alpha(1e14), **given), 2 / H),
    "polynomial memory of a huge degree": (lambda **given: MemoryFlow(Polynomial(1e14), **given), 2 / H),
    "the newest gradient twice": (lambda **given: MixtureFlow("poly:1e14", instant=1.0, **given), 1 / H),
    # Without friction the scheme is leapfrog, stable up to h^2 lam = 4.
    "a heavy ball without friction": (lambda **given: HeavyBallFlow(1e-12, **given), 4 / H**2),
}


def equation(name: str, curvature: float) -> Equation:
    make, _ = LIMITS[name]
    return make(gradient=lambda x: curvature * x, noise=1.0, hessian=curvature)


@pytest.mark.parametrize("name", LIMITS)
def test_a_step_is_refused_from_the_limit_of_the_scheme_on(name: str) -> None:
    limit = LIMITS[name][1]
    assert simulate(equation(name, 0.999 * limit), [2.0], 1.0, paths=2, dt=H, seed=0).success
    with pytest.raises(ValueError, match=r"dt=0\.1 is too long .* Take a step dt <= 0\.05\."):
        simulate(equation(name, 1.001 * limit), [2.0], 1.0, paths=2, dt=H, seed=0)


@pytest.mark.parametrize("scheme", ["exact", "splitting", "euler-maruyama", "milstein"])
def test_every_scheme_of_a_first_order_flow_is_refused(scheme: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        simulate(equation("gradient flow", 30.0), [5.0], 1.0, paths=2, dt=H, seed=0, scheme=scheme)


@pytest.mark.parametrize("memory", ["poly:2", "poly:100", "exp:0.9"])
def test_the_step_that_is_offered_keeps_paths_at_the_minimum(memory: str) -> None:
    flow = MemoryFlow(memory, gradient=lambda x: 1e3 * x, noise=0.0, hessian=1e3)
    with pytest.raises(ValueError, match="too long") as refusal:
        simulate(flow, [5.0], 1.0, paths=2, dt=H, seed=0)
    dt = 5.0 / np.ceil(5.0 / float(str(refusal.value).rsplit("dt <= ", 1)[1].rstrip(".")))
    assert abs(simulate(flow, [5.0], 1.0, paths=1, dt=dt, seed=0).mean_x[0, 0]) < 1


def test_the_largest_curvature_of_several_flows_counts() -> None:
    hessian = np.diag([1.0, 30.0])
    slow = HeavyBallFlow("3/t", gradient=lambda x: x @ hessian, hessian=hessian)
    steep = GradientFlow(gradient=lambda x: x @ hessian, hessian=hessian)
    assert simulate(slow, [1.0], [1.0, 1.0], paths=2, dt=H, seed=0).success
    with pytest.raises(ValueError, match=r"GD.* with the curvature 30"):
        simulate_together([slow, steep], [1.0], [1.0, 1.0], paths=2, dt=H, seed=0)
