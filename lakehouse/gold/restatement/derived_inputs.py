"""The inputs of derived numbers: the newest published numbers or named ones, what changed in them, and what a period waits for.

A derived period is made of the same period of each input. Held candidates do not count. Adjustments count where they are booked,
as in the roll-ups of the input: a longer period already includes them, and a day is read with those booked on it.

A derived series follows the tables of its inputs. Only logs are read to find which periods were published since. Publishing the
periods belongs to ``derived``; when they are computed, to ``pending``.

The state of a derived period is never ahead of the states of its inputs: it becomes final after them (rule R13).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.derived import ROW_COUNT
from lakehouse.delta import commit_log
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.numbers.published_table import RollupInputs
from lakehouse.lake import table_io
from lakehouse.lake.delta_rs_internals import listed_files
from lakehouse.ledger import publications

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.contracts.derived import DerivedInput
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake, Table
    from lakehouse.ledger.publications import Restatement


class InputError(LakehouseError):
    """Published numbers of an input that cannot be used. The message names them, and what to do."""


@dataclass(frozen=True)
class PeriodOfInput:
    """The number of one input for one period.

    :param rows: the rows of its revision, with all published columns.
    :param booked: the rows of the adjustments that are booked in the period; None without any.
    :param reasons: why each revision was published, by its number; only for the newest numbers.
    """

    input: DerivedInput
    start: date
    rows: pa.Table
    booked: pa.Table | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)

    @property
    def revision(self) -> int:
        """The number of the revision."""
        return int(self.rows["revision"][0].as_py())

    @property
    def state(self) -> State:
        """The state of the revision."""
        return State(self.rows["state"][0].as_py())

    @property
    def named(self) -> RollupInputs:
        """The names of the revision and the adjustments, as a derived number stores them."""
        names = () if self.booked is None else tuple(sorted(set(self.booked["version_name"].to_pylist())))
        return RollupInputs({self.start: f"r{self.revision}"}, names)


def has_bookings(table: Table) -> bool:
    """Whether a table of published numbers may have adjustments, from its log alone."""
    opened, unbooked = table.open(), "null_count.booked_on"
    if opened is None or "booked_on" not in {item.name for item in opened.schema().fields}:
        return False
    files = listed_files(opened)
    if unbooked not in files.column_names:
        return True
    return not pc.all(pc.fill_null(pc.equal(files[unbooked], files["num_records"]), False)).as_py()


def booked_on(table: Table, by: str, days: Collection[date], columns: Sequence[str] | None = None) -> pa.Table | None:
    """The adjustments that are booked on ``days`` and count there, whether the contract still books any; None without any.

    A later revision of a period contains the adjustments of earlier ones, as when the contract has changed to ``restate``.

    :param by: the column of the table's periods.
    :param columns: default: all.
    """
    if not has_bookings(table):
        return None
    rows = table.read(columns and [*dict.fromkeys([*columns, by, "revision"])], {"booked_on": days})
    if rows is None or not len(rows):
        return rows
    newest = table.read([by, "revision"], {by: pc.unique(rows[by]).to_pylist(), "is_latest": [True]})
    now = set() if newest is None else set(zip(newest[by].to_pylist(), newest["revision"].to_pylist()))
    counts = [one in now for one in zip(rows[by].to_pylist(), rows["revision"].to_pylist())]
    rows = rows.filter(pa.array(counts, pa.bool_()))
    return rows.select(list(columns)) if columns else rows


def tables(lake: Lake, series: Series) -> dict[str, Table]:
    """The tables that a derived series reads, by the name of the metric."""
    return {read.metric: locations.gold_of(lake, read.metric, series.kind) for read in series.metric.inputs}


def _read_by(series: Series) -> list[DerivedInput]:
    """The columns that a derived series reads of each input."""
    return [read.of(series.kind) for read in series.metric.inputs]


def newest(lake: Lake, series: Series, starts: Collection[date]) -> dict[date, list[PeriodOfInput]]:
    """The newest published number of each input, for the periods for which all inputs have a number.

    :param starts: the first days of the periods.
    :raises InputError: if a table lacks a column that the contract promises.
    """
    by_input: list[dict[date, PeriodOfInput]] = []
    for read in _read_by(series):
        of_input = locations.gold_of(lake, read.metric, series.kind)
        table = of_input.open()
        if table is None or not starts:
            return {}
        rows = table_io.read_version(table, None, {series.by: list(starts)})
        _require_columns(read, rows)
        # A longer period of an input already includes what is booked in it.
        books = booked_on(of_input, series.by, starts) if series.kind is Kind.DAY else None
        booked = table_io.split(books, "booked_on") if books is not None and len(books) else {}
        periods = table_io.split(rows, series.by) if len(rows) else {}
        by_input.append({start: _newest(read, start, revision, booked.get(start)) for start, revision in periods.items()})
    return {start: [of_input[start] for of_input in by_input] for start in sorted(set.intersection(*map(set, by_input)))}


def _newest(read: DerivedInput, start: date, rows: pa.Table, booked: pa.Table | None) -> PeriodOfInput:
    """The newest number of a period.

    :param rows: all published rows of the period.
    """
    revisions = rows.filter(pc.is_null(rows["adjustment"]))
    reasons = dict(zip(revisions["revision"].to_pylist(), revisions["reason"].to_pylist()))
    return PeriodOfInput(read, start, rows.filter(rows["is_latest"]), booked, reasons)


def named(lake: Lake, series: Series, start: date, version_name: str, made_from: RollupInputs) -> list[PeriodOfInput]:
    """The numbers of the inputs that a revision names.

    :raises InputError: if it names none, or a number that no longer exists.
    """
    result = []
    for read in _read_by(series):
        of_input = made_from.of_metrics.get(read.metric)
        if of_input is None or start not in of_input.revisions:
            msg = f"{version_name} names no number of {read.metric}, and cannot be reproduced; materialize the period again"
            raise InputError(msg)
        table, label = locations.gold_of(lake, read.metric, series.kind), of_input.revisions[start]
        rows = table.read(None, {series.by: [start]})
        is_named = None if rows is None else pc.and_(pc.equal(rows["revision"], int(label[1:])), pc.is_null(rows["adjustment"]))
        revision = None if rows is None else rows.filter(is_named)
        booked = table.read(None, {"version_name": list(of_input.adjustments)})
        if revision is None or not len(revision):
            msg = f"{version_name} was computed from {read.metric} {start} {label}, which is no longer in {table}"
            raise InputError(msg)
        _require_columns(read, revision)
        result.append(PeriodOfInput(read, start, revision, booked if of_input.adjustments else None))
    return result


def row_counts(lake: Lake, series: Series, starts: Collection[date]) -> dict[date, int]:
    """The number of rows that the newest numbers of all inputs count together, for periods for which all inputs have a number."""
    return {
        start: sum(pc.sum(part[ROW_COUNT]).as_py() for read in of_period for part in (read.rows, read.booked) if part is not None)
        for start, of_period in newest(lake, series, starts).items()
    }


def made_from(of_period: Collection[PeriodOfInput]) -> RollupInputs:
    """The form in which a derived number stores the names of its inputs."""
    return RollupInputs(of_metrics={read.input.metric: read.named for read in of_period})


def states(lake: Lake, series: Series, starts: Collection[date]) -> Mapping[date, dict[str, State | None]]:
    """The state of each input's newest number, by period; None where it has no number."""
    by_period: dict[date, dict[str, State | None]] = {start: {} for start in sorted(starts)}
    for read in _read_by(series):
        table, where = locations.gold_of(lake, read.metric, series.kind), {series.by: list(starts), "is_latest": [True]}
        rows = table.read([series.by, "state"], where) if starts else None
        known = {} if rows is None else dict(zip(rows[series.by].to_pylist(), rows["state"].to_pylist()))
        for start, of_inputs in by_period.items():
            of_inputs[read.metric] = State(known[start]) if start in known else None
    return by_period


def _require_columns(read: DerivedInput, rows: pa.Table) -> None:
    missing = [name for name in (*read.grain, *read.columns) if name not in rows.column_names]
    if missing:
        msg = (
            f"gold/{read.metric} has no column {', '.join(missing)} yet, which its contract promises and a derived metric reads: "
            f"materialize gold/{read.metric} under its present contract first"
        )
        raise InputError(msg)


@dataclass(frozen=True)
class ChangedInputs:
    """The publications of the inputs since a derived series last followed them.

    :param starts: the first days of the periods that one input published, and for which all inputs have a number.
    :param versions: the version of each table through which its log was read, by the table's name in the ledger.
    """

    starts: frozenset[date] = frozenset()
    versions: Mapping[str, int] = field(default_factory=dict)


def changed_inputs(lake: Lake, series: Series) -> ChangedInputs:
    """Read the publications of the inputs. If a log no longer reaches back, all periods count as changed.

    Longer periods also follow the promotions of the metric's own days: another dataset version requires a new computation.
    """
    followed = followed_versions(lake, series)
    versions: dict[str, int] = {}
    starts: set[date] = set()
    for name, followed_table in _tables(lake, series).items():
        table = followed_table.open()
        if table is None:
            continue
        version, since = table.version(), followed.get(name, -1) + 1
        since = since if since <= version + 1 else 0  # a table that was created again is followed from its beginning
        versions[name] = version
        if since <= version:
            starts |= _published_since(lake, series, table, since, only_promotions=name not in _input_names(series))
    return ChangedInputs(frozenset(starts & published_table.published_by_all(lake, series)) if starts else frozenset(), versions)


def followed_versions(lake: Lake, series: Series) -> dict[str, int]:
    """The version of each table that a derived series has followed, since one of its inputs was last replaced by another.

    Empty if its own table has lost commits; a table that has lost the followed commit is left out.
    """
    names = _tables(lake, series)
    if served_version.lost_versions(lake, series) is not None:
        return {}
    entries = [
        entry for entry in publications.restatements_of(lake, served_version.follower(series)) if entry.followed_version >= 0
    ]
    others = (place for place, entry in enumerate(entries) if entry.followed_table not in names)
    in_order = sorted(entries[max(others, default=-1) + 1 :], key=lambda entry: entry.followed_version)
    newest = {f"{entry.followed_table}": entry for entry in in_order}
    return {
        name: entry.followed_version
        for name, entry in newest.items()
        if not served_version.is_another(names[name], entry.followed_version, entry.followed_commit)
    }


def _tables(lake: Lake, series: Series) -> dict[str, Table]:
    """The tables whose log a series follows, by their names in the ledger."""
    own = {} if series.kind is Kind.DAY else {f"gold/{series.daily.name}": locations.gold(lake, series.daily)}
    return dict(zip(_input_names(series), tables(lake, series).values())) | own


def _input_names(series: Series) -> list[str]:
    return [f"gold/{one.metric}{series.kind.suffix}" for one in series.metric.inputs]


def _published_since(lake: Lake, series: Series, table: DeltaTable, since: int, *, only_promotions: bool) -> set[date]:
    """The first days of the periods that a table's commits since version ``since`` published, or booked an adjustment in."""
    history = commit_log.history(table, since - 1)
    if len(history) <= table.version() - since:
        return published_table.published_by_all(lake, series)
    metadata = [commit_log.commit_metadata(commit) for commit in history]
    if only_promotions:
        return (
            published_table.published_by_all(lake, series)
            if any(served_version.PROMOTION in entry for entry in metadata)
            else set()
        )
    named = {text for entry in metadata for of in published_table.CHANGED for text in entry.get(of, ())}
    if series.kind is Kind.DAY:  # a longer period of an input is published again with what is booked in it
        named |= {text for entry in metadata for text in entry.get("booked_on", ())}
    return {date.fromisoformat(text) for text in named}


def entries(lake: Lake, series: Series, entry: Restatement, versions: Mapping[str, int]) -> list[Restatement]:
    """The rows by which the ledger records a run: one for each table that it followed; the first row has the days."""
    paths = _tables(lake, series) if versions else {}
    rows = [
        replace(
            entry,
            followed_version=version,
            followed_table=name,
            followed_commit=served_version.commit_at(paths[name], version),
        )
        for name, version in versions.items()
    ] or [entry]
    return [rows[0], *(replace(row, days=[]) for row in rows[1:])]


def limits(lake: Lake, series: Series, starts: Collection[date]) -> dict[date, tuple[State, list[str]]]:
    """By first day, the latest state that a derived period may have, and why; periods whose inputs are all final are left out."""
    known = states(lake, series, starts)
    found = {start: limit(series, start, of_inputs) for start, of_inputs in known.items()}
    return {start: one for start, one in found.items() if one is not None}


def limit(series: Series, start: date, of_inputs: Mapping[str, State | None]) -> tuple[State, list[str]] | None:
    """The result of :func:`limits` for one period; None if all inputs are final.

    :param of_inputs: the state of each input's newest number; None where it has none.
    """
    period = series.period(start).name
    waits_for = [
        f"{name} {period} is {state.value}" if state else f"{name} has no number of {period}"
        for name, state in of_inputs.items()
        if state is not State.FINAL
    ]
    if not waits_for:
        return None
    return min((state or State.LIVE for state in of_inputs.values()), key=lambda state: state.rank), waits_for
