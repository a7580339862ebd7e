"""``lakehouse reconcile``: live and published numbers of a day, and the causes of their differences."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from lakehouse.cli.arguments import DAY, AsJson, Metric, live_metric_named
from lakehouse.cli.console import data_table, number_column, out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from lakehouse.contracts import MetricContract
    from lakehouse.live.reconciliation.reconciled import Reconciled


def reconcile(
    metric: Metric,
    day: Annotated[datetime | None, typer.Option("--date", formats=DAY, help="The event day; default: yesterday.")] = None,
    all_windows: Annotated[bool, typer.Option("--all", help="Show windows without a difference too.")] = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Compare the live numbers of a day with published numbers, window by window and measure by measure, with the causes."""
    settings, contract, source = live_metric_named(metric)
    from lakehouse.calendar.event_day import business_day_of  # noqa: PLC0415
    from lakehouse.live.reconciliation import reconcile as reconciliation  # noqa: PLC0415 (Spark loads in a second)
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415

    yesterday = business_day_of(settings.clock(), ZoneInfo(source.clocks.timezone)) - timedelta(days=1)
    about = day.date() if day else yesterday
    done = reconciliation.reconcile(lambda: LakeSpark().spark_session, settings, contract, source, about)
    shown = [entry for entry in done.entries if all_windows or entry.gap or entry.causes]
    if as_json:
        out.print(json.dumps([asdict(entry) for entry in shown], default=str), soft_wrap=True)
        return
    _print(contract, about, done.entries, shown)
    out.print("On record." if done.is_new else "The same is on record.")


def _print(metric: MetricContract, day: date, entries: Sequence[Reconciled], shown: Sequence[Reconciled]) -> None:
    if not entries:
        out.print(f"{metric.name} has neither live numbers nor published ones of {day}.")
        return
    if shown:
        table = data_table(f"{metric.name} on {day}")
        named = [_window(metric, entry) for entry in shown]
        table.add_column("window" if metric.event_window else "day", no_wrap=True)
        table.add_column("grain", overflow="fold")
        table.add_column("measure", overflow="fold")
        numbers = [(entry.live or "-", entry.books or "-", entry.difference) for entry in shown]
        for place, name in enumerate(("live", "books", "difference")):
            number_column(table, name, [texts[place] for texts in numbers])
        table.add_column("causes", overflow="fold")
        for entry, name, texts in zip(shown, named, numbers):
            grain = ", ".join(f"{value}" for value in entry.grain.values())
            causes = ", ".join(f"{cause} {value}" for cause, value in entry.causes.items())
            mark = " (beyond the threshold)" if entry.exceeds else ""
            table.add_row(name, grain, entry.measure, *texts, causes + mark)
        out.print(table)
    equal = len({entry.cell[:-1] for entry in entries} - {entry.cell[:-1] for entry in shown if entry.gap})
    out.print(f"{equal:,} of {len({entry.cell[:-1] for entry in entries}):,} numbers are equal.")


def _window(metric: MetricContract, entry: Reconciled) -> str:
    from lakehouse.calendar import windows  # noqa: PLC0415

    if metric.event_window is None:
        return f"{entry.day}"
    return windows.name(entry.window_start, metric.event_window.zone) if entry.window_start else "no time"
