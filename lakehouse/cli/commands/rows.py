"""``lakehouse rows``: the rows of silver, as of now, of a time of knowledge or of a snapshot, on the screen or in a file.

For a dimension, it also shows the intervals valid at an event time; for Bronze, the rows that could not be read.
"""

from __future__ import annotations

import json
from datetime import date as day_type
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, errors, out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings
    from lakehouse.snapshots.named import NamedSnapshot


def rows(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="Only this event day.")] = None,
    start_date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="From this event day on.")] = None,
    end_date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="Through this event day.")] = None,
    known_at: Annotated[
        datetime | None,
        typer.Option(
            parser=arguments.moment,
            metavar="TIME",
            help="With what was known by then (UTC); a day means its end.",
        ),
    ] = None,
    as_of_event: Annotated[
        datetime | None,
        typer.Option(
            parser=arguments.moment,
            metavar="TIME",
            help="Of a dimension: the intervals that are valid at this event time (UTC); a day means its end.",
        ),
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="With the inputs of this snapshot.")] = None,
    malformed: Annotated[  # noqa: FBT002
        bool, typer.Option("--malformed", help="Those that could not be read, with reason and raw text.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="Write them to this new file: .parquet, .csv, or .delta for a table.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows on the screen.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, with all columns.")] = False,  # noqa: FBT002
) -> None:
    """Show the rows of silver, as of now, of a time of knowledge or of a snapshot, or the rows that could not be read."""
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
    from lakehouse.snapshots import export, local_rows, named  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    contract = catalog.sources[source]
    if as_of_event is not None and not contract.is_dimension:
        msg = f"--as-of-event: {source} is no dimension; its rows have an event time each (--date shows those of a day)"
        raise typer.BadParameter(msg)
    if to is not None:
        export.check(to)
    first, last = (day.date() if day else None for day in (date or start_date, date or end_date))
    if malformed:
        _show(_malformed(settings, source, first, last), to, limit, None if as_json else ["raw_payload"], _unread)
        return
    named_snapshot = named.find(settings, source, snapshot) if snapshot else None
    of_rows = contract.model.fields if as_of_event is None else contract.typed_fields
    fields = None if as_json else [field.name for field in of_rows]
    if as_of_event is not None:
        valid = _valid(settings, contract, as_of_event, named_snapshot or known_at)
        _show(valid, to, limit, fields, _interval)
        return
    days = local_rows.days_of(settings, contract, first, last)
    if not days:
        errors.print(f"No row of {source} has ever been on these days.", style="yellow")
        raise typer.Exit(1)
    _show(_rows(settings, contract, days, named_snapshot or known_at), to, limit, fields, _event)


def _malformed(settings: Settings, source: str, first: day_type | None, last: day_type | None) -> Iterator[pa.Table]:
    """The rows that could not be read: all, or the rows that may belong to a range of days.

    A row without an event day is listed by its arrival day.
    """
    import pyarrow as pa  # noqa: PLC0415 (Arrow loads in a second)
    import pyarrow.compute as pc  # noqa: PLC0415

    from lakehouse.dispositions import malformed_rows  # noqa: PLC0415

    for rows in malformed_rows.tables(settings, source):
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
    from lakehouse.snapshots import export  # noqa: PLC0415

    with errors.status(f"writing {to}"):
        written = export.write(pieces, to)
    out.print(f"{counted(written)} written to {to}.", soft_wrap=True)


def _valid(
    settings: Settings, contract: SourceContract, moment: datetime, as_of: NamedSnapshot | datetime | None
) -> Iterator[pa.Table]:
    """The intervals of a dimension that contain ``moment``."""
    if as_of is None:
        from lakehouse.dimensions import valid_at  # noqa: PLC0415

        return valid_at.current(settings, contract, moment)
    from lakehouse.snapshots import dimension_rows  # noqa: PLC0415

    def session() -> SparkSession:
        from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)

        return LakeSpark().session()

    return dimension_rows.valid_as_of(settings, contract, moment, as_of, session)


def _event(row: dict[str, Any]) -> str:
    return f"{row['event_date']}  {row['record_key']}"


def _interval(row: dict[str, Any]) -> str:
    begin, end = (None if row[name] is None else f"{row[name]:%Y-%m-%dT%H:%M:%SZ}" for name in ("valid_from", "valid_to"))
    return f"{begin} to {end or 'open'}  {row['dimension_key']}"


def _rows(
    settings: Settings, contract: SourceContract, days: Sequence[day_type], as_of: NamedSnapshot | datetime | None
) -> Iterator[pa.Table]:
    from lakehouse.snapshots import local_rows  # noqa: PLC0415

    if as_of is None:
        return local_rows.current(settings, contract, days)
    few = local_rows.computed(settings, contract, days, as_of, settings.local_rows)
    if few is not None:
        return iter([few])
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.snapshots import rows as snapshot_rows  # noqa: PLC0415

    spark = LakeSpark().session()
    if isinstance(as_of, datetime):
        return snapshot_rows.as_known_at(spark, settings, contract, days, as_of)
    return snapshot_rows.of_snapshot(spark, settings, contract, days, as_of)


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
