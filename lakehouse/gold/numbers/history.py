"""The history of published numbers: all versions of a period, one selected version, two versions compared.

This module only reads. Names of versions are parsed in ``version_selector``; comparisons are rendered in ``reports``. Adjustments
are the exact differences between a closed period's number and the number computed now (rule R9).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from decimal import Context, Inexact, localcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import lifecycle, published_table, window_history
from lakehouse.gold.numbers.comparison import Comparison, MeasureDelta, Number, Sides, added
from lakehouse.gold.numbers.lifecycle import REASONS_BY_PRECEDENCE, RevisionReason, State
from lakehouse.gold.numbers.published_table import PUBLISHED_SCHEMA, RollupInputs
from lakehouse.gold.numbers.version_selector import (
    MissingVersionError,
    SelectBy,
    UnknownVersionError,
    adjustments_of,
    choose,
    nothing_published,
    select,
)
from lakehouse.ledger import failures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Threshold
    from lakehouse.gold.numbers.version_selector import VersionSelector
    from lakehouse.gold.numbers.window_history import WindowReason
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class PublishedVersion:
    """One revision of a period's number, or one adjustment of it.

    :param rows: its grain, measures and row_count.
    :param row: its published columns.
    :param windows: for a day with windows: why the number of a window differs from that of the version before, by first moment.
    :param is_live: whether it is the number of the stream: one side of a comparison, and not a published version.
    """

    start: date
    period: str
    name: str
    revision: int
    adjustment: int | None
    state: State
    reason: RevisionReason
    is_latest: bool
    published_at: datetime
    superseded_at: datetime | None
    restated_on: datetime | None
    restatement_reason: str | None
    rows: list[dict[str, Any]]
    row: Mapping[str, Any] = field(default_factory=dict)
    windows: Mapping[datetime | None, WindowReason] = field(default_factory=dict)
    is_live: bool = False

    @property
    def label(self) -> str:
        """Its name within the period, such as ``r3`` or ``r3.a1``."""
        return self.name if self.is_live else lifecycle.label(self.revision, self.adjustment)

    @property
    def restates(self) -> bool:
        """Whether it is a revision that replaced a number that readers had; growth and a change of state are not."""
        return lifecycle.is_restatement(self.reason, self.state, self.published_at, self.restated_on)

    @property
    def has_new_content(self) -> bool:
        """Whether it is more than a change of state."""
        return self.reason.is_growth or self.adjustment is not None or self.restates

    @property
    def why(self) -> str:
        """The reason of the publication, for people: for restatements and growth with the rows that caused it."""
        rows = self.row.get("changed_rows")
        if self.reason is RevisionReason.NEW_DATA and rows:
            return f"{self.reason.value}: {rows:,} on time"
        return (self.restates and self.restatement_reason) or self.reason.value

    @property
    def due_on(self) -> date | None:
        """The day on which its state is due to change."""
        day: date | None = self.row.get("due_on")
        return day

    @property
    def dataset_version(self) -> int:
        """The dataset version that computed it."""
        return int(self.row["dataset_version"])

    @property
    def made_from(self) -> RollupInputs:
        """The published numbers that a longer period was computed from."""
        return RollupInputs.parse(self.row.get("made_from"))


@dataclass(frozen=True)
class Standing:
    """The present number of a period, and its history.

    :param first: the first published number; ``now`` is the newest revision. Neither is ever an adjustment.
    :param restatements: the revisions that replaced a number that readers had, oldest first; growth is not included.
    :param adjustments: the adjustments booked to other periods since ``now`` was published, oldest first.
    :param sides: the totals of the measures in ``first`` and ``now``.
    :param adjusted: the totals of ``now`` with its adjustments; empty without one.
    """

    first: PublishedVersion
    now: PublishedVersion
    restatements: list[PublishedVersion]
    adjustments: list[PublishedVersion]
    sides: dict[str, Sides]
    adjusted: dict[str, Number | None]


@dataclass(frozen=True)
class SelectedVersion:
    """The selected version.

    :param note: additional information for the reader.
    :param adjustments: the adjustments booked to other periods since the version was published, oldest first.
    :param adjusted: the totals of the version with its adjustments; empty without one.
    :param update_count: how many revisions have changed the number since its first one, in its whole history.
    """

    version: PublishedVersion
    note: str | None = None
    adjustments: list[PublishedVersion] = field(default_factory=list)
    adjusted: Mapping[str, Number | None] = field(default_factory=dict)
    update_count: int = 0


def history(lake: Lake, series: Series, starts: Collection[date] | None = None) -> dict[date, list[PublishedVersion]]:
    """Every revision and adjustment of the periods ``starts``, by default of all, in the order of publication."""
    return versions_in(series, locations.gold(lake, series).read(None, None if starts is None else {series.by: starts}))


def newest(lake: Lake, series: Series) -> dict[date, PublishedVersion]:
    """The newest revision of every period."""
    table = locations.gold(lake, series).read(None, {"is_latest": [True]})
    return {start: versions[-1] for start, versions in versions_in(series, table).items()}


def version(
    lake: Lake, series: Series, period: Period, selector: VersionSelector, window: datetime | None = None
) -> SelectedVersion:
    """Select a version of a period, or of a window of a day.

    :param window: the first moment of the window.
    :raises UnknownVersionError: if it does not exist; the message lists the existing versions.
    """
    lake.expect(locations.of_number(lake, series))  # it is shown with its origin
    versions = history(lake, series, [period.start]).get(period.start, [])
    if not versions and (failed := failures.failing(lake, series.name, [period.start])):
        msg = f"nothing of {series.name} has been published for {period.name}: {failed[period.start].explanation}"
        raise UnknownVersionError(msg)
    if not versions and selector.series is None:
        raise UnknownVersionError(why_nothing(lake, series, period.name, period.start))
    return selected(series, period, versions, selector, window)


def why_nothing(lake: Lake, series: Series, text: str, start: date) -> str:
    """The sentence that a period has no number: with the inputs of a derived metric that have none, or the nearest periods.

    :param text: the period as the user wrote it.
    :param start: its first day.
    """
    if inputs := published_table.lacking_inputs(lake, series).get(start):
        why = published_table.why_lacking(series, start, inputs)
        return f"nothing of {series.name} has been published for {text}: {why}"
    return nothing_published(series, text, start, published_table.starts(lake, series))


def selected(
    series: Series,
    period: Period,
    versions: Sequence[PublishedVersion],
    selector: VersionSelector,
    window: datetime | None = None,
) -> SelectedVersion:
    """Select among the versions of a period, oldest first, as :func:`version` does."""
    every = versions
    if window is not None:
        since_first = window_history.since_first(versions, window) if selector.by is SelectBy.FIRST else versions
        versions = [window_history.narrowed(of_day, window) for of_day in since_first]
    try:
        chosen, note = select(versions, selector, series, period)
    except MissingVersionError as problem:
        msg = f"{problem}, and has {', '.join(version.label for version in versions)}"
        raise UnknownVersionError(msg) from None
    of_chosen = [] if chosen.adjustment is not None else adjustments_of(versions, chosen, selector)
    adjustments = [booked for booked in of_chosen if booked.rows]
    adjusted = _adjusted(series, adjustments, versions)
    of_number = every if window is None else window_history.history(every, window)
    updates = lifecycle.update_count(one.reason for one in of_number if one.adjustment is None)
    shown = chosen if window is None else window_history.shown(every, chosen, window)
    return SelectedVersion(shown, note, adjustments, adjusted, updates)


def history_between(
    lake: Lake, series: Series, first: date | None, last: date | None
) -> dict[date, list[PublishedVersion]] | None:
    """Every revision and adjustment of the periods from ``first`` through ``last``; None where nothing was ever published.

    :param first: by default the first day that was published; ``last`` accordingly.
    """
    known = published_table.starts(lake, series)
    if not known:
        return None
    first, last = first or min(known), last or series.period(max(known)).last
    days = [first.fromordinal(number) for number in range(first.toordinal(), last.toordinal() + 1)]
    starts = [period.start for period in series.periods(days)]
    return history(lake, series, starts)


def versions(known: Mapping[date, Sequence[PublishedVersion]], selector: VersionSelector) -> dict[date, PublishedVersion]:
    """The selected version of each period that has such a version."""
    selections = {start: pick(known[start], selector) for start in sorted(known)}
    return {start: selection.version for start, selection in selections.items() if selection is not None}


def pick(known: Sequence[PublishedVersion], selector: VersionSelector) -> SelectedVersion | None:
    """Select a version among those of one period, oldest first; None if it does not exist."""
    selected = choose(known, selector)
    return None if selected is None else SelectedVersion(*selected)


def changes(
    series: Series, before: PublishedVersion | None, after: PublishedVersion | None, known: Sequence[PublishedVersion] = ()
) -> list[MeasureDelta]:
    """Every measure of one period in two versions, by grain.

    :param known: the history of the period: with it, reasons and counts of rows cover all revisions between the two versions,
        and an adjustment is shown as the closed number plus the adjustment.
    """
    version = after or before
    if version is None:
        return []
    reason, count = _behind(before, after, known)
    grain = series.grain
    old, new = (_by_grain(series, side and in_whole(series, side, known)) for side in (before, after))
    return [
        MeasureDelta(
            period=version.period,
            grain=tuple((name, window_history.text(name, value, series.metric)) for name, value in zip(grain, key)),
            measure=measure.name,
            before=old.get(key, {}).get(measure.name),
            after=new.get(key, {}).get(measure.name),
            before_version=before.label if before else None,
            after_version=after.label if after else None,
            before_state=before.state.value if before and not before.is_live else None,
            after_state=after.state.value if after and not after.is_live else None,
            reason=reason,
            rows=count,
        )
        for key in [*new, *(key for key in old if key not in new)]
        for measure in series.metric.measures
        if measure.is_number
    ]


def comparison(
    series: Series,
    before: Mapping[date, PublishedVersion],
    after: Mapping[date, PublishedVersion],
    labels: tuple[str, str],
    made_at: datetime,
    thresholds: Iterable[Threshold] = (),
    known: Mapping[date, Sequence[PublishedVersion]] | None = None,
) -> Comparison:
    """Compare two versions of many periods.

    :param known: the history of the periods, if both versions belong to it.
    """
    starts = sorted({*before, *after})
    histories = known or {}
    deltas = [
        change for start in starts for change in changes(series, before.get(start), after.get(start), histories.get(start, ()))
    ]
    names = [(after.get(start) or before[start]).period for start in starts]
    return Comparison(
        metric=series.name,
        from_version=labels[0],
        to_version=labels[1],
        first=names[0] if names else "",
        last=names[-1] if names else "",
        changes=tuple(deltas),
        thresholds=tuple(thresholds),
        made_at=made_at,
        additive=frozenset(series.metric.additive),
    )


def _behind(
    before: PublishedVersion | None, after: PublishedVersion | None, known: Sequence[PublishedVersion]
) -> tuple[str | None, int | None]:
    """The reason why a number differs from an older one, and the number of changed rows that caused it."""
    if after is None or (before is not None and after.name == before.name):
        return None, None
    if after.is_live or (before is not None and before.is_live):
        return None, None  # the causes of such a difference are those of a reconciliation
    ends = [(one.revision, one.adjustment or 0) if one else (0, 0) for one in (before, after)]
    passed = [one for one in known if min(ends) < (one.revision, one.adjustment or 0) <= max(ends)]
    restated = [one for one in passed or [after] if one.has_new_content]
    counts = [one.row["changed_rows"] for one in restated if one.row.get("changed_rows") is not None]
    reasons = {one.reason for one in restated if one.revision > 1 or one.adjustment is not None}
    gravest = next((reason for reason in REASONS_BY_PRECEDENCE if reason in reasons), after.reason)
    return gravest.value, sum(counts) if counts else None


def in_whole(series: Series, version_: PublishedVersion, known: Sequence[PublishedVersion]) -> PublishedVersion:
    """A version; for an adjustment, the closed number plus the adjustment and the earlier adjustments in ``known``."""
    last = version_.adjustment or 0
    parts = [part for part in known if part.revision == version_.revision and (part.adjustment or 0) <= last]
    if len(parts) < 2:  # noqa: PLR2004 (nothing to add up)
        return version_
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (row for part in parts for row in part.rows):
        key = tuple(row[name] for name in series.grain)
        sums[key] = row | {name: added([sums.get(key, {}).get(name), row[name]]) for name in series.numbers}
    return replace(version_, rows=[*sums.values()])


def moved(series: Series, known: Sequence[PublishedVersion]) -> list[dict[str, Sides]]:
    """The totals before and after each version of a period's history, over its grain; an adjustment is added."""
    sides: list[dict[str, Sides]] = []
    before: dict[str, Number | None] = {}
    for version_ in known:
        after = grain_totals(series, version_.rows)
        if version_.adjustment is not None:
            after = {name: added([before.get(name), value]) for name, value in after.items()}
        sides.append({name: Sides(before.get(name), value) for name, value in after.items()})
        before = after
    return sides


def standing(series: Series, known: Sequence[PublishedVersion]) -> Standing:
    """The :class:`Standing` of a period, from its history, oldest version first.

    The newest revision is the number. An adjustment is a difference that another period contains: it is never used as the number.
    """
    revisions = [version_ for version_ in known if version_.adjustment is None]
    first, now = revisions[0], revisions[-1]
    adjustments = adjustments_of(known, now)
    before, after = (grain_totals(series, side.rows) for side in (first, now))
    return Standing(
        first=first,
        now=now,
        restatements=[one for one in revisions[1:] if one.restates],
        adjustments=adjustments,
        sides={name: Sides(before.get(name), value) for name, value in after.items()},
        adjusted=_adjusted(series, adjustments, known),
    )


def _adjusted(
    series: Series, adjustments: Sequence[PublishedVersion], known: Sequence[PublishedVersion]
) -> dict[str, Number | None]:
    return grain_totals(series, in_whole(series, adjustments[-1], known).rows) if adjustments else {}


def grain_totals(series: Series, rows: Sequence[Mapping[str, Any]]) -> dict[str, Number | None]:
    """The totals of a period's additive measures over its grain; for other measures, the value if there is only one row."""
    totals: dict[str, Number | None] = {}
    for measure in series.metric.measures:
        values = [row.get(measure.name) for row in rows]
        if not measure.is_number:
            continue
        if len(rows) == 1:
            totals[measure.name] = values[0]
        elif measure.name in series.metric.additive:
            totals[measure.name] = added(values)
    return totals


def _by_grain(series: Series, version_: PublishedVersion | None) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = [] if version_ is None else version_.rows
    return {tuple(row.get(name) for name in series.grain): row for row in rows}


def versions_in(series: Series, table: pa.Table | None) -> dict[date, list[PublishedVersion]]:
    """Published rows grouped into versions, in the order of publication."""
    rows: dict[tuple[date, int, int], list[dict[str, Any]]] = {}
    for row in [] if table is None else table.to_pylist():
        rows.setdefault((row[series.by], row["revision"], row["adjustment"] or 0), []).append(row)
    by_start: dict[date, list[PublishedVersion]] = {}
    for (start, *_), rows_of_version in sorted(rows.items(), key=lambda item: item[0]):
        by_start.setdefault(start, []).append(_version(series, start, rows_of_version))
    return by_start


def _version(series: Series, start: date, rows: list[dict[str, Any]]) -> PublishedVersion:
    row: dict[str, Any] = {name: rows[0].get(name) for name in PUBLISHED_SCHEMA.names}
    content = [{name: values.get(name) for name in series.content} for values in rows]
    content.sort(key=lambda values: tuple((values[name] is None, values[name]) for name in series.grain))
    return PublishedVersion(
        start=start,
        period=row["period"],
        name=row["version_name"],
        revision=row["revision"],
        adjustment=row["adjustment"],
        state=State(row["state"]),
        reason=RevisionReason(row["reason"]),
        is_latest=row["is_latest"],
        published_at=row["published_at"],
        superseded_at=row["superseded_at"],
        restated_on=row["restated_on"],
        restatement_reason=row["restatement_reason"],
        rows=content,
        row=row,
        windows={at: one for (at,), one in window_history.read(rows, [WINDOW_START]).items()} if WINDOW_START in rows[0] else {},
    )


#: Python's default context rounds numbers with more than 28 digits.
EXACT = Context(prec=100, traps=[Inexact])


class UnbookableError(OverflowError):
    """A difference that does not fit the type of its measure."""

    def __init__(self, name: str, differences: Sequence[Any], kind: pa.DataType) -> None:
        super().__init__(f"an adjustment by {max(differences, key=abs)} does not fit {kind}")
        self.name = name


def between(series: Series, published: pa.Table | None, restated: pa.Table) -> pa.Table:
    """The rows that, added to a closed period and its adjustments, give ``restated``.

    :param published: all rows of the period: its newest revision and its adjustments.
    :returns: rows with the columns of ``restated`` for the grain values that differ; a single row of zeros if none differs.
    :raises UnbookableError: if a difference does not fit the type of its measure, although both numbers do.
    """
    with localcontext(EXACT):
        before = booked(series, published)
        after = _sums(series, restated)
        differences = {
            grain: [new - old for new, old in zip(after[grain], before[grain])]
            for grain in [*after, *(grain for grain in before if grain not in after)]
        }
    changed = {grain: values for grain, values in differences.items() if any(values)}
    changed = changed or {tuple(None for _ in series.grain): [0 for _ in series.numbers]}
    rows = [dict(zip([*series.grain, *series.numbers], [*grain, *values])) for grain, values in changed.items()]
    return pa.table({item.name: _of_differences(item, [row.get(item.name) for row in rows]) for item in restated.schema})


def unbookable(series: Series, published: pa.Table | None, restated: pa.Table) -> UnbookableError | None:
    """Why :func:`between` cannot book the difference; None if it can."""
    try:
        between(series, published, restated)
    except UnbookableError as problem:
        return problem
    return None


def _of_differences(field: pa.Field, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, OverflowError) as problem:
        raise UnbookableError(field.name, [value for value in values if value is not None], field.type) from problem


def booked(series: Series, published: pa.Table | None) -> dict[tuple[Any, ...], list[Any]]:
    """The newest number with its adjustments, per row of the grain, in the order of measures and row_count."""
    if published is None:
        return defaultdict(lambda: [0 for _ in series.numbers])
    newest = pc.max(published["revision"])  # a later number contains the adjustments of earlier revisions
    return _sums(series, published.filter(pc.equal(published["revision"], newest)))


def with_adjustments(series: Series, published: pa.Table, schema: pa.Schema) -> pa.Table:
    """The newest number with its adjustments as a table, without rows of the grain that the adjustments reduce to zero."""
    rows = [dict(zip([*series.grain, *series.numbers], [*key, *values])) for key, values in booked(series, published).items()]
    return pa.Table.from_pylist([row for row in rows if any(row[name] for name in series.numbers)] or rows[:1], schema=schema)


def _sums(series: Series, rows: pa.Table) -> dict[tuple[Any, ...], list[Any]]:
    names, grain = series.numbers, series.grain
    sums: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0 for _ in names])
    for row in rows.select([*grain, *names]).to_pylist():
        values = sums[tuple(row[name] for name in grain)]
        for position, name in enumerate(names):
            values[position] = added([values[position], row[name] or 0])
    return sums
