"""Schedule-Free AdamW, for comparisons: an optimizer with modes that no method of ours is equal to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT


@final
class ScheduleFreeAdamW(Optimizer):
    r"""Schedule-Free AdamW: steps are taken with $z$, averaged into $x$, and gradients are taken in between, at $y$.

    $$z_{k+1} = z_k - \eta_k \Bigl(\frac{g_k}{\sqrt{v_k} + \epsilon} + \lambda y_k\Bigr), \qquad
    x_{k+1} = (1 - c_k)\, x_k + c_k z_{k+1}, \qquad y_k = (1-\beta_1)\, z_k + \beta_1 x_k$$

    with the gradient $g_k$ at $y_k$, Adam's average $v_k$ of squares with bias correction, and
    $c_k = \eta_k^2 / \sum_{j \le k} \eta_j^2$, where $\eta$ is the largest learning rate so far. The learning
    rate is meant to be constant after a warm-up. The parameters are $y$ in the mode `train`, in which it is made, and
    $x$, the point to be judged, in the mode `eval`.

    Args:
        params: Parameters or groups.
        lr: $\eta$, > 0.
        betas: $\beta_1$ and $\beta_2$, in [0, 1).
        eps: $\epsilon$, >= 0.
        weight_decay: $\lambda$, >= 0.

    Reference:
        Defazio et al., *The road less scheduled*, NeurIPS 2024, arXiv 2405.15682, and version 1.4.1 of its package.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 2.5e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"ScheduleFreeAdamW needs betas in [0, 1), got betas={betas!r}.")
        numbers = {"count": 0, "largest_lr": 0.0, "total_weight": 0.0}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **numbers})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]  # torch's
        """Take a step; the parameters must be those of the mode `train`."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["count"] += 1
            group["largest_lr"] = max(group["largest_lr"], float(group["lr"]))
            group["total_weight"] += group["largest_lr"] ** 2
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, p.grad, group)
        return loss

    def _update(self, y: Tensor, g: Tensor, group: dict[str, Any]) -> None:
        state, (beta1, beta2) = self.state[y], group["betas"]
        if not state:
            state.update(z=y.clone(), x=y.clone(), v=torch.zeros_like(y))
        z, x, v = state["z"], state["x"], state["v"]
        v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        root = v.div(1 - beta2 ** group["count"]).sqrt_().add_(group["eps"])
        z.sub_(g / root + group["weight_decay"] * y, alpha=group["lr"])
        x.lerp_(z, group["largest_lr"] ** 2 / group["total_weight"])
        y.copy_(z.lerp(x, beta1))

    @torch.no_grad()
    def train(self) -> None:
        """Put the parameters to where gradients are taken."""
        for group in self.param_groups:
            for y in group["params"]:
                if state := self.state.get(y):
                    y.copy_(state["z"].lerp(state["x"], group["betas"][0]))

    @torch.no_grad()
    def eval(self) -> None:
        """Put the parameters to the average, which is judged."""
        for y, state in self.state.items():
            y.copy_(state["x"])
