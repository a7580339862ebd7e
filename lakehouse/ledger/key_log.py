"""``ops/<source>_keys``: every claim that Bronze makes about a key, narrow enough to be read whole.

A *claim* is the statement of one row about one key: an insert, a correction, a delete, or, where the row corrects another key
under its own, the retirement of that other key. The log is appended before silver is merged and records where a key may live; a
surplus claim does no harm (rule R2 takes the greatest).

Each claim carries the admission status that the contract gives its row (column ``standing``). Rows that are not admitted are
logged as well, so that a steward's decision is enough to admit one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import ColumnProperties

from lakehouse import locations, pieces
from lakehouse.delta import data_files, row_writer
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.lake.delta_rs_internals import transaction_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.lake import Lake

SCHEMA = pa.schema(
    [
        ("record_key", pa.string()),
        ("kind", pa.string()),
        ("event_date", pa.date32()),
        ("source_sequence", pa.int64()),
        ("source_order", pa.string()),
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

#: The rows of a file are sorted by key, at least in long runs, and row groups are small: looking up few keys reads few groups.
LAYOUT = data_files.compressed(
    2**14,
    {
        "record_key": ColumnProperties(dictionary_enabled=False, encoding="DELTA_BYTE_ARRAY"),
        "line_number": ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED"),
    },
)
#: Up to this many keys are looked up by row groups.
FEW_KEYS = 10_000
#: Claims about more keys are read in ranges of about this many rows.
_RANGE_ROWS = 2**18


class IncompleteKeyLogError(LakehouseError):
    """The key log does not cover Bronze: results computed from it would lack rows. The message contains the remedy."""

    passes_by_itself = True  # a run of bronze may complete it meanwhile


def app_id(ingestion_id: str) -> str:
    """The Delta transaction that marks the claims of an ingestion as logged."""
    return f"keys:{ingestion_id}"


def claims(bronze: pa.Table) -> pa.Table:
    """The claims of ``bronze`` rows (columns :data:`BRONZE_COLUMNS` and :data:`JUDGED`)."""
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


def typed(claims: pa.Table) -> pa.Table:
    """Columns read from the log, with their types; a column that is newer than the log is empty."""
    return claims.cast(pa.schema([SCHEMA.field(name) for name in claims.column_names]))


@row_writer.retried_on_conflict
def append(
    lake: Lake,
    source: str,
    ingestion_ids: Collection[str],
    arrivals: Collection[date],
    claims_of: Callable[[], Iterable[pa.Table]],
) -> None:
    """Append the claims of ``ingestion_ids`` in one commit, except those of ingestions that the log already has.

    :param arrivals: their arrival days; files with claims of other days are not read.
    :param claims_of: returns their claims in pieces; it may be called again after a conflict.
    """
    stored = locations.key_log(lake, source)
    table = row_writer.open_or_create(stored, SCHEMA)
    where = {"ingestion_id": ingestion_ids, "arrival_date": arrivals}
    logged = table_io.distinct_of_version(table, ["ingestion_id"], where)
    new = sorted(set(ingestion_ids) - set(logged["ingestion_id"].to_pylist()))

    def in_order(claims: pa.Table) -> pa.Table:
        return claims.filter(pc.is_in(claims["ingestion_id"], pa.array(new, pa.string()))).sort_by("record_key")

    rows = pieces.mapped(in_order, claims_of())
    row_writer.append_new(stored, table, rows, [app_id(ingestion_id) for ingestion_id in new], LAYOUT)


@row_writer.retried_on_conflict
def replace(
    lake: Lake,
    source: str,
    arrivals: Collection[date],
    claims_of: Callable[[DeltaTable], Iterable[pa.Table]],
    app_id: str,
) -> None:
    """Replace the claims of ``arrivals``, in one commit; repeating it changes nothing.

    :param claims_of: returns all claims of these days in pieces, computed from the log at a version.
    :param app_id: identifies the replacement.
    """
    table = row_writer.open_or_create(locations.key_log(lake, source), SCHEMA)
    if transaction_version(table, app_id) is None:
        rows = pieces.mapped(lambda claims: claims.sort_by("record_key"), claims_of(table))
        row_writer.replace(table, rows, "arrival_date", arrivals, app_id, LAYOUT)


def about(lake: Lake, source: str, columns: Sequence[str], keys: Collection[str] | pa.Array) -> pa.Table | None:
    """The ``columns`` of the claims about ``keys``; None if there is no log."""
    table = locations.key_log(lake, source).open()
    if table is None:
        return None
    return _about(table, columns, keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string()))


def _about(table: DeltaTable, columns: Sequence[str], keys: pa.Array) -> pa.Table:
    if len(keys) > FEW_KEYS:  # they are in every row group
        return typed(table_io.read_version(table, columns, {"record_key": keys}))
    return typed(data_files.with_texts(table, columns, "record_key", keys))


def about_keys_with(lake: Lake, source: str, columns: Sequence[str], where: table_io.Where) -> Iterator[pa.Table]:
    """All claims about those keys that have a claim which meets ``where``, in pieces: a piece has all claims about its keys."""
    table = locations.key_log(lake, source).open()
    if table is None:
        return
    keys = _at_most(table, where, _RANGE_ROWS)
    if keys is not None:
        yield _about(table, columns, keys)
        return
    asked = list(dict.fromkeys([*columns, "record_key", *where]))
    for piece in data_files.in_ranges(table, asked, "record_key", _RANGE_ROWS):
        met = table_io.meeting(piece, where)
        if len(met) < len(piece):
            piece = piece.filter(pc.is_in(piece["record_key"], pc.unique(met["record_key"])))  # noqa: PLW2901
        yield typed(piece.select(list(columns)))


def keys_at_most(lake: Lake, source: str, where: table_io.Where, count: int) -> pa.Array | None:
    """The keys of the claims that meet ``where``; None if there are more than ``count``."""
    table = locations.key_log(lake, source).open()
    return pa.array([], pa.string()) if table is None else _at_most(table, where, count)


def _at_most(table: DeltaTable, where: table_io.Where, count: int) -> pa.Array | None:
    keys = pa.array([], pa.string())
    for piece in table_io.pieces_of_version(table, ["record_key"], where):
        keys = pc.unique(pa.chunked_array([keys, *piece["record_key"].chunks], pa.string()))
        if len(keys) > count:
            return None
    return keys


def days_of(lake: Lake, source: str, keys: pa.Array) -> set[date]:
    """Every event day on which one of the keys has ever had a record: where silver may hold a copy of it."""
    log = about(lake, source, ["event_date"], keys)
    return set() if log is None else {day for day in pc.unique(log["event_date"]).to_pylist() if day is not None}


def days_by_key(lake: Lake, source: str, keys: Collection[str]) -> dict[str, set[date]]:
    """The event days of :func:`days_of` for each of a few keys."""
    log = about(lake, source, ["record_key", "event_date"], keys)
    result: dict[str, set[date]] = {key: set() for key in keys}
    places = [] if log is None else log.group_by(["record_key", "event_date"]).aggregate([]).to_pylist()
    for place in places:
        if place["event_date"] is not None:
            result[place["record_key"]].add(place["event_date"])
    return result


def arrival_days_of(lake: Lake, source: str, keys: Collection[str] | pa.Array) -> set[date]:
    """The arrival days of all claims about ``keys``."""
    log = about(lake, source, ["arrival_date"], keys)
    return set() if log is None else set(pc.unique(log["arrival_date"]).to_pylist())


def arrival_days_with_rows_on(lake: Lake, source: str, days: Collection[date]) -> set[date]:
    """The arrival days of all claims on ``days``."""
    log = locations.key_log(lake, source).read(["arrival_date"], {"event_date": days})
    return set() if log is None else set(pc.unique(log["arrival_date"]).to_pylist())


def days(lake: Lake, source: str) -> set[date]:
    """The event days of all claims."""
    log = locations.key_log(lake, source).distinct(["event_date"], None)
    return set() if log is None else {day for day in log["event_date"].to_pylist() if day is not None}


def keys_and_days(
    lake: Lake, source: str, ingestion_id: Collection[str], arrival_date: Collection[date]
) -> tuple[pa.Array, set[date]]:
    """The keys about which the ingestions ``ingestion_id`` make claims, and the event days of these claims.

    :param arrival_date: the arrival days of the ingestions; files with claims of other days are not read.
    """
    where = {"ingestion_id": ingestion_id, "arrival_date": arrival_date}
    columns = ["record_key", "event_date"]
    log = locations.key_log(lake, source).distinct(columns, where)
    if log is None:
        return pa.array([], pa.string()), set()
    return pc.unique(log["record_key"]), {day for day in pc.unique(log["event_date"]).to_pylist() if day is not None}


def keys_of(lake: Lake, source: str, ingestion_ids: Collection[str]) -> pa.Array:
    """The keys about which the ingestions ``ingestion_ids`` make claims."""
    where = {"ingestion_id": sorted(ingestion_ids)}
    log = locations.key_log(lake, source).read(["record_key"], where)
    return pa.array([], pa.string()) if log is None else pc.unique(log["record_key"])


def retired_arrival_days(lake: Lake, source: str, ingestion_ids: set[str]) -> set[date]:
    """The arrival days of all claims about those keys of the ingestions that a record has retired.

    A retirement can revive an older row of its key or end a newer one, so that the rows of all these days may be needed. Most
    sources have no retirements.
    """
    stored = locations.key_log(lake, source)
    retirements = stored.read(["record_key"], {"kind": ["retire"]})
    if retirements is None or not len(retirements):
        return set()
    log = about(lake, source, ["record_key", "ingestion_id", "arrival_date"], pc.unique(retirements["record_key"]))
    if log is None:
        return set()
    spoken_of = pc.unique(log.filter(pc.is_in(log["ingestion_id"], pa.array(sorted(ingestion_ids))))["record_key"])
    return set(pc.unique(log.filter(pc.is_in(log["record_key"], spoken_of))["arrival_date"]).to_pylist())
