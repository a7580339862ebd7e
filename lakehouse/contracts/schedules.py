"""Regular work on a source: the required freshness of arrivals, the days that silver rebuilds, and the tuning of watermarks."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from lakehouse.calendar import cron
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
