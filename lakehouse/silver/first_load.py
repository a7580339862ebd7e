"""Which rows of silver came as history, and the one audit row that a file has for each event day of it.

A source is *followed* from its first arrival day on. Event days before that day are its history: the arrival day that first
brings such an event day loads it, in one commit or in many, and that is no correction of anything. A row that comes to it on
another arrival day is late, as is every late row of a day since. Only the data's own days are compared (R5), so that any
grouping of runs and a replay decide the same.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from datetime import date

#: The arrival day that first brought each event day of a source.
FIRST_ARRIVALS = pa.schema([("event_date", pa.date32()), ("arrival_date", pa.date32())])
#: The rows that a file brought to an event day as history; ``late`` of them came later than the contract expects.
LOADED = pa.schema(
    [
        ("event_date", pa.date32()),
        ("ingestion_id", pa.string()),
        ("source_file", pa.string()),
        ("rows", pa.int64()),
        ("late", pa.int64()),
        ("arrival_ts", pa.timestamp("us", "UTC")),
    ]
)
_FILE_AND_DAY = ("event_date", "ingestion_id", "source_file")


def first_arrivals(claims: pa.Table) -> pa.Table:
    """The arrival day that first brought each event day, :data:`FIRST_ARRIVALS`.

    :param claims: of the key log, with ``event_date`` and ``arrival_date``: all of a source, or the result of this function for
        some and those that came since.
    """
    dated = claims.filter(pc.is_valid(claims["event_date"]))
    firsts = dated.group_by("event_date").aggregate([("arrival_date", "min")])
    return firsts.rename_columns({"arrival_date_min": "arrival_date"}).select(FIRST_ARRIVALS.names).cast(FIRST_ARRIVALS)


def are_history(rows: pa.Table, firsts: pa.Table) -> pa.Array:
    """Whether each row that was inserted into silver came as history; never NULL.

    :param rows: with ``event_date`` and ``arrival_date``.
    :param firsts: see :func:`first_arrivals`; of all event days of the source, for its first arrival day is the least of them.
    """
    followed_since = pc.min(firsts["arrival_date"])
    of_day = firsts["arrival_date"].take(pc.index_in(rows["event_date"], firsts["event_date"].combine_chunks()))
    is_first = pc.equal(rows["arrival_date"], of_day)
    return pc.fill_null(pc.and_(pc.less(rows["event_date"], followed_since), is_first), False).combine_chunks()


def loaded(rows: pa.Table) -> pa.Table:
    """What each file brought to each event day, :data:`LOADED`, in the order of days and files.

    :param rows: those that :func:`are_history`, with ``event_date``, ``ingestion_id``, ``source_file``, ``arrival_ts``, and
        whether they are ``late``.
    """
    counted = rows.append_column("is_late", rows["late"].cast(pa.int64())).group_by(_FILE_AND_DAY)
    files = counted.aggregate([([], "count_all"), ("is_late", "sum"), ("arrival_ts", "max")])
    named = files.rename_columns({"count_all": "rows", "is_late_sum": "late", "arrival_ts_max": "arrival_ts"})
    return named.select(LOADED.names).cast(LOADED).sort_by([(name, "ascending") for name in _FILE_AND_DAY])


def value_of(file: str, rows: int, late: int) -> str:
    """The ``new_value`` of an audit row about a load: its file and counts, as JSON."""
    return json.dumps({"source_file": file, "rows": rows, "late": late}, ensure_ascii=False)


def reason_of(file: str, rows: int, backfill: str | None = None) -> str:
    """The ``reason`` of an audit row about a load, or about the rows in time that a backfill brought."""
    return f"{backfill or 'first load of the day'}: {rows:,} {'row' if rows == 1 else 'rows'} of {file}"


def id_of(source: str, version: int, ingestion_id: str, day: date) -> str:
    """The ``audit_id`` of an audit row about a load, distinct from those about keys."""
    return hashlib.sha256("\n".join(["first load", source, f"{version}", ingestion_id, f"{day}"]).encode()).hexdigest()[:32]
