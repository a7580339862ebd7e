"""A dimension in a small lake, its records as files, and generated histories of them; the model is ``dimension_model``."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts.source import SourceContract
from lakehouse_tests.support.dimension_model import ONLY, DimensionRecord, ModelInterval, arrived, day
from lakehouse_tests.support.lake import content_id

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.lake import Lake
    from lakehouse_tests.support.lake import SampleLake

HEADER = "customer_id,tier,region,email,changed_at,until,arrived_at,op"
_COLUMNS = ("dimension_key", "valid_from", "valid_to", "tier", "region", "email", "ingestion_id", "line_number")


def dimension(**more: Any) -> SourceContract:
    """The contract of a dimension; :data:`HEADER` are its columns."""
    names = ("customer_id", "tier", "region", "email")
    keys: dict[str, Any] = {
        "dataset": "customers",
        "kind": "dimension",
        "primary_key": "customer_id",
        "model": {"fields": [{"name": name, "type": "string"} for name in names]},
        "source": {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"},
        "clocks": {"event": "changed_at", "arrival": "arrived_at", "max_ahead": "P999D"},
        "changes": {"op": "op"},
        "dimension": {"untracked": ["email"], "valid_to": "until", "buckets": 3},
    }
    return SourceContract.model_validate(keys | more)


def csv_line(record: DimensionRecord) -> str:
    """The line of a file for a record."""
    times = (record.at, record.until, record.arrival)
    at, until, arrival = ("" if moment is None else moment.isoformat() for moment in times)
    return f"{record.key},{record.tier or ''},{record.region or ''},{record.email or ''},{at},{until},{arrival},{record.op}"


def csv_file(records: list[DimensionRecord]) -> bytes:
    """A whole file of records."""
    return "".join(f"{line}\n" for line in (HEADER, *map(csv_line, records))).encode()


def in_file(records: list[DimensionRecord], delivered: tuple[date, str] = ONLY) -> list[DimensionRecord]:
    """The records with their places in the file that they make, which comes on an arrival day under a name."""
    name = content_id(csv_file(records))
    return [arrived(record, name, line, delivered) for line, record in enumerate(records, start=2)]


def deliver(sample: SampleLake, arrival: date, records: list[DimensionRecord], suffix: str) -> list[DimensionRecord]:
    """Deliver records in a file and bring silver and the intervals up to date.

    :returns: the records with their places.
    """
    sample.deliver(arrival, csv_file(records), f".{suffix}.csv")
    sample.ingest(arrival)
    sample.update()
    return in_file(records, (arrival, suffix))


def held_intervals(lake: Lake) -> set[ModelInterval]:
    """What the table of intervals holds; no row is there twice."""
    rows = locations.intervals(lake, "customers").read([*_COLUMNS, "is_current"])
    return as_model(rows)


def as_model(rows: Any) -> set[ModelInterval]:
    """The rows of a table of intervals as the model has them; no row is there twice."""
    if rows is None:
        return set()
    found = [ModelInterval(*values) for values in zip(*(rows[name].to_pylist() for name in _COLUMNS))]
    assert len(found) == len(set(found)), f"an interval is there twice: {found}"
    assert rows["is_current"].to_pylist() == [one.valid_to is None for one in found]
    return set(found)


def change_of(key: str, at: int, tier: str | None, arrives: int, op: str = "", until: int | None = None) -> DimensionRecord:
    """A record of the north; its mail address tells when it arrives."""
    ends = None if until is None else day(until)
    return DimensionRecord(key, day(at), op, tier, "north", f"{arrives}", ends, day(10) + timedelta(hours=arrives))


#: The second file arrived before the first and tells of earlier changes, one of them without effect; the third retracts a change,
#: deletes a key that had ended, corrects one to nothing; the second one comes again.
CORNERS = [
    [change_of("1", 2, "gold", 2), change_of("2", 0, "gold", 2, until=4), change_of('q"3', 1, "silver", 2)],
    [change_of("1", 0, "silver", 1), change_of("1", 3, "gold", 1), change_of("2", 2, "gold", 1)],
    [change_of("1", 2, None, 3, "retract"), change_of("2", 4, None, 3, "delete"), change_of('q"3', 1, None, 3, "correct")],
    [change_of("1", 0, "silver", 1), change_of("1", 3, "gold", 1), change_of("2", 2, "gold", 1)],
]


@st.composite
def dimension_records(draw: st.DrawFn) -> DimensionRecord:
    """A record about one of few keys at one of few times."""
    at = draw(st.integers(0, 5))
    op = draw(st.sampled_from(["", "", "", "insert", "correct", "delete", "retract"]))
    until = draw(st.sampled_from([None, None, 1, 2, 4]))
    return DimensionRecord(
        key=draw(st.sampled_from(["1", "2", 'q"3'])),
        at=day(at),
        op=op,
        tier=draw(st.sampled_from(["gold", "silver", None])),
        region=draw(st.sampled_from(["north", "north", "south"])),
        email=draw(st.sampled_from(["a", "b", None])),
        until=day(at + until) if until is not None and op not in ("delete", "retract") else None,
        arrival=day(10) + timedelta(hours=draw(st.integers(0, 5))),
    )


@st.composite
def dimension_files(draw: st.DrawFn, most: int = 4) -> list[list[DimensionRecord]]:
    """Files of records; one of them may come again, and their order is any."""
    records = st.lists(dimension_records(), min_size=1, max_size=4)
    files = draw(st.lists(records, min_size=1, max_size=most))
    again = draw(st.sampled_from([None, *range(len(files))]))
    return [*files, files[again]] if again is not None else files


def quoted(records: list[DimensionRecord]) -> list[DimensionRecord]:
    """The records with keys that CSV need not quote."""
    return [replace(record, key=record.key.replace('"', "")) for record in records]
