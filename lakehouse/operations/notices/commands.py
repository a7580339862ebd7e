"""``lakehouse alerts notices``: list the notices to consumers, and send those that are pending."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import deployment, errors, out
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.notices.log import NoticeEntry


_SHOWN = 50
#: The time spent on sending messages to each target.
_SECONDS = 60.0


def notices(
    metric: Annotated[str | None, typer.Option(help="Notices about this metric, its longer periods among them.")] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Only notices that were not delivered yet.")] = False,  # noqa: FBT002
    send: Annotated[bool, typer.Option("--send", help="First detect what is new and send pending notices.")] = False,  # noqa: FBT002
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the notices of restated numbers and rejected rows: recipients, targets and times."""
    from lakehouse.operations.notices import log as ledger  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = arguments.metric_named(metric)[:2] if metric else deployment()
    failed = _send(lake, catalog) if send else False
    statuses = [ledger.NoticeStatus.WAITING] if pending else [*ledger.NoticeStatus]
    entries = ledger.of(lake, _series(lake, catalog, metric) if metric else None, statuses=statuses)
    if as_json:
        for entry in entries:
            out.print(json.dumps(_plain(entry), ensure_ascii=False), soft_wrap=True)
    else:
        _print(lake, entries)
    if failed:
        raise typer.Exit(1)


def _send(lake: Lake, catalog: Catalog) -> bool:
    """Send pending notices like the sensor; returns whether anything failed."""
    from lakehouse.operations.delivery import directory  # noqa: PLC0415
    from lakehouse.operations.notices import log as ledger  # noqa: PLC0415
    from lakehouse.operations.notices.dispatch import dispatch_notices  # noqa: PLC0415

    begun = ledger.has_begun(lake)
    result = dispatch_notices(lake, catalog, directory(lake), _SECONDS)
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


def _print(lake: Lake, entries: list[NoticeEntry]) -> None:
    """Print the newest notices, each with a line per consumer and target."""
    from lakehouse.operations.notices.log import NOTIFY_WITHIN  # noqa: PLC0415

    shown: str | None = None
    for entry in entries[-_SHOWN:]:
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
    left = len(entries) - _SHOWN
    count = f"{len(entries):,} {'notice' if len(entries) == 1 else 'notices'}"
    out.print(f"{count}{f', {left:,} older ones not shown (--json lists all)' if left > 0 else ''}.")


def _plain(entry: NoticeEntry) -> dict[str, Any]:
    told = {name: value for name, value in vars(entry).items() if name != "answers"}
    times = {name: value.isoformat() if value else None for name, value in told.items() if name.endswith("_at")}
    return told | times | {"status": entry.status.value}
