"""``lakehouse source audit`` and ``lakehouse rebuild``: the changes of silver row by row, and the rebuild of event days.

The audit lists changes by late and corrected data. A rebuild computes a range of event days from Bronze, under the current code
and contract.
"""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, confirmed, counted, data_table, number_column, out
from lakehouse.cli.number_report import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.restatement.reconciliation import DifferingNumber
    from lakehouse.silver.rebuild import RebuildPreview


#: The number of days of a table in a terminal.
_SHOWN = 40


def rebuild(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    start_date: arguments.FirstEventDay = None,
    end_date: arguments.LastEventDay = None,
    reason: Annotated[
        str | None, typer.Option(help="Why, for instance the bug that was fixed. Only a dry run needs none.")
    ] = None,
    runner_id: Annotated[str, typer.Option("--runner-id", "--by", help="Who requests it; default: the user's name.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the table is replaced (overwrite_all).")] = False,  # noqa: FBT002
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the days and numbers that would change.")] = False,  # noqa: FBT002
) -> None:
    """Reassess the rows of these event days and rebuild silver; unchanged days cause no restatement."""
    from lakehouse.cli.number_report import print_unread  # noqa: PLC0415
    from lakehouse.delta import provenance  # noqa: PLC0415
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415
    from lakehouse.gold.restatement import reconciliation  # noqa: PLC0415
    from lakehouse.orchestration.commands import restate  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415
    from lakehouse.silver import rebuild as silver_rebuild  # noqa: PLC0415

    lake, catalog = catalog_with(source)
    contract = catalog.sources[source]
    if start_date is not None and end_date is not None and end_date < start_date:
        raise typer.BadParameter("--end-date is before --start-date")

    def session() -> SparkSession:
        return LakeSpark().session()

    if dry_run:
        first, last = (None if day is None else day.date() for day in (start_date, end_date))
        previewed = silver_rebuild.preview(session(), lake, contract, first, last)
        _print_preview(contract, previewed, [metric.name for metric in catalog.metrics_following(source)])
        for metric in catalog.metrics_of(source):
            daily = served_version.daily(lake, catalog, metric)
            _print_numbers(metric.name, reconciliation.differing_numbers(lake, daily, session, first, last))
        return
    if start_date is None or end_date is None or reason is None:
        raise typer.BadParameter("pass --start-date, --end-date and --reason; only --dry-run works without them")
    confirmed(contract, yes=yes)

    if repaired := silver_rebuild.repair(lake, contract, session, "cli:rebuild"):
        days = "day, whose data files were" if len(repaired) == 1 else "days, whose data files were"
        out.print(f"silver/{source}: {len(repaired)} event {days} missing or cut off, made again from bronze.", soft_wrap=True)
    planned = silver_rebuild.plan_rebuild(
        lake,
        contract,
        session,
        silver_rebuild.RebuildRange(start_date.date(), end_date.date()),
        reason=reason,
        runner_id=runner_id or getpass.getuser(),
    )
    if not planned.days:
        out.print(f"bronze/{source} contains no event day from {start_date:%Y-%m-%d} through {end_date:%Y-%m-%d}; nothing to do.")
        return
    now = provenance.stamp(contract)
    out.print(f"{len(planned.days)} event days are rebuilt, {planned.rows_judged_otherwise:,} rows are judged differently.")
    out.print(f"code: {planned.before['code'] or 'unknown'} before, {now['code']} now", soft_wrap=True)
    out.print(f"contract: {planned.before['contract'] or 'unknown'} before, {now['contract']} now", soft_wrap=True)
    print_unread(lake, contract, planned.days)
    restate(lake, catalog, source)


def _print_numbers(metric: str, differing: Sequence[DifferingNumber]) -> None:
    """Print which published numbers would come out otherwise from the rows of now, each with both values."""
    if not differing:
        return
    many = "number" if len(differing) == 1 else "numbers"
    out.print(
        f"{metric}: {len(differing):,} published {many} would come out otherwise from the rows that silver has now. "
        "Each stays as it is until its day is computed again.",
        highlight=False,
        soft_wrap=True,
    )
    listed = [number for number in differing if number.problem is None]
    measures = list(dict.fromkeys(name for number in listed for name in number.measures))
    table = data_table()
    table.add_column("event day", no_wrap=True)
    cells = [[_sides(number.measures.get(name)) for name in measures] for number in listed[:_SHOWN]]
    for place, name in enumerate(measures):
        number_column(table, name, [row[place] for row in cells])
    for number, row in zip(listed, cells):
        table.add_row(number.day.isoformat(), *row)
    if listed:
        out.print(table)
    if len(listed) > _SHOWN:
        out.print(f"And {len(listed) - _SHOWN:,} more, to {listed[-1].day}.")
    for problem in [number.problem for number in differing if number.problem][:_SHOWN]:
        out.print(f"{problem}.", highlight=False, soft_wrap=True)


def _sides(sides: Sides | None) -> str:
    """A measure as published and as computed now."""
    if sides is None:
        return ""
    return f"{shown(sides.before)} -> {shown(sides.after)}" if sides.changed else shown(sides.after)


def _print_preview(contract: SourceContract, previewed: RebuildPreview, metrics: Sequence[str]) -> None:
    source, differing = contract.dataset, previewed.differing
    days = f"{previewed.days:,} event {'day' if previewed.days == 1 else 'days'}"
    changed = f"{len(differing):,}" if differing else "none"
    judged = f"{counted(previewed.rows_judged_otherwise)} would be judged differently"
    out.print(f"{days} of {source} evaluated: {changed} would change; {judged}. Nothing was written.", soft_wrap=True)
    if not differing:
        return
    table = data_table()
    table.add_column("event day", no_wrap=True)
    shown = [(entry.day.isoformat(), *(f"{number:,}" for number in (*entry.rows, entry.keys))) for entry in differing[:_SHOWN]]
    for place, column in enumerate(("rows now", "rows then", "keys that differ"), 1):
        number_column(table, column, [cells[place] for cells in shown])
    for cells in shown:
        table.add_row(*cells)
    out.print(table)
    first, last = differing[0].day, differing[-1].day
    if len(differing) > _SHOWN:
        out.print(f"And {len(differing) - _SHOWN:,} more, to {last}.")
    if metrics:
        out.print(f"Metrics that follow: {', '.join(sorted(metrics))}.", soft_wrap=True)
        out.print(
            f"The published numbers of these days: lakehouse change impact {source} --from {first} --to {last}", soft_wrap=True
        )
    out.print(f"To do it: lakehouse rebuild {source} --start-date {first} --end-date {last} --reason WHY", soft_wrap=True)


_AUDIT_SHOWN = 50
_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


@dataclass(frozen=True)
class AuditFilter:
    """Which rows of the audit are listed."""

    date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Rows about this event day.")] = None
    key: Annotated[str | None, typer.Option(help="Rows about this record key.")] = None
    actor: Annotated[str | None, typer.Option(help="Rows by this person or system.")] = None
    since: Annotated[datetime | None, typer.Option(formats=_TIMES, help="Rows written then or later (UTC).")] = None
    action: Annotated[str | None, typer.Option(help="late_merge, correction, backfill, replay, redaction or steward.")] = None


@arguments.with_groups
def audit(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    about: AuditFilter,
    limit: Annotated[
        int | None, typer.Option(help=f"Maximum number of rows, the newest; default: {_AUDIT_SHOWN}, all with --json.", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,  # noqa: FBT002
) -> None:
    """List every late row and every change of an existing row: author, reason, and values before and after."""
    from lakehouse.silver import audit_log as log  # noqa: PLC0415 (Arrow loads in a second)

    if about.action is not None and about.action not in log.ACTIONS:
        msg = f"--action is one of {', '.join(log.ACTIONS)}"
        raise typer.BadParameter(msg)
    lake, _ = catalog_with(source, reading=True)
    day, since = about.date.date() if about.date else None, about.since
    since = since.replace(tzinfo=timezone.utc) if since is not None and since.tzinfo is None else since
    rows = log.read(lake, source, day=day, key=about.key, actor=about.actor, action=about.action, since=since)
    newest: pa.Table = rows.slice(max(0, len(rows) - limit)) if limit else rows
    if as_json:
        for row in newest.to_pylist():
            out.print(json.dumps(_plain(log.parsed(row)), ensure_ascii=False), soft_wrap=True)
        return
    newest = newest if limit else newest.slice(max(0, len(newest) - _AUDIT_SHOWN))
    for row in newest.to_pylist():
        _print(log.parsed(row))
    left = len(rows) - len(newest)
    out.print(f"{counted(len(rows))}{f', {left:,} older ones not shown (--limit)' if left else ''}.")


def _print(row: dict[str, Any]) -> None:
    """Print a few lines per row, never truncated: a table would fold the values."""
    where = f"{row['event_id'] or 'a first load'} on {row['event_date']}"
    out.print(f"{row['audit_ts']:%Y-%m-%d %H:%M}  {row['action_type']}: {where}", style="bold", soft_wrap=True)
    _say(
        f"by {row['actor'] or 'somebody unknown'}: {row['reason'] or 'no reason given'} (silver version {row['silver_version']})"
    )
    old, new = row["original_value"], row["new_value"]
    if old is not None and new is not None:
        for name in new:
            _say(f"{name}: {_shown(old[name])} -> {_shown(new[name])}")
    else:
        said = {name: value for name, value in (old or new).items() if value is not None}
        _say(f"{'new' if old is None else 'gone'}: " + ", ".join(f"{name} {_shown(value)}" for name, value in said.items()))
    if row["impacted_kpis"]:
        _say(f"affects {', '.join(row['impacted_kpis'])}")


def _shown(value: object) -> str:
    """The value as JSON: quotes make an empty text visible, and control characters do not reach the terminal."""
    return json.dumps(value, ensure_ascii=False)


def _say(text: str) -> None:
    out.print(f"    {text}", soft_wrap=True)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
