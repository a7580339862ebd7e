"""Which claims count under each reprocess policy, from the key log and the stewards' decisions.

The same selection as a DataFrame is in ``silver.admitted_claims``. How one claim wins its key is in ``verdicts``, and for
DataFrames in ``silver.merge``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import judgement_history
from lakehouse.dispositions.reprocess_policy import Share, policy_of
from lakehouse.ledger import decisions, key_log
from lakehouse.ledger.row_states import AdmissionStatus

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    import pyarrow as pa

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.ledger.decisions import Decision
    from lakehouse.settings import Settings


def is_admitted(decision: Decision | None, status: str | None) -> bool:
    """Whether a row may contend for its key: by the newest decision about it, else by the contract.

    :param status: the row's admission status in the key log.
    """
    return decision.admits if decision is not None else status == AdmissionStatus.ADMITTED.value


def admitted_by_contract(claims: pa.Table) -> pa.Table:
    """The claims of the rows that their contract admits."""
    return claims.filter(pc.equal(claims["standing"], AdmissionStatus.ADMITTED.value))


def rows_by_event_day(claims: pa.Table) -> Counter[date | None]:
    """How many rows make the claims, per event day; None counts the rows without one."""
    return Counter(claims.filter(pc.not_equal(claims["kind"], "retire"))["event_date"].to_pylist())


def affected_event_days(settings: Settings, contract: SourceContract, row_days: set[date], keys: pa.Array) -> set[date]:
    """The event days whose content in silver rows of these days and keys may change, under the source's policy."""
    return policy_of(contract).affected_days(
        row_days,
        days_of_keys=lambda: key_log.days_of(settings, contract.dataset, keys),
        all_days=lambda: key_log.days(settings, contract.dataset),
    )


def choices(
    settings: Settings,
    contract: SourceContract,
    days: Collection[date],
    ids: Collection[str] | None = None,
    until: datetime | None = None,
) -> dict[date, Choice]:
    """The arrival that each event day is computed from, under a policy that chooses arrivals; empty under the others.

    :param ids: use only these ingestions, decisions and rebuild requests (R10).
    :param until: use only rows that had arrived by then.
    """
    source, options = contract.dataset, settings.storage_options
    policy = policy_of(contract)
    if not policy.chooses_arrivals:
        return {}
    where: dict[str, Collection[Any]] = {} if policy.chooses_for_table else {"event_date": days}
    if ids is not None:
        where["ingestion_id"] = ids
    log = table_io.read(locations.key_log(settings, source), ["event_date", *ORDER, "standing"], where, options)
    then = judgement_history.as_of(settings, source, ids).to_pylist() if ids is not None else []
    status_then = {(row["ingestion_id"], row["line_number"]): row["standing"] for row in then}
    decided = decisions.newest(settings, source, ids)
    shares: dict[tuple[date, str], list[tuple[Any, ...]]] = defaultdict(list)
    rejected_by_steward: Counter[tuple[date, str]] = Counter()
    accepted = set()
    for row in [] if log is None else log.to_pylist():
        if row["event_date"] is None or (until is not None and row["arrival_ts"] > until):
            continue
        row_id, place = (row["ingestion_id"], row["line_number"]), (row["event_date"], row["ingestion_id"])
        decision = decided.get(row_id)
        if is_admitted(decision, status_then.get(row_id, row["standing"])):
            shares[place].append(tuple(row[name] for name in ORDER))
        elif decision is not None:
            rejected_by_steward[place] += 1  # the file contained it: rejecting its rows must not bring an older file back
        if decision is not None and decision.admits and decision.about_file:
            accepted.add(place)
    by_day: dict[date, list[Share]] = defaultdict(list)
    for place, orders in shares.items():
        day, ingestion_id = place
        by_day[day].append(Share(ingestion_id, len(orders) + rejected_by_steward[place], max(orders), place in accepted))
    return policy.choose(by_day, days)
