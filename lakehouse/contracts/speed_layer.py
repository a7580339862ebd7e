"""``live`` and ``reconcile`` in a metric's contract: how the speed layer computes the metric, and which difference is an alert.

Belongs here: the keys, their defaults, and what a streaming aggregation cannot do. The rows that the stream counts are defined in
``live.stream``.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, Field, model_validator

from lakehouse.contracts.base import Strict
from lakehouse.contracts.windows import SessionWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.metric import MetricContract


#: Functions that Spark refuses in a streaming aggregation, by a pattern of the expression.
_REFUSED = {
    r"\bdistinct\b": "counts distinct values, which Spark refuses over a stream; take approx_count_distinct",
    r"\bwithin\s+group\b": "sorts the rows of a group, which Spark refuses over a stream",
}


class SpeedLayer(Strict):
    """The settings of a metric's stream."""

    watermark: timedelta = Field(
        timedelta(minutes=10),
        ge=timedelta(0),
        validation_alias=AliasChoices("open_for", "watermark"),
        description="How long after the newest event a window stays open; later rows are dropped by the stream.",
    )
    trigger: timedelta = Field(timedelta(seconds=5), ge=timedelta(0), description="The time between two batches of the stream.")
    max_files_per_trigger: int = Field(1000, ge=1, description="A batch reads at most so many files of Bronze.")
    keep: timedelta = Field(
        timedelta(days=7), ge=timedelta(0), description="How long live rows of a closed window are kept after reconciliation."
    )

    managed: bool = Field(False, description="Whether Dagster runs the stream, and starts it again when it has ended.")

    @model_validator(mode="after")
    def _in_milliseconds(self) -> SpeedLayer:
        if self.watermark % timedelta(milliseconds=1):
            msg = "open_for: Spark counts in milliseconds; write whole ones, such as PT10M"
            raise ValueError(msg)
        return self


class ReconciliationTerms(Strict):
    """The bound on the difference between a day's live and published numbers beyond which it is an alert."""

    threshold: float = Field(
        ge=0,
        description="Alert when a window's live number differs from the published one by more than this share.",
    )


def with_defaults(content: Any) -> Any:
    """Replace ``live: true`` in a metric's file by a speed layer with all defaults; ``false`` means none."""
    if isinstance(content, dict) and isinstance(content.get("live"), bool):
        return {**content, "live": {} if content["live"] else None}
    return content


def problems(metric: MetricContract) -> Iterator[str]:
    """The mistakes in a metric's speed layer, each as ``field: what to do``."""
    if metric.live is None:
        if metric.reconcile is not None:
            yield "reconcile: compares live numbers with published ones; add 'live: true', or leave the key out"
        for key in ("live_state", "live_unread_after"):
            if getattr(metric.alerts, key) is not None:
                yield f"alerts.{key}: is about the stream of the metric; add 'live: true', or leave the key out"
        return
    unfit = {
        "a derived metric reads no rows, so there is nothing to stream; make its inputs live": metric.is_derived,
        "the stream reads one source, and this metric has several; leave the key out": metric.sources,
        "the stream does not join dimensions; leave the key out, or count in another metric without 'joins'": metric.joins,
        f"the stream has no windows of {metric.trailing_days} days; leave the key out, or the window": metric.trailing_days > 1,
        "the stream has no sessions; leave the key out, or count by windows such as 'window: {size: PT1H}'": isinstance(
            metric.window, SessionWindow
        ),
    }
    yield from (f"live: {text}" for text, is_so in unfit.items() if is_so)
    for measure in metric.measures:
        for pattern, text in _REFUSED.items():
            if re.search(pattern, measure.sql, re.IGNORECASE):
                yield f"live: the measure {measure.name} {text}"
