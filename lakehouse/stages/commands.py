"""``lakehouse stage``: compute a changed input separately from the tables, preview its effect, then promote, undo or drop it.

A stage is printed as text for the terminal and as JSON for programs: its effects, and the obstacles to its promotion.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, data_table, deployment, end_of_update, errors, number_column, out
from lakehouse.text import format_moment, join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts import MetricContract, SourceContract
    from lakehouse.stages.stage_log import ChangedSeries, Stage, StageReport


app = typer.Typer(
    help="Changed inputs in copies of the tables: create, list, show, refresh, promote, undo, drop.", no_args_is_help=True
)

_SHOWN = 8
_Name = Annotated[str, typer.Argument(help="The stage, such as partner_feed_2024-11-10.")]
_Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]


@dataclass(frozen=True)
class ChangedInput:
    """What a stage changes; one of the three."""

    files: Annotated[
        list[Path] | None, typer.Option("--file", help="A file, or a folder of files of the source; may be repeated.")
    ] = None
    reparse: Annotated[bool, typer.Option("--reparse", help="Read the records of Bronze again, under today's contract.")] = False
    contract: Annotated[Path | None, typer.Option(help="A changed contract of the source, or of one of its metrics.")] = None


@dataclass(frozen=True)
class StageJudgement:
    """When a stage needs a sign-off, and which rows it shows."""

    day_threshold: Annotated[
        float, typer.Option(help="How far, in percent, a measure of a day may move without a sign-off.", min=0)
    ] = 50
    set_threshold: Annotated[
        float, typer.Option(help="How far, in percent, a measure of all changed days together may move.", min=0)
    ] = 10
    seed: Annotated[int, typer.Option(help="Chooses the sampled rows.")] = 0


@app.command()
@arguments.with_groups
def create(
    name: _Name,
    source: _Source,
    by: arguments.DoneBy,
    reason: arguments.WhyForReaders,
    changed: ChangedInput,
    arrivals: arguments.ArrivalDays,
    judged: StageJudgement,
) -> None:
    """Compute a changed input into a side version of silver and gold that readers do not see. Starts Spark."""
    from decimal import Decimal  # noqa: PLC0415

    # MERGED
    from lakehouse.stages import staging  # noqa: PLC0415
    from lakehouse.stages.stage_log import StageKind  # noqa: PLC0415

    if sum(map(bool, (changed.files, changed.reparse, changed.contract))) != 1:
        msg = "--file, --reparse and --contract each say what is staged: use one of them"
        raise typer.BadParameter(msg)
    lake, catalog = catalog_with(source)
    first, last = arrivals.days
    request = staging.StageRequest(
        name=name,
        source=source,
        by=by,
        reason=reason,
        kind=StageKind.FILES if changed.files else StageKind.REPARSE if changed.reparse else StageKind.CONTRACT,
        files=changed.files or (),
        contract=None if changed.contract is None else _contract_of(source, changed.contract, catalog.sources),
        first=first,
        last=last,
        day_threshold=Decimal(f"{judged.day_threshold:g}"),
        set_threshold=Decimal(f"{judged.set_threshold:g}"),
        seed=judged.seed,
    )
    with errors.status("computing the stage in copies of the tables"):
        made = staging.create(lake, catalog, _session, request, f"cli:{by}")
    print_report(made)


@app.command("list")
def list_(
    source: Annotated[str, typer.Argument(help="Only the stages of this dataset.")] = "",
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the stages, oldest first."""
    # MERGED
    from lakehouse.stages import stage_log  # noqa: PLC0415

    lake, _ = deployment(reading=True)
    stages = stage_log.all_of(lake, source or None)
    for stage in stages:
        out.print(as_json_text(stage) if as_json else line(stage), soft_wrap=True)
    if not stages and not as_json:
        out.print("There is no stage.")


@app.command()
def show(name: _Name, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show what a stage would change, or has changed: rows, numbers, longer periods, consumers, and exceeded thresholds."""
    # MERGED
    from lakehouse.stages import stage_log, staging  # noqa: PLC0415
    from lakehouse.stages.stage_log import StageEventKind  # noqa: PLC0415

    lake, _ = deployment(reading=True)
    stage = stage_log.find(lake, name)
    if as_json:
        out.print(as_json_text(stage, whole=True), soft_wrap=True)
        return
    print_report(stage)
    if stage.state is StageEventKind.CREATED and staging.is_outdated(lake, stage):
        text = (
            f"silver/{stage.source} has changed since: 'lakehouse stage refresh {name}' computes it again; a promotion does too."
        )
        out.print(text, style="yellow", soft_wrap=True)


@app.command()
def refresh(name: _Name, by: arguments.DoneBy) -> None:
    """Recompute a stage against the present tables and contracts. Starts Spark."""
    # MERGED
    from lakehouse.stages import staging  # noqa: PLC0415

    lake, catalog = deployment()
    with errors.status("computing the stage in copies of the tables"):
        stage = staging.refresh(lake, catalog, _session, name, by, f"cli:{by}")
    print_report(stage)


@app.command()
def promote(
    name: _Name,
    by: arguments.DoneBy,
    reason: arguments.WhyForReaders,
    sign_off: Annotated[str | None, typer.Option(help="Why exceeded thresholds and failed checks are accepted.")] = None,
) -> None:
    """Promote a stage to readers, in one step per table. The same command continues a stopped promotion."""
    from lakehouse.orchestration.execution.in_process import local_instance  # noqa: PLC0415
    from lakehouse.orchestration.execution.stage_promotion import StagePromotion  # noqa: PLC0415

    lake, catalog = deployment()
    lake = lake.with_settings(spark_long_lived=True).cached()
    with errors.status(f"promoting {name}"), local_instance() as instance:
        done = StagePromotion(lake, catalog, instance, _session).promote(name, by, reason, sign_off)
    out.print(f"The stage {name} is promoted by {by}: {reason}", soft_wrap=True)
    out.print(f"silver/{done.stage.source}: {_listed(done.silver_days) or 'no day'} brought up to date.", soft_wrap=True)
    for series, starts in done.restated.items():
        out.print(f"gold/{series}: {_listed(starts) or 'no period'} published again.", soft_wrap=True)
    out.print(f"'lakehouse stage undo {name}' puts the numbers back.", soft_wrap=True)
    end_of_update(done.failed_checks)


@app.command()
def undo(
    name: _Name,
    by: arguments.DoneBy,
    reason: arguments.WhyForReaders,
    restate: Annotated[bool, typer.Option("--restate", help="Update roll-ups now (may start Spark).")] = False,  # noqa: FBT002
) -> None:
    """Restore the numbers from before a stage, as new revisions; silver keeps its rows."""
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415
    from lakehouse.orchestration.commands import print_undone  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.stages import stage_log, staging  # noqa: PLC0415

    lake, catalog = deployment()
    stage = stage_log.find(lake, name)
    done = staging.undo_promotion(lake, catalog, stage, Run(f"cli:{by}", "lakehouse stage undo", by=by), reason)
    print_undone(lake, catalog, done, "the stage", restate=restate)


@app.command()
def drop(name: _Name, by: arguments.DoneBy, reason: arguments.WhyForReaders) -> None:
    """Remove a stage; only its record remains."""
    from lakehouse.stages import staging  # noqa: PLC0415

    lake, _ = deployment()
    staging.drop(lake, name, by, reason)
    out.print(f"The stage {name} is dropped.", soft_wrap=True)


def _session() -> SparkSession:
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)

    return LakeSpark(long_lived=True).session()


def _contract_of(source: str, path: Path, sources: Mapping[str, SourceContract]) -> SourceContract | MetricContract:
    """Load a contract file, which must be the contract of the source or of one of its metrics.

    :raises typer.BadParameter: if it is another contract.
    """
    from lakehouse.contracts import MetricContract, SourceContract, load_contract  # noqa: PLC0415

    if not path.is_file():
        msg = f"{path}: there is no such file"
        raise typer.BadParameter(msg)
    loaded = load_contract(path, sources)
    if not isinstance(loaded, SourceContract | MetricContract):
        msg = f"{path} is neither the contract of a source nor of a metric; only these are staged"
        raise typer.BadParameter(msg)
    if isinstance(loaded, MetricContract) and loaded.is_derived:
        msg = f"{path} is a derived metric, which reads no rows of a source: there is nothing to stage; give it a dataset_version"
        raise typer.BadParameter(msg)
    about = loaded.dataset if isinstance(loaded, SourceContract) else loaded.source
    if about != source:
        msg = f"{path} is about {about}, not about {source}"
        raise typer.BadParameter(msg)
    return loaded


def _listed(days: Sequence[date]) -> str:
    return join_limited([f"{day}" for day in days], _SHOWN, " days")


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
    from lakehouse.stages.stage_log import StageEventKind  # noqa: PLC0415

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
