"""The value of ``max_lateness`` in force at each time: a pure function of the contract and the decisions.

The contract's value is in force until a decision changes it. A decision applies to arrivals from its time on, and as long as the
contract keeps the value that it had at the decision: a later edit of ``max_lateness`` in the contract overrides it. A pin lasts
until a person removes it, also if the contract changes. Decisions are stored by ``event_watermark`` and made by ``tuning``.

Belongs here as well: the daily step by which tuning moves the value, and the trade-off between waiting and completeness.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.calendar.days import end_of_day
from lakehouse.contracts.source_rules import TunableWatermark
from lakehouse.lateness.rules import evidence, nearest_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.source_rules import WatermarkStrategy


_MINUTE = timedelta(minutes=1)


def step(current: timedelta, wanted: timedelta, band: float) -> timedelta:
    """The value after one day's move from ``current`` towards ``wanted``: by at most the band.

    :param band: the greatest change, as a share of the current value; the change is rounded down to minutes, and is at least a
        minute.
    """
    most = max(current * band // _MINUTE * _MINUTE, _MINUTE)
    return min(max(wanted, current - most), current + most)


@dataclass(frozen=True)
class TradeOff:
    """The consequences of a ``max_lateness``.

    :param share: the share of rows that came within it. Such a row is never older than the watermark when it arrives.
    :param delay: the median time from the end of a day until the watermark passed that end; None if it passed none.
    :param open_days: the number of event days that were not over at the newest arrival, the running one included.
    """

    max_lateness: timedelta
    share: float
    delay: timedelta | None
    open_days: int


def trade_offs(
    seconds: Sequence[int],
    newest_events: Sequence[tuple[datetime, datetime]],
    days: Collection[date],
    zone: ZoneInfo,
    also: Collection[timedelta | None] = (),
) -> tuple[TradeOff, ...]:
    """The consequences of each step of :data:`lateness.rules.LADDER`, and of each value in ``also``.

    :param seconds: how late each row came, sorted; parts of a second count as a whole one.
    :param newest_events: per arrival, in order, the watermark that a ``max_lateness`` of zero gives.
    :param days: the event days whose delay counts; those that ended before the first arrival came as a backlog, and do not.
    """
    watermarks = [watermark for _, watermark in newest_events]
    ends = [end for end in (end_of_day(day, zone) for day in days) if newest_events and end > newest_events[0][0]]

    def delay(max_lateness: timedelta) -> timedelta | None:
        places = [(end, bisect_left(watermarks, end + max_lateness)) for end in ends]
        waited = sorted(newest_events[place][0] - end for end, place in places if place < len(watermarks))
        return waited[nearest_rank(len(waited), "0.5")] if waited else None

    def open_days(max_lateness: timedelta) -> int:
        if not newest_events:
            return 0
        arrived, watermark = newest_events[-1]
        return (arrived.astimezone(zone).date() - (watermark - max_lateness).astimezone(zone).date()).days + 1

    return tuple(
        TradeOff(line.watermark, line.share, delay(line.watermark), open_days(line.watermark)) for line in evidence(seconds, also)
    )


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
