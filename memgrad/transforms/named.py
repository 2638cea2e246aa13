"""The named optimizers."""

from __future__ import annotations

from typing import Any

import optax

from memgrad.memory import Exponential, Instantaneous, Memory, Mixture, Polynomial
from memgrad.transforms.averages import scale_by_averages, scale_by_memory, scale_by_memory_adam
from memgrad.transforms.options import as_number, as_optimizer, is_zero
from memgrad.transforms.state import Number


def memsgd(
    learning_rate: optax.ScalarOrSchedule,
    memory: Memory | Mixture | str = "poly:2",
    *,
    weight_decay: Number = 0.0,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""MemSGD: $x_{k+1} = x_k - \eta\, u_k$. See `memgrad.MemSGD`.

    Args:
        learning_rate: $\eta$, or a schedule of it.
        memory: A `Memory`, a `Mixture`, or a text form.
        weight_decay: Factor of the L2 term that is added to the gradients, finite and >= 0.
        accumulator_dtype: Precision of the average; the parameters' by default.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer = memsgd(0.1)
        >>> x = jnp.array(1.0)
        >>> state = optimizer.init(x)
        >>> for _ in range(2):
        ...     updates, state = optimizer.update(x, state, x)  # the gradient of x^2/2 is x
        ...     x = optax.apply_updates(x, updates)
        >>> round(float(x), 4)
        0.8067

    Reference:
        UAI 2019, Sec. 4.2 (MemSGD-p).
    """
    amount = as_number("memsgd", "weight_decay", weight_decay, or_zero=True)
    step = scale_by_memory(memory, accumulator_dtype=accumulator_dtype)
    return as_optimizer("memsgd", learning_rate, step, amount, "l2")


def memadam(
    learning_rate: optax.ScalarOrSchedule,
    memory: Memory | Mixture | str = "exp:0.9",
    second_memory: Memory | str = "poly:4",
    *,
    eps: Number = 1e-8,
    weight_decay: Number = 0.0,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""MemAdam: $x_{k+1} = x_k - \eta\, [u_k/(\sqrt{v_k} + \epsilon) + \lambda x_k]$. See `memgrad.MemAdam`.

    With `exp:0.9` and `exp:0.999` it is `optax.adamw`.

    Args:
        learning_rate: $\eta$, or a schedule of it.
        memory: Memory of gradients; a `Memory`, a `Mixture`, or a text form.
        second_memory: Memory of squared gradients.
        eps: Added to the root, finite and > 0.
        weight_decay: Factor $\lambda$ of the decoupled weight decay, finite and >= 0.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer = memadam(0.1)
        >>> updates, _ = optimizer.update(jnp.array(3.0), optimizer.init(jnp.array(1.0)))
        >>> round(float(updates), 6)
        -0.1

    Reference:
        UAI 2019, Sec. 6.
    """
    amount = as_number("memadam", "weight_decay", weight_decay, or_zero=True)
    step = scale_by_memory_adam(memory, second_memory, eps, accumulator_dtype=accumulator_dtype)
    return as_optimizer("memadam", learning_rate, step, amount, "decoupled")


def polyadam(
    learning_rate: optax.ScalarOrSchedule,
    *,
    p: Number = 4.0,
    beta: Number = 0.9,
    eps: Number = 1e-8,
    weight_decay: Number = 0.0,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    """PolyAdam, the paper's Adam with polynomial memory of squared gradients. See `memgrad.PolyAdam`.

    Args:
        learning_rate: Learning rate, or a schedule of it.
        p: Degree of the memory of squared gradients, finite and > 0; it may be traced.
        beta: Decay of the memory of gradients, 0 <= beta < 1; it may be traced.
        eps: Added to the root, finite and > 0.
        weight_decay: Factor of the decoupled weight decay, finite and >= 0.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> degrees = jnp.array([1.0, 2.0, 4.0])
        >>> def first_step(p):
        ...     optimizer = polyadam(0.1, p=p)
        ...     return optimizer.update(jnp.array(3.0), optimizer.init(jnp.array(1.0)))[0]
        >>> jax.vmap(first_step)(degrees).round(6).tolist() == [jnp.float32(-0.1).item()] * 3
        True

    Reference:
        UAI 2019, Sec. 6.
    """
    memory = Instantaneous() if is_zero(beta) else Exponential(beta)  # type: ignore[arg-type]  # may be traced
    return memadam(
        learning_rate,
        memory,
        Polynomial(p),  # type: ignore[arg-type]  # may be traced
        eps=eps,
        weight_decay=weight_decay,
        accumulator_dtype=accumulator_dtype,
    )


def adana(
    learning_rate: optax.ScalarOrSchedule,
    *,
    delta: Number = 8.0,
    kappa: Number = 0.85,
    omega: Number = 0.0,
    eps: Number = 1e-8,
    through_lr: bool = False,
    peak_learning_rate: Number | None = None,
    accumulator_dtype: Any | None = None,
) -> optax.GradientTransformationExtraArgs:
    r"""ADana: polynomial memory of both moments, a growing gain, and a weight decay that falls as $1/(k+1)$.

    $$x_{k+1} = \left(1 - \frac{\eta_k}{\eta^*} \frac{\omega}{k+1}\right) x_k
      - \eta_k \frac{g_k + (1+k)^{1-\kappa} u_k}{\sqrt{v_k} + \epsilon}, \qquad k = 0, 1, \dots$$

    The steps are those of `memgrad.ADana`, and its numbers may be traced.

    Args:
        learning_rate: $\eta_k$, or a schedule of it.
        delta: Degree of both memories, finite and > 0.
        kappa: Exponent of the gain $(1+k)^{1-\kappa}$, 0 <= kappa <= 1.
        omega: Factor of the weight decay, finite and >= 0; 0, the default, needs no parameters in `update`. Its authors
            use 4 and warm up the learning rate: at a constant rate the first step would remove $\omega$ times the
            parameters.
        eps: Added to the root, finite and > 0.
        through_lr: Multiply the weight decay by the whole learning rate $\eta_k$ instead.
        peak_learning_rate: $\eta^*$, for the weight decay under a schedule; a constant learning rate is its own peak,
            and so is one that `optax.inject_hyperparams` puts into the state.
        accumulator_dtype: Precision of the averages; the parameters' by default.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer = adana(0.1)
        >>> updates, _ = optimizer.update(jnp.array(3.0), optimizer.init(jnp.array(1.0)))
        >>> round(float(updates), 6)
        -0.2

    Reference:
        arXiv 2602.05298 (2026). *Differs* from its code as `memgrad.method.adana` does. By default the weight decay is
        its authors', which the schedule multiplies and the peak learning rate does not.
    """
    memory = Polynomial(as_number("adana", "delta", delta))  # type: ignore[arg-type]  # may be traced
    omega = as_number("adana", "omega", omega, or_zero=True)
    kappa = as_number("adana", "kappa", kappa, or_zero=True, most=1.0)
    if not isinstance(through_lr, bool):
        raise TypeError(f"adana needs through_lr True or False, got through_lr={through_lr!r}.")
    if peak_learning_rate is not None and through_lr:
        raise ValueError("adana takes peak_learning_rate only if the weight decay is independent, not with through_lr.")
    return as_optimizer(
        "adana",
        learning_rate,
        scale_by_averages("adana", memory, memory, eps, accumulator_dtype, lambda k: (1.0 + k) ** (1 - kappa)),
        0.0 if isinstance(omega, float) and omega == 0 else lambda k: omega / (k + 1.0),
        "decoupled" if through_lr else "independent",
        peak_learning_rate=peak_learning_rate,
    )
