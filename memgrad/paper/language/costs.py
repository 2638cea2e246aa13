"""What is left to train for L1 to L6, with stand-ins for settings that are not selected yet."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from memgrad.experiments.planning.spec import Spec
from memgrad.paper.language import stages as of
from memgrad.paper.language.beside import OF_PAPER, OTHERS, WORKLOADS, others, widened, workload
from memgrad.paper.language.running import chosen
from memgrad.paper.language.stages import SAVINGS, SECOND_TEXT, Winners
from memgrad.paper.language.study import Study, if_finished


def experiments(study: Study, names: Iterable[str]) -> tuple[Spec, ...]:
    """The experiments that claims need, in their order, each once; at most these, if no grid has to be extended.

    The cost does not depend on which settings are selected: the first of a grid stand in until they are known, and
    all shares of the steps are counted.

    Args:
        study: The study, whose results are found in a store.
        names: The claims, `others` and `workloads`; all by default.
    """
    wanted, stages = set(chosen(names)), study.stages
    first = of.first_grid(stages.scale)
    grid, short = if_finished(lambda: study.short) or (first, _first(first))
    long = if_finished(lambda: study.long) or _first(of.near(short))
    found: list[Spec] = []
    if wanted - {OF_PAPER}:
        found.append(stages.tuning("lm-tune-short", grid, long=False))
    if wanted - {OF_PAPER, OTHERS}:
        found.append(stages.tuning("lm-tune-long", of.near(short), long=True))
    shares = (*((1.0,) if wanted & {"L2", "L3", "L5"} else ()), *(SAVINGS if "L1" in wanted else ()))
    found += [stages.tests(long, shares)] if shares else []
    found += [stages.tests(short, [1.0], long=False)] if "L2" in wanted else []
    found += [stages.ablations(long)] if "L3" in wanted else []
    found += [stages.tests(long, SAVINGS, text=SECOND_TEXT)] if "L4" in wanted else []
    found += [stages.batch(long, size) for size in stages.own["batches"] if "L5" in wanted]
    found += [stages.large(long)] if "L6" in wanted else []
    beside = [others(stages, short)] if OTHERS in wanted else []
    beside += [workload(stages, problem) for problem in WORKLOADS if OF_PAPER in wanted]
    found += [if_finished(partial(widened, study, spec)) or spec for spec in beside]
    return tuple(found)


def _first(grid: of.Grid) -> Winners:
    return {name: settings[0] for name, settings in grid.settings().items()}
