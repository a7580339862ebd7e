"""The checks of silver, per event day: its columns and keys, the contract's rules, and its rows against Bronze.

The expected rows are computed independently of the write path: from the disposition tables, not from a MERGE or a rebuild.
A difference that pending input explains is reported and is not a failure.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations, pieces
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dimensions import checks as dimension_checks
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.lake import table_io, table_parts
from lakehouse.ledger import applied_inputs, ingestions, key_log, redactions
from lakehouse.ledger.row_states import Disposition
from lakehouse.quality import check_rules, row_sums
from lakehouse.quality.check_rules import CheckResult
from lakehouse.quality.row_sums import RowSums
from lakehouse.silver import correction_checks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import FilledCounts

EQUALS_BRONZE = "equals_bronze"
_ALWAYS = {
    **check_rules.CONTRACT_SCHEMA,
    "unique_key": "No key of the day has a second row, on this day or another.",
    "required_fields": "Every field that the contract requires has a value.",
    EQUALS_BRONZE: "Silver holds exactly the rows of Bronze that are applied to the day, by their dispositions.",
}
#: The columns that identify a row in Bronze and in silver.
_ROW = pa.schema(
    [
        *(("event_date", pa.date32()), ("record_key", pa.string()), ("arrival_date", pa.date32())),
        *(("ingestion_id", pa.string()), ("line_number", pa.int64())),
    ]
)

_IDENTITY = [name for name in _ROW.names if name != "event_date"]
#: The advice about a key with two rows; under a policy that uses each day as it was sent, a key may have moved.
_TWICE = "a key has two rows: materialize this day again, and the others on which the key has been"
_MOVED = (
    "a key counts on two days, because each day is taken as it was sent: have the day that the record has left sent again, "
    "or, if every day has all keys, add the day to primary_key"
)
#: The days of more keys are looked up by day instead of by key.
_MANY_KEYS = 2**18


def silver_check_names(contract: SourceContract) -> dict[str, str]:
    """The checks of an event day, each with its description."""
    nulls = {"nulls": "No field is NULL in more of the day's rows than the contract tolerates; redacted fields do not count."}
    of_kind = dimension_checks.NAMES if contract.is_dimension else {}
    naming = {correction_checks.ONE_CORRECTION: correction_checks.COMPETING}
    whole = {correction_checks.WHOLE_CORRECTION: correction_checks.EMPTIED} if contract.changes.corrected_field else {}
    named = (naming if contract.changes.corrects_event_id else {}) | whole
    return _ALWAYS | (nulls if contract.quality.nulls else {}) | named | of_kind


def check_silver(
    lake: Lake, contract: SourceContract, days: Collection[date], changed: pa.Array | None = None
) -> list[CheckResult]:
    """Every check on each event day.

    :param changed: the keys that may have changed since the last check of the days: only these are looked up on other days. By
        default all keys of the days are.
    """
    lake = lake.cached()
    table = locations.silver(lake, contract.dataset).open()
    outcomes = check_rules.check_schema(table, arrow_schema(silver_columns(contract)), days)
    outcomes += _check_rows(lake, contract, table, days, changed)
    outcomes += check_source_rules(lake, contract, days)
    outcomes += correction_checks.check_competing(lake, contract, table, days)
    outcomes += correction_checks.check_emptied(lake, contract, table, days)
    outcomes += check_equals_bronze(lake, contract, days)
    outcomes += dimension_checks.check_intervals(lake, contract, days)
    return check_rules.with_severities(contract, outcomes)


def check_source_rules(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """The contract's rules on the rows of each event day together. A redacted field does not count as NULL."""
    names = list(contract.quality.nulls)
    if not names:
        return []
    table, columns = locations.silver(lake, contract.dataset), ["event_date", "record_key", *names]
    hidden = redactions.keys_by_field(lake, contract.dataset)
    counts: dict[str, FilledCounts] = {name: (Counter(), Counter()) for name in names}
    for rows in table.pieces(columns, {"event_date": days}):
        for name, (total, filled) in counts.items():
            keys = pa.array(sorted(hidden.get(name, ())), pa.string())
            shown = rows.filter(pc.invert(pc.is_in(rows["record_key"], keys)))
            total.update(check_rules.row_counts(shown, "event_date"))
            filled.update(check_rules.row_counts(shown, "event_date", of=name))
    return check_rules.check_nulls(contract, days, counts, "rows")


def check_equals_bronze(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """Compare silver's rows of each event day with those that the dispositions apply to it.

    Both are compared as sums first. On days with different sums, rows are compared, and the keys in question are judged again:
    the disposition tables lag where a process was stopped between a decision and its entry.
    """
    source, silver = contract.dataset, locations.silver(lake, contract.dataset)
    waiting = applied_inputs.pending(lake, source)
    sums, due = (RowSums(["event_date"], _IDENTITY) for _ in range(2))
    sums.add(silver.pieces(_ROW.names, {"event_date": days}))
    due.add(_applied_rows(lake, contract, days))
    held = sums.counts()
    different = sorted(day for (day,) in sums.differing(due))
    try:
        differing = _differing_rows(lake, contract, different)
    except key_log.IncompleteKeyLogError as problem:
        return [CheckResult(EQUALS_BRONZE, day, passed=False, explanation=f"{problem}") for day in sorted(days)]
    any_unrecorded = len(differing) > 0 and _has_unrecorded_ingestion(lake, source)
    waiting |= applied_inputs.pending(lake, source) if len(differing) else {}
    missing = _summed(differing, pc.max_element_wise(differing["_missing"], 0))
    too_many = _summed(differing, pc.negate(pc.min_element_wise(differing["_missing"], 0)))
    outcomes = []
    for day in sorted(days):
        waits = day in waiting or any_unrecorded
        numbers = {
            "rows_in_silver": held[day],
            "rows_applied": held[day] + missing[day] - too_many[day],
            "difference": too_many[day] - missing[day],
            "rows_missing": missing[day],
            "rows_too_many": too_many[day],
            "waits_for_silver": int(waits),
        }
        wrong = missing[day] + too_many[day]
        advice = "newer input is pending" if waits else f"materialize silver/{source} for {day}"
        why = f"silver lacks {missing[day]} applied rows of the day and holds {too_many[day]} that are not applied: {advice}"
        outcomes.append(CheckResult(EQUALS_BRONZE, day, not wrong or waits, numbers, why if wrong else None))
    return outcomes


def _check_rows(
    lake: Lake, contract: SourceContract, table: DeltaTable | None, days: Collection[date], changed: pa.Array | None
) -> list[CheckResult]:
    """Whether keys are unique and required fields are filled."""
    required = [field.name for field in contract.typed_fields if field.required]
    hidden = redactions.keys_by_field(lake, contract.dataset)
    missing, held, where = Counter[date](), Counter[date](), {"event_date": list(days)}
    if table is not None:
        listed = table_io.files_with(table, where)
        counts = table_parts.rows(table, listed)  # these files have other days, too
        held.update({day: counts.get(day, 0) for day in days})
        unsure = [name for name in required if not table_io.is_filled(listed, name)]
        rows = table_io.pieces_of_version(table, ["event_date", "record_key", *unsure], where) if unsure else ()
        for of_piece in pieces.mapped(partial(rows_missing, required=unsure, hidden=hidden), rows):
            missing += of_piece
    twice = Counter[date]() if table is None else _keys_twice(lake, contract, table, days, changed)
    outcomes, per_day = [], policy_of(contract).contends_per_day
    for day in sorted(days):
        numbers = {"rows": held[day], "keys_twice": twice[day]}
        advice = (_MOVED if per_day else _TWICE) if twice[day] else None
        outcomes.append(CheckResult("unique_key", day, not twice[day], numbers, advice))
        numbers = {"rows": held[day], "missing": missing[day]}
        outcomes.append(CheckResult("required_fields", day, not missing[day], numbers))
    return outcomes


def rows_missing(rows: pa.Table, required: Collection[str], hidden: Mapping[str, Collection[str]]) -> Counter[date]:
    """The number of required fields without a value, per event day.

    :param hidden: by field, the keys for which it is redacted: there it may be empty.
    """
    missing: Counter[date] = Counter()
    for name in required:
        empty = rows.filter(pc.is_null(rows[name]))
        keys = pa.array(sorted(hidden.get(name, ())), pa.string())
        missing += check_rules.row_counts(empty.filter(pc.invert(pc.is_in(empty["record_key"], keys))), "event_date")
    return missing


def keys_twice(rows: pa.Table, everywhere: pa.Table) -> Counter[date]:
    """The number of rows of each event day whose key another row has as well.

    :param everywhere: the rows among which a key may occur once.
    """
    counted = everywhere.group_by("record_key").aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))
    if not len(repeated):
        return Counter()
    places = rows.select(["event_date", "record_key"])
    return check_rules.row_counts(places.join(repeated, "record_key", join_type="left semi"), "event_date")


def _keys_twice(
    lake: Lake, contract: SourceContract, table: DeltaTable, days: Collection[date], changed: pa.Array | None
) -> Counter[date]:
    """The number of rows of each day whose key must not have a second row, and has one: :func:`keys_twice`."""
    policy, source = policy_of(contract), contract.dataset
    if not policy.keys_contend:
        return Counter()
    are_many = table_io.rows_at_most(table, {"event_date": list(days)}) > _MANY_KEYS
    if are_many and not table_parts.rows(table).keys() - set(days):  # as after a first load
        return _twice_within(table, days, days)
    if changed is None:
        return _twice_within(table, days, set(days) | table_parts.that_may_be_held(table, _places(lake, source, table, days)))
    elsewhere = key_log.days_of(lake, source, changed) if len(changed) else set[date]()
    reach = set(days) | table_parts.that_may_be_held(table, elsewhere)
    rows = table_io.read_version(table, ["event_date", "record_key"], {"event_date": reach, "record_key": changed})
    across = keys_twice(table_io.meeting(rows, {"event_date": days}), rows)
    return across | _twice_within(table, days, days)


def _twice_within(table: DeltaTable, days: Collection[date], reach: Collection[date]) -> Counter[date]:
    """The result of :func:`_keys_twice`, with the keys compared on all of ``reach``.

    Keys are compared as hashes first, so that only keys with equal hashes are read as texts.
    """
    names = ["event_date", "record_key"]

    def rows_in_reach() -> Iterator[pa.Table]:
        return table_io.pieces_of_version(table, names, {"event_date": sorted(reach)})

    def hashes(piece: pa.Table) -> row_sums.Hashes:
        return row_sums.hashes(piece["record_key"])

    numbers = list(pieces.mapped(hashes, rows_in_reach()))
    again = row_sums.repeated(np.concatenate(numbers))
    if not len(again):
        return Counter()
    rows = pa.concat_tables(piece.filter(pa.array(np.isin(hashes(piece), again))) for piece in rows_in_reach())
    return keys_twice(table_io.meeting(rows, {"event_date": days}), rows)


def _places(lake: Lake, source: str, table: DeltaTable, days: Collection[date]) -> set[date]:
    """The days on which silver may hold a key that it holds on ``days``: where the key log records one of the keys."""
    where = {"event_date": list(days)}
    if table_io.rows_at_most(table, where) > _MANY_KEYS:
        claims = key_log.about_keys_with(lake, source, ["event_date"], where)
        return {day for piece in claims for day in pc.unique(piece["event_date"]).to_pylist()}
    keys = pc.unique(table_io.read_version(table, ["record_key"], where)["record_key"])
    return key_log.days_of(lake, source, keys) if len(keys) else set()


def _summed(rows: pa.Table, counts: pa.ChunkedArray) -> Counter[date]:
    """The sums of ``counts``, per event day."""
    by_day = pa.table({"day": rows["event_date"], "count": counts}).group_by("day").aggregate([("count", "sum")])
    return Counter(dict(zip(by_day["day"].to_pylist(), by_day["count_sum"].to_pylist())))


def _differing_rows(lake: Lake, contract: SourceContract, days: Collection[date]) -> pa.Table:
    """The :func:`_differences` between the rows due on the days and those in silver, with differing keys judged again."""
    empty = _ROW.empty_table()
    if not days:
        return _differences(empty, empty)
    stored = locations.silver(lake, contract.dataset)
    rows = stored.read(_ROW.names, {"event_date": days})
    in_silver = empty if rows is None else rows.cast(_ROW)
    differing = _differences(pa.concat_tables([empty, *_applied_rows(lake, contract, days)]), in_silver)
    if not len(differing):
        return differing
    keys = pc.unique(differing["record_key"])
    in_question = in_silver.filter(pc.is_in(in_silver["record_key"], keys))
    return _differences(_judged_rows(lake, contract, differing, days), in_question)


def _differences(due: pa.Table, in_silver: pa.Table) -> pa.Table:
    """The rows of :data:`_ROW` whose counts differ in two tables; ``_missing`` is the number due minus the number in silver."""
    both = pa.concat_tables([due, in_silver])
    signed = both.append_column("_missing", pa.array([1] * len(due) + [-1] * len(in_silver), pa.int64()))
    summed = signed.group_by(_ROW.names).aggregate([("_missing", "sum")]).rename_columns([*_ROW.names, "_missing"])
    return summed.filter(pc.not_equal(summed["_missing"], 0))


def _applied_rows(lake: Lake, contract: SourceContract, days: Collection[date]) -> Iterator[pa.Table]:
    """The rows that are applied to the days by the disposition tables, in pieces."""
    table, columns = locations.dispositions(lake, contract.dataset), [*_ROW.names, "disposition", "change_op"]
    # Text is compared here: what delta-rs has merged is read a second time for a condition on text (see ``lake.table_io``).
    for rows in table.pieces(columns, {"event_date": days}):
        applied = pc.equal(rows["disposition"], Disposition.APPLIED.value)
        yield rows.filter(pc.and_(applied, pc.not_equal(rows["change_op"], "delete"))).select(_ROW.names).cast(_ROW)


def _judged_rows(lake: Lake, contract: SourceContract, differing: pa.Table, days: Collection[date]) -> pa.Table:
    """The rows that are due on the days by the key log and the decisions, for the keys of ``differing`` rows.

    :raises IncompleteKeyLogError: when Bronze holds one of them and the key log does not.
    """
    keys = pc.unique(differing["record_key"])
    arrivals = key_log.arrival_days_of(lake, contract.dataset, keys) | set(differing["arrival_date"].to_pylist())
    account = dispositions_account.table(lake, contract, arrival_days=arrivals, keys=keys)
    wanted = pa.array(sorted(days), pa.date32())
    living = account.filter(pc.and_(account["lives"], pc.is_in(account["event_date"], value_set=wanted)))
    return living.select(_ROW.names).cast(_ROW)


def _has_unrecorded_ingestion(lake: Lake, source: str) -> bool:
    """Whether a file is being ingested or its run was stopped: silver does not use it until the ledger records it."""
    claims = locations.key_log(lake, source).read(["ingestion_id"], None)
    logged = set() if claims is None else set(pc.unique(claims["ingestion_id"]).to_pylist())
    return bool(logged - ingestions.ingested(ingestions.all_of(lake, source)).keys())
