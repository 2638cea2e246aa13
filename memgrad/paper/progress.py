"""Telling how far an experiment of several stages has come."""

from __future__ import annotations

from memgrad.memory.passport import Progress

_FINE = 10_000


def stage(progress: Progress | None, number: int, stages: int) -> Progress | None:
    """The progress of one of several stages of about the same length, as progress of the whole.

    Args:
        progress: Whom to tell, or None.
        number: Which stage, from 0.
        stages: How many there are.

    Example:
        >>> second = stage(lambda done, total: print(done / total), 1, 4)
        >>> second(1, 2)
        0.375
    """
    if progress is None:
        return None
    return lambda done, total: progress(int(_FINE * (number + done / max(total, 1))), _FINE * stages)
