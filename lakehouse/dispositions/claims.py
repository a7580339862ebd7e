"""The claims that count under each reprocess policy, from the key log and the stewards' decisions.

The same selection as a DataFrame is in ``silver.admitted_claims``. How one claim wins its key is in ``winners``, and for
DataFrames in ``silver.merge``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.dispositions import deliveries, judgement_history
from lakehouse.dispositions.reprocess_policy import Share, policy_of
from lakehouse.dispositions.winners import groups, numpy_of, positions, sortable
from lakehouse.lake import table_io
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.ledger.ids import delivery_name
from lakehouse.ledger.row_states import AdmissionStatus, QuarantineReason, StewardVerdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.dispositions.winners import Numbers
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import DeliveredFile


class Membership(NamedTuple):
    """The membership of an ingestion in a delivery; one file may come in several deliveries.

    ``again_at`` is when it came again, where arrival times are those of deliveries; None for the first time.
    """

    delivery: str
    arrival_date: date
    again_at: datetime | None = None


#: By ingestion; an ingestion that is not listed belongs to the delivery of its arrival day.
Memberships = dict[str, set[Membership]]


#: The columns by which deliveries are compared.
_ORDER = ["source_sequence", "source_order", "arrival_ts"]
_CHOSEN_BY = ["event_date", "arrival_date", *_ORDER, "ingestion_id", "line_number"]
#: The verdicts of stewards that admit a row.
_ADMITTING = pa.array([verdict.value for verdict in StewardVerdict if verdict.barred_as is None])
#: In words, why a row that fails no rule is not admitted.
_CAUSES = {reason.value: reason.words for reason in (QuarantineReason.BEYOND_WATERMARK, QuarantineReason.MARKER)}


def admitted_by_contract(claims: pa.Table) -> pa.Table:
    """The claims of the rows that their contract admits."""
    return claims.filter(pc.equal(claims["standing"], AdmissionStatus.ADMITTED.value))


def not_admitted(lake: Lake, source: str, where: table_io.Where) -> Counter[tuple[AdmissionStatus, str]]:
    """The rows that their contract does not admit, by status and cause, from the claims that meet ``where``.

    The cause is the rules that a row fails, that it came beyond the cutoff, or that it is a marker record. Rows about which a
    steward has decided are left out.
    """
    counts = Counter[tuple[AdmissionStatus, str]]()
    columns = ["standing", "reason", "failed_rules", "kind", "ingestion_id", "line_number"]
    decided = decisions.in_force(lake, source)
    for claims in locations.key_log(lake, source).pieces(columns, where):
        is_row = pc.not_equal(claims["kind"], "retire")
        barred = claims.filter(pc.and_(is_row, pc.not_equal(claims["standing"], AdmissionStatus.ADMITTED.value)))
        barred = barred.filter(pc.is_null(positions(barred, decided)))
        rules = pc.fill_null(pc.binary_join(barred["failed_rules"], ", "), "")
        cases = pa.table({"standing": barred["standing"], "reason": barred["reason"], "rules": rules})
        for row in cases.group_by(cases.column_names).aggregate([([], "count_all")]).to_pylist():
            cause = _CAUSES.get(row["reason"]) or f"rule {row['rules']}"
            counts[AdmissionStatus(row["standing"]), cause] += row["count_all"]
    return counts


def rows_by_event_day(claims: pa.Table) -> Counter[date | None]:
    """The number of rows that make the claims, per event day; None counts the rows without one."""
    days = pc.value_counts(claims.filter(pc.not_equal(claims["kind"], "retire"))["event_date"])
    return Counter(dict(zip(days.field("values").to_pylist(), days.field("counts").to_pylist())))


def touched_days(
    lake: Lake, contract: SourceContract, ids: Sequence[str], arrivals: Collection[date]
) -> dict[str, dict[date, int]]:
    """For each of the ingestions ``ids``, the event days whose content in silver it may change, with the number of its rows on
    each.

    :param ids: the ingestions in their order: a key of an ingestion is looked up in those before it, and in all earlier ones.
        Their claims are in the key log; only claims that the contract admits count.
    :param arrivals: the arrival days of the ingestions.
    """
    policy, source = policy_of(contract), contract.dataset
    rows: dict[str, Counter[date]] = defaultdict(Counter)
    days_of_keys: dict[str, set[date]] = defaultdict(set)
    columns = ["record_key", "event_date", "ingestion_id", "kind", "standing"]
    where = {"ingestion_id": ids, "arrival_date": arrivals}
    for piece in key_log.about_keys_with(lake, source, columns, where):
        admitted = admitted_by_contract(piece.filter(pc.is_in(piece["ingestion_id"], pa.array(ids, pa.string()))))
        for ingestion_id, counts in rows_of_ingestions(admitted).items():
            rows[ingestion_id].update(counts)
        for ingestion_id, days in _days_of_keys(piece, admitted, ids).items():
            days_of_keys[ingestion_id] |= days
    all_days = cache(lambda: key_log.days(lake, source))
    touched = {}
    for ingestion_id in ids:
        days = policy.affected_days(set(rows[ingestion_id]), partial(days_of_keys.__getitem__, ingestion_id), all_days)
        touched[ingestion_id] = {day: rows[ingestion_id][day] for day in sorted(days)}
    return touched


def rows_of_ingestions(claims: pa.Table) -> dict[str, dict[date, int]]:
    """The number of rows that make the claims, per ingestion and event day; rows without an event day are left out."""
    rows = claims.filter(pc.and_(pc.not_equal(claims["kind"], "retire"), pc.is_valid(claims["event_date"])))
    counts: dict[str, dict[date, int]] = defaultdict(dict)
    for row in rows.group_by(["ingestion_id", "event_date"]).aggregate([([], "count_all")]).to_pylist():
        counts[row["ingestion_id"]][row["event_date"]] = row["count_all"]
    return counts


def _days_of_keys(claims: pa.Table, admitted: pa.Table, ids: Sequence[str]) -> dict[str, set[date]]:
    """Every event day on which a key of each ingestion has been, in it and before it.

    :param claims: all claims about the keys of the ingestions; ``admitted`` are the claims of the ingestions that count.
    """
    order = pa.array(ids, pa.string())
    days: dict[str, set[date]] = defaultdict(set)
    for row in admitted.select(["ingestion_id", "event_date"]).group_by(["ingestion_id", "event_date"]).aggregate([]).to_pylist():
        days[row["ingestion_id"]] |= {row["event_date"]} - {None}
    numbers = groups(claims["record_key"])  # most keys of a first load have one claim, and no other day
    claims = claims.filter(pa.array(np.bincount(numbers)[numbers] > 1))
    admitted = admitted.filter(pc.is_in(admitted["record_key"], value_set=pc.unique(claims["record_key"])))
    places = claims.filter(pc.is_valid(claims["event_date"])).select(["record_key", "event_date", "ingestion_id"])
    places = places.append_column("place", pc.fill_null(pc.index_in(places["ingestion_id"], value_set=order), -1))
    wanted = admitted.select(["record_key"]).append_column("asks", pc.index_in(admitted["ingestion_id"], value_set=order))
    places, wanted = (
        table.group_by(names).aggregate([])
        for table, names in ((places, ["record_key", "event_date", "place"]), (wanted, ["record_key", "asks"]))
    )
    joined = wanted.join(places, "record_key", join_type="inner")
    joined = joined.filter(pc.less_equal(joined["place"], joined["asks"])).group_by(["asks", "event_date"]).aggregate([])
    for row in joined.to_pylist():
        days[ids[row["asks"]]].add(row["event_date"])
    return days


def affected_event_days(lake: Lake, contract: SourceContract, row_days: set[date], keys: pa.Array) -> set[date]:
    """The event days whose content in silver rows of ``row_days`` and ``keys`` may change, under the source's policy."""
    return policy_of(contract).affected_days(
        row_days,
        days_of_keys=lambda: key_log.days_of(lake, contract.dataset, keys),
        all_days=lambda: key_log.days(lake, contract.dataset),
    )


def choices(
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    ids: Collection[str] | None = None,
    until: datetime | None = None,
    unrecorded: Iterable[DeliveredFile] = (),
    staged: Lake | None = None,
) -> dict[date, Choice]:
    """The ingestions that each event day is computed from, under a policy that chooses deliveries; empty under other policies.

    :param ids: use only these ingestions, decisions and rebuild requests (R10).
    :param until: use only rows that had arrived by this time.
    :param unrecorded: files that the ledger does not have yet.
    :param staged: the lake of a stage, whose files and claims count as well.
    """
    source = contract.dataset
    policy = policy_of(contract)
    if not policy.chooses_deliveries:
        return {}
    where: dict[str, Collection[Any]] = {} if policy.chooses_for_table else {"event_date": days}
    if ids is not None:
        where["ingestion_id"] = ids
    columns = list(dict.fromkeys([*_CHOSEN_BY, *judgement_history.CLAIM, "standing"]))
    log = locations.key_log(lake, source).read(columns, where)
    log = None if log is None else key_log.typed(log)
    if staged is not None:
        log = _with_staged(log, lake, staged, source, columns, where)
    if log is None:
        return policy.choose({}, days)
    if ids is not None:
        then = judgement_history.as_of(lake, source, ids)
        log = judgement_history.judged_as_then(log, table_io.meeting(then, where).select(columns), then)
    if until is not None:
        log = log.filter(pc.less_equal(log["arrival_ts"], pa.scalar(until, log["arrival_ts"].type)))
    if not contract.by_sequence:  # an insert without a time of its own comes before others; a delivery of such inserts does not
        none = pa.repeat(pa.scalar(0, pa.int64()), len(log))
        log = log.set_column(log.column_names.index("source_sequence"), "source_sequence", none)
    delivered = memberships(lake, contract, ids, until, unrecorded)
    if staged is not None:
        for ingestion_id, of_stage in memberships(staged, contract).items():
            delivered.setdefault(ingestion_id, set()).update(of_stage)
    return policy.choose(shares(with_decisions(log, decisions.in_force(lake, source, ids)), delivered), days)


def memberships(
    lake: Lake,
    contract: SourceContract,
    ids: Collection[str] | None = None,
    until: datetime | None = None,
    unrecorded: Iterable[DeliveredFile] = (),
) -> Memberships:
    """The deliveries to which the files of a source belong; see :func:`choices` for the arguments."""
    delivered = defaultdict[str, set[Membership]](set)
    for entry in deliveries.known(lake, contract, ids, until):
        again_at = deliveries.again_at(contract, entry)
        delivered[entry.ingestion_id].add(Membership(entry.delivered_with, entry.arrival_date, again_at))
    for file in unrecorded:
        again_at = deliveries.again_at_now(contract, file) if file.ingestion_id in delivered else None
        delivered[file.ingestion_id].add(Membership(file.delivered_with, file.arrival_date, again_at))
    return delivered


def judged_as_then(claims: pa.Table, then: pa.Table) -> pa.Table:
    """Claims with the status of earlier judgements (``judgement_history.as_of``) in place of their own."""
    place = positions(claims, then)
    standing = pc.if_else(pc.is_valid(place), then["standing"].take(place), claims["standing"])
    return claims.set_column(claims.column_names.index("standing"), "standing", standing)


def with_decisions(claims: pa.Table, decided: pa.Table) -> pa.Table:
    """Claims with the decisions in force about their rows: ``steward`` (the verdict, NULL without one) and ``about_file``.

    :param decided: from :func:`lakehouse.ledger.decisions.in_force`.
    """
    place = positions(claims, decided)
    claims = claims.append_column("steward", decided["verdict"].take(place))
    return claims.append_column("about_file", decided["about_file"].take(place))


def are_admitted(claims: pa.Table) -> pa.ChunkedArray:
    """Whether the rows of claims may contend: by the newest decision, else by the contract; never NULL.

    :param claims: with ``standing`` and ``steward``, see :func:`with_decisions`.
    """
    by_steward = pc.is_in(claims["steward"], value_set=_ADMITTING)
    by_contract = pc.and_(pc.is_null(claims["steward"]), pc.equal(claims["standing"], AdmissionStatus.ADMITTED.value))
    return pc.or_(by_steward, pc.fill_null(by_contract, False))


def shares(claims: pa.Table, delivered: Mapping[str, Collection[Membership]]) -> dict[date, list[Share]]:
    """The shares of the deliveries in each event day, from all claims about these days.

    A delivery is newer by the source's own sequence, then by its arrival day, then by the arrival of its rows.

    :param claims: ``event_date``, ``arrival_date``, the total order, ``standing``, ``steward``, ``about_file``.
    :param delivered: see :data:`Memberships`.
    """
    by_delivery: dict[tuple[date, str], list[tuple[Membership, _Part]]] = defaultdict(list)
    for part in _parts(claims.filter(pc.is_valid(claims["event_date"]))):
        of_arrival_day = Membership(delivery_name(None, part.arrival_date), part.arrival_date)
        for membership in delivered.get(part.ingestion_id) or [of_arrival_day]:
            by_delivery[part.event_date, membership.delivery].append((membership, part))
    by_day: dict[date, list[Share]] = defaultdict(list)
    for (day, delivery), parts in by_delivery.items():
        newest = max((part.newest for _, part in parts if part.newest), default=None)
        if newest is not None:
            *own_order, arrived = newest
            arrived = max([arrived, *(each.again_at for each, _ in parts if each.again_at)])
            order = (*own_order, max(each.arrival_date for each, _ in parts), arrived, delivery)
            ids, rows = frozenset(part.ingestion_id for _, part in parts), sum(part.rows for _, part in parts)
            by_day[day].append(Share(delivery, ids, rows, order, any(part.accepted for _, part in parts)))
    return by_day


def _with_staged(
    log: pa.Table | None, lake: Lake, staged: Lake, source: str, columns: Sequence[str], where: table_io.Where
) -> pa.Table | None:
    """Claims together with those of a stage: of its files that Bronze does not have, or of its reading, which replace those of
    its rows.
    """
    days = {name: values for name, values in where.items() if name == "event_date"}
    reading = locations.readings(staged, source).read(["ingestion_id", "line_number"], None)
    if reading is None:
        days |= {"ingestion_id": ingestions.only_in(staged, lake, source)}
    added = locations.key_log(staged, source).read(columns, days)
    if log is None or added is None:
        return added if log is None else log
    others = log if reading is None else log.filter(pc.is_null(positions(log, reading)))
    return pa.concat_tables([others, added.cast(log.schema)])


class _Part(NamedTuple):
    """The rows of one event day in one ingestion; ``newest`` has the order values of the greatest admitted row, None
    without any.
    """

    event_date: date
    ingestion_id: str
    arrival_date: date
    rows: int
    accepted: bool
    newest: tuple[int, str, datetime] | None


def _parts(claims: pa.Table) -> list[_Part]:
    admitted = numpy_of(are_admitted(claims))
    admits = pc.is_in(claims["steward"], value_set=_ADMITTING)
    # Rows that a steward barred count as well: rejecting rows of a delivery must not bring an older one back.
    counted = admitted | numpy_of(pc.is_valid(claims["steward"]))
    place = groups(claims["event_date"], claims["ingestion_id"])
    firsts = np.unique(place, return_index=True)[1]
    rows = np.bincount(place[counted], minlength=len(firsts)).tolist()
    accepted = np.bincount(place[numpy_of(pc.and_(admits, pc.fill_null(claims["about_file"], False)))], minlength=len(firsts))
    newest = _newest_of(claims, place, np.flatnonzero(admitted))
    order = zip(*(claims[name].take(pa.array(newest)).to_pylist() for name in _ORDER))
    # No text comes before every text, as the empty one does.
    newest_at = {number: (row[0], row[1] or "", row[2]) for number, row in zip(place[newest].tolist(), order)}
    named = claims.select(["event_date", "ingestion_id", "arrival_date"]).take(pa.array(firsts)).to_pylist()
    return [
        _Part(**row, rows=rows[number], accepted=bool(accepted[number]), newest=newest_at.get(number))
        for number, row in enumerate(named)
    ]


def _newest_of(claims: pa.Table, place: Numbers, rows: Numbers) -> Numbers:
    """For each day of an ingestion with one of ``rows``, the position of the greatest of these rows."""
    order = rows[np.lexsort([sortable(claims[name])[rows] for name in reversed(_ORDER)] + [place[rows]])]
    return order[np.flatnonzero(np.diff(place[order], append=-1))]
