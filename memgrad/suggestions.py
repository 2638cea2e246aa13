"""Suggestions for misspelled names: "did you mean ...?", the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CUTOFF = 0.6
"""The minimum similarity, as `difflib` measures it from 0 to 1, at which a known name is suggested."""


def nearest(name: object, known: Iterable[str], *, cutoff: float = CUTOFF) -> str | None:
    """The known name that is most similar to `name`, whatever its case, or None if none is similar.

    Example:
        >>> nearest("adamw", ["SGD", "AdamW"])
        'AdamW'
        >>> nearest("adagrad", ["SGD", "MemSGD"])
    """
    import difflib  # only an error needs it

    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(name: object, known: Iterable[str], *, written: Mapping[str, str] | None = None) -> str:
    """The end of a sentence that refuses `name`: a suggestion, or a period if no known name is similar.

    Args:
        name: The name that is refused.
        known: The names that are accepted.
        written: What to suggest in place of some of them, such as `poly:2` for `poly`.

    Example:
        >>> f"unknown scale 'labtop'{did_you_mean('labtop', ['quick', 'laptop'])} Known: quick, laptop."
        "unknown scale 'labtop'; did you mean 'laptop'? Known: quick, laptop."
        >>> f"unknown scale 'x'{did_you_mean('x', ['quick', 'laptop'])} Known: quick, laptop."
        "unknown scale 'x'. Known: quick, laptop."
    """
    near = nearest(name, known)
    return "." if near is None else f"; did you mean {(written or {}).get(near, near)!r}?"
