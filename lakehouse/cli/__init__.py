"""The command line: the commands, grouped by task, and the start and end of the program.

Each command is a module of ``commands``, which parses, calls and prints. Slow imports are inside the functions that need them, so
that ``lakehouse --help`` responds at once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Annotated

import typer

from lakehouse.cli.commands import account as commands_account
from lakehouse.cli.commands import (
    alerts,
    audit,
    backfill,
    contract,
    correct,
    dataset,
    demo,
    entry,
    gold,
    held,
    impact,
    late,
    lateness,
    live,
    maintain,
    model,
    model_backtest,
    model_canary,
    notices,
    promote,
    quarantine,
    redact,
    replay,
    reproduce,
    revert,
    serve,
    simulate,
    snapshot,
    spark,
    stage,
    stream,
    token,
    trace,
    tuning,
    views,
)
from lakehouse.cli.commands import promotions as commands_promotions
from lakehouse.cli.commands import rebuild as commands_rebuild
from lakehouse.cli.commands import reconcile as commands_reconcile
from lakehouse.cli.commands import repair as commands_repair
from lakehouse.cli.commands import reparse as commands_reparse
from lakehouse.cli.commands import rows as commands_rows
from lakehouse.cli.console import damage, errors, unexpected
from lakehouse.cli.near_options import HintingGroup
from lakehouse.errors import LakehouseError

START, INGEST, ROWS, NUMBERS, MODELS, OPERATE = (
    "Get started",
    "Ingest and rebuild",
    "Rows: dispositions and decisions",
    "Published numbers",
    "Training sets and models",
    "Operate",
)

app = typer.Typer(
    cls=HintingGroup,
    help="A medallion lakehouse for data that arrives late, corrected or re-sent.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo", rich_help_panel=START)(demo.demo)
app.command("init", rich_help_panel=START)(entry.init)
app.command("infer", rich_help_panel=START)(entry.infer)
app.command("run", rich_help_panel=START)(entry.run)
app.command("simulate", rich_help_panel=START)(simulate.simulate)
app.add_typer(contract.app, name="contract", rich_help_panel=START)
app.command("replay", rich_help_panel=INGEST)(replay.replay)
app.command("rebuild", rich_help_panel=INGEST)(commands_rebuild.rebuild)
app.command("reparse", rich_help_panel=INGEST)(commands_reparse.reparse)
app.add_typer(stream.app, name="stream", rich_help_panel=INGEST)
app.add_typer(backfill.app, name="backfill", rich_help_panel=INGEST)
app.command("account", rich_help_panel=ROWS)(commands_account.account)
app.command("rows", rich_help_panel=ROWS)(commands_rows.rows)
app.add_typer(snapshot.app, name="snapshot", rich_help_panel=ROWS)
app.add_typer(stage.app, name="stage", rich_help_panel=INGEST)
app.command("trace", rich_help_panel=ROWS)(trace.trace)
app.command("audit", rich_help_panel=ROWS)(audit.audit)
app.command("correct", rich_help_panel=ROWS)(correct.correct)
app.add_typer(correct.app, name="corrections", rich_help_panel=ROWS)
app.add_typer(quarantine.app, name="quarantine", rich_help_panel=ROWS)
lateness.app.command("tuning")(tuning.tuning)
lateness.app.command("tune")(tuning.tune)
lateness.app.command("pin")(tuning.pin)
lateness.app.command("unpin")(tuning.unpin)
lateness.app.command("undo")(tuning.undo)
lateness.app.command("rows")(late.late)
lateness.app.command("admit")(late.admit)
lateness.app.command("withdraw")(late.withdraw)
app.add_typer(late.app, name="late", hidden=True)
app.add_typer(lateness.app, name="lateness", rich_help_panel=ROWS)
app.command("redact", rich_help_panel=ROWS)(redact.redact)
app.command("impact", rich_help_panel=ROWS)(impact.impact)
app.command("view", hidden=True)(views.view)
gold.app.command("held")(held.held)
gold.app.command("publish")(held.publish)
gold.app.command("drop")(held.drop)
gold.app.command("close")(held.close)
gold.app.command("revert")(revert.revert)
gold.app.command("release")(revert.release)
app.add_typer(gold.app, name="gold", rich_help_panel=NUMBERS)
app.add_typer(live.app, name="live", rich_help_panel=NUMBERS)
app.command("reconcile", rich_help_panel=NUMBERS)(commands_reconcile.reconcile)
app.command("reproduce", rich_help_panel=NUMBERS)(reproduce.reproduce)
app.command("promote", rich_help_panel=NUMBERS)(promote.promote)
app.command("rollback", rich_help_panel=NUMBERS)(promote.rollback)
app.command("promotions", rich_help_panel=NUMBERS)(commands_promotions.promotions)
app.command("moves", hidden=True)(commands_promotions.moves)
app.command("views", rich_help_panel=NUMBERS)(views.views)
app.add_typer(dataset.app, name="dataset", rich_help_panel=MODELS)
model.app.command("backtest")(model_backtest.backtest)
model.app.command("score")(model_canary.score)
model.app.add_typer(model_canary.app, name="canary")
app.add_typer(model.app, name="model", rich_help_panel=MODELS)
app.command("serve", rich_help_panel=OPERATE)(serve.serve)
app.add_typer(alerts.app, name="alerts", rich_help_panel=OPERATE)
app.command("notices", rich_help_panel=OPERATE)(notices.notices)
app.command("maintain", rich_help_panel=OPERATE)(maintain.maintain)
app.command("repair", rich_help_panel=OPERATE)(commands_repair.repair)
app.add_typer(spark.app, name="spark", rich_help_panel=OPERATE)
app.add_typer(token.app, name="token", rich_help_panel=OPERATE)


def _print_version(value: bool) -> None:  # noqa: FBT001 (as typer calls it)
    if value:
        from importlib.metadata import version  # noqa: PLC0415 (not loaded by other commands)

        typer.echo(f"lakehouse {version('lakehouse')}")
        raise typer.Exit


#: Accepted at any position among the arguments.
_DEBUG = "--debug"
_Debug = Annotated[bool, typer.Option(_DEBUG, help="Show the stack trace of a problem.")]
_Version = Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)]


@app.callback()
def options(version: _Version = False, debug: _Debug = False) -> None:  # noqa: FBT002 (its callback prints; ``main`` takes it)
    """A medallion lakehouse for data that arrives late, corrected or re-sent."""


def _end_with_the_terminal() -> None:
    """Let a closed terminal end a command like SIGTERM, so that a run in it is recorded as ended; under nohup it continues."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


def main() -> None:
    """Run the command line; problems are reported as a sentence, with exit code 1.

    ``--debug`` shows the stack trace of a problem, and the JVM's output when Spark starts.
    """
    _end_with_the_terminal()
    debug = _DEBUG in sys.argv
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument != _DEBUG]
    if debug:
        logging.getLogger("lakehouse.spark").setLevel(logging.DEBUG)
    try:
        app()
    except BrokenPipeError:  # the reader of the output has closed it
        sys.stderr.close()
        sys.exit(1)
    except Exception as problem:
        if debug:
            raise
        is_expected = isinstance(problem, LakehouseError)
        text = f"{problem}" if is_expected else unexpected(problem)
        for line in (*damage(), text):
            errors.print(line, style="red", highlight=False, soft_wrap=True)
        sys.exit(1)
