"""A person closes a period that still waits for something, and takes what is missing on themselves (rule R13).

The published number becomes final as it is. What a period waits for is stated by ``closing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.contracts.published_columns import LINEAGE
from lakehouse.delta import table_io
from lakehouse.delta.table_cache import with_table_cache
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.publication import candidates, revisions, write_audit_publish
from lakehouse.gold.publication.drafts import Draft, NumberLineage
from lakehouse.gold.publication.write_audit_publish import again_on_conflict
from lakehouse.gold.restatement import closing
from lakehouse.ledger import publications

if TYPE_CHECKING:
    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.publication.revisions import Revision
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.settings import Settings


class CloseError(LakehouseError):
    """A period that cannot be closed. The message says why, and what to do."""


@again_on_conflict
def close(settings: Settings, contract: SourceContract, series: Series, period: Period, run: Run, reason: str) -> Revision | None:
    """Make a published number final although something is missing; the revision records by whom, why, and what was missing.

    :param run: names the person.
    :returns: what was published; None if the period is final already.
    :raises CloseError: if nothing is published, another number is held, or the calendar does not close the period yet.
    """
    settings = with_table_cache(settings)
    before = write_audit_publish.read(settings, series, [period.start])
    published, terms = before.published_states.get(period.start), series.metric.publication
    if published is None or before.existing is None:
        msg = f"nothing of {series.name} is published for {period.name}: materialize gold/{series.name} first"
        raise CloseError(msg)
    if published.state is State.FINAL:
        return None
    today = lifecycle.today(settings.clock(), terms)
    if lifecycle.state_on(period.last, today, terms) is not State.FINAL:
        earliest = lifecycle.closes_on(period.last, terms)
        msg = f"{series.name} {period.name} can be closed from {earliest} on: the contract gives it {terms.final_after} days"
        raise CloseError(msg)
    if waiting := candidates.held(settings, series, [period.start]):
        msg = (
            f"r{waiting[0].revision} of {series.name} {period.name} is held: publish or drop it first, see 'lakehouse gold held'"
        )
        raise CloseError(msg)
    limit = closing.limits(settings, contract, series, [period]).get(period.start)
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
    told = f"{reason} (missing: {'; '.join(missing)})" if missing else reason
    signed = write_audit_publish.signature(settings, series, run, {"trigger": {"closed_without": missing}}, told)
    [revision] = revisions.publish(settings, series, before.table, before.existing, [draft], signed)
    publications.follow(settings, series.name, locations.gold(settings, series))
    return revision
