"""Numbers published without Spark: Silver's totals are given by hand, all else is the product's own code.

For tests of what becomes of numbers. :func:`lawful_versions` asserts what holds of every table of published numbers at any time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException

from lakehouse import locations
from lakehouse.calendar.periods import Calendar, Kind
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.publication import candidates
from lakehouse.gold.publication import held_numbers as publication_sign_off
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import local_measures, metric_query, rollups
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.lake import table_io
from lakehouse.live import table as live_table
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.lifecycle import RevisionReason
    from lakehouse.gold.publication.revisions import Revision
    from lakehouse.lake import Lake

FIRST = date(2024, 1, 1)  # a Monday
ARROW_TYPES = {"bigint": pa.int64(), "decimal(18,2)": pa.decimal128(18, 2), "decimal(38,2)": pa.decimal128(38, 2)}
#: A version in a period's history: (label, total, state, is_latest).
VersionLine = tuple[str, Any, str, bool]


def metric(name: str = "total", **changes: Any) -> MetricContract:
    """A metric of one additive measure, which is called as the metric is."""
    kind = changes.pop("type", "long")
    measures = [{"name": "total", "sql": "sum(amount)", "type": kind, "additive": True}]
    return MetricContract.model_validate({"metric": name, "source": "events", "measures": measures, **changes})


def day(number: int) -> date:
    """The n-th day of the calendar that these tests live in."""
    return FIRST + timedelta(days=number - 1)


@contextmanager
def without_spark() -> Iterator[None]:
    """Numbers come from the :class:`ScriptedNumbers` that is passed in the place of the session."""

    def numbers(
        session: Any, _lake: Lake, _metric: MetricContract, days: Collection[date], _made_from: Any = None
    ) -> dict[date, pa.Table]:
        scripted = session()
        scripted.jobs += 1
        if poisoned := scripted.poisoned.intersection(days):
            msg = f"[ARITHMETIC_OVERFLOW] the sum of {min(poisoned)} does not fit. SQLSTATE: 22003"
            raise ArithmeticException(msg)
        return {start: scripted.by_day[start] for start in days if start in scripted.by_day}

    def nothing(session: Any, _lake: Lake, _metric: MetricContract) -> pa.Table:
        return session().table(None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metric_query, "numbers", numbers)
        patched.setattr(metric_query, "nothing", nothing)
        patched.setattr(local_measures, "few_rows", lambda *_: None)
        yield


@dataclass
class ScriptedNumbers:
    """A metric whose daily numbers and clock are set by the test.

    :param poisoned: the days whose number cannot be computed, and fails any computation that they are part of.
    :param jobs: how often numbers were computed.
    """

    lake: Lake
    metric: MetricContract = field(default_factory=metric)
    by_day: dict[date, pa.Table] = field(default_factory=dict)
    poisoned: set[date] = field(default_factory=set)
    jobs: int = 0
    source: SourceContract = field(default_factory=contract)

    @property
    def series(self) -> Series:
        return Series(self.metric)

    def session(self) -> SparkSession:
        return cast("SparkSession", self)

    def at(self, number: int, hour: int = 0) -> None:
        """Set the clock."""
        self.lake.settings.now = datetime.combine(day(number), datetime.min.time(), timezone.utc) + timedelta(hours=hour)

    def table(self, value: Mapping[str, Any] | int | Decimal | str | None) -> pa.Table:
        """A number: of each store, or without a grain. None is that of a day without rows."""
        kinds = {measure.name: ARROW_TYPES[measure.type] for measure in self.metric.measures}
        rows: list[dict[str, Any]]
        if value is None or not self.metric.grain:
            rows = [dict.fromkeys(self.metric.grain) | dict.fromkeys(kinds, value) | {"row_count": 0 if value is None else 1}]
        else:
            assert isinstance(value, dict)
            rows = [
                {self.metric.grain[0]: key, "row_count": 1} | dict.fromkeys(kinds, total) for key, total in sorted(value.items())
            ]
        exact = {name: Decimal if pa.types.is_decimal(kind) else int for name, kind in kinds.items()}
        rows = [row | {name: make(row[name]) for name, make in exact.items() if row[name] is not None} for row in rows]
        grain = [(name, pa.string()) for name in self.metric.grain]
        return pa.Table.from_pylist(rows, schema=pa.schema([*grain, *kinds.items(), ("row_count", pa.int64())]))

    def set(self, number: int, value: Mapping[str, Any] | int | Decimal | str | None) -> None:
        """Set what Silver gives for a day from now on; None: the day has no rows any more."""
        if value is None:
            self.by_day.pop(day(number), None)
        else:
            self.by_day[day(number)] = self.table(value)

    def set_hours(self, number: int, totals: Mapping[int, int]) -> None:
        """Set what Silver gives for the hours of a day, of a metric with windows of an hour."""
        self.by_day[day(number)] = _of_hours(number, totals)

    def stream_hours(self, number: int, totals: Mapping[int, int], batch: int = 0, passed: int = 0) -> None:
        """Set what the stream has counted in hours of a day.

        :param passed: the hour that its watermark has reached.
        """
        rows = _of_hours(number, totals)
        starts, watermark = rows["window_start"].to_pylist(), _moment(number, passed)
        columns: dict[str, Any] = {
            "event_date": pa.array([day(number)] * len(rows), pa.date32()),
            "window_end": pa.array([start + timedelta(hours=1) for start in starts], _TIME),
            "updated_at": pa.array([self.lake.now()] * len(rows), _TIME),
            "batch": pa.array([batch] * len(rows), pa.int64()),
            "watermark": pa.array([watermark] * len(rows), _TIME),
            "query": pa.array(["q"] * len(rows)),
        }
        for name, values in columns.items():
            rows = rows.append_column(name, values)
        assert live_table.write(self.lake, self.metric, "q", batch, rows)

    def publish(self, *numbers: int, reason: RevisionReason | None = None) -> PublishResult:
        """Recompute days, by default all that Silver or readers know."""
        days = {day(number) for number in numbers} or {*self.by_day, *self.starts()}
        return restatement_days.restate(self.lake, self.source, self.series, self.session, days, Run("run", reason=reason))

    def close(self) -> PublishResult:
        """Recompute the days whose state is due to change."""
        return restatement_days.restate(
            self.lake, self.source, self.series, self.session, find_due(self.lake, self.source, self.series), Run("close")
        )

    def roll_up(self, kind: Kind = Kind.WEEK) -> PublishResult:
        """Bring a roll-up up to date, as its sensor and its schedule do."""
        rollup = Series(self.metric, kind)
        pending = find_pending(self.lake, rollup)
        starts = {*pending.starts, *find_due(self.lake, self.source, rollup)}
        if not starts:
            return PublishResult()
        return rollups.restate(self.lake, self.source, rollup, self.session, starts, Run("roll"), pending)

    def sign_off(self, number: int, revision: int, reason: str = "looked at") -> Revision | None:
        run = Run("signed", by="anna")
        return publication_sign_off.sign_off(
            self.lake, self.series, Calendar().containing(day(number), Kind.DAY), revision, run, reason
        )

    def drop(self, number: int, revision: int) -> None:
        publication_sign_off.drop(
            self.lake, self.series, Calendar().containing(day(number), Kind.DAY), revision, "anna", "nonsense"
        )

    def held(self) -> list[tuple[int, int, Any]]:
        """Day, revision and total of what is held."""
        found = candidates.held(self.lake, self.series)
        return [((one.start - FIRST).days + 1, one.revision, total_of(one.draft.rows)) for one in found]

    def starts(self, series: Series | None = None) -> set[date]:
        return {row[(series or self.series).by] for row in published_rows(self.lake, series or self.series)}

    def history(self, number: int, series: Series | None = None) -> list[VersionLine]:
        """The versions of a period, the one of a day, with the totals over their grain."""
        series = series or self.series
        start = series.period(day(number)).start
        return [version[1:] for version in lawful_versions(self.lake, series) if version[0] == start]  # type: ignore[misc]

    def latest_total(self, number: int, series: Series | None = None) -> Any:
        """The total of the latest revision: what readers see."""
        [found] = [line[1] for line in self.history(number, series) if line[3]]
        return found


_TIME = pa.timestamp("us", "UTC")


def _moment(number: int, hour: int) -> datetime:
    return datetime.combine(day(number), datetime.min.time(), timezone.utc) + timedelta(hours=hour)


def _of_hours(number: int, totals: Mapping[int, int]) -> pa.Table:
    rows = [{"window_start": _moment(number, hour), "total": total, "row_count": 1} for hour, total in totals.items()]
    columns = [("window_start", _TIME), ("total", pa.int64()), ("row_count", pa.int64())]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def total_of(table: pa.Table) -> Any:
    """The sum over the grain; None where nothing has a value."""
    values = [value for value in table["total"].to_pylist() if value is not None]
    return sum(values) if values else None


def published_rows(lake: Lake, series: Series) -> list[dict[str, Any]]:
    """All rows of a table of published numbers."""
    table = locations.gold(lake, series).read()
    return [] if table is None else table.to_pylist()


def lawful_versions(lake: Lake, series: Series) -> list[tuple[Any, ...]]:
    """Every version of every period, in order, as (start, label, total, state, is_latest); what must hold of them does.

    One newest revision a period; numbers from 1 without a gap; each revision is seen from its publication to the next one's;
    states go forward; no two neighbours are equal in the same state; what a version records of itself fits its rows.
    """
    table = locations.gold(lake, series).read()
    if table is None:
        return []
    listed: list[tuple[Any, ...]] = []
    for start, period_rows in sorted(table_io.split(table, series.by).items()):
        period = series.period(start)
        assert start == period.start
        versions: dict[tuple[int, int], list[int]] = {}
        about = period_rows.select([*published_table.PUBLISHED_SCHEMA.names]).to_pylist()
        for place, row in enumerate(about):
            versions.setdefault((row["revision"], row["adjustment"] or 0), []).append(place)
        heads = []
        for (revision, adjustment), places in sorted(versions.items()):
            head = about[places[0]]
            assert all(about[place] == head for place in places), "a version says one thing of itself"
            content = period_rows.take(pa.array(places, pa.int64())).select(
                [name for name in series.content if name in period_rows.column_names]
            )
            keys = content.select(series.metric.grain).to_pylist()
            assert len({tuple(key.values()) for key in keys}) == len(keys), "one row per grain"
            label = f"r{revision}" + (f".a{adjustment}" if adjustment else "")
            assert head["version_name"] == f"{series.name}_v{period.name}.{label}"
            assert head["period"] == period.name
            heads.append(head)
            listed.append((start, label, total_of(content), head["state"], head["is_latest"]))
        _in_order(heads)
    return listed


def _in_order(heads: list[dict[str, Any]]) -> None:
    """The versions of one period."""
    revisions = [head for head in heads if head["adjustment"] is None]
    adjustments = [head for head in heads if head["adjustment"] is not None]
    assert [head["revision"] for head in revisions] == list(range(1, len(revisions) + 1)), "no gap, no double"
    assert [head["is_latest"] for head in revisions] == [False] * (len(revisions) - 1) + [True]
    for earlier, later in pairwise(revisions):
        assert earlier["superseded_at"] == later["published_at"] >= earlier["published_at"], "no hole and no overlap"
        assert earlier["due_on"] is None
        assert (earlier["content"], earlier["state"]) != (later["content"], later["state"]), "equal content, no revision"
        assert State(later["state"]).rank >= State(earlier["state"]).rank
        grew = later["reason"] in ("initial", "new_data") and earlier["state"] != "final"
        if grew or earlier["content"] == later["content"]:
            assert later["restated_on"] == earlier["restated_on"], "growth and a change of state restate nothing"
            assert later["restatement_reason"] == earlier["restatement_reason"]
        else:
            assert later["restated_on"] == later["published_at"]
            assert later["restatement_reason"]
    latest = revisions[-1]
    assert latest["superseded_at"] is None
    assert (latest["due_on"] is None) == (latest["state"] == "final")
    assert revisions[0]["restated_on"] is None
    assert [head["adjustment"] for head in adjustments] == list(range(1, len(adjustments) + 1))
    for head in adjustments:
        assert (head["revision"], head["state"]) == (latest["revision"], "final"), "an adjustment is one of a closed number"
        assert (head["is_latest"], head["superseded_at"], head["due_on"]) == (False, None, None)
        assert head["booked_on"] is not None
    for earlier, later in pairwise(adjustments):
        assert earlier["content"] != later["content"]
    assert not adjustments or adjustments[0]["content"] != latest["content"]
    assert all(head["booked_on"] is None for head in revisions)


def columns_of_day(numbers: ScriptedNumbers, number: int, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of a day's rows, by revision and adjustment."""
    own = [row for row in published_rows(numbers.lake, numbers.series) if row["event_date"] == day(number)]
    own.sort(key=lambda row: (row["revision"], row["adjustment"] or 0))
    return [tuple(row[name] for name in names) for row in own]
