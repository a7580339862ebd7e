"""``lakehouse impact``: the effect of a correction on numbers and models; before ingestion, the predicted effect."""

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
    from lakehouse.impact.result import Impact
    from lakehouse.models.affected import AffectedReleases
    from lakehouse.settings import Settings

#: The number of lines in a table, and of versions of the log, in a terminal.
_SHOWN = 100


def impact(
    named: Annotated[str | None, typer.Argument(metavar="[SOURCE]", help="The dataset of a source contract.")] = None,
    source: Annotated[str | None, typer.Option(help="The same as an option; not needed if there is only one source.")] = None,
    file: Annotated[
        str | None, typer.Option(help="A local file, or the name of a file in landing or of an ingested one.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The record key, as the column record_key shows it.")] = None,
    decision: Annotated[str | None, typer.Option(metavar="ID", help="The id of a steward's decision.")] = None,
    start_date: Annotated[
        datetime | None, typer.Option("--start-date", "--from", formats=["%Y-%m-%d"], help="The first event day.")
    ] = None,
    end_date: Annotated[
        datetime | None, typer.Option("--end-date", "--to", formats=["%Y-%m-%d"], help="The last event day; default: the first.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,  # noqa: FBT002
) -> None:
    """List the days, numbers, readers, training sets and models that a file, a key, a decision or days affect. Read-only."""
    if sum(asked is not None for asked in (file, key, decision, start_date)) != 1:
        msg = "pass one of --file, --key, --decision and --start-date"
        raise typer.BadParameter(msg)
    if end_date is not None and (start_date is None or end_date < start_date):
        msg = "--end-date needs a --start-date that is not after it"
        raise typer.BadParameter(msg)
    from lakehouse.delta.table_cache import with_table_cache  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.impact.analysis import UnknownSubjectError  # noqa: PLC0415
    from lakehouse.models import affected  # noqa: PLC0415

    source = named or source or _only_source()
    settings, catalog = catalog_with(source)
    settings = with_table_cache(settings)
    days = None if start_date is None else (start_date.date(), (end_date or start_date).date())
    try:
        result = _analysed(settings, catalog, source, file, key, decision, days)
    except UnknownSubjectError as problem:
        errors.print(f"{problem}.", style="yellow", soft_wrap=True)
        raise typer.Exit(1) from None
    released = affected.of_impact(settings, catalog.sources[source], result)
    if as_json:
        values = result.as_json() | {"released": released.as_json()}
        out.print(json.dumps(values, default=str, ensure_ascii=False), soft_wrap=True)
        return
    _print(result)
    _print_releases(released)


def _only_source() -> str:
    """:raises typer.BadParameter: if there are several sources."""
    _, catalog = deployment()
    if len(catalog.sources) != 1:
        msg = f"specify the source: {', '.join(sorted(catalog.sources))}"
        raise typer.BadParameter(msg)
    return next(iter(catalog.sources))


def _analysed(
    settings: Settings,
    catalog: Catalog,
    source: str,
    file: str | None,
    key: str | None,
    decision: str | None,
    days: tuple[date, date] | None,
) -> Impact:
    from lakehouse.impact import analysis  # noqa: PLC0415
    from lakehouse.training_sets.affected import columns_searched  # noqa: PLC0415

    if file is not None:
        return analysis.of_file(settings, catalog, source, file, columns_searched(settings, catalog.sources[source]))
    if days is not None:
        return analysis.of_days(settings, catalog, source, *days)
    if decision is not None:
        return analysis.of_decision(settings, catalog, source, decision)
    return analysis.of_key(settings, catalog, source, key or "")


def _print(result: Impact) -> None:
    out.print(f"{result.source}: {result.about}", style="bold", soft_wrap=True)
    for note in result.notes:
        _say(note)
    if result.rows or result.out:
        kept = counted(sum(result.rows.values()))
        _say(", ".join([f"{kept} with an event day", *(f"{count:,} {why}" for why, count in result.out.items())]))
    verb = "touched" if result.applied else "would touch"
    _say(f"silver days that it {verb}: {_spans(result.days)}" if result.days else f"it {verb} no silver day")
    if result.lives_on:
        _say(f"is on {_spans(result.lives_on)} now")
    if result.waiting:
        _say(f"pending in silver: {_spans(result.waiting)}")
    for series, periods in groupby(result.periods, lambda period: period.series):
        _print_periods(series, list(periods))
    for metric, readers in result.readers.items():
        _section(f"Readers of gold/{metric}: {', '.join(readers) or 'none named in the contract'}")
    if result.models:
        _section(f"Metrics computed from these: {', '.join(result.models)}")
    if result.moved:
        _section("Published because of it" if result.applied else "Published of these days")
    for period in result.moved[:_SHOWN]:
        _say(f"{period.published_at:%Y-%m-%d %H:%M}  {period.version}  {period.state}, {period.reason}")
    _left(len(result.moved))


def _print_releases(released: AffectedReleases) -> None:
    if released.labels:
        _section(f"Released labels: {', '.join(released.labels)}")
    if released.training_sets:
        _section("Training sets")
    for entry in released.training_sets:
        if entry.is_gone:
            again = f"'lakehouse dataset reproduce {entry.name} {entry.version}' writes them again"
            _say(f"{entry.full_name}  its rows are gone and cannot be counted: {again}")
        else:
            _say(f"{entry.full_name}  {entry.rows:,} of {counted(entry.total)}, {entry.share:.2%}")
    if released.models:
        _section("Models trained on them")
    for model in released.models:
        role = f"  {model.role}" if model.role else ""
        _say(f"{model.model} {model.version}  from {model.training_set.full_name}{role}")


def _print_periods(series: str, periods: list[Affected]) -> None:
    final = sum(one.state == "final" for one in periods)
    _section(f"gold/{series}: {len(periods):,} {'period' if len(periods) == 1 else 'periods'}, {final:,} final")
    for one in periods[:_SHOWN]:
        held = "; a candidate is held" if one.held else ""
        _say(f"{one.period}  {one.version or 'not published yet'}  {f'{one.state}; ' if one.state else ''}{_outcome(one)}{held}")
    _left(len(periods))


def _outcome(period: Affected) -> str:
    if period.outcome.value == "adjusted":
        return f"closed: a change is booked to {period.booked_to} as an adjustment"
    if period.outcome.value == "unchanged":
        return "unchanged: a change of its closed days is booked elsewhere"
    if period.outcome.value == "published":
        return "a change publishes it for the first time"
    return "a change restates it as a new final revision" if period.state == "final" else "a change restates it"


def _spans(days: list[date]) -> str:
    from lakehouse.reports.formatting import spans  # noqa: PLC0415

    return spans([f"{day}" for day in days])


def _left(count: int) -> None:
    if count > _SHOWN:
        _say(f"and {count - _SHOWN:,} more (--json lists all)")


def _section(text: str) -> None:
    out.print(text, style="bold", soft_wrap=True)


def _say(text: str) -> None:
    out.print(f"  {text}", soft_wrap=True)
