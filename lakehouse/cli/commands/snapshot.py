"""``lakehouse snapshot``: name a set of inputs of a source, so its rows can be read at any later time."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, counted, errors, out

if TYPE_CHECKING:
    from lakehouse.snapshots.named import NamedSnapshot

app = typer.Typer(help="Named sets of inputs: create, list, show, compare, drop.", no_args_is_help=True)

_Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
_Name = Annotated[str, typer.Argument(help="The snapshot, such as feed_v1.3_2024-11-10.")]
_By = Annotated[str, typer.Option("--by", help="Who does it.")]
_Reason = Annotated[str, typer.Option(help="Why.")]


@app.command()
def create(
    source: _Source,
    name: _Name,
    by: _By,
    reason: _Reason,
    through: Annotated[
        datetime | None, typer.Option(formats=arguments.DAY, help="Only files of arrival days through this one.")
    ] = None,
    known_at: Annotated[
        datetime | None,
        typer.Option(parser=arguments.moment, metavar="TIME", help="Only what was known by then (UTC); a day means its end."),
    ] = None,
    files: Annotated[list[str] | None, typer.Option("--file", help="Only this file, by its name; may be repeated.")] = None,
) -> None:
    """Name the present inputs of a source, or a part of them. Later files and decisions never belong to the name."""
    if sum(option is not None for option in (through, known_at, files or None)) > 1:
        msg = "--through, --known-at and --file each select the inputs: use one of them"
        raise typer.BadParameter(msg)
    from lakehouse.snapshots import known_inputs, named  # noqa: PLC0415 (Arrow loads in a second)

    settings, catalog = catalog_with(source)
    if through is not None:
        ids, described = named.through(settings, source, through.date()), f"arrival days through {through:%Y-%m-%d}"
    elif known_at is not None:
        ids, described = known_inputs.known_at(settings, source, known_at), f"known at {known_at:%Y-%m-%d %H:%M}"
    elif files:
        ids, described = named.of_files(settings, source, files), f"{len(files):,} named files"
    else:
        ids, described = named.everything(settings, source), "all inputs"
    made = named.create(settings, catalog.sources[source], name, ids, described, by=by, reason=reason, until=known_at)
    out.print(_line(made), soft_wrap=True, highlight=False)


@app.command("list")
def list_(source: _Source, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """List the snapshots of a source, oldest first."""
    from lakehouse.snapshots import named  # noqa: PLC0415

    settings, _ = catalog_with(source)
    known = named.all_of(settings, source)
    for snapshot in known:
        out.print(_as_json(snapshot) if as_json else _line(snapshot), soft_wrap=True, highlight=False)
    if not known and not as_json:
        out.print(f"{source} has no snapshot.")


@app.command()
def show(source: _Source, name: _Name, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show the content of a snapshot: files, rows of Bronze, decisions and requests."""
    from lakehouse.delta import provenance  # noqa: PLC0415
    from lakehouse.ledger import ingestions  # noqa: PLC0415
    from lakehouse.snapshots import input_sets, named  # noqa: PLC0415

    settings, catalog = catalog_with(source)
    snapshot = named.find(settings, source, name)
    ids = input_sets.ids_of(settings, source, snapshot.inputs)
    delivered = {one: entry for one, entry in ingestions.inputs(ingestions.all_of(settings, source)).items() if one in ids}
    days = sorted(entry.arrival_date for entry in delivered.values())
    files, rows = len(delivered), sum(entry.rows for entry in delivered.values() if entry.status == "ingested")
    if as_json:
        content = {"files": files, "rows": rows, "first_arrival": days[0], "last_arrival": days[-1], "others": len(ids) - files}
        out.print(json.dumps({**json.loads(_as_json(snapshot)), **content}, default=str), soft_wrap=True)
        return
    out.print(_line(snapshot), soft_wrap=True, highlight=False)
    out.print(f"    {files:,} files of arrival days {days[0]} to {days[-1]}, {counted(rows)} of Bronze", highlight=False)
    if snapshot.until is not None:
        out.print(f"    of these, what had arrived by {snapshot.until:%Y-%m-%d %H:%M} UTC", highlight=False)
    out.print(f"    {len(ids) - files:,} decisions and rebuild requests", highlight=False)
    if provenance.of_contract(catalog.sources[source]) != snapshot.contract_version:
        out.print("    the contract has changed since: rows are computed under today's", style="yellow")


@app.command()
def compare(
    source: _Source,
    before: Annotated[str, typer.Argument(metavar="A", help="A snapshot.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """Compare the rows of two snapshots: rows, keys, and the total of each field; starts Spark."""
    from lakehouse.cli.snapshot_report import as_json_text, print_comparison  # noqa: PLC0415
    from lakehouse.orchestration.common.resources import LakeSpark  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.snapshots import named  # noqa: PLC0415
    from lakehouse.snapshots import rows as snapshot_rows  # noqa: PLC0415

    settings, catalog = catalog_with(source)
    sides = [named.find(settings, source, name) for name in (before, after)]
    with errors.status("computing the rows of both from Bronze"):
        compared = snapshot_rows.compare_snapshots(LakeSpark().session(), settings, catalog.sources[source], *sides)
    if as_json:
        out.print(as_json_text(compared), soft_wrap=True)
    else:
        print_comparison(compared, before, after)


@app.command()
def drop(source: _Source, name: _Name, by: _By, reason: _Reason) -> None:
    """Retire a snapshot name. It can never be used again; no row of any table changes."""
    from lakehouse.snapshots import named  # noqa: PLC0415

    settings, _ = catalog_with(source)
    named.drop(settings, source, name, by=by, reason=reason)
    out.print(f"{name} of {source} is dropped.", soft_wrap=True, highlight=False)


def _line(snapshot: NamedSnapshot) -> str:
    about = f"{snapshot.described}, by {snapshot.by} on {snapshot.recorded_at:%Y-%m-%d}: {snapshot.reason}"
    return f"{snapshot.name}  {about}"


def _as_json(snapshot: NamedSnapshot) -> str:
    return json.dumps({**vars(snapshot), "event": snapshot.event.value}, default=str, ensure_ascii=False)
