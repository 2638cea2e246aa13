"""HeavyBall and Nesterov: methods whose memory amplifies, for comparison and for teaching."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad.memory.kinds import as_real
from memgrad.optim import kernels
from memgrad.optim.arithmetic import Arithmetic, Scalar
from memgrad.optim.base import MemoryOptimizer
from memgrad.optim.buckets import Bucket, Step
from memgrad.optim.options import Group, given, refuse_unless_real


class HeavyBall(MemoryOptimizer):
    r"""Polyak's momentum, which sums past gradients instead of averaging them.

    $$v_k = \beta_k v_{k-1} + g_k, \qquad x_{k+1} = x_k - \eta\, v_k, \qquad k = 0, 1, \dots$$

    Its weights sum to a *gain* above 1: to $(1-\beta^{k+1})/(1-\beta)$ with a constant `momentum` $\beta$, and to
    $(k+q+1)/(q+1)$, which is unbounded, with a `viscosity` $q$, where $\beta_k = k/(k+q)$. The gain amplifies
    gradients, which accelerates the method, and noise alike.

    A constant momentum gives `torch.optim.SGD(momentum=...)` exactly. $\beta_k = k/(k+q)$ integrates
    $\ddot X + (q/t) \dot X + \nabla f(X) = 0$ with step $\sqrt\eta$, started at $t = q \sqrt\eta$; the paper's
    $1 - q/k$ is undefined at $k = 0$ and negative for $k < q$.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        momentum: Constant $\beta$, 0 <= momentum < 1; 0.9 if neither momentum nor viscosity is given.
        viscosity: $q$ of the vanishing viscosity $q/t$, finite and > 0, instead of a constant momentum.
        weight_decay: Factor of the L2 term, finite and >= 0.
        decoupled_weight_decay: Shrink the parameters directly instead of adding to the gradients.
        state_dtype: Precision of the sum; the parameter's by default.
        maximize, foreach, fused, capturable, differentiable, compiled: See `MemSGD`.

    Example:
        >>> x = torch.nn.Parameter(torch.zeros(1))
        >>> optimizer = HeavyBall([x], lr=1.0, momentum=0.5)
        >>> for _ in range(3):
        ...     x.grad = torch.ones(1)
        ...     optimizer.step()
        >>> x.data  # gains 1, 1.5, 1.75
        tensor([-4.2500])

    Reference:
        UAI 2019, eqs. HB and HB-SUM, App. B.1 with erratum 15.
    """

    rule: ClassVar[str] = "HeavyBall"
    buffers: ClassVar[tuple[str, ...]] = ("velocity",)
    constructor_options: ClassVar[tuple[str, ...]] = ("momentum", "viscosity")
    _looks_ahead: ClassVar[bool] = False

    @property
    def _required_options(self) -> tuple[str, ...]:
        return ("viscosity",)  # None where there is a momentum

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        momentum: float | None = None,
        viscosity: float | None = None,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        compiled: bool = False,
    ) -> None:
        super().__init__(params, given(locals(), momentum=0.9 if momentum is None and viscosity is None else momentum))
        if momentum is None and viscosity is not None:
            del self.defaults["momentum"]  # so that schedulers see that there is no momentum to cycle

    def _complete_group(self, group: Group) -> None:
        for chosen, other in (("momentum", "viscosity"), ("viscosity", "momentum")):
            if group.get(chosen) is not None:
                group.setdefault(other, None)  # the group's choice overrides a default of the other kind

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        group.setdefault("momentum", None)
        self._refuse_unless_one(group)
        if group["viscosity"] is None:
            refuse_unless_real(type(self).__name__, group, "momentum", high=1.0)
        else:
            group["viscosity"] = as_real(type(self).__name__, "viscosity", group["viscosity"], "a finite viscosity > 0")

    def _refuse_unless_one(self, group: Group) -> None:
        if (group["momentum"] is None) == (group["viscosity"] is None):
            raise ValueError(
                f"{type(self).__name__} takes one of momentum and viscosity, "
                f"got momentum={group['momentum']!r}, viscosity={group['viscosity']!r}; set the other to None."
            )

    def _look_up(self, group: Group) -> None:
        super()._look_up(group)
        self._refuse_unless_one(group)  # a scheduler may have written a momentum beside a viscosity

    @staticmethod
    def _momentum(k: Step, group: Group) -> Scalar:
        momentum: Scalar = group["momentum"] if group["viscosity"] is None else k / (k + group["viscosity"])
        return momentum

    def _update(self, do: Arithmetic, bucket: Bucket, group: Group) -> None:
        x, k = bucket.x, bucket.k
        g = self._with_weight_decay(do, bucket, group)
        (v,) = bucket.buffers
        do.scale_(v, self._momentum(k, group))
        do.add_(v, g, 1.0)
        do.add_(x, do.plus(g, v, self._momentum(k + 1, group)) if self._looks_ahead else v, -self._lr(group))

    def _fused_update(self, bucket: Bucket, group: Group) -> bool:
        # The kernel looks ahead with the momentum of this step; a vanishing viscosity needs the next one's.
        if self._looks_ahead and group["viscosity"] is not None:
            return False
        if group["decoupled_weight_decay"] and group["weight_decay"]:
            return False  # the kernel has none
        lr, momentum = float(self._lr(group)), float(self._momentum(bucket.k, group))
        return kernels.sgd(bucket, lr, momentum, 0.0, group["weight_decay"], group["maximize"], self._looks_ahead)


class Nesterov(HeavyBall):
    r"""Nesterov's accelerated gradient: momentum with gradients at the look-ahead point.

    $$v_k = \beta_k v_{k-1} + g_k, \qquad x_{k+1} = x_k - \eta\,(g_k + \beta_{k+1} v_k), \qquad k = 0, 1, \dots$$

    where $x_k$, the parameters, are the points $y_k = z_k + \beta_k (z_k - z_{k-1})$ of the textbook form
    $z_{k+1} = y_k - \eta \nabla f(y_k)$. `viscosity=3` is Nesterov's own sequence, $\beta_k = k/(k+3)$, with the rate
    $1/k^2$ on convex functions and noise that grows without bound. A constant momentum gives
    `torch.optim.SGD(momentum=..., nesterov=True)` exactly. It has the options of `HeavyBall`.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = Nesterov([x], lr=0.1, viscosity=3)
        >>> x.grad = torch.ones(1)
        >>> optimizer.step()
        >>> x.data
        tensor([0.8750])

    Reference:
        UAI 2019, Sec. 3.3; Su, Boyd and Candes, NeurIPS 2014.
    """

    rule: ClassVar[str] = "Nesterov"
    _looks_ahead: ClassVar[bool] = True
