"""``ops/ingestions``, one row per delivery of a file, and ``ops/unread_rows``, the rows of each file that could not be read.

A delivery was ingested, already known, or held; the ledger also records how a held one ended. The name of a file marks a
correction that a person entered (``lakehouse correct``); entering it belongs to ``operations.changes``. Bronze stores the name
with each row, so that everything that depends on it can be computed again from Bronze.

Files that are recorded as ingested, but of which Bronze or the key log has no row, were lost with a table that was restored from
a copy, or with a damaged log. ``bronze.ingest`` restores both: rows of Bronze are read again from landing, and claims are derived
again from Bronze; ``streams.message_rows`` does so for messages, from their topic. Until then silver computes nothing: a row of
another file would take the place of a missing one.

An entry of unread rows has their number by the event days that they name. It is written when a file with malformed rows is
ingested, and again when a reading changes which of them can be read; the newest entry about a file holds. Which numbers wait
because of them is decided in ``dispositions.unread``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Literal

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import transaction_version
from lakehouse.ledger import ids, key_log
from lakehouse.ledger.ids import delivery_name
from lakehouse.ledger.log_table import LogTable
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    import pyarrow as pa
    from deltalake import DeltaTable

    from lakehouse.lake import Lake


#: A file of landing in one state: its name, size in bytes and time of modification.
FileIdentity = tuple[str, int, "datetime | None"]


@dataclass(frozen=True)
class Ingestion:
    """One delivered file. ``touched_days`` are the event days whose silver content it may change.

    ``delivery`` names the manifest that lists it, None for none. ``newest_arrival`` and ``newest_event`` are the greatest times
    of its well-formed rows, where an event counts at the latest when it arrived; ``newest_marker`` is the greatest time of its
    markers, as the contract's watermark defines them; ``skewed`` counts the rows whose event lies ahead of their arrival.
    ``header`` is the header line of a CSV file, without which its raw records cannot be read again. These fields are empty in
    entries of earlier releases. ``backfill`` is the plan that brought the file, None for none.

    A held file is ``gone`` once it is no longer in landing, and ``given_up`` by a person's decision.
    """

    source: str
    ingestion_id: str
    content_hash: str
    arrival_date: date
    source_file: str
    bytes: int
    modified: datetime | None
    rows: int = field(default=0, kw_only=True)
    malformed: int = field(default=0, kw_only=True)
    touched_days: list[date] = field(default_factory=list, kw_only=True)
    touched_rows: list[int] = field(default_factory=list, kw_only=True)
    status: Literal["ingested", "redelivered", "held", "gone", "given_up"]
    message: str | None = field(default=None, kw_only=True)
    run_id: str
    recorded_at: datetime
    newest_arrival: datetime | None = field(default=None, kw_only=True)
    newest_event: datetime | None = field(default=None, kw_only=True)
    newest_marker: datetime | None = field(default=None, kw_only=True)
    skewed: int = field(default=0, kw_only=True)
    delivery: str | None = field(default=None, kw_only=True)
    header: str | None = field(default=None, kw_only=True)
    backfill: str | None = field(default=None, kw_only=True)

    @property
    def input_id(self) -> str:
        """The id under which silver and the numbers list the file among their inputs."""
        if self.status == "ingested":
            return self.ingestion_id
        return ids.of_redelivery(f"{self.source}|{self.ingestion_id}|{self.delivered_with}")

    @property
    def is_in_bronze(self) -> bool:
        """Whether Bronze has the rows of the file."""
        return self.status in {"ingested", "redelivered"}

    @property
    def counts_again(self) -> bool:
        """Whether this is a file of known content that counts again in its delivery."""
        return self.status == "redelivered" and bool(self.touched_days)

    @property
    def delivered_with(self) -> str:
        """The name of the delivery to which the file belongs."""
        return delivery_name(self.delivery, self.arrival_date)

    @property
    def identity(self) -> FileIdentity:
        """The name, size and time of the delivered file, to be compared with the file in landing."""
        return self.source_file, self.bytes, self.modified

    @property
    def rows_by_day(self) -> dict[date, int]:
        """The number of its rows on each touched day; 0 for a day that only had an older row of a key."""
        return dict(zip(self.touched_days, self.touched_rows))


def log(lake: Lake) -> LogTable[Ingestion]:
    """The table."""
    return LogTable(Ingestion, lake, locations.ingestions(lake), partition_by="source")


def record(lake: Lake, *entries: Ingestion) -> None:
    """Append deliveries of one source in one commit, except those recorded before with the same file, status and message."""
    if entries:
        where = {"source": [entries[0].source], "source_file": [entry.source_file for entry in entries]}
        log(lake).append_missing(entries, _app_id, where)


def record_later(lake: Lake, *entries: Ingestion) -> None:
    """Append how held files ended, or that they are held again: the same may happen to a file several times."""
    if entries:
        where = {"source": [entries[0].source], "source_file": [entry.source_file for entry in entries]}
        log(lake).append_missing(entries, lambda entry: f"{_app_id(entry)}:{entry.recorded_at.isoformat()}", where)


def _app_id(entry: Ingestion) -> str:
    text = f"{entry.status}:{entry.source}:{entry.content_hash}:{entry.source_file}:{entry.modified}:{entry.message or ''}"
    return f"{text}:{entry.delivery}" if entry.counts_again else text


def all_of(lake: Lake, source: str) -> Sequence[Ingestion]:
    """Every recorded delivery of a source, by arrival day and file."""
    table, of_source = log(lake), {"source": [source]}

    def in_order() -> list[Ingestion]:
        return sorted(table.read(of_source), key=lambda entry: (entry.arrival_date, entry.source_file, entry.recorded_at))

    return table.derived("in order", in_order, of_source)


def ingested(entries: Iterable[Ingestion]) -> dict[str, Ingestion]:
    """The ingestions that are in Bronze, by id."""
    return {entry.ingestion_id: entry for entry in entries if entry.status == "ingested"}


def completed(lake: Lake, source: str) -> Collection[str]:
    """The ids of the completed ingestions. An ingestion that was stopped is left out: numbers do not list it among their
    inputs.
    """
    return ingested(all_of(lake, source)).keys()


def are_many(lake: Lake, source: str, *others: Lake) -> bool:
    """Whether Bronze has so many rows of a source, here and in other lakes, that Spark should plan for many."""
    rows = sum(entry.rows for each in (lake, *others) for entry in ingested(all_of(each, source)).values())
    return rows > lake.settings.held_rows


def only_in(lake: Lake, other: Lake, source: str) -> list[str]:
    """The ingestions in ``lake`` whose content the lake ``other`` does not have."""
    here, there = (ingested(all_of(each, source)).keys() for each in (lake, other))
    return sorted(here - there)


def inputs(entries: Iterable[Ingestion]) -> dict[str, Ingestion]:
    """The inputs of silver by input id: the ingestions, and the files that count again in a later delivery.

    A file of known content adds no row to Bronze. It counts again in a delivery that did not contain the content yet, unless the
    contract excludes it: only such an entry has touched days.
    """
    return {entry.input_id: entry for entry in entries if entry.status == "ingested" or entry.counts_again}


def newest(entries: Collection[Ingestion]) -> dict[str, Ingestion]:
    """The newest entry of each file name."""
    in_order = sorted(entries, key=lambda entry: (entry.recorded_at, entry.status != "held"))  # a replay's clock stands still
    return {entry.source_file: entry for entry in in_order}


def still_held(entries: Collection[Ingestion]) -> list[Ingestion]:
    """The files that were held, have not been ingested since, are still in landing, and that nobody has given up."""
    done = {entry.content_hash for entry in entries if entry.status == "ingested"}
    return [entry for entry in newest(entries).values() if entry.status == "held" and entry.content_hash not in done]


class UnheldFileError(LakehouseError):
    """A file that is not held; the message names those that are."""


def give_up(lake: Lake, source: str, name: str, by: str, reason: str) -> Ingestion:
    """Record a person's decision that nothing of a held file is read, and no number waits for it.

    A file of this name counts again as soon as its size or time differs.

    :raises UnheldFileError: if no file of this name is held.
    """
    held = {entry.source_file: entry for entry in still_held(all_of(lake, source))}
    if name not in held:
        msg = f"no file {name} of {source} is held; held are {', '.join(sorted(held)) or 'none'}"
        raise UnheldFileError(msg)
    entry = replace(
        held[name], status="given_up", message=f"given up by {by}: {reason}", run_id=f"cli:{by}", recorded_at=lake.now()
    )
    record_later(lake, entry)
    return entry


def hand_file_name(correction_id: str, ending: str) -> str:
    """The name of the file with a correction; the landing folder may prefix it with the arrival day.

    :param ending: such as ``.csv``.
    """
    return f"correction-{correction_id}{ending}"


def is_by_hand(source_file: str) -> bool:
    """Whether a delivered file contains a correction that a person entered."""
    return ids.BY_HAND.search(source_file) is not None


def are_by_hand(source_files: pa.ChunkedArray) -> pa.ChunkedArray:
    """The Arrow form of :func:`is_by_hand`; never NULL."""
    source_files = source_files.cast("string")
    files = pc.unique(source_files).drop_null()  # few files bring many rows
    return pc.is_in(source_files, value_set=files.filter(pc.match_substring_regex(files, ids.BY_HAND.pattern)))


_SHOWN = 3
#: The number of files, recorded last, that are looked up in the key log.
_LOOKED_AT = 8


class LostRowsError(LakehouseError):
    """Bronze lacks rows of files that were ingested. The message names the files, and how to read them again."""


def lost_deliveries(lake: Lake, source: str) -> list[Ingestion]:
    """The ingested files of which Bronze has no row, by arrival day and file.

    They are determined from the row counts in Bronze's log; only days with too few rows are read.
    """
    known = [entry for entry in _ingested(lake, source) if entry.rows]
    table = locations.bronze(lake, source).open() if known else None
    if table is None:
        return known
    lacking = Counter[date]()
    for entry in known:
        lacking[entry.arrival_date] += entry.rows
    lacking.subtract(table_parts.rows(table))
    days = {day for day, rows in lacking.items() if rows > 0}
    return _absent(table, [entry for entry in known if entry.arrival_date in days])


def lost_claims(lake: Lake, source: str) -> list[Ingestion]:
    """The ingested files with well-formed rows of which the key log has no claim.

    Only the files recorded last are checked first: a log that has lost commits has lost its newest ones.
    """
    known = [entry for entry in _ingested(lake, source) if entry.rows > entry.malformed]
    table = locations.key_log(lake, source).open() if known else None
    if table is None:
        return known
    newest = sorted(known, key=lambda entry: (entry.recorded_at, entry.arrival_date))[-_LOOKED_AT:]
    unmarked = [entry for entry in newest if transaction_version(table, key_log.app_id(entry.ingestion_id)) is None]
    return _absent(table, known) if _absent(table, unmarked) else []


def _ingested(lake: Lake, source: str) -> list[Ingestion]:
    return list(ingested(all_of(lake, source)).values())


def _absent(table: DeltaTable, entries: list[Ingestion]) -> list[Ingestion]:
    """Those ``entries`` of which the table has no row."""
    if not entries:
        return []
    days = {entry.arrival_date for entry in entries}
    present = set(table_io.distinct_of_version(table, ["ingestion_id"], {"arrival_date": days})["ingestion_id"].to_pylist())
    return [entry for entry in entries if entry.ingestion_id not in present]


def require_no_lost_rows(lake: Lake, source: str) -> None:
    """Refuse to compute silver from a Bronze or a key log that lacks rows.

    :raises LostRowsError: with the files.
    """
    if lost := lost_deliveries(lake, source):
        raise lost_rows_error(f"bronze/{source}", lost, f"materialize bronze/{source}: they are read again from landing")
    if lost := lost_claims(lake, source):
        raise lost_rows_error(f"the key log of {source}", lost, f"materialize bronze/{source}: it is derived again")


def lost_rows_error(table: str, lost: Sequence[Ingestion], way_out: str) -> LostRowsError:
    """The error about ``lost`` files."""
    names = join_limited([entry.source_file for entry in lost], _SHOWN)
    rows = sum(entry.rows for entry in lost)
    return LostRowsError(f"{table} has lost the {rows:,} rows of {len(lost):,} ingested files ({names}): {way_out}")


#: The columns of Bronze that are counted.
UNREAD_COLUMNS = ("ingestion_id", "arrival_date", "line_number", "event_date", "malformed_reason")


@dataclass(frozen=True)
class UnreadRows:
    """The malformed rows of one ingestion: ``rows`` has the number of those that name the event day in ``days``; the others name
    none.

    ``line_number`` and ``reason`` belong to the first malformed row. ``reading`` is 0 for the count at ingestion, else the number
    of the reading after which the rows were counted.
    """

    source: str
    ingestion_id: str
    arrival_date: date
    malformed: int = field(kw_only=True)
    days: list[date] = field(default_factory=list, kw_only=True)
    rows: list[int] = field(default_factory=list, kw_only=True)
    line_number: int | None = field(default=None, kw_only=True)
    reason: str | None = field(default=None, kw_only=True)
    reading: int = field(default=0, kw_only=True)
    recorded_at: datetime


def unread_log(lake: Lake) -> LogTable[UnreadRows]:
    """The table."""
    return LogTable(UnreadRows, lake, locations.unread_rows(lake), partition_by="source")


def count_unread(source: str, pieces: Iterable[pa.Table], recorded_at: datetime) -> list[UnreadRows]:
    """The entries of those ingestions in ``pieces`` that have malformed rows.

    :param pieces: rows with :data:`UNREAD_COLUMNS`; rows of one ingestion may be in several pieces.
    """
    counts: dict[str, Counter[date | None]] = {}
    entries: dict[str, UnreadRows] = {}
    for rows in pieces:
        malformed = rows.select(UNREAD_COLUMNS).filter(pc.is_valid(rows["malformed_reason"]))
        if not len(malformed):
            continue
        by_day = malformed.group_by(["ingestion_id", "event_date"]).aggregate([([], "count_all")])
        for row in by_day.to_pylist():
            counts.setdefault(row["ingestion_id"], Counter())[row["event_date"]] += row["count_all"]
        by_file = malformed.group_by(["ingestion_id", "arrival_date"]).aggregate([("line_number", "min")])
        for first in by_file.to_pylist():
            name, line = first["ingestion_id"], first["line_number_min"]
            known = entries.get(name)
            if known is None or known.line_number is None or line < known.line_number:
                is_first = pc.and_(pc.equal(malformed["ingestion_id"], name), pc.equal(malformed["line_number"], line))
                reason = malformed.filter(is_first)["malformed_reason"][0].as_py()
                entry = UnreadRows(source, name, first["arrival_date"], malformed=0, recorded_at=recorded_at)
                entries[name] = replace(entry, line_number=line, reason=reason)
    return [
        replace(
            entry,
            malformed=counts[name].total(),
            days=sorted(day for day in counts[name] if day is not None),
            rows=[rows for day, rows in sorted((day, rows) for day, rows in counts[name].items() if day is not None)],
        )
        for name, entry in entries.items()
    ]


def record_unread(lake: Lake, entries: Collection[UnreadRows]) -> None:
    """Append the entries of one source, except those of a file that the table already has after the same reading."""
    if entries:
        where = {"source": [next(iter(entries)).source], "ingestion_id": [entry.ingestion_id for entry in entries]}
        unread_log(lake).append_missing(entries, lambda entry: f"unread:{entry.reading}:{entry.ingestion_id}", where)


def newest_unread(lake: Lake, source: str) -> dict[str, UnreadRows]:
    """The unread rows of each ingestion at present; ingestions of earlier releases have no entry."""
    entries = unread_log(lake).read({"source": [source]})
    return {entry.ingestion_id: entry for entry in sorted(entries, key=lambda entry: entry.reading)}


def first_reason(lake: Lake, source: str, ingestion_ids: Collection[str]) -> str | None:
    """Why the first malformed row of ``ingestion_ids`` is malformed; None if there is none, or an earlier release
    ingested them.
    """
    if not ingestion_ids:
        return None
    known = newest_unread(lake, source)
    return next((known[name].reason for name in ingestion_ids if name in known and known[name].reason), None)
