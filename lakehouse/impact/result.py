"""The result of an impact analysis: the affected days, numbers and readers, and the records concerned."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    import pyarrow as pa

    from lakehouse.impact.affected_periods import Affected, PublishedRevision


@dataclass(frozen=True)
class ConcernedRecords:
    """The records of a file, a key or a decision, as the key for a search elsewhere.

    :param keys: the record keys; None if the keys of ``ingestions`` have not been read yet.
    :param ingestions: the ids of an ingested file.
    :param values: the values of a file that is not in Bronze yet, by column.
    """

    keys: pa.Array | None = None
    ingestions: frozenset[str] = frozenset()
    values: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Impact:
    """The effects of a file, a key, a range of days or a decision; ``applied`` is false if they have not happened yet.

    ``rows`` counts the rows of a file by event day; ``out`` counts the rows that change nothing, by reason. ``waiting`` lists the
    days on which silver does not contain the file yet, ``lives_on`` the days on which a key is now. ``readers`` lists the
    consumers of each metric, ``models`` the metrics computed from these. ``records`` is None for a range of days, which concerns
    all records of its days.
    """

    source: str
    about: str
    applied: bool
    days: list[date]
    rows: dict[date, int] = field(default_factory=dict)
    out: dict[str, int] = field(default_factory=dict)
    waiting: list[date] = field(default_factory=list)
    lives_on: list[date] = field(default_factory=list)
    periods: list[Affected] = field(default_factory=list)
    moved: list[PublishedRevision] = field(default_factory=list)
    readers: dict[str, list[str]] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: ConcernedRecords | None = None

    def as_json(self) -> dict[str, Any]:
        """A dictionary for JSON, without ``records``; days used as keys become text."""
        values = asdict(replace(self, records=None))
        del values["records"]
        return values | {"rows": {f"{day}": count for day, count in sorted(self.rows.items())}}
