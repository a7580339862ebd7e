"""``ops/publications``, each commit of published numbers with its lineage, and ``ops/restatements``, each run of a metric.

The lineage of a commit is its inputs, code, checks and trigger. The rows are copied from the metadata of the gold tables'
commits, so that a run that stops after its commit loses nothing: :func:`follow` writes the missing rows.

A run is recorded with the silver version up to which it updated the metric, and the days that changed. The restatement sensor
finds new changes with it, and it records why a day was restated. Without it a metric is computed again for all days, and days
with equal results are not written.

Which published numbers a version of the code or of a contract, or a Git commit, has made is searched here, too: the published
tables name both versions, the publications name the commit (see ``delta.provenance``).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import commit_log
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake, Table, table_io

#: Columns that a commit records under the same name; the second group as JSON objects.
_TEXTS = (
    *("publication_id", "run_id", "job_name", "code_version", "contract_version"),
    *("signed_off_by", "sign_off_reason", "by", "versions", "code_commit"),
)
_MAPPINGS = ("published", "input_versions", "validation", "trigger", "keys", "dimension_changes")


@dataclass(frozen=True)
class Publication:
    """One commit of a series.

    ``published`` has the version of each period; ``input_versions`` the inputs, with their time range; ``validation`` counts the
    checks; ``trigger`` lists the files, decisions, redactions or code that caused it; ``keys`` counts the changed keys per silver
    day, with a sample; ``downstream`` lists the datasets and consumers that it affects; ``by`` is the person who started the run.
    ``dimension_changes`` has the changes of dimensions that concern facts: their number, and the first of them. ``versions`` is
    the record of each version, see ``gold.publication.revisions``. ``code_commit`` is the Git commit of the contracts.
    """

    series: str
    publication_id: str
    gold_version: int
    run_id: str
    job_name: str | None = field(default=None, kw_only=True)
    code_version: str | None = field(default=None, kw_only=True)
    contract_version: str | None = field(default=None, kw_only=True)
    published: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    input_versions: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    validation: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    trigger: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    keys: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    downstream: list[str] = field(default_factory=list, kw_only=True)
    signed_off_by: str | None = field(default=None, kw_only=True)
    sign_off_reason: str | None = field(default=None, kw_only=True)
    recorded_at: datetime
    by: str | None = field(default=None, kw_only=True)
    dimension_changes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    versions: str | None = field(default=None, kw_only=True)
    code_commit: str | None = field(default=None, kw_only=True)


def log(lake: Lake) -> LogTable[Publication]:
    """The table."""
    return LogTable(Publication, lake, locations.publications(lake), partition_by="series")


def copied_version(lake: Lake, series: str) -> int:
    """The version of a gold table up to which its commits are copied; -1 for none."""
    version = locations.publications(lake).transaction(_follower(series))
    return -1 if version is None else version


def follow(lake: Lake, series: str, gold: Table) -> int:
    """Write a row for each commit of a gold table that has none yet.

    :param gold: the table.
    :returns: the number of rows written.
    """
    table = log(lake)

    def row_of(commit: dict[str, Any], why: dict[str, Any]) -> dict[str, Any] | None:
        return table.to_row(_publication(series, commit, why)) if "published" in why else None

    return commit_log.copy_from_log(gold, table.table, _follower(series), table.schema, row_of)


def _follower(series: str) -> str:
    return f"publications:{series}"


def of(lake: Lake, series: str) -> list[Publication]:
    """Every publication of a series, oldest first."""
    return _read(lake, {"series": [series]})


def after(lake: Lake, series: str, gold_version: int) -> list[Publication]:
    """The publications of a series after a version of its table, oldest first."""
    of_series = {"series": [series]}
    recorded = log(lake).select(["gold_version"], of_series)["gold_version"]
    newer = recorded.filter(pc.greater(recorded, gold_version)).to_pylist()
    return _read(lake, {**of_series, "gold_version": newer}) if newer else []


def signed_off(lake: Lake) -> list[Publication]:
    """The publications of all series that a person has signed off."""
    signed = log(lake).select(["publication_id", "signed_off_by"])
    ids = signed.filter(pc.is_valid(signed["signed_off_by"]))["publication_id"].to_pylist()
    return _read(lake, {"publication_id": ids}) if ids else []


def find(lake: Lake, series: str, publication_id: str) -> Publication | None:
    """One publication of a series; None if it has not been copied (yet)."""
    found = _read(lake, {"series": [series], "publication_id": [publication_id]})
    return found[0] if found else None


def _read(lake: Lake, where: table_io.Where) -> list[Publication]:
    return sorted(log(lake).read(where), key=lambda entry: entry.gold_version)


def _publication(series: str, commit: Mapping[str, Any], why: Mapping[str, Any]) -> Publication:
    committed = datetime.fromtimestamp(commit["timestamp"] / 1000, timezone.utc)
    values: dict[str, Any] = {name: why.get(name) for name in _TEXTS} | {name: why.get(name) or {} for name in _MAPPINGS}
    return Publication(
        series=series,
        gold_version=commit["version"],
        downstream=list(why.get("downstream") or []),
        recorded_at=datetime.fromisoformat(why["as_of"]) if "as_of" in why else committed,
        **values,
    )


@dataclass(frozen=True)
class Restatement:
    """One run of a metric.

    ``followed_version`` is the version of the upstream table (Silver for days, the daily table for longer periods) through which
    all changes are in the numbers, -1 if only selected periods were requested; it is stored as ``silver_version``. ``causes``
    counts, per Silver day, the keys inserted, corrected, moved and deleted. ``followed_table`` names the silver table that a
    metric's days follow if it is not the main table of the only source, and each table that a derived metric follows.
    ``followed_further`` has the version of each further table that a metric's days follow, -1 for a table that does not exist: by
    name, the silver table of each further source and the intervals of each dimension. ``gold_commit``, ``followed_commit`` and
    ``further_commits`` are the ids of the commits of these versions, see ``delta.commit_log``; they are empty in entries of
    earlier releases.
    """

    metric: str
    run_id: str
    as_of: datetime
    followed_version: int = field(metadata={"column": "silver_version"})
    gold_version: int
    days: list[date]
    causes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    followed_table: str | None = None
    followed_further: Mapping[str, int] = field(default_factory=dict)
    gold_commit: str | None = None
    followed_commit: str | None = None
    further_commits: Mapping[str, str] = field(default_factory=dict)


def restatement_log(lake: Lake) -> LogTable[Restatement]:
    """The table."""
    return LogTable(Restatement, lake, locations.restatements(lake), partition_by="metric")


def record_restatement(lake: Lake, *entries: Restatement) -> None:
    """Append one run: one row, or for a derived metric one row for each table that it follows."""
    restatement_log(lake).append([replace(entry, days=sorted(entry.days)) for entry in entries])


def restatements_of(lake: Lake, metric: str) -> list[Restatement]:
    """All runs of a metric, oldest first."""
    return sorted(restatement_log(lake).read({"metric": [metric]}), key=lambda entry: (entry.as_of, entry.gold_version))


def since_following(entries: Sequence[Restatement], table: str | None) -> list[Restatement]:
    """The runs since the last one that followed another table: versions of different tables cannot be compared.

    :param entries: from :func:`of`.
    :param table: see ``Restatement.followed_table``.
    """
    others = (place for place, entry in enumerate(entries) if entry.followed_version >= 0 and entry.followed_table != table)
    return list(entries[max(others, default=-1) + 1 :])


def followed_version(lake: Lake, metric: str, table: str | None = None) -> int:
    """The version of ``table`` that a metric has followed; -1 if it has followed none, or another table since."""
    return max((entry.followed_version for entry in since_following(restatements_of(lake, metric), table)), default=-1)


def followed_versions(lake: Lake) -> dict[str, tuple[int, int]]:
    """The number of runs of each metric, and the greatest version that it has followed: unchanged until another run is
    recorded.
    """
    rows = restatement_log(lake).select(["metric", "silver_version"])
    newest = rows.group_by("metric").aggregate([([], "count_all"), ("silver_version", "max")])
    return {row["metric"]: (row["count_all"], row["silver_version_max"]) for row in newest.to_pylist()}


_VERSIONS = ("code_version", "contract_version")
_READ = ("version_name", "state", "is_latest", "published_at", "publication_id", *_VERSIONS)


@dataclass(frozen=True)
class MadeNumber:
    """A published revision or adjustment, with the versions of the code and the contract that computed it, and their commit."""

    series: str
    version_name: str
    state: str
    is_latest: bool
    published_at: datetime
    code_version: str
    contract_version: str
    code_commit: str | None = None


def numbers_made_by(lake: Lake, series: Series, version: str) -> list[MadeNumber]:
    """The published numbers of a series that a version has made, oldest first.

    :param version: of the code (``0.4.0+3f2a9c1b7d4e``, or the hash behind the plus) or of a contract, or a Git
        commit; its beginning is enough.
    """
    rows = locations.gold(lake, series).read(list(_READ), None)
    if rows is None:
        return []
    every = rows.group_by(list(_READ)).aggregate([])
    wanted = [pc.starts_with(every[name], version) for name in _VERSIONS]
    commits = {one.publication_id: one.code_commit for one in of(lake, series.name)}
    every = every.append_column("code_commit", pa.array(map(commits.get, every["publication_id"].to_pylist()), pa.string()))
    every = every.drop_columns(["publication_id"])
    wanted += [pc.starts_with(every["code_commit"], version)]
    after_plus = pc.match_substring(every["code_version"], f"+{version}")
    made = every.filter(pc.fill_null(reduce(pc.or_kleene, [*wanted, after_plus]), False))
    by = [(name, "ascending") for name in ("published_at", "version_name")]
    return [MadeNumber(series.name, **row) for row in pa.table(made).sort_by(by).to_pylist()]
