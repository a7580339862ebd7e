"""The answers about how numbers came about and who looks after them, as the OpenAPI document has them; see ``models``."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from lakehouse.serving.api.models import Reason, Shape, Sides, State, Window


class Quantiles(Shape):
    """Seconds behind the event within which so many rows came."""

    p50: int
    p90: int
    p95: int
    p99: int
    p99_9: int
    max: int


class Caught(Shape):
    """What a watermark would have caught."""

    watermark_seconds: int
    share: float


class Recommendation(Shape):
    """Which watermark the data asks for, and the evidence."""

    verdict: Literal["keep", "set", "raise", "lower", "too_few"]
    wanted_share: float
    current_seconds: int | None
    proposed_seconds: int | None
    needed_seconds: int | None
    because: str
    evidence: list[Caught]


class TypeLateness(Shape):
    """One event type of a source."""

    event_type: str
    rows: int
    on_time: int
    on_time_share: float
    late_share: float
    seconds: Quantiles
    recommendation: Recommendation


class SourceLateness(Shape):
    """How late the rows of a source came, and what became of them."""

    source: str
    expected_seconds: int
    rows: int
    on_time_share: float | None
    late_share: float | None
    seconds: Quantiles | None = Field(description="Of all event types together; null where no row has an event time.")
    without_event_time: int
    accepted: int = Field(description="Applied, superseded or duplicate.")
    quarantined: int
    dropped: int
    dispositions: dict[str, int]
    recommendation: Recommendation = Field(description="Of the event types without bounds of their own, together.")
    event_types: list[TypeLateness] = Field(description="Those with the most rows.")
    event_types_left_out: int


class Lateness(Shape):
    """By arrival day."""

    start_date: date
    end_date: date
    sources: list[SourceLateness]


class Restatement(Window):
    """A number that changed after it was published."""

    version: str
    version_name: str
    state: State
    reason: Reason
    restatement_reason: str | None
    restated_on: datetime
    changed_rows: int | None
    booked_on: date | None
    signed_off_by: str | None
    moved: dict[str, Sides]


class Restatements(Shape):
    """Newest first."""

    start_date: date
    end_date: date
    restatements: list[Restatement]
    total: int
    by_reason: dict[str, int]
    by_state: dict[str, int]
    next_offset: int | None


class Publication(Shape):
    """The commit that published a number."""

    publication_id: str
    gold_version: int
    recorded_at: datetime
    job_name: str | None
    trigger: dict[str, Any]
    input_versions: dict[str, Any]
    validation: dict[str, Any]
    keys: dict[str, Any]
    downstream: list[str]


class Lineage(Window):
    """Where a number comes from."""

    version: str
    version_name: str
    state: State
    source: str
    inputs: str | None = Field(description="The name of its inputs in ops/inputs.")
    inputs_without: str | None
    known_through: date | None
    silver_version: int | None
    made_from: dict[str, Any] = Field(description="Of a longer period: the daily revisions.")
    code_version: str | None
    contract_version: str | None
    run_id: str | None
    signed_off_by: str | None
    sign_off_reason: str | None
    publication: Publication | None = Field(description="Null where the ledger has not told of it yet.")


class Quarantined(Shape):
    """A row that waits, or has waited, for a steward. What it says is not told here: `lakehouse quarantine show` does."""

    id: str = Field(examples=["sales:3f1c0b9a7d2e4f60:17"])
    source: str
    record_key: str | None
    event_date: date | None
    arrival_date: date
    source_file: str
    line_number: int
    reason: str | None
    detail: str | None
    status: Literal["open", "accepted", "rejected", "duplicate", "released"]
    since: datetime
    review_by: datetime
    overdue: bool
    decided_by: str | None
    decided_at: datetime | None
    decision: str | None


class Quarantine(Shape):
    """Rows by source, arrival day, file and line."""

    rows: list[Quarantined]
    total: int
    next_offset: int | None


class Decided(Shape):
    """What was decided. Silver and gold follow with Dagster's daemon, or with `lakehouse quarantine` and no row."""

    id: str
    decision: Literal["accept", "reject", "duplicate"]
    by: str
    repeated: bool = Field(description="Whether the same had been decided already.")
    waiting_days: list[date] = Field(description="The event days that are made anew.")


class MetricHealth(Shape):
    """One metric as this process sees it."""

    metric: str
    table_version: int = Field(description="-1 where nothing has been published.")
    periods: int


class Health(Shape):
    """Whether numbers can be read."""

    status: Literal["ok"]
    version: str
    now: datetime
    metrics: list[MetricHealth] = Field(description="None where reading needs a token.")


class Mistake(Shape):
    """One parameter that is not as documented."""

    where: str
    message: str


class Problem(BaseModel):
    """RFC 9457."""

    type: str = Field(examples=["urn:lakehouse:unknown-metric"])
    title: str
    status: int
    detail: str
    errors: list[Mistake] | None = None
