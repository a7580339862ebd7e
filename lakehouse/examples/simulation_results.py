"""The results of a simulation of late data, read from its tables as plain values.

They are its progress, each day's revisions, and the published versions. The events are generated in ``examples.late_events``; the
report is written in ``examples.simulation_commands``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse import locations
from lakehouse.calendar.days import end_of_day
from lakehouse.examples.late_events import METRIC, SOURCE
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.comparison import Number, Sides, added
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lateness import event_watermark
from lakehouse.ledger import ingestions, publications

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake
    from lakehouse.ledger.publications import Publication


@dataclass(frozen=True)
class SimulatedDay:
    """One measure of one event day, over the whole grain.

    :param provisional: the number first published; ``final`` is the last one.
    :param revisions: the number of each revision, first to last.
    :param on_time: the number of rows that had arrived when the day was first published; ``late`` is the number of later rows.
    :param preliminary: the first number published as preliminary, if any.
    """

    period: str
    measure: str
    provisional: Number | None
    final: Number | None
    revisions: tuple[Number | None, ...]
    on_time: int
    late: int
    preliminary: Number | None = None

    @property
    def sides(self) -> Sides:
        """The provisional and the final number."""
        return Sides(self.provisional, self.final)

    def distances(self) -> tuple[float, ...]:
        """The distance of each revision from the final number in percent; empty if the final number is 0 or unknown."""
        found = [Sides(self.final, said).ratio for said in self.revisions]
        return tuple(float(one) for one in found if one is not None) if all(one is not None for one in found) else ()


@dataclass(frozen=True)
class SimulatedPromotion:
    """A line of the log: the published version of a period, its time, and its inputs."""

    period: str
    version: str
    state: str
    reason: str
    published_at: datetime
    inputs: str
    output: str


@dataclass(frozen=True)
class RowAfterWatermark:
    """A row that arrived after the watermark had passed its event day.

    :param in_final: whether the final number of the day contains it; otherwise it is booked as an adjustment.
    """

    period: str
    event: str
    happened_at: datetime
    arrived_at: datetime
    in_final: bool

    @property
    def lateness(self) -> timedelta:
        """How long after the event it arrived."""
        return self.arrived_at - self.happened_at


@dataclass(frozen=True)
class SimulatedClose:
    """How an event day became final.

    :param due: the day on which the contract lets it become final; ``closed`` is the day on which it did.
    :param passed_at: when the watermark passed the end of the day.
    :param after: the rows that arrived after that.
    """

    period: str
    due: date
    passed_at: datetime | None
    closed: date | None
    after: tuple[RowAfterWatermark, ...] = ()

    @property
    def waited(self) -> int:
        """For how many days the close waited for the watermark."""
        return 0 if self.closed is None else max((self.closed - self.due).days, 0)


@dataclass(frozen=True)
class Simulation:
    """The results of a completed simulation.

    :param parameters: the simulation's parameters, by name.
    :param additive: the measures whose values over days may be added up.
    :param closes: how each day became final.
    """

    title: str
    parameters: Mapping[str, object]
    days: tuple[SimulatedDay, ...]
    promotions: tuple[SimulatedPromotion, ...]
    made_at: datetime
    additive: frozenset[str] = frozenset()
    closes: tuple[SimulatedClose, ...] = ()

    @property
    def after_watermark(self) -> tuple[RowAfterWatermark, ...]:
        """The rows that arrived after the watermark had passed their day, in the order of arrival."""
        return tuple(sorted((row for close in self.closes for row in close.after), key=lambda row: (row.arrived_at, row.event)))

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures, in the order of their first day."""
        return tuple(dict.fromkeys(day.measure for day in self.days))

    @property
    def periods(self) -> tuple[str, ...]:
        """All days, sorted."""
        return tuple(sorted({day.period for day in self.days}))

    def of(self, measure: str) -> tuple[SimulatedDay, ...]:
        """The days of one measure, in order."""
        return tuple(sorted((day for day in self.days if day.measure == measure), key=lambda day: day.period))

    def totals(self) -> dict[str, Sides]:
        """The provisional and final sums of the measures that add up."""
        return {
            measure: Sides(added(day.provisional for day in self.of(measure)), added(day.final for day in self.of(measure)))
            for measure in self.measures
            if measure in self.additive
        }

    def restated(self) -> tuple[str, ...]:
        """The days whose final number differs from the provisional one."""
        return tuple(sorted({day.period for day in self.days if day.sides.changed}))

    def arrived(self) -> tuple[int, int]:
        """The numbers of on-time and late rows; each day counts once, however many measures it has."""
        of_day = {day.period: (day.on_time, day.late) for day in self.days}
        return sum(on_time for on_time, _ in of_day.values()), sum(late for _, late in of_day.values())


def simulation(
    lake: Lake,
    daily: Series,
    contract: SourceContract,
    title: str,
    parameters: Mapping[str, object],
    made_at: datetime,
) -> Simulation:
    """The published history of a metric's days, and the watermark of their source; the log also includes their roll-ups."""
    known = _history(lake, daily)
    rows = _rows(lake, contract)
    days = [result for day, versions in known.items() for result in _days(daily, versions, len(rows.get(day, ())))]
    log = _promotions(lake, daily, known.values())
    for rollup in daily.rollups:
        log += _promotions(lake, rollup, _history(lake, rollup).values())
    log.sort(key=lambda one: (one.published_at, one.version))
    return Simulation(
        title,
        parameters,
        tuple(days),
        tuple(log),
        made_at,
        frozenset(daily.metric.additive),
        _closes(lake, daily, contract, known, rows),
    )


def lived_through(lake: Lake, daily: Series) -> date | None:
    """The newest day of an ingestion or publication: a stopped simulation continues on this day.

    The remaining work of this day must not run under the clock of an earlier day.
    """
    moments = {entry.recorded_at for entry in ingestions.all_of(lake, daily.metric.source)}
    for one in (daily, *daily.rollups):
        found = locations.gold(lake, one).read(["published_at"], None)
        moments |= set() if found is None else set(found["published_at"].to_pylist())
    return max(moments).date() if moments else None


def table_versions(lake: Lake) -> list[int]:
    """The versions of the tables that users read."""
    names = (("silver", SOURCE), ("gold", METRIC), ("gold", f"{METRIC}_weekly"), ("ops", "publications"))
    return [lake.table(layer, name).version() for layer, name in names]


def _history(lake: Lake, one: Series) -> dict[date, list[PublishedVersion]]:
    return dict(sorted(numbers_history.history(lake, one).items()))


def _rows(lake: Lake, contract: SourceContract) -> dict[date, list[dict[str, Any]]]:
    """Key, event time and arrival time of the rows of silver, by event day."""
    columns = ["record_key", "event_date", "event_ts", "arrival_ts"]
    rows = locations.silver(lake, contract.dataset).read(columns, None)
    by_day: dict[date, list[dict[str, Any]]] = {}
    for row in [] if rows is None else rows.to_pylist():
        by_day.setdefault(row["event_date"], []).append(row)
    return by_day


def _days(daily: Series, versions: Sequence[PublishedVersion], rows: int) -> list[SimulatedDay]:
    """The results of one day, one for each measure.

    :param rows: the number of its rows, those after the close included.
    """
    versions = [version for version in versions if version.adjustment is None]
    totals = [{name: sides.after for name, sides in moved.items()} for moved in numbers_history.moved(daily, versions)]
    preliminary = next((numbers for version, numbers in zip(versions, totals) if version.state is State.PRELIMINARY), {})
    on_time = sum(row["row_count"] for row in versions[0].rows)
    return [
        SimulatedDay(
            period=versions[0].period,
            measure=measure,
            provisional=totals[0][measure],
            final=totals[-1][measure],
            revisions=tuple(numbers[measure] for numbers in totals),
            on_time=on_time,
            late=rows - on_time,
            preliminary=preliminary.get(measure),
        )
        for measure in totals[0]
    ]


def _closes(
    lake: Lake,
    daily: Series,
    contract: SourceContract,
    known: Mapping[date, Sequence[PublishedVersion]],
    rows: Mapping[date, Sequence[Mapping[str, Any]]],
) -> tuple[SimulatedClose, ...]:
    """How each day became final, by the clocks of its rows and the times of its publications."""
    if not known:
        return ()
    ends = max(version.published_at for versions in known.values() for version in versions)
    state = event_watermark.of_source(lake, contract, ends)
    if state is None:
        return ()
    closes = []
    for day, versions in known.items():
        passed = event_watermark.passed_at(state, end_of_day(day, ZoneInfo(contract.clocks.timezone)))
        closed = next((version.published_at for version in versions if version.state is State.FINAL), None)
        after = [
            RowAfterWatermark(
                f"{day}",
                row["record_key"],
                row["event_ts"],
                row["arrival_ts"],
                in_final=closed is not None and row["arrival_ts"].date() <= closed.date(),
            )
            for row in rows.get(day, ())
            if passed is not None and row["arrival_ts"] > passed
        ]
        due = day + timedelta(days=daily.metric.publication.final_after)
        closes.append(SimulatedClose(f"{day}", due, passed, closed.date() if closed else None, tuple(after)))
    return tuple(closes)


def _promotions(lake: Lake, series: Series, histories: Iterable[Sequence[PublishedVersion]]) -> list[SimulatedPromotion]:
    versions = {version.name: version for history in histories for version in history}
    return [
        SimulatedPromotion(
            period=versions[name].period,
            version=name,
            state=versions[name].state.value,
            reason=versions[name].reason.value,
            published_at=versions[name].published_at,
            inputs=_inputs(publication),
            output=f"gold/{series.name}@{publication.gold_version}",
        )
        for publication in publications.of(lake, series.name)
        for name in publication.published.values()
    ]


def _inputs(publication: Publication) -> str:
    """The input tables of a publication, each with its version; silver also with the arrivals that it contains."""
    inputs = []
    for table, version in publication.input_versions.items():
        arrivals = f", arrivals to {version['arrivals_through']}" if version.get("arrivals_through") else ""
        inputs.append(f"{table}@{version['version']}{arrivals}")
    return "; ".join(inputs)
