"""Measuring a problem: on quadratics whose spectrum, noise and loss curve are known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.experiments.measuring.lanczos import lanczos
from memgrad.experiments.measuring.measure import Measured, measure
from memgrad.experiments.measuring.products import Curvature
from memgrad.problems import Problem


def quadratic(nu: float, d: int = 120, n: int = 300) -> Problem:
    """Least squares whose Hessian has exactly the eigenvalues j^-nu, in rotated directions."""
    g = torch.Generator().manual_seed(0)
    columns = torch.linalg.qr(torch.randn(n, d, generator=g, dtype=torch.float64))[0]
    rotation = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64))[0]
    j = torch.arange(1, d + 1, dtype=torch.float64)
    inputs = n**0.5 * (columns * j ** (-nu / 2)) @ rotation.T
    targets = (inputs @ (rotation @ j ** ((nu / 2 - 1) / 2)))[:, None]

    def model() -> nn.Module:
        linear = nn.Linear(d, 1, bias=False)
        nn.init.zeros_(linear.weight)
        return linear

    return Problem(f"quadratic {nu:g}", (inputs, targets), model, lambda y, t: ((y - t) ** 2).mean() / 2, batch_size=8)


@pytest.mark.parametrize("matrix", ["gauss-newton", "hessian"])
@pytest.mark.parametrize("nu", [1.2, 1.5, 2.0, 3.0])
def test_a_known_decay_is_found_within_five_hundredths(nu: float, matrix: str) -> None:
    found = measure(quadratic(nu), steps=0, lanczos_steps=45, noise_batches=2, probes=3, matrix=matrix)
    assert found.nu.value == pytest.approx(nu, abs=0.05)
    assert found.eigenvalues[0] == pytest.approx(1.0, rel=1e-6)
    known = len(found.eigenvalues)
    assert known >= 15
    assert found.eigenvalues == pytest.approx(np.arange(1, known + 1.0) ** -nu, rel=1e-3)
    assert math.isnan(found.zeta.value)


def test_the_trace_and_the_counts_are_those_of_the_spectrum() -> None:
    """Over 20 probes of random signs the mean is within four standard errors."""
    found = measure(quadratic(1.5), steps=0, lanczos_steps=40, noise_batches=2, probes=20)
    exact = (np.arange(1, 121.0) ** -1.5).sum()
    error = (found.trace.high - found.trace.value) / 2.09
    assert abs(found.trace.value - exact) < 4 * error
    place = int(np.argmin(np.abs(found.density_at - 0.01)))  # 21 eigenvalues are above 0.01
    above = (np.arange(1, 121.0) ** -1.5 >= found.density_at[place]).sum()
    assert found.density_low[place] - 2 < above < found.density_high[place] + 2


def test_the_critical_batch_is_that_of_all_examples() -> None:
    problem = quadratic(1.5)
    around = Curvature(problem, problem.initial_parameters(0), 300, "hessian")
    single = torch.stack([around.gradient(torch.tensor([i])) for i in range(300)])
    full = single.mean(0)
    exact = float(((single - full) ** 2).sum(1).mean() / (full @ full))
    found = measure(problem, steps=0, lanczos_steps=3, noise_batches=200, probes=2)
    error = (found.critical_batch.high - found.critical_batch.value) / 1.97
    assert abs(found.critical_batch.value - exact) < 4 * error


def test_the_exponent_of_a_loss_curve_is_near_the_known_one() -> None:
    """zeta = 0.5 at nu = 2; 0.1 is the error of a fit with a floor over 300 steps and 120 directions."""
    found = measure(quadratic(2.0), steps=300, lanczos_steps=5, noise_batches=2, probes=2, lr=0.5)
    assert found.zeta.value == pytest.approx(0.5, abs=0.1)
    assert found.curve_loss[-1] < found.curve_loss[0]


def test_products_are_those_of_the_matrix() -> None:
    """A small network: the Hessian by torch's own, Gauss-Newton by J' H J with explicit Jacobians."""
    inputs, targets = torch.randn(6, 3, generator=torch.Generator().manual_seed(1)).double(), torch.tensor([0, 1] * 3)
    network = lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))  # noqa: E731
    problem = Problem("net", (inputs, targets), network, nn.functional.cross_entropy, l2=0.1, full_chunk=4)
    parameters = problem.initial_parameters(0)

    def all_loss(flat: torch.Tensor) -> torch.Tensor:
        return problem.batch_loss(around.tensors(flat), inputs[order], targets[order])

    order = torch.randperm(6, generator=torch.Generator().manual_seed(0))
    around = Curvature(problem, parameters, 6, "hessian")
    point = around.vector(parameters)
    hessian = torch.autograd.functional.hessian(all_loss, point)
    vector = torch.linspace(-1, 1, around.dimension, dtype=torch.float64)
    assert torch.allclose(around.product(vector), hessian @ vector, atol=1e-10)
    gauss = Curvature(problem, parameters, 6, "gauss-newton")
    jacobian = torch.autograd.functional.jacobian(lambda f: problem.outputs(gauss.tensors(f), inputs[order]), point)
    outputs = problem.outputs(parameters, inputs[order])
    bend = torch.autograd.functional.hessian(lambda y: nn.functional.cross_entropy(y, targets[order]), outputs)
    expected = torch.einsum("iap,iajb,jbq,q->p", jacobian, bend, jacobian, vector) + 0.1 * vector
    assert torch.allclose(gauss.product(vector), expected, atol=1e-10)


def test_lanczos_finds_all_of_a_small_matrix_and_stops_in_an_invariant_subspace() -> None:
    matrix = torch.diag(torch.tensor([5.0, 2.0, 2.0, -1.0], dtype=torch.float64))
    found = lanczos(lambda v: matrix @ v, torch.ones(4, dtype=torch.float64), 4)
    assert found.values == pytest.approx([5.0, 2.0, -1.0])  # 2 twice is one direction to a single probe
    assert found.weights == pytest.approx([0.25, 0.5, 0.25])


def test_a_measurement_can_be_kept() -> None:
    found = measure(quadratic(1.5), steps=20, lanczos_steps=5, noise_batches=2, probes=2, seeds=2)
    again = Measured.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()
    assert again.estimates == found.estimates
    with pytest.raises(ValueError, match="entries of Measured"):
        Measured.from_dict({"nu": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probes": 1}, "integer probes >= 2, got probes=1"),
        ({"lanczos_steps": 2}, "integer lanczos_steps >= 3"),
        ({"steps": -1}, "integer steps >= 0"),
        ({"matrix": "fisher"}, "hessian, gauss-newton, got matrix='fisher'"),
        ({"lr": 0.0}, "finite learning rate lr > 0"),
        ({"batch_size": 0}, "integer batch_size >= 1"),
        ({"lr": 1e6, "steps": 400}, r"diverged by step \d+ at lr=1e\+06: give a smaller lr"),
    ],
)
def test_bad_input_is_answered_by_name_rule_and_value(options: dict[str, Any], message: str) -> None:
    small: dict[str, Any] = {"steps": 0, "lanczos_steps": 3, "noise_batches": 2, "probes": 2}
    with pytest.raises(ValueError, match=message):
        measure(quadratic(1.5, d=20, n=30), **small | options)


OWN = """
import torch
from memgrad.problems import Problem

def problem():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 12, generator=g) * torch.arange(1, 13) ** -0.75
    return Problem("my own", (x, x.sum(1, keepdim=True)), lambda: torch.nn.Linear(12, 1), torch.nn.functional.mse_loss)
"""


def test_the_command_measures_prints_draws_and_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    words = ["spectrum", "own.py", "--steps", "30", "--probes", "2", "--lanczos", "12", "--figure", "own.svg"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert "nu of the largest eigenvalues" in answer.output
    assert (tmp_path / "own.svg").stat().st_size > 1000
    assert Measured.from_dict(json.loads((tmp_path / "my-own.spectrum.json").read_text())).problem == "my own"
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2
    assert "already exists; pass --force" in " ".join(again.output.split())
    refused = CliRunner().invoke(app, ["spectrum", "own.py", "--matrix", "fisher", "--out", "x.json"])
    assert refused.exit_code == 2
    assert "matrix='fisher'" in refused.output


def test_a_default_learning_rate_that_diverges_is_made_smaller() -> None:
    """y^4/4 - y from 0.1: its curvature there, 0.03, asks for a step that leaves for infinity."""

    def model() -> nn.Module:
        linear = nn.Linear(1, 1, bias=False)
        nn.init.constant_(linear.weight, 0.1)
        return linear

    ones = torch.ones(4, 1)
    problem = Problem("steepening", (ones, ones), model, lambda y, t: (y**4 / 4 - y * t).mean(), batch_size=2)
    small: dict[str, Any] = {"steps": 60, "lanczos_steps": 3, "noise_batches": 2, "probes": 2, "seeds": 1}
    with pytest.raises(ValueError, match="diverged"):
        measure(problem, lr=16.0, **small)
    assert measure(problem, **small).lr < 2


PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "spectra"


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.json")), ids=lambda path: path.stem)
def test_published_measurements_can_be_read_and_are_those_of_the_page(path: Path) -> None:
    found = Measured.from_dict(json.loads(path.read_text(encoding="utf-8")))
    page = (PUBLISHED.parents[1] / "power_laws.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("|") and f"| {found.dimension:,} |" in line]
    for number in (f"{found.density_at[-1]:.3g}", f"{found.critical_batch.value:.0f}", f"{found.zeta.value:.2f}"):
        assert number in row
