"""Which claims count under each reprocess policy, from the key log and the stewards' decisions.

The same selection as a DataFrame is in ``admitted_claims``. How one claim wins its key is in ``silver`` and
``dispositions.verdicts``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import judgement_history
from lakehouse.dispositions.admission import Standing
from lakehouse.dispositions.reprocess_policy import Share, policy_of
from lakehouse.ledger import decisions, key_log

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    import pyarrow as pa

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings


def is_admitted(row: RowId, standing: str | None, decided: dict[RowId, Decision]) -> bool:
    """Whether a row may contend for its key: by the decision that holds, else by the contract."""
    return decided[row].admits if row in decided else standing == Standing.ADMITTED.value


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
    """Per event day the arrival that it is made of, under a policy that chooses arrivals; empty under the others.

    :param ids: as known by these ingestions, decisions and operations only (R10).
    :param until: of what had arrived by then only.
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
    stood = {(row["ingestion_id"], row["line_number"]): row["standing"] for row in then}
    decided = decisions.newest(settings, source, ids)
    shares: dict[tuple[date, str], list[tuple[Any, ...]]] = defaultdict(list)
    barred_by_hand: Counter[tuple[date, str]] = Counter()
    accepted = set()
    for row in [] if log is None else log.to_pylist():
        if row["event_date"] is None or (until is not None and row["arrival_ts"] > until):
            continue
        row_id, place = (row["ingestion_id"], row["line_number"]), (row["event_date"], row["ingestion_id"])
        decision = decided.get(row_id)
        if is_admitted(row_id, stood.get(row_id, row["standing"]), decided):
            shares[place].append(tuple(row[name] for name in ORDER))
        elif decision is not None:
            barred_by_hand[place] += 1  # the file did hold it: rejecting rows of a file must not bring an older one back
        if decision is not None and decision.admits and decision.about_file:
            accepted.add(place)
    by_day: dict[date, list[Share]] = defaultdict(list)
    for place, orders in shares.items():
        day, ingestion_id = place
        by_day[day].append(Share(ingestion_id, len(orders) + barred_by_hand[place], max(orders), place in accepted))
    return policy.choose(by_day, days)
