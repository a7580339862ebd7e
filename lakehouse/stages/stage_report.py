"""The changes that a stage would make, to rows, numbers and longer periods, and the thresholds that they exceed.

Belongs here: the report, as plain data, and the rules about it. It is computed in ``validation``.
"""

from __future__ import annotations

from datetime import date  # noqa: TC003 (pydantic reads it)
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from lakehouse.gold.numbers.comparison import Sides, added

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakehouse.gold.numbers.comparison import Number

#: The changes, in percent, of a measure on one day, and over all changed days together, above which a person must sign off.
DAY_THRESHOLD, SET_THRESHOLD = Decimal(50), Decimal(10)
#: The greatest number of changed days of a metric that are listed; all of them are counted and judged.
LISTED_DAYS = 366


class _ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SampledRow(_ReportPart):
    """A key whose rows differ: its rows now and as staged, each as JSON of the content columns."""

    record_key: str
    before: list[str]
    after: list[str]


class ChangedDay(_ReportPart):
    """A day whose number would change: each measure before and after; None where it has none."""

    day: date
    state: str | None
    measures: dict[str, tuple[Any, Any]]


class ChangedSeries(_ReportPart):
    """The numbers of a metric that would change.

    :ivar days: at most :data:`LISTED_DAYS` of them, ``days_changed`` counts all.
    :ivar totals: each additive measure over all changed days, before and after.
    :ivar rollups: by series, the longer periods that contain a changed day.
    :ivar held: per day, the blocking checks that its number fails, with their explanations.
    :ivar kept: the days that a person has reverted to an earlier number: they would keep it.
    :ivar exceeded: a sentence for each exceeded threshold.
    """

    series: str
    days_changed: int
    first_day: date | None
    last_day: date | None
    days: list[ChangedDay]
    totals: dict[str, tuple[Any, Any]]
    rollups: dict[str, list[str]]
    consumers: list[str]
    held: dict[date, dict[str, str]]
    kept: list[date]
    exceeded: list[str]
    final_days: int = 0


class StageReport(_ReportPart):
    """The changes that a stage would make to the tables as they were.

    :ivar silver_version: the version of silver that it was compared with.
    :ivar rows_staged: the rows of the staged input: ``rows_malformed`` are malformed, ``rows_waiting`` wait for a steward.
    :ivar days: the event days whose silver rows would change.
    :ivar rows: rows and keys before and after, and the number of new, missing and changed keys (see ``snapshots.comparison``).
    :ivar fields: by field, the rows with a value and the totals, before and after.
    :ivar samples: a sample of the changed keys, chosen by ``seed``.
    """

    silver_version: int
    rows_staged: int
    rows_malformed: int
    rows_waiting: int
    days: list[date]
    rows: dict[str, Any]
    fields: dict[str, Any]
    samples: list[SampledRow]
    seed: int
    series: list[ChangedSeries]
    day_threshold: Decimal
    set_threshold: Decimal

    @property
    def objections(self) -> list[str]:
        """The sentences that a person must sign off before the stage may be promoted."""
        found = [sentence for one in self.series for sentence in one.exceeded]
        for one in self.series:
            found += [f"{one.series} {day}: {name}: {text}" for day, failed in one.held.items() for name, text in failed.items()]
        return found


def exceeded(
    series: str,
    days: Mapping[date, Mapping[str, Sides]],
    totals: Mapping[str, Sides],
    day_threshold: Decimal,
    set_threshold: Decimal,
) -> list[str]:
    """A sentence for each measure of a day, and for each total, that changes by more than a threshold.

    A day without a previous number is not judged by itself: it has no value to compare with.
    """
    sentences = []
    for day, measures in sorted(days.items()):
        for name, sides in measures.items():
            if sides.before is not None and sides.exceeds(percent=day_threshold):
                sentences.append(f"{series} {day}: {_moved(name, sides)}, more than {day_threshold} %")
    for name, sides in totals.items():
        if sides.before is not None and sides.exceeds(percent=set_threshold):
            count = f"{len(days):,} {'day' if len(days) == 1 else 'days'} together"
            sentences.append(f"{series}, {count}: {_moved(name, sides)}, more than {set_threshold} %")
    return sentences


def totals_of(days: Iterable[Mapping[str, Sides]], names: Sequence[str]) -> dict[str, Sides]:
    """The sums over days of additive measures."""
    listed = list(days)
    return {
        name: Sides(added(sides[name].before for sides in listed), added(sides[name].after for sides in listed)) for name in names
    }


def _moved(name: str, sides: Sides) -> str:
    percent = "" if sides.percent is None else f" ({sides.percent:+} %)"
    return f"{name} goes from {_shown(sides.before)} to {_shown(sides.after)}{percent}"


def _shown(value: Number | None) -> str:
    return "nothing" if value is None else f"{value:,}"
