"""``lakehouse audit``: the changes of silver by late and corrected data, row by row."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.console import catalog_with, counted, out

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 50
_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


def audit(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Rows about this event day.")] = None,
    key: Annotated[str | None, typer.Option(help="Rows about this record key.")] = None,
    actor: Annotated[str | None, typer.Option(help="Rows by this person or system.")] = None,
    since: Annotated[datetime | None, typer.Option(formats=_TIMES, help="Rows written then or later (UTC).")] = None,
    action: Annotated[str | None, typer.Option(help="late_merge, correction, backfill, replay, redaction or steward.")] = None,
    limit: Annotated[
        int | None, typer.Option(help=f"Maximum number of rows, the newest; default: {_SHOWN}, all with --json.", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,  # noqa: FBT002
) -> None:
    """List every late row and every change of an existing row: author, reason, and values before and after."""
    from lakehouse.silver import audit_log as log  # noqa: PLC0415 (Arrow loads in a second)

    if action is not None and action not in log.ACTIONS:
        msg = f"--action is one of {', '.join(log.ACTIONS)}"
        raise typer.BadParameter(msg)
    settings, _ = catalog_with(source)
    since = since.replace(tzinfo=timezone.utc) if since is not None and since.tzinfo is None else since
    rows = log.read(settings, source, day=date.date() if date else None, key=key, actor=actor, action=action, since=since)
    newest: pa.Table = rows.slice(max(0, len(rows) - limit)) if limit else rows
    if as_json:
        for row in newest.to_pylist():
            out.print(json.dumps(_plain(log.parsed(row)), ensure_ascii=False), soft_wrap=True)
        return
    newest = newest if limit else newest.slice(max(0, len(newest) - _SHOWN))
    for row in newest.to_pylist():
        _print(log.parsed(row))
    left = len(rows) - len(newest)
    out.print(f"{counted(len(rows))}{f', {left:,} older ones not shown (--limit)' if left else ''}.")


def _print(row: dict[str, Any]) -> None:
    """Print a few lines per row, never truncated: a table would fold the values."""
    where = f"{row['event_id'] or 'a first load'} on {row['event_date']}"
    out.print(f"{row['audit_ts']:%Y-%m-%d %H:%M}  {row['action_type']}: {where}", style="bold", soft_wrap=True)
    _say(
        f"by {row['actor'] or 'somebody unknown'}: {row['reason'] or 'no reason given'} (silver version {row['silver_version']})"
    )
    old, new = row["original_value"], row["new_value"]
    if old is not None and new is not None:
        for name in new:
            _say(f"{name}: {_shown(old[name])} -> {_shown(new[name])}")
    else:
        said = {name: value for name, value in (old or new).items() if value is not None}
        _say(f"{'new' if old is None else 'gone'}: " + ", ".join(f"{name} {_shown(value)}" for name, value in said.items()))
    if row["impacted_kpis"]:
        _say(f"affects {', '.join(row['impacted_kpis'])}")


def _shown(value: object) -> str:
    """The value as JSON: quotes make an empty text visible, and control characters do not reach the terminal."""
    return json.dumps(value, ensure_ascii=False)


def _say(text: str) -> None:
    out.print(f"    {text}", soft_wrap=True)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
