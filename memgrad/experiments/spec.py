"""Experiments as TOML files: what is compared, on what, for how long, over which seeds."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from memgrad.experiments.choice import ProblemChoice
from memgrad.experiments.recipe import Recipe
from memgrad.problems.problem import STEP_NORM

Count = Annotated[int, Field(ge=1, le=10**12)]
Times = Annotated[int, Field(ge=2, le=100_000)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
StepSize = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f]+$")]

BEST_OF = "best of "
"""What a step size begins with that is selected from another method's."""

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
"""What the keys must be that may be one thing or another; for the rest pydantic says it well."""


class _Strict(BaseModel):
    """Frozen; a key that is not known is an error, and so is text where a number belongs."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Evaluate(_Strict):
    """When metrics are evaluated: at the start, at the end, and between.

    Attributes:
        times: How many times in all, at least 2; or a table of metrics, for those that cost little to be evaluated more
            often than those that go through all examples.
        spacing: Evenly spaced in steps, or in their logarithm, which shows the beginning.
        gradient_examples: Take the norm of the gradient over so many training examples, drawn once for all runs, and
            not over all of them.
    """

    times: Times | Annotated[dict[str, Times], Field(min_length=1)] = 41
    spacing: Literal["even", "log"] = "even"
    gradient_examples: Count | None = None

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
    """How a method's step size is selected among those tried: by the mean over seeds of a final value.

    Attributes:
        metric: What is compared.
        goal: Whether less or more of it is better.
        last: The share of the evaluations, the last ones, whose mean is the final value.
    """

    metric: str = "loss"
    goal: Literal["min", "max"] = "min"
    last: Annotated[float, Field(gt=0, le=1)] = 0.05


class Method(_Strict):
    """An optimizer with its options and the step sizes to try.

    All other keys are options of the optimizer, with the names its constructor has.

    Attributes:
        optimizer: Its name, or `module:Class`.
        lr: A step size, several, or `best of NAME`: the one selected for another method.
        name: What it is called in tables and legends; the optimizer's name unless given.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    optimizer: Name
    lr: StepSize | Annotated[list[StepSize], Field(min_length=1)] | str
    name: Name = ""

    @field_validator("lr", mode="after")
    @classmethod
    def _sensible(cls, lr: float | list[float] | str) -> float | list[float] | str:
        if isinstance(lr, str) and not (lr.startswith(BEST_OF) and lr.removeprefix(BEST_OF).strip()):
            raise ValueError(RULES["lr"])
        if isinstance(lr, list) and len(set(lr)) < len(lr):
            raise ValueError(RULES["lr"])
        return lr

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.name:
            object.__setattr__(self, "name", self.optimizer)
        _ = self.recipe
        return self

    @property
    def recipe(self) -> Recipe:
        """The optimizer with its options."""
        return Recipe.of(self.optimizer, **(self.model_extra or {}))

    @property
    def step_sizes(self) -> tuple[float, ...] | None:
        """Those to try; None if they are another method's best."""
        if isinstance(self.lr, str):
            return None
        return tuple(self.lr) if isinstance(self.lr, list) else (self.lr,)

    @property
    def follows(self) -> str | None:
        """The name of the method whose best step size it takes, if it does."""
        return self.lr.removeprefix(BEST_OF).strip() if isinstance(self.lr, str) else None


class Spec(_Strict):
    """An experiment: methods compared on one problem, over step sizes and seeds.

    Attributes:
        name: What it is called.
        problem: A problem's name, `file.py:function` or `module:function`.
        methods: The methods.
        steps: How many steps each run takes; or give `epochs`.
        epochs: How many times each run sees all examples. A full-batch step is an epoch.
        batch: The size of a minibatch, "full", or the problem's own.
        seeds: Their number, counted from 0, or a list.
        metrics: What is evaluated; the loss and all metrics of the problem unless given.
        evaluate: When.
        select: How step sizes are selected.
        sample: Whether to use the rows that come with memgrad.
        examples: Train on this many training examples, drawn once for all runs.
        dtype: The precision.
        note: Whatever there is to say about it.

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

    problem: Name
    methods: Annotated[list[Method], Field(min_length=1)]
    name: Name = "experiment"
    steps: Annotated[int, Field(ge=1, le=10**12)] | None = None
    epochs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    batch: Count | Literal["full"] | None = None
    seeds: Annotated[int, Field(ge=1, le=100_000)] | Annotated[list[Seed], Field(min_length=1)] = 10
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
            raise ValueError(f"give one of steps and epochs, got steps={self.steps} and epochs={self.epochs}")
        if isinstance(self.seeds, list) and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("each seed is listed once")
        names = [method.name for method in self.methods]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two methods are called {name!r}; give them different names")
        for method in self.methods:
            if method.follows is not None:
                self._check_followed(method)
        if self.select.metric == STEP_NORM:
            raise ValueError("select.metric: step sizes are not selected by the length of steps; use the loss")
        return self

    def _check_followed(self, method: Method) -> None:
        assert method.follows is not None
        known = {each.name: each for each in self.methods if each.follows is None}
        if method.follows not in known:
            near = difflib.get_close_matches(method.follows, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"method {method.name!r} takes the best step size of {method.follows!r}, which is not a method with "
                f"step sizes of its own (known: {', '.join(known) or 'none'}){hint}"
            )

    @property
    def choice(self) -> ProblemChoice:
        """The problem and which part of it."""
        return ProblemChoice(self.problem, self.sample, self.examples, self.dtype)

    @property
    def seed_numbers(self) -> tuple[int, ...]:
        """The seeds of the runs: 0, 1, ... where the file says how many, or those that it lists."""
        return tuple(self.seeds) if isinstance(self.seeds, list) else tuple(range(self.seeds))

    def method(self, name: str) -> Method:
        """The method with this name."""
        for method in self.methods:
            if method.name == name:
                return method
        names = [method.name for method in self.methods]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"experiment {self.name!r} has no method {name!r}; {hint}It has {', '.join(names)}.")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Spec:
        """The experiment in a file; errors name the file, the key, the value and the rule.

        A problem in a file of its own is looked for beside the experiment's file.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not a text file in UTF-8 ({error.reason} at byte {error.start}).") from None
        return cls.parse(text, where=str(path), folder=path.parent)

    @classmethod
    def parse(cls, text: str, *, where: str = "spec", folder: str | os.PathLike[str] | None = None) -> Spec:
        """The experiment in a text; `where` it is from is named in errors, and problems' files are in `folder`."""
        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # also an integer of thousands of digits
            raise ValueError(f"{where}: not TOML: {error}.") from None
        return cls.of(data, where=where, folder=folder)

    @classmethod
    def of(cls, data: Mapping[str, Any], *, where: str = "spec", folder: str | os.PathLike[str] | None = None) -> Spec:
        """The experiment in plain data."""
        try:
            spec = cls.model_validate(dict(data))
        except ValidationError as error:
            raise ValueError(_in_words(where, data, error)) from None
        place, _, function = spec.problem.rpartition(":")
        place = place if place.endswith(".py") else spec.problem
        if folder is None or not place.endswith(".py") or Path(place).is_absolute():
            return spec
        beside = str(Path(folder) / place) + (f":{function}" if place != spec.problem else "")
        return spec.model_copy(update={"problem": beside})


def _in_words(where: str, data: Mapping[str, Any], error: ValidationError) -> str:
    """All complaints, a line each: file, key, rule and value."""
    lines = []
    for complaint in error.errors(include_url=False):
        place, value = _place(complaint["loc"], data)
        if complaint["type"] == "extra_forbidden":
            rule = "unknown key" + _nearest(complaint["loc"])
        elif complaint["type"] == "missing":
            rule = "is missing"
        elif place and place[-1] in RULES:
            rule = RULES[str(place[-1])]
        else:
            rule = complaint["msg"].removeprefix("Value error, ").rstrip(".")
        got = "" if isinstance(value, Mapping) or complaint["type"] == "missing" else f", got {_short(value)}"
        line = f"{where}: {_written(place)}: {rule}{got}." if place else f"{where}: {rule}."
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def _place(location: Sequence[str | int], data: Any) -> tuple[tuple[str | int, ...], Any]:
    """The key that is meant, and what is there: without the branches of a union, which pydantic names too."""
    place: list[str | int] = []
    for part in location:
        inside = isinstance(data, Mapping) and part in data
        if not (inside or (isinstance(data, list) and isinstance(part, int)) or part == location[0]):
            if isinstance(data, Mapping):  # a key that is missing
                place.append(part)
            break
        place.append(part)
        data = data[part] if not isinstance(data, Mapping) or part in data else None
        if part in RULES:  # its rule is about all of it
            break
    return tuple(place), data


def _written(place: Sequence[str | int]) -> str:
    """The place as one writes it, such as methods[2].lr."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def _nearest(location: Sequence[str | int]) -> str:
    parts: dict[str, type[BaseModel]] = {"evaluate": Evaluate, "select": Select}
    owner = parts.get(str(location[0]), Spec)
    near = difflib.get_close_matches(str(location[-1]), owner.model_fields, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(owner.model_fields)}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists in lists
        return "what is too long to be shown"
    return text if len(text) <= 80 else text[:77] + "..."
