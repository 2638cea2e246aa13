"""Numbers and intervals as a report writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from memgrad.statistics import Estimate


def number_text(value: float) -> str:
    """A number with four digits, or six if it is that close to 1, as ratios are.

    Example:
        >>> number_text(0.123456), number_text(1.0), number_text(-3e-7), number_text(12345.6)
        ('0.1235', '1', '-3e-7', '12,346')
        >>> number_text(0.99996), number_text(1.0012)
        ('0.99996', '1.0012')
        >>> number_text(float("inf")), number_text(float("nan"))
        ('∞', 'undefined')
    """
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    digits = 6 if abs(value - 1) < 0.002 else 4
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def ends_text(estimate: Estimate) -> str:
    """The ends of an interval in brackets; empty if there is none.

    Example:
        >>> ends_text(Estimate(0.6, 0.5, 0.75)), ends_text(Estimate(0.6))
        ('[0.5, 0.75]', '')
    """
    return f"[{number_text(estimate.low)}, {number_text(estimate.high)}]" if estimate.has_interval else ""


def whole_numbers(numbers: Sequence[int]) -> str:
    """Whole numbers, consecutive ones as a range.

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
    """A list of words in a sentence, each once.

    Example:
        >>> listed(["R1", "R2", "R1", "A1"]), listed(["S6"])
        ('R1, R2 and A1', 'S6')
    """
    unique = list(dict.fromkeys(words))
    return " and ".join(filter(None, [", ".join(unique[:-1]), *unique[-1:]]))


def sentence(text: str) -> str:
    """A text with a capital letter and a period.

    Example:
        >>> sentence("it was not asked for")
        'It was not asked for.'
    """
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?" else ".")
