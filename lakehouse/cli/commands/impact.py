"""``lakehouse impact``: what a correction touched or, before it is taken in, would touch. Starts no JVM."""

from __future__ import annotations

import json
from datetime import date, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import catalog_with, counted, deployment, errors, out

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.impact.affected_periods import Affected
    from lakehouse.impact.analysis import Impact
    from lakehouse.settings import Settings

#: Lines of one table, and versions of the log, in a terminal.
_SHOWN = 100


def impact(
    named: Annotated[str | None, typer.Argument(metavar="[SOURCE]", help="The dataset of a source contract.")] = None,
    source: Annotated[str | None, typer.Option(help="The same; it need not be said where there is one source only.")] = None,
    file: Annotated[str | None, typer.Option(help="A local file, or the name of one in landing or one taken in.")] = None,
    key: Annotated[str | None, typer.Option(help="The record key, as the column record_key shows it.")] = None,
    start_date: Annotated[
        datetime | None, typer.Option("--start-date", "--from", formats=["%Y-%m-%d"], help="The first event day.")
    ] = None,
    end_date: Annotated[
        datetime | None, typer.Option("--end-date", "--to", formats=["%Y-%m-%d"], help="The last event day; default: the first.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,  # noqa: FBT002
) -> None:
    """Name the days, published numbers, roll-ups and readers that a file, a key or some days concern. Writes nothing."""
    if sum(asked is not None for asked in (file, key, start_date)) != 1:
        msg = "say one of --file, --key and --start-date"
        raise typer.BadParameter(msg)
    if end_date is not None and (start_date is None or end_date < start_date):
        msg = "--end-date needs a --start-date that is not behind it"
        raise typer.BadParameter(msg)
    from lakehouse.impact.analysis import UnknownSubjectError  # noqa: PLC0415 (Arrow loads in a second)

    source = named or source or _only_source()
    settings, catalog = catalog_with(source)
    try:
        found = _found(settings, catalog, source, file, key, start_date, end_date)
    except UnknownSubjectError as problem:
        errors.print(f"{problem}.", style="yellow", soft_wrap=True)
        raise typer.Exit(1) from None
    if as_json:
        out.print(json.dumps(found.as_json(), default=str, ensure_ascii=False), soft_wrap=True)
        return
    _print(found)


def _only_source() -> str:
    """:raises typer.BadParameter: where there are several."""
    _, catalog = deployment()
    if len(catalog.sources) != 1:
        msg = f"say which source is meant: {', '.join(sorted(catalog.sources))}"
        raise typer.BadParameter(msg)
    return next(iter(catalog.sources))


def _found(
    settings: Settings,
    catalog: Catalog,
    source: str,
    file: str | None,
    key: str | None,
    start: datetime | None,
    end: datetime | None,
) -> Impact:
    from lakehouse.delta.table_cache import with_table_cache  # noqa: PLC0415
    from lakehouse.impact import analysis as tables  # noqa: PLC0415

    settings = with_table_cache(settings)
    if file is not None:
        return tables.of_file(settings, catalog, source, file)
    if start is not None:
        return tables.of_days(settings, catalog, source, start.date(), (end or start).date())
    return tables.of_key(settings, catalog, source, key or "")


def _print(found: Impact) -> None:
    out.print(f"{found.source}: {found.about}", style="bold", soft_wrap=True)
    for note in found.notes:
        _say(note)
    if found.rows or found.out:
        kept = counted(sum(found.rows.values()))
        _say(", ".join([f"{kept} with an event day", *(f"{count:,} {why}" for why, count in found.out.items())]))
    verb = "touched" if found.applied else "would touch"
    _say(f"silver days that it {verb}: {_spans(found.days)}" if found.days else f"it {verb} no silver day")
    if found.lives_on:
        _say(f"lives on {_spans(found.lives_on)} now")
    if found.waiting:
        _say(f"silver has not followed yet on {_spans(found.waiting)}")
    for series, periods in groupby(found.periods, lambda one: one.series):
        _print_periods(series, list(periods))
    for metric, readers in found.readers.items():
        _section(f"Readers of gold/{metric}: {', '.join(readers) or 'none named in the contract'}")
    if found.models:
        _section(f"Metrics made from these: {', '.join(found.models)}")
    if found.moved:
        _section("Published because of it" if found.applied else "Published of these days")
    for one in found.moved[:_SHOWN]:
        _say(f"{one.published_at:%Y-%m-%d %H:%M}  {one.version}  {one.state}, {one.reason}")
    _left(len(found.moved))


def _print_periods(series: str, periods: list[Affected]) -> None:
    final = sum(one.state == "final" for one in periods)
    _section(f"gold/{series}: {len(periods):,} {'period' if len(periods) == 1 else 'periods'}, {final:,} final")
    for one in periods[:_SHOWN]:
        held = "; a candidate is held" if one.held else ""
        _say(f"{one.period}  {one.version or 'not published yet'}  {f'{one.state}; ' if one.state else ''}{_outcome(one)}{held}")
    _left(len(periods))


def _outcome(one: Affected) -> str:
    if one.outcome.value == "adjusted":
        return f"closed: a change is booked to {one.booked_to} as an adjustment"
    if one.outcome.value == "unchanged":
        return "stays: a change of its closed days is booked elsewhere"
    if one.outcome.value == "published":
        return "a change publishes it for the first time"
    return "a change restates it as a new final revision" if one.state == "final" else "a change restates it"


def _spans(days: list[date]) -> str:
    from lakehouse.serving.reports.wording import spans  # noqa: PLC0415

    return spans([f"{day}" for day in days])


def _left(count: int) -> None:
    if count > _SHOWN:
        _say(f"and {count - _SHOWN:,} more (--json has all)")


def _section(text: str) -> None:
    out.print(text, style="bold", soft_wrap=True)


def _say(text: str) -> None:
    out.print(f"  {text}", soft_wrap=True)
