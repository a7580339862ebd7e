"""The event-time watermark of a source: the time before which everything is believed to have arrived.

Belongs here: how it follows from the deliveries of a source, under each strategy of the contract. It is computed from what the
ledger says of each delivery, and for ``per_key`` from ``keyed_watermark_state``, so that a replay and a rebuild give the same,
and never goes back. Which ``max_lateness`` is in force belongs to ``tuning``, how late a single row is to ``rules``, what
``lateness.watermark`` bounds to ``admission``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakehouse.contracts.source_rules import BoundedWatermark, PerKeyWatermark, ProcessingTimeWatermark, TunableWatermark
from lakehouse.lateness import keyed_watermark_state
from lakehouse.lateness.keyed_watermark import NEVER
from lakehouse.lateness.keyed_watermark_state import KeyedState
from lakehouse.lateness.measurement import microseconds
from lakehouse.lateness.tuning import decisions
from lakehouse.lateness.tuning.history import in_force
from lakehouse.ledger import history_admissions, ingestions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import WatermarkStrategy
    from lakehouse.lateness.tuning.history import MaxLatenessDecision
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.settings import Settings

#: The watermark before the first event: nothing is believed to be complete.
BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
#: How many of the keys that hold a watermark are named.
_HOLDING = 5


@dataclass(frozen=True)
class WatermarkStep:
    """A delivery with the watermark after it: the one by all deliveries that arrived until then.

    :param arrived: when the newest row of the delivery arrived.
    """

    delivery: Ingestion
    arrived: datetime
    watermark: datetime


def steps(
    strategy: WatermarkStrategy,
    deliveries: Iterable[Ingestion],
    decided: Iterable[MaxLatenessDecision] = (),
    least_after: Mapping[str, int] = MappingProxyType({}),
) -> list[WatermarkStep]:
    """The watermark after each delivery, in the order of their arrival, with the ``max_lateness`` in force when it arrived.

    An event counts at the latest when it arrived: no clock that runs ahead moves the watermark beyond an arrival. A delivery
    of which no row is sound does not move it; one that an earlier release recorded does not either, unless the watermark
    follows the clock.

    :param least_after: see :class:`~lakehouse.lateness.keyed_watermark_state.KeyedState`; it is needed for ``per_key`` only.
    """
    taken: list[WatermarkStep] = []
    watermark, strategy_at = BEGINNING, in_force(strategy, decided)
    arrived = [(entry.newest_arrival, entry.ingestion_id, entry) for entry in deliveries if entry.newest_arrival is not None]
    for at, _, entry in sorted(arrived, key=lambda one: one[:2]):
        least = least_after.get(entry.ingestion_id, NEVER)
        while_idle = _while_idle(strategy_at(at), taken, at)
        watermark = max(watermark, while_idle, _of_delivery(strategy_at(at), entry, at, least))
        taken.append(WatermarkStep(entry, at, watermark))
    return taken


def by_steps(strategy: WatermarkStrategy, until_now: Sequence[WatermarkStep], now: datetime) -> datetime:
    """The watermark at a time.

    :param until_now: the :func:`steps` of the deliveries that had arrived by then.
    """
    if isinstance(strategy, ProcessingTimeWatermark):
        return now - strategy.delay
    return max(until_now[-1].watermark, _while_idle(strategy, until_now, now)) if until_now else BEGINNING


def _while_idle(strategy: WatermarkStrategy, until_now: Sequence[WatermarkStep], now: datetime) -> datetime:
    """Where the clock has moved the watermark of a source of which nothing has arrived for the idle timeout."""
    if not isinstance(strategy, BoundedWatermark) or strategy.idle_timeout is None or not until_now:
        return BEGINNING
    is_idle = now - until_now[-1].arrived > strategy.idle_timeout and until_now[-1].watermark > BEGINNING
    return now - strategy.idle_timeout - strategy.max_lateness if is_idle else BEGINNING


def _of_delivery(strategy: WatermarkStrategy, delivery: Ingestion, arrived: datetime, least: int) -> datetime:
    if isinstance(strategy, ProcessingTimeWatermark):
        return arrived - strategy.delay
    if isinstance(strategy, BoundedWatermark):
        return BEGINNING if delivery.newest_event is None else delivery.newest_event - strategy.max_lateness
    if isinstance(strategy, PerKeyWatermark):
        event = keyed_watermark_state.as_time(least)
        return BEGINNING if event is None else event - strategy.max_lateness
    return delivery.newest_marker or BEGINNING


def met_by_each(settings: Settings, contract: SourceContract, entries: Mapping[str, Ingestion]) -> dict[str, datetime]:
    """The watermark that the rows of each of some deliveries met when they came: the one by all that arrived before.

    Under ``processing_time`` it is that of the time at which the delivery arrived. A pause does not count against the rows that
    end it. A delivery that an earlier release recorded, that has no sound row, or whose rows a backfill brought and admitted as
    history, is left out.

    :param entries: every delivery that counts, by its id: what others arrived makes no difference.
    """
    met, before, by_clock = {}, BEGINNING, isinstance(contract.clocks.watermark, ProcessingTimeWatermark)
    for step in of_deliveries(settings, contract, entries):
        met[step.delivery.ingestion_id] = step.watermark if by_clock else before
        before = step.watermark
    plans = {name: entry.backfill for name, entry in entries.items() if entry.backfill is not None}
    # Of a file that came before the admission the rows stay late: numbers with other inputs were computed so (R10).
    for admission in history_admissions.log(settings, contract.dataset).read() if plans else ():
        if plans.get(admission.ingestion_id) == admission.plan_id:
            met.pop(admission.ingestion_id, None)
    return met


def of_deliveries(settings: Settings, contract: SourceContract, entries: Mapping[str, Ingestion]) -> list[WatermarkStep]:
    """The :func:`steps` of some deliveries of a source, as if there were no others; none if the contract has no watermark.

    :param entries: the deliveries by their ids.
    """
    strategy = contract.clocks.watermark
    if strategy is None:
        return []
    decided = decisions.of(settings, contract.dataset) if isinstance(strategy, TunableWatermark) else ()
    least: Mapping[str, int] = {}
    if isinstance(strategy, PerKeyWatermark):
        least = keyed_watermark_state.least_after(settings, contract, strategy, entries)
    return steps(strategy, entries.values(), decided, least)


@dataclass(frozen=True)
class SourceWatermark:
    """The watermark of a source at a time, and the deliveries that it follows from.

    :param strategy: that of the contract, with the ``max_lateness`` in force at the time.
    :param held_by: under ``per_key``, the active keys with the least newest event, the first ones; of the present only.
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
    strategy = contract.clocks.watermark
    decided = decisions.of(settings, contract.dataset) if isinstance(strategy, TunableWatermark) else ()
    return None if strategy is None else _of_source(settings, contract, strategy, decided, at or settings.clock())


def newest_events(settings: Settings, contract: SourceContract, strategy: TunableWatermark, at: datetime) -> SourceWatermark:
    """The watermark as it would be with a ``max_lateness`` of zero."""
    without = strategy.model_copy(update={"max_lateness": timedelta(0)})
    return _of_source(settings, contract, without, (), at)  # type: ignore[arg-type]  # a copy of a strategy is one


def _of_source(
    settings: Settings,
    contract: SourceContract,
    strategy: WatermarkStrategy,
    decided: Sequence[MaxLatenessDecision],
    now: datetime,
) -> SourceWatermark:
    state = (
        keyed_watermark_state.of(settings, contract.dataset, strategy) if isinstance(strategy, PerKeyWatermark) else KeyedState()
    )

    def compute() -> list[WatermarkStep]:
        entries = ingestions.ingested(ingestions.all_of(settings, contract.dataset)).values()
        return steps(strategy, entries, decided, state.least_after)

    # A server asks once a second; thousands of deliveries take a tenth of that.
    question = f"steps of the watermark {strategy.model_dump_json()}"
    depends_on = (tuple(decision.number for decision in decided), state.times.through, len(state.least_after))
    taken = ingestions.log(settings).derived(question, compute, {"source": [contract.dataset]}, depends_on)
    arrived = [step for step in taken if step.arrived <= now]
    present = in_force(strategy, decided)(now)
    held_by: Sequence[str] = ()
    if isinstance(strategy, PerKeyWatermark) and len(arrived) == len(taken):
        held_by = [key or "(no key)" for key in state.times.holding(microseconds(strategy.idle_timeout), _HOLDING)]
    return SourceWatermark(contract.dataset, present, now, by_steps(present, arrived, now), arrived, held_by)
