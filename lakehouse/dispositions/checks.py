"""The checks of the rows of an arrival day: dispositions, row rules, lateness, reviews.

They are part of the checks of Bronze (``bronze.checks``). Whether silver holds an event day's rows is checked in
``silver.checks``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations, pieces
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions import account_tables
from lakehouse.lateness import historical_rows, measurement
from lakehouse.lateness.rules import exceeds, late_share, tiers_of
from lakehouse.ledger import applied_inputs, key_log
from lakehouse.ledger.row_states import Disposition, QuarantineStatus
from lakehouse.quality.check_rules import CheckResult
from lakehouse.quality.row_sums import RowSums
from lakehouse.text import format_duration, with_earlier_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import RowRule, Tier
    from lakehouse.lake import Lake


DISPOSED = "every_row_disposed"
_PLACE = ["event_date", "arrival_date"]
_IDENTITY = ["record_key", "ingestion_id", "line_number"]
_SILVER_ROW = [*_PLACE, *_IDENTITY]


def row_check_names(contract: SourceContract) -> dict[str, str]:
    """The checks of a source's rows, each with its description."""
    rules = {f"rule_{name}": _description(rule) for name, rule in contract.quality.named_rules.items()}
    tiers = {name: f"No more rows came later than {_named(tier)} than it tolerates." for name, tier in _tiers(contract)}
    return {
        DISPOSED: "Each row has one disposition; silver holds exactly the applied rows.",
        "lateness_tolerated": "No more rows than the contract tolerates came beyond the cutoff.",
        "no_review_overdue": "No quarantined row is past its review deadline.",
        **tiers,
        **rules,
    }


def _tiers(contract: SourceContract) -> Collection[tuple[str, Tier]]:
    return contract.lateness.judged_tiers.items()


def _named(tier: Tier) -> str:
    return f"{format_duration(tier.within)}, the tier that serves {tier.serves!r},"


def _description(rule: RowRule) -> str:
    category = f" Category: {rule.category}." if rule.category else ""
    return (rule.description or f"Rows meet {rule.sql} (else: {rule.severity}).") + category


def check_rows(lake: Lake, contract: SourceContract, in_bronze: Mapping[date, int], days: Collection[date]) -> list[CheckResult]:
    """Every check on the rows of each arrival day.

    :param in_bronze: the number of rows in Bronze, per arrival day.
    """
    disposed = check_dispositions(lake, contract, in_bronze, days)
    judged = [*_check_judgements(lake, contract, days), *_check_tiers(lake, contract, days)]
    return [*disposed, *judged, *_check_reviews(lake, contract, days)]


def _check_judgements(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """The recorded judgement of the rows at their arrival: the rules that they fail, and the number beyond the cutoff.

    Rows that came as history are in neither count of the cutoff.
    """
    columns = ["kind", "failed_rules", "beyond", *historical_rows.COLUMNS]
    stored = locations.key_log(lake, contract.dataset)
    sound, beyond, failed = Counter[date](), Counter[date](), Counter[tuple[date, str]]()
    measured, known_history = Counter[date](), historical_rows.of_source(lake, contract.dataset)
    for log in stored.pieces(columns, {"arrival_date": list(days)}):
        in_all, late_in_all, of_rules = judgement_counts(log)
        others = known_history.left_out(log)
        unchanged = len(others) == len(log)
        of_others, late_others, _ = (in_all, late_in_all, of_rules) if unchanged else judgement_counts(others)
        sound, failed, measured, beyond = sound + in_all, failed + of_rules, measured + of_others, beyond + late_others
    bound = contract.lateness.alert_above
    outcomes = []
    for day in sorted(days):
        share = late_share(beyond[day], measured[day])
        numbers = with_earlier_names({"rows": measured[day], "beyond_cutoff": beyond[day], "share": round(share, 6)})
        tolerated = bound is None or not exceeds(beyond[day], measured[day], bound)
        why = None if tolerated else f"{share:.2%} of the rows came beyond the cutoff; the contract tolerates {bound:.2%}"
        outcomes.append(CheckResult("lateness_tolerated", day, tolerated, numbers, why, warns=True))
        for name, rule in contract.quality.named_rules.items():
            count = failed[day, name]
            why = f"{count} rows fail {rule.sql}: {_FATE[rule.severity]}" if count else None
            outcomes.append(CheckResult(f"rule_{name}", day, not count, {"rows": sound[day], "failed": count}, why, warns=True))
    return outcomes


def _check_tiers(lake: Lake, contract: SourceContract, days: Collection[date]) -> Iterator[CheckResult]:
    """Whether the share of an arrival day's rows that came later than a tier is within the tier's tolerance, whatever their
    disposition.
    """
    tiers = _tiers(contract)
    seconds = measurement.of_days(lake, contract, days) if tiers else {}
    for day in sorted(days) if tiers else []:
        of_day = seconds.get(day, ())
        for (name, _), late in zip(tiers, tiers_of((tier for _, tier in tiers), of_day)):
            numbers = {"rows": len(of_day), "beyond_tier": late.beyond, "share": round(late.share, 6)}
            why = f"of the rows of the day {late.text}" if late.is_exceeded else None
            yield CheckResult(name, day, not late.is_exceeded, numbers, why, warns=True)


def judgement_counts(claims: pa.Table) -> tuple[Counter[date], Counter[date], Counter[tuple[date, str]]]:
    """The well-formed rows, the rows beyond the cutoff, and (also by name) the rows that fail a row rule, by arrival day.

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


def _check_reviews(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    columns = ["arrival_date", "quarantine_status", "quarantine_review_by"]
    where: dict[str, Collection[Any]] = {"arrival_date": days, "quarantine_status": [QuarantineStatus.OPEN.value]}
    table = account_tables.quarantined(lake, contract, columns, where)
    waiting: Counter[date] = Counter()
    overdue: Counter[date] = Counter()
    if table is not None:
        waiting = _count(table["arrival_date"])
        now = pa.scalar(lake.now(), table["quarantine_review_by"].type)
        overdue = _count(table["arrival_date"].filter(pc.less(table["quarantine_review_by"], now)))
    outcomes = []
    for day in sorted(days):
        numbers = {"waiting": waiting[day], "overdue": overdue[day]}
        advice = f"decide with 'lakehouse quarantine list {contract.dataset} --overdue'" if overdue[day] else None
        outcomes.append(CheckResult("no_review_overdue", day, not overdue[day], numbers, advice, warns=True))
    return outcomes


def check_dispositions(
    lake: Lake, contract: SourceContract, in_bronze: Mapping[date, int], days: Collection[date]
) -> list[CheckResult]:
    """Whether the dispositions of each arrival day add up, and agree with silver on days without pending input.

    :param in_bronze: the number of rows in Bronze, per arrival day.
    """
    source, arrivals = contract.dataset, {"arrival_date": list(days)}
    unapplied = pa.array(sorted(applied_inputs.pending(lake, source)), pa.date32())
    counts: dict[date, Counter[Disposition]] = defaultdict(Counter)
    waits_of = Counter[date]()
    event_days: set[date] = set()
    due, in_silver = (RowSums(_PLACE, _IDENTITY) for _ in range(2))

    def settled_rows() -> Iterator[pa.Table]:
        for account in pieces.counted("rows checked", _account(lake, contract, days)):
            for day, of_day in dispositions_account.counts(account).items():
                counts[day].update(of_day)
            is_waiting = pc.is_in(account["event_date"], value_set=unapplied)
            waits_of.update(_count(account.filter(pc.and_(account["lives"], is_waiting))["arrival_date"]))
            settled = account.filter(pc.invert(is_waiting))
            # Including the days of rows that are not applied: silver must not hold them.
            event_days.update(pc.unique(settled["event_date"].drop_null()).to_pylist())
            yield settled.filter(settled["lives"])

    due.add(settled_rows())
    if (incomplete := _incomplete(lake, contract, in_bronze, counts, days)) is not None:
        return [CheckResult(DISPOSED, day, passed=False, explanation=incomplete) for day in sorted(days)]
    if event_days:
        where = {"event_date": event_days, **arrivals}
        in_silver.add(locations.silver(lake, source).pieces(_SILVER_ROW, where))
    differing = due.differing(in_silver)
    outcomes = []
    for day in sorted(days):
        of_day = counts.get(day, Counter())
        wrong = sorted(event_day for event_day, arrived in differing if arrived == day)
        numbers = {disposition.value: of_day[disposition] for disposition in Disposition}
        numbers |= {"waiting_for_silver": waits_of[day], "event_days_off": len(wrong)}
        advice = f"silver does not hold the applied rows: materialize silver/{source} for {', '.join(map(str, wrong))}"
        passed = not wrong and of_day.total() == in_bronze.get(day, 0)
        outcomes.append(CheckResult(DISPOSED, day, passed, numbers, None if passed else advice))
    return outcomes


def _account(lake: Lake, contract: SourceContract, days: Collection[date]) -> Iterator[pa.Table]:
    """The account of the rows of ``days``, in pieces."""
    where = {"arrival_date": list(days)}
    wanted = pa.array(sorted(days), pa.date32())
    for account in dispositions_account.pieces(lake, contract, where):
        yield account.filter(pc.is_in(account["arrival_date"], value_set=wanted))
    yield from dispositions_account.malformed(lake, contract, where)


def _incomplete(
    lake: Lake,
    contract: SourceContract,
    in_bronze: Mapping[date, int],
    counts: Mapping[date, Counter[Disposition]],
    days: Collection[date],
) -> str | None:
    """The problem of the key log in a sentence, if it has fewer rows of the days than Bronze; else None."""
    if all(counts[day].total() >= in_bronze.get(day, 0) for day in days):
        return None
    try:
        dispositions_account.table(lake, contract, arrival_days=list(days))
    except key_log.IncompleteKeyLogError as problem:
        return str(problem)
    return None
