"""The inputs that a derived period waits for before its number becomes final. Its state is never ahead of theirs (rule R13).

The conditions of the inputs themselves belong to ``restatement.closing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.gold.derived import inputs
from lakehouse.gold.numbers.lifecycle import State

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.series import Series
    from lakehouse.settings import Settings


def limits(settings: Settings, series: Series, starts: Collection[date]) -> dict[date, tuple[State, list[str]]]:
    """By first day, the latest state that a derived period may have, and why; periods whose inputs are all final are left out."""
    known = inputs.states(settings, series, starts)
    found = {start: limit(series, start, of_inputs) for start, of_inputs in known.items()}
    return {start: one for start, one in found.items() if one is not None}


def limit(series: Series, start: date, of_inputs: Mapping[str, State | None]) -> tuple[State, list[str]] | None:
    """The result of :func:`limits` for one period; None if all inputs are final.

    :param of_inputs: the state of each input's newest number; None where it has none.
    """
    period = series.period(start).name
    waits_for = [
        f"{name} {period} is {state.value}" if state else f"{name} has no number of {period}"
        for name, state in of_inputs.items()
        if state is not State.FINAL
    ]
    if not waits_for:
        return None
    return min((state or State.LIVE for state in of_inputs.values()), key=lambda state: state.rank), waits_for
