"""Closes a period that still waits for something, on a person's responsibility for the missing input (rule R13).

The published number becomes final as it is; where the contract counts late rows at the close, with the rows that it has left out
so far. What a period waits for is stated by ``closing``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import LINEAGE, source_read
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.numbers.published_table import content_of
from lakehouse.gold.publication import candidates, revisions, write_audit_publish
from lakehouse.gold.publication.candidates import Draft, NumberLineage
from lakehouse.gold.publication.write_audit_publish import again_on_conflict
from lakehouse.gold.restatement import closing, lineage, metric_query
from lakehouse.gold.restatement.days import explain, lineages
from lakehouse.lake import table_io
from lakehouse.ledger import late_decisions, publications
from lakehouse.snapshots import input_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.publication.revisions import Revision
    from lakehouse.gold.publication.write_audit_publish import Run, SeriesSnapshot
    from lakehouse.lake import Lake


class CloseError(LakehouseError):
    """A period that cannot be closed. The message says why, and what to do."""


@again_on_conflict
def close(
    lake: Lake,
    contract: SourceContract,
    series: Series,
    period: Period,
    run: Run,
    reason: str,
    session: Callable[[], SparkSession],
) -> Revision | None:
    """Make a published number final although something is missing; the revision records by whom, why, and what was missing.

    :param run: names the person.
    :param session: is started only where rows count at the close that the number has left out.
    :returns: what was published; None if the period is final already.
    :raises CloseError: if nothing is published, another number is held, or the calendar does not close the period yet.
    """
    lake = lake.cached()
    before = write_audit_publish.read(lake, series, [period.start])
    published, terms = before.published_states.get(period.start), series.metric.publication
    if published is None or before.existing is None:
        msg = f"nothing of {series.name} is published for {period.name}: materialize gold/{series.name} first"
        raise CloseError(msg)
    if published.state is State.FINAL:
        return None
    today = lifecycle.today(lake.now(), terms)
    if lifecycle.state_on(period.last, today, terms) is not State.FINAL:
        earliest = lifecycle.closes_on(period.last, terms)
        msg = f"{series.name} {period.name} can be closed from {earliest} on: the contract gives it {terms.final_after} days"
        raise CloseError(msg)
    if waiting := candidates.held(lake, series, [period.start]):
        msg = (
            f"r{waiting[0].revision} of {series.name} {period.name} is held: publish or drop it first, see 'lakehouse gold held'"
        )
        raise CloseError(msg)
    limit = closing.limits(lake, contract, series, [period]).get(period.start)
    missing = list(limit.waits_for) if limit else []
    latest = before.existing.filter(before.existing["is_latest"]).slice(0, 1)
    newest = table_io.with_columns(latest, LINEAGE).to_pylist()[0]
    draft = Draft(
        start=period.start,
        rows=before.latest[period.start],
        state=State.FINAL,
        action=PublishAction.STATE_CHANGE,
        reason=RevisionReason.DAILY_FINALIZATION,
        lineage=NumberLineage.of_row(newest),
    )
    draft = _with_late_rows(lake, source_read(series.metric, contract), before, draft, session)
    told = f"{reason} (missing: {'; '.join(missing)})" if missing else reason
    signed = write_audit_publish.signature(lake, series, run, {"trigger": {"closed_without": missing}}, told)
    [revision] = revisions.publish(lake, series, before.table, before.existing, [draft], signed)
    publications.follow(lake, series.name, locations.gold(lake, series))
    return revision


def _with_late_rows(
    lake: Lake, read: SourceContract, before: SeriesSnapshot, draft: Draft, session: Callable[[], SparkSession]
) -> Draft:
    """The draft of a day's close; where rows of silver have come too late for it, with the number that counts them.

    :param read: the contract of the silver table that the metric reads.
    """
    metric, start, named = before.series.metric, draft.start, draft.lineage.inputs
    if before.series.kind is not Kind.DAY or metric.late_source is None:
        return draft
    made_from = lineage.of_metric(lake, metric, read)
    late = lineage.late_causes_of_days(lake, before, made_from, [start], [start])
    if named is None or start not in late.with_every_row:
        return draft
    if start not in late.at_close:
        every = input_sets.ids_of(lake, metric.source, named) | {late_decisions.EVERY_ROW}
        inputs = input_sets.record(lake, metric.source, every, lake.now())
        return replace(draft, lineage=replace(draft.lineage, inputs=inputs))
    numbers = metric_query.numbers(session, lake, metric, [start], made_from, [start])
    rows = numbers[start] if start in numbers else metric_query.nothing(session, lake, metric)
    of_now = lineages(lake, before, made_from, [start], (), late.with_every_row)[start]
    if content_of(rows, {draft.content}) == draft.content:
        return replace(draft, lineage=of_now)
    reason, count = RevisionReason.LATE_DATA, late.at_close[start]
    why = explain(reason, late.with_causes(start, Counter()))
    return replace(
        draft, rows=rows, lineage=of_now, action=PublishAction.REVISION, reason=reason, explanation=why, changed_rows=count
    )
