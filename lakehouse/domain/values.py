"""One value of a file into one value of a column, strictly: nothing is rounded, guessed or cut off."""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:\d{2})?(?:\.(\d{1,9}))?\s?(Z|z|UTC|[+-]\d{2}(?::?\d{2})?)?", re.ASCII
)
_RANGES = {"int": 2**31, "bigint": 2**63}
_TRUE = {"true", "t", "1", "yes", "y"}
_FALSE = {"false", "f", "0", "no", "n"}


def to_integer(value: Any, spark_type: str = "bigint") -> int:
    """:raises ValueError: when it is no integer or does not fit the type."""
    if isinstance(value, bool) or not _INTEGER.fullmatch(str(value).strip()):
        msg = f"{_shown(value)} is not an integer"
        raise ValueError(msg)
    number = int(value)
    limit = _RANGES[spark_type]
    if not -limit <= number < limit:
        msg = f"{_shown(value)} does not fit {spark_type}"
        raise ValueError(msg)
    return number


def to_double(value: Any) -> float:
    """:raises ValueError: when it is no finite number."""
    if isinstance(value, bool) or not _NUMBER.fullmatch(str(value).strip()):
        msg = f"{_shown(value)} is not a number"
        raise ValueError(msg)
    number = float(value)
    if not math.isfinite(number):
        msg = f"{_shown(value)} is too large for a double"
        raise ValueError(msg)
    return number


def to_decimal(value: Any, precision: int, scale: int) -> Decimal:
    """:raises ValueError: when it is no number, or would have to be rounded to fit."""
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        msg = f"{_shown(value)} is not a number"
        raise ValueError(msg)
    number = Decimal(text)
    exponent = number.normalize().as_tuple().exponent
    if isinstance(exponent, int) and -exponent > scale:
        msg = f"{_shown(value)} has more than {scale} decimals"
        raise ValueError(msg)
    if number and number.adjusted() >= precision - scale:
        msg = f"{_shown(value)} does not fit decimal({precision},{scale})"
        raise ValueError(msg)
    return number


def to_boolean(value: Any) -> bool:
    """:raises ValueError: when it is none of true/false, t/f, 1/0, yes/no, y/n."""
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        msg = f"{_shown(value)} is not a boolean"
        raise ValueError(msg)
    return word in _TRUE


def to_date(value: Any) -> date:
    """:raises ValueError: when it is no day of the calendar as YYYY-MM-DD."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    text = str(value).strip()
    if _DATE.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError as error:
            msg = f"{_shown(value)} is no day of the calendar ({error})"
            raise ValueError(msg) from None
    msg = f"{_shown(value)} is not a date as YYYY-MM-DD"
    raise ValueError(msg)


def to_timestamp(value: Any, naive_zone: ZoneInfo | None = None) -> datetime:
    """An ISO 8601 time as a UTC time of microseconds.

    :param naive_zone: the zone of times that name none; None refuses such times.
    :raises ValueError: when it is no time, an impossible one, or names no zone.
    """
    moment = value if isinstance(value, datetime) else _parsed(value)
    if moment.tzinfo is None:
        if naive_zone is None:
            msg = f"{_shown(value)} names no zone (clocks.naive_times: in_timezone would read it in the contract's)"
            raise ValueError(msg)
        moment = moment.replace(tzinfo=naive_zone)
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        msg = f"{_shown(value)} is out of range"
        raise ValueError(msg) from None


def is_date_only(value: Any) -> bool:
    """Whether a value names a day and no time of day."""
    if isinstance(value, date):
        return not isinstance(value, datetime)
    return bool(_DATE.fullmatch(str(value).strip()))


def to_text(value: Any) -> str:
    """Text stays as it is; nested JSON becomes JSON text again."""
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value) if isinstance(value, bool) else str(value)


def converter(spark_type: str, naive_zone: ZoneInfo | None = None) -> Callable[[Any], Any]:
    """The function that turns a file's value into one of the given column type; it raises ValueError with the reason."""
    if spark_type.startswith("decimal"):
        precision, scale = (int(part) for part in spark_type.removeprefix("decimal(").rstrip(")").split(","))
        return lambda value: to_decimal(value, precision, scale)
    if spark_type in _RANGES:
        return lambda value: to_integer(value, spark_type)
    if spark_type == "timestamp":
        return lambda value: to_timestamp(value, naive_zone)
    return {"string": to_text, "double": to_double, "boolean": to_boolean, "date": to_date}[spark_type]


def _parsed(value: Any) -> datetime:
    match = _TIMESTAMP.fullmatch(str(value).strip())
    if not match:
        msg = f"{_shown(value)} is not a time as YYYY-MM-DDTHH:MM:SS with a zone"
        raise ValueError(msg)
    day, minutes, seconds, fraction, zone = match.groups()
    text = f"{day}T{minutes}{seconds or ':00'}.{(fraction or '0')[:6]:0<6}"
    if zone:
        offset = "+00:00" if zone in {"Z", "z", "UTC"} else zone
        text += offset if ":" in offset else f"{offset[:3]}:{offset[3:] or '00'}"
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"{_shown(value)} is an impossible time ({error})"
        raise ValueError(msg) from None


def _shown(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")  # noqa: PLR2004 (a message, not a dump)
