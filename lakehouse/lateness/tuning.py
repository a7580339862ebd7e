"""Decisions about ``max_lateness``: the daily step of tuning, and the decisions of people.

Only the decision is written. Readers of the watermark read it from there, so no file is edited and nothing has to be restarted.
The basis of a decision is read by ``recommendation``.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

from lakehouse.lateness import event_watermark
from lakehouse.lateness.max_lateness import MaxLatenessDecision, whole_seconds
from lakehouse.lateness.recommendation import TuningError, recommend, state_of
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lateness.max_lateness import DecisionKind
    from lakehouse.lateness.recommendation import TuningState
    from lakehouse.lateness.rules import Proposal


#: The author of the decisions that are taken without a person.
_TUNING = "tuning"
_SECOND = timedelta(seconds=1)


def apply_daily(lake: Lake, contract: SourceContract) -> str:
    """Make the daily step, if the contract has ``auto: true``: at most one band, within the bounds, and none if the value is
    pinned.

    :returns: what was done, or why nothing was done, as a sentence.
    """
    state = state_of(lake, contract)
    today, current = lake.now().astimezone(timezone.utc).date(), state.in_force.max_lateness
    if not state.terms.auto:
        return f"the contract of {state.source} does not say 'auto: true'"
    if state.in_force.pinned is not None:
        return f"{format_duration(current)} of {state.source} is pinned by {state.in_force.pinned.by}"
    if any(entry.automatic and entry.decided_at.date() == today for entry in state.decided):
        return f"{state.source} was tuned today"
    advice = recommend(lake, contract, current)
    if advice is None or advice.next_step is None:
        return (
            f"{format_duration(current)} of {state.source} stays: {advice.proposal.because if advice else 'nothing has arrived'}"
        )
    decision = _decision(lake, state, "applied", advice.next_step, _TUNING, advice.proposal.because, advice.proposal)
    written = event_watermark.record_decision(lake, replace(decision, automatic=True))
    moved = f"{format_duration(current)} -> {format_duration(advice.next_step)}"
    return (
        f"{state.source}: {moved}; {advice.proposal.because}" if written else f"another decision about {state.source} was first"
    )


def apply_proposal(lake: Lake, contract: SourceContract, by: str, reason: str) -> MaxLatenessDecision:
    """Apply the whole proposal at once, as a person's decision.

    :raises TuningError: if the value is pinned, no other value is proposed, or another decision was made meanwhile.
    """
    state = state_of(lake, contract)
    current = state.in_force.max_lateness
    if state.in_force.pinned is not None:
        msg = (
            f"{format_duration(current)} is pinned by {state.in_force.pinned.by}: 'lakehouse lateness unpin {state.source}' first"
        )
        raise TuningError(msg)
    advice = recommend(lake, contract, current)
    if advice is None or not advice.proposal.moves or advice.proposal.watermark is None:
        because = advice.proposal.because if advice else "nothing has arrived"
        msg = f"{format_duration(current)} stays, nothing else is proposed: {because}; to set a value, pin it with --at"
        raise TuningError(msg)
    return _decided(lake, state, "applied", advice.proposal.watermark, by, reason, advice.proposal)


def pin(lake: Lake, contract: SourceContract, by: str, reason: str, value: timedelta | None = None) -> MaxLatenessDecision:
    """Keep a value until a person unpins it; tuning does not change it, and no alert is raised about it.

    :param value: in whole seconds; default: the one in force.
    :raises TuningError: for parts of a second.
    """
    if value is not None and value % _SECOND:
        msg = f"{value.total_seconds():g} s: give whole seconds, such as PT30S"
        raise TuningError(msg)
    state = state_of(lake, contract)
    advice = recommend(lake, contract, state.in_force.max_lateness)
    proposal = advice.proposal if advice else None
    return _decided(lake, state, "pinned", state.in_force.max_lateness if value is None else value, by, reason, proposal)


def unpin(lake: Lake, contract: SourceContract, by: str, reason: str) -> MaxLatenessDecision:
    """Let tuning change the value again; it stays as it is until then.

    :raises TuningError: if it is not pinned.
    """
    state = state_of(lake, contract)
    if state.in_force.pinned is None:
        msg = f"{format_duration(state.in_force.max_lateness)} of {state.source} is not pinned"
        raise TuningError(msg)
    return _decided(lake, state, "unpinned", state.in_force.max_lateness, by, reason, None)


def undo(lake: Lake, contract: SourceContract, by: str, reason: str) -> MaxLatenessDecision:
    """Return to the value before the newest change, and pin it: otherwise tuning would take the same step again.

    :raises TuningError: if the value is that of the contract.
    """
    state = state_of(lake, contract)
    if not state.in_force.changes:
        msg = (
            f"{format_duration(state.in_force.max_lateness)} of {state.source} is the contract's value: there is nothing to undo"
        )
        raise TuningError(msg)
    return _decided(lake, state, "undone", state.in_force.before, by, reason, None)


def _decided(
    lake: Lake, state: TuningState, kind: DecisionKind, value: timedelta, by: str, reason: str, proposal: Proposal | None
) -> MaxLatenessDecision:
    """:raises TuningError: without a name and a reason, or if another decision was made meanwhile."""
    if not by.strip() or not reason.strip():
        msg = "a decision needs a name (--by) and a reason (--reason)"
        raise TuningError(msg)
    decision = _decision(lake, state, kind, value, by, reason, proposal)
    if not event_watermark.record_decision(lake, decision):
        msg = f"another decision about {state.source} was taken meanwhile: look at 'lakehouse lateness tuning {state.source}'"
        raise TuningError(msg)
    return decision


def _decision(
    lake: Lake, state: TuningState, kind: DecisionKind, value: timedelta, by: str, reason: str, proposal: Proposal | None
) -> MaxLatenessDecision:
    return MaxLatenessDecision(
        source=state.source,
        number=max((entry.number for entry in state.decided), default=0) + 1,
        kind=kind,
        seconds_before=whole_seconds(state.in_force.max_lateness),
        seconds=whole_seconds(value),
        contract_seconds=whole_seconds(state.in_force.of_contract),
        by=by,
        reason=reason,
        automatic=False,
        decided_at=lake.now(),
        evidence=_evidence(proposal) if proposal else {},
    )


def _evidence(proposal: Proposal) -> dict[str, Any]:
    """The numbers of a proposal."""
    return {
        "rows": proposal.rows,
        "caught": proposal.caught,
        "proposed_seconds": None if proposal.watermark is None else whole_seconds(proposal.watermark),
        "needed_seconds": None if proposal.needed is None else whole_seconds(proposal.needed),
        "because": proposal.because,
        "shares": {f"{whole_seconds(line.watermark)}": line.share for line in proposal.evidence},
    }
