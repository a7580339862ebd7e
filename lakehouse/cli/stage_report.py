"""A stage as text for the terminal and as JSON for programs: its effects, and the obstacles to its promotion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakehouse.cli.console import counted, data_table, number_column, out
from lakehouse.stages.stage_log import StageEventKind
from lakehouse.text import format_moment, join_limited

if TYPE_CHECKING:
    from lakehouse.stages.stage_log import Stage
    from lakehouse.stages.stage_report import ChangedSeries, StageReport

_DAYS, _PERIODS, _OBJECTIONS = 12, 8, 10


def line(stage: Stage) -> str:
    """A stage in one line."""
    made = stage.created
    about = f"{made.described}, by {made.by} on {made.recorded_at:%Y-%m-%d}: {made.reason}"
    return f"{stage.name}  {stage.source}  {stage.state.value}  {about}"


def as_json_text(stage: Stage, *, whole: bool = False) -> str:
    """A stage as one JSON object; with its newest report if ``whole``."""
    made = stage.created
    values: dict[str, Any] = {
        "name": stage.name,
        "source": stage.source,
        "state": stage.state.value,
        "kind": made.kind.value,
        "described": made.described,
        "events": [
            {"event": one.event.value, "by": one.by, "reason": one.reason, "sign_off": one.sign_off, "at": one.recorded_at}
            for one in stage.events
        ],
    }
    if whole:
        values |= {"objections": stage.report.objections, "report": json.loads(stage.report.model_dump_json())}
    return json.dumps(values, default=str, ensure_ascii=False)


def print_report(stage: Stage) -> None:
    """Print the effects of a stage, from totals to details."""
    report = stage.report
    out.print(line(stage), soft_wrap=True)
    for event in stage.events[1:]:
        signed = f" (signed off: {event.sign_off})" if event.sign_off else ""
        out.print(
            f"    {event.event.value} by {event.by} at {format_moment(event.recorded_at)}: {event.reason}{signed}", soft_wrap=True
        )
    _print_rows(stage, report)
    for series in report.series:
        _print_series(series)
    if report.samples:
        _print_samples(report)
    _print_verdict(stage, report)


def _print_rows(stage: Stage, report: StageReport) -> None:
    staged = [counted(report.rows_staged) + " staged"]
    if report.rows_malformed:
        staged.append(f"{report.rows_malformed:,} malformed")
    if report.rows_waiting:
        staged.append(f"{report.rows_waiting:,} would wait for a steward")
    out.print(
        f"\n{', '.join(staged)}; computed against version {report.silver_version} of silver/{stage.source}.", soft_wrap=True
    )
    days = report.days
    rows, keys = report.rows["rows"], report.rows["keys"]
    keys_text = f"{report.rows['only_after']:,} new, {report.rows['only_before']:,} gone, {report.rows['changed']:,} changed"
    out.print(
        f"silver/{stage.source}: {len(days):,} event days change, {days[0]} to {days[-1]}: rows {rows[0]:,} -> {rows[1]:,}, "
        f"keys {keys[0]:,} -> {keys[1]:,} ({keys_text}).",
        soft_wrap=True,
    )


def _print_series(series: ChangedSeries) -> None:
    if not series.days_changed:
        out.print(f"\ngold/{series.series}: no number changes.")
        return
    final = f", {series.final_days:,} of them final" if series.final_days else ""
    out.print(f"\ngold/{series.series}: {series.days_changed:,} days change{final}.")
    measures = list(series.days[0].measures)
    table = data_table()
    table.add_column("day", no_wrap=True)
    listed = series.days[:_DAYS]
    for name in measures:
        cells = [_moved(*day.measures.get(name, (None, None))) for day in listed]
        number_column(table, name, cells, _moved(*series.totals[name]) if name in series.totals else "")
    for day in listed:
        table.add_row(f"{day.day}", *(_moved(*day.measures.get(name, (None, None))) for name in measures))
    table.show_footer = bool(series.totals)
    table.columns[0].footer = "together" if series.totals else ""
    out.print(table)
    if series.days_changed > len(listed):
        out.print(f"and {series.days_changed - len(listed):,} more days ('--json' has them)")
    for rollup, periods in series.rollups.items():
        out.print(f"gold/{rollup}: {join_limited(periods, _PERIODS, ' periods')} would be restated.", soft_wrap=True)
    if series.kept:
        kept = join_limited([f"{day}" for day in series.kept], _PERIODS, " days")
        out.print(f"These days keep an earlier number by hand: {kept}.", soft_wrap=True)
    if series.consumers:
        out.print(f"Consumers: {', '.join(series.consumers)}.", soft_wrap=True)


def _print_samples(report: StageReport) -> None:
    out.print(f"\nSampled rows (seed {report.seed}):")
    for row in report.samples:
        before, after = (_shortened(side) for side in (row.before, row.after))
        out.print(f"  {row.record_key}", soft_wrap=True)
        out.print(f"    before: {before}", soft_wrap=True)
        out.print(f"    after:  {after}", soft_wrap=True)


def _shortened(rows: list[str]) -> str:
    """The values of rows that a key has on only one side, without empty columns."""
    if not rows:
        return "no row"
    values = [{name: value for name, value in json.loads(row).items() if value is not None} for row in rows]
    return "; ".join(", ".join(f"{name}={value}" for name, value in one.items() if name != "record_key") for one in values)


def _print_verdict(stage: Stage, report: StageReport) -> None:
    if stage.state is not StageEventKind.CREATED:
        return
    objections = report.objections
    if not objections:
        within = f"{report.day_threshold} % a day, {report.set_threshold} % together"
        out.print(
            f"\nWithin the thresholds ({within}): 'lakehouse stage promote {stage.name} --by ... --reason ...'", soft_wrap=True
        )
        return
    out.print("\nA sign-off is needed:", style="yellow")
    for sentence in objections[:_OBJECTIONS]:
        out.print(f"  {sentence}", style="yellow", soft_wrap=True)
    if len(objections) > _OBJECTIONS:
        out.print(f"  and {len(objections) - _OBJECTIONS:,} more", style="yellow")


def _moved(before: Any, after: Any) -> str:
    return _shown(after) if before == after else f"{_shown(before)} -> {_shown(after)}"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, (int, float)) else f"{value}"
