"""The audit without Spark: following commits that delta-rs made, what can no longer be read, finding and masking rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field

from lakehouse import locations
from lakehouse.delta import change_feed, row_writer
from lakehouse.ledger import decisions, ingestions, key_log, redactions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver import audit
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.audit_reader import audit_rows, follow_audit
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.silver_log import append_to_silver

NOW = datetime(2024, 2, 10, tzinfo=timezone.utc)


def test_versions_without_a_row_are_not_read_again_for_ever(lake, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    feed_of = change_feed.feed_of

    def noted(table: DeltaTable, first: int, last: int, **options: Any) -> pa.Table:
        read.append(first)
        return feed_of(table, first, last, **options)

    monkeypatch.setattr(change_feed, "feed_of", noted)
    for number in range(12):
        append_to_silver(lake, (f"{number}", 1, 1), late=0)
    assert follow_audit(lake) == 0
    assert follow_audit(lake) == 0
    assert read == [*range(12)]
    append_to_silver(lake, ("in time", 1, 1), late=0)
    append_to_silver(lake, ("late", 1, 1))
    assert [follow_audit(lake), follow_audit(lake)] == [1, 0]
    assert read == [*range(14)]
    assert [row["event_id"] for row in audit_rows(lake)] == ["late"]


def test_content_that_was_delivered_again_has_the_arrival_day_of_its_delivery(lake) -> None:
    first, again = (
        Ingestion(
            *("events", "f1", "hash of f1", date(2024, 2, day), name, 1, None, status, "run", NOW),  # type: ignore[arg-type]
            touched_days=[date(2024, 2, 1)],
        )
        for day, name, status in ((1, "one.csv", "ingested"), (5, "two.csv", "redelivered"))
    )
    for entry in (first, again):
        ingestions.record(lake, entry)
    assert log.cause(lake, "events", {"ingestions": [first.input_id]}, []).redelivered == {}
    of_both = log.cause(lake, "events", {"ingestions": [first.input_id, again.input_id]}, [])
    assert of_both.redelivered == {"f1": date(2024, 2, 5)}


def test_versions_that_cannot_be_read_any_more_are_passed_over(lake, caplog: pytest.LogCaptureFixture) -> None:
    append_to_silver(lake, ("log cleaned", 1, 1))
    append_to_silver(lake, ("file vacuumed", 2, 1))
    append_to_silver(lake, ("there", 3, 1))
    folder = Path(locations.silver(lake, "events").address)
    DeltaTable(str(folder)).create_checkpoint()
    (folder / "_delta_log" / f"{0:020}.json").unlink()
    (vacuumed,) = (folder / "event_date=2024-02-02").glob("*.parquet")
    vacuumed.unlink()
    assert follow_audit(lake) == 1
    assert follow_audit(lake) == 0
    assert [row["event_id"] for row in audit_rows(lake)] == ["there"]
    assert "2 versions of silver/events are gone" in caplog.text


def test_other_problems_of_the_feed_are_not_passed_over(lake) -> None:
    append_to_silver(lake, ("a", 1, 1))
    (broken,) = Path(locations.silver(lake, "events").address).glob("*/*.parquet")
    broken.write_bytes(b"no Parquet")
    with pytest.raises(Exception, match="arquet"):
        follow_audit(lake)


def test_recreated_silver_is_followed_from_its_first_version(lake) -> None:
    for number in range(3):
        append_to_silver(lake, (f"{number}", 1, 1))
    assert follow_audit(lake) == 3
    Path(locations.silver(lake, "events").address).rename(lake.table("silver", "before").address)
    append_to_silver(lake, ("anew", 1, 1))
    assert follow_audit(lake) == 1
    assert follow_audit(lake) == 0


@pytest.mark.parametrize("metadata", ["by hand", "[1]", "{}"])
def test_a_commit_by_somebody_else_is_no_stumbling_block(lake, metadata: str) -> None:
    append_to_silver(lake, ("a", 1, 1))
    table = DeltaTable(locations.silver(lake, "events").address)
    table.delete("record_key = 'a'", commit_properties=CommitProperties(custom_metadata={"userMetadata": metadata}))
    assert follow_audit(lake) == 2
    assert [(row["action_type"], row["runner_id"], row["actor"]) for row in audit_rows(lake)] == [
        ("late_merge", "run", "shop"),
        ("backfill", None, "lakehouse"),
    ]


def test_a_key_that_is_on_a_day_twice_has_a_row_for_each(lake) -> None:
    append_to_silver(lake, ("twice", 1, 1), ("twice", 1, 1), ("twice", 1, 2))
    append_to_silver(lake, ("twice", 1, 1))
    assert follow_audit(lake) == 4
    found = audit_rows(lake)
    assert len({row["audit_id"] for row in found}) == 4
    assert sorted(row["new_value"]["amount"] for row in found) == [1, 1, 1, 2]


def test_a_column_that_silver_got_later_is_empty_before(lake) -> None:
    append_to_silver(lake, ("a", 1, 1))
    table = DeltaTable(locations.silver(lake, "events").address)
    table.alter.add_columns([Field("colour", "string")])
    table.update(new_values={"amount": "2"})
    assert follow_audit(lake) == 2
    first, second = audit_rows(lake)
    assert first["new_value"]["colour"] is None
    assert (second["original_value"], second["new_value"]) == ({"amount": 1}, {"amount": 2})


def test_lateness_is_expected_by_event_type(lake) -> None:
    bounds = {"expected": "P1D", "by": {"column": "amount", "values": {"7": {"expected": "P9D"}}}}
    append_to_silver(lake, ("patient", 1, 7), ("late", 1, 1))
    assert audit.follow(lake, contract(lateness=bounds), []) == 1
    assert [row["event_id"] for row in audit_rows(lake)] == ["late"]


def test_a_commit_records_the_decisions_of_stewards_by_key(lake) -> None:
    taken = [Decision("file", line, f"decided {line}", "accept", "anna", "seen", NOW) for line in (2, 3)]
    decision_id = decisions.record(lake, "events", taken)
    claims = [("file", 2, "decided 2"), ("file", 2, "corrected by 2"), ("file", 4, "next line"), ("other", 2, "other file")]
    said = [{"ingestion_id": file, "line_number": line, "record_key": key} for file, line, key in claims]
    row_writer.append(locations.key_log(lake, "events"), pa.Table.from_pylist(said, schema=key_log.SCHEMA))
    hidden = Redaction("hidden", ["amount"], "dana", "asked for it", NOW, redaction_id="redaction:1")

    def actions(*ids: str, **why: str) -> dict[str, str | None]:
        cause = log.cause(lake, "events", {"ingestions": ids, **why}, [hidden])
        keys = ("decided 2", "decided 3", "corrected by 2", "next line", "other file", "hidden")
        rulings = {key: cause.of_keys.get(key, cause.of_others) for key in keys}
        return {key: ruling and ruling.action for key, ruling in rulings.items()}

    decided = dict.fromkeys(["decided 2", "decided 3", "corrected by 2"], "steward")
    others = dict.fromkeys(["next line", "other file", "hidden"])
    assert actions("file", decision_id) == {**decided, **others}
    assert actions("file", "redaction:1") == {**dict.fromkeys([*decided, *others]), "hidden": "redaction"}
    assert set(actions(decision_id).values()) == {"steward"}, "with a row comes its day, under the policies that overwrite"
    assert set(actions("operation:1", "file", operation="bug_replay").values()) == {"replay"}
    assert set(actions("operation:1", operation="backfill").values()) == set(actions().values()) == {"backfill"}


def test_rows_are_found_by_day_key_actor_action_and_time(lake) -> None:
    lake.settings.now = NOW
    append_to_silver(lake, ("a", 1, 1), ('"event_date": "2024-02-09"', 2, 1))
    follow_audit(lake)
    lake.settings.now = NOW + timedelta(days=1)
    append_to_silver(lake, ("c", 3, 1), ingestions=[], by="ben", reason="lost disk", operation="backfill")
    follow_audit(lake)

    def event_ids(**filters: Any) -> list[str]:
        return [row["event_id"] for row in audit_rows(lake, **filters)]

    assert event_ids() == ['"event_date": "2024-02-09"', "a", "c"]
    assert event_ids(day=date(2024, 2, 1)) == ["a"]
    assert event_ids(day=date(2024, 2, 9)) == []
    assert (
        event_ids(key="c")
        == event_ids(actor="ben")
        == event_ids(action="backfill")
        == event_ids(since=NOW + timedelta(hours=1))
        == ["c"]
    )
    assert event_ids(key="c", actor="shop") == []
    assert log.read(lake, "others").to_pylist() == []


def test_values_redacted_while_the_audit_is_written_are_masked_afterwards(lake, monkeypatch: pytest.MonkeyPatch) -> None:
    append_to_silver(lake, ("a", 1, 4711), ("b", 1, 4711))
    append = log.append

    def redacted_meanwhile(*arguments: Any) -> int:
        entry = Redaction("a", ["amount"], "dana", "asked for it", NOW, touched_days=[date(2024, 2, 1)])
        redactions.record(lake, "events", entry)
        assert audit.erase(lake, "events") == 0, "there is no row yet"
        return append(*arguments)

    monkeypatch.setattr(log, "append", redacted_meanwhile)
    assert follow_audit(lake) == 2
    assert {row["event_id"]: row["new_value"]["amount"] for row in audit_rows(lake)} == {"a": "[redacted]", "b": 4711}
    stored = {row["event_id"]: row["new_value"] for row in locations.audit_log(lake).read().to_pylist()}
    assert ("4711" in stored["a"], "4711" in stored["b"]) == (False, True)
    version = DeltaTable(locations.audit_log(lake).address).version()
    assert audit.erase(lake, "events") == 0
    assert DeltaTable(locations.audit_log(lake).address).version() == version
