"""Commits of Silver written by delta-rs, for tests of what reads Silver's log: the audit, notices, maintenance."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse import locations
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: The source whose Silver is written.
EVENTS = contract()
#: Key, day of February and amount.
NewRow = tuple[str, int, int]


def append_to_silver(lake: Lake, *rows: NewRow, late: int = 5, source: SourceContract = EVENTS, **metadata: Any) -> int:
    """Append rows to Silver in one commit.

    :param late: days between event and arrival.
    :param metadata: more of the commit's user metadata.
    :returns: the version of the commit.
    """
    content = []
    for key, day, amount in rows:
        event = datetime(2024, 2, day, 12, tzinfo=timezone.utc)
        identity = {"record_key": key, "id": key, "amount": amount, "event_ts": event, "event_date": event.date()}
        content.append({**identity, "source_system": "shop", "arrival_ts": event + timedelta(days=late), "change_op": "insert"})
    table = locations.silver(lake, source.dataset)
    user_metadata = json.dumps({"run_id": "run", "method": "merge", "ingestions": ["x"], **metadata})
    write_deltalake(
        table.address,
        pa.Table.from_pylist(content, schema=arrow_schema(silver_columns(source))),
        mode="append",
        partition_by=["event_date"],
        configuration={"delta.enableChangeDataFeed": "true"},
        commit_properties=CommitProperties(custom_metadata={"userMetadata": user_metadata}),
    )
    return DeltaTable(table.address).version()
