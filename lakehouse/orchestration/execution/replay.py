"""Taking arrival days in order, each as if it were today, through the same assets in one process."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files
from lakehouse.bronze.ingest import news
from lakehouse.calendar.days import span
from lakehouse.calendar.event_day import replay_clock
from lakehouse.delta import table_io
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG, gold_key
from lakehouse.orchestration.execution.in_process import InProcess

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.gold.numbers.published_table import Series
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class DayResult:
    """What one arrival day did. ``restated`` are the days written per metric, ``causes`` the keys changed in silver."""

    arrival_date: date
    rows: int
    malformed: int
    files: int
    held: list[str]
    touched: list[date]
    restated: dict[str, list[date]] = field(default_factory=dict)
    causes: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The result in types that JSON knows."""
        plain = asdict(self)
        plain["arrival_date"] = self.arrival_date.isoformat()
        plain["touched"] = [day.isoformat() for day in self.touched]
        plain["restated"] = {metric: [day.isoformat() for day in days] for metric, days in self.restated.items()}
        return plain


@dataclass(frozen=True)
class CaughtUp:
    """The silver days brought up to date, the days written per metric, and what happened to keys, by silver day."""

    touched: list[date]
    restated: dict[str, list[date]]
    causes: dict[str, dict[str, int]]


class Replay:
    """Replays one source.

    :param instance: where Dagster keeps the runs; see :func:`local_instance`.
    :param long_lived: whether many runs are to come: the first start slower then, and the later are faster.
    """

    def __init__(
        self, settings: Settings, catalog: Catalog, source: str, instance: dg.DagsterInstance, *, long_lived: bool = True
    ) -> None:
        settings.spark_long_lived |= long_lived
        self._settings = settings
        self._source = source
        self._catalog = catalog
        self._contract: SourceContract = catalog.sources[source]
        self._metrics = catalog.metrics_of(source)
        self._layers = InProcess(settings, catalog, instance)

    def arrival_days(self, first: date | None = None, last: date | None = None) -> tuple[list[date], list[str]]:
        """The arrival days with files, in order, and complaints about files whose day is not a partition."""
        files, complaints = bronze_landing.landing_files(self._settings, self._contract)
        days = {file.arrival_date for file in files}
        wanted = [day for day in sorted(days) if (first is None or day >= first) and (last is None or day <= last)]
        return wanted, complaints

    def days(self, days: Collection[date]) -> Iterator[DayResult]:
        """Take arrival days through the layers, one after another; what is done already is passed over quickly.

        :raises RunFailedError: when a run fails; start the replay again when the reason is mended.
        """
        lived_through = self._lived_through()
        before: date | None = lived_through
        for day in sorted(days):
            if before is not None:
                self._close_between(before, day)
            before = max(day, before or day)
            self._settings.now = replay_clock(day)
            with table_io.reusing_tables():
                # What a stopped replay left to do must not be done under the clock of an earlier day.
                past = lived_through is not None and day < lived_through and not self._has_news(day)
                result = self._told(day) if past else self.day(day)
            yield result

    def day(self, day: date) -> DayResult:
        """Take one arrival day through the layers."""
        start = perf_counter()
        if self._has_news(day):
            self._layers.run(dg.AssetKey(["bronze", self._source]), [day])
        after = self.catch_up()
        return replace(
            self._told(day),
            touched=after.touched,
            restated=after.restated,
            causes=after.causes,
            seconds=round(perf_counter() - start, 3),
        )

    def _told(self, day: date) -> DayResult:
        """What an arrival day brought, as the ledger says."""
        entries = [entry for entry in ingestions.all_of(self._settings, self._source) if entry.arrival_date == day]
        done = [entry for entry in entries if entry.status == "ingested"]
        held = [entry.message or entry.source_file for entry in ingestions.still_held(entries)]
        return DayResult(
            arrival_date=day,
            rows=sum(entry.rows for entry in done),
            malformed=sum(entry.malformed for entry in done),
            files=len(done),
            held=held + pending_files.left_of_day(self._settings, self._contract, day),
            touched=[],
        )

    def _lived_through(self) -> date | None:
        """The newest arrival day that a replay has begun with."""
        known = ingestions.ingested(ingestions.all_of(self._settings, self._source)).values()
        return max((entry.arrival_date for entry in known if entry.recorded_at == replay_clock(entry.arrival_date)), default=None)

    def catch_up(self) -> CaughtUp:
        """Bring silver up to date on all days that wait, then gold on exactly those that this concerns, and close what is due."""
        touched = sorted(applied_inputs.pending(self._settings, self._source))
        if touched:
            self._layers.run(dg.AssetKey(["silver", self._source]), touched)
        restated: dict[str, list[date]] = {}
        causes: dict[str, dict[str, int]] = {}
        for metric in self._metrics:
            one = served_version.daily(self._settings, self._catalog, metric)
            pending = find_pending(self._settings, one)
            causes |= {cause_day.isoformat(): dict(what) for cause_day, what in pending.causes.items()}
            days = sorted({*pending.starts, *find_due(self._settings, one)})
            if days:
                tag = {FOLLOWS_TAG: f"{metric.name}:{pending.upstream_version}"}
                restated[metric.name] = self._layers.run(gold_key(metric.name), days, tag)
            for rollup in one.rollups:
                self._follow_days(rollup)
        return CaughtUp(touched, restated, causes)

    def _close_between(self, before: date, day: date) -> None:
        """Let the days pass on which nothing arrived: numbers become preliminary and final on them, too."""
        for quiet in list(span(before, day))[1:-1]:
            self._settings.now = replay_clock(quiet)
            with table_io.reusing_tables():
                for metric in self._metrics:
                    one = served_version.daily(self._settings, self._catalog, metric)
                    if due := find_due(self._settings, one):
                        self._layers.run(gold_key(metric.name), due)
                    for rollup in one.rollups:
                        self._follow_days(rollup)

    def _follow_days(self, rollup: Series) -> None:
        """Bring a roll-up up to date with its published days, and close what is due of it."""
        pending = find_pending(self._settings, rollup)
        starts = {*pending.starts, *find_due(self._settings, rollup)}
        if starts:
            tag = {FOLLOWS_TAG: f"{rollup.name}:{pending.upstream_version}"}
            self._layers.run(gold_key(rollup.name), sorted(starts), tag)

    def _has_news(self, day: date) -> bool:
        files, _ = bronze_landing.landing_files(self._settings, self._contract)
        known = ingestions.all_of(self._settings, self._source)
        return any(file.arrival_date == day for file in news(files, known))


def total_causes(results: Collection[DayResult]) -> Counter[str]:
    """All changed keys of some arrival days, by what happened to them."""
    totals: Counter[str] = Counter()
    for result in results:
        for what in result.causes.values():
            totals.update(what)
    return totals
