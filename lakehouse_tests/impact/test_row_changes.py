"""The row changes that moved a number, on a silver table with a change feed that delta-rs wrote. No Spark."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import change_feed, row_writer
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.impact import row_changes
from lakehouse.impact.row_changes import Behind
from lakehouse.ledger import redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver import audit_log
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake, Table

SOURCE = contract()
ONE, TWO = date(2024, 1, 1), date(2024, 1, 2)
FEED = {"delta.enableChangeDataFeed": "true"}
WHEN = datetime(2024, 1, 3, 8, tzinfo=timezone.utc)


def row(key: str, amount: int, day: date = ONE, line: int = 0) -> dict[str, Any]:
    said = {"record_key": key, "id": key, "amount": amount, "event_date": day, "arrival_ts": WHEN, "source_system": "shop"}
    return said | {
        "event_ts": datetime.combine(day, datetime.min.time(), timezone.utc),
        "source_file": "a.csv",
        "line_number": line,
    }


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(silver_columns(SOURCE)))


@pytest.fixture(name="lake")
def _settings(tmp_path: Path) -> Lake:
    """Version 0 has four rows; 1 corrects one twice over with 2, moves one, ends one and brings one."""
    lake = lake_in(tmp_path)
    stored = locations.silver(lake, "events")
    first = table(row("a", 1), row("b", 2), row("c", 3), row("d", 4))
    write_deltalake(stored.address, first, partition_by=["event_date"], configuration=FEED)
    DeltaTable(stored.address).delete("record_key = 'c'")
    merged(stored, row("a", 10, line=5), row("b", 2), row("e", 7, line=6))
    DeltaTable(stored.address).delete("record_key = 'd'")
    write_deltalake(stored.address, table(row("d", 4, TWO, 8)), mode="append")
    merged(stored, row("a", 11, line=7))
    return lake


def merged(path: Table, *rows: dict[str, Any]) -> None:
    merge = DeltaTable(path.address).merge(table(*rows), "s.record_key = t.record_key", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def change_lines(lake: Lake, days: set[date], first: int = 1, last: int = 5, most: int = 100) -> list[tuple[Any, ...]]:
    found = row_changes.rows(lake, SOURCE, days, first, last, most)
    assert found.known
    assert found.total >= len(found.rows)
    return [(one.key, one.day, one.what, dict(one.fields), one.line_number) for one in found.rows]


def test_what_happened_to_each_row(lake: Lake) -> None:
    assert change_lines(lake, {ONE}) == [
        ("a", ONE, "corrected", {"amount": (1, 11)}, 7),
        ("c", ONE, "deleted", {"amount": (3, None), "event_ts": (row("c", 3)["event_ts"], None)}, 0),
        ("e", ONE, "inserted", {"amount": (None, 7), "event_ts": (None, row("e", 7)["event_ts"])}, 6),
        ("d", ONE, "moved_out", {"amount": (4, None), "event_ts": (row("d", 4)["event_ts"], None)}, 0),
    ]
    assert [line[:3] for line in change_lines(lake, {TWO})] == [("d", TWO, "moved_in")]
    assert [line[:3] for line in change_lines(lake, {ONE}, 5, 5)] == [("a", ONE, "corrected")]
    assert change_lines(lake, {date(2024, 1, 9)}) == []


def test_all_are_counted_and_some_listed(lake: Lake) -> None:
    found = row_changes.rows(lake, SOURCE, {ONE}, 1, 5, 2)
    assert (len(found.rows), found.total) == (2, 4)


def test_what_was_redacted_stays_hidden(lake: Lake) -> None:
    for key in ("a", "c"):
        redactions.record(lake, "events", Redaction(key, ["amount"], "dpo", "asked", WHEN))
    found = {line[0]: line[3] for line in change_lines(lake, {ONE})}
    assert found["a"] == {"amount": (audit_log.REDACTED, audit_log.REDACTED)}
    assert found["c"]["amount"] == (audit_log.REDACTED, None)
    assert found["e"]["amount"] == (None, 7)


def test_the_audit_names_the_reason(lake: Lake) -> None:
    said = {"source": "events", "event_id": "a", "silver_version": 5, "reason": "typing error", "actor": "till 4"}
    rows = pa.Table.from_pylist([said, said | {"event_id": "e", "silver_version": 9, "reason": "later"}], schema=audit_log.SCHEMA)
    row_writer.append(locations.audit_log(lake), rows, partition_by=["source"])
    found = {one.key: (one.because, one.by) for one in row_changes.rows(lake, SOURCE, {ONE}, 1, 5, 9).rows}
    assert found["a"] == ("typing error", "till 4")
    assert found["e"] == (None, None)


def test_changes_that_the_feed_no_longer_has(lake: Lake, tmp_path: Path) -> None:
    assert not row_changes.rows(lake, SOURCE, {ONE}, 6, 9, 9).known, "versions that are not there"
    assert not row_changes.rows(empty_lake(tmp_path), SOURCE, {ONE}, 1, 5, 9).known
    for file in (tmp_path / "lake" / "silver" / "events" / "_change_data").rglob("*.parquet"):
        file.unlink()
    assert not row_changes.rows(lake, SOURCE, {ONE}, 1, 5, 9).known


def test_where_silver_did_not_move_no_row_did(lake: Lake) -> None:
    assert row_changes.rows(lake, SOURCE, {ONE}, 6, 5, 9) == Behind(), "the same version twice: a replay, a promotion"
    assert row_changes.rows(lake, SOURCE, {ONE}, 6, 2, 9) == Behind(), "back to an earlier one"


def test_other_days_are_not_read(lake: Lake, tmp_path: Path) -> None:
    """A correction is found even if the change feed of all other days is missing."""
    stored = locations.silver(lake, "events")
    write_deltalake(stored.address, table(*(row(f"o{number}", number, TWO) for number in range(9))), mode="append")
    merged(stored, row("a", 12, line=9))
    for file in (tmp_path / "lake" / "silver" / "events").rglob(f"event_date={TWO}/*.parquet"):
        file.unlink()
    assert change_lines(lake, {ONE}, 6, 7) == [("a", ONE, "corrected", {"amount": (11, 12)}, 9)]


def test_answers_are_remembered_without_redacted_values(lake: Lake, tmp_path: Path) -> None:
    before = change_lines(lake, {ONE})
    for file in (tmp_path / "lake" / "silver" / "events" / "_change_data").rglob("*.parquet"):
        file.unlink()
    assert change_lines(lake, {ONE}) == before
    redactions.record(lake, "events", Redaction("a", ["amount"], "dpo", "asked", WHEN))
    assert change_lines(lake, {ONE})[0][3] == {"amount": (audit_log.REDACTED, audit_log.REDACTED)}


@pytest.mark.merge
@examples(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from([None, 0, 1, 2]), st.integers(1, 2)), min_size=1, max_size=8
    ),
    offsets=st.sets(st.integers(0, 2), min_size=1),
)
def test_moves_on_some_days_are_those_among_all(steps: list[tuple[str, int | None, int]], offsets: set[int]) -> None:
    """Each step puts a key on a day with an amount, or takes it away."""
    with TemporaryDirectory() as folder:
        write_deltalake(folder, table(row("z", 1)), partition_by=["event_date"], configuration=FEED)
        for key, offset, amount in steps:
            DeltaTable(folder).delete(f"record_key = '{key}'")
            if offset is not None:
                write_deltalake(folder, table(row(key, amount, ONE + timedelta(days=offset))), mode="append")
        silver_table, days = DeltaTable(folder), {ONE + timedelta(days=offset) for offset in offsets}
        changed = changed_keys(folder, 0, silver_table.version())
        every = pa.concat_tables(
            [change_feed.KEY_CHANGES.empty_table(), *change_feed.key_changes(silver_table, 1, silver_table.version())]
        )
        assert sorted(tuple(change.values()) for change in every.to_pylist()) == changed
        on_days, feed = change_feed.key_changes_on(silver_table, days, 1, silver_table.version())
        assert [tuple(change.values()) for change in on_days.to_pylist()] == [one for one in changed if one[0] in days]
        assert set(feed["event_date"].to_pylist()) <= days


@pytest.mark.merge
@examples(max_examples=25, deadline=None)
@given(
    commits=st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=1, max_size=6), min_size=1, max_size=3
    )
)
def test_what_was_only_appended_is_told_part_by_part(commits: list[list[tuple[str, int]]]) -> None:
    """Each commit appends keys to days; a key may come to several days and twice to one."""
    with TemporaryDirectory() as folder:
        write_deltalake(folder, table(row("z", 1)), partition_by=["event_date"], configuration=FEED)
        for keys in commits:
            rows = table(*(row(key, 1, ONE + timedelta(days=offset)) for key, offset in keys))
            write_deltalake(folder, rows, mode="append")
        appended = DeltaTable(folder)
        for first in (0, 1):  # from the beginning on, the rows of the table are its feed
            (whole,) = change_feed.key_changes(appended, first, appended.version())
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(change_feed, "_PART_ROWS", 1)
                parts = list(change_feed.key_changes(appended, first, appended.version()))
            days = {offset for keys in commits for _, offset in keys} | ({0} if first == 0 else set())
            assert len(parts) == len(days)
            told = [tuple(change.values()) for part in parts for change in part.to_pylist()]
            assert sorted(told) == sorted(tuple(change.values()) for change in whole.to_pylist())


def changed_keys(path: str, before: int, after: int) -> list[tuple[date, str, str]]:
    """What changed between two versions of a table, from its rows alone."""
    old, new = (
        Counter(
            (row["record_key"], row["event_date"], row["amount"])
            for row in DeltaTable(path, version).to_pyarrow_table().to_pylist()
        )
        for version in (before, after)
    )
    removed, added = ({place[:2] for place in one - other} for one, other in ((old, new), (new, old)))
    changes = [(day, "corrected", key) for key, day in removed & added]
    for places, others, words in (
        (removed - added, added - removed, ("moved_out", "deleted")),
        (added - removed, removed - added, ("moved_in", "inserted")),
    ):
        elsewhere = {key for key, _ in others}
        changes += [(day, words[key not in elsewhere], key) for key, day in places]
    return sorted(changes)


def empty_lake(folder: Path) -> Lake:
    (folder / "other").mkdir()
    return lake_in(folder / "other")
