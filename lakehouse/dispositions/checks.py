"""The checks of what became of the rows of an arrival day: dispositions, row rules, lateness, reviews.

They are part of the checks of Bronze (``bronze.checks``). Whether silver holds an event day's rows is checked in
``silver.checks``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.lateness.rules import exceeds, late_share
from lakehouse.ledger import applied_inputs, key_log
from lakehouse.ledger.row_states import Disposition, QuarantineStatus
from lakehouse.quality.check_result import CheckResult

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


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
    sound: Counter[date] = Counter()
    beyond: Counter[date] = Counter()
    failed: dict[date, Counter[str]] = defaultdict(Counter)
    for claim in [] if log is None else log.to_pylist():
        if claim["kind"] != "retire":
            sound[claim["arrival_date"]] += 1
            beyond[claim["arrival_date"]] += claim["beyond"]
            failed[claim["arrival_date"]].update(claim["failed_rules"] or [])
    bound = contract.lateness.alert_above
    outcomes = []
    for day in sorted(days):
        share = late_share(beyond[day], sound[day])
        numbers = {"rows": sound[day], "beyond_watermark": beyond[day], "share": round(share, 6)}
        tolerated = bound is None or not exceeds(beyond[day], sound[day], bound)
        why = None if tolerated else f"{share:.2%} of the rows came beyond the watermark; the contract tolerates {bound:.2%}"
        outcomes.append(CheckResult("lateness_tolerated", day, tolerated, numbers, why, warns=True))
        for name, rule in contract.quality.named_rules.items():
            count = failed[day][name]
            why = f"{count} rows fail {rule.sql}: {_FATE[rule.severity]}" if count else None
            outcomes.append(CheckResult(f"rule_{name}", day, not count, {"rows": sound[day], "failed": count}, why, warns=True))
    return outcomes


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
    for entry in [] if table is None else table.to_pylist():
        waiting[entry["arrival_date"]] += 1
        overdue[entry["arrival_date"]] += is_overdue(entry, settings.clock())
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
        account = dispositions_account.rows(settings, contract, arrival_days=list(days))
    except key_log.IncompleteKeyLogError as problem:
        return [CheckResult("every_row_disposed", day, passed=False, explanation=str(problem)) for day in sorted(days)]
    waiting = applied_inputs.pending(settings, contract.dataset).keys()
    # Including the days of rows that are not applied: silver must not hold them.
    event_days = sorted({row.event_date for row in account if row.event_date and row.event_date not in waiting})
    due = {
        (row.event_date, row.record_key, *row.row_id): row.arrival_date
        for row in account
        if row.lives and row.event_date not in waiting
    }
    differing = {(place[0], arrived) for place, arrived in due.items() ^ _in_silver(settings, contract, event_days, days).items()}
    counts = dispositions_account.counts(account)
    outcomes = []
    for day in sorted(days):
        of_day = counts.get(day, Counter())
        wrong = sorted(event_day for event_day, arrived in differing if arrived == day)
        waits = sum(row.lives and row.event_date in waiting for row in account if row.arrival_date == day)
        numbers = {disposition.value: of_day[disposition] for disposition in Disposition}
        numbers |= {"waiting_for_silver": waits, "event_days_off": len(wrong)}
        advice = f"silver does not hold the applied rows: materialize silver/{contract.dataset} for {', '.join(map(str, wrong))}"
        passed = not wrong and of_day.total() == in_bronze.get(day, 0)
        outcomes.append(CheckResult("every_row_disposed", day, passed, numbers, None if passed else advice))
    return outcomes


def _in_silver(
    settings: Settings, contract: SourceContract, event_days: Collection[date], arrival_days: Collection[date]
) -> dict[tuple[Any, ...], date]:
    """The rows that silver holds of some event and arrival days: the arrival day by event day, key and row."""
    if not event_days:
        return {}
    columns = ["event_date", "record_key", "ingestion_id", "line_number"]
    where = {"event_date": event_days, "arrival_date": list(arrival_days)}
    path = locations.silver(settings, contract.dataset)
    table = table_io.read(path, [*columns, "arrival_date"], where, settings.storage_options)
    rows = [] if table is None else table.to_pylist()
    return {tuple(row[name] for name in columns): row["arrival_date"] for row in rows}
