"""Hints for unknown options: the argument or the option that was probably meant."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

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
