"""The experiments behind L1 to L6, stage by stage: tune, freeze, test. Each is built from what earlier ones selected.

Nothing is kept between stages but the rows in the store: what was selected is read from them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from memgrad.kinds import number_form
from memgrad.paper.scales import Scale, known, read_table

if TYPE_CHECKING:
    from memgrad.experiments.planning.spec import Spec

ADAMW, MIXTURE = "AdamW", "mixture"
METRIC = "validation_loss"
SAVINGS = (0.8, 0.75, 0.7, 0.65)
"""The shares of AdamW's steps that the mixture is given, in the order in which they are tested."""

SECOND_TEXT = "shakespeare"
EXTENSIONS = 2
"""How often a grid is extended at most, if the optimum is at its edge."""


def plan() -> Mapping[str, Any]:
    """What is written in stages.toml."""
    return read_table("language/stages.toml")


def scales() -> Mapping[str, Scale]:
    """The scales by name.

    Example:
        >>> list(scales())
        ['quick', 'laptop', 'larger']
    """
    table = plan()
    names = ("quick", "laptop", "larger")
    return MappingProxyType({name: Scale(name, table[name]["about"], table[name]["decides"]) for name in names})


def batch_size() -> int:
    """The size of minibatches in all experiments but those about it."""
    return int(plan()["common"]["batch"])


# --- settings --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class AdamWSetting:
    """A setting of AdamW."""

    lr: float
    beta1: float
    beta2: float
    weight_decay: float

    @property
    def numerator(self) -> str:
        """The memory of gradients."""
        return f"exp:{number_form(self.beta1)}"

    @property
    def squares(self) -> str:
        """The memory of squared gradients."""
        return f"exp:{number_form(self.beta2)}"

    def method(self, name: str = ADAMW, **changes: Any) -> dict[str, Any]:
        """The method of an experiment with this setting."""
        betas = [self.beta1, self.beta2]
        plain = {"optimizer": "AdamW", "betas": betas, "weight_decay": self.weight_decay, "lr": self.lr}
        return {"name": name, **plain, **changes}


@final
@dataclass(frozen=True)
class MixtureSetting:
    """A setting of the mixture."""

    lr: float
    kappa: float
    fast: str
    weight_decay: float | str

    @property
    def numerator(self) -> str:
        """The mixture: the fast part and the slow one with its gain.

        Example:
            >>> MixtureSetting(3e-3, 0.75, "inst", 0.0).numerator
            'inst + (1+k)^0.25*poly:8'
        """
        power = float(f"{1 - self.kappa:.12g}")
        return f"{self.fast} + {f'(1+k)^{number_form(power)}*' if power else ''}{self.squares}"

    @property
    def squares(self) -> str:
        """The memory of squared gradients."""
        return "poly:8"

    def method(self, name: str = MIXTURE, **changes: Any) -> dict[str, Any]:
        """The method of an experiment with this setting."""
        plain = {"optimizer": "MemAdam", "memory": self.numerator, "second_memory": self.squares}
        return {"name": name, **plain, "weight_decay": self.weight_decay, "lr": self.lr, **changes}


Setting = AdamWSetting | MixtureSetting
Winners = Mapping[str, Setting]
"""The selected setting of each method, by its name."""


@final
@dataclass(frozen=True)
class Grid:
    """The values that are tried for each method, by the name of the option; the first is `lr`."""

    adamw: Mapping[str, Sequence[Any]]
    mixture: Mapping[str, Sequence[Any]]

    def settings(self) -> dict[str, list[Setting]]:
        """All settings of each method."""
        return {
            ADAMW: [AdamWSetting(**dict(zip(self.adamw, v, strict=True))) for v in product(*self.adamw.values())],
            MIXTURE: [
                MixtureSetting(**dict(zip(self.mixture, v, strict=True))) for v in product(*self.mixture.values())
            ],
        }


def first_grid(scale: str) -> Grid:
    """The grids as they were written down.

    Example:
        >>> {name: len(each) for name, each in first_grid("laptop").settings().items()}
        {'AdamW': 64, 'mixture': 64}
    """
    source = plan()["few"] if plan()[scale].get("few") else plan()
    return Grid(source["adamw"], source["mixture"])


def extended(grid: Grid, winners: Winners) -> Grid:
    """The grid, with further values for both methods where the optimum of one is at an edge; the same one if none is.

    Learning rates go on by a factor of 2, for both methods at the same end. The momentum of AdamW and kappa of the
    mixture are one axis of the comparison: if one of them is at an edge, each gets one more value, at the end that is
    nearer to its optimum. kappa ends at 1, where the gain is constant: it is extended below alone.
    """
    a, m = _both(winners)
    adamw, mixture = dict(grid.adamw), dict(grid.mixture)
    for end, factor in ((0, 0.5), (-1, 2.0)):
        if a.lr == sorted(adamw["lr"])[end] or m.lr == sorted(mixture["lr"])[end]:
            for own, tried in ((adamw, grid.adamw["lr"]), (mixture, grid.mixture["lr"])):
                own["lr"] = sorted({*own["lr"], sorted(tried)[end] * factor})
    betas, kappas = sorted(grid.adamw["beta1"]), sorted(grid.mixture["kappa"])
    if len(betas) > 1 and (a.beta1 in (betas[0], betas[-1]) or m.kappa == kappas[0]):
        low = a.beta1 - betas[0] <= betas[-1] - a.beta1
        new = betas[0] - 0.1 if low else 1 - (1 - betas[-1]) / 2
        adamw["beta1"] = sorted([*betas, float(f"{new:.6g}")])
        mixture["kappa"] = sorted([*kappas, float(f"{kappas[0] - 0.1:.6g}")])
    return Grid(adamw, mixture)


def near(winners: Winners) -> Grid:
    """Eight settings each around the winners, for the long horizon: lr x beta2 and lr x kappa."""
    a, m = _both(winners)
    kappas = [0.65, 0.75, 0.85, 1.0]
    larger = [kappa for kappa in kappas if kappa > m.kappa]
    other = larger[0] if larger else kappas[-2]
    factors = (0.25, 0.5, 1.0, 2.0)
    return Grid(
        {
            "lr": multiples(a.lr, factors),
            "beta1": [a.beta1],
            "beta2": [0.99, 0.999],
            "weight_decay": [a.weight_decay],
        },
        {
            "lr": multiples(m.lr, factors),
            "kappa": [m.kappa, other],
            "fast": [m.fast],
            "weight_decay": [m.weight_decay],
        },
    )


# --- experiments -----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Stages:
    """The experiments at a scale.

    Args:
        scale: The name of the scale.
    """

    scale: str

    def __post_init__(self) -> None:
        known("scale", self.scale, scales())

    @property
    def own(self) -> Mapping[str, Any]:
        """What is particular to the scale."""
        table: Mapping[str, Any] = plan()[self.scale]
        return table

    def tuning(self, name: str, grid: Grid, *, long: bool) -> Spec:
        """Try all settings of a grid on the tuning seeds."""
        methods = [
            each.method(_label(kind, i)) for kind, of_kind in grid.settings().items() for i, each in enumerate(of_kind)
        ]
        return self.spec(name, methods, long=long, seeds=self.own["tuning_seeds"])

    def spec(
        self,
        name: str,
        methods: Sequence[Mapping[str, Any]],
        *,
        long: bool = True,
        seeds: Sequence[int] | None = None,
        **changes: Any,
    ) -> Spec:
        """An experiment with these methods at the long or the short horizon, on the test seeds unless given."""
        from memgrad.experiments.planning.spec import Spec

        own, horizon = self.own, "long" if long else "short"
        times = changes.pop("times", own[f"times_{horizon}"])
        data = {
            **plan()["common"],
            "name": name,
            "steps": own[horizon],
            "seeds": list(own["seeds"] if seeds is None else seeds),
            "evaluate": {"times": times},
            "options": dict(own.get("options", {})),
            "methods": [dict(each) for each in methods],
            **({"sample": True} if own.get("sample") else {}),
            **changes,
        }
        return Spec.of(data, where=f"{name} at the scale {self.scale}")

    def ablations(self, winners: Winners) -> Spec:
        """One part of the mixture at a time in AdamW: the memory, the second moment, the weight decay.

        Each is tuned in its learning rate, which is that of the mixture for the memory and AdamW's for the others,
        times 1/2, 1 or 2.
        """
        a, m = _both(winners)
        parts = {
            "memory alone": (m.numerator, a.squares, a.weight_decay, m.lr),
            "second moment alone": (a.numerator, m.squares, a.weight_decay, a.lr),
            "weight decay alone": (a.numerator, a.squares, m.weight_decay, a.lr),
        }
        methods = [
            {
                "name": name,
                "optimizer": "MemAdam",
                "memory": memory,
                "second_memory": squares,
                "weight_decay": decay,
                "lr": multiples(lr, (0.5, 1.0, 2.0)),
            }
            for name, (memory, squares, decay, lr) in parts.items()
        ]
        return self.spec("lm-ablations", methods, tuning_seeds=list(self.own["tuning_seeds"]))

    def batch(self, winners: Winners, size: int) -> Spec:
        """Both methods with minibatches of another size, for the same number of tokens, tuned in the learning rate."""
        factors = (0.5, 1.0, 2.0, 4.0) if size > batch_size() else (0.25, 0.5, 1.0, 2.0)
        methods = [each.method(name, lr=multiples(each.lr, factors)) for name, each in winners.items()]
        steps = self.own["long"] * batch_size() // size
        return self.spec(
            f"lm-batch-{size}",
            methods,
            seeds=self.own["seeds"][: self.own["batch_seeds"]],
            tuning_seeds=list(self.own["tuning_seeds"]),
            steps=steps,
            batch=size,
        )

    def large(self, winners: Winners) -> Spec:
        """AdamW and the mixture with 0.8 of its steps on a larger model, tuned in the learning rate on one seed."""
        share = {ADAMW: 1.0, MIXTURE: SAVINGS[0]}
        methods = [
            each.method(name, lr=multiples(each.lr, (0.125, 0.25, 0.5, 1.0)), steps_factor=share[name])
            for name, each in winners.items()
        ]
        return self.spec(
            "lm-large",
            methods,
            seeds=self.own["seeds"][: self.own["large_seeds"]],
            tuning_seeds=list(self.own["tuning_seeds"][:1]),
            options=dict(self.own["large"]),
        )

    def tests(self, winners: Winners, shares: Sequence[float], *, long: bool = True, text: str | None = None) -> Spec:
        """AdamW, and the mixture with these shares of its steps, with everything frozen."""
        methods = [winners[ADAMW].method()]
        methods += [winners[MIXTURE].method(share_name(share), steps_factor=share) for share in shares]
        name = f"lm-test-{'long' if long else 'short'}" + (f"-{text}" if text else "")
        data = {} if text is None or self.own.get("sample") else {"data": text}
        return self.spec(name, methods, long=long, options={**self.own.get("options", {}), **data})


def share_name(share: float) -> str:
    """The name of the mixture with a share of AdamW's steps.

    Example:
        >>> share_name(0.8), share_name(1.0)
        ('mixture 0.8 T', 'mixture')
    """
    return MIXTURE if share == 1 else f"{MIXTURE} {number_form(share)} T"


def winners_of(grid: Grid, scores: Mapping[str, float]) -> Winners:
    """The settings of a grid with the best scores; of equally good ones the first.

    Args:
        grid: The grid.
        scores: The score of each setting by the name of its method in `tuning`; less is better.
    """
    found: dict[str, Setting] = {}
    for kind, settings in grid.settings().items():
        best = min(range(len(settings)), key=lambda i: scores[_label(kind, i)])
        found[kind] = settings[best]
    return MappingProxyType(found)


def _both(winners: Winners) -> tuple[AdamWSetting, MixtureSetting]:
    a, m = winners[ADAMW], winners[MIXTURE]
    assert isinstance(a, AdamWSetting)
    assert isinstance(m, MixtureSetting)
    return a, m


def multiples(lr: float, factors: Iterable[float]) -> list[float]:
    """A learning rate times each factor, to six digits: without them a product would make a run of its own."""
    return [float(f"{lr * factor:.6g}") for factor in factors]


def _label(kind: str, number: int) -> str:
    return f"{kind} {number}"
