"""``lakehouse source account``, ``change impact`` and ``trace``: what became of rows, and the effects of a change.

``account`` shows the dispositions of the rows of Bronze per arrival day, ``impact`` the effect of a correction on numbers and
models (before ingestion, the predicted effect), ``trace`` the history of a key, from its raw lines to the published numbers that
it changed.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import date, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, data_table, deployment, errors, fits, number_column, out
from lakehouse.cli.number_report import print_malformed
from lakehouse.ledger.row_states import Disposition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rich.table import Table

    from lakehouse.contracts import Catalog
    from lakehouse.dispositions.account import BronzeRow
    from lakehouse.impact.affected_periods import Affected
    from lakehouse.impact.analysis import Impact
    from lakehouse.impact.row_changes import SilverChange
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId
    from lakehouse.ledger.rebuild_requests import RebuildRequest
    from lakehouse.models.lineage import AffectedReleases


#: The number of lines in a table, and of versions of the log, in a terminal.
_SHOWN = 100


@dataclass(frozen=True)
class ImpactSubject:
    """What an impact is asked of: a file, a key, a decision or event days."""

    file: Annotated[str | None, typer.Option(help="A local file, or the name of a file in landing or of an ingested one.")] = None
    key: Annotated[str | None, typer.Option(help="The record key, as the column record_key shows it.")] = None
    decision: Annotated[str | None, typer.Option(metavar="ID", help="The id of a steward's decision.")] = None
    start_date: Annotated[
        datetime | None, typer.Option("--start-date", "--from", formats=["%Y-%m-%d"], help="The first event day.")
    ] = None
    end_date: Annotated[
        datetime | None, typer.Option("--end-date", "--to", formats=["%Y-%m-%d"], help="The last event day; default: the first.")
    ] = None

    @property
    def days(self) -> tuple[date, date] | None:
        """The first and the last event day; None for another subject."""
        first = self.start_date
        return None if first is None else (first.date(), (self.end_date or first).date())


@arguments.with_groups
def impact(
    named: Annotated[str | None, typer.Argument(metavar="[SOURCE]", help="The dataset of a source contract.")] = None,
    source: Annotated[str | None, typer.Option(help="The same as an option; not needed if there is only one source.")] = None,
    *,
    subject: ImpactSubject,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the days, numbers, readers, training sets and models that a file, a key, a decision or days affect. Read-only."""
    if sum(asked is not None for asked in (subject.file, subject.key, subject.decision, subject.start_date)) != 1:
        msg = "pass one of --file, --key, --decision and --start-date"
        raise typer.BadParameter(msg)
    first, last = subject.start_date, subject.end_date
    if last is not None and (first is None or last < first):
        msg = "--end-date needs a --start-date that is not after it"
        raise typer.BadParameter(msg)
    from lakehouse.impact.analysis import UnknownSubjectError  # noqa: PLC0415
    from lakehouse.models import lineage  # noqa: PLC0415

    source = named or source or _only_source()
    lake, catalog = catalog_with(source, reading=True)
    lake = lake.cached()
    try:
        result = _analysed(lake, catalog, source, subject)
    except UnknownSubjectError as problem:
        errors.print(f"{problem}.", style="yellow", soft_wrap=True)
        raise typer.Exit(1) from None
    released = lineage.of_impact(lake, catalog.sources[source], result)
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


def _analysed(lake: Lake, catalog: Catalog, source: str, subject: ImpactSubject) -> Impact:
    from lakehouse.impact import analysis  # noqa: PLC0415
    from lakehouse.training_sets.affected import columns_searched  # noqa: PLC0415

    if subject.file is not None:
        return analysis.of_file(lake, catalog, source, subject.file, columns_searched(lake, catalog.sources[source]))
    if subject.days is not None:
        return analysis.of_days(lake, catalog, source, *subject.days)
    if subject.decision is not None:
        return analysis.of_decision(lake, catalog, source, subject.decision)
    return analysis.of_key(lake, catalog, source, subject.key or "")


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


def trace(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    key: Annotated[str, typer.Argument(help="The record key, as the column record_key shows it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,  # noqa: FBT002
) -> None:
    """Show the disposition of each record of a key with its reason, the changes in silver, and the published days it changed."""
    from lakehouse.dispositions import unread as malformed_rows  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.impact import row_changes  # noqa: PLC0415

    lake, catalog = catalog_with(source, reading=True)
    contract = catalog.sources[source]
    traced = row_changes.trace_of(lake, catalog, source, key)
    if traced is None:
        errors.print(f"No row of bronze/{source} has the key {key!r}.", style="yellow")
        raise typer.Exit(1)
    if as_json:
        stories = zip(("silver", "silver_newest"), traced.lives)
        lives = {name: [asdict(change) for change in story] for name, (story, _) in stories}
        rows = [asdict(row) | {"reading": _reading_in_json(traced.readings.get(row.row_id))} for row in traced.records]
        joined = {"numbers": [change._asdict() for change in traced.joined]} if traced.joined else {}
        out.print(json.dumps({"key": key, "records": rows, **lives, **joined}, default=str), soft_wrap=True)
        return
    unread = any(row.disposition is Disposition.MALFORMED for row in traced.records)
    _print_records(traced.records, traced.readings, malformed_rows.raw_texts(lake, source, key) if unread else {})
    for table, (story, oldest) in zip(contract.silver_tables, traced.lives):
        _print_life("silver" if table is contract else f"silver/{table.silver_table}", story, oldest)
    if traced.joined:
        out.print(f"In numbers that join {source}", style="bold")
    for change in traced.joined:
        _trace_say(f"  gold/{change.series} of {', '.join(map(str, change.days))}, on {change.published_at:%Y-%m-%d}")
        _trace_say(f"              restated because {change.words}")


def _reading_in_json(request: RebuildRequest | None) -> dict[str, Any] | None:
    if request is None:
        return None
    named = {"by": request.runner_id, "reason": request.reason, "recorded_at": request.recorded_at}
    return {"reading_id": request.operation_id, **named}


def _print_records(records: list[BronzeRow], readings: Mapping[RowId, RebuildRequest], raw_texts: Mapping[RowId, str]) -> None:
    """Print a few lines per record, never truncated: a table would fold the file names."""
    out.print("In Bronze", style="bold")
    for row in records:
        about = f" for {row.event_date}" if row.event_date else ""
        _trace_say(f"  {row.arrival_date}  {row.change_op or 'unread'}{about}, {row.source_file}:{row.line_number}")
        _trace_say(f"              row {row.ingestion_id}:{row.line_number}")
        if request := readings.get(row.row_id):
            when = f"{request.recorded_at:%Y-%m-%d}"
            _trace_say(f"              read again by {request.runner_id} on {when}: {request.reason} ({request.operation_id})")
        decided_by = f", {row.decided_by}" if row.decided_by else ""
        _trace_say(f"              {row.disposition.value}: {row.because}{decided_by}")
        if row.row_id in raw_texts:
            _trace_say(f"              as it was sent: {raw_texts[row.row_id]}")
        if row.decision:
            _trace_say(f"              {row.decision}")


def _print_life(table: str, life: list[SilverChange], oldest: int) -> None:
    out.print(f"In {table}, and the published days that changed", style="bold")
    if oldest:
        _trace_say(f"  (the table's log begins with version {oldest})")
    for change in life:
        _trace_say(f"  version {change.version}: {change.change} on {change.event_date}")
        for metric, day, when in change.published:
            _trace_say(f"              gold/{metric} of {day}, on {when:%Y-%m-%d}")


def _trace_say(text: str) -> None:
    out.print(text, soft_wrap=True)


def account(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    arrival_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="This arrival day only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per arrival day.")] = False,  # noqa: FBT002
) -> None:
    """Count the rows of Bronze by disposition; every row has exactly one."""
    from lakehouse.dispositions import account as dispositions_account  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = catalog_with(source, reading=True)
    contract = catalog.sources[source]
    days = [arrival_date.date()] if arrival_date else None
    counts = dispositions_account.counts(dispositions_account.table(lake, contract, arrival_days=days))
    if as_json:
        for day, of_day in counts.items():
            line = {"arrival_date": day.isoformat(), "rows": of_day.total()} | {name.value: of_day[name] for name in Disposition}
            out.print(json.dumps(line), soft_wrap=True)
        return
    if not counts:
        out.print(f"bronze/{source} holds no row{f' of {days[0]}' if days else ''}.")
        return
    in_any = [name for name in Disposition if any(of_day[name] for of_day in counts.values())]
    tables = (rows_by_disposition(source, counts, names) for names in (list(Disposition), in_any))
    table = next(filter(fits, tables), None)  # a narrow terminal leaves out dispositions that no row has
    if table is not None:
        out.print(table)
    else:
        for day, of_day in counts.items():  # the numbers do not fit next to each other in the terminal
            dispositions = ", ".join(f"{of_day[name]:,} {name.value}" for name in Disposition if of_day[name])
            out.print(f"{day}: {counted(of_day.total())}, {dispositions}.", soft_wrap=True)
    print_malformed(lake, source, arrival_days=days)


def rows_by_disposition(
    source: str, counts: Mapping[date, Counter[Disposition]], names: Collection[Disposition] = tuple(Disposition)
) -> Table:
    """The counts of each arrival day, with their sum.

    :param names: the dispositions to show.
    """
    total: Counter[Disposition] = sum(counts.values(), Counter())
    table = data_table(f"Dispositions of the rows of {source}", show_footer=True)
    table.add_column("arrival day", "total", no_wrap=True)
    number_column(table, "rows", (f"{of_day.total():,}" for of_day in counts.values()), f"{total.total():,}")
    for name in names:
        number_column(table, name.value, (f"{of_day[name]:,}" for of_day in counts.values()), f"{total[name]:,}")
    for day, of_day in counts.items():
        table.add_row(f"{day}", f"{of_day.total():,}", *(f"{of_day[name]:,}" for name in names))
    return table
