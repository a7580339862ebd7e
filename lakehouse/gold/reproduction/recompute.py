"""Recomputes a published number from the inputs that its revision names, under the contracts of that time (rule R10).

A day is computed from its Silver inputs, a longer period from its named days, a derived number from its named inputs. Silver is
computed from Bronze, so that no older version of a table is needed. Comparing the result belongs to ``reproduce``.

The contracts are stored in ``ops/contracts`` (``ledger.contract_archive``) when a number is published. A revision names its
metric's contract by hash. The contract of the source is the one under which silver was built at that time; it is recorded with
the metric's contract.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql import DataFrame

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series, source_days
from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.published_table import RollupInputs
from lakehouse.gold.restatement import derived as derived_numbers
from lakehouse.gold.restatement import derived_inputs, lineage, metric_query, rollups
from lakehouse.gold.restatement import silver_rows as rows_read
from lakehouse.ledger import contract_archive, ingestions
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake


class ReproduceError(LakehouseError):
    """A number that cannot be reproduced. The message gives the reason and lists what exists."""


@dataclass(frozen=True)
class Recomputed:
    """The recomputed number, and per key the fields among its inputs that were redacted since."""

    rows: pa.Table
    hidden: dict[str, list[str]] = field(default_factory=dict)


def computed(
    lake: Lake,
    contract: SourceContract,
    series: Series,
    start: date,
    revision: Mapping[str, Any],
    session: Callable[[], SparkSession],
) -> Recomputed:
    """Recompute a revision of a period from its published columns.

    :param contract: of the silver table that the metric reads, see ``series.source_read``.
    :raises ReproduceError: if it names no inputs, or an input that no longer exists.
    """
    if series.metric.is_derived:
        return _derived(lake, series, start, revision, session)
    if series.kind is not Kind.DAY:
        return _period(lake, contract, series, start, revision, session)
    spark, metric = session(), series.metric
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.dataset)):
        named = _named_inputs(lake, contract, revision, source_days(metric, [start]))
        silver_rows, hidden = rows_read.rows_of_inputs(spark, lake, metric, contract, named, revision.get("dimension_inputs"))
        numbers = metric_query.of_days(silver_rows, metric, [start])
    return Recomputed(numbers[start] if start in numbers else metric_query.nothing(session, lake, metric), hidden)


def _derived(
    lake: Lake, series: Series, start: date, revision: Mapping[str, Any], session: Callable[[], SparkSession]
) -> Recomputed:
    """Recompute a derived number from the revisions and adjustments of its inputs that it names."""
    made_from = RollupInputs.parse(revision["made_from"])
    try:
        named = derived_inputs.named(lake, series, start, revision["version_name"], made_from)
    except derived_inputs.InputError as problem:
        raise ReproduceError(f"{problem}") from None
    return Recomputed(derived_numbers.of_inputs(session, series, {start: named})[start])


def _named_inputs(
    lake: Lake, contract: SourceContract, revision: Mapping[str, Any], days: Collection[date]
) -> dict[date, set[str]]:
    """The inputs of the Silver ``days``, as a revision names them.

    :raises ReproduceError: if it names none.
    """
    if revision["inputs"] is None:
        msg = f"{revision['version_name']} names no inputs, and cannot be reproduced; materialize the period for a newer revision"
        raise ReproduceError(msg)
    return lineage.ids_by_day(lake, contract.dataset, revision["inputs"], revision["inputs_without"], days)


def _period(
    lake: Lake,
    contract: SourceContract,
    series: Series,
    start: date,
    revision: Mapping[str, Any],
    session: Callable[[], SparkSession],
) -> Recomputed:
    """Recompute a longer period from the daily revisions and adjustments that it names."""
    daily = Series(series.metric, called=series.called)
    inputs = RollupInputs.parse(revision["made_from"])
    named = inputs.revisions
    days, by = series.period(start).days, daily.by
    rows = locations.gold(lake, daily).read(None, {by: days})
    if rows is None or not (named or inputs.adjustments):
        what = "materialize the period for a newer revision"
        what = what if revision["row_count"] else "what was booked in it is contained in later revisions of the days"
        msg = f"{revision['version_name']} names no days, and cannot be reproduced; {what}"
        raise ReproduceError(msg)
    labels = zip(rows[by].to_pylist(), rows["revision"].to_pylist(), rows["adjustment"].to_pylist())
    day_rows = rows.filter(
        pa.array([adjustment is None and named.get(day) == f"r{number}" for day, number, adjustment in labels], pa.bool_())
    )
    missing = sorted(set(named) - set(day_rows[by].to_pylist()))
    if missing:
        name, day = revision["version_name"], missing[0]
        msg = f"{name} was computed from {day} {named[day]}, which is no longer in gold/{daily.name}"
        raise ReproduceError(msg)
    added = rollups.add_up(series, day_rows, _booked(lake, series, daily, inputs.adjustments))
    if len(series.metric.additive) == len(series.metric.measures):
        return Recomputed(added)
    return _with_others(lake, contract, series, start, day_rows.sort_by(by), added, session)


def _booked(lake: Lake, series: Series, daily: Series, names: Collection[str]) -> pa.Table | None:
    """The adjustments, of days and of the longer period's own series, that a roll-up names."""
    if not names:
        return None
    where = {"version_name": names}
    tables = [locations.gold(lake, one).read(series.content, where) for one in (daily, series)]
    found = [table for table in tables if table is not None]
    return pa.concat_tables(found, promote_options="default") if found else None


def _with_others(
    lake: Lake,
    contract: SourceContract,
    series: Series,
    start: date,
    day_rows: pa.Table,
    added: pa.Table,
    session: Callable[[], SparkSession],
) -> Recomputed:
    """Add the measures that are not additive, from the Silver rows of each day by the inputs that its revision names."""
    metric, spark = series.metric, session()
    first_rows = {row["event_date"]: row for row in reversed(day_rows.to_pylist())}
    days_by_dimensions: dict[str | None, dict[date, set[str]]] = defaultdict(dict)
    for day, row in sorted(first_rows.items()):
        days_by_dimensions[row.get("dimension_inputs")] |= _named_inputs(lake, contract, row, [day])
    hidden: dict[str, list[str]] = {}
    parts = []
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.dataset)):
        for stored, named in days_by_dimensions.items():
            rows, hidden_there = rows_read.rows_of_inputs(spark, lake, metric, contract, named, stored)
            parts.append(rows)
            hidden |= hidden_there
        silver_rows = reduce(DataFrame.unionByName, parts)
        numbers = metric_query.of_periods(silver_rows, metric, [series.period(start)])
    number = numbers[start] if start in numbers else metric_query.nothing(session, lake, metric.whole)
    return Recomputed(rollups.joined(series, added, number), hidden)


#: The contracts that this process stored last, by table and metric, so that the next commits of a run do not store them again.
_kept: dict[tuple[str, str], tuple[str, str, str | None]] = {}


class ForgottenContractError(LakehouseError):
    """A contract of which only the hash is stored, or that this code cannot read. The message names it and what to do."""


@dataclass(frozen=True)
class HistoricalContracts:
    """The contracts of a metric and its source; ``certain`` if the source's contract is known to be the one of that time."""

    metric: MetricContract
    source: SourceContract
    certain: bool = True


def remember_contract(lake: Lake, metric: MetricContract, contract: SourceContract) -> None:
    """Store both contracts, and those of further sources and dimensions, once per process and change, before publishing.

    The metric's contract is stored with the hash of the source's contract in Silver's newest commit. This is not ``contract``
    if the source's contract has changed and Silver was not built since.
    """
    archive = locations.contract_archive(lake).address
    others = [*metric.further_sources.values(), *metric.dimensions.values()]
    source = "+".join(provenance.of_contract(one) for one in (contract, *others))
    metric_version, in_silver = (
        provenance.of_contract(metric),
        provenance.newest_in_silver(lake, contract.dataset)["contract"],
    )
    if _kept.get((archive, metric.name)) == (metric_version, source, in_silver):
        return
    now = lake.now()
    for stored in (contract, *others):
        version = provenance.of_contract(stored)
        contract_archive.record(lake, "source", stored.dataset, version, stored.model_dump_json(), now)
    contract_archive.record(
        lake,
        "metric",
        metric.name,
        metric_version,
        metric.model_dump_json(),
        now,
        source_version=in_silver or provenance.of_contract(contract),
    )
    _kept[archive, metric.name] = (metric_version, source, in_silver)


def contract_of_then(
    lake: Lake, now: HistoricalContracts, revision: Mapping[str, Any], sources: Mapping[str, SourceContract]
) -> HistoricalContracts:
    """The contracts under which a revision was computed; the metric's includes those of its further sources and dimensions.

    :param now: the present contracts; they are used if they have not changed.
    :param revision: the published columns of a row of the revision.
    :param sources: the present contracts of all sources.
    :raises ForgottenContractError: if the metric's contract was a different one and is not stored.
    """
    metric, version = now.metric, revision["contract_version"]
    name = metric.model_copy(update={"dataset_version": revision["dataset_version"] or 1}).name
    if version != provenance.of_contract(metric):
        stored = contract_archive.find(lake, "metric", name, version)
        if stored is None:
            msg = (
                f"{name} was published under the contract {version}, which is not stored in "
                f"{locations.contract_archive(lake)}; restore the contract's file of that time to reproduce the number"
            )
            raise ForgottenContractError(msg)
        metric = _read(MetricContract, stored, f"{name} ({version})")
    metric = metric.with_contracts({**sources, **_others_of_then(lake, revision, sources)})
    if version == provenance.of_contract(metric.as_in_utc):  # earlier releases computed numbers of every zone in UTC
        metric = metric.as_in_utc
    source_version = contract_archive.source_version(lake, name, version, revision["published_at"])
    if source_version in {None, provenance.of_contract(now.source)}:
        return HistoricalContracts(metric, now.source, certain=source_version is not None)
    source = contract_archive.find(lake, "source", metric.source, str(source_version))
    if source is None:
        return HistoricalContracts(metric, now.source, certain=False)
    return HistoricalContracts(metric, _read(SourceContract, source, f"{metric.source} ({source_version})"))


def _others_of_then(lake: Lake, revision: Mapping[str, Any], sources: Mapping[str, SourceContract]) -> dict[str, SourceContract]:
    """The contracts of the further sources and dimensions that a revision names, as far as they were different and are stored."""
    earlier = {}
    for name, entry in published_table.parse(revision.get("dimension_inputs")).items():
        if name not in sources or provenance.of_contract(sources[name]) != entry["contract"]:
            stored = contract_archive.find(lake, "source", name, entry["contract"])
            if stored is not None:
                earlier[name] = _read(SourceContract, stored, f"{name} ({entry['contract']})")
    return earlier


def _read(kind: type[Any], stored: dict[str, Any], name: str) -> Any:
    try:
        return kind.model_validate(contract_archive.readable(stored))
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        msg = f"this code cannot read the former contract {name}: {where}: {first['msg']}; run the code version of that time"
        raise ForgottenContractError(msg) from None
