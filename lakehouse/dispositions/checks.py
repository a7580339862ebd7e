"""Checks on what became of the rows of an arrival day: dispositions, row rules, lateness, reviews. Read without a JVM."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.verdicts import Disposition
from lakehouse.lateness.rules import exceeds, late_share
from lakehouse.ledger import applied_inputs, key_log
from lakehouse.quality.check_result import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


def names(contract: SourceContract) -> dict[str, str]:
    """The checks of a source's rows, each with what it says."""
    rules = {
        f"rule_{name}": rule.description or f"Rows meet {rule.sql} (else: {rule.severity})."
        for name, rule in contract.quality.named_rules.items()
    }
    return {
        "every_row_disposed": "Each row has one disposition; what is applied is what silver holds.",
        "lateness_tolerated": "No more rows than the contract tolerates came beyond the watermark.",
        "no_review_overdue": "No quarantined row is past its review deadline.",
        **rules,
    }


def check_rows(
    settings: Settings, contract: SourceContract, in_bronze: Mapping[date, int], days: Collection[date]
) -> list[Outcome]:
    """Every check on the rows of each arrival day.

    :param in_bronze: how many rows Bronze holds, per arrival day.
    """
    judged = _judged_outcomes(settings, contract, days)
    return [*disposition_outcomes(settings, contract, in_bronze, days), *judged, *_review_outcomes(settings, contract, days)]


def _judged_outcomes(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
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
        outcomes.append(Outcome("lateness_tolerated", day, tolerated, numbers, why, warns=True))
        for name, rule in contract.quality.named_rules.items():
            count = failed[day][name]
            why = f"{count} rows fail {rule.sql}: {_FATE[rule.severity]}" if count else None
            outcomes.append(Outcome(f"rule_{name}", day, not count, {"rows": sound[day], "failed": count}, why, warns=True))
    return outcomes


_FATE = {
    "warn": "they count all the same",
    "quarantine": "decide on them with 'lakehouse quarantine'",
    "reject": "they are refused; have the source mend them",
}


def _review_outcomes(settings: Settings, contract: SourceContract, days: Collection[date]) -> list[Outcome]:
    columns = ["arrival_date", "quarantine_review_by"]
    where: dict[str, Collection[Any]] = {"arrival_date": days, "quarantine_status": ["open"]}
    path = locations.quarantine(settings, contract.dataset)
    found = table_io.read(path, columns, where, settings.storage_options)
    waiting: Counter[date] = Counter()
    overdue: Counter[date] = Counter()
    for row in [] if found is None else found.to_pylist():
        waiting[row["arrival_date"]] += 1
        overdue[row["arrival_date"]] += row["quarantine_review_by"] < settings.clock()
    outcomes = []
    for day in sorted(days):
        numbers = {"waiting": waiting[day], "overdue": overdue[day]}
        why = f"decide with 'lakehouse quarantine list {contract.dataset} --overdue'" if overdue[day] else None
        outcomes.append(Outcome("no_review_overdue", day, not overdue[day], numbers, why, warns=True))
    return outcomes


def disposition_outcomes(
    settings: Settings, contract: SourceContract, in_bronze: Mapping[date, int], days: Collection[date]
) -> list[Outcome]:
    """Whether the dispositions of each arrival day add up, and say what silver says where nothing waits for it."""
    try:
        account = dispositions_account.rows(settings, contract, arrival_days=list(days))
    except key_log.IncompleteKeyLogError as problem:
        return [Outcome("every_row_disposed", day, passed=False, explanation=str(problem)) for day in sorted(days)]
    waiting = applied_inputs.pending(settings, contract.dataset).keys()
    # Also the days of rows that do not count: silver must not hold them there.
    settled = sorted({row.event_date for row in account if row.event_date and row.event_date not in waiting})
    due = {(row.event_date, row.record_key, row.ingestion_id, row.line_number): row.arrival_date for row in account if row.lives}
    due = {place: day for place, day in due.items() if place[0] not in waiting}
    columns = ["event_date", "record_key", "ingestion_id", "line_number", "arrival_date"]
    where = {"event_date": settled, "arrival_date": list(days)}
    there = (
        table_io.read(locations.silver(settings, contract.dataset), columns, where, settings.storage_options) if settled else None
    )
    found = {
        tuple(row[name] for name in columns[:4]): row["arrival_date"] for row in ([] if there is None else there.to_pylist())
    }
    differing = {(place[0], arrived) for place, arrived in due.items() ^ found.items()}
    counts = dispositions_account.counts(account)
    outcomes = []
    for day in sorted(days):
        kinds = counts.get(day, Counter())
        wrong = sorted(event_day for event_day, arrived in differing if arrived == day)
        waits = sum(row.lives and row.event_date in waiting for row in account if row.arrival_date == day)
        numbers = {one.value: kinds[one] for one in Disposition} | {"waiting_for_silver": waits, "event_days_off": len(wrong)}
        advice = f"silver does not hold what counts: materialize silver/{contract.dataset} for {', '.join(map(str, wrong))}"
        passed = not wrong and kinds.total() == in_bronze.get(day, 0)
        outcomes.append(Outcome("every_row_disposed", day, passed, numbers, None if passed else advice))
    return outcomes
