"""The inputs of numbers and the causes of their changes: what Silver contained, and late rows that count now.

Inputs are ingestions, decisions and redactions. A revision names its inputs, so that it can be reproduced (rule R10) and its
changes can be explained.

A day of a metric with late events may change although silver has not: by its close, or by decisions of stewards. Belongs here:
how many late rows count now that did not, by day, and in whose words. Which numbers count every row is the rule of
``late_at_close``.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import days_reached, source_days
from lakehouse.delta import commit_log, provenance
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.lifecycle import REASONS_BY_PRECEDENCE, RevisionReason
from lakehouse.gold.publication import late_at_close
from lakehouse.gold.restatement import silver_tables
from lakehouse.lake import table_io, table_parts
from lakehouse.late_events import left_out
from lakehouse.ledger import applied_inputs, decisions, ingestions, late_decisions, rebuild_requests, redactions
from lakehouse.ledger.ids import is_manual_input
from lakehouse.ledger.row_states import QuarantineStatus
from lakehouse.snapshots import input_sets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.publication.write_audit_publish import SeriesSnapshot
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.ledger.late_decisions import LateDecision

_FILES_SHOWN = 20
_LOOK_BACK = 20


@dataclass(frozen=True)
class SilverInputs:
    """The inputs of one version of Silver: the ids of all known inputs, and per day the ids of those not yet applied.

    :param others: the inputs of each further source and of each dimension that a metric joins.
    """

    ids: frozenset[str]
    lacking: Mapping[date, frozenset[str]]
    delivered: Mapping[str, Ingestion]
    silver_version: int
    others: Mapping[str, SilverInputs] = field(default_factory=dict)

    def with_every_row(self) -> SilverInputs:
        """The inputs of a number that counts every row, however late it came."""
        return replace(self, ids=self.ids | {late_decisions.EVERY_ROW})

    def without(self, days: Collection[date]) -> dict[str, list[str]]:
        """The inputs that the Silver ``days`` lack, in the stored form."""
        return {f"{day}": sorted(self.lacking[day]) for day in sorted(days) if self.lacking.get(day)}

    def by_day(self, days: Collection[date]) -> dict[date, frozenset[str]]:
        """The inputs that each of the Silver ``days`` contains."""
        return {day: self.ids - self.lacking.get(day, frozenset()) for day in days}

    def known_through(self, days: Collection[date]) -> date | None:
        """The newest arrival day whose files all of these days contain."""
        lacking = frozenset().union(*(self.lacking.get(day, frozenset()) for day in days))
        return max((entry.arrival_date for one, entry in self.delivered.items() if one not in lacking), default=None)


@dataclass(frozen=True)
class Trigger:
    """The causes of commits of Silver: files, decisions, redactions, rebuild requests.

    :param remade: the Silver days that a rebuild request computed again, with the reason for their numbers.
    """

    files: list[str] = field(default_factory=list)
    ingestions: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)
    remade: Mapping[date, RevisionReason] = field(default_factory=dict)

    def __add__(self, other: Trigger) -> Trigger:
        """The causes of the commits of two tables; for a day that was computed again in both, the more serious reason applies."""
        reasons = {
            day: {one.remade[day] for one in (self, other) if day in one.remade} for day in {**self.remade, **other.remade}
        }
        return Trigger(
            sorted([*self.files, *other.files]),
            sorted({*self.ingestions, *other.ingestions}),
            sorted({*self.by_hand, *other.by_hand}),
            {day: next(reason for reason in REASONS_BY_PRECEDENCE if reason in own) for day, own in reasons.items()},
        )

    def as_json(self) -> dict[str, Any]:
        """The trigger as it is stored with a publication."""
        return {
            "files": self.files[:_FILES_SHOWN],
            "files_in_all": len(self.files),
            "ingestions": self.ingestions,
            "by_hand": self.by_hand,
        }


def of_silver(lake: Lake, contract: SourceContract) -> SilverInputs:
    """The inputs of the present version of a silver table, given by its contract."""
    source = contract.dataset
    table = locations.silver_of(lake, contract).open()
    version = -1 if table is None else table.version()
    delivered = ingestions.inputs(ingestions.all_of(lake, source))
    manual = {
        *decisions.touched(lake, source),
        *redactions.touched(lake, source),
        *rebuild_requests.touched(lake, source),
    }
    lacking: dict[date, set[str]] = {day: set(ids) for day, ids in applied_inputs.pending(lake, source).items()}
    if lacking and table is not None:
        # A run that was stopped after its commit has not recorded the inputs that Silver contains since.
        metadata = (commit_log.commit_metadata(commit) for commit in commit_log.history(table, max(-1, version - _LOOK_BACK)))
        why = next((one for one in metadata if commit_log.DAYS in one), {})  # a later compaction has none
        for day in lacking.keys() & set(map(date.fromisoformat, why.get(commit_log.DAYS, ()))):
            lacking[day] -= set(why.get("ingestions", ()))
    return SilverInputs(
        frozenset({*delivered, *manual}), {day: frozenset(ids) for day, ids in lacking.items() if ids}, delivered, version
    )


def record(lake: Lake, source: str, basis: SilverInputs) -> str:
    """Store a set of inputs under its name."""
    return input_sets.record(lake, source, basis.ids, lake.now())


def ids_by_day(lake: Lake, source: str, name: str, without: str | None, days: Collection[date]) -> dict[date, set[str]]:
    """The inputs of each of the Silver ``days``, as a revision names them.

    :raises UnknownInputsError: if they were never recorded.
    """
    ids = input_sets.ids_of(lake, source, name)
    lacking = json.loads(without or "{}")
    return {day: ids - set(lacking.get(f"{day}", ())) for day in days}


def of_metric(lake: Lake, metric: MetricContract, contract: SourceContract) -> SilverInputs:
    """The inputs of the present versions of the silver tables of a metric's sources, and of the intervals of its dimensions.

    :param contract: of that silver table.
    """
    further = {entry.source: entry.read_of(metric.further_sources[entry.source]) for entry in metric.sources[1:]}
    others = {name: of_silver(lake, other) for name, other in {**further, **metric.dimensions}.items()}
    own = of_silver(lake, contract) if metric.late_source is None else of_late_source(lake, metric.late_source)
    return replace(own, others=others)


def of_late_source(lake: Lake, contract: SourceContract) -> SilverInputs:
    """The inputs of a metric with late events: those of silver, and the decisions about rows that came too late.

    :param contract: of the silver table that the metric reads.
    """
    of_table = of_silver(lake, contract)
    return replace(of_table, ids=of_table.ids | late_decisions.ids(lake, contract.dataset))


def named_now(
    lake: Lake, metric: MetricContract, days: Collection[date], made_from: SilverInputs | None = None
) -> dict[date, frozenset[str]]:
    """The inputs of each Silver day from which the numbers of ``days`` are computed; empty for a metric without late events.

    :param made_from: the inputs of the silver table that the metric reads, if they are already known.
    """
    if metric.late_source is None:
        return {}
    return (made_from or of_late_source(lake, metric.late_source)).by_day(source_days(metric, days))


def record_others(lake: Lake, metric: MetricContract, basis: SilverInputs) -> str | None:
    """Store the inputs of further sources and dimensions; returns, in the stored form, their names, missing inputs, and
    contracts.

    The contract of a further source is the one under which its silver was built.
    """
    in_silver = {name: provenance.newest_in_silver(lake, name)["contract"] for name in metric.further_sources}
    contracts = {**metric.further_sources, **metric.dimensions}
    stored = {
        name: {
            "inputs": record(lake, name, inputs),
            "without": inputs.without(inputs.lacking),
            "contract": in_silver.get(name) or provenance.of_contract(contracts[name]),
        }
        for name, inputs in basis.others.items()
    }
    return published_table.text(stored)


def trigger(lake: Lake, contract: SourceContract, first: int, last: int) -> Trigger:
    """The causes of versions ``first`` through ``last`` of a silver table, given by its contract, from its log."""
    source = contract.dataset
    table = locations.silver_of(lake, contract).open()
    if table is None or first > last:
        return Trigger()
    history = [commit for commit in commit_log.history(table, first - 1) if commit["version"] <= last]
    ids = {input_id for commit in history for input_id in commit_log.commit_metadata(commit).get("ingestions", ())}
    by_hand = sorted(filter(is_manual_input, ids))
    files = ids - set(by_hand)
    known = ingestions.inputs(ingestions.all_of(lake, source)) if files else {}
    requests = [entry for entry in rebuild_requests.all_of(lake, source) if entry.operation_id in by_hand] if by_hand else []
    requests.sort(key=lambda entry: entry.operation in rebuild_requests.REPLAYS)  # the more serious reason applies
    return Trigger(
        sorted(known[input_id].source_file for input_id in files if input_id in known),
        sorted(files),
        by_hand,
        {day: RevisionReason(entry.published_as) for entry in requests for day in entry.touched_days},
    )


def is_counted(metric: MetricContract) -> bool:
    """Whether the logs record how many rows the number of a day covers: not for windows that span midnight."""
    return metric.days_behind == 0


def count_silver_rows(
    lake: Lake, metric: MetricContract, days: Collection[date], with_every_row: Collection[date] = ()
) -> dict[date, int]:
    """How many Silver rows the number of each day covers, taken from the logs: without duplicates of several sources, and
    without rows that came too late.

    None are counted for metrics that are not :func:`is_counted`.

    :param with_every_row: the days whose number counts every row, however late it came.
    """
    held = [table for _, table in silver_tables.tables_read(lake, metric) if table is not None]
    if not held or not days or not is_counted(metric):
        return {}
    counts: Counter[date] = Counter()
    every_day = source_days(metric, days)
    for table in held:
        counts.update(table_parts.rows(table, table_io.files_with(table, {"event_date": every_day})))
    counts.subtract(silver_tables.count(lake, metric, every_day))
    uncounted, limited = Counter[date](), set(days).difference(with_every_row)
    if metric.late_source is not None and limited:
        uncounted.update(left_out.count_difference(lake, metric, metric.late_source, named_now(lake, metric, limited)))
    return {
        day: sum(counts[covered] - (uncounted[covered] if day in limited else 0) for covered in source_days(metric, [day]))
        for day in days
    }


def known_through(sources: Collection[SilverInputs], days: Collection[date]) -> date | None:
    """The newest arrival day whose files all of these days contain, in the source that has delivered least far."""
    known = [newest for inputs in sources if (newest := inputs.known_through(days)) is not None]
    return min(known, default=None)


def undecided_of_metric(lake: Lake, metric: MetricContract, days: Collection[date]) -> Counter[date]:
    """The number of rows of each of ``days`` that wait for a steward, in the sources whose rows are required."""
    rows: Counter[date] = Counter()
    for entry in metric.read:
        rows.update(undecided(lake, entry.source, days) if entry.required else {})
    return rows


def undecided(lake: Lake, source: str, days: Collection[date] | None = None) -> dict[date, int]:
    """The number of rows of each event day, or of each of ``days``, that wait for a steward's decision."""
    where: dict[str, Collection[Any]] = {"quarantine_status": [QuarantineStatus.OPEN.value]}
    where |= {} if days is None else {"event_date": list(days)}
    table = locations.quarantine(lake, source).read(["event_date"], where)
    if table is None:
        return {}
    counts = table.group_by("event_date").aggregate([("event_date", "count")])
    return dict(zip(counts["event_date"].to_pylist(), counts["event_date_count"].to_pylist()))


#: The cause of rows that came too late, and count now that their day is final.
AT_CLOSE = "counted_at_close"

LATE_WORDS = "came too late, and count now that the day is closed"

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


def late_causes_of_days(
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
