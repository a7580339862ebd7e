"""The claims of the rows of a reading, before and after it, and the event days and keys that they concern (Arrow)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions import claims, judgement_history
from lakehouse.dispositions.readings import in_force
from lakehouse.dispositions.readings.table import READING_ID, ROW_ID
from lakehouse.dispositions.row_groups import positions
from lakehouse.ledger import ingestions, key_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date
    from typing import Any

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.table_io import Where
    from lakehouse.settings import Settings

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


def pieces(settings: Settings, of: Settings, source: str) -> Iterator[ChangedRows]:
    """The rows of a reading in pieces.

    :param of: the settings of the folder that holds the reading and its claims.
    """
    columns = [*ROW_ID, "arrival_date", "malformed_reason"]
    for rows in table_io.pieces(locations.readings(of, source), [*columns, READING_ID], None, of.storage_options):
        if len(rows):
            yield ChangedRows(rows, _claims_before(settings, source, rows), _claims_of(of, source, rows))


def _claims_before(settings: Settings, source: str, rows: pa.Table) -> pa.Table:
    """The claims in the key log, or the claims that a stopped run has saved before it replaced them."""
    reading_id = rows[READING_ID][0].as_py()
    saved = judgement_history.saved_by(settings, source, reading_id, pc.unique(rows["ingestion_id"]))
    saved = saved.filter(pc.is_valid(positions(saved, rows)))
    logged = _claims_of(settings, source, rows)
    return pa.concat_tables([saved.filter(pc.is_valid(saved["standing"])), logged.filter(pc.is_null(positions(logged, saved)))])


def _claims_of(settings: Settings, source: str, rows: pa.Table) -> pa.Table:
    where = {name: pc.unique(rows[name]) for name in _PLACE}
    log = table_io.read(locations.key_log(settings, source), key_log.SCHEMA.names, where, settings.storage_options)
    if log is None:
        return key_log.SCHEMA.empty_table()
    return log.filter(pc.is_valid(positions(log, rows))).cast(key_log.SCHEMA)


def in_place(settings: Settings, of: Settings, source: str, log: DeltaTable) -> Iterator[pa.Table]:
    """The claims of the arrival days of a reading as the key log should hold them, in pieces of several files each.

    :param log: the key log.
    """
    options = of.storage_options
    for where in _files_together(settings, of, source, log):
        held = table_io.read_version(log, key_log.SCHEMA.names, where).cast(key_log.SCHEMA)
        rows = table_io.read(locations.readings(of, source), list(ROW_ID), where, options)
        again = table_io.read(locations.key_log(of, source), key_log.SCHEMA.names, where, options)
        kept = held if rows is None else held.filter(pc.is_null(positions(held, rows)))
        yield kept if again is None else pa.concat_tables([kept, again.cast(key_log.SCHEMA)])


def arrival_days(of: Settings, source: str) -> list[date]:
    """The arrival days with rows of a reading."""
    days = table_io.distinct(locations.readings(of, source), ["arrival_date"], None, of.storage_options)
    return [] if days is None else days["arrival_date"].to_pylist()


def _files_together(settings: Settings, of: Settings, source: str, log: DeltaTable) -> Iterator[Where]:
    """The delivered files of the arrival days of a reading, grouped up to about :data:`_TOGETHER` rows."""
    places = [table_io.distinct_of_version(log, _PLACE, {"arrival_date": arrival_days(of, source)})]
    read = table_io.distinct(locations.readings(of, source), _PLACE, None, of.storage_options)
    places += [] if read is None else [read.cast(places[0].schema)]
    known = ingestions.ingested(ingestions.all_of(settings, source))
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


def changes(settings: Settings, of: Settings, contract: SourceContract) -> ReadingChanges:
    """The changes of a reading, from all its rows."""
    count = malformed_before = malformed_after = 0
    days: set[date] = set()
    keys = pa.array([], pa.string())
    for rows, before, after in pieces(settings, of, contract.dataset):
        was_sound = positions(rows, before.filter(pc.not_equal(before["kind"], "retire")))
        count += len(rows)
        malformed_before += was_sound.null_count
        malformed_after += len(rows) - rows["malformed_reason"].null_count
        for claimed in (before, after):
            days |= set(pc.unique(claimed["event_date"].drop_null()).to_pylist())
            keys = pc.unique(pa.chunked_array([keys, *claimed["record_key"].chunks], pa.string()))
    affected = claims.affected_event_days(settings, contract, days, keys) if len(keys) else set()
    return ReadingChanges(count, malformed_before, malformed_after, sorted(days | affected), len(keys))


def samples(
    settings: Settings, of: Settings, contract: SourceContract, count: int
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The first rows of a reading, at most ``count``, as they are in force and as they now read, by column."""
    source, columns = contract.dataset, [name for name, _ in bronze_columns(contract)]
    pieces_of_reading = table_io.pieces(locations.readings(of, source), columns, None, of.storage_options)
    after = next(pieces_of_reading).slice(0, count)
    before = in_force.read(settings, source, columns, {name: pc.unique(after[name]) for name in _PLACE})
    if before is None:
        return []
    before = before.take(positions(after, before))
    return list(zip(before.to_pylist(), after.to_pylist()))
