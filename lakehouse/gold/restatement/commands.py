"""``lakehouse revert``, ``gold release``, ``held``, ``publish``, ``drop`` and ``close``: a person's decisions about numbers.

A number is restored to an earlier revision and follows silver again when it is released. A number that failed a check is held,
until it is published or dropped. A period that still waits is closed as it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import deployment, out
from lakehouse.text import format_moment, join_limited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.series import Series
    from lakehouse.gold.publication.candidates import HeldCandidate
    from lakehouse.gold.publication.held_numbers import RevertedPeriod
    from lakehouse.ledger.failures import FailedNumber


Revision = Annotated[
    int,
    typer.Option(
        parser=arguments.revision_number,
        metavar="REVISION",
        help="The revision that it would become, as 'gold held' shows it: r3, or 3.",
    ),
]


def held(
    metric: Annotated[str | None, typer.Argument(help="One metric; default: all.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the numbers that failed a check or cannot be computed, which readers do not see, and the reverted days."""
    from lakehouse.calendar.periods import Kind  # noqa: PLC0415
    from lakehouse.gold.publication import candidates, held_numbers  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.ledger import failures  # noqa: PLC0415

    lake, catalog = arguments.metric_named(metric, reading=True)[:2] if metric else deployment(reading=True)
    count = 0
    for one_metric in [catalog.metrics[metric]] if metric else catalog.metrics.values():
        daily = arguments.series_of(lake, catalog, one_metric, Kind.DAY)
        for series in (daily, *daily.rollups):
            for waiting in candidates.held(lake, series):
                count += 1
                _print(series, waiting, as_json=as_json)
            for failed in failures.failing(lake, series.name).values():
                count += 1
                _print_failed(series, failed, as_json=as_json)
        for kept in held_numbers.kept_periods(lake, daily.name).values():
            count += 1
            _print_kept(one_metric.name, kept, as_json=as_json)
    if not count and not as_json:
        out.print("Nothing is held.")


def publish(
    metric: arguments.Metric, period: arguments.PeriodName, revision: Revision, by: arguments.DecidedBy, reason: arguments.Why
) -> None:
    """Sign off a held number: readers see it from now on, with your name and reason."""
    from lakehouse.gold.numbers.lifecycle import State  # noqa: PLC0415
    from lakehouse.gold.publication import held_numbers  # noqa: PLC0415
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415
    from lakehouse.gold.restatement import closing  # noqa: PLC0415

    of = arguments.about(metric, period)
    run = Run(f"cli:{by}", "lakehouse gold publish", by=by)
    source = of.catalog.sources[of.series.metric.source]
    limit = closing.limits(of.lake, source, of.series, [of.period]).get(of.period.start)
    at_most = limit.at_most if limit else State.FINAL
    done = held_numbers.sign_off(of.lake, of.series, of.period, revision, run, reason, at_most)
    if done is None:
        out.print(f"{of.series.name} already has this number for {of.period.name}; nothing was published.", soft_wrap=True)
    else:
        out.print(f"{done.name} is published, {done.state.value}, signed off by {by}.", soft_wrap=True)


def close(metric: arguments.Metric, period: arguments.PeriodName, by: arguments.DecidedBy, reason: arguments.Why) -> None:
    """Close a waiting period: its number becomes final as it is, with your name and reason."""
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415
    from lakehouse.gold.restatement import early_close  # noqa: PLC0415

    of = arguments.about(metric, period)
    run = Run(f"cli:{by}", "lakehouse gold close", by=by)
    source = of.catalog.sources[of.series.metric.source]
    done = early_close.close(of.lake, source, of.series, of.period, run, reason, _session)
    if done is None:
        out.print(f"{of.series.name} {of.period.name} is final already; nothing was published.", soft_wrap=True)
    else:
        out.print(f"{done.name} is final, signed off by {by}.", soft_wrap=True)


def _session() -> SparkSession:
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)

    return LakeSpark().session()


def drop(
    metric: arguments.Metric, period: arguments.PeriodName, revision: Revision, by: arguments.DecidedBy, reason: arguments.Why
) -> None:
    """Reject a held number: the published number stays, and the same number is not proposed again."""
    from lakehouse.gold.publication import held_numbers  # noqa: PLC0415

    of = arguments.about(metric, period)
    held_numbers.drop(of.lake, of.series, of.period, revision, by, reason)
    out.print(f"r{revision} of {of.series.name} for {of.period.name} is dropped; the published number is kept.", soft_wrap=True)


def _print_kept(metric: str, kept: RevertedPeriod, *, as_json: bool) -> None:
    if as_json:
        fields = {"series": kept.series, "period": f"{kept.period_start}", "reverted_to": kept.version, "by": kept.by}
        out.print(json.dumps(fields | {"reason": kept.reason, "since": kept.recorded_at}, default=str), soft_wrap=True)
        return
    out.print(
        f"{kept.series} {kept.period_start}  put back to {kept.version} by {kept.by}: {kept.reason}",
        style="bold",
        soft_wrap=True,
    )
    ends = f"later changes wait until 'lakehouse gold release {metric} {kept.period_start}'"
    out.print(f"    since {format_moment(kept.recorded_at)}; {ends}", style="yellow", soft_wrap=True)


def _print_failed(series: Series, failed: FailedNumber, *, as_json: bool) -> None:
    from lakehouse.ledger.failures import COMPUTED  # noqa: PLC0415 (Arrow loads in a second)

    name = series.period(failed.start).name
    if as_json:
        fields = {"series": series.name, "period": name, "measure": failed.measure, "failed": {COMPUTED: failed.explanation}}
        out.print(json.dumps(fields | {"since": failed.recorded_at}, default=str), soft_wrap=True)
        return
    out.print(f"{series.name} {name}  not computed, held since {format_moment(failed.recorded_at)}", style="bold", soft_wrap=True)
    out.print(f"    {COMPUTED}: {failed.explanation}", style="yellow", soft_wrap=True)


def _print(series: Series, waiting: HeldCandidate, *, as_json: bool) -> None:
    name = series.period(waiting.start).name
    if as_json:
        fields = {"series": series.name, "period": name, "revision": waiting.revision, "reason": waiting.draft.reason.value}
        fields |= {"failed": dict(waiting.failed), "since": waiting.proposed_at, "rows": waiting.draft.rows.to_pylist()}
        out.print(json.dumps(fields, default=str), soft_wrap=True)
        return
    since = format_moment(waiting.proposed_at)
    out.print(
        f"{series.name} {name} r{waiting.revision}  {waiting.draft.explanation}, held since {since}", style="bold", soft_wrap=True
    )
    for row in waiting.draft.rows.to_pylist():
        out.print("    " + "  ".join(f"{key} {value}" for key, value in row.items()), soft_wrap=True)
    for check, explanation in waiting.failed.items():
        out.print(f"    {check}: {explanation}", style="yellow", soft_wrap=True)
    if not waiting.failed:
        out.print("    its run was stopped before its checks were complete; materialize the period again", style="yellow")


_SHOWN = 8
_Earlier = Annotated[str, typer.Option("--to", help="The version to go back to: r1, r3.a1, first, or a time.")]
_Restate = Annotated[bool, typer.Option("--restate", help="Update numbers and roll-ups now (may start Spark).")]


def revert(
    metric: arguments.Metric,
    period: arguments.PeriodName,
    to: _Earlier,
    by: arguments.DecidedBy,
    reason: arguments.WhyForReaders,
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Restore an earlier version of a number as a new revision; later changes wait until 'lakehouse gold release'."""
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415
    from lakehouse.gold.restatement import revert as restatement_revert  # noqa: PLC0415
    from lakehouse.orchestration import commands  # noqa: PLC0415 (Arrow loads in a second)

    of = arguments.about(metric, period)
    run = Run(f"cli:{by}", "lakehouse revert", by=by)
    source = of.catalog.sources[of.series.metric.source]
    done = restatement_revert.revert(of.lake, source, of.series, of.period, arguments.asked_for(to), run, reason)
    for revision in done.published:
        out.print(f"{revision.name} is published, {revision.state.value}: {reason}", soft_wrap=True)
    if done.unchanged:
        out.print(f"{_listed(done.unchanged)}: already the earlier number; nothing was published.", soft_wrap=True)
    out.print(f"Later changes wait until 'lakehouse gold release {metric} {period}'.", soft_wrap=True)
    commands.print_pending(of.lake, of.series.daily, of.catalog, now=restate)


def release(
    metric: arguments.Metric,
    period: arguments.PeriodName,
    by: arguments.DecidedBy,
    reason: arguments.WhyForReaders,
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Let a reverted number follow silver again, including all changes since."""
    from lakehouse.gold.restatement import revert as restatement_revert  # noqa: PLC0415
    from lakehouse.orchestration import commands  # noqa: PLC0415 (Arrow loads in a second)

    of = arguments.about(metric, period)
    days = restatement_revert.release(of.lake, of.series, of.period, by, reason)
    out.print(f"{of.series.daily.name} follows silver again: {_listed(days)}.", soft_wrap=True)
    commands.print_pending(of.lake, of.series.daily, of.catalog, now=restate)


def _listed(days: Sequence[date]) -> str:
    return join_limited([f"{day}" for day in days], _SHOWN, " days")
