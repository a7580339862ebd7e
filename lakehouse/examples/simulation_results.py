"""Reads a simulation's results from its tables: its progress, each day's revisions, and the published versions.

The events are generated in ``examples.late_events``; the report is written in ``reports.simulation_report``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.examples.simulation_report import SimulatedDay, SimulatedPromotion, Simulation
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.ledger import ingestions, publications

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.ledger.publications import Publication
    from lakehouse.settings import Settings


def simulation(settings: Settings, daily: Series, title: str, parameters: Mapping[str, object], made_at: datetime) -> Simulation:
    """The published history of a metric's days; the log also includes their roll-ups."""
    known = _history(settings, daily)
    days = [day for versions in known.values() for day in _days(daily, versions)]
    log = _promotions(settings, daily, known.values())
    for rollup in daily.rollups:
        log += _promotions(settings, rollup, _history(settings, rollup).values())
    log.sort(key=lambda one: (one.published_at, one.version))
    return Simulation(title, parameters, tuple(days), tuple(log), made_at, frozenset(daily.metric.additive))


def lived_through(settings: Settings, daily: Series) -> date | None:
    """The newest day of an ingestion or publication: a stopped simulation continues on this day.

    The remaining work of this day must not run under the clock of an earlier day.
    """
    moments = {entry.recorded_at for entry in ingestions.all_of(settings, daily.metric.source)}
    for one in (daily, *daily.rollups):
        found = table_io.read(locations.gold(settings, one), ["published_at"], None, settings.storage_options)
        moments |= set() if found is None else set(found["published_at"].to_pylist())
    return max(moments).date() if moments else None


def _history(settings: Settings, one: Series) -> dict[date, list[PublishedVersion]]:
    starts = published_table.partitions(settings, locations.gold(settings, one), one.by)
    return dict(sorted(numbers_history.history(settings, one, starts).items()))


def _days(daily: Series, versions: Sequence[PublishedVersion]) -> list[SimulatedDay]:
    """The results of one day, one for each measure."""
    totals = [{name: sides.after for name, sides in moved.items()} for moved in numbers_history.moved(daily, versions)]
    preliminary = next((numbers for version, numbers in zip(versions, totals) if version.state is State.PRELIMINARY), {})
    counts = [sum(row["row_count"] for row in version.rows) for version in versions]
    return [
        SimulatedDay(
            period=versions[0].period,
            measure=measure,
            provisional=totals[0][measure],
            final=totals[-1][measure],
            revisions=tuple(numbers[measure] for numbers in totals),
            on_time=counts[0],
            late=counts[-1] - counts[0],
            preliminary=preliminary.get(measure),
        )
        for measure in totals[0]
    ]


def _promotions(settings: Settings, series: Series, histories: Iterable[Sequence[PublishedVersion]]) -> list[SimulatedPromotion]:
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
        for publication in publications.of(settings, series.name)
        for name in publication.published.values()
    ]


def _inputs(publication: Publication) -> str:
    """The input tables of a publication, each with its version; silver also with the arrivals that it contains."""
    inputs = []
    for table, version in publication.input_versions.items():
        arrivals = f", arrivals to {version['arrivals_through']}" if version.get("arrivals_through") else ""
        inputs.append(f"{table}@{version['version']}{arrivals}")
    return "; ".join(inputs)
