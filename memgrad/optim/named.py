"""Named methods as optimizers: a constructor each, over MemSGD and MemAdam, which take the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
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


def _derived(make: Callable[..., Method], options: tuple[tuple[str, Any], ...]) -> tuple[Group, float | str]:
    """The memories that follow from the options of a method, and its weight decay."""
    method = make(**dict(options))
    memories = {"memory": str(method.mixture)}
    if method.second_memory is not None:
        memories["second_memory"] = str(method.second_memory)
    return memories, str(method.weight_decay) if method.weight_decay.amount else 0.0


# For steps. A cache takes True for 1, and so would let it pass where options are checked.
_remembered = lru_cache(maxsize=256)(_derived)


class NamedMethod(MemoryOptimizer):
    """An optimizer whose mixture follows from options of its own, which stay in its groups and may change there."""

    _derived_options: ClassVar[tuple[str, ...]] = ("memory", "second_memory", "weight_decay")
    _named: ClassVar[Callable[..., Method]]
    """The function of `memgrad.method` that writes the method."""
    _decays_by_name: ClassVar[bool] = False
    """Whether its weight decay follows from these options too, and is no option of its own."""

    @property
    def _required_options(self) -> tuple[str, ...]:
        return tuple(name for name in self.constructor_options if name != "through_lr")  # which is newer

    def _derive(self, group: Group, derived: Callable[..., tuple[Group, float | str]]) -> None:
        """Put what follows from the options where the step looks for it."""
        # A checkpoint may hold a list where there was a tuple.
        options = {name: tuple(v) if isinstance(v := group[name], list) else v for name in self.constructor_options}
        try:
            memories, decay = derived(type(self)._named, tuple(options.items()))
        except TypeError as error:
            raise TypeError(f"{type(self).__name__} got {options!r}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None
        found = {**memories, "weight_decay": decay} if self._decays_by_name else memories
        group.update(found)
        vars(self).setdefault("_last_derived", {})[id(group)] = found

    def _refuse_if_overwritten(self, group: Group) -> None:
        """Refuse a value that someone wrote over one that follows from options, by which it would be lost."""
        for name, derived in vars(self).get("_last_derived", {}).get(id(group), {}).items():
            if group[name] != derived:
                raise ValueError(
                    f"{type(self).__name__} derives {name} from {', '.join(self.constructor_options)}, got "
                    f"{name}={group[name]!r} in a group. Change these options, or use "
                    f"{'MemAdam' if isinstance(self, MemAdam) else 'MemSGD'}, of which {name} is an option."
                )

    def _check_group(self, group: Group) -> None:
        self._derive(group, _derived)
        super()._check_group(group)

    def _look_up(self, group: Group) -> None:
        if not torch.compiler.is_compiling():
            self._refuse_if_overwritten(group)
        self._derive(group, _remembered)
        super()._look_up(group)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._last_derived: dict[int, Group] = {}  # the groups are others now


class QHM(NamedMethod, MemSGD):
    r"""Quasi-hyperbolic momentum: $x_{k+1} = x_k - \eta\,[(1-\nu)\, g_k + \nu\, m_k]$, with an average $m$ from 0.

    $m_k = \beta m_{k-1} + (1-\beta)\, g_k$, $m_{-1} = 0$: the mixture `(1-nu)*inst + nu*cold*exp:beta`.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        nu: Share of the average, 0 <= nu <= 1.
        beta: Its decay, 0 <= beta < 1.
        weight_decay: See `MemSGD`.
        decoupled_weight_decay: See `MemSGD`.
        maximize: Ascend.
        foreach: See `MemSGD`.
        fused: See `MemSGD`.
        capturable: See `MemSGD`.
        differentiable: See `MemSGD`.
        state_dtype: See `MemSGD`.
        compiled: See `MemSGD`.

    Example:
        >>> QHM([torch.nn.Parameter(torch.ones(1))], nu=0.7, beta=0.999).param_groups[0]["memory"]
        '0.3*inst + 0.7*cold*exp:0.999'

    Reference:
        Ma and Yarats, ICLR 2019, arXiv 1810.06801. *Differs*: the average is kept corrected, and the gain of its start
        from 0 is in the mixture; the steps are the same.
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
    r"""Aggregated momentum: the mean of several heavy balls, $x_{k+1} = x_k - \frac{\eta}{K} \sum_i v^i_k$.

    $v^i_k = \beta_i v^i_{k-1} + g_k$. It keeps a buffer for each $\beta_i > 0$.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        betas: The momenta, each 0 <= beta < 1.
        weight_decay: See `MemSGD`.
        decoupled_weight_decay: See `MemSGD`.
        maximize: Ascend.
        foreach: See `MemSGD`.
        fused: See `MemSGD`.
        capturable: See `MemSGD`.
        differentiable: See `MemSGD`.
        state_dtype: See `MemSGD`.
        compiled: See `MemSGD`.

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
        MemoryOptimizer.__init__(self, params, given(locals()))


class AdEMAMix(NamedMethod, MemAdam):
    r"""A fast and a slow average over the root of an average of squares, with the ramps of its authors.

    $$x_{k+1} = x_k - \eta \left[ \frac{\hat m_k + \alpha_k s_k}{\sqrt{\hat v_k} + \epsilon} + \lambda x_k \right],
    \qquad k = 0, 1, \dots$$

    $\hat m$ and $\hat v$ are Adam's averages with $\beta_1$ and $\beta_2$. The slow average,
    $s_k = \beta_{3,k} s_{k-1} + (1-\beta_{3,k})\, g_k$, starts from 0 and is not corrected. Over the first `ramp` steps
    $\alpha_k$ rises linearly to $\alpha$, and $\beta_{3,k}$ from $\beta_1$ to $\beta_3$ with a half-life that rises
    linearly.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and >= 0; a float or a tensor with one element.
        betas: $\beta_1$ (fast), $\beta_2$ (squares) and $\beta_3$ (slow), each 0 < beta < 1.
        alpha: $\alpha$, finite and >= 0.
        ramp: How many steps the ramps take, >= 1; its authors take all steps of the run. `None` is no ramp.
        eps: Added to the root, finite and >= 0.
        weight_decay: See `MemAdam`.
        maximize: Ascend.
        foreach: See `MemAdam`.
        fused: See `MemAdam`.
        capturable: See `MemAdam`.
        differentiable: See `MemAdam`.
        state_dtype: See `MemAdam`.
        compiled: See `MemAdam`.

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
    r"""Adam with polynomial memory of both moments, a growing gain, and a weight decay that vanishes as $1/t$.

    $$x_{k+1} = x_k - \eta_k \frac{g_k + (1+k)^{1-\kappa} u_k}{\sqrt{v_k} + \epsilon}
    - \frac{\eta_k}{\eta^*} \frac{\omega}{k+1} x_k, \qquad k = 0, 1, \dots$$

    $u_k$ and $v_k$ are the averages of gradients and squared gradients with the decays $k/(k+\delta)$: exactly
    `Polynomial(delta)`. The schedule of the learning rate scales the weight decay, its peak $\eta^*$ does not; the peak
    is the first `lr` unless the group has a `peak_lr`. Its authors take $\omega = 4$ and warm the learning rate up;
    without that the first step would take away four times the weights, which is refused.

    Args:
        params: Parameters, named parameters, or dicts of parameter groups.
        lr: Learning rate $\eta$, finite and > 0 at its peak; a float or a tensor with one element.
        delta: Degree of both memories, finite and > 0.
        kappa: Exponent of the gain, 0 <= kappa <= 1; at 1 the gain is constant.
        omega: Factor of the weight decay, finite and >= 0. None by default, 4 in its source.
        through_lr: Multiply the weight decay by the whole learning rate, as this class did before version 0.2.
        eps: Added to the root, finite and >= 0.
        maximize: Ascend.
        foreach: See `MemAdam`.
        fused: See `MemAdam`.
        capturable: See `MemAdam`.
        differentiable: See `MemAdam`.
        state_dtype: See `MemAdam`.
        compiled: See `MemAdam`.

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
            group.setdefault("through_lr", True)  # a checkpoint that is older than the option had this decay
        super().__setstate__(state)
