"""The course and the answer of tuning in words."""

from __future__ import annotations

import math

from memgrad.experiments.racing.answer import Answer, Contestant
from memgrad.experiments.racing.course import Course
from memgrad.experiments.racing.learning_rates import learning_rate
from memgrad.experiments.racing.sequential import Dropped

SHOWN = 3
"""How many methods behind the leader a line about the race names."""


def course_in_words(course: Course) -> str:
    """Where tuning is, and what comes next, in one line."""
    runs = f"{len(course.wants)} runs next"
    if course.stage == "search":
        found = [f"{name} {learning_rate(each.best):g}" for name, each in course.searches.items() if not each.wants]
        known = f"found {', '.join(found)}; " if found else ""
        return f"Search for learning rates: {known}{len(course.searches) - len(found)} methods to go, {runs}."
    pair = " and ".join(str(each) for each in (course.challenger, course.baseline) if each is not None)
    if course.stage == "refine":
        return f"Learning rates near {pair}, on more seeds: {runs}."
    if course.stage == "fresh":
        return f"Fresh seeds for {pair}: {runs}."
    standing = course.standing
    if course.stage == "race" and standing is not None:
        if not standing.seeds:
            return f"Race of {len(standing.alive)} methods: {runs}."
        first, *others = standing.alive
        rest = ", ".join(f"{name} ({_more(course, name)})" for name in others[:SHOWN])
        rest += f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        new = [dropped_in_words(each) for each in standing.dropped if each.seeds == standing.seeds]
        left = f" Dropped: {'; '.join(new)}." if new else ""
        return f"Race after {standing.seeds} seeds: {first} leads, then {rest}; {runs}.{left}"
    return f"Done after {course.runs} runs: {course.reason}."


def dropped_in_words(dropped: Dropped) -> str:
    """Why a configuration left the race."""
    if not dropped.worse_than:
        return f"{dropped.name} diverged"
    return f"{dropped.name} is worse than {dropped.worse_than} by {percent(dropped.by)} or more ({dropped.seeds} seeds)"


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
        return f"{answer.status.capitalize()} after {answer.runs} runs: {answer.reason}."
    lines = [answer.verdict]
    if answer.ratio is not None:
        what = "Loss ratio" if answer.scale == "log" else "Loss difference"
        lines.append(f"{what} on {answer.ratio.n} fresh seeds: {answer.ratio} (95 % interval).")
    if answer.steps_saved is not None and answer.steps_saved.value > 0:
        lines.append(f"Share of the steps saved: {answer.steps_saved}.")
    if answer.undecided:
        others = ", ".join(answer.undecided)
        lines.append(f"Not distinguishable from {answer.leader} with {answer.seeds} seeds: {others}.")
    lines += [f"Dropped: {dropped_in_words(each)}." for each in answer.dropped]
    lines += [f"The learning rate of {each.name} is at the edge of what was tried." for each in _edged(answer)]
    rate = f"all statements of the race together are wrong with probability at most {answer.rules.alpha:g}"
    lines.append(f"{answer.runs} runs; {answer.reason}; {rate}.")
    for library, line in answer.lines.items():
        lines += ["", f"{library}:", *(f"    {each}" for each in line.splitlines())]
    return "\n".join(lines)


def _edged(answer: Answer) -> list[Contestant]:
    return [each for each in (answer.challenger, answer.baseline) if each is not None and each.at_edge]


def _more(course: Course, name: str) -> str:
    assert course.standing is not None
    means = course.standing.means
    if name not in means:
        return "new"
    more = means[name] - means[course.standing.leader]
    return f"+{percent(more)}" if course.scale == "log" else f"+{more:.4g}"
