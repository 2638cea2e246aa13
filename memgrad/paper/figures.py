"""The paper's figures: each is run, drawn, and given back with the table of the numbers behind it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from memgrad import figures
from memgrad.figures.bounds import default_betas
from memgrad.memory import Instantaneous
from memgrad.memory.passport import Progress
from memgrad.paper.catalogue import FIGURES, PaperFigure
from memgrad.paper.continuous import (
    Amplification,
    SecondMoments,
    TimeWarping,
    Velocities,
    hb_amplification,
    quadratic_variance,
    time_warping,
    verif_noise,
    verif_noise_quadratic,
)
from memgrad.paper.odes import Odes, momentum_and_memory_odes
from memgrad.paper.settings import GammaBoundsSettings, GammaRegionSettings, MemoryTypesSettings, Settings
from memgrad.paper.synthetic import Smoothing, p_verification
from memgrad.theory import gamma_bounds

Columns = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure and the table behind it.

    Attributes:
        figure: The picture.
        columns: The numbers in it, as columns of equal length by name.
        settings: What it was run with.
        result: What the experiment returned, where there was one.
    """

    figure: Figure
    columns: Columns
    settings: Settings
    result: Any = None

    def about(self) -> dict[str, Any]:
        """The settings as plain data, with the reasons of those that are ours."""
        return {"settings": self.settings.to_dict(), "own_choices": self.settings.own_choices()}


def draw(
    name: str, *, settings: Settings | None = None, seed: int | None = None, progress: Progress | None = None
) -> Drawn:
    """Run and draw a figure of the paper.

    Args:
        name: One of `memgrad.paper.catalogue.FIGURES`.
        settings: What to run it with, of the type of its own settings; those unless given.
        seed: Another seed, for figures that depend on one.
        progress: Called as `progress(done, total)`.

    Example:
        >>> drawn = draw("bound-beta")
        >>> sorted(drawn.columns)
        ['beta', 'curve', 'hyperbola', 'linear']
    """
    entry = known_figure(name)
    chosen = entry.settings if settings is None else settings
    if not isinstance(chosen, type(entry.settings)):
        raise TypeError(
            f"the figure {name!r} takes {type(entry.settings).__name__}, got settings of type {type(chosen).__name__}."
        )
    if seed is not None:
        if not entry.is_random:
            random = ", ".join(each.name for each in FIGURES.values() if each.is_random)
            raise ValueError(f"the figure {name!r} does not depend on a seed, got seed={seed!r}; these do: {random}.")
        if seed < 0:
            raise ValueError(f"a seed is an integer >= 0, got seed={seed!r}.")
        chosen = dataclasses.replace(chosen, seed=seed)  # type: ignore[call-arg]  # checked: it has one
    return _DRAWN[name](chosen, progress)


def known_figure(name: str) -> PaperFigure:
    """The figure with this name, or an error that names the nearest ones.

    Example:
        >>> known_figure("time-wrap")
        Traceback (most recent call last):
        ...
        ValueError: unknown figure 'time-wrap'. Did you mean 'time-warp'? Known figures: memories, hb-amplification, \
time-warp, verif-noise, quadratic-variance, verif-noise-quadratic, bound-beta, bound-beta-2, odes, p-verification.
    """
    if name not in FIGURES:
        near = difflib.get_close_matches(name, FIGURES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown figure {name!r}.{hint} Known figures: {', '.join(FIGURES)}.")
    return FIGURES[name]


def _memories(settings: MemoryTypesSettings, _: Progress | None) -> Drawn:
    s = np.linspace(0, settings.t, 601)
    columns = {"s": s} | {
        str(memory): np.asarray(memory.influence(s, settings.t))
        for memory in figures.PAPER_MEMORIES.values()
        if not isinstance(memory, Instantaneous)
    }
    return Drawn(figures.memory_types(t=settings.t), columns, settings)


def _amplification(settings: Any, progress: Progress | None) -> Drawn:
    found: Amplification = hb_amplification(settings, progress=progress)
    both = {
        rf"memory $t^{{{settings.degree:g}}}$ (MG-SDE)": found.memory,
        rf"Nesterov ${settings.viscosity:g}/t$": found.nesterov,
    }
    figure = figures.amplification(
        found.t,
        {label: each.x for label, each in both.items()},
        {label: each.loss for label, each in both.items()},
        {label: each.exact for label, each in both.items()},
        {label: (each.mean, each.error) for label, each in both.items()},
        caption=settings.caption(),
    )
    return Drawn(figure, found.columns(), settings, found)


def _time_warp(settings: Any, progress: Progress | None) -> Drawn:
    found: TimeWarping = time_warping(settings, progress=progress)
    memory, nesterov = rf"memory $t^{{{settings.degree:g}}}$ (MG)", rf"Nesterov ${settings.viscosity:g}/t$"
    figure = figures.time_warp(
        found.t,
        (memory, found.memory_x),
        (nesterov, found.nesterov_x),
        found.warped_x,
        {memory: found.memory_noisy, nesterov: found.nesterov_noisy},
        caption=settings.caption(),
    )
    return Drawn(figure, found.columns(), settings, found)


def _velocities(run: Callable[..., Velocities]) -> Callable[[Any, Progress | None], Drawn]:
    def drawn(settings: Any, progress: Progress | None) -> Drawn:
        found = run(settings, progress=progress)
        both = {
            rf"memory $t^{{{settings.degree:g}}}$ (MG-SDE)": found.memory,
            rf"Nesterov's SDE, ${settings.viscosity:g}/t$": found.nesterov,
        }
        figure = figures.velocity_noise(
            found.t,
            {label: (each.mean, each.sd) for label, each in both.items()},
            {label: (each.exact_mean, each.exact_sd) for label, each in both.items()},
            caption=settings.caption(),
        )
        return Drawn(figure, found.columns(), settings, found)

    return drawn


def _second_moments(settings: Any, _: Progress | None) -> Drawn:
    found: SecondMoments = quadratic_variance(settings)
    memory = rf"memory $t^{{{settings.degree:g}}}$ (MG-SDE)"
    nesterov = rf"Nesterov's SDE, ${settings.viscosity:g}/t$"
    slope = settings.sigma**2 / (2 * (settings.viscosity + 1))
    asymptote = np.full_like(found.nesterov, np.nan)
    asymptote[:, 2] = slope * found.t
    figure = figures.second_moments(
        found.t,
        {nesterov: found.nesterov, memory: found.memory},
        {nesterov: asymptote, memory: found.memory_exact},
        {nesterov: f"${slope:g}\\,t$", memory: "exact"},
        caption=settings.caption(),
    )
    return Drawn(figure, found.columns(), settings, found)


def _gamma_curve(settings: GammaBoundsSettings, _: Progress | None) -> Drawn:
    bounds = gamma_bounds(default_betas(settings.mu), tau=settings.tau, mu=settings.mu)
    columns = {"beta": bounds.beta, "curve": bounds.curve, "linear": bounds.linear, "hyperbola": bounds.hyperbola}
    return Drawn(figures.gamma_curve(bounds, caption=settings.caption()), columns, settings, bounds)


def _gamma_region(settings: GammaRegionSettings, _: Progress | None) -> Drawn:
    bounds = gamma_bounds(default_betas(settings.mu), tau=settings.tau, mu=settings.mu)
    columns = {
        "beta": bounds.beta,
        "curve": bounds.curve,
        "simplified": bounds.lower,
        "line": settings.alpha - bounds.beta,
    }
    return Drawn(figures.gamma_region(bounds, settings.alpha, caption=settings.caption()), columns, settings, bounds)


def _odes(settings: Any, progress: Progress | None) -> Drawn:
    found: Odes = momentum_and_memory_odes(settings, progress=progress)
    rows: dict[str, list[figures.Panel]] = {}
    for each in found.descents:
        if each.power is None:
            title = f"{each.label[:2]}, " + rf"$\alpha$ = {settings.alpha:g}"
        else:
            power = f"^{{{each.power:g}}}" if each.power != 1 else ""
            title = f"HB, ${each.power:g}/t$" if each.kind == "momentum" else f"MG, $t{power}$"
        inside = each.t <= settings.loss_end
        panel = figures.Panel(
            title,
            each.path,
            each.t[inside],
            each.loss[inside],
            each.exact_t,
            each.exact_loss,
            slope=each.expected_slope,
        )
        rows.setdefault(each.forgetting, []).append(panel)
    figure = figures.momentum_and_memory(rows, end=settings.loss_end, caption=settings.caption())
    return Drawn(figure, found.columns(), settings, found)


def _smoothing(settings: Any, progress: Progress | None) -> Drawn:
    found: Smoothing = p_verification(settings, progress=progress)
    names = {"poly:2": "MemSGD, $p=2$", "exp:0.8": r"MemSGD, $p=e$ ($\beta=0.8$)", "inst": r"SGD, $p=\infty$"}
    labels = [names.get(text, text) for text in settings.memories]
    z = settings.quantile
    figure = figures.smoothing(
        dict(zip(labels, found.first_x, strict=True)),
        dict(zip(labels, zip(found.mean_x, z * found.error_x, strict=True), strict=True)),
        dict(zip(labels, zip(found.mean_loss, z * found.error_loss, strict=True), strict=True)),
        caption=settings.caption(),
    )
    return Drawn(figure, found.columns(), settings, found)


_DRAWN: Mapping[str, Callable[[Any, Progress | None], Drawn]] = MappingProxyType(
    {
        "memories": _memories,
        "hb-amplification": _amplification,
        "time-warp": _time_warp,
        "verif-noise": _velocities(verif_noise),
        "quadratic-variance": _second_moments,
        "verif-noise-quadratic": _velocities(verif_noise_quadratic),
        "bound-beta": _gamma_curve,
        "bound-beta-2": _gamma_region,
        "odes": _odes,
        "p-verification": _smoothing,
    }
)
