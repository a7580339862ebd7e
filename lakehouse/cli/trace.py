"""``lakehouse trace``: one key's whole life, from the lines that speak of it to the numbers it moved. Starts no JVM."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from lakehouse.cli.console import catalog_with, errors, out

if TYPE_CHECKING:
    from lakehouse.tables.accounts import BronzeRow, SilverChange

_CHANGES = {"insert": "inserted", "delete": "deleted", "update_preimage": "was", "update_postimage": "became"}


def trace(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    key: Annotated[str, typer.Argument(help="The record key, as the column record_key shows it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,  # noqa: FBT002
) -> None:
    """Tell what became of each record of a key, and why; what it did to silver, and which published days that moved."""
    from lakehouse.tables import accounts  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    contract, metrics = catalog.sources[source], [metric.metric for metric in catalog.metrics_of(source)]
    records = accounts.rows(settings, contract, keys=[key])
    if not records:
        errors.print(f"No row of bronze/{source} has the key {key!r}.", style="yellow", markup=False)
        raise typer.Exit(1)
    life = accounts.silver_life(settings, contract, metrics, key)
    if as_json:
        told = {"key": key, "records": [asdict(row) for row in records], "silver": [asdict(change) for change in life]}
        out.print(json.dumps(told, default=str), soft_wrap=True, markup=False)
        return
    out.print(_records(key, records))
    out.print(_silver(life))


def _records(key: str, records: list[BronzeRow]) -> Table:
    table = Table(title=f"What Bronze holds of {key}", title_justify="left", box=box.HORIZONTALS)
    for heading in ("arrived", "file and line", "says", "event day", "disposition", "because"):
        table.add_column(heading, overflow="fold")
    for row in records:
        because = f"{row.because} ({row.decided_by})" if row.decided_by else row.because
        place = f"{row.source_file}:{row.line_number}"
        event_day = f"{row.event_date}" if row.event_date else ""
        table.add_row(f"{row.arrival_date}", place, row.change_op or "", event_day, row.disposition.value, because)
    return table


def _silver(life: list[SilverChange]) -> Table:
    table = Table(title="What that did to silver and to published numbers", title_justify="left", box=box.HORIZONTALS)
    for heading in ("silver version", "row", "event day", "published days it moved"):
        table.add_column(heading, overflow="fold")
    for change in life:
        moved = ", ".join(f"{metric} of {day} on {when:%Y-%m-%d}" for metric, day, when in change.published)
        table.add_row(f"{change.version}", _CHANGES[change.change], f"{change.event_date}", moved or "none")
    return table
