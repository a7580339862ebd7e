"""Drafts: the number that a period may be published with, and the form of the publication.

Belongs here: the draft itself and the one rule by which a computed number becomes one. How numbers are computed, and from which
inputs, belongs to days, roll-ups and promotion; checking and publishing a draft belongs to ``write_audit_publish``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.published_columns import LINEAGE
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.numbers.lifecycle import PublishAction, State
from lakehouse.gold.numbers.published_table import content_of, digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    import pyarrow as pa

    from lakehouse.contracts.publication import PublicationRules
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.lifecycle import PublishedState, RevisionReason


@dataclass(frozen=True)
class NumberLineage:
    """The inputs of a number; they stay the same when the number is published again.

    The fields are the published columns of :data:`LINEAGE`. ``code_version`` and ``contract_version`` are set if an earlier run
    computed the number; otherwise they are those of the publishing run. ``dimension_inputs`` has the inputs of the further
    sources and of the dimensions that the metric joins, as ``restatement.lineage.record_others`` writes them.
    """

    undecided_rows: int = 0
    known_through: date | None = None
    made_from: str | None = None
    inputs: str | None = None
    inputs_without: str | None = None
    dimension_inputs: str | None = None
    silver_version: int | None = None
    code_version: str | None = None
    contract_version: str | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> NumberLineage:
        """The lineage in a published row or a candidate; columns that an earlier release did not have are empty."""
        return cls(**{name: row[name] for name in LINEAGE if name in row})


@dataclass(frozen=True)
class Draft:
    """A number that may become a revision or an adjustment of a period.

    :param start: the first day of the period.
    :param rows: the content columns of the series, in the order of the grain; for an adjustment, what a restatement would
        publish.
    :param explanation: why the number differs from the published one, for people.
    :param changed_rows: the number of changes of Silver rows that led to it, if known.
    :param booked_on: the open day that an adjustment is booked to.
    """

    start: date
    rows: pa.Table
    state: State
    action: PublishAction
    reason: RevisionReason
    explanation: str | None = None
    changed_rows: int | None = None
    booked_on: date | None = None
    lineage: NumberLineage = field(default_factory=NumberLineage)

    @property
    def content(self) -> str:
        """The digest of the rows; for an adjustment, that of the closed number plus the adjustment."""
        return digest(self.rows)


def draft_period(
    series: Series,
    published: PublishedState | None,
    start: date,
    rows: pa.Table,
    today: date,
    *,
    requested: RevisionReason | None = None,
    causes: Mapping[str, int] | None = None,
    content: str | None = None,
    terms: PublicationRules | None = None,
    at_most: State = State.FINAL,
) -> Draft | None:
    """Draft the publication of a period's number; None if there is nothing to publish.

    :param published: the published state of the period.
    :param today: the day in the metric's calendar.
    :param requested: the reason that the run gives; None if it follows the data.
    :param causes: the changes of the number's Silver rows: counts of inserted, corrected, moved and deleted keys.
    :param content: the digest to compare with the published content; default: that of ``rows``.
    :param terms: when a number is final and what may change it afterwards; default: the rules of the series' contract.
    :param at_most: the latest state that the known input of the period permits.
    """
    terms = terms or series.metric.publication
    state = lifecycle.state_of(published, series.period(start).last, today, terms, at_most)
    action = lifecycle.publish_action(published, content or content_of(rows, lifecycle.contents_of(published)), state, terms)
    if action is PublishAction.NOTHING:
        return None
    return Draft(
        start=start,
        rows=rows,
        state=state,
        action=action,
        reason=lifecycle.reason_for(
            action, published, requested, causes or {}, is_running=today <= series.period(start).last + timedelta(days=1)
        ),
        booked_on=today if action is PublishAction.ADJUSTMENT else None,
    )
