"""The rules of alerting about runs and checks: failures without a later success.

Each rule takes facts and returns an alert or None. The rules are described in docs/alerts.md. The orchestrator passes the facts
as the dataclasses below; nothing here depends on it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.contracts.series import Series
from lakehouse.operations.alerts.alert import AlertKind, AlertSubject, addressees
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.checks import Severity
    from lakehouse.operations.alerts.alert import Alert

#: The kinds of alerts that follow from runs and checks.
KINDS = frozenset({AlertKind.FAILED_RUN, AlertKind.RETRIES_USED_UP, AlertKind.FAILED_CHECK, AlertKind.RECONCILIATION})
#: The checks that compare a layer with the previous one.
RECONCILES = frozenset(
    {"rows_accounted", "every_row_disposed", "equals_bronze", "published_equals_silver", "published_equals_inputs"}
)
#: The checks whose failure has another kind of alert, based on the tables.
ALERTED_OTHERWISE = frozenset({"no_file_held", "no_review_overdue", "reviews_in_time"})
_SHOWN = 5
_LONGEST_REASON = 300


@dataclass(frozen=True)
class FailedRun:
    """A failed run whose work no later run has done.

    :param subject: the asset, such as ``silver/sales``, or the job.
    :param partitions: the partitions of the run, completed since or not; empty for a subject without partitions.
    :param reason: the error.
    :param given_up: whether no further run starts automatically.
    """

    run_id: str
    subject: str
    partitions: Sequence[str]
    ended_at: datetime
    reason: str
    given_up: bool


@dataclass(frozen=True)
class FailedCheck:
    """A check whose newest evaluation of a partition failed.

    :param subject: the checked asset.
    :param partition: None for an asset without partitions.
    """

    subject: str
    check: str
    partition: str | None
    severity: Severity
    at: datetime
    explanation: str | None


@dataclass(frozen=True)
class FailedLook:
    """A part of a sensor that failed when it was last taken, so that nothing new is started for its subject.

    :param look: the sensor and the source or table, such as ``restate_revenue``.
    :param subject: the asset.
    """

    look: str
    subject: str
    error: str
    since: datetime


@dataclass(frozen=True)
class RunOutcomes:
    """The failures among a set of subjects.

    :param subjects: the assets and jobs that were examined; the state of others is unknown.
    :param looks: all looks that fail now; None if that is unknown.
    """

    runs: Sequence[FailedRun] = ()
    checks: Sequence[FailedCheck] = ()
    subjects: Collection[str] = ()
    looks: Sequence[FailedLook] | None = None

    def know(self, alert: Alert) -> bool:
        """Whether the outcomes show if the condition of an alert still holds; always for alerts independent of runs."""
        if alert.kind is AlertKind.FAILED_LOOK:
            return self.looks is not None
        return alert.kind not in KINDS or alert.subject in self.subjects


def alerts(catalog: Catalog, outcomes: RunOutcomes) -> Iterator[Alert]:
    """The alerts about failed runs and checks."""
    for run in outcomes.runs:
        about = _about(catalog, run.subject)
        yield failed_run(about, run)
        if run.given_up:
            yield retries_used_up(about, run)
    for failed in outcomes.checks:
        about = _about(catalog, failed.subject)
        described = catalog.sources.get(about.contract) or catalog.metrics.get(about.contract)
        alert = failed_check(about, failed, described.alerts.failed_checks if described else "error")
        yield from filter(None, [alert])
    for look in outcomes.looks or ():
        yield failed_look(_about(catalog, look.subject), look)


def failed_look(about: AlertSubject, look: FailedLook) -> Alert:
    """The alert about a source or table at which a sensor cannot look."""
    text = (
        f"Dagster cannot see what is to do for {look.subject} ({look.look}): {_shortened(look.error)} "
        "Nothing new is started for it until that is mended; others go on."
    )
    return about.alert(AlertKind.FAILED_LOOK, look.since, text, {"look": look.look}, detail=look.look)


def failed_run(about: AlertSubject, run: FailedRun) -> Alert:
    """The alert about a failed run; another failed run of the same partitions is the same alert."""
    way_out = "mend its cause and start it again" if run.given_up else "unless a person started it, another one follows by itself"
    text = f"A run of {_named(run)} failed: {_shortened(run.reason)} See run {run.run_id[:8]} in Dagster; {way_out}."
    return _about_run(about, AlertKind.FAILED_RUN, run, text)


def retries_used_up(about: AlertSubject, run: FailedRun) -> Alert:
    """The alert about a failed run after which no further run starts automatically."""
    text = (
        f"Runs of {_named(run)} have failed as often as they are tried, and no further one is started: "
        f"{_shortened(run.reason)} See run {run.run_id[:8]} in Dagster; mend its cause and start it again."
    )
    return _about_run(about, AlertKind.RETRIES_USED_UP, run, text)


def failed_check(about: AlertSubject, failed: FailedCheck, least: Severity | None) -> Alert | None:
    """Alert if a check failed that is severe enough and has no other kind of alert.

    A check that compares two layers alerts at any severity. A number whose blocking check failed is held, which has its own
    alert.

    :param least: the least severity that alerts; None for none.
    """
    reconciles = failed.check in RECONCILES
    is_of_number = failed.subject.startswith("gold/") and not reconciles
    if failed.check in ALERTED_OTHERWISE or (is_of_number and failed.severity == "error"):
        return None
    if not reconciles and (least is None or (least == "error" and failed.severity == "warn")):
        return None
    where = f"{failed.subject} {failed.partition}" if failed.partition else failed.subject
    why = _shortened(failed.explanation or "it gives no reason")
    text = (
        f"The check {failed.check} of {where} failed ({failed.severity}): {why} It is evaluated again when that is materialized."
    )
    kind = AlertKind.RECONCILIATION if reconciles else AlertKind.FAILED_CHECK
    numbers = {"check": failed.check, "severity": failed.severity}
    more = {"period": failed.partition} if failed.partition else {}
    return about.alert(kind, failed.at, text, numbers, detail=failed.check, **more)


def _about(catalog: Catalog, subject: str) -> AlertSubject:
    """The subject of an alert, with the owners of its source and metric; a subject without a contract has no owner."""
    layer, _, name = subject.partition("/")
    if layer == "gold":
        for metric in catalog.metrics.values():
            if name in {series.name for series in (Series(metric), *Series(metric).rollups)}:
                source = catalog.sources.get(metric.source)
                return AlertSubject(metric.name, subject, addressees(source.owner if source else None, metric.owner))
    elif name in catalog.sources:
        return AlertSubject(name, subject, addressees(catalog.sources[name].owner))
    return AlertSubject(subject, subject)


def _about_run(about: AlertSubject, kind: AlertKind, run: FailedRun, text: str) -> Alert:
    numbers = {"run_id": run.run_id, "partitions": len(run.partitions)}
    if len(run.partitions) == 1:
        return about.alert(kind, run.ended_at, text, numbers, period=run.partitions[0])
    return about.alert(kind, run.ended_at, text, numbers, **({"detail": _identity(run.partitions)} if run.partitions else {}))


def _named(run: FailedRun) -> str:
    partitions = join_limited(list(run.partitions), _SHOWN, " partitions")
    return f"{run.subject} for {partitions}" if partitions else run.subject


def _identity(partitions: Sequence[str]) -> str:
    digest = hashlib.sha256("\n".join(partitions).encode()).hexdigest()[:8]
    return f"{len(partitions)} partitions, {partitions[0]} to {partitions[-1]}, {digest}"


def _shortened(reason: str) -> str:
    """A reason shortened to a sentence on one line."""
    line = " ".join(reason.split()).rstrip(".")
    return (line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ...") + "."
