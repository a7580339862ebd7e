"""The claims of the rows of a reading, before and after it, and the event days and keys that they concern (Arrow).

Redactions are extended here: to rows whose key a reading changes, and to fields in which a reading would show a hidden value
again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions import claims, judgement_history, readings
from lakehouse.dispositions.readings import READING_ID, ROW_ID
from lakehouse.dispositions.winners import positions
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.ledger import ingestions, key_log, redactions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lake.table_io import Where


_PLACE = ("arrival_date", "ingestion_id")
#: Files are read together up to this number of rows: each piece is written in the order of its keys.
_TOGETHER = 2**20


class ChangedRows(NamedTuple):
    """Rows of a reading (ids, arrival day, ``malformed_reason``), with their claims before and after it."""

    rows: pa.Table
    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class ReadingChanges:
    """The number of rows of a reading, of malformed ones before and after it, and the event days that silver has to rebuild.

    ``keys`` is the number of keys of these rows before and after it.
    """

    rows: int
    malformed_before: int
    malformed_after: int
    days: list[date]
    keys: int


def pieces(lake: Lake, of: Lake, source: str) -> Iterator[ChangedRows]:
    """The rows of a reading in pieces.

    :param of: the lake of the folder that holds the reading and its claims.
    """
    columns = [*ROW_ID, "arrival_date", "malformed_reason"]
    for rows in locations.readings(of, source).pieces([*columns, READING_ID], None):
        if len(rows):
            yield ChangedRows(rows, _claims_before(lake, source, rows), _claims_of(of, source, rows))


def _claims_before(lake: Lake, source: str, rows: pa.Table) -> pa.Table:
    """The claims in the key log, or the claims that a stopped run has saved before it replaced them."""
    reading_id = rows[READING_ID][0].as_py()
    saved = judgement_history.saved_by(lake, source, reading_id, pc.unique(rows["ingestion_id"]))
    saved = saved.filter(pc.is_valid(positions(saved, rows)))
    logged = _claims_of(lake, source, rows)
    return pa.concat_tables([saved.filter(pc.is_valid(saved["standing"])), logged.filter(pc.is_null(positions(logged, saved)))])


def _claims_of(lake: Lake, source: str, rows: pa.Table) -> pa.Table:
    where = {name: pc.unique(rows[name]) for name in _PLACE}
    log = locations.key_log(lake, source).read(key_log.SCHEMA.names, where)
    if log is None:
        return key_log.SCHEMA.empty_table()
    return log.filter(pc.is_valid(positions(log, rows))).cast(key_log.SCHEMA)


def in_place(lake: Lake, of: Lake, source: str, log: DeltaTable) -> Iterator[pa.Table]:
    """The claims of the arrival days of a reading as the key log should hold them, in pieces of several files each.

    :param log: the key log.
    """
    for where in _files_together(lake, of, source, log):
        held = table_io.read_version(log, key_log.SCHEMA.names, where).cast(key_log.SCHEMA)
        rows = locations.readings(of, source).read(list(ROW_ID), where)
        again = locations.key_log(of, source).read(key_log.SCHEMA.names, where)
        kept = held if rows is None else held.filter(pc.is_null(positions(held, rows)))
        yield kept if again is None else pa.concat_tables([kept, again.cast(key_log.SCHEMA)])


def arrival_days(of: Lake, source: str) -> list[date]:
    """The arrival days with rows of a reading."""
    days = locations.readings(of, source).distinct(["arrival_date"], None)
    return [] if days is None else days["arrival_date"].to_pylist()


def _files_together(lake: Lake, of: Lake, source: str, log: DeltaTable) -> Iterator[Where]:
    """The delivered files of the arrival days of a reading, grouped up to about :data:`_TOGETHER` rows."""
    places = [table_io.distinct_of_version(log, _PLACE, {"arrival_date": arrival_days(of, source)})]
    read = locations.readings(of, source).distinct(_PLACE, None)
    places += [] if read is None else [read.cast(places[0].schema)]
    known = ingestions.ingested(ingestions.all_of(lake, source))
    files = sorted({tuple(row[name] for name in _PLACE) for row in pa.concat_tables(places).to_pylist()})
    rows_before = 0
    together: list[tuple[date, str]] = []
    for day, ingestion_id in files:
        rows = known[ingestion_id].rows if ingestion_id in known else 0
        if together and rows_before + rows > _TOGETHER:
            yield dict(zip(_PLACE, map(set, zip(*together))))
            together, rows_before = [], 0
        together.append((day, ingestion_id))
        rows_before += rows
    if together:
        yield dict(zip(_PLACE, map(set, zip(*together))))


def changes(lake: Lake, of: Lake, contract: SourceContract) -> ReadingChanges:
    """The changes of a reading, from all its rows."""
    count = malformed_before = malformed_after = 0
    days: set[date] = set()
    keys = pa.array([], pa.string())
    for rows, before, after in pieces(lake, of, contract.dataset):
        was_sound = positions(rows, before.filter(pc.not_equal(before["kind"], "retire")))
        count += len(rows)
        malformed_before += was_sound.null_count
        malformed_after += len(rows) - rows["malformed_reason"].null_count
        for claimed in (before, after):
            days |= set(pc.unique(claimed["event_date"].drop_null()).to_pylist())
            keys = pc.unique(pa.chunked_array([keys, *claimed["record_key"].chunks], pa.string()))
    affected = claims.affected_event_days(lake, contract, days, keys) if len(keys) else set()
    return ReadingChanges(count, malformed_before, malformed_after, sorted(days | affected), len(keys))


def samples(lake: Lake, of: Lake, contract: SourceContract, count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The first rows of a reading, at most ``count``, as they are in force and as they now read, by column."""
    source, columns = contract.dataset, [name for name, _ in bronze_columns(contract)]
    pieces_of_reading = locations.readings(of, source).pieces(columns, None)
    after = next(pieces_of_reading).slice(0, count)
    before = readings.read(lake, source, columns, {name: pc.unique(after[name]) for name in _PLACE})
    if before is None:
        return []
    before = before.take(positions(after, before))
    return list(zip(before.to_pylist(), after.to_pylist()))


class RedactedKeyError(LakehouseError):
    """A reading that would show a redacted value as a part of a key. The message says what to do."""


def follow(lake: Lake, contract: SourceContract, of: Lake, days: set[date]) -> None:
    """Record the redactions that rows of a reading need in addition to the existing ones.

    :param of: the lake of the folder that holds the reading.
    :param days: the event days that the reading affects.
    :raises RedactedKeyError: where a redacted field is part of the key under the contract.
    """
    source = contract.dataset
    known = redactions.all_of(lake, source)
    if not known:
        return
    fields = [spec.name for spec in contract.typed_fields]
    in_key = {*contract.primary_key, *(contract.synthetic_key.fields if contract.synthetic_key else ())}
    keys = pa.array(sorted({entry.record_key for entry in known}), pa.string())
    wanted = sorted({name for entry in known for name in entry.fields} - set(fields))
    claimed = [before.filter(pc.is_in(before["record_key"], keys)) for _, before, _ in pieces(lake, of, source)]
    if not any(map(len, claimed)):
        return
    where = {name: pc.unique(pa.concat_tables(claimed)[name]) for name in ("arrival_date", "ingestion_id")}
    columns = [*ROW_ID, "record_key", *fields, *wanted]
    before = readings.every_reading(lake, source, columns, {**where, "record_key": keys})
    of_row = {tuple(row[name] for name in ROW_ID): row for row in ([] if before is None else before.to_pylist())}
    stored = locations.readings(of, source)
    read = stored.read([*ROW_ID, "record_key", *fields], where) if of_row else None
    for row in [] if read is None else read.to_pylist():
        former = of_row.get(tuple(row[name] for name in ROW_ID))
        if former is None or row["record_key"] is None:
            continue
        for entry in known:
            if entry.record_key == former["record_key"]:
                _follow_row(lake, source, entry, former, row, in_key, days)


def _follow_row(
    lake: Lake,
    source: str,
    entry: redactions.Redaction,
    former: dict[str, Any],
    row: dict[str, Any],
    in_key: set[str],
    days: set[date],
) -> None:
    hidden = {str(former[name]) for name in entry.fields if former.get(name) is not None}
    # A field of another name that reads the same column of the file; one that was visible before stays visible.
    fields = (name for name in row if name not in {*ROW_ID, "record_key"} and former.get(name) is None)
    shown = {name for name in fields if str(row[name]) in hidden}
    needed = shown | set(entry.fields)
    exposed = sorted(needed & in_key)
    if exposed:
        msg = (
            f"{', '.join(exposed)} of {source} is redacted for the key {entry.record_key!r} and part of the key now: "
            "take it out of the key, or leave the arrival days of these rows out with --start-date and --end-date"
        )
        raise RedactedKeyError(msg)
    if row["record_key"] == entry.record_key and needed <= set(entry.fields):
        return
    also = replace(entry, record_key=row["record_key"], fields=sorted(needed), redacted_at=lake.now(), touched_days=sorted(days))
    redactions.record(lake, source, also)
