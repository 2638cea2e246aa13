"""Named methods as optimizers: constructors on top of MemSGD and MemAdam, which take the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from memgrad import method as methods
from memgrad.method import Method
from memgrad.optim.base import MemoryOptimizer
from memgrad.optim.memadam import MemAdam
from memgrad.optim.memsgd import MemSGD
from memgrad.optim.options import Group, given


class NamedMethod(MemoryOptimizer):
    """An optimizer whose mixture is derived from its own options, which stay in its groups and may be changed there."""

    _derived_options: ClassVar[tuple[str, ...]] = ("memory", "second_memory", "weight_decay")
    _named: ClassVar[Callable[..., Method]]
    """The function of `memgrad.method` that returns the method."""
    _decays_by_name: ClassVar[bool] = False
    """Whether the weight decay is derived from these options too, instead of being an option itself."""

    @property
    def _required_options(self) -> tuple[str, ...]:
        return tuple(name for name in self.constructor_options if name != "through_lr")  # which is newer

    def _given(self, group: Group) -> Group:
        """The options that the method is derived from. A checkpoint may hold a list in place of a tuple."""
        return {name: tuple(v) if type(v := group[name]) is list else v for name in self.constructor_options}

    def _derive(self, group: Group) -> None:
        """Derive the memories, and the weight decay, and put them where the step reads them."""
        given = self._given(group)
        try:
            method = type(self)._named(**given)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__} got {given!r}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None
        derived: Group = {"memory": str(method.mixture)}
        if method.second_memory is not None:
            derived["second_memory"] = str(method.second_memory)
        if self._decays_by_name:
            derived["weight_decay"] = str(method.weight_decay) if method.weight_decay.amount else 0.0
        group.update(derived)
        vars(self).setdefault("_last_derived", {})[id(group)] = given, derived

    def _check_group(self, group: Group) -> None:
        self._derive(group)
        super()._check_group(group)

    def _look_up(self, group: Group) -> None:
        given, derived = self._last_derived.get(id(group), (None, {}))
        for name, value in derived.items():
            if group[name] != value:  # deriving it again would discard what was written over it silently
                raise ValueError(
                    f"{type(self).__name__} derives {name} from {', '.join(self.constructor_options)}, got "
                    f"{name}={group[name]!r} in a group. Change these options, or use "
                    f"{'MemAdam' if isinstance(self, MemAdam) else 'MemSGD'}, of which {name} is an option."
                )
        if self._given(group) != given:
            self._derive(group)
        super()._look_up(group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._last_derived: dict[int, tuple[Group, Group]] = {}  # the groups are other objects now
        for group in self.param_groups:
            with suppress(TypeError, ValueError, KeyError):  # options that cannot be used are refused by the next step
                self._derive(group)


class QHM(NamedMethod, MemSGD):
    r"""Quasi-hyperbolic momentum: a step along a share of the newest gradient and a share of an average.

    $x_{k+1} = x_k - \eta\,[(1-\nu)\, g_k + \nu\, m_k]$ with $m_k = \beta m_{k-1} + (1-\beta)\, g_k$, $m_{-1} = 0$: the
    mixture `(1-nu)*inst + nu*cold*exp:beta`.

    Args:
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        nu: Share of the average, 0 <= nu <= 1.
        beta: Decay of the average, 0 <= beta < 1.
        weight_decay, decoupled_weight_decay: See `MemSGD`.
        params, maximize, foreach, fused, capturable, differentiable, state_dtype, compiled: See `MemSGD`.

    Example:
        >>> QHM([torch.nn.Parameter(torch.ones(1))], nu=0.7, beta=0.999).param_groups[0]["memory"]
        '0.3*inst + 0.7*cold*exp:0.999'

    Reference:
        Ma and Yarats, ICLR 2019, arXiv 1810.06801. *Differs*: the average is kept bias-corrected, and the gain of the
        mixture undoes the correction; the steps are the same.
    """

    rule: ClassVar[str] = "QHM"
    _named: ClassVar[Callable[..., Method]] = staticmethod(methods.qhm)
    constructor_options: ClassVar[tuple[str, ...]] = ("nu", "beta")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        nu: float = 0.7,
        beta: float = 0.999,
        weight_decay: float | str = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        compiled: bool = False,
    ) -> None:
        MemoryOptimizer.__init__(self, params, given(locals()))


class AggMo(NamedMethod, MemSGD):
    r"""Aggregated momentum: a step along the mean of several heavy-ball momenta.

    $x_{k+1} = x_k - \frac{\eta}{K} \sum_i v^i_k$ with $v^i_k = \beta_i v^i_{k-1} + g_k$. It keeps a buffer for each
    $\beta_i > 0$.

    Args:
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        betas: The momenta, each 0 <= beta < 1.
        weight_decay, decoupled_weight_decay: See `MemSGD`.
        params, maximize, foreach, fused, capturable, differentiable, state_dtype, compiled: See `MemSGD`.

    Example:
        >>> AggMo([torch.nn.Parameter(torch.ones(1))], betas=(0.0, 0.9)).param_groups[0]["memory"]
        '0.5*inst + 0.5*sum*exp:0.9'

    Reference:
        Lucas, Sun, Zemel and Grosse, ICLR 2019, arXiv 1804.00325.
    """

    rule: ClassVar[str] = "AggMo"
    _named: ClassVar[Callable[..., Method]] = staticmethod(methods.aggmo)
    constructor_options: ClassVar[tuple[str, ...]] = ("betas",)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        betas: Sequence[float] = (0.0, 0.9, 0.99),
        weight_decay: float | str = 0.0,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        compiled: bool = False,
    ) -> None:
        self._default_betas = betas
        options = given(locals())
        # Not among the defaults: schedulers take `betas` there for Adam's, and cycle the first, which here is one of
        # several momenta.
        del options["betas"]
        MemoryOptimizer.__init__(self, params, options)

    def _complete_group(self, group: Group) -> None:
        group.setdefault("betas", self._default_betas)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "betas" in self.defaults:  # pickled when they were among them
            self._default_betas = self.defaults.pop("betas")

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_default_betas": self._default_betas}


class AdEMAMix(NamedMethod, MemAdam):
    r"""Adam with a second, slow average of gradients, and with the ramps of its authors.

    $$x_{k+1} = x_k - \eta \left[ \frac{\hat m_k + \alpha_k s_k}{\sqrt{\hat v_k} + \epsilon} + \lambda x_k \right],
    \qquad k = 0, 1, \dots$$

    $\hat m$ and $\hat v$ are Adam's averages with $\beta_1$ and $\beta_2$. The slow average,
    $s_k = \beta_{3,k} s_{k-1} + (1-\beta_{3,k})\, g_k$, starts from 0 and is not bias-corrected. Over the first `ramp`
    steps $\alpha_k$ rises linearly to $\alpha$, and $\beta_{3,k}$ rises from $\beta_1$ to $\beta_3$ so that its
    half-life grows linearly.

    Args:
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        betas: $\beta_1$ (fast), $\beta_2$ (squares) and $\beta_3$ (slow), each 0 < beta < 1.
        alpha: $\alpha$, finite and >= 0.
        ramp: Number of steps of the ramps, >= 1; its authors use all steps of the run. `None` means no ramps.
        eps: Added to the root, finite and >= 0.
        weight_decay: See `MemAdam`.
        params, maximize, foreach, fused, capturable, differentiable, state_dtype, compiled: See `MemAdam`.

    Example:
        >>> AdEMAMix([torch.nn.Parameter(torch.ones(1))], ramp=1000).param_groups[0]["memory"]
        'exp:0.9 + 5*cold*ramp(1000)*expramp:0.9999,0.9,1000'

    Reference:
        Pagliardini, Ablin and Grangier, arXiv 2409.03137, Algorithm 1.
    """

    rule: ClassVar[str] = "AdEMAMix"
    _named: ClassVar[Callable[..., Method]] = staticmethod(methods.ademamix)
    constructor_options: ClassVar[tuple[str, ...]] = ("betas", "alpha", "ramp")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        betas: Sequence[float] = (0.9, 0.999, 0.9999),
        alpha: float = 5.0,
        ramp: int | None = None,
        eps: float = 1e-8,
        weight_decay: float | str = 0.0,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        compiled: bool = False,
    ) -> None:
        MemoryOptimizer.__init__(self, params, given(locals(), decoupled_weight_decay=True))


class ADana(NamedMethod, MemAdam):
    r"""Adam with polynomial memory in both moments, a growing gain, and a weight decay that vanishes as $1/t$.

    $$x_{k+1} = x_k - \eta_k \frac{g_k + (1+k)^{1-\kappa} u_k}{\sqrt{v_k} + \epsilon}
    - \frac{\eta_k}{\eta^*} \frac{\omega}{k+1} x_k, \qquad k = 0, 1, \dots$$

    $u_k$ and $v_k$ are the averages of gradients and squared gradients with the decays $k/(k+\delta)$: exactly
    `Polynomial(delta)`. The learning rate schedule scales the weight decay, but its peak $\eta^*$ does not; the peak is
    the first `lr` unless the group has a `peak_lr`. The authors use $\omega = 4$ and warm up the learning rate; without
    a warm-up, the first step would subtract four times the weights, which is refused.

    Args:
        lr: Learning rate $\eta$, finite and > 0 at its peak; a float or a tensor with one element.
        delta: Degree of both memories, finite and > 0.
        kappa: Exponent of the gain, 0 <= kappa <= 1; at 1 the gain is constant.
        omega: Factor of the weight decay, finite and >= 0; 0 by default, 4 in the paper.
        through_lr: Multiply the weight decay by the full learning rate, as this class did before version 0.2.
        eps: Added to the root, finite and >= 0.
        params, maximize, foreach, fused, capturable, differentiable, state_dtype, compiled: See `MemAdam`.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = ADana([x], lr=0.1, omega=0.0)
        >>> x.grad = torch.ones(1)
        >>> optimizer.step()
        >>> x.data  # the first step is twice Adam's: the gradient and its average
        tensor([0.8000])

    Reference:
        arXiv 2602.05298 (2026). *Differs*: see `memgrad.method.adana`.
    """

    rule: ClassVar[str] = "ADana"
    _named: ClassVar[Callable[..., Method]] = staticmethod(methods.adana)
    constructor_options: ClassVar[tuple[str, ...]] = ("delta", "kappa", "omega", "through_lr")
    _decays_by_name: ClassVar[bool] = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        delta: float = 8.0,
        kappa: float = 0.85,
        omega: float = 0.0,
        through_lr: bool = False,
        eps: float = 1e-8,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        state_dtype: torch.dtype | None = None,
        compiled: bool = False,
    ) -> None:
        MemoryOptimizer.__init__(self, params, given(locals(), decoupled_weight_decay=True))

    def __setstate__(self, state: dict[str, Any]) -> None:
        for group in state.get("param_groups", ()):
            group.setdefault("through_lr", True)  # checkpoints older than the option used this decay
        super().__setstate__(state)
