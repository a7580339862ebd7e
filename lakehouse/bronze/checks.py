"""Checks on a source as a whole, which are about now: is it still sending, and do its stewards keep their time? No JVM.

They change by waiting alone, so that no partition's run would notice: a schedule runs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse import locations
from lakehouse.calendar.event_day import end_of_day
from lakehouse.delta import table_io
from lakehouse.ledger import ingestions
from lakehouse.quality.check_result import Outcome
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from datetime import date, datetime, timedelta

    from lakehouse.contracts.schedules import Freshness
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

FRESH, REVIEWED = "arrivals_are_fresh", "reviews_in_time"


def names(contract: SourceContract) -> dict[str, str]:
    """The checks of a source as a whole, each with what it says."""
    fresh = f"The newest file arrived at most {format_duration(contract.freshness.max_age)} ago." if contract.freshness else None
    return {**({FRESH: fresh} if fresh else {}), REVIEWED: "No quarantined row of any day is past its review deadline."}


def with_something_to_say(settings: Settings, contract: SourceContract) -> list[str]:
    """The checks that may come out otherwise by waiting: none, where nothing is to be fresh and no row has ever waited."""
    table = table_io.open_table(locations.quarantine(settings, contract.dataset), settings.storage_options)
    waited = table is not None and table_io.rows_at_most(table, {}) > 0
    return [name for name in names(contract) if name == FRESH or waited]


def check_source(settings: Settings, contract: SourceContract) -> list[Outcome]:
    """Every check on the source as it is now; the day of an outcome is today."""
    fresh = [_freshness(settings, contract, contract.freshness)] if contract.freshness else []
    return [*fresh, _reviews(settings, contract)]


def arrived_at(arrival_day: date, taken_in_at: datetime, zone: ZoneInfo) -> datetime:
    """When a file arrived: when it was taken in, and at the end of its arrival day at the latest.

    An old day that is caught up today therefore does not count as fresh.
    """
    return min(taken_in_at, end_of_day(arrival_day, zone))


def _freshness(settings: Settings, contract: SourceContract, rule: Freshness) -> Outcome:
    now, zone = settings.clock(), ZoneInfo(contract.clocks.timezone)
    entries = ingestions.all_of(settings, contract.dataset)
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
    also = f"; {held} files that came could not be read, see the check no_file_held" if held else ""
    advice = f"{why}{also}: look whether {contract.dataset} is still being sent"
    return Outcome(FRESH, now.date(), passed, numbers, None if passed else advice, warns=rule.severity == "warn")


def _reviews(settings: Settings, contract: SourceContract) -> Outcome:
    now, columns = settings.clock(), ["quarantine_since", "quarantine_review_by"]
    path = locations.quarantine(settings, contract.dataset)
    found = table_io.read(path, columns, {"quarantine_status": ["open"]}, settings.storage_options)
    since: list[datetime] = [] if found is None else found["quarantine_since"].to_pylist()
    deadlines: list[datetime] = [] if found is None else found["quarantine_review_by"].to_pylist()
    overdue = [deadline for deadline in deadlines if deadline < now]
    oldest = _hours(now - min(since)) if since else 0.0
    numbers = {"waiting": len(since), "overdue": len(overdue), "oldest_hours": oldest}
    why = None
    if overdue:
        longest = f"the oldest of them by {format_duration(now - min(overdue))}"
        ask = f"decide with 'lakehouse quarantine list {contract.dataset} --overdue'"
        why = f"{len(overdue)} rows are past their review deadline, {longest}: {ask}"
    return Outcome(REVIEWED, now.date(), not overdue, numbers, why, warns=True)


def _hours(span: timedelta) -> float:
    return round(span.total_seconds() / 3600, 2)
