"""``lakehouse rows``: the rows of silver, now, as known at a time or of a snapshot, on the screen or in a file."""

from __future__ import annotations

import json
from datetime import date as day_type
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, errors, out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

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
    snapshot: Annotated[str | None, typer.Option(help="With the inputs of this snapshot.")] = None,
    to: Annotated[Path | None, typer.Option(help="Write them to this new file: .parquet, .csv, or .delta for a table.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows on the screen.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, with all columns.")] = False,  # noqa: FBT002
) -> None:
    """Show the rows of Silver, as they are now, as they were known at a time or of a snapshot, or write them to a file."""
    if date is not None and (start_date is not None or end_date is not None):
        msg = "--date is one day: use it without --start-date and --end-date"
        raise typer.BadParameter(msg)
    if known_at is not None and snapshot is not None:
        msg = "--snapshot names the inputs: use it without --known-at"
        raise typer.BadParameter(msg)
    from lakehouse.snapshots import export, local_rows, named  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    contract = catalog.sources[source]
    if to is not None:
        export.check(to)
    named_snapshot = named.find(settings, source, snapshot) if snapshot else None
    first, last = (day.date() if day else None for day in (date or start_date, date or end_date))
    days = local_rows.days_of(settings, contract, first, last)
    if not days:
        errors.print(f"No row of {source} has ever been on these days.", style="yellow")
        raise typer.Exit(1)
    if to is not None:
        with errors.status(f"writing {to}"):
            written = export.write(_rows(settings, contract, days, named_snapshot or known_at), to)
        out.print(f"{counted(written)} written to {to}.", soft_wrap=True)
        return
    fields = None if as_json else [field.name for field in contract.model.fields]
    _print(_rows(settings, contract, days, named_snapshot or known_at), limit, fields)


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


def _print(pieces: Iterable[pa.Table], limit: int, fields: Sequence[str] | None) -> None:
    """Print the first rows; no more is read than that takes.

    :param fields: the columns to print, besides event day and key; None prints JSON.
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
            text = f"{row['event_date']}  {row['record_key']}: {values}"
        out.print(text, soft_wrap=True, markup=False, highlight=False)
        printed += 1
    if not printed:
        errors.print("There are no rows.", style="yellow")
