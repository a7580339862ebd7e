"""``lakehouse gold``: show published numbers, their history, and the differences between versions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import counted, errors, out
from lakehouse.cli.number_report import row_text, sides_text
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from lakehouse.gold.numbers.comparison import Comparison
    from lakehouse.gold.numbers.history import PublishedVersion, SelectedVersion
    from lakehouse.gold.restatement.closing import End, HeldNumber


if TYPE_CHECKING:
    _Render = Callable[[Comparison], str]

app = typer.Typer(help="Published numbers: current and earlier ones, and the reasons for changes.", no_args_is_help=True)


@app.command()
def show(
    metric: arguments.Metric,
    period: arguments.PeriodOrWindow,
    version: Annotated[str, typer.Option(help="latest, final, first, r3, a time, v2, or a version name.")] = "latest",
    known_at: Annotated[
        str | None, typer.Option(help="Compute the number from what had arrived by this time, published or not; starts Spark.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(help="Compute the number from the inputs of this named snapshot; starts Spark.")
    ] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Show a version of the number of a period or window, with its state and origin."""
    of = arguments.about_window(metric, period)
    if snapshot is not None:
        _show_snapshot(of, snapshot, as_json=as_json)
        return
    if known_at is not None:
        _show_known(of, arguments.moment(known_at), as_json=as_json)
        return
    answer = _selected(of, version)
    held = _held(of) if answer.version.is_latest else None
    waits_for = _waits_for(of, held) if answer.version.is_latest else []
    if as_json:
        fields = _as_json(answer.version) | {"note": answer.note, "held": held.because if held else None}
        fields["waiting_for"] = waits_for
        fields |= {"adjustments": [one.label for one in answer.adjustments], "adjusted": answer.adjusted}
        end = _end(of)
        fields |= {"window_end": end.at, "watermark_passed": end.passed, "update_count": answer.update_count}
        out.print(json.dumps(fields, default=str), soft_wrap=True)
        return
    doubts = [f"a newer number is held: {held.because}"] if held else []
    doubts += [f"waits for: {reason}" for reason in (waits_for[1:] if held else waits_for)]
    _print_number(of, answer, doubts, nothing=f"nothing in the window {period}")


def _selected(of: arguments.About, version: str) -> SelectedVersion:
    """The selected version of the period, or of the window."""
    from lakehouse.gold.numbers import history as numbers_history  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.gold.numbers.version_selector import UnknownVersionError  # noqa: PLC0415

    try:
        return numbers_history.version(of.lake, of.series, of.period, arguments.asked_for(version), of.window)
    except UnknownVersionError as problem:
        held = _held_because(of)
        if held is None or held in f"{problem}":
            raise
        msg = f"{problem}; a number is held: {held}"
        raise UnknownVersionError(msg) from None


def _print_number(of: arguments.About, answer: SelectedVersion, doubts: Sequence[str], nothing: str) -> None:
    from lakehouse.gold.publication import restatement_reports  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.ledger import publications  # noqa: PLC0415

    shown = answer.version
    out.print(f"{shown.name}  {shown.state.value}", style="bold", soft_wrap=True)
    if answer.note:
        out.print(f"  {answer.note}", style="yellow", soft_wrap=True)
    for doubt in doubts:
        out.print(f"  {doubt}", style="yellow", soft_wrap=True)
    for line in [row_text(row, of.series) for row in shown.rows] or [nothing]:
        out.print(f"  {line}", soft_wrap=True)
    for one in answer.adjustments:
        for row in one.rows:
            out.print(f"  {one.label}, booked to {one.row['booked_on']}: {row_text(row, of.series)}", soft_wrap=True)
    if answer.adjusted:
        out.print(f"  with its adjustments: {row_text(answer.adjusted, of.series)}", soft_wrap=True)
    until = f" until {shown.superseded_at:%Y-%m-%d %H:%M}" if shown.superseded_at else ""
    out.print(f"  published {format_moment(shown.published_at)}{until}: {shown.reason.value}", soft_wrap=True)
    if shown.restated_on:
        out.print(f"  restated {format_moment(shown.restated_on)}: {shown.restatement_reason}", soft_wrap=True)
    if of.window is not None:
        end = _end(of)
        passed = "" if end.passed is None else f", and the watermark has {'' if end.passed else 'not '}passed it"
        updates = f"{answer.update_count:,} {'update' if answer.update_count == 1 else 'updates'} since the first number"
        out.print(f"  the window ends {format_moment(end.at)}{passed}; {updates}", soft_wrap=True)
    if because := restatement_reports.because(of.lake, of.series, shown):
        out.print(f"  restated because {because}", soft_wrap=True)
    publication = publications.find(of.lake, of.series.name, shown.row["publication_id"])
    _print_origin(shown, publication.code_commit if publication else None)


def _held(of: arguments.About) -> HeldNumber | None:
    """Why the newest number of the period is held; None if it is not held."""
    from lakehouse.gold.restatement import closing  # noqa: PLC0415 (Arrow loads in a second)

    return closing.held(of.lake, of.series, of.period.start)


def _end(of: arguments.About) -> End:
    """When the period or window ends, and whether the watermark has passed that."""
    from lakehouse.gold.restatement import closing  # noqa: PLC0415 (Arrow loads in a second)

    source = of.catalog.sources[of.series.metric.source]
    return closing.end_of(of.series, source, of.period, of.window, closing.watermarks(of.lake, source, of.series))


def _held_because(of: arguments.About) -> str | None:
    held = _held(of)
    return held.because if held else None


def _waits_for(of: arguments.About, held: HeldNumber | None) -> list[str]:
    """What the period waits for before its number becomes final, the held number first."""
    from lakehouse.gold.restatement import closing  # noqa: PLC0415

    source = of.catalog.sources[of.series.metric.source]
    missing = closing.waits_for(of.lake, source, of.series, [of.period]).get(of.period.start, [])
    return closing.with_held(held, missing)


@app.command()
def history(metric: arguments.Metric, period: arguments.PeriodOrWindow, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show all revisions of a period or window: changes, reasons, and the number of rows that caused them."""
    from lakehouse.gold.numbers import history as numbers_history  # noqa: PLC0415
    from lakehouse.gold.numbers import window_history  # noqa: PLC0415
    from lakehouse.gold.numbers.version_selector import UnknownVersionError  # noqa: PLC0415
    from lakehouse.gold.publication import restatement_reports  # noqa: PLC0415

    of = arguments.about_window(metric, period)
    known = numbers_history.history(of.lake, of.series, [of.period.start]).get(of.period.start, [])
    if of.window is not None:
        known = window_history.history(known, of.window)
    if not known:
        msg = numbers_history.why_nothing(of.lake, of.series, period, of.period.start)
        raise UnknownVersionError(f"{msg}: {held}" if (held := _held_because(of)) else msg)
    for version, moved in zip(known, numbers_history.moved(of.series, known)):
        because = restatement_reports.because(of.lake, of.series, version)
        if as_json:
            told = {name: sides.as_json() for name, sides in moved.items()}
            fields = _as_json(version) | {"moved": told} | ({"because": because} if because else {})
            out.print(json.dumps(fields, default=str), soft_wrap=True)
            continue
        mark = "  (latest)" if version.is_latest else ""
        out.print(
            f"{version.label}  {version.published_at:%Y-%m-%d %H:%M}  {version.state.value}{mark}", style="bold", soft_wrap=True
        )
        behind = _rows_behind(version)
        booked = f", booked to {version.row['booked_on']}" if version.adjustment is not None else ""
        out.print(f"    {version.why}{behind}{booked}", soft_wrap=True)
        if because:
            out.print(f"    restated because {because}", soft_wrap=True)
        if version.row.get("signed_off_by"):
            out.print(f"    signed off by {version.row['signed_off_by']}: {version.row['sign_off_reason']}", soft_wrap=True)
        for name, sides in moved.items():
            out.print(f"    {name}: {sides_text(sides, version)}", soft_wrap=True)
        if version.row.get("undecided_rows"):
            out.print(f"    {_waited(version)}", style="yellow", soft_wrap=True)
    if not as_json and (held := _held_because(of)):
        out.print(f"held  {held}", style="yellow", soft_wrap=True)


def _waited(version: PublishedVersion) -> str:
    """The rows that a version lacks because nobody had decided about them."""
    return f"{counted(version.row['undecided_rows'])} waited for a steward when it was published"


def _rows_behind(version: PublishedVersion) -> str:
    """The number of rows behind a version, where its reason does not say it; the rows of a first number are not changed ones."""
    from lakehouse.gold.numbers.lifecycle import RevisionReason  # noqa: PLC0415 (Arrow loads in a second)

    rows = version.row.get("changed_rows")
    if not rows or version.reason is RevisionReason.NEW_DATA:
        return ""
    if version.reason is RevisionReason.INITIAL and version.revision == 1:
        return f", {counted(rows)}"
    return f", {rows:,} changed {'row' if rows == 1 else 'rows'}"


@app.command("list")
def list_(
    code: Annotated[
        str, typer.Option(help="A version of the code or of a contract, as 'gold show' names it; its beginning is enough.")
    ],
    metric: Annotated[str | None, typer.Option(help="One metric; default: all.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the published numbers that a version of the code, or of a contract, has made."""
    from dataclasses import asdict  # noqa: PLC0415

    from lakehouse.cli.console import deployment  # noqa: PLC0415
    from lakehouse.gold.numbers import served_version  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.ledger import publications  # noqa: PLC0415

    if metric is None:
        lake, catalog = deployment(reading=True)
        contracts = list(catalog.metrics.values())
    else:
        lake, catalog, named = arguments.metric_named(metric, reading=True)
        contracts = [named]
    daily = {each.name: each for each in (served_version.daily(lake, catalog, contract) for contract in contracts)}
    for days in daily.values():
        arguments.warn_if_deprecated(days.metric)
    listed = [
        made
        for days in daily.values()
        for series in (days, *days.rollups)
        for made in publications.numbers_made_by(lake, series, code)
    ]
    for made in listed:
        if as_json:
            out.print(json.dumps(asdict(made), default=str), soft_wrap=True)
        else:
            mark = "  (latest)" if made.is_latest else ""
            out.print(f"{made.version_name}  {made.state}{mark}", style="bold", soft_wrap=True)
            commit = f", commit {made.code_commit}" if made.code_commit else ""
            versions = f"code {made.code_version}, contract {made.contract_version}{commit}"
            out.print(f"    published {format_moment(made.published_at)}: {versions}", soft_wrap=True)
    if not as_json:
        newest = sum(made.is_latest for made in listed)
        out.print(f"{len(listed):,} published by {code}; {newest:,} of them are what readers see.", soft_wrap=True)


@app.command()
def compare(
    metric: arguments.Metric,
    period: arguments.PeriodOrWindow,
    a: Annotated[str, typer.Argument(help="A version: first, r2, a time, live, ...")] = "first",
    b: Annotated[str | None, typer.Argument(help="The other version; default: the final number with its adjustments.")] = None,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Compare two versions of a period, or of a window, side by side; for a live metric, also the numbers of the stream."""
    _compare(arguments.about_window(metric, period), (a, b), as_json=as_json)


def _compare(
    of: arguments.About, names: tuple[str, str | None], *, as_json: bool, files: Sequence[tuple[Path | None, _Render]] = ()
) -> None:
    from lakehouse.gold.numbers import history as numbers_history  # noqa: PLC0415
    from lakehouse.live import compared  # noqa: PLC0415

    known = numbers_history.history(of.lake, of.series, [of.period.start]).get(of.period.start, [])
    made = compared.compared(of.lake, of.series, of.period, of.window, known, names)
    for side in made.sides:
        if side.note:
            errors.print(f"{side.wanted}: {side.note}", style="yellow", soft_wrap=True)
    _report(made.comparison, files, as_json=as_json)


def _report(comparison: Comparison, files: Sequence[tuple[Path | None, _Render]], *, as_json: bool) -> None:
    """Print a comparison, or write it to files."""
    from lakehouse.reports import comparison_report  # noqa: PLC0415

    written = [(file, render) for file, render in files if file is not None]
    for file, render in written:
        file.write_text(render(comparison), encoding="utf-8")
        errors.print(f"written: {file}", style="dim", soft_wrap=True)
    if as_json:
        out.print(comparison_report.as_json(comparison), soft_wrap=True)
    elif not written:
        out.print(comparison_report.as_terminal(comparison))


@dataclass(frozen=True)
class ManyPeriods:
    """The periods that are compared when none is named."""

    start_date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="The first day; default: all.")] = None
    end_date: Annotated[datetime | None, typer.Option(formats=arguments.DAY, help="The last day; default: all.")] = None
    by: Annotated[str, typer.Option(help="day, or a roll-up of the metric such as month.")] = "day"


@dataclass(frozen=True)
class ReportFiles:
    """The files that get the report."""

    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown.")] = None
    html: Annotated[Path | None, typer.Option(help="Write the report as an HTML page.")] = None


@app.command()
@arguments.with_groups
def diff(
    metric: arguments.Metric,
    period: Annotated[
        str | None, typer.Argument(metavar="[PERIOD]", help="One period, or a window of a day; default: many, see --by.")
    ] = None,
    from_version: Annotated[str, typer.Option("--from", help="first, final, a time, v1, ...")] = "first",
    to_version: Annotated[str, typer.Option("--to", help="The other version.")] = "latest",
    *,
    periods: ManyPeriods,
    report: ReportFiles,
    as_json: arguments.AsJson = False,
) -> None:
    """Report the differences between two versions, for many periods or a given one.

    For a day, or a window of it, also the numbers of the stream: --from live.
    """
    from lakehouse.calendar.periods import Kind  # noqa: PLC0415
    from lakehouse.gold.numbers import history as numbers_history  # noqa: PLC0415
    from lakehouse.reports import comparison_report  # noqa: PLC0415

    files = ((report.markdown, comparison_report.as_markdown), (report.html, comparison_report.as_html))
    if period is not None:
        if periods.start_date or periods.end_date:
            msg = f"{period} is the one period that is compared; leave --start-date and --end-date out, or the period"
            raise typer.BadParameter(msg)
        _compare(arguments.about_window(metric, period), (from_version, to_version), as_json=as_json, files=files)
        return
    lake, catalog, contract = arguments.metric_named(metric, reading=True)
    if periods.by not in [kind.value for kind in Kind]:
        msg = f"--by is one of {', '.join(kind.value for kind in Kind)}"
        raise typer.BadParameter(msg)
    series = arguments.series_of(lake, catalog, contract, Kind(periods.by))
    arguments.warn_if_deprecated(series.metric)
    wanted = [arguments.asked_for(text) for text in (from_version, to_version)]
    first, last = (None if day is None else day.date() for day in (periods.start_date, periods.end_date))
    history_ = numbers_history.history_between(lake, series, first, last)
    if history_ is None:
        errors.print(f"Nothing of {series.name} has been published.", style="yellow")
        raise typer.Exit(1)
    before, after = (numbers_history.versions(history_, one_side) for one_side in wanted)
    comparison = numbers_history.comparison(series, before, after, (from_version, to_version), lake.now(), known=history_)
    _report(comparison, files, as_json=as_json)


def _show_known(of: arguments.About, when: datetime, *, as_json: bool) -> None:
    """Print a day's number, computed from the arrivals in Bronze up to ``when``."""
    from lakehouse.gold.reproduction import reproduce  # noqa: PLC0415
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)

    _check_day(of, "--known-at")
    with errors.status("computing it from Bronze"):
        found = reproduce.known_at(of.lake, of.catalog, of.series.metric, [of.period.start], when, LakeSpark().session)
    _print_computed(of, found, {"known_at": when}, f"as known at {format_moment(when)}", as_json=as_json)


def _show_snapshot(of: arguments.About, name: str, *, as_json: bool) -> None:
    """Print a day's number, computed from the inputs of the named snapshot ``name``."""
    from lakehouse.dispositions.living_rows import Slice  # noqa: PLC0415
    from lakehouse.gold.reproduction import reproduce  # noqa: PLC0415
    from lakehouse.orchestration.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.snapshots import input_sets  # noqa: PLC0415

    _check_day(of, "--snapshot")
    metric = of.series.metric
    snapshot = input_sets.find_snapshot(of.lake, metric.source, name)
    ids = input_sets.ids_of(of.lake, metric.source, snapshot.inputs)
    with errors.status("computing it from Bronze"):
        session, at = LakeSpark().session, snapshot.until or snapshot.recorded_at
        wanted = Slice([of.period.start], ids, snapshot.until)
        found = reproduce.from_inputs(of.lake, of.catalog, metric, wanted, session, others_at=at)
    _print_computed(of, found, {"snapshot": name}, f"from the inputs of {name}", as_json=as_json)


def _check_day(of: arguments.About, option: str) -> None:
    if of.period.last != of.period.start:
        msg = f"{option} works for days only; add them up, or request a longer period as it was published (--version)"
        raise typer.BadParameter(msg)


def _print_computed(of: arguments.About, found: Mapping[date, Any], about: dict[str, Any], words: str, *, as_json: bool) -> None:
    from lakehouse.gold.numbers import window_history  # noqa: PLC0415 (Arrow loads in a second)

    period = of.period
    rows = found[period.start].to_pylist() if period.start in found else []
    rows = rows if of.window is None else window_history.rows_of(rows, of.window)
    if as_json:
        out.print(json.dumps({"period": period.name, **about, "rows": rows}, default=str), soft_wrap=True)
        return
    out.print(f"{of.series.name} {period.name}, {words}", style="bold", soft_wrap=True)
    for row in rows:
        out.print(f"  {row_text(row, of.series)}", soft_wrap=True)
    if not rows:
        out.print("  no row had arrived")


def _print_origin(version: PublishedVersion, commit: str | None) -> None:
    """:param commit: the Git commit of the contracts, if it is known."""
    row = version.row
    if row.get("inputs"):
        out.print(
            f"  from silver version {row['silver_version']}, arrivals through {row['known_through']}, inputs {row['inputs']}"
        )
    inputs = version.made_from
    if inputs.revisions or inputs.adjustments:
        named = ", ".join(f"{day} {label}" for day, label in inputs.revisions.items())
        booked = ", ".join(inputs.adjustments)
        out.print(f"  made from {named}{f'; booked in it: {booked}' if booked else ''}", soft_wrap=True)
    for name, of_metric in inputs.of_metrics.items():
        named = ", ".join(of_metric.revisions.values())
        booked = ", ".join(of_metric.adjustments)
        out.print(f"  made from {name} {named}{f'; booked in it: {booked}' if booked else ''}", soft_wrap=True)
    made_by = f"by run {row['run_id']}, code {row['code_version']}, contract {row['contract_version']}"
    out.print(f"  {made_by}{f', commit {commit}' if commit else ''}", soft_wrap=True)
    if row.get("undecided_rows"):
        out.print(f"  {_waited(version)}", style="yellow")
    if row.get("signed_off_by"):
        out.print(f"  signed off by {row['signed_off_by']}: {row['sign_off_reason']}", soft_wrap=True)


def _as_json(version: PublishedVersion) -> dict[str, Any]:
    return {name: value for name, value in version.row.items() if value is not None} | {"rows": version.rows}
