"""What pages tell of published numbers: one period at a glance, and how complete it is in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.version_selector import SelectBy, VersionSelector, choose
from lakehouse.lateness.completeness import Estimate, Unknown
from lakehouse.serving.reports.wording import LABELS, counted, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Number
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.http.published_cache import Lake, Shown
    from lakehouse.serving.http.snapshot import Kept

_LATEST, _FIRST = VersionSelector(SelectBy.LATEST, "latest"), VersionSelector(SelectBy.FIRST, "first")


@dataclass(frozen=True)
class Glance:
    """A period's newest number. ``sides`` are the totals as first published and as they are now.

    A closed number stays as it is: ``adjusted`` is what it comes to with what was booked elsewhere since.
    """

    period: Period
    version: PublishedVersion
    sides: Mapping[str, Sides]
    restated: int
    restated_on: datetime | None
    adjustments: int
    adjusted: Mapping[str, Number | None]

    @property
    def label(self) -> str:
        """How sure it is, in words."""
        return LABELS[self.version.state.value]

    @property
    def events(self) -> int:
        """How many rows of silver are behind it."""
        return sum(row["row_count"] or 0 for row in self.version.rows)


def glance(shown: Shown, start: date) -> Glance | None:
    """A period's newest number; None where it has none."""
    kept = shown.numbers.periods.get(start)
    chosen = None if kept is None else choose(kept.heads, _LATEST)
    if kept is None or chosen is None:
        return None
    one, heads = shown.series, kept.heads
    version = kept.version(one, chosen[0])
    first, now = (totals(one, told) for told in (kept.version(one, heads[0]), version))
    adjustments = sum(head.adjustment is not None for head in heads)
    restating = [head for head in heads if head.restates and head.adjustment is None]
    return Glance(
        period=one.period(start),
        version=version,
        sides={name: Sides(first.get(name), value) for name, value in now.items()},
        restated=len(restating),
        restated_on=restating[-1].published_at if restating else None,
        adjustments=adjustments,
        adjusted={name: sides.after for name, sides in _moved_last(one, kept).items()} if adjustments else {},
    )


def _moved_last(one: Series, kept: Kept) -> Mapping[str, Sides]:
    return numbers_history.moved(one, kept.versions(one))[-1]


def glances(shown: Shown, starts: Sequence[date]) -> list[Glance]:
    """The same of many periods."""
    return [found for start in starts if (found := glance(shown, start)) is not None]


def totals(one: Series, version: PublishedVersion) -> dict[str, Number | None]:
    """What a version says over its whole grain, of the measures that can be added up or stand alone."""
    return {name: sides.after for name, sides in numbers_history.moved(one, [version])[0].items()}


def drawn(one: Series, most: int) -> list[str]:
    """The measures that charts show: the first few that are numbers, and over a grain those that add up."""
    fit = [measure for measure in one.metric.measures if measure.is_number and (measure.additive or not one.metric.grain)]
    return [measure.name for measure in fit][:most]


async def doubts(lake: Lake, shown: Shown, period: Period, version: PublishedVersion) -> dict[str, Any]:
    """What else is to be known of a number: whether more has come, which checks hold a newer one back, how complete it is."""
    behind = await lake.behind(shown, version, period)
    complete = await lake.complete(shown.series, period, version, behind=behind)
    return {"behind": behind, "held": await lake.held(shown, period), "complete": completeness(complete)}


def completeness(found: Estimate | Unknown) -> str:
    """How much of a period's rows has come, as a sentence."""
    if isinstance(found, Unknown):
        return f"How complete it is cannot be told: {plain(found.because)}."
    share = "All" if found.share == 1 else f"About {found.share:.1%}"
    within = counted(found.horizon_hours // 24, "day")
    judged = f"{found.low:.1%} to {found.high:.1%} in {found.coverage:.0%} of cases"
    judged += f", judged by {counted(found.periods, 'earlier period')}"
    return f"{share} of the rows that come within {within} of the period's end are known ({judged})."
