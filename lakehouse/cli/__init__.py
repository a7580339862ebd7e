"""The command line: one module a command group; each only parses, calls, and prints."""

from __future__ import annotations

import sys

import typer

from lakehouse.cli.commands import account as commands_account
from lakehouse.cli.commands import (
    alerts,
    audit,
    backfill,
    contract,
    demo,
    gold,
    held,
    impact,
    lateness,
    maintain,
    notices,
    promote,
    quarantine,
    redact,
    replay,
    reproduce,
    serve,
    simulate,
    spark,
    token,
    trace,
    view,
)
from lakehouse.cli.commands import rebuild as commands_rebuild
from lakehouse.cli.console import errors
from lakehouse.contracts import ContractError
from lakehouse.errors import LakehouseError

app = typer.Typer(
    help="A lakehouse that keeps history honest.", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
app.add_typer(contract.app, name="contract")
app.add_typer(spark.app, name="spark")
app.command("replay")(replay.replay)
app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)
app.command("account")(commands_account.account)
app.command("trace")(trace.trace)
app.command("audit")(audit.audit)
app.command("impact")(impact.impact)
app.command("alerts")(alerts.alerts)
app.command("notices")(notices.notices)
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(backfill.app, name="backfill")
gold.app.command("held")(held.held)
gold.app.command("publish")(held.publish)
gold.app.command("drop")(held.drop)
app.add_typer(gold.app, name="gold")
app.add_typer(lateness.app, name="lateness")
app.command("redact")(redact.redact)
app.command("rebuild")(commands_rebuild.rebuild)
app.command("reproduce")(reproduce.reproduce)
app.command("promote")(promote.promote)
app.command("rollback")(promote.rollback)
app.command("moves")(promote.moves)
app.command("maintain")(maintain.maintain)
app.command("view")(view.view)
app.command("serve")(serve.serve)
app.add_typer(token.app, name="token")


def main() -> None:
    """Run the command line; expected problems are reported in a sentence, with exit code 1."""
    try:
        app()
    except ContractError as problem:
        for mistake in problem.mistakes:
            errors.print(mistake, style="red", highlight=False, soft_wrap=True)
        sys.exit(1)
    except LakehouseError as problem:
        errors.print(f"{problem}", style="red", highlight=False, soft_wrap=True)
        sys.exit(1)
