"""Converts a value of a file to a value of a column, strictly: nothing is rounded, guessed or truncated.

One exception is unavoidable: a double is the nearest one to the number in the file. A value gives the same result whatever its
format and physical type in the file: an integer may be written as 1001 or 1001.0.
"""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.source import RepeatedHour

_INTEGER = re.compile(r"([+-]?\d+)(\.0+)?", re.ASCII)
#: Ambiguous: one, or a thousand with a point between groups of digits.
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}\.000", re.ASCII)
#: Larger integers are not exact in a double: a number written with a point may originally have been another one.
_EXACT_IN_DOUBLE = 2**53
#: A number of more digits behind the point is written with an exponent.
_MOST_DIGITS = 40
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_ZERO = re.compile(r"[+-]?[0.]+([eE]|$)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MIDNIGHT = re.compile(r"(\d{4}-\d{2}-\d{2})[T ]00:00(?::00(?:\.0+)?)?", re.ASCII)
_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity", "-inf": "-Infinity", "-infinity": "-Infinity"}
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s?(Z|z|UTC|([+-])(\d{2})(?::?([0-5]\d))?)?",
    re.ASCII,
)
#: By the number of digits of the times from 2001 to 2286 (days: from 1997 on): the unit in which they are counted.
_EPOCHS = {5: "days", 10: "seconds", 13: "milliseconds", 16: "microseconds", 19: "nanoseconds"}
_RANGES = {"int": 2**31, "bigint": 2**63}
_TRUE = {"true", "t", "1", "yes", "y"}
_FALSE = {"false", "f", "0", "no", "n"}


def to_integer(value: Any, spark_type: str = "bigint") -> int:
    """:raises ValueError: when it is no integer or does not fit the type."""
    match = _INTEGER.fullmatch(str(value).strip())
    if isinstance(value, bool) or not match or _GROUPED.fullmatch(match[0]):
        msg = f"{_shown(value)} is not an integer{_hint(value)}"
        raise ValueError(msg)
    text, limit = match[1], _RANGES[spark_type]
    digits = text.lstrip("+-0")  # int() rejects thousands of digits, with another message
    number = int(digits or 0) if len(digits) <= len(str(limit)) else limit + 1
    if text.startswith("-"):
        number = -number
    if not -limit <= number < limit:
        msg = f"{_shown(value)} does not fit {spark_type}"
        raise ValueError(msg)
    if match[2] and abs(number) > _EXACT_IN_DOUBLE:
        raise ValueError(_inexact(value))
    return number


def to_double(value: Any) -> float:
    """:raises ValueError: when it is no number, or so large or small that a double would be infinite or zero."""
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        msg = f"{_shown(value)} is not a number{_hint(value)}"
        raise ValueError(msg)
    number = float(text)
    if not math.isfinite(number):
        msg = f"{_shown(value)} is too large for a double"
        raise ValueError(msg)
    if number == 0 and not _ZERO.match(text):
        msg = f"{_shown(value)} is too small for a double"
        raise ValueError(msg)
    return number


def to_decimal(value: Any, precision: int, scale: int) -> Decimal:
    """A decimal with exactly ``scale`` decimals, so that equal numbers are also equal as text (a key may be a decimal).

    :raises ValueError: when it is no number, or would have to be rounded to fit.
    """
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        msg = f"{_shown(value)} is not a number{_hint(value)}"
        raise ValueError(msg)
    exactly = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        number = Decimal(text).quantize(Decimal((0, (1,), -scale)), context=exactly)
    except Inexact:
        msg = f"{_shown(value)} has more than {scale} decimals"
        raise ValueError(msg) from None
    except InvalidOperation:
        msg = f"{_shown(value)} does not fit decimal({precision},{scale})"
        raise ValueError(msg) from None
    return number or number.copy_abs()  # zero has no sign


def to_boolean(value: Any) -> bool:
    """:raises ValueError: when it is none of true/false, t/f, 1/0, yes/no, y/n."""
    word = re.sub(r"\.0+$", "", str(value).strip().lower())
    if word not in _TRUE | _FALSE:
        msg = f"{_shown(value)} is not a boolean"
        raise ValueError(msg)
    return word in _TRUE


def to_date(value: Any) -> date:
    """:raises ValueError: when it is no day of the calendar as YYYY-MM-DD; midnight without a zone is such a day."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    text = str(value).strip()
    midnight = _MIDNIGHT.fullmatch(text)
    text = midnight[1] if midnight else text
    if _DATE.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError as error:
            msg = f"{_shown(value)} is no day of the calendar ({error})"
            raise ValueError(msg) from None
    msg = f"{_shown(value)} is not a date as YYYY-MM-DD{_epoch_hint(value)}"
    raise ValueError(msg)


def to_timestamp(value: Any, naive_zone: ZoneInfo | None = None, repeated: RepeatedHour = "reject") -> datetime:
    """An ISO 8601 time as a UTC time of microseconds.

    :param naive_zone: the zone of times without one; if it is None, such times are rejected.
    :param repeated: the choice for a local time that occurs twice, because clocks are set back.
    :raises ValueError: when it is no time, an impossible one, finer than a microsecond, has no zone, or occurs twice and is
        rejected for that reason.
    """
    moment = value if isinstance(value, datetime) else _parsed(value)
    if moment.tzinfo is None and naive_zone is None:
        msg = f"{_shown(value)} names no zone (clocks.naive_times: in_timezone would read it in the contract's)"
        raise ValueError(msg)
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(timezone.utc)
        instant = moment.replace(tzinfo=naive_zone, fold=0).astimezone(timezone.utc)
        again = moment.replace(tzinfo=naive_zone, fold=1).astimezone(timezone.utc)
        skipped = instant.astimezone(naive_zone).replace(tzinfo=None) != moment
    except (OverflowError, ValueError):
        msg = f"{_shown(value)} is out of range"
        raise ValueError(msg) from None
    if skipped:
        msg = f"{_shown(value)} is an impossible time (the clock of {naive_zone} skips it)"
        raise ValueError(msg)
    if again != instant and repeated == "reject":
        msg = f"{_shown(value)} occurs twice in {naive_zone}, where clocks are set back (clocks.repeated_hour would decide)"
        raise ValueError(msg)
    return again if repeated == "second" else instant


def is_date_only(value: Any) -> bool:
    """Whether a value is a day without a time of day."""
    if isinstance(value, date):
        return not isinstance(value, datetime)
    return bool(_DATE.fullmatch(str(value).strip()))


def to_text(value: Any) -> str:
    """A file's value as text; nested JSON becomes JSON text with its numbers unchanged.

    A whole number has no point, so that an id is the same text whether a file has it as an integer or not.

    :raises ValueError: for bytes that are not UTF-8, for NaN and infinities, and for whole numbers that a double may have
        changed.
    """
    return _number_text(value) if isinstance(value, (float, Decimal)) else typed_text(value)


#: A whole number as a spreadsheet shows it: of more digits than a cell holds, or than its column is wide.
SHORTENED_KEY = r"^ *[1-9](?:[.,][0-9]+)?E\+[0-9]{2,3} *$"
_SHORTENED_KEY = re.compile(SHORTENED_KEY, re.ASCII)


def to_key_text(value: Any) -> str:
    """A file's value as the text of a key; see :func:`to_text`.

    :raises ValueError: also for a number whose digits a spreadsheet has dropped: many keys would have the same text.
    """
    if isinstance(value, str) and _SHORTENED_KEY.fullmatch(value):
        msg = f"{_shown(value)} is a key that a spreadsheet has shortened: digits are lost; have the file sent again as it was"
        raise ValueError(msg)
    return to_text(value)


def typed_text(value: Any) -> str:
    """A typed value as text, of which record keys consist.

    :raises ValueError: for bytes that are not UTF-8.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, (dict, list)):
        return _json(value)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def key_text(value: Any) -> str:
    """A typed value as text in a key: -0.0 is 0.0, and no other key."""
    return typed_text(value + 0.0 if isinstance(value, float) else value)


def null_numbers(words: Collection[str]) -> frozenset[Decimal]:
    """The numbers among ``words``, the words for a missing value."""
    return frozenset(Decimal(word) for word in words if _NUMBER.fullmatch(word))


def is_null_number(value: Any, words: Collection[str], numbers: Collection[Decimal]) -> bool:
    """Whether a number of a typed format equals one of the words for a missing value.

    :param numbers: :func:`null_numbers` of the words.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value) in words
    return bool(numbers) and not isinstance(value, bool) and Decimal(str(value)) in numbers


def converter(spark_type: str, naive_zone: ZoneInfo | None = None, repeated: RepeatedHour = "reject") -> Callable[[Any], Any]:
    """The function that turns a file's value into one of the given column type; it raises ValueError with the reason."""
    if spark_type.startswith("decimal"):
        precision, scale = (int(part) for part in spark_type.removeprefix("decimal(").rstrip(")").split(","))
        return lambda value: to_decimal(value, precision, scale)
    if spark_type in _RANGES:
        return lambda value: to_integer(value, spark_type)
    if spark_type == "timestamp":
        return lambda value: to_timestamp(value, naive_zone, repeated)
    return {"string": to_text, "double": to_double, "boolean": to_boolean, "date": to_date}[spark_type]


def _parsed(value: Any) -> datetime:
    match = _TIMESTAMP.fullmatch(str(value).strip())
    if not match:
        msg = f"{_shown(value)} is not a time as YYYY-MM-DDTHH:MM:SS with a zone{_epoch_hint(value)}"
        raise ValueError(msg)
    year, month, day, hour, minute, second, fraction, zone, sign, zone_hours, zone_minutes = match.groups()
    micros = (fraction or "").rstrip("0")
    if len(micros) > 6:  # noqa: PLR2004 (the digits of a microsecond)
        msg = f"{_shown(value)} is finer than a microsecond"
        raise ValueError(msg)
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        return datetime(
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute),
            int(second or 0),
            int(f"{micros:0<6}"),
            tzinfo=timezone(-offset if sign == "-" else offset) if zone else None,
        )
    except ValueError as error:
        msg = f"{_shown(value)} is an impossible time ({error})"
        raise ValueError(msg) from None


def _number_text(value: float | Decimal) -> str:
    number = Decimal(str(value))
    if not number.is_finite():
        msg = f"{_shown(value)} is not a text{_hint(value)}"
        raise ValueError(msg)
    is_integer = isinstance(value, Decimal) and not number.as_tuple().exponent  # 1.0899605383203422e+16 is a double without one
    if not is_integer and abs(number) > _EXACT_IN_DOUBLE and number == number.to_integral_value():
        raise ValueError(_inexact(value))
    if number == number.to_integral_value():
        return str(int(number))
    is_short = "E" in str(number) and abs(number.adjusted()) < _MOST_DIGITS
    return format(number, "f") if is_short else str(number)


def _inexact(value: Any) -> str:
    return f"{_shown(value)} is larger than 2^53 and not written as an integer: a double may have changed it; have it sent as one"


def _hint(value: Any) -> str:
    """The advice for a word such as NaN that is not a number."""
    name = _NO_NUMBERS.get(str(value).strip().lower())
    return f" (source.null_values: [{name}] would read it as no value)" if name else ""


def _epoch_hint(value: Any) -> str:
    """The advice for a number that may count the time since 1970, as change feeds and many programs write it."""
    match = _INTEGER.fullmatch(str(value).strip())
    unit = _EPOCHS.get(len(match[1])) if match and match[1].isdigit() else None
    return f" (if it counts {unit} since 1970, source.formats: epoch_{unit} reads it)" if unit else ""


def _json(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(str(name))}:{_json(member)}" for name, member in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"holds {value}, which is no JSON"
        raise ValueError(msg)
    return json.dumps(value, default=str, ensure_ascii=False)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        msg = f"{_shown(value)} is not text in UTF-8"
        raise ValueError(msg) from None


def _shown(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")  # noqa: PLR2004 (a message, not a dump)
