"""The results of a simulation of late data, as plain values.

Reading them from tables belongs to ``simulation_results``; writing the report belongs to ``reports.simulation_report``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.gold.numbers.comparison import Number, Sides, added

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime, timedelta


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
