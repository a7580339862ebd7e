"""Values that no column can hold, and odd ones that it can: what both formats can write in a cell.

Each comes with the values that the row must have, or is malformed.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from lakehouse_tests.support.malformed_files.pieces import CSV, JSON, NUMBERS, Piece, json_text, quoted, typed_row, with_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse_tests.support.malformed_files.pieces import Malformation

UNICODE_DIGITS = {
    "fullwidth": "\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19",
    "arabic": "\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669",
    "devanagari": "\u0966\u0967\u0968\u0969\u096a\u096b\u096c\u096d\u096e\u096f",
    "superscript": "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079",
    "mathematical": "".join(chr(0x1D7CE + digit) for digit in range(10)),
}
#: Neither an event nor an arrival can have been then.
NO_TIMES = {
    "30 February": "2024-02-30T12:00:00Z",
    "29 February of a common year": "2023-02-29T12:00:00Z",
    "month 13": "2024-13-01T12:00:00Z",
    "month 0": "2024-00-10T12:00:00Z",
    "day 0": "2024-01-00T12:00:00Z",
    "hour 24": "2024-01-22T24:00:00Z",
    "minute 60": "2024-01-22T12:60:00Z",
    "leap second": "2016-12-31T23:59:60Z",
    "second 61": "2024-01-22T12:00:61Z",
    "no zone": "2024-01-22T12:00:00",
    "named zone": "2024-01-22T12:00:00 CET",
    "zone in brackets": "2024-01-22T12:00:00+01:00[Europe/Paris]",
    "offset of a day": "2024-01-22T12:00:00+24:00",
    "offset of 60 minutes": "2024-01-22T12:00:00+01:60",
    "year 0000": "0000-01-01T00:00:00Z",
    "year 0001": "0001-01-01T00:00:00Z",
    "year 9999": "9999-12-31T23:59:59Z",
    "year 10000": "10000-01-01T00:00:00Z",
    "negative year": "-2024-01-22T12:00:00Z",
    "no seconds but a fraction": "2024-01-22T12:00.5Z",
    "a tenth of a microsecond": "2024-01-22T12:00:00.1234567Z",
    "comma as point": "2024-01-22T12:00:00,5Z",
    "single digits": "2024-1-22T12:00:00Z",
    "slashes": "2024/01/22 12:00:00Z",
    "day first": "22.01.2024 12:00:00",
    "compact": "20240122T120000Z",
    "nothing between day and hour": "2024-01-2212:00:00Z",
    "underscore between day and hour": "2024-01-22_12:00:00Z",
    "week": "2024-W04-1",
    "day of the year": "2024-022",
    "seconds since 1970": "1705924800",
    "half a day": "2024-01-22T12:00:00 PM",
    "two times": "2024-01-22T12:00:00Z 2024-01-22T12:00:00Z",
    "spaces within": "2024 - 01 - 22T12:00:00Z",
    "a word": "yesterday",
    "NaT": "NaT",
    "null": "null",
    "only a zone": "Z",
    "long": "2024-01-22T12:00:00." + "0" * 5_000 + "Z",
} | {
    f"{name} digits": "".join(digits[int(char)] if char.isdigit() else char for char in "2024-01-22T12:00:00Z")
    for name, digits in UNICODE_DIGITS.items()
}
NO_EVENTS = {
    "30 February as a day": "2024-02-30",
    "before the first day": "2023-12-31T23:59:59Z",
    "far ahead": "2024-02-03T12:00:00Z",
    "required and empty": "",
    "only spaces": "   ",
}
_NOON = datetime(2024, 1, 22, 12, tzinfo=timezone.utc)
EVENTS: dict[str, tuple[str, datetime | None, date]] = {
    "spaces around": (" 2024-01-22T12:00:00Z\t", _NOON, date(2024, 1, 22)),
    "offset": ("2024-01-23T01:30:00+14:00", _NOON - timedelta(minutes=30), date(2024, 1, 22)),
    "offset without colon": ("2024-01-21 22:00:00-1400", _NOON, date(2024, 1, 22)),
    "zone in lower case": ("2024-01-22 12:00z", _NOON, date(2024, 1, 22)),
    "nanoseconds of zero": ("2024-01-22T12:00:00.000000000Z", _NOON, date(2024, 1, 22)),
    "a day": ("2024-01-22", None, date(2024, 1, 22)),
    "the day of arrival": ("2024-02-01T23:59:59Z", datetime(2024, 2, 1, 23, 59, 59, tzinfo=timezone.utc), date(2024, 2, 1)),
}
#: The arrival of records that carry none; the test delivers its files then.
RECEIVED = datetime(2024, 3, 1, tzinfo=timezone.utc)
#: An insert without an arrival time of its own comes before each record with one.
NEVER_CHANGED = {"arrival_ts": RECEIVED, "source_sequence": -1}
#: A clock may be ahead of its arrival day by as much as clocks may differ.
ARRIVALS = {
    "offset": ("2024-02-01T05:30:00+05:30", datetime(2024, 2, 1, tzinfo=timezone.utc)),
    "a day": ("2024-02-01", datetime(2024, 2, 1, tzinfo=timezone.utc)),
    "a little ahead": ("2024-02-03T00:00:00Z", datetime(2024, 2, 3, tzinfo=timezone.utc)),
}
#: The second is beyond the nanoseconds that some readers of Parquet count times in.
NO_ARRIVALS = {
    "ten years ahead": "2034-02-01T00:00:00Z",
    "far in the future": "2300-02-01T00:00:00Z",
    "last year": "9998-12-31T23:59:59.999999Z",
}
NO_AMOUNTS = {
    "a word": "much",
    "beyond the type": "2147483648",
    "below the type": "-2147483649",
    "far beyond": "9" * 5_000,
    "fraction": "1.5",
    "point without fraction": "1.",
    "exponent": "1e3",
    "NaN": "NaN",
    "infinity": "inf",
    "negative infinity": "-Infinity",
    "hexadecimal": "0x1F",
    "octal": "0o17",
    "thousands by comma": "1,000",
    "thousands by point": "1.000",
    "thousands by space": "1 000",
    "thousands by narrow space": "1\u202f000",
    "thousands by quote": "1'000",
    "thousands by underscore": "1_000",
    "currency": "5\u20ac",
    "per cent": "5%",
    "accountants' minus": "(5)",
    "minus behind": "5-",
    "two signs": "+-5",
    "real minus": "\u22125",
    "only a sign": "-",
    "half": "\u00bd",
    "roman": "\u216b",
    "truth": "true",
    "null": "null",
    "None": "None",
    "zero width space": "1\u200b1",
    "right to left": "\u202e11",
    "formula": "=1+1",
    "long": "x" * 200_000,
} | {f"{name} digits": digits[1] * 2 for name, digits in UNICODE_DIGITS.items()}
AMOUNTS: dict[str, tuple[str, int | None]] = {
    "largest": ("2147483647", 2147483647),
    "smallest": ("-2147483648", -2147483648),
    "spaces around": (" 5 ", 5),
    "plus": ("+5", 5),
    "leading zeros": ("0" * 5_000 + "7", 7),
    "minus zero": ("-0", 0),
    "empty": ("", None),
    "only spaces": ("  ", None),
}
NO_OPS = {
    "unknown": "inserted",
    "punctuation": "delete!",
    "number": "0",
    "two": "insert delete",
    "space within": "in sert",
    "null": "null",
    "cyrillic": "\u0456nsert",
    "turkish": "\u0131nsert",
    "accent": "inse\u0301rt",
    "byte order mark": "\ufeffinsert",
    "long": "insert" * 10_000,
}
OPS = {
    "capitals": ("INSERT", "insert"),
    "spaces around": (" Upsert ", "correct"),
    "letter": ("c", "insert"),
    "empty": ("", "insert"),
    "only spaces": ("  ", "insert"),
}
IDS = {
    "spaces around": " key-x ",
    "line separator": "key\u2028x",
    "combining": "ke\u0301y-x",
    "beyond the first plane": "key-\U0001f600",
    "long": "key-" + "x" * 200_000,
    "formula": "=key-x",
    "path": "../key-x",
    "wildcard": "key-%_*",
    "SQL": "key-'; DROP TABLE silver; --",
    "quotes": 'key-"x"',
    "backslash": "key-\\",
}


def malformations() -> Iterator[Malformation]:
    """Every value above, in both formats, in records that take turns."""
    faults = [("event_time", name, value) for name, value in {**NO_TIMES, **NO_EVENTS}.items()]
    faults += [("arrived_at", name, value) for name, value in {**NO_TIMES, **NO_ARRIVALS}.items()]
    faults += [("id", "required and empty", "")]
    faults += [("amount", name, value) for name, value in NO_AMOUNTS.items()]
    faults += [("op", name, value) for name, value in NO_OPS.items()]
    for turn, (column, name, value) in enumerate(faults):
        number = _needing_events(turn) if (column, value.strip()) == ("event_time", "") else NUMBERS[turn % 6]
        yield from _in_both(number, column, name, value, None)
    oddities: list[tuple[str, str, str, dict[str, Any]]] = [
        *(("event_time", name, text, {"event_ts": time, "event_date": day}) for name, (text, time, day) in EVENTS.items()),
        *(("arrived_at", name, text, {"arrival_ts": time}) for name, (text, time) in ARRIVALS.items()),
        *(("amount", name, text, {"amount": number}) for name, (text, number) in AMOUNTS.items()),
        *(("op", name, text, {"change_op": op}) for name, (text, op) in OPS.items()),
        *(("id", name, text, {"id": text}) for name, text in IDS.items()),
    ]
    yield from _in_both(1, "arrived_at", "only spaces", "   ", NEVER_CHANGED)
    for turn, (column, name, text, changes) in enumerate(oddities):
        yield from _in_both(_needing_events(turn), column, name, text, changes)


def _needing_events(turn: int) -> int:
    return (1, 2, 3, 5, 6)[turn % 5]


def _in_both(number: int, column: str, name: str, value: str, changes: dict[str, Any] | None) -> Iterator[Malformation]:
    """:param changes: the values of the row that differ from before; None for a malformed one."""
    fate, row = ("malformed", None) if changes is None else ("sound", typed_row(number, **changes))
    cell = quoted(value) if set(value) & set(',"') else value.encode()
    title = f"{column} of record {number}: {name}"
    yield CSV.replaced(title, number, Piece(with_cell(number, column, cell), fate, row))
    yield JSON.replaced(title, number, Piece(json_text(number, **{column: value}), fate, row))
