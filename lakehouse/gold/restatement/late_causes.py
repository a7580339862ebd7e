"""Why a day of a metric with late events changes although silver has not: its close, and decisions of stewards.

Belongs here: how many late rows count now that did not, by day, and in whose words. Which numbers count every row is the rule of
``late_at_close``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse.contracts.series import days_reached, source_days
from lakehouse.gold.publication import late_at_close
from lakehouse.late_events import left_out
from lakehouse.ledger import late_decisions
from lakehouse.snapshots import input_sets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from lakehouse.contracts.series import Series
    from lakehouse.gold.publication.write_audit_publish import SeriesSnapshot
    from lakehouse.gold.restatement.lineage import SilverInputs
    from lakehouse.lake import Lake
    from lakehouse.ledger.late_decisions import LateDecision

#: The cause of rows that came too late, and count now that their day is final.
AT_CLOSE = "counted_at_close"
WORDS = "came too late, and count now that the day is closed"
_LATENESS_CHANGED = "lateness_changed"


@dataclass(frozen=True)
class LateCauses:
    """What concerns the late rows of some days.

    :param with_every_row: the days whose number counts every row, however late it came.
    :param at_close: how many rows that came too late count in a day because it is closed now.
    :param decided: what stewards have decided since the published number, in words.
    :param rows_decided: about how many rows that was.
    """

    with_every_row: frozenset[date] = frozenset()
    at_close: Mapping[date, int] = field(default_factory=dict)
    decided: Mapping[date, Sequence[str]] = field(default_factory=dict)
    rows_decided: Mapping[date, int] = field(default_factory=dict)

    def with_causes(self, day: date, causes: Counter[str]) -> Counter[str]:
        """What happened to the rows of a day, with the late rows."""
        added = Counter(causes)
        if day in self.at_close:
            added[AT_CLOSE] = self.at_close[day]
        if day in self.rows_decided:
            added[_LATENESS_CHANGED] = self.rows_decided[day]
        return added


def of_days(
    lake: Lake, before: SeriesSnapshot, made_from: SilverInputs, days: Collection[date], closing: Collection[date]
) -> LateCauses:
    """What concerns the late rows of some days.

    :param made_from: of the silver table that the metric reads.
    :param closing: the days whose next number is final.
    """
    series = before.series
    if series.metric.late_source is None:
        return LateCauses()
    every = late_at_close.counting_every_row(lake, series, before.existing, closing)
    closed_before = late_at_close.counting_every_row(lake, series, before.existing)
    at_close = _left_out(lake, series, made_from, every.intersection(days) - closed_before)
    decided = _decided_since(lake, before, made_from, days)
    return LateCauses(
        frozenset(every),
        at_close,
        {day: _in_words(of_day) for day, of_day in decided.items()},
        {day: len(of_day) for day, of_day in decided.items()},
    )


def _left_out(lake: Lake, series: Series, made_from: SilverInputs, days: Collection[date]) -> dict[date, int]:
    """How many rows have not counted so far in each of some days; days without one are left out."""
    metric, contract = series.metric, series.metric.late_source
    rows: dict[date, int] = {}
    if contract is None or not days:
        return rows
    suspects: set[date] = set()
    for ids, alike in left_out.days_alike(made_from.by_day(source_days(metric, days))).items():
        late = left_out.on_days(lake, metric, contract, alike, ids)
        suspects |= late.days if late is not None else set()
    for day in days_reached(metric, suspects).intersection(days):
        ids_of_rows: set[tuple[str, int]] = set()
        for ids, alike in left_out.days_alike(made_from.by_day(source_days(metric, [day]))).items():
            late = left_out.on_days(lake, metric, contract, alike, ids)
            if late is not None:
                ids_of_rows.update(zip(late.rows["ingestion_id"].to_pylist(), late.rows["line_number"].to_pylist()))
        if ids_of_rows:
            rows[day] = len(ids_of_rows)
    return rows


def _decided_since(
    lake: Lake, before: SeriesSnapshot, made_from: SilverInputs, days: Collection[date]
) -> dict[date, list[LateDecision]]:
    """The decisions about rows that concern each day, and that its published number does not know."""
    metric, by = before.series.metric, before.series.by
    decided = late_decisions.of_metric(lake, metric.source, metric.name)
    every = [decision for decision in decided if decision.decision_id in made_from.ids]
    if not every or before.existing is None:
        return {}
    newest = before.existing.filter(pc.equal(before.existing["is_latest"], True)).select([by, "inputs"])
    named = {row[by]: row["inputs"] for row in newest.to_pylist() if row["inputs"]}
    known = {name: input_sets.ids_of(lake, metric.source, name) for name in set(named.values())}
    since: dict[date, list[LateDecision]] = {}
    for decision in every:
        for day in days_reached(metric, decision.touched_days).intersection(days):
            if day in named and decision.decision_id not in known[named[day]]:
                since.setdefault(day, []).append(decision)
    return since


def _in_words(decided: Sequence[LateDecision]) -> list[str]:
    """What stewards have decided, in the order of their decisions."""
    rows = Counter((one.counts, one.by, one.reason) for one in decided)
    return [
        f"{number:,} late {'row' if number == 1 else 'rows'} {'admitted' if counts else 'left out again'} by {by} ({reason})"
        for (counts, by, reason), number in rows.items()
    ]
