"""The contract of a metric: which silver table it reads, at which grain, and its measures as Spark SQL."""

from __future__ import annotations

from pydantic import Field, model_validator

from lakehouse.contracts.base import Documented, Name, SparkType, Strict

#: Columns that every gold table has beside grain and measures.
SYSTEM_COLUMNS = ("event_date", "row_count")


class Measure(Strict):
    """One number: an aggregate expression over the silver rows of a day, cast to ``type``."""

    name: Name
    sql: str
    type: SparkType
    additive: bool = Field(False, description="Whether values of disjoint sets of rows add up to the value of both.")
    description: str | None = None


class MetricContract(Documented):
    """One metric: one file, no code."""

    metric: Name
    source: Name
    grain: list[Name] = Field(default_factory=list, description="Silver columns beside the event day.")
    measures: list[Measure] = Field(min_length=1)
    window: int = Field(1, ge=1, le=366, description="How many days, the last one included, a day's number covers.")

    @model_validator(mode="after")
    def _consistent(self) -> MetricContract:
        names = [*SYSTEM_COLUMNS, *self.grain, *(measure.name for measure in self.measures)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"measures: named twice, or the table's own: {', '.join(twice)}"
            raise ValueError(msg)
        return self
