"""``lakehouse reparse``: read raw records of Bronze again under the contract as it is now."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.console import catalog_with, confirmed, counted, out
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.reparse.read_again import ReadingSummary

_SHOWN = 8


def reparse(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    by: Annotated[str, typer.Option(help="Who decides.")],
    reason: Annotated[str, typer.Option(help="Why, for instance the mistake in the contract that was mended.")],
    start_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First arrival day; default: all.")] = None,
    end_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last arrival day; default: all.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Put the result into force and restate at once.")] = False,  # noqa: FBT002
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the table is replaced (overwrite_all).")] = False,  # noqa: FBT002
) -> None:
    """Read raw records again under today's contract: show which rows read otherwise, or put them into force (--now)."""
    from lakehouse.cli.catch_up import is_behind, restate  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415
    from lakehouse.reparse import apply as reparse_apply  # noqa: PLC0415
    from lakehouse.reparse import folder  # noqa: PLC0415
    from lakehouse.reparse.read_again import read_again  # noqa: PLC0415

    settings, catalog = catalog_with(source)
    contract = catalog.sources[source]
    first, last = (moment and moment.date() for moment in (start_date, end_date))
    if first and last and last < first:
        raise typer.BadParameter("--end-date is before --start-date")
    if now:
        confirmed(contract, yes=yes)

    def session() -> SparkSession:
        return LakeSpark().session()

    with folder.temporary(settings, source) as into:
        summary = read_again(settings, contract, session, first, last, into)
        _print_summary(source, summary)
        if not now:
            _print_ways_on(source, summary, first, last)
            return
        reparse_apply.apply(settings, contract, session, into, by=by, reason=reason)
    if is_behind(settings, catalog, source):
        restate(settings, catalog, source)


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


def _print_ways_on(source: str, summary: ReadingSummary, first: date | None, last: date | None) -> None:
    if not summary.rows_otherwise:
        return
    days = "".join(f" {option} {day}" for option, day in (("--start-date", first), ("--end-date", last)) if day)
    out.print("Nothing has changed yet. To go on:", soft_wrap=True)
    _say(f"  lakehouse reparse {source}{days} --by ... --reason ... --now   puts the rows into force and restates at once")


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value}"


def _say(text: str) -> None:
    out.print(text, soft_wrap=True, markup=False, highlight=False)
