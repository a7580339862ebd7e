"""Bronze rows written by delta-rs, for tests of what is derived from arrivals: lateness, alerts, completeness."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse import locations
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.ledger import key_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


def bronze_row(arrived: datetime, lag: timedelta | None, **columns: Any) -> dict[str, Any]:
    """A row that arrived ``lag`` after its event; None: it has no event time."""
    happened = None if lag is None else arrived - lag
    known = {"event_ts": happened, "event_date": happened and happened.date(), "change_op": "insert"}
    return {"arrival_ts": arrived, "arrival_date": arrived.date(), **known, **columns}


def append_to_bronze(lake: Lake, contract: SourceContract, rows: Iterable[dict[str, Any]]) -> None:
    """Append rows to Bronze, in one commit."""
    table = pa.Table.from_pylist(list(rows), schema=arrow_schema(bronze_columns(contract)))
    write_deltalake(locations.bronze(lake, contract.dataset).address, table, mode="append", partition_by=["arrival_date"])


def append_claims(lake: Lake, source: str, claims: Iterable[dict[str, Any]]) -> None:
    """Append claims to the key log, in one commit."""
    table = pa.Table.from_pylist(list(claims), schema=key_log.SCHEMA)
    key_log.append(lake, source, {*table["ingestion_id"].to_pylist()}, {*table["arrival_date"].to_pylist()}, lambda: [table])


def rows_every(minutes: int, begin: datetime, end: datetime, lag: timedelta, **columns: Any) -> list[dict[str, Any]]:
    """A row every ``minutes``, from ``begin`` through ``end``."""
    count = (end - begin) // timedelta(minutes=minutes)
    return [bronze_row(begin + number * timedelta(minutes=minutes), lag, **columns) for number in range(count + 1)]


def at(day: date, hour: int = 0, minute: int = 0) -> datetime:
    """A time of a day (UTC)."""
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=timezone.utc)
