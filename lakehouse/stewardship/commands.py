"""``lakehouse quarantine`` and ``lakehouse source redact``: decide about rows that wait for a steward, and mask fields of a key.

A redaction masks the fields in silver and everything derived from it (right to erasure).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, confirmed, counted, errors, out
from lakehouse.cli.number_report import print_malformed
from lakehouse.ledger.ids import format_row_id, parse_row_id, row_id_of
from lakehouse.ledger.row_states import QuarantineReason, QuarantineStatus, StewardVerdict

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId
    from lakehouse.stewardship.quarantine import QuarantineFilter


app = typer.Typer(help="Rows that wait for a steward: list, show, accept, reject, mark as duplicate.", no_args_is_help=True)

_LISTED = [f"quarantine_{name}" for name in ("reason", "detail", "decided_by", "decision")]
_LISTED += ["record_key", "event_date"]

Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
Rows = Annotated[list[str] | None, typer.Argument(help="Rows, as 'list' shows them: <ingestion>:<line>.")]
Ids = Annotated[Path | None, typer.Option(help="File with a row id on each line; the rest of a line is ignored.")]
Cause = Annotated[str | None, typer.Option(help="Rows quarantined for this: beyond_cutoff, rule_failed, shrunken_partition.")]
ArrivalDate = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Rows that arrived on this day.")]
EventDate = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Rows of this event day.")]
Key = Annotated[str | None, typer.Option(help="Rows of this key.")]
Overdue = Annotated[bool, typer.Option(help="Rows past their review deadline.")]
All = Annotated[bool, typer.Option("--all", help="All rows that wait.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm that the table is replaced (overwrite_all).")]
Restate = Annotated[bool, typer.Option(help="Update silver and gold at once, or leave it to Dagster's daemon.")]


@dataclass(frozen=True)
class WaitingRows:
    """Which of the rows in quarantine are meant."""

    cause: Cause = None
    arrival_date: ArrivalDate = None
    event_date: EventDate = None
    key: Key = None
    overdue: Overdue = False


@dataclass(frozen=True)
class AfterDecision:
    """What follows a decision."""

    restate: Restate = True
    yes: Yes = False


@app.command("list")
@arguments.with_groups
def list_(
    source: Source,
    status: Annotated[str, typer.Option(help="open, accepted, rejected, duplicate, released, or any.")] = "open",
    *,
    rows: WaitingRows,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, for all rows.")] = False,
) -> None:
    """List the waiting rows, each with id, reason and review deadline."""
    from lakehouse.stewardship import quarantine  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = catalog_with(source, reading=True)
    statuses = [word.value for word in quarantine.StatusFilter]
    if status not in statuses:
        msg = f"--status is one of {', '.join(statuses)}"
        raise typer.BadParameter(msg)
    selected = quarantine.StatusFilter(status).status
    wanted = _wanted(rows, selected)
    entries = quarantine.entries(lake, catalog.sources[source], wanted, None if as_json else [*quarantine.KEY_COLUMNS, *_LISTED])
    if as_json:
        for entry in entries:
            out.print(json.dumps({"row": format_row_id(row_id_of(entry)), **entry}, default=str), soft_wrap=True)
        return
    for entry in entries[:limit]:
        _print_line(entry)
    left = len(entries) - limit
    out.print(f"{counted(len(entries))}{f', {left:,} of them not shown (--limit)' if left > 0 else ''}.")
    if not (rows.cause or rows.key or rows.overdue) and status in (QuarantineStatus.OPEN.value, "any"):
        days = {"arrival_days": rows.arrival_date, "event_days": rows.event_date}
        print_malformed(lake, source, **{name: [moment.date()] for name, moment in days.items() if moment})


@app.command()
def show(source: Source, row: Annotated[str, typer.Argument(help="A row, as 'list' shows it.")]) -> None:
    """Show a row with all its values."""
    from lakehouse.stewardship import quarantine  # noqa: PLC0415

    lake, catalog = catalog_with(source, reading=True)
    wanted = quarantine.QuarantineFilter(status=None, rows=_parsed([row], None))
    found = quarantine.entries(lake, catalog.sources[source], wanted)
    if not found:
        errors.print(f"{row} is not and was not in quarantine; see 'lakehouse quarantine list {source}'.", style="yellow")
        raise typer.Exit(1)
    for name, value in found[0].items():
        if value is not None:
            out.print(f"{name:>18}  {value}", soft_wrap=True)


@app.command("give-up")
def give_up(
    source: Source,
    file: Annotated[str, typer.Argument(help="A held file, as 'held: ...' names it: its path below the landing folder.")],
    by: arguments.DecidedBy,
    reason: arguments.Why,
) -> None:
    """Give up a held file that stays in landing: nothing of it is read, and no number waits for it."""
    from lakehouse.ledger import ingestions  # noqa: PLC0415 (Arrow loads in a second)

    lake, _ = catalog_with(source)
    entry = ingestions.give_up(lake, source, file, by, reason)
    out.print(f"{entry.source_file} of {entry.arrival_date} is {entry.message}", soft_wrap=True)


def _register(verdict: StewardVerdict, description: str) -> None:
    """Add the command of a verdict; all three have the same options."""

    @app.command(verdict.value, help=description)
    @arguments.with_groups
    def decide(
        source: Source,
        rows: Rows = None,
        *,
        signed: arguments.SignedDecision,
        ids: Ids = None,
        waiting: WaitingRows,
        all_: All = False,
        after: AfterDecision,
    ) -> None:
        lake, catalog = catalog_with(source)
        named, wanted = _named(rows, ids), _wanted(waiting)
        if (named is not None) + wanted.narrows + all_ > 1:
            raise typer.BadParameter("pass rows, or a filter, or --all: only one of the three")
        if named is None and not wanted.narrows and not all_:
            raise typer.BadParameter("pass rows, a file of --ids, a filter such as --event-date, or --all")
        _decide(lake.cached(), catalog, source, verdict, wanted if named is None else named, signed, after)


_register(StewardVerdict.ACCEPT, "Accept rows into silver, and restate exactly their days.")
_register(StewardVerdict.REJECT, "Keep rows out of silver; a row that was accepted before is removed.")
_register(StewardVerdict.DUPLICATE, "Keep rows out of silver because their event is there already.")


def _decide(
    lake: Lake,
    catalog: Catalog,
    source: str,
    verdict: StewardVerdict,
    chosen: list[RowId] | QuarantineFilter,
    signed: arguments.SignedDecision,
    after: AfterDecision,
) -> None:
    """Record a verdict on rows, named individually or by a filter."""
    from lakehouse.ledger import applied_inputs  # noqa: PLC0415
    from lakehouse.orchestration.commands import is_behind, say_waiting  # noqa: PLC0415
    from lakehouse.orchestration.commands import restate as restate_days  # noqa: PLC0415
    from lakehouse.stewardship import quarantine  # noqa: PLC0415

    contract = catalog.sources[source]
    rows = (
        chosen
        if isinstance(chosen, list)
        else [row_id_of(entry) for entry in quarantine.entries(lake, contract, chosen, quarantine.KEY_COLUMNS)]
    )
    confirmed(contract, yes=after.yes)
    if rows:
        taken = quarantine.decide(lake, contract, rows, verdict, by=signed.by, reason=signed.reason)
        again = f" {taken.repeated:,} had been decided so before." if taken.repeated else ""
        out.print(f"{counted(taken.rows)} {verdict.participle} by {signed.by}.{again}")
    else:
        out.print("No waiting row matches; nothing was decided.")
    # Includes decisions of an earlier command that was stopped before silver or gold was updated.
    if not after.restate:
        say_waiting(source, sorted(applied_inputs.pending_manual_inputs(lake, source)))
    elif is_behind(lake, catalog, source):
        restate_days(lake, catalog, source)


def _print_line(entry: dict[str, Any]) -> None:
    out.print(format_row_id(row_id_of(entry)), style="bold")
    what = f"{entry['record_key']} for {entry['event_date']}" if entry["event_date"] else f"{entry['record_key']}"
    out.print(f"  {what}, {entry['source_file']}:{entry['line_number']}, arrived {entry['arrival_date']}", soft_wrap=True)
    fate = f"review by {entry['quarantine_review_by']:%Y-%m-%d}"
    if entry["quarantine_status"] != QuarantineStatus.OPEN.value:
        fate = (
            f"{entry['quarantine_status']} by {entry['quarantine_decided_by']}: {entry['quarantine_decision']}"
            if entry["quarantine_decided_by"]
            else entry["quarantine_status"]
        )
    why = QuarantineReason(entry["quarantine_reason"]).words
    out.print(f"  {why}: {entry['quarantine_detail']}; {fate}", soft_wrap=True)


def _wanted(rows: WaitingRows, status: QuarantineStatus | None = QuarantineStatus.OPEN) -> QuarantineFilter:
    from lakehouse.stewardship.quarantine import QuarantineFilter  # noqa: PLC0415

    try:
        reason = None if rows.cause is None else QuarantineReason(rows.cause)
    except ValueError:
        msg = f"--cause is one of {', '.join(reason.option for reason in QuarantineReason)}"
        raise typer.BadParameter(msg) from None
    return QuarantineFilter(
        status,
        reason,
        rows.arrival_date.date() if rows.arrival_date else None,
        rows.event_date.date() if rows.event_date else None,
        rows.key,
        overdue=rows.overdue,
    )


def _named(rows: list[str] | None, ids: Path | None) -> list[RowId] | None:
    """The rows named individually; None if none was."""
    return _parsed(rows or [], ids) if rows or ids else None


def _parsed(rows: list[str], ids: Path | None) -> list[RowId]:
    texts = list(rows)
    try:
        if ids is not None:
            texts += [line.split()[0] for line in ids.read_text().splitlines() if line.strip()]
        return [parse_row_id(text) for text in texts]
    except (OSError, UnicodeDecodeError, ValueError) as problem:
        raise typer.BadParameter(f"{problem}") from None


def redact(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    key: Annotated[str, typer.Option(help="The record key, as the column record_key shows it.")],
    fields: Annotated[str, typer.Option(help="The fields to mask, separated by commas.")],
    by: Annotated[str, typer.Option(help="Who decides.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    restate: Annotated[bool, typer.Option(help="Update silver and gold at once, or leave it to the daemon.")] = True,  # noqa: FBT002
) -> None:
    """Mask fields of a key from now on, also in the audit and the quarantine. The files in Bronze are unchanged."""
    from lakehouse.ledger import applied_inputs  # noqa: PLC0415
    from lakehouse.orchestration.commands import is_behind, say_waiting  # noqa: PLC0415
    from lakehouse.orchestration.commands import restate as restate_days  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.stewardship.redact import redact_fields  # noqa: PLC0415

    lake, catalog = catalog_with(source)
    lake = lake.cached()
    names = [name.strip() for name in fields.split(",") if name.strip()]
    metrics = catalog.metrics_from(source)
    redact_fields(lake, catalog.sources[source], key, names, by=by, reason=reason, metrics=metrics)
    out.print(f"{', '.join(names)} of {key} are masked from now on.", soft_wrap=True)
    out.print(
        "Bronze keeps the file as it came, and older versions of the tables keep the value until VACUUM: see "
        "'The right to erasure' in docs/stewardship.md.",
        soft_wrap=True,
    )
    if not restate:
        say_waiting(source, sorted(applied_inputs.pending_manual_inputs(lake, source)))
    elif is_behind(lake, catalog, source):
        restate_days(lake, catalog, source)
