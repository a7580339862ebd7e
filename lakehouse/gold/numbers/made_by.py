"""Which published numbers a version of the code or of a contract, or a Git commit, has made.

Belongs here: the search in the published tables, whose rows name both versions, and in the publications, which name the commit.
What the versions are is in ``delta.provenance``, what the commit is in ``delta.provenance``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.ledger import publications

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake

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


def numbers(lake: Lake, series: Series, version: str) -> list[MadeNumber]:
    """The published numbers of a series that a version has made, oldest first.

    :param version: of the code (``0.4.0+3f2a9c1b7d4e``, or the hash behind the plus) or of a contract, or a Git
        commit; its beginning is enough.
    """
    rows = locations.gold(lake, series).read(list(_READ), None)
    if rows is None:
        return []
    every = rows.group_by(list(_READ)).aggregate([])
    wanted = [pc.starts_with(every[name], version) for name in _VERSIONS]
    commits = {one.publication_id: one.code_commit for one in publications.of(lake, series.name)}
    every = every.append_column("code_commit", pa.array(map(commits.get, every["publication_id"].to_pylist()), pa.string()))
    every = every.drop_columns(["publication_id"])
    wanted += [pc.starts_with(every["code_commit"], version)]
    after_plus = pc.match_substring(every["code_version"], f"+{version}")
    made = every.filter(pc.fill_null(reduce(pc.or_kleene, [*wanted, after_plus]), False))
    by = [(name, "ascending") for name in ("published_at", "version_name")]
    return [MadeNumber(series.name, **row) for row in pa.table(made).sort_by(by).to_pylist()]
