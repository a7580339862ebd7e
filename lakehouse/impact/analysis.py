"""The impact of a correction: from a file, a key, days or a decision to silver days, published periods, roll-ups and readers.

This module only reads. A file that is not in Bronze yet is parsed like a delivery but not stored; the predicted publications
follow the rules of ``gold.restatement``. The event days of the facts that dimension changes affect are found whether the changes
have been applied or not. The affected training sets and models are determined in ``models.lineage`` from ``ConcernedRecords``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import reader
from lakehouse.bronze.landing import LandingFile
from lakehouse.calendar.days import span
from lakehouse.contracts.series import source_read
from lakehouse.dimensions import changed_facts, changed_intervals, tables
from lakehouse.dispositions import claims
from lakehouse.dispositions import unread as malformed_rows
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import served_version
from lakehouse.impact import affected_periods, row_changes
from lakehouse.impact.affected_periods import PublicationCause
from lakehouse.ledger import applied_inputs, decisions, ingestions, key_log
from lakehouse.text import format_moment, join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.impact.affected_periods import Affected, PublishedRevision
    from lakehouse.lake import Lake, table_io
    from lakehouse.ledger.ingestions import Ingestion


@dataclass(frozen=True)
class ConcernedRecords:
    """The records of a file, a key or a decision, as the key for a search elsewhere.

    :param keys: the record keys; None if the keys of ``ingestions`` have not been read yet.
    :param ingestions: the ids of an ingested file.
    :param values: the values of a file that is not in Bronze yet, by column.
    """

    keys: pa.Array | None = None
    ingestions: frozenset[str] = frozenset()
    values: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Impact:
    """The effects of a file, a key, a range of days or a decision; ``applied`` is false if they have not happened yet.

    ``rows`` counts the rows of a file by event day; ``out`` counts the rows that change nothing, by reason. ``waiting`` lists the
    days on which silver does not contain the file yet, ``lives_on`` the days on which a key is now. ``readers`` lists the
    consumers of each metric, ``models`` the metrics computed from these. ``records`` is None for a range of days, which concerns
    all records of its days.
    """

    source: str
    about: str
    applied: bool
    days: list[date]
    rows: dict[date, int] = field(default_factory=dict)
    out: dict[str, int] = field(default_factory=dict)
    waiting: list[date] = field(default_factory=list)
    lives_on: list[date] = field(default_factory=list)
    periods: list[Affected] = field(default_factory=list)
    moved: list[PublishedRevision] = field(default_factory=list)
    readers: dict[str, list[str]] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: ConcernedRecords | None = None

    def as_json(self) -> dict[str, Any]:
        """A dictionary for JSON, without ``records``; days used as keys become text."""
        values = asdict(replace(self, records=None))
        del values["records"]
        return values | {"rows": {f"{day}": count for day, count in sorted(self.rows.items())}}


_ALWAYS = datetime(1, 1, 1, tzinfo=timezone.utc)
_BEGINS = pa.schema([("dimension_key", pa.string()), ("valid_from", changed_intervals.TIME), ("is_change", pa.bool_())])


def joined_days(lake: Lake, metric: MetricContract, contract: SourceContract, changes: pa.Array) -> set[date]:
    """The event days of a metric's facts that ``changes`` of a dimension may affect.

    :param contract: the dimension's contract; the metric joins the dimension.
    :param changes: the record keys of the changes.
    """
    concerned: set[date] = set()
    for join in metric.joins:
        if join.dimension == contract.dataset:
            is_untracked = any(column in contract.dimension.untracked for column, _ in join.attributes)
            ranges = _ranges(lake, contract, changes, is_untracked=is_untracked)
            concerned |= changed_facts.days_within(lake, metric, join, ranges)
    return concerned


def _ranges(lake: Lake, contract: SourceContract, changes: pa.Array, *, is_untracked: bool) -> pa.Table:
    """The ranges from each change to the next change of its key: columns ``changed_intervals.PLACE``, disjoint per key.

    :param is_untracked: whether the newest value holds at all times.
    """
    of_key, times = _keys_and_times(changes)
    if is_untracked:
        times = pa.array([_ALWAYS] * len(of_key), changed_intervals.TIME)
        parts = [pa.table([of_key, times, pa.repeat(True, len(of_key))], schema=_BEGINS)]
    else:
        changed = pa.table([of_key, times, pa.repeat(True, len(of_key))], schema=_BEGINS)
        parts = [changed, _begins(lake, contract, of_key.unique())]
    cuts = pa.concat_tables(parts).group_by(["dimension_key", "valid_from"]).aggregate([("is_change", "max")])
    cuts = cuts.sort_by([("dimension_key", "ascending"), ("valid_from", "ascending")]).combine_chunks()
    if not len(cuts):
        return pa.table({"dimension_key": of_key, "valid_from": times, "valid_to": times})
    key, begins = cuts["dimension_key"].combine_chunks(), cuts["valid_from"].combine_chunks()
    ends = pc.if_else(pc.equal(key[:-1], key[1:]), begins[1:], pa.scalar(None, changed_intervals.TIME))
    open_end = pa.nulls(1, changed_intervals.TIME)
    ranges = pa.table([key, begins, pa.concat_arrays([ends, open_end])], names=list(changed_intervals.PLACE))
    return ranges.filter(cuts["is_change_max"])


def named_changes(contract: SourceContract, changes: pa.Array) -> set[tuple[str, str, str]]:
    """The changes as publications record them: dimension, key, and start of validity."""
    of_key, times = _keys_and_times(changes)
    since = [moment.isoformat() for moment in times.to_pylist()]
    return {(contract.dataset, key, moment) for key, moment in zip(of_key.to_pylist(), since)}


def _keys_and_times(changes: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The key and the event time of each change whose record key has the form of a dimension change."""
    of_key = tables.dimension_keys(changes)
    return of_key.drop_null(), tables.event_times(changes.filter(of_key.is_valid()))


def _begins(lake: Lake, contract: SourceContract, of_keys: pa.Array) -> pa.Table:
    """The starts of the present intervals of the keys ``of_keys``."""
    held = tables.intervals_of_keys(lake, contract, _BEGINS.names[:2], of_keys)
    if held is None:
        return _BEGINS.empty_table()
    return held.append_column("is_change", pa.repeat(False, len(held))).cast(_BEGINS)


#: The number of decisions listed in the message about an unknown decision.
_NAMED = 5
#: The number of a file's malformed rows that are shown.
_MALFORMED = 3


class UnknownSubjectError(LakehouseError):
    """No record of the file, key or decision exists. The message lists the places searched."""


def of_file(lake: Lake, catalog: Catalog, source: str, name: str, values_of: Collection[str] = ()) -> Impact:
    """The impact of a local file, a file in the landing folder, or an ingested file, given by name or path.

    :param values_of: columns whose values ``records`` should include, if the file is not in Bronze yet.
    :raises UnknownSubjectError: if the file does not exist.
    """
    local = Path(name).expanduser()
    if not local.is_file():
        return of_delivered_file(lake, catalog, source, name, values_of)
    contract, known = catalog.sources[source], ingestions.all_of(lake, source)
    where = lake.with_settings(landing=f"{local.absolute().parent}")
    return _of_content(lake, catalog, contract, _local(lake, local.absolute()), where, known, values_of)


def of_delivered_file(lake: Lake, catalog: Catalog, source: str, name: str, values_of: Collection[str] = ()) -> Impact:
    """The impact of a file in the landing folder or in Bronze, by name or path. For remote requests: reads no other local files.

    :raises UnknownSubjectError: if the file does not exist.
    """
    contract = catalog.sources[source]
    known = ingestions.all_of(lake, source)
    ids = {entry.ingestion_id for entry in known if entry.is_in_bronze and _is_named(entry.source_file, name)}
    if ids:
        return _of_ingestions(lake, catalog, contract, name, ids, known)
    lying = [file for file in bronze_landing.landing_files(lake, contract)[0] if _is_named(file.name, name)]
    if lying:
        return _of_content(lake, catalog, contract, lying[-1], lake, known, values_of)
    msg = (
        f"{name} is unknown: there is no such local file, none in {lake.landing_of(source)}, and no ingested file of "
        f"{source} has that name"
    )
    raise UnknownSubjectError(msg)


def of_key(lake: Lake, catalog: Catalog, source: str, key: str) -> Impact:
    """The impact of a key: its present and earlier days, and the publications of its changes.

    :raises UnknownSubjectError: if no record contains the key.
    """
    contract = catalog.sources[source]
    lake.expect(locations.of_key(lake, contract))
    days = key_log.days_by_key(lake, source, [key])[key]
    if not days and not key_log.arrival_days_of(lake, source, [key]):
        msg = f"no well-formed row of bronze/{source} has the key {key!r}"
        raise UnknownSubjectError(msg)
    changes = {
        table.silver_table: [
            (change.version, change.event_date)
            for change in row_changes.silver_life(lake, table, catalog.metrics_of(source), key, days)[0]
        ]
        for table in contract.silver_tables
    }
    cause = PublicationCause(silver_changes=changes)
    where: table_io.Where = {"event_date": days, "record_key": [key]}
    rows = locations.silver(lake, source).read(["event_date"], where)
    lives_on = [] if rows is None else sorted(rows["event_date"].to_pylist())
    result = Impact(source, f"key {key}", applied=True, days=sorted(days), lives_on=lives_on)
    result = replace(result, records=ConcernedRecords(pa.array([key], pa.string())))
    return _through_gold(lake, catalog, result, cause, pa.array([key]))


def of_decision(lake: Lake, catalog: Catalog, source: str, decision_id: str) -> Impact:
    """The impact of a steward's decision: on the keys of its rows and the days that it touches.

    :raises UnknownSubjectError: if the source has no such decision.
    """
    decided = decisions.all_of(lake, source, [decision_id])
    if not decided:
        newest = list(dict.fromkeys(entry.decision_id for entry in reversed(decisions.all_of(lake, source))))
        msg = f"{source} has no decision {decision_id}; its newest are {join_limited(newest, _NAMED) or 'none'}"
        raise UnknownSubjectError(msg)
    keys = pa.array(sorted({entry.record_key for entry in decided if entry.record_key is not None}), pa.string())
    waiting = {day for day, lacking in applied_inputs.pending(lake, source).items() if decision_id in lacking}
    verdicts = Counter(entry.verdict.value for entry in decided)
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))
    result = Impact(
        source=source,
        about=f"decision {decision_id}",
        applied=True,
        days=sorted({day for entry in decided for day in entry.touched_days}),
        waiting=sorted(waiting),
        notes=[f"by {decided[0].by} at {format_moment(decided[0].decided_at)}: {decided[0].reason} ({counts})"],
        records=ConcernedRecords(keys),
    )
    return _through_gold(lake, catalog, result, PublicationCause(ingestions=frozenset({decision_id})), keys)


def of_days(lake: Lake, catalog: Catalog, source: str, first: date, last: date) -> Impact:
    """The impact of correcting any row of the event days ``first`` to ``last``, with all publications of these days."""
    about = f"event day {first}" if first == last else f"event days {first} to {last}"
    result = Impact(source, about, applied=False, days=list(span(first, last)))
    return _through_gold(lake, catalog, result, PublicationCause(any_cause=True))


def _of_content(
    lake: Lake,
    catalog: Catalog,
    contract: SourceContract,
    file: LandingFile,
    where: Lake,
    entries: Collection[Ingestion],
    values_of: Collection[str],
) -> Impact:
    """The impact of a readable file, which is identified by its content, not by its name (R1).

    :param where: the lake that locates the file.
    """
    fingerprint = bronze_landing.fingerprint(where, contract, file)
    if done := ingestions.ingested(entries).get(fingerprint.ingestion_id):
        return _of_ingestions(lake, catalog, contract, done.source_file, {fingerprint.ingestion_id}, entries)
    about = f"file {file.name}"
    if fingerprint.problem:
        notes = [f"the file would be held and change nothing: {fingerprint.problem}"]
        nothing = ConcernedRecords(pa.array([], pa.string()))
        return Impact(contract.dataset, about, applied=False, days=[], notes=notes, records=nothing)
    content = reader.preview_file(where, contract, file, fingerprint, values_of)
    days = claims.affected_event_days(lake, contract, set(content.rows), content.keys)
    notes = [_unread(row) for row in content.malformed]
    if contract.quality.named_rules:
        notes.append("row rules are evaluated when the file is ingested; a row that fails one may change nothing")
    policy = policy_of(contract)
    if policy.chooses_deliveries:
        notes.append(f"under {policy.name}, the other arrivals decide whether the file changes anything")
    result = Impact(
        contract.dataset,
        about,
        applied=False,
        days=sorted(days),
        rows=content.rows,
        out=content.out,
        notes=notes,
        records=ConcernedRecords(content.keys, values=content.values),
    )
    return _through_gold(lake, catalog, result, PublicationCause(), content.keys)


def _of_ingestions(
    lake: Lake, catalog: Catalog, contract: SourceContract, name: str, ids: set[str], log: Collection[Ingestion]
) -> Impact:
    entries = [entry for one, entry in ingestions.ingested(log).items() if one in ids]
    rows: Counter[date] = sum((Counter(entry.rows_by_day) for entry in entries), Counter())
    malformed = sum(entry.malformed for entry in entries)
    other = sum(entry.rows for entry in entries) - malformed - rows.total()
    waiting = {day for day, lacking in applied_inputs.pending(lake, contract.dataset).items() if lacking & ids}
    keys = key_log.keys_of(lake, contract.dataset, ids) if contract.is_dimension else None
    notes = [f"ingested on {entry.arrival_date} as {entry.ingestion_id}, {entry.source_file}" for entry in entries]
    unread = malformed_rows.few_malformed(lake, contract.dataset, _MALFORMED, ids=ids) if malformed else []
    notes += [_unread(row) for row in unread]
    result = Impact(
        source=contract.dataset,
        about=f"file {name}",
        applied=True,
        days=sorted({day for entry in entries for day in entry.touched_days}),
        rows=dict(rows),
        out={
            cause: count for cause, count in (("malformed", malformed), ("without an event day, or not admitted", other)) if count
        },
        waiting=sorted(waiting),
        notes=notes,
        records=ConcernedRecords(keys, frozenset(ids)),
    )
    return _through_gold(lake, catalog, result, PublicationCause(ingestions=frozenset(ids)), keys)


def _unread(row: Mapping[str, Any]) -> str:
    """A sentence about a malformed row."""
    why = f"line {row['line_number']} could not be read: {row['malformed_reason']}"
    return f"{why}: {row['raw_payload'] or '(redacted)'}"


def _through_gold(lake: Lake, catalog: Catalog, result: Impact, cause: PublicationCause, keys: pa.Array | None = None) -> Impact:
    """Follow silver days to every metric, its roll-ups and its readers; for a dimension, follow changes to the facts that join
    it.

    :param keys: the record keys that change, if known.
    """
    contract = catalog.sources[result.source]
    changing: dict[str, set[date]] = {}
    for metric in catalog.metrics_joining(result.source):
        daily = served_version.daily(lake, catalog, metric)
        if keys is None:
            result.notes.append(f"gold/{daily.name} joins {result.source}: pass --file or --key to list its days")
            continue
        of_facts = sorted(joined_days(lake, daily.metric, contract, keys))
        named = named_changes(contract, keys) if result.applied else ()
        changed = PublicationCause(dimension_changes=frozenset(named))
        _follow(lake, catalog, result, daily, of_facts, changed, changing)
    for metric in catalog.metrics_of(result.source):
        daily = served_version.daily(lake, catalog, metric)
        # Where no key competes with another row, a file changes only the days of its own rows.
        is_of_rows = bool(result.rows) and not policy_of(source_read(daily.metric, contract)).keys_contend
        days = sorted(result.rows) if is_of_rows else result.days
        _follow(lake, catalog, result, daily, days, cause, changing)
    for metric in catalog.metrics_following(result.source):
        if metric.is_derived:
            daily = served_version.daily(lake, catalog, metric)
            changing[metric.name] = set().union(*(changing.get(name, ()) for name in metric.derived_from))
            result.periods.extend(affected_periods.affected(lake, daily, changing[metric.name]))
            result.readers[daily.name] = list(daily.metric.consumers)
            result.models.append(metric.name)
    return result


def _follow(
    lake: Lake,
    catalog: Catalog,
    result: Impact,
    daily: Series,
    days: Collection[date],
    cause: PublicationCause,
    changing: dict[str, set[date]],
) -> None:
    """Add the periods, publications and readers of a metric, and add to ``changing`` the days whose number changes."""
    affected = affected_periods.affected(lake, daily, days)
    result.periods.extend(affected)
    changing[daily.metric.name] = {period.booked_to or period.start for period in affected if period.series == daily.name}
    result.moved.extend(affected_periods.published_because(lake, daily, days, cause))
    result.readers[daily.name] = list(daily.metric.consumers)
    names = {daily.name, *(rollup.name for rollup in daily.rollups)}
    result.models.extend(other.name for other in catalog.metrics.values() if other.source in names)


def _local(lake: Lake, path: Path) -> LandingFile:
    """Any local file, as if it had arrived today."""
    about = path.stat()
    changed = datetime.fromtimestamp(about.st_mtime, timezone.utc)
    return LandingFile(f"{path}", path.name, lake.now().date(), about.st_size, changed)


def _is_named(name: str, text: str) -> bool:
    """Whether ``text`` is the file's name below landing, the last parts of this name, or a path that ends with it."""
    return name == text or name.endswith(f"/{text}") or text.endswith(f"/{name}")
