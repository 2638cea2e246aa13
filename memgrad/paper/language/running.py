"""Find what L1 to L6 need, by training it or in a store, and decide them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from memgrad.experiments.driver import Listener, Silent, execute, stored_results
from memgrad.experiments.planning.spec import Spec
from memgrad.experiments.results import Results
from memgrad.experiments.storing.store import Store
from memgrad.experiments.training.engines.engine import Engine
from memgrad.paper.language.beside import OF_PAPER, OTHERS
from memgrad.paper.language.claims import CLAIMS, LanguageVerdict, findings, verdicts
from memgrad.paper.language.stages import Stages, scales
from memgrad.paper.language.study import Study, Unfinished
from memgrad.paper.scales import known


class Interrupted(Exception):  # noqa: N818  # it is no error: the runs were asked to stop
    """Training was stopped, with checkpoints."""


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """The claims with these names, in their order, or all; `others` and `workloads` for what no claim is about.

    Example:
        >>> chosen(["l2", "L1"])
        ('L1', 'L2')
    """
    every = (*CLAIMS, OTHERS, OF_PAPER)
    by_lower = {name.lower(): name for name in every}
    asked = [by_lower.get(name.lower(), name) for name in names]
    for name in asked:
        known("claim", name, every)
    return tuple(name for name in every if name in asked) or every


def stored(store: Store) -> Callable[[Spec], Results]:
    """Find results in a store; nothing is trained and no data set is loaded."""

    def find(spec: Spec) -> Results:
        results = stored_results(spec, store)
        if results is None:
            raise Unfinished(f"{spec.name} has 0 of its runs")
        if not results.finished:
            there = len(results.planned) - len(results.missing())
            raise Unfinished(f"{spec.name} has {there} of {len(results.planned)} runs")
        return results

    return find


def trained(
    store: Store,
    engine: Engine,
    *,
    listening: Callable[[str], AbstractContextManager[Listener]] | None = None,
    device: str | None = None,
) -> Callable[[Spec], Results]:
    """Find results by training what the store does not have.

    Args:
        store: Where rows and checkpoints are kept.
        engine: What trains; the caller closes it.
        listening: Makes the listener to an experiment, given its name.
        device: The device to train on.
    """
    listen = listening or (lambda _: nullcontext(Silent()))
    there = stored(store)
    failed: dict[str, str] = {}  # by experiment: what failed once is not trained again in the same call

    def find(spec: Spec) -> Results:
        try:
            return there(spec)
        except Unfinished:
            if spec.name in failed:
                raise Unfinished(failed[spec.name]) from None
        with listen(spec.name) as listener:
            outcome = execute(spec, store, engine, listener=listener, device=device, close=False)
        if outcome.interrupted:
            raise Interrupted(spec.name)
        if outcome.failed:
            reasons = "; ".join(dict.fromkeys(outcome.failed.values()))
            failed[spec.name] = f"{len(outcome.failed)} runs of {spec.name} could not be trained: {reasons}"
            raise Unfinished(failed[spec.name])
        return there(spec)

    return find


def judge(names: Iterable[str], *, scale: str, find: Callable[[Spec], Results]) -> tuple[LanguageVerdict, ...]:
    """The verdicts on claims, from results that are found or trained.

    Args:
        names: The claims; all by default.
        scale: One of `scales()`.
        find: Finds or trains the results of an experiment.
    """
    return judged(Study(Stages(scale), find), names)


def judged(study: Study, names: Iterable[str]) -> tuple[LanguageVerdict, ...]:
    """The verdicts on claims, from a study."""
    scale = study.stages.scale
    found = findings(study, [name for name in chosen(names) if name in CLAIMS])
    return verdicts(found, scale=scale, decides=scales()[scale].decides)
