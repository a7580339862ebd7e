"""Which published numbers a version of the code or of a contract has made.

Belongs here: the search in the published tables, whose rows name both versions. Only these columns are read. What the versions
are is in ``delta.provenance``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.contracts.series import Series
    from lakehouse.settings import Settings

_VERSIONS = ("code_version", "contract_version")
_READ = ("version_name", "state", "is_latest", "published_at", *_VERSIONS)


@dataclass(frozen=True)
class MadeNumber:
    """A published revision or adjustment, with the versions of the code and of the contract that computed it."""

    series: str
    version_name: str
    state: str
    is_latest: bool
    published_at: datetime
    code_version: str
    contract_version: str


def numbers(settings: Settings, series: Series, version: str) -> list[MadeNumber]:
    """The published numbers of a series that a version has made, oldest first.

    :param version: of the code (``0.4.0+3f2a9c1b7d4e``, or the hash behind the plus) or of a contract; its beginning is enough.
    """
    rows = table_io.read(locations.gold(settings, series), list(_READ), None, settings.storage_options)
    if rows is None:
        return []
    every = rows.group_by(list(_READ)).aggregate([])
    wanted = [pc.starts_with(every[name], version) for name in _VERSIONS]
    after_plus = pc.match_substring(every["code_version"], f"+{version}")
    made = every.filter(pc.fill_null(pc.or_kleene(pc.or_kleene(*wanted), after_plus), False))
    by = [(name, "ascending") for name in ("published_at", "version_name")]
    return [MadeNumber(series.name, **row) for row in pa.table(made).sort_by(by).to_pylist()]
