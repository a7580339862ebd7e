"""The rules on sets of rows give what the same rules give row by row (``support.row_by_row``), for generated histories."""

from __future__ import annotations

from dataclasses import astuple
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dispositions import checks, claims, judged_rows, judgement_history, winners
from lakehouse.ledger import key_log
from lakehouse.ledger.ids import row_id_of
from lakehouse.text import format_duration
from lakehouse_tests.support import row_by_row
from lakehouse_tests.support.claim_histories import DAYS, FILES, KEYS, NOON, ClaimHistory, claim_histories
from lakehouse_tests.support.disposed_claims import ordered_by_file, outcomes_of
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.ids import RowId

DECIDED = pa.schema(
    [("ingestion_id", pa.string()), ("line_number", pa.int64()), ("verdict", pa.string()), ("about_file", pa.bool_())]
)


# Admission ------------------------------------------------------------------------------------------------------------

#: Many are just beyond a watermark, so that rows of a set share a case, or nearly do.
SPANS = st.one_of(
    st.sampled_from([timedelta(days=8, seconds=second) for second in (0, 1, 1.5, 59, 60, 61, 119, 3600, 3601, 3660)]),
    st.timedeltas(timedelta(days=-2), timedelta(days=12)),
    st.sampled_from([timedelta(days=day, seconds=second) for day in (0, 1, 7) for second in (-1, 0, 1, 59, 60, 3600, 3660)]),
)
LATENESS: dict[str, Any] = {
    "watermark": "P7D",
    "beyond": "drop",
    "changes": [{"since": "2024-01-02", "watermark": "P1D"}, {"since": "2024-01-03", "watermark": "PT0S"}],
    "by": {
        "column": "amount",
        "values": {"1": {"watermark": "P2D", "beyond": "quarantine"}, "2": {"beyond": "restate"}, "3": {"watermark": "PT6H"}},
    },
}
RULES = [{"name": f"{severity}s", "sql": "true", "severity": severity} for severity in ("warn", "quarantine", "reject")]


@st.composite
def bronze_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for line in range(draw(st.integers(0, 12))):
        arrival = NOON + draw(st.timedeltas(timedelta(0), timedelta(days=3)))
        clock = draw(st.sampled_from(["both", "both", "both", "day", "none"]))
        event = arrival - draw(SPANS)
        rows.append(
            dict.fromkeys([*key_log.BRONZE_COLUMNS, "source_file"])
            | {
                "ingestion_id": draw(st.sampled_from(FILES)),
                "line_number": line,
                "arrival_ts": arrival,
                "arrival_date": draw(st.sampled_from(DAYS)),
                "event_ts": event if clock == "both" else None,
                "event_date": event.date() if clock != "none" else None,
                "amount": draw(st.sampled_from([None, 1, 2, 3, 4])),
                "change_op": draw(st.sampled_from(["insert", "delete"])),
                "malformed_reason": draw(st.sampled_from([None, None, None, "no number"])),
                "failed": draw(
                    st.just([]) | st.just([]) | st.lists(st.sampled_from([rule["name"] for rule in RULES]), unique=True)
                ),
            }
        )
    return rows


@law(400, in_each_run=80, shrinks=True)
@given(bronze_rows(), st.sampled_from([{}, {"watermark": "P1D"}, {"watermark": "P1D", "beyond": "quarantine"}, LATENESS]))
def test_a_set_of_rows_is_judged_like_each_of_them(rows: list[dict[str, Any]], lateness: dict[str, Any]) -> None:
    source = contract(
        lateness=lateness,
        quality={"row_rules": RULES},
        clocks={"event": "event_time", "arrival": "arrived_at", "timezone": "Europe/Berlin"},
    )
    kinds = {field.name: field.type for field in key_log.SCHEMA} | {"event_ts": pa.timestamp("us", "UTC"), "amount": pa.int32()}
    names = judged_rows.columns_to_judge(source)
    table = pa.table(
        {name: pa.array([row[name] for row in rows], kinds.get(name, pa.string())) for name in names}
        | {
            judged_rows.failure_column(rule["name"]): pa.array(
                [rule["name"] in row["failed"] or None for row in rows], pa.bool_()
            )
            for rule in RULES
        }
    )
    failed = {(row["ingestion_id"], row["line_number"]): [r["name"] for r in RULES if r["name"] in row["failed"]] for row in rows}
    found = judged_rows.judged(source, table)
    assert found.select(key_log.JUDGED).to_pylist() == row_by_row.judged(source, rows, failed)
    assert found.column_names == [*key_log.BRONZE_COLUMNS, *key_log.JUDGED, "happened_at", "is_skewed", "is_marker"]
    assert key_log.claims(found).schema == key_log.SCHEMA


@given(st.lists(st.integers(0, 400 * 86_400) | st.integers(0, 90_000)))
def test_durations_with_one_text_are_told_by_what_it_shows(seconds: list[int]) -> None:
    shown = judged_rows._shown_seconds(pa.array(seconds, pa.int64()).to_numpy())
    texts = [format_duration(timedelta(seconds=one)) for one in seconds]
    assert [format_duration(timedelta(seconds=int(one))) for one in shown] == texts
    assert len(set(shown)) == len(set(texts))


# Dispositions ---------------------------------------------------------------------------------------------------------


def decisions_table(decided: dict[RowId, Decision]) -> pa.Table:
    rows = [
        {"ingestion_id": row[0], "line_number": row[1], "verdict": decision.verdict.value, "about_file": decision.about_file}
        for row, decision in decided.items()
    ]
    return pa.Table.from_pylist(rows, schema=DECIDED)


def contents(content: dict[RowId, Any]) -> Any:
    """The content of claims as numbers, as the product computes them for rows of Bronze."""
    values = list(content.values())
    kinds = (pa.string(), pa.float64(), pa.string())
    table = pa.table({f"{place}": pa.array([says[place] for says in values], kind) for place, kind in enumerate(kinds)})
    numbers = dict(zip(content, winners.content_numbers(table).to_pylist()))

    def of_claims(rows: pa.Table) -> pa.Array:
        ids = zip(rows["ingestion_id"].to_pylist(), rows["line_number"].to_pylist())
        return pa.array([numbers[row_id] for row_id in ids], pa.int64())

    return of_claims


@law(400, in_each_run=50, shrinks=True)
@given(claim_histories())
def test_a_set_of_claims_is_disposed_of_like_its_rows_one_by_one(history: ClaimHistory) -> None:
    policy, log, decided, content = history.policy, history.log, history.decided, history.content
    table = ordered_by_file(pa.Table.from_pylist(log, schema=key_log.SCHEMA), history.again)
    table = claims.with_decisions(table, decisions_table(decided))
    shares = claims.shares(table, history.delivered)
    expected_shares = row_by_row.shares(log, decided, history.delivered)
    assert {day: sorted(map(astuple, of_day)) for day, of_day in shares.items()} == {
        day: sorted(map(astuple, of_day)) for day, of_day in expected_shares.items()
    }
    chosen = policy.choose(shares, DAYS)
    assert chosen == policy.choose(expected_shares, DAYS)
    found = winners.dispositions(table, policy, chosen, contents(content))
    assert found.schema == winners.SCHEMA
    expected = row_by_row.outcomes(policy, log, decided, chosen, content, history.again)
    assert outcomes_of(found) == expected
    parts = [table.filter(pc.equal(table["record_key"], key)) for key in KEYS]
    by_key = pa.concat_tables([winners.dispositions(part, policy, chosen, contents(content)) for part in parts])
    assert outcomes_of(by_key) == expected, "any part that is complete for its keys gives the same"


@given(claim_histories())
def test_the_checks_count_a_set_of_claims_like_its_rows(history: ClaimHistory) -> None:
    log = history.log
    assert checks.judgement_counts(pa.Table.from_pylist(log, schema=key_log.SCHEMA)) == row_by_row.judgement_counts(log)


JUDGEMENTS = st.fixed_dictionaries(
    {
        "standing": st.sampled_from(["admitted", "rejected"]),
        "failed_rules": st.sampled_from([None, [], ["r"], ["r", "q"]]),
        "beyond": st.booleans(),
    }
)


@law(200, in_each_run=40)
@given(claim_histories(), st.data())
def test_the_claims_that_are_judged_otherwise_are_those_of_rows_judged_otherwise(history: ClaimHistory, data: Any) -> None:
    judgements = {row_id_of(row): data.draw(st.just({}) | JUDGEMENTS) for row in history.log}
    again = [row | judgements[row_id_of(row)] for row in history.log]
    recorded = [row for row in history.log if row["kind"] != "retire" and row["event_date"] is not None]
    tables = [pa.Table.from_pylist(rows, schema=key_log.SCHEMA) for rows in (recorded, again)]
    assert judgement_history.judged_otherwise(*tables).to_pylist() == row_by_row.judged_otherwise(recorded, again)
