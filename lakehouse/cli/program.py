"""The commands of the command line, grouped by task, and the start and end of the program.

Slow imports are inside the functions that need them, so that ``lakehouse --help`` responds at once. The error about an unknown
option suggests the argument or the option that was probably meant.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lakehouse.cli.console import damage, errors, unexpected
from lakehouse.errors import LakehouseError
from lakehouse.examples import demo_commands, simulation_commands
from lakehouse.gold.numbers import commands as numbers
from lakehouse.gold.promotion import commands as promotion
from lakehouse.gold.reproduction import commands as reproduction
from lakehouse.gold.restatement import commands as restatement
from lakehouse.impact import commands as impact
from lakehouse.late_events import commands as late_events
from lakehouse.lateness import commands as lateness
from lakehouse.lateness import tuning_commands as tuning
from lakehouse.live import commands as live
from lakehouse.models import commands as models
from lakehouse.models import trial_commands as model_trials
from lakehouse.operations import commands as maintenance
from lakehouse.operations.alerts import commands as alerts
from lakehouse.operations.backfills import commands as backfills
from lakehouse.operations.changes import commands as changes
from lakehouse.orchestration import commands as orchestration
from lakehouse.project import commands as project
from lakehouse.reparse import commands as reparse
from lakehouse.serving import commands as serving
from lakehouse.silver import commands as silver
from lakehouse.snapshots import commands as snapshots
from lakehouse.spark import commands as spark
from lakehouse.stages import commands as stages
from lakehouse.stewardship import commands as stewardship
from lakehouse.streams import commands as streams
from lakehouse.training_sets import commands as training_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Words for the time that a command is about. Commands accept it as an argument or under one of these names.
_TIME = ("date", "day", "period", "window", "on")

#: Also for an unknown option; newer releases of typer have their own click.
_UsageError: Any = typer.BadParameter.__base__


def hint(option: str, arguments: dict[str, str], options: list[str], path: str) -> str | None:
    """The argument or the option probably meant by an unknown option; None if none is similar.

    :param option: such as ``--date``.
    :param arguments: the command's arguments as its help shows them, by name, in their order.
    :param options: its options, such as ``--date``.
    :param path: the command, such as ``lakehouse gold show``.
    """
    word = option.lstrip("-").replace("-", "_")
    meant = _TIME if word in _TIME else (word,)
    if name := next((name for name in arguments if name in meant), None):
        return f"the {name.replace('_', ' ')} is an argument: {' '.join([path, *arguments.values()])}"
    near = next((f"--{name}" for name in meant if f"--{name}" in options), None)
    return f"did you mean {near}?" if near else None


class HintingGroup(TyperGroup):
    """The command line, which suggests similar options for an unknown one."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an unknown option is reported with a hint."""
        try:
            return super().invoke(ctx)
        except _UsageError as problem:
            option, context = getattr(problem, "option_name", None), problem.ctx
            if option and context is not None and (text := _hint(option, context)):
                problem.message = f"{problem.message.rstrip('.')}; {text}"
                problem.possibilities = None
            raise


def _hint(option: str, ctx: Any) -> str | None:
    params = ctx.command.params
    arguments = {f"{one.name}": _shown(one) for one in params if one.param_type_name == "argument"}
    options = [name for one in params if one.param_type_name == "option" for name in one.opts]
    return hint(option, arguments, options, ctx.command_path)


def _shown(argument: Any) -> str:
    return f"{argument.metavar or argument.name}".strip("{}[]").upper()


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
source = typer.Typer(
    help="A source: its rows, their account and audit, its stream, redactions, readings and snapshots.", no_args_is_help=True
)
admin = typer.Typer(help="The deployment: maintenance, repair, pauses, tokens of the API, a shared Spark.", no_args_is_help=True)

demo_commands.app.command("simulate")(simulation_commands.simulate)
app.add_typer(demo_commands.app, name="demo", rich_help_panel=START)
app.command("init", rich_help_panel=START)(project.init)
app.command("infer", rich_help_panel=START)(project.infer)
app.command("run", rich_help_panel=START)(project.run)
app.command("status", rich_help_panel=START)(serving.status)
app.add_typer(project.app, name="contract", rich_help_panel=START)

app.command("replay", rich_help_panel=INGEST)(orchestration.replay)
app.command("rebuild", rich_help_panel=INGEST)(silver.rebuild)
app.add_typer(backfills.app, name="backfill", rich_help_panel=INGEST)
app.add_typer(stages.app, name="stage", rich_help_panel=INGEST)
app.add_typer(source, name="source", rich_help_panel=INGEST)
source.command("account")(impact.account)
source.command("audit")(silver.audit)
source.command("redact")(stewardship.redact)
source.command("reparse")(reparse.reparse)
source.add_typer(snapshots.app, name="snapshot")
source.add_typer(streams.app, name="stream")

app.command("rows", rich_help_panel=ROWS)(snapshots.rows)
app.command("trace", rich_help_panel=ROWS)(impact.trace)
app.command("correct", rich_help_panel=ROWS)(changes.correct)
app.add_typer(changes.app, name="change", rich_help_panel=ROWS)
changes.app.command("impact")(impact.impact)
app.add_typer(stewardship.app, name="quarantine", rich_help_panel=ROWS)
app.add_typer(lateness.app, name="lateness", rich_help_panel=ROWS)
lateness.app.command("tuning")(tuning.tuning)
lateness.app.command("tune")(tuning.tune)
lateness.app.command("pin")(tuning.pin)
lateness.app.command("unpin")(tuning.unpin)
lateness.app.command("undo")(tuning.undo)
lateness.app.command("rows")(late_events.late)
lateness.app.command("admit")(late_events.admit)
lateness.app.command("withdraw")(late_events.withdraw)

app.add_typer(numbers.app, name="gold", rich_help_panel=NUMBERS)
numbers.app.command("held")(restatement.held)
numbers.app.command("publish")(restatement.publish)
numbers.app.command("drop")(restatement.drop)
numbers.app.command("close")(restatement.close)
numbers.app.command("release")(restatement.release)
numbers.app.command("reproduce")(reproduction.reproduce)
numbers.app.command("rollback")(promotion.rollback)

numbers.app.command("promotions")(promotion.promotions)

numbers.app.command("views")(serving.views)
app.command("promote", rich_help_panel=NUMBERS)(promotion.promote)
app.command("revert", rich_help_panel=NUMBERS)(restatement.revert)
app.add_typer(live.app, name="live", rich_help_panel=NUMBERS)
live.app.command("reconcile")(live.reconcile)

app.add_typer(training_sets.app, name="dataset", rich_help_panel=MODELS)
app.add_typer(models.app, name="model", rich_help_panel=MODELS)
models.app.command("backtest")(model_trials.backtest)
models.app.command("score")(model_trials.score)
models.app.add_typer(model_trials.app, name="canary")

app.command("serve", rich_help_panel=OPERATE)(serving.serve)
app.add_typer(alerts.app, name="alerts", rich_help_panel=OPERATE)
alerts.app.command("notices")(alerts.notices)
app.add_typer(admin, name="admin", rich_help_panel=OPERATE)
admin.command("maintain")(maintenance.maintain)
admin.command("repair")(maintenance.repair)
admin.command("pause")(maintenance.pause)
admin.command("resume")(maintenance.resume)
admin.add_typer(spark.app, name="spark")

admin.add_typer(serving.token_app, name="token")

# The names of earlier releases: scripts that use them work as before.
app.command("account", hidden=True)(impact.account)
app.command("audit", hidden=True)(silver.audit)
app.command("impact", hidden=True)(impact.impact)
app.command("maintain", hidden=True)(maintenance.maintain)

app.command("moves", hidden=True)(promotion.moves)

app.command("notices", hidden=True)(alerts.notices)

app.command("promotions", hidden=True)(promotion.promotions)

app.command("reconcile", hidden=True)(live.reconcile)
app.command("redact", hidden=True)(stewardship.redact)
app.command("repair", hidden=True)(maintenance.repair)
app.command("reparse", hidden=True)(reparse.reparse)
app.command("reproduce", hidden=True)(reproduction.reproduce)
app.command("rollback", hidden=True)(promotion.rollback)
app.command("simulate", hidden=True)(simulation_commands.simulate)
app.command("view", hidden=True)(serving.view)
app.command("views", hidden=True)(serving.views)
numbers.app.command("revert", hidden=True)(restatement.revert)
app.add_typer(changes.corrections, name="corrections", hidden=True)
app.add_typer(late_events.app, name="late", hidden=True)
app.add_typer(snapshots.app, name="snapshot", hidden=True)
app.add_typer(spark.app, name="spark", hidden=True)
app.add_typer(streams.app, name="stream", hidden=True)

app.add_typer(serving.token_app, name="token", hidden=True)


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


def called(words: Sequence[str]) -> typer.Typer:
    """The command line with the command or group that ``words`` begin with; all of it for any other word, such as ``--help``.

    typer evaluates the annotations of every command that it builds: 0.2 s for all of them.
    """
    only, first = copy(app), next(iter(words), None)
    only.registered_commands = [one for one in app.registered_commands if one.name == first]
    only.registered_groups = [one for one in app.registered_groups if one.name == first]
    return only if only.registered_commands or only.registered_groups else app


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
        called(sys.argv[1:])()
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
