"""Recommendations about the bounds of a source from the rows of recent arrival days, and the ``max_lateness`` in force.

Commands and API show the same: the proposals for ``lateness.cutoff`` and ``max_lateness`` with their trade-offs, the decisions,
and the tiers that more rows miss than they tolerate, each with a severity. The forms for both are JSON types; durations are in
seconds. How a bound is proposed is defined in ``rules``; decisions are made in ``tuning``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse.calendar.days import span, start_of_day
from lakehouse.contracts.source_rules import TunableWatermark
from lakehouse.errors import LakehouseError
from lakehouse.lateness import event_watermark, measurement
from lakehouse.lateness.max_lateness import MaxLatenessHistory, step, trade_offs, whole_seconds
from lakehouse.lateness.rules import RecommendationSeverity, WatermarkVerdict, percentiles, propose
from lakehouse.text import format_duration, with_earlier_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.publication import WatermarkTuning
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lateness.max_lateness import InForce, MaxLatenessDecision, TradeOff
    from lakehouse.lateness.measurement import LatenessMeasurement
    from lakehouse.lateness.rules import Proposal


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


def state_of(lake: Lake, contract: SourceContract) -> TuningState:
    """The value in force now, and the decisions.

    :raises TuningError: if the watermark of the source has no ``max_lateness``.
    """
    watermark = tunable(contract)
    if watermark is None:
        msg = f"clocks.watermark of {contract.dataset} has no max_lateness: tuning is for the strategies bounded and per_key"
        raise TuningError(msg)
    decided = event_watermark.decisions_of(lake, contract.dataset)
    in_force = MaxLatenessHistory(watermark.max_lateness, decided).at(lake.now())
    return TuningState(contract.dataset, watermark.tuning, in_force, decided)


def recommend(lake: Lake, contract: SourceContract, current: timedelta) -> Recommendation | None:
    """The recommendation from the rows of the newest arrival days; None if nothing has arrived, or there is no ``max_lateness``.

    :param current: the value in force.
    """
    watermark, now = tunable(contract), lake.now()
    # The arrival day of a file may be ahead of the clock by its time zone.
    newest = measurement.newest_arrival(lake, contract.dataset, now.astimezone(timezone.utc).date() + _DAY)
    if watermark is None or newest is None:
        return None
    terms = watermark.tuning
    first, last = measurement.window(newest, terms.days)
    measured = measurement.measure(lake, contract, first, last)
    seconds = seconds_of(terms, measured)
    proposal = propose(seconds, current, terms)
    moved = step(current, proposal.watermark, terms.band) if proposal.moves and proposal.watermark is not None else None
    return Recommendation(
        measured,
        min(start_of_day(measured.next_day, ZoneInfo(contract.clocks.timezone)), now),
        proposal,
        moved,
        _trade_offs(lake, contract, watermark, seconds, (first, last), (current, proposal.watermark)),
    )


def seconds_of(terms: WatermarkTuning, measured: LatenessMeasurement) -> Sequence[int]:
    """The lateness of the rows that tuning considers, sorted."""
    return measurement.together(
        entry for entry in measured.types if not terms.event_types or entry.event_type in terms.event_types
    )


def _trade_offs(
    lake: Lake,
    contract: SourceContract,
    watermark: TunableWatermark,
    seconds: Sequence[int],
    days: tuple[date, date],
    also: Sequence[timedelta | None],
) -> tuple[TradeOff, ...]:
    moved = event_watermark.newest_events(lake, contract, watermark, lake.now()).steps
    arrivals = [(entry.arrived, entry.watermark) for entry in moved if entry.watermark != event_watermark.BEGINNING]
    return trade_offs(seconds, arrivals, list(span(*days)), ZoneInfo(contract.clocks.timezone), also)


_PLACES = 6


def proposal_as_json(proposal: Proposal, catch: float) -> dict[str, Any]:
    """A proposal.

    :param catch: the share of rows that the contract wants within the watermark.
    """
    return {
        "verdict": proposal.verdict.value,
        "severity": proposal.severity(catch).value,
        "wanted_share": catch,
        "current_seconds": _seconds(proposal.current),
        "proposed_seconds": _seconds(proposal.watermark),
        "needed_seconds": _seconds(proposal.needed),
        "because": proposal.because,
        "evidence": [
            with_earlier_names({"cutoff_seconds": _seconds(line.watermark), "share": round(line.share, _PLACES)})
            for line in proposal.evidence
        ],
    }


def percentiles_as_json(seconds: Sequence[int]) -> dict[str, int | None] | None:
    """The percentiles of lateness and the maximum, by names without a point; None without rows.

    :param seconds: sorted.
    """
    if not len(seconds):
        return None
    return {name.replace(".", "_"): value for name, value in percentiles(seconds).items()} | {"max": int(seconds[-1])}


def state_as_json(state: TuningState) -> dict[str, Any]:
    """The value in force, the terms of the contract, and the decisions."""
    names = ("auto", "catch", "band", "days", "rows", "event_types")
    terms = {name: getattr(state.terms, name) for name in names}
    bounds = {"at_least_seconds": _seconds(state.terms.at_least), "at_most_seconds": _seconds(state.terms.at_most)}
    return {
        "max_lateness_seconds": _seconds(state.in_force.max_lateness),
        "contract_seconds": _seconds(state.in_force.of_contract),
        "pinned": _decision_as_json(state.in_force.pinned) if state.in_force.pinned else None,
        "tuning": terms | bounds,
        "decisions": [_decision_as_json(decision) for decision in state.decided],
    }


def recommendation_as_json(advice: Recommendation, catch: float) -> dict[str, Any]:
    """The recommendation from the rows of the newest arrival days."""
    measured = advice.measured
    return {
        "first": measured.first,
        "last": measured.last,
        "rows": measured.rows,
        "skewed": measured.skewed,
        "history": measured.historical,
        "without_event_time": measured.unclocked,
        "seconds": percentiles_as_json(measurement.together(measured.types)),
        "event_types": [
            {"event_type": entry.event_type, "rows": entry.rows, "seconds": percentiles_as_json(entry.seconds)}
            for entry in measured.largest_first
        ],
        "proposal": proposal_as_json(advice.proposal, catch),
        "next_step_seconds": _seconds(advice.next_step),
        "trade_offs": [
            {
                "max_lateness_seconds": _seconds(line.max_lateness),
                "share": round(line.share, _PLACES),
                "delay_seconds": _seconds(line.delay),
                "open_days": line.open_days,
            }
            for line in advice.trade_offs
        ],
    }


def _decision_as_json(decision: MaxLatenessDecision) -> dict[str, Any]:
    names = ("number", "kind", "seconds_before", "seconds", "by", "reason", "automatic", "decided_at")
    return {name: getattr(decision, name) for name in names} | {"evidence": dict(decision.evidence)}


def _seconds(value: timedelta | None) -> int | None:
    return None if value is None else whole_seconds(value)


CUTOFF, MAX_LATENESS, TIERS = "lateness.cutoff", "clocks.watermark.max_lateness", "lateness.tiers"
_GRAVEST_FIRST = (RecommendationSeverity.ERROR, RecommendationSeverity.WARN, RecommendationSeverity.INFO)


@dataclass(frozen=True)
class Advice:
    """One recommendation.

    :param about: the key of the contract.
    :param text: what the rows show, and what to do.
    :param event_type: the event type that the bound is for; None for a bound of the whole source.
    :param tier: what the tier serves; None for another bound.
    :param proposed: the bound that is proposed; None if none is.
    """

    about: str
    severity: RecommendationSeverity
    text: str
    event_type: str | None = None
    tier: str | None = None
    current: timedelta | None = None
    proposed: timedelta | None = None

    @property
    def subject(self) -> str:
        """The bound in words: its key, and the event type that it is for."""
        return f"{self.about} of {self.event_type}" if self.event_type else self.about

    def as_json(self) -> dict[str, Any]:
        """The recommendation with durations in seconds."""
        return {
            "about": self.about,
            "severity": self.severity.value,
            "event_type": self.event_type,
            "tier": self.tier,
            "current_seconds": None if self.current is None else int(self.current.total_seconds()),
            "proposed_seconds": None if self.proposed is None else int(self.proposed.total_seconds()),
            "text": self.text,
        }


def advice_of_source(lake: Lake, contract: SourceContract, measured: LatenessMeasurement) -> list[Advice]:
    """The recommendations from the measured rows, gravest first; a bound that stays is not listed."""
    found = [*_cutoffs(contract, measured), *_max_lateness(lake, contract, measured), *_tiers(contract, measured)]
    return sorted(
        (one for one in found if one.severity is not RecommendationSeverity.NONE),
        key=lambda one: _GRAVEST_FIRST.index(one.severity),
    )


def _cutoffs(contract: SourceContract, measured: LatenessMeasurement) -> Iterator[Advice]:
    for event_type, proposal in measurement.proposals(contract, measured).items():
        option = f" --event-type {event_type}" if event_type else ""
        text = _text(proposal, f"'lakehouse lateness apply {contract.dataset}{option}' applies it")
        severity = proposal.severity(contract.lateness.of_type(event_type).tuning.catch)
        yield Advice(CUTOFF, severity, text, event_type, None, proposal.current, _proposed(proposal))


def _max_lateness(lake: Lake, contract: SourceContract, measured: LatenessMeasurement) -> Iterator[Advice]:
    watermark = tunable(contract)
    if watermark is None:
        return
    terms, current = watermark.tuning, state_of(lake, contract).in_force.max_lateness
    proposal = propose(seconds_of(terms, measured), current, terms)
    text = _text(proposal, f"'lakehouse lateness tuning {contract.dataset}' shows the alternatives")
    yield Advice(MAX_LATENESS, proposal.severity(terms.catch), text, None, None, current, _proposed(proposal))


def _tiers(contract: SourceContract, measured: LatenessMeasurement) -> Iterator[Advice]:
    for late in measurement.beyond_tiers(contract, measured):
        if late.is_exceeded:
            text = f"of the rows {late.text}; ask who delivers it, or give the tier another bound"
            yield Advice(TIERS, RecommendationSeverity.WARN, text, None, late.tier.serves, late.tier.within)


def _proposed(proposal: Proposal) -> timedelta | None:
    return proposal.watermark if proposal.moves else None


def _text(proposal: Proposal, way: str) -> str:
    if proposal.verdict is WatermarkVerdict.TOO_FEW:
        return proposal.because
    if not proposal.moves:
        return f"{proposal.because}; the bounds of the contract exclude the one that is needed"
    return f"{format_duration(proposal.watermark)} is proposed: {proposal.because}; {way}"
