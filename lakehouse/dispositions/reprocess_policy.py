"""The reprocess policies: how several arrivals about the same event days become one content of silver.

Every rule in which the policies differ is here, with one class per policy. Callers read the tables and pass in the rows; the
same selection on sets of claims (``contests``) and on DataFrames (``silver.merge``, ``silver.admitted_claims``) follows the
attributes declared here. How claims about one key contend with each other is the same under every policy, and is in ``contests``.

To add a policy, write its class, enter it in :data:`POLICIES` and add its name to the contract's ``reprocess_policy``.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lakehouse.dispositions.verdicts import RowVerdict
from lakehouse.ledger.row_states import Disposition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import ReprocessPolicyName


@dataclass(frozen=True)
class Share:
    """The rows of one event day in one arrival.

    :param rows: how many rows are admitted or were barred individually by a steward.
    :param order: the greatest position in the total order among its rows, by which arrivals are newer or older.
    :param accepted: whether a steward has accepted it although it shrinks the day.
    """

    ingestion_id: str
    rows: int
    order: tuple[Any, ...]
    accepted: bool = False


@dataclass(frozen=True)
class Choice:
    """The arrival that a day is computed from, and those that are held because they would shrink it."""

    holder: str | None
    held: frozenset[str]


#: The choice for a day without an arrival.
NO_ARRIVAL = Choice(None, frozenset())


@dataclass(frozen=True)
class ReprocessPolicy(ABC):
    """The rules of a source's contract for re-sent event days.

    :param by_sequence: whether the source numbers its changes.
    :param one_event: whether several inserts of a key are one event, as under a synthetic key.
    :param max_shrink: the share of a day's rows that a re-sent file may lack.
    """

    by_sequence: bool
    one_event: bool
    max_shrink: float

    #: As the contract names it.
    name: ClassVar[ReprocessPolicyName]
    #: Whether pending ingestions are merged into silver; otherwise every day that they touch is rebuilt.
    merges_pending: ClassVar[bool] = False
    #: Whether the claims about one key contend with each other; otherwise every admitted row lives.
    keys_contend: ClassVar[bool] = True
    #: Whether they contend on each event day separately, so that a key may live on several days.
    contends_per_day: ClassVar[bool] = False
    #: Whether silver is computed only from chosen arrivals (see :meth:`choose`).
    chooses_arrivals: ClassVar[bool] = False
    #: Whether one arrival is chosen for the whole table, and not one for each event day.
    chooses_for_table: ClassVar[bool] = False
    #: Whether a run has to be confirmed by the person who starts it.
    needs_confirmation: ClassVar[bool] = False

    def affected_days(
        self,
        row_days: set[date],
        days_of_keys: Callable[[], Collection[date]],  # noqa: ARG002 (each policy reads what it needs)
        all_days: Callable[[], Collection[date]],  # noqa: ARG002
    ) -> set[date]:
        """The event days whose content in silver some rows may change.

        :param row_days: the event days of these rows.
        :param days_of_keys: reads every event day on which the rows' keys have been.
        :param all_days: reads every event day of the source.
        """
        return row_days

    def choose(self, shares: Mapping[date, Sequence[Share]], days: Collection[date]) -> dict[date, Choice]:  # noqa: ARG002
        """The arrival that each event day is computed from; empty if every arrival counts.

        :param shares: the shares of the arrivals by event day; for :attr:`chooses_for_table`, of all days.
        """
        return {}

    def excluded(self, day: date | None, ingestion_id: str, chosen: Mapping[date, Choice]) -> RowVerdict | None:
        """The verdict on the rows of an arrival that was not chosen for their day; None for rows that may contend.

        :param chosen: the choice of each event day.
        """
        if not self.chooses_arrivals:
            return None
        choice = chosen[day] if day else NO_ARRIVAL
        if ingestion_id in choice.held:
            return RowVerdict(Disposition.QUARANTINED, f"its file would shrink {day} by more than {self.max_shrink:.0%}")
        if ingestion_id != choice.holder:
            return RowVerdict(Disposition.SUPERSEDED, "a newer arrival is the whole truth for the day")
        return None


class MergePolicy(ReprocessPolicy):
    """Key by key, the greatest claim wins."""

    name = "merge"
    merges_pending = True

    def affected_days(
        self,
        row_days: set[date],
        days_of_keys: Callable[[], Collection[date]],
        all_days: Callable[[], Collection[date]],  # noqa: ARG002 (see the base class)
    ) -> set[date]:
        """A row may move its key from any day on which it has been."""
        return row_days.union(days_of_keys())


class AppendPolicy(ReprocessPolicy):
    """Every admitted row lives."""

    name = "append"
    keys_contend = False


class OverwritePartitionPolicy(ReprocessPolicy):
    """The newest arrival replaces an event day, unless it lacks too many rows."""

    name = "overwrite_partition_safe"
    contends_per_day = True
    chooses_arrivals = True

    def choose(self, shares: Mapping[date, Sequence[Share]], days: Collection[date]) -> dict[date, Choice]:
        """Day by day, the newest arrival that is not held."""
        return {day: self._choose_of_day(shares.get(day, ())) for day in days}

    def _choose_of_day(self, shares: Iterable[Share]) -> Choice:
        """The choice for one day.

        Arrivals are compared in the total order, so that the order of ingestion does not matter. An arrival that is held does
        not count until it is accepted.
        """
        holder: Share | None = None
        held = set()
        for share in sorted(shares, key=lambda share: share.order):
            if holder is not None and not share.accepted and share.rows < holder.rows * (1 - self.max_shrink):
                held.add(share.ingestion_id)
            else:
                holder = share
        return Choice(holder.ingestion_id if holder else None, frozenset(held))


class OverwriteAllPolicy(ReprocessPolicy):
    """The newest arrival replaces the table."""

    name = "overwrite_all"
    chooses_arrivals = True
    chooses_for_table = True
    needs_confirmation = True

    def affected_days(
        self,
        row_days: set[date],
        days_of_keys: Callable[[], Collection[date]],  # noqa: ARG002 (see the base class)
        all_days: Callable[[], Collection[date]],
    ) -> set[date]:
        """A newer arrival replaces all days."""
        return row_days.union(all_days()) if row_days else row_days

    def choose(self, shares: Mapping[date, Sequence[Share]], days: Collection[date]) -> dict[date, Choice]:
        """The newest arrival, for all days."""
        newest = max((share for of_day in shares.values() for share in of_day), key=lambda share: share.order, default=None)
        return dict.fromkeys(days, Choice(newest.ingestion_id, frozenset()) if newest else NO_ARRIVAL)


POLICIES: Mapping[ReprocessPolicyName, type[ReprocessPolicy]] = {
    policy.name: policy for policy in (MergePolicy, OverwritePartitionPolicy, OverwriteAllPolicy, AppendPolicy)
}


def policy_of(contract: SourceContract) -> ReprocessPolicy:
    """The reprocess policy of a source, with its contract's settings for keys and files."""
    return POLICIES[contract.materialization.reprocess_policy](
        by_sequence=bool(contract.order.sequence),
        one_event=contract.synthetic_key is not None,
        max_shrink=contract.materialization.max_shrink,
    )
