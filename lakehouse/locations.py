"""The address of every table of the lakehouse.

The content of a table and how it is written are defined by its writer. This module contains only addresses, so that a reader need
not import the writer. The addresses of training sets and models are in ``training_sets.addresses``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.calendar.periods import Kind
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.metric_sources import MetricSource
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


def bronze(settings: Settings, source: str) -> str:
    """The rows of a source as they were delivered."""
    return settings.table("bronze", source)


def decisions(settings: Settings, source: str) -> str:
    """The decisions of stewards about rows of a source."""
    return settings.table("bronze", f"{source}_decisions")


def history_admissions(settings: Settings, source: str) -> str:
    """The files whose rows a backfill's runner has admitted as history."""
    return settings.table("bronze", f"{source}_admissions")


def late_decisions(settings: Settings, source: str) -> str:
    """The decisions of stewards about rows of a source that came too late for a metric."""
    return settings.table("bronze", f"{source}_late_decisions")


def redactions(settings: Settings, source: str) -> str:
    """The values of a source that were redacted."""
    return settings.table("bronze", f"{source}_redactions")


def readings(settings: Settings, source: str) -> str:
    """The rows of a source that were parsed again with another result."""
    return settings.table("bronze", f"{source}_readings")


def silver(settings: Settings, source: str) -> str:
    """The current row of every key of a source; all rows under ``append``."""
    return settings.table("silver", source)


def silver_newest(settings: Settings, source: str) -> str:
    """The newest row of every key of a source under ``append``."""
    return settings.table("silver", f"{source}_newest")


def silver_of(settings: Settings, contract: SourceContract) -> str:
    """The silver table that a contract describes: of a source, or of the newest rows of its keys."""
    return settings.table("silver", contract.silver_table)


def silver_read(settings: Settings, metric: MetricContract) -> str:
    """The silver table that a metric is computed from; for several sources, the table of the first one."""
    return settings.table("silver", silver_name(metric))


def silver_name(metric: MetricContract) -> str:
    """The name of the silver table that a metric is computed from; for several sources, the table of the first one."""
    return next((entry.silver for entry in metric.read), metric.source)


def every_silver_read(settings: Settings, metric: MetricContract) -> dict[str, str]:
    """The silver tables that a metric is computed from, by name, in the order of its sources."""
    return {entry.silver: silver_read_of(settings, entry) for entry in metric.read}


def silver_read_of(settings: Settings, entry: MetricSource) -> str:
    """The silver table that a metric reads of one of its sources."""
    return settings.table("silver", entry.silver)


def intervals(settings: Settings, source: str) -> str:
    """The intervals of every key of a dimension."""
    return settings.table("silver", f"{source}_intervals")


def changes_by_key(settings: Settings, source: str) -> str:
    """The changes of a dimension in silver, by key."""
    return settings.table("ops", f"{source}_by_key")


def fact_index(settings: Settings, silver: str, on: Sequence[str]) -> str:
    """The event days of the facts of a silver table, by the columns on which a metric joins them."""
    return settings.table("ops", fact_index_name(silver, on))


def quarantine(settings: Settings, source: str) -> str:
    """The rows of a source that wait, or have waited, for a steward's decision."""
    return settings.table("silver", f"{source}_quarantine")


def late_rows(settings: Settings, source: str) -> str:
    """The rows of a source that came too late for a window of a metric, and the action taken."""
    return settings.table("silver", f"{source}_late")


def late_deliveries(settings: Settings, source: str) -> str:
    """The numbers of rows of each delivery of a source on time and late, by metric."""
    return settings.table("ops", f"{source}_late_deliveries")


def late_outputs(settings: Settings) -> str:
    """The deliveries whose late rows were sent to the topic of a metric."""
    return settings.table("ops", "late_outputs")


def gold(settings: Settings, series: Series) -> str:
    """The published numbers of a series, with all their revisions."""
    return settings.table("gold", series.name)


def is_gold(settings: Settings, path: str) -> bool:
    """Whether ``path`` is the address of a table of numbers."""
    return path.startswith(settings.table("gold", ""))


def gold_of(settings: Settings, metric: str, kind: Kind) -> str:
    """The published numbers of a metric, given by the name of its daily table, for a kind of period."""
    return settings.table("gold", f"{metric}{kind.suffix}")


def candidates(settings: Settings, series: Series) -> str:
    """The numbers of a series that are not published because a check failed or a sign-off is missing."""
    return settings.table("gold", f"{series.name}_candidates")


def live(settings: Settings, metric: str) -> str:
    """The numbers of a metric's speed layer."""
    return settings.table("live", metric)


def live_checkpoints(settings: Settings, metric: str) -> str:
    """The folder with the checkpoints of a metric's stream; no table."""
    return f"{settings.root}/live/_checkpoints/{metric}"


def live_batches(settings: Settings) -> str:
    """The rows that each batch of the streams has read."""
    return settings.table("ops", "live_batches")


def reconciliations(settings: Settings) -> str:
    """The comparisons of live with published numbers."""
    return settings.table("ops", "reconciliations")


def key_log(settings: Settings, source: str) -> str:
    """The claims of a source's Bronze rows about record keys, and whether each row was admitted."""
    return settings.table("ops", f"{source}_keys")


def dispositions(settings: Settings, source: str) -> str:
    """The disposition of each row of a source's Bronze table."""
    return settings.table("ops", f"{source}_dispositions")


def judgement_history(settings: Settings, source: str) -> str:
    """The admission results of a source's rows that a rebuild replaced."""
    return settings.table("ops", f"{source}_overruled")


def ingestions(settings: Settings) -> str:
    """The deliveries of files: ingested into Bronze, delivered before, or held."""
    return settings.table("ops", "ingestions")


def applied_inputs(settings: Settings) -> str:
    """The ingestions, decisions and rebuild requests that silver contains, by event day."""
    return settings.table("ops", "applications")


def journal(settings: Settings) -> str:
    """The second copy of what no other table contains, such as decisions."""
    return settings.table("ops", "journal")


def rebuild_requests(settings: Settings) -> str:
    """The requests to evaluate event days again and rebuild them."""
    return settings.table("ops", "operations")


def audit_log(settings: Settings) -> str:
    """The changes of silver that late rows caused."""
    return settings.table("ops", "late_arrival_audit")


def audit_notifications(settings: Settings) -> str:
    """The changes of silver about which all consumers were notified."""
    return settings.table("ops", "audit_notifications")


def failed_checks(settings: Settings) -> str:
    """The checks of Bronze and silver that fail."""
    return settings.table("ops", "failed_checks")


def failed_numbers(settings: Settings) -> str:
    """The numbers that cannot be computed from their rows."""
    return settings.table("ops", "failed_numbers")


def restatements(settings: Settings) -> str:
    """The version of its input up to which each series was restated."""
    return settings.table("ops", "restatements")


def publications(settings: Settings) -> str:
    """The publications of all series."""
    return settings.table("ops", "publications")


def restatement_reports(settings: Settings) -> str:
    """The reports of the publications that restated numbers."""
    return settings.table("ops", "restatement_reports")


def input_sets(settings: Settings) -> str:
    """The sets of inputs that published numbers were computed from."""
    return settings.table("ops", "inputs")


def rejected_candidates(settings: Settings) -> str:
    """The candidates that were rejected instead of published."""
    return settings.table("ops", "dropped")


def promotion_log(settings: Settings) -> str:
    """The promotions of dataset versions."""
    return settings.table("ops", "moves")


def contract_archive(settings: Settings) -> str:
    """The text of every contract version under which numbers were published."""
    return settings.table("ops", "contracts")


def notices(settings: Settings) -> str:
    """The notices to consumers, and which of them were delivered."""
    return settings.table("ops", "notices")


def alerts(settings: Settings) -> str:
    """The changes of the state of alerts."""
    return settings.table("ops", "alerts")


def backfills(settings: Settings) -> str:
    """The plans of backfills."""
    return settings.table("ops", "backfills")


def backfill_events(settings: Settings) -> str:
    """The events of the chunks of each backfill."""
    return settings.table("ops", "backfill_events")


def unread_rows(settings: Settings) -> str:
    """The table of the rows that could not be read, per delivered file."""
    return settings.table("ops", "unread_rows")


def missing_inputs(settings: Settings) -> str:
    """The missing inputs of the sources that the sensors report."""
    return settings.table("ops", "missing_inputs")


def stream_gaps(settings: Settings) -> str:
    """The messages of the sources' topics that were lost before they were read, and who has accepted the loss."""
    return settings.table("ops", "stream_gaps")


def watermarks(settings: Settings) -> str:
    """The changes of the sources' watermarks."""
    return settings.table("ops", "watermarks")


def watermark_keys(settings: Settings) -> str:
    """The state of the keys for the event-time watermark of a source."""
    return settings.table("ops", "watermark_keys")


def event_watermarks(settings: Settings) -> str:
    """The decisions about the greatest lateness that the sources' event-time watermarks expect."""
    return settings.table("ops", "event_watermarks")


def corrections(settings: Settings) -> str:
    """The corrections that people have proposed, approved, rejected and entered."""
    return settings.table("ops", "corrections")


def reverts(settings: Settings) -> str:
    """The periods that people have reverted to an earlier revision, and their release."""
    return settings.table("ops", "reverts")


def snapshots(settings: Settings) -> str:
    """The sets of inputs that people have named."""
    return settings.table("ops", "snapshots")


def stages(settings: Settings) -> str:
    """The stages: changed inputs that were computed apart from the tables, and their outcome."""
    return settings.table("ops", "stages")


def tokens(settings: Settings) -> str:
    """The hashes of the API tokens."""
    return settings.table("ops", "tokens")


def fact_index_name(silver: str, on: Sequence[str]) -> str:
    """The name of :func:`fact_index`."""
    return f"{silver}_by_{'_'.join(on)}"
