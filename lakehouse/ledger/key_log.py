"""``ops/<source>_keys``: every claim that Bronze makes about a key, narrow enough to be read whole.

A *claim* is the statement of one row about one key: an insert, a correction, a delete, or, where the row corrects another key
under its own, the retirement of that other key. The log is appended before silver is merged and records where a key may
live; a surplus claim does no harm (rule R2 takes the greatest).

Each claim carries the admission status that the contract gives its row (column ``standing``). Rows that are not admitted are
logged as well, so that a steward's decision is enough to admit one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import data_files, row_writer, table_io
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from lakehouse.settings import Settings

SCHEMA = pa.schema(
    [
        ("record_key", pa.string()),
        ("kind", pa.string()),
        ("event_date", pa.date32()),
        ("source_sequence", pa.int64()),
        ("arrival_ts", pa.timestamp("us", "UTC")),
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("arrival_date", pa.date32()),
        ("standing", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("failed_rules", pa.list_(pa.string())),
        ("beyond", pa.bool_()),
    ]
)
#: The columns of the contract's judgement; the others are taken from the row.
JUDGED = ("standing", "reason", "detail", "failed_rules", "beyond")
#: The bronze columns that claims are derived from.
BRONZE_COLUMNS = [name for name in SCHEMA.names if name not in {"kind", *JUDGED}]
BRONZE_COLUMNS += ["change_op", "corrects_key", "malformed_reason"]

#: The files are sorted by key, and a row group has at most so many rows: a look-up of few keys reads few of them.
ROW_GROUP_ROWS = 2**14
_FEW_KEYS = 10_000


class IncompleteKeyLogError(LakehouseError):
    """The key log does not cover Bronze, so that anything computed from it would lack rows. Its text has the remedy."""


def claims(bronze: pa.Table) -> pa.Table:
    """The claims of some bronze rows (columns :data:`BRONZE_COLUMNS` and :data:`JUDGED`)."""
    sound = bronze.filter(pc.is_null(bronze["malformed_reason"]))
    same_key = sound.rename_columns({"change_op": "kind"}).select(SCHEMA.names)
    corrections = sound.filter(
        pc.fill_null(
            pc.and_kleene(pc.is_valid(sound["corrects_key"]), pc.not_equal(sound["corrects_key"], sound["record_key"])), False
        )
    )
    retired = corrections.drop_columns(["record_key", "event_date"]).rename_columns({"corrects_key": "record_key"})
    retired = retired.append_column("kind", pa.repeat("retire", len(retired)))
    retired = retired.append_column("event_date", pa.nulls(len(retired), pa.date32()))
    return pa.concat_tables([same_key.cast(SCHEMA), retired.select(SCHEMA.names).cast(SCHEMA)])


@row_writer.retried_on_conflict
def append(settings: Settings, source: str, rows: pa.Table) -> None:
    """Append the claims of some ingestions, except of those that have claims in the log already."""
    path, options = locations.key_log(settings, source), settings.storage_options
    table = row_writer.open_or_create(path, SCHEMA, options)
    ingestions = pc.unique(rows["ingestion_id"])
    where = {"ingestion_id": ingestions, "arrival_date": pc.unique(rows["arrival_date"])}  # files of other days are skipped
    logged = table_io.read_version(table, ["ingestion_id"], where)["ingestion_id"]
    new = ingestions.filter(pc.invert(pc.is_in(ingestions, pc.unique(logged))))
    app_ids = [f"keys:{ingestion_id}" for ingestion_id in new.to_pylist()]
    rows = rows.filter(pc.is_in(rows["ingestion_id"], new)).sort_by("record_key")
    row_writer.append_new(path, table, rows, app_ids, options, ROW_GROUP_ROWS)


def about(settings: Settings, source: str, columns: Sequence[str], keys: Collection[str] | pa.Array) -> pa.Table | None:
    """These columns of the claims about some keys; None if there is no log."""
    table = table_io.open_table(locations.key_log(settings, source), settings.storage_options)
    if table is None:
        return None
    keys = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
    if len(keys) > _FEW_KEYS:  # they are in every row group
        return table_io.read_version(table, columns, {"record_key": keys})
    return data_files.with_texts(table, columns, "record_key", keys)


def days_of(settings: Settings, source: str, keys: pa.Array) -> set[date]:
    """Every event day on which one of the keys has ever had a record: where silver may hold a copy of it."""
    log = about(settings, source, ["event_date"], keys)
    return set() if log is None else {day for day in pc.unique(log["event_date"]).to_pylist() if day is not None}


def days_by_key(settings: Settings, source: str, keys: Collection[str]) -> dict[str, set[date]]:
    """The same for a few keys, key by key."""
    log = about(settings, source, ["record_key", "event_date"], keys)
    result: dict[str, set[date]] = {key: set() for key in keys}
    places = [] if log is None else log.group_by(["record_key", "event_date"]).aggregate([]).to_pylist()
    for place in places:
        if place["event_date"] is not None:
            result[place["record_key"]].add(place["event_date"])
    return result


def arrival_days_of(settings: Settings, source: str, keys: Collection[str] | pa.Array) -> set[date]:
    """The arrival days of all claims about some keys."""
    log = about(settings, source, ["arrival_date"], keys)
    return set() if log is None else set(pc.unique(log["arrival_date"]).to_pylist())


def arrival_days_with_rows_on(settings: Settings, source: str, days: Collection[date]) -> set[date]:
    """The arrival days of all claims on some event days."""
    log = table_io.read(locations.key_log(settings, source), ["arrival_date"], {"event_date": days}, settings.storage_options)
    return set() if log is None else set(pc.unique(log["arrival_date"]).to_pylist())


def days(settings: Settings, source: str) -> set[date]:
    """The event days of all claims."""
    log = table_io.read(locations.key_log(settings, source), ["event_date"], None, settings.storage_options)
    return set() if log is None else {day for day in pc.unique(log["event_date"]).to_pylist() if day is not None}


def keys_and_days(
    settings: Settings, source: str, ingestion_ids: Collection[str], arrivals: Collection[date]
) -> tuple[pa.Array, set[date]]:
    """The keys about which these ingestions make claims, and the event days of their claims.

    :param arrivals: their arrival days; files with claims of other days are not read.
    """
    wanted = {"ingestion_id": ingestion_ids, "arrival_date": arrivals}
    log = table_io.read(locations.key_log(settings, source), ["record_key", "event_date"], wanted, settings.storage_options)
    if log is None:
        return pa.array([], pa.string()), set()
    return pc.unique(log["record_key"]), {day for day in pc.unique(log["event_date"]).to_pylist() if day is not None}


def of_ingestions(settings: Settings, source: str, ingestion_ids: Collection[str], arrivals: Collection[date]) -> pa.Table:
    """The claims of some ingestions, as they were judged when they were logged.

    :param arrivals: their arrival days; files with claims of other days are not read.
    """
    where = {"ingestion_id": ingestion_ids, "arrival_date": arrivals}
    log = table_io.read(locations.key_log(settings, source), SCHEMA.names, where, settings.storage_options)
    return SCHEMA.empty_table() if log is None else log.cast(SCHEMA)


def retired_arrival_days(settings: Settings, source: str, ingestion_ids: set[str]) -> set[date]:
    """The arrival days of all claims about the keys of these ingestions that some record has retired.

    A retirement can revive an older row of its key or end a newer one, so that the rows of all these days may be needed. Most
    sources have none.
    """
    path = locations.key_log(settings, source)
    retirements = table_io.read(path, ["record_key"], {"kind": ["retire"]}, settings.storage_options)
    if retirements is None or not len(retirements):
        return set()
    log = about(settings, source, ["record_key", "ingestion_id", "arrival_date"], pc.unique(retirements["record_key"]))
    if log is None:
        return set()
    spoken_of = pc.unique(log.filter(pc.is_in(log["ingestion_id"], pa.array(sorted(ingestion_ids))))["record_key"])
    return set(pc.unique(log.filter(pc.is_in(log["record_key"], spoken_of))["arrival_date"]).to_pylist())
