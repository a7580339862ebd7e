"""Generated change feeds of a commit to silver, and everything that the audit of a commit depends on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from lakehouse.contracts.metric import MetricContract
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.lateness import historical_rows
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver.audit_log import Cause
from lakehouse.silver.audit_rows import AuditedCommit
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
KEYS = ["a", "b", "c", '"quoted"\n', "ä"]
DAYS = [date(1, 1, 1), date(2024, 1, 31), date(2024, 2, 1), date(2024, 2, 2)]
ARRIVALS = [date(2024, 2, 1), date(2024, 2, 2), date(2024, 2, 3)]
TYPES = ["string", "int", "bigint", "double", "boolean", "date", "timestamp", "decimal(12,2)", "decimal(20,10)"]
#: Few values of each column, so that rows are often equal.
VALUES: dict[str, list[Any]] = {
    "string": [None, "", "null", "plain", 'with "quotes" \\ and \x00\x1f\t\n', "ä€😀\x7f", "E"],
    "int": [None, 0, -7, 2**31 - 1],
    "bigint": [None, 0, 2**60],
    "double": [None, 0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 123456789012345.0, 1e-4, 9.9e-5, 1e300, float("nan"), float("-inf")],
    "boolean": [None, True, False],
    "date": [None, date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    "timestamp": [None, NOON, NOON.replace(microsecond=1), NOON.replace(second=5, microsecond=500_000), NOON.replace(year=1)],
    "decimal(12,2)": [None, Decimal("0.00"), Decimal("-12.50"), Decimal("9999999999.99")],
    "decimal(20,10)": [None, Decimal(0).scaleb(-10), Decimal("0.0000000001"), Decimal("1.5")],
}
SPANS = [timedelta(0), timedelta(seconds=59), timedelta(hours=1, seconds=5), timedelta(days=1), timedelta(days=1, minutes=3)]
SPANS += [timedelta(days=1, microseconds=1), timedelta(days=3, hours=2, minutes=9), timedelta(days=-2), timedelta(days=40)]
METRICS = [
    MetricContract.model_validate(
        {
            "metric": name,
            "source": "events",
            "window": window,
            "measures": [{"name": "n", "sql": "count(*)", "type": "long"}],
            "publication": {"rollups": rollups},
        }
    )
    for name, window, rollups in (("daily", 1, ["month"]), ("trailing", 3, []))
]
EXPECTED: list[dict[str, Any]] = [
    {"expected": "P1D"},
    {"expected": "PT0S"},
    {
        "expected": "P1D",
        "by": {"column": "change_op", "values": {"correct": {"expected": "PT1H"}, "insert": {"expected": "P3D"}}},
    },
    {"expected": "P1D", "by": {"column": "c_double", "values": {"0.0": {"expected": "PT0S"}, "-0.0": {"expected": "P9D"}}}},
]
COLUMNS = {kind: "c_" + kind.translate(str.maketrans("(,", "__", ")")) for kind in TYPES}
SOURCES: list[SourceContract] = [
    contract(
        lateness=lateness,
        model={"fields": [{"name": "id", "type": "string"}, *({"name": name, "type": kind} for kind, name in COLUMNS.items())]},
    )
    for lateness in EXPECTED
]


@dataclass(frozen=True)
class AuditCase:
    """A change feed, and the commit that it belongs to."""

    feed: pa.Table
    commit: AuditedCommit


@st.composite
def feed_rows(draw: st.DrawFn) -> dict[str, Any]:
    key, day = draw(st.sampled_from(KEYS)), draw(st.sampled_from(DAYS))
    clock = None if draw(st.booleans()) else datetime(day.year, day.month, day.day, 8, tzinfo=timezone.utc)
    base = clock or datetime(day.year, day.month, day.day, tzinfo=timezone.utc) + timedelta(days=1)
    optional = st.sampled_from([None, None, "", "cem"])
    # Two of the typed columns vary: rows of one key and day are equal now and then.
    varied = draw(st.lists(st.sampled_from(TYPES), max_size=2, unique=True))
    return {
        "record_key": key,
        "id": key,
        **{COLUMNS[kind]: draw(st.sampled_from(VALUES[kind])) for kind in varied},
        "event_ts": clock,
        "event_date": day,
        "source_system": draw(st.sampled_from(["shop", None])),
        "arrival_ts": max(base + draw(st.sampled_from(SPANS)), datetime(1, 1, 1, tzinfo=timezone.utc)) if day.year > 1 else NOON,
        "change_op": draw(st.sampled_from([None, "insert", "correct"])),
        "arrival_date": draw(st.sampled_from(ARRIVALS)),
        "ingestion_id": (file := draw(st.sampled_from("ab"))),
        "source_file": f"{file}.csv",
        "corrected_by": draw(optional),
        "correction_reason": draw(optional),
        "_change_type": draw(st.sampled_from(["insert", "delete", "update_preimage", "update_postimage"])),
    }


@st.composite
def change_feeds(draw: st.DrawFn) -> pa.Table:
    """Feeds in which a key is on a day several times, before and after, also with equal content."""
    rows = draw(st.lists(feed_rows(), max_size=25))
    again = draw(st.lists(st.sampled_from(rows), max_size=8)) if rows else []
    kinds = st.sampled_from(["insert", "delete"])
    rows = [*rows, *(row | {"_change_type": draw(kinds)} for row in again)]
    schema = arrow_schema(silver_columns(SOURCES[0])).append(pa.field("_change_type", pa.string()))
    table = pa.Table.from_pylist(draw(st.permutations(rows)), schema=schema)
    cut = draw(st.integers(0, len(rows)))  # delta-rs returns a feed in several chunks
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@st.composite
def causes(draw: st.DrawFn) -> Cause:
    decided = {
        key: Decision("file", 2, key, "accept", "anna", f"seen {key}", NOON)
        for key in draw(st.lists(st.sampled_from([*KEYS, "other"]), max_size=2, unique=True))
    }
    hidden = {
        key: Redaction(key, ["id"], "dana", "asked for it", NOON, redaction_id="redaction:1")
        for key in draw(st.lists(st.sampled_from([*KEYS, "other"]), max_size=1))
    }
    by_hand: dict[str, str] = draw(st.sampled_from([{}, {"by": "ben", "reason": "lost disk"}]))
    operation: dict[str, str] = draw(st.sampled_from([{}, {}, {"operation": "bug_replay"}, {"operation": "backfill"}]))
    ingestions = draw(st.sampled_from([frozenset[str](), frozenset(["x"]), frozenset(["x"])]))
    return Cause({"run_id": draw(st.none() | st.just("run")), **by_hand, **operation}, ingestions, decided, hidden)


def first_arrivals() -> st.SearchStrategy[pa.Table]:
    """The arrival day that first brought each event day; not of all event days of a feed."""
    firsts = st.dictionaries(st.sampled_from(DAYS), st.sampled_from(ARRIVALS))
    return firsts.map(
        lambda days: pa.Table.from_pydict(
            {"event_date": list(days), "arrival_date": list(days.values())}, schema=historical_rows.FIRST_ARRIVALS
        )
    )


NO_HISTORY = st.just(historical_rows.FIRST_ARRIVALS.empty_table())


@st.composite
def audit_cases(draw: st.DrawFn, firsts: st.SearchStrategy[pa.Table] | None = None) -> AuditCase:
    """:param firsts: by default, some event days are history."""
    names = ["id", "event_ts", "event_date", "no column", *COLUMNS.values()]
    redacted = st.builds(
        Redaction,
        st.sampled_from([*KEYS, "other"]),
        st.lists(st.sampled_from(names), min_size=1, max_size=3),
        st.just("dana"),
        st.just("asked for it"),
        st.just(NOON),
    )
    commit = AuditedCommit(
        draw(st.sampled_from(SOURCES)),
        draw(st.sampled_from([[], METRICS])),
        draw(causes()),
        draw(st.lists(redacted, max_size=3)),
        draw(st.integers(0, 10**6)),
        NOON,
        draw(first_arrivals() if firsts is None else firsts),
    )
    return AuditCase(draw(change_feeds()), commit)
