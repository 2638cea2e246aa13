"""Durations and counts in words, the same everywhere."""

from __future__ import annotations

DAY, YEAR = 86400.0, 365.25 * 86400.0


def counted(n: int, noun: str, *, plural: str = "") -> str:
    """A number of things, as in `3 runs`.

    Example:
        >>> counted(1, "run"), counted(2500, "run"), counted(0, "entry", plural="entries")
        ('1 run', '2,500 runs', '0 entries')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """A duration in words: in two units, or in one from two days on.

    Example:
        >>> duration(7.25), duration(8), duration(75), duration(7300)
        ('7.2 s', '8 s', '1 min 15 s', '2 h 1 min')
        >>> duration(2.6 * 86400), duration(1e9)
        ('2.6 days', '31.7 years')
    """
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds >= 2 * DAY:
        number, unit = (seconds / YEAR, "years") if seconds >= YEAR else (seconds / DAY, "days")
        return f"{number:.{3 if number >= 10 else 2}g} {unit}"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"
