"""Published versions that a table no longer has, because it was restored from a copy, or its log was damaged.

Readers have seen them, so that nothing is published before they are there again. Making them again belongs to
``gold.reproduction.repair``; commits that were lost without a version are made up for here.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta import lost_commits
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import served_version
from lakehouse.ledger import publications
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake

_SHOWN = 3


class LostNumbersError(LakehouseError):
    """Published versions that a table no longer has. The message names them and the way out."""


def of(lake: Lake, series: Series) -> Mapping[date, Sequence[str]]:
    """The versions that ``ops/publications`` records and the table of a series no longer has, by the first day of their period.

    Only a table that has lost commits is compared; for any other, the result is empty.
    """
    if served_version.lost_versions(lake, series) is None:
        return {}
    stored = locations.gold(lake, series).read(["version_name"])
    kept = set() if stored is None else set(stored["version_name"].to_pylist())
    lost: dict[date, list[str]] = defaultdict(list)
    for entry in publications.of(lake, series.name):
        for start, name in entry.published.items():
            if name not in kept:
                lost[date.fromisoformat(start)].append(name)
    return lost


def make_up_for_lost_commits(lake: Lake, series: Series) -> None:
    """Give a table of published numbers that has lost commits another lineage: its readers start over.

    Its own numbers are computed again, because the series counts as having followed nothing.

    :raises LostNumbersError: if it has lost versions: revisions, states and adjustments do not follow from silver.
    """
    lost = served_version.lost_versions(lake, series)
    if lost is None:
        return
    numbers = locations.gold(lake, series)
    table = numbers.open()
    if table is None:
        msg = (
            f"{numbers.name} is gone, and its numbers were published: 'lakehouse admin repair' makes them again from the inputs "
            "that they name, or restore the table from a copy"
        )
        raise LostNumbersError(msg)
    if versions := sorted(each for of_period in of(lake, series).values() for each in of_period):
        msg = (
            f"{numbers.name} has lost published numbers ({join_limited(versions, _SHOWN, ' versions')}): 'lakehouse admin "
            "repair' makes them again from the inputs that they name, or restore a newer copy of the table"
        )
        raise LostNumbersError(msg)
    followed, kept = lost
    if not lost_commits.is_closed(table, followed, kept):  # if it is, nothing has been published since
        lost_commits.close_gap(numbers, followed, kept)
