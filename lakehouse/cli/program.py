"""The commands of the command line, grouped by task, and the start and end of the program.

Slow imports are inside the functions that need them, so that ``lakehouse --help`` responds at once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Annotated

import typer

from lakehouse.cli.console import damage, errors, unexpected
from lakehouse.cli.near_options import HintingGroup
from lakehouse.errors import LakehouseError
from lakehouse.examples import demo_commands, simulation_commands
from lakehouse.gold.numbers import commands as gold
from lakehouse.gold.promotion import commands as promote
from lakehouse.gold.promotion import log_commands as commands_promotions
from lakehouse.gold.reproduction import commands as reproduce
from lakehouse.gold.restatement import commands as held
from lakehouse.impact import commands as commands_account
from lakehouse.impact import commands as impact
from lakehouse.late_events import commands as late
from lakehouse.lateness import commands as lateness
from lakehouse.lateness import tuning_commands
from lakehouse.live import commands as commands_reconcile
from lakehouse.live import commands as live
from lakehouse.models import commands as model
from lakehouse.models import trial_commands
from lakehouse.operations.alerts import commands
from lakehouse.operations.backfills import commands as backfill
from lakehouse.operations.corrections import commands as correct
from lakehouse.operations.maintenance import commands as commands_repair
from lakehouse.operations.maintenance import commands as maintain
from lakehouse.operations.notices import commands as notices
from lakehouse.orchestration import commands as replay
from lakehouse.project import commands as contract
from lakehouse.reparse import commands as commands_reparse
from lakehouse.serving import commands as serve
from lakehouse.serving import token_commands
from lakehouse.silver import commands as audit
from lakehouse.silver import commands as commands_rebuild
from lakehouse.snapshots import commands as commands_rows
from lakehouse.snapshots import commands as snapshot
from lakehouse.spark import commands as spark
from lakehouse.stages import commands as stage
from lakehouse.stewardship import commands as quarantine
from lakehouse.streams import commands as stream
from lakehouse.training_sets import commands as dataset

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
app.command("demo", rich_help_panel=START)(demo_commands.demo)
app.command("init", rich_help_panel=START)(contract.init)
app.command("infer", rich_help_panel=START)(contract.infer)
app.command("run", rich_help_panel=START)(contract.run)
app.command("simulate", rich_help_panel=START)(simulation_commands.simulate)
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
app.command("trace", rich_help_panel=ROWS)(impact.trace)
app.command("audit", rich_help_panel=ROWS)(audit.audit)
app.command("correct", rich_help_panel=ROWS)(correct.correct)
app.add_typer(correct.app, name="corrections", rich_help_panel=ROWS)
app.add_typer(quarantine.app, name="quarantine", rich_help_panel=ROWS)
lateness.app.command("tuning")(tuning_commands.tuning)
lateness.app.command("tune")(tuning_commands.tune)
lateness.app.command("pin")(tuning_commands.pin)
lateness.app.command("unpin")(tuning_commands.unpin)
lateness.app.command("undo")(tuning_commands.undo)
lateness.app.command("rows")(late.late)
lateness.app.command("admit")(late.admit)
lateness.app.command("withdraw")(late.withdraw)
app.add_typer(late.app, name="late", hidden=True)
app.add_typer(lateness.app, name="lateness", rich_help_panel=ROWS)
app.command("redact", rich_help_panel=ROWS)(quarantine.redact)
app.command("impact", rich_help_panel=ROWS)(impact.impact)
app.command("view", hidden=True)(serve.view)
gold.app.command("held")(held.held)
gold.app.command("publish")(held.publish)
gold.app.command("drop")(held.drop)
gold.app.command("close")(held.close)
gold.app.command("revert")(held.revert)
gold.app.command("release")(held.release)
app.add_typer(gold.app, name="gold", rich_help_panel=NUMBERS)
app.add_typer(live.app, name="live", rich_help_panel=NUMBERS)
app.command("reconcile", rich_help_panel=NUMBERS)(commands_reconcile.reconcile)
app.command("reproduce", rich_help_panel=NUMBERS)(reproduce.reproduce)
app.command("promote", rich_help_panel=NUMBERS)(promote.promote)
app.command("rollback", rich_help_panel=NUMBERS)(promote.rollback)
app.command("promotions", rich_help_panel=NUMBERS)(commands_promotions.promotions)
app.command("moves", hidden=True)(commands_promotions.moves)
app.command("views", rich_help_panel=NUMBERS)(serve.views)
app.add_typer(dataset.app, name="dataset", rich_help_panel=MODELS)
model.app.command("backtest")(trial_commands.backtest)
model.app.command("score")(trial_commands.score)
model.app.add_typer(trial_commands.app, name="canary")
app.add_typer(model.app, name="model", rich_help_panel=MODELS)
app.command("serve", rich_help_panel=OPERATE)(serve.serve)
app.add_typer(commands.app, name="alerts", rich_help_panel=OPERATE)
app.command("notices", rich_help_panel=OPERATE)(notices.notices)
app.command("maintain", rich_help_panel=OPERATE)(maintain.maintain)
app.command("repair", rich_help_panel=OPERATE)(commands_repair.repair)
app.add_typer(spark.app, name="spark", rich_help_panel=OPERATE)
app.add_typer(token_commands.app, name="token", rich_help_panel=OPERATE)


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
