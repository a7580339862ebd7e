"""The reprocess policies: how deliveries about the same event days become one content of silver, with the verdicts on rows.

Every rule in which the policies differ is here, with one class per policy. Callers read the tables and pass in the rows; the same
selection on sets of claims (``winners``) and on DataFrames (``silver.merge``, ``silver.admitted_claims``) uses the attributes
declared here. How claims about one key contend with each other is the same under every policy, and is in ``winners``.

To add a policy, write its class, enter it in :data:`POLICIES` and add its name to the contract's ``reprocess_policy``.

A verdict is a disposition with its text (rule R4), defined once. The verdict on a row is determined by the contract and the
stewards (:func:`barred`), by the policy, and by the other claims about its key (``winners``).
"""

from __future__ import annotations

from abc import ABC
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from lakehouse.ledger.row_states import AdmissionStatus, Disposition, StewardVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import ReprocessPolicyName


@dataclass(frozen=True)
class Share:
    """The rows of one event day in one delivery.

    :param delivery: the manifest, else the arrival day; see ``ledger.ingestions.Ingestion.delivered_with``.
    :param ingestion_ids: its files with rows of the day.
    :param rows: the number of rows that are admitted or were barred individually by a steward.
    :param order: the position by which deliveries are newer or older.
    :param accepted: whether a steward has accepted the delivery although it shrinks the day.
    """

    delivery: str
    ingestion_ids: frozenset[str]
    rows: int
    order: tuple[Any, ...]
    accepted: bool = False


@dataclass(frozen=True)
class Choice:
    """The ingestions that a day is computed from, and the ingestions of deliveries that are held because they would shrink it."""

    counting: frozenset[str]
    held: frozenset[str]


#: The choice for a day without a delivery.
NO_DELIVERY = Choice(frozenset(), frozenset())


@dataclass(frozen=True)
class ReprocessPolicy(ABC):
    """The rules of a source's contract for re-sent event days.

    :param by_sequence: whether the source numbers its changes.
    :param one_event: whether several inserts of a key are one event, as under a synthetic key.
    :param max_shrink: the share of the rows of a day, or of the table, that a later delivery may lack.
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
    #: Whether a row may change every day on which its key has been: it may move the key, or end its newest row there.
    reaches_days_of_keys: ClassVar[bool] = False
    #: Whether they contend on each event day separately, so that a key may live on several days.
    contends_per_day: ClassVar[bool] = False
    #: Whether silver is computed only from chosen deliveries (see :meth:`choose`).
    chooses_deliveries: ClassVar[bool] = False
    #: Whether one delivery is chosen for the whole table, and not one for each event day.
    chooses_for_table: ClassVar[bool] = False
    #: Whether a run has to be confirmed by the person who starts it.
    needs_confirmation: ClassVar[bool] = False

    def affected_days(
        self,
        row_days: set[date],
        days_of_keys: Callable[[], Collection[date]],
        all_days: Callable[[], Collection[date]],  # noqa: ARG002 (each policy reads what it needs)
    ) -> set[date]:
        """The event days whose content in silver rows on ``row_days`` may change.

        :param row_days: the event days of these rows.
        :param days_of_keys: reads every event day on which the rows' keys have been.
        :param all_days: reads every event day of the source.
        """
        return row_days.union(days_of_keys()) if self.reaches_days_of_keys else row_days

    def choose(self, shares: Mapping[date, Sequence[Share]], days: Collection[date]) -> dict[date, Choice]:  # noqa: ARG002
        """The ingestions that each event day is computed from; empty if every ingestion counts.

        :param shares: the shares of the deliveries by event day; for :attr:`chooses_for_table`, of all days.
        """
        return {}

    def _newest_that_counts(self, shares: Iterable[Share]) -> Choice:
        """The choice among deliveries of the same scope, a day or the table.

        Deliveries are compared in an order that does not depend on the order of ingestion. A held delivery does not count until
        it is accepted.
        """
        newest: Share | None = None
        held = set[str]()
        for share in sorted(shares, key=lambda share: share.order):
            if newest is not None and not share.accepted and share.rows < newest.rows * (1 - self.max_shrink):
                held |= share.ingestion_ids
            else:
                newest = share
        counting = newest.ingestion_ids if newest else frozenset()
        return Choice(counting, frozenset(held - counting))

    def excluded(self, day: date | None, ingestion_id: str, chosen: Mapping[date, Choice]) -> RowVerdict | None:
        """The verdict on the rows of an ingestion that was not chosen for their day; None for rows that may contend.

        :param chosen: the choice of each event day.
        """
        if not self.chooses_deliveries:
            return None
        choice = chosen[day] if day else NO_DELIVERY
        if ingestion_id in choice.counting:
            return None
        if ingestion_id in choice.held:
            whole = "the table" if self.chooses_for_table else day
            return RowVerdict(Disposition.QUARANTINED, f"its delivery would shrink {whole} by more than {self.max_shrink:.0%}")
        return RowVerdict(
            Disposition.SUPERSEDED, f"a newer delivery is the whole truth for the {'table' if self.chooses_for_table else 'day'}"
        )


class MergePolicy(ReprocessPolicy):
    """Key by key, the greatest claim wins."""

    name = "merge"
    merges_pending = True
    reaches_days_of_keys = True


class PartialMergePolicy(MergePolicy):
    """The same where corrections are partial: an older record may change the row of a newer one, so that days are rebuilt."""

    merges_pending = False


class AppendPolicy(ReprocessPolicy):
    """Every admitted row lives. A separate table keeps the newest row of each key, by the rules of :class:`MergePolicy`."""

    name = "append"
    keys_contend = False
    reaches_days_of_keys = True


class OverwritePartitionPolicy(ReprocessPolicy):
    """The newest delivery replaces an event day, unless it lacks too many rows."""

    name = "overwrite_partition_safe"
    contends_per_day = True
    chooses_deliveries = True

    def choose(self, shares: Mapping[date, Sequence[Share]], days: Collection[date]) -> dict[date, Choice]:
        """Day by day, the newest delivery that is not held."""
        return {day: self._newest_that_counts(shares.get(day, ())) for day in days}


class OverwriteAllPolicy(ReprocessPolicy):
    """The newest delivery replaces the table, unless it lacks too many rows."""

    name = "overwrite_all"
    chooses_deliveries = True
    chooses_for_table = True
    needs_confirmation = True

    def affected_days(
        self,
        row_days: set[date],
        days_of_keys: Callable[[], Collection[date]],  # noqa: ARG002 (see the base class)
        all_days: Callable[[], Collection[date]],
    ) -> set[date]:
        """All days: a newer delivery replaces every one of them."""
        return row_days.union(all_days()) if row_days else row_days

    def choose(self, shares: Mapping[date, Sequence[Share]], days: Collection[date]) -> dict[date, Choice]:
        """The newest delivery that is not held, for all days."""
        parts: dict[str, list[Share]] = defaultdict(list)
        for share in chain.from_iterable(shares.values()):
            parts[share.delivery].append(share)
        return dict.fromkeys(days, self._newest_that_counts(map(_whole, parts.values())))


def _whole(parts: Sequence[Share]) -> Share:
    """The rows of all event days in one delivery."""
    return Share(
        parts[0].delivery,
        frozenset[str]().union(*(part.ingestion_ids for part in parts)),
        sum(part.rows for part in parts),
        max(part.order for part in parts),
        accepted=any(part.accepted for part in parts),
    )


POLICIES: Mapping[ReprocessPolicyName, type[ReprocessPolicy]] = {
    policy.name: policy for policy in (MergePolicy, OverwritePartitionPolicy, OverwriteAllPolicy, AppendPolicy)
}


def policy_of(contract: SourceContract) -> ReprocessPolicy:
    """The reprocess policy of a silver table, with its contract's settings for keys and files."""
    policy = PartialMergePolicy if contract.has_partial_corrections else POLICIES[contract.reprocess_policy]
    return policy(
        by_sequence=contract.by_sequence,
        one_event=contract.synthetic_key is not None,
        max_shrink=contract.materialization.max_shrink,
    )


@dataclass(frozen=True)
class RowVerdict:
    """The disposition of a row, and why; ``lives`` is whether silver holds the row."""

    disposition: Disposition
    because: str
    lives: bool = False


LIVES = RowVerdict(Disposition.APPLIED, "lives", lives=True)
ENDED_ITS_KEY = RowVerdict(Disposition.APPLIED, "ended its key")
SAYS_THE_SAME = RowVerdict(Disposition.DUPLICATE, "a newer record says the same")
SAME_EVENT = RowVerdict(Disposition.DUPLICATE, "the same event, by its synthetic key")
RETIRED = RowVerdict(Disposition.SUPERSEDED, "its key was corrected under another one")
#: A record of the key that lives, or a delete, outranks the row; it arrived after the row, or before.
NEWER_RECORD = RowVerdict(Disposition.SUPERSEDED, "a newer record counts")
NEWER_RECORD_WAS_HERE = RowVerdict(Disposition.SUPERSEDED, "a newer record counts, which was here before it")
#: The source orders both alike.
LATER_DELIVERY = RowVerdict(Disposition.SUPERSEDED, "tie, decided by delivery: the later one counts")
#: The content of the record that counts came before the row, and once more after it.
TAKEN_BACK = RowVerdict(Disposition.SUPERSEDED, "an older record was delivered again, and counts again")
DELETED = RowVerdict(Disposition.SUPERSEDED, "a delete counts")
DELETE_WAS_HERE = RowVerdict(Disposition.SUPERSEDED, "a delete counts, which was here before it")
#: The verdicts of a contest for a key.
CONTEST = (
    *(LIVES, ENDED_ITS_KEY, SAYS_THE_SAME, SAME_EVENT, RETIRED),
    *(NEWER_RECORD, NEWER_RECORD_WAS_HERE, LATER_DELIVERY, TAKEN_BACK, DELETED, DELETE_WAS_HERE),
)


def barred(status: str | None, detail: str | None, decided: str | None) -> RowVerdict | None:
    """The verdict on a row that may not contend for its key; None for a row that may.

    :param status: the contract's judgement (:class:`AdmissionStatus`), and ``detail`` its reason.
    :param decided: a steward's newest verdict (:class:`StewardVerdict`), if there is one; it outranks the contract.
    """
    if decided is not None:
        disposition = StewardVerdict(decided).barred_as
        return None if disposition is None else RowVerdict(disposition, "a steward's decision")
    disposition = AdmissionStatus(status).barred_as
    return None if disposition is None else RowVerdict(disposition, detail or "the contract's rule")
