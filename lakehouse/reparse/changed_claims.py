"""The claims of the rows of a reading, before and after it, and the event days and keys that they concern (Arrow)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions import claims, judgement_history
from lakehouse.dispositions.readings import in_force
from lakehouse.dispositions.readings.table import READING_ID, ROW_ID
from lakehouse.dispositions.row_groups import groups, positions
from lakehouse.ledger import key_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date
    from typing import Any

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_PLACE = ("arrival_date", "ingestion_id")


class ChangedRows(NamedTuple):
    """Some rows of a reading (ids, arrival day, ``malformed_reason``), with their claims before and after it."""

    rows: pa.Table
    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class ReadingChanges:
    """How many rows a reading has, how many of them were and are malformed, and the event days that silver has to rebuild.

    ``keys`` is the number of their keys before and after it.
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
    """The claims in the key log, or those that a stopped run has saved before it replaced them."""
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


def replacements(settings: Settings, of: Settings, source: str) -> Iterator[pa.Table]:
    """The claims to be merged into the key log so that it holds those of a reading, in pieces; none where it does already.

    A claim that is ``_gone`` is to be deleted.
    """
    for rows, _, after in pieces(settings, of, source):
        logged = _claims_of(settings, source, rows)
        order = [(name, "ascending") for name in judgement_history.CLAIM]
        if logged.sort_by(order).equals(after.sort_by(order)):
            continue
        gone = _without(logged, after)
        for claimed, is_gone in ((after, False), (gone, True)):
            yield claimed.append_column("_gone", pa.repeat(is_gone, len(claimed)))


def _without(claimed: pa.Table, others: pa.Table) -> pa.Table:
    """The claims that are not among others, whatever their judgement."""
    numbers = groups(*(pa.chunked_array([*claimed[name].chunks, *others[name].chunks]) for name in judgement_history.CLAIM))
    return claimed.filter(pa.array(~np.isin(numbers[: len(claimed)], numbers[len(claimed) :])))


def changes(settings: Settings, of: Settings, contract: SourceContract) -> ReadingChanges:
    """What a reading changes, from all its rows."""
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
    """Some rows of a reading, as they are in force and as they read otherwise, by column."""
    source, columns = contract.dataset, [name for name, _ in bronze_columns(contract)]
    pieces_of_reading = table_io.pieces(locations.readings(of, source), columns, None, of.storage_options)
    after = next(pieces_of_reading).slice(0, count)
    before = in_force.read(settings, source, columns, {name: pc.unique(after[name]) for name in _PLACE})
    if before is None:
        return []
    before = before.take(positions(after, before))
    return list(zip(before.to_pylist(), after.to_pylist()))
