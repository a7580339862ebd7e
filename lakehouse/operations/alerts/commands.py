"""``lakehouse alerts``: list alerts as the sensor ``alerts`` has recorded them, acknowledge and snooze them; list notices."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.arguments import AsJson, metric_named, moment
from lakehouse.cli.console import DATE_WIDTH, data_table, deployment, errors, out
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.log import AlertRecord
    from lakehouse.operations.notices.log import NoticeEntry


app = typer.Typer(help="Alerts: list them, acknowledge them, snooze them.", invoke_without_command=True)

_TIME = "%Y-%m-%d %H:%M"
#: The greatest number in a duration.
_LONGEST = 10_000
Everything = Annotated[bool, typer.Option("--all", help="Include resolved alerts.")]
Kind = Annotated[str | None, typer.Option(help="Alerts of this kind, such as overdue.")]
Ids = Annotated[
    list[str], typer.Argument(metavar="ALERT...", help="Alerts, as 'list' shows them, or the beginnings of their ids.")
]
By = Annotated[str, typer.Option(help="Who takes care of it.")]


@app.callback()
def alerts(context: typer.Context, everything: Everything = False, as_json: AsJson = False) -> None:  # noqa: FBT002
    """Alerts: list, acknowledge or snooze them. Without a command they are listed."""
    if context.invoked_subcommand is None:
        list_(everything, as_json)


@app.command("list")
def list_(everything: Everything = False, as_json: AsJson = False, kind: Kind = None) -> None:  # noqa: FBT002
    """List the alerts that were open at the last tick of the sensor `alerts`."""
    from lakehouse.lake import Lake  # noqa: PLC0415
    from lakehouse.operations.alerts import log as ledger  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.operations.alerts.alert import AlertKind  # noqa: PLC0415

    kinds = [word.value for word in AlertKind]
    if kind is not None and kind not in kinds:
        msg = f"--kind is one of {', '.join(kinds)}"
        raise typer.BadParameter(msg)
    known = ledger.all_of(Lake.open())
    records = [record for record in known if everything or record.resolved_at is None]
    records = [record for record in records if kind in {None, record.alert.kind.value}]
    if as_json:
        for record in records:
            out.print(json.dumps(_as_json(record), default=str), soft_wrap=True)
    elif records:
        out.print(alerts_table(records))
    else:
        out.print("There is no alert." if everything else "No alert is open.")


@app.command()
def ack(
    alerts: Ids,
    *,
    by: By,
    reason: Annotated[str, typer.Option(help="What is being done about it.")],
) -> None:
    """Acknowledge open alerts: a person takes care of them, and they do not escalate."""
    from lakehouse.lake import Lake  # noqa: PLC0415
    from lakehouse.operations.alerts import log as ledger  # noqa: PLC0415

    lake = Lake.open()
    records = ledger.named(ledger.all_of(lake), alerts)
    ledger.acknowledge(lake, records, by, reason)
    for record in records:
        out.print(f"{record.alert_id} is acknowledged by {by}: {record.alert.title}", soft_wrap=True)


@app.command()
def snooze(
    alerts: Ids,
    *,
    until: Annotated[
        str | None, typer.Option(help="Until when, such as 2024-01-15T09:00:00Z; a day means its end (UTC).")
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", help="For how long, such as 90m, 4h or 2d.")] = None,
    by: Annotated[str | None, typer.Option(help="Who decides.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why.")] = None,
) -> None:
    """Snooze open alerts: until a given time, no message about them is sent, not even about their end."""
    from lakehouse.lake import Lake  # noqa: PLC0415
    from lakehouse.operations.alerts import log as ledger  # noqa: PLC0415

    if (until is None) == (for_ is None):
        raise typer.BadParameter("pass --until or --for: one of the two")
    lake = Lake.open()
    end = moment(until) if until is not None else lake.now() + _duration(for_ or "")
    if end <= lake.now():
        msg = f"--until: {end:{_TIME}} UTC has passed"
        raise typer.BadParameter(msg)
    records = ledger.named(ledger.all_of(lake), alerts)
    ledger.snooze(lake, records, end, by, reason)
    for record in records:
        out.print(f"{record.alert_id} is snoozed until {end:{_TIME}} UTC: {record.alert.title}", soft_wrap=True)


def _duration(text: str) -> timedelta:
    """:raises typer.BadParameter: if the text is not a number with a unit."""
    units = {"m": "minutes", "h": "hours", "d": "days"}
    number, unit = text[:-1], units.get(text[-1:])
    if unit is None or not number.isdecimal() or not 0 < int(number) <= _LONGEST:
        msg = f"--for: {text!r} is no duration; write a number with m, h or d, such as 90m, 4h or 2d"
        raise typer.BadParameter(msg)
    return timedelta(**{unit: int(number)})


def _as_json(record: AlertRecord) -> dict[str, object]:
    fields = {name: value for name, value in vars(record.alert).items() if name != "kind"}
    undelivered = {event: record.waiting(event) for event in ("opened", "escalated", "grown", "resolved")}
    times = {"opened_at": record.opened_at, "resolved_at": record.resolved_at, "not_told_yet": undelivered}
    acknowledged = vars(record.acknowledged) if record.acknowledged else None
    handling = {"acknowledged": acknowledged, "snoozed_until": record.snoozed_until, "escalated_at": record.escalated_at}
    return {"alert_id": record.alert_id, "kind": record.alert.kind.value, **fields, **times, **handling}


def alerts_table(alerts: Sequence[AlertRecord]) -> Table:
    """A row per alert; the columns of resolution times and handling are present only if they are not empty."""
    table = data_table()
    resolved, handled = any(record.resolved_at for record in alerts), any(_handling(record) for record in alerts)
    table.add_column("alert", overflow="fold")
    for name in ("since (UTC)", *(["resolved (UTC)"] if resolved else [])):
        table.add_column(name, min_width=DATE_WIDTH)
    table.add_column("kind", overflow="fold")
    table.add_column("about", overflow="fold")
    table.add_column("addressed to", overflow="fold")
    if handled:
        table.add_column("state", overflow="fold")
    table.add_column("what", overflow="fold")
    for record in alerts:
        alert = record.alert
        ended = [f"{record.resolved_at:{_TIME}}" if record.resolved_at else ""] if resolved else []
        about = " ".join(filter(None, [alert.subject, alert.period]))
        state = [_handling(record)] if handled else []
        addressees = ", ".join(alert.addressed_to)
        table.add_row(record.alert_id, f"{alert.since:{_TIME}}", *ended, alert.kind.value, about, addressees, *state, alert.text)
    return table


def _handling(record: AlertRecord) -> str:
    """The handling of an alert by people, and its escalation."""
    parts = []
    if record.acknowledged:
        parts.append(f"acknowledged by {record.acknowledged.by}: {record.acknowledged.reason}")
    if record.snoozed_until:
        parts.append(f"snoozed until {record.snoozed_until:{_TIME}}")
    if record.escalated_at:
        parts.append(f"escalated {record.escalated_at:{_TIME}}")
    return "; ".join(parts)


#: The greatest number of notices that are printed.
_NOTICES_SHOWN = 50
#: The time spent on sending messages to each target.
_SENDING_SECONDS = 60.0


def notices(
    metric: Annotated[str | None, typer.Option(help="Notices about this metric, its longer periods among them.")] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Only notices that were not delivered yet.")] = False,  # noqa: FBT002
    send: Annotated[bool, typer.Option("--send", help="First detect what is new and send pending notices.")] = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """List the notices of restated numbers and rejected rows: recipients, targets and times."""
    from lakehouse.operations.notices import log as ledger  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = metric_named(metric, reading=True)[:2] if metric else deployment(reading=True)
    failed = _send(lake, catalog) if send else False
    statuses = [ledger.NoticeStatus.WAITING] if pending else [*ledger.NoticeStatus]
    entries = ledger.of(lake, _series(lake, catalog, metric) if metric else None, statuses=statuses)
    if as_json:
        for entry in entries:
            out.print(json.dumps(_notice_as_json(entry), ensure_ascii=False), soft_wrap=True)
    else:
        _print_notices(lake, entries)
    if failed:
        raise typer.Exit(1)


def _send(lake: Lake, catalog: Catalog) -> bool:
    """Send pending notices like the sensor; returns whether anything failed."""
    from lakehouse.operations.delivery import directory  # noqa: PLC0415
    from lakehouse.operations.notices import log as ledger  # noqa: PLC0415
    from lakehouse.operations.notices.dispatch import dispatch_notices  # noqa: PLC0415

    begun = ledger.has_begun(lake)
    result = dispatch_notices(lake, catalog, directory(lake), _SENDING_SECONDS)
    for problem in result.problems:
        errors.print(problem, style="red", highlight=False, soft_wrap=True)
    if result.late_rows and not ledger.has_begun(lake):
        errors.print(f"Late rows sent to topics: {result.late_rows:,}.", highlight=False, soft_wrap=True)
    elif not ledger.has_begun(lake):
        errors.print("No metric's contract names 'consumers:'; there is nobody to notify.", highlight=False, soft_wrap=True)
    elif not begun:
        errors.print("Consumers are notified of everything published from now on.", highlight=False, soft_wrap=True)
    else:
        errors.print(f"{result}.", highlight=False, soft_wrap=True)
    return bool(result.problems)


def _series(lake: Lake, catalog: Catalog, metric: str) -> list[str]:
    """The tables of a metric that readers see."""
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415

    daily = served_version.daily(lake, catalog, catalog.metrics[metric])
    return [one.name for one in (daily, *daily.rollups)]


def _print_notices(lake: Lake, entries: list[NoticeEntry]) -> None:
    """Print the newest notices, each with a line per consumer and target."""
    from lakehouse.operations.notices.log import NOTIFY_WITHIN  # noqa: PLC0415

    shown: str | None = None
    for entry in entries[-_NOTICES_SHOWN:]:
        if entry.publication_id != shown:
            shown = entry.publication_id
            out.print(f"{entry.published_at:%Y-%m-%d %H:%M}  {entry.subject}", style="bold", soft_wrap=True)
        when = "waits" if entry.published_at >= lake.now() - NOTIFY_WITHIN else f"not sent: older than {NOTIFY_WITHIN.days} days"
        if entry.delivered_at is not None:
            when = f"delivered {format_moment(entry.delivered_at)}"
        if entry.unheard:
            out.print(f"    {entry.consumer}: within the bounds that the contract gives, not sent", soft_wrap=True)
        else:
            out.print(f"    {entry.consumer} by {entry.target}: {when}", soft_wrap=True)
    left = len(entries) - _NOTICES_SHOWN
    count = f"{len(entries):,} {'notice' if len(entries) == 1 else 'notices'}"
    out.print(f"{count}{f', {left:,} older ones not shown (--json lists all)' if left > 0 else ''}.")


def _notice_as_json(entry: NoticeEntry) -> dict[str, Any]:
    told = {name: value for name, value in vars(entry).items() if name != "answers"}
    times = {name: value.isoformat() if value else None for name, value in told.items() if name.endswith("_at")}
    return told | times | {"status": entry.status.value}
