"""When a metric's numbers are published and final, what happens to late events, and the regular work on a source.

The publication rules state when a number is final, how it changes afterwards, and its roll-ups. ``late_events`` states what
happens to events that arrive after the source's watermark has passed their window, and what that requires of the source. Which
rows are late is determined in ``lakehouse.late_events``; the watermark belongs to the source's contract. The regular work on a
source: the required freshness of arrivals, the days that silver rebuilds, and the tuning of watermarks.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, AliasChoices, Field, model_validator

from lakehouse.calendar.periods import Calendar, checked_cron
from lakehouse.contracts.base import Strict
from lakehouse.contracts.checks import Severity  # noqa: TC001 (pydantic reads it)
from lakehouse.contracts.inputs import TopicAddress  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract

Cron = Annotated[str, AfterValidator(checked_cron)]


class Freshness(Strict):
    """The greatest age of the newest arrival by the deployment's clock."""

    max_age: timedelta = Field(gt=timedelta(0), description="The check arrivals_are_fresh fails beyond this age.")
    severity: Severity = Field("warn", description="How Dagster shows the failure, which holds nothing.")


class RollingBackfill(Strict):
    """The event days that silver rebuilds from Bronze on a schedule: ``days`` days, the last one ``delay`` days ago."""

    days: int = Field(7, ge=1, le=366, description="How many event days are rebuilt.")
    delay: int = Field(2, ge=0, le=366, description="How many days ago the last of them is: 2 leaves today and yesterday alone.")
    at: Cron = Field("0 3 * * *", description="When, as a cron expression in the time zone of clocks.timezone.")


class Tuning(Strict):
    """The target and the limits of the cutoff that ``lakehouse lateness propose`` proposes."""

    catch: float = Field(0.99, gt=0, lt=1, description="The share of rows that should come within the bound.")
    at_least: timedelta = Field(timedelta(0), ge=timedelta(0), description="No shorter bound is proposed.")
    at_most: timedelta = Field(timedelta(days=30), gt=timedelta(0), description="No longer bound is proposed.")
    band: float = Field(
        0.25, ge=0, lt=1, description="A cutoff stays while the data asks for one that differs by no more than this share."
    )
    days: int = Field(28, ge=1, le=366, description="How many arrival days are measured.")
    rows: int = Field(500, ge=1, description="With fewer rows nothing is proposed.")

    @model_validator(mode="after")
    def _ordered(self) -> Tuning:
        if self.at_least > self.at_most:
            msg = "at_least: is greater than at_most"
            raise ValueError(msg)
        return self

    def keeps(self, current: timedelta, wanted: timedelta) -> bool:
        """Whether the current watermark stays although the data suggests ``wanted``."""
        near = current * (1 - self.band) <= wanted <= current * (1 + self.band)
        return near and self.at_least <= current <= self.at_most


class WatermarkTuning(Tuning):
    """The tuning of the event-time watermark's ``max_lateness`` to the data, optionally automatic."""

    auto: bool = Field(False, description="Whether the proposal is applied every day, without a person.")
    band: float = Field(
        0.25,
        ge=0,
        lt=1,
        description="The share of itself by which it has to be too long to be lowered, and moves at most in a day.",
    )
    event_types: list[str] = Field(
        default_factory=list, description="Only rows of these event types are measured; default: all, corrections included."
    )

    @model_validator(mode="after")
    def _can_move(self) -> WatermarkTuning:
        if self.auto and not self.band:
            msg = "band: is 0, so that the watermark could never move; 'auto: true' needs a greater one, such as 0.25"
            raise ValueError(msg)
        return self

    def keeps(self, current: timedelta, wanted: timedelta) -> bool:
        """Never keep a watermark below ``wanted``: a number that is final too early does more harm."""
        return super().keeps(current, wanted) and wanted <= current


Rollup = Literal["week", "month", "quarter", "fiscal_quarter", "fiscal_year"]
_Period = Literal["day", "week", "month", "quarter", "fiscal_quarter", "fiscal_year"]
AfterClose = Literal["restate", "adjust"]


class FinalNeeds(Strict):
    """The conditions for closing a period, besides the calendar; each can be switched off."""

    watermark: bool = Field(True, description="The source's event-time watermark, if it has one, has passed the period.")
    no_held_file: bool = Field(True, description="No file of the source that may concern the period is held.")
    no_unfinished_day: bool = Field(
        True,
        description="No arrival day that may concern the period waits in landing for its marker or for files of its manifest.",
    )
    no_failed_ingestion: bool = Field(
        True, description="No file that may concern the period is in landing that several runs failed to ingest."
    )
    no_open_review: bool = Field(True, description="No row of the period waits for a steward.")
    no_unread_row: bool = Field(
        True, description="No row that may belong to the period is malformed, beyond the share that its source tolerates."
    )
    final_days: bool = Field(True, description="A longer period: all its published days are final.")


class PublicationRules(Strict):
    """The times of publication, in days after the event day, or after a roll-up's last day: 0 is that day itself."""

    start_delay: int = Field(0, ge=0, description="The number is not published before this many days have passed.")
    preliminary_after: int = Field(1, ge=0, description="From then on it is preliminary; until then it is live.")
    final_after: int = Field(
        7,
        ge=0,
        description="From then on it is final, and the period closed, unless something that 'final_needs' names is missing.",
    )
    final_needs: FinalNeeds = Field(default_factory=FinalNeeds)
    close_by: int | None = Field(
        None,
        ge=0,
        description="A number that waits for something alerts when it is not final by then; default: like one that waits for "
        "nothing, see alerts.overdue_after.",
    )
    closes_with: dict[_Period, str] = Field(
        default_factory=dict,
        description="By kind of period: what the tier of the source's lateness serves that the watermark has to pass it by.",
    )
    after_close: AfterClose = Field(
        "restate", description="What a change of a closed period becomes: a new final revision, or a row in the open period."
    )
    rollups: list[Rollup] = Field(default_factory=list, description="Longer periods for which the metric is also published.")
    fiscal_year_starts: int = Field(1, ge=1, le=12, description="The month that the fiscal year begins with.")
    timezone: str | None = Field(None, description="Whose midnight ends a day; default: that of the source's clocks.")
    approvals: int = Field(
        1, ge=1, description="How many people have to agree to a manual correction that changes a final number."
    )
    patch_up_to: int = Field(
        0, ge=0, description="Up to this many changed rows a day's number is patched, if that is exact, and not computed again."
    )

    @property
    def calendar(self) -> Calendar:
        """The calendar that defines the starts of weeks and fiscal years."""
        return Calendar(self.fiscal_year_starts)

    @model_validator(mode="after")
    def _in_order(self) -> PublicationRules:
        if self.final_after < self.preliminary_after:
            msg = f"final_after: comes before 'preliminary_after: {self.preliminary_after}'"
            raise ValueError(msg)
        if self.close_by is not None and self.close_by < self.final_after:
            msg = f"close_by: comes before 'final_after: {self.final_after}'"
            raise ValueError(msg)
        if len(set(self.rollups)) < len(self.rollups):
            msg = "rollups: name each once"
            raise ValueError(msg)
        return self


class LateAction(str, Enum):
    """The treatment of a late row within the grace."""

    DROP = "drop"
    SIDE_OUTPUT = "side_output"
    UPDATE = "update"
    RECOMPUTE = "recompute"

    @property
    def accepts(self) -> bool:
        """Whether the row counts in the metric."""
        return self in (LateAction.UPDATE, LateAction.RECOMPUTE)


class AtClose(str, Enum):
    """What becomes of the rows that do not count when the number of their day becomes final."""

    INCLUDE = "include"
    EXCLUDE = "exclude"


class PatchLimit(Strict):
    """The bound up to which the published number of a window is patched with its late rows instead of recomputed."""

    below: float = Field(0.05, ge=0, le=1, description="The share of late rows in the window below which it is patched.")


class LateEvents(Strict):
    """The treatment of a row that arrives after the source's watermark has passed the row's window."""

    allowed_lateness: timedelta = Field(
        timedelta(0),
        ge=timedelta(0),
        validation_alias=AliasChoices("grace", "allowed_lateness"),
        description="How far the watermark may be past the end of a window for its rows to count.",
    )
    action: LateAction = Field(
        LateAction.RECOMPUTE,
        description="What becomes of a late row within the grace; a later one does not count before the close.",
    )
    at_close: AtClose = Field(
        AtClose.INCLUDE, description="Whether a final number counts every row that has come by then, however late it came."
    )
    max_updates_per_window: int = Field(
        10, ge=1, description="After so many revisions because of late rows, a window that changes waits until it is final."
    )
    patch: PatchLimit = Field(default_factory=PatchLimit, description="Of the action 'update': when a number is patched.")
    topic: TopicAddress | None = Field(
        None, description="Where the rows of the side output are sent to as messages; default: they are in the table only."
    )

    @property
    def tolerance(self) -> timedelta:
        """How far the watermark may be past a window's end for a row of the window to count."""
        return self.allowed_lateness if self.action.accepts else timedelta(0)


def late_events_misfits(
    metric: MetricContract, sources: Mapping[str, SourceContract]
) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The mistakes in a metric's late events, compared with its source: where in the metric's file, and what to do."""
    if metric.late_events is None:
        return
    if metric.is_derived:
        yield ("late_events",), "a derived metric reads no rows; give the key to its inputs"
        return
    if metric.sources:
        yield ("late_events",), "rows of several sources meet several watermarks; give the key to a metric of one source"
        return
    source = sources.get(metric.source)
    if source is None:
        return  # a mistake reported elsewhere
    if source.clocks.watermark is None:
        text = f"{metric.source} has no watermark that an event could be late against; give its contract 'clocks.watermark'"
        yield ("late_events",), text
    policy = source.materialization.reprocess_policy
    if policy.startswith("overwrite"):
        text = f"under 'reprocess_policy: {policy}' of {metric.source} a whole delivery replaces another; leave the key out"
        yield ("late_events",), text
