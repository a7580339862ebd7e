"""Claims as tables, and what became of their rows as objects, for tests of the rules on sets of claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.dispositions import deliveries, winners
from lakehouse.ledger import key_log
from lakehouse.ledger.ids import row_id_of
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineReason
from lakehouse_tests.support.row_by_row import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.dispositions.reprocess_policy import Choice, ReprocessPolicy
    from lakehouse.ledger.ids import RowId
    from lakehouse_tests.support.row_by_row import Claim


def claims_table(claims_by_key: Mapping[str, Sequence[Claim]]) -> pa.Table:
    """Claims of admitted rows as a key log has them, with the steward's verdict, which there is none of."""
    rows = [
        {
            "record_key": key,
            "kind": claim.kind,
            "event_date": claim.event_date,
            "source_sequence": claim.sequence,
            "source_order": claim.source_order,
            "arrival_ts": claim.arrival_ts,
            "ingestion_id": claim.ingestion_id,
            "line_number": claim.line_number,
            "standing": AdmissionStatus.ADMITTED.value,
        }
        for key, claims in claims_by_key.items()
        for claim in claims
    ]
    table = ordered_by_file(pa.Table.from_pylist(rows, schema=key_log.SCHEMA))
    return table.append_column("steward", pa.nulls(len(rows), pa.string()))


def ordered_by_file(claims: pa.Table, again: Mapping[str, datetime] | None = None) -> pa.Table:
    """Claims in the order of their deliveries, which is that of the names of their ingestions.

    :param again: when some of them were delivered again.
    """
    names = sorted(set(claims["ingestion_id"].to_pylist()))
    times = [(again or {}).get(name) for name in names]
    return deliveries.ordered(claims, pa.table([names, range(len(names)), times, [None] * len(names)], schema=deliveries.SCHEMA))


def dispose(
    policy: ReprocessPolicy,
    claims_by_key: Mapping[str, Sequence[Claim]],
    content: Mapping[RowId, Any],
    chosen: Mapping[date, Choice] | None = None,
) -> dict[RowId, Outcome]:
    """What became of the rows of admitted claims.

    :param content: the content of rows, which is compared as text.
    """
    table = claims_table(claims_by_key)
    texts = sorted({str(one) for one in content.values()})
    numbers = {row_id: texts.index(str(one)) for row_id, one in content.items()}

    def contents(of_claims: pa.Table) -> pa.Array:
        return pa.array([numbers.get(row_id_of(row)) for row in of_claims.to_pylist()], pa.int64())

    return outcomes_of(winners.dispositions(table, policy, chosen or {}, contents))


def outcomes_of(disposed: pa.Table) -> dict[RowId, Outcome]:
    """The rows of ``contests.dispositions`` as objects; each row is there once."""
    result = {}
    for row in disposed.to_pylist():
        rival = (row["outranked_by_ingestion"], row["outranked_by_line"])
        result[row_id_of(row)] = Outcome(
            Disposition(row["disposition"]),
            row["because"],
            None if rival == (None, None) else rival,
            row["lives"],
            AdmissionStatus(row["admission"]),
            row["reason"] and QuarantineReason(row["reason"]),
            row["detail"],
        )
    assert len(result) == len(disposed)
    return result
