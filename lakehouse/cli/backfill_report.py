"""Prints plans of backfills, their state and their results. The plans are defined in ``operations.backfills.plan``."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.table import Table

from lakehouse.cli.console import DATE_WIDTH, counted, errors, number_column, out
from lakehouse.cli.number_report import malformed_text
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.operations.backfills.log import BackfillEvent
    from lakehouse.operations.backfills.plan import BackfillPlan, Wave
    from lakehouse.operations.backfills.verification import BackfillVerification
    from lakehouse.orchestration.execution.cost_estimate import Cost

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
    if not plan.beyond_watermark:
        return
    files = sum(1 for file in plan.files if file.beyond)
    where = f"{files:,} {'file' if files == 1 else 'files'}"
    beyond = f"{counted(plan.beyond_watermark)} of {where} came later after the event than the cutoff allows"
    if plan.admit_history:
        _say(f"{beyond}: {plan.runner_id} admits them as history")
    else:
        told = f"  {beyond}, which holds or drops them; to admit them as history, plan again with --admit-history"
        out.print(told, style="yellow", soft_wrap=True)


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
        malformed = summary["malformed"]
        broken = f", {malformed_text(plan.source, malformed, summary['unread_reason'])}" if malformed else ""
        files = f"{summary['files']:,} files with {counted(summary['rows'])}"
        _say(f"{files} ingested, {summary['event_days']:,} event days affected{broken}")
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
