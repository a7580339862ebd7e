"""What sample files say about a source: types, the key, the clocks, and what is uncertain. Plain Python.

A column has the first type to which the product converts all of its values (``bronze.type_conversion``), so that what is inferred
is what can be ingested. Belongs here: the rules. Reading the samples belongs to ``samples``, the YAML to ``contract_text``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timezone
from itertools import combinations
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse.bronze import type_conversion
from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.changes.marking import Changes
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

_UTC = ZoneInfo("UTC")
#: The types that are tried, the narrowest first; any text is a string.
_TYPES = ("bigint", "decimal", "double", "boolean", "date", "timestamp")
_CODE = re.compile(r"0\d+")
_FRACTION = re.compile(r"[.eE]")
_PRECISION, _WIDEST, _SCALE = 18, 38, 2
#: Words in the names of columns, the most telling first.
_KEY_WORDS = ("id", "key", "uuid", "number", "no", "code", "ref")
_EVENT_WORDS = ("event", "occurred", "happened", "sold", "ordered", "order", "booked", "time", "timestamp", "date", "day", "at")
_ARRIVAL_WORDS = ("received", "arrival", "arrived", "ingested", "loaded", "exported", "sent", "updated", "modified")
_KEY_COLUMNS = 3
_OP_NAMES = ("op", "operation", "change", "action", "__op", "change_op")


class InferenceError(LakehouseError):
    """Sample files from which no contract follows. The message names the file, and says what to do."""


@dataclass(frozen=True)
class Sample:
    """The records of one file by column; an empty value is None."""

    file: str
    columns: Sequence[str]
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class InferredColumn:
    """A column of the files.

    :param name: the field that it becomes, in lower case.
    :param column: its name in the files.
    :param empty: in how many records it has no value.
    """

    name: str
    column: str
    type: str
    empty: int


@dataclass(frozen=True)
class InferredSource:
    """A source as its samples show it.

    :param key: the fields that identify a record in each file; empty if none do.
    :param op: the column that says whether a record is new, corrects or withdraws one.
    :param event: the column of the event time; None if no column is a time.
    :param naive: whether the event times have no zone.
    :param first_day: the first event day of the samples.
    :param doubts: sentences for the person who reads the contract.
    """

    columns: Sequence[InferredColumn]
    key: Sequence[str]
    op: str | None
    event: str | None
    arrival: str | None
    naive: bool
    first_day: date | None
    doubts: Sequence[str] = field(default_factory=list)


def infer(samples: Sequence[Sample]) -> InferredSource:
    """Infer a source from one or more sample files.

    :raises InferenceError: for a file without records, or files that have no column in common.
    """
    for sample in samples:
        if not sample.records:
            msg = f"{sample.file}: has no record; give a file with at least one"
            raise InferenceError(msg)
    shared = [name for name in samples[0].columns if all(name in sample.columns for sample in samples)]
    if not shared:
        msg = f"{samples[-1].file}: has no column in common with {samples[0].file}; infer one source at a time"
        raise InferenceError(msg)
    doubts = [
        f"column {name} is not in every file: it is left out"
        for name in sorted({name for sample in samples for name in sample.columns} - set(shared))
    ]
    names = field_names(shared)
    columns = []
    for name in shared:
        values = [record.get(name) for sample in samples for record in sample.records]
        found, doubt = type_of([value for value in values if value is not None])
        columns.append(InferredColumn(names[name], name, found, sum(value is None for value in values)))
        doubts += [f"column {name}: {doubt}"] if doubt else []
    op = next((column for column in columns if _marks_changes(column.column, samples)), None)
    key, doubt = _key(samples, [column for column in columns if column is not op])
    doubts += [doubt] if doubt else []
    if op is not None and key:  # without a key there is nothing that a record could change
        columns.remove(op)
        doubts.append(f"column {op.column} says whether a record is new, corrects or withdraws one (changes.op)")
    event, arrival, more = _clocks(columns)
    doubts += more
    times = [record[event.column] for sample in samples for record in sample.records if record.get(event.column)] if event else []
    naive = bool(event) and any(_is_naive(value) for value in times)
    if naive:
        doubts.append("event times have no zone and are read as UTC: set clocks.timezone to theirs, such as Europe/Berlin")
    first = min(map(_day_of, times), default=None)
    return InferredSource(
        columns=columns,
        key=key,
        op=op.column if op and key else None,
        event=event.column if event else None,
        arrival=arrival.column if arrival else None,
        naive=naive,
        first_day=first,
        doubts=doubts,
    )


def type_of(values: Sequence[Any]) -> tuple[str, str | None]:
    """The narrowest type that all values have, and a doubt about it.

    Texts of digits with leading zeros are codes, not numbers.
    """
    if not values:
        return "string", "has no value in the samples: a string until you know better"
    if any(isinstance(value, str) and _CODE.fullmatch(value.strip()) for value in values):
        return "string", None
    for kind in _TYPES:
        wanted = _decimal_of(values) if kind == "decimal" else kind
        if kind == "double" and not any(_FRACTION.search(f"{value}") for value in values):
            continue  # a double would drop digits of a long number
        if wanted is not None and _all_convert(values, wanted):
            return wanted, None
    rejected = [value for value in values if not _all_convert([value], "timestamp")]
    if len(rejected) < len(values) // 2:
        return "string", f"is a time in most records, but not {rejected[0]!r}"
    words = [value for value in values if not _all_convert([value], "double")]
    if words and len(words) < (len(values) + 1) // 2:
        return (
            "string",
            f"is a number in most records, but not {words[0]!r}: it may be a word for 'no value' (source.null_values)",
        )
    return "string", None


def field_names(columns: Sequence[str]) -> dict[str, str]:
    """A field for each column: lower case, with digits and underscores, each once, and none that the tables have themselves."""
    names: dict[str, str] = {}
    for column in columns:
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column)
        name = re.sub(r"[^a-z0-9]+", "_", snake.lower()).strip("_") or "column"
        name = name if name[0].isalpha() else f"c_{name}"
        name += "_in_file" if name in SYSTEM_COLUMNS or name.startswith("quarantine_") else ""
        while name in names.values():
            name += "_2"
        names[column] = name
    return names


def is_identifier(column: InferredColumn) -> bool:
    """Whether a column is called like a key: its numbers are not to be added up."""
    return _rank(column, _KEY_WORDS) < len(_KEY_WORDS)


def _marks_changes(column: str, samples: Sequence[Sample]) -> bool:
    """Whether all values of a column are words for new, corrected and withdrawn records."""
    words = Changes()
    known = {*words.insert_words, *words.correct_words, *words.delete_words}
    values = {f"{record.get(column)}".strip().lower() for sample in samples for record in sample.records}
    return column.lower() in _OP_NAMES and values <= known


def _all_convert(values: Sequence[Any], kind: str) -> bool:
    convert = type_conversion.converter(kind, _UTC)
    try:
        for value in values:
            convert(value)
    except ValueError:
        return False
    return True


def _decimal_of(values: Sequence[Any]) -> str | None:
    """The decimal type that holds all values; None if they are no decimals, or have too many digits."""
    whole = scale = 0
    for value in values:
        match = re.fullmatch(r"\s*[+-]?(\d*)\.?(\d*)\s*", f"{value}")
        if match is None:
            return None
        whole, scale = max(whole, len(match[1])), max(scale, len(match[2]))
    scale = max(scale, _SCALE) if scale else 0  # the next file may have cents
    precision = max(_PRECISION, whole + scale)
    return f"decimal({precision},{scale})" if precision <= _WIDEST else None


def _key(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> tuple[list[str], str | None]:
    """The fields that identify a record in each file: as few as possible, those that are called like a key first."""
    able = sorted((column for column in columns if not column.empty and column.type not in ("double", "boolean")), key=_key_rank)
    for count in range(1, _KEY_COLUMNS + 1):
        for chosen in combinations(able, count):
            if all(_is_unique(sample, [column.column for column in chosen]) for sample in samples):
                names = [column.name for column in chosen]
                few = sum(len(sample.records) for sample in samples)
                doubt = f"the key {', '.join(names)} is unique in {few:,} sample records; check that it always is"
                return names, doubt
    return [], "no columns identify a record: a record is known by a hash of all of its values (synthetic_key)"


def _key_rank(column: InferredColumn) -> tuple[int, int]:
    words = column.name.split("_")
    named = next((rank for rank, word in enumerate(_KEY_WORDS) if word in words), len(_KEY_WORDS))
    is_measure = column.type.startswith("decimal") or column.type in ("date", "timestamp")
    return is_measure, named


def _is_unique(sample: Sample, columns: Sequence[str]) -> bool:
    keys = [tuple(f"{record.get(column)}" for column in columns) for record in sample.records]
    return len(set(keys)) == len(keys)


def _clocks(columns: Sequence[InferredColumn]) -> tuple[InferredColumn | None, InferredColumn | None, list[str]]:
    """The columns of event and arrival time, and doubts about them."""
    times = [column for column in columns if column.type in ("date", "timestamp")]
    arrivals = [column for column in times if _rank(column, _ARRIVAL_WORDS) < len(_ARRIVAL_WORDS)]
    events = [column for column in times if column not in arrivals] or arrivals
    events = sorted(events, key=lambda column: (column.empty > 0, _rank(column, _EVENT_WORDS)))
    if not events:
        return None, None, ["no column is a date or a time: name the column of the event time under clocks.event"]
    event = events[0]
    arrival = next(
        (column for column in arrivals if column is not event and column.type == "timestamp" and not column.empty), None
    )
    doubts = []
    if len(events) > 1:
        others = ", ".join(column.column for column in events[1:])
        doubts.append(f"event time is taken from {event.column}; {others} could be it, too")
    if arrival is None:
        doubts.append("no column has the time of arrival: the time of ingestion counts")
    return event, arrival, doubts


def _rank(column: InferredColumn, words: Sequence[str]) -> int:
    parts = column.name.split("_")
    return next((rank for rank, word in enumerate(words) if word in parts), len(words))


def _day_of(value: Any) -> date:
    if type_conversion.is_date_only(value):
        return type_conversion.to_date(value)
    return type_conversion.to_timestamp(value, _UTC).astimezone(timezone.utc).date()


def _is_naive(value: Any) -> bool:
    """Whether a time needs a zone; a date does not."""
    if type_conversion.is_date_only(value):
        return False
    try:
        type_conversion.to_timestamp(value)
    except ValueError:
        return True
    return False
