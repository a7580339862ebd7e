"""The rows of a source that could not be read, and the event days to which they may belong: numbers of these days wait (R13).

A malformed row that names its event day belongs to that day. Any other may belong to each day from the earliest to the latest one
that its file names, through the file's arrival day; if its file names none, to every day through its arrival day. A row no longer
counts once a later row of the same key was read, once a later delivery replaced it under the reprocess policy, or once its file
was replaced.

Belongs here: that rule, and the share that a contract tolerates. Which periods wait, and the text about it, is in
``gold.restatement.closing``; the counts are recorded by ``ledger.unread_rows``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import readings
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.lateness.rules import exceeds
from lakehouse.ledger import ingestions, key_log, unread_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date
    from decimal import Decimal

    import pyarrow as pa

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

#: For a file with more malformed rows, later rows of the same keys are not looked up.
MOST_LOOKED_UP = 100_000
_COLUMNS = ("ingestion_id", "line_number", "record_key", "event_date", "malformed_reason")
#: More lines than a file has: places of rows are compared as one number, with the delivery in the higher digits.
_LINES = 2**40


@dataclass(frozen=True)
class UnreadFile:
    """The rows of one delivered file that could not be read and have not been replaced since.

    :param rows_of_file: the number of all rows of the file.
    :param line_number: the line of the first malformed row at ingestion, with its ``reason``; None if an earlier release ingested
        it.
    :param days: the number of rows that name each event day; ``without_day`` counts those that name none.
    :param first_day: the earliest day to which rows without a day may belong; None for every day. ``last_day`` is the latest.
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

    def concerns(self, days: Collection[date]) -> bool:
        """Whether a row may belong to one of ``days``."""
        return any(day in self.days or self.may_hold(day) for day in days)


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
            for day in file.days:
                named[day].append(file)
        return named

    @cached_property
    def _unnamed(self) -> Sequence[UnreadFile]:
        return [file for file in self.files if file.without_day]

    def is_tolerated(self, day: date) -> bool:
        """Whether the unread rows that may belong to ``day`` are no more than the contract tolerates."""
        unread = sum(file.days[day] for file in self._named.get(day, ()))
        unread += sum(file.without_day for file in self._unnamed if file.may_hold(day))
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
        rows = sum(file.days[day] for day in wanted for file in self._named.get(day, ()))
        unnamed = [file for file in self._unnamed if any(file.may_hold(day) for day in wanted)]
        rows += sum(file.without_day for file in unnamed)
        concerned = [*(file for day in wanted for file in self._named.get(day, ())), *unnamed]
        return rows, next((file.example for file in concerned if file.example), None)


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
    paths = (locations.ingestions(lake), locations.key_log(lake, contract.dataset))
    versions = [table_io.version(path, lake.storage_options) for path in paths]
    also = (*versions, contract.reprocess_policy, contract.quality.malformed.tolerated)
    of_source = {"source": [contract.dataset]}
    return unread_rows.log(lake).derived("unread", lambda: _of_source(lake, contract, None), of_source, also)


def _of_source(lake: Lake, contract: SourceContract, days: Collection[date] | None) -> UnreadOfSource:
    source = contract.dataset
    entries = ingestions.all_of(lake, source)
    known = ingestions.ingested(entries)
    recorded = unread_rows.newest(lake, source) if known else {}
    counted = [name for name, entry in known.items() if (recorded[name].malformed if name in recorded else entry.malformed)]
    if not counted:
        return none_of(contract)
    files = [_unread_file(known[name], recorded.get(name)) for name in counted]
    files = [file for file in files if days is None or file.concerns(days)]
    files = [file for file in _not_replaced(lake, contract, entries, files) if file.rows]
    received: Counter[date] = Counter()
    if files and contract.quality.malformed.tolerated:
        for entry in known.values():
            received.update(entry.rows_by_day)
    return UnreadOfSource(contract.quality.malformed.tolerated, files, received)


def _unread_file(entry: Ingestion, recorded: unread_rows.UnreadRows | None) -> UnreadFile:
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
    """The files without those rows whose key was read in a later row."""
    looked_up = [file for file in files if 0 < file.rows <= MOST_LOOKED_UP]
    since: dict[str, Counter[date | None]] = defaultdict(Counter)
    where = {"arrival_date": {file.arrival_date for file in looked_up}, "ingestion_id": {file.ingestion_id for file in looked_up}}
    pieces = readings.pieces(lake, contract.dataset, _COLUMNS, where) if looked_up else ()
    for piece in pieces:
        rows = piece.filter(pc.and_(pc.is_valid(piece["malformed_reason"]), pc.is_valid(piece["record_key"])))
        newest = _newest_places(lake, contract, place_of, pc.unique(rows["record_key"])) if len(rows) else {}
        for row in rows.to_pylist():
            place = place_of[row["ingestion_id"]] * _LINES + row["line_number"]
            if newest.get(row["record_key"], -1) > place:
                since[row["ingestion_id"]][row["event_date"]] += 1
    left = []
    for file in files:
        read = since[file.ingestion_id]
        days = {day: still for day, rows in file.days.items() if (still := rows - read[day]) > 0}
        left.append(replace(file, days=days, without_day=max(file.without_day - read[None], 0)) if read else file)
    return left


def _newest_places(lake: Lake, contract: SourceContract, place_of: Mapping[str, int], keys: pa.Array) -> dict[str, int]:
    """The place of the newest row that was read, by key."""
    columns = ["record_key", "kind", "ingestion_id", "line_number"]
    claims = key_log.about(lake, contract.dataset, columns, keys)
    newest: dict[str, int] = {}
    for claim in [] if claims is None else claims.filter(pc.not_equal(claims["kind"], "retire")).to_pylist():
        if claim["ingestion_id"] in place_of:
            place = place_of[claim["ingestion_id"]] * _LINES + claim["line_number"]
            newest[claim["record_key"]] = max(place, newest.get(claim["record_key"], -1))
    return newest
