"""The schema of responses about data quality, lineage, quarantine and health, and of problem documents; see ``models``."""

from __future__ import annotations

from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from lakehouse.ledger.row_states import QuarantineReason, QuarantineStatus, StewardVerdict
from lakehouse.serving.models import Reason, Shape, SidesModel, State, UnreadableModel, WindowModel, schema_name


def inline_schema(words: type[Enum], title: str | None = None) -> WithJsonSchema:
    """The schema of a vocabulary, inlined instead of defined as a component."""
    named = {"title": title} if title else {}
    return WithJsonSchema({"enum": [word.value for word in words], "type": "string", **named})


StatusName = Annotated[QuarantineStatus, inline_schema(QuarantineStatus, "Status")]
ReasonName = Annotated[QuarantineReason, inline_schema(QuarantineReason)]
VerdictName = Annotated[StewardVerdict, inline_schema(StewardVerdict, "Decision")]


class QuantilesModel(Shape):
    """Seconds after the event within which these shares of rows arrived."""

    p50: int
    p90: int
    p95: int
    p99: int
    p99_9: int
    max: int


class CaughtModel(Shape):
    """The share of rows that a cutoff would have let in."""

    cutoff_seconds: int
    watermark_seconds: int = Field(deprecated=True, description="The earlier name of cutoff_seconds.")
    share: float


class RecommendationModel(Shape):
    """The proposed cutoff, and the evidence."""

    verdict: Literal["keep", "set", "raise", "lower", "too_few"]
    severity: Literal["none", "info", "warn", "error"]
    wanted_share: float
    current_seconds: int | None
    proposed_seconds: int | None
    needed_seconds: int | None
    because: str
    evidence: list[CaughtModel]


class TypeLatenessModel(Shape):
    """One event type of a source."""

    event_type: str
    rows: int
    on_time: int
    on_time_share: float
    late_share: float
    seconds: QuantilesModel
    recommendation: RecommendationModel


class TierModel(Shape):
    """A tier of the contract, and the rows that arrived later."""

    within_seconds: int
    serves: str
    tolerated_share: float | None
    beyond: int
    share: float
    is_exceeded: bool


class AdviceModel(Shape):
    """A recommendation about a bound of the contract, derived from the rows."""

    about: Literal["lateness.cutoff", "clocks.watermark.max_lateness", "lateness.tiers"]
    severity: Literal["info", "warn", "error"]
    event_type: str | None = Field(description="The event type that the bound is for; null for that of the source.")
    tier: str | None = Field(description="What the tier serves; null for another bound.")
    current_seconds: int | None
    proposed_seconds: int | None = Field(description="Null if no other bound is proposed.")
    text: str


class SourceLatenessModel(Shape):
    """The lateness of the rows of a source, and their dispositions."""

    source: str
    expected_seconds: int
    rows: int
    on_time_share: float | None
    late_share: float | None
    seconds: QuantilesModel | None = Field(description="Of all event types together; null if no row has an event time.")
    without_event_time: int
    accepted: int = Field(description="Applied, superseded or duplicate.")
    quarantined: int
    dropped: int
    dispositions: dict[str, int]
    recommendation: RecommendationModel = Field(description="For the event types without separate bounds, together.")
    event_types: list[TypeLatenessModel] = Field(description="The event types with the most rows.")
    event_types_left_out: int
    skewed: int = Field(description="Rows whose event lies ahead of their arrival; they are in no percentile and no share.")
    history: int = Field(description="Rows of a first load or a backfill plan; they are in 'dispositions' and nowhere else.")
    tiers: list[TierModel]
    late_accepted: int = Field(description="Rows later than expected that are applied, superseded or duplicate.")
    late_quarantined: int = Field(description="Rows later than expected that wait for a steward.")
    late_dropped: int = Field(description="Rows later than expected that are dropped by policy or rejected.")
    recommendations: list[AdviceModel] = Field(description="The gravest first; a bound that should stay is not listed.")


class LatenessModel(Shape):
    """The lateness of the rows that arrived in a range of days."""

    start_date: date
    end_date: date
    sources: list[SourceLatenessModel]


class RestatementModel(WindowModel):
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
    moved: dict[str, SidesModel]


class RestatementsModel(Shape):
    """Restatements, newest first."""

    start_date: date
    end_date: date
    restatements: list[RestatementModel]
    unreadable: list[UnreadableModel] = Field(description="Metrics that are left out because a table cannot be read.")
    total: int
    by_reason: dict[str, int]
    by_state: dict[str, int]
    next_offset: int | None


class PublicationModel(Shape):
    """The commit that published a number."""

    publication_id: str
    gold_version: int
    recorded_at: datetime
    job_name: str | None
    code_commit: str | None = Field(description="The Git commit of the contracts; null if it was not known.")
    trigger: dict[str, Any]
    input_versions: dict[str, Any]
    validation: dict[str, Any]
    keys: dict[str, Any]
    dimension_changes: dict[str, Any] = Field(description="Of a metric with joins: how many changes, and the first 20 of them.")
    downstream: list[str]


class LineageModel(WindowModel):
    """The lineage of a number."""

    version: str
    version_name: str
    state: State
    source: str
    inputs: str | None = Field(description="The name of its inputs in ops/inputs.")
    inputs_without: str | None
    known_through: date | None
    silver_version: int | None
    made_from: dict[str, Any] = Field(
        description="For a longer period: the daily revisions; of a derived metric: those of each input."
    )
    code_version: str | None
    contract_version: str | None
    run_id: str | None
    signed_off_by: str | None
    sign_off_reason: str | None
    because: str | None = Field(description="The changes of dimensions that restated it, in words; null without any.")
    publication: PublicationModel | None = Field(description="Null until the ledger has recorded it.")


class QuarantinedModel(Shape):
    """A row that waits, or has waited, for a steward. Its values are not included: `lakehouse quarantine show` prints them."""

    id: str = Field(examples=["sales:3f1c0b9a7d2e4f60:17"])
    source: str
    record_key: str | None
    event_date: date | None
    arrival_date: date
    source_file: str
    line_number: int
    reason: str | None
    detail: str | None
    status: StatusName
    since: datetime
    review_by: datetime
    overdue: bool
    decided_by: str | None
    decided_at: datetime | None
    decision: str | None


class QuarantineModel(Shape):
    """Rows by source, arrival day, file and line."""

    rows: list[QuarantinedModel]
    total: int
    next_offset: int | None


class DecidedModel(Shape):
    """The recorded decision. Dagster's daemon updates silver and gold, or the same decision with `lakehouse quarantine`."""

    id: str
    decision: VerdictName
    by: str
    repeated: bool = Field(description="Whether the same decision had been recorded before.")
    waiting_days: list[date] = Field(description="The event days that are rebuilt.")


class RestatedRowModel(Shape):
    """A changed row of the grain, with its changed measures."""

    grain: dict[str, str | None]
    moved: dict[str, SidesModel]


class RestatedPeriodModel(Shape):
    """A period of a report."""

    window: str
    start: date
    before: str = Field(description="The version before.", examples=["r1"])
    after: str = Field(examples=["r2"])
    state: State
    reason: Reason
    explanation: str | None
    changed_rows: int | None
    moved: dict[str, SidesModel] = Field(description="The totals over the grain, as in the history of the number.")
    row_count: int = Field(description="The number of rows of the grain that changed.")
    rows: list[RestatedRowModel] = Field(description="Those that changed most, 10 at most.")


class RestatementReportModel(Shape):
    """The restatements of a publication, as stored."""

    metric: str
    series: str
    publication_id: str
    gold_version: int
    run_id: str
    published_at: datetime
    reason: Reason = Field(description="The most important one.")
    reasons: dict[str, int] = Field(description="The number of periods per reason.")
    grain: list[str]
    measures: list[str]
    period_count: int = Field(description="The number of restated periods.")
    totals: dict[str, SidesModel] = Field(description="The sums over all restated periods, of the measures that add up.")
    periods: list[RestatedPeriodModel] = Field(description="Those that changed most, 50 at most, in order.")
    causes: dict[str, Any] = Field(description="The trigger of the publication: files, decisions, a backfill.")
    by: str | None
    signed_off_by: str | None
    sign_off_reason: str | None


class MetricHealthModel(Shape):
    """A metric as this process sees it."""

    metric: str
    table_version: int = Field(description="-1 if nothing has been published.")
    periods: int


class HealthModel(Shape):
    """Whether published numbers can be read."""

    status: Literal["ok"]
    version: str
    now: datetime
    metrics: list[MetricHealthModel] = Field(description="Empty if reading needs a token.")


class MistakeModel(Shape):
    """A parameter that is not as documented."""

    where: str
    message: str


class ProblemModel(BaseModel):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(model_title_generator=schema_name)

    type: str = Field(examples=["urn:lakehouse:unknown-metric"])
    title: str
    status: int
    detail: str
    errors: list[MistakeModel] | None = None
