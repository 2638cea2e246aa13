"""Figures of objectives."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from memgrad.figures.method_styles import BLUE, ORANGE, RUST
from memgrad.figures.style import sheet
from memgrad.problems.kinds import Floats
from memgrad.problems.objectives import (
    SU,
    ConstantGradient,
    Huber,
    LeastSquares,
    LogCosh,
    Logistic,
    Objective,
    PowerLaw,
    Quadratic,
    Quartic,
)


def example_objectives() -> dict[str, Objective]:
    """One objective of each family, in one or two dimensions where possible, for a gallery.

    Example:
        >>> len(example_objectives())
        9
    """
    # Ten points in the plane: enough for a tilted ellipse, and for labels that no line separates.
    angles = np.arange(10) * 2.4
    inputs = np.stack([np.cos(angles), np.sin(angles)], -1) * np.sqrt(1 + np.arange(10))[:, None]
    targets = inputs @ [0.6, -0.4] + 0.5 * np.cos(7 * angles)
    return {
        "Su's quadratic": SU,
        "rotated quadratic": Quadratic((1.0, 0.1), rotation=_turned_by(30.0)),
        "quartic": Quartic(),
        "Huber": Huber(1.0),
        "log-cosh": LogCosh(),
        "constant gradient": ConstantGradient((1.0,)),
        "least squares": LeastSquares(inputs, targets),
        "logistic": Logistic(inputs, (targets > 0).astype(float), l2=0.1),
        "power law": PowerLaw(1.0, 0.5, dimension=100),
    }


def _turned_by(degrees: float) -> tuple[tuple[float, float], tuple[float, float]]:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return (c, s), (-s, c)


def objective_shapes(objectives: Mapping[str, Objective] | None = None, *, radius: float = 2.0) -> Figure:
    r"""A gallery of objectives: curves in one dimension, contours in two, the spectrum in more.

    In one dimension $f$ is drawn with its slope $f'$; in two, contours at heights that grow quadratically, the
    minimizer (a dot) and the path of steepest descent from a corner; in more, the eigenvalues of the Hessian there.

    Args:
        objectives: The objectives, by title; one of each family by default.
        radius: Half the width of the region around the minimizer (or the origin), finite and > 0.

    Example:
        >>> figure = objective_shapes()
        >>> figure.axes[0].get_title()
        "Su's quadratic"
    """
    if not (math.isfinite(radius) and radius > 0):
        raise ValueError(f"a gallery of objectives needs a finite radius > 0, got radius={radius!r}.")
    objectives = example_objectives() if objectives is None else objectives
    columns = min(3, len(objectives))
    rows = -(-len(objectives) // columns)
    with sheet((2.6 * columns, 2.3 * rows)) as figure:
        for place, (title, objective) in enumerate(objectives.items(), start=1):
            axes = figure.add_subplot(rows, columns, place, title=title)
            draw = {1: _curve, 2: _contours}.get(objective.dimension, _spectrum)
            draw(axes, objective, radius)
    return figure


def _curve(axes: Axes, objective: Objective, radius: float) -> None:
    x = _center(objective)[0] + np.linspace(-radius, radius, 201)
    axes.plot(x, objective.value(x[:, None]), color=BLUE, linewidth=1.8, label="$f$")
    axes.plot(x, objective.gradient(x[:, None])[:, 0], color=ORANGE, linestyle="--", linewidth=1.8, label="$f'$")
    axes.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    axes.legend(loc="best")
    axes.set_xlabel("$x$")


def _contours(axes: Axes, objective: Objective, radius: float) -> None:
    center = _center(objective)
    side = np.linspace(-radius, radius, 101)
    x = np.stack(np.meshgrid(center[0] + side, center[1] + side), -1)
    values = objective.value(x)
    low, high = float(values.min()), float(values.max())
    axes.contour(
        x[..., 0], x[..., 1], values, levels=low + (high - low) * np.linspace(0, 1, 12)[1:] ** 2, cmap="viridis"
    )
    path = _way_down(objective, center + 0.9 * radius, radius)
    axes.plot(*path.T, color=RUST, linewidth=1.5)
    if objective.minimizer is not None:
        axes.plot(*center, "o", color="black", markersize=4)
    axes.set(xlabel="$x_1$", ylabel="$x_2$", xlim=x[0, [0, -1], 0], ylim=x[[0, -1], 0, 1], aspect="equal")


def _way_down(objective: Objective, start: Floats, radius: float) -> Floats:
    """The gradient flow from a point, at unit speed: steps of equal length show it whatever the scale of f."""
    path = [start]
    for _ in range(400):
        g = objective.gradient(path[-1])
        norm = float(np.linalg.norm(g))
        if norm == 0 or (
            objective.minimizer is not None and np.linalg.norm(path[-1] - _center(objective)) < radius / 50
        ):
            break
        path.append(path[-1] - radius / 100 * g / norm)
    return np.stack(path)


def _spectrum(axes: Axes, objective: Objective, _radius: float) -> None:
    eigenvalues = np.linalg.eigvalsh(objective.hessian(_center(objective)))[::-1]
    axes.loglog(np.arange(1, len(eigenvalues) + 1), np.maximum(eigenvalues, 1e-16), ".", color=BLUE, markersize=4)
    axes.set(xlabel="$j$", ylabel="eigenvalue of the Hessian")


def _center(objective: Objective) -> Floats:
    minimizer = objective.minimizer
    return np.zeros(objective.dimension) if minimizer is None else minimizer
