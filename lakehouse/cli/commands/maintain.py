"""``lakehouse maintain``: put small files together, and delete what nobody needs any more. Starts no JVM."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from lakehouse.cli.console import deployment, errors, out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.operations.maintenance.maintain import Upkeep

_UNITS = ("B", "kB", "MB", "GB", "TB")


def maintain(
    table: Annotated[list[str] | None, typer.Option(help="Only this table, such as silver/sales; may be said again.")] = None,
    retention_hours: Annotated[int | None, typer.Option(help="How long files stay that left a table, at least.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, about.")] = False,  # noqa: FBT002
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a table.")] = False,  # noqa: FBT002
) -> None:
    """Compact tables, write checkpoints, and delete files and log entries that nobody needs. Numbers stay as they are."""
    from lakehouse.operations.maintenance import maintain as maintenance_maintain  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = deployment()
    try:
        work = maintenance_maintain.maintain(settings, catalog, table or (), retention_hours=retention_hours, dry_run=dry_run)
    except maintenance_maintain.MaintenanceError as refused:
        errors.print(f"{refused}", style="red", soft_wrap=True)
        raise typer.Exit(2) from None
    done = []
    for one in work:
        done.append(one)
        if as_json:
            out.print(json.dumps(asdict(one)), soft_wrap=True)
    if not as_json:
        _print(done, dry_run=dry_run)
    if any(one.problem for one in done):
        raise typer.Exit(1)


def _print(done: Sequence[Upkeep], *, dry_run: bool) -> None:
    if not done:
        out.print("There is no table yet.")
        return
    shown = Table(title="What would be done" if dry_run else "What was done", title_justify="left", box=box.HORIZONTALS)
    shown.add_column("table", no_wrap=True)
    for name in ("files", "checkpoint", "log deleted", "deleted", "freed"):
        shown.add_column(name, justify="right", no_wrap=True)
    for one in done:
        files = f"{one.files_before:,}" + (f" → {one.files_after:,}" if one.files_after != one.files_before else "")
        checkpoint = "yes" if one.checkpointed else ""
        numbers = (_counted(one.log_files_deleted), _counted(one.files_deleted), _size(one.bytes_freed))
        shown.add_row(one.table, files, checkpoint, *numbers)
    out.print(shown)
    for one in done:
        for sentence in one.kept:
            out.print(f"{one.table}: {sentence}.", soft_wrap=True)
    freed = _size(sum(one.bytes_freed for one in done)) or "0 B"
    out.print(f"{len(done)} {'table' if len(done) == 1 else 'tables'}, {freed} {'to free' if dry_run else 'freed'}.")
    for one in done:
        if one.problem:
            errors.print(f"{one.table}: {one.problem}", style="red", soft_wrap=True)


def _counted(number: int) -> str:
    return f"{number:,}" if number else ""


def _size(size: float) -> str:
    """Bytes as people say them; nothing of none."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:  # noqa: PLR2004 (the next unit)
        size, unit = size / 1000, unit + 1
    return f"{size:.{1 if unit else 0}f} {_UNITS[unit]}" if size else ""
