"""Updates ``silver/<source>_late`` and the counts of late deliveries from Bronze.

A delivery is classified again when the watermark that it met has changed, because a delivery that had arrived before it was
ingested after it, when the contract of the metric has changed, and when a steward has decided about its late rows. The commits
name the event days whose numbers may differ for that reason: metrics follow them as they follow silver. Every step may be stopped
and repeated.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import commit_log, data_files, layout, partition_writer, row_writer
from lakehouse.dispositions import readings as bronze_readings
from lakehouse.lake import table_io
from lakehouse.lake.delta_rs_internals import transaction_version
from lakehouse.late_events import late_rows, left_out
from lakehouse.late_events.left_out import Deliveries
from lakehouse.ledger import applied_inputs, key_log, late_decisions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: One row for each metric and delivery: the numbers of its well-formed rows on time, late, and too late.
COUNTS = pa.schema(
    [
        ("metric", pa.string()),
        ("ingestion_id", pa.string()),
        ("arrival_date", pa.date32()),
        ("watermark", pa.timestamp("us", "UTC")),
        ("terms", pa.string()),
        ("on_time", pa.int64()),
        ("late_accepted", pa.int64()),
        ("late_dropped", pa.int64()),
    ]
)
_JUDGED = ["record_key", "corrects_key", "counts"]
_FOLLOWED = "late_events"
_DAYS = "days_by_metric"
#: Deliveries are classified together until they have this number of rows.
_STEP_ROWS = 2**18


def follow(lake: Lake, contract: SourceContract, metrics: Iterable[MetricContract]) -> None:
    """Classify the new deliveries of a source for those of ``metrics`` that have late events."""
    judging = [metric for metric in metrics if metric.late_events is not None and metric.source == contract.dataset]
    if not judging:
        return
    source, stored = contract.dataset, locations.late_rows(lake, contract.dataset)
    lost = applied_inputs.lost_versions(lake, source, stored)
    if lost is not None:  # metrics follow the commits by number: none is given twice
        layout.table_of_arrivals(lake, stored, late_rows.SCHEMA)
        commit_log.advance(stored, lost.followed)
    known = left_out.deliveries_of(lake, contract)
    for metric in judging:
        for step in _steps(known, _unclassified(lake, metric, known, is_lost=lost is not None)):
            _classify(lake, metric, contract, known, step)
    if lost is not None and (table := stored.snapshot()) is not None:
        commit_log.begin_lineage(table, lost.followed, lost.kept)


def changed_days(table: DeltaTable, metric: str, first: int) -> set[date] | None:
    """The event days on which the rows that count in a metric may have changed, from the commits of version ``first`` and later.

    :returns: None if the log no longer reaches back.
    """
    history = commit_log.history(table, first - 1)
    if len(history) < table.version() - first + 1:
        return None
    named = (commit_log.commit_metadata(commit).get(_DAYS, {}).get(metric, ()) for commit in history)
    return {day for days in named for day in pa.array(days, pa.string()).cast(pa.date32()).to_pylist()}


def _unclassified(lake: Lake, metric: MetricContract, known: Deliveries, *, is_lost: bool) -> list[str]:
    """The deliveries that are not classified by their present watermark and the present contract.

    :param is_lost: whether the table has lost rows, so that all are classified again.
    """
    where = {"metric": [metric.name]}
    stored = locations.late_deliveries(lake, metric.source)
    counted = stored.read(["ingestion_id", "watermark", "terms"], where)
    is_lost = is_lost or locations.late_rows(lake, metric.source).open() is None
    done: dict[str, tuple[int | None, str]] = {}
    if counted is not None and not is_lost:
        times = counted["watermark"].cast(pa.int64()).to_pylist()
        done = dict(zip(counted["ingestion_id"].to_pylist(), zip(times, counted["terms"].to_pylist())))
    terms = _terms(lake, metric)
    return [name for name in known.entries if done.get(name) != (known.met.get(name), terms(name))]


def _steps(known: Deliveries, names: Sequence[str]) -> Iterator[list[str]]:
    step, rows = list[str](), 0
    for name in names:
        step.append(name)
        rows += known.entries[name].rows
        if rows >= _STEP_ROWS:
            yield step
            step, rows = [], 0
    if step:
        yield step


@row_writer.retried_on_conflict
def _classify(lake: Lake, metric: MetricContract, contract: SourceContract, known: Deliveries, names: Sequence[str]) -> None:
    """Classify deliveries for a metric: replace their late rows in the table, then count them."""
    source = contract.dataset
    stored = locations.late_rows(lake, source)
    table = layout.table_of_arrivals(lake, stored, late_rows.SCHEMA)
    arrivals = {known.entries[name].arrival_date for name in names}
    before = table_io.read_version(table, ["ingestion_id", *_JUDGED], {**_of(metric, names), "arrival_date": arrivals})
    met = {name: known.met[name] for name in names if name in known.met}
    suspected = left_out.may_be_late(lake, metric, contract, Deliveries(known.entries, met), late_at_all=True)
    pieces = late_rows.of_deliveries(lake, metric, contract, suspected) if suspected.met else iter(())
    late = pa.concat_tables([late_rows.SCHEMA.empty_table(), *pieces])
    dropped = pa.concat_arrays([_left_out_keys(rows) for rows in (before, late)])
    spoken_of = key_log.keys_and_days(lake, source, names, arrivals)[0]
    dropped = pc.unique(pa.concat_arrays([dropped, _left_out_before(table, metric, spoken_of)]))
    days = key_log.days_of(lake, source, dropped) if len(dropped) else set()
    if len(late) or len(before) or days:
        why = {_DAYS: {metric.name: sorted(f"{day}" for day in days)}}
        number = (transaction_version(table, _FOLLOWED) or 0) + 1
        if len(before):
            stale = ", ".join(f"'{name}'" for name in pc.unique(before["ingestion_id"]).to_pylist())
            predicate = f"metric = '{metric.name}' AND ingestion_id IN ({stale})"
            table.delete(predicate, commit_properties=partition_writer.commit_properties(why, (_FOLLOWED, number)))
            stored.committed()
            table, number = layout.table_of_arrivals(lake, stored, late_rows.SCHEMA), number + 1
        if len(late):
            row_writer.append_new(stored, table, [late], [_FOLLOWED], app_version=number, why=why)
        elif not len(before):
            partition_writer.commit_without_rows(table, why=why, transaction=(_FOLLOWED, number))
    layout.keep_at_times(lake, stored)
    row_writer.upsert(
        locations.late_deliveries(lake, source),
        _counted(lake, metric, known, names, late),
        ["metric", "ingestion_id"],
        partition_by="metric",
    )


def _left_out_keys(rows: pa.Table) -> pa.Array:
    """The keys of the late rows that do not count, as well as the keys that these rows correct."""
    without = rows.filter(pc.invert(rows["counts"]))
    return pc.unique(pa.chunked_array([*without["record_key"].chunks, *without["corrects_key"].chunks], pa.string()).drop_null())


def _left_out_before(table: DeltaTable, metric: MetricContract, keys: pa.Array) -> pa.Array:
    """The keys of stored rows that do not count and concern one of ``keys``: their results may now count elsewhere."""
    if not len(keys) or not table_io.rows_at_most(table, {}):
        return pa.array([], pa.string())
    columns = ["metric", *_JUDGED]
    parts = [
        table_io.read_version(table, columns, {by: keys})
        if len(keys) > key_log.FEW_KEYS
        else data_files.with_texts(table, columns, by, keys)
        for by in ("record_key", "corrects_key")
    ]
    rows = pa.concat_tables([part.select(columns) for part in parts], promote_options="permissive")
    return _left_out_keys(rows.filter(pc.equal(rows["metric"], metric.name)))


def _counted(lake: Lake, metric: MetricContract, known: Deliveries, names: Sequence[str], late: pa.Table) -> pa.Table:
    """The counts of the deliveries ``names``."""
    terms, numbers = _terms(lake, metric), late.group_by(["ingestion_id", "counts"]).aggregate([([], "count_all")])
    by_id = {(row["ingestion_id"], row["counts"]): row["count_all"] for row in numbers.to_pylist()}
    rows = []
    for name in names:
        entry, accepted, dropped = known.entries[name], by_id.get((name, True), 0), by_id.get((name, False), 0)
        rows.append(
            {
                "metric": metric.name,
                "ingestion_id": name,
                "arrival_date": entry.arrival_date,
                "watermark": known.met.get(name),
                "terms": terms(name),
                "on_time": entry.rows - entry.malformed - accepted - dropped,
                "late_accepted": accepted,
                "late_dropped": dropped,
            }
        )
    return pa.Table.from_pylist(rows, schema=COUNTS)


def _of(metric: MetricContract, names: Collection[str]) -> Mapping[str, Any]:
    return {"metric": [metric.name], "ingestion_id": list(names)}


def _terms(lake: Lake, metric: MetricContract) -> Callable[[str], str]:
    """What the classification of a delivery depends on besides its rows, as a hash: the contract, which rows are in force, and
    what stewards have decided about them.
    """
    terms, readings = left_out.terms_of(metric), bronze_readings.readings_of(lake, metric.source)
    window = metric.event_window
    content = f"{terms.allowed_lateness} {terms.action.value} {metric.trailing_days} {window and window.model_dump_json()}"
    content += f" {sorted(readings.ids)}" if readings else ""
    decided: dict[str, list[str]] = defaultdict(list)
    for one in late_decisions.of_metric(lake, metric.source, metric.name):
        decided[one.ingestion_id].append(f"{one.line_number}:{one.number}:{one.counts}")

    def of_delivery(name: str) -> str:
        return hashlib.sha256((content + " ".join(["", *decided.get(name, ())])).encode()).hexdigest()[:12]

    return of_delivery
