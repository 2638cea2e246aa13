"""The exponent of the strongly convex bounds as a root of a polynomial, by numpy's eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest

from memgrad.theory import best_gamma


# From one root to three: the cubic has a maximum and a minimum below kappa = 1/(3 (1 + tau)).
@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("kappa", [1e-4, 1e-3, 0.01, 0.03, 0.06, 0.1, 0.2, 0.5, 2.0, 50.0])
def test_the_tight_exponent_is_the_largest_root_below_alpha(kappa: float, tau: float) -> None:
    """u (kappa + (1-u)^2) = tau kappa (1-u), u = gamma/alpha, is u^3 - 2 u^2 + (1 + kappa (1 + tau)) u = tau kappa."""
    roots = np.roots([1.0, -2.0, 1 + kappa * (1 + tau), -tau * kappa])
    real = roots[np.abs(roots.imag) < 1e-9].real
    expected = max(u for u in real if 0 < u < 1)
    for alpha in (1.0, 3.0):
        found = best_gamma(alpha=alpha, growth=kappa * alpha**2, tau=tau, tight=True)
        assert found == pytest.approx(alpha * expected, rel=1e-9)
