"""Settings of the paper's experiments: their values as published figures state them, and that each one is used."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from memgrad.dynamics import simulate_together
from memgrad.paper import figures
from memgrad.paper.catalogue import SYNTHETIC
from memgrad.paper.continuous import (
    contenders,
    hb_amplification,
    quadratic_variance,
    time_warping,
    velocities,
    velocity_variance,
)
from memgrad.paper.odes import momentum_and_memory_odes
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    OdesSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    Settings,
    SmoothingSettings,
    TimeWarpSettings,
)
from memgrad.paper.smoothing import p_verification
from memgrad.problems.objectives import Quadratic

SU = r"$\nabla^2 f$ = diag(0.04, 0.01), $X(0)$ = (1, 1)"
PLAN = "Milstein scheme, $h$ = 0.001"
OURS = "(* our choice)"
CAPTIONS = {
    "memories": "$t$ = 6",
    "hb-amplification": f"memory $t^{{3}}$, viscosity $3/t$, {SU}, {PLAN}, $\\sigma$ = 0.02*, $T$ = 300*, means of "
    f"1000 runs*, these by the exact scheme with $h$ = 0.05*, seed 0* {OURS}",
    "time-warp": f"memory $t^{{2}}$, viscosity $3/t$, {SU}, {PLAN}, $\\sigma$ = 0.02*, $T$ = 300*, seed 0* {OURS}",
    "verif-noise": f"memory $t^{{3}}$, viscosity $3/t$, $\\nabla f$ = 1, $\\sigma$ = 10, 1000 runs, {PLAN}, $T$ = 5*, "
    f"below $T$ = 20*, seed 0* {OURS}",
    "quadratic-variance": "memory $t^{3}$, viscosity $3/t$, $\\lambda$ = 1, $\\sigma$ = 1, $X(0)$ = 1, $T$ = 20* "
    + OURS,
    "verif-noise-quadratic": "memory $t^{3}$, viscosity $3/t$, $f = \\lambda x^2/2$ with $\\lambda$ = 1, 1000 runs, "
    f"{PLAN}, $\\sigma$ = 1*, $X(0)$ = 1*, $T$ = 20*, seed 0* {OURS}",
    "bound-beta": r"$\tau$ = 0.5, $\tilde\mu$ = 10",
    "bound-beta-2": rf"$\tau$ = 0.5*, $\tilde\mu$ = 10*, $\alpha$ = 2.5* {OURS}",
    "odes": f"$p$ in (1, 2, 3, 4), exponential $\\alpha$ = 10, {SU}, RK45 (ode45), tolerances of the paper "
    "($10^{-5}$ and $10^{-10}$), paths to $t$ = 300*, losses to $t$ = 10000*, momentum solved to $t$ = 1000*, "
    f"memory to $t$ = $10^{{6}}$*, exponential by LSODA* {OURS}",
    "p-verification": "memories (poly:2, exp:0.8, inst), $f = \\sum c_i x_i^4$ with $c$ = (0.8, 0.4), $x_0$ = (1, 1), "
    "150 runs, $\\eta$ = 0.05*, $\\sigma$ = 1*, $K$ = 1000*, 95 % intervals by 1.96 standard errors*, seed 0* " + OURS,
}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_settings_are_those_of_the_published_figures(name: str) -> None:
    settings = SYNTHETIC[name].settings
    assert settings is not None
    assert settings.caption() == CAPTIONS[name]


PATHS = {"degree": 2.5, "viscosity": 2.5, "dt": 0.05, "sigma": 0.5, "seed": 1, "scheme": "splitting", "end": 1.2}
TWO: dict[str, Any] = {"spectrum": (0.05, 0.02), "x0": (1.0, 0.5)}
CHANGES: dict[str, tuple[Callable[[Any], Any], Any, dict[str, Any]]] = {
    "amplification": (
        hb_amplification,
        AmplificationSettings(end=1.0, dt=0.1, ensemble_dt=0.1, paths=3),
        {**PATHS, **TWO, "paths": 4, "ensemble_dt": 0.05},
    ),
    "time warp": (time_warping, TimeWarpSettings(end=1.0, dt=0.1), {**PATHS, **TWO}),
    "constant noise": (
        velocities,
        ConstantNoiseSettings(end=1.0, dt=0.1, runs=3),
        {**PATHS, "gradient": 2.0, "runs": 4},
    ),
    "quadratic noise": (
        velocities,
        QuadraticNoiseSettings(end=1.0, dt=0.1, runs=3),
        {**PATHS, "curvature": 2.0, "runs": 4, "x0": 2.0},
    ),
    "second moments": (
        quadratic_variance,
        SecondMomentsSettings(end=1.0),
        {"degree": 2.5, "viscosity": 2.5, "sigma": 0.5, "end": 1.2, "curvature": 2.0, "x0": 2.0},
    ),
    "variance of the velocity": (
        lambda settings: velocity_variance(settings, np.array([1.0, 2.0])),
        SecondMomentsSettings(),
        {"viscosity": 2.5, "sigma": 0.5, "curvature": 2.0},
    ),
    "odes": (
        momentum_and_memory_odes,
        OdesSettings(powers=(3.0,), path_end=2.0, loss_end=4.0, heavy_ball_end=3.0, memory_end=3.0),
        {**TWO, "powers": (2.0,), "alpha": 5.0, "method": "DOP853", "tolerances": "tight", "stiff_method": "RK45"}
        | {"path_end": 2.5, "loss_end": 5.0, "heavy_ball_end": 3.5, "memory_end": 3.5},
    ),
    "smoothing": (
        p_verification,
        SmoothingSettings(steps=4, runs=3),
        {"memories": ("poly:3", "inst"), "coefficients": (0.8, 0.5), "x0": (1.0, 0.5), "runs": 4, "lr": 0.1}
        | {"sigma": 2.0, "steps": 5, "seed": 1},
    ),
}
ELSEWHERE = {"later", "quantile"}
"""Settings of the figure alone, whose experiment does not know them."""


def numbers(result: Any) -> Iterator[Any]:
    """All arrays and numbers of a result, whatever it is made of."""
    if dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            if not isinstance(getattr(result, field.name), Settings):
                yield from numbers(getattr(result, field.name))
    elif isinstance(result, tuple):
        for part in result:
            yield from numbers(part)
    else:
        yield np.asarray(result)


@cache
def unchanged(experiment: str) -> list[Any]:
    """The result before any change, computed once."""
    run, settings, _ = CHANGES[experiment]
    return list(numbers(run(settings)))


@pytest.mark.most(25)
@pytest.mark.parametrize(
    ("experiment", "name"), [(each, name) for each, (_, _, changes) in CHANGES.items() for name in changes]
)
def test_every_setting_changes_the_result(experiment: str, name: str) -> None:
    run, settings, changes = CHANGES[experiment]
    one = unchanged(experiment)
    other = list(numbers(run(dataclasses.replace(settings, **{name: changes[name]}))))
    assert len(one) != len(other) or any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_no_setting_is_left_out_of_the_table() -> None:
    for experiment, (_, settings, changes) in CHANGES.items():
        missing = {field.name for field in dataclasses.fields(settings)} - changes.keys() - ELSEWHERE
        assert not missing or experiment == "variance of the velocity", missing


def test_mean_losses_have_the_standard_error_of_their_runs() -> None:
    settings = AmplificationSettings(end=1.0, dt=0.1, ensemble_dt=0.1, paths=9)
    found, objective = hb_amplification(settings), Quadratic(settings.spectrum)
    equations = contenders(settings, objective, settings.sigma)
    options: dict[str, Any] = {"paths": 9, "dt": 0.1, "seed": 0, "keep_paths": True}
    for ensemble, each in zip(
        simulate_together(equations, found.t, (1.0, 1.0), **options), (found.memory, found.nesterov), strict=True
    ):
        losses = objective.value(ensemble.x)
        assert each.mean == pytest.approx(losses.mean(axis=1))
        assert each.error == pytest.approx(losses.std(axis=1, ddof=1) / 3, abs=1e-15)


def test_the_figure_of_constant_noise_has_two_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, float]] = []

    def run(settings: ConstantNoiseSettings, *, progress: Any) -> Any:
        progress(1, 2)
        return settings.end

    monkeypatch.setattr(figures, "velocities", run)
    monkeypatch.setattr(figures, "_velocities", lambda *both: both)
    both = figures.constant_noise(ConstantNoiseSettings(), lambda done, total: told.append((done, total)))
    assert both == (5.0, 20.0)
    assert [done / total for done, total in told] == [0.25, 0.75]


def test_a_seed_of_zero_is_a_seed() -> None:
    entry = SYNTHETIC["p-verification"]
    assert figures._chosen_settings(entry, SmoothingSettings(seed=3), None, 0) == SmoothingSettings(seed=0)
    assert figures._chosen_settings(entry, SmoothingSettings(), SmoothingSettings(runs=9), None).runs == 9
    with pytest.raises(ValueError, match="a seed is an integer >= 0, got seed=-1"):
        figures._chosen_settings(entry, SmoothingSettings(), None, -1)
