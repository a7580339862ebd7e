"""What was known of a key at a moment, against a plain model; for keys with deletes and without."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.training_sets.records import known_values

START = datetime(2024, 2, 1, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        ("dimension_key", pa.string()),
        ("kind", pa.string()),
        ("event_ts", pa.timestamp("us", "UTC")),
        ("known_from", pa.timestamp("us", "UTC")),
        ("source_sequence", pa.int64()),
        ("source_order", pa.string()),
        ("ordered_at", pa.timestamp("us", "UTC")),
        ("delivery", pa.int64()),
        ("line_number", pa.int64()),
        ("tier", pa.string()),
    ]
)
Record = dict[str, Any]


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from("ab"), st.integers(0, 5), st.integers(0, 5), st.sampled_from(["insert", "insert", "delete"])
            ),
            max_size=8,
        )
    )
    return [
        {
            "dimension_key": key,
            "kind": kind,
            "event_ts": at(event),
            "known_from": at(known),
            "source_sequence": None,
            "source_order": None,
            "ordered_at": at(known),
            "delivery": 1,
            "line_number": line,
            "tier": f"{line}",
        }
        for line, (key, event, known, kind) in enumerate(drawn)
    ]


def by_model(history: list[Record], key: str, moment: datetime) -> str | None:
    about: dict[datetime, Record] = {}
    for record in history:
        if record["dimension_key"] == key and record["known_from"] <= moment and record["event_ts"] <= moment:
            newest = about.get(record["event_ts"])
            order = (record["ordered_at"], record["line_number"])
            if newest is None or order > (newest["ordered_at"], newest["line_number"]):
                about[record["event_ts"]] = record
    held = [record for record in about.values() if record["kind"] != "delete"]
    return max(held, key=lambda record: record["event_ts"])["tier"] if held else None


@given(history=records())
@pytest.mark.parametrize("deletes", [True, False])
def test_at_each_moment_the_value_is_that_of_the_model(history: list[Record], deletes: bool) -> None:
    history = [record for record in history if deletes or record["kind"] != "delete"]
    moments = known_values(pa.Table.from_pylist(history, schema=SCHEMA)).to_pylist()
    for key in "ab":
        for hour in range(7):
            begun = [row for row in moments if row["dimension_key"] == key and row["from_ts"] <= at(hour)]
            last = max(begun, key=lambda row: row["from_ts"], default=None)
            value = last["tier"] if last is not None and last["kind"] is not None else None
            assert value == by_model(history, key, at(hour))


@given(history=records())
def test_moments_of_a_key_differ_and_follow_each_other(history: list[Record]) -> None:
    moments = known_values(pa.Table.from_pylist(history, schema=SCHEMA))
    pairs = list(zip(moments["dimension_key"].to_pylist(), moments["from_ts"].to_pylist()))
    assert len(pairs) == len(set(pairs))
    for key in "ab":
        moments = [moment for other, moment in pairs if other == key]
        assert moments == sorted(moments)
