"""Lanczos' method on products with a symmetric matrix: extreme eigenvalues, and the spectral density by quadrature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from memgrad.kinds import Array


@final
@dataclass(frozen=True, eq=False)
class Ritz:
    r"""What Lanczos found from one probe: a Gauss quadrature of the spectral density.

    Attributes:
        values: The Ritz values, in falling order.
        weights: Their weights, which sum to 1: the share of the dimension that each stands for, on average over probes.
        errors: For each value a bound of its distance to an eigenvalue.
    """

    values: Array
    weights: Array
    errors: Array

    def converged(self, tolerance: float) -> Array:
        """The leading values whose relative error is below the tolerance, without a gap: the top of the spectrum."""
        good = (self.errors <= tolerance * np.abs(self.values)) & (self.values > 0)
        return self.values[: int(np.argmin(good)) if not good.all() else len(good)]


def lanczos(
    product: Callable[[Tensor], Tensor], probe: Tensor, steps: int, *, step_done: Callable[[], None] = lambda: None
) -> Ritz:
    r"""The Ritz values of a symmetric matrix, from its products with vectors.

    The recursion $\beta_{i+1} q_{i+1} = A q_i - \alpha_i q_i - \beta_i q_{i-1}$ from $q_1$ = probe, with every vector
    made orthogonal to all earlier ones twice, gives a tridiagonal matrix $T$. Its eigenvalues $\theta_i$ and the
    squares of the first components of its eigenvectors are the nodes and weights of the quadrature
    $\frac{1}{d} \operatorname{tr} f(A) \approx \mathbb{E} \sum_i w_i f(\theta_i)$; the last components, times the next
    $\beta$, bound the distance of each to an eigenvalue.

    Args:
        product: The matrix times a vector.
        probe: The first vector, such as random signs; it is normalized.
        steps: The number of steps, >= 1; at most the dimension is of use.
        step_done: Called after each step.

    Example:
        >>> matrix = torch.diag(torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64))
        >>> lanczos(lambda v: matrix @ v, torch.ones(3, dtype=torch.float64), 3).values.round(12)
        array([4., 2., 1.])

    Reference:
        Ubaru, Chen and Saad, *Fast estimation of tr(f(A)) via stochastic Lanczos quadrature*, SIAM J. Matrix Anal.
        Appl. 38 (2017).
    """
    from scipy.linalg import eigh_tridiagonal

    steps = min(steps, probe.numel())
    basis = torch.empty((steps, probe.numel()), dtype=probe.dtype)
    diagonal, beside = np.zeros(steps), np.zeros(steps)
    vector = probe / probe.norm()
    done = 0
    for i in range(steps):
        basis[i] = vector
        image = product(vector)
        diagonal[i] = float(vector @ image)
        for _ in range(2):
            image = image - basis[: i + 1].T @ (basis[: i + 1] @ image)
        beside[i] = float(image.norm())
        done = i + 1
        step_done()
        # Nothing is left: the probe lies in an invariant subspace, all of whose eigenvalues have been found.
        if beside[i] <= 10 * torch.finfo(probe.dtype).eps * max(1e-300, float(np.abs(diagonal[:done]).max())):
            beside[i] = 0.0
            break
        vector = image / beside[i]
    values, vectors = eigh_tridiagonal(diagonal[:done], beside[: done - 1])
    order = np.argsort(values)[::-1]
    rest = np.abs(vectors[-1, order]) * beside[done - 1]
    return Ritz(values[order], vectors[0, order] ** 2, rest)
