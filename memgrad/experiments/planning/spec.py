"""Experiments as TOML files: what is compared, on what, for how long, over which seeds."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, field_validator, model_validator

from memgrad.deprecation import renamed
from memgrad.experiments.planning.complaints import in_words
from memgrad.experiments.planning.methods import (
    Method,
    Name,
    Place,
    ScheduleText,
    Seed,
    Seeds,
    StepSize,
    Strict,
    check_leaders,
)
from memgrad.experiments.planning.problem_choice import ProblemChoice
from memgrad.experiments.planning.runs import AT, average_in
from memgrad.memory.text import as_memory
from memgrad.method import Schedule
from memgrad.problems.problem import STEP_NORM
from memgrad.suggestions import did_you_mean
from memgrad.user_code import beside

Count = Annotated[int, Field(ge=1, le=10**12)]
Times = Annotated[int, Field(ge=2, le=100_000)]


class Evaluate(Strict):
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


class Select(Strict):
    """The step-size selection: among those tried, the one with the best mean over seeds of a final value.

    Attributes:
        metric: The metric that is compared.
        goal: Whether less or more of it is better: less by default, which must be said of what is no loss or norm.
        last: The final value is the mean over this last share of the evaluations.
    """

    metric: str = "loss"
    goal: Literal["min", "max"] = "min"
    last: Annotated[float, Field(gt=0, le=1)] = 0.05

    @model_validator(mode="before")
    @classmethod
    def _with_a_goal(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or "goal" in data or not isinstance(metric := data.get("metric", "loss"), str):
            return data
        if not metric.partition("@")[0].endswith(("loss", "norm")):
            raise ValueError(f'say whether less or more of {metric!r} is better: goal = "min" or goal = "max"')
        return data


class Spec(Strict):
    """An experiment: methods compared on one problem, over step sizes and seeds.

    Attributes:
        name: The name of the experiment.
        problem: A problem's name, `file.py:function` or `module:function`.
        methods: The methods.
        steps: The number of steps of each run; or give `epochs`.
        epochs: How many times each run sees all examples. A full-batch step is an epoch.
        batch: The size of a minibatch, or "full"; by default the problem's own.
        seeds: The number of seeds, counted from 0, or a list of them.
        tuning_seeds: Seeds on which settings are tried and selected: a list of them, none of which is among `seeds`.
            Only the selected setting of each method is then trained with `seeds`. By default all settings are.
        schedule: The schedule of the learning rate, such as `linear(warmup=0.05)`; constant unless given.
        clip: The largest norm of a gradient, over all parameters; larger ones are scaled down to it.
        metrics: The metrics to evaluate; by default the loss and all metrics of the problem.
        evaluate: When metrics are evaluated.
        select: How step sizes are selected.
        sample: Whether to use the data sample that comes with memgrad.
        examples: Train on this many training examples, drawn once for all runs.
        options: Options of the problem, named as in the function that makes it.
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
    steps: Count | None = None
    epochs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    batch: Count | Literal["full"] | None = None
    seeds: Seeds = 10
    tuning_seeds: Annotated[list[Seed], Field(min_length=1)] | None = None
    schedule: ScheduleText | None = None
    clip: StepSize | None = None
    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    evaluate: Evaluate = Evaluate()
    select: Select = Select()
    sample: bool = False
    examples: Count | None = None
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    dtype: Literal["float32", "float64"] | None = None
    note: str = ""

    @field_validator("metrics", mode="after")
    @classmethod
    def _of_averages(cls, metrics: list[str] | None) -> list[str] | None:
        return None if metrics is None else [canonical_metric(metric) for metric in metrics]

    @field_validator("select", mode="after")
    @classmethod
    def _by_average(cls, select: Select) -> Select:
        return select.model_copy(update={"metric": canonical_metric(select.metric)})

    @field_validator("evaluate", mode="after")
    @classmethod
    def _times_of_averages(cls, evaluate: Evaluate) -> Evaluate:
        if isinstance(evaluate.times, int):
            return evaluate
        return evaluate.model_copy(update={"times": {canonical_metric(m): n for m, n in evaluate.times.items()}})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(f"give either steps or epochs, got steps={self.steps} and epochs={self.epochs}")
        for seeds in (self.seeds, *(method.seeds for method in self.methods)):
            if isinstance(seeds, list) and len(set(seeds)) < len(seeds):
                raise ValueError("each seed may be listed only once")
        names = [method.name for method in self.methods]
        names += [variant.name for method in self.methods for variant in method.variants if variant is not method]
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"two methods are called {name!r}; give them different names")
        check_leaders({method.name: method for method in self.methods})
        self._check_seeds()
        if self.steps is not None:
            self.check_steps(self.steps)
        if self.select.metric == STEP_NORM:
            raise ValueError("select.metric: step sizes cannot be selected by the length of steps; use the loss")
        return self

    def _check_seeds(self) -> None:
        tuning = self.tuning_seeds or []
        if len(set(tuning)) < len(tuning):
            raise ValueError(f"tuning_seeds: each seed may be listed only once, got {tuning}")
        for where, seeds in (
            ("seeds", self.seed_numbers),
            *((f"methods[{i}].seeds", self.seeds_of(method)) for i, method in enumerate(self.methods)),
        ):
            if both := sorted(set(tuning) & set(seeds)):
                raise ValueError(
                    f"tuning_seeds: settings are selected on other seeds than they are tested on, got {both[0]} in "
                    f"{where} as well; list seeds that are not in both"
                )

    def steps_of(self, method: Method, steps: int) -> int:
        """The number of steps of a method's runs, in an experiment of this many steps."""
        return round(steps * method.steps_factor)

    def check_steps(self, steps: int) -> None:
        """Refuse methods without steps, and schedules that are longer than their runs, given the number of steps."""
        for i, method in enumerate(self.methods):
            own = self.steps_of(method, steps)
            if own < 1:
                raise ValueError(
                    f"methods[{i}].steps_factor: a method needs at least one step, got steps_factor="
                    f"{method.steps_factor} of {steps} steps"
                )
            source = method if method.copies is None or method.schedule is not None else self.method(method.copies)
            for variant in source.variants:
                try:
                    (schedule := self.schedule_of(variant)).check(own)
                except ValueError as error:
                    where = self.methods.index(source)
                    key = "schedule" if variant.schedule is None else f"methods[{where}].schedule"
                    rule = str(error).rstrip(".")
                    raise ValueError(f"{key}: {rule}, got {str(schedule)!r} for {method.name!r}") from None

    def schedule_of(self, method: Method) -> Schedule:
        """The schedule of a method without a grid: its own or the experiment's."""
        text = self.schedule if method.schedule is None else method.schedule
        return Schedule() if text is None else Schedule.parse(text)

    @property
    def problem_choice(self) -> ProblemChoice:
        """The problem and the share of its data."""
        return ProblemChoice(self.problem, self.sample, self.examples, self.dtype, tuple(sorted(self.options.items())))

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
            parts: dict[str, type[Strict]] = {"": cls, "evaluate": Evaluate, "select": Select}
            raise ValueError(in_words(where, data, error, parts)) from None
        return spec.model_copy(update={"problem": beside(spec.problem, folder), "options": _near(spec.options, folder)})


def canonical_metric(metric: str) -> str:
    """A metric with the memory of its average of iterates, if it has one, as it is written by itself.

    Example:
        >>> canonical_metric("loss@p=2")
        'loss@poly:2'
    """
    memory = average_in(metric)
    if memory is None:
        return metric
    name = metric.partition(AT)[0]
    if name == STEP_NORM:
        raise ValueError(f"an average of iterates takes no steps, so it has no {STEP_NORM}")
    return f"{name}{AT}{as_memory('metrics', 'the memory of an average of iterates', memory)}"


def _near(options: Mapping[str, Any], folder: str | os.PathLike[str] | None) -> dict[str, Any]:
    """The options of a problem; a relative path of a text file is looked for beside the experiment's file."""
    path = options.get("data")
    if folder is None or not isinstance(path, str) or not (Path(folder) / path).is_file():
        return dict(options)
    return {**options, "data": str((Path(folder) / path).resolve())}


def _numbers(seeds: int | list[int]) -> tuple[int, ...]:
    return tuple(seeds) if isinstance(seeds, list) else tuple(range(seeds))
