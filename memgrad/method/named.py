"""The named methods: functions that return the `Method` with their options, in the conventions of their authors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memgrad.kinds import as_number
from memgrad.memory import (
    COLD,
    SUM,
    Exponential,
    Gain,
    Instantaneous,
    Memory,
    Mixture,
    Part,
    Polynomial,
    RampedExponential,
)
from memgrad.memory.gain_factors import Nadam
from memgrad.memory.gains import Term
from memgrad.memory.kinds import as_real
from memgrad.method.method import Kind, Method, WeightDecay

INST = Instantaneous()


def _exponential(owner: str, name: str, beta: float) -> Memory:
    """`exp:beta`, or `inst` for beta = 0."""
    if not isinstance(beta, bool) and isinstance(beta, int | float) and beta == 0:
        return INST
    return Exponential(as_real(owner, name, beta, f"0 <= {name} < 1", below=1.0))


def _complement(share: float) -> float:
    """1 - share to 15 digits, so that 1 - 0.85 is written 0.15."""
    return float(f"{1 - share:.15g}")


def _mixture(*parts: tuple[Gain | float, Memory]) -> Mixture:
    """The sum of memories with gains, of which some may be 0: a part with gain 0 alone is not a mixture."""
    return Mixture(tuple(Part(Gain.of(gain), memory) for gain, memory in parts))


def _pair(owner: str, betas: Sequence[float]) -> tuple[Memory, Memory]:
    if len(betas) != 2:
        raise ValueError(f"{owner} needs two betas, got betas={tuple(betas)!r}.")
    return _exponential(owner, "beta1", betas[0]), _exponential(owner, "beta2", betas[1])


# --- linear methods --------------------------------------------------------------------------------------------------


def sgd() -> Method:
    """Plain gradient descent, without memory.

    Example:
        >>> print(sgd())
        inst
    """
    return Method(INST)


def memsgd(memory: Mixture | Memory | str = "poly:2") -> Method:
    """SGD along a memory or a mixture; `poly:p` is the paper's MemSGD-p.

    Args:
        memory: A memory, a mixture, or a text form.

    Example:
        >>> print(memsgd("poly:4"))
        poly:4

    Reference:
        Orvieto, Kohler and Lucchi, UAI 2019, Sec. 4.2.
    """
    return Method(memory)


def heavy_ball(momentum: float = 0.9, *, viscosity: float | None = None) -> Method:
    r"""Polyak's momentum: $v_k = \beta_k v_{k-1} + g_k$, which sums gradients instead of averaging them.

    Args:
        momentum: Constant $\beta$, 0 <= momentum < 1.
        viscosity: $q$, finite and > 0, for $\beta_k = k/(k+q)$ instead of a constant momentum.

    Example:
        >>> print(heavy_ball(0.9)), print(heavy_ball(viscosity=3))
        sum*exp:0.9
        sum*poly:4
        (None, None)

    Reference:
        UAI 2019, eqs. HB and HB-SUM.
    """
    return Method(_summed("heavy_ball", momentum, viscosity))


def nesterov(momentum: float = 0.9, *, viscosity: float | None = None) -> Method:
    r"""Nesterov's accelerated gradient: $g_k + \beta_{k+1} v_k$ with heavy ball's $v_k$.

    Args:
        momentum: Constant $\beta$, 0 <= momentum < 1.
        viscosity: $q$ for $\beta_k = k/(k+q)$ instead of a constant momentum; 3 is Nesterov's own.

    Example:
        >>> print(nesterov(viscosity=3))
        inst + 0.25*(1+k)*poly:4

    Reference:
        Su, Boyd and Candes, NeurIPS 2014; Sutskever et al., ICML 2013, for the form in the look-ahead parameters.
    """
    if viscosity is not None:
        q = as_real("nesterov", "viscosity", viscosity, "a finite viscosity > 0")
        # (k+1)/(k+1+q) times the gain (k+q+1)/(q+1) of heavy ball
        return Method(INST + 1 / (q + 1) * Gain.power(1) * Polynomial(q + 1))
    ball = _summed("nesterov", momentum, None)
    return Method(INST + momentum * ball) if ball.averages else Method(INST)


def _summed(owner: str, momentum: float, viscosity: float | None, name: str = "momentum") -> Mixture:
    if viscosity is not None:
        return SUM * Polynomial(as_real(owner, "viscosity", viscosity, "a finite viscosity > 0") + 1)
    memory = _exponential(owner, name, momentum)
    return Mixture.of(INST) if memory == INST else SUM * memory


def qhm(nu: float = 0.7, beta: float = 0.999) -> Method:
    r"""Quasi-hyperbolic momentum: $(1-\nu) g_k + \nu m_k$ with the average $m$ that starts from 0.

    Args:
        nu: Share of the average, 0 <= nu <= 1.
        beta: Decay of the average, 0 <= beta < 1.

    Example:
        >>> print(qhm())
        0.3*inst + 0.7*cold*exp:0.999

    Reference:
        Ma and Yarats, ICLR 2019, arXiv 1810.06801.
    """
    if isinstance(nu, bool) or not 0 <= nu <= 1:
        raise ValueError(f"qhm needs 0 <= nu <= 1, got nu={nu!r}.")
    memory = _exponential("qhm", "beta", beta)
    return Method(_mixture((_complement(nu), INST), (nu if memory == INST else nu * COLD, memory)))


def aggmo(betas: Sequence[float] = (0.0, 0.9, 0.99)) -> Method:
    r"""Aggregated momentum: the mean of heavy ball's $v_k$ for several $\beta_i$.

    Args:
        betas: The momenta, each 0 <= beta < 1.

    Example:
        >>> print(aggmo((0.0, 0.9)))
        0.5*inst + 0.5*sum*exp:0.9

    Reference:
        Lucas, Sun, Zemel and Grosse, ICLR 2019, arXiv 1804.00325.
    """
    if not isinstance(betas, Sequence):
        raise TypeError(f"aggmo needs several numbers 0 <= beta < 1, such as (0.0, 0.9, 0.99), got betas={betas!r}.")
    if not betas:
        raise ValueError("aggmo needs at least one beta, got none.")
    parts = [part for beta in betas for part in (1 / len(betas) * _summed("aggmo", beta, None, "beta")).parts]
    return Method(Mixture(tuple(parts)))


def dana(delta: float = 8.0, kappa: float = 0.85, *, scale: float = 1.0) -> Method:
    r"""DANA with a decaying schedule: $g_k + c (1+k)^{1-\kappa} u_k$ with polynomial memory of degree $\delta$.

    Args:
        delta: Degree of the memory, finite and > 0.
        kappa: Exponent of the gain, 0 <= kappa <= 1; $1/\nu$ for a spectrum $\lambda_j = j^{-\nu}$.
        scale: $c$, finite and >= 0.

    Example:
        >>> print(dana(4, 0.5, scale=0.1))
        inst + 0.1*(1+k)^0.5*poly:4

    Reference:
        arXiv 2505.16098 (2025).
    """
    return Method(_growing("dana", delta, kappa, scale))


def _growing(owner: str, delta: float, kappa: float, scale: float) -> Mixture:
    if isinstance(kappa, bool) or not 0 <= kappa <= 1:
        raise ValueError(f"{owner} needs 0 <= kappa <= 1, got kappa={kappa!r}.")
    memory = Polynomial(as_real(owner, "delta", delta, "a finite degree delta > 0"))
    return _mixture((1.0, INST), (scale * Gain.power(_complement(kappa)), memory))


# --- adaptive methods ------------------------------------------------------------------------------------------------


def memadam(
    memory: Mixture | Memory | str = "exp:0.9",
    second_memory: Memory | str = "poly:4",
    *,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Method:
    """Adam with any mixture of gradients and any memory of squared gradients, and decoupled weight decay.

    Args:
        memory: A memory, a mixture, or a text form.
        second_memory: A memory or its text form.
        eps: Added to the root, finite and >= 0.
        weight_decay: Finite and >= 0.

    Example:
        >>> print(memadam("inst + (1+k)^0.25*poly:8", "poly:8"))
        inst + (1+k)^0.25*poly:8 / (sqrt(poly:8) + 1e-08)
    """
    return Method(memory, second_memory, eps=eps, weight_decay=WeightDecay(weight_decay))


def polyadam(p: float = 4.0, beta: float = 0.9, *, eps: float = 1e-8, weight_decay: float = 0.0) -> Method:
    """The paper's Adam with polynomial memory of squared gradients.

    Args:
        p: Degree of the second memory, finite and > 0.
        beta: Decay of the first memory, 0 <= beta < 1.
        eps: Added to the root.
        weight_decay: Decoupled, finite and >= 0.

    Example:
        >>> print(polyadam())
        exp:0.9 / (sqrt(poly:4) + 1e-08)

    Reference:
        UAI 2019, Sec. 6.
    """
    return memadam(_exponential("polyadam", "beta", beta), Polynomial(p), eps=eps, weight_decay=weight_decay)


def adam(betas: Sequence[float] = (0.9, 0.999), *, eps: float = 1e-8, weight_decay: float = 0.0) -> Method:
    """Adam, with L2 regularization in the gradient.

    Args:
        betas: Decays of the two averages, 0 <= beta < 1.
        eps: Added to the root.
        weight_decay: The factor of the L2 term, finite and >= 0.

    Example:
        >>> print(adam())
        exp:0.9 / (sqrt(exp:0.999) + 1e-08)

    Reference:
        Kingma and Ba, ICLR 2015.
    """
    return Method(*_pair("adam", betas), eps=eps, weight_decay=WeightDecay(weight_decay, "l2"))


def adamw(betas: Sequence[float] = (0.9, 0.999), *, eps: float = 1e-8, weight_decay: float = 0.01) -> Method:
    """Adam with decoupled weight decay.

    Args:
        betas: Decays of the two averages, 0 <= beta < 1.
        eps: Added to the root.
        weight_decay: Finite and >= 0.

    Example:
        >>> print(adamw())
        exp:0.9 / (sqrt(exp:0.999) + 1e-08); decay=0.01

    Reference:
        Loshchilov and Hutter, ICLR 2019.
    """
    return Method(*_pair("adamw", betas), eps=eps, weight_decay=WeightDecay(weight_decay))


def nadam(
    betas: Sequence[float] = (0.9, 0.999),
    *,
    eps: float = 1e-8,
    psi: float = 0.004,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> Method:
    r"""Adam with Nesterov momentum, whose momentum $\mu_t = \beta_1 (1 - \frac12 0.96^{t\psi})$ rises.

    Args:
        betas: Decays of the two averages, 0 <= beta < 1.
        eps: Added to the root.
        psi: Rate of the rise, finite and >= 0; `momentum_decay` in torch.
        weight_decay: Finite and >= 0.
        decoupled: Whether the weight decay is decoupled instead of an L2 term.

    Example:
        >>> print(nadam())
        nadam(0.9,0.004)*inst + cold*nadam_ahead(0.9,0.004)*exp:0.9 / (sqrt(exp:0.999) + 1e-08)

    Reference:
        Dozat, *Incorporating Nesterov momentum into Adam*, ICLR 2016 workshop.
    """
    first, second = _pair("nadam", betas)
    newest, ahead = (Gain((Term(1.0, (Nadam(betas[0], psi, ahead=ahead),)),)) for ahead in (False, True))
    mixture = newest * INST + (ahead * COLD * first if first != INST else ahead * INST)
    return Method(mixture, second, eps=eps, weight_decay=WeightDecay(weight_decay, "decoupled" if decoupled else "l2"))


def adagrad(*, eps: float = 1e-10, weight_decay: float = 0.0) -> Method:
    """Adagrad: the newest gradient over the root of the sum of all squared gradients.

    Args:
        eps: Added to the root.
        weight_decay: The factor of the L2 term, finite and >= 0.

    Example:
        >>> print(adagrad())
        inst / ((1+k)^0.5*sqrt(poly:1) + 1e-10)

    Reference:
        Duchi, Hazan and Singer, JMLR 2011.
    """
    decay = WeightDecay(weight_decay, "l2")
    return Method(INST, Polynomial(1), root=Gain.power(0.5), eps=eps, weight_decay=decay)


def ademamix(
    betas: Sequence[float] = (0.9, 0.999, 0.9999),
    *,
    alpha: float = 5.0,
    ramp: int | None = None,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Method:
    r"""AdEMAMix: a fast and a slow average, $\hat m_k + \alpha(k)\, s_k$, over the root of an average of squares.

    The slow average starts from 0 and is not corrected. Over the first `ramp` steps its factor rises linearly to
    $\alpha$ and its half-life from that of $\beta_1$ to that of $\beta_3$. Without these ramps, which other libraries
    leave out by default, a large $\beta_3$ diverges early.

    Args:
        betas: $\beta_1$ (fast), $\beta_2$ (squares) and $\beta_3$ (slow), each 0 < beta < 1.
        alpha: $\alpha$, finite and >= 0.
        ramp: Number of steps of the ramps, >= 1; the paper takes all steps of the run. `None` means no ramp.
        eps: Added to the root.
        weight_decay: Decoupled, finite and >= 0.

    Example:
        >>> print(ademamix(ramp=1000))
        exp:0.9 + 5*cold*ramp(1000)*expramp:0.9999,0.9,1000 / (sqrt(exp:0.999) + 1e-08)

    Reference:
        Pagliardini, Ablin and Grangier, arXiv 2409.03137, Algorithm 1.
    """
    if len(betas) != 3:
        raise ValueError(f"ademamix needs three betas, got betas={tuple(betas)!r}.")
    first, second = _pair("ademamix", betas[:2])
    slow: Memory = Exponential(betas[2])
    gain = Gain.constant(alpha) * COLD
    if ramp is not None:
        slow = RampedExponential(betas[2], start=betas[0], steps=ramp)
        gain = gain * Gain.ramp(ramp)
    return Method(_mixture((1.0, first), (gain, slow)), second, eps=eps, weight_decay=WeightDecay(weight_decay))


def adana(
    delta: float = 8.0,
    kappa: float = 0.85,
    *,
    omega: float = 4.0,
    eps: float = 1e-8,
    through_lr: bool = False,
) -> Method:
    r"""ADana: $(g_k + (1+k)^{1-\kappa} u_k)/(\sqrt{v_k} + \epsilon)$ and a weight decay $\omega/(1+k)$, in log-time.

    Args:
        delta: Degree of both memories, finite and > 0.
        kappa: Exponent of the gain, 0 <= kappa <= 1.
        omega: Factor of the weight decay, finite and >= 0. As in its source, the schedule multiplies it and the
            peak learning rate does not.
        eps: Added to the root.
        through_lr: Multiply the weight decay by the whole learning rate instead.

    Example:
        >>> print(adana())
        inst + (1+k)^0.15*poly:8 / (sqrt(poly:8) + 1e-08); independent=4/t

    Reference:
        arXiv 2602.05298 (2026). *Differs* from its code, which counts the average once more in the gain, starts the
        averages from 0 with the fresh weight $\delta/(\delta+1)$ and decays weights by $\omega/(1 + t/t_s)$; this is
        the form in its text.
    """
    kind: Kind = "decoupled" if through_lr else "independent"
    decay = WeightDecay(as_number("adana", "omega", omega, least=0.0), kind, log_time=True)
    return Method(_growing("adana", delta, kappa, 1.0), Polynomial(delta), eps=eps, weight_decay=decay)


METHODS: Mapping[str, Callable[..., Method]] = {
    each.__name__: each
    for each in (
        *(sgd, memsgd, heavy_ball, nesterov, qhm, aggmo, dana),
        *(memadam, polyadam, adam, adamw, nadam, adagrad, ademamix, adana),
    )
}
"""All named methods, by name."""
