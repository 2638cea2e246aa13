"""All claims of the paper, what can be reproduced by name, and verdicts on claims that need no data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from memgrad.memory.passport import Progress
from memgrad.paper.adaptive import a1
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import Claim, Judge, Verdict
from memgrad.paper.figures import draw
from memgrad.paper.guarantees import s8
from memgrad.paper.loss_claims import r1, r2, r3, r7, r8, r9, r10
from memgrad.paper.power_laws import m1
from memgrad.paper.scales import EXPERIMENTS
from memgrad.paper.step_size_claims import r4, r5, r6
from memgrad.paper.synthetic_claims import s1, s2, s3, s4, s5, s6, s7
from memgrad.suggestions import did_you_mean

_JUDGES = (s1, s2, s3, s4, s5, s6, s7, s8, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, a1, m1)

JUDGES: Mapping[str, Judge] = MappingProxyType({each.claim.id: each for each in _JUDGES})
"""The judge of each claim, by the claim's id. A new claim is a function under `judge_of`, and an entry here."""

CLAIMS: Mapping[str, Claim] = MappingProxyType({name: judge.claim for name, judge in JUDGES.items()})
"""The claims by their id."""

NAMES = (*FIGURES, *JUDGES)
"""All that can be reproduced, by name: figures, then claims."""


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """The figures and claims with these names, or all if no name is given; case does not matter.

    Example:
        >>> chosen(["results", "r4"])
        ('results', 'R4')
        >>> chosen(["result"])
        Traceback (most recent call last):
        ...
        ValueError: unknown figure or claim 'result'; did you mean 'results'? All figures: memories, hb-amplification, \
time-warp, verif-noise, quadratic-variance, verif-noise-quadratic, bound-beta, bound-beta-2, odes, p-verification, \
results, gradnorm, acc, stepnorm, padam, rec, step-sizes, ratios. All claims: S1, S2, S3, S4, S5, S6, S7, S8, R1, R2, \
R3, R4, R5, R6, R7, R8, R9, R10, A1, M1; on a language model, by name: L1 to L6, others, workloads.
    """
    found, by_lower = [], {name.lower(): name for name in NAMES}
    for name in names:
        if name.lower() not in by_lower:
            raise ValueError(
                f"unknown figure or claim {name!r}{did_you_mean(name, NAMES)} All figures: {', '.join(FIGURES)}. "
                f"All claims: {', '.join(JUDGES)}; on a language model, by name: L1 to L6, others, workloads."
            )
        found.append(by_lower[name.lower()])
    return tuple(name for name in NAMES if name in found) or NAMES


def needed(names: Iterable[str]) -> tuple[str, ...]:
    """The experiments on real data that figures and claims need.

    Example:
        >>> needed(["R10", "padam", "S3"])
        ('covtype-mini', 'covtype-full', 'polyadam')
    """
    asked = {each for name in names for each in needs_of(name)}
    return tuple(name for name in EXPERIMENTS if name in asked)


def needs_of(name: str) -> tuple[str, ...]:
    """The experiments on real data that a figure or a claim needs."""
    return FIGURES[name].needs if name in FIGURES else JUDGES[name].needs


def judge(
    ids: Iterable[str] | None = None, *, seed: int | None = None, progress: Progress | None = None
) -> tuple[Verdict, ...]:
    """Run the experiments of claims that need no data set, and decide them.

    Args:
        ids: Which claims; all that need no data set by default.
        seed: A seed other than that of the settings.
        progress: Called as `progress(done, total)` for each claim.

    Example:
        >>> judge(["S9"])
        Traceback (most recent call last):
        ...
        ValueError: unknown claim 'S9'; known claims: S1, S2, S3, S4, S5, S6, S7, S8, M1.
    """
    known = [name for name, each in JUDGES.items() if not each.needs]
    asked = known if ids is None else list(ids)
    for each in asked:
        if each not in known:
            raise ValueError(f"unknown claim {each!r}; known claims: {', '.join(known)}.")
    return tuple(_judged(JUDGES[each], seed, progress) for each in asked)


def _judged(judge: Judge, seed: int | None, progress: Progress | None) -> Verdict:
    if judge.run is not None:
        return judge.decide(judge.run(seed, progress))
    seeded = seed if FIGURES[judge.figure].is_random else None
    return judge.decide(draw(judge.figure, seed=seeded, progress=progress).result)
