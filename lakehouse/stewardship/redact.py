"""Redaction (right to erasure): hides fields of one key in silver and everything computed from it.

Bronze keeps the files as delivered; a redaction is one append to its own log. In published numbers, grain columns that show a
redacted value become NULL in every revision. Decisions about rows belong to ``quarantine``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.contracts.series import Series, days_reached, source_days
from lakehouse.delta import partition_writer
from lakehouse.dispositions import account_tables, judgement_history, readings
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.comparison import added
from lakehouse.gold.publication import restatement_reports, write_audit_publish
from lakehouse.gold.restatement import derived_inputs
from lakehouse.lake import table_io
from lakehouse.ledger import key_log, redactions
from lakehouse.silver import audit
from lakehouse.stewardship.quarantine import StewardError, require_signature

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


_Values = dict[str, set[Any]]


def mask(
    lake: Lake,
    contract: SourceContract,
    metrics: Collection[MetricContract],
    key: str,
    fields: Collection[str],
    days: Collection[date],
) -> int:
    """Set grain columns that show a redacted value of ``key`` to NULL. Idempotent.

    :param metrics: the metrics of the source, followed by the metrics derived from them.
    :param days: the event days on which the key may exist.
    :returns: the number of masked rows and reports.
    """
    masked = 0
    fields_of: dict[str, dict[str, str]] = {}
    for metric in metrics:
        fields_of[metric.name] = hidden = _hidden(metric, contract, fields, fields_of)
        found = _values_of(lake, contract, key, list(hidden.values())) if hidden else {}
        values = {name: found[field] for name, field in hidden.items()}
        if any(values.values()):
            daily = Series(metric)
            affected = days_reached(metric, days)
            for series in (daily, *daily.rollups):
                masked += _mask_series(lake, contract, series, key, values, affected)
    return masked


def _hidden(
    metric: MetricContract, contract: SourceContract, fields: Collection[str], of_inputs: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """The grain columns of ``metric`` that show a redacted field of a source, each with its field.

    :param of_inputs: the same mapping for the inputs of a derived metric, by metric name.
    """
    shown = {name: field for one in metric.derived_from for name, field in of_inputs.get(one, {}).items()}
    for entry in metric.read:
        if entry.source == contract.dataset:
            shown |= {name: field for field in fields for name in entry.names(field)}
    return {name: shown[name] for name in metric.grain if name in shown}


@write_audit_publish.again_on_conflict
def _mask_series(
    lake: Lake, contract: SourceContract, series: Series, key: str, values: Mapping[str, set[Any]], days: Collection[date]
) -> int:
    periods = {period.start: period for period in map(series.period, days)}

    @cache
    def gone(start: date) -> _Values:
        """The values that no other key has in the period that begins on ``start``."""
        if series.metric.is_derived:  # its inputs were masked before
            others = _values_of_inputs(lake, series, start, list(values))
        else:
            days_read = source_days(series.metric, periods[start].days)
            others = _values_of_others(lake, series.metric, contract.dataset, key, list(values), days_read)
        return {name: shown - others[name] for name, shown in values.items()}

    masked = 0
    for stored in (locations.gold(lake, series), locations.candidates(lake, series)):
        table = stored.snapshot()
        rows = None if table is None else table_io.read_version(table, None, {series.by: list(periods)})
        if table is None or rows is None or not len(rows):
            continue
        changed = {}
        for start, of_period in table_io.split(rows, series.by).items():
            after, count = _masked(series, of_period, gone(start))
            if count:
                changed[start] = after
                masked += count
        if changed:
            # A longer or derived period may show the value of another key there: it is computed again.
            after = pa.concat_tables(changed.values())
            reached = {*changed, *table_io.with_columns(after, ["booked_on"])["booked_on"].drop_null().to_pylist()}
            why = {"method": "redaction", published_table.MASKED: sorted(f"{day}" for day in reached)}
            partition_writer.replace(table, after, list(changed), why=why)
    # After the numbers: a report written in the meantime is made from masked numbers.
    return masked + restatement_reports.mask(lake, series, periods, gone)


def _masked(series: Series, rows: pa.Table, gone: Mapping[str, set[Any]]) -> tuple[pa.Table, int]:
    """Mask the values in ``gone`` and renew the digests, so that no hash of the original is kept.

    The digest of an adjustment is that of the number which it leads to, and stays where measures do not add up.
    """
    versions: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    masked_in, masked = set(), 0
    for row in rows.to_pylist():
        version = row["revision"], row.get("adjustment")
        hidden = {name: None for name, values in gone.items() if row[name] in values}
        versions.setdefault(version, []).append(row | hidden)
        if hidden:
            masked_in.add(version)
            masked += 1
    adds_up = len(series.metric.additive) == len(series.metric.measures)
    for version in masked_in if adds_up else ():
        versions[version] = _added_up(series, versions[version])
    for revision, adjustment in versions if masked_in else ():
        until = [of for of in versions if of[0] == revision and (of[1] or 0) <= (adjustment or 0)]
        if masked_in.intersection(until) and (adds_up or adjustment is None):
            whole = versions[revision, adjustment]
            if adjustment is not None:
                whole = _added_up(series, [{**row} for of in until for row in versions[of]])
                whole = [row for row in whole if any(row[name] for name in series.numbers)] or whole[:1]
            content = published_table.digest(pa.Table.from_pylist(whole, schema=rows.schema).select(series.content))
            versions[revision, adjustment] = [row | {"content": content} for row in versions[revision, adjustment]]
    return pa.Table.from_pylist([row for of_version in versions.values() for row in of_version], schema=rows.schema), masked


def _added_up(series: Series, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a version of a metric whose measures all add up, one for each value of the grain, as they are computed."""
    by_grain: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        first = by_grain.setdefault(tuple(row[name] for name in series.grain), row)
        for name in series.numbers if first is not row else ():
            first[name] = added([first[name], row[name]])
    return [*by_grain.values()]


def _values_of(lake: Lake, contract: SourceContract, key: str, names: list[str]) -> _Values:
    """All values of the fields ``names`` of a key, in Bronze and in its readings."""
    source = contract.dataset
    arrivals = key_log.arrival_days_of(lake, source, [key]) | judgement_history.arrival_days_of(lake, source, key)
    found = readings.every_reading(lake, source, names, {"arrival_date": arrivals, "record_key": [key]})
    return {name: set() if found is None else set(found[name].to_pylist()) - {None} for name in names}


def _values_of_others(lake: Lake, metric: MetricContract, source: str, key: str, names: list[str], days: list[date]) -> _Values:
    """The values of other keys on ``days`` in a metric's silver tables; the same key in another source is another key."""
    where = {"event_date": days}
    values: _Values = {name: set() for name in names}
    for entry, stored in zip(metric.read, locations.every_silver_read(lake, metric).values()):
        columns = list(dict.fromkeys(["record_key", *(entry.column(name) for name in names)]))
        found = stored.read(columns, where)
        for row in [] if found is None else found.to_pylist():
            if row["record_key"] != key or entry.source != source:
                for name in names:
                    values[name].add(row.get(entry.column(name)))
    return values


def _values_of_inputs(lake: Lake, derived: Series, start: date, names: list[str]) -> _Values:
    """The values that the published numbers of the inputs have in the derived period that begins on ``start``."""
    values: _Values = {name: set() for name in names}
    for table in derived_inputs.tables(lake, derived).values():
        rows = table.read(names, {derived.by: [start]})
        for name, column in {} if rows is None else dict(zip(rows.column_names, rows.columns)).items():
            values[name].update(column.to_pylist())
    return values


def redact_fields(
    lake: Lake,
    contract: SourceContract,
    key: str,
    fields: Collection[str],
    *,
    by: str,
    reason: str,
    metrics: Collection[MetricContract] = (),
) -> list[date]:
    """Hide ``fields`` of ``key`` in silver and everything computed from it.

    Earlier states may show the key's rows under other keys, if a later reading changed the key; the fields of those keys are
    hidden, too.

    :param metrics: the metrics that read the source, followed by the metrics derived from them: published rows whose grain shows
        a hidden value are masked.
    :returns: the event days that silver has to rebuild.
    :raises StewardError: if no row has the key, or a field is not in the contract or is part of the key.
    """
    lake = lake.cached()
    require_signature(by, reason)
    source = contract.dataset
    _check_fields(contract, fields)
    days = key_log.days_by_key(lake, source, [key])[key]
    if not key_log.arrival_days_of(lake, source, [key]):
        msg = f"no row of bronze/{source} has the key {key!r}"
        raise StewardError(msg)
    entry = redactions.Redaction(key, sorted(fields), by, reason, lake.now(), touched_days=sorted(days))
    redactions.record(lake, source, entry)
    audit.erase(lake, source)
    account_tables.after_decision(lake, contract, {key}, days)
    mask(lake, contract, metrics, key, fields, days)
    for former in sorted(readings.former_keys(lake, source, key)):
        former_days = judgement_history.event_days_of(lake, source, former)
        redactions.record(lake, source, replace(entry, record_key=former))
        audit.erase(lake, source)
        mask(lake, contract, metrics, former, fields, former_days)
    return sorted(days)


def _check_fields(contract: SourceContract, fields: Collection[str]) -> None:
    """:raises StewardError: without a field, or if a field is not in the contract or is part of the key."""
    names = [field.name for field in contract.typed_fields]
    unknown = sorted(set(fields) - set(names))
    if unknown or not fields:
        msg = f"{', '.join(unknown) or 'no field'}: not among the fields of {contract.dataset}: {', '.join(names)}"
        raise StewardError(msg)
    in_key = sorted(set(fields) & {*contract.primary_key, *(contract.synthetic_key.fields if contract.synthetic_key else ())})
    if in_key:
        msg = (
            f"{', '.join(in_key)} is part of the key, by which rows are found; to erase a key see 'The right to erasure' in "
            "docs/stewardship.md"
        )
        raise StewardError(msg)
