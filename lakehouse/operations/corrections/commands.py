"""``lakehouse correct`` and ``corrections``: enter a manual correction, and approve another person's correction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, end_of_update, errors, out

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.corrections.correction_record import Correction


app = typer.Typer(help="Manual corrections: list them, agree to one, or reject it.", no_args_is_help=True)

_Source = Annotated[str, typer.Argument(help="The dataset of a source contract.")]
_Id = Annotated[str, typer.Argument(metavar="CORRECTION", help="The correction's id, or the beginning of it.")]
_Restate = Annotated[bool, typer.Option("--restate", help="Ingest it and update the numbers now (starts Spark).")]


def correct(
    source: _Source,
    key: Annotated[str, typer.Argument(help="The record key, as the column record_key shows it.")],
    by: arguments.DecidedBy,
    reason: arguments.Why,
    values: Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="May be repeated.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="The record never happened.")] = False,  # noqa: FBT002
    new: Annotated[bool, typer.Option("--new", help="Enter a record that never arrived; set all of its fields.")] = False,  # noqa: FBT002
    restate: _Restate = False,  # noqa: FBT002
) -> None:
    """Enter a correction, a withdrawal or a late record manually, as an ordinary record with your name and reason."""
    from lakehouse.operations.corrections import correction_flow  # noqa: PLC0415 (Arrow loads in a second)
    from lakehouse.operations.corrections.correction_record import Operation  # noqa: PLC0415

    if withdraw and (new or values):
        msg = "--withdraw takes no --set and no --new"
        raise typer.BadParameter(msg)
    lake, catalog = catalog_with(source)
    operation = Operation.WITHDRAW if withdraw else Operation.ENTER if new else Operation.CORRECT
    done = correction_flow.propose(lake, catalog, source, key, operation, dict(map(_pair, values or [])), by, reason)
    _print_state(lake, catalog, done, restate=restate)


@app.command("list")
def list_(
    source: _Source,
    every: Annotated[bool, typer.Option("--all", help="Also those that are entered or rejected.")] = False,  # noqa: FBT002
    as_json: arguments.AsJson = False,  # noqa: FBT002
) -> None:
    """List the corrections that wait for approval."""
    from lakehouse.operations.corrections import correction_record  # noqa: PLC0415

    lake, _ = catalog_with(source)
    known = [one for one in correction_record.of_source(lake, source) if every or one.end is None]
    for correction in known:
        if as_json:
            out.print(json.dumps([vars(event) for event in correction.events], default=str), soft_wrap=True)
        else:
            _print(correction)
    if not known and not as_json:
        out.print("No correction waits.")


@app.command()
def approve(source: _Source, correction: _Id, by: arguments.DecidedBy, reason: arguments.Why, restate: _Restate = False) -> None:  # noqa: FBT002
    """Approve another person's correction; it is entered as soon as it has enough approvals."""
    from lakehouse.operations.corrections import correction_flow  # noqa: PLC0415

    lake, catalog = catalog_with(source)
    done = correction_flow.approve(lake, catalog, source, correction, by, reason)
    _print_state(lake, catalog, done, restate=restate)


@app.command()
def reject(source: _Source, correction: _Id, by: arguments.DecidedBy, reason: arguments.Why) -> None:
    """Reject a correction: nothing is entered."""
    from lakehouse.operations.corrections import correction_flow  # noqa: PLC0415

    lake, _ = catalog_with(source)
    done = correction_flow.reject(lake, source, correction, by, reason)
    out.print(f"{done.correction_id} is rejected by {by}.", soft_wrap=True, highlight=False)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        msg = f"{text!r} sets nothing; write a field and its value, as in --set amount=11200"
        raise typer.BadParameter(msg)
    return name.strip(), value


def _print(correction: Correction) -> None:
    proposal = correction.proposal
    values = ", ".join(f"{name} {proposal.before.get(name)} -> {value}" for name, value in proposal.values.items())
    title = f"{correction.correction_id}  {proposal.operation.value} {proposal.record_key}"
    out.print(f"{title}: {values}" if values else title, style="bold", soft_wrap=True, highlight=False)
    for event in correction.events:
        out.print(f"    {event.recorded_at:%Y-%m-%d %H:%M}  {event.kind.value} by {event.by}: {event.reason}", soft_wrap=True)
    if correction.end is None:
        missing = proposal.needed - len(set(correction.agreed))
        waits = f"waits for {missing:,} more {'person' if missing == 1 else 'people'}"
        out.print(f"    {waits if missing > 0 else 'approved: approve it again to enter it'}", style="yellow")


def _print_state(lake: Lake, catalog: Catalog, correction: Correction, *, restate: bool) -> None:
    """Print the state of a correction, and ingest it if requested."""
    proposal = correction.proposal
    if correction.end is None:
        _print(correction)
        command = f"lakehouse corrections approve {proposal.source} {correction.correction_id}"
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
