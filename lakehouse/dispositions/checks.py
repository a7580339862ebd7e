"""The checks of what became of the rows of an arrival day: dispositions, row rules, lateness, reviews.

They are part of the checks of Bronze (``bronze.checks``). Whether silver holds an event day's rows is checked in
``silver.checks``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.row_groups import first_rows, groups
from lakehouse.lateness.rules import exceeds, late_share
from lakehouse.ledger import applied_inputs, key_log
from lakehouse.ledger.row_states import Disposition, QuarantineStatus
from lakehouse.quality.check_result import CheckResult

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


_SILVER_ROW = ["event_date", "record_key", "ingestion_id", "line_number", "arrival_date"]


def row_check_names(contract: SourceContract) -> dict[str, str]:
    """The checks of a source's rows, each with its description."""
    rules = {
        f"rule_{name}": rule.description or f"Rows meet {rule.sql} (else: {rule.severity})."
        for name, rule in contract.quality.named_rules.items()
    }
    return {
        "every_row_disposed": "Each row has one disposition; silver holds exactly the applied rows.",
        "lateness_tolerated": "No more rows than the contract tolerates came beyond the watermark.",
        "no_review_overdue": "No quarantined row is past its review deadline.",
        **rules,
    }


def check_rows(
    settings: Settings, contract: SourceContract, in_bronze: Mapping[date, int], days: Collection[date]
) -> list[CheckResult]:
    """Every check on the rows of each arrival day.

    :param in_bronze: how many rows Bronze holds, per arrival day.
    """
    disposed = check_dispositions(settings, contract, in_bronze, days)
    return [*disposed, *_check_judgements(settings, contract, days), *_check_reviews(settings, contract, days)]


def _check_judgements(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """The recorded judgement of the rows at their arrival: the rules that they fail, and how many came beyond the watermark."""
    columns = ["arrival_date", "kind", "failed_rules", "beyond"]
    path = locations.key_log(settings, contract.dataset)
    log = table_io.read(path, columns, {"arrival_date": list(days)}, settings.storage_options)
    sound, beyond, failed = judgement_counts(key_log.SCHEMA.empty_table() if log is None else log)
    bound = contract.lateness.alert_above
    outcomes = []
    for day in sorted(days):
        share = late_share(beyond[day], sound[day])
        numbers = {"rows": sound[day], "beyond_watermark": beyond[day], "share": round(share, 6)}
        tolerated = bound is None or not exceeds(beyond[day], sound[day], bound)
        why = None if tolerated else f"{share:.2%} of the rows came beyond the watermark; the contract tolerates {bound:.2%}"
        outcomes.append(CheckResult("lateness_tolerated", day, tolerated, numbers, why, warns=True))
        for name, rule in contract.quality.named_rules.items():
            count = failed[day, name]
            why = f"{count} rows fail {rule.sql}: {_FATE[rule.severity]}" if count else None
            outcomes.append(CheckResult(f"rule_{name}", day, not count, {"rows": sound[day], "failed": count}, why, warns=True))
    return outcomes


def judgement_counts(claims: pa.Table) -> tuple[Counter[date], Counter[date], Counter[tuple[date, str]]]:
    """By arrival day: sound rows, rows beyond the watermark, and (also by name) rows that fail a row rule.

    :param claims: ``arrival_date``, ``kind``, ``failed_rules``, ``beyond``.
    """
    rows = claims.filter(pc.not_equal(claims["kind"], "retire"))
    sound = _count(rows["arrival_date"])
    beyond = _count(rows["arrival_date"].filter(pc.fill_null(rows["beyond"], False)))
    names = pc.list_flatten(rows["failed_rules"])
    failed: Counter[tuple[date, str]] = Counter()
    if len(names):
        day = rows["arrival_date"].take(pc.list_parent_indices(rows["failed_rules"].combine_chunks()))
        counted = pa.table({"day": day, "name": names}).group_by(["day", "name"]).aggregate([([], "count_all")])
        failed.update({(row["day"], row["name"]): row["count_all"] for row in counted.to_pylist()})
    return sound, beyond, failed


def _count(days: pa.ChunkedArray) -> Counter[date]:
    counted = pc.value_counts(days)
    return Counter(dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist())))


_FATE = {
    "warn": "they are applied nevertheless",
    "quarantine": "decide on them with 'lakehouse quarantine'",
    "reject": "they are rejected; have the source correct them",
}


def _check_reviews(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    columns = ["arrival_date", "quarantine_status", "quarantine_review_by"]
    where: dict[str, Collection[Any]] = {"arrival_date": days, "quarantine_status": [QuarantineStatus.OPEN.value]}
    table = table_io.read(locations.quarantine(settings, contract.dataset), columns, where, settings.storage_options)
    waiting: Counter[date] = Counter()
    overdue: Counter[date] = Counter()
    if table is not None:
        waiting = _count(table["arrival_date"])
        now = pa.scalar(settings.clock(), table["quarantine_review_by"].type)
        overdue = _count(table["arrival_date"].filter(pc.less(table["quarantine_review_by"], now)))
    outcomes = []
    for day in sorted(days):
        numbers = {"waiting": waiting[day], "overdue": overdue[day]}
        advice = f"decide with 'lakehouse quarantine list {contract.dataset} --overdue'" if overdue[day] else None
        outcomes.append(CheckResult("no_review_overdue", day, not overdue[day], numbers, advice, warns=True))
    return outcomes


def check_dispositions(
    settings: Settings, contract: SourceContract, in_bronze: Mapping[date, int], days: Collection[date]
) -> list[CheckResult]:
    """Whether the dispositions of each arrival day add up, and agree with silver on days without pending input.

    :param in_bronze: how many rows Bronze holds, per arrival day.
    """
    try:
        account = dispositions_account.table(settings, contract, arrival_days=list(days))
    except key_log.IncompleteKeyLogError as problem:
        return [CheckResult("every_row_disposed", day, passed=False, explanation=str(problem)) for day in sorted(days)]
    unapplied = pa.array(sorted(applied_inputs.pending(settings, contract.dataset)), pa.date32())
    is_waiting = pc.is_in(account["event_date"], value_set=unapplied)
    settled, unsettled = account.filter(pc.invert(is_waiting)), account.filter(pc.and_(account["lives"], is_waiting))
    # Including the days of rows that are not applied: silver must not hold them.
    event_days = sorted(pc.unique(settled["event_date"].drop_null()).to_pylist())
    due = settled.filter(settled["lives"]).select(_SILVER_ROW)
    differing = differing_days(due, _in_silver(settings, contract, event_days, days))
    waits_of = _count(unsettled["arrival_date"])
    counts = dispositions_account.counts(account)
    outcomes = []
    for day in sorted(days):
        of_day = counts.get(day, Counter())
        wrong = sorted(event_day for event_day, arrived in differing if arrived == day)
        numbers = {disposition.value: of_day[disposition] for disposition in Disposition}
        numbers |= {"waiting_for_silver": waits_of[day], "event_days_off": len(wrong)}
        advice = f"silver does not hold the applied rows: materialize silver/{contract.dataset} for {', '.join(map(str, wrong))}"
        passed = not wrong and of_day.total() == in_bronze.get(day, 0)
        outcomes.append(CheckResult("every_row_disposed", day, passed, numbers, None if passed else advice))
    return outcomes


def differing_days(due: pa.Table, in_silver: pa.Table) -> set[tuple[date, date]]:
    """The event day and arrival day of each row that only one of the tables has.

    :param due: event day, key, id and arrival day of the rows that silver should hold; ``in_silver`` of those that it holds.
    """
    both = pa.concat_tables([due, in_silver])
    row = groups(*both.columns)
    only_one = np.setxor1d(row[: len(due)], row[len(due) :])
    places = both.select(["event_date", "arrival_date"]).take(pa.array(first_rows(row)[only_one]))
    return {
        (place["event_date"], place["arrival_date"]) for place in places.group_by(places.column_names).aggregate([]).to_pylist()
    }


def _in_silver(
    settings: Settings, contract: SourceContract, event_days: Collection[date], arrival_days: Collection[date]
) -> pa.Table:
    """The rows that silver holds of some event and arrival days: columns ``_SILVER_ROW``."""
    schema = pa.schema([dispositions_account.SCHEMA.field(name) for name in _SILVER_ROW])
    if not event_days:
        return schema.empty_table()
    where = {"event_date": event_days, "arrival_date": list(arrival_days)}
    path = locations.silver(settings, contract.dataset)
    table = table_io.read(path, _SILVER_ROW, where, settings.storage_options)
    return schema.empty_table() if table is None else table.cast(schema)
