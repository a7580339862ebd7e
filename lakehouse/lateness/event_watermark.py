"""The event-time watermark of a source: the time before which everything is believed to have arrived.

Belongs here: the computation from the deliveries of a source, under each strategy of the contract. It reads only what the ledger
records of each delivery, and for ``per_key`` also ``watermark_per_key``, so that replays and rebuilds give the same result; the
watermark never moves back. The lateness of a single row belongs to ``rules``, the bound ``lateness.cutoff`` to
``dispositions.admission``.

``ops/event_watermarks`` has the decisions about ``max_lateness``, by tuning or by a person. Decisions about a source are
numbered. A decision is written only if no other one was written since its basis was read. The value in force is computed in
``max_lateness``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.contracts.source_rules import BoundedWatermark, PerKeyWatermark, ProcessingTimeWatermark, TunableWatermark
from lakehouse.lateness import watermark_per_key
from lakehouse.lateness.max_lateness import MaxLatenessDecision, in_force
from lakehouse.lateness.measurement import microseconds
from lakehouse.lateness.watermark_per_key import NEVER, KeyedState
from lakehouse.ledger import ingestions, late_decisions
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import WatermarkStrategy
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

#: The watermark before the first event: nothing is believed to be complete.
BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
#: The number of keys that hold a watermark which are named.
_HOLDING = 5


@dataclass(frozen=True)
class WatermarkStep:
    """A delivery and the watermark after it, computed from it and all earlier deliveries.

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
    """The watermark after each delivery, in the order of arrival, with the ``max_lateness`` in force when the delivery arrived.

    An event counts at the latest when it arrived: a clock that runs ahead does not move the watermark beyond an arrival.
    Deliveries without a well-formed row do not advance the watermark; neither do deliveries recorded by older releases, unless
    the strategy is ``processing_time``.

    :param least_after: see :class:`~lakehouse.lateness.watermark_per_key.KeyedState`; it is needed for ``per_key`` only.
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
    """The watermark at ``now``.

    :param until_now: the :func:`steps` of the deliveries that had arrived by ``now``.
    """
    if isinstance(strategy, ProcessingTimeWatermark):
        return now - strategy.delay
    return max(until_now[-1].watermark, _while_idle(strategy, until_now, now)) if until_now else BEGINNING


def _while_idle(strategy: WatermarkStrategy, until_now: Sequence[WatermarkStep], now: datetime) -> datetime:
    """The watermark that the clock alone gives a source without arrivals for the idle timeout; :data:`BEGINNING` if it is not
    idle.
    """
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
        event = watermark_per_key.as_time(least)
        return BEGINNING if event is None else event - strategy.max_lateness
    return delivery.newest_marker or BEGINNING


def met_by_each(lake: Lake, contract: SourceContract, entries: Mapping[str, Ingestion]) -> dict[str, datetime]:
    """For each delivery, the watermark in force when it arrived.

    Under ``processing_time`` this is the watermark at the delivery's own arrival, under all other strategies the watermark after
    the previous delivery: a pause does not count against the rows that end it. Three kinds of deliveries are omitted: those
    recorded by older releases, those without a well-formed row, and those whose rows a backfill plan brought and admitted as
    history.

    :param entries: every delivery that counts, by its id; deliveries outside ``entries`` make no difference.
    """
    met, before, by_clock = {}, BEGINNING, isinstance(contract.clocks.watermark, ProcessingTimeWatermark)
    for step in of_deliveries(lake, contract, entries):
        met[step.delivery.ingestion_id] = step.watermark if by_clock else before
        before = step.watermark
    plans = {name: entry.backfill for name, entry in entries.items() if entry.backfill is not None}
    # Rows of a file that arrived before the admission stay late: earlier numbers were computed with them as late (R10).
    for admission in late_decisions.history_log(lake, contract.dataset).read() if plans else ():
        if plans.get(admission.ingestion_id) == admission.plan_id:
            met.pop(admission.ingestion_id, None)
    return met


def of_deliveries(lake: Lake, contract: SourceContract, entries: Mapping[str, Ingestion]) -> list[WatermarkStep]:
    """The :func:`steps` of ``entries`` alone; empty if the contract has no watermark.

    :param entries: the deliveries by their ids.
    """
    strategy = contract.clocks.watermark
    if strategy is None:
        return []
    decided = decisions_of(lake, contract.dataset) if isinstance(strategy, TunableWatermark) else ()
    least: Mapping[str, int] = {}
    if isinstance(strategy, PerKeyWatermark):
        least = watermark_per_key.least_after(lake, contract, strategy, entries)
    return steps(strategy, entries.values(), decided, least)


@dataclass(frozen=True)
class SourceWatermark:
    """The watermark of a source at a time, and the deliveries from which it is computed.

    :param strategy: the strategy of the contract, with the ``max_lateness`` in force at the time.
    :param held_by: under ``per_key``, the first active keys with the least newest event; empty for a time before the newest
        arrival.
    """

    source: str
    strategy: WatermarkStrategy
    at: datetime
    watermark: datetime
    steps: Sequence[WatermarkStep]
    held_by: Sequence[str] = ()

    @property
    def skewed(self) -> int:
        """The number of rows whose event lies ahead of their arrival."""
        return sum(step.delivery.skewed for step in self.steps)

    @property
    def moved_by(self) -> WatermarkStep | None:
        """The delivery that moved the watermark to where it is; None if it follows the clock, or has not moved yet."""
        if self.watermark == BEGINNING:
            return None
        return next((step for step in self.steps if step.watermark == self.watermark), None)


def of_source(lake: Lake, contract: SourceContract, at: datetime | None = None) -> SourceWatermark | None:
    """The watermark at ``at`` (default: now), from the deliveries in Bronze; None if the contract has none."""
    strategy = contract.clocks.watermark
    decided = decisions_of(lake, contract.dataset) if isinstance(strategy, TunableWatermark) else ()
    return None if strategy is None else _of_source(lake, contract, strategy, decided, at or lake.now())


def passed_at(state: SourceWatermark, moment: datetime) -> datetime | None:
    """When the watermark passed ``moment``; None if it has not, by the time of ``state``."""
    if isinstance(state.strategy, ProcessingTimeWatermark):
        passed = moment + state.strategy.delay
        return passed if passed <= state.at else None
    ends = [*(step.arrived for step in state.steps[1:]), state.at]
    for step, end in zip(state.steps, ends):
        if step.watermark >= moment:
            return step.arrived
        if isinstance(state.strategy, BoundedWatermark) and state.strategy.idle_timeout is not None:
            idle = state.strategy.idle_timeout
            by_clock = max(moment + idle + state.strategy.max_lateness, step.arrived + idle)
            if by_clock < end:
                return by_clock
    return None


def newest_events(lake: Lake, contract: SourceContract, strategy: TunableWatermark, at: datetime) -> SourceWatermark:
    """The watermark as it would be with a ``max_lateness`` of zero."""
    without = strategy.model_copy(update={"max_lateness": timedelta(0)})
    return _of_source(lake, contract, without, (), at)  # type: ignore[arg-type]  # a copy of a strategy is one


def _of_source(
    lake: Lake,
    contract: SourceContract,
    strategy: WatermarkStrategy,
    decided: Sequence[MaxLatenessDecision],
    now: datetime,
) -> SourceWatermark:
    state = watermark_per_key.of(lake, contract.dataset, strategy) if isinstance(strategy, PerKeyWatermark) else KeyedState()

    def compute() -> list[WatermarkStep]:
        entries = ingestions.ingested(ingestions.all_of(lake, contract.dataset)).values()
        return steps(strategy, entries, decided, state.least_after)

    # Cached: a server calls this once a second, and the steps of thousands of deliveries take a tenth of a second.
    question = f"steps of the watermark {strategy.model_dump_json()}"
    depends_on = (tuple(decision.number for decision in decided), state.times.through, len(state.least_after))
    taken = ingestions.log(lake).derived(question, compute, {"source": [contract.dataset]}, depends_on)
    arrived = [step for step in taken if step.arrived <= now]
    present = in_force(strategy, decided)(now)
    held_by: Sequence[str] = ()
    if isinstance(strategy, PerKeyWatermark) and len(arrived) == len(taken):
        held_by = [key or "(no key)" for key in state.times.holding(microseconds(strategy.idle_timeout), _HOLDING)]
    return SourceWatermark(contract.dataset, present, now, by_steps(present, arrived, now), arrived, held_by)


def decision_log(lake: Lake) -> LogTable[MaxLatenessDecision]:
    """The table."""
    return LogTable(MaxLatenessDecision, lake, locations.event_watermarks(lake), partition_by="source", journaled=True)


def decisions_of(lake: Lake, source: str) -> Sequence[MaxLatenessDecision]:
    """The decisions about a source, oldest first."""
    return sorted(decision_log(lake).read({"source": [source]}), key=lambda entry: entry.number)


def record_decision(lake: Lake, decision: MaxLatenessDecision) -> bool:
    """Append a decision.

    :returns: whether it was written; not if there is one of this number already.
    """
    return decision_log(lake).append([decision], app_id=f"event-watermark:{decision.source}:{decision.number}")
