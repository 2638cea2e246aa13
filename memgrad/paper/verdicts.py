"""All claims of the paper, and verdicts on those that need no data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from memgrad.memory.passport import Progress
from memgrad.paper.adaptive import a1
from memgrad.paper.catalogue import FIGURES
from memgrad.paper.claims import Claim, Judge, Verdict
from memgrad.paper.figures import draw
from memgrad.paper.guarantees import s8
from memgrad.paper.losses import r1, r2, r3, r7, r8, r9, r10
from memgrad.paper.power_laws import m1
from memgrad.paper.step_sizes import r4, r5, r6
from memgrad.paper.synthetic_claims import s1, s2, s3, s4, s5, s6, s7

_JUDGES = (s1, s2, s3, s4, s5, s6, s7, s8, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, a1, m1)

JUDGES: Mapping[str, Judge] = MappingProxyType({each.claim.id: each for each in _JUDGES})
"""The judge of each claim, by the claim's id. A new claim is a function under `judge_of`, and an entry here."""

CLAIMS: Mapping[str, Claim] = MappingProxyType({name: judge.claim for name, judge in JUDGES.items()})
"""The claims by their id."""


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
    chosen = known if ids is None else list(ids)
    for each in chosen:
        if each not in known:
            raise ValueError(f"unknown claim {each!r}; known claims: {', '.join(known)}.")
    return tuple(_judged(JUDGES[each], seed, progress) for each in chosen)


def _judged(judge: Judge, seed: int | None, progress: Progress | None) -> Verdict:
    if judge.run is not None:
        return judge.decide(judge.run(seed, progress))
    seeded = seed if FIGURES[judge.figure].is_random else None
    return judge.decide(draw(judge.figure, seed=seeded, progress=progress).result)
