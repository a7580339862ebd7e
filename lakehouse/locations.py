"""Every table of the lakehouse with its address, and the list of all tables that the contracts describe.

The content of a table, and how it is written, are defined by its writer. Addresses are here so that a reader need not import the
writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.contracts.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakehouse.calendar.periods import Kind
    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.metric_sources import MetricSource
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, Table


#: The tables in ``ops`` that all sources, metrics and models share.
_SHARED_TABLES: list[str] = []


def _shared(name: str) -> Callable[[Lake], Table]:
    """Gives a table that all sources, metrics and models share."""
    _SHARED_TABLES.append(name)
    return lambda lake: lake.table("ops", name)


def _of(layer: str, suffix: str = "") -> Callable[[Lake, str], Table]:
    """Gives the table of a source, a metric or a model in a layer, by its name."""
    return lambda lake, name: lake.table(layer, f"{name}{suffix}")


#: The rows of a source as they were delivered.
bronze = _of("bronze")
#: The decisions of stewards about rows of a source.
decisions = _of("bronze", "_decisions")
#: The files whose rows a backfill's runner has admitted as history.
history_admissions = _of("bronze", "_admissions")
#: The decisions of stewards about rows of a source that came too late for a metric.
late_decisions = _of("bronze", "_late_decisions")
#: The values of a source that were redacted.
redactions = _of("bronze", "_redactions")
#: The rows of a source that were parsed again with another result.
readings = _of("bronze", "_readings")
#: The current row of every key of a source; all rows under ``append``.
silver = _of("silver")
#: The newest row of every key of a source under ``append``.
silver_newest = _of("silver", "_newest")


def silver_of(lake: Lake, contract: SourceContract) -> Table:
    """The silver table that a contract describes: of a source, or of the newest rows of its keys."""
    return lake.table("silver", contract.silver_table)


def silver_read(lake: Lake, metric: MetricContract) -> Table:
    """The silver table that a metric is computed from; for several sources, the table of the first one."""
    return lake.table("silver", silver_name(metric))


def silver_name(metric: MetricContract) -> str:
    """The name of the silver table that a metric is computed from; for several sources, the table of the first one."""
    return next((entry.silver for entry in metric.read), metric.source)


def every_silver_read(lake: Lake, metric: MetricContract) -> dict[str, Table]:
    """The silver tables that a metric is computed from, by name, in the order of its sources."""
    return {entry.silver: silver_read_of(lake, entry) for entry in metric.read}


def silver_read_of(lake: Lake, entry: MetricSource) -> Table:
    """The silver table that a metric reads of one of its sources."""
    return lake.table("silver", entry.silver)


#: The intervals of every key of a dimension.
intervals = _of("silver", "_intervals")
#: The changes of a dimension in silver, by key.
changes_by_key = _of("ops", "_by_key")


def fact_index(lake: Lake, silver: str, on: Sequence[str]) -> Table:
    """The event days of the facts of a silver table, by the columns on which a metric joins them."""
    return lake.table("ops", fact_index_name(silver, on))


#: The rows of a source that wait, or have waited, for a steward's decision.
quarantine = _of("silver", "_quarantine")
#: The rows of a source that came too late for a window of a metric, and the action taken.
late_rows = _of("silver", "_late")
#: The numbers of rows of each delivery of a source on time and late, by metric.
late_deliveries = _of("ops", "_late_deliveries")
#: The deliveries whose late rows were sent to the topic of a metric.
late_outputs = _shared("late_outputs")


def gold(lake: Lake, series: Series) -> Table:
    """The published numbers of a series, with all their revisions."""
    return lake.table("gold", series.name)


def is_gold(lake: Lake, table: Table) -> bool:
    """Whether a table is one of numbers."""
    return table.address.startswith(lake.table("gold", "").address)


def gold_of(lake: Lake, metric: str, kind: Kind) -> Table:
    """The published numbers of a metric, given by the name of its daily table, for a kind of period."""
    return lake.table("gold", f"{metric}{kind.suffix}")


def candidates(lake: Lake, series: Series) -> Table:
    """The numbers of a series that are not published because a check failed or a sign-off is missing."""
    return lake.table("gold", f"{series.name}_candidates")


#: The numbers of a metric's speed layer.
live = _of("live")


def live_checkpoints(lake: Lake, metric: str) -> str:
    """The folder with the checkpoints of a metric's stream; no table."""
    return f"{lake.root}/live/_checkpoints/{metric}"


#: The rows that each batch of the streams has read.
live_batches = _shared("live_batches")
#: The comparisons of live with published numbers.
reconciliations = _shared("reconciliations")
#: The claims of a source's Bronze rows about record keys, and whether each row was admitted.
key_log = _of("ops", "_keys")
#: The disposition of each row of a source's Bronze table.
dispositions = _of("ops", "_dispositions")
#: The admission results of a source's rows that a rebuild replaced.
judgement_history = _of("ops", "_overruled")
#: The deliveries of files: ingested into Bronze, delivered before, or held.
ingestions = _shared("ingestions")
#: The ingestions, decisions and rebuild requests that silver contains, by event day.
applied_inputs = _shared("applications")
#: The second copy of what no other table contains, such as decisions.
journal = _shared("journal")
#: The requests to evaluate event days again and rebuild them.
rebuild_requests = _shared("operations")
#: The changes of silver that late rows caused.
audit_log = _shared("late_arrival_audit")
#: The changes of silver about which all consumers were notified.
audit_notifications = _shared("audit_notifications")
#: The checks of Bronze and silver that fail.
failed_checks = _shared("failed_checks")
#: The numbers that cannot be computed from their rows.
failed_numbers = _shared("failed_numbers")
#: The version of its input up to which each series was restated.
restatements = _shared("restatements")
#: The publications of all series.
publications = _shared("publications")
#: The reports of the publications that restated numbers.
restatement_reports = _shared("restatement_reports")
#: The sets of inputs that published numbers were computed from.
input_sets = _shared("inputs")
#: The candidates that were rejected instead of published.
rejected_candidates = _shared("dropped")
#: The promotions of dataset versions.
promotion_log = _shared("moves")
#: The text of every contract version under which numbers were published.
contract_archive = _shared("contracts")
#: The notices to consumers, and which of them were delivered.
notices = _shared("notices")
#: The changes of the state of alerts.
alerts = _shared("alerts")
#: The plans of backfills.
backfills = _shared("backfills")
#: The events of the chunks of each backfill.
backfill_events = _shared("backfill_events")
#: The table of the rows that could not be read, per delivered file.
unread_rows = _shared("unread_rows")
#: The sources, metrics and models for which Dagster starts nothing new.
pauses = _shared("pauses")
#: The missing inputs of the sources that the sensors report.
missing_inputs = _shared("missing_inputs")
#: The messages of the sources' topics that were lost before they were read, and who has accepted the loss.
stream_gaps = _shared("stream_gaps")
#: The changes of the sources' watermarks.
watermarks = _shared("watermarks")
#: The state of the keys for the event-time watermark of a source.
watermark_keys = _shared("watermark_keys")
#: The decisions about the greatest lateness that the sources' event-time watermarks expect.
event_watermarks = _shared("event_watermarks")
#: The corrections that people have proposed, approved, rejected and entered.
corrections = _shared("corrections")
#: The periods that people have reverted to an earlier revision, and their release.
reverts = _shared("reverts")
#: The sets of inputs that people have named.
snapshots = _shared("snapshots")
#: The stages: changed inputs that were computed apart from the tables, and their outcome.
stages = _shared("stages")
#: The hashes of the API tokens.
tokens = _shared("tokens")


def fact_index_name(silver: str, on: Sequence[str]) -> str:
    """The name of :func:`fact_index`."""
    return f"{silver}_by_{'_'.join(on)}"


_LAYERS = ("bronze", "silver", "gold", "live", "scores", "ops")
_KEYS = "_keys"
_ACCOUNT = ("_dispositions", "_quarantine")
#: Layer and suffix of the tables that every source has, apart from silver.
_SOURCE_TABLES = (
    *(("bronze", suffix) for suffix in ("", "_decisions", "_admissions", "_redactions", "_readings")),
    ("silver", "_quarantine"),
    *(("ops", suffix) for suffix in (_KEYS, "_dispositions", "_overruled")),
)
#: Those with the rows of each arrival day.
_BY_ARRIVAL_DAY = {("bronze", ""), ("bronze", "_readings"), ("silver", "_quarantine"), ("ops", "_dispositions")}
#: Those that a run reads or writes for any delivery.
_LOGS_OF_A_RUN = {
    *("ingestions", "applications", "contracts", "journal", "late_arrival_audit"),
    *("inputs", "publications", "restatements", "restatement_reports"),
}


@dataclass(frozen=True)
class LakeTable:
    """A table that the contracts describe, whether it exists yet or not.

    :param silver_of: the contract of the table, for a source's silver tables only.
    :param intervals_of: the dimension, for a table of intervals only.
    :param account_of: the source, for a table of the account of its rows only.
    :param series: the series, for a table of published numbers only.
    :param sorted_by: the column by which maintenance sorts the rows, so that a look-up reads only a part of each file.
    :param days: the column of its days, for a table whose days share files unless it is of an earlier release.
    """

    layer: str
    name: str
    silver_of: SourceContract | None = None
    intervals_of: str | None = None
    account_of: str | None = None
    series: Series | None = None
    sorted_by: str | None = None
    days: str | None = None

    def __str__(self) -> str:
        return f"{self.layer}/{self.name}"

    def of(self, lake: Lake) -> Table:
        """The table itself."""
        return lake.table(self.layer, self.name)


def every_table(catalog: Catalog) -> list[LakeTable]:
    """Every table that the contracts of a catalog describe, by layer and name; other tables in the folders are not listed."""
    silver = [contract for source in catalog.sources.values() for contract in source.silver_tables]
    listed = [LakeTable("silver", contract.silver_table, silver_of=contract, days="event_date") for contract in silver]
    listed += [
        LakeTable(
            layer,
            f"{source}{suffix}",
            account_of=source if suffix in _ACCOUNT else None,
            sorted_by="record_key" if suffix == _KEYS else None,
            days="arrival_date" if (layer, suffix) in _BY_ARRIVAL_DAY else None,
        )
        for source in catalog.sources
        for layer, suffix in _SOURCE_TABLES
    ]
    for source, contract in catalog.sources.items():
        if contract.is_dimension:
            listed += [LakeTable("silver", f"{source}_intervals", intervals_of=source, sorted_by="dimension_key")]
            listed += [LakeTable("ops", f"{source}_by_key", sorted_by="dimension_key")]
    for source in {metric.source for metric in catalog.metrics.values() if metric.late_events}:
        listed += [LakeTable("silver", f"{source}_late", days="arrival_date"), LakeTable("ops", f"{source}_late_deliveries")]
        listed += [LakeTable("bronze", f"{source}_late_decisions")]
    indexes = (index for metric in catalog.metrics.values() for index in metric.fact_indexes)
    indexed = {fact_index_name(silver, on) for silver, on in indexes}
    listed += [LakeTable("ops", name, sorted_by="join_key") for name in indexed]
    for daily in map(Series, catalog.metrics.values()):
        for series in (daily, *daily.rollups):
            listed += [LakeTable("gold", series.name, series=series, days=series.by)]
            listed += [LakeTable("gold", f"{series.name}_candidates", days=series.by)]
    listed += [LakeTable("live", metric.name) for metric in catalog.metrics.values() if metric.live]
    listed += [LakeTable("scores", model) for model in catalog.models]
    listed += [LakeTable("ops", name) for name in _SHARED_TABLES]
    return sorted(listed, key=lambda table: (_LAYERS.index(table.layer), table.name))


def of_run(lake: Lake, catalog: Catalog, source: str) -> list[Table]:
    """The tables that a run reads which takes a delivery of a source through all layers, whether they exist or not."""
    own = {f"{layer}/{source}{suffix}" for layer, suffix in (*_SOURCE_TABLES, ("silver", ""))}
    for daily in map(Series, catalog.metrics_following(source)):
        own |= {f"gold/{series.name}{suffix}" for series in (daily, *daily.rollups) for suffix in ("", "_candidates")}
    return [table.of(lake) for table in every_table(catalog) if f"{table}" in own or table.name in _LOGS_OF_A_RUN]


def of_number(lake: Lake, series: Series) -> list[Table]:
    """The tables from which a number is shown with its origin, and with what it waits for, whether they exist or not."""
    logs = [lake.table("ops", name) for name in ("applications", "ingestions", "journal", "publications")]
    return [gold(lake, series), candidates(lake, series), dispositions(lake, series.metric.source), *logs]


def of_key(lake: Lake, contract: SourceContract) -> list[Table]:
    """The tables from which the way of a key is shown, from its records to the numbers, whether they exist or not."""
    in_silver = [silver_of(lake, table) for table in contract.silver_tables]
    given, logs = contract.dataset, [lake.table("ops", name) for name in ("ingestions", "journal", "restatements")]
    return [*in_silver, bronze(lake, given), readings(lake, given), key_log(lake, given), *logs]


def training_set(lake: Lake, name: str, version: str) -> Table:
    """The rows of a training set version, such as ``datasets/training_data_v5.0``."""
    full_name = f"{name}_{version}"
    return lake.table("datasets", full_name)


#: The released and deprecated versions of labels, training sets and models.
releases = _shared("releases")
#: The promotions and rollbacks of models, with their starts and ends.
model_promotions = _shared("model_promotions")
#: The comparisons of model versions on the same rows.
backtests = _shared("backtests")
#: The canaries of models: starts, judgements, stops.
canaries = _shared("canaries")
#: The retrainings caused by corrections, step by step.
retrainings = _shared("retrainings")
#: The scores of a model, each with the version that computed it.
scores = _of("scores")


def model_reports(lake: Lake, model: str, version: str) -> str:
    """The folder with the reports of a model version; not a table."""
    return f"{lake.root}/models/{model}/{version}"
