"""``lakehouse backfill``: plan a backfill, show its state and results, run it, and resume it after a stop.

The plans are defined in ``operations.backfills.plan``.
"""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass
from datetime import date, datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from lakehouse.cli import arguments
from lakehouse.cli.console import DATE_WIDTH, confirmed, counted, deployment, end_of_update, errors, number_column, out
from lakehouse.cli.number_report import not_counted_text
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.log import BackfillEvent
    from lakehouse.operations.backfills.plan import BackfillPlan, Clock, Layer, Wave
    from lakehouse.operations.backfills.verification import BackfillVerification
    from lakehouse.orchestration.execution.backfill_runner import Layers
    from lakehouse.orchestration.execution.webserver import Cost


_WORDS = {
    "published": "new",
    "restated": "restated",
    "adjusted": "closed, to be adjusted",
    "final": "final now",
}
_SHOWN = 20


def print_plan(plan: BackfillPlan, cost: Cost) -> None:
    """Print everything that the plan would do, in order."""
    kind = f"{plan.clock if plan.metric is None else 'event'} days"
    out.print(
        f"{plan.plan_id}: backfill of {plan.target}, {kind} {plan.first_day} to {plan.last_day}", style="bold", soft_wrap=True
    )
    _say(f"reason: {plan.reason} (requested by {plan.runner_id})")
    _say(
        f"{plan.write_mode}, {plan.order}, up to {plan.wave_size} partitions per run, {plan.retries} retries of a wave that fails"
    )
    _say(f"up to {plan.max_parallel} runs at a time with a webserver, one at a time in this process")
    _say(f"pinned: code {plan.code_version}; contracts " + ", ".join(f"{name} {v}" for name, v in sorted(plan.contracts.items())))
    if plan.where is not None:
        days = {
            day
            for wave in plan.waves
            if wave.layer.value == ("silver" if plan.metric is None else "gold")
            for day in wave.partitions
        }
        _say(f"only {plan.where}: {counted(plan.rows_of_entity)} on {len(days):,} event days, which are computed as whole days")
    elif plan.metric is None:
        _files(plan)
    if not plan.waves:
        out.print("Nothing to do: every partition is up to date.", style="green")
    for table, waves in groupby(plan.waves, lambda wave: wave.table):
        _wave(plan, table, list(waves))
    for note in plan.notes:
        out.print(f"note: {note}", style="yellow", soft_wrap=True)
    if plan.consumers:
        out.print(f"Readers of these numbers: {', '.join(plan.consumers)}", soft_wrap=True)
    if plan.waves:
        _cost(cost)
    out.print(f"Start it with: lakehouse backfill run {plan.plan_id}", style="bold", soft_wrap=True)


def print_verdict(verdict: BackfillVerification, summary: Mapping[str, Any], plan: BackfillPlan) -> None:
    """Print the checklist, the completed work, and the message for the consumers of the numbers."""
    out.print(f"{plan.plan_id}: {'finished' if not verdict.problems else 'done, with problems'}", style="bold", soft_wrap=True)
    looked_at = ", ".join(f"{count:,} partitions of {table}" for table, count in verdict.partitions.items()) or "numbers only"
    _say(f"checked {looked_at}: {len(verdict.problems)} problems, {len(verdict.warnings)} warnings")
    for style, lines in (("red", verdict.problems), ("yellow", verdict.warnings)):
        for line in lines[:_SHOWN]:
            errors.print(f"  {line}", style=style, soft_wrap=True)
        if len(lines) > _SHOWN:
            errors.print(f"  and {len(lines) - _SHOWN:,} more ('lakehouse backfill status {plan.plan_id} --json' lists all)")
    _done(summary, plan)


def print_status(plan: BackfillPlan, status: str, events: Sequence[BackfillEvent]) -> None:
    """Print the progress of a plan."""
    out.print(f"{plan.plan_id}: {status}", style="bold", soft_wrap=True)
    _say(f"{plan.target}, {plan.first_day} to {plan.last_day}: {plan.reason} (requested by {plan.runner_id})")
    for entry in events:
        about = ""
        if "partitions" in entry.said:
            partitions = entry.said["partitions"]
            about = f": {len(partitions)} partitions of {entry.said['table']}, {partitions[0]} to {partitions[-1]}"
            if entry.kind == "attempt":
                about = f" {entry.said['attempt']} failed{about}: {entry.said['problem']}"
        elif entry.kind == "failed":
            problems = [entry.said["problem"]] if "problem" in entry.said else entry.said["verdict"]["problems"]
            about = f": {join_limited(problems, _SHOWN, ' problems')}"
        elif entry.kind == "undone":
            about = f" by {entry.said['by']}: {entry.said['reason']}"
        _say(f"{entry.recorded_at:%Y-%m-%d %H:%M:%S}  {entry.kind}{about}")
    final = next((entry for entry in events if entry.kind == "finished"), None)
    if final:
        _done(final.said["summary"], plan)


def print_plans(plans: Sequence[tuple[BackfillPlan, str, int]]) -> None:
    """Print all plans with their state and the number of completed waves."""
    out.print(plans_table(plans))


def plans_table(plans: Sequence[tuple[BackfillPlan, str, int]]) -> Table:
    """A row for each plan."""
    table = Table(box=None, pad_edge=False)
    for name in ("plan", "state"):
        table.add_column(name, overflow="fold")
    number_column(table, "waves done", (f"{waves}" for _, _, waves in plans))
    table.add_column("target", overflow="fold")
    for name in ("from", "to"):
        table.add_column(name, no_wrap=True, min_width=DATE_WIDTH)
    table.add_column("reason", overflow="fold")
    for plan, status, waves in plans:
        table.add_row(plan.plan_id, status, f"{waves}", plan.target, f"{plan.first_day}", f"{plan.last_day}", plan.reason)
    return table


def _files(plan: BackfillPlan) -> None:
    new = plan.new_files
    rows, size = sum(file.rows for file in new), sum(file.bytes for file in new)
    known = len(plan.files) - len(new)
    _say(f"{len(new):,} new files with {counted(rows)} ({size / 1e6:,.1f} MB); {known:,} are in Bronze already")
    beyond, behind = [file.beyond for file in plan.files if file.beyond], [file.behind for file in plan.files if file.behind]
    late = "came later after the event than the cutoff allows"
    _history(plan, beyond, late, f"{late}, which holds or drops them")
    late = "come later than the grace of a metric with late_events allows"
    _history(plan, behind, late, f"{late}, and do not count in it at once")


def _history(plan: BackfillPlan, rows: Sequence[int], late: str, effect: str) -> None:
    """Print how many rows of files are late, and how they are admitted.

    :param rows: the late rows of each file that has some. ``late`` says of them what ``effect`` says without an admission.
    """
    about = f"{counted(sum(rows))} of {len(rows):,} {'file' if len(rows) == 1 else 'files'}"
    if rows and plan.admit_history:
        _say(f"{about} {late}: {plan.runner_id} admits them as history")
    elif rows:
        advice = f"  {about} {effect}; to admit them as history, plan again with --admit-history"
        out.print(advice, style="yellow", soft_wrap=True)


def _wave(plan: BackfillPlan, table: str, waves: Sequence[Wave]) -> None:
    partitions = sorted(day for wave in waves for day in wave.partitions)
    runs = f" in {len(waves)} waves" if len(waves) > 1 else ""
    if runs and waves[0].parallel and plan.max_parallel > 1:
        runs += f", {plan.max_parallel} at a time"
    span = f"{partitions[0]}" if len(partitions) == 1 else f"{partitions[0]} to {partitions[-1]}"
    outcomes: dict[str, int] = {}
    for wave in waves:
        for name, count in wave.outcomes.items():
            outcomes[name] = outcomes.get(name, 0) + count
    existing_rows = sum(wave.rows for wave in waves)
    description = (
        ", ".join(f"{count:,} {_WORDS.get(name, name)}" for name, count in outcomes.items())
        or f"{counted(existing_rows)} there now"
    )
    if outcomes and (plan.metric is not None or plan.write_mode == "overwrite"):
        description = f"at most {description}; an unchanged number gets no revision"
    if waves[0].layer.value == "bronze":
        description = f"{counted(sum(file.rows for file in plan.new_files))} to ingest, {description}"
    out.print(table, style="bold", soft_wrap=True)
    _say(f"  {len(partitions):,} {'partition' if len(partitions) == 1 else 'partitions'} ({span}){runs}: {description}")


def _cost(cost: Cost) -> None:
    if cost.seconds is None:
        out.print(f"No estimate of the duration: there is no earlier run of {', '.join(cost.unknown)}.", soft_wrap=True)
    else:
        minutes, seconds = divmod(round(cost.seconds), 60)
        out.print(f"Estimated: {minutes} min {seconds} s, from {cost.runs} earlier runs, without starting Spark.")


def _done(summary: Mapping[str, Any], plan: BackfillPlan) -> None:
    if plan.metric is None:
        not_admitted = {(AdmissionStatus(status), cause): rows for status, cause, rows in summary.get("not_admitted", ())}
        more = not_counted_text(plan.source, summary["malformed"], summary["unread_reason"], not_admitted)
        files = f"{summary['files']:,} files with {counted(summary['rows'])}"
        _say(f"{files} ingested, {summary['event_days']:,} event days affected{more}")
    restated: list[str] = []
    for name, found in summary["published"].items():
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found["reasons"].items())
        _say(f"gold/{name}: {found['numbers']:,} numbers published ({reasons})")
        restated += [f"{name} {period}" for period in found["restated"]]
    if restated and plan.consumers:
        told = f"restated: {join_limited(restated, _SHOWN)}; reason: {plan.reason}"
        out.print(f"Notify {', '.join(plan.consumers)}: {told}", soft_wrap=True)


def _say(text: str) -> None:
    out.print(f"  {text}", soft_wrap=True)


app = typer.Typer(help="Recompute a range of days by a plan, in waves; it can be stopped and resumed.", no_args_is_help=True)

PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id, the beginning of it, or 'newest'.")]


@dataclass(frozen=True)
class BackfilledDays:
    """The days of a backfill: event days, or arrival days of a source."""

    start_date: Annotated[
        datetime | None, typer.Option("--start-date", "--from", formats=["%Y-%m-%d"], help="The first event day.")
    ] = None
    end_date: Annotated[
        datetime | None, typer.Option("--end-date", "--through", formats=["%Y-%m-%d"], help="The last event day.")
    ] = None
    arrival_from: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="For a source, in place of event days: the first arrival day.")
    ] = None
    arrival_through: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The last arrival day.")] = None
    admit_history: Annotated[
        bool, typer.Option("--admit-history", help="Admit rows beyond cutoff and grace as history: your decision, with --reason.")
    ] = False

    @property
    def range(self) -> tuple[date, date, Clock]:
        """The first and the last day, and the clock by which they are days.

        :raises typer.BadParameter: unless exactly one range is given, of event days or of arrival days.
        """
        return _days(self.start_date, self.end_date, self.arrival_from, self.arrival_through)


@dataclass(frozen=True)
class BackfillTerms:
    """How a backfill runs, and what it writes."""

    max_parallel: Annotated[
        int, typer.Option(min=1, help="How many runs may be requested at the same time, with a webserver.")
    ] = 2
    retries: Annotated[int, typer.Option(min=0, help="How many times a wave that fails is run again.")] = 2
    order: Annotated[Literal["ascending", "descending"], typer.Option(help="Which days come first.")] = "ascending"
    write_mode: Annotated[
        Literal["merge", "overwrite"],
        typer.Option(help="For a source. merge: apply new files. overwrite: also rebuild the range's event days from Bronze."),
    ] = "merge"
    where: Annotated[str | None, typer.Option(help="Only an entity: \"store = 'S012'\", on fields of the source's contract.")] = (
        None
    )
    target_version: Annotated[str | None, typer.Option(help="The dataset version of the metric to fill, such as v2.")] = None
    manifest: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The sender's list of file, rows, sha256, bytes (.csv, .json)."),
    ] = None
    wave_size: Annotated[int, typer.Option(min=1, help="Partitions per run.")] = 100


@app.command("plan")
@arguments.with_groups
def plan_(
    target: Annotated[str, typer.Argument(metavar="SOURCE_OR_METRIC", help="A source's dataset, or a metric.")],
    reason: Annotated[str, typer.Option(help="Why; recorded in the audit and with restated numbers.")],
    days: BackfilledDays,
    runner_id: Annotated[str, typer.Option("--runner-id", "--by", help="Who requests it; default: the user's name.")] = "",
    *,
    terms: BackfillTerms,
    as_json: arguments.AsJson = False,
) -> None:
    """Print and store a plan: files, partitions of each layer, numbers that would be restated, and the estimated duration."""
    first, last, clock = days.range
    if not reason.strip():
        msg = "--reason is empty: enter why the backfill is needed"
        raise typer.BadParameter(msg)
    from lakehouse.bronze.file_completeness import manifest_entries  # noqa: PLC0415 (Arrow and Dagster load in seconds)
    from lakehouse.operations.backfills import log as backfill_log  # noqa: PLC0415
    from lakehouse.operations.backfills import planner  # noqa: PLC0415

    lake, catalog = deployment()
    if clock == "arrival" and (terms.where is not None or target not in catalog.sources):
        msg = "--arrival-from and --arrival-through choose files of a source; here give event days: --start-date, --end-date"
        raise typer.BadParameter(msg)
    wish = planner.BackfillRequest(
        target=target,
        first_day=first,
        last_day=last,
        clock=clock,
        admit_history=days.admit_history,
        reason=reason,
        runner_id=runner_id or getpass.getuser(),
        max_parallel=terms.max_parallel,
        retries=terms.retries,
        where=terms.where,
        order=terms.order,
        write_mode=terms.write_mode,
        wave_size=terms.wave_size,
        dataset_version=arguments.dataset_version(terms.target_version) if terms.target_version else None,
        promised=manifest_entries(terms.manifest.name, terms.manifest.read_bytes()) if terms.manifest else (),
    )
    with errors.status("reading files") as status:

        def read(done: int, of: int) -> None:
            status.update(f"reading files: {done} of {of}")

        made = planner.plan(lake.cached(), catalog, wish, datetime.now(timezone.utc), read)
    made = backfill_log.store_plan(lake, made)
    if as_json:
        out.print(made.model_dump_json(), soft_wrap=True)
        return
    from lakehouse.orchestration.execution.in_process import local_instance  # noqa: PLC0415
    from lakehouse.orchestration.execution.webserver import estimate  # noqa: PLC0415

    with local_instance() as instance:
        print_plan(made, estimate(instance, made.waves))


def _days(
    start: datetime | None, end: datetime | None, arrival_from: datetime | None, arrival_through: datetime | None
) -> tuple[date, date, Clock]:
    """The first and the last day, and the clock by which they are days.

    :raises typer.BadParameter: unless exactly one range is given, of event days or of arrival days.
    """
    by_arrival = arrival_from is not None or arrival_through is not None
    if by_arrival and (start is not None or end is not None):
        msg = "the days are event days (--start-date, --end-date) or arrival days (--arrival-from, --arrival-through), not both"
        raise typer.BadParameter(msg)
    names = ("--arrival-from", "--arrival-through") if by_arrival else ("--start-date", "--end-date")
    first, last = (arrival_from, arrival_through) if by_arrival else (start, end)
    if first is None or last is None:
        msg = f"a plan needs the first and the last day: {names[0]} and {names[1]}"
        raise typer.BadParameter(msg)
    if last < first:
        msg = f"{names[1]} is before {names[0]}"
        raise typer.BadParameter(msg)
    return first.date(), last.date(), "arrival" if by_arrival else "event"


@app.command("run")
def run(
    plan: PlanId,
    in_process: Annotated[bool, typer.Option("--in-process", help="Run in this process even if a webserver is running.")] = False,  # noqa: FBT002
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the table is replaced (overwrite_all).")] = False,  # noqa: FBT002
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Run a plan, or continue it. If a webserver is running, its UI shows the backfill."""
    from lakehouse.gold.publication import held_numbers  # noqa: PLC0415
    from lakehouse.operations.backfills import log as backfill_log  # noqa: PLC0415
    from lakehouse.operations.backfills import verification as backfill_verification  # noqa: PLC0415
    from lakehouse.orchestration.execution.in_process import local_instance  # noqa: PLC0415 (Dagster and Spark load in seconds)

    lake, catalog = deployment()
    planned = backfill_log.plan_named(lake, plan)
    if planned.metric is None:
        confirmed(catalog.sources[planned.source], yes=yes)
    with local_instance() as instance:
        layers = None if in_process else _webserver(lake, planned)
        if layers is None:
            from lakehouse.orchestration.execution.in_process import InProcess  # noqa: PLC0415

            lake = lake.with_settings(spark_long_lived=True)
            layers = InProcess(lake, catalog, instance)
        verdict = _run(lake, catalog, planned, layers)
    summary = backfill_verification.summary(lake, catalog, planned)
    if as_json:  # no verification: the backfill had already been finished
        told = {"verdict": verdict and verdict.as_json(), "summary": summary}
        out.print(json.dumps(told, default=str), soft_wrap=True)
    elif verdict is None:
        out.print(f"{planned.plan_id} is finished; there is nothing to do.")
    else:
        print_verdict(verdict, summary, planned)
    if planned.metric is None:
        held = held_numbers.failures_of_source(lake, catalog, planned.source)
    else:
        held = held_numbers.failures_of_metrics(lake, catalog, [planned.metric])
    end_of_update(held.values(), verdict is not None and verdict.problems)


@app.command("status")
def status(
    plan: Annotated[str | None, typer.Argument(metavar="[PLAN]", help="One plan; default: all.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Show the progress of backfills."""
    from lakehouse.operations.backfills import log as backfill_log  # noqa: PLC0415 (Arrow loads in a second)

    lake, _ = deployment()
    wanted = [backfill_log.plan_named(lake, plan)] if plan else backfill_log.plans(lake)
    events = {planned.plan_id: backfill_log.events(lake, planned.plan_id) for planned in wanted}
    statuses = {planned.plan_id: _stands(lake, planned, events[planned.plan_id]) for planned in wanted}
    if as_json:
        for planned in wanted:
            out.print(
                json.dumps(_as_json(planned, statuses[planned.plan_id], events[planned.plan_id]), default=str), soft_wrap=True
            )
    elif plan:
        print_status(wanted[0], statuses[wanted[0].plan_id], events[wanted[0].plan_id])
    elif wanted:
        done = {planned.plan_id: sum(entry.kind == "wave" for entry in events[planned.plan_id]) for planned in wanted}
        print_plans([(planned, statuses[planned.plan_id], done[planned.plan_id]) for planned in wanted])
    else:
        out.print("No backfill has been planned.")


@app.command("cancel")
def cancel(plan: PlanId, by: Annotated[str, typer.Option(help="Who cancels it; default: the user's name.")] = "") -> None:
    """Stop a backfill before its next wave. Completed waves are kept and are correct."""
    from lakehouse.operations.backfills import log as backfill_log  # noqa: PLC0415
    from lakehouse.orchestration.execution import backfill_runner  # noqa: PLC0415 (Dagster and Spark load in seconds)

    lake, _ = deployment()
    planned = backfill_log.plan_named(lake, plan)
    if not backfill_runner.cancel(lake, planned, by or getpass.getuser()):
        out.print(f"{planned.plan_id} is {backfill_log.status(backfill_log.events(lake, planned.plan_id)).value} already.")
        return
    out.print(f"{planned.plan_id} is cancelled; a run of it stops before its next wave.")
    webserver = _webserver(lake, planned)
    for backfill in webserver.cancel(planned.plan_id) if webserver else ():
        out.print(f"Dagster's backfill {backfill} is cancelled.")


@app.command("undo")
def undo(
    plan: PlanId,
    by: Annotated[str, typer.Option(help="Who decides.")],
    reason: Annotated[str, typer.Option(help="Why, in words for the readers.")],
    restate: Annotated[bool, typer.Option("--restate", help="Update roll-ups now (may start Spark).")] = False,  # noqa: FBT002
) -> None:
    """Restore the numbers from before a backfill, as new revisions; silver keeps its rows."""
    from lakehouse.gold.publication.write_audit_publish import Run  # noqa: PLC0415
    from lakehouse.operations.backfills import log as backfill_log  # noqa: PLC0415
    from lakehouse.operations.backfills import verification as backfill_verification  # noqa: PLC0415
    from lakehouse.orchestration.commands import print_undone  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = deployment()
    planned = backfill_log.plan_named(lake, plan)
    done = backfill_verification.undo(lake, catalog, planned, Run(f"cli:{by}", "lakehouse backfill undo", by=by), reason)
    print_undone(lake, catalog, done, "the backfill", restate=restate)


def _run(lake: Lake, catalog: Catalog, plan: BackfillPlan, layers: Layers) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    from lakehouse.orchestration.execution.backfill_runner import Backfill  # noqa: PLC0415
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415

    def session() -> SparkSession:
        return LakeSpark(long_lived=True).session()

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as bar:
        task = bar.add_task(plan.plan_id, total=max(len(plan.waves), 1))

        def wave_done(_layer: Layer, table: str, count: int) -> None:
            bar.update(task, description=f"{table}: {count} partitions")
            bar.advance(task)

        return Backfill(lake, catalog, plan, layers, session, wave_done).run()


def _webserver(lake: Lake, plan: BackfillPlan) -> Any:
    """The webserver that serves this deployment; None without one."""
    from lakehouse.orchestration.execution.webserver import Webserver  # noqa: PLC0415 (`--help` need not wait for Dagster)

    webserver = Webserver(lake.settings.webserver)
    if not webserver.serves(lake, plan.source):
        return None
    errors.print(f"running as Dagster backfills at {webserver.url}", style="dim")
    return webserver


def _stands(lake: Lake, plan: BackfillPlan, events: list[Any]) -> str:
    """The status of a plan; a plan recorded as running without a process was stopped."""
    from lakehouse.operations.backfills import log as backfill_log  # noqa: PLC0415
    from lakehouse.operations.backfills.plan import BackfillStatus  # noqa: PLC0415
    from lakehouse.orchestration.plan_runs import is_backfill_running  # noqa: PLC0415

    stands = backfill_log.status(events)
    if stands is BackfillStatus.RUNNING and not is_backfill_running(lake, plan.source):
        return f"stopped; 'lakehouse backfill run {plan.plan_id}' continues it"
    return stands.value


def _as_json(plan: BackfillPlan, stands: str, told: list[Any]) -> dict[str, Any]:
    events = [{"event": one.event, "kind": one.kind, "at": one.recorded_at, "said": one.said} for one in told]
    return {"plan": json.loads(plan.model_dump_json()), "status": stands, "events": events}
