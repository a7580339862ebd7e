"""The malformed rows of a source, and the event days to which they may belong: the numbers of these days wait (R13).

A malformed row that names its event day belongs to that day. Any other may belong to each day from the earliest to the latest one
that its file names, through the file's arrival day; if its file names none, to every day through its arrival day. A row no longer
counts once a later row of the same key was read, once a later delivery replaced it under the reprocess policy, or once its file
was replaced.

Belongs here: that rule, the share that a contract tolerates, and the rows in force with the reason and the record as it was sent,
for commands, pages and the API; redactions are applied. Which periods wait, and the text about it, is in
``gold.restatement.closing``; the counts are recorded by ``ledger.ingestions``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.dispositions import readings
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.lateness.rules import exceeds
from lakehouse.ledger import ingestions, key_log, redactions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import date
    from decimal import Decimal

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId
    from lakehouse.ledger.ingestions import Ingestion

#: For a file with more malformed rows, later rows of the same keys are not looked up.
MOST_LOOKED_UP = 100_000
_COLUMNS = ("ingestion_id", "line_number", "record_key", "corrects_key", "event_date", "malformed_reason")
_ORDER = ("source_sequence", "source_order", "arrival_ts")


@dataclass(frozen=True)
class UnreadFile:
    """The rows of one delivered file that could not be read and have not been replaced since.

    :param rows_of_file: the number of all rows of the file.
    :param line_number: the line of the first malformed row at ingestion, with its ``reason``; None if an earlier release ingested
        it.
    :param days: the number of rows that name each event day; ``without_day`` counts those that name none.
    :param first_day: the earliest day to which rows without a day may belong; None for every day. ``last_day`` is the latest.
    :param days_of_keys: the number of rows by the day that they name (or None) and the days on which their key has a record.
    """

    file: str
    ingestion_id: str
    arrival_date: date
    rows_of_file: int
    line_number: int | None
    reason: str | None
    days: Mapping[date, int]
    without_day: int
    first_day: date | None
    last_day: date
    days_of_keys: Mapping[tuple[date | None, frozenset[date]], int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows that could not be read."""
        return sum(self.days.values()) + self.without_day

    @property
    def example(self) -> str | None:
        """The reason and the place of the first of these rows."""
        return None if self.reason is None else f"{self.reason} ({self.file}:{self.line_number})"

    def may_hold(self, day: date) -> bool:
        """Whether the rows without an event day may belong to ``day``."""
        return bool(self.without_day) and day <= self.last_day and (self.first_day is None or self.first_day <= day)

    @cached_property
    def days_by_key(self) -> frozenset[date]:
        """The days on which the key of a row has a record."""
        return frozenset(day for _, days in self.days_of_keys for day in days)

    def rows_of(self, days: Collection[date]) -> int:
        """The number of rows that may belong to ``days``, each counted once."""
        wanted = set(days)
        holds_unnamed = any(map(self.may_hold, wanted))
        rows = sum(self.days.get(day, 0) for day in wanted) + (self.without_day if holds_unnamed else 0)
        for (named, others), count in self.days_of_keys.items():
            is_counted = holds_unnamed if named is None else named in wanted
            if not is_counted and not wanted.isdisjoint(others):
                rows += count
        return rows

    def concerns(self, days: Collection[date]) -> bool:
        """Whether a row may belong to one of ``days``."""
        return self.rows_of(days) > 0


@dataclass(frozen=True)
class UnreadOfSource:
    """The rows of a source that could not be read.

    :param tolerated: the share of the rows of a day that its contract tolerates.
    :param received: the number of rows of each event day that were read.
    """

    tolerated: Decimal
    files: Sequence[UnreadFile]
    received: Mapping[date, int]

    def __len__(self) -> int:
        """The number of files with such rows."""
        return len(self.files)

    @cached_property
    def _named(self) -> Mapping[date, Sequence[UnreadFile]]:
        named: dict[date, list[UnreadFile]] = defaultdict(list)
        for file in self.files:
            for day in {*file.days, *file.days_by_key}:
                named[day].append(file)
        return named

    @cached_property
    def _unnamed(self) -> Sequence[UnreadFile]:
        return [file for file in self.files if file.without_day]

    def is_tolerated(self, day: date) -> bool:
        """Whether the unread rows that may belong to ``day`` are no more than the contract tolerates."""
        unread = sum(file.rows_of([day]) for file in self._of([day]))
        return not unread or not exceeds(unread, self.received.get(day, 0) + unread, self.tolerated)

    def missing_of(self, days: Collection[date] | None) -> tuple[int, str | None]:
        """The number of unread rows that may belong to those of ``days`` that miss more than is tolerated, and an example of the
        reason.

        A row that may belong to several of these days counts once.

        :param days: default: all days that a row names, and the arrival days of the files with other rows.
        """
        if days is None:
            days = {*self._named, *(file.arrival_date for file in self._unnamed)}
        return self._missing_of([day for day in sorted(set(days)) if not self.is_tolerated(day)])

    def missing_until(self, last: date) -> tuple[int, str | None]:
        """The result of :meth:`missing_of` for all days through ``last``: a change of a dimension holds from its day on."""
        named = {day for day in self._named if day <= last}
        unnamed = {file.first_day or min(file.last_day, last) for file in self._unnamed}
        return self.missing_of({*named, *(day for day in unnamed if day <= last)})

    def _missing_of(self, wanted: Sequence[date]) -> tuple[int, str | None]:
        concerned = self._of(wanted)
        rows = sum(file.rows_of(wanted) for file in concerned)
        return rows, next((file.example for file in concerned if file.example), None)

    def _of(self, wanted: Sequence[date]) -> list[UnreadFile]:
        """The files with rows that may belong to days, each once; those that name a day come first."""
        files = [file for day in wanted for file in self._named.get(day, ())]
        files += [file for file in self._unnamed if any(map(file.may_hold, wanted))]
        return list({file.ingestion_id: file for file in files}.values())


def none_of(contract: SourceContract) -> UnreadOfSource:
    """The result for a source without unread rows."""
    return UnreadOfSource(contract.quality.malformed.tolerated, (), {})


def of_source(lake: Lake, contract: SourceContract, days: Collection[date] | None = None) -> UnreadOfSource:
    """The rows of a source that cannot be read now.

    :param days: only rows that may belong to these event days; default: any. A table cache keeps the default result until a table
        changes.
    """
    if days is not None:
        return _of_source(lake, contract, days)
    tables = (locations.ingestions(lake), locations.key_log(lake, contract.dataset))
    versions = [table.version() for table in tables]
    also = (*versions, contract.reprocess_policy, contract.quality.malformed.tolerated)
    of_source = {"source": [contract.dataset]}
    return ingestions.unread_log(lake).derived("unread", lambda: _of_source(lake, contract, None), of_source, also)


def _of_source(lake: Lake, contract: SourceContract, days: Collection[date] | None) -> UnreadOfSource:
    source = contract.dataset
    entries = ingestions.all_of(lake, source)
    known = ingestions.ingested(entries)
    recorded = ingestions.newest_unread(lake, source) if known else {}
    counted = [name for name, entry in known.items() if (recorded[name].malformed if name in recorded else entry.malformed)]
    if not counted:
        return none_of(contract)
    files = [_unread_file(known[name], recorded.get(name)) for name in counted]
    if days is not None:  # keys are looked up on days through the arrival of their file
        files = [file for file in files if file.concerns(days) or (days and min(days) <= file.arrival_date)]
    files = [file for file in _not_replaced(lake, contract, entries, files) if file.rows]
    files = [file for file in files if days is None or file.concerns(days)]
    received: Counter[date] = Counter()
    if files and contract.quality.malformed.tolerated:
        for entry in known.values():
            received.update(entry.rows_by_day)
    return UnreadOfSource(contract.quality.malformed.tolerated, files, received)


def _unread_file(entry: Ingestion, recorded: ingestions.UnreadRows | None) -> UnreadFile:
    """The malformed rows of a file; for files that an earlier release ingested no event day is known."""
    days = dict(zip(recorded.days, recorded.rows)) if recorded else {}
    malformed = recorded.malformed if recorded else entry.malformed
    named = [*days, *(day for day, rows in entry.rows_by_day.items() if rows)]
    return UnreadFile(
        file=entry.source_file,
        ingestion_id=entry.ingestion_id,
        arrival_date=entry.arrival_date,
        rows_of_file=entry.rows,
        line_number=recorded.line_number if recorded else None,
        reason=recorded.reason if recorded else None,
        days=days,
        without_day=malformed - sum(days.values()),
        first_day=min(named, default=None),
        last_day=max([*named, entry.arrival_date]),
    )


def _not_replaced(
    lake: Lake, contract: SourceContract, entries: Collection[Ingestion], files: Sequence[UnreadFile]
) -> list[UnreadFile]:
    """The files without the rows that later deliveries have replaced; a file that is sent again is a later delivery."""
    policy, known = policy_of(contract), ingestions.ingested(entries)
    delivered = [entry for entry in entries if entry.status != "held" and entry.ingestion_id in known]
    in_order = sorted(delivered, key=lambda entry: (entry.arrival_date, entry.recorded_at, entry.source_file))
    place_of = {entry.ingestion_id: place for place, entry in enumerate(in_order)}
    newest_of_name = {entry.source_file: place for place, entry in enumerate(in_order)}
    left = []
    for file in files:
        place = place_of[file.ingestion_id]
        newest = newest_of_name[file.file]
        if newest > place and known[in_order[newest].ingestion_id].rows >= file.rows_of_file:
            file = replace(file, without_day=0)  # noqa: PLW2901
        if policy.chooses_deliveries:
            with_it = in_order[place].delivered_with
            later = [known[entry.ingestion_id] for entry in in_order[place + 1 :] if entry.delivered_with != with_it]
            if policy.chooses_for_table and any(entry.rows > entry.malformed for entry in later):
                continue
            sent_again = {day for entry in later for day, rows in entry.rows_by_day.items() if rows}
            file = replace(file, days={day: rows for day, rows in file.days.items() if day not in sent_again})  # noqa: PLW2901
        left.append(file)
    return left if policy.chooses_deliveries else _without_keys_read_since(lake, contract, place_of, left)


def _without_keys_read_since(
    lake: Lake, contract: SourceContract, place_of: Mapping[str, int], files: Sequence[UnreadFile]
) -> list[UnreadFile]:
    """The files without those rows whose key was read in a row that comes after them, and with the days of the other keys."""
    looked_up = {file.ingestion_id: file for file in files if 0 < file.rows <= MOST_LOOKED_UP}
    since: dict[str, Counter[date | None]] = defaultdict(Counter)
    days_of_keys: dict[str, Counter[tuple[date | None, frozenset[date]]]] = defaultdict(Counter)
    where = {"arrival_date": {file.arrival_date for file in looked_up.values()}, "ingestion_id": set(looked_up)}
    pieces = readings.pieces(lake, contract.dataset, [*_COLUMNS, *_ORDER], where) if looked_up else ()
    for piece in pieces:
        rows = piece.filter(pc.and_(pc.is_valid(piece["malformed_reason"]), pc.is_valid(piece["record_key"])))
        known = _claims(lake, contract, rows) if len(rows) else {}
        for row in rows.to_pylist():
            claims, file = known.get(row["record_key"], []), looked_up[row["ingestion_id"]]
            if any(_comes_after(contract, place_of, claim, row) for claim in claims if claim["kind"] != "retire"):
                since[row["ingestion_id"]][row["event_date"]] += 1
                continue
            records = [*claims, *known.get(row["corrects_key"], [])]
            lived = {claim["event_date"] for claim in records if claim["event_date"] and claim["event_date"] <= file.arrival_date}
            if others := lived - {row["event_date"]}:
                days_of_keys[row["ingestion_id"]][row["event_date"], frozenset(others)] += 1
    left = []
    for file in files:
        read = since[file.ingestion_id]
        days = {day: still for day, rows in file.days.items() if (still := rows - read[day]) > 0}
        without_day = max(file.without_day - read[None], 0)
        of_keys = {place: rows for place, rows in days_of_keys[file.ingestion_id].items() if place[0] is not None or without_day}
        left.append(replace(file, days=days, without_day=without_day, days_of_keys=of_keys))
    return left


def _claims(lake: Lake, contract: SourceContract, rows: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The claims about the keys of malformed rows, by key."""
    named = (rows[name].cast(pa.string()) for name in ("record_key", "corrects_key"))
    keys = pc.unique(pa.chunked_array([chunk for column in named for chunk in column.chunks], pa.string())).drop_null()
    columns = ["record_key", "kind", "event_date", "ingestion_id", "line_number", *_ORDER]
    claims = key_log.about(lake, contract.dataset, columns, keys)
    by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in [] if claims is None else claims.to_pylist():
        by_key[claim["record_key"]].append(claim)
    return by_key


def _comes_after(contract: SourceContract, place_of: Mapping[str, int], claim: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row that was read comes after a malformed one (R2), as far as the order of the malformed one can be read."""

    def place(record: Mapping[str, Any]) -> tuple[Any, ...]:
        order: list[Any] = []
        if row["source_sequence"] is not None:
            order += [record["source_sequence"], record["source_order"] or ""]
            order += [record["arrival_ts"]] if contract.clocks.arrival and row["arrival_ts"] is not None else []
        return *order, place_of[record["ingestion_id"]], record["line_number"]

    return claim["ingestion_id"] in place_of and place(claim) > place(row)


COLUMNS = (
    *("arrival_date", "source_file", "ingestion_id", "line_number", "event_date", "record_key"),
    *("malformed_reason", "raw_payload"),
)


def malformed_tables(
    lake: Lake,
    source: str,
    *,
    arrival_days: Collection[date] | None = None,
    event_days: Collection[date] | None = None,
    ids: Collection[str] | None = None,
    key: str | None = None,
) -> Iterator[pa.Table]:
    """The malformed rows in tables, by arrival day, and within each by file and line; only files with malformed rows are read.

    :param event_days: only rows that name one of these event days.
    :param ids: only rows of these ingestions.
    """
    known = ingestions.ingested(ingestions.all_of(lake, source))
    counted = ingestions.newest_unread(lake, source)
    files = [
        entry
        for name, entry in known.items()
        if (counted[name].malformed if name in counted else entry.malformed)
        and (ids is None or name in ids)
        and (arrival_days is None or entry.arrival_date in arrival_days)
    ]
    hidden = redactions.keys_by_field(lake, source) if files else {}
    for day in sorted({entry.arrival_date for entry in files}):
        where: dict[str, Collection[Any]] = {"arrival_date": [day]}
        where["ingestion_id"] = [entry.ingestion_id for entry in files if entry.arrival_date == day]
        where |= {} if event_days is None else {"event_date": event_days}
        where |= {} if key is None else {"record_key": [key]}
        rows = readings.read(lake, source, COLUMNS, where)
        if rows is not None:
            malformed = redactions.applied(rows.filter(pc.is_valid(rows["malformed_reason"])), hidden)
            yield malformed.sort_by([("source_file", "ascending"), ("line_number", "ascending")])


def few_malformed(lake: Lake, source: str, count: int, **which: Any) -> list[dict[str, Any]]:
    """The first ``count`` malformed rows, by column; see :func:`malformed_tables` for the arguments."""
    return list(
        islice((row for rows in malformed_tables(lake, source, **which) for row in rows.slice(0, count).to_pylist()), count)
    )


def raw_texts(lake: Lake, source: str, key: str) -> dict[RowId, str]:
    """The records of ``key`` that could not be read, as they were sent."""
    rows = [row for table in malformed_tables(lake, source, key=key) for row in table.to_pylist()]
    return {(row["ingestion_id"], row["line_number"]): row["raw_payload"] or "(redacted)" for row in rows}
