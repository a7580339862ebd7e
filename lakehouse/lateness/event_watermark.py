"""The event-time watermark of a source: the time before which everything is believed to have arrived.

Belongs here: how it follows from the deliveries of a source, under each strategy of the contract. It is computed from what the
ledger says of each delivery, so that a replay and a rebuild give the same, and never goes back. How late a single row is
belongs to ``rules``, what ``lateness.watermark`` bounds to ``admission``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from lakehouse.contracts.source_rules import BoundedWatermark, ProcessingTimeWatermark
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import WatermarkStrategy
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.settings import Settings

#: The watermark before the first event: nothing is believed to be complete.
BEGINNING = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class WatermarkStep:
    """A delivery with the watermark after it: the one by all deliveries that arrived until then.

    :param arrived: when the newest row of the delivery arrived.
    """

    delivery: Ingestion
    arrived: datetime
    watermark: datetime


def steps(strategy: WatermarkStrategy, deliveries: Iterable[Ingestion]) -> list[WatermarkStep]:
    """The watermark after each delivery, in the order of their arrival.

    An event counts at the latest when it arrived: no clock that runs ahead moves the watermark beyond an arrival. A delivery
    of which no row is sound does not move it; one that an earlier release recorded does not either, unless the watermark
    follows the clock.
    """
    watermark, taken = BEGINNING, []
    arrived = [(entry.newest_arrival, entry.ingestion_id, entry) for entry in deliveries if entry.newest_arrival is not None]
    for at, _, entry in sorted(arrived, key=lambda one: one[:2]):
        watermark = max(watermark, _of_delivery(strategy, entry, at))
        taken.append(WatermarkStep(entry, at, watermark))
    return taken


def by_steps(strategy: WatermarkStrategy, until_now: Sequence[WatermarkStep], now: datetime) -> datetime:
    """The watermark at a time.

    :param until_now: the :func:`steps` of the deliveries that had arrived by then.
    """
    if isinstance(strategy, ProcessingTimeWatermark):
        return now - strategy.delay
    return until_now[-1].watermark if until_now else BEGINNING


def _of_delivery(strategy: WatermarkStrategy, delivery: Ingestion, arrived: datetime) -> datetime:
    if isinstance(strategy, ProcessingTimeWatermark):
        return arrived - strategy.delay
    if isinstance(strategy, BoundedWatermark):
        return BEGINNING if delivery.newest_event is None else delivery.newest_event - strategy.max_lateness
    return delivery.newest_marker or BEGINNING


@dataclass(frozen=True)
class SourceWatermark:
    """The watermark of a source at a time, and the deliveries that it follows from.

    :param skewed: how many of their rows have an event ahead of its arrival.
    :param held_by: the keys that hold it where it stands, if it follows the slowest of several.
    """

    source: str
    strategy: WatermarkStrategy
    at: datetime
    watermark: datetime
    steps: Sequence[WatermarkStep]
    held_by: Sequence[str] = ()

    @property
    def skewed(self) -> int:
        """How many rows had an event that lay ahead of its arrival."""
        return sum(step.delivery.skewed for step in self.steps)

    @property
    def moved_by(self) -> WatermarkStep | None:
        """The delivery that moved the watermark to where it is; None if it follows the clock, or has not moved yet."""
        if self.watermark == BEGINNING:
            return None
        return next((step for step in self.steps if step.watermark == self.watermark), None)


def of_source(settings: Settings, contract: SourceContract, at: datetime | None = None) -> SourceWatermark | None:
    """The watermark at a time (default: now), by the deliveries that are in Bronze; None if the contract has none."""
    strategy, now = contract.clocks.watermark, at or settings.clock()
    if strategy is None:
        return None
    entries = ingestions.ingested(ingestions.all_of(settings, contract.dataset)).values()
    arrived = [step for step in steps(strategy, entries) if step.arrived <= now]
    return SourceWatermark(contract.dataset, strategy, now, by_steps(strategy, arrived, now), arrived)
