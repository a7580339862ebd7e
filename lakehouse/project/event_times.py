"""Infers the columns of event time and arrival time from column names. Plain Python.

Months, years, and days split over several columns belong to ``periods``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse.bronze import type_conversion
from lakehouse.contracts.inputs import Source
from lakehouse.project.questions import InferenceError, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakehouse.project.questions import InferredColumn, Sample

_UTC = ZoneInfo("UTC")
#: From so many event days on, a first run is long: it takes about so many seconds for each (``docs/scale.md``).
_MANY_DAYS, _SECONDS_OF_A_DAY = 5_000, 0.02
_ANY_TIME = (
    *("timestamp", "datetime", "time", "date", "day", "at", "ts", "when"),
    *("datum", "zeit", "tag", "fecha", "hora", "dia", "jour", "heure", "giorno"),
)
#: Words in the names of event-time columns, by rank: the event's own time, its record's, any time, and later times.
_EVENT_WORDS = (
    (
        *("event", "occurred", "happened", "service", "transaction", "trade", "traded", "sold", "ordered", "order", "purchased"),
        *("purchase", "sale", "measured", "observed", "observation", "read", "reading", "sampled", "visit", "usage"),
    ),
    ("created", "create", "booked", "placed", "issued", "invoice", "registered", "started", "start"),
    _ANY_TIME,
    ("paid", "payment", "posted", "reported", "report", "shipped", "delivered", "closed", "settled", "settlement", "value"),
)
_ARRIVAL_WORDS = (
    *("received", "arrival", "arrived", "ingested", "loaded", "exported", "sent", "updated", "modified", "changed", "update"),
    *("extracted", "downloaded", "crawled"),
)
_UPDATE_WORDS = ("updated", "modified", "changed", "update")
#: A number of a column that is called so may be a time: "ordered" is, and the value or the number of an "order" is not.
_MOMENT_WORDS = {
    *_ANY_TIME,
    *("sold", "paid", "sent", "start"),
    *(word for words in (*_EVENT_WORDS, _ARRIVAL_WORDS) for word in words if word.endswith("ed")),
}
#: Words that end like a day: ERDAT, Bestelldatum.
_GLUED_TIME = re.compile(r"[a-z]{2,}(?:dat|datum|date)")
#: Words for a state that the next event changes: a time of the thing, not of a record.
_STATE_WORDS = ("last", "latest", "recent", "previous")
_NEVER_WORDS = (
    *("due", "valid", "until", "expiry", "expires", "expiration", "expire", "maturity", "deadline", "end", "ends", "next"),
    *("birth", "birthday", "dob", "planned", "expected", "estimated", "scheduled", "to", "deleted", "cancelled", "warranty"),
)
#: From this rank on, a column is a doubtful event time.
_DOUBTFUL, _NEVER = len(_EVENT_WORDS) + 1, len(_EVENT_WORDS) + 2
#: The contract's first event day lies this many years before the sample's, and not after the product's default first day.
_YEARS_BEFORE = 2
#: The wait of a watermark where samples do not show it, the greatest wait, and the share of rows to wait for, in percent.
_DAYS_TO_WAIT, _MOST_DAYS, _CAUGHT = 3, 30, 99
#: In this many records, two columns with the same times are the same column, not an accident.
_ENOUGH = 20
NO_ARRIVAL = "no column has the time of arrival: the time of ingestion counts"
_TIMELESS = (
    "no column is a date or a time{which}: name the column of the event time under clocks.event, and how it is written under "
    "source.formats; if the file has none, add its day as a column: sed '1s/$/,day/; 2,$s/$/,2024-11-05/' FILE > NEW"
)


#: Zones that are proposed for times with an offset, the most populous of an offset first.
_ZONES = (
    *("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Shanghai", "America/Chicago", "America/Los_Angeles"),
    *("Europe/London", "Europe/Moscow", "America/Sao_Paulo", "Asia/Tokyo", "Asia/Bangkok", "Europe/Athens", "Asia/Karachi"),
    *("Europe/Istanbul", "Africa/Lagos", "Africa/Cairo", "Africa/Johannesburg", "Africa/Nairobi", "Asia/Dubai", "Asia/Dhaka"),
    *("America/Denver", "America/Mexico_City", "America/Bogota", "America/Halifax", "America/Phoenix", "America/Anchorage"),
    *("Pacific/Honolulu", "Australia/Sydney", "Australia/Brisbane", "Australia/Adelaide", "Australia/Perth", "Pacific/Auckland"),
    *("America/St_Johns", "Asia/Tehran", "Asia/Kathmandu"),
)
_OFFSET = re.compile(r"[T ]\d{2}:\d{2}\S*?\s?(?:Z|z|UTC|([+-])(\d{2}):?(\d{2})?)")
#: So many zones are proposed, and in so many days times are midnights by rule, not by accident.
_PROPOSED, _DAYS_OF_MIDNIGHTS = 4, 3


@dataclass(frozen=True)
class DayZone:
    """The zone whose midnight ends an event day; empty for UTC, unless somebody chooses it."""

    name: str = ""
    doubts: Sequence[str] = ()
    question: Question | None = None


def day_zone(column: InferredColumn | None, times: Sequence[Any], answers: Mapping[str, str]) -> DayZone:
    """The zone of event times with an offset, or of midnights.

    :param times: the values of ``column``.
    :param answers: a person's answers; ``clocks.timezone`` is one subject.
    """
    answer = answers.get("clocks.timezone")
    if answer is not None:
        try:
            ZoneInfo(answer)
        except (KeyError, ValueError, OSError):
            msg = f"clocks.timezone={answer}: there is no such zone; write a name such as Europe/Berlin"
            raise InferenceError(msg) from None
        return DayZone(answer)
    if column is None or column.type != "timestamp" or any(map(is_naive, times)):
        return DayZone()
    offsets = [_offset_of(value) for value in times]
    instants = [type_conversion.to_timestamp(value) for value in times]
    if not any(offsets):
        return _of_midnights(column, times, instants)
    zones = [name for name in _ZONES if all(map(_has_offset(name), instants, offsets))]
    hours, rest = divmod(offsets[0], timedelta(hours=1))
    fixed = [f"Etc/GMT{-hours:+d}"] if len({*offsets}) == 1 and not rest else []
    if not zones and not fixed:
        written = ", ".join(sorted({f"{value}"[-6:] for value in times})[:3])
        text = f"times of {column.column} have several offsets ({written}): days are those of UTC (clocks.timezone)"
        return DayZone(doubts=[text])
    question = _which_zone(f"times of {column.column} have an offset, as in {times[0]}", zones, fixed)
    return DayZone(question.default, question=question)


def _of_midnights(column: InferredColumn, times: Sequence[Any], instants: Sequence[datetime]) -> DayZone:
    """The zone of times in UTC that are all midnights of another zone, as programs write the days of that zone."""
    if len({instant.date() for instant in instants}) < _DAYS_OF_MIDNIGHTS or any(i.minute % 15 or i.second for i in instants):
        return DayZone()
    if all(_is_midnight(instant) for instant in instants):
        if column.form or len({f"{value}"[10:] for value in times}) > 1:
            return DayZone()
        lines = f"source: {{formats: {{{column.column}: '%Y-%m-%d{f'{times[0]}'[10:]}'}}}}"
        return DayZone(doubts=[f"times of {column.column} are midnights of UTC only: these lines read them as days: {lines}"])
    zones = [name for name in _ZONES if all(_is_midnight(instant.astimezone(ZoneInfo(name))) for instant in instants)]
    if not zones:
        return DayZone()
    text = f"times of {column.column} are all midnights of another zone than UTC, as in {instants[0]:%Y-%m-%dT%H:%MZ}"
    question = _which_zone(text, zones, [])
    return DayZone(question.default, question=question)


def _which_zone(text: str, zones: Sequence[str], fixed: Sequence[str]) -> Question:
    options = {name: f"days begin at midnight of {name}" for name in (*zones[:_PROPOSED], *fixed)}
    options["UTC"] = "days begin at midnight of UTC; another zone may be named, too"
    return Question("clocks.timezone", f"When does a day begin? The {text}.", options)


def _offset_of(value: Any) -> timedelta:
    """The offset from UTC with which a time is written."""
    match = _OFFSET.search(f"{value}")
    if match is None or match[1] is None:
        return timedelta()
    offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    return -offset if match[1] == "-" else offset


def _has_offset(name: str) -> Callable[[datetime, timedelta], bool]:
    zone = ZoneInfo(name)
    return lambda instant, offset: instant.astimezone(zone).utcoffset() == offset


def _is_midnight(moment: datetime) -> bool:
    return moment.time() == time.min


@dataclass(frozen=True)
class InferredClocks:
    """The columns of event and arrival time, doubts about them, and the question if two columns fit equally well."""

    event: InferredColumn | None
    arrival: InferredColumn | None
    doubts: Sequence[str]
    question: Question | None = None


def is_called_a_time(column: InferredColumn) -> bool:
    """Whether numbers of a column may be times, by its name."""
    return not _MOMENT_WORDS.isdisjoint(column.words) or any(_GLUED_TIME.fullmatch(word) for word in column.words)


def is_time(column: InferredColumn) -> bool:
    """Whether a column has dates or times."""
    return column.type in ("date", "timestamp")


def clocks_of(samples: Sequence[Sample], columns: Sequence[InferredColumn], answers: Mapping[str, str]) -> InferredClocks:
    """The clocks of a source.

    :param answers: a person's answers, by the subject of the question; ``clocks.event`` is one subject.
    """
    times = [column for column in columns if is_time(column)]
    arrivals = [column for column in times if any(word in column.words for word in _ARRIVAL_WORDS)]
    events = sorted(times, key=_event_rank)
    if not events:
        unread = [column.column for column in columns if column.type == "string" and is_called_a_time(column)]
        which = f" ({', '.join(unread)} may be it, but is not read)" if unread else ""
        return InferredClocks(None, None, [_TIMELESS.format(which=which)])
    received = [column for column in arrivals if not any(word in column.words for word in _UPDATE_WORDS)]
    answer = answers.get("clocks.event")
    if answer is not None and all(column.column != answer for column in events):
        msg = (
            f"clocks.event={answer}: no such column is a date or a time; they are {', '.join(column.column for column in events)}"
        )
        raise InferenceError(msg)
    chosen = next((column for column in events if column.column == answer), None)
    event = chosen or events[0]
    best = _event_rank(event)
    rivals = [
        column
        for column in events
        if column is not event and _event_rank(column)[:2] == best[:2] and _differ(samples, event, column)
    ]
    question = None
    if chosen is None and (rivals or best[1] >= _DOUBTFUL):
        options = {column.column: f"a number belongs to the day of {column.column}" for column in events}
        question = Question("clocks.event", "Which column says when the event happened?", options)
    arrival = next(
        (column for column in arrivals if column is not event and column.type == "timestamp" and not column.empty), None
    )
    doubts = []
    if len(events) > 1:
        others = ", ".join(column.column for column in events if column is not event and column not in received)
        doubts += [f"event time is taken from {event.column}; {others} could be it, too"] if others else []
    if arrival is None:
        doubts.append(NO_ARRIVAL)
    return InferredClocks(event, arrival, doubts, question)


def _event_rank(column: InferredColumn) -> tuple[bool, int, int]:
    """Sort key for event-time columns: the thing's own time first; a day on which something ends or is due last."""
    words = column.words
    if any(word in words for word in _NEVER_WORDS):
        return column.empty > 0, _NEVER, 0
    if any(word in words for word in (*_ARRIVAL_WORDS, *_STATE_WORDS)):
        return column.empty > 0, _DOUBTFUL, 0
    for kind, of_kind in enumerate(_EVENT_WORDS):
        for rank, word in enumerate(of_kind):
            if word in words:
                return column.empty > 0, kind, rank
    return column.empty > 0, len(_EVENT_WORDS), 0


def _differ(samples: Sequence[Sample], column: InferredColumn, other: InferredColumn) -> bool:
    """Whether two time columns differ, or may differ, in a record: a date is compared with the day of a time."""
    if sum(len(sample.records) for sample in samples) < _ENOUGH:
        return True
    by_day = "date" in (column.type, other.type)
    for sample in samples:
        for record in sample.records:
            values = [record.get(column.column), record.get(other.column)]
            if None in values:
                return values != [None, None]
            if len({day_of(value) if by_day else type_conversion.to_timestamp(value, _UTC) for value in values}) > 1:
                return True
    return False


def day_of(value: Any) -> date:
    """The day of a date or a time, in UTC."""
    if type_conversion.is_date_only(value):
        return type_conversion.to_date(value)
    return type_conversion.to_timestamp(value, _UTC).astimezone(timezone.utc).date()


def days_to_wait(samples: Sequence[Sample], event: str, arrival: str | None) -> tuple[int, str]:
    """The number of days after an event within which its record is expected, and a sentence with the source of the number.

    :param event: the column of the event time. ``arrival`` is the column of the arrival time.
    """
    records = [record for sample in samples for record in sample.records]
    both = [(record.get(event), record.get(arrival)) for record in records] if arrival else []
    lags = sorted(max((day_of(arrived) - day_of(happened)).days, 0) for happened, arrived in both if happened and arrived)
    if not lags:
        return _DAYS_TO_WAIT, (
            f"a day is not final until something of {_DAYS_TO_WAIT} days later has arrived (clocks.watermark): the samples do "
            "not show how late rows come"
        )
    days = min(max(lags[-(-len(lags) * _CAUGHT // 100) - 1] + 1, 1), _MOST_DAYS)
    within = sum(lag < days for lag in lags)
    return days, (
        f"a day is not final until something of {days} days later has arrived (clocks.watermark): {within:,} of {len(lags):,} "
        "rows in the samples came within this time"
    )


def naive_columns(samples: Sequence[Sample], columns: Sequence[InferredColumn]) -> list[str]:
    """The columns that have times without a zone."""
    return [
        column.column
        for column in columns
        if column.type == "timestamp"
        and any(is_naive(record[column.column]) for of in samples for record in of.records if record.get(column.column))
    ]


def is_naive(value: Any) -> bool:
    """Whether a value is a time without a zone; a date needs none."""
    if type_conversion.is_date_only(value):
        return False
    try:
        type_conversion.to_timestamp(value)
    except ValueError:
        return True
    return False


def doubts_about_many_days(count: int) -> list[str]:
    """What many event days mean for a first run, in a sentence; none for few days.

    :param count: the event days of the samples.
    """
    if count < _MANY_DAYS:
        return []
    minutes = round(count * _SECONDS_OF_A_DAY / 60)
    text = (
        f"the samples have {count:,} event days, each with numbers, checks and a history of its own: the first run takes about "
        f"{minutes:,} minutes for that many; it may be stopped and run again"
    )
    return [text]


def first_day(first: date | None) -> date | None:
    """The first event day of the contract, never later than the default first day.

    :param first: the first day of the samples; late data may be older.
    """
    if first is None:
        return None
    return min(Source().start_date, date(max(first.year - _YEARS_BEFORE, 1), 1, 1))
