"""The rules of alerting about the inputs of a source: missing data, silence, and rows that wait for a person.

Each rule takes facts and returns an alert or None. The rules are described in docs/alerts.md. Rules about rows and numbers,
and the length of a usual pause, are in ``rules``; ``input_signals`` reads the facts.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse.calendar.days import business_day_of
from lakehouse.lateness.rules import RecommendationSeverity
from lakehouse.operations.alerts import rules
from lakehouse.operations.alerts.alert import AlertKind, by_reason
from lakehouse.text import format_duration, format_moment, join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.alerts import Rhythm
    from lakehouse.lateness.rules import Proposal
    from lakehouse.operations.alerts.alert import Alert, AlertSubject

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHOWN = 3
_DAYS_SHOWN = 10


def held_file(about: AlertSubject, file: str, arrival_day: date, since: datetime, why: str | None) -> Alert:
    """The alert about a held file.

    :param why: the reason for holding the file.
    """
    text = (
        f"{file} of {about.subject} is held: {why or 'its reason was not recorded'}. No number contains its rows. Replace it in "
        "landing by a whole file, or have it sent again; it is ingested once it can be read."
    )
    return about.alert(AlertKind.HELD_FILE, since, text, {"file": file}, period=f"{arrival_day}", detail=file)


def malformed_rows(about: AlertSubject, arrival_day: date, since: datetime, rows: int, example: str | None) -> Alert:
    """The alert about unreadable rows of an arrival day, for which numbers wait.

    :param example: the reason and the location of one of the rows.
    """
    name, why = about.subject, f": {example}" if example else ""
    text = (
        f"{rows:,} {'row' if rows == 1 else 'rows'} of {name} that arrived on {arrival_day} could not be read{why}. The numbers "
        f"of their days do not become final. 'lakehouse rows {name} --malformed' lists them. Have them sent again, or correct "
        f"the contract and run 'lakehouse source reparse {name}'. Its key 'quality.malformed.tolerated' says how many are no "
        "matter."
    )
    return about.alert(AlertKind.MALFORMED_ROWS, since, text, {"rows": rows, "example": example}, period=f"{arrival_day}")


def failed_ingestion(about: AlertSubject, arrival_day: date, since: datetime, missing: str) -> Alert:
    """The alert about files that runs failed to ingest, and that no further run will try.

    :param missing: the missing data, as a sentence.
    """
    text = (
        f"{about.subject}: {missing}, and no further run is started. Open the newest failed run of bronze/{about.subject} for "
        f"{arrival_day} in Dagster, mend its cause, and start it again; a file that changes is tried by itself."
    )
    return about.alert(AlertKind.FAILED_INGESTION, since, text, {"missing": missing}, period=f"{arrival_day}")


def stream_gap(about: AlertSubject, seen_on: date, since: datetime, missing: str) -> Alert:
    """The alert about messages of a topic that were lost before they were read.

    :param seen_on: the day on which the loss was detected.
    :param missing: the lost messages, as a sentence.
    """
    text = (
        f"{about.subject}: {missing}. The partition is not read on. Have the messages sent again if they can be, then run "
        f"'lakehouse source stream accept-gap {about.subject}' with your name and the reason; reading goes on behind the gap."
    )
    return about.alert(AlertKind.STREAM_GAP, since, text, {"missing": missing}, period=f"{seen_on}")


def unfinished_day(
    about: AlertSubject,
    arrival_day: date,
    ended: datetime,
    last_news: datetime,
    missing: str,
    tolerated: timedelta,
    now: datetime,
) -> Alert | None:
    """Alert if an arrival day lacks its marker, or files of its manifest, for longer than the contract tolerates.

    :param ended: the end of the arrival day.
    :param last_news: the last change of the missing data.
    :param missing: the missing data, as a sentence.
    """
    since = max(ended, last_news)
    if now - since <= tolerated:
        return None
    text = (
        f"{about.subject} {arrival_day} is not complete: {missing}. Nothing has changed since {format_moment(since)}; "
        f"{format_duration(tolerated)} are tolerated. Ask who delivers it for the missing file."
    )
    return about.alert(AlertKind.UNFINISHED_DAY, since, text, {"missing": missing}, period=f"{arrival_day}")


def silent_source(
    about: AlertSubject, arrivals: Collection[datetime], now: datetime, zone: ZoneInfo, terms: Rhythm
) -> Alert | None:
    """Alert if nothing has arrived for longer than the source's own rhythm explains.

    :param arrivals: the arrival time of each delivery, by the data's own clock.
    """
    pause = rules.too_long(arrivals, now, zone, terms)
    if pause is None:
        return None
    text = (
        f"Nothing of {about.subject} has arrived since {format_moment(pause.since)}, for {format_duration(pause.length)}: more "
        f"than {terms.factor} times {format_duration(pause.usual)}, its longest pause on a usual day (of {pause.days} days with "
        f"arrivals before).{_not_counted(pause.weekdays)} Ask who delivers it."
    )
    numbers = {"silent_seconds": pause.length.total_seconds(), "usual_seconds": pause.usual.total_seconds(), "days": pause.days}
    return about.alert(AlertKind.SILENT_SOURCE, pause.since, text, numbers)


def waiting_rows(about: AlertSubject, since: datetime, by_day: Mapping[date, Mapping[str, int]], review_by: datetime) -> Alert:
    """The alert about the rows of a source that wait for a steward.

    :param since: the start of the longest wait.
    :param by_day: the numbers of waiting rows, by arrival day and reason.
    :param review_by: the earliest deadline.
    """
    reasons = sum((Counter(counts) for counts in by_day.values()), Counter[str]())
    rows, days = reasons.total(), [f"{day}" for day in sorted(by_day)]
    wait, start, arrived, them = (
        ("row waits", "since", "It arrived on {}, and counts", "it")
        if rows == 1
        else ("rows wait", "the oldest since", "They arrived on {}, and count", "them")
    )
    text = (
        f"{about.subject}: {rows:,} {wait} for a steward ({by_reason(reasons)}), {start} {format_moment(since)}. "
        f"{arrived.format(join_limited(days, _DAYS_SHOWN, ' days'))} in no number until a decision. 'lakehouse quarantine list "
        f"{about.subject}' shows {them}; decide by {format_moment(review_by)}."
    )
    numbers = {
        "rows": rows,
        "reasons": dict(sorted(reasons.items())),
        "arrival_days": {f"{day}": dict(sorted(by_day[day].items())) for day in sorted(by_day)},
    }
    return about.alert(AlertKind.WAITING_ROWS, since, text, numbers)


def overdue_review(about: AlertSubject, rows: int, since: datetime, advice: str) -> Alert:
    """The alert about rows that wait for a steward for longer than the contract tolerates.

    :param since: the earliest passed deadline.
    :param advice: the number of waiting rows and the remedy, as a sentence.
    """
    return about.alert(AlertKind.OVERDUE_REVIEW, since, f"{about.subject}: {advice}.", {"overdue": rows})


def watermark_stalled(
    about: AlertSubject,
    watermarks: Sequence[tuple[datetime, datetime | None]],
    held_by: Sequence[str],
    zone: ZoneInfo,
    terms: Rhythm,
) -> Alert | None:
    """Alert if deliveries have not advanced the event-time watermark for longer than usual, or it lags further than usual.

    Time is measured by arrivals: if nothing arrives, the source is silent, which is a separate alert.

    :param watermarks: for each delivery, its arrival and the watermark after it, in order of arrival; None before the first move.
    :param held_by: the keys that hold the watermark.
    """
    moved = [(arrived, watermark) for arrived, watermark in watermarks if watermark is not None]
    if not moved:
        return _never_moved(about, watermarks, zone, terms)
    newest, stands = moved[-1]
    moves = [step for step, before in zip(moved, [None, *moved]) if before is None or step[1] != before[1]]
    unmoved = sum(watermark == stands for _, watermark in moved) - 1
    pause = rules.too_long([arrived for arrived, _ in moves], newest, zone, terms)
    usual = _further_back(moved, zone, terms)
    if pause is not None:
        since = pause.since
        why = (
            f"has not moved since {format_moment(since)}, although deliveries arrived for {format_duration(pause.length)} since "
            f"({unmoved}); usual are at most {format_duration(pause.usual)}"
        )
    elif usual is not None:
        since = newest
        why = f"is {format_duration(newest - stands)} behind the newest arrival; usual are at most {format_duration(usual)}"
    else:
        return None
    keys = f" It waits for {join_limited(list(held_by), _SHOWN, ' keys')}." if held_by else ""
    text = (
        f"The event-time watermark of {about.subject} stands at {format_moment(stands)} and {why}.{keys} Numbers after it do not "
        f"become final. 'lakehouse lateness watermark {about.subject}' shows what moved it; ask who delivers it."
    )
    numbers = {"watermark": stands, "newest_arrival": newest, "deliveries_since": unmoved, "held_by": list(held_by)}
    return about.alert(AlertKind.WATERMARK_STALLED, since, text, numbers)


def _never_moved(
    about: AlertSubject, watermarks: Sequence[tuple[datetime, datetime | None]], zone: ZoneInfo, terms: Rhythm
) -> Alert | None:
    if len({business_day_of(arrived, zone) for arrived, _ in watermarks}) <= terms.needs:
        return None
    first, newest = watermarks[0][0], watermarks[-1][0]
    text = (
        f"The event-time watermark of {about.subject} has not moved yet, although {len(watermarks)} deliveries arrived from "
        f"{format_moment(first)} through {format_moment(newest)}. No number becomes final. See 'clocks.watermark' in its "
        "contract: do its deliveries contain what moves the watermark?"
    )
    return about.alert(AlertKind.WATERMARK_STALLED, first, text, {"newest_arrival": newest, "deliveries": len(watermarks)})


def _further_back(watermarks: Sequence[tuple[datetime, datetime]], zone: ZoneInfo, terms: Rhythm) -> timedelta | None:
    """The usual lag of the watermark behind an arrival, if the present lag is greater; else None."""
    newest, stands = watermarks[-1]
    by_day: dict[date, timedelta] = {}
    for arrived, watermark in watermarks:
        day = business_day_of(arrived, zone)
        if arrived > newest - timedelta(days=terms.days) and day < business_day_of(newest, zone):
            by_day[day] = max(by_day.get(day, timedelta(0)), arrived - watermark)
    if len(by_day) < terms.needs:
        return None
    usual = rules.usually(by_day.values())
    return usual if rules.exceeds(newest - stands, usual, terms) else None


def watermark_off(
    about: AlertSubject, proposal: Proposal, catch: float, next_step: timedelta | None, through: datetime
) -> Alert | None:
    """Alert if the share of rows that arrived within the current ``max_lateness`` is below the contract's target.

    :param next_step: the next value that tuning applies automatically; None without automatic tuning.
    :param through: the newest arrival.
    """
    severity = proposal.severity(catch)
    if severity not in {RecommendationSeverity.WARN, RecommendationSeverity.ERROR}:
        return None
    text = f"The event-time watermark of {about.subject} expects rows within {format_duration(proposal.current)}, and "
    text += f"{proposal.caught or 0:.2%} of {proposal.rows:,} rows came within it; the contract wants {catch:.1%}. "
    text += f"Proposed: {format_duration(proposal.watermark)} ({proposal.because}). "
    if next_step is not None:
        text += f"Tuning goes there by itself, next to {format_duration(next_step)}. "
    name = about.subject
    text += (
        f"'lakehouse lateness tuning {name}' shows the alternatives, 'lakehouse lateness tune {name} --apply ...' applies the "
        f"proposal, 'lakehouse lateness pin {name} ...' keeps what is in force."
    )
    spans = {"current": proposal.current, "proposed": proposal.watermark, "needed": proposal.needed, "next_step": next_step}
    numbers = {f"{which}_seconds": None if span is None else span.total_seconds() for which, span in spans.items()}
    numbers |= {"rows": proposal.rows, "caught": proposal.caught, "wanted": catch, "severity": severity.value}
    return about.alert(AlertKind.WATERMARK_OFF, through, text, numbers)


def _not_counted(weekdays: Collection[int]) -> str:
    names = [name for number, name in enumerate(_WEEKDAYS) if number not in weekdays]
    return f" {join_limited([f'{name}s' for name in names], len(_WEEKDAYS))} do not count: nothing arrives then." if names else ""
