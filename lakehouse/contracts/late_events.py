"""The treatment of events that arrive after the source's watermark has passed their window, by metric.

Belongs here: the keys of ``late_events``, and their requirements on the source. Late rows are determined in
``lakehouse.late_events``; the watermark belongs to the source's contract.
"""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from pydantic import AliasChoices, Field

from lakehouse.contracts.base import Strict
from lakehouse.contracts.inputs import TopicAddress  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


class LateAction(str, Enum):
    """The treatment of a late row within the grace."""

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
    """The bound up to which the published number of a window is patched with its late rows instead of recomputed."""

    below: float = Field(0.05, ge=0, le=1, description="The share of late rows in the window below which it is patched.")


class LateEvents(Strict):
    """The treatment of a row that arrives after the source's watermark has passed the row's window."""

    allowed_lateness: timedelta = Field(
        timedelta(0),
        ge=timedelta(0),
        validation_alias=AliasChoices("grace", "allowed_lateness"),
        description="How far the watermark may be past the end of a window for its rows to count.",
    )
    action: LateAction = Field(
        LateAction.RECOMPUTE,
        description="What becomes of a late row within the grace; a later one does not count before the close.",
    )
    at_close: AtClose = Field(
        AtClose.INCLUDE, description="Whether a final number counts every row that has come by then, however late it came."
    )
    max_updates_per_window: int = Field(
        10, ge=1, description="After so many revisions because of late rows, a window that changes waits until it is final."
    )
    patch: PatchLimit = Field(default_factory=PatchLimit, description="Of the action 'update': when a number is patched.")
    topic: TopicAddress | None = Field(
        None, description="Where the rows of the side output are sent to as messages; default: they are in the table only."
    )

    @property
    def tolerance(self) -> timedelta:
        """How far the watermark may be past a window's end for a row of the window to count."""
        return self.allowed_lateness if self.action.accepts else timedelta(0)


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The mistakes in a metric's late events, compared with its source: where in the metric's file, and what to do."""
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
        return  # a mistake reported elsewhere
    if source.clocks.watermark is None:
        text = f"{metric.source} has no watermark that an event could be late against; give its contract 'clocks.watermark'"
        yield ("late_events",), text
    policy = source.materialization.reprocess_policy
    if policy.startswith("overwrite"):
        text = f"under 'reprocess_policy: {policy}' of {metric.source} a whole delivery replaces another; leave the key out"
        yield ("late_events",), text
