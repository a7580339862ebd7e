"""``lakehouse source reparse``: parse raw records of Bronze again under the current contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, confirmed, counted, out
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.reparse.read_again import ReadingSummary


_SHOWN = 8


@arguments.with_groups
def reparse(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    by: Annotated[str, typer.Option(help="Who decides.")],
    reason: Annotated[str, typer.Option(help="Why, for instance the mistake in the contract that was mended.")],
    arrivals: arguments.ArrivalDays,
    stage: Annotated[str, typer.Option(help="The name of the stage; default: reparse-<source>-<date>.")] = "",
    now: Annotated[bool, typer.Option("--now", help="Put the result into force and restate at once, without a stage.")] = False,  # noqa: FBT002
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the table is replaced (overwrite_all).")] = False,  # noqa: FBT002
) -> None:
    """Parse raw records again under the current contract, as a stage; with --now the result takes effect immediately."""
    from lakehouse.cli.number_report import print_unread  # noqa: PLC0415
    from lakehouse.orchestration.commands import is_behind, restate  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415
    from lakehouse.reparse import apply as reparse_apply  # noqa: PLC0415
    from lakehouse.reparse import read_again as reading_again  # noqa: PLC0415
    from lakehouse.reparse.read_again import read_again  # noqa: PLC0415
    from lakehouse.stages import staging  # noqa: PLC0415
    from lakehouse.stages.commands import print_report  # noqa: PLC0415
    from lakehouse.stages.stage_log import StageKind  # noqa: PLC0415
    from lakehouse.stages.staging import StageRequest  # noqa: PLC0415

    lake, catalog = catalog_with(source)
    contract = catalog.sources[source]
    first, last = arrivals.days
    if first and last and last < first:
        raise typer.BadParameter("--end-date is before --start-date")

    def session() -> SparkSession:
        return LakeSpark().session()

    if not now:
        name = stage or f"reparse-{source}-{lake.now():%Y-%m-%d}"
        request = StageRequest(name, source, by, reason, StageKind.REPARSE, first=first, last=last)
        print_report(staging.create(lake, catalog, session, request, f"cli:{by}"))
        return
    confirmed(contract, yes=yes)
    with reading_again.temporary(lake, source) as into:
        summary = read_again(lake, contract, session, first, last, into)
        _print_summary(source, summary)
        reparse_apply.apply(lake, contract, session, into, by=by, reason=reason, whole=first is None and last is None)
    print_unread(lake, contract, None)
    if is_behind(lake, catalog, source):
        restate(lake, catalog, source)


def _print_summary(source: str, summary: ReadingSummary) -> None:
    out.print(f"{counted(summary.rows_read)} of bronze/{source} read again.", soft_wrap=True)
    if not summary.rows_otherwise:
        out.print("No row reads otherwise: there is nothing to put into force.")
        return
    out.print(f"{summary.rows_otherwise:,} read otherwise.")
    out.print(f"malformed of these: {summary.malformed_before:,} before, {summary.malformed_after:,} after")
    days = join_limited([f"{day}" for day in summary.days], _SHOWN, " days")
    out.print(f"{summary.keys:,} keys and {len(summary.days):,} event days are concerned: {days or 'no day'}", soft_wrap=True)
    for before, after in summary.samples:
        _say(f"  {after['source_file']}:{after['line_number']}")
        for name in after:
            if before[name] != after[name]:
                _say(f"      {name}: {_shown(before[name])} -> {_shown(after[name])}")


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value}"


def _say(text: str) -> None:
    out.print(text, soft_wrap=True, markup=False, highlight=False)
