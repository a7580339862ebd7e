"""The table of a series' published numbers: its schema, the digest of a number, and the published state of each period.

Any engine reads the newest numbers with ``WHERE is_latest``, and what readers saw at a time with
``published_at <= t AND (superseded_at IS NULL OR superseded_at > t) AND adjustment IS NULL``. This module only reads;
``publication.revisions`` writes the table, and ``history`` selects and compares its versions.

Two columns are encoded and decoded only here: ``made_from``, the inputs of a number that is made of published numbers, and
``dimension_inputs``, the inputs of a number other than those of its (first) source.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import PUBLISHED, ColumnType, days_reached
from lakehouse.gold.numbers.lifecycle import PublishedState, State
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import listed_files
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from lakehouse.contracts.series import Column, Series
    from lakehouse.lake import Lake, Table


#: The key in the metadata of a commit for the periods in which redacted values were masked.
MASKED = "masked"
#: The keys for all periods whose content a commit changed.
CHANGED = ("published", MASKED)
#: The key of the booked adjustments; all other keys are days, or the names of metrics.
_ADJUSTMENTS = "adjustments"


@dataclass(frozen=True)
class RollupInputs:
    """The published numbers that a number was computed from; empty for a day that is computed from Silver.

    :param revisions: per first day of a period the label of its revision, such as ``r3``.
    :param adjustments: the version names of the adjustments that are booked in the period.
    :param of_metrics: for a derived number: the inputs from each metric, by its name.
    """

    revisions: Mapping[date, str] = field(default_factory=dict)
    adjustments: Sequence[str] = ()
    of_metrics: Mapping[str, RollupInputs] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> RollupInputs:
        """Read a stored value."""
        return cls._of(json.loads(text or "{}"))

    @classmethod
    def _of(cls, stored: Mapping[str, Any]) -> RollupInputs:
        metrics = {name: cls._of(value) for name, value in stored.items() if isinstance(value, dict)}
        revisions = {date.fromisoformat(day): label for day, label in stored.items() if isinstance(label, str)}
        adjustments = stored.get(_ADJUSTMENTS)  # a metric may have that name
        return cls(revisions, tuple(adjustments) if isinstance(adjustments, list) else (), metrics)

    def as_json(self) -> dict[str, Any]:
        """The value in stored and served form: labels by day, the labels of each metric, and adjustments if there are any."""
        stored: dict[str, Any] = {f"{day}": label for day, label in self.revisions.items()}
        stored |= {name: inputs.as_json() for name, inputs in self.of_metrics.items()}
        return stored | ({_ADJUSTMENTS: list(self.adjustments)} if self.adjustments else {})

    def __str__(self) -> str:
        return json.dumps(self.as_json(), sort_keys=True)

    def changed_since(self, earlier: RollupInputs) -> dict[date, tuple[str | None, str]]:
        """The days whose revision differs from ``earlier``: the label there (None for a new day), and the label here."""
        before = earlier.revisions
        return {day: (before.get(day), label) for day, label in sorted(self.revisions.items()) if before.get(day) != label}

    def named_changes(self, earlier: RollupInputs) -> Iterator[tuple[str, str | None, str]]:
        """The differences from ``earlier``, for people: the day (for a derived number after its metric), and both labels."""
        yield from ((f"{day}", *labels) for day, labels in self.changed_since(earlier).items())
        for name, inputs in self.of_metrics.items():
            changes = inputs.named_changes(earlier.of_metrics.get(name, RollupInputs()))
            yield from ((f"{name} {day}", before, after) for day, before, after in changes)


def text(by_name: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The value as it is stored; None without any."""
    return json.dumps(by_name, sort_keys=True) if by_name else None


def parse(stored: str | None) -> dict[str, dict[str, Any]]:
    """The ``inputs``, ``without`` and ``contract`` that a revision names, by further source and dimension; empty if there are
    none.
    """
    return dict(json.loads(stored or "{}"))


TIME = pa.timestamp("us", "UTC")
_ARROW_TYPES = {
    ColumnType.TEXT: pa.string(),
    ColumnType.FLAG: pa.bool_(),
    ColumnType.NUMBER: pa.int32(),
    ColumnType.COUNT: pa.int64(),
    ColumnType.DAY: pa.date32(),
    ColumnType.TIME: TIME,
}


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of ``columns`` of published tables."""
    return pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in columns])


#: The columns of a published row other than grain and measures.
PUBLISHED_SCHEMA = arrow_schema(PUBLISHED)


def digest(rows: pa.Table) -> str:
    """A digest of rows that is equal for equal rows from any engine."""
    return _digest(rows, _plain)


def content_of(rows: pa.Table, *known: Container[str]) -> str:
    """The digest of rows; if one of the ``known`` contents has the same rows in the form of earlier releases, that digest.

    Earlier releases compared doubles by 12 digits, because their sums depended on the order of rows: their published numbers
    stay.
    """
    content = digest(rows)
    is_known = any(content in contents for contents in known)
    if is_known or not any(pa.types.is_floating(item.type) for item in rows.schema):
        return content
    older = _digest(rows, _plain_before)
    return older if any(older in contents for contents in known) else content


def is_content(rows: pa.Table, content: str | None) -> bool:
    """Whether rows are the content of a published number."""
    return content is not None and content_of(rows, {content}) == content


def _digest(rows: pa.Table, plain: Callable[[Any], Any]) -> str:
    names = rows.column_names
    lines = [json.dumps([plain(value) for value in row]) for row in zip(*(rows[name].to_pylist() for name in names))]
    return hashlib.sha256("\n".join([json.dumps(names), *sorted(lines)]).encode()).hexdigest()[:32]


def published_states(existing: pa.Table | None, by: str) -> dict[date, PublishedState]:
    """The published state of each period, from its rows."""
    if existing is None or not len(existing):
        return {}
    columns = existing.select([by, "revision", "is_latest", "state", "content", "adjustment"])
    rows = columns.group_by(columns.column_names).aggregate([]).to_pylist()
    newest: dict[date, PublishedState] = {
        row[by]: PublishedState(row["revision"], State(row["state"]), row["content"]) for row in rows if row["is_latest"]
    }
    adjusted = [row for row in rows if row["adjustment"] is not None]
    for row in sorted(adjusted, key=lambda row: row["adjustment"]):
        if row["revision"] == newest[row[by]].revision:  # the contract may have changed to "restate" since then
            newest[row[by]] = replace(newest[row[by]], restated=row["content"])
    return newest


def latest(existing: pa.Table, series: Series) -> dict[date, pa.Table]:
    """The content of the newest revision of each period that has one."""
    newest = existing.filter(existing["is_latest"])
    columns = [name for name in series.content if name in existing.column_names]
    return {start: rows.select(columns) for start, rows in table_io.split(newest, series.by).items()}


def due(lake: Lake, series: Series, today: date) -> dict[date, date]:
    """The periods whose newest number is due for its next state, each with the day since when."""
    return {start: day for start, day in due_dates(lake, series, today).items() if day <= today}


def due_dates(lake: Lake, series: Series, through: date | None = None) -> dict[date, date]:
    """The days on which numbers that are not final are due for their next state, by period.

    Only files that the table's log names for it are read.

    :param through: at least those that are due by this day; by default all.
    """

    def may_be_due(bounds: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.is_valid(bounds) if through is None else pc.less_equal(bounds, pa.scalar(through, pa.date32()))

    return {start: first for start, (first, _) in bounds(lake, series, "due_on", "min", may_be_due).items()}


def bounds(
    lake: Lake, series: Series, column: str, bound: str, may_hold: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> dict[date, tuple[Any, Any]]:
    """The least and the greatest value of a column by period, in the files whose bound, in the table's log, meets a condition.

    :param bound: ``min`` or ``max``.
    :param may_hold: returns for the bound of each file whether it is meant.
    """
    table = locations.gold(lake, series).open()
    files = None if table is None else listed_files(table)
    name = f"{bound}.{column}"
    if table is None or files is None or name not in files.column_names:
        return {}
    return table_parts.bounds(table, files.filter(may_hold(files[name])), column)


def days_held(table: Table) -> set[date]:
    """The days for which a table has rows, from its log, see :mod:`lakehouse.lake.table_parts`."""
    opened = table.open()
    return set() if opened is None else set(table_parts.rows(opened))


def starts(lake: Lake, series: Series) -> set[date]:
    """The first days of the periods for which a series has numbers."""
    return days_held(locations.gold(lake, series))


def known_days(lake: Lake, daily: Series) -> set[date]:
    """The days of a metric: those whose window covers rows of Silver, and those that were published.

    For a derived metric: those for which all inputs have a number, and those that were published.
    """
    if daily.metric.is_derived:
        return published_by_all(lake, daily) | starts(lake, daily)
    return days_in_silver(lake, daily) | starts(lake, daily)


def days_in_silver(lake: Lake, daily: Series) -> set[date]:
    """The days of a metric whose window covers rows of one of its silver tables."""
    tables = locations.every_silver_read(lake, daily.metric).values()
    in_silver = set().union(*(days_held(table) for table in tables))
    return days_reached(daily.metric, in_silver)


def published_by_all(lake: Lake, derived: Series) -> set[date]:
    """The first days of the periods for which every input of a derived series has a number, from the tables' logs alone."""
    tables = [locations.gold_of(lake, one.metric, derived.kind) for one in derived.metric.inputs]
    known = [days_held(table) for table in tables]
    return set.intersection(*known) if known else set()


def lacking_inputs(lake: Lake, derived: Series) -> dict[date, list[str]]:
    """The periods without a number of a derived series for which some inputs have one and others have none, from the tables' logs
    alone: by first day, the inputs without one.
    """
    known = {one.metric: days_held(locations.gold_of(lake, one.metric, derived.kind)) for one in derived.metric.inputs}
    missing = set().union(*known.values()) - starts(lake, derived) if known else set()
    lacking = {start: [name for name, starts in known.items() if start not in starts] for start in sorted(missing)}
    return {start: names for start, names in lacking.items() if names}


def why_lacking(series: Series, start: date, inputs: Sequence[str]) -> str:
    """The sentence about a number of a derived series that ``inputs`` hold back because they have none."""
    lacking = f"{' and '.join(inputs)} {'has' if len(inputs) == 1 else 'have'} no number of {series.period(start).name}"
    return f"{lacking}, and an input has none for a period without rows"


def files_of(table: Table) -> pa.Table | None:
    """The files of a table with their partitions and statistics, from its log alone; None if it has none."""
    opened = table.open()
    files = None if opened is None else listed_files(opened)
    return files if files is not None and len(files) else None


def _plain(value: Any) -> Any:
    """A value as JSON; different values have different forms."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        short = f"{value:.12g}"
        return short if float(short) == value else repr(value)
    return json_value(value)


def _plain_before(value: Any) -> Any:
    return f"{value:.12g}" if isinstance(value, float) else _plain(value)
