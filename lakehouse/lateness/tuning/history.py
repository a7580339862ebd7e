"""The value of ``max_lateness`` in force at each time: a pure function of the contract and the decisions.

The contract's value is in force until a decision changes it. A decision applies to arrivals from its time on, and as long as the
contract keeps the value that it had at the decision: a later edit of ``max_lateness`` in the contract overrides it. A pin lasts
until a person removes it, also if the contract changes. Decisions are stored by ``decisions`` and made by ``tune``.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.contracts.source_rules import TunableWatermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lakehouse.contracts.source_rules import WatermarkStrategy

#: A change; a value that tuning is to leave alone; the end of that; the return to the value before the newest change, pinned.
DecisionKind = Literal["applied", "pinned", "unpinned", "undone"]
_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class MaxLatenessDecision:
    """A decision about the ``max_lateness`` of a source, in force for arrivals from ``decided_at`` on.

    :param number: counts the decisions about the source, from 1.
    :param seconds: the value in force from then on; ``seconds_before`` the one until then.
    :param contract_seconds: the value of the contract at that time.
    :param automatic: whether tuning made the decision, without a person.
    :param evidence: the numbers of the proposal.
    """

    source: str
    number: int
    kind: DecisionKind
    seconds_before: int
    seconds: int
    contract_seconds: int
    by: str
    reason: str
    automatic: bool
    decided_at: datetime
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class InForce:
    """The value in force from a time on.

    :param of_contract: the value of the contract.
    :param changes: the decisions that led from that value to this one; each can be undone.
    :param pinned: the decision that stops tuning from changing the value; None if tuning may change it.
    """

    since: datetime
    of_contract: timedelta
    changes: tuple[MaxLatenessDecision, ...] = ()
    pinned: MaxLatenessDecision | None = None

    @property
    def max_lateness(self) -> timedelta:
        """The value."""
        return timedelta(seconds=self.changes[-1].seconds) if self.changes else self.of_contract

    @property
    def before(self) -> timedelta:
        """The value before the newest change that is in force: what undoing it restores."""
        return timedelta(seconds=self.changes[-2].seconds) if len(self.changes) > 1 else self.of_contract


class MaxLatenessHistory:
    """The values that were in force, one after the other.

    :param of_contract: the value of the contract as it is now.
    :param decided: the decisions about the source, in any order.
    """

    def __init__(self, of_contract: timedelta, decided: Iterable[MaxLatenessDecision]) -> None:
        self._states = [InForce(_BEGINNING, of_contract)]
        for decision in sorted(decided, key=lambda entry: entry.number):
            self._states.append(_after(self._states[-1], decision))
        self._since = [state.since for state in self._states]

    def at(self, time: datetime) -> InForce:
        """The value in force at ``time``."""
        return self._states[bisect_right(self._since, time) - 1]


def whole_seconds(value: timedelta) -> int:
    """A value as decisions record it."""
    return int(value.total_seconds())


def in_force(strategy: WatermarkStrategy, decided: Iterable[MaxLatenessDecision]) -> Callable[[datetime], WatermarkStrategy]:
    """The strategy of a contract at each time, with the ``max_lateness`` that was in force then."""
    if not isinstance(strategy, TunableWatermark):
        return lambda _: strategy
    history = MaxLatenessHistory(strategy.max_lateness, decided)
    tuned: dict[timedelta, WatermarkStrategy] = {}

    def at(time: datetime) -> WatermarkStrategy:
        value = history.at(time).max_lateness
        if value not in tuned:
            tuned[value] = strategy.model_copy(update={"max_lateness": value})
        return tuned[value]

    return at


def _after(state: InForce, decision: MaxLatenessDecision) -> InForce:
    """The state after a decision; a decision that was made under another value of the contract changes no value."""
    changes = state.changes
    if decision.contract_seconds != whole_seconds(state.of_contract):
        changes = ()
    elif decision.kind == "undone":
        changes = changes[:-1]
    elif decision.seconds != whole_seconds(state.max_lateness):
        changes = (*changes, decision)
    pinned = {"applied": state.pinned, "unpinned": None}.get(decision.kind, decision)
    return InForce(max(state.since, decision.decided_at), state.of_contract, changes, pinned)
