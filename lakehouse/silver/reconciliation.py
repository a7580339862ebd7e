"""Whether a layer still says what the one below says: silver what Bronze does, and published numbers what silver does. No JVM.

Counted by another way than the one on which the rows came: not by a MERGE or a rebuild, but from the books (``books``) and from
what was published. A difference that something on its way explains is told, and is no failure.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.verdicts import Disposition
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.publication import candidates, write_audit_publish
from lakehouse.gold.restatement.pending import count_silver_rows, find_pending, find_refused
from lakehouse.ledger import applied_inputs, ingestions, key_log
from lakehouse.quality.check_result import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.publication.write_audit_publish import Read
    from lakehouse.settings import Settings

EQUALS_BRONZE, EQUALS_SILVER = "equals_bronze", "published_equals_silver"
SILVER = {EQUALS_BRONZE: "Silver holds exactly the rows of Bronze that are applied to the day, by their dispositions."}
GOLD = {EQUALS_SILVER: "The rows behind the published number are those that silver holds now, or a restatement is on its way."}

#: What makes a row of Bronze and a row of silver the same one.
_ROW = pa.schema(
    [
        ("event_date", pa.date32()),
        ("record_key", pa.string()),
        ("arrival_date", pa.date32()),
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
    ]
)


def silver_with_bronze(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
    """Silver's rows of each event day, one by one, against those that the dispositions apply to it.

    The books are asked first, as whole columns. Where they differ from silver, the keys in question are judged anew: books lag
    behind where somebody was stopped between a decision and its entry.
    """
    source = contract.dataset
    waiting = applied_inputs.pending(settings, source)
    found = table_io.read(locations.silver(settings, source), _ROW.names, {"event_date": days}, settings.storage_options)
    there = _ROW.empty_table() if found is None else found.cast(_ROW)
    try:
        differing = _off(settings, contract, days, there)
    except key_log.IncompleteKeyLogError as problem:
        return [Outcome(EQUALS_BRONZE, day, passed=False, explanation=f"{problem}") for day in sorted(days)]
    on_its_way = len(differing) > 0 and _unrecorded(settings, source)
    waiting |= applied_inputs.pending(settings, source) if len(differing) else {}
    held = Counter({one["values"]: one["counts"] for one in pc.value_counts(there["event_date"]).to_pylist()})
    lacks: Counter[date] = Counter()
    more: Counter[date] = Counter()
    for day, count in zip(differing["event_date"].to_pylist(), differing["_lacks"].to_pylist()):
        (lacks if count > 0 else more)[day] += abs(count)
    outcomes = []
    for day in sorted(days):
        waits = day in waiting or on_its_way
        numbers = {
            "rows_in_silver": held[day],
            "rows_applied": held[day] + lacks[day] - more[day],
            "difference": more[day] - lacks[day],
            "rows_missing": lacks[day],
            "rows_too_many": more[day],
            "waits_for_silver": int(waits),
        }
        wrong = lacks[day] + more[day]
        advice = "something that came since waits for silver" if waits else f"materialize silver/{source} for {day}"
        why = f"silver lacks {lacks[day]} rows of the day that count, and holds {more[day]} that do not: {advice}"
        outcomes.append(Outcome(EQUALS_BRONZE, day, not wrong or waits, numbers, why if wrong else None))
    return outcomes


def _off(settings: Settings, contract: SourceContract, days: Collection[date], there: pa.Table) -> pa.Table:
    """What :func:`_differences` finds between the rows that are due on the days and those that are ``there``."""
    differing = _differences(_entered(settings, contract, days), there)
    if not len(differing):
        return differing
    keys = pc.unique(differing["record_key"])
    return _differences(_judged(settings, contract, differing, days), there.filter(pc.is_in(there["record_key"], keys)))


def _differences(due: pa.Table, there: pa.Table) -> pa.Table:
    """The rows of :data:`_ROW` that two tables do not hold equally often; ``_lacks`` is how much less often ``there`` does."""
    both = pa.concat_tables([due, there])
    signed = both.append_column("_lacks", pa.array([1] * len(due) + [-1] * len(there), pa.int64()))
    summed = signed.group_by(_ROW.names).aggregate([("_lacks", "sum")]).rename_columns([*_ROW.names, "_lacks"])
    return summed.filter(pc.not_equal(summed["_lacks"], 0))


def _entered(settings: Settings, contract: SourceContract, days: Collection[date]) -> pa.Table:
    """The rows that live on the days by the books."""
    path, columns = locations.dispositions(settings, contract.dataset), [*_ROW.names, "disposition", "change_op"]
    found = table_io.read(path, columns, {"event_date": days}, settings.storage_options)
    if found is None:
        return _ROW.empty_table()
    # Filtered here: a condition on text may have delta-rs read the files of all days (see ``store``).
    applied = pc.equal(found["disposition"], Disposition.APPLIED.value)
    return found.filter(pc.and_(applied, pc.not_equal(found["change_op"], "delete"))).select(_ROW.names).cast(_ROW)


def _judged(settings: Settings, contract: SourceContract, differing: pa.Table, days: Collection[date]) -> pa.Table:
    """The rows that live on the days, of the keys of some rows: by the key log and the decisions.

    :raises IncompleteKeyLogError: when Bronze holds one of them and the key log does not.
    """
    keys = set(differing["record_key"].to_pylist())
    arrivals = key_log.arrival_days(settings, contract.dataset, "record_key", keys) | set(differing["arrival_date"].to_pylist())
    found = dispositions_account.rows(settings, contract, arrival_days=arrivals, keys=keys)
    wanted = set(days)
    lives = [row for row in found if row.lives and row.event_date in wanted]
    return pa.Table.from_pydict({name: [getattr(row, name) for row in lives] for name in _ROW.names}, schema=_ROW)


def _unrecorded(settings: Settings, source: str) -> bool:
    """Whether a file is being taken in at this moment, or its run was stopped: silver waits until the ledger knows it."""
    claims = table_io.read(locations.key_log(settings, source), ["ingestion_id"], None, settings.storage_options)
    logged = set() if claims is None else set(pc.unique(claims["ingestion_id"]).to_pylist())
    return bool(logged - ingestions.ingested(ingestions.all_of(settings, source)).keys())


def gold_with_silver(settings: Settings, one: Series, days: Collection[date]) -> list[Outcome]:
    """The rows behind the published number of each day, with what is booked to it, against those that silver holds now.

    :param one: the days of a metric as readers see them.
    """
    before = write_audit_publish.read(settings, one, sorted(days))
    published = _published(before)
    there = count_silver_rows(settings, one.metric, days)
    differing = [day for day in sorted(days) if published.get(day, 0) != there.get(day, 0)]
    reasons = _on_its_way(settings, before, differing) if differing else {}
    outcomes = []
    for day in sorted(days):
        shown, holds, why = published.get(day, 0), there.get(day, 0), reasons.get(day)
        numbers = {
            "published_rows": shown,
            "silver_rows": holds,
            "difference": shown - holds,
            "explained": int(shown != holds and why is not None),
        }
        what = f"{shown} rows are behind the published number, and silver holds {holds}"
        advice = why or f"nothing that waits explains it: materialize gold/{one.name} for {day}"
        differs = shown != holds
        outcomes.append(
            Outcome(EQUALS_SILVER, day, not differs or why is not None, numbers, f"{what}: {advice}" if differs else None)
        )
    return outcomes


def _published(before: Read) -> dict[date, int]:
    """How many rows are behind the newest number of each day that has one, its adjustments included."""
    if before.existing is None:
        return {}
    by = before.series.by
    counts = before.existing.group_by([by, "revision"]).aggregate([("row_count", "sum")]).to_pylist()
    return {row[by]: row["row_count_sum"] or 0 for row in sorted(counts, key=lambda row: row["revision"])}


def _on_its_way(settings: Settings, before: Read, days: Collection[date]) -> Mapping[date, str]:
    """Why the published number of a day is another one than silver's, where something that waits explains it."""
    one, terms = before.series, before.series.metric.publication
    today = lifecycle.today(settings.clock(), terms)
    follows = find_pending(settings, one).starts
    held = {waits.start for waits in candidates.held(settings, one, days)}
    refused = find_refused(settings, one, before.existing, days)
    reasons = {}
    for day in days:
        if not lifecycle.may_be_published(day, today, terms):
            reasons[day] = f"it is not published before {terms.start_delay} days have passed"
        elif day in held:
            reasons[day] = "the new number is held: see 'lakehouse gold held'"
        elif day in follows:
            reasons[day] = "silver has changed since, and a restatement is pending"
        elif day in refused:
            reasons[day] = "somebody dropped the new number, so that the published one stands"
    return reasons
