r"""Spectra of least-squares problems: curvatures, and how much of the risk lies in each of their directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from memgrad.kinds import Array, as_number, is_real

SMALLEST = 1e-16
"""Curvatures below it are one bin of `Spectrum.power_law`: they do not move within a million accelerated steps."""
SINGLE = 16
"""The number of first eigenvalues of a power law that have a bin each."""


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    r"""The spectrum of the Hessian of a least-squares problem, and the start of the iterates, in bins.

    The directions of a bin share one curvature $\lambda$. What matters of a bin is the sum of its eigenvalues,
    its *trace*, which sets the noise, and its *signal* $\sum_j \lambda_j x_j(0)^2$, twice its share of the first risk.

    Args:
        curvature: The curvature $\lambda > 0$ of each bin.
        trace: The sum of the eigenvalues in each bin, > 0; for a single eigenvalue that is the eigenvalue.
        signal: $\sum_j \lambda_j x_j(0)^2 \ge 0$ over the bin, $x$ measured from the minimizer.
        name: What it is, for tables and legends.

    Example:
        >>> spectrum = Spectrum.of([1.0, 0.25], x0=[1.0, 2.0])
        >>> spectrum.signal
        array([1., 1.])
        >>> spectrum.risk
        1.0
    """

    curvature: Array
    trace: Array
    signal: Array
    name: str = "spectrum"

    def __post_init__(self) -> None:
        for name in ("curvature", "trace", "signal"):
            values = _numbers(name, getattr(self, name))
            object.__setattr__(self, name, values)
            if values.shape != self.curvature.shape:
                raise ValueError(
                    f"a spectrum needs one {name} per bin, got {len(values)} for {len(self.curvature)} curvatures."
                )
        for name in ("curvature", "trace"):
            wrong = getattr(self, name) <= 0
            if wrong.any():
                raise ValueError(
                    f"a spectrum needs every {name} > 0, got {getattr(self, name)[wrong][0]!r} in bin "
                    f"{int(np.argmax(wrong))}; leave out directions without curvature: no gradient moves them."
                )
        if (self.signal < 0).any():
            raise ValueError(f"a spectrum needs every signal >= 0, got {self.signal.min()!r}.")

    @staticmethod
    def of(eigenvalues: ArrayLike, x0: ArrayLike = 1.0) -> Spectrum:
        """The spectrum with these eigenvalues, one bin each.

        Args:
            eigenvalues: All > 0.
            x0: The start in the direction of each, measured from the minimizer; one number for all.

        Example:
            >>> float(Spectrum.of([2.0, 1.0, 0.5]).trace.sum())
            3.5
        """
        lam = _numbers("curvature", eigenvalues)
        x = np.broadcast_to(_numbers("x0", x0), lam.shape)
        return Spectrum(lam, lam, lam * x**2, f"{len(lam)} eigenvalues")

    @staticmethod
    def power_law(nu: float, zeta: float, *, dimension: float = np.inf, per_octave: float = 3.0) -> Spectrum:
        r"""A power law: $\lambda_j = j^{-\nu}$ and $\lambda_j x_j(0)^2 = j^{-\nu\zeta-1}$, $j = 1, 2, \dots$

        Then $\sum_{\lambda_j < l} \lambda_j x_j(0)^2 \approx l^\zeta/(\nu\zeta)$: $\zeta$ says how hard the start is,
        because what lies in flat directions is learned late. The first 16 eigenvalues have a bin each. The rest is in
        bins of equal width in $\log\lambda$, with the sums of the power laws, exact, and the mean curvature of the
        bin's signal; the last bin holds all curvatures below 1e-16.

        Args:
            nu: $\nu$, finite and > 1: the eigenvalues must have a sum.
            zeta: $\zeta$, finite and > 0.
            dimension: The number of eigenvalues; infinitely many by default.
            per_octave: The number of bins per factor 2 of the curvature, >= 1.

        Example:
            >>> spectrum = Spectrum.power_law(2.0, 0.5)
            >>> round(float(spectrum.trace.sum()), 12)  # pi^2/6
            1.644934066848
            >>> len(spectrum.curvature)
            153
        """
        owner = "a power-law spectrum"
        nu = as_number(
            owner, "nu", nu, least=1.0, excluded=True, why="the sum of the eigenvalues j^-nu is infinite otherwise"
        )
        zeta = as_number(owner, "zeta", zeta, least=0.0, excluded=True, why="the first risk is infinite otherwise")
        as_number(
            owner, "per_octave", per_octave, least=0.99, excluded=True, why="wider bins are not a power law any more"
        )
        if dimension != np.inf and not (is_real(dimension) and dimension >= 1 and dimension == int(dimension)):
            raise ValueError(f"{owner} needs an integer dimension >= 1 or inf, got dimension={dimension!r}.")
        edges = _edges(nu, float(dimension), per_octave)
        trace, signal, weighted = (_power_sums(s, edges) for s in (nu, nu * zeta + 1, nu * zeta + 1 + nu))
        if not (signal > 0).all():
            raise ValueError(
                f"{owner} needs sums of j^-(nu*zeta + 1) that are not rounded to 0, got nu={nu:g}, zeta={zeta:g}: take "
                f"a smaller zeta, or fewer dimensions; what lies in flat directions is negligible long before."
            )
        size = "" if dimension == np.inf else f", {dimension:g} eigenvalues"
        return Spectrum(weighted / signal, trace, signal, f"nu = {nu:g}, zeta = {zeta:g}{size}")

    @property
    def risk(self) -> float:
        """The excess risk at the start: half the sum of the signal."""
        return float(self.signal.sum()) / 2

    def __repr__(self) -> str:
        return f"<Spectrum {self.name}: {len(self.curvature)} bins>"


def sgd_limit(spectrum: Spectrum, *, batch: int = 1) -> float:
    r"""The learning rate below which SGD converges on streaming least squares.

    The largest $\eta$ with $\eta\lambda(1 + 1/B) \le 2$ for all curvatures and

    $$\frac1B \sum_j \frac{\eta \lambda_j}{2 - \eta\lambda_j (1 + 1/B)} \le 1.$$

    The stationary equation of `exact_risk` for SGD is
    $Y_j (2 - \eta\lambda_j(1+1/B)) = \eta \lambda_j R/B$ with $Y_j = \lambda_j X_j$; a solution with $\sum Y_j = R > 0$
    is the border of stability, because the recursion maps positive moments to positive ones.

    Example:
        >>> sgd_limit(Spectrum.of([1.0] * 8), batch=2)  # 2/(1 + (d+1)/B)
        0.36363636363636365
    """
    from scipy.optimize import brentq

    lam, trace, b = spectrum.curvature, spectrum.trace, as_batch("sgd_limit", batch)
    top = 2 / (float(lam.max()) * (1 + 1 / b))

    def excess(log: float) -> float:
        eta = np.exp(log)
        return float((eta * trace / (2 - eta * lam * (1 + 1 / b))).sum() / b) - 1

    low, high = np.log(top * 1e-12), np.log(top) - 1e-12
    return float(np.exp(brentq(excess, low, high, xtol=1e-14))) if excess(high) > 0 else top


def as_batch(owner: str, batch: Any) -> int:
    """A batch size, an integer >= 1, or an error that names its owner."""
    if not is_real(batch) or not 1 <= batch < np.inf or batch != int(batch):
        raise ValueError(f"{owner} needs an integer batch >= 1, got batch={batch!r}.")
    return int(batch)


def _edges(nu: float, dimension: float, per_octave: float) -> Array:
    """The first index of each bin, and the end of the last."""
    last = min(dimension + 1, SMALLEST ** (-1 / nu))
    count = max(int(np.ceil(nu * np.log2(last / SINGLE) * per_octave)), 1) if last > SINGLE else 0
    wide = np.unique(np.round(np.geomspace(SINGLE + 1, last, count + 1))) if count else np.array([])
    single = np.arange(1.0, min(SINGLE, dimension) + 1)
    return np.concatenate(
        [single, wide[wide > single[-1]], [dimension + 1] if last < dimension + 1 or not count else []]
    )


def _power_sums(s: float, edges: Array) -> Array:
    """The sum of j^-s over the indices from each edge to the next."""
    from scipy.special import zeta

    tails = np.array([0.0 if edge == np.inf else zeta(s, edge) for edge in edges])
    return np.asarray(tails[:-1] - tails[1:])


def _numbers(name: str, values: Any) -> Array:
    array = np.asarray(values, dtype=float)
    array = array[None] if array.ndim == 0 else array
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"a spectrum needs finite numbers, one {name} per bin, got {name}={values!r}.")
    return array
