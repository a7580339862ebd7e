"""The publication rules in a metric's contract: when a number is final, how it changes afterwards, and its roll-ups."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lakehouse.calendar.periods import Calendar
from lakehouse.contracts.base import Strict

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
