"""``ops/failed_numbers``: the numbers that cannot be computed from their rows, with the reasons.

The number of such a period is held: readers see the previous one, if there is one. A period is computed again when its rows
change, and when the contract or the code does. The table has a row for each period that has ever failed; it does not exist if
none has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import provenance, row_writer
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake

#: The check that a number which cannot be computed fails.
COMPUTED = "computed"
_KEYS = ("series", "start")


@dataclass(frozen=True)
class FailedNumber:
    """A period of a series: whether its number still cannot be computed, which measure fails, and why.

    :param explanation: a sentence for people, with the remedy.
    :param measure: None if the failure cannot be assigned to one measure.
    """

    series: str
    start: date
    measure: str | None
    explanation: str
    contract_version: str
    code_version: str
    fails: bool
    run_id: str
    recorded_at: datetime


def log(lake: Lake) -> LogTable[FailedNumber]:
    """The table."""
    return LogTable(FailedNumber, lake, locations.failed_numbers(lake), partition_by="series")


def failing(lake: Lake, series: str, starts: Collection[date] | None = None) -> dict[date, FailedNumber]:
    """The periods of a series whose number cannot be computed, in order.

    :param starts: only these periods.
    """
    entries = log(lake).read({"series": [series]})
    wanted = None if starts is None else set(starts)
    found = {entry.start: entry for entry in entries if entry.fails and (wanted is None or entry.start in wanted)}
    return dict(sorted(found.items()))


def may_pass(lake: Lake, series: Series) -> set[date]:
    """The failing periods that were computed under another contract or with other code than the present one."""
    present = (provenance.of_contract(series.metric), provenance.code())
    entries = failing(lake, series.name)
    return {start for start, entry in entries.items() if (entry.contract_version, entry.code_version) != present}


def record(
    lake: Lake,
    series: Series,
    failed: Mapping[date, tuple[str | None, str]],
    computed: Collection[date],
    run_id: str,
) -> list[date]:
    """Record the numbers that fail, and those that failed before and no longer do; nothing is written if there are neither.

    :param failed: by period, the measure that fails and the explanation.
    :param computed: the periods that the run has computed.
    :returns: the periods that no longer fail.
    """
    known = failing(lake, series.name)
    versions, now = (provenance.of_contract(series.metric), provenance.code()), lake.now()
    entries = [
        FailedNumber(series.name, start, measure, explanation, *versions, True, run_id, now)
        for start, (measure, explanation) in failed.items()
    ]
    mended = sorted(known.keys() & set(computed) - failed.keys())
    entries += [replace(known[start], fails=False, run_id=run_id, recorded_at=now) for start in mended]
    if entries:
        table = log(lake)
        rows = pa.Table.from_pylist([table.to_row(entry) for entry in entries], schema=table.schema)
        row_writer.upsert(table.table, rows, _KEYS, partition_by="series")
    return mended
