"""Follows silver's log: the audit rows of each commit, computed from its change feed.

The rows are computed in ``audit_rows``, and stored, read and masked in ``audit_log``. The reason for a commit is taken from its
metadata.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations, pieces
from lakehouse.delta import change_feed, commit_log, lost_commits
from lakehouse.lateness import history as lateness_history
from lakehouse.ledger import ingestions, redactions
from lakehouse.silver import audit_erasure, audit_log
from lakehouse.silver.audit_rows import AuditedCommit, audit_rows, needed_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

_log = logging.getLogger(__name__)
#: Up to this many newest versions without audit rows are read again each time; for more, an empty commit records the version.
_LOOKED_AT_AGAIN = 8


def follow(lake: Lake, contract: SourceContract, metrics: Collection[MetricContract]) -> int:
    """Audit every version of silver that has not been audited yet, each in one commit.

    :returns: the number of rows written.
    """
    lake = lake.cached()
    source = contract.dataset
    table = locations.silver(lake, source).open()
    if table is None:
        return 0
    silver_id, newest = lost_commits.identity(table), table.version()
    done = audit_log.followed(lake, source, silver_id)
    if done >= newest:
        return 0
    known = redactions.all_of(lake, source)  # read after the table: it contains all redactions that the commits list
    commits = {commit["version"]: commit for commit in commit_log.history(table, done)}
    lost = newest - done - len(commits)
    entries = ingestions.ingested(ingestions.all_of(lake, source)).values()
    firsts, since = _first_arrivals(entries), lateness_history.followed_since(entries)
    written, marked = 0, done
    for version, commit in sorted(commits.items()):
        cause = audit_log.cause(lake, source, commit_log.commit_metadata(commit), known)
        audited = AuditedCommit(contract, metrics, cause, known, version, lake.now(), firsts, since)
        try:
            rows = pa.concat_tables(
                audit_rows(part, audited) for part in pieces.counted("changes audited", _parts(table, contract, version))
            )
        except change_feed.ForgottenFeedError:
            lost += 1
            continue
        if len(rows):
            written += audit_log.append(lake, source, silver_id, version, rows, len(known))
            marked = version
    if lost:
        _log.warning("%d versions of silver/%s are gone from its log or its files: they are not audited", lost, source)
    if newest - marked > _LOOKED_AT_AGAIN:
        audit_log.append(lake, source, silver_id, newest, audit_log.SCHEMA.empty_table())
    audit_erasure.erase(lake, source)  # redactions recorded during this run, or by a process that was stopped before it erased
    return written


def _parts(table: DeltaTable, contract: SourceContract, version: int) -> Iterator[pa.Table]:
    """The change feed of a version in parts, see ``change_feed.parts_of_feed``.

    :raises ForgottenFeedError: when its files are gone.
    """
    columns = needed_columns(contract, [*(field.name for field in table.schema().fields), "_change_type"])
    return change_feed.parts_of_feed(table, version, version, columns)


def _first_arrivals(entries: Collection[Ingestion]) -> pa.Table:
    """The first arrival day of each event day, from the ledger: all rows in silver belong to recorded ingestions."""
    brought = {
        (day, entry.arrival_date) for entry in entries for day, rows in zip(entry.touched_days, entry.touched_rows) if rows
    }
    days, arrivals = ([pair[place] for pair in brought] for place in range(2))
    return lateness_history.first_arrivals(pa.table([days, arrivals], schema=lateness_history.FIRST_ARRIVALS))
