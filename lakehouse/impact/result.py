"""What the analysis of an impact gives: the days, numbers and readers affected, and the records that it is about."""

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
    """The records that a file, a key or a decision is about, to search for them elsewhere.

    :param keys: the record keys; None if nobody has read those of ``ingestions`` yet.
    :param ingestions: the ids of an ingested file.
    :param values: of a file that is not in Bronze yet, by column its values.
    """

    keys: pa.Array | None = None
    ingestions: frozenset[str] = frozenset()
    values: Mapping[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Impact:
    """What a file, a key, a range of days or a decision affects; ``applied`` is false if it has not had this effect yet.

    ``rows`` counts the rows of a file by event day; ``out`` counts the rows that change nothing, by reason. ``waiting`` lists
    the days on which silver does not contain the file yet, ``lives_on`` the days on which a key is now. ``readers`` lists the
    consumers of each metric, ``models`` the metrics that are computed from one of these. ``records`` is None for days, which
    are about all of their records.
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
        """A dictionary for JSON, without ``records``; days that are keys are written as text."""
        values = asdict(replace(self, records=None))
        del values["records"]
        return values | {"rows": {f"{day}": count for day, count in sorted(self.rows.items())}}
