"""Undoes named runs: the days that the runs of a backfill or a stage restated return to their previous numbers, as new revisions.

Belongs here: which version each day had before these runs, and the conditions that forbid the undo. Reverting days, and keeping
them until they are released, belongs to ``revert``. Silver keeps its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import history
from lakehouse.gold.publication import reverted_periods
from lakehouse.gold.restatement import revert
from lakehouse.ledger import publications
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.gold.restatement.revert import RevertResult
    from lakehouse.settings import Settings

#: The key of the runs' name in a publication's trigger.
NAMED = "backfill"
_SHOWN = 10


class UndoError(LakehouseError):
    """Runs that cannot be undone; nothing has changed. The message lists the days, and says what to do."""


@dataclass(frozen=True)
class UndoneSeries:
    """The result of the undo for the days of a metric.

    :param first: the days that were first published by these runs: there is no earlier number, and they stay.
    """

    daily: Series
    result: RevertResult
    first: Sequence[date]


@dataclass(frozen=True)
class _Earlier:
    """The earlier state of the days of a metric: the label of each, the days without any, and those that changed since."""

    targets: Mapping[date, str]
    first: Sequence[date]
    later: Sequence[str]


def undo(
    settings: Settings, contract: SourceContract, dailies: Sequence[Series], name: str, run: Run, reason: str
) -> list[UndoneSeries]:
    """Revert the days that named runs restated to their previous numbers; calling it again changes nothing.

    :param dailies: the days of the metrics that the runs may have published.
    :param name: the name of the runs in the triggers of their publications.
    :param run: names the person.
    :raises UndoError: if one of the numbers has changed since, or the runs have restated none.
    """
    earlier = [(daily, _before(settings, daily, name)) for daily in dailies]
    later = [sentence for _, before in earlier for sentence in before.later]
    if later:
        listed = join_limited(later, _SHOWN, " numbers")
        msg = f"{name} cannot be undone, numbers have changed since: {listed}; revert days with 'lakehouse gold revert'"
        raise UndoError(msg)
    if not any(before.targets for _, before in earlier):
        msg = f"{name} has restated no number: there is nothing to undo"
        raise UndoError(msg)
    why = f"undo of {name}: {reason}"
    return [
        UndoneSeries(daily, revert.put_back(settings, contract, daily, before.targets, run, why), before.first)
        for daily, before in earlier
        if before.targets
    ]


def published_by(settings: Settings, series: Series, name: str) -> dict[date, set[str]]:
    """The names of the versions that named runs published, by the first day of their period."""
    names: dict[date, set[str]] = {}
    for entry in publications.of(settings, series.name):
        for start, version in entry.published.items() if entry.trigger.get(NAMED) == name else ():
            names.setdefault(date.fromisoformat(start), set()).add(version)
    return names


def _before(settings: Settings, daily: Series, name: str) -> _Earlier:
    names = published_by(settings, daily, name)
    known = history.history(settings, daily, sorted(names)) if names else {}
    kept = reverted_periods.kept(settings, daily.name, known)
    targets: dict[date, str] = {}
    first, later = [], []
    for start, versions in sorted(known.items()):
        positions = [
            number for number, version in enumerate(versions) if version.name in names[start] and version.has_new_content
        ]
        if not positions:
            continue  # the runs only closed it
        if positions[0] == 0:
            first.append(start)
            continue
        label = versions[positions[0] - 1].label
        newer = [version for version in versions[positions[-1] + 1 :] if version.has_new_content]
        if newer and not (start in kept and kept[start].version == label):
            later.append(f"{newer[-1].name} ({newer[-1].reason.value})")
        targets[start] = label
    return _Earlier(targets, first, later)
