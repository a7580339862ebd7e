"""``lakehouse lateness rows``: the rows that arrived after their window, their treatment, and the number of rows on time.

With ``--live``: the rows that the stream of the metric has dropped. ``admit`` and ``withdraw`` record a steward's decision about
rows that do not count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lakehouse.cli import arguments
from lakehouse.cli.console import counted, data_table, errors, number_column, out
from lakehouse.lateness.commands import duration, moment
from lakehouse.ledger.ids import format_row_id, parse_row_id, row_id_of

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.contracts import MetricContract
    from lakehouse.lake import Lake
    from lakehouse.late_events.counters import LateCounts
    from lakehouse.ledger.ids import RowId


_SHOWN = 50
_LIST = "list"


class _Late(TyperGroup):
    """The commands about late rows under their earlier names: ``lakehouse late METRIC`` lists them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without the name of a command, the rows are listed."""
        is_list = args and args[0] not in (*self.commands, "--help")
        return list(super().parse_args(ctx, [_LIST, *args] if is_list else args))


app = typer.Typer(cls=_Late, help="The earlier name of lakehouse lateness rows, admit and withdraw.", no_args_is_help=True)
Rows = Annotated[list[str] | None, typer.Option("--rows", help="A row, as the list shows it; may be repeated.")]
Window = Annotated[str | None, typer.Option(help="Rows of this window, such as 2024-01-15T14, or day.")]
All = Annotated[bool, typer.Option("--all", help="All rows.")]
Restate = Annotated[bool, typer.Option(help="Update the numbers at once, or leave it to Dagster's daemon.")]


@app.command(_LIST)
def late(
    metric: arguments.Metric,
    date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="Rows of this event day.")] = None,
    window: Annotated[str | None, typer.Option(help="Rows of this window, such as 2024-01-15T14.")] = None,
    *,
    dropped: Annotated[bool, typer.Option("--dropped", help="Only rows that do not count.")] = False,
    live: Annotated[bool, typer.Option("--live", help="The rows that the stream of a live metric has dropped as late.")] = False,
    limit: Annotated[int, typer.Option(help="Maximum number of rows, the newest arrivals.", min=1)] = _SHOWN,
    as_json: arguments.AsJson = False,
) -> None:
    """List the rows of a metric that arrived after their window, with lateness, action and windows, and count all rows."""
    if live:
        _late_for_stream(metric, date, window, limit, as_json=as_json)
        return
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.publication import late_at_close  # noqa: PLC0415
    from lakehouse.late_events.late_rows import ADMITTED  # noqa: PLC0415
    from lakehouse.ledger import late_decisions  # noqa: PLC0415

    lake, catalog, contract = arguments.metric_named(metric, reading=True)
    if contract.late_events is None:
        errors.print(f"{metric} counts every row, however late: its contract has no 'late_events'.", style="red")
        raise typer.Exit(2)
    daily = served_version.daily(lake, catalog, contract)
    counts = late_at_close.counts(lake, daily, contract)
    rows = late_at_close.with_close(lake, daily, _rows(lake, contract, date, window))
    rows = late_at_close.not_counted(rows) if dropped else rows
    newest = rows.slice(max(0, len(rows) - limit))
    if as_json:
        body = {**counts.as_json(), "late_rows": len(rows), "shown": newest.to_pylist()}
        out.print(json.dumps(body, default=_plain, ensure_ascii=False), soft_wrap=True)
        return
    _print_counts(counts)
    if not len(rows):
        out.print("  no late rows", soft_wrap=True)
        return
    decided = late_decisions.newest(late_decisions.of_metric(lake, contract.source, contract.name))
    for row in newest.to_pylist():
        ended = f"{', '.join(row['windows'])} ended {moment(row['window_end'])}"
        about = f"{_where(row)}: {row['reason']}, {row['action']}"
        if row["action"] == ADMITTED:
            one = decided[row_id_of(row)]
            about += f": admitted by {one.by}: {one.reason}"
        elif row["counted_at_close"]:
            about += "; it counts since its day is closed"
        _print_row(row, about, "the watermark", ended)
    left = len(rows) - len(newest)
    out.print(f"{counted(len(rows))}{f', {left:,} older ones not shown (--limit)' if left else ''}.")


@dataclass(frozen=True)
class LateSelection:
    """The late rows that a decision is about."""

    rows: Rows = None
    window: Window = None
    all_: All = False


@app.command()
@arguments.with_groups
def admit(metric: arguments.Metric, *, signed: arguments.SignedDecision, wanted: LateSelection, restate: Restate = True) -> None:
    """Let rows count in a metric that came too late for it; their days get a number with your name and reason."""
    _decide(metric, wanted, signed, counts=True, restate=restate)


@app.command()
@arguments.with_groups
def withdraw(
    metric: arguments.Metric, *, signed: arguments.SignedDecision, wanted: LateSelection, restate: Restate = True
) -> None:
    """Take the admission of late rows back: they do not count again."""
    _decide(metric, wanted, signed, counts=False, restate=restate)


def _decide(metric: str, selection: LateSelection, signed: arguments.SignedDecision, *, counts: bool, restate: bool) -> None:
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.publication import late_at_close  # noqa: PLC0415
    from lakehouse.orchestration import commands  # noqa: PLC0415
    from lakehouse.stewardship import admit_late  # noqa: PLC0415

    lake, catalog, contract = arguments.metric_named(metric)
    read = contract.late_source
    if read is None:
        errors.print(f"{metric} counts every row, however late: its contract has no 'late_events'.", style="red")
        raise typer.Exit(2)
    rows, window = selection.rows, selection.window
    if (rows is not None) + (window is not None) + selection.all_ != 1:
        raise typer.BadParameter("pass --rows, --window or --all: one of the three")
    daily = served_version.daily(lake, catalog, contract)
    late = late_at_close.with_close(lake, daily, _rows(lake, contract, None, window))
    wanted, counting = admit_late.selected(late, None if rows is None else _parsed(rows), counts=counts)
    if wanted or counting:
        done = admit_late.decide(lake, contract, read, wanted, counts=counts, by=signed.by, reason=signed.reason)
        more = f" {done.repeated:,} had been decided so before." if done.repeated else ""
        more += f" {counting:,} counted already, because their days are closed." if counting else ""
        out.print(f"{counted(done.rows)} {'admitted' if counts else 'withdrawn'} by {signed.by}.{more}", soft_wrap=True)
    else:
        out.print(f"No late row of {metric} {'waits to be admitted' if counts else 'is admitted'}; nothing was decided.")
    if restate and commands.is_behind(lake, catalog, contract.source):
        commands.restate(lake, catalog, contract.source)
    elif wanted and not restate:
        out.print(f"The numbers follow with the next run of gold/{metric}.", soft_wrap=True)


def _parsed(rows: list[str]) -> list[RowId]:
    try:
        return [parse_row_id(text) for texts in rows for text in texts.split(",")]
    except ValueError as problem:
        raise typer.BadParameter(f"{problem}") from None


def _late_for_stream(metric: str, day: datetime | None, window: str | None, limit: int, *, as_json: bool) -> None:
    """List the rows dropped by the metric's stream."""
    from lakehouse.late_events import late_rows  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.live import dropped_rows  # noqa: PLC0415

    lake, contract, source = arguments.live_metric_named(metric)
    of_stream = dropped_rows.dropped(lake, contract, source, day.date() if day else None)
    rows = of_stream.rows if window is None else late_rows.in_window(of_stream.rows, _window_named(contract, window))
    newest = rows.slice(max(0, len(rows) - limit))
    if as_json:
        body = {"metric": contract.name, "layer": "live", "rows": of_stream.read, "dropped": len(of_stream.rows)}
        body |= {"dropped_share": of_stream.share, "late_rows": len(rows), "shown": newest.to_pylist()}
        out.print(json.dumps(body, default=_plain, ensure_ascii=False), soft_wrap=True)
        return
    read, late_for_it = counted(of_stream.read), f"{len(of_stream.rows):,} dropped as late, {of_stream.share:.2%}"
    out.print(f"The stream of {contract.name} has read {read}: {late_for_it}.", style="bold", soft_wrap=True)
    for row in newest.to_pylist():
        _print_row(row, _where(row), "the stream's watermark", f"not counted in {', '.join(row['windows'])}")
    left = len(rows) - len(newest)
    out.print(f"{counted(len(rows))}{f', {left:,} older ones not shown (--limit)' if left else ''}.")


def _rows(lake: Lake, contract: MetricContract, day: datetime | None, window: str | None) -> pa.Table:
    """The requested late rows, in order of arrival."""
    from lakehouse.late_events import late_rows  # noqa: PLC0415

    where: dict[str, Any] = {"metric": [contract.name]} | ({"event_date": [day.date()]} if day else {})
    rows = late_rows.read(lake, contract.source, where)
    rows = rows if window is None else late_rows.in_window(rows, _window_named(contract, window))
    return rows.sort_by([(name, "ascending") for name in ("arrival_ts", "ingestion_id", "line_number")])


def _window_named(contract: MetricContract, text: str) -> str:
    """The name of the window meant by ``text``; for a metric of whole days, of the day."""
    from lakehouse.calendar import windows  # noqa: PLC0415

    period, start = arguments.period_or_window(contract, text)
    return period.name if start is None or contract.event_window is None else windows.name(start, contract.event_window.zone)


def _print_counts(counts: LateCounts) -> None:
    table = data_table(f"{counts.metric}: {counted(counts.rows)}")
    table.add_column("rows", no_wrap=True)
    names = list(counts.rates)
    number_column(table, "number", [f"{getattr(counts, name):,}" for name in names])
    number_column(table, "share", [f"{rate:.2%}" for rate in counts.rates.values()])
    for name in names:
        table.add_row(name, f"{getattr(counts, name):,}", f"{counts.rates[name]:.2%}")
    out.print(table)
    if counts.historical:
        out.print(f"{counted(counts.historical)} of backfill plans are history, and not counted here.", soft_wrap=True)


def _where(row: dict[str, Any]) -> str:
    return f"{row['record_key']} at {moment(row['event_ts']) if row['event_ts'] else row['event_date']}"


def _print_row(row: dict[str, Any], about: str, watermark: str, windows: str) -> None:
    """Print a row in three lines, never truncated.

    :param watermark: the watermark at its arrival. ``windows`` describes its treatment in its windows.
    """
    out.print(about, style="bold", soft_wrap=True)
    arrived = f"arrived {moment(row['arrival_ts'])}, {duration(round(row['lateness_seconds']))} late"
    out.print(f"    {arrived}; {watermark} was at {moment(row['watermark'])}", soft_wrap=True)
    out.print(f"    {windows}; row {format_row_id(row_id_of(row))}", soft_wrap=True)


def _plain(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else f"{value}"
