"""The rows of files that the contract's cutoff holds: quarantined or dropped rows without a decision.

This module only reads. A backfill that admits history requests their reassessment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.dispositions import claims
from lakehouse.ledger import decisions
from lakehouse.ledger.row_states import QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.lake import Lake

_COLUMNS = ["ingestion_id", "line_number", "record_key", "event_date"]


def of_files(lake: Lake, source: str, ids: Collection[str]) -> pa.Table:
    """The claims of the held rows: ``ingestion_id``, ``line_number``, ``record_key``, ``event_date``.

    :param ids: the ingestions of the files.
    """
    where = {"ingestion_id": ids, "reason": [QuarantineReason.BEYOND_WATERMARK.value]}
    stored = locations.key_log(lake, source)
    held = stored.read([*_COLUMNS, "kind"], where) if ids else None
    if held is None or not len(held):
        return pa.table({name: pa.array([], pa.string()) for name in _COLUMNS})
    held = held.filter(pc.not_equal(held["kind"], "retire")).drop_columns(["kind"])
    undecided = pc.is_null(claims.with_decisions(held, decisions.in_force(lake, source))["steward"])
    return held.filter(undecided)
