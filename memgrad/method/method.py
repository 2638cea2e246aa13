"""A step of an optimizer as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, final

from memgrad.kinds import as_number, number_form
from memgrad.memory import Gain, Instantaneous, Memory, Mixture
from memgrad.memory.text import as_memory

Kind = Literal["l2", "decoupled", "independent"]
WORDS: Mapping[Kind, str] = {"l2": "l2", "decoupled": "decay", "independent": "independent"}
"""The kinds of weight decay, and the word for each in text forms."""
ONE = Gain.constant(1.0)


@final
@dataclass(frozen=True)
class WeightDecay:
    r"""How weights decay to 0: by an amount $\omega$ at every step, or by $\omega/(1+k)$ at step k.

    - `l2`: $\omega x_k$ is added to the gradient, and so enters the memories and the denominator (Adam).
    - `decoupled`: $x_k$ is shrunk by the factor $1 - \eta_k \omega$, with the learning rate of the step (AdamW).
    - `independent`: $x_k$ is shrunk by $1 - (\eta_k/\eta^*)\, \omega$: the schedule scales the decay, but the peak
      learning rate $\eta^*$ does not.

    Args:
        amount: $\omega$, finite and >= 0.
        kind: `l2`, `decoupled` or `independent`.
        log_time: Whether the amount at step k is $\omega/(1+k)$, which is constant in logarithmic time (ADana).
    """

    amount: float = 0.0
    kind: Kind = "decoupled"
    log_time: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "amount", as_number("weight decay", "amount", self.amount, least=0.0))
        if self.kind not in WORDS:
            raise ValueError(f"weight decay is one of {', '.join(WORDS)}, got kind={self.kind!r}.")
        if not isinstance(self.log_time, bool):
            raise TypeError(f"weight decay needs log_time True or False, got log_time={self.log_time!r}.")

    def at(self, k: Any) -> Any:
        """The amount at step k, in the kind of k."""
        return self.amount / (k + 1.0) if self.log_time else self.amount + 0.0 * k

    def l2(self, k: Any) -> Any:
        """The factor of x that is added to the gradient at step k."""
        return self.at(k) if self.kind == "l2" else 0.0 * k

    def shrink(self, k: Any, lr: Any, peak: Any) -> Any:
        r"""The share of x that is removed at step k, at the learning rate $\eta_k$ and the peak $\eta^*$."""
        if self.kind == "l2":
            return 0.0 * k
        return self.at(k) * (lr if self.kind == "decoupled" else lr / peak)

    def __str__(self) -> str:
        return f"{WORDS[self.kind]}={number_form(self.amount)}{'/t' if self.log_time else ''}"


NO_DECAY = WeightDecay()


@final
@dataclass(frozen=True)
class Method:
    r"""What a step does with gradients: the mixture it follows, what it divides by, and its weight decay.

    $$x_{k+1} = (1 - s_k)\, x_k - \eta_k \frac{n_k}{\rho_k \sqrt{v_k} + \epsilon}, \qquad
      n_k = \sum_i \gamma_i(k)\, u^i_k, \qquad k = 0, 1, \dots$$

    $u^i$ are averages of gradients with the memories of the mixture, and $v$ is an average of squared gradients with
    the second memory. Without a second memory there is no denominator. $s_k$ is given by the weight decay.

    Args:
        mixture: What is followed: a `Mixture`, a `Memory` or a text form.
        second_memory: Memory of squared gradients, or `None`.
        root: $\rho_k$, a gain; $\sqrt{1+k}$ turns an average of squares into Adagrad's sum.
        eps: $\epsilon$, finite and >= 0.
        weight_decay: The weight decay.

    Example:
        >>> method = Method("exp:0.9", "exp:0.999", eps=1e-8)  # Adam
        >>> print(method)
        exp:0.9 / (sqrt(exp:0.999) + 1e-08)
        >>> Method.parse(str(method)) == method
        True
    """

    mixture: Mixture
    second_memory: Memory | None = None
    root: Gain = field(default=ONE, kw_only=True)
    eps: float = field(default=0.0, kw_only=True)
    weight_decay: WeightDecay = field(default=NO_DECAY, kw_only=True)

    def __init__(
        self,
        mixture: Mixture | Memory | str,
        second_memory: Memory | str | None = None,
        *,
        root: Gain | float = ONE,
        eps: float = 0.0,
        weight_decay: WeightDecay = NO_DECAY,
    ) -> None:
        second = None if second_memory is None else as_memory("a method", "second_memory", second_memory)
        root = Gain.of(root)
        if second is None and (root != ONE or eps != 0):
            raise ValueError(
                f"a method without a second memory has no root and no eps, got root={str(root)!r}, eps={eps!r}."
            )
        if second is not None:
            root.check(second)
        if not isinstance(weight_decay, WeightDecay):
            raise TypeError(f"a method needs a WeightDecay, got weight_decay={weight_decay!r}.")
        values = {
            "mixture": Mixture.of(mixture, "a method", "mixture"),
            "second_memory": second,
            "root": root,
            "eps": as_number("a method", "eps", eps, least=0.0),
            "weight_decay": weight_decay if weight_decay.amount else NO_DECAY,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_linear(self) -> bool:
        """Whether the step is linear in the gradients: there is no denominator.

        Example:
            >>> Method("poly:2").is_linear
            True
        """
        return self.second_memory is None

    @property
    def buffers(self) -> int:
        """The number of tensors of the parameters' size that it keeps.

        Example:
            >>> Method("inst + 5*exp:0.99", "exp:0.999").buffers
            2
        """
        second = 0 if self.second_memory is None or isinstance(self.second_memory, Instantaneous) else 1
        return len(self.mixture.averages) + second

    @property
    def is_code(self) -> bool:
        """Whether any part of it is a function, so that its text form cannot be read back."""
        second = self.second_memory is not None and self.second_memory.is_code
        return self.mixture.is_code or second or self.root.is_code

    @staticmethod
    def parse(text: str) -> Method:
        """The method with this text form.

        Example:
            >>> Method.parse("inst + (1+k)^0.15*poly:8 / (sqrt(poly:8) + 1e-08); independent=4/t").weight_decay
            WeightDecay(amount=4.0, kind='independent', log_time=True)
        """
        from memgrad.method.text import parse

        return parse(text)

    def to_dict(self) -> dict[str, Any]:
        """The method as plain data, without default values; `Method.from_dict` reads it back.

        Example:
            >>> Method("exp:0.9", "exp:0.999", eps=1e-8).to_dict()
            {'memory': 'exp:0.9', 'second_memory': 'exp:0.999', 'eps': 1e-08}
        """
        if self.is_code:
            raise ValueError(f"the method {self} is made of functions, which are code, not data; rebuild it in code.")
        data: dict[str, Any] = {"memory": str(self.mixture)}
        for each in fields(self)[1:]:
            value = getattr(self, each.name)
            if value != each.default:
                data[each.name] = value if each.name == "eps" else str(value)
        return data

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Method:
        """The method that `to_dict` wrote.

        Example:
            >>> print(Method.from_dict({"memory": "poly:2"}))
            poly:2
        """
        from memgrad.method.text import from_dict

        return from_dict(data)

    def __str__(self) -> str:
        words = str(self.mixture)
        if self.second_memory is not None:
            root = f"sqrt({self.second_memory})"
            factor = "" if self.root == ONE else f"{self.root}*"
            words += f" / ({factor}{root} + {number_form(self.eps)})" if self.eps else f" / ({factor}{root})"
        return words if self.weight_decay == NO_DECAY else f"{words}; {self.weight_decay}"
