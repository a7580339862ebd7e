"""The schema of responses about published numbers, as in the OpenAPI document.

Only shapes belong here; the values are built in ``responses`` and in the routes. The name of every class ends in ``Model``,
to distinguish it from the domain class of that name; the OpenAPI document omits the ending.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

#: The suffix of model names.
MODEL = "Model"
State = Literal["live", "preliminary", "final"]
Label = Literal["Live (updating)", "Preliminary", "Final"]
Books = Annotated[
    Literal["books"], Field(description="The published numbers; numbers of the stream have the layer live.", examples=["books"])
]
Reason = Literal[
    "initial", "new_data", "late_data", "correction", "backfill", "bug_replay", "daily_finalization", "rollback", "manual"
]
Value = Annotated[
    int | float | str | bool | None,
    Field(description="Whole numbers and doubles as numbers; decimals, days, and doubles that are not numbers, as text."),
]
Percent = Annotated[
    float | None,
    Field(description="Of the absolute value of before, to two places; null if that is 0 or missing, or no double holds it."),
]
Row = dict[str, Value]


def schema_name(model: type) -> str:
    """The name of a model in the OpenAPI document."""
    return model.__name__.removesuffix(MODEL)


class Shape(BaseModel):
    """A part of a response, with exactly these fields."""

    model_config = ConfigDict(extra="forbid", model_title_generator=schema_name)


class SidesModel(Shape):
    """A number in two versions."""

    before: Value
    after: Value
    difference: Value
    percent: Percent


class VersionModel(Shape):
    """A revision of a number, or an adjustment of a closed number."""

    version_name: str = Field(examples=["revenue_v2024-11-07.r2"])
    version: str = Field(examples=["r2"])
    revision: int
    adjustment: int | None
    state: State
    label: Label
    is_final: bool
    is_latest: bool
    result: list[Row] = Field(
        description="By row of the grain; 10,000 at most.", examples=[[{"revenue": "1204.50", "sales": 61, "row_count": 61}]]
    )
    total_rows: int = Field(description="The number of rows of the grain. Request the number alone to read the rest.")
    event_count: int = Field(description="The number of silver rows that it is computed from.")
    undecided_rows: int = Field(description="The number of rows that waited for a steward when it was published.")
    changed_rows: int | None
    computed_at: datetime = Field(description="When it was computed and published.")
    superseded_at: datetime | None
    reason: Reason
    restated_on: datetime | None = Field(description="When it was last restated; null if it never was.")
    restatement_reason: str | None
    booked_on: date | None
    known_through: date | None = Field(description="The newest arrival day that it includes.")
    due_on: date | None
    dataset_version: int
    signed_off_by: str | None
    sign_off_reason: str | None


class RevisionModel(VersionModel):
    """A version in a history, with the change that it made."""

    moved: dict[str, SidesModel]


class StalenessModel(Shape):
    """The age of the number, and whether newer data is known."""

    seconds: int = Field(description="Seconds since it was computed.")
    behind: bool = Field(description="Whether it does not yet include all arrivals, or the newest numbers of its days.")
    newest_arrival: datetime | None = Field(description="The newest arrival of the source.")


class CompletenessModel(Shape):
    """The share of the period's rows that the number contains, estimated from earlier periods, or the reason why it is unknown.

    Only rows that arrive within ``horizon_hours`` count; ``low`` to ``high`` contains the share in ``coverage`` of cases.
    """

    known: bool
    because: str | None = None
    share: float | None = Field(None, ge=0, le=1)
    low: float | None = Field(None, ge=0, le=1)
    high: float | None = Field(None, ge=0, le=1)
    coverage: float | None = Field(None, ge=0, lt=1)
    earlier_periods: int | None = None
    age_hours: int | None = None
    horizon_hours: int | None = None


class WindowModel(Shape):
    """The metric and the period of a number."""

    metric: str
    series: str = Field(description="The name of the table in gold/.")
    window: str
    first_day: date
    last_day: date
    deprecated_on: date | None = Field(description="The day from which nobody should read this dataset version of the metric.")


class NumberModel(WindowModel, VersionModel):
    """A published number."""

    layer: Books
    staleness: StalenessModel
    completeness: CompletenessModel
    waiting_for: list[str] = Field(description="What is missing before it becomes final; empty for a final or an older version.")
    next_row_offset: int | None = Field(description="The row_offset that returns the next rows of result; null at the end.")
    held: str | None = Field(description="Why a newer number is held; null if none is, and for an older version.")
    adjustments: list[str] = Field(description="The adjustments of this revision, by version.")
    adjusted: dict[str, Value] = Field(description="Its totals with these adjustments, by measure; empty without one.")
    note: str | None
    window_end: datetime = Field(description="When the window or the period ends.")
    watermark_passed: bool | None = Field(
        description="Whether the watermark has passed window_end and the grace; null without one."
    )
    update_count: int = Field(description="How many revisions have changed it since its first number, a change of state is none.")
    history: list[RevisionModel] | None = Field(
        None, description="The newest 100 versions, or as many as fit, oldest first; only if requested."
    )


class MeasureModel(Shape):
    """A measure of a metric."""

    name: str
    type: str
    additive: bool
    description: str | None


class TermsModel(Shape):
    """The rules by which numbers change their state."""

    start_delay: int
    preliminary_after: int
    final_after: int
    after_close: Literal["restate", "adjust"]
    timezone: str


class JoinModel(Shape):
    """A join of a metric with a dimension."""

    dimension: str
    on: list[str]
    columns: list[str] = Field(description="The attributes, by their names in the metric.")


class MetricModel(Shape):
    """A metric of the catalogue."""

    name: str
    description: str | None
    owner: str | None
    source: str
    derived_from: list[str] = Field(alias="from", description="Of a derived metric: the metrics that it is made of.")
    joins: list[JoinModel] = Field(description="The dimensions whose attributes its grain and measures use.")
    grain: list[str]
    measures: list[MeasureModel]
    windows: list[str] = Field(description="The kinds of period that it is published for.")
    terms: TermsModel
    consumers: list[str]
    dataset_version: int = Field(description="The version of its logic that readers see.")
    deprecated_on: date | None
    published: int = Field(description="The number of days with a published number.")
    first_day: date | None
    last_day: date | None
    last_restated_at: datetime | None = Field(description="When a day was last restated; null if none ever was.")


class UnreadableModel(Shape):
    """A metric with a table that cannot be read at present."""

    metric: str
    detail: str = Field(description="The table, the reason and what to do.")


class MetricsModel(Shape):
    """The catalogue."""

    metrics: list[MetricModel]
    total: int
    unreadable: list[UnreadableModel] = Field(description="Metrics that are not listed because a table cannot be read.")


class ChangeModel(Shape):
    """A measure of a row of the grain in two versions."""

    grain: dict[str, str]
    measure: str
    before: Value
    after: Value
    difference: Value
    percent: Percent


class SideModel(Shape):
    """One of the compared versions."""

    asked: str
    version_name: str
    version: str
    state: State | None = Field(description="Null for live numbers, which have none.")
    label: Label | Literal["Live (stream)"]
    computed_at: datetime
    note: str | None


class ComparisonModel(WindowModel):
    """A comparison of two versions of a number."""

    version_a: SideModel
    version_b: SideModel
    changes: list[ChangeModel]
    total: int
    next_offset: int | None
    totals: dict[str, SidesModel] = Field(description="The sums over the grain, of the measures that add up.")
    reason: str | None = Field(description="The most important reason of the revisions in between.")
    changed_rows: int | None


class PointModel(Shape):
    """A period of a series."""

    window: str
    first_day: date
    last_day: date
    version: str
    state: State
    label: Label
    is_final: bool
    revision: int
    event_count: int
    computed_at: datetime
    result: list[Row] = Field(description="By row of the grain; 10,000 at most.")
    total_rows: int = Field(description="The number of rows of the grain. Request the number alone to read the rest.")


class PointsModel(Shape):
    """A series; periods without the requested version are left out."""

    metric: str
    series: str
    deprecated_on: date | None
    layer: Books
    version: str
    points: list[PointModel]
    next_start: date | None = Field(description="The start that returns the next periods; null at the end.")


class HistoryModel(WindowModel):
    """The history of a number."""

    versions: list[RevisionModel]
    total: int
    next_offset: int | None


class KnownModel(Shape):
    """A number as known at a given time."""

    window: str
    at: datetime
    number: VersionModel | None = Field(description="Null if nothing had been published.")
    note: str | None


class AtThisTimeModel(Shape):
    """Yesterday as known at this time of day, yesterday as known now, and today."""

    metric: str
    series: str
    at: datetime
    yesterday_at_this_time: KnownModel
    yesterday: KnownModel = Field(description="The final number, or the newest one until there is one.")
    today: KnownModel
    yesterday_moved: dict[str, SidesModel] = Field(description="From what was known then to what is known now.")
    same_weekday_at_this_time: KnownModel = Field(description="The same day of the week before, as it was known at this time.")
    today_against_yesterday: dict[str, SidesModel] = Field(description="From yesterday at this time to today.")
    today_against_same_weekday: dict[str, SidesModel] = Field(description="From a week ago at this time to today.")
