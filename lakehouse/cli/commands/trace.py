"""``lakehouse trace``: the history of a key, from its raw lines to the published numbers that it changed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.console import catalog_with, errors, out
from lakehouse.ledger.row_states import Disposition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.contracts import Catalog
    from lakehouse.dispositions.account import BronzeRow
    from lakehouse.gold.publication.attribute_changes import PublishedChange
    from lakehouse.impact.key_history import SilverChange
    from lakehouse.ledger.rebuild_requests import RebuildRequest
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings


def trace(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    key: Annotated[str, typer.Argument(help="The record key, as the column record_key shows it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,  # noqa: FBT002
) -> None:
    """Show the disposition of each record of a key with its reason, the changes in silver, and the published days it changed."""
    from lakehouse.dispositions import account as dispositions_account  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.dispositions import malformed_rows  # noqa: PLC0415
    from lakehouse.dispositions.readings import in_force  # noqa: PLC0415
    from lakehouse.impact import key_history  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    contract, metrics = catalog.sources[source], catalog.metrics_of(source)
    records = dispositions_account.rows(settings, contract, keys=[key])
    readings = in_force.requests_of(settings, source, [row.row_id for row in records])
    if not records:
        errors.print(f"No row of bronze/{source} has the key {key!r}.", style="yellow")
        raise typer.Exit(1)
    numbers = _numbers_that_join(settings, catalog, source, key)
    lives = [key_history.silver_life(settings, table, metrics, key) for table in contract.silver_tables]
    if as_json:
        stories = {name: [asdict(change) for change in story] for name, (story, _) in zip(("silver", "silver_newest"), lives)}
        rows = [asdict(row) | {"reading": _reading_in_json(readings.get(row.row_id))} for row in records]
        joined = {"numbers": [change._asdict() for change in numbers]} if numbers else {}
        out.print(json.dumps({"key": key, "records": rows, **stories, **joined}, default=str), soft_wrap=True)
        return
    unread = any(row.disposition is Disposition.MALFORMED for row in records)
    _print_records(records, readings, malformed_rows.raw_texts(settings, source, key) if unread else {})
    for table, (story, oldest) in zip(contract.silver_tables, lives):
        _print_life("silver" if table is contract else f"silver/{table.silver_table}", story, oldest)
    if numbers:
        out.print(f"In numbers that join {source}", style="bold")
    for change in numbers:
        _say(f"  gold/{change.series} of {', '.join(map(str, change.days))}, on {change.published_at:%Y-%m-%d}")
        _say(f"              restated because {change.words}")


def _numbers_that_join(settings: Settings, catalog: Catalog, source: str, key: str) -> list[PublishedChange]:
    """The effects of changes of a dimension's key on the days of metrics that join it."""
    import pyarrow as pa  # noqa: PLC0415 (Arrow loads in a second)

    from lakehouse.dimensions.keys import dimension_keys  # noqa: PLC0415
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.gold.publication import attribute_changes  # noqa: PLC0415

    [of_dimension] = dimension_keys(pa.array([key])).to_pylist()
    return [
        change
        for metric in catalog.metrics_joining(source)
        if of_dimension is not None
        for change in attribute_changes.of_key(settings, served_version.daily(settings, catalog, metric), source, of_dimension)
    ]


def _reading_in_json(request: RebuildRequest | None) -> dict[str, Any] | None:
    if request is None:
        return None
    named = {"by": request.runner_id, "reason": request.reason, "recorded_at": request.recorded_at}
    return {"reading_id": request.operation_id, **named}


def _print_records(records: list[BronzeRow], readings: Mapping[RowId, RebuildRequest], raw_texts: Mapping[RowId, str]) -> None:
    """Print a few lines per record, never truncated: a table would fold the file names."""
    out.print("In Bronze", style="bold")
    for row in records:
        about = f" for {row.event_date}" if row.event_date else ""
        _say(f"  {row.arrival_date}  {row.change_op or 'unread'}{about}, {row.source_file}:{row.line_number}")
        _say(f"              row {row.ingestion_id}:{row.line_number}")
        if request := readings.get(row.row_id):
            when = f"{request.recorded_at:%Y-%m-%d}"
            _say(f"              read again by {request.runner_id} on {when}: {request.reason} ({request.operation_id})")
        decided_by = f", {row.decided_by}" if row.decided_by else ""
        _say(f"              {row.disposition.value}: {row.because}{decided_by}")
        if row.row_id in raw_texts:
            _say(f"              as it was sent: {raw_texts[row.row_id]}")
        if row.decision:
            _say(f"              {row.decision}")


def _print_life(table: str, life: list[SilverChange], oldest: int) -> None:
    out.print(f"In {table}, and the published days that changed", style="bold")
    if oldest:
        _say(f"  (the table's log begins with version {oldest})")
    for change in life:
        _say(f"  version {change.version}: {change.change} on {change.event_date}")
        for metric, day, when in change.published:
            _say(f"              gold/{metric} of {day}, on {when:%Y-%m-%d}")


def _say(text: str) -> None:
    out.print(text, soft_wrap=True)
