"""The lifecycle of a published number: live, preliminary, final, and the effect of a new number in each state (rules R7 and R9).

The functions here are pure: a number is represented by the digest of its content, and the clock is an argument, so that a
historical replay publishes as it would have on that day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakehouse.calendar.days import business_day_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.publication import PublicationRules


class State(str, Enum):
    """The state of a published number."""

    LIVE = "live"
    PRELIMINARY = "preliminary"
    FINAL = "final"

    @property
    def rank(self) -> int:
        """The order of the states; a number never returns to an earlier one."""
        return list(State).index(self)


class RevisionReason(str, Enum):
    """The reason of a revision."""

    INITIAL = "initial"
    NEW_DATA = "new_data"
    LATE_DATA = "late_data"
    CORRECTION = "correction"
    BACKFILL = "backfill"
    BUG_REPLAY = "bug_replay"
    DAILY_FINALIZATION = "daily_finalization"
    ROLLBACK = "rollback"
    MANUAL = "manual"

    @property
    def is_growth(self) -> bool:
        """Whether rows, or days of a longer period, arrived that were still expected: no earlier statement is withdrawn."""
        return self in (RevisionReason.INITIAL, RevisionReason.NEW_DATA)


#: What happened to rows that is known late as a row is.
_KNOWN_LATE = frozenset({"on_time", "inserted", "attribute_changed", "lateness_changed", "counted_at_close"})
#: If several reasons apply, the first of these is published.
REASONS_BY_PRECEDENCE = (
    RevisionReason.ROLLBACK,
    RevisionReason.BUG_REPLAY,
    RevisionReason.CORRECTION,
    RevisionReason.LATE_DATA,
    RevisionReason.BACKFILL,
    RevisionReason.MANUAL,
    RevisionReason.NEW_DATA,
)


class PublishAction(str, Enum):
    """The form in which a new number of a period is published."""

    NOTHING = "nothing"
    REVISION = "revision"
    STATE_CHANGE = "state_change"
    ADJUSTMENT = "adjustment"


@dataclass(frozen=True)
class PublishedState:
    """The newest published number of a period.

    :param content: the digest of its content.
    :param restated: the digest of a closed number plus its adjustments; None without adjustments.
    """

    revision: int
    state: State
    content: str
    restated: str | None = None


def today(now: datetime, terms: PublicationRules) -> date:
    """The current business day in the metric's time zone."""
    return business_day_of(now, ZoneInfo(terms.timezone or "UTC"))


def state_on(last_day: date, on: date, terms: PublicationRules) -> State:
    """The state of a number for a period that ends with ``last_day``."""
    age = (on - last_day).days
    if age >= terms.final_after:
        return State.FINAL
    return State.PRELIMINARY if age >= terms.preliminary_after else State.LIVE


def state_of(
    published: PublishedState | None, last_day: date, on: date, terms: PublicationRules, at_most: State = State.FINAL
) -> State:
    """The state in which a period's number is published: the state on that day, but never earlier than the published state.

    :param at_most: the latest state that the known input of the period permits (rule R13).
    """
    state = min(state_on(last_day, on, terms), at_most, key=lambda one: one.rank)
    if state is State.PRELIMINARY and terms.preliminary_after == terms.final_after:
        state = State.LIVE  # the contract has no preliminary numbers
    return max(state, published.state, key=lambda one: one.rank) if published else state


def next_change(last_day: date, state: State, terms: PublicationRules) -> date | None:
    """The day on which a number in ``state`` is due to be published in its next state; None for a final one."""
    if state is State.FINAL:
        return None
    return last_day + timedelta(days=terms.preliminary_after) if state is State.LIVE else closes_on(last_day, terms)


def closes_on(last_day: date, terms: PublicationRules) -> date:
    """The first day on which a number may become final."""
    return last_day + timedelta(days=terms.final_after)


def may_be_published(last_day: date, on: date, terms: PublicationRules) -> bool:
    """Whether the contract's start delay has passed; without a delay, a running period is published like its days."""
    return (on - last_day).days >= terms.start_delay or terms.start_delay == 0


def contents_of(published: PublishedState | None) -> set[str]:
    """The digests that a published number has: its own, and that of the number with its adjustments."""
    return set() if published is None else {published.content, published.restated or published.content}


def publish_action(published: PublishedState | None, content: str, state: State, terms: PublicationRules) -> PublishAction:
    """The form in which a number with the digest ``content`` and a state is published, given the published number.

    Equal content makes no revision, except for a change of state (R7). A closed period gets revisions only if its contract allows
    it (R9).
    """
    if published is None:
        return PublishAction.REVISION
    if published.state is State.FINAL and terms.after_close == "adjust":
        return PublishAction.NOTHING if (published.restated or published.content) == content else PublishAction.ADJUSTMENT
    if published.content != content or published.restated not in {None, content}:  # it was adjusted before the contract changed
        return PublishAction.REVISION
    return PublishAction.STATE_CHANGE if state.rank > published.state.rank else PublishAction.NOTHING


def reason_for(
    action: PublishAction,
    published: PublishedState | None,
    requested: RevisionReason | None,
    causes: Mapping[str, int],
    *,
    is_running: bool = True,
) -> RevisionReason:
    """The reason of a revision.

    :param requested: the reason that the run gives, such as a backfill; None if the run follows the data.
    :param causes: the changes of the number's Silver rows: counts of keys that came on time, of inserted (late), corrected, moved
        and deleted keys, and of rows whose attributes changed, which become known late like late rows.
    :param is_running: see :func:`is_running`. Rows of an older period that came on time, and that a steward
        has admitted since, were no longer expected.
    """
    if published is None:
        return RevisionReason.INITIAL
    if action is PublishAction.STATE_CHANGE:
        return RevisionReason.DAILY_FINALIZATION
    if requested in (RevisionReason.BUG_REPLAY, RevisionReason.ROLLBACK):
        return requested
    happened = {kind for kind, count in causes.items() if count}
    if happened == {"on_time"} and published.state is not State.FINAL and is_running:
        return RevisionReason.NEW_DATA
    if happened:
        return RevisionReason.LATE_DATA if happened <= _KNOWN_LATE else RevisionReason.CORRECTION
    given = requested or RevisionReason.MANUAL
    # Growth is given for a longer period to which a day was added. A final number never grows.
    return RevisionReason.LATE_DATA if given.is_growth and published.state is State.FINAL else given


def is_running(last_day: date, today: date) -> bool:
    """Whether a period ended yesterday or later: rows of it that come on time are still expected."""
    return today <= last_day + timedelta(days=1)


def reason_of_longer(reasons: Collection[RevisionReason], requested: RevisionReason | None) -> RevisionReason:
    """The reason of a number that is made of others: the gravest reason for which one of these was published.

    :param requested: the reason that the run gives; None if it follows the data.
    """
    gravest = next((reason for reason in REASONS_BY_PRECEDENCE if reason in reasons), requested)
    return gravest or (RevisionReason.INITIAL if RevisionReason.INITIAL in reasons else RevisionReason.LATE_DATA)


def restates(reason: RevisionReason) -> bool:
    """Whether a publication for this reason replaces a number that readers had.

    The first number of a period does not, nor does a change of state, nor growth: rows of a running day that came on time, and a
    running week to which its next day was added.
    """
    return not reason.is_growth and reason is not RevisionReason.DAILY_FINALIZATION


def update_count(reasons: Iterable[RevisionReason]) -> int:
    """How many revisions have changed a number since its first one, by the reasons of all; a change of state is none."""
    return max(sum(reason is not RevisionReason.DAILY_FINALIZATION for reason in reasons) - 1, 0)


def grows(reason: RevisionReason, published: State) -> bool:
    """Whether a number whose content differs from the published one only grew: that is no restatement. A final number never
    grows.
    """
    return reason.is_growth and published is not State.FINAL


def is_restatement(reason: RevisionReason, state: State, published_at: datetime, restated_on: datetime | None) -> bool:
    """Whether a published revision replaced a number that readers had, according to its recorded columns.

    The time of the last restatement alone is not sufficient: a replay's clock stands still, so a revision that only grew, or only
    changed its state, may have the same time. A revision that is not final never follows a final one.
    """
    is_new = not grows(reason, state) and reason is not RevisionReason.DAILY_FINALIZATION
    return restated_on == published_at and is_new


@dataclass(frozen=True)
class VersionName:
    """The name of a published number, as in ``revenue_v2024-11-07.r2``; the name of an adjustment of it ends in ``.a1``."""

    series: str
    period: str
    revision: int
    adjustment: int | None = None

    def __str__(self) -> str:
        more = "" if self.adjustment is None else f".a{self.adjustment}"
        return f"{self.series}_v{self.period}.r{self.revision}{more}"


_VERSION_NAME = re.compile(
    r"(?P<series>[a-z][a-z0-9_]*)_v(?P<period>(?:FY)?\d{4}[-\dQW]*)\.r(?P<revision>\d+)(?:\.a(?P<adjustment>\d+))?"
)


def label(revision: int, adjustment: int | None) -> str:
    """The name of a version within its period, such as ``r3``, or ``r3.a1`` for an adjustment."""
    return f"r{revision}" + (f".a{adjustment}" if adjustment is not None else "")


def parse_version_name(text: str) -> VersionName | None:
    """The parts of a version name; None for any other text."""
    found = _VERSION_NAME.fullmatch(text.strip())
    if found is None:
        return None
    adjustment = found["adjustment"]
    return VersionName(found["series"], found["period"], int(found["revision"]), int(adjustment) if adjustment else None)
