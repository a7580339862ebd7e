"""``lakehouse admin``: ``repair`` damaged data files, ``maintain`` tables, ``pause`` and ``resume`` what Dagster starts.

``repair`` finds missing or truncated data files and restores their rows from the layer below. ``maintain`` compacts small files,
and deletes files and log entries that are no longer needed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import data_table, deployment, errors, number_column, out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession
    from rich.table import Table

    from lakehouse.operations.maintain import Upkeep
    from lakehouse.operations.pauses import PauseEvent


_UNITS = ("B", "kB", "MB", "GB", "TB")


def maintain(
    table: Annotated[list[str] | None, typer.Option(help="Only this table, such as silver/sales; may be repeated.")] = None,
    layout: Annotated[bool, typer.Option("--layout", help="Let the days of tables of earlier releases share files.")] = False,  # noqa: FBT002
    retention_hours: Annotated[int | None, typer.Option(help="How long files that left a table are kept, at least.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report roughly what would be done.")] = False,  # noqa: FBT002
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per table.")] = False,  # noqa: FBT002
) -> None:
    """Compact tables, write checkpoints, and delete files and log entries that are no longer needed. Numbers do not change."""
    from lakehouse.operations import maintain as maintenance_maintain  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = deployment()
    try:
        work = maintenance_maintain.maintain(
            lake, catalog, table or (), convert=layout, retention_hours=retention_hours, dry_run=dry_run
        )
    except maintenance_maintain.MaintenanceError as refused:
        errors.print(f"{refused}", style="red", soft_wrap=True)
        raise typer.Exit(2) from None
    done = []
    for upkeep in work:
        done.append(upkeep)
        if as_json:
            out.print(json.dumps(asdict(upkeep)), soft_wrap=True)
    if not as_json:
        _print(done, dry_run=dry_run)
    if any(upkeep.problem for upkeep in done):
        raise typer.Exit(1)


def _print(done: Sequence[Upkeep], *, dry_run: bool) -> None:
    if not done:
        out.print("There is no table yet.")
        return
    out.print(work_table(done, dry_run=dry_run))
    converted = [upkeep.table for upkeep in done if upkeep.converted]
    if converted:
        out.print(f"Days {'would share' if dry_run else 'share'} files from now on: {', '.join(converted)}.", soft_wrap=True)
    if converted and dry_run:
        out.print(
            "Programs of yours that read the change feed or a stream of these tables should have read all of it before; see "
            "'Converting tables of earlier releases' in docs/maintenance.md.",
            soft_wrap=True,
        )
    for upkeep in done:
        for sentence in upkeep.kept:
            out.print(f"{upkeep.table}: {sentence}.", soft_wrap=True)
    freed = _size(sum(upkeep.bytes_freed for upkeep in done)) or "0 B"
    out.print(f"{len(done)} {'table' if len(done) == 1 else 'tables'}, {freed} {'to free' if dry_run else 'freed'}.")
    for upkeep in done:
        if upkeep.problem:
            errors.print(f"{upkeep.table}: {upkeep.problem}", style="red", soft_wrap=True)


def work_table(done: Sequence[Upkeep], *, dry_run: bool) -> Table:
    """The work done on each table, or the work that would be done."""
    rows = [_row(upkeep) for upkeep in done]
    table = data_table("What would be done" if dry_run else "What was done")
    table.add_column("table", overflow="fold")
    for position, name in enumerate(("files", "checkpoint", "log deleted", "deleted", "freed"), start=1):
        number_column(table, name, (row[position] for row in rows))
    for row in rows:
        table.add_row(*row)
    return table


def _row(upkeep: Upkeep) -> tuple[str, ...]:
    files = f"{upkeep.files_before:,}" + (f" → {upkeep.files_after:,}" if upkeep.files_after != upkeep.files_before else "")
    numbers = (_counted(upkeep.log_files_deleted), _counted(upkeep.files_deleted), _size(upkeep.bytes_freed))
    return (upkeep.table, files, "yes" if upkeep.checkpointed else "", *numbers)


def _counted(number: int) -> str:
    return f"{number:,}" if number else ""


def _size(size: float) -> str:
    """A number of bytes in a readable unit; empty for 0."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:  # noqa: PLR2004 (the next unit)
        size, unit = size / 1000, unit + 1
    return f"{size:.{1 if unit else 0}f} {_UNITS[unit]}" if size else ""


def repair(
    check: Annotated[bool, typer.Option("--check", help="Only name the damaged files; exit code 1 if there are some.")] = False,  # noqa: FBT002
) -> None:
    """Restore the rows of missing or truncated data files: bronze from landing, silver from bronze, gold from its inputs."""
    from lakehouse.operations import damaged_tables  # noqa: PLC0415 (Arrow and Spark load in seconds)

    lake, catalog = deployment()
    damaged = damaged_tables.find(lake, catalog)
    if check:
        for entry in damaged:
            out.print(f"{entry}", soft_wrap=True)
        if damaged:
            raise typer.Exit(1)
        out.print("No data file is missing or cut off.")
        return
    from lakehouse.operations import damaged_tables  # noqa: PLC0415
    from lakehouse.orchestration.commands import is_behind, restate  # noqa: PLC0415
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415

    def session() -> SparkSession:
        return LakeSpark().session()

    failed = False
    count = 0
    for text, is_done in damaged_tables.repair(lake, catalog, session, "cli:repair"):
        (out if is_done else errors).print(text, style=None if is_done else "red", soft_wrap=True)
        failed, count = failed or not is_done, count + 1
    if not count:
        out.print("No data file is missing or cut off.")
    if failed:
        raise typer.Exit(1)
    for source in sorted(catalog.sources):  # also what an earlier repair was stopped before
        if is_behind(lake, catalog, source):
            restate(lake, catalog, source)


Contract = Annotated[
    str, typer.Argument(metavar="NAME", help="A source, metric or model; 'metric/sales' if a source has its name.")
]


def pause(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A source, metric or model; without it, list the pauses.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who does it.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Why.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Let Dagster start nothing new for a source, metric or model, until it is resumed; what arrives waits."""
    from lakehouse.operations import pauses  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = deployment()
    if name is None:
        held = pauses.paused(lake).values()
        for entry in held:
            _say(entry, f"{entry.contract}: {entry}", as_json=as_json)
        if not held and not as_json:
            out.print("Nothing is paused.")
        return
    if by is None or reason is None:
        msg = "say who pauses it, and why: --by NAME --reason TEXT"
        raise typer.BadParameter(msg)
    entry = pauses.pause(lake, pauses.contract_named(catalog, name), by, reason)
    _say(entry, f"{entry.contract} is paused; 'lakehouse admin resume {name}' ends it.", as_json=as_json)


def resume(name: Contract, by: arguments.DoneBy, reason: arguments.Why, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """End a pause: the next tick of each sensor takes what waits."""
    from lakehouse.operations import pauses  # noqa: PLC0415

    lake, catalog = deployment()
    entry = pauses.resume(lake, pauses.contract_named(catalog, name), by, reason)
    _say(entry, f"{entry.contract} goes on with the next tick of each sensor.", as_json=as_json)


def _say(entry: PauseEvent, text: str, *, as_json: bool) -> None:
    out.print(json.dumps(entry.as_json(), ensure_ascii=False) if as_json else text, soft_wrap=True)
