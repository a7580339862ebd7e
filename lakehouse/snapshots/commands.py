"""``lakehouse source snapshot`` and ``lakehouse rows``: name a set of inputs of a source, and read rows of silver.

Rows are read as of now, of a time of knowledge or of a snapshot, on the screen or into a file. Two snapshots are compared as a
table for people and as JSON for programs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date as day_type
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, data_table, errors, number_column, out
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.snapshots.comparison import RowsComparison
    from lakehouse.snapshots.input_sets import NamedSnapshot


def print_comparison(compared: RowsComparison, before: str, after: str) -> None:
    """Print the content of two snapshots line by line, and the number of differing keys."""
    lines: list[tuple[str, Any, Any]] = [("rows", *compared.rows), ("keys", *compared.keys)]
    for field in compared.fields:
        if field.filled[0] != field.filled[1] or field.total is None:
            lines.append((f"{field.name}, rows with a value", *field.filled))
        if field.total is not None:
            lines.append((f"{field.name}, total", *field.total))
    table = data_table()
    table.add_column("")
    for heading, values in ((before, [line[1] for line in lines]), (after, [line[2] for line in lines])):
        number_column(table, heading, map(_shown, values))
    number_column(table, "difference", (_difference(line[1], line[2]) for line in lines))
    for name, *sides in lines:
        table.add_row(name, *map(_shown, sides), _difference(*sides))
    out.print(table)
    if compared.equal:
        out.print("Both have the same content.")
        return
    only = f"{compared.only_before:,} keys only in {before}, {compared.only_after:,} only in {after}"
    out.print(f"{only}, {compared.changed:,} with other content.", soft_wrap=True, highlight=False)


def as_json_text(compared: RowsComparison) -> str:
    """The comparison as one JSON object: pairs of values, before and after."""
    fields = {
        field.name: {"filled": list(field.filled), "total": None if field.total is None else list(map(json_value, field.total))}
        for field in compared.fields
    }
    names = ("rows", "keys", "only_before", "only_after", "changed", "equal")
    return json.dumps({name: getattr(compared, name) for name in names} | {"fields": fields})


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value:,}"


def _difference(before: Any, after: Any) -> str:
    if before == after:
        return ""
    return "" if before is None or after is None else f"{after - before:+,}"


@dataclass(frozen=True)
class ShownDays:
    """The event days whose rows are shown: one, or a range; by default all."""

    date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="Only this event day.")] = None
    start_date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="From this event day on.")] = None
    end_date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="Through this event day.")] = None


@dataclass(frozen=True)
class ShownState:
    """The state whose rows are shown; by default that of now."""

    known_at: Annotated[
        datetime | None,
        typer.Option(
            parser=arguments.moment,
            metavar="TIME",
            help="With what was known by then (UTC); a day means its end.",
        ),
    ] = None
    as_of_event: Annotated[
        datetime | None,
        typer.Option(
            parser=arguments.moment,
            metavar="TIME",
            help="Of a dimension: the intervals that are valid at this event time (UTC); a day means its end.",
        ),
    ] = None
    snapshot: Annotated[str | None, typer.Option(help="With the inputs of this snapshot.")] = None


@arguments.with_groups
def rows(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    days: ShownDays,
    state: ShownState,
    malformed: Annotated[  # noqa: FBT002
        bool, typer.Option("--malformed", help="Those that could not be read, with reason and raw text.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="Write them to this new file: .parquet, .csv, or .delta for a table.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows on the screen.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, with all columns.")] = False,  # noqa: FBT002
) -> None:
    """Show the rows of silver, as of now, of a time of knowledge or of a snapshot, or the rows that could not be read."""
    date, start_date, end_date = days.date, days.start_date, days.end_date
    known_at, as_of_event, snapshot = state.known_at, state.as_of_event, state.snapshot
    if date is not None and (start_date is not None or end_date is not None):
        msg = "--date is one day: use it without --start-date and --end-date"
        raise typer.BadParameter(msg)
    if known_at is not None and snapshot is not None:
        msg = "--snapshot names the inputs: use it without --known-at"
        raise typer.BadParameter(msg)
    if as_of_event is not None and (date or start_date or end_date):
        msg = "--as-of-event names a moment in event time: use it without --date, --start-date and --end-date"
        raise typer.BadParameter(msg)
    if malformed and (known_at or as_of_event or snapshot):
        msg = "--malformed shows what cannot be read now: use it without --known-at, --as-of-event and --snapshot"
        raise typer.BadParameter(msg)
    from lakehouse.snapshots import input_sets, local_rows  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.snapshots import rows as snapshot_rows  # noqa: PLC0415

    lake, catalog = catalog_with(source, reading=True)
    contract = catalog.sources[source]
    if as_of_event is not None and not contract.is_dimension:
        msg = f"--as-of-event: {source} is no dimension; its rows have an event time each (--date shows those of a day)"
        raise typer.BadParameter(msg)
    if to is not None:
        snapshot_rows.check_file(to)
    first, last = (day.date() if day else None for day in (date or start_date, date or end_date))
    if malformed:
        _show(_malformed(lake, source, first, last), to, limit, None if as_json else ["raw_payload"], _unread)
        return
    named_snapshot = input_sets.find_snapshot(lake, source, snapshot) if snapshot else None
    of_rows = contract.model.fields if as_of_event is None else contract.typed_fields
    fields = None if as_json else [field.name for field in of_rows]
    if as_of_event is not None:
        valid = _valid(lake, contract, as_of_event, named_snapshot or known_at)
        _show(valid, to, limit, fields, _interval)
        return
    of_days = local_rows.days_of(lake, contract, first, last)
    if not of_days:
        errors.print(f"No row of {source} has ever been on these days.", style="yellow")
        raise typer.Exit(1)
    _show(_rows(lake, contract, of_days, named_snapshot or known_at), to, limit, fields, _event)


def _malformed(lake: Lake, source: str, first: day_type | None, last: day_type | None) -> Iterator[pa.Table]:
    """The rows that could not be read: all, or the rows that may belong to a range of days.

    A row without an event day is listed by its arrival day.
    """
    import pyarrow as pa  # noqa: PLC0415 (Arrow loads in a second)
    import pyarrow.compute as pc  # noqa: PLC0415

    from lakehouse.dispositions import unread  # noqa: PLC0415

    for rows in unread.malformed_tables(lake, source):
        day = pc.coalesce(rows["event_date"], rows["arrival_date"])
        for bound, compare in ((first, pc.greater_equal), (last, pc.less_equal)):
            if bound is not None:
                is_within = compare(day, pa.scalar(bound))
                rows, day = rows.filter(is_within), day.filter(is_within)  # noqa: PLW2901
        yield rows


def _unread(row: dict[str, Any]) -> str:
    """The heading of a row that could not be read."""
    about = ", ".join(f"{row[name]}" for name in ("record_key", "event_date") if row[name] is not None) or "no key, no event day"
    return f"{row['source_file']}:{row['line_number']}, arrived {row['arrival_date']} ({about}): {row['malformed_reason']}"


def _show(
    pieces: Iterable[pa.Table],
    to: Path | None,
    limit: int,
    fields: Sequence[str] | None,
    heading: Callable[[dict[str, Any]], str],
) -> None:
    if to is None:
        _print(pieces, limit, fields, heading)
        return
    from lakehouse.snapshots import rows as snapshot_rows  # noqa: PLC0415

    with errors.status(f"writing {to}"):
        written = snapshot_rows.write_file(pieces, to)
    out.print(f"{counted(written)} written to {to}.", soft_wrap=True)


def _valid(lake: Lake, contract: SourceContract, moment: datetime, as_of: NamedSnapshot | datetime | None) -> Iterator[pa.Table]:
    """The intervals of a dimension that contain ``moment``."""
    if as_of is None:
        from lakehouse.dimensions import tables  # noqa: PLC0415

        return tables.current_intervals(lake, contract, moment)
    from lakehouse.snapshots import rows as snapshot_rows  # noqa: PLC0415

    def session() -> SparkSession:
        from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)

        return LakeSpark().session()

    return snapshot_rows.valid_as_of(lake, contract, moment, as_of, session)


def _event(row: dict[str, Any]) -> str:
    return f"{row['event_date']}  {row['record_key']}"


def _interval(row: dict[str, Any]) -> str:
    begin, end = (None if row[name] is None else f"{row[name]:%Y-%m-%dT%H:%M:%SZ}" for name in ("valid_from", "valid_to"))
    return f"{begin} to {end or 'open'}  {row['dimension_key']}"


def _rows(
    lake: Lake, contract: SourceContract, days: Sequence[day_type], as_of: NamedSnapshot | datetime | None
) -> Iterator[pa.Table]:
    from lakehouse.snapshots import local_rows  # noqa: PLC0415

    if as_of is None:
        return local_rows.current(lake, contract, days)
    few = local_rows.computed(lake, contract, days, as_of, lake.settings.local_rows)
    if few is not None:
        return iter([few])
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.snapshots import rows as snapshot_rows  # noqa: PLC0415

    spark = LakeSpark().session()
    if isinstance(as_of, datetime):
        return snapshot_rows.as_known_at(spark, lake, contract, days, as_of)
    return snapshot_rows.of_snapshot(spark, lake, contract, days, as_of)


def _print(
    pieces: Iterable[pa.Table], limit: int, fields: Sequence[str] | None, heading: Callable[[dict[str, Any]], str]
) -> None:
    """Print the first rows, reading no more than necessary.

    :param fields: the columns to print after the heading of a row; None prints JSON.
    """
    printed = 0
    for row in (row for piece in pieces for row in piece.slice(0, limit + 1).to_pylist()):
        if printed == limit:
            errors.print("There are more rows: --limit shows more of them, --to FILE writes all.", style="yellow")
            return
        if fields is None:
            text = json.dumps(row, default=str, ensure_ascii=False)
        else:
            values = ", ".join(f"{name} {json.dumps(row[name], default=str, ensure_ascii=False)}" for name in fields)
            text = f"{heading(row)}: {values}"
        out.print(text, soft_wrap=True, markup=False, highlight=False)
        printed += 1
    if not printed:
        errors.print("There are no rows.", style="yellow")


app = typer.Typer(help="Named sets of inputs: create, list, show, compare, drop.", no_args_is_help=True)

_Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
_Name = Annotated[str, typer.Argument(help="The snapshot, such as feed_v1.3_2024-11-10.")]


@app.command()
def create(
    source: _Source,
    name: _Name,
    by: arguments.DoneBy,
    reason: arguments.Why,
    through: Annotated[
        datetime | None, typer.Option(formats=arguments.DAY, help="Only files of arrival days through this one.")
    ] = None,
    known_at: Annotated[
        datetime | None,
        typer.Option(parser=arguments.moment, metavar="TIME", help="Only what was known by then (UTC); a day means its end."),
    ] = None,
    files: Annotated[list[str] | None, typer.Option("--file", help="Only this file, by its name; may be repeated.")] = None,
) -> None:
    """Name the present inputs of a source, or a part of them. Later files and decisions never belong to the name."""
    if sum(option is not None for option in (through, known_at, files or None)) > 1:
        msg = "--through, --known-at and --file each select the inputs: use one of them"
        raise typer.BadParameter(msg)
    from lakehouse.snapshots import input_sets  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = catalog_with(source)
    if through is not None:
        ids, described = input_sets.inputs_through(lake, source, through.date()), f"arrival days through {through:%Y-%m-%d}"
    elif known_at is not None:
        ids, described = input_sets.known_at(lake, source, known_at), f"known at {known_at:%Y-%m-%d %H:%M}"
    elif files:
        ids, described = input_sets.inputs_of_files(lake, source, files), f"{len(files):,} named files"
    else:
        ids, described = input_sets.every_input(lake, source), "all inputs"
    chosen = input_sets.ChosenInputs(ids, described, known_at)
    made = input_sets.create_snapshot(lake, catalog.sources[source], name, chosen, by=by, reason=reason)
    out.print(_line(made), soft_wrap=True, highlight=False)


@app.command("list")
def list_(source: _Source, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """List the snapshots of a source, oldest first."""
    from lakehouse.snapshots import input_sets  # noqa: PLC0415

    lake, _ = catalog_with(source, reading=True)
    known = input_sets.snapshots_of(lake, source)
    for snapshot in known:
        out.print(_as_json(snapshot) if as_json else _line(snapshot), soft_wrap=True, highlight=False)
    if not known and not as_json:
        out.print(f"{source} has no snapshot.")


@app.command()
def show(source: _Source, name: _Name, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show the content of a snapshot: files, rows of Bronze, decisions and requests."""
    from lakehouse.delta import provenance  # noqa: PLC0415
    from lakehouse.ledger import ingestions  # noqa: PLC0415
    from lakehouse.snapshots import input_sets  # noqa: PLC0415

    lake, catalog = catalog_with(source, reading=True)
    snapshot = input_sets.find_snapshot(lake, source, name)
    ids = input_sets.ids_of(lake, source, snapshot.inputs)
    delivered = {one: entry for one, entry in ingestions.inputs(ingestions.all_of(lake, source)).items() if one in ids}
    days = sorted(entry.arrival_date for entry in delivered.values())
    files, rows = len(delivered), sum(entry.rows for entry in delivered.values() if entry.status == "ingested")
    if as_json:
        content = {"files": files, "rows": rows, "first_arrival": days[0], "last_arrival": days[-1], "others": len(ids) - files}
        out.print(json.dumps({**json.loads(_as_json(snapshot)), **content}, default=str), soft_wrap=True)
        return
    out.print(_line(snapshot), soft_wrap=True, highlight=False)
    out.print(f"    {files:,} files of arrival days {days[0]} to {days[-1]}, {counted(rows)} of Bronze", highlight=False)
    if snapshot.until is not None:
        out.print(f"    of these, what had arrived by {snapshot.until:%Y-%m-%d %H:%M} UTC", highlight=False)
    out.print(f"    {len(ids) - files:,} decisions and rebuild requests", highlight=False)
    if provenance.of_contract(catalog.sources[source]) != snapshot.contract_version:
        out.print("    the contract has changed since: rows are computed under today's", style="yellow")


@app.command()
def compare(
    source: _Source,
    before: Annotated[str, typer.Argument(metavar="A", help="A snapshot.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Compare the rows of two snapshots: rows, keys, and the total of each field; starts Spark."""
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.snapshots import input_sets  # noqa: PLC0415
    from lakehouse.snapshots import rows as snapshot_rows  # noqa: PLC0415

    lake, catalog = catalog_with(source, reading=True)
    sides = [input_sets.find_snapshot(lake, source, name) for name in (before, after)]
    with errors.status("computing the rows of both from Bronze"):
        compared = snapshot_rows.compare_snapshots(LakeSpark().session(), lake, catalog.sources[source], *sides)
    if as_json:
        out.print(as_json_text(compared), soft_wrap=True)
    else:
        print_comparison(compared, before, after)


@app.command()
def drop(source: _Source, name: _Name, by: arguments.DoneBy, reason: arguments.Why) -> None:
    """Retire a snapshot name. It can never be used again; no row of any table changes."""
    from lakehouse.snapshots import input_sets  # noqa: PLC0415

    lake, _ = catalog_with(source)
    input_sets.drop_snapshot(lake, source, name, by=by, reason=reason)
    out.print(f"{name} of {source} is dropped.", soft_wrap=True, highlight=False)


def _line(snapshot: NamedSnapshot) -> str:
    about = f"{snapshot.described}, by {snapshot.by} on {snapshot.recorded_at:%Y-%m-%d}: {snapshot.reason}"
    return f"{snapshot.name}  {about}"


def _as_json(snapshot: NamedSnapshot) -> str:
    return json.dumps({**vars(snapshot), "event": snapshot.event.value}, default=str, ensure_ascii=False)
