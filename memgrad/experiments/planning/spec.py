"""Experiments as TOML files: what is compared, on what, for how long, over which seeds."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from memgrad.deprecation import renamed
from memgrad.experiments.planning.problem_choice import ProblemChoice
from memgrad.experiments.planning.recipe import OptionError, Recipe
from memgrad.problems.problem import STEP_NORM
from memgrad.suggestions import did_you_mean, nearest
from memgrad.user_code import beside

Count = Annotated[int, Field(ge=1, le=10**12)]
Times = Annotated[int, Field(ge=2, le=100_000)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
StepSize = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f]+$")]
Place = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f]+$")]
"""A built-in name, or the path of the user's own code, which may be long."""

Seeds = Annotated[int, Field(ge=1, le=100_000)] | Annotated[list[Seed], Field(min_length=1)]

BEST_OF = "best of "
"""The beginning of an `lr` that follows another method's step-size selection."""

RULES = {
    "lr": "a step size is a number > 0, a list of them, each once, or 'best of NAME' with another method's name",
    "batch": "the size of a minibatch is an integer from 1 to 1e12, or 'full'",
    "seeds": "seeds are a number of them from 1 to 100,000, or a list of integers from 0 to 2^63 - 1, each once",
    "steps": "the number of steps is an integer from 1 to 1e12",
    "epochs": "the number of epochs is an integer from 1 to 1e9",
    "metrics": "metrics are a list of names",
    "dtype": "the precision is 'float32' or 'float64'",
    "examples": "the number of training examples is an integer from 1 to 1e12",
    "times": "the number of evaluations is an integer from 2 to 100,000, or a table of them by the metric's name",
}
"""The rules of keys with several types; pydantic's own messages are clear for the others."""


class _Strict(BaseModel):
    """A frozen model; an unknown key is an error, and so is text where a number belongs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Evaluate(_Strict):
    """When metrics are evaluated: at the start, at the end, and in between.

    Attributes:
        times: The number of evaluations, at least 2; or a table of them by metric, so that cheap metrics can be
            evaluated more often than those that need all examples.
        spacing: Evenly spaced in steps, or in their logarithm, which shows the beginning.
        gradient_examples: Compute the norm of the gradient over this many training examples, drawn once for all runs,
            instead of all of them.
        loss_examples: Compute the loss and the other metrics of the training set over this many training examples,
            drawn once for all runs, instead of all of them.
    """

    times: Times | Annotated[dict[str, Times], Field(min_length=1)] = 41
    spacing: Literal["even", "log"] = "even"
    gradient_examples: Count | None = None
    loss_examples: Count | None = None

    def steps(self, last: int, metric: str = "loss") -> tuple[int, ...]:
        """The numbers of steps after which to evaluate a metric, from 0 to `last`.

        Example:
            >>> Evaluate(times=5).steps(100)
            (0, 25, 50, 75, 100)
            >>> Evaluate(times={"loss": 3, "step_norm": 5}).steps(100, "loss")
            (0, 50, 100)
            >>> Evaluate(times=4, spacing="log").steps(100)
            (0, 1, 10, 100)
        """
        times = self.times if isinstance(self.times, int) else self.times[metric]
        if self.spacing == "even":
            places = np.linspace(0, last, times)
        else:
            places = np.geomspace(1, last, times - 1) if times > 2 else np.array([])
        return tuple(sorted({0, last, *map(int, np.round(places))}))


class Select(_Strict):
    """The step-size selection: among those tried, the one with the best mean over seeds of a final value.

    Attributes:
        metric: The metric that is compared.
        goal: Whether less or more of it is better.
        last: The final value is the mean over this last share of the evaluations.
    """

    metric: str = "loss"
    goal: Literal["min", "max"] = "min"
    last: Annotated[float, Field(gt=0, le=1)] = 0.05


class Method(_Strict):
    """An optimizer with its options and the step sizes to try.

    All other keys are options of the optimizer, named as in its constructor.

    Attributes:
        optimizer: Its name, or your own as `file.py:Class` (beside the experiment's file) or `module:Class`.
        lr: A step size, a list of them, or `best of NAME`: the one selected for another method.
        name: The name in tables and legends; by default the optimizer's.
        seeds: The seeds of its runs, as a number or a list, if they are not those of the experiment: a method with
            seeds of its own that others follow tunes the step size apart from the seeds that are compared.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    optimizer: Place
    lr: StepSize | Annotated[list[StepSize], Field(min_length=1)] | str
    name: Name = ""
    seeds: Seeds | None = None

    @field_validator("lr", mode="after")
    @classmethod
    def _sensible(cls, lr: float | list[float] | str) -> float | list[float] | str:
        if isinstance(lr, str) and not (lr.startswith(BEST_OF) and lr.removeprefix(BEST_OF).strip()):
            raise ValueError(RULES["lr"])
        if isinstance(lr, list) and len(set(lr)) < len(lr):
            raise ValueError(RULES["lr"])
        return lr

    _folder: str | None = PrivateAttr(default=None)  # where the user's own files are

    @model_validator(mode="after")
    def _named(self, info: ValidationInfo) -> Self:
        if not self.name:
            object.__setattr__(self, "name", self.optimizer)
        self._folder = (info.context or {}).get("folder")
        _ = self.recipe
        return self

    @property
    def recipe(self) -> Recipe:
        """The optimizer with its options."""
        return Recipe.read(self.optimizer, self.model_extra or {}, folder=self._folder)

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


class Spec(_Strict):
    """An experiment: methods compared on one problem, over step sizes and seeds.

    Attributes:
        name: The name of the experiment.
        problem: A problem's name, `file.py:function` or `module:function`.
        methods: The methods.
        steps: The number of steps of each run; or give `epochs`.
        epochs: How many times each run sees all examples. A full-batch step is an epoch.
        batch: The size of a minibatch, or "full"; by default the problem's own.
        seeds: The number of seeds, counted from 0, or a list of them.
        metrics: The metrics to evaluate; by default the loss and all metrics of the problem.
        evaluate: When metrics are evaluated.
        select: How step sizes are selected.
        sample: Whether to use the data sample that comes with memgrad.
        examples: Train on this many training examples, drawn once for all runs.
        dtype: The precision.
        note: Any remark.

    Example:
        >>> spec = Spec.parse('''
        ... problem = "logistic"
        ... steps = 100
        ... seeds = 3
        ... [[methods]]
        ... optimizer = "MemSGD"
        ... memory = "poly:2"
        ... lr = [1, 0.1]
        ... ''')
        >>> spec.methods[0].step_sizes, spec.seed_numbers
        ((1.0, 0.1), (0, 1, 2))
    """

    problem: Place
    methods: Annotated[list[Method], Field(min_length=1)]
    name: Name = "experiment"
    steps: Annotated[int, Field(ge=1, le=10**12)] | None = None
    epochs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    batch: Count | Literal["full"] | None = None
    seeds: Seeds = 10
    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    evaluate: Evaluate = Evaluate()
    select: Select = Select()
    sample: bool = False
    examples: Count | None = None
    dtype: Literal["float32", "float64"] | None = None
    note: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(f"give either steps or epochs, got steps={self.steps} and epochs={self.epochs}")
        for seeds in (self.seeds, *(method.seeds for method in self.methods)):
            if isinstance(seeds, list) and len(set(seeds)) < len(seeds):
                raise ValueError("each seed may be listed only once")
        names = [method.name for method in self.methods]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two methods are called {name!r}; give them different names")
        for method in self.methods:
            if method.follows is not None:
                self._check_followed(method)
        if self.select.metric == STEP_NORM:
            raise ValueError("select.metric: step sizes cannot be selected by the length of steps; use the loss")
        return self

    def _check_followed(self, method: Method) -> None:
        assert method.follows is not None
        known = {each.name: each for each in self.methods if each.follows is None}
        if method.follows not in known:
            hint = did_you_mean(method.follows, known)
            raise ValueError(
                f"method {method.name!r} takes the best step size of {method.follows!r}, which is not a method with "
                f"step sizes of its own (known: {', '.join(known) or 'none'}){hint}"
            )

    @property
    def problem_choice(self) -> ProblemChoice:
        """The problem and the share of its data."""
        return ProblemChoice(self.problem, self.sample, self.examples, self.dtype)

    choice = renamed("choice", "problem_choice")

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        """The seeds of the runs: 0, 1, ... if the file gives their number, or those it lists."""
        return _numbers(self.seeds)

    def seeds_of(self, method: Method) -> tuple[int, ...]:
        """The seeds of a method's runs: its own, or those of the experiment.

        Example:
            >>> own = {"name": "tuning", "optimizer": "SGD", "lr": [1, 0.1], "seeds": [100, 101]}
            >>> tested = {"optimizer": "SGD", "lr": "best of tuning"}
            >>> spec = Spec.of({"problem": "logistic", "steps": 9, "seeds": 3, "methods": [own, tested]})
            >>> [spec.seeds_of(method) for method in spec.methods]
            [(100, 101), (0, 1, 2)]
        """
        return self.seed_numbers if method.seeds is None else _numbers(method.seeds)

    def method(self, name: str) -> Method:
        """The method with this name."""
        for method in self.methods:
            if method.name == name:
                return method
        names = [method.name for method in self.methods]
        hint = did_you_mean(name, names)
        raise ValueError(f"experiment {self.name!r} has no method {name!r}{hint} It has {', '.join(names)}.")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Spec:
        """The experiment in a file; errors name the file, the key, the value and the rule.

        The user's own problems, optimizers and memories are looked for beside the experiment's file.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not a text file in UTF-8 ({error.reason} at byte {error.start}).") from None
        return cls.parse(text, where=str(path), folder=path.parent)

    @classmethod
    def parse(cls, text: str, *, where: str = "spec", folder: str | os.PathLike[str] | None = None) -> Spec:
        """The experiment in a text; errors name `where` it is from, and `folder` has the user's own files."""
        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # also an integer of thousands of digits
            raise ValueError(f"{where}: not TOML: {error}.") from None
        return cls.of(data, where=where, folder=folder)

    @classmethod
    def of(cls, data: Mapping[str, Any], *, where: str = "spec", folder: str | os.PathLike[str] | None = None) -> Spec:
        """The experiment in plain data."""
        try:
            spec = cls.model_validate(dict(data), context={"folder": None if folder is None else str(folder)})
        except ValidationError as error:
            raise ValueError(_in_words(where, data, error)) from None
        return spec.model_copy(update={"problem": beside(spec.problem, folder)})


def _numbers(seeds: int | list[int]) -> tuple[int, ...]:
    return tuple(seeds) if isinstance(seeds, list) else tuple(range(seeds))


def _in_words(where: str, data: Mapping[str, Any], error: ValidationError) -> str:
    """All errors, one per line: file, key, rule and value."""
    lines = []
    for complaint in error.errors(include_url=False):
        refused = complaint.get("ctx", {}).get("error")
        at = (*complaint["loc"], refused.option) if isinstance(refused, OptionError) else complaint["loc"]
        place, value = _place(at, data)
        if complaint["type"] == "extra_forbidden":
            rule = "unknown key" + _nearest(complaint["loc"])
        elif complaint["type"] == "missing":
            rule = "is missing"
        elif place and place[-1] in RULES:
            rule = RULES[str(place[-1])]
        else:
            rule = complaint["msg"].removeprefix("Value error, ").rstrip(".")
        says_itself = isinstance(refused, OptionError) or complaint["type"] == "missing"
        got = "" if isinstance(value, Mapping) or says_itself else f", got {_short(value)}"
        line = f"{where}: {_written(place)}: {rule}{got}." if place else f"{where}: {rule}."
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def _place(location: Sequence[str | int], data: Any) -> tuple[tuple[str | int, ...], Any]:
    """The key that is meant and its value, without the branches of a union that pydantic adds."""
    place: list[str | int] = []
    for part in location:
        inside = isinstance(data, Mapping) and part in data
        if not (inside or (isinstance(data, list) and isinstance(part, int)) or part == location[0]):
            if isinstance(data, Mapping):  # a key that is missing
                place.append(part)
            break
        place.append(part)
        data = data[part] if not isinstance(data, Mapping) or part in data else None
        if part in RULES:  # the rule is about the whole value
            break
    return tuple(place), data


def _written(place: Sequence[str | int]) -> str:
    """The key in the usual notation, such as methods[2].lr."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def _nearest(location: Sequence[str | int]) -> str:
    parts: dict[str, type[BaseModel]] = {"evaluate": Evaluate, "select": Select}
    owner = parts.get(str(location[0]), Spec)
    near = nearest(location[-1], owner.model_fields)
    return f"; did you mean {near!r}?" if near else f"; known: {', '.join(owner.model_fields)}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists in lists
        return "a value too long to show"
    return text if len(text) <= 80 else text[:77] + "..."
