"""``lakehouse live``: run, inspect and stop the speed layer of a metric, recompute its numbers from Bronze, and reconcile a day.

``live reconcile`` prints live and published numbers of a day, and the causes of their differences.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from dataclasses import asdict, astuple
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer

from lakehouse.cli.arguments import DAY, AsJson, Metric, live_metric_named
from lakehouse.cli.console import data_table, deployment, errors, number_column, out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts import MetricContract
    from lakehouse.lake import Lake
    from lakehouse.live.causes import Reconciled
    from lakehouse.live.status import StreamStatus, WindowState


app = typer.Typer(help="Live numbers: those of streams, within seconds, apart from published numbers.", no_args_is_help=True)


@app.command()
def start(
    metric: Metric,
    drain: Annotated[bool, typer.Option("--drain", help="End when all that Bronze holds now is read.")] = False,  # noqa: FBT002
) -> None:
    """Run a metric's stream until it is stopped by 'lakehouse live stop', Ctrl+C or SIGTERM."""
    lake, contract, source = live_metric_named(metric)
    from lakehouse.live import stream  # noqa: PLC0415 (Spark loads in a second)

    stopping = threading.Event()

    def session() -> SparkSession:
        started = _session(lake)
        for name in (signal.SIGINT, signal.SIGTERM):  # PySpark installs its own handler
            signal.signal(name, lambda *_: stopping.set())
        return started

    out.print(
        f"live/{contract.name} follows bronze/{source.dataset}; stop it with 'lakehouse live stop {metric}'.", soft_wrap=True
    )
    last = stream.run(session, lake, contract, source, ends=drain, is_stopped=stopping.is_set)
    out.print(f"Stopped after batch {last.batch}.")
    if drain and contract.live and contract.live.managed:
        _leave_alone(lake, contract.name)


@app.command()
def status(
    metric: Annotated[str | None, typer.Argument(help="The name of a metric contract; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per metric.")] = False,  # noqa: FBT002
) -> None:
    """Show the state of streams: rows of state, rates, watermark, late rows, and open windows. Starts no Spark."""
    from lakehouse.live import status as live_status  # noqa: PLC0415

    lake, catalog = deployment()
    live = [live_metric_named(metric)[1]] if metric else [each for each in catalog.metrics.values() if each.live]
    known = [(each.name, live_status.of(lake, each.name)) for each in live]
    states = {each.name: live_status.window_state_of(lake, each, now) for each, (_, now) in zip(live, known) if now}
    if as_json:
        for name, each in known:
            fields = asdict(each) | {"window_state": asdict(states[name])} if each else {"metric": name, "state": "never run"}
            out.print(json.dumps(fields, default=str), soft_wrap=True)
        return
    if not known:
        out.print("No metric has a speed layer; add 'live: true' to a contract.")
        return
    table = data_table()
    table.add_column("metric", overflow="fold")
    table.add_column("state", no_wrap=True)
    rows = [_numbers(each) for _, each in known]
    for place, name in enumerate(("batch", "state rows", "state bytes", "rows/s in", "rows/s", "ms", "late")):
        number_column(table, name, [row[place] for row in rows])
    for name in ("watermark", "last batch"):
        table.add_column(name, overflow="fold")
    for (name, each), row in zip(known, rows):
        table.add_row(name, each.state if each else "never run", *row, *(_moments(each)))
    out.print(table)
    _print_states(states)
    for name, each in known:
        if each and each.problem:
            errors.print(f"{name}: {each.problem}", style="red", soft_wrap=True)


@app.command()
def stop(metric: Metric, wait: Annotated[int, typer.Option(help="Seconds to wait for it; 0 does not wait.")] = 60) -> None:
    """Stop a metric's stream after its current batch."""
    from lakehouse.live import status as live_status  # noqa: PLC0415

    lake, contract, _ = live_metric_named(metric)
    if not live_status.is_running(lake, contract.name):
        out.print(f"The stream of {metric} is not running here.")
        if contract.live and contract.live.managed:
            _leave_alone(lake, contract.name)
        return
    live_status.ask_to_stop(lake, contract.name)
    for _ in range(wait * 10):
        if not live_status.is_running(lake, contract.name):
            out.print(f"The stream of {metric} has stopped.")
            return
        time.sleep(0.1)
    out.print(f"The stream of {metric} stops after its batch.")


@app.command()
def rebuild(metric: Metric) -> None:
    """Recompute the live numbers of a metric from Bronze, with a new checkpoint."""
    lake, contract, source = live_metric_named(metric)
    from lakehouse.live import stream  # noqa: PLC0415 (Spark loads in a second)

    last = stream.rebuild(lambda: _session(lake), lake, contract, source)
    out.print(f"live/{contract.name} was computed again in {last.batch + 1} batches.")


def _leave_alone(lake: Lake, metric: str) -> None:
    """Prevent Dagster from starting a stream that is not running."""
    from lakehouse.live import status as live_status  # noqa: PLC0415

    live_status.ask_to_stop(lake, metric)
    out.print(
        f"Dagster does not start it until somebody runs the job live_{metric} or 'lakehouse live start {metric}'.", soft_wrap=True
    )


def _session(lake: Lake) -> SparkSession:
    """A session in this process, because this process writes the batches; a Connect server would write them in its own."""
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415

    if lake.settings.spark_remote is not None:
        errors.print(
            "The stream runs in a Spark of its own, not in the Connect server of LAKEHOUSE_SPARK_REMOTE; unset it.", style="red"
        )
        raise typer.Exit(2)
    return LakeSpark().spark_session


def _print_states(states: Mapping[str, WindowState]) -> None:
    """Print the windows of the streams that have run, and the rows counted in them."""
    if not states:
        return
    table = data_table()
    table.add_column("metric", overflow="fold")
    rows = [
        (each.open_windows, each.keys, *(astuple(each.windows)), each.events.created, each.events.fired)
        for each in states.values()
    ]
    texts = [tuple(f"{number:,}" for number in row) for row in rows]
    names = ("open windows", "keys", "created", "fired", "cleaned", "events", "in fired")
    for place, name in enumerate(names):
        number_column(table, name, [row[place] for row in texts])
    for name, row in zip(states, texts):
        table.add_row(name, *row)
    out.print(table)


def _numbers(status: StreamStatus | None) -> tuple[str, ...]:
    if status is None:
        return ("",) * 7
    rates = (f"{status.input_rate:,.1f}", f"{status.processing_rate:,.1f}", f"{status.batch_milliseconds:,}")
    return (f"{status.batch}", f"{status.state_rows:,}", f"{status.state_bytes:,}", *rates, f"{status.dropped:,}")


def _moments(status: StreamStatus | None) -> tuple[str, str]:
    def text(when: datetime | None) -> str:
        return "" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"

    return ("", "") if status is None else (text(status.watermark), text(status.batch_at))


def reconcile(
    metric: Metric,
    day: Annotated[datetime | None, typer.Option("--date", formats=DAY, help="The event day; default: yesterday.")] = None,
    all_windows: Annotated[bool, typer.Option("--all", help="Show windows without a difference too.")] = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Compare the live numbers of a day with published numbers, window by window and measure by measure, with the causes."""
    lake, contract, source = live_metric_named(metric)
    from lakehouse.calendar.days import business_day_of  # noqa: PLC0415
    from lakehouse.live import reconcile as reconciliation  # noqa: PLC0415 (Spark loads in a second)
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415

    yesterday = business_day_of(lake.now(), ZoneInfo(source.clocks.timezone)) - timedelta(days=1)
    about = day.date() if day else yesterday
    done = reconciliation.reconcile(lambda: LakeSpark().spark_session, lake, contract, source, about)
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
