"""The publication rules in a metric's contract: when a number is final, how it changes afterwards, and its roll-ups.

Regular work on a source: the required freshness of arrivals, the days that silver rebuilds, and the tuning of watermarks.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lakehouse.calendar import cron
from lakehouse.calendar.periods import Calendar
from lakehouse.contracts.base import Strict
from lakehouse.contracts.checks import Severity  # noqa: TC001 (pydantic reads it)

Cron = Annotated[str, AfterValidator(cron.checked)]


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
