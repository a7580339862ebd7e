"""The conditions that a period waits for before its number becomes final: rule R13, final means complete.

Belongs here: the facts that make a period incomplete, read from the tables of its sources, and the sentences about them. The
calendar gives the earliest moment of a close, see ``numbers.lifecycle``; it is not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.days import end_of_day
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import source_days
from lakehouse.dispositions import account_tables, unread
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.publication import candidates
from lakehouse.gold.restatement import derived_inputs as derived_following
from lakehouse.gold.restatement.lineage import undecided
from lakehouse.late_events.left_out import moment_of_end
from lakehouse.lateness import event_watermark, missing_inputs
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse.ledger import failures, ingestions
from lakehouse.text import format_moment, join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.unread import UnreadOfSource
    from lakehouse.lake import Lake
    from lakehouse.lateness.event_watermark import SourceWatermark
    from lakehouse.lateness.missing_inputs import MissingInput
    from lakehouse.ledger.ingestions import Ingestion

_SHOWN = 3


@dataclass(frozen=True)
class Limit:
    """The latest state that a period may have, and why.

    :param waits_for: what is missing, as sentences for people.
    """

    at_most: State
    waits_for: Sequence[str]


@dataclass(frozen=True)
class SourceState:
    """The known gaps in the input of a source at one time.

    :param watermark: None if the contract has none.
    :param held: files that are held; only their arrival day is known.
    :param missing: the missing inputs that the sensors report for landing.
    :param undecided: the number of rows per event day that wait for a steward.
    :param unread: the malformed rows.
    """

    contract: SourceContract
    watermark: SourceWatermark | None
    held: Sequence[Ingestion]
    missing: Sequence[MissingInput]
    undecided: Mapping[date, int]
    unread: UnreadOfSource


@dataclass(frozen=True)
class Completeness:
    """The known state of the inputs of a series at one time.

    :param sources: the required sources; ``dimensions`` are those that the metric joins.
    :param open_days: published days that are not final; only for a longer period.
    :param held_days: days whose newest number is held; only for a longer period.
    """

    series: Series
    sources: Sequence[SourceState]
    open_days: Collection[date]
    held_days: Collection[date] = ()
    dimensions: Sequence[SourceState] = ()

    def limit(self, period: Period) -> Limit | None:
        """The latest state that a period may have; None if nothing is known to be missing."""
        missing = self._missing(period)
        if not missing:
            return None
        watched = [source.watermark for source in self.sources] if self.series.metric.publication.final_needs.watermark else []
        is_over = all(one is None or one.watermark >= self.end_of(period) for one in watched)
        return Limit(State.PRELIMINARY if is_over else State.LIVE, missing)

    def _missing(self, period: Period) -> list[str]:
        needs = self.series.metric.publication.final_needs
        missing = [text for source in self.sources for text in self._missing_of(source, period)]
        missing += [text for dimension in self.dimensions for text in self._missing_of_dimension(dimension, period)]
        if needs.final_days and (open_days := sorted({*self.open_days}.intersection(period.days))):
            missing.append(f"not final yet: {join_limited([f'{day}' for day in open_days], _SHOWN)}")
        if needs.final_days and (held := sorted({*self.held_days}.intersection(period.days))):
            missing.append(f"the new number is held: {join_limited([f'{day}' for day in held], _SHOWN)}")
        return missing

    def _missing_of(self, source: SourceState, period: Period) -> list[str]:
        """The missing inputs of one source; the source is named if the metric has several."""
        needs = self.series.metric.publication.final_needs
        missing = []
        if needs.no_held_file:
            missing += self._held_files(source, period)
        kinds = {"unfinished_day": needs.no_unfinished_day, "failed_ingestion": needs.no_failed_ingestion}
        kinds["stream_gap"] = needs.no_failed_ingestion
        missing += [one.text for one in source.missing if kinds[one.kind] and period.start <= one.arrival_date]
        if needs.no_open_review:
            missing += self._reviews(source, period)
        if needs.no_unread_row:
            missing += self._unread_rows(source, period)
        if self.series.metric.sources:
            missing = [f"{source.contract.dataset}: {text}" for text in missing]
        return [*(self._watermark(source, period) if needs.watermark else []), *missing]

    def _missing_of_dimension(self, dimension: SourceState, period: Period) -> list[str]:
        """The missing changes of a joined dimension: a change holds from its day on, so those of earlier days count, too."""
        needs, missing = self.series.metric.publication.final_needs, list[str]()
        if needs.no_held_file and dimension.held:
            names = sorted({entry.source_file for entry in dimension.held})
            missing.append(f"held: {join_limited(names, _SHOWN, ' files')}")
        if needs.no_open_review:
            missing += _reviews_text(sum(rows for day, rows in dimension.undecided.items() if day <= period.last))
        if needs.no_unread_row:
            rows, example = dimension.unread.missing_until(period.last)
            missing += [unread_text(dimension.contract.dataset, rows, example)] if rows else []
        return [f"{dimension.contract.dataset}: {text}" for text in missing]

    def _watermark(self, source: SourceState, period: Period) -> list[str]:
        state = source.watermark
        if state is None:
            return []
        wanted = self.end_of(period) + self.closing_lateness(source.contract)
        if state.watermark >= wanted:
            return []
        stands = "has not moved yet" if state.watermark == BEGINNING else f"stands at {format_moment(state.watermark)}"
        since = f"; nothing newer than {format_moment(state.steps[-1].arrived)} has arrived" if state.steps else ""
        held = f", held by {join_limited(state.held_by, _SHOWN, ' keys')}," if state.held_by else ""
        return [f"the watermark of {state.source} {stands}{held} and has to pass {format_moment(wanted)}{since}"]

    def _held_files(self, source: SourceState, period: Period) -> list[str]:
        """A file may hold rows of any day up to its arrival day."""
        names = sorted({entry.source_file for entry in source.held if period.start <= entry.arrival_date})
        return [f"held: {join_limited(names, _SHOWN, ' files')}"] if names else []

    def _reviews(self, source: SourceState, period: Period) -> list[str]:
        days = source_days(self.series.metric, period.days)
        return _reviews_text(sum(source.undecided.get(day, 0) for day in days))

    def _unread_rows(self, source: SourceState, period: Period) -> list[str]:
        rows, example = source.unread.missing_of(source_days(self.series.metric, period.days))
        return [unread_text(source.contract.dataset, rows, example)] if rows else []

    def end_of(self, period: Period) -> datetime:
        """The moment at which a period is over, with the windows that begin in it."""
        return _over(self.series, period, self.sources[0].contract).astimezone(timezone.utc)

    def closing_lateness(self, contract: SourceContract) -> timedelta:
        """The time by which the watermark of a source must have passed a period: that of the tier that closes this kind of
        period, else 0.
        """
        serves = self.series.metric.publication.closes_with.get(self.series.kind.value)
        return next((tier.within for tier in contract.lateness.tiers if tier.serves == serves), timedelta(0))


def completeness(lake: Lake, contract: SourceContract, series: Series, periods: Collection[Period]) -> Completeness:
    """The present state of the required sources for ``periods``.

    :param contract: of the metric's (first) source.
    """
    days = {day for period in periods for day in period.days}
    is_longer = series.kind is not Kind.DAY
    open_days = _open_days(lake, series, days) if is_longer else frozenset()
    held_days = _held_days(lake, series.daily) if is_longer else frozenset()
    known = series.metric.source_contracts
    required = [known.get(entry.source, contract) for entry in series.metric.read if entry.required]
    sources = [read_source(lake, one, source_days(series.metric, days)) for one in required]
    dimensions = [read_source(lake, series.metric.dimensions[name]) for name in joined_dimensions(series)]
    return Completeness(series, sources, open_days, held_days, dimensions)


def joined_dimensions(series: Series) -> list[str]:
    """The dimensions whose changes the numbers of a series depend on, each once."""
    return sorted({join.dimension for join in series.metric.joins if join.dimension in series.metric.dimensions})


def read_source(lake: Lake, contract: SourceContract, days: Collection[date] | None = None) -> SourceState:
    """The present gaps in the input of a source.

    :param days: the event days whose reviews and unread rows are counted; default: all.
    """
    account_tables.restore(lake, contract)
    return SourceState(
        contract,
        event_watermark.of_source(lake, contract),
        ingestions.still_held(ingestions.all_of(lake, contract.dataset)),
        missing_inputs.of(lake, contract.dataset),
        undecided(lake, contract.dataset, days),
        unread.of_source(lake, contract, days),
    )


def limits(
    lake: Lake,
    contract: SourceContract,
    series: Series,
    periods: Collection[Period],
    computed: Collection[date] = (),
) -> dict[date, Limit]:
    """By first day, the latest state that ``periods`` may have at present; periods that nothing delays are left out.

    :param computed: the periods whose number has just been computed, whether or not it failed before.
    """
    if not periods:
        return {}
    starts = [period.start for period in periods]
    if series.metric.is_derived:
        limited = {start: Limit(*limit) for start, limit in derived_following.limits(lake, series, starts).items()}
    else:
        known = completeness(lake, contract, series, periods)
        limited = {period.start: limit for period in periods if (limit := known.limit(period)) is not None}
    for start, failed in failures.failing(lake, series.name, starts).items():
        if start not in computed:
            limited[start] = Limit(State.LIVE, [failed.explanation, *(limited[start].waits_for if start in limited else ())])
    return limited


def waits_for(lake: Lake, contract: SourceContract, series: Series, periods: Collection[Period]) -> dict[date, list[str]]:
    """By first day, the conditions that those published ``periods`` wait for which are not final."""
    where = {series.by: [period.start for period in periods], "is_latest": [True]}
    found = locations.gold(lake, series).read([series.by, "state"], where)
    if found is None:
        return {}
    unfinished = set(found.filter(pc.not_equal(found["state"], State.FINAL.value))[series.by].to_pylist())
    limited = limits(lake, contract, series, [period for period in periods if period.start in unfinished])
    return {start: list(limit.waits_for) for start, limit in limited.items()}


class End(NamedTuple):
    """When a period or a window ends, and whether the watermark has passed that.

    :param passed: with what the metric allows for late rows; None where a source has no watermark, and for a derived metric.
    """

    at: datetime
    passed: bool | None


def _zone(series: Series, source: SourceContract | None) -> ZoneInfo:
    return ZoneInfo(series.metric.publication.timezone or (source.clocks.timezone if source else "UTC"))


def _over(series: Series, period: Period, source: SourceContract | None) -> datetime:
    return end_of_day(period.last + timedelta(series.metric.days_behind), _zone(series, source))


def end_of(
    series: Series, source: SourceContract | None, period: Period, window: datetime | None, watermarks: Sequence[datetime | None]
) -> End:
    """The end of a period, or of a window of a day.

    :param source: the contract of the metric's (first) source.
    :param window: the first moment of the window.
    :param watermarks: of the required sources of the metric.
    """
    metric = series.metric
    end = _over(series, period, source) if window is None else moment_of_end(period.start, window, metric, _zone(series, source))
    known = [] if metric.is_derived else [one for one in watermarks if one is not None]
    tolerance = metric.late_events.tolerance if metric.late_events else timedelta(0)
    return End(end, min(known) >= end + tolerance if known and len(known) == len(watermarks) else None)


def watermarks(lake: Lake, contract: SourceContract, series: Series) -> list[datetime | None]:
    """The present watermark of each required source of a metric; None for a source without one."""
    known = series.metric.source_contracts
    required = [] if series.metric.is_derived else [known.get(one.source, contract) for one in series.metric.read if one.required]
    states = [event_watermark.of_source(lake, one) for one in required]
    return [None if state is None else state.watermark for state in states]


class HeldNumber(NamedTuple):
    """Why the newest number of a period is held, and the sentence with which the published one waits for it."""

    because: str
    waits_for: str


def held_by(series: Series, uncomputed: str | None, checks: Collection[str]) -> HeldNumber | None:
    """Why a number is held; None if it is not.

    :param uncomputed: the sentence about a number that could not be computed. ``checks`` are those that it failed.
    """
    if uncomputed:
        return HeldNumber(uncomputed, uncomputed)
    if not checks:
        return None
    because = f"it failed {', '.join(checks)}; 'lakehouse gold held {series.metric.name}' shows why"
    return HeldNumber(because, f"a newer number is held: {because}")


def held(lake: Lake, series: Series, start: date) -> HeldNumber | None:
    """Why the newest number of a period is held: it could not be computed, or failed checks; None if it is not held."""
    failed = failures.failing(lake, series.name, [start]).get(start)
    checks = [] if failed else [*candidates.failing(lake, series).get(start, ())]
    return held_by(series, failed.explanation if failed else None, checks)


def with_held(held: HeldNumber | None, missing: Sequence[str]) -> list[str]:
    """Everything that a number waits for: the newer number that is held, then what is missing."""
    return list(missing) if held is None else [held.waits_for, *(text for text in missing if text != held.waits_for)]


def _held_days(lake: Lake, daily: Series) -> frozenset[date]:
    """The days whose newest number failed a check, or cannot be computed."""
    return frozenset(candidates.holding(lake, daily))


def _reviews_text(rows: int) -> list[str]:
    return [f"{rows:,} {'row waits' if rows == 1 else 'rows wait'} for a steward"] if rows else []


def unread_text(source: str, rows: int, example: str | None) -> str:
    """A sentence about the unread rows that a number waits for, with the command that lists them."""
    why = f": {example}" if example else ""
    return f"{rows:,} {'row' if rows == 1 else 'rows'} could not be read{why}; 'lakehouse rows {source} --malformed' lists them"


def _open_days(lake: Lake, rollup: Series, days: Collection[date]) -> frozenset[date]:
    """Those ``days`` that are published and not final."""
    daily = rollup.daily
    where = {daily.by: days, "is_latest": [True]}
    found = locations.gold(lake, daily).read([daily.by, "state"], where)
    if found is None:
        return frozenset()
    return frozenset(found.filter(pc.not_equal(found["state"], State.FINAL.value))[daily.by].to_pylist())
