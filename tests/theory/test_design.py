"""The design of a memory: exact derivatives, methods that can be stored and trained, and what they gain."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from memgrad.cli import app
from memgrad.dynamics import Spectrum, exact_risk, sgd_limit
from memgrad.memory import Cooled, Gain, Instantaneous, Memory, Mixture, Polynomial
from memgrad.method import Method
from memgrad.optim import MemSGD
from memgrad.theory import Design, design, recipe
from memgrad.theory.adjoint import Steps, last_risk
from memgrad.theory.design import named_methods

SPECTRUM = Spectrum.power_law(1.5, 0.5, per_octave=1)


def random_steps(count: int = 40) -> Steps:
    rng = np.random.default_rng(3)
    kept = np.append(0.0, rng.uniform(0.2, 0.95, count - 1))
    return Steps(rng.uniform(0.05, 0.2, count), rng.uniform(0.05, 0.4, count), kept, 1 - kept)


def test_the_risk_is_the_exact_one() -> None:
    steps = random_steps()
    # `decays` and gains as functions of k: the same method by the other implementation.
    memory = f"decays:{','.join(map(repr, steps.kept.tolist()))}"
    gains = [lambda k, row=row: float(row[k]) for row in (steps.instant, steps.memory)]
    mixture = Gain.of(gains[0]) * Instantaneous() + Gain.of(gains[1]) * Memory.parse(memory)
    expected = exact_risk(mixture, SPECTRUM, lr=1.0, steps=40, batch=3, noise=0.2).final[0, 0]
    assert last_risk(steps, SPECTRUM, batch=3, noise=0.2)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["instant", "memory", "kept"])
def test_derivatives_agree_with_differences(name: str) -> None:
    steps, h = random_steps(), 1e-6
    found = getattr(last_risk(steps, SPECTRUM, batch=3, noise=0.2)[1], name)
    for k in (1, 7, 20, 38, 39):

        def at(change: float, k: int = k) -> float:
            values = {key: getattr(steps, key).copy() for key in ("instant", "memory", "kept")}
            values[name][k] += change
            changed = Steps(values["instant"], values["memory"], values["kept"], 1 - values["kept"])
            return float(np.log(last_risk(changed, SPECTRUM, batch=3, noise=0.2)[0]))

        assert found[k] == pytest.approx((at(h) - at(-h)) / (2 * h), rel=1e-5, abs=1e-9)


def test_derivatives_agree_with_those_of_torch() -> None:
    """Autograd through the recursion S' = M S M' + q c c', written as in the docs, one 2 x 2 matrix per direction."""
    steps = random_steps(12)
    lam, trace = torch.tensor(SPECTRUM.curvature), torch.tensor(SPECTRUM.trace)
    e, h, b = (torch.tensor(row, requires_grad=True) for row in (steps.instant, steps.memory, steps.kept))
    second = torch.zeros(len(lam), 2, 2, dtype=torch.float64)
    second[:, 0, 0] = torch.tensor(SPECTRUM.signal) / lam
    for k in range(12):
        c = torch.stack([-(e[k] + h[k] * (1 - b[k])), 1 - b[k]])
        kept = torch.stack([torch.stack([torch.ones(()).double(), -h[k] * b[k]]), torch.stack([0 * b[k], b[k]])])
        m = kept + lam[:, None, None] * torch.stack([c, torch.zeros(2).double()], dim=1)
        risk = (lam * second[:, 0, 0]).sum() + 0.2**2
        q = (lam**2 * second[:, 0, 0] + trace * risk) / 3
        second = m @ second @ m.transpose(1, 2) + q[:, None, None] * torch.outer(c, c)
    torch.log((lam * second[:, 0, 0]).sum() / 2).backward()
    found = last_risk(steps, SPECTRUM, batch=3, noise=0.2)[1]
    for ours, theirs in ((found.instant, e.grad), (found.memory, h.grad), (found.kept[1:], b.grad[1:])):
        assert np.allclose(ours, theirs.numpy(), rtol=1e-9, atol=1e-14)


@pytest.fixture(scope="module")
def found() -> Design:
    return design(1.5, 0.5, noise=0.2, batch=4, steps=100, iterations=150)


def test_a_design_beats_the_named_methods_and_the_recipe_is_close(found: Design) -> None:
    assert found.best.risk < found.recipe.risk < found.named[0].risk
    assert found.gain > 0.1
    assert 0.5 < found.kept < 1
    assert [each.risk for each in found.named] == sorted(each.risk for each in found.named)


def test_a_design_can_be_stored_and_its_risk_is_that_of_what_is_read_back(found: Design) -> None:
    row = json.loads(json.dumps(found.to_dict()))["candidates"][0]
    method = Method.from_dict(row["method"])
    assert method == found.best.method
    risk = exact_risk(method, Spectrum.power_law(1.5, 0.5), lr=row["lr"], steps=100, batch=4, noise=0.2).final
    assert risk[0, 0] == pytest.approx(row["risk"], rel=1e-12)


@pytest.mark.parametrize("which", ["best", "recipe"])
def test_a_design_can_train(found: Design, which: str) -> None:
    candidate = getattr(found, which)
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    optimizer = MemSGD([x], lr=candidate.lr, memory=candidate.method.mixture)
    history, gradients = [1.0], []
    for _ in range(100):
        optimizer.zero_grad()
        (0.05 * x**2).sum().backward()
        gradients.append(float(x.grad))
        optimizer.step()
        history.append(x.item())
    weights = candidate.method.mixture.weights(99)  # of all gradients in the last step
    assert history[-1] == pytest.approx(history[-2] - candidate.lr * float(weights @ gradients), rel=1e-9)
    assert abs(history[-1]) < 0.1


def test_the_smallest_design_counts_its_iterations_and_tells_what_it_gains() -> None:
    seen: list[tuple[int, int]] = []
    found = design(1.5, 0.5, batch=4, steps=16, iterations=3, progress=lambda *each: seen.append(each))
    assert seen == [(i, 3) for i in range(1, found.iterations + 1)]
    assert (found.knots[0], found.knots[-1], len(found.degree)) == (0, 15, len(found.knots))
    first = f"batch 4, 16 steps: {100 * (1 - found.best.risk / found.named[0].risk):.0f} % below the best named method"
    assert first in str(found).splitlines()[0]
    rows = found.to_dict()["candidates"]
    assert [row["name"] for row in rows[:2]] == ["designed", "recipe"]
    assert set(rows[0]) == {"name", "method", "lr", "schedule", "risk"}


def test_the_recipe_is_text() -> None:
    method = recipe(500, strength=0.05, cooling=2.0)
    assert Method.parse(str(method)) == method
    assert str(method) == "cool(500,0.5)*inst + 0.05*(1+k)*cool(500,2)*cooled:1.5,500"
    assert method.mixture.gain(500) == 0.0


def test_knots_are_read_between_in_logarithms() -> None:
    gain = Mixture.parse("knots(0,1,3,16,15,4)*inst")
    assert gain.gain(np.array([0, 1, 3, 7, 15, 100])) == pytest.approx([1.0, 4.0, 16.0, 8.0, 4.0, 4.0])
    for k in (0, 1, 7, 100):
        as_tensor: Any = gain.gain(torch.tensor(float(k)))
        assert float(as_tensor) == pytest.approx(gain.gain(k), rel=1e-6)


def test_a_cooled_memory_begins_as_polynomial_and_ends_without_memory() -> None:
    memory = Cooled(2.0, steps=10**9, power=2.0)
    assert memory.decay(100) == pytest.approx(Polynomial(2.0).decay(100), rel=1e-8)
    assert Cooled(2.0, steps=50).decay(50) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: design(1.0, 0.5), "finite nu > 1, got nu=1.0"),
        (lambda: design(1.5, 0.0), "finite zeta > 0, got zeta=0.0"),
        (lambda: design(1.5, 0.5, steps=15), "steps >= 16 .* got steps=15"),
        (lambda: design(1.5, 0.5, steps=20_001), "both at most 20,000, got steps=20001"),
        (lambda: design(1.5, 0.5, iterations=0), "iterations >= 1, .* iterations=0"),
        (lambda: design(1.5, 0.5, iterations=20_001), "both at most 20,000, .* iterations=20001"),
        (lambda: design(1.5, 0.5, batch=0), "integer batch >= 1, got batch=0"),
        (lambda: design(1.5, 0.5, noise=-1.0), "finite noise >= 0, got noise=-1"),
        (lambda: recipe(100, strength=-1.0), "finite and >= 0, got -1.0"),
        (lambda: recipe(100, strength=1.0, cooling=0.0), "power > 0, got power=0.0"),
        (lambda: Mixture.parse("knots(0,1)*inst"), "two points or more"),
        (lambda: Mixture.parse("knots(0,1,0,2)*inst"), "increasing steps"),
        (lambda: Mixture.parse("knots(0,1,5,0)*inst"), "gains > 0, got 0.0"),
        (lambda: Mixture.parse("cool(0)*inst"), "steps >= 1, got steps=0"),
        (lambda: Cooled(1.0, steps=0.5), "steps >= 1, got steps=0.5"),
    ],
)
def test_bad_input_is_answered_by_name_rule_and_value(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_command(tmp_path: Any) -> None:
    words = ["design", "--steps", "32", "--batch", "4", "--iterations", "20", "--out", str(tmp_path / "d.json")]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert "below the best named method" in answer.output
    assert json.loads((tmp_path / "d.json").read_text())["steps"] == 32
    refused = CliRunner().invoke(app, ["design", "--nu", "0.5"])
    assert refused.exit_code == 2
    assert "nu > 1" in " ".join(refused.output.split())


def test_named_methods_go_beyond_the_limit_of_sgd() -> None:
    spectrum, steps, batch = Spectrum.power_law(1.5, 0.5), 64, 100_000
    limit = sgd_limit(spectrum, batch=batch)
    for each in named_methods(spectrum, 1.5, noise=0.0, batch=batch, steps=steps):
        schedule = None if each.schedule == "constant" else 1 - np.arange(steps) / steps
        rates = each.lr * np.array([0.5, 1, 2, 4])
        found = exact_risk(each.method, spectrum, lr=rates, steps=steps, batch=batch, schedule=schedule).final[0]
        assert found.min() == pytest.approx(each.risk, rel=1e-12), each.name
        if each.name == "exp":
            assert each.lr > 1.5 * limit


def test_a_design_takes_numbers_of_numpy_and_much_noise() -> None:
    found = design(np.float64(1.5), np.float64(0.5), steps=16, iterations=3)
    assert found.nu == 1.5
    noisy = design(1.5, 0.5, noise=1e4, steps=16, iterations=100)
    assert noisy.best.risk <= 1.001 * noisy.named[0].risk


def test_named_methods_are_not_left_at_the_smallest_learning_rate_that_was_tried() -> None:
    spectrum = Spectrum.power_law(1.5, 0.5)
    for noise in (0.0, 30.0, 1e4):
        for each in named_methods(spectrum, 1.5, noise=noise, batch=1, steps=16):
            rates = [each.lr / 2, each.lr, 2 * each.lr]
            schedule = None if each.schedule == "constant" else 1 - np.arange(16) / 16
            found = exact_risk(each.method, spectrum, lr=rates, noise=noise, steps=16, schedule=schedule)
            assert found.final[0, 1] == pytest.approx(each.risk, rel=1e-12)
            assert found.final[0, 0] >= found.final[0, 1]
    words = ["design", "--noise", "1e4", "--steps", "16", "--iterations", "2"]
    said = CliRunner().invoke(app, words).stdout
    assert "not below the best named method, " in said
    assert "recipe keeps" not in said
