"""Numbers, periods and verdicts in words, the same in the terminal, in Markdown and in HTML.

Texts are not escaped for a format here; only line breaks and terminal codes are. Markdown has escaped texts, and tables aligned
to their cells.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from math import floor, isfinite, log10
from typing import TYPE_CHECKING

from lakehouse.gold.numbers.comparison import exact
from lakehouse.ledger.row_states import QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.gold.numbers.comparison import Comparison, MeasureDelta, Number, Sides, Threshold


#: The labels of the states of a number.
LABELS = {"live": "Live (updating)", "preliminary": "Preliminary", "final": "Final"}
_UNITS = {r"\d{4}-\d\d-\d\d": "day", r"\d{4}-W\d\d": "week", r"\d{4}-\d\d": "month", r"\d{4}-Q[1-4]": "quarter"}
#: The fewest decimal places and the fewest digits of a float; the one that gives more applies.
_PLACES, _DIGITS = 2, 6
#: Smaller floats are written with an exponent.
_TINY = 1e-10


def plain(text: object) -> str:
    """Text on one line; characters that are not printable are escaped."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in str(text))


def number(value: Number | None) -> str:
    """A decimal with all its places, a float with enough places."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return _float(value)
    return f"{value:,f}" if isinstance(value, Decimal) else f"{value:,}"


def both(sides: Sides) -> tuple[str, str]:
    """The formatted numbers before and after; different numbers are never formatted alike."""
    before, after = number(sides.before), number(sides.after)
    if before == after and sides.changed and sides.before is not None and sides.after is not None:
        return f"{exact(sides.before):,f}", f"{exact(sides.after):,f}"
    return before, after


def difference(sides: Sides) -> str:
    """After minus before, with its sign and the decimal places of the sides; empty when a side is missing."""
    apart = sides.difference
    if apart is None:
        return ""
    text = number(apart)
    if isinstance(apart, float) and isfinite(apart):
        places = max(len(side.partition(".")[2]) for side in both(sides))
        rounded = f"{apart:,.{places}f}"
        text = rounded if rounded.strip("-0.") else text
    return f"+{text}" if apart and text[0].isdigit() else text


def percent(sides: Sides) -> str:
    """The change in percent, or a word for why there is no percentage."""
    if not sides.changed:
        return "unchanged"
    if sides.before is None:
        return "new"
    if sides.after is None:
        return "gone"
    if sides.percent is None:
        return "from 0" if sides.before == 0 else "not a number"
    return f"{sides.percent:+,.2f} %" if sides.percent else "under 0.01 %"


def version(name: str | None, state: str | None) -> str:
    """A revision with its state."""
    return plain(" ".join(word for word in (name, state) if word))


def versions(change: MeasureDelta, arrow: str = "->") -> str:
    """The two revisions, with the state of the newer one."""
    sides = plain(change.before_version or ""), version(change.after_version, change.after_state)
    return f" {arrow} ".join(side for side in sides if side)


def where(change: MeasureDelta) -> str:
    """The period and the grain of a change."""
    grain = ", ".join(f"{column} {value}" for column, value in change.grain)
    return plain(f"{change.period} ({grain})" if grain else change.period)


def cell(change: MeasureDelta, column: str) -> str:
    """The value of a grain column."""
    return plain(dict(change.grain).get(column, ""))


def reason(code: str | None) -> str:
    """The reason for a revision, or for which a row waits, as words."""
    of_a_row = next((known.words for known in QuarantineReason if known.value == code), None)
    return of_a_row or plain(code or "").replace("_", " ")


def moment(when: datetime) -> str:
    """A time to the minute, with its time zone."""
    return f"{when:%Y-%m-%d %H:%M %Z}".rstrip()


def counted(count: int, noun: str) -> str:
    """A count with its noun in the singular or plural."""
    plural = f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def unit(periods: Iterable[str]) -> str:
    """The noun for the periods: day, week, ...; ``period`` if they are mixed."""
    nouns = {next((noun for form, noun in _UNITS.items() if re.fullmatch(form, period)), "period") for period in periods}
    return nouns.pop() if len(nouns) == 1 else "period"


def totals(sums: Mapping[str, Sides], arrow: str = "->") -> str:
    """The sums of each measure, in one line."""
    return "; ".join(
        f"{plain(measure)} {before} {arrow} {after} ({percent(sides)})" if sides.changed else f"{plain(measure)} stays {before}"
        for measure, sides in sums.items()
        for before, after in [both(sides)]
    )


def summary(comparison: Comparison, arrow: str = "->") -> str:
    """The whole comparison in a sentence."""
    periods = comparison.periods
    if not periods:
        return "There was nothing to compare."
    differing = len({change.period for change in comparison.changed()})
    count = f"{differing:,}" if differing else "None"
    differ = f"{count} of {counted(len(periods), unit(periods))} {'differ' if differing > 1 else 'differs'}"
    sums = totals(comparison.totals(), arrow)
    return f"{differ}; {sums}." if sums else f"{differ}."


def verdict(comparison: Comparison, threshold: Threshold) -> tuple[bool, str]:
    """Whether a threshold was kept, and a description of how it was broken."""
    broken = [change for change in comparison.changes if threshold.broken_by(change)]
    if not broken:
        return True, "kept"
    worst = max(broken, key=lambda change: (change.sides.ratio is None, abs(change.sides.ratio or 0), change.sides.size))
    return False, f"broken by {counted(len(broken), 'change')}, most by {where(worst)}: {percent(worst.sides)}"


def absent(comparison: Comparison) -> list[str]:
    """A sentence for each side that lacks periods."""
    missing = comparison.missing()
    counted_as = ": its totals omit these" if comparison.totals() else ""
    sides = (comparison.from_version, missing.before), (comparison.to_version, missing.after)
    return [f"No number in {plain(side)} for {spans(periods)}{counted_as}." for side, periods in sides if periods]


def spans(periods: Sequence[str], most: int = 60) -> str:
    """Periods as a list of at most ``most`` entries; consecutive days are joined to ranges."""
    runs: list[list[str]] = []
    for period in sorted(periods):
        if runs and _follows(runs[-1][-1], period):
            runs[-1].append(period)
        else:
            runs.append([period])
    shown = [plain(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}") for run in runs[:most]]
    left = sum(len(run) for run in runs[most:])
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def _follows(period: str, following: str) -> bool:
    try:
        return date.fromisoformat(following) - date.fromisoformat(period) == timedelta(days=1)
    except ValueError:  # a week, month or quarter: few enough to list one by one
        return False


def _float(value: float) -> str:
    if not isfinite(value):
        return str(value)
    if 0 < abs(value) < _TINY:
        return f"{value:.{_DIGITS}g}"
    places = max(_PLACES, _DIGITS - 1 - floor(log10(abs(value)))) if value else _PLACES
    text = f"{value:,.{places}f}"
    beyond = places - _PLACES  # an amount of money has no more
    return text[:-beyond] if beyond and text.endswith("0" * beyond) else text


#: Characters with a meaning everywhere; ``_`` has one only next to a space; ``://`` and ``www.`` would become links.
_MEANING = re.compile(r"[\\`*{}\[\]<>#|!~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.", re.IGNORECASE)


def escape(text: object) -> str:
    """Text on one line, with Markdown's characters escaped."""
    return _MEANING.sub(lambda sign: "\\" + sign.group(), plain(text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> list[str]:
    """A table, aligned so that it is also readable as text.

    :param rows: the cells, not yet escaped.
    :param right: the headings of numeric columns.
    """
    lines = [[escape(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(3, *(len(line[at]) for line in lines)) for at in range(len(heads))]
    numeric = [head in right for head in heads]
    shown = [
        " | ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric))
        for line in lines
    ]
    rule = " | ".join("-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric))
    return [f"| {line} |" for line in (shown[0], rule, *shown[1:])] + [""]
