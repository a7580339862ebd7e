"""``lakehouse alerts``: the alerts that the sensor ``alerts`` has recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.arguments import AsJson  # noqa: TC001 (typer reads it)
from lakehouse.cli.console import DATE_WIDTH, data_table, out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from lakehouse.operations.alerts.log import AlertRecord

_TIME = "%Y-%m-%d %H:%M"


def alerts(
    everything: Annotated[bool, typer.Option("--all", help="Include resolved alerts.")] = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """List the alerts that were open at the last tick of the sensor `alerts`."""
    from lakehouse.operations.alerts import log as ledger  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.settings import Settings  # noqa: PLC0415

    records = [record for record in ledger.all_of(Settings()) if everything or record.resolved_at is None]
    if as_json:
        for record in records:
            out.print(json.dumps(_as_json(record), default=str), soft_wrap=True)
    elif records:
        out.print(alerts_table(records))
    else:
        out.print("There is no alert." if everything else "No alert is open.")


def _as_json(record: AlertRecord) -> dict[str, object]:
    fields = {name: value for name, value in vars(record.alert).items() if name != "kind"}
    undelivered = {event: record.waiting(event) for event in ("opened", "resolved")}
    times = {"opened_at": record.opened_at, "resolved_at": record.resolved_at, "not_told_yet": undelivered}
    return {"alert_id": record.alert_id, "kind": record.alert.kind.value, **fields, **times}


def alerts_table(alerts: Sequence[AlertRecord]) -> Table:
    """A row per alert; the column of resolution times is present only if one is resolved."""
    table = data_table()
    resolved = any(record.resolved_at for record in alerts)
    for name in ("since (UTC)", *(["resolved (UTC)"] if resolved else [])):
        table.add_column(name, min_width=DATE_WIDTH)
    table.add_column("kind", no_wrap=True)
    table.add_column("about", overflow="fold")
    table.add_column("addressed to", overflow="fold")
    table.add_column("what", overflow="fold")
    for record in alerts:
        alert = record.alert
        ended = [f"{record.resolved_at:{_TIME}}" if record.resolved_at else ""] if resolved else []
        about = " ".join(filter(None, [alert.subject, alert.period]))
        addressees = ", ".join(alert.addressed_to)
        table.add_row(f"{alert.since:{_TIME}}", *ended, alert.kind.value, about, addressees, alert.text)
    return table
