"""The number of rows per event day that do not count because they, or other rows of their keys, came too late; without Spark.

An independent count for the check that no row was lost (``gold.publication.checks``). Which rows came too late is decided in
``left_out``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.dispositions import claims, deliveries, winners
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.winners import positions
from lakehouse.late_events import left_out
from lakehouse.ledger import decisions, key_log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


def count(lake: Lake, metric: MetricContract, contract: SourceContract, named: Mapping[date, Collection[str]]) -> Counter[date]:
    """The rows that silver has in excess of those that count in a metric, by event day; negative if an older version of a row
    counts again.

    :param contract: of the silver table that the metric reads.
    :param named: the inputs of each of the days.
    """
    more: Counter[date] = Counter()
    for ids, days in left_out.days_alike(named).items():
        late = left_out.on_days(lake, metric, contract, days, ids)
        claimed = None if late is None else key_log.about(lake, contract.dataset, [*winners.RANKED, "standing"], late.keys)
        if late is None or claimed is None:
            continue
        counting = claimed.filter(pc.is_in(claimed["ingestion_id"], pa.array(sorted(ids), pa.string())))
        counting = deliveries.ordered(counting, deliveries.of(lake, contract, ids))
        counting = claims.with_decisions(counting, decisions.in_force(lake, contract.dataset, ids))
        counting = counting.filter(claims.are_admitted(counting))
        punctual = counting.filter(pc.is_null(positions(counting, late.rows)))
        both = Counter(_living(contract, counting))
        both.subtract(_living(contract, punctual))
        more.update({day: rows for day, rows in both.items() if day in late.days})
    return more


def _living(contract: SourceContract, admitted: pa.Table) -> Counter[date]:
    """The number of rows that the admitted claims put into silver, by event day."""
    policy = policy_of(contract)
    won = admitted
    if policy.keys_contend:
        won = winners.winners(admitted, by_sequence=policy.by_sequence, each_day=policy.contends_per_day)
    living = won.filter(pc.is_in(won["kind"], value_set=pa.array(winners.LIVING_KINDS)))
    days = pc.value_counts(living["event_date"])
    return Counter(dict(zip(days.field("values").to_pylist(), days.field("counts").to_pylist())))
