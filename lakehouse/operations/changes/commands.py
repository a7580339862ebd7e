"""``lakehouse correct`` and ``change``: enter a manual correction; list what people have changed, approve it, take it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, deployment, end_of_update, errors, out
from lakehouse.operations.changes.change import INSTEAD, ChangeKind, ChangeState, require_undoable
from lakehouse.text import format_moment

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.changes.change import ChangeEntry
    from lakehouse.operations.changes.correction_record import Correction


app = typer.Typer(help="What people have changed, of all kinds: list, show, approve, reject, undo.", no_args_is_help=True)
#: Deprecated: the earlier names of the commands about corrections.
corrections = typer.Typer(help="Deprecated: see 'lakehouse change'.", no_args_is_help=True)

_Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
_Id = Annotated[str, typer.Argument(metavar="CORRECTION", help="The correction's id, or the beginning of it.")]
_Restate = Annotated[bool, typer.Option("--restate", help="Ingest it and update the numbers now (may start Spark).")]


@arguments.with_groups
def correct(
    source: _Source,
    key: Annotated[str, typer.Argument(help="The record key, as the column record_key shows it.")],
    signed: arguments.SignedDecision,
    values: Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="May be repeated.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="The record never happened.")] = False,  # noqa: FBT002
    new: Annotated[bool, typer.Option("--new", help="Enter a record that never arrived; set all of its fields.")] = False,  # noqa: FBT002
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Enter a correction, a withdrawal or a late record manually, as an ordinary record with your name and reason."""
    from lakehouse.operations.changes import correction_flow  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.operations.changes.correction_record import Operation  # noqa: PLC0415

    if withdraw and (new or values):
        msg = "--withdraw takes no --set and no --new"
        raise typer.BadParameter(msg)
    lake, catalog = catalog_with(source)
    operation = Operation.WITHDRAW if withdraw else Operation.ENTER if new else Operation.CORRECT
    change = correction_flow.RecordChange(key, operation, dict(map(_pair, values or [])))
    done = correction_flow.propose(lake, catalog, source, change, signed.by, signed.reason)
    _print_state(lake, catalog, done, restate=restate)


@corrections.command("list")
def list_corrections(
    source: _Source,
    every: Annotated[bool, typer.Option("--all", help="Also those that are entered or rejected.")] = False,  # noqa: FBT002
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the corrections that wait for approval."""
    from lakehouse.operations.changes import correction_record  # noqa: PLC0415

    lake, _ = catalog_with(source, reading=True)
    known = [one for one in correction_record.of_source(lake, source) if every or one.end is None]
    for correction in known:
        if as_json:
            out.print(json.dumps([vars(event) for event in correction.shown], default=str), soft_wrap=True)
        else:
            _print(correction)
    if not known and not as_json:
        out.print("No correction waits.")


@corrections.command("approve")
def approve_correction(
    source: _Source,
    correction: _Id,
    by: arguments.DecidedBy,
    reason: arguments.Why,
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Approve another person's correction; it is entered as soon as it has enough approvals."""
    from lakehouse.operations.changes import correction_flow  # noqa: PLC0415

    lake, catalog = catalog_with(source)
    done = correction_flow.approve(lake, catalog, source, correction, by, reason)
    _print_state(lake, catalog, done, restate=restate)


@corrections.command("reject")
def reject_correction(source: _Source, correction: _Id, by: arguments.DecidedBy, reason: arguments.Why) -> None:
    """Reject a correction: nothing is entered."""
    from lakehouse.operations.changes import correction_flow  # noqa: PLC0415

    lake, _ = catalog_with(source)
    done = correction_flow.reject(lake, source, correction, by, reason)
    out.print(f"{done.correction_id} is rejected by {by}.", soft_wrap=True, highlight=False)


_ChangeId = Annotated[str, typer.Argument(metavar="CHANGE", help="The id of a change, or the beginning of it.")]


@app.command("list")
def list_(
    target: Annotated[str | None, typer.Argument(help="Only of this source, metric or model.")] = None,
    kind: Annotated[list[ChangeKind] | None, typer.Option("--kind", help="Only of this kind; may be repeated.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Only of this person.")] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Only those that wait for a person.")] = False,  # noqa: FBT002
    limit: Annotated[int, typer.Option(min=1, help="The most changes to print.")] = 20,
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List what people have decided, corrected, redacted, rebuilt, staged, reverted and promoted; the newest first."""
    from lakehouse.operations.changes import change_list  # noqa: PLC0415 (Arrow loads in a second)

    known = change_list.changes(*deployment(reading=True), kind or ())
    if target is not None:
        known = [change for change in known if change.target == target]
    if by is not None:
        known = [change for change in known if change.by == by]
    if pending:
        known = [change for change in known if change.state is ChangeState.PENDING]
    if as_json:
        out.print(json.dumps([change.as_json() for change in known[:limit]], ensure_ascii=False, indent=2), soft_wrap=True)
        return
    for change in known[:limit]:
        _print_line(change)
    if len(known) > limit:
        out.print(f"{len(known) - limit:,} earlier changes: --limit {len(known)}", style="dim")
    if not known:
        out.print("No change of this kind." if target or kind or by or pending else "Nobody has changed anything yet.")


@app.command()
def show(change: _ChangeId, as_json: arguments.AsJson = False) -> None:  # noqa: FBT002
    """Show a change: who made it, when and why, whether it counts, and how to take it back."""
    from lakehouse.operations.changes import change_list, correction_record  # noqa: PLC0415

    lake, catalog = deployment(reading=True)
    wanted = change_list.find(lake, catalog, change)
    if as_json:
        out.print(json.dumps(wanted.as_json(), ensure_ascii=False, indent=2), soft_wrap=True)
        return
    _print_line(wanted)
    if wanted.kind is ChangeKind.CORRECTION:
        _print(correction_record.find(lake, wanted.target, wanted.change_id))
    if wanted.undo is not None:
        out.print(f"    Take it back: lakehouse change undo {wanted.change_id} --by YOU --reason WHY", soft_wrap=True)
    elif wanted.state is ChangeState.APPLIED:
        out.print(f"    {INSTEAD[wanted.kind]}", soft_wrap=True)


@app.command()
def approve(change: _ChangeId, by: arguments.DecidedBy, reason: arguments.Why, restate: _Restate = False) -> None:  # noqa: FBT002
    """Approve another person's correction; it is entered as soon as it has enough approvals."""
    wanted = _correction(change, "approve")
    approve_correction(wanted.target, wanted.change_id, by, reason, restate)


@app.command()
def reject(change: _ChangeId, by: arguments.DecidedBy, reason: arguments.Why) -> None:
    """Reject a correction that waits: nothing is entered."""
    wanted = _correction(change, "reject")
    reject_correction(wanted.target, wanted.change_id, by, reason)


@app.command()
def undo(change: _ChangeId, by: arguments.DecidedBy, reason: arguments.WhyForReaders, restate: _Restate = False) -> None:  # noqa: FBT002
    """Take a stage, a backfill, a revert, a promotion or a watermark back; earlier numbers become new revisions."""
    from lakehouse.gold.promotion import commands as promotions  # noqa: PLC0415
    from lakehouse.gold.restatement import commands as restatements  # noqa: PLC0415
    from lakehouse.lateness import tuning_commands  # noqa: PLC0415
    from lakehouse.models import commands as models  # noqa: PLC0415
    from lakehouse.operations.backfills import commands as backfills  # noqa: PLC0415
    from lakehouse.operations.changes import change_list  # noqa: PLC0415
    from lakehouse.stages import commands as stages  # noqa: PLC0415

    wanted = change_list.find(*deployment(), change)
    require_undoable(wanted)
    if wanted.kind is ChangeKind.STAGE:
        stages.undo(wanted.change_id, by, reason, restate)
    elif wanted.kind is ChangeKind.BACKFILL:
        backfills.undo(wanted.change_id, by, reason, restate)
    elif wanted.kind is ChangeKind.REVERT:
        for period in wanted.periods:
            restatements.release(wanted.target, f"{period}", by, reason, restate)
    elif wanted.kind is ChangeKind.PROMOTION:
        promotions.rollback(wanted.target, reason, by, None, restate)
    elif wanted.kind is ChangeKind.MODEL:
        models.rollback(wanted.target, reason, by, None)
    else:
        tuning_commands.undo(wanted.target, by=by, reason=reason)


def _correction(change: str, verb: str) -> ChangeEntry:
    """The correction with an id.

    :raises typer.Exit: for a change of another kind, which names the command that decides about it.
    """
    from lakehouse.operations.changes import change_list  # noqa: PLC0415

    wanted = change_list.find(*deployment(), change)
    if wanted.kind is ChangeKind.CORRECTION:
        return wanted
    decides = {ChangeKind.STAGE: "lakehouse stage promote", ChangeKind.BACKFILL: "lakehouse backfill run"}.get(wanted.kind)
    text = f"{wanted.change_id} is a {wanted.kind.value.replace('_', ' ')}: there is nothing to {verb}"
    errors.print(f"{text}{f'; see {decides!r}' if decides else ''}.", style="red", soft_wrap=True, highlight=False)
    raise typer.Exit(1)


def _print_line(change: ChangeEntry) -> None:
    kind = "" if change.change_id.startswith(f"{change.kind.value}:") else f"{change.kind.value.replace('_', ' ')} "
    title = f"{format_moment(change.recorded_at)}  {kind}{change.change_id} of {change.target}: {change.described}"
    state = "" if change.state.value == "applied" else f"  [{change.state.value}]"
    out.print(f"{title}{state}", style="bold", soft_wrap=True, highlight=False, markup=False)
    out.print(f"    {change.by}: {change.reason}", soft_wrap=True, highlight=False, markup=False)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        msg = f"{text!r} sets nothing; write a field and its value, as in --set amount=11200"
        raise typer.BadParameter(msg)
    return name.strip(), value


def _print(correction: Correction) -> None:
    out.print(f"{correction.correction_id}  {correction.described}", style="bold", soft_wrap=True, highlight=False)
    for event in correction.events:
        out.print(f"    {event.recorded_at:%Y-%m-%d %H:%M}  {event.kind.value} by {event.by}: {event.reason}", soft_wrap=True)
    if correction.end is None:
        missing = correction.proposal.needed - len(set(correction.agreed))
        waits = f"waits for {missing:,} more {'person' if missing == 1 else 'people'}"
        out.print(f"    {waits if missing > 0 else 'approved: approve it again to enter it'}", style="yellow")


def _print_state(lake: Lake, catalog: Catalog, correction: Correction, *, restate: bool) -> None:
    """Print the state of a correction, and ingest it if requested."""
    proposal = correction.proposal
    if correction.end is None:
        _print(correction)
        command = f"lakehouse change approve {correction.correction_id}"
        out.print(f"A final number would change; somebody else agrees with '{command}'.", soft_wrap=True)
        return
    out.print(f"{correction.correction_id} is entered as {correction.end.file}.", soft_wrap=True, highlight=False)
    if not restate:
        out.print("The sensor ingests it with the daemon running, or --restate.")
        return
    from lakehouse.cli.number_report import print_run  # noqa: PLC0415
    from lakehouse.orchestration.execution import single_run  # noqa: PLC0415 (Dagster and Spark load in seconds)
    from lakehouse.orchestration.execution.in_process import InProcess, local_instance  # noqa: PLC0415

    day = correction.events[-2].recorded_at.date()
    with errors.status("ingesting, and publishing numbers"), local_instance() as instance:
        layers = InProcess(lake, catalog, instance)
        done = single_run.ingest(lake, catalog, proposal.source, day, [], layers)
        print_run(done, proposal.source)
    end_of_update(done.failed_checks, done.held, done.left, done.left_out)
