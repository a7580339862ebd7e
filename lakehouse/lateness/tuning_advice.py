"""Recommendations about the bounds of a source, from the rows of a range of arrival days, each with a severity.

The API and the command line show the same list: the proposals for ``lateness.cutoff`` and ``max_lateness``, and the tiers that
more rows miss than they tolerate. How a bound is proposed is defined in ``lateness.rules``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.lateness import measurement, recommendation
from lakehouse.lateness.rules import RecommendationSeverity, WatermarkVerdict, propose
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lateness.measurement import LatenessMeasurement
    from lakehouse.lateness.rules import Proposal


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


def of_source(lake: Lake, contract: SourceContract, measured: LatenessMeasurement) -> list[Advice]:
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
    watermark = recommendation.tunable(contract)
    if watermark is None:
        return
    terms, current = watermark.tuning, recommendation.state_of(lake, contract).in_force.max_lateness
    proposal = propose(recommendation.seconds_of(terms, measured), current, terms)
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
