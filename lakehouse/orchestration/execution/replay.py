"""Replays history: processes arrival days in order, each as if it were today, with the same assets in one process.

The simulated clock belongs to the replay, which works on a copy of its lake. ``catch_up`` updates silver and gold after each
arrival day, as after a steward's decision.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files
from lakehouse.bronze.pending_files import UnfinishedFiles
from lakehouse.calendar.days import replay_clock, span
from lakehouse.lake import SimulatedClock
from lakehouse.lake.table_cache import TableCache
from lakehouse.lake.table_folder import counted_requests
from lakehouse.ledger import ingestions
from lakehouse.orchestration.execution.catch_up import catch_up, close_due
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.orchestration.run_events import asset_key
from lakehouse.silver import replaced_days

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import date

    import dagster as dg

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class DayResult:
    """The result of one arrival day. ``restated`` are the days written per metric, ``causes`` the keys changed in silver;
    ``unread_reason`` is why its first malformed row is malformed. ``absent`` are the event days that a re-sent range lacks.
    ``held`` and ``left`` name the files that were not ingested, with the reasons (see ``pending_files.UnfinishedFiles``).
    ``object_store`` is what was done there, by table, see ``lake.table_folder.counted_requests``.
    """

    arrival_date: date
    rows: int
    malformed: int
    files: int
    held: list[str]
    touched: list[date]
    restated: dict[str, list[date]] = field(default_factory=dict)
    causes: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: float = 0.0
    unread_reason: str | None = None
    absent: list[date] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    object_store: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The result in JSON types."""
        plain = asdict(self)
        plain["arrival_date"] = self.arrival_date.isoformat()
        plain |= {name: [day.isoformat() for day in getattr(self, name)] for name in ("touched", "absent")}
        plain["restated"] = {metric: [day.isoformat() for day in days] for metric, days in self.restated.items()}
        return plain


class Replay:
    """Replays one source under a simulated clock; ``lake`` is not changed.

    :param instance: the Dagster instance that stores the runs; see :func:`local_instance`.
    """

    def __init__(self, lake: Lake, catalog: Catalog, source: str, instance: dg.DagsterInstance) -> None:
        self._clock = SimulatedClock(lake.now())
        self._tables = lake.cache or TableCache()
        long_lived = lake.with_settings(spark_long_lived=True)
        self._lake = long_lived.at(self._clock).cached(self._tables)
        self._source = source
        self._catalog = catalog
        self._contract: SourceContract = catalog.sources[source]
        self._layers = InProcess(self._lake, catalog, instance)

    @property
    def failed_checks(self) -> Collection[str]:
        """The checks with severity ERROR that failed in the replay's runs, and have not passed since."""
        return self._layers.failed_checks.values()

    def arrival_days(self, first: date | None = None, last: date | None = None) -> tuple[list[date], list[str]]:
        """The arrival days with files, in order, and complaints about files that belong to none."""
        listing = bronze_landing.listing(self._lake, self._contract)
        unmatched = listing.unmatched_complaints(self._lake, self._contract, self._catalog.sources.values())
        days, complaints = {file.arrival_date for file in listing.files}, [*listing.complaints, *unmatched.values()]
        wanted = [day for day in sorted(days) if (first is None or day >= first) and (last is None or day <= last)]
        return wanted, complaints

    def days(self, days: Collection[date]) -> Iterator[DayResult]:
        """Process arrival days through the layers, one after another; completed days are skipped.

        :raises RunFailedError: if a run fails; start the replay again once the cause is fixed.
        """
        with self._lake.step():
            lived_through = self._lived_through()
        before: date | None = lived_through
        for day in sorted(days):
            if before is not None:
                self._close_between(before, day)
            before = max(day, before or day)
            self._begin(day)
            # The remaining work of a stopped replay must not run under the clock of an earlier day.
            past = lived_through is not None and day < lived_through and not self._has_unseen_files(day)
            yield self._recorded(day, UnfinishedFiles()) if past else self._take(day)

    def _begin(self, day: date) -> None:
        """Set the clock to the end of ``day``; the cached reads of earlier days are dropped."""
        self._clock.set(replay_clock(day))
        self._tables.forget_answers()

    def _take(self, day: date) -> DayResult:
        """Process one arrival day through the layers."""
        with counted_requests() as requests, self._lake.step():
            self._lake.expect(locations.of_run(self._lake, self._catalog, self._source))
            done = self._layer_by_layer(day)
        return replace(done, object_store=requests)

    def _layer_by_layer(self, day: date) -> DayResult:
        start = perf_counter()
        held = replaced_days.rows_by_day(self._lake, self._contract)
        before = ingestions.inputs(ingestions.all_of(self._lake, self._source)).keys() if held else ()
        unfinished = UnfinishedFiles()
        if self._has_unseen_files(day):
            self._layers.expect_spark(self._source)
            self._layers.run(asset_key("bronze", self._source), [day])
            unfinished = pending_files.unfinished(self._lake, self._contract, day, self._catalog.sources.values())
        after = catch_up(self._lake, self._catalog, self._source, self._layers)
        return replace(
            self._recorded(day, unfinished),
            absent=self._absent(day, before, held),
            touched=after.silver_days,
            restated=after.restated,
            causes=after.causes,
            seconds=round(perf_counter() - start, 3),
        )

    def _absent(self, day: date, before: Collection[str], held: Mapping[date, int]) -> list[date]:
        """The event days that the files of an arrival day lack.

        :param before: the inputs that were known before; ``held`` are the rows that silver had.
        """
        if not held:
            return []
        known = ingestions.inputs(ingestions.all_of(self._lake, self._source))
        entries = [entry for name, entry in known.items() if name not in before and entry.arrival_date == day]
        replaced = replaced_days.replaced_by(self._contract, entries, held, held)
        return [] if replaced is None else [*replaced.absent]

    def _recorded(self, day: date, unfinished: UnfinishedFiles) -> DayResult:
        """The ingestions of an arrival day, from the ledger."""
        entries = [entry for entry in ingestions.all_of(self._lake, self._source) if entry.arrival_date == day]
        done = [entry for entry in entries if entry.status == "ingested"]
        return DayResult(
            arrival_date=day,
            rows=sum(entry.rows for entry in done),
            malformed=sum(entry.malformed for entry in done),
            files=len(done),
            held=[*unfinished.held],
            left=[*unfinished.left],
            touched=[],
            unread_reason=ingestions.first_reason(
                self._lake, self._source, [entry.ingestion_id for entry in done if entry.malformed]
            ),
        )

    def _lived_through(self) -> date | None:
        """The newest arrival day of files ingested by a replay."""
        known = ingestions.ingested(ingestions.all_of(self._lake, self._source)).values()
        return max((entry.arrival_date for entry in known if entry.recorded_at == replay_clock(entry.arrival_date)), default=None)

    def _close_between(self, before: date, day: date) -> None:
        """Process the days without arrivals in between, on which numbers also become preliminary and final."""
        for quiet in list(span(before, day))[1:-1]:
            self._begin(quiet)
            close_due(self._lake, self._catalog, self._source, self._layers)

    def _has_unseen_files(self, day: date) -> bool:
        files = bronze_landing.listing_of_days(self._lake, self._contract, [day]).files
        of_day = (file for file in files if file.arrival_date == day)
        return bool(pending_files.unseen_files(of_day, ingestions.all_of(self._lake, self._source)))


def total_causes(results: Collection[DayResult]) -> Counter[str]:
    """The numbers of changed keys of all results, by kind of change."""
    totals: Counter[str] = Counter()
    for result in results:
        for what in result.causes.values():
            totals.update(what)
    return totals
