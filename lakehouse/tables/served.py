"""Which dataset version of a metric its readers see: the alias ``latest`` (rule R8).

The number of the version lies in the gold table itself and moves in the commit that shows other numbers (see
``promotion``), so that a reader sees one version or the other and never a mix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.tables.series import Series, served_version

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings


class UnservedVersionError(Exception):
    """A dataset version that no contract describes. Its text says which one is missing, and the way out."""


def daily(settings: Settings, catalog: Catalog, metric: MetricContract) -> Series:
    """The days of a metric as readers see them, with the logic that makes them now.

    :raises UnservedVersionError: where the contract of the version that was promoted is gone.
    """
    own = Series(metric)
    number = served_version(settings, own)
    return own if number == metric.dataset_version or metric.dataset_version > 1 else version(catalog, metric, number)


def version(catalog: Catalog, metric: MetricContract, number: int) -> Series:
    """A dataset version of a metric, under the name that readers know.

    :raises UnservedVersionError: where no contract describes it.
    """
    for other in catalog.metrics.values():
        if other.metric == metric.metric and other.dataset_version == number:
            return Series(other, called=metric.metric)
    known = sorted(other.dataset_version for other in catalog.metrics.values() if other.metric == metric.metric)
    msg = (
        f"no contract has 'metric: {metric.metric}' with 'dataset_version: {number}' (there are {known}); put its file back, "
        "or promote another version"
    )
    raise UnservedVersionError(msg)
