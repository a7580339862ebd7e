"""Parses a record into a Bronze row: typed fields, clocks, key, and the change that the record makes to a key.

A record that cannot be parsed becomes a row as well, with its raw text and the reason (rule R1). Reading records from a file
belongs in ``file_formats``, extracting a row from the envelope of a change feed in ``envelopes``, converting a single value in
``type_conversion``.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse.bronze.envelopes import UNFOLD, encoded, order_text
from lakehouse.bronze.type_conversion import (
    converter,
    is_date_only,
    is_null_number,
    key_text,
    null_numbers,
    to_boolean,
    to_date,
    to_integer,
    to_key_text,
    to_text,
)
from lakehouse.calendar.days import business_day_of, start_of_day
from lakehouse.contracts import inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from lakehouse.bronze.envelopes import Change, Parts
    from lakehouse.bronze.file_formats import Record
    from lakehouse.contracts.record_changes import OrderColumn
    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import SyntheticKey
    from lakehouse.ledger.ids import DeliveredFile

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_MICROSECOND = timedelta(microseconds=1)
_NUMBERS = (int, float, Decimal)
#: The order of an insert whose sender leaves ``clocks.arrival`` empty: it comes before each record with such a time, which has 0.
NEVER_CHANGED = -1


class Malformed(ValueError):  # noqa: N818 (the term of rule R4)
    """The reason why a record cannot become a typed row."""


class RowParser:
    """Turns the records of one delivery into bronze rows (dicts by column name).

    :param may_be_empty: required fields that may be empty all the same, as the redacted ones of a correction by hand. In its
        record any may be empty, because they were checked when it was proposed.
    """

    def __init__(self, contract: SourceContract, delivery: DeliveredFile, may_be_empty: Collection[str] = ()) -> None:
        self._contract = contract
        self._delivery = delivery
        self._zone = ZoneInfo(contract.clocks.timezone)
        self._latest_arrival = delivery.latest_arrival_time(contract.clocks.max_ahead, self._zone)
        naive = (self._zone if contract.clocks.naive_times == "in_timezone" else None, contract.clocks.repeated_hour or "reject")
        self._moment = converter("timestamp", *naive)
        self._nulls = contract.source.nulls
        self._null_numbers = null_numbers(self._nulls)
        self._texts = contract.text_columns
        texts = {spec.name for spec in contract.model.fields if spec.type == "string"}.intersection(contract.primary_key)
        self._fields = [
            (spec, to_key_text if spec.name in texts else converter(spec.type, *naive)) for spec in contract.model.fields
        ]
        self._required = {spec.name for spec in contract.model.fields if spec.required} - set(may_be_empty)
        self._explained = [(spec, self._as_in_envelope(convert, spec.type)) for spec, convert in self._fields]
        self._marker: tuple[str, Callable[[Any], Any], str] | None = None
        if contract.marker is not None and contract.marker_field is not None:
            spec = contract.marker_field
            self._marker = (spec.in_file, converter(spec.type, *naive), contract.marker.value)
        self._event_is_day = contract.event_is_day
        self._days = contract.day_columns
        self._joined = contract.source.joined
        self._written = {column: inputs.reader(form) for column, form in contract.source.formats.items()}
        self._unfold = UNFOLD[contract.source.envelope] if contract.source.envelope else None
        self._columns = frozenset(contract.columns_read)
        changes = contract.changes
        self._ops = {word.lower(): "insert" for word in changes.insert_words}
        self._ops |= {word.lower(): "correct" for word in changes.correct_words}
        # In a dimension, a delete word ends the key's validity and is itself a change; a retract word removes an earlier change.
        self._ops |= {word.lower(): "end" if contract.is_dimension else "delete" for word in changes.delete_words}
        if contract.is_dimension:
            self._ops |= {word.lower(): "delete" for word in changes.retract_words}
        self._constant = {
            "arrival_date": delivery.arrival_date,
            "source_system": contract.source.system or contract.dataset,
            "source_file": delivery.path,
            "ingestion_id": delivery.ingestion_id,
        }

    def rows(self, records: Iterator[Record]) -> Iterator[dict[str, Any]]:
        """One row per record."""
        for record in records:
            yield self.row(record)

    def row(self, record: Record) -> dict[str, Any]:
        """The row of a record; a malformed record gives its raw text and the reason, and of its values only key and event day."""
        row = {**self._constant, "line_number": record.line_number, "raw_payload": record.raw}
        if record.values is None:
            return row | {"malformed_reason": record.problem}
        try:
            return row | self._typed(record.values, record.received_at or self._delivery.received_at)
        except Malformed as problem:
            return row | {"malformed_reason": str(problem)} | self._still_known(record)

    def _still_known(self, record: Record) -> dict[str, Any]:
        """The keys, the event day and the source's own order of a malformed record, each if it can be read: they show which
        numbers may lack the record, and which records come after it.
        """
        known: dict[str, Any] = {}
        begins: datetime | None = None
        received_at = record.received_at or self._delivery.received_at
        with suppress(ValueError):  # an envelope that cannot be opened gives no values
            unfolded = self._unfold(record.values or {}, self._columns) if self._unfold else None
            present = self._present(unfolded.row if unfolded else record.values or {}, whole=False)
            known |= self._own_order(present, unfolded)
            with suppress(Malformed):
                corrects = present.get(self._contract.changes.corrects_event_id or "")
                if corrects is not None:
                    known["corrects_key"] = self._corrected_key(corrects)
                elif unfolded and unfolded.former:
                    known["corrects_key"] = self._key_of(self._present(unfolded.former, whole=False))
            without_arrival = {name: value for name, value in present.items() if name != self._contract.clocks.arrival}
            for clocks in (present, without_arrival):
                with suppress(Malformed):
                    read = self._clocks(clocks, received_at, needed=True)
                    known["event_date"], begins = read["event_date"], read["event_ts"]
                    break
            of_key = self._key_values(present) if self._contract.primary_key else None
            if of_key is not None and not self._contract.is_dimension:
                known["record_key"] = record_key(of_key)
            elif of_key is not None and begins is not None:
                known["record_key"] = change_key(of_key, begins)
        return known

    def _own_order(self, present: dict[str, Any], change: Change | None) -> dict[str, Any]:
        """The columns of Bronze with the order that the source itself gives a record, as far as they can be read."""
        known: dict[str, Any] = {}
        if self._contract.by_sequence:
            with suppress(Malformed):
                parts = change.order if change else [self._order_part(item, present) for item in self._contract.order.sequence]
                known["source_sequence"], known["source_order"] = encoded(parts)
        column = self._contract.clocks.arrival
        if column in present:
            with suppress(Malformed):
                arrival_ts = self._moment_or_start(column, present[column])
                self._check_clock(column, present[column], arrival_ts)
                if MINYEAR < arrival_ts.year < MAXYEAR:
                    known |= {"arrival_ts": arrival_ts} | ({} if self._contract.by_sequence else {"source_sequence": 0})
        return known

    def _typed(self, values: dict[str, Any], received_at: datetime) -> dict[str, Any]:
        unfolded = _converted(None, self._unfold, values, self._columns) if self._unfold else None
        written = values if unfolded is None else unfolded.row
        if self._marker is not None and self._is_marker(readable := self._present(written, whole=False), *self._marker):
            return self._of_marker(readable, received_at)
        present = self._present(written)
        change = self._change(present) if unfolded is None else self._change_in_envelope(present, unfolded)
        whole = change["change_op"] != "delete" and not change.get("key_ends")
        is_partial = self._contract.has_partial_corrections and change["is_correction"]
        fields = self._typed_fields(present, whole=whole and not is_partial)
        if self._contract.is_dimension:
            clocks = self._clocks_of_change(present, received_at, whole=whole)
            key = change_key([fields[name] for name in self._contract.primary_key], clocks["event_ts"])
            return {**fields, **clocks, **change, "record_key": key}
        clocks = self._clocks(present, received_at, needed=whole)
        recipe = self._contract.synthetic_key
        key = (
            synthetic_key(recipe, fields, clocks) if recipe else record_key([fields[name] for name in self._contract.primary_key])
        )
        if change["corrects_key"] == key:
            change["corrects_key"] = None if unfolded else key
        return {**fields, **clocks, **change, "record_key": key}

    @staticmethod
    def _is_marker(present: Mapping[str, Any], column: str, convert: Callable[[Any], Any], marker: str) -> bool:
        with suppress(Malformed):
            value = present.get(column)
            return value is not None and key_text(_converted(column, convert, value)) == marker
        return False

    def _of_marker(self, present: dict[str, Any], received_at: datetime) -> dict[str, Any]:
        """The row of a marker record, which needs an event time and nothing else; values that cannot be read are left out."""
        clocks = self._clocks(present, received_at, needed=True)
        fields: dict[str, Any] = {}
        for spec, convert in self._fields:
            fields[spec.name] = self._constant.get(spec.name)
            with suppress(Malformed):
                if spec.in_file in present:
                    fields[spec.name] = _converted(spec.in_file, convert, present[spec.in_file])
        # A key of its own for each time: a shared one would make every day with a marker depend on all others.
        key = record_key(["marker", clocks["event_ts"] or clocks["event_date"]])
        return {**fields, **clocks, **self._described({}, "insert", None, []), "record_key": key}

    def _present(self, values: Mapping[str, Any], *, whole: bool = True) -> dict[str, Any]:
        """The values of a record, in the form in which all other methods read them.

        :param whole: whether a value that is not written in its format is an error; otherwise it is left out.
        """
        present = self._with_value(values)
        for name, parts in self._joined.items():
            present.pop(name, None)
            if all(part in present for part in parts):
                present[name] = " ".join(to_text(present[part]) for part in parts)
        for column, read in self._written.items():
            if column in present:
                try:
                    present[column] = read(present[column])
                except inputs.NotWrittenSoError as problem:
                    if whole:
                        msg = f"{column}: {problem}"
                        raise Malformed(msg) from None
                    del present[column]
        return present

    def _with_value(self, values: Mapping[str, Any]) -> dict[str, Any]:
        nulls, numbers, texts = self._nulls, self._null_numbers, self._texts
        return {
            column: value
            for column, value in values.items()
            if value is not None
            and not (
                value in nulls or (column not in texts and value.strip() in nulls)
                if isinstance(value, str)
                else isinstance(value, _NUMBERS) and is_null_number(value, nulls, numbers)
            )
        }

    def _typed_fields(self, present: dict[str, Any], *, whole: bool) -> dict[str, Any]:
        """:param whole: whether every required field must have a value; a delete and a partial correction need only their key."""
        typed: dict[str, Any] = {}
        for spec, convert in self._explained:
            value = present.get(spec.in_file)
            if value is None:
                is_checked = self._delivery.is_by_hand and self._delivery.CORRECTION in present
                if spec.name in self._contract.primary_key or (spec.name in self._required and whole and not is_checked):
                    msg = f"{spec.in_file}: required and empty"
                    raise Malformed(msg)
                typed[spec.name] = self._constant.get(spec.name)  # the default of a field source_system
                continue
            typed[spec.name] = _converted(spec.in_file, convert, value)
        return typed

    def _as_in_envelope(self, convert: Callable[[Any], Any], kind: str) -> Callable[[Any], Any]:
        """``convert``, whose message about bytes in place of a decimal says how the connector writes decimals."""
        if self._contract.source.envelope != "debezium" or not kind.startswith("decimal"):
            return convert

        def explained(value: Any) -> Any:
            try:
                return convert(value)
            except ValueError as error:
                if not isinstance(value, str) or not _BASE64.fullmatch(value):
                    raise
                msg = f"{error}; if these are the bytes of a decimal, set decimal.handling.mode to string, or send the schema"
                raise ValueError(msg) from None

        return explained

    def _clocks(self, present: dict[str, Any], received_at: datetime, *, needed: bool) -> dict[str, Any]:
        clocks = self._contract.clocks
        arrival = present.get(clocks.arrival) if clocks.arrival else None
        arrival_ts = received_at if arrival is None else self._moment_or_start(clocks.arrival, arrival)
        if not MINYEAR < arrival_ts.year < MAXYEAR:  # in some zones it would lie outside the calendar
            msg = f"{clocks.arrival}: {arrival_ts:%Y-%m-%d %H:%M}Z is out of range"
            raise Malformed(msg)
        if arrival is not None:
            self._check_clock(clocks.arrival, arrival, arrival_ts)
        column = self._contract.event_column
        event = present.get(column) if column else None
        if event is None:
            if needed:
                msg = f"{column}: required and empty"
                raise Malformed(msg)
            return {"arrival_ts": arrival_ts, "event_ts": None, "event_date": None}
        event_ts, event_date, begins = self._event(column, event)
        if begins - arrival_ts > clocks.max_ahead:
            msg = f"{column}: {event} lies more than {clocks.max_ahead} after the arrival at {arrival_ts:%Y-%m-%d %H:%M}Z"
            raise Malformed(msg)
        if event_date < self._contract.first_event_day:
            msg = f"{column}: {event_date} lies before the first event day, {self._contract.first_event_day}"
            raise Malformed(msg)
        if self._contract.is_dimension:  # a change of a day begins with it
            event_ts = begins.astimezone(timezone.utc)
        return {"arrival_ts": arrival_ts, "event_ts": event_ts, "event_date": event_date}

    def _clocks_of_change(self, present: dict[str, Any], received_at: datetime, *, whole: bool) -> dict[str, Any]:
        """The clocks of a dimension's change, and its own end if it has one.

        :param whole: whether it has content; other changes have no end of their own.
        """
        clocks, column = self._clocks(present, received_at, needed=True), self._contract.dimension.valid_to
        value = present.get(column) if column and whole else None
        if value is None:
            return clocks | {"ends_at": None}
        ends_at = self._end_of_change(column, value)
        if ends_at is None:
            return clocks | {"ends_at": None}
        if ends_at <= clocks["event_ts"]:
            msg = f"{column}: {value} does not lie after the change begins, at {clocks['event_ts']:%Y-%m-%d %H:%M:%S}Z"
            raise Malformed(msg)
        return clocks | {"ends_at": ends_at}

    def _end_of_change(self, column: str | None, value: Any) -> datetime | None:
        """A time, or the start of a day; of the next day if it belongs to the change: after the last of the calendar, None."""
        if self._contract.dimension.valid_to_is_last_day and (column in self._days or is_date_only(value)):
            last = _converted(column, to_date, value)
            value = None if last == date.max else last + timedelta(days=1)
        return None if value is None else self._moment_or_start(column, value)

    def _moment_or_start(self, column: str | None, value: Any) -> datetime:
        """A time; for a day, its start in the contract's zone."""
        if column not in self._days and not is_date_only(value):
            return _converted(column, self._moment, value)  # type: ignore[no-any-return]
        day = _converted(column, to_date, value)
        try:
            return start_of_day(day, self._zone).astimezone(timezone.utc)
        except OverflowError:
            msg = f"{column}: {value} is out of range"
            raise Malformed(msg) from None

    def _event(self, column: str | None, value: Any) -> tuple[datetime | None, date, datetime]:
        """Event time (None if the value is only a day), event day, and the earliest possible time of the event."""
        if self._event_is_day or is_date_only(value):
            event_date = _converted(column, to_date, value)
            return None, event_date, start_of_day(event_date, self._zone)
        event_ts = _converted(column, self._moment, value)
        try:
            return event_ts, business_day_of(event_ts, self._zone), event_ts
        except OverflowError:
            msg = f"{column}: {value} is out of range"
            raise Malformed(msg) from None

    def _change(self, present: dict[str, Any]) -> dict[str, Any]:
        changes = self._contract.changes
        flag = present.get(changes.is_correction) if changes.is_correction else None
        is_correction = False if flag is None else _converted(changes.is_correction, to_boolean, flag)
        corrects = present.get(changes.corrects_event_id) if changes.corrects_event_id else None
        value = present.get(changes.op) if changes.op else None
        word = None if value is None else _converted(changes.op, to_text, value).strip().lower()
        if word is None:
            op = "correct" if is_correction else "insert"
        elif word in self._ops:
            op = self._ops[word]
        else:
            msg = f"{changes.op}: {word[:60]!r} is none of {', '.join(sorted(self._ops))}"
            raise Malformed(msg)
        order = [self._order_part(item, present) for item in self._contract.order.sequence]
        corrects_key = None if corrects is None else self._corrected_key(corrects)
        ended = op == "end"
        if ended:
            op = "correct" if is_correction else "insert"
        described = self._described(present, op, corrects_key, order) | {"is_correction": is_correction or op == "correct"}
        arrival = self._contract.clocks.arrival
        is_plain_insert = op == "insert" and not (is_correction or ended or corrects)
        if arrival and arrival not in present and is_plain_insert and not order:
            described["source_sequence"] = NEVER_CHANGED
        return described | ({"key_ends": ended} if self._contract.is_dimension else {})

    def _order_part(self, item: OrderColumn, present: dict[str, Any]) -> int | str:
        value = present.get(item.column)
        if value is None or value == "":
            msg = f"{item.column}: required and empty (the contract orders by it)"
            raise Malformed(msg)
        if item.type == "integer":
            return _converted(item.column, to_integer, value)  # type: ignore[no-any-return]
        if item.type == "text":
            return _converted(item.column, order_text, _converted(item.column, to_text, value))  # type: ignore[no-any-return]
        moment = self._moment_or_start(item.column, value)
        self._check_clock(item.column, value, moment)
        return (moment - _EPOCH) // _MICROSECOND

    def _check_clock(self, column: str | None, value: Any, moment: datetime) -> None:
        """Refuse a time of the sender's clock that its delivery cannot carry."""
        if moment > self._latest_arrival:
            ahead = self._contract.clocks.max_ahead
            msg = f"{column}: {value} lies more than {ahead} after the delivery: the sender's clock is ahead"
            raise Malformed(msg)

    def _change_in_envelope(self, present: dict[str, Any], change: Change) -> dict[str, Any]:
        former = None if change.former is None else self._key_of(self._present(change.former))
        if not self._contract.is_dimension:
            return self._described(present, change.op, former, change.order)
        if former is not None and former != self._key_of(present):
            msg = "before: has another key than after; of a dimension, a change of the key is a delete and an insert"
            raise Malformed(msg)
        ended = change.op == "delete"  # the key ends with a change that lives
        op = "insert" if ended else change.op
        return self._described(present, op, None, change.order) | {"key_ends": ended}

    def _key_of(self, present: dict[str, Any]) -> str | None:
        """The key of a row whose columns may be incomplete; None if a column of its key is missing."""
        values = self._key_values(present)
        return None if values is None else record_key(values)

    def _key_values(self, present: dict[str, Any]) -> list[Any] | None:
        """The values of the primary key; None if a column of it is missing."""
        of_key = [(spec, convert) for spec, convert in self._fields if spec.name in self._contract.primary_key]
        if any(spec.in_file not in present for spec, _ in of_key):
            return None
        typed = {spec.name: _converted(spec.in_file, convert, present[spec.in_file]) for spec, convert in of_key}
        return [typed[name] for name in self._contract.primary_key]

    def _described(self, present: dict[str, Any], op: str, corrects_key: str | None, order: Parts) -> dict[str, Any]:
        """The columns of Bronze about a change."""
        changes = self._contract.changes
        source_sequence, source_order = encoded(order)
        return {
            "change_op": op,
            "is_correction": op == "correct",
            "corrects_key": corrects_key,
            "source_sequence": source_sequence,
            "source_order": source_order,
            "corrected_by": self._text(present, changes.corrected_by),
            "correction_reason": self._text(present, changes.correction_reason),
            "corrected_field": self._text(present, changes.corrected_field),
        }

    def _text(self, present: dict[str, Any], column: str | None) -> str | None:
        return None if column is None or column not in present else _converted(column, to_text, present[column])

    def _corrected_key(self, value: Any) -> str:
        key = self._contract.primary_key[0]
        convert = next(convert for spec, convert in self._fields if spec.name == key)
        return record_key([_converted(self._contract.changes.corrects_event_id, convert, value)])


def record_key(values: list[Any]) -> str:
    """The key of a record as text: the value itself, or a JSON list if the key has several columns."""
    if len(values) == 1:
        return key_text(values[0])
    return json.dumps([key_text(value) for value in values], ensure_ascii=False, separators=(",", ":"))


def change_key(values: list[Any], moment: datetime) -> str:
    """The key of a dimension's change as text: its primary key and its event time as a JSON list."""
    return record_key([*values, f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"])


def synthetic_key(recipe: SyntheticKey, fields: dict[str, Any], clocks: dict[str, Any]) -> str:
    """The key of a record without one: 128 bits of a hash of the recipe's fields and, if the recipe has one, of the window.

    :raises Malformed: when the recipe has a window and the record has no event time.
    """
    parts = [None if fields[name] is None else key_text(fields[name]) for name in recipe.fields]
    if recipe.window is not None:
        day = clocks["event_date"]
        if day is None:
            msg = "the synthetic key has a window of event time, and the record has none"
            raise Malformed(msg)
        moment = clocks["event_ts"] or datetime.combine(day, time.min, timezone.utc)
        parts.append(str((moment - _EPOCH) // recipe.window))
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _converted(column: str | None, convert: Any, *arguments: Any) -> Any:
    """The result of ``convert(*arguments)``.

    :param column: its name begins the reason; None if the reason already contains a name.
    :raises Malformed: when the value cannot be converted.
    """
    try:
        return convert(*arguments)
    except ValueError as error:
        msg = f"{error}" if column is None else f"{column}: {error}"
        raise Malformed(msg) from None
