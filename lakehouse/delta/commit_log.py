"""What the commits of a table say of themselves, and copying that into a table of the ledger, each commit once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.delta import table_io
from lakehouse.delta.delta_rs_internals import newest_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deltalake import DeltaTable

    from lakehouse.settings import Settings

    _Row = dict[str, Any]


def why(commit: Mapping[str, Any]) -> dict[str, Any]:
    """Why a commit was made, as its writer said in its metadata; what is no JSON object was written by somebody else."""
    try:
        said = json.loads(commit.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def history(table: DeltaTable, after: int) -> list[dict[str, Any]]:
    """The commits behind version ``after`` up to the table's own, newest first; older ones that the log has forgotten lack.

    delta-rs itself begins with the newest commit of the log, and counts down from the version at which the table was opened:
    where others have committed since, each commit would get the number of an older one.
    """
    own, before = table.version(), -1
    while before != (newest := newest_version(table)):
        before = newest
        found = table.history(newest - after) if newest > after else []
    told = [commit | {"version": newest - place} for place, commit in enumerate(found)]
    return [commit for commit in told if after < commit["version"] <= own]


def copy(
    settings: Settings, followed: str, ledger: str, app_id: str, schema: pa.Schema, row_of: Callable[[_Row, _Row], _Row | None]
) -> int:
    """Write a row for each commit that has none in the ledger yet; also where several processes do so at once.

    :param followed: the address of the table whose commits are told of.
    :param app_id: the Delta transaction of the ledger table whose number is the version that was come to.
    :param row_of: the row of a commit and what it says of itself; None where it says nothing of the kind.
    :returns: how many rows were written.
    """
    options, written = settings.storage_options, 0
    table = table_io.open_table(followed, options)
    if table is None:
        return 0
    (partition, *_) = schema.names
    while True:
        own = table_io.open_table(ledger, options)
        done = (own.transaction_version(app_id) if own is not None else None) or 0
        made = [row_of(commit, why(commit)) for commit in history(table, done)]
        rows = sorted((row for row in made if row is not None), key=lambda row: row["gold_version"])
        if not rows:
            return written
        found, version = pa.Table.from_pylist(rows, schema=schema), table.version()
        if table_io.append(
            ledger, found, options=options, partition_by=[partition], app_id=app_id, app_version=version, since=done
        ):
            written += len(rows)  # else another process has told of some of them meanwhile
