"""Numbers, intervals and times as a report writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from memgrad.statistics import Interval


def number_text(value: float | None) -> str:
    """A number with four digits.

    Example:
        >>> number_text(0.123456), number_text(1.0), number_text(-3e-7), number_text(12345.6)
        ('0.1235', '1', '-3e-7', '12,346')
        >>> number_text(float("inf")), number_text(float("nan"))
        ('∞', 'undefined')
    """
    if value is None or math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    mantissa, _, exponent = f"{value:.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def ends_text(low: float | None, high: float | None) -> str:
    """The ends of an interval in brackets; nothing where there is none.

    Example:
        >>> ends_text(0.5, 0.75), ends_text(None, None)
        ('[0.5, 0.75]', '')
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"[{number_text(low)}, {number_text(high)}]"


def interval_text(interval: Interval | None) -> tuple[str, str]:
    """A mean and the ends of its interval; a dash where there is nothing to say.

    Example:
        >>> interval_text(Interval(1.0, 0.9, 1.1, 10)), interval_text(None)
        (('1', '[0.9, 1.1]'), ('-', ''))
    """
    if interval is None:
        return "-", ""
    return number_text(interval.mean), ends_text(interval.low, interval.high)


def duration(seconds: float) -> str:
    """A time in words.

    Example:
        >>> duration(7.25), duration(75), duration(7300)
        ('7.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def whole_numbers(numbers: Sequence[int]) -> str:
    """Whole numbers, those in a row as a range.

    Example:
        >>> whole_numbers([0, 1, 2, 3, 7]), whole_numbers([])
        ('0 to 3, 7', 'none')
    """
    rows: list[list[int]] = []
    for number in sorted(set(numbers)):
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    texts = [f"{row[0]} to {row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows]
    return ", ".join(texts) or "none"


def listed(words: Iterable[str]) -> str:
    """Words in a sentence, each once.

    Example:
        >>> listed(["R1", "R2", "R1", "A1"]), listed(["S6"])
        ('R1, R2 and A1', 'S6')
    """
    unique = list(dict.fromkeys(words))
    return " and ".join(filter(None, [", ".join(unique[:-1]), *unique[-1:]]))
