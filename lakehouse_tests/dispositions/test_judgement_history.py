"""Admission statuses that an operation replaces can be restored: each state by the operations that it knew."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.dispositions import judgement_history
from lakehouse.ledger import key_log, rebuild_requests
from lakehouse.ledger.rebuild_requests import RebuildRequest

if TYPE_CHECKING:
    from lakehouse.lake import Lake

NOW = datetime(2024, 3, 1, tzinfo=timezone.utc)


def claims(standing: str | None, *lines: int, **more: Any) -> pa.Table:
    plain = {"record_key": "a", "kind": "insert", "ingestion_id": "file", "standing": standing, "failed_rules": ["r"]} | more
    rows = [dict.fromkeys(key_log.SCHEMA.names) | plain | {"line_number": line} for line in lines]
    return pa.Table.from_pylist(rows, schema=key_log.SCHEMA)


def operation(minute: int) -> RebuildRequest:
    day = date(2024, 1, 1)
    at = NOW + timedelta(minutes=minute)
    said = {"source": "s", "operation": "bug_replay", "reason": "why", "runner_id": "anna", "recorded_at": at}
    versions = {"code_before": None, "code_after": "1", "contract_before": None, "contract_after": "2"}
    return RebuildRequest(first_day=day, last_day=day, **said, **versions)  # type: ignore[arg-type]


def judge(lake: Lake, minute: int, judged: pa.Table) -> tuple[str, str]:
    """As a rebuild does: record, keep the earlier claims, overwrite, record again."""
    entry = operation(minute)
    first = rebuild_requests.record(lake, entry)
    judgement_history.record(lake, "s", first, judged, NOW)
    row_writer.upsert(locations.key_log(lake, "s"), judged, judgement_history.CLAIM)
    return first, rebuild_requests.record(lake, replace(entry, attempt=2))


def put_back(lake: Lake, *ids: str) -> dict[int, str | None]:
    return {row["line_number"]: row["standing"] for row in judgement_history.as_of(lake, "s", ids).to_pylist()}


def test_nothing_is_put_back_where_nothing_was_overruled(lake) -> None:
    found = judgement_history.as_of(lake, "s", set())
    assert len(found) == 0
    assert found.schema == key_log.SCHEMA


def test_each_claim_is_as_before_the_first_operation_that_is_not_known(lake) -> None:
    row_writer.append(locations.key_log(lake, "s"), claims("first", 2, 3, 4))
    one, again = judge(lake, 1, claims("second", 2, 3))
    two, _ = judge(lake, 2, claims("third", 3, 4))
    assert put_back(lake) == {2: "first", 3: "first", 4: "first"}
    assert put_back(lake, one) == {3: "second", 4: "first"}
    assert put_back(lake, again) == {3: "second", 4: "first"}, "both records of an operation are one judging"
    assert put_back(lake, again, two) == {}
    assert put_back(lake, "decision:1", "file") == {2: "first", 3: "first", 4: "first"}


def test_all_that_a_claim_held_is_kept(lake) -> None:
    row_writer.append(locations.key_log(lake, "s"), claims("first", 2, arrival_ts=NOW, event_date=date(2024, 1, 1), beyond=True))
    judge(lake, 1, claims("second", 2))
    before = claims("first", 2, arrival_ts=NOW, event_date=date(2024, 1, 1), beyond=True)
    assert judgement_history.as_of(lake, "s", set()).to_pylist() == before.to_pylist()


def test_a_claim_that_did_not_exist_is_restored_without_a_status(lake) -> None:
    row_writer.append(locations.key_log(lake, "s"), claims("first", 2))
    judge(lake, 1, claims("second", 2, 3))
    assert put_back(lake) == {2: "first", 3: None}


def test_the_same_operation_keeps_what_it_found_once(lake) -> None:
    row_writer.append(locations.key_log(lake, "s"), claims("first", 2))
    operation_id = rebuild_requests.record(lake, operation(1))
    for _ in range(2):  # stopped in front of the key log, and run again
        judgement_history.record(lake, "s", operation_id, claims("second", 2), NOW)
    assert len(locations.judgement_history(lake, "s").read()) == 1
    row_writer.upsert(locations.key_log(lake, "s"), claims("second", 2), judgement_history.CLAIM)
    judgement_history.record(lake, "s", operation_id, claims("second", 2), NOW)
    assert put_back(lake) == {2: "first"}


def test_two_kinds_of_claim_of_a_row_are_two(lake) -> None:
    both = pa.concat_tables([claims("first", 2), claims("first", 2, kind="retire", record_key="b")])
    row_writer.append(locations.key_log(lake, "s"), both)
    judge(lake, 1, claims("second", 2))
    found = judgement_history.as_of(lake, "s", set()).to_pylist()
    assert [(row["record_key"], row["kind"]) for row in found] == [("a", "insert")]
