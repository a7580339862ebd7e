"""The ``max_lateness`` in force, and the recommendation from the recent arrivals of a source.

Reads Bronze, the ledger and the decisions, and writes nothing; the rules are in ``rules`` and ``history``. Decisions are made in
``tune``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakehouse.calendar.days import span
from lakehouse.calendar.event_day import start_of_day
from lakehouse.contracts.source_rules import TunableWatermark
from lakehouse.errors import LakehouseError
from lakehouse.lateness import event_watermark, measurement
from lakehouse.lateness.rules import propose
from lakehouse.lateness.tuning import decisions
from lakehouse.lateness.tuning.history import MaxLatenessHistory
from lakehouse.lateness.tuning.rules import step, trade_offs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from lakehouse.contracts.schedules import WatermarkTuning
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lateness.measurement import LatenessMeasurement
    from lakehouse.lateness.rules import Proposal
    from lakehouse.lateness.tuning.history import InForce, MaxLatenessDecision
    from lakehouse.lateness.tuning.rules import TradeOff
    from lakehouse.settings import Settings

_DAY = timedelta(days=1)


class TuningError(LakehouseError):
    """A decision that cannot be made. The message gives the reason, and what to do."""


@dataclass(frozen=True)
class TuningState:
    """Which ``max_lateness`` of a source is in force, and the decisions that led there."""

    source: str
    terms: WatermarkTuning
    in_force: InForce
    decided: Sequence[MaxLatenessDecision]


@dataclass(frozen=True)
class Recommendation:
    """The recommendation for a ``max_lateness`` from the rows of the newest arrival days.

    :param through: the end of the newest of these days, or now, if that is earlier.
    :param next_step: the value after the next step of tuning; None if the proposal does not move.
    """

    measured: LatenessMeasurement
    through: datetime
    proposal: Proposal
    next_step: timedelta | None
    trade_offs: Sequence[TradeOff]


def tunable(contract: SourceContract) -> TunableWatermark | None:
    """The event-time watermark of a source, if it has a ``max_lateness``."""
    watermark = contract.clocks.watermark
    return watermark if isinstance(watermark, TunableWatermark) else None


def state_of(settings: Settings, contract: SourceContract) -> TuningState:
    """The value in force now, and the decisions.

    :raises TuningError: if the watermark of the source has no ``max_lateness``.
    """
    watermark = tunable(contract)
    if watermark is None:
        msg = f"clocks.watermark of {contract.dataset} has no max_lateness: tuning is for the strategies bounded and per_key"
        raise TuningError(msg)
    decided = decisions.of(settings, contract.dataset)
    in_force = MaxLatenessHistory(watermark.max_lateness, decided).at(settings.clock())
    return TuningState(contract.dataset, watermark.tuning, in_force, decided)


def recommend(settings: Settings, contract: SourceContract, current: timedelta) -> Recommendation | None:
    """The recommendation from the rows of the newest arrival days; None if nothing has arrived, or there is no ``max_lateness``.

    :param current: the value in force.
    """
    watermark, now = tunable(contract), settings.clock()
    # The arrival day of a file may be ahead of the clock by its time zone.
    newest = measurement.newest_arrival(settings, contract.dataset, now.astimezone(timezone.utc).date() + _DAY)
    if watermark is None or newest is None:
        return None
    terms = watermark.tuning
    first, last = measurement.window(newest, terms.days)
    measured = measurement.measure(settings, contract, first, last)
    seconds = seconds_of(terms, measured)
    proposal = propose(seconds, current, terms)
    moved = step(current, proposal.watermark, terms.band) if proposal.moves and proposal.watermark is not None else None
    return Recommendation(
        measured,
        min(start_of_day(measured.next_day, ZoneInfo(contract.clocks.timezone)), now),
        proposal,
        moved,
        _trade_offs(settings, contract, watermark, seconds, (first, last), (current, proposal.watermark)),
    )


def seconds_of(terms: WatermarkTuning, measured: LatenessMeasurement) -> Sequence[int]:
    """The lateness of the rows that tuning considers, sorted."""
    return measurement.together(
        entry for entry in measured.types if not terms.event_types or entry.event_type in terms.event_types
    )


def _trade_offs(
    settings: Settings,
    contract: SourceContract,
    watermark: TunableWatermark,
    seconds: Sequence[int],
    days: tuple[date, date],
    also: Sequence[timedelta | None],
) -> tuple[TradeOff, ...]:
    moved = event_watermark.newest_events(settings, contract, watermark, settings.clock()).steps
    arrivals = [(entry.arrived, entry.watermark) for entry in moved if entry.watermark != event_watermark.BEGINNING]
    return trade_offs(seconds, arrivals, list(span(*days)), ZoneInfo(contract.clocks.timezone), also)
