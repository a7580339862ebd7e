"""The tables that a derived series follows, those of its inputs, and the version of each up to which it has followed them.

Only logs are read. Publishing the periods belongs to ``restate``; when they are computed, to ``restatement.pending``.

The inputs that a derived period waits for before its number becomes final. Its state is never ahead of theirs (rule R13).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.delta import commit_log
from lakehouse.gold.derived import inputs
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.ledger import restatements

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from deltalake import DeltaTable

    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake, Table
    from lakehouse.ledger.restatements import Restatement


@dataclass(frozen=True)
class ChangedInputs:
    """The publications of the inputs since a derived series last followed them.

    :param starts: the first days of the periods that one input published, and for which all inputs have a number.
    :param versions: the version of each table through which its log was read, by the table's name in the ledger.
    """

    starts: frozenset[date] = frozenset()
    versions: Mapping[str, int] = field(default_factory=dict)


def changed_inputs(lake: Lake, series: Series) -> ChangedInputs:
    """Read the publications of the inputs. If a log no longer reaches back, all periods count as changed.

    Longer periods also follow the promotions of the metric's own days: another dataset version requires a new computation.
    """
    followed = followed_versions(lake, series)
    versions: dict[str, int] = {}
    starts: set[date] = set()
    for name, followed_table in _tables(lake, series).items():
        table = followed_table.open()
        if table is None:
            continue
        version, since = table.version(), followed.get(name, -1) + 1
        since = since if since <= version + 1 else 0  # a table that was created again is followed from its beginning
        versions[name] = version
        if since <= version:
            starts |= _published_since(lake, series, table, since, only_promotions=name not in _input_names(series))
    return ChangedInputs(frozenset(starts & published_table.published_by_all(lake, series)) if starts else frozenset(), versions)


def followed_versions(lake: Lake, series: Series) -> dict[str, int]:
    """The version of each table that a derived series has followed, since one of its inputs was last replaced by another.

    Empty if its own table has lost commits; a table that has lost the followed commit is left out.
    """
    names = _tables(lake, series)
    if served_version.lost_versions(lake, series) is not None:
        return {}
    entries = [entry for entry in restatements.of(lake, served_version.follower(series)) if entry.followed_version >= 0]
    others = (place for place, entry in enumerate(entries) if entry.followed_table not in names)
    in_order = sorted(entries[max(others, default=-1) + 1 :], key=lambda entry: entry.followed_version)
    newest = {f"{entry.followed_table}": entry for entry in in_order}
    return {
        name: entry.followed_version
        for name, entry in newest.items()
        if not served_version.is_another(names[name], entry.followed_version, entry.followed_commit)
    }


def _tables(lake: Lake, series: Series) -> dict[str, Table]:
    """The tables whose log a series follows, by their names in the ledger."""
    own = {} if series.kind is Kind.DAY else {f"gold/{series.daily.name}": locations.gold(lake, series.daily)}
    return dict(zip(_input_names(series), inputs.tables(lake, series).values())) | own


def _input_names(series: Series) -> list[str]:
    return [f"gold/{one.metric}{series.kind.suffix}" for one in series.metric.inputs]


def _published_since(lake: Lake, series: Series, table: DeltaTable, since: int, *, only_promotions: bool) -> set[date]:
    """The first days of the periods that a table's commits since version ``since`` published, or booked an adjustment in."""
    history = commit_log.history(table, since - 1)
    if len(history) <= table.version() - since:
        return published_table.published_by_all(lake, series)
    metadata = [commit_log.commit_metadata(commit) for commit in history]
    if only_promotions:
        return (
            published_table.published_by_all(lake, series)
            if any(served_version.PROMOTION in entry for entry in metadata)
            else set()
        )
    named = {text for entry in metadata for text in entry.get("published", ())}
    if series.kind is Kind.DAY:  # a longer period of an input is published again with what is booked in it
        named |= {text for entry in metadata for text in entry.get("booked_on", ())}
    return {date.fromisoformat(text) for text in named}


def entries(lake: Lake, series: Series, entry: Restatement, versions: Mapping[str, int]) -> list[Restatement]:
    """The rows by which the ledger records a run: one for each table that it followed; the first row has the days."""
    paths = _tables(lake, series) if versions else {}
    rows = [
        replace(
            entry,
            followed_version=version,
            followed_table=name,
            followed_commit=served_version.commit_at(paths[name], version),
        )
        for name, version in versions.items()
    ] or [entry]
    return [rows[0], *(replace(row, days=[]) for row in rows[1:])]


def limits(lake: Lake, series: Series, starts: Collection[date]) -> dict[date, tuple[State, list[str]]]:
    """By first day, the latest state that a derived period may have, and why; periods whose inputs are all final are left out."""
    known = inputs.states(lake, series, starts)
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
