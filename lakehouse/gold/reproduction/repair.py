"""Repairs published numbers with damaged data files, and those that a table has lost: their versions are computed again from the
inputs that they name (rule R10).

Each version keeps its number, and everything recorded about it when it was published; nothing is published. A version of an
earlier release, which recorded less, is taken from the copies of its period that older versions of the table still have.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import Series, source_read
from lakehouse.delta import data_files, layout, partition_writer
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import history
from lakehouse.gold.numbers.lifecycle import parse_version_name
from lakehouse.gold.numbers.published_table import PUBLISHED_SCHEMA, is_content
from lakehouse.gold.publication import revisions
from lakehouse.gold.publication.revisions import LostNumbersError
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.reproduction.recompute import HistoricalContracts
from lakehouse.lake import table_io, table_parts
from lakehouse.ledger import publications
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake

_LOG = logging.getLogger(__name__)
#: The number of older versions of a table that are searched for a copy of a period.
_SEARCHED = 200
_SHOWN = 5


def repair(lake: Lake, catalog: Catalog, series: Series, session: Callable[[], SparkSession], run_id: str) -> list[date]:
    """Write the lost versions of a series again, and its damaged periods, each in one commit; repeat it if it was stopped.

    :returns: the first days of the periods.
    :raises LostNumbersError: naming the versions that cannot be computed again; the other periods are written.
    """
    mended = _with_damaged_files(lake, catalog, series, session, run_id)
    return sorted({*mended, *_restored(lake, catalog, series, session, run_id)})


def _with_damaged_files(
    lake: Lake, catalog: Catalog, series: Series, session: Callable[[], SparkSession], run_id: str
) -> list[date]:
    """Write the periods with damaged files again."""
    stored = locations.gold(lake, series)
    table = stored.snapshot()
    files = [] if table is None else data_files.damaged_files_of_table(table)
    if table is None or not files:
        return []
    data_files.set_aside(table, files)
    publications.follow(lake, series.name, stored)
    known = {start for entry in publications.of(lake, series.name) for start in map(date.fromisoformat, entry.published)}
    shared = table_parts.share_files(table)  # then a file is replaced as a whole
    starts = data_files.lost_parts(table, files, known)
    recorded = _recorded(lake, series, set(starts))
    made: dict[date, pa.Table] = {}
    names, lost = list[str](), list[str]()
    for start in starts:
        copies = _copies(lake, series, table, start)
        versions = {**dict.fromkeys(copies), **recorded[start]}
        rows = _remade(lake, catalog, series, start, versions, copies, session)
        if missing := [name for name, content in rows.items() if content is None]:
            lost += missing
            continue
        made[start] = _in_order(pa.concat_tables(rows.values(), promote_options="default"))
        names += sorted(rows)
        if not shared:
            why = {"run_id": run_id, "method": "repair", "repaired": sorted(rows)}
            partition_writer.replace(table, made[start], [start], why=why)
            table.update_incremental()
    if shared and made and not lost:
        why = {"run_id": run_id, "method": "repair", "repaired": names}
        layout.make_again(table, files, starts, pa.concat_tables(made.values(), promote_options="default"), why)
    if lost:
        raise _cannot_be_made(series, lost)
    return sorted(made)


def _cannot_be_made(series: Series, versions: list[str]) -> LostNumbersError:
    return LostNumbersError(
        f"gold/{series.name} has lost {join_limited(versions, _SHOWN, ' versions')}, which cannot be made again from what is "
        "recorded of them: restore the table from a copy"
    )


def restore(lake: Lake, catalog: Catalog, series: Series, session: Callable[[], SparkSession], run_id: str) -> list[date]:
    """Write the published versions again that a table has lost with its newest commits, in one commit.

    A table that is gone is left to :func:`repair`, which a person starts.

    :returns: the first days of their periods; none for a table that has all its versions.
    :raises LostNumbersError: if one of the versions cannot be computed again; nothing is written.
    """
    is_gone = locations.gold(lake, series).open() is None
    return [] if is_gone else _restored(lake, catalog, series, session, run_id)


def _restored(lake: Lake, catalog: Catalog, series: Series, session: Callable[[], SparkSession], run_id: str) -> list[date]:
    """Write the versions that a table has lost, or all of one that is gone."""
    lost = revisions.lost_numbers(lake, series)
    if not lost:
        return []
    _LOG.warning("gold/%s has lost versions of %d periods: they are computed again", series.name, len(lost))
    starts, table = sorted(lost), locations.gold(lake, series).snapshot()
    stored = None if table is None else table_io.read_version(table, None, {series.by: starts})
    rows_by_period = {} if stored is None else table_io.split(stored, series.by)
    recorded, periods = _recorded(lake, series, set(starts)), []
    for start in starts:
        kept = table_io.split(rows_by_period[start], "version_name") if start in rows_by_period else {}
        rows = _remade(lake, catalog, series, start, {**kept, **recorded[start], **kept}, {}, session)
        if missing := [name for name, made in rows.items() if made is None]:
            raise _cannot_be_made(series, missing)
        periods.append(_in_order(pa.concat_tables(rows.values(), promote_options="default")))
    entries = publications.of(lake, series.name)
    newest = [values for values in revisions.unpacked(entries[-1].versions).values() if values]
    revisions.write_again(
        lake,
        series,
        table,
        pa.concat_tables(periods, promote_options="default"),
        starts,
        {"run_id": run_id, "method": "repair", "repaired": [f"{start}" for start in starts]},
        max((values["dataset_version"] for values in newest), default=1),
    )
    revisions.make_up_for_lost_commits(lake, series)
    return starts


def _recorded(lake: Lake, series: Series, starts: set[date]) -> Mapping[date, dict[str, dict[str, Any]]]:
    """The records of the versions of each period, by name, in the order of their publication.

    A version without a record has no values.
    """
    recorded: dict[date, dict[str, dict[str, Any]]] = defaultdict(dict)
    starts_by_text = {f"{start}": start for start in starts}
    for entry in publications.of(lake, series.name):
        concerned = {text: name for text, name in entry.published.items() if text in starts_by_text}
        versions = revisions.unpacked(entry.versions) if concerned else {}
        for text, name in concerned.items():
            recorded[starts_by_text[text]][name] = versions.get(name, {})
    return recorded


def _remade(
    lake: Lake,
    catalog: Catalog,
    series: Series,
    start: date,
    versions: Mapping[str, Mapping[str, Any] | pa.Table | None],
    copies: Mapping[str, pa.Table],
    session: Callable[[], SparkSession],
) -> dict[str, pa.Table | None]:
    """The rows of each version of a period; None for a version that cannot be computed again.

    :param versions: what is recorded of each version, or its rows if the table still has them.
    :param copies: rows of versions in older versions of the table, for those that cannot be computed again.
    """
    made: dict[str, pa.Table | None] = {}
    for name in sorted(versions, key=_order):
        values = versions[name]
        if isinstance(values, pa.Table):
            made[name] = values
            continue
        before = [rows for rows in made.values() if rows is not None]
        rows = _recomputed(lake, catalog, series, start, values, before, session) if values else None
        made[name] = copies.get(name) if rows is None else rows
    return made


def _recomputed(
    lake: Lake,
    catalog: Catalog,
    series: Series,
    start: date,
    values: Mapping[str, Any],
    before: list[pa.Table],
    session: Callable[[], SparkSession],
) -> pa.Table | None:
    """The rows of one version, from the inputs that it names; None if they do not give its content.

    :param before: the rows of the period's earlier versions.
    """
    now = HistoricalContracts(series.metric, catalog.sources[series.metric.source])
    try:
        then = recompute.contract_of_then(lake, now, values, catalog.sources)
        series_then = Series(then.metric, series.kind, called=series.called or series.metric.name)
        read = source_read(then.metric, then.source)
        made = recompute.computed(lake, read, series_then, start, values, session)
    except (LakehouseError, FileNotFoundError):  # it is made of rows of a table that is damaged, too
        return None
    if not made.hidden and not is_content(made.rows, values["content"]):
        return None
    content = made.rows
    if values["adjustment"] is not None:
        content = history.between(series_then, pa.concat_tables(before, promote_options="default"), content)
    return revisions.published_rows(series_then, start, content, values)


def _copies(lake: Lake, series: Series, table: DeltaTable, start: date) -> dict[str, pa.Table]:
    """The rows of a period by version, from the newest older version of the table that still has its files."""
    older = locations.gold(lake, series).snapshot()
    newest = table.version() - 1
    if older is None:
        return {}
    for number in range(newest, max(newest - _SEARCHED, -1), -1):
        try:
            older.load_as_version(number)
            is_damaged = any(file.may_hold(start) for file in data_files.damaged_files_of_table(older))
            rows = None if is_damaged else table_io.read_version(older, None, {series.by: [start]})
        except Exception:  # noqa: BLE001 (the log does not reach back further, or an entry is damaged)
            break
        if rows is not None:
            if not len(rows):
                break
            return table_io.split(rows, "version_name")
    return {}


def _in_order(rows: pa.Table) -> pa.Table:
    """The rows of a period's versions with the marks that later revisions set on earlier ones."""
    columns = ("revision", "adjustment", "published_at")
    each = zip(*(rows[name].to_pylist() for name in columns))
    published = {revision: at for revision, adjustment, at in each if adjustment is None}
    numbers = rows["revision"].to_pylist()
    ends = [min((at for later, at in published.items() if later > number), default=None) for number in numbers]
    of_revision = pc.is_null(rows["adjustment"])
    newest = pc.and_(of_revision, pc.equal(rows["revision"], max(published)))
    marks = {
        "is_latest": newest,
        "due_on": pc.if_else(newest, rows["due_on"], pa.scalar(None, pa.date32())),
        "superseded_at": pc.if_else(of_revision, pa.array(ends, PUBLISHED_SCHEMA.field("superseded_at").type), None),
    }
    for name, values in marks.items():
        rows = rows.set_column(rows.column_names.index(name), name, values)
    return rows


def _order(name: str) -> tuple[int, int]:
    version = parse_version_name(name)
    return (0, 0) if version is None else (version.revision, version.adjustment or 0)
