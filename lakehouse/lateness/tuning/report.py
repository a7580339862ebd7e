"""Proposals, trade-offs and decisions as JSON types, the same for the commands and the API; durations in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.lateness import measurement
from lakehouse.lateness.rules import percentiles
from lakehouse.lateness.tuning.history import whole_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from lakehouse.lateness.rules import Proposal
    from lakehouse.lateness.tuning.history import MaxLatenessDecision
    from lakehouse.lateness.tuning.recommendation import Recommendation, TuningState

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
            {"watermark_seconds": _seconds(line.watermark), "share": round(line.share, _PLACES)} for line in proposal.evidence
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
