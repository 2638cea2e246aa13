"""Tuning as text: its course and answer in words, the lines to paste, and the experiment that repeats the answer."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memgrad import Memory, optim
from memgrad.amounts import counted
from memgrad.experiments.planning.methods import Method, fitting
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.racing.answer import Answer
from memgrad.experiments.racing.course import Course
from memgrad.experiments.racing.learning_rates import learning_rate
from memgrad.experiments.racing.sequential import Dropped
from memgrad.memory import Mixture
from memgrad.method import Method as Rule
from memgrad.method import Schedule
from memgrad.user_code import Reference, names_code


def course_in_words(course: Course) -> str:
    """Where tuning is, and what comes next, in one line."""
    runs = f"{counted(len(course.wants), 'run')} next"
    if course.stage == "search":
        found = [f"{name} {learning_rate(each.best):g}" for name, each in course.searches.items() if not each.wants]
        known = f"found {', '.join(found)}; " if found else ""
        left = counted(len(course.searches) - len(found), "method")
        return f"Search for learning rates: {known}{left} to go, {runs}."
    pair = " and ".join(str(each) for each in (course.challenger, course.baseline) if each is not None)
    if course.stage == "refine":
        return f"Learning rates near {pair}, on more seeds: {runs}."
    if course.stage == "fresh":
        return f"Fresh seeds for {pair}: {runs}."
    standing = course.standing
    if course.stage == "race":
        if not standing.leader:
            return f"Race of {counted(len(standing.alive), 'method')}: {runs}."
        first, *others = standing.alive
        rest = ", ".join(f"{name} ({_more(course, name)})" for name in others)
        new = [dropped_in_words(each, course.scale) for each in standing.dropped if each.seeds == standing.seeds]
        left = f" Dropped: {'; '.join(new)}." if new else ""
        return f"Race after {standing.seeds} seeds: {first} leads, then {rest}; {runs}.{left}"
    return f"Done after {counted(course.runs, 'run')}: {course.reason}."


def dropped_in_words(dropped: Dropped, scale: str = "log") -> str:
    """Why a configuration left the race."""
    if not dropped.worse_than:
        return f"{dropped.name} diverged"
    # On the linear scale values are multiples of the median size of the losses.
    by = percent(dropped.by) if scale == "log" else f"{dropped.by:.3g} times the median size of the losses"
    return f"{dropped.name} is worse than {dropped.worse_than} by {by} or more ({dropped.seeds} seeds)"


def percent(difference: float) -> str:
    """A difference of logarithms as a share.

    Example:
        >>> percent(0.0), percent(0.0953), percent(3.0)
        ('0.0 %', '10.0 %', '1908.6 %')
    """
    return f"{100 * math.expm1(difference):.1f} %" if difference < 50 else "any factor"


def answer_in_words(answer: Answer) -> str:
    """The answer in a few lines: the verdict, its evidence, what was not distinguishable, and the lines to paste."""
    if answer.status in ("failed", "interrupted"):
        return f"{answer.status.capitalize()} after judging {counted(answer.runs, 'run')}: {answer.reason}."
    lines = [answer.verdict]
    if answer.ratio is not None:
        what = f"{answer.compared.capitalize()} {'ratio' if answer.ratio_scale == 'log' else 'difference'}"
        lines.append(f"{what} on {counted(answer.ratio.n, 'fresh seed')}: {answer.ratio} (95 % interval).")
    if answer.steps_saved is not None:
        lines.append(f"Share of the steps saved: {answer.steps_saved}.")
    if answer.undecided:
        others = ", ".join(answer.undecided)
        lines.append(f"Not told apart from {answer.leader} by the {answer.seeds} seeds of the race alone: {others}.")
    lines += [f"Dropped: {dropped_in_words(each, answer.scale)}." for each in answer.dropped]
    for each in (answer.challenger, answer.baseline):
        if each is not None and each.at_edge:
            lines.append(f"The learning rate of {each.name} is at the edge of what was tried.")
    rate = f"all statements of the race together are wrong with probability at most {answer.rules.error_rate:g}"
    why = "" if answer.reason in answer.verdict else f" {answer.reason};"
    lines.append(f"{counted(answer.runs, 'run')};{why} {rate}.")
    for library, line in answer.lines.items():
        lines += ["", f"{library}:", *(f"    {each}" for each in line.splitlines())]
    return "\n".join(lines)


def _more(course: Course, name: str) -> str:
    means = course.standing.means
    if name not in means:
        return "new"
    more = means[name] - means[course.standing.leader]
    return f"+{percent(more)}" if course.scale == "log" else f"+{more:.4g}"


# --- lines to paste --------------------------------------------------------------------------------------------------


def lines_of(
    method: Method,
    lr: float,
    *,
    schedule: Schedule | None = None,
    steps: int = 0,
    clip: float | None = None,
    averaged: str = "",
) -> dict[str, str]:
    """The lines that make the optimizer of a method at a learning rate, by library.

    There is none for optax if the optimizer is not a method, as `Recipe.method` has it.

    Args:
        method: The method.
        lr: Its learning rate, the peak of its schedule.
        schedule: The schedule with which it was trained; None if the learning rate is constant.
        steps: The number of steps of the schedule.
        clip: The norm to which gradients were clipped, if they were.
        averaged: The memory that averaged the parameters of which the loss was compared, if they were averaged.

    Example:
        >>> lines = lines_of(Method(optimizer="MemAdam", lr=0.1, memory="poly:8", weight_decay=0.01), 3.2e-3)
        >>> print(lines["torch"])
        from memgrad import MemAdam
        optimizer = MemAdam(model.parameters(), lr=0.0032, memory="poly:8", weight_decay=0.01)
        >>> print(lines["optax"])
        from memgrad.transforms import from_method
        optimizer = from_method(0.0032, "poly:8 / (sqrt(poly:4) + 1e-08); decay=0.01")
    """
    if schedule is not None and schedule.is_constant:
        schedule = None
    lines = {"torch": _torch(method, lr, schedule, steps, clip, averaged)}
    rule = method.recipe.method
    if rule is not None:
        lines["optax"] = _optax(rule, lr, schedule, steps, clip, averaged)
    return lines


def _torch(method: Method, lr: float, schedule: Schedule | None, steps: int, clip: float | None, averaged: str) -> str:
    own = {code.option: code for code in method.recipe.code}
    imports, given = [], ""
    for option, value in (method.model_extra or {}).items():
        if option in own:
            attribute = own[option].reference.attribute
            imports.append(f"from {_module(own[option].label)} import {attribute}")
            called = "" if isinstance(own[option].object(), Memory | Mixture) else "()"
            given += f", {option}={attribute}{called}"
        else:
            given += f", {option}={json.dumps(value) if isinstance(value, str) else repr(value)}"
    *_, name = method.optimizer.rpartition(":")
    module = _module(method.optimizer) or ("memgrad" if hasattr(optim, name) else "torch.optim")
    made = [f"optimizer = {name}(model.parameters(), lr={lr:g}{given})"]
    if schedule is not None:
        imports += ["from memgrad.method import Schedule", "from torch.optim.lr_scheduler import LambdaLR"]
        over = f"Schedule.parse({json.dumps(str(schedule))}).over({steps})"
        made.append(f"scheduler = LambdaLR(optimizer, {over})  # scheduler.step() after each step")
    if clip is not None:
        made.append(f"# before each step: torch.nn.utils.clip_grad_norm_(model.parameters(), {clip:g})")
    if averaged:
        kept = f"torch.optim.swa_utils.AveragedModel(model, avg_fn=memgrad.memory_average({json.dumps(averaged)}))"
        made.append(f"# averaged parameters were compared: {kept}")
    return "\n".join([f"from {module} import {name}", *imports, *made])


def _module(label: str) -> str:
    """The module of a name such as `folder/mine.py:window` or `package.module:Class`; empty if it names none."""
    place = label.rpartition(":")[0]
    return Path(place).stem if place.endswith(".py") else place


def _optax(rule: Rule, lr: float, schedule: Schedule | None, steps: int, clip: float | None, averaged: str) -> str:
    imports, made = ["from memgrad.transforms import from_method"], []
    rate, peak = f"{lr:g}", ""
    if schedule is not None:
        imports = ["import jax.numpy as jnp", "from memgrad.method import Schedule", *imports]
        made.append(f"factors = jnp.array(Schedule.parse({json.dumps(str(schedule))}).factors({steps}))")
        rate = f"lambda k: {lr:g} * factors[k]"
        if rule.weight_decay.kind == "independent" and rule.weight_decay.amount:
            peak = f", peak_learning_rate={lr:g}"
    step = f"from_method({rate}, {json.dumps(str(rule))}{peak})"
    if clip is not None:
        imports.insert(0, "import optax")
        step = f"optax.chain(optax.clip_by_global_norm({clip:g}), {step})"
    made.append(f"optimizer = {step}")
    if averaged:
        kept = f"memgrad.transforms.average_iterates({json.dumps(averaged)}), last in the chain"
        made.append(f"# averaged parameters were compared: {kept}")
    return "\n".join([*imports, *made])


# --- an experiment that repeats the answer ---------------------------------------------------------------------------


def repeating(spec: Spec, answer: Answer, folder: str | os.PathLike[str] = ".") -> str:
    """The text of a spec with the challenger and the baseline; `memgrad run` finds their rows in the store.

    Args:
        spec: The experiment that was tuned.
        answer: The answer, with at least one contestant.
        folder: Where the text will be stored: the user's own files are named as seen from there.
    """
    contestants = [each for each in (answer.baseline, answer.challenger) if each is not None]
    if not contestants:
        raise ValueError(f"there is no answer to repeat: {answer.reason}.")
    raced = {variant.name: variant for method in spec.methods for variant in method.variants}
    first = answer.first_seed
    whole = spec.model_dump(exclude_defaults=True, exclude={"methods", "seeds", "tuning_seeds", "name", "note"})
    whole["problem"] = _seen_from(folder, spec.problem)
    if "select" in whole:  # the goal must be stated for what is no loss, also if it is the default
        whole["select"] |= {"goal": spec.select.goal}
    methods = []
    for each in contestants:
        method = raced[each.name]
        options = method.model_dump(exclude_defaults=True, exclude={"name", "seeds"})
        own = {
            code.option: _seen_from(folder, f"{code.place}:{code.reference.attribute}") for code in method.recipe.code
        }
        methods.append({"name": fitting(each.name), **options, "lr": each.lr, **own})
    settings = {"name": "tuned", **whole, "seeds": list(range(first, first + answer.rules.fresh))}
    return f"# {answer.verdict}\n" + to_toml(settings, methods)


def is_repeating(text: str) -> bool:
    """Whether a text looks like one of `repeating`: an answer as a comment, and the name that it gives."""
    return bool(re.match(r'# [^\n]*\nname = "tuned"\n', text))


def _seen_from(folder: str | os.PathLike[str], name: str) -> str:
    """The name of user code with its file as seen from a folder; other names as they are."""
    if not names_code(name) or not (reference := Reference.parse(name)).is_file:
        return name
    colon = f":{reference.attribute}" if reference.attribute else ""
    return f"{os.path.relpath(reference.place, folder)}{colon}"


def to_toml(settings: Mapping[str, Any], methods: list[dict[str, Any]]) -> str:
    """Settings as TOML: plain keys, then tables, then the methods.

    Example:
        >>> print(to_toml({"steps": 9, "evaluate": {"times": 3}}, [{"optimizer": "SGD", "lr": 0.5}]))
        steps = 9
        <BLANKLINE>
        [evaluate]
        times = 3
        <BLANKLINE>
        [[methods]]
        optimizer = "SGD"
        lr = 0.5
        <BLANKLINE>
    """
    plain = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    tables = {name: value for name, value in settings.items() if isinstance(value, Mapping)}
    blocks = [_lines(plain), *(f"[{name}]\n{_lines(table)}" for name, table in tables.items() if table)]
    blocks += [f"[[methods]]\n{_lines(method)}" for method in methods]
    return "\n".join(blocks)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in table.items() if value is not None)


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # Plain values are written as in JSON, but TOML has no surrogate pairs, and no raw delete character.
    return json.dumps(value, default=str, ensure_ascii=False).replace("\x7f", "\\u007f")
