"""Comparison of two versions of one number: of a period, or of a window of a day.

A side is a published version or, under the name ``live``, the number of the stream. The command line and the API use this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.calendar.periods import Kind
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import history, version_selector, window_history
from lakehouse.gold.numbers.history import PublishedVersion
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.numbers.version_selector import SelectBy
from lakehouse.live import table
from lakehouse.live.table import NumberLayer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Comparison
    from lakehouse.lake import Lake

LIVE = NumberLayer.LIVE.value


class MissingLiveNumberError(LakehouseError):
    """A requested number of the stream that does not exist. The message gives the reason."""


@dataclass(frozen=True)
class ComparedSide:
    """One side of a comparison.

    :param wanted: the name of the version as the user wrote it.
    :param note: additional information for the reader.
    """

    wanted: str
    version: PublishedVersion
    note: str | None


@dataclass(frozen=True)
class ComparedNumber:
    """Two versions of a number, and their difference."""

    sides: tuple[ComparedSide, ComparedSide]
    comparison: Comparison


def compared(
    lake: Lake,
    series: Series,
    period: Period,
    window: datetime | None,
    known: Sequence[PublishedVersion],
    names: tuple[str, str | None],
) -> ComparedNumber:
    """Compare two versions of the number of a period, or of a window of it.

    :param window: the first moment of the window.
    :param known: every version of the period, oldest first.
    :param names: the names of the two versions; the second is by default the final number with the adjustments booked for it.
    :raises UnknownVersionError: for a version that does not exist.
    :raises MissingLiveNumberError: if the number of the stream is requested and does not exist.
    """
    first = _side(lake, series, period, window, known, names[0])
    second = _side(lake, series, period, window, known, names[1])
    of_window = known if window is None else window_history.versions_of(known, window)
    start = period.start
    comparison = history.comparison(
        series,
        {start: first.version},
        {start: second.version},
        (first.version.name, second.version.name),
        lake.now(),
        known={start: of_window},
    )
    return ComparedNumber((first, second), comparison)


def _side(
    lake: Lake,
    series: Series,
    period: Period,
    window: datetime | None,
    known: Sequence[PublishedVersion],
    wanted: str | None,
) -> ComparedSide:
    if wanted == LIVE:
        return ComparedSide(LIVE, _live(lake, series, period, window), None)
    text = wanted or SelectBy.FINAL.value
    chosen = history.selected(series, period, known, version_selector.parse(text), window)
    if wanted is None and chosen.adjustments:
        return ComparedSide(text, chosen.adjustments[-1], f"{chosen.version.label} with its adjustments")
    return ComparedSide(text, chosen.version, chosen.note)


def _live(lake: Lake, series: Series, period: Period, window: datetime | None) -> PublishedVersion:
    """The number of the stream as one side.

    :raises MissingLiveNumberError: if it does not exist.
    """
    metric = series.metric
    if metric.live is None:
        msg = f"{metric.name} has no live numbers: its contract does not have 'live: true'"
        raise MissingLiveNumberError(msg)
    if period.kind is not Kind.DAY:
        msg = f"live numbers are numbers of days and of their windows, and not of a {period.kind.value}"
        raise MissingLiveNumberError(msg)
    rows = table.live_rows(lake, metric, [period.start])
    if not rows:
        msg = (
            f"the stream of {metric.name} has no number of {period.name}: it has not read that day, or the day is closed and its "
            "live numbers have expired"
        )
        raise MissingLiveNumberError(msg)
    of_window = rows if window is None else window_history.rows_of(rows, window)
    return PublishedVersion(
        start=period.start,
        period=period.name,
        name=LIVE,
        revision=0,
        adjustment=None,
        state=State.LIVE,
        reason=RevisionReason.INITIAL,
        is_latest=True,
        published_at=max(row["updated_at"] for row in rows),
        superseded_at=None,
        restated_on=None,
        restatement_reason=None,
        rows=[{name: row[name] for name in series.content} for row in of_window],
        is_live=True,
    )
