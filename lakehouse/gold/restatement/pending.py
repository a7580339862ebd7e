"""The periods of a series that must be computed again, and the version up to which a series has followed its upstream table.

Days follow Silver, longer periods follow the published days. Only the logs and small columns of tables are read. Computing the
periods belongs to ``days`` and ``rollups``, publishing them to ``publication.write_audit_publish``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import days_reached
from lakehouse.delta import change_feed, commit_log, provenance
from lakehouse.dimensions import changed_facts
from lakehouse.dimensions.changed_facts import ChangedFacts
from lakehouse.gold.numbers import lifecycle, published_table, served_version
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.publication import candidates, held_numbers
from lakehouse.gold.publication.checks import INPUTS_PASSED
from lakehouse.gold.restatement import closing, derived_inputs
from lakehouse.gold.restatement import silver_tables as tables_read
from lakehouse.gold.restatement.silver_tables import ChangedDays
from lakehouse.late_events import follow as late_events
from lakehouse.ledger import failures, publications
from lakehouse.ledger.publications import Restatement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from deltalake import DeltaTable

    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.restatement.silver_tables import CausesByPlace
    from lakehouse.lake import Lake

#: The cause of rows that did not change themselves, but have another attribute of a dimension.
ATTRIBUTE_CHANGED = "attribute_changed"
#: The cause of rows that did not change themselves, but no longer count because they are late, or count again.
LATENESS_CHANGED = "lateness_changed"


@dataclass(frozen=True)
class PendingRestatement:
    """The periods whose inputs have changed since the series last followed its upstream table.

    :param starts: the first days of these periods.
    :param upstream_version: the version of the upstream table through which changes were read: of Silver for days, of the daily
        table for longer periods; -1 if there is no such table yet.
    :param since: the first version whose changes were read.
    :param causes: for days only: per Silver day the number of keys inserted, corrected, moved and deleted; empty if the change
        feed no longer reaches back.
    :param keys: for days only: a sample of the changed keys per Silver day.
    :param places: for days with windows only: the causes per Silver day, by window or key of sessions.
    :param inputs: for a derived series: the version of each table that it follows, in place of one upstream version.
    :param released: the number of the newest release of a reverted day among them, 0 without one.
    :param further: for days only: the version through which changes were read of each further table, -1 if it does not exist yet:
        of the silver table of each further source, and of the intervals of each dimension.
    :param since_further: for days only: the first version whose changes were read, by further source's silver table.
    :param again: the contract and the code under which numbers that could not be computed are tried again, and the time at which
        checks that hold numbers passed; empty without any.
    :param changed_facts: the Silver rows whose attributes have changed since; their number is among the causes.
    """

    starts: frozenset[date]
    upstream_version: int
    since: int = 0
    causes: Mapping[date, Counter[str]] = field(default_factory=dict)
    keys: Mapping[date, list[str]] = field(default_factory=dict)
    places: CausesByPlace = field(default_factory=dict)
    inputs: Mapping[str, int] = field(default_factory=dict)
    released: int = 0
    further: Mapping[str, int] = field(default_factory=dict)
    since_further: Mapping[str, int] = field(default_factory=dict)
    again: str = ""
    changed_facts: ChangedFacts = field(default_factory=ChangedFacts)

    @property
    def cause(self) -> str:
        """The identity among the pending restatements of the series: runs are requested, and abandoned, for each."""
        followed = "-".join(f"{version}" for version in self.inputs.values()) or f"{self.upstream_version}"
        further = "".join(f"+{version}" for _, version in sorted(self.further.items()))
        return f"{followed}{further}" + (f".{self.released}" if self.released else "") + self.again


def find_pending(lake: Lake, series: Series) -> PendingRestatement:
    """Read the changes of the upstream table since the series last followed it.

    If the log no longer reaches back, all periods are pending; a period whose number is unchanged gets no revision. Days that
    were reverted, and released since, are pending as well. So are numbers that could not be computed under an earlier contract
    or by earlier code, and numbers that a failed check of their inputs holds, which passes now. A metric that followed another
    silver table before has all days pending.
    """
    lake = lake.cached()
    pending, failed = _changed_since(lake, series), failures.may_pass(lake, series)
    released, since = _released_by_checks(lake, series)
    again = f"~{provenance.of_contract(series.metric)}-{provenance.code()}" if failed else ""
    again += f"~{since.isoformat()}" if released and since else ""
    return replace(pending, starts=pending.starts | failed | released, again=again) if again else pending


def _released_by_checks(lake: Lake, series: Series) -> tuple[set[date], datetime | None]:
    """The days whose number is held only because a check of their inputs failed, and that check passes now; and since when.

    The rows of such a day need not have changed: a correction on another day may have mended it.
    """
    if series.kind is not Kind.DAY or series.metric.is_derived:
        return set(), None
    waiting = {day for day, checks in candidates.failing(lake, series).items() if INPUTS_PASSED in checks}
    if not waiting:
        return set(), None
    entries = [entry for source in series.metric.read for entry in failures.recorded_checks(lake, source.source)]
    failing = {day for entry in entries if entry.fails for day in days_reached(series.metric, entry.event_days)}
    return waiting - failing, max((entry.recorded_at for entry in entries if not entry.fails), default=None)


def _changed_since(lake: Lake, series: Series) -> PendingRestatement:
    if series.metric.is_derived:
        return _changed_inputs(lake, series)
    if series.kind is not Kind.DAY:
        return _by_days(lake, series)
    tables, further = tables_read.silver_tables(lake, series.metric), _dimensions(lake, series)
    if not any(tables.values()):
        # Silver that was there and is gone: the run that is to publish these days names it. A table that has yet to be built is
        # no such one: the run that builds it makes the days pending.
        is_unbuilt = any(tables_read.is_unbuilt(lake, entry) for entry in series.metric.read)
        gone = not is_unbuilt and _followed_any(lake, series)
        return PendingRestatement(frozenset(published_table.known_days(lake, series) if gone else ()), -1)
    releases = held_numbers.released_periods(lake, series.name)
    newest = max((entry.number for entry in releases.values()), default=0)
    followed = served_version.followed_version(lake, series)
    of_further = served_version.followed_further(lake, series)
    # The versions are read first: what changes meanwhile stays pending.
    pending = PendingRestatement(frozenset(releases), -1, released=newest, further=further)
    for name, table in tables.items():
        is_first = name == locations.silver_name(series.metric)
        pending = _with_silver(lake, series, pending, name, table, followed if is_first else of_further.get(name, -1))
    pending = _with_late_rows(lake, series, pending, of_further) if series.metric.late_events else pending
    return _with_changed_facts(lake, series, pending) if further and (followed >= 0 or of_further) else pending


def _by_days(lake: Lake, series: Series) -> PendingRestatement:
    """The pending restatement of a longer period: its days were published since."""
    table = locations.gold(lake, series.daily).open()
    if table is None:
        return PendingRestatement(frozenset(), -1)
    version = table.version()
    since = tables_read.first_unfollowed(table, served_version.followed_version(lake, series))
    if since > version:
        return PendingRestatement(frozenset(), version, since)
    return _published_since(lake, series, table, since)


def _with_silver(
    lake: Lake, series: Series, pending: PendingRestatement, name: str, table: DeltaTable | None, followed: int
) -> PendingRestatement:
    """``pending`` with the changes of one more silver table since the version that the metric has followed."""
    is_first = name == locations.silver_name(series.metric)
    version = -1 if table is None else table.version()
    since = 0 if table is None else tables_read.first_unfollowed(table, followed)
    changed, starts = ChangedDays(), set[date]()
    if is_first and followed < 0 <= version and _followed_any(lake, series):
        starts = published_table.known_days(lake, series)
    elif table is not None and since <= version:
        try:
            # The first numbers of a metric need no reason: their windows are not told apart.
            window = tables_read.window_of(series.metric) if since else None
            stored = locations.every_silver_read(lake, series.metric)[name]
            changed = tables_read.since(stored, table, since, series.metric.contract_of_silver(name), window)
            starts = days_reached(series.metric, changed.causes)
        except change_feed.ForgottenFeedError:
            starts = published_table.known_days(lake, series)
    both = ChangedDays(pending.causes, pending.keys, pending.places) + changed
    pending = replace(pending, starts=pending.starts | starts, causes=both.causes, keys=both.keys, places=both.places)
    if is_first:
        return replace(pending, upstream_version=version, since=since)
    return replace(pending, further={**pending.further, name: version}, since_further={**pending.since_further, name: since})


def _with_late_rows(lake: Lake, series: Series, pending: PendingRestatement, followed: Mapping[str, int]) -> PendingRestatement:
    """``pending`` with the days on which other rows count than before because they are late, or no longer late."""
    stored = locations.late_rows(lake, series.metric.source)
    table, name = stored.open(), f"{series.metric.source}_late"
    if table is None:
        return pending
    first = tables_read.first_unfollowed(table, followed.get(name, -1))
    days = late_events.changed_days(table, series.metric.name, first) if first <= table.version() else set()
    if days is None:
        days = published_table.known_days(lake, series)
    causes = {day: Counter(counts) for day, counts in pending.causes.items()}
    for day in days - causes.keys():
        causes[day] = Counter({LATENESS_CHANGED: 1})
    starts = pending.starts | days_reached(series.metric, days)
    further = {**pending.further, name: table.version()}
    return replace(pending, starts=starts, causes=dict(sorted(causes.items())), further=further)


def _dimensions(lake: Lake, series: Series) -> dict[str, int]:
    """The versions of the intervals of the dimensions that a metric joins."""
    return {dimension: locations.intervals(lake, dimension).version() for dimension in series.metric.dimensions}


def _with_changed_facts(lake: Lake, series: Series, pending: PendingRestatement) -> PendingRestatement:
    """``pending`` with the days on which attributes of rows have changed.

    All days are pending if the metric has not joined one of the dimensions before, or if there are too many changes or the feed
    is gone.
    """
    followed = served_version.followed_further(lake, series)
    everything = replace(pending, starts=pending.starts | published_table.known_days(lake, series))
    joined = {name: pending.further[name] for name in series.metric.dimensions}
    if not joined.keys() <= followed.keys():
        return everything
    first = {name: followed[name] + 1 if followed[name] <= version else 0 for name, version in joined.items()}
    if all(first[name] > version for name, version in joined.items()):
        return pending
    try:
        changed = changed_facts.since(lake, series.metric, first)
    except (change_feed.ForgottenFeedError, changed_facts.ManyChangesError):
        return everything
    causes = {day: Counter(counts) for day, counts in pending.causes.items()}
    for day, rows in changed.rows.items():
        causes.setdefault(day, Counter())[ATTRIBUTE_CHANGED] += rows
    keys = {
        day: list(dict.fromkeys([*pending.keys.get(day, ()), *changed.keys.get(day, ())]))[: tables_read.SAMPLE] for day in causes
    }
    starts = pending.starts | days_reached(series.metric, changed.rows)
    return replace(pending, starts=starts, causes=dict(sorted(causes.items())), keys=keys, changed_facts=changed)


def find_due(lake: Lake, contract: SourceContract, series: Series) -> list[date]:
    """The first days of the periods whose number is due for its next state, and of days whose start delay has passed.

    A number that still waits for a condition of ``closing`` is not included.
    """
    lake = lake.cached()
    terms = series.metric.publication
    today = lifecycle.today(lake.now(), terms)
    due_on = published_table.due(lake, series, today)
    limits = closing.limits(lake, contract, series, [series.period(start) for start in due_on])
    starts = _delayed(lake, series, today)
    for start, day in due_on.items():
        last, limit = series.period(start).last, limits.get(start)
        published = State.LIVE if day == lifecycle.next_change(last, State.LIVE, terms) else State.PRELIMINARY
        at_most = limit.at_most if limit else State.FINAL
        if lifecycle.state_of(None, last, today, terms, at_most).rank > published.rank:
            starts.add(start)
    return sorted(starts)


def due_by_calendar(lake: Lake, series: Series, at: datetime) -> list[date]:
    """The result of :func:`find_due` by the calendar at ``at`` alone, whatever the numbers wait for."""
    today = lifecycle.today(at, series.metric.publication)
    return sorted({*published_table.due(lake, series, today), *_delayed(lake, series, today)})


def _delayed(lake: Lake, series: Series, today: date) -> set[date]:
    """The days that were not published before their start delay had passed."""
    terms, is_derived = series.metric.publication, series.metric.is_derived
    if (series.kind is not Kind.DAY and not is_derived) or not terms.start_delay:
        return set()
    days = published_table.published_by_all(lake, series) if is_derived else published_table.days_in_silver(lake, series)
    days -= published_table.starts(lake, series)
    days -= {entry.period_start for entry in held_numbers.rejected(lake, series.name)}
    return {day for day in days if lifecycle.may_be_published(day, today, terms)}


def record_restatement(
    lake: Lake,
    series: Series,
    run_id: str,
    restated: Collection[date],
    requested: Collection[date],
    pending: PendingRestatement | None,
) -> None:
    """Record a run: its restatements and, if it covered everything pending, the version that the series now follows.

    :param restated: the first days of the periods that got a revision or an adjustment.
    :param requested: the first days of the periods that the run computed.
    :param pending: the changes that the run responds to; None if only selected periods were requested.
    """
    complete = pending is not None and pending.starts <= set(requested)
    if not (restated or complete):
        return
    causes = {day.isoformat(): dict(counts) for day, counts in pending.causes.items()} if pending else {}
    followed, further = (pending.upstream_version, pending.further) if pending and complete else (-1, {})
    paths = served_version.further_tables(lake, series) if further else {}
    gold = locations.gold(lake, series).open()
    entry = Restatement(
        metric=served_version.follower(series),
        run_id=run_id,
        as_of=lake.now(),
        followed_version=followed,
        followed_table=served_version.followed_table(series),
        gold_version=-1 if gold is None else gold.version(),
        days=sorted(restated),
        causes=causes,
        followed_further=further,
        gold_commit=commit_log.commit_id(gold),
        followed_commit=served_version.commit_at(served_version.upstream(lake, series), followed),
        further_commits={
            name: served_version.commit_at(paths[name], version) for name, version in further.items() if name in paths
        },
    )
    publications.record_restatement(
        lake, *derived_inputs.entries(lake, series, entry, pending.inputs if pending and complete else {})
    )


def _changed_inputs(lake: Lake, series: Series) -> PendingRestatement:
    changed = derived_inputs.changed_inputs(lake, series)
    releases = held_numbers.released_periods(lake, series.name)
    newest = max((entry.number for entry in releases.values()), default=0)
    return PendingRestatement(changed.starts | releases.keys(), -1, inputs=changed.versions, released=newest)


def _followed_any(lake: Lake, series: Series) -> bool:
    """Whether a series has followed any silver table."""
    return any(entry.followed_version >= 0 for entry in publications.restatements_of(lake, served_version.follower(series)))


def _published_since(lake: Lake, series: Series, table: DeltaTable, since: int) -> PendingRestatement:
    version, daily = table.version(), series.daily
    history = commit_log.history(table, since - 1)
    if len(history) <= version - since:
        days = published_table.starts(lake, daily)
    else:
        metadata = [commit_log.commit_metadata(commit) for commit in history]
        named = (text for entry in metadata for of in (*published_table.CHANGED, "booked_on") for text in entry.get(of, ()))
        days = {date.fromisoformat(text) for text in named}
    return PendingRestatement(frozenset(period.start for period in series.periods(days)), version, since)
