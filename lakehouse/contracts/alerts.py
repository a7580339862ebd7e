"""The conditions under which the owners of a source or a metric are alerted, under the key ``alerts:``.

Only the bounds belong here; the values compared with them are in ``operations.alerts.rules``. Bounds are decimals: a value
exactly on its bound is within it.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from lakehouse.contracts.base import Name, Strict
from lakehouse.contracts.checks import Severity, Share  # noqa: TC001 (pydantic reads it)
from lakehouse.contracts.windows import WINDOW_START

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_Value = Annotated[Decimal, Field(max_digits=76, decimal_places=38)]
_Text = Annotated[str, BeforeValidator(str)]


class LateShare(Strict):
    """Too many rows arrive beyond the cutoff for too long."""

    above: Share | None = Field(
        None, description="The tolerated share of rows; default: lateness.alert_above. Without either there is no alert."
    )
    lasting: timedelta = Field(
        timedelta(hours=1),
        ge=timedelta(0),
        le=timedelta(days=7),
        description="How long the share must be exceeded, and the time that it covers; PT0S judges each delivery by itself.",
    )
    needs_rows: int = Field(100, ge=1, description="With fewer rows in that time nothing is judged.")


class Lag(Strict):
    """The 99th percentile of the lag (arrival minus event) exceeds its usual value."""

    factor: Annotated[Decimal, Field(gt=1)] = Field(Decimal(2), description="How many times the baseline is too much.")
    days: int = Field(7, ge=1, le=90, description="How many days of arrivals before the newest one make the baseline.")
    needs_rows: int = Field(100, ge=1, description="With fewer rows in the newest day or the baseline nothing is judged.")


class Rhythm(Strict):
    """An interval is longer than on the days before: longer than the usual longest interval within a day."""

    factor: Annotated[Decimal, Field(gt=1)] = Field(Decimal(2), description="How many times the usual time is too long.")
    days: int = Field(28, ge=7, le=366, description="How many days before make the rhythm.")
    needs: int = Field(5, ge=2, description="With fewer days with arrivals among them nothing is judged.")


class StreamLag(Strict):
    """The messages of a topic wait longer than the bound, or more of them wait."""

    messages: int | None = Field(None, ge=0, description="More offsets than this wait.")
    age: timedelta | None = Field(None, ge=timedelta(0), description="The oldest message that waits is older than this.")

    @model_validator(mode="after")
    def _bounds(self) -> StreamLag:
        if self.messages is None and self.age is None:
            msg = "has no bound; give messages, age or both"
            raise ValueError(msg)
        return self


class LiveState(Strict):
    """The state of a stream's open windows is larger than its bound."""

    rows: int | None = Field(None, ge=0, description="It has more rows than this: windows times values of the grain.")
    bytes: int | None = Field(None, ge=0, description="It takes more bytes of memory than this.")

    @model_validator(mode="after")
    def _bounds(self) -> LiveState:
        if self.rows is None and self.bytes is None:
            msg = "has no bound; give rows, bytes or both"
            raise ValueError(msg)
        return self


class RunAlerts(Strict):
    """The alerts on runs of a source or a metric. Failed runs always alert."""

    failed_checks: Severity | None = Field(
        "error", description="The least severity of a failed check that alerts: error, or warn for both; null for none."
    )


class SourceAlerts(RunAlerts):
    """The alerts of a source. Held files, files that could not be ingested and overdue reviews always alert."""

    late_share: LateShare | None = Field(LateShare(), description="null for none.")
    lag: Lag | None = Field(Lag(), description="null for none.")
    unfinished_after: timedelta = Field(
        timedelta(hours=6),
        ge=timedelta(0),
        description="This long after its end, and after the last news of it, an arrival day that is not complete alerts.",
    )
    silent_source: Rhythm | Literal["with_watermark"] | None = Field(
        "with_watermark", description="null for none; with_watermark: where clocks.watermark says what is to be complete."
    )
    watermark_stalled: Rhythm | None = Field(Rhythm(), description="null for none; only where there is clocks.watermark.")
    stream_lag: StreamLag | None = Field(None, description="The bounds of the lag of a topic; default: none.")


class Restatements(Strict):
    """More days were restated within a week than in the weeks before."""

    sigma: Annotated[Decimal, Field(ge=0)] = Field(
        Decimal(2), description="How many standard deviations above the mean are too many."
    )
    weeks: int = Field(4, ge=2, le=52, description="How many weeks before the newest one make mean and deviation.")
    needs: int = Field(3, ge=1, description="Fewer restatements than this within a week are never too many.")


class LateDropped(Strict):
    """Too many rows of an arrival day come too late to count in a metric with late events, or for the stream of a live metric."""

    above: Share = Field(Decimal("0.01"), description="The tolerated share of the rows of an arrival day.")
    needs_rows: int = Field(100, ge=1, description="With fewer rows on the day nothing is judged.")


class ValueBound(Strict):
    """A measure that must not lie below or above a bound."""

    measure: Name
    by: Literal["day", "week", "month", "quarter", "fiscal_quarter", "fiscal_year"] = Field(
        "day", description="Whose values: of days, with all windows of a day, or of a roll-up of the metric."
    )
    below: _Value | None = Field(None, description="The value should not be smaller.")
    above: _Value | None = Field(None, description="The value should not be greater.")
    where: dict[Name, _Text] = Field(
        default_factory=dict, description="Grain columns and the value to look at; default: all rows."
    )

    @model_validator(mode="after")
    def _judges(self) -> ValueBound:
        if self.below is None and self.above is None:
            msg = "has no bound; give below, above or both"
            raise ValueError(msg)
        if self.below is not None and self.above is not None and self.below > self.above:
            msg = f"below: {self.below} is greater than 'above: {self.above}', so that every value would alert"
            raise ValueError(msg)
        return self


class MetricAlerts(RunAlerts):
    """The alerts of a metric. Held numbers always alert."""

    restatements: Restatements | None = Field(Restatements(), description="null for none.")
    overdue_after: int = Field(1, ge=0, description="This many days after its due day, a number that is not final alerts.")
    values: list[ValueBound] = Field(
        default_factory=list, description="Bounds on the values of days, of their windows, or of roll-ups."
    )
    live_tolerance: Share = Field(
        Decimal("0.1"), description="How far beyond its bound, as a share of it, a number that is not final must lie to alert."
    )
    late_dropped: LateDropped | None = Field(
        LateDropped(), description="The rows that come too late for late events, or for the stream; null for none."
    )
    live_state: LiveState | None = Field(None, description="The bounds of the state of the stream; default: none.")
    live_unread_after: timedelta | None = Field(
        None,
        ge=timedelta(0),
        description="This long after they were ingested, rows that the stream has not read alert; default: never.",
    )


def misfits(alerts: MetricAlerts, types: Mapping[str, str], grain: Collection[str], rollups: Collection[str] = ()) -> list[str]:
    """The bounds that do not fit the metric, each as ``field: what to do``.

    :param types: the Spark type of each measure.
    :param rollups: the kinds of longer periods that the metric has numbers of.
    """
    return list(_misfits(alerts, types, grain, rollups))


def _misfits(alerts: MetricAlerts, types: Mapping[str, str], grain: Collection[str], rollups: Collection[str]) -> Iterator[str]:
    for bound in alerts.values:
        if bound.by not in ("day", *rollups):
            known = ", ".join(rollups) or "none"
            yield f"alerts.values: by: the metric has no numbers by {bound.by}; 'publication.rollups' has {known}"
        if bound.measure not in types:
            yield f"alerts.values: no measure is called {bound.measure!r}; there are {', '.join(types)}"
        elif not types[bound.measure].startswith(("int", "bigint", "double", "decimal")):
            yield f"alerts.values: {bound.measure!r} is a {types[bound.measure]}; only numbers have bounds"
        columns = grain if bound.by == "day" else [name for name in grain if name != WINDOW_START]
        unknown = [name for name in bound.where if name not in columns]
        if unknown:
            known = f"there are {', '.join(columns)}" if columns else "the metric has no grain"
            yield f"alerts.values: where: {', '.join(unknown)} is no grain column; {known}"
