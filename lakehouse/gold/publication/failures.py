"""The checks that fail and the numbers that they hold, as the tables have them now.

Commands that update numbers end with these (see ``cli.console.end_of_update``), whichever run failing them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.series import Series
from lakehouse.gold.publication import candidates
from lakehouse.ledger import failed_checks, failed_numbers

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake

#: By check, with its table, and partition: a sentence for people.
Failures = dict[tuple[str, str], str]


def of_source(lake: Lake, catalog: Catalog, source: str) -> Failures:
    """The failing checks of a source, and the held numbers of all metrics that follow it."""
    failing = {(f"{one.table} {one.check}", f"{one.day}"): one.explanation for one in failed_checks.failing(lake, source)}
    return _sentences(failing) | of_metrics(lake, catalog, [metric.name for metric in catalog.metrics_following(source)])


def of_metrics(lake: Lake, catalog: Catalog, names: Collection[str]) -> Failures:
    """The held numbers of metrics, days first."""
    failing: Failures = {}
    for name in names:
        daily = Series(catalog.metrics[name])
        for series in (daily, *daily.rollups):
            for start, reasons in candidates.failing(lake, series).items():
                failing |= {(f"gold/{series.name} {check}", f"{start}"): why for check, why in reasons.items()}
            for start, failed in failed_numbers.failing(lake, series.name).items():
                failing[f"gold/{series.name} {failed_numbers.COMPUTED}", f"{start}"] = f"{failed.explanation}."
    return _sentences(failing)


def sentence(check: str, partition: str, explanation: str | None) -> str:
    """A failed check as a sentence.

    :param check: the table and the name of the check.
    """
    return f"{check} failed for {partition}: {explanation or 'no reason is given'}"


def _sentences(failing: Failures) -> Failures:
    return {place: sentence(*place, explanation) for place, explanation in failing.items()}
