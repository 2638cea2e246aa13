"""The methods of an experiment: an optimizer with its options, the step sizes to try, and grids over other options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from memgrad.experiments.planning.complaints import RULES
from memgrad.experiments.planning.recipe import OptionError, Recipe
from memgrad.method import Schedule
from memgrad.suggestions import did_you_mean

Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seeds = Annotated[int, Field(ge=1, le=100_000)] | Annotated[list[Seed], Field(min_length=1)]
StepSize = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MOST_LETTERS = 80
"""The length of the longest name of a method."""

Name = Annotated[str, Field(min_length=1, max_length=MOST_LETTERS, pattern=r"^[^\x00-\x1f]+$")]
Place = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f]+$")]
"""A built-in name, or the path of the user's own code, which may be long."""

BEST_OF = "best of "
"""The beginning of an `lr` or an `optimizer` that follows another method's selection."""

MOST = 10_000
"""The largest number of combinations in a grid."""


def canonical_schedule(text: str) -> str:
    """The canonical text form of a schedule; a text that is not a schedule is refused.

    Example:
        >>> canonical_schedule("Linear( warmup = 0.050 )")
        'linear(warmup=0.05)'
    """
    return str(Schedule.parse(text))


ScheduleText = Annotated[str, AfterValidator(canonical_schedule)]


class Strict(BaseModel):
    """A frozen model; an unknown key is an error, and so is text where a number belongs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Method(Strict):
    """An optimizer with its options and the step sizes to try.

    All other keys are options of the optimizer, named as in its constructor.

    Attributes:
        optimizer: Its name, or your own as `file.py:Class` (beside the experiment's file) or `module:Class`; or
            `best of NAME`: the optimizer and the options selected for another method.
        lr: A step size, a list of them, or `best of NAME`: the one selected for another method. With a schedule it is
            the peak.
        name: The name in tables and legends; by default the optimizer's.
        seeds: The seeds of its runs, as a number or a list, if they are not those of the experiment: a method with
            seeds of its own that others follow tunes the step size apart from the seeds that are compared.
        grid: Values to try for other options: a list for each. All combinations are tried, at every step size.
        schedule: The schedule of the learning rate, such as `linear(warmup=0.05)`; the experiment's unless given.
        clip: The largest norm of a gradient; the experiment's unless given.
        steps_factor: Train for this multiple of the experiment's steps, with a schedule of that length.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    optimizer: Place
    lr: StepSize | Annotated[list[StepSize], Field(min_length=1)] | str
    name: Name = ""
    seeds: Seeds | None = None
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    schedule: ScheduleText | None = None
    clip: StepSize | None = None
    steps_factor: StepSize = 1.0

    @model_validator(mode="before")
    @classmethod
    def _with_lr(cls, data: Any) -> Any:
        """The step size that is selected for another method comes with its optimizer."""
        if isinstance(data, Mapping) and "lr" not in data and str(data.get("optimizer")).startswith(BEST_OF):
            return {**data, "lr": data["optimizer"]}
        return data

    @field_validator("lr", mode="after")
    @classmethod
    def _sensible(cls, lr: float | list[float] | str) -> float | list[float] | str:
        if isinstance(lr, str) and not (lr.startswith(BEST_OF) and lr.removeprefix(BEST_OF).strip()):
            raise ValueError(RULES["lr"])
        if isinstance(lr, list) and len(set(lr)) < len(lr):
            raise ValueError(RULES["lr"])
        return lr

    _folder: str | None = PrivateAttr(default=None)  # where the user's own files are
    _variants: tuple[Method, ...] = PrivateAttr(default=())
    _recipe: Recipe | None = PrivateAttr(default=None)  # read once: the optimizer is built to check its options

    @model_validator(mode="after")
    def _named(self, info: ValidationInfo) -> Self:
        if not self.name:
            object.__setattr__(self, "name", self.optimizer)
        self._folder = (info.context or {}).get("folder")
        if self.copies is not None:
            given = [*(self.model_extra or {}), *self.grid]
            if given:
                raise OptionError(given[0], f"{self.optimizer!r} has options already; {given[0]} cannot be given.")
        elif self.grid:
            self._variants = self._expanded()
        else:
            self._recipe = Recipe.read(self.optimizer, self.model_extra or {}, folder=self._folder)
        return self

    def _expanded(self) -> tuple[Method, ...]:
        """One method for each combination of the values in the grid."""
        own = {name: getattr(self, name) for name in self.model_fields_set if name not in ("name", "grid")}
        own |= self.model_extra or {}
        for name in self.grid:
            if name in ("lr", "name", "optimizer", "seeds", "steps_factor", "grid"):
                raise OptionError("grid", f"a grid is over options of the optimizer, schedule or clip, got {name!r}.")
            if name in own:
                raise OptionError("grid", f"{name} has a value beside the grid; give one of the two.")
        if (count := math.prod(map(len, self.grid.values()))) > MOST:  # before any of them is made
            raise OptionError("grid", f"at most {MOST:,} combinations are tried, got {count:,}.")
        for name, values in self.grid.items():
            if any(value == other for i, value in enumerate(values) for other in values[:i]):
                raise OptionError("grid", f"each value of {name} may be listed only once, got {values!r}.")
        combinations = list(product(*self.grid.values()))
        variants = []
        for combination in combinations:
            chosen = dict(zip(self.grid, combination, strict=True))
            words = ", ".join(f"{name}={_short(value)}" for name, value in chosen.items())
            try:
                variant = Method.model_validate({**own, **chosen}, context={"folder": self._folder})
            except ValidationError as error:
                why = "; ".join(each["msg"].removeprefix("Value error, ").rstrip(".") for each in error.errors())
                raise OptionError("grid", f"{words}: {why}.") from None
            object.__setattr__(variant, "name", f"{self.name} [{words}]")
            variants.append(variant)
        return tuple(variants)

    @property
    def variants(self) -> tuple[Method, ...]:
        """One method without a grid for each combination of the values in the grid; itself if it has none.

        Example:
            >>> method = Method(optimizer="MemSGD", lr=0.1, grid={"memory": ["poly:2", "exp:0.9"]})
            >>> [variant.name for variant in method.variants]
            ['MemSGD [memory=poly:2]', 'MemSGD [memory=exp:0.9]']
        """
        return self._variants or (self,)

    @property
    def recipe(self) -> Recipe:
        """The optimizer with its options; of a method with a grid, that of its first variant."""
        if self.copies is not None:
            raise ValueError(f"method {self.name!r} has the optimizer that is selected for {self.copies!r}.")
        if self._recipe is None:
            return self._variants[0].recipe
        return self._recipe

    @property
    def step_sizes(self) -> tuple[float, ...] | None:
        """The step sizes to try; None if it takes the one selected for another method."""
        if isinstance(self.lr, str):
            return None
        return tuple(self.lr) if isinstance(self.lr, list) else (self.lr,)

    @property
    def follows(self) -> str | None:
        """The name of the method whose selected step size it takes, or None."""
        return self.lr.removeprefix(BEST_OF).strip() if isinstance(self.lr, str) else None

    @property
    def copies(self) -> str | None:
        """The name of the method whose selected optimizer and options it takes, or None."""
        given = self.optimizer.startswith(BEST_OF)
        return self.optimizer.removeprefix(BEST_OF).strip() if given else None

    @property
    def leaders(self) -> tuple[str, ...]:
        """The names of the methods whose selection it needs."""
        return tuple(dict.fromkeys(name for name in (self.follows, self.copies) if name is not None))

    @property
    def is_tuned(self) -> bool:
        """Whether it has several settings, so that one is selected."""
        return len(self.variants) > 1 or len(self.step_sizes or ()) > 1


def fitting(name: str) -> str:
    """A name that a method may have: one that is too long without its end.

    Example:
        >>> fitting("MemSGD poly:8"), len(fitting("MemSGD " + 40 * "poly:8 + "))
        ('MemSGD poly:8', 80)
    """
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 3]}..."


def check_leaders(methods: Mapping[str, Method]) -> None:
    """Refuse a method that needs the selection of one that does not exist, or that needs another's step size itself."""
    known = [name for name, method in methods.items() if method.follows is None]
    for method in methods.values():
        for leader in method.leaders:
            if leader not in known or leader == method.name:
                raise ValueError(
                    f"method {method.name!r} takes the best step size of {leader!r}, which is not a method with step "
                    f"sizes of its own (known: {', '.join(known) or 'none'}){did_you_mean(leader, known)}"
                )
        if method.copies is not None and methods[method.copies].copies is not None:
            raise ValueError(
                f"method {method.name!r} has the optimizer of {method.copies!r}, which has that of "
                f"{methods[method.copies].copies!r} itself; name that one"
            )


def _short(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
