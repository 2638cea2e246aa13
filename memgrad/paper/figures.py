"""Drawing the paper's figures, each with the numbers behind it; those that need no data set are drawn here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

import numpy as np
from matplotlib.figure import Figure

from memgrad import figures
from memgrad.deprecation import deprecated_names
from memgrad.figures.bounds import default_betas
from memgrad.memory import Instantaneous
from memgrad.memory.passport import Progress
from memgrad.paper.catalogue import FIGURES, PaperFigure
from memgrad.paper.continuous import (
    Velocities,
    VelocityNoise,
    hb_amplification,
    quadratic_variance,
    time_warping,
    velocities,
)
from memgrad.paper.odes import momentum_and_memory_odes
from memgrad.paper.progress import stage
from memgrad.paper.scales import known
from memgrad.paper.settings import (
    AmplificationSettings,
    ConstantNoiseSettings,
    GammaBoundsSettings,
    GammaRegionSettings,
    MemoryTypesSettings,
    OdesSettings,
    QuadraticNoiseSettings,
    SecondMomentsSettings,
    Settings,
    SmoothingSettings,
    TimeWarpSettings,
)
from memgrad.paper.smoothing import p_verification
from memgrad.tables import Columns
from memgrad.theory import gamma_bounds

if TYPE_CHECKING:
    from memgrad.paper.evidence import Evidence


@final
@dataclass(frozen=True, eq=False)
class Picture:
    """A figure and the table behind it.

    Attributes:
        figure: The figure.
        columns: The numbers in it, as columns of equal length by name.
        settings: What it was made with: the settings, or the evidence of experiments on real data.
        result: The result of the experiment behind it, if there was one.
    """

    figure: Figure
    columns: Columns
    settings: Settings | Evidence
    result: Any = None

    def about(self) -> dict[str, Any]:
        """What it was made with as plain data: settings with reasons for our choices, or scale and experiments."""
        return self.settings.about()


__getattr__ = deprecated_names(__name__, {"Drawn": "memgrad.paper.figures.Picture"})


def draw(
    name: str,
    *,
    settings: Settings | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    evidence: Evidence | None = None,
    across: int | None = None,
) -> Picture:
    """Run and draw a figure of the paper.

    Args:
        name: One of `memgrad.paper.catalogue.FIGURES`.
        settings: The settings to run it with, of the type of its own settings; those by default.
        seed: Another seed, for figures that depend on one.
        progress: Called as `progress(done, total)`.
        evidence: The results of the experiments on real data that the figure needs. Panels of others say so.
        across: The maximum number of panels beside each other, for figures of several experiments.

    Raises:
        LookupError: The rows lack what the figure shows.

    Example:
        >>> picture = draw("bound-beta")
        >>> sorted(picture.columns)
        ['beta', 'curve', 'hyperbola', 'linear']
    """
    entry = FIGURES[known("figure", name, FIGURES)]
    module, _, function = entry.drawn_by.partition(".")
    drawing = getattr(import_module(f"memgrad.paper.{module}"), function)
    if entry.settings is None:
        if evidence is None:
            raise ValueError(f"the figure {name!r} needs the evidence of {', '.join(entry.needs)}, got none.")
        evidence = evidence.available(entry.needs)
        figure, columns = drawing(evidence) if across is None else drawing(evidence, across=across)
        return Picture(figure, columns, evidence)
    picture: Picture = drawing(_chosen_settings(entry, entry.settings, settings, seed), progress)
    return picture


def _chosen_settings(entry: PaperFigure, usual: Settings, settings: Settings | None, seed: int | None) -> Settings:
    chosen = usual if settings is None else settings
    if not isinstance(chosen, type(usual)):
        raise TypeError(
            f"the figure {entry.name!r} takes {type(usual).__name__}, got settings of type {type(chosen).__name__}."
        )
    if seed is None:
        return chosen
    if not entry.is_random:
        random = ", ".join(each.name for each in FIGURES.values() if each.is_random)
        raise ValueError(f"the figure {entry.name!r} does not depend on a seed, got seed={seed!r}; these do: {random}.")
    if seed < 0:
        raise ValueError(f"a seed is an integer >= 0, got seed={seed!r}.")
    return dataclasses.replace(chosen, seed=seed)  # type: ignore[call-arg]  # checked: it has one


def memories(settings: MemoryTypesSettings, _: Progress | None) -> Picture:
    """Fig. memory_types."""
    s = np.linspace(0, settings.t, 601)
    columns = {"s": s} | {
        str(memory): np.asarray(memory.influence(s, settings.t))
        for memory in figures.PAPER_MEMORIES.values()
        if not isinstance(memory, Instantaneous)
    }
    return Picture(figures.memory_types(t=settings.t), columns, settings)


def amplification(settings: AmplificationSettings, progress: Progress | None) -> Picture:
    """Fig. HB_amplification."""
    result = hb_amplification(settings, progress=progress)
    both = {
        rf"memory $t^{{{settings.degree:g}}}$ (MG-SDE)": result.memory,
        rf"Nesterov ${settings.viscosity:g}/t$": result.nesterov,
    }
    figure = figures.amplification(
        result.t,
        {label: each.x for label, each in both.items()},
        {label: each.loss for label, each in both.items()},
        {label: each.exact for label, each in both.items()},
        {label: (each.mean, each.error) for label, each in both.items()},
        caption=settings.caption(),
    )
    return Picture(figure, result.columns(), settings, result)


def time_warp(settings: TimeWarpSettings, progress: Progress | None) -> Picture:
    """Fig. timewarp."""
    result = time_warping(settings, progress=progress)
    memory, nesterov = rf"memory $t^{{{settings.degree:g}}}$ (MG)", rf"Nesterov ${settings.viscosity:g}/t$"
    figure = figures.time_warp(
        result.t,
        (memory, result.memory_x),
        (nesterov, result.nesterov_x),
        result.warped_x,
        {memory: result.memory_noisy, nesterov: result.nesterov_noisy},
        caption=settings.caption(),
    )
    return Picture(figure, result.columns(), settings, result)


def constant_noise(settings: ConstantNoiseSettings, progress: Progress | None) -> Picture:
    """Fig. verif_noise, and below it means and variances up to a later time, where the text can be seen."""
    result = velocities(settings, progress=stage(progress, 0, 2))
    later = velocities(dataclasses.replace(settings, end=settings.later), progress=stage(progress, 1, 2))
    return _velocities(result, later)


def quadratic_noise(settings: QuadraticNoiseSettings, progress: Progress | None) -> Picture:
    """Fig. verif_noise_quadratic."""
    return _velocities(velocities(settings, progress=progress))


def _velocities(result: Velocities, later: Velocities | None = None) -> Picture:
    settings = result.settings

    def named(found: Velocities) -> dict[str, VelocityNoise]:
        return {
            rf"memory $t^{{{settings.degree:g}}}$ (MG-SDE)": found.memory,
            rf"Nesterov's SDE, ${settings.viscosity:g}/t$": found.nesterov,
        }

    moments = [
        figures.VelocityMoments(
            found.t,
            {label: (each.mean, each.sd) for label, each in named(found).items()},
            {label: (each.exact_mean, each.exact_sd) for label, each in named(found).items()},
        )
        for found in filter(None, (result, later))
    ]
    figure = figures.velocity_noise(*moments, runs=settings.runs, caption=settings.caption())
    columns = dict(result.columns())
    if later is not None:
        columns |= {f"later_{name}": column for name, column in later.columns().items()}
    longest = max(map(len, columns.values()))
    padded = {
        name: np.pad(column, (0, longest - len(column)), constant_values=np.nan) for name, column in columns.items()
    }
    return Picture(figure, padded, settings, result)


def second_moments(settings: SecondMomentsSettings, _: Progress | None) -> Picture:
    """Fig. quadratic_variance."""
    result = quadratic_variance(settings)
    memory = rf"memory $t^{{{settings.degree:g}}}$ (MG-SDE)"
    nesterov = rf"Nesterov's SDE, ${settings.viscosity:g}/t$"
    slope = settings.sigma**2 / (2 * (settings.viscosity + 1))
    asymptote = np.full_like(result.nesterov, np.nan)
    asymptote[:, 2] = slope * result.t
    figure = figures.second_moments(
        result.t,
        {nesterov: result.nesterov, memory: result.memory},
        {nesterov: asymptote, memory: result.memory_exact},
        {nesterov: f"${slope:g}\\,t$", memory: "exact"},
        caption=settings.caption(),
    )
    return Picture(figure, result.columns(), settings, result)


def gamma_curve(settings: GammaBoundsSettings, _: Progress | None) -> Picture:
    """Fig. bound_beta."""
    bounds = gamma_bounds(default_betas(settings.mu), tau=settings.tau, mu=settings.mu)
    columns = {"beta": bounds.beta, "curve": bounds.curve, "linear": bounds.linear, "hyperbola": bounds.hyperbola}
    return Picture(figures.gamma_curve(bounds, caption=settings.caption()), columns, settings, bounds)


def gamma_region(settings: GammaRegionSettings, _: Progress | None) -> Picture:
    """Fig. bound_beta_2."""
    bounds = gamma_bounds(default_betas(settings.mu), tau=settings.tau, mu=settings.mu)
    columns = {
        "beta": bounds.beta,
        "curve": bounds.curve,
        "simplified": bounds.lower,
        "line": settings.alpha - bounds.beta,
    }
    return Picture(figures.gamma_region(bounds, settings.alpha, caption=settings.caption()), columns, settings, bounds)


def odes(settings: OdesSettings, progress: Progress | None) -> Picture:
    """The figures of App. F."""
    result = momentum_and_memory_odes(settings, progress=progress)
    rows: dict[str, list[figures.Panel]] = {}
    for each in result.descents:
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
    return Picture(figure, result.columns(), settings, result)


def smoothing(settings: SmoothingSettings, progress: Progress | None) -> Picture:
    """Fig. p_verification."""
    result = p_verification(settings, progress=progress)
    names = {"poly:2": "MemSGD, $p=2$", "exp:0.8": r"MemSGD, $p=e$ ($\beta=0.8$)", "inst": r"SGD, $p=\infty$"}
    labels = [names.get(text, text) for text in settings.memories]
    z = settings.quantile
    figure = figures.smoothing(
        dict(zip(labels, result.first_x, strict=True)),
        dict(zip(labels, zip(result.mean_x, z * result.error_x, strict=True), strict=True)),
        dict(zip(labels, zip(result.mean_loss, z * result.error_loss, strict=True), strict=True)),
        caption=settings.caption(),
    )
    return Picture(figure, result.columns(), settings, result)
