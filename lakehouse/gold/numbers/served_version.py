"""The dataset version of a metric that its readers see (the alias ``latest``, rule R8), and the versions of tables that a series
follows.

The number of the version is stored in the gold table itself and changes in the commit that publishes the numbers (see
``promotion``), so that a reader sees one version or the other and never a mixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import commit_log
from lakehouse.errors import LakehouseError
from lakehouse.lake.delta_rs_internals import transaction_version
from lakehouse.lake.table import confirmed
from lakehouse.ledger import publications

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake, Table
    from lakehouse.ledger.publications import Restatement


#: The Delta transaction whose number is the dataset version that readers see; it changes in the commit that publishes it.
SERVED = "lakehouse:dataset_version"
#: The key of a promotion in the metadata of its commit.
PROMOTION = "moved"


class UnservedVersionError(LakehouseError):
    """A dataset version that no contract describes. The message names the missing version and what to do."""


class MovedError(LakehouseError):
    """Numbers of one dataset version that were computed before another version was promoted, and that can no longer be
    published.
    """


def number(lake: Lake, series: Series) -> int:
    """The number of the dataset version that readers of the table see."""
    return locations.gold(lake, series).transaction(SERVED) or 1


def daily(lake: Lake, catalog: Catalog, metric: MetricContract) -> Series:
    """The days of a metric as readers see them, with the contract that they are computed under now.

    :raises UnservedVersionError: if the contract of the promoted version no longer exists.
    """
    own = Series(metric)
    seen = number(lake, own)
    return own if seen == metric.dataset_version or metric.dataset_version > 1 else version(catalog, metric, seen)


def version(catalog: Catalog, metric: MetricContract, wanted: int) -> Series:
    """A dataset version of a metric, under the name that readers know.

    :raises UnservedVersionError: if no contract describes it.
    """
    for other in catalog.metrics.values():
        if other.metric == metric.metric and other.dataset_version == wanted:
            return Series(other, called=metric.metric)
    known = sorted(other.dataset_version for other in catalog.metrics.values() if other.metric == metric.metric)
    msg = (
        f"no contract has 'metric: {metric.metric}' with 'dataset_version: {wanted}' (there are {known}); put its file back, "
        "or promote another version"
    )
    raise UnservedVersionError(msg)


def follower(series: Series) -> str:
    """The name under which the ledger records the upstream version that a series has followed.

    Each version that readers see has its own record: a version that is served again continues from there.
    """
    later = series.kind is Kind.DAY and series.name == series.metric.metric and series.metric.dataset_version > 1
    return f"{series.name}@v{series.metric.dataset_version}" if later else series.name


def followed_table(series: Series) -> str | None:
    """The silver table that a series follows if it is not the main table of its only source; see ``restatements.Restatement``."""
    is_named = series.kind is Kind.DAY and (series.metric.reads_newest or series.metric.sources)
    return locations.silver_name(series.metric) if is_named else None


def runs(lake: Lake, series: Series) -> list[Restatement]:
    """The runs of a series since it began to follow its present upstream table, oldest first."""
    return publications.since_following(publications.restatements_of(lake, follower(series)), followed_table(series))


def upstream(lake: Lake, series: Series) -> Table:
    """The table that a series follows: for days the silver table of the first source, else the table of
    the days.
    """
    if series.kind is Kind.DAY:
        return locations.silver(lake, locations.silver_name(series.metric))
    return locations.gold(lake, series.daily)


def further_tables(lake: Lake, series: Series) -> dict[str, Table]:
    """The further tables that a metric's days follow, by their names in the ledger."""
    metric = series.metric
    tables = {entry.silver: locations.silver(lake, entry.silver) for entry in metric.sources[1:]}
    tables.update((name, locations.intervals(lake, name)) for name in metric.dimensions)
    if metric.late_events:
        tables[f"{metric.source}_late"] = locations.late_rows(lake, metric.source)
    return tables


def followed_version(lake: Lake, series: Series) -> int:
    """The version of its upstream table that a series has followed.

    -1 if it has followed none, or if one of the two tables has lost commits since: then it starts over.
    """
    entries = runs(lake, series)
    newest = max(entries, key=lambda entry: entry.followed_version, default=None)
    if newest is None or _has_lost_commits(lake, series, entries):
        return -1
    version, commit = newest.followed_version, newest.followed_commit
    return -1 if is_another(upstream(lake, series), version, commit) else version


def followed_further(lake: Lake, series: Series) -> dict[str, int]:
    """The version that a series has followed of each further table: of later sources, of dimensions, and of late rows.

    A table that has lost the commit is left out.
    """
    follows_others = series.kind is Kind.DAY and (series.metric.joins or series.metric.sources or series.metric.late_events)
    followed: dict[str, int] = {}
    commits: dict[str, str] = {}
    for entry in runs(lake, series) if follows_others else ():
        for name, version in entry.followed_further.items():
            if version >= followed.get(name, version):
                followed[name], commits[name] = version, entry.further_commits.get(name, "")
    paths = further_tables(lake, series) if followed else {}
    return {
        name: version
        for name, version in followed.items()
        if name not in paths or not is_another(paths[name], version, commits[name])
    }


def commit_at(table: Table, version: int) -> str:
    """The id of a commit of a table; empty without one."""
    return commit_log.commit_id(table.open() if version >= 0 else None, version)


def is_another(table: Table, version: int, commit: str | None) -> bool:
    """Whether a table has, at ``version``, another commit than the followed one.

    A table that does not reach the version was created again, and is followed from its beginning anyway.
    """
    opened = table.open() if commit else None
    return opened is not None and version <= opened.version() and commit_log.are_lost(opened, version, commit)


def lost_versions(lake: Lake, series: Series) -> tuple[int, int] | None:
    """The newest version at which a run left the table of a series, and the newest such version that it still holds; None if it
    holds all.

    A table that does not hold one of them was restored from a copy, or its log was damaged; see ``delta.commit_log``. Commits
    without a run, such as a revert, are known by the number of the newest one that ``ops/publications`` has.
    """
    return confirmed(lambda: _lost_versions(lake, series))


def _lost_versions(lake: Lake, series: Series) -> tuple[int, int] | None:
    entries, copied = publications.restatements_of(lake, follower(series)), publications.copied_version(lake, series.name)
    table = locations.gold(lake, series).open()
    is_shorter = copied > (-1 if table is None else table.version())
    if not is_shorter and not _has_lost_commits(lake, series, entries):
        return None
    held = (entry.gold_version for entry in entries if not commit_log.are_lost(table, entry.gold_version, entry.gold_commit))
    return max([copied, *(entry.gold_version for entry in entries)]), max(held, default=-1)


def _has_lost_commits(lake: Lake, series: Series, entries: Sequence[Restatement]) -> bool:
    """Whether the table of a series lacks the newest commit at which a run left it; version numbers of lost commits are not
    reused.
    """
    table = locations.gold(lake, series).open()
    newest = max(entries, key=lambda entry: entry.gold_version, default=None)
    return newest is not None and commit_log.are_lost(table, newest.gold_version, newest.gold_commit)


def version_followed(series: Series, entry: Restatement, table: str) -> int:
    """The version of a silver table that a run of a series followed, -1 if it did not follow it.

    :param table: the name of a table that the series reads; a longer period reads only its days.
    """
    is_first = series.kind is not Kind.DAY or table == locations.silver_name(series.metric)
    return entry.followed_version if is_first else entry.followed_further.get(table, -1)


def transaction(series: Series, table: DeltaTable | None) -> tuple[str, int] | None:
    """The Delta transaction in each commit of days that readers see; it makes the commit conflict with a promotion.

    :param table: the table before the numbers were computed.
    :raises MovedError: if the promoted version is not the one that computed the numbers.
    """
    if series.kind is not Kind.DAY or series.name != series.metric.metric:
        return None
    seen = number_in(table)
    if seen != series.metric.dataset_version:
        msg = (
            f"gold/{series.name} shows v{seen} now, but these numbers were computed with v{series.metric.dataset_version}; "
            "nothing was published: run it again"
        )
        raise MovedError(msg)
    return SERVED, seen


def number_in(table: DeltaTable | None) -> int:
    """The number of the version that readers see, as an open table of daily numbers records it."""
    return (None if table is None else transaction_version(table, SERVED)) or 1
