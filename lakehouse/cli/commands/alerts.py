"""``lakehouse alerts``: what people were told of, as the sensor has recorded it. Starts no JVM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from lakehouse.cli.arguments import AsJson  # noqa: TC001 (typer reads it)
from lakehouse.cli.console import out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.operations.alerts.log import AlertRecord

_TIME = "%Y-%m-%d %H:%M"


def alerts(
    everything: Annotated[bool, typer.Option("--all", help="Also those that are resolved.")] = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """List the alerts that are open, as the sensor `alerts` last saw them."""
    from lakehouse.operations.alerts import log as ledger  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.settings import Settings  # noqa: PLC0415

    found = [one for one in ledger.all_of(Settings()) if everything or one.resolved_at is None]
    if as_json:
        for one in found:
            out.print(json.dumps(_told(one), default=str), soft_wrap=True)
    elif found:
        out.print(_table(found))
    else:
        out.print("There is no alert." if everything else "No alert is open.")


def _told(one: AlertRecord) -> dict[str, object]:
    said = {name: value for name, value in vars(one.alert).items() if name != "kind"}
    untold = {news: one.waiting(news) for news in ("opened", "resolved")}
    times = {"opened_at": one.opened_at, "resolved_at": one.resolved_at, "not_told_yet": untold}
    return {"alert_id": one.alert_id, "kind": one.alert.kind.value, **said, **times}


def _table(found: Sequence[AlertRecord]) -> Table:
    table = Table(box=box.HORIZONTALS)
    resolved = any(one.resolved_at for one in found)
    for name in ("since (UTC)", *(["resolved (UTC)"] if resolved else []), "kind", "about", "addressed to"):
        table.add_column(name, no_wrap=name != "addressed to")
    table.add_column("what", ratio=1)
    for one in found:
        alert = one.alert
        ended = [f"{one.resolved_at:{_TIME}}" if one.resolved_at else ""] if resolved else []
        about = " ".join(filter(None, [alert.subject, alert.period]))
        table.add_row(f"{alert.since:{_TIME}}", *ended, alert.kind.value, about, ", ".join(alert.addressed_to), alert.text)
    return table
