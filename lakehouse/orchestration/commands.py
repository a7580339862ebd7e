"""Commands that run in this process: ``lakehouse replay``, and the update of silver and gold after a recorded decision.

``lakehouse replay`` ingests a source's arrival days in order, each as if it were today. After a command has recorded a decision,
it calls this module to update the tables, and to print the changed days or the result of an undo.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import (
    catalog_with,
    confirmed,
    end_of_update,
    errors,
    out,
    print_left_out,
    print_notices,
    print_unfinished,
)
from lakehouse.cli.number_report import not_counted_text
from lakehouse.pieces import listened_to_by, sentence
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from rich.progress import Progress, TaskID

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.gold.restatement.revert import UndoneSeries
    from lakehouse.lake import Lake
    from lakehouse.orchestration.execution.replay import DayResult, Replay


_SHOWN = 8


def is_behind(lake: Lake, catalog: Catalog, source: str) -> bool:
    """Whether silver has pending decisions, gold has not followed silver, or a longer period its days; also after a stop."""
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.gold.restatement.pending import find_pending  # noqa: PLC0415
    from lakehouse.ledger import applied_inputs  # noqa: PLC0415 (Arrow loads in a second)

    if applied_inputs.pending_manual_inputs(lake, source):
        return True
    dailies = (served_version.daily(lake, catalog, metric) for metric in catalog.metrics_following(source))
    return any(find_pending(lake, series).starts for daily in dailies for series in (daily, *daily.rollups))


def restate(lake: Lake, catalog: Catalog, source: str) -> None:
    """Update silver on the pending days, then gold, and print the changes."""
    from lakehouse.orchestration.execution.catch_up import catch_up  # noqa: PLC0415
    from lakehouse.orchestration.execution.in_process import InProcess, local_instance  # noqa: PLC0415

    lake = lake.cached()
    with errors.status("updating silver and gold"), local_instance() as instance:
        layers = InProcess(lake, catalog, instance)
        after = catch_up(lake, catalog, source, layers)
    changed = sorted(after.causes)
    out.print(f"silver/{source}: {_listed(changed) or 'no day'} changed.", soft_wrap=True)
    for metric, written in after.restated.items():
        out.print(f"gold/{metric}: {_listed([f'{day}' for day in written]) or 'no day'} published again.", soft_wrap=True)
    end_of_update(layers.failed_checks.values())


def print_pending(lake: Lake, daily: Series, catalog: Catalog, *, now: bool) -> None:
    """Print the numbers of a metric that are pending after a command, or update them.

    :param daily: the metric's daily series, as visible to readers.
    """
    from lakehouse.gold.restatement.pending import find_pending  # noqa: PLC0415

    if now:
        restate(lake, catalog, daily.metric.source)
        return
    for series in (daily, *daily.rollups):
        if count := len(find_pending(lake, series).starts):
            periods = f"{count:,} {'period' if count == 1 else 'periods'}"
            text = f"gold/{series.name}: {periods} pending, for the sensor 'restate' or --restate."
            out.print(text, soft_wrap=True)


def say_waiting(source: str, days: Sequence[date]) -> None:
    """Name the sensor that updates silver if the command does not."""
    if days:
        out.print(
            f"silver/{source} waits on {_listed([f'{day}' for day in days])}; with Dagster's daemon running, the sensor "
            "'stewards' starts it at its next tick.",
            soft_wrap=True,
        )


def _listed(days: Sequence[str]) -> str:
    return join_limited(days, _SHOWN, " days")


def replay(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    landing: Annotated[Path | None, typer.Option(help="Folder with the source's files; default: the deployment's.")] = None,
    first: Annotated[datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="First arrival day.")] = None,
    last: Annotated[datetime | None, typer.Option("--through", formats=["%Y-%m-%d"], help="Last arrival day.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per arrival day.")] = False,  # noqa: FBT002
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the table is replaced (overwrite_all).")] = False,  # noqa: FBT002
) -> None:
    """Ingest every arrival day in order as if it were today. The command can be stopped and repeated."""
    lake, catalog = catalog_with(source, landing)
    lake = lake.cached()
    if catalog.sources[source].source.kafka:
        errors.print(f"{source} is a source of Kafka; use 'lakehouse source stream ingest {source}'.", style="red")
        raise typer.Exit(2)
    confirmed(catalog.sources[source], yes=yes)
    from lakehouse.dispositions import claims  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.ledger import contract_archive  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.execution.in_process import local_instance  # noqa: PLC0415
    from lakehouse.orchestration.execution.replay import Replay, total_causes  # noqa: PLC0415

    with lake.step():
        notices = contract_archive.notices_of_source(lake, catalog.sources[source])
    with local_instance() as instance:
        run = Replay(lake, catalog, source, instance)
        days, complaints = run.arrival_days(first.date() if first else None, last.date() if last else None)
        print_left_out(complaints)
        if not days:
            errors.print(
                f"No file in {lake.landing_of(source)} matches {catalog.sources[source].source.landing}.", style="yellow"
            )
            end_of_update((), complaints)
            return
        results = with_progress(run, days, as_json=as_json)
    print_notices(notices if any(result.rows for result in results) else ())
    if not as_json:
        restated = {metric: sum(len(result.restated.get(metric, [])) for result in results) for metric in _metrics(results)}
        malformed, reasons = sum(result.malformed for result in results), [result.unread_reason for result in results]
        rows, not_admitted = sum(result.rows for result in results), claims.not_admitted(lake, source, {"arrival_date": days})
        more = not_counted_text(source, malformed, next(filter(None, reasons), None), not_admitted)
        left = sum(len(result.left) for result in results)
        more = f"; {left:,} left for now (being written, or not readable){more}" if left else more
        out.print(f"{len(results)} arrival days, {rows:,} rows in Bronze{more}.", highlight=False, soft_wrap=True)
        for metric, count in restated.items():
            out.print(f"  gold/{metric}: {count:,} days published or restated.")
        causes = ", ".join(f"{count:,} {what}" for what, count in total_causes(results).most_common())
        out.print(f"  keys in silver: {causes or 'nothing new'}.")
    end_of_update(run.failed_checks, complaints, *(result.held or result.left for result in results))


def with_progress(run: Replay, days: Sequence[date], *, as_json: bool = False) -> list[DayResult]:
    """Replay the days with a progress bar on standard error (none if it is not a terminal)."""
    from rich.progress import (  # noqa: PLC0415 (`--help` need not wait for it)
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    from lakehouse.silver.replaced_days import absent_text  # noqa: PLC0415 (Arrow loads in a second)

    results = []
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as bar:
        task = bar.add_task(f"{days[0]}", total=len(days))
        for day in days:
            bar.update(task, description=f"arrivals of {day}")
            tell = partial(_tell, bar, task, day)
            with listened_to_by(tell, every=1):
                done = list(run.days([day]))
            for result in done:
                results.append(result)
                print_unfinished("held", result.held)
                print_unfinished("left for now", result.left)
                if result.absent:
                    errors.print(f"{result.arrival_date}: {absent_text(result.absent)}", style="yellow", soft_wrap=True)
                if as_json:
                    out.print(json.dumps(result.as_json(), default=str), soft_wrap=True)
            bar.advance(task)
    return results


def _tell(bar: Progress, task: TaskID, day: date, work: str, done: int, total: int | None) -> None:
    bar.update(task, description=f"arrivals of {day}, {sentence(work, done, total)}")


def _metrics(results: Sequence[DayResult]) -> list[str]:
    return sorted({metric for result in results for metric in result.restated})


def print_undone(lake: Lake, catalog: Catalog, done: Sequence[UndoneSeries], name: str, *, restate: bool) -> None:
    """Print the restored days, series by series, and the pending work.

    :param name: the undone object, such as "the stage".
    :param restate: whether to update the roll-ups now.
    """
    for undone in done:
        series, result = undone.daily.name, undone.result
        if result.published:
            out.print(f"gold/{series}: put back {_listed_undone([one.start for one in result.published])}.", soft_wrap=True)
        if result.unchanged:
            out.print(f"gold/{series}: put back before, or unchanged: {_listed_undone(result.unchanged)}.", soft_wrap=True)
        if undone.first:
            first = f"    first published by {name}, without a number to go back to: {_listed_undone(undone.first)}"
            out.print(first, style="yellow", soft_wrap=True)
        ends = f"'lakehouse gold release {undone.daily.metric.name} PERIOD'"
        out.print(f"    They keep these numbers until {ends}.", soft_wrap=True)
        print_pending(lake, undone.daily, catalog, now=restate)


def _listed_undone(days: Sequence[date]) -> str:
    return join_limited([f"{day}" for day in days], _SHOWN, " days")
