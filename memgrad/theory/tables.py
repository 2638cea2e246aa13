"""The paper's tables of rates as data, each row with the function that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memgrad.theory.bound import Bound
from memgrad.theory.continuous import exponential, instantaneous, polynomial
from memgrad.theory.heavy_ball import Polyak, heavy_ball, heavy_ball_bounded, heavy_ball_gradient, polyak


@dataclass(frozen=True)
class Row:
    """One row of a table of rates.

    Args:
        method: The method, or the kind of forgetting.
        assumption: What the function and its gradients must satisfy.
        quantity: What converges.
        rate: The part of the bound that vanishes, as text.
        ball: The part that the noise leaves, as text; 0 without noise.
        reference: Where it is proved.
        function: The function of `memgrad.theory` that computes it.
        note: Where this row differs from the printed one, or what the print leaves out.
    """

    method: str
    assumption: str
    quantity: str
    rate: str
    ball: str
    reference: str
    function: Callable[..., Bound | Polyak]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data, with the name of its function.

        Example:
            >>> TABLE_3[2].to_dict()["function"]
            'polynomial'
        """
        return {**vars(self), "function": self.function.__name__}


TABLE_1: tuple[Row, ...] = (
    Row(
        method="heavy-ball",
        assumption="mu-strongly convex, L-smooth; deterministic",
        quantity="f(x_k) - f*",
        rate="O(q^k), q = (sqrt L - sqrt mu)/(sqrt L + sqrt mu)",
        ball="0",
        reference="Polyak 1964",
        function=polyak,
        note="Local: it needs a second derivative and a start near x*. On quadratics |x_k - x*| itself is O(k q^k).",
    ),
    Row(
        method="heavy-ball",
        assumption="convex, L-smooth; deterministic",
        quantity="f(mean of x_0, ..., x_k) - f*",
        rate="O(1/k)",
        ball="0",
        reference="Ghadimi et al. 2015",
        function=heavy_ball,
        note="The function allows noise, which adds the ball d lr noise^2/(2 (1-beta)).",
    ),
    Row(
        method="heavy-ball",
        assumption="convex; stochastic, bounded noise, bounded gradients",
        quantity="E f(mean of x_0, ..., x_k) - f*",
        rate="O(1/sqrt k)",
        ball="0",
        reference="Yang et al. 2016",
        function=heavy_ball_bounded,
        note="For lr proportional to 1/sqrt(k+1), chosen for the last step k; a constant lr leaves a ball.",
    ),
    Row(
        method="heavy-ball",
        assumption="L-smooth, not convex; stochastic, bounded noise, bounded gradients",
        quantity="the least E |grad f(x_j)|^2 over j <= k",
        rate="O(1/sqrt k)",
        ball="0",
        reference="Yang et al. 2016",
        function=heavy_ball_gradient,
        note="For lr proportional to 1/sqrt(k+1), chosen for the last step k; a constant lr leaves a ball.",
    ),
)
"""Table 1: known rates of heavy-ball."""

TABLE_3: tuple[Row, ...] = (
    Row(
        method="instantaneous",
        assumption="(H0c), (H1)",
        quantity="E f(mean of X over [0, t]) - f*",
        rate="C_i/t, C_i = |x0 - x*|^2/2",
        ball="d sigma_*^2/2",
        reference="Mertikopoulos and Staudigl 2018",
        function=instantaneous,
        note="The printed mean lacks its 1/t (erratum 10).",
    ),
    Row(
        method="exponential",
        assumption="(H0c), (H1)",
        quantity="E f(mean of X over [0, t]) - f*",
        rate="C_e/t, C_e = (f(x0) - f*)/alpha + |x0 - x*|^2/2",
        ball="d sigma_*^2/2",
        reference="Theorem D.4",
        function=exponential,
        note="The printed mean lacks its 1/t (erratum 10).",
    ),
    Row(
        method="polynomial",
        assumption="(H0c), (H1), p >= 2",
        quantity="E f(X(t)) - f*",
        rate="C_p/t, C_p = (p-1)^2 |x0 - x*|^2/(2p)",
        ball="p d sigma_*^2/2",
        reference="Theorem D.3",
        function=polynomial,
    ),
)
"""Table 3: rates of MG-SDE on convex smooth functions."""
