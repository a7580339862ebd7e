"""What becomes of an event that comes after its window has been passed by the source's watermark, by metric.

Belongs here: the keys of ``late_events``, and what they demand of the source. Which rows are late is computed in
``lakehouse.late_events``, the watermark belongs to the contract of the source.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from pydantic import Field

from lakehouse.contracts.base import Strict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


class LateAction(str, Enum):
    """What becomes of a late row within the allowed lateness."""

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
    """When the published number of a window is patched with its late rows, and when it is computed again."""

    below: float = Field(0.05, ge=0, le=1, description="The share of late rows in the window below which it is patched.")


class LateEvents(Strict):
    """What becomes of a row whose window has been passed by the watermark of the source when the row comes."""

    allowed_lateness: timedelta = Field(
        timedelta(0), ge=timedelta(0), description="How far the watermark may be past the end of a window for its rows to count."
    )
    action: LateAction = Field(
        LateAction.RECOMPUTE,
        description="What becomes of a late row within the allowed lateness; a later one does not count before the close.",
    )
    at_close: AtClose = Field(
        AtClose.INCLUDE, description="Whether a final number counts every row that has come by then, however late it came."
    )
    max_updates_per_window: int = Field(
        10, ge=1, description="After so many revisions because of late rows, a window that changes waits until it is final."
    )
    patch: PatchLimit = Field(default_factory=PatchLimit, description="Of the action 'update': when a number is patched.")

    @property
    def tolerance(self) -> timedelta:
        """How far the watermark may be past the end of a window for a row of it to count."""
        return self.allowed_lateness if self.action.accepts else timedelta(0)


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """What does not fit between a metric's late events and its source: where in the metric's file, and what to do."""
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
        return  # which is a mistake of its own
    if source.clocks.watermark is None:
        text = f"{metric.source} has no watermark that an event could be late against; give its contract 'clocks.watermark'"
        yield ("late_events",), text
    policy = source.materialization.reprocess_policy
    if policy.startswith("overwrite"):
        text = f"under 'reprocess_policy: {policy}' of {metric.source} a whole delivery replaces another; leave the key out"
        yield ("late_events",), text
