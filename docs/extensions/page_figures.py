"""The figures that explain a page: numbers by the library, drawn in its style whenever the pages are built.

Each is a few hundred points and at most 4.8 inches wide, so that its letters can be read on a phone; those with several
panels are wider, and pages let readers scroll them (`figclass: wide`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

Array = NDArray[np.float64]
WIDTH = 4.8


def chart(curves: Mapping[str, tuple[Any, Any]], *, marker: str = "", **axes_options: Any) -> Figure:
    """One pair of axes with a line for each label, and the legend above."""
    from memgrad.figures.method_styles import styles
    from memgrad.figures.style import sheet

    with sheet((WIDTH, 3.2)) as figure:
        axes = figure.add_subplot(**axes_options)
        for label, line in styles(curves, markers=False).items():
            axes.plot(*curves[label], label=label, marker=marker, markersize=3.5, **line)
        figure.legend(loc="outside upper center", ncols=4, fontsize=8)
    return figure


def first_weights() -> Figure:
    """The weights of the first 21 gradients in the step after them, for the four memories that a reader meets first."""
    from memgrad import Memory

    k = 20
    texts = ("inst", "exp:0.9", "poly:1", "poly:2")
    return chart(
        {text: (np.arange(k + 1), Memory.parse(text).weights(k)) for text in texts},
        marker="o",
        xlabel="step $j$ of the gradient",
        ylabel=f"its weight $w(j, {k})$ in step {k}",
        ylim=(0, 0.2),
        xticks=range(0, k + 1, 5),
    )


def noisy_paths() -> Figure:
    """Memory and Nesterov's equation on x^2/2, driven by the same noise, beside their exact moments."""
    from memgrad.dynamics import HeavyBallFlow, MemoryFlow, moments, simulate_together
    from memgrad.figures import ensembles

    on_quadratic: dict[str, Any] = {"gradient": lambda x: x, "noise": 1.0, "hessian": 1.0}
    flows = {
        "memory poly:3": MemoryFlow("poly:3", **on_quadratic),
        "Nesterov, 3/t": HeavyBallFlow("3/t", **on_quadratic),
    }
    times = np.linspace(0, 40, 201)[1:]
    loss = {"f": lambda x, _: (x**2).sum(axis=1) / 2}
    simulated = simulate_together(list(flows.values()), times, 1.0, paths=400, dt=0.02, seed=0, observe=loss)
    exact = {label: moments(flow, times, 1.0) for label, flow in flows.items()}
    return ensembles(dict(zip(flows, simulated, strict=True)), exact)


def error_on_a_quadratic() -> Figure:
    """The exact expected loss over the steps, for several degrees and without memory."""
    from memgrad.dynamics import method_moments

    steps = 2000
    curves = {}
    for text in ("poly:2", "poly:8", "poly:32", "inst"):
        exact = method_moments(text, lr=0.01, hessian=1.0, x0=1.0, noise=1.0, steps=steps)
        curves[text] = (np.arange(1, steps + 1), (exact.mean[1:, 0] ** 2 + exact.var[1:, 0]) / 2)
    return chart(
        curves,
        xlabel="step $k$",
        ylabel="expected loss",
        xscale="log",
        yscale="log",
        xlim=(10, steps),
    )


def method_weights() -> Figure:
    """Named methods as mixtures: small multiples of their weights by age in step 50, with the gain and the mean age."""
    from memgrad import method as named
    from memgrad.figures.style import sheet

    last, least = 50, 1e-4
    methods = {
        "SGD": named.sgd(),
        "MemSGD poly:2": named.memsgd("poly:2"),
        "Adam": named.adam(),
        "heavy-ball 0.9": named.heavy_ball(0.9),
        "heavy-ball 3/t": named.heavy_ball(viscosity=3),
        "Nesterov 0.9": named.nesterov(0.9),
        "Nesterov 3/t": named.nesterov(viscosity=3),
        "QHM": named.qhm(),
        "AggMo 0, 0.9": named.aggmo((0.0, 0.9)),
        "NAdam": named.nadam(),
        "AdEMAMix": named.ademamix(),
        "ADana": named.adana(),
    }
    with sheet((7.6, 5.4)) as figure:
        grid = figure.subplots(3, 4, sharex=True, sharey=True)
        for axes, (name, method) in zip(grid.flat, methods.items(), strict=True):
            weights = method.mixture.weights(last)[::-1]
            passport = method.mixture.passport(last)
            axes.plot(np.arange(last + 1), np.where(weights > least, weights, np.nan), color="0.6", linewidth=1)
            axes.plot(np.arange(last + 1), np.where(weights > least, weights, np.nan), "o", markersize=1.8)
            axes.set(title=name, yscale="log", ylim=(least, 4))
            words = f"gain {passport.gain:.3g}\nage {passport.mean_age:.3g}"
            axes.text(0.96, 0.94, words, transform=axes.transAxes, ha="right", va="top", fontsize=8)
        figure.supxlabel("age of the gradient, in steps", fontsize=9)
        figure.supylabel(f"its weight in step {last}", fontsize=9)
    return figure


# Not stretch:1.5, which has forgotten all but the newest gradient after 100 steps.
FAMILIES = ("poly:1", "poly:2", "poly:8", "exp:0.9", "log", "power:0.8")


def family_weights() -> Figure:
    """The weights of the last 101 gradients by their age, for memories of four families."""
    from memgrad import Memory

    k = 100
    curves = {}
    for text in FAMILIES:
        weights = Memory.parse(text).weights(k)[::-1]
        curves[text] = (np.arange(k + 1), np.where(weights > 1e-5, weights, np.nan))
    options: dict[str, Any] = {"xlabel": "age of the gradient, in steps", "ylabel": f"weight in step {k}"}
    return chart(curves, yscale="log", ylim=(1e-5, 1.5), **options)


def family_ages() -> Figure:
    """The mean age of what is remembered over the steps, for the same memories."""
    from memgrad import Memory

    k = np.unique(np.geomspace(1, 10_000, 40).astype(int))
    curves = {text: (k, [Memory.parse(text).passport(int(step)).mean_age for step in k]) for text in FAMILIES}
    options: dict[str, Any] = {"xlabel": "step $k$", "ylabel": "mean age, in steps"}
    return chart(curves, xscale="log", yscale="log", **options)


def bound_and_truth() -> Figure:
    """The bound of MemSGD-p after 1000 steps and the exact error on a quadratic, over the degree."""
    from memgrad.dynamics import method_moments
    from memgrad.theory import best_lr, memsgd

    problem: dict[str, float] = {"distance": 5, "noise": 1, "dimension": 3}
    eigenvalues, x0 = np.array([1, 0.1, 0.01]), 5 / np.sqrt(3) * np.ones(3)
    lr = best_lr(**problem, steps=1000, smoothness=1).lr
    degrees = np.geomspace(2, 100, 25)
    bound, exact = [], []
    for p in degrees:
        bound.append(memsgd(k=1000, degree=float(p), lr=lr, smoothness=1, **problem).value)
        known = method_moments(f"poly:{p}", lr=lr, hessian=np.diag(eigenvalues), x0=x0, noise=1.0, steps=1000)
        exact.append(float(eigenvalues @ (known.mean[-1] ** 2 + known.var[-1])) / 2)
    return chart(
        {"what is proved": (degrees, bound), "what is true": (degrees, exact)},
        xlabel="degree $p$",
        ylabel="expected loss after 1000 steps",
        xscale="log",
        yscale="log",
        xticks=[2, 4, 8, 16, 32, 100],
        xticklabels=["2", "4", "8", "16", "32", "100"],
    )


def risk_over_steps() -> Figure:
    """Exact risks on a power-law problem, each method at the best of a few learning rates, with their exponents."""
    from memgrad.dynamics import Spectrum, exact_risk, fit_exponent, sgd_limit
    from memgrad.figures import Curve, risk_curves

    nu, zeta, steps = 2.0, 0.5, 60_000
    spectrum = Spectrum.power_law(nu, zeta)
    # The share of SGD's largest learning rate is the best power of 2 at the last step, or the smallest of ten.
    shown = {
        "SGD": ("inst", 1),
        "exp:0.99": ("exp:0.99", 1),
        "poly:8": ("poly:8", 1),
        "HB 0.9": ("sum*exp:0.9", 4),
        "HB 3/t": ("sum*poly:4", 10),
        "Nesterov 3/t": ("inst + 0.25*(1+k)*poly:4", 10),
        "DANA, inst + 0.3 (1+k)^0.5 poly:4": ("inst + 0.3*(1+k)^0.5*poly:4", 2),
        "two averages, inst + 5 exp:0.9 + 5 exp:0.99": ("inst + 5*exp:0.9 + 5*exp:0.99", 4),
    }
    curves = {}
    for label, (text, halvings) in shown.items():
        found = exact_risk(text, spectrum, lr=sgd_limit(spectrum) * 0.5**halvings, steps=steps)
        risk = found.risk[0, 0]
        curves[label] = Curve(found.k, risk, fit_exponent(found.k, risk) if np.isfinite(risk).all() else None)
    slopes = {r" $\zeta$": zeta, r" $\zeta(2-1/\nu)$": zeta * (2 - 1 / nu)}
    return risk_curves(curves, slopes=slopes, caption=f"nu = {nu:g}, zeta = {zeta:g}, batch 1, no label noise")


def risk_over_kappa() -> Figure:
    """The final risk over the growth of the gain and the learning rate, and where the method diverges."""
    from memgrad.dynamics import Spectrum, exact_risk, sgd_limit
    from memgrad.figures import risk_map

    nu, zeta, steps = 2.0, 0.5, 5000
    spectrum, kappas = Spectrum.power_law(nu, zeta), np.linspace(0.2, 1.0, 17)
    rates = sgd_limit(spectrum) * np.geomspace(1 / 64, 1, 15)
    texts = [f"inst + 0.3*(1+k)^{1 - kappa:.6g}*poly:4" for kappa in kappas]
    found = exact_risk(texts, spectrum, lr=rates, steps=steps, record=[steps])
    return risk_map(
        found.final.T,
        kappas,
        rates,
        xlabel=r"$\kappa$",
        ylabel="learning rate",
        marks={r"$\kappa = 1/\nu$": 1 / nu},
        diverged_at=found.diverged_at.T,
        caption=f"inst + 0.3 (1+k)^(1-kappa) poly:4, {steps} steps, nu = {nu:g}, zeta = {zeta:g}, batch 1",
    )


def spectrum_of_a_network() -> Figure:
    """The spectrum of the Fashion-MNIST network and its loss curve, as `memgrad spectrum` kept them."""
    from memgrad.experiments.measuring.measure import Measured
    from memgrad.figures import measured_spectrum

    kept = Path(__file__).parent.parent / "results" / "spectra" / "fashion-mlp.json"
    return measured_spectrum(Measured.from_dict(json.loads(kept.read_text(encoding="utf-8"))))


FIGURES: tuple[Callable[[], Figure], ...] = (
    first_weights,
    noisy_paths,
    error_on_a_quadratic,
    method_weights,
    family_weights,
    family_ages,
    bound_and_truth,
    risk_over_steps,
    risk_over_kappa,
    spectrum_of_a_network,
)


# What *Getting started* lets its readers type; {0} is a folder of its own, {1} the one of the figures.
COMMANDS = (
    "simulate poly:3 3/t --until 50 --paths 200 --figure {1}/getting_started_cloud.svg",
    "init {0}/first.toml --problem least-squares",
    "run {0}/first.toml --store {0}/store --workers 1 --quiet",
    "compare {0}/first.toml --store {0}/store --out {1}/getting_started_comparison.svg",
)


def write(app: Sphinx) -> None:
    """Draw each figure into `_generated`, under the name of its function, and those that commands draw."""
    from typer.testing import CliRunner

    from memgrad import figures
    from memgrad.cli import app as command_line

    generated = Path(app.srcdir) / "_generated"
    for draw in FIGURES:
        figures.save(draw(), generated / f"{draw.__name__}.svg")
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            done = CliRunner().invoke(command_line, command.format(folder, generated).split())
            if done.exit_code:
                raise RuntimeError(f"memgrad {command} failed, and with it a figure: {done.output}")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Draw when the builder is ready, not when this file is imported."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
