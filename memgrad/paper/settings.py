"""The settings of the paper's experiments, each marked as the paper's or ours.

A figure shows all of them: `*` marks choices of ours that the paper leaves open (`own_choices` gives the reasons), `+`
values that are not the default.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from memgrad.statistics import NORMAL_QUANTILE


def given(value: Any, text: str) -> Any:
    """A setting that the paper gives, with its form in a caption, such as `h = {}`."""
    return dataclasses.field(default=value, metadata={"text": text})


def ours(value: Any, text: str, reason: str) -> Any:
    """A setting that the paper leaves open, with the reason for our choice."""
    return dataclasses.field(default=value, metadata={"text": text, "reason": reason})


@dataclass(frozen=True, kw_only=True)
class Settings:
    r"""The settings of an experiment of the paper.

    Example:
        >>> print(GammaBoundsSettings().caption())
        $\tau$ = 0.5, $\tilde\mu$ = 10
        >>> print(GammaBoundsSettings(mu=2.0).caption())
        $\tau$ = 0.5, $\tilde\mu$ = 2+ (+ not the default)
    """

    def caption(self) -> str:
        """All settings in one line, for the foot of a figure."""
        parts, notes = [], []
        for each in dataclasses.fields(self):
            value, mark = getattr(self, each.name), ""
            if value != each.default:
                mark = "+"
                notes.append("+ not the default")
            elif "reason" in each.metadata:
                mark = "*"
                notes.append("* our choice")
            parts.append(each.metadata["text"].format(_text(value)) + mark)
        notes = list(dict.fromkeys(notes))
        return ", ".join(parts) + (f" ({'; '.join(notes)})" if notes else "")

    def own_choices(self) -> dict[str, str]:
        """The reason for each setting that the paper leaves open, by its name.

        Example:
            >>> list(AmplificationSettings().own_choices())
            ['sigma', 'end', 'paths', 'ensemble_dt', 'seed']
        """
        return {each.name: each.metadata["reason"] for each in dataclasses.fields(self) if "reason" in each.metadata}

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data."""
        return dataclasses.asdict(self)

    def about(self) -> dict[str, Any]:
        """The settings as plain data, with the reasons for those that the paper leaves open."""
        return {"settings": self.to_dict(), "own_choices": self.own_choices()}


def _text(value: Any) -> str:
    """A value as a caption writes it: (1, 1), $10^6$, Milstein."""
    if isinstance(value, tuple):
        return f"({', '.join(_text(each) for each in value)})"
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:g}".partition("e")
        return f"$10^{{{int(exponent)}}}$" if exponent and mantissa == "1" else f"{value:g}"
    return _NAMES.get(value, str(value))


_NAMES = {"milstein": "Milstein", "euler-maruyama": "Euler-Maruyama"}
_SEED = "any: what is claimed must hold for all of them"
_NO_HORIZON = "the paper gives no horizon"


@dataclass(frozen=True, kw_only=True)
class MemoryTypesSettings(Settings):
    """The influence of past gradients on one step. The memories, and our alphas, are `figures.PAPER_MEMORIES`."""

    t: float = given(6.0, "$t$ = {}")


@dataclass(frozen=True, kw_only=True)
class PairSettings(Settings):
    """A memory beside Nesterov's equation, or another heavy ball."""

    degree: float = given(3.0, "memory $t^{{{}}}$")
    viscosity: float = given(3.0, "viscosity ${}/t$")


@dataclass(frozen=True, kw_only=True)
class PathSettings(PairSettings):
    """Paths of both on Su's quadratic."""

    spectrum: tuple[float, float] = given((0.04, 0.01), r"$\nabla^2 f$ = diag{}")
    x0: tuple[float, float] = given((1.0, 1.0), "$X(0)$ = {}")
    scheme: str = given("milstein", "{} scheme")
    dt: float = given(1e-3, "$h$ = {}")


@dataclass(frozen=True, kw_only=True)
class AmplificationSettings(PathSettings):
    """Nesterov's SDE and MG-SDE with quadratic forgetting on Su's quadratic, driven by the same noise."""

    sigma: float = ours(
        0.02,
        r"$\sigma$ = {}",
        "the paper gives none; of six values tried, this one shows both regimes (0.01 and 0.05 move the crossing to "
        "t = 78 and t = 23)",
    )
    end: float = ours(300.0, "$T$ = {}", f"{_NO_HORIZON}; 300 lets the memory settle")
    paths: int = ours(1000, "means of {} runs", "the paper draws one path; means show what is chance in it")
    ensemble_dt: float = ours(
        0.05,
        "these by the exact scheme with $h$ = {}",
        "its noise is exact with any step; its error in the position, about h times the curvature, is 0.2 %",
    )
    seed: int = ours(0, "seed {}", _SEED)


@dataclass(frozen=True, kw_only=True)
class TimeWarpSettings(PathSettings):
    """Nesterov's equation and MG with linear forgetting: one path, two speeds."""

    degree: float = given(2.0, "memory $t^{{{}}}$")
    sigma: float = ours(0.02, r"$\sigma$ = {}", "the paper gives none; as in the figure of amplification")
    end: float = ours(300.0, "$T$ = {}", f"{_NO_HORIZON}; as in the figure of amplification")
    seed: int = ours(0, "seed {}", _SEED)


@dataclass(frozen=True, kw_only=True)
class ConstantNoiseSettings(PairSettings):
    """The velocity under a constant gradient: Nesterov's SDE amplifies it and its noise."""

    gradient: float = given(1.0, r"$\nabla f$ = {}")
    sigma: float = given(10.0, r"$\sigma$ = {}")
    runs: int = given(1000, "{} runs")
    scheme: str = given("milstein", "{} scheme")
    dt: float = given(1e-3, "$h$ = {}")
    end: float = ours(5.0, "$T$ = {}", f"{_NO_HORIZON}; by 5 Nesterov's noise has passed that of memory")
    later: float = ours(
        20.0, "below $T$ = {}", "the means -1 and -t/4 of the text are within the noise of 1000 runs at 5"
    )
    seed: int = ours(0, "seed {}", _SEED)


@dataclass(frozen=True, kw_only=True)
class SecondMomentsSettings(PairSettings):
    """The exact second moments of position and velocity on a quadratic."""

    curvature: float = given(1.0, r"$\lambda$ = {}")
    sigma: float = given(1.0, r"$\sigma$ = {}")
    x0: float = given(1.0, "$X(0)$ = {}")
    end: float = ours(20.0, "$T$ = {}", f"{_NO_HORIZON}; by 20 the growth t/8 is plain")


@dataclass(frozen=True, kw_only=True)
class QuadraticNoiseSettings(PairSettings):
    """The velocity on a quadratic: simulated and exact."""

    curvature: float = given(1.0, r"$f = \lambda x^2/2$ with $\lambda$ = {}")
    runs: int = given(1000, "{} runs")
    scheme: str = given("milstein", "{} scheme")
    dt: float = given(1e-3, "$h$ = {}")
    sigma: float = ours(1.0, r"$\sigma$ = {}", "the paper gives none; that of its figure of the moments")
    x0: float = ours(1.0, "$X(0)$ = {}", "the paper gives none; that of its figure of the moments")
    end: float = ours(20.0, "$T$ = {}", f"{_NO_HORIZON}; as in the figure of the moments")
    seed: int = ours(0, "seed {}", _SEED)


@dataclass(frozen=True, kw_only=True)
class GammaBoundsSettings(Settings):
    """The lemma behind the linear rate."""

    tau: float = given(0.5, r"$\tau$ = {}")
    mu: float = given(10.0, r"$\tilde\mu$ = {}")


@dataclass(frozen=True, kw_only=True)
class GammaRegionSettings(Settings):
    """The feasible region of the linear rate, with the optimal and the approximate solution."""

    tau: float = ours(0.5, r"$\tau$ = {}", "the paper gives none here; that of the figure before it")
    mu: float = ours(10.0, r"$\tilde\mu$ = {}", "the paper gives none here; that of the figure before it")
    alpha: float = ours(2.5, r"$\alpha$ = {}", "the paper gives none; here the two solutions are easy to tell apart")


@dataclass(frozen=True, kw_only=True)
class OdesSettings(Settings):
    """App. F: momentum and memory side by side, without noise."""

    powers: tuple[float, ...] = given((1.0, 2.0, 3.0, 4.0), "$p$ in {}")
    alpha: float = given(10.0, r"exponential $\alpha$ = {}")
    spectrum: tuple[float, float] = given((0.04, 0.01), r"$\nabla^2 f$ = diag{}")
    x0: tuple[float, float] = given((1.0, 1.0), "$X(0)$ = {}")
    method: str = given("RK45", "{} (ode45)")
    tolerances: str = given("paper", "tolerances of the {} ($10^{{-5}}$ and $10^{{-10}}$)")
    path_end: float = ours(300.0, "paths to $t$ = {}", _NO_HORIZON)
    loss_end: float = ours(1e4, "losses to $t$ = {}", f"{_NO_HORIZON}; the envelopes need some decades")
    heavy_ball_end: float = ours(
        1e3, "momentum solved to $t$ = {}", "its 28 peaks give the slope; a further decade costs ten times as much"
    )
    memory_end: float = ours(1e6, "memory to $t$ = {}", "memory oscillates in sqrt(t), so its peaks come late")
    stiff_method: str = ours(
        "LSODA", "exponential by {}", "ode45 takes 211,000 gradients for what is smooth from t = 1 on"
    )


@dataclass(frozen=True, kw_only=True)
class SmoothingSettings(Settings):
    """MemSGD on a quartic with Gaussian noise: linear, exponential and instantaneous forgetting."""

    memories: tuple[str, ...] = given(("poly:2", "exp:0.8", "inst"), "memories {}")
    coefficients: tuple[float, ...] = given((0.8, 0.4), r"$f = \sum c_i x_i^4$ with $c$ = {}")
    x0: tuple[float, ...] = given((1.0, 1.0), "$x_0$ = {}")
    runs: int = given(150, "{} runs")
    lr: float = ours(
        0.05,
        r"$\eta$ = {}",
        "the paper gives none; the theorem admits (p-1)/(p L) = 0.052 with the local L = 9.6 on [-1, 1]^2",
    )
    sigma: float = ours(1.0, r"$\sigma$ = {}", "the paper gives none; noise as large as the gradients")
    steps: int = ours(1000, "$K$ = {}", "the paper gives none; the losses have settled by then")
    quantile: float = ours(
        NORMAL_QUANTILE, "95 % intervals by {} standard errors", "the paper says 95 %, not which quantile"
    )
    seed: int = ours(0, "seed {}", _SEED)
