"""The rows that make given claims, as silver holds them: in force, well formed, and with redacted fields empty.

Which claims win is decided in ``contests`` and ``claims``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions.readings import in_force
from lakehouse.dispositions.row_groups import positions
from lakehouse.ledger import redactions

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


def read(
    settings: Settings,
    contract: SourceContract,
    arrival_days: Collection[date] | pa.Array,
    won: pa.Table,
    ids: Collection[str] | None = None,
) -> pa.Table:
    """Silver's columns of the rows that make the claims ``won``, as far as ``arrival_days`` contain them.

    :param won: the claims, with the columns of a row's id and its key.
    :param ids: count only the readings among these inputs (R10).
    """
    schema = arrow_schema(silver_columns(contract))
    # By key too: the winner of a key may have come in a large file of the same arrival day.
    where = {"arrival_date": arrival_days, **{name: pc.unique(won[name]) for name in ("ingestion_id", "record_key")}}
    rows = in_force.read(settings, contract.dataset, [*schema.names, "malformed_reason"], where, ids)
    if rows is None:
        return schema.empty_table()
    is_wanted = pc.and_(pc.is_null(rows["malformed_reason"]), pc.is_valid(positions(rows, won)))
    return redactions.applied(rows.filter(is_wanted).select(schema.names), redactions.keys_by_field(settings, contract.dataset))
