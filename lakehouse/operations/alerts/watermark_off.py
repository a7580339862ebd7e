"""The alert about an event-time watermark that catches fewer rows than its contract wants: its rule, and the facts.

What is proposed is computed in ``lateness.tuning``; the other rules are in ``rules``, their facts in ``signals``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.lateness.rules import RecommendationSeverity
from lakehouse.lateness.tuning import recommendation
from lakehouse.operations.alerts.alert import AlertKind, AlertSubject, addressees
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lateness.tuning.recommendation import Recommendation, TuningState
    from lakehouse.operations.alerts.alert import Alert
    from lakehouse.settings import Settings


def watermark_off(about: AlertSubject, state: TuningState, advice: Recommendation, through: datetime) -> Alert | None:
    """Alert if a smaller share of the rows came within the ``max_lateness`` in force than the contract wants.

    A value that a person has pinned does not alert: somebody knows.

    :param through: the newest arrival.
    """
    proposal, catch = advice.proposal, state.terms.catch
    severity = proposal.severity(catch)
    if state.in_force.pinned is not None or severity not in {RecommendationSeverity.WARN, RecommendationSeverity.ERROR}:
        return None
    text = f"The event-time watermark of {about.subject} expects rows within {format_duration(proposal.current)}, and "
    text += f"{proposal.caught or 0:.2%} of {proposal.rows:,} rows came within it; the contract wants {catch:.1%}. "
    text += f"Proposed: {format_duration(proposal.watermark)} ({proposal.because}). "
    if advice.next_step is not None and state.terms.auto:
        text += f"Tuning goes there by itself, next to {format_duration(advice.next_step)}. "
    name = about.subject
    text += (
        f"'lakehouse lateness tuning {name}' shows the alternatives, 'lakehouse lateness tune {name} --apply ...' applies the "
        f"proposal, 'lakehouse lateness pin {name} ...' keeps what is in force."
    )
    spans = {"current": proposal.current, "proposed": proposal.watermark, "needed": proposal.needed}
    spans |= {"next_step": advice.next_step}
    numbers = {f"{which}_seconds": None if span is None else span.total_seconds() for which, span in spans.items()}
    numbers |= {"rows": proposal.rows, "caught": proposal.caught, "wanted": catch, "severity": severity.value}
    return about.alert(AlertKind.WATERMARK_OFF, through, text, numbers)


def of_source(settings: Settings, contract: SourceContract) -> Iterator[Alert]:
    """The alert about the watermark of a source, by the rows of its newest arrival days."""
    if recommendation.tunable(contract) is None:
        return
    state = recommendation.state_of(settings, contract)
    if state.in_force.pinned is not None:
        return
    advice = recommendation.recommend(settings, contract, state.in_force.max_lateness)
    if advice is not None:
        about = AlertSubject(contract.dataset, contract.dataset, addressees(contract.owner))
        yield from filter(None, [watermark_off(about, state, advice, advice.through)])
