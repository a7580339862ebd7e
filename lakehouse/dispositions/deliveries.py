"""The order of deliveries, which decides between records that their source orders alike, and shows which content was delivered
again.

Bronze keeps a content once, under its first delivery; the ledger records each delivery of it. A claim counts as of the newest
delivery of its content, by arrival day, then manifest and file. So a file that is sent again on a later day revokes what came in
between, and among equal order values the later delivery counts. Where arrival times are those of deliveries, a row counts as
arriving by the end of its arrival day: an old day that is ingested later overwrites no newer correction. The order depends on the
ledger's entries and not on when they were recorded, so that any order of ingestion gives the same result.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.calendar.days import arrived_at, end_of_day
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import DeliveredFile
    from lakehouse.ledger.ingestions import Ingestion

_MOMENT = pa.timestamp("us", "UTC")
#: The place of each ingestion among all, by the newest delivery of its content. If the contract takes arrival times from
#: deliveries, ``arrived_by`` is the end of the arrival day of the first one, and ``redelivered_at`` when the newest one arrived,
#: if it is another.
SCHEMA = pa.schema(
    [("ingestion_id", pa.string()), ("delivery", pa.int64()), ("redelivered_at", _MOMENT), ("arrived_by", _MOMENT)]
)
#: The place of an ingestion that the ledger does not know.
UNKNOWN = -1
#: A file that is not recorded yet was written after all files of its name that are.
_LAST = datetime.max.replace(tzinfo=timezone.utc)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)


def known(
    lake: Lake, contract: SourceContract, ids: Collection[str] | None = None, until: datetime | None = None
) -> list[Ingestion]:
    """The deliveries that count: those of new content, and those of known content that count again.

    :param ids: only these inputs (R10).
    :param until: only deliveries of known content that had arrived by this time; the rows of the others have arrival times of
        their own.
    """
    zone = ZoneInfo(contract.clocks.timezone)
    return [
        entry
        for input_id, entry in ingestions.inputs(ingestions.all_of(lake, contract.dataset)).items()
        if (ids is None or input_id in ids)
        and (until is None or entry.status == "ingested" or arrived_at(entry.arrival_date, entry.recorded_at, zone) <= until)
    ]


def again_at(contract: SourceContract, entry: Ingestion) -> datetime | None:
    """When known content arrived again, where arrival times are those of deliveries; None for new content."""
    return None if entry.status == "ingested" else _again_at(contract, entry.arrival_date, entry.recorded_at)


def again_at_now(contract: SourceContract, file: DeliveredFile) -> datetime | None:
    """The result of :func:`again_at` for a file of known content that is not recorded yet."""
    return _again_at(contract, file.arrival_date, file.received_at)


def _again_at(contract: SourceContract, day: date, moment: datetime) -> datetime | None:
    return None if contract.clocks.arrival else arrived_at(day, moment, ZoneInfo(contract.clocks.timezone))


def _arrived_by(contract: SourceContract, day: date) -> datetime | None:
    """The end of an arrival day, in the source's zone or in UTC, because the name of a folder has no zone; None where rows have
    arrival times of their own, as messages do.
    """
    if contract.clocks.arrival or contract.source.kafka:
        return None
    return max(end_of_day(day, ZoneInfo(zone)).astimezone(timezone.utc) for zone in (contract.clocks.timezone, "UTC"))


def of(
    lake: Lake,
    contract: SourceContract,
    ids: Collection[str] | None = None,
    until: datetime | None = None,
    unrecorded: Iterable[DeliveredFile] = (),
    staged: Lake | None = None,
) -> pa.Table:
    """The order of a source's deliveries, :data:`SCHEMA`; see ``claims.choices`` for the arguments."""
    entries = known(lake, contract, ids, until)
    if staged is not None:
        entries += known(staged, contract)
    newest: dict[str, tuple[Any, ...]] = {}
    again: dict[str, datetime] = {}
    arrival_days: dict[str, date] = {}
    first = {entry.ingestion_id for entry in entries if entry.status == "ingested"}
    recorded = {(entry.ingestion_id, entry.source_file, entry.arrival_date) for entry in entries}

    def delivered(ingestion_id: str, place: tuple[Any, ...], at: datetime | None) -> None:
        newest[ingestion_id] = max(newest.get(ingestion_id, place), place)
        if at is not None:
            again[ingestion_id] = max(again.get(ingestion_id, at), at)

    for entry in entries:
        if entry.status == "ingested":
            arrival_days[entry.ingestion_id] = entry.arrival_date
        # Of messages the id grows with their offsets (see ``streams.reading_plan``), and the name does not.
        name = entry.ingestion_id if contract.source.kafka else entry.source_file
        place = (entry.arrival_date, entry.delivery or "", name, entry.modified or _FIRST, entry.ingestion_id)
        delivered(entry.ingestion_id, place, again_at(contract, entry))
    for file in unrecorded:
        if (file.ingestion_id, file.path, file.arrival_date) in recorded:
            continue  # its claims are derived again: that is no second delivery
        at = again_at_now(contract, file) if file.ingestion_id in first else None
        name = file.ingestion_id if contract.source.kafka else file.path
        delivered(file.ingestion_id, (file.arrival_date, file.delivery, name, _LAST, file.ingestion_id), at)
        first.add(file.ingestion_id)
        arrival_days.setdefault(file.ingestion_id, file.arrival_date)
    order = sorted(newest, key=newest.__getitem__)
    ends = {day: _arrived_by(contract, day) for day in set(arrival_days.values())}
    arrived_by = [ends[arrival_days[name]] if name in arrival_days else None for name in order]
    return pa.table([order, range(len(order)), [again.get(name) for name in order], arrived_by], schema=SCHEMA)


def ordered(claims: pa.Table, deliveries: pa.Table) -> pa.Table:
    """Claims with the order of their deliveries: ``ordered_at``, the time of their last arrival, bounded by its arrival day, and
    ``delivery``.

    With Spark, ``silver.admitted_claims.ordered`` does the same.

    :param claims: with ``ingestion_id`` and ``arrival_ts``; ``deliveries`` is from :func:`of`.
    """
    place = pc.index_in(claims["ingestion_id"], value_set=deliveries["ingestion_id"].combine_chunks())
    # Arrow compares no times with zones.
    arrived = claims["arrival_ts"].cast(_MOMENT).cast(pa.int64())
    again, by = (deliveries[name].take(place).cast(pa.int64()) for name in ("redelivered_at", "arrived_by"))
    at = pc.max_element_wise(pc.min_element_wise(arrived, by), again).cast(_MOMENT)
    delivery = pc.fill_null(deliveries["delivery"].take(place), UNKNOWN)
    return claims.append_column("ordered_at", at).append_column("delivery", delivery)
