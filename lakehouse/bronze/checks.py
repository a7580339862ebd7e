"""The checks of Bronze: of an arrival day's rows, and of a source as a whole.

The results of the checks of a source as a whole (whether it is still sending, whether its reviews are in time) change as time
passes, so a schedule runs them instead of a partition's run. The dispositions of an arrival day's rows are checked in
``dispositions.checks``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.days import arrived_at
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import account_tables
from lakehouse.dispositions import checks as dispositions_checks
from lakehouse.lake import table_io
from lakehouse.lateness.rules import exceeds
from lakehouse.ledger import ingestions
from lakehouse.ledger.row_states import QuarantineStatus
from lakehouse.quality import check_rules
from lakehouse.quality.check_rules import CheckResult
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime, timedelta

    from lakehouse.contracts.publication import Freshness
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.quality.check_rules import FilledCounts

FRESH, REVIEWED, NONE_HELD = "arrivals_are_fresh", "reviews_in_time", "no_file_held"
_RECORDS = "delivery_has_records"
_ALWAYS = {
    **check_rules.CONTRACT_SCHEMA,
    "rows_accounted": "Records read = rows in Bronze = claims in the key log + malformed rows.",
    "malformed_tolerated": "No more records of the day are malformed than the contract tolerates.",
    NONE_HELD: "No file of the day is held because it cannot be read or differs from its manifest.",
}


def bronze_check_names(contract: SourceContract) -> dict[str, str]:
    """The checks of an arrival day, each with its description."""
    counts = {"row_count": "The arrival day brings as many rows as the contract expects."} if contract.quality.row_count else {}
    nulls = {"nulls": "No field is NULL in more of the day's records than the contract tolerates; deletes do not count."}
    whole = {_RECORDS: "The newest delivery of the day, which replaces the table, has records."}
    whole = whole if contract.reprocess_policy == "overwrite_all" else {}
    return _ALWAYS | dispositions_checks.row_check_names(contract) | counts | (nulls if contract.quality.nulls else {}) | whole


def source_check_names(contract: SourceContract) -> dict[str, str]:
    """The checks of a source as a whole, each with its description."""
    fresh = f"The newest file arrived at most {format_duration(contract.freshness.max_age)} ago." if contract.freshness else None
    return {**({FRESH: fresh} if fresh else {}), REVIEWED: "No quarantined row of any day is past its review deadline."}


def time_dependent_checks(lake: Lake, contract: SourceContract) -> list[str]:
    """The checks whose result may change as time passes: none without a freshness rule if no row was ever quarantined."""
    table = locations.quarantine(lake, contract.dataset).open()
    quarantined = table is not None and table_io.rows_at_most(table, {}) > 0
    return [name for name in source_check_names(contract) if name == FRESH or quarantined]


def check_bronze(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """Every check on each arrival day."""
    lake = lake.cached()
    source = contract.dataset
    entries = ingestions.all_of(lake, source)
    table = locations.bronze(lake, source).open()
    outcomes = check_rules.check_schema(table, arrow_schema(bronze_columns(contract)), days)
    where = {"arrival_date": list(days)}
    in_bronze, malformed, claims = Counter[date](), Counter[date](), Counter[date]()
    for rows in locations.bronze(lake, source).pieces(["arrival_date", "malformed_reason"], where):
        in_bronze += check_rules.row_counts(rows, "arrival_date")
        malformed += check_rules.row_counts(rows, "arrival_date", of="malformed_reason")
    for log in locations.key_log(lake, source).pieces(["arrival_date", "kind"], where):
        claims += check_rules.row_counts(log.filter(pc.not_equal(log["kind"], "retire")), "arrival_date")
    held = ingestions.still_held(entries)
    outcomes += dispositions_checks.check_rows(lake, contract, in_bronze, days)
    outcomes += [*check_source_rules(lake, contract, days), *_check_records(contract, entries, days)]
    for day in sorted(days):
        read = sum(entry.rows for entry in entries if entry.arrival_date == day and entry.status == "ingested")
        numbers = {"rows_read": read, "rows_in_bronze": in_bronze[day], "claims": claims[day], "malformed": malformed[day]}
        ids = [entry.ingestion_id for entry in entries if entry.arrival_date == day] if malformed[day] else []
        reason = ingestions.first_reason(lake, source, ids)
        outcomes.append(_check_malformed(contract, day, malformed[day], in_bronze[day], reason))
        balanced = read == in_bronze[day] == claims[day] + malformed[day]
        outcomes.append(CheckResult("rows_accounted", day, balanced, numbers, None if balanced else "materialize the day again"))
        messages = [entry.message for entry in held if entry.arrival_date == day]
        explanation = "; ".join(filter(None, messages)) or None
        outcomes.append(CheckResult(NONE_HELD, day, not messages, {"files_held": len(messages)}, explanation))
    return check_rules.with_severities(contract, outcomes)


def check_source_rules(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """The contract's rules on the rows of each arrival day together: how many arrive, and the shares of NULLs."""
    entries = ingestions.all_of(lake, contract.dataset)
    return [*_check_row_counts(contract, entries, days), *_check_nulls(lake, contract, days)]


def check_source(lake: Lake, contract: SourceContract) -> list[CheckResult]:
    """Every check on the source as it is now; the day of an outcome is today."""
    lake = lake.cached()
    fresh = [_check_freshness(lake, contract, contract.freshness)] if contract.freshness else []
    return check_rules.with_severities(contract, [*fresh, _check_reviews(lake, contract)])


@dataclass(frozen=True)
class _ArrivalDay:
    """An arrival day, with the row counts of all arrival days from the ledger."""

    day: date
    rows: Mapping[date, int]

    @property
    def row_count(self) -> int:
        """The number of rows that arrived on the day."""
        return self.rows.get(self.day, 0)

    def trailing_counts(self, days: int) -> list[int]:
        """The row counts of the ``days`` days before it, without days on which no file arrived."""
        return [rows for other, rows in self.rows.items() if 0 < (self.day - other).days <= days]


def _check_row_counts(contract: SourceContract, entries: Iterable[Ingestion], days: Collection[date]) -> list[CheckResult]:
    rule = contract.quality.row_count
    if rule is None:
        return []
    rows: Counter[date] = Counter()
    for entry in entries:
        if entry.status == "ingested":
            rows[entry.arrival_date] += entry.rows - entry.malformed
    findings = {day: list(check_rules.row_count(_ArrivalDay(day, rows), rule)) for day in sorted(days)}
    return [check_rules.outcome("row_count", day, of_day, check_rules.way_out) for day, of_day in findings.items()]


def _check_records(contract: SourceContract, entries: Collection[Ingestion], days: Collection[date]) -> list[CheckResult]:
    """Whether a delivery that should replace the table has no record, and no later one has any.

    It has no row that could be held, as those of a delivery that shrinks the table are (``ReprocessPolicy.choose``).
    """
    if contract.reprocess_policy != "overwrite_all":
        return []
    rows = {entry.ingestion_id: entry.rows for entry in entries if entry.status == "ingested"}
    files: dict[tuple[date, str], list[Ingestion]] = defaultdict(list)
    for entry in entries:
        if entry.is_in_bronze:
            files[entry.arrival_date, entry.delivered_with].append(entry)
    filled = {place for place, of_delivery in files.items() if any(rows.get(entry.ingestion_id) for entry in of_delivery)}
    outcomes = []
    for day in sorted(days):
        empty = [place for place in files if place[0] == day and place > max(filled, default=(date.min, ""))]
        names = ", ".join(entry.source_file for place in sorted(empty) for entry in files[place])
        why = f"{names} has no record, so that it does not replace the table as a delivery does; send it again with its records"
        outcomes.append(CheckResult(_RECORDS, day, not empty, {"without_records": len(empty)}, why if empty else None))
    return outcomes


def _check_malformed(contract: SourceContract, day: date, malformed: int, rows: int, reason: str | None) -> CheckResult:
    rule = contract.quality.malformed
    passed = not exceeds(malformed, rows, rule.tolerated)
    why = f"{malformed:,} of {rows:,} rows could not be read{f': {reason}' if reason else ''}; the contract tolerates "
    why += f"{rule.tolerated:.2%}, and numbers of their days do not become final: 'lakehouse rows {contract.dataset} --malformed'"
    numbers = {"rows": rows, "malformed": malformed, "share": round(malformed / rows, 6) if rows else 0.0}
    return CheckResult("malformed_tolerated", day, passed, numbers, None if passed else why, warns=rule.severity == "warn")


def _check_nulls(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    names = list(contract.quality.nulls)
    if not names:
        return []
    table, columns = locations.bronze(lake, contract.dataset), ["arrival_date", "change_op", "malformed_reason", *names]
    counts: dict[str, FilledCounts] = {name: (Counter(), Counter()) for name in names}
    for rows in table.pieces(columns, {"arrival_date": days}):
        sound = rows.filter(pc.and_(pc.is_null(rows["malformed_reason"]), pc.not_equal(rows["change_op"], "delete")))
        for name, (total, filled) in counts.items():
            total.update(check_rules.row_counts(sound, "arrival_date"))
            filled.update(check_rules.row_counts(sound, "arrival_date", of=name))
    return check_rules.check_nulls(contract, days, counts, "records")


def _check_freshness(lake: Lake, contract: SourceContract, rule: Freshness) -> CheckResult:
    now, zone = lake.now(), ZoneInfo(contract.clocks.timezone)
    entries = ingestions.all_of(lake, contract.dataset)
    held = len(ingestions.still_held(entries))
    numbers: dict[str, Any] = {"files": 0, "files_held": held, "max_age_hours": _hours(rule.max_age)}
    arrivals = {
        entry.ingestion_id: (arrived_at(entry.arrival_date, entry.recorded_at, zone), entry.source_file)
        for entry in ingestions.ingested(entries).values()
    }
    passed, why = False, "no file has ever arrived"
    if arrivals:
        arrived, file = max(arrivals.values())
        age = now - arrived
        passed = age <= rule.max_age
        numbers |= {"files": len(arrivals), "age_hours": _hours(age), "newest_arrival": f"{arrived:%Y-%m-%d %H:%M%z}"}
        why = f"the newest file, {file}, arrived {format_duration(age)} ago, and {format_duration(rule.max_age)} are tolerated"
    also = f"; {held} files are held, see the check no_file_held" if held else ""
    advice = f"{why}{also}: check whether {contract.dataset} is still being sent"
    return CheckResult(FRESH, now.date(), passed, numbers, None if passed else advice, warns=rule.severity == "warn")


def _check_reviews(lake: Lake, contract: SourceContract) -> CheckResult:
    where = {"quarantine_status": [QuarantineStatus.OPEN.value]}
    waiting = account_tables.quarantined(lake, contract, ["quarantine_since", "quarantine_review_by"], where)
    return reviews(contract.dataset, waiting, lake.now())


def reviews(source: str, waiting: pa.Table | None, now: datetime) -> CheckResult:
    """Whether no row waits for a steward past its deadline: the Arrow form of ``account_tables.is_overdue``.

    :param waiting: ``quarantine_since`` and ``quarantine_review_by`` of the rows whose review is open; None if there are none.
    """
    count, overdue, oldest, why = 0 if waiting is None else len(waiting), 0, 0.0, None
    if waiting is not None and count:
        since, deadlines = waiting["quarantine_since"], waiting["quarantine_review_by"]
        overdue = pc.sum(pc.less(deadlines, pa.scalar(now, deadlines.type))).as_py() or 0
        oldest = _hours(now - pc.min(since).as_py())
        if overdue:
            longest = f"the oldest of them by {format_duration(now - pc.min(deadlines).as_py())}"
            advice = f"decide with 'lakehouse quarantine list {source} --overdue'"
            why = f"{overdue} rows are past their review deadline, {longest}: {advice}"
    numbers = {"waiting": count, "overdue": overdue, "oldest_hours": oldest}
    return CheckResult(REVIEWED, now.date(), not overdue, numbers, why, warns=True)


def _hours(span: timedelta) -> float:
    return round(span.total_seconds() / 3600, 2)
