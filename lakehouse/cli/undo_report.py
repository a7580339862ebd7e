"""Prints the result of an undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.cli.console import out
from lakehouse.orchestration import commands
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.gold.restatement.revert import UndoneSeries
    from lakehouse.lake import Lake

_SHOWN = 8


def print_undone(lake: Lake, catalog: Catalog, done: Sequence[UndoneSeries], name: str, *, restate: bool) -> None:
    """Print the restored days, series by series, and the pending work.

    :param name: the undone object, such as "the stage".
    :param restate: whether to update the roll-ups now.
    """
    for undone in done:
        series, result = undone.daily.name, undone.result
        if result.published:
            out.print(f"gold/{series}: put back {_listed([one.start for one in result.published])}.", soft_wrap=True)
        if result.unchanged:
            out.print(f"gold/{series}: put back before, or unchanged: {_listed(result.unchanged)}.", soft_wrap=True)
        if undone.first:
            first = f"    first published by {name}, without a number to go back to: {_listed(undone.first)}"
            out.print(first, style="yellow", soft_wrap=True)
        ends = f"'lakehouse gold release {undone.daily.metric.name} PERIOD'"
        out.print(f"    They keep these numbers until {ends}.", soft_wrap=True)
        commands.print_pending(lake, undone.daily, catalog, now=restate)


def _listed(days: Sequence[date]) -> str:
    return join_limited([f"{day}" for day in days], _SHOWN, " days")
