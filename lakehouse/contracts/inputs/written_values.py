"""Readers of a sender's formats: times by a pattern, seconds since 1970, numbers by an example.

A value becomes the text that every other part reads: a time in ISO 8601, a number with a decimal point only. Values in any other
form are refused, never guessed. Plain Python; the section ``source`` of a contract names the columns with a format.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: Words for a count since the beginning of 1970 (UTC), with the unit in microseconds.
EPOCHS = {
    "epoch_seconds": Decimal(1_000_000),
    "epoch_milliseconds": Decimal(1_000),
    "epoch_microseconds": Decimal(1),
    "epoch_nanoseconds": Decimal("0.001"),
}
#: The word for a count of days since 1970, as Debezium writes a date.
EPOCH_DAYS = "epoch_days"
#: 1234.56 or 1234 as a sender writes it: currency symbols around it, and K for thousands (then also M and B).
_EXAMPLE = re.compile(r"(?P<before>[^\d(+-]*?)1(?P<group>[.,' ]?)234(?:(?P<point>[.,])56)?(?P<magnitude>K?)(?P<after>[^\d)]*)")
_MAGNITUDES = {"": 0, "K": 3, "M": 6, "B": 9}
_BLANKS = "[ \u00a0\u202f]"
_APOSTROPHES = "['\u2019]"
#: At the end of a pattern these words say that its times are in UTC, whatever the zone of the others.
_IN_UTC = re.compile(r"(?:(?<=[\sSMf])Z|\bUTC|\bGMT)$")
#: The directives of a full date, in any order.
_DAY = r"(?=.*%[YyGcx])(?=.*%[mbBhjUWVcx])(?=.*%[dejaAuwcx])"
_DIRECTIVES_OF_A_TIME = re.compile(r"%[HIMSfpXcsz]")
SHAPES = (
    "a pattern such as '%d.%m.%Y %H:%M' or '%Y-%m', one of "
    + ", ".join([*EPOCHS, EPOCH_DAYS])
    + ", or the number 1234.56 (or 1234) as the sender writes "
    "it, such as '1.234,56' or '$1,234.56', with a K behind it where there are short forms such as 250K and 1.2M"
)


class NotWrittenSoError(ValueError):
    """A value that does not follow its format. The text is the reason."""


def reader(form: str) -> Callable[[Any], Any]:
    """The function that reads values in the format ``form``.

    With a number format, the numbers of JSON and Parquet files are unchanged.

    :raises ValueError: if ``form`` is not a format.
    """
    if form in EPOCHS:
        return partial(_since_1970, form=form, unit=EPOCHS[form])
    if form == EPOCH_DAYS:
        return _days_since_1970
    if "%" in form:
        first_day = ("", "") if re.search(_DAY, form) else _first_day_of(form)
        if first_day is None:
            msg = (
                f"{form!r} names no day: a pattern needs year, month and day, or is that of a whole month, week or year; "
                "join columns with source.joined"
            )
            raise ValueError(msg)
        try:
            whole = form + first_day[0]
            datetime.strptime(_EPOCH.strftime(whole), whole)  # noqa: DTZ007 (only whether it is a pattern)
        except ValueError:
            msg = f"{form!r} is no pattern of a time: use {SHAPES}"
            raise ValueError(msg) from None
        has_time = bool(_DIRECTIVES_OF_A_TIME.search(form))
        zone = timezone.utc if has_time and "%z" not in form and _IN_UTC.search(form) else None
        return partial(_by_pattern, form=form, first_day=first_day, has_time=has_time, zone=zone)
    example = _EXAMPLE.fullmatch(form)
    if example is None or (example["group"] and example["group"] == example["point"]):
        msg = f"{form!r} is no format: use {SHAPES}"
        raise ValueError(msg)
    return partial(_by_example, form=form, expression=_number(example))


def is_of_periods(form: str) -> bool:
    """Whether the format is one of months, weeks or years, each of which is read as its first day."""
    return "%" in form and not re.search(_DAY, form)


def _first_day_of(form: str) -> tuple[str, str] | None:
    """The suffixes of pattern and value that complete a month, a week or a year to its first day; None for other patterns."""
    directives = set(re.findall(r"%(.)", form))
    if directives == {"G", "V"}:
        return " %u", " 1"
    months = directives - {"Y", "y"}
    is_period = directives == {"Y"} or (len(directives) > len(months) and len(months) == 1 and months <= {"m", "b", "B", "h"})
    return ("", "") if is_period else None


def is_of_numbers(form: str) -> bool:
    """Whether the format is a number format."""
    return form not in EPOCHS and form != EPOCH_DAYS and "%" not in form


def _since_1970(value: Any, *, form: str, unit: Decimal) -> str:
    text = f"{Decimal(str(value)):f}" if _is_number(value) else f"{value}".strip()
    if not re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", text):
        raise _refused(value, form)
    microseconds = Decimal(text) * unit
    try:
        if microseconds % 1:
            raise _refused(value, form)
        return (_EPOCH + timedelta(microseconds=int(microseconds))).isoformat()
    except (ArithmeticError, OverflowError):
        raise _refused(value, form) from None


def _days_since_1970(value: Any) -> str:
    text = f"{Decimal(str(value)):f}" if _is_number(value) else f"{value}".strip()
    if not re.fullmatch(r"-?[0-9]+(?:\.0+)?", text):
        raise _refused(value, EPOCH_DAYS)
    try:
        return (_EPOCH.date() + timedelta(days=int(text.partition(".")[0]))).isoformat()
    except OverflowError:
        raise _refused(value, EPOCH_DAYS) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _by_pattern(value: Any, *, form: str, first_day: tuple[str, str], has_time: bool, zone: timezone | None) -> Any:
    if _is_number(value) and value == value // 1:
        value = f"{int(value)}"
    if not isinstance(value, str):
        raise _refused(value, form)
    text = value.strip()
    try:
        # A time without a zone is interpreted as the contract defines.
        moment = datetime.strptime(text + first_day[1], form + first_day[0])  # noqa: DTZ007
        # Of digits without anything between them, 2024110 would pass for 10 January.
        is_so = _comparable(moment.strftime(form), form) == _comparable(text, form)
    except ValueError:
        is_so = False
    if not is_so:
        raise _refused(value, form)
    if zone is not None:
        moment = moment.replace(tzinfo=zone)
    return moment.isoformat() if has_time else moment.date().isoformat()


def _comparable(text: str, form: str) -> str:
    """Normalize a time text: leading and trailing zeros, blanks and zone notation do not matter."""
    if "%z" in form:
        text = re.sub(r"Z|[+-][0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?", "", text)
    if "%f" in form:
        text = re.sub(r"(?<=[0-9])0+(?![0-9])", "", text)
    return " ".join(re.sub(r"(?<![0-9])0+(?=[0-9])", "", text).casefold().split())


def _by_example(value: Any, *, form: str, expression: re.Pattern[str]) -> Any:
    if not isinstance(value, str):
        return value
    match = expression.fullmatch(value.strip().replace("\u2212", "-"))  # a minus as word processors write it
    signs = [] if match is None else [match[name] for name in ("opened", "plus", "inner", "behind") if match[name]]
    if match is None or len(signs) > 1:
        raise _refused(value, form)
    whole = re.sub(r"[^0-9]", "", match["whole"])
    number = Decimal(f"{whole}.{match['fraction'] or '0'}") if match["fraction"] else Decimal(whole)
    if exponent := _MAGNITUDES[(match["magnitude"] or "").upper()]:
        number = number.scaleb(exponent)
    return f"{-number if signs and signs != ['+'] else number:f}"


def _number(example: re.Match[str]) -> re.Pattern[str]:
    """The regular expression of numbers written like ``example``; a negative number has a minus sign or parentheses."""
    group = {" ": _BLANKS, "'": _APOSTROPHES}.get(example["group"], re.escape(example["group"]))
    whole = rf"[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]+" if group else r"[0-9]+"
    fraction = rf"(?:{re.escape(example['point'])}(?P<fraction>[0-9]+))?" if example["point"] else "(?P<fraction>(?!))?"
    magnitude = "(?P<magnitude>[KMBkmb]?)" if example["magnitude"] else "(?P<magnitude>)"
    before, after = (f"(?:{re.escape(example[side].strip())})?" for side in ("before", "after"))
    begin, end = rf"(?P<opened>\()?(?P<plus>[+-])?{_BLANKS}*", r"(?P<behind>-)?(?(opened)\))"
    number = rf"(?P<whole>{whole}){fraction}{magnitude}"
    return re.compile(rf"{begin}{before}{_BLANKS}*(?P<inner>[+-])?{number}{_BLANKS}*{after}{end}")


def _refused(value: Any, form: str) -> NotWrittenSoError:
    return NotWrittenSoError(f"{str(value)[:60]} is not written as {form}")
