"""How days share files, against a dict of days: any target size gives the same rows, counts and changes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta import change_feed, commit_log, data_files, layout, partition_writer, row_writer
from lakehouse.delta.layout import DayFile
from lakehouse.errors import LakehouseError
from lakehouse.lake import Lake, Table, table_io, table_parts
from lakehouse.lake.delta_rs_internals import at_version, listed_files
from lakehouse.settings import Settings
from lakehouse.spark import commits as spark_commits
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law

FIRST = date(2024, 1, 1)
SCHEMA = pa.schema([("event_date", pa.date32()), ("record_key", pa.string()), ("value", pa.int64())])
PARTITIONED = 0
TARGETS = (PARTITIONED, 1, 2_000, 2**40)

Content = dict[date, list[tuple[str, int]]]
days = st.integers(0, 11).map(lambda offset: FIRST + timedelta(days=offset))
of_day = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 2)), max_size=5, unique_by=lambda row: row[0])
updates = st.lists(st.dictionaries(days, of_day, min_size=1, max_size=4), min_size=1, max_size=5)


def rows_of(content: Content) -> pa.Table:
    rows = [{"event_date": day, "record_key": key, "value": value} for day, held in content.items() for key, value in held]
    return pa.Table.from_pylist(rows, SCHEMA)


def with_target(folder: Path | str, file_bytes: int) -> Lake:
    return Lake(Settings(root=f"{folder}", file_bytes=file_bytes)).cached()


def silver_in(lake: Lake) -> Table:
    table = lake.table("silver", "events")
    if table.open() is None:
        partition_writer.create(table, SCHEMA, *layout.of_silver(lake)[:1], properties=layout.of_silver(lake).properties)
    return table


def opened(table: Table) -> DeltaTable:
    found = table.open()
    assert found is not None
    return found


def content_of(table: Table) -> Content:
    rows = table.read()
    assert rows is not None
    content: Content = {}
    for row in rows.to_pylist():
        content.setdefault(row["event_date"], []).append((row["record_key"], row["value"]))
    return {day: sorted(held) for day, held in content.items()}


def replaced(table: Table, update: Content, *, names_days: bool = False) -> None:
    why = {commit_log.DAYS: [f"{day}" for day in update]} if names_days else None
    partition_writer.replace(opened(table), rows_of(update), list(update), why=why)


@law(200, in_each_run=25)
@given(updates, st.booleans())
def test_any_target_gives_the_rows_counts_and_changes_of_partitions(history: list[Content], few_rows_wait: bool) -> None:
    model: Content = {}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if few_rows_wait:
            patch.setattr(layout, "_WAIT_FROM", 2)
            patch.setattr(layout, "_WAITING_SHARE", 2)
        lakes = [with_target(f"{folder}/{target}", target) for target in TARGETS]
        for update in history:
            before = dict(model)
            model = {day: sorted(held) for day, held in {**model, **update}.items() if held}
            for lake in lakes:
                table = silver_in(lake)
                version = table.version()
                replaced(table, update)
                layout.keep(lake, table)
                assert content_of(table) == model
                now = opened(table)
                assert table_parts.rows(now) == {day: len(held) for day, held in model.items()}
                assert table_parts.files(now).keys() == model.keys()
                changed = change_feed.describe(now, version + 1, now.version())
                assert changed.keys() == {day for day in {*before, *model} if before.get(day, []) != model.get(day, [])}


@law(200, in_each_run=20)
@given(updates, st.sampled_from(TARGETS), st.booleans())
def test_the_feed_of_a_key_lies_in_the_versions_that_touched_its_days(
    history: list[Content], target: int, names_days: bool
) -> None:
    days_of: dict[str, set[date]] = {}
    with tempfile.TemporaryDirectory() as folder:
        lake = with_target(folder, target)
        table = silver_in(lake)
        for number, update in enumerate(history):
            replaced(table, update, names_days=names_days and bool(number % 3))
            layout.keep(lake, table)
            for day, held in update.items():
                for key, _ in held:
                    days_of.setdefault(key, set()).add(day)
        now = opened(table)
        for key, on_days in days_of.items():
            which = f"record_key = '{key}'"
            (whole, first), (part, oldest) = (change_feed.rest_of_feed(now, 0, which, *more) for more in ((), (on_days,)))
            order = [(name, "ascending") for name in ("_commit_version", "event_date", "_change_type", "value")]
            assert part.sort_by(order) == whole.sort_by(order).select(part.column_names)
            assert (first, oldest) == (0, 0)


def test_versions_that_touched_other_days_only_are_not_read(tmp_path: Path) -> None:
    lake = with_target(tmp_path, 1)
    table = silver_in(lake)
    for number in range(6):
        replaced(table, {FIRST + timedelta(days=number): [("a" if number in {1, 4} else "b", number)]})
        layout.keep(lake, table)
    now = opened(table)
    on_days = [FIRST + timedelta(days=number) for number in (1, 4)]
    within = table_io.Within(on_days)
    assert len([*commit_log.versions_with(now, 0, "event_date", within)]) == 2
    together = silver_in(with_target(tmp_path / "together", 2**40))
    for number in range(6):
        replaced(together, {FIRST + timedelta(days=number): [("a", number)]}, names_days=True)
    assert len([*commit_log.versions_with(opened(together), 0, "event_date", within)]) == 2, "one file holds all of these days"
    feed, _ = change_feed.rest_of_feed(now, 0, "record_key = 'a'", on_days)
    assert sorted(feed["value"].to_pylist()) == [1, 4]


@law(200, in_each_run=30)
@given(updates, st.sampled_from(TARGETS[1:]))
def test_files_hold_whole_days_in_order_and_are_neither_much_larger_nor_crossing(history: list[Content], target: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = with_target(folder, target)
        table = silver_in(lake)
        for update in history:
            replaced(table, update)
            layout.keep(lake, table)
        assert not layout.out_of_shape(lake, opened(table))
        assert not layout.keep(lake, table), "what is in shape is not written again"
        assert all(len(paths) == 1 for paths in table_parts.files(opened(table)).values()), "a day is read from one file"


def test_a_few_rows_that_cross_many_wait_until_they_are_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten days of ten rows, then a row for each of nine of them at a time: the days are written again every fourth time."""
    monkeypatch.setattr(layout, "_WAIT_FROM", 20)
    monkeypatch.setattr(layout, "_WAITING_SHARE", 4)
    lake, days = with_target(tmp_path, 1), [FIRST + timedelta(days=number) for number in range(10)]
    table = silver_in(lake)
    replaced(table, {day: [(f"first{number}", 0) for number in range(10)] for day in days})
    layout.keep(lake, table)
    files = []
    for number in range(6):
        write_deltalake(opened(table), rows_of({day: [(f"late{number}", 1)] for day in days[:9]}), mode="append")
        table.committed()
        layout.keep(lake, table)
        files.append(len(listed_files(opened(table))))
    assert files == [11, 12, 13, 10, 11, 12]
    write_deltalake(opened(table), rows_of({day: [("last", 1)] for day in days[:9]}), mode="append")
    table.committed()
    assert not layout.keep(lake, table)
    assert layout.keep(lake, table, at_once=True), "maintenance waits for nothing"
    assert len(listed_files(opened(table))) == 10
    assert {day: len(held) for day, held in content_of(table).items()} == dict.fromkeys(days[:9], 17) | {days[9]: 10}


def test_few_rows_wait_in_few_files() -> None:
    large = [file(f"{day}", 2**18) for day in range(10)]
    late = [file(f"0 {number}", 2, number) for number in range(1, 10)]
    assert [
        layout.Rewrite([*large, *late[:count]], [layout.NewFile(FIRST, FIRST)], late[:count]).can_wait for count in (1, 8, 9)
    ] == [
        True,
        True,
        False,
    ]


def test_small_files_of_a_large_day_wait_in_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_WAIT_FROM", 20)
    lake = with_target(tmp_path, 2_000)
    table = silver_in(lake)
    replaced(table, {FIRST: [(f"first{number}", number) for number in range(3_000)]})
    files = []
    for number in range(30):
        write_deltalake(opened(table), rows_of({FIRST: [(f"late{number}", 1)]}), mode="append")
        table.committed()
        layout.keep(lake, table)
        files.append(len(listed_files(opened(table))))
    assert max(files) <= 12
    assert len(content_of(table)[FIRST]) == 3_030


def test_a_commit_that_brings_files_into_shape_changes_no_row(tmp_path: Path) -> None:
    lake = with_target(tmp_path, 1)
    table = silver_in(lake)
    replaced(table, {FIRST + timedelta(days=n): [("a", n)] for n in range(5)})
    version = table.version()
    assert layout.keep(lake, table)
    assert table.version() == version + 1
    assert len(listed_files(opened(table))) == 5
    assert len(change_feed.feed_of(opened(table), version + 1, version + 1)) == 0
    assert [entry["dataChange"] for entry in _actions(table, version + 1)] == [False] * 6
    for path in listed_files(opened(table))["path"].to_pylist():
        in_file = pq.read_table(f"{table}/{path}")["event_date"].to_pylist()
        assert in_file == sorted(in_file)


def _actions(table: Table, version: int) -> list[dict[str, Any]]:
    lines = Path(f"{table}", "_delta_log", f"{version:020}.json").read_text().splitlines()
    return [action for line in lines for kind, action in json.loads(line).items() if kind in {"add", "remove"}]


def change_by_another(writer: DeltaTable, change: str) -> None:
    if change == "append":
        write_deltalake(writer, rows_of({FIRST: [("b", 7)]}), mode="append")
    elif change == "replace":
        partition_writer.replace(writer, rows_of({FIRST: [("b", 7)]}), [FIRST])
    else:
        writer.delete("event_date = '2024-01-02'")


@contextmanager
def meanwhile(name: str, then: Callable[[], object]) -> Iterator[None]:
    """In the context, ``then`` happens when the new files are written, and before they are committed."""
    written = getattr(layout, name)
    with pytest.MonkeyPatch.context() as patch:

        def files(*args: Any) -> Any:
            made = list(written(*args))
            patch.undo()
            then()
            return made

        patch.setattr(layout, name, files)
        yield


@pytest.mark.parametrize("change", ["append", "replace", "delete"])
def test_beside_the_commit_of_another_writer_the_files_stay(tmp_path: Path, change: str) -> None:
    lake = with_target(tmp_path, 1)
    table = silver_in(lake)
    replaced(table, {FIRST + timedelta(days=n): [("a", n)] for n in range(3)})
    with meanwhile("_written", lambda: change_by_another(DeltaTable(table.address), change)):
        assert not layout.keep(lake, table)
    after = content_of(Table(table.address))
    assert (
        after
        == {
            "append": {FIRST: [("a", 0), ("b", 7)], date(2024, 1, 2): [("a", 1)], date(2024, 1, 3): [("a", 2)]},
            "replace": {FIRST: [("b", 7)], date(2024, 1, 2): [("a", 1)], date(2024, 1, 3): [("a", 2)]},
            "delete": {FIRST: [("a", 0)], date(2024, 1, 3): [("a", 2)]},
        }[change]
    )
    assert layout.keep(with_target(tmp_path, 1), table), "the next update tries again"
    assert content_of(Table(table.address)) == after


def test_rows_that_the_bounds_of_their_file_hide_leave_the_files_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake = with_target(tmp_path, 1)
    table = silver_in(lake)
    replaced(table, {FIRST + timedelta(days=n): [("a", n)] for n in range(3)})
    between = layout._between
    monkeypatch.setattr(layout, "_between", lambda day, kind, first, _: between(day, kind, first, first))
    assert not layout.keep(lake, table)
    assert "2 rows are in no day of their files' bounds" in caplog.text
    assert len(content_of(table)) == 3


def test_files_of_another_writer_without_bounds_or_with_rows_of_no_day_stay(tmp_path: Path) -> None:
    lake = with_target(tmp_path, 1)
    table = silver_in(lake)
    rows = rows_of({FIRST: [("a", 1)], date(2024, 1, 2): [("b", 1)]})
    no_day = rows.set_column(0, SCHEMA.field(0), pa.array([None, FIRST], pa.date32()))
    write_deltalake(opened(table), pa.concat_tables([rows, no_day]), mode="append")
    assert not layout.keep(lake, table)
    assert table_parts.rows(opened(table)) == {FIRST: 2, date(2024, 1, 2): 1, None: 1}


def test_a_day_that_python_does_not_have_has_no_bounds() -> None:
    far = pa.table({"day": pa.array([-1_000_000, 0], pa.int32()).cast(pa.date32()), "number": [1, 2]})
    assert data_files.statistics(far)["minValues"] == {"number": 1}


def test_a_table_of_an_earlier_release_stays_partitioned(tmp_path: Path) -> None:
    table = silver_in(with_target(tmp_path, PARTITIONED))
    now = silver_in(with_target(tmp_path, 2**20))
    replaced(now, {FIRST: [("a", 1)], date(2024, 1, 2): [("b", 1)]})
    assert not layout.keep(with_target(tmp_path, 2**20), now)
    assert opened(table).metadata().partition_columns == ["event_date"]
    assert not table_parts.share_files(opened(table))


def test_damaged_files_are_replaced_by_the_rows_of_their_days(tmp_path: Path) -> None:
    lake = with_target(tmp_path, 2**20)
    table = silver_in(lake)
    content: Content = {FIRST + timedelta(days=n): [("a", n), ("b", n)] for n in range(6)}
    replaced(table, dict(list(content.items())[:4]))
    (path,) = listed_files(opened(table))["path"].to_pylist()
    replaced(table, dict(list(content.items())[4:]))
    (tmp_path / "silver" / "events" / path).unlink()
    files = data_files.damaged_files(table)
    assert [(file.path, file.first, file.last) for file in files] == [(path, FIRST, FIRST + timedelta(days=3))]
    lost = [day for day in content if files[0].may_hold(day)]
    layout.make_again(opened(table), files, lost, rows_of({day: content[day] for day in lost}), {"method": "repair"})
    assert content_of(Table(table.address)) == content
    assert data_files.damaged_files(table) == []
    repair, *_ = commit_log.history(opened(table), 0)
    assert change_feed._appended_rows(repair) is None, "rows were removed, too"


def test_days_that_files_share_are_told_with_the_bounds_of_their_columns(tmp_path: Path) -> None:
    for target in (PARTITIONED, 2**20):
        table = silver_in(with_target(tmp_path / f"{target}", target))
        replaced(table, {FIRST: [("a", 3), ("b", 5)], date(2024, 1, 2): [("c", 4)]})
        bounds = table_parts.bounds(opened(table), listed_files(opened(table)), "value")
        assert bounds == {FIRST: (3, 5), date(2024, 1, 2): (4, 4)}
        assert table_parts.bounds(opened(table), listed_files(opened(table)), "unknown") == {}


def test_statistics_name_what_readers_skip_files_by() -> None:
    moment = datetime(2024, 1, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
    rows = pa.table(
        {
            "day": pa.array([date(2024, 1, 2), date(2024, 1, 1)], pa.date32()),
            "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "text": pa.array(["b", "a"]),
            "long": pa.array(["x" * 100, "y"]),
            "none": pa.array([None, None], pa.string()),
            "amount": pa.array([Decimal("1.10"), Decimal("2.20")]),
            "flag": pa.array([True, False]),
            "list": pa.array([[1], [2]]),
        }
    )
    assert data_files.statistics(rows) == {
        "numRecords": 2,
        "minValues": {"day": "2024-01-01", "at": "2024-01-01T12:00:00.123456Z", "text": "a", "flag": False},
        "maxValues": {"day": "2024-01-02", "at": "2024-01-01T12:00:00.123456Z", "text": "b", "flag": True},
        "nullCount": {"day": 0, "at": 1, "text": 0, "long": 0, "none": 2, "amount": 0, "flag": 0},
    }


def file(days: str, size: int, written: int = 0, name: str = "") -> DayFile:
    """A file with rows of some days, as "0 3 9"; each has as many rows as bytes, shared equally."""
    numbers = [int(number) for number in days.split()]
    first, last = (FIRST + timedelta(days=number) for number in (numbers[0], numbers[-1]))
    return DayFile(name or days, size, size, first, last, written)


def planned(files: list[DayFile]) -> tuple[set[str], list[tuple[int, int]]]:
    def days_of(some: Any) -> dict[DayFile, dict[date, int]]:
        numbers = {one: (one.path if " " in one.path or one.path.isdigit() else "0").split() for one in some}
        return {one: {FIRST + timedelta(days=int(day)): one.rows // len(days) for day in days} for one, days in numbers.items()}

    found = layout.planned(files, 100, days_of)
    return {one.path for one in found.old}, [((new.first - FIRST).days, (new.last - FIRST).days) for new in found.new]


@pytest.mark.parametrize(
    ("files", "old", "new"),
    [
        pytest.param([], set(), [], id="no file"),
        pytest.param([file("0 3", 90), file("4 6", 80)], set(), [], id="in shape"),
        pytest.param([file("0 3", 40), file("4 6", 50)], set(), [], id="a few small neighbours"),
        pytest.param([file(f"{n}", 9) for n in range(8)], {f"{n}" for n in range(8)}, [(0, 7)], id="many small neighbours"),
        pytest.param([file("2 4", 40), file("0 9", 40, 1)], {"2 4", "0 9"}, [(0, 9)], id="a small file between two days"),
        pytest.param([file("0 9", 210)], {"0 9"}, [(0, 0), (9, 9)], id="outgrown"),
        pytest.param([file("0 9", 200)], set(), [], id="not yet outgrown"),
        pytest.param([file("0", 5_000)], set(), [], id="a large day"),
        pytest.param([file("0", 5_000), file("1", 10)], set(), [], id="a small day beside a large one"),
        pytest.param([file("0", 90, 0, "one"), file("0", 90, 1, "two")], set(), [], id="a large day in two files"),
        pytest.param([file("0", 40, 0, "one"), file("0", 50, 1, "two")], {"one", "two"}, [(0, 0)], id="a small day in two"),
        pytest.param([file("0", 60, n, f"f{n}") for n in range(3)], {"f0", "f1", "f2"}, [(0, 0)], id="a large day in many"),
        pytest.param(
            [file("0 1 2", 90), file("3 4 5", 90), file("6 7 8", 90), file("9", 40, 1), file("12 20", 70)],
            set(),
            [],
            id="in shape with gaps",
        ),
        pytest.param(
            [file("2 4", 90), file("6 8", 90), file("0 10", 90, 1)],
            {"0 10"},
            [(0, 0), (10, 10)],
            id="a wide file is cut around the files between its days",
        ),
        pytest.param(
            [file("2 4", 90), file("6 8", 90), file("3 10", 90, 1)],
            {"2 4", "3 10"},
            [(2, 3), (4, 4), (10, 10)],
            id="a file that holds one of its days is written again, the other one is not",
        ),
        pytest.param(
            [file("0 9", 90), file("3", 5, 1)], {"0 9", "3"}, [(0, 9)], id="a late day goes into the file of its neighbours"
        ),
    ],
)
def test_files_are_written_again_where_they_cross_are_small_or_have_outgrown(
    files: list[DayFile], old: set[str], new: list[tuple[int, int]]
) -> None:
    assert planned(files) == (old, new)


def test_an_update_of_distant_days_leaves_the_files_between_them(tmp_path: Path) -> None:
    lake = with_target(tmp_path, 1)
    table = silver_in(lake)
    replaced(table, {FIRST + timedelta(days=n): [("a", n)] for n in range(30)})
    layout.keep(lake, table)
    before = set(listed_files(opened(table))["path"].to_pylist())
    replaced(table, {FIRST: [("a", 7)], FIRST + timedelta(days=29): [("b", 7)]})
    layout.keep(lake, table)
    after = set(listed_files(opened(table))["path"].to_pylist())
    assert len(before & after) == 28
    assert len(after) == 30


def test_a_new_table_has_as_many_rows_a_file_as_fit(tmp_path: Path) -> None:
    counts = {FIRST + timedelta(days=n): count for n, count in enumerate([4, 4, 3, 20, 1, 1])}
    shared = table_parts.filled(sorted(counts.items()), 10)
    assert [[counts[day] for day in group] for group in shared] == [[4, 4], [3], [20], [1, 1]]
    lake = with_target(tmp_path, 4_800)
    assert layout.rows_per_file(lake, opened(silver_in(lake))) == 100


@law(100, in_each_run=20)
@given(updates, st.sampled_from(TARGETS))
def test_rows_of_new_days_are_appended_in_shape(history: list[Content], target: int) -> None:
    model: Content = {}
    with tempfile.TemporaryDirectory() as folder:
        lake = with_target(folder, target)
        table = silver_in(lake)
        for update in history:
            new = {day: sorted(held) for day, held in update.items() if held and day not in model}
            version, model = table.version(), model | new
            pieces = [rows_of({day: new[day] for day in sorted(new)[begin : begin + 2]}) for begin in range(0, len(new), 2)]
            spark_commits.append_days_alone(lake, pieces, table, "silver:events", version, {})
            assert content_of(table) == model
            assert table.version() == version + bool(new), "no rows, no commit"
            assert change_feed.describe(opened(table), version + 1, table.version()) == {
                day: {"inserted": len(held)} for day, held in new.items()
            }
            assert not layout.out_of_shape(lake, opened(table)) or len(history) > 1


def test_rows_are_not_appended_after_those_of_another_run(tmp_path: Path) -> None:
    lake = with_target(tmp_path, 2_000)
    table, rows = silver_in(lake), rows_of({FIRST: [("a", 1)]})
    spark_commits.append_days_alone(lake, [rows], table, "silver:events", 0, {})
    with pytest.raises(spark_commits.AppendedMeanwhileError):
        spark_commits.append_days_alone(lake, [rows], table, "silver:events", 0, {})
    assert content_of(table) == {FIRST: [("a", 1)]}


def test_an_emptied_table_has_no_days(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    table = silver_in(lake)
    replaced(table, {FIRST: [("a", 1)]})
    replaced(table, {FIRST: []})
    assert table_parts.rows(opened(table)) == {}
    assert table_io.rows_at_most(opened(table), {}) == 0


def test_what_damaged_files_may_have_held_is_told_by_partitions_themselves_and_else_by_what_is_known(tmp_path: Path) -> None:
    days = [FIRST + timedelta(days=n) for n in range(4)]
    lost = {}
    for target in (PARTITIONED, 2**20):
        table = silver_in(with_target(tmp_path / f"{target}", target))
        replaced(table, {day: [("a", 1)] for day in days[1:]})
        for path in listed_files(opened(table))["path"].to_pylist():
            (tmp_path / f"{target}" / "silver" / "events" / path).unlink()
        lost[target] = data_files.lost_parts(opened(table), data_files.damaged_files(table), days[:3])
    assert lost == {PARTITIONED: days[1:], 2**20: days[1:3]}


def of_an_earlier_release(folder: Path | str) -> Table:
    return silver_in(with_target(folder, PARTITIONED))


@law(150, in_each_run=15)
@given(updates, updates, st.sampled_from(TARGETS[1:]))
def test_a_converted_table_has_the_rows_and_the_changes_of_one_that_was_not(
    before: list[Content], after: list[Content], target: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake, table, other = with_target(folder, target), of_an_earlier_release(folder), of_an_earlier_release(f"{folder}/other")
        for update in before:
            replaced(table, update)
            replaced(other, update)
        assert layout.convert(lake, table, "event_date")
        assert not layout.convert(lake, table, "event_date"), "there is nothing left to do"
        partition_writer.commit_without_rows(opened(other), why={})  # in the place of the conversion
        for update in after:
            replaced(table, update)
            replaced(other, update)
        now, then = opened(table), opened(other)
        assert now.metadata().partition_columns == []
        assert table_parts.rows(now) == table_parts.rows(then)
        assert content_of(table) == content_of(other)
        for first in range(now.version() + 1):
            assert content_at(now, first) == content_at(then, first)
            for last in range(first, now.version() + 1):
                assert feed(now, first, last) == feed(then, first, last)


def content_at(table: DeltaTable, version: int) -> list[dict[str, Any]]:
    rows = table_io.read_version(at_version(table, version), SCHEMA.names)
    return sorted(rows.to_pylist(), key=repr)


def feed(table: DeltaTable, first: int, last: int) -> list[dict[str, Any]]:
    names = [*SCHEMA.names, "_change_type", "_commit_version"]
    return sorted(change_feed.feed_of(table, first, last, columns=names).to_pylist(), key=repr)


@pytest.mark.parametrize("target", [1, 2_000, 2**40])
def test_files_of_a_converted_table_are_in_shape(tmp_path: Path, target: int) -> None:
    table = of_an_earlier_release(tmp_path)
    for n in range(12):
        replaced(table, {FIRST + timedelta(days=n): [(key, n) for key in "abcdef"]})
    lake = with_target(tmp_path, target)
    assert layout.convert(lake, table, "event_date")
    assert not layout.out_of_shape(lake, opened(table))
    assert len(listed_files(opened(table))) == {1: 12, 2_000: 5, 2**40: 1}[target]
    assert "cdc" not in {Path(path).parent.name for path in listed_files(opened(table))["path"].to_pylist()}
    assert [entry["dataChange"] for entry in _actions(table, table.version())] == [False] * (
        12 + len(listed_files(opened(table)))
    )


@pytest.mark.parametrize("change", ["append", "replace", "delete"])
def test_beside_the_commit_of_another_writer_a_table_is_not_converted(tmp_path: Path, change: str) -> None:
    table, lake = of_an_earlier_release(tmp_path), with_target(tmp_path, 1)
    replaced(table, {FIRST + timedelta(days=n): [("a", n)] for n in range(3)})
    with meanwhile("_converted", lambda: change_by_another(DeltaTable(table.address), change)):
        assert not layout.convert(lake, table, "event_date")
    after = content_of(Table(table.address))
    assert opened(table).metadata().partition_columns == ["event_date"]
    assert layout.convert(lake, table, "event_date"), "the next attempt finds what was committed"
    assert content_of(Table(table.address)) == after


@pytest.mark.parametrize("change", ["append", "replace", "delete"])
def test_a_writer_that_has_opened_the_table_before_its_conversion_conflicts(tmp_path: Path, change: str) -> None:
    table, lake = of_an_earlier_release(tmp_path), with_target(tmp_path, 1)
    replaced(table, {FIRST: [("a", 1)], date(2024, 1, 2): [("b", 1)]})
    stale, before = DeltaTable(table.address), content_of(table)
    assert layout.convert(lake, table, "event_date")
    with pytest.raises(CommitFailedError):
        change_by_another(stale, change)
    assert content_of(Table(table.address)) == before


def test_a_table_with_rows_of_no_day_is_not_converted(tmp_path: Path) -> None:
    table = of_an_earlier_release(tmp_path)
    no_day = rows_of({FIRST: [("a", 1)]}).set_column(0, SCHEMA.field(0), pa.array([None], pa.date32()))
    write_deltalake(opened(table), no_day, mode="append")
    with pytest.raises(LakehouseError, match="rows have no event_date"):
        layout.convert(with_target(tmp_path, 1), table, "event_date")
    assert len(table.read() or ()) == 1


def test_an_older_version_that_was_cleaned_from_the_log_is_forgotten_in_the_feed_too(tmp_path: Path) -> None:
    table = of_an_earlier_release(tmp_path)
    replaced(table, {FIRST: [("a", 1)]})
    layout.convert(with_target(tmp_path, 1), table, "event_date")
    replaced(table, {FIRST: [("a", 2)]})
    opened(table).create_checkpoint()
    for version in (0, 1):
        Path(f"{table}", "_delta_log", f"{version:020}.json").unlink()
    now = opened(Table(table.address))
    assert {row["value"] for row in feed(now, 3, 3)} == {1, 2}
    with pytest.raises(change_feed.ForgottenFeedError):
        feed(now, 1, 3)


def wide(columns: int) -> pa.Schema:
    """As Bronze of a wide source: its day stands behind the other columns."""
    return pa.schema([*((f"c{n}", pa.int64()) for n in range(columns)), ("event_date", pa.date32())])


def test_a_wide_table_has_the_bounds_of_its_days_when_it_is_converted(tmp_path: Path) -> None:
    before, schema = with_target(tmp_path, PARTITIONED), wide(40)
    table = before.table("silver", "events")
    partition_writer.create(table, schema, "event_date")
    rows = [{f"c{n}": n for n in range(40)} | {"event_date": FIRST + timedelta(days=day)} for day in range(3)]
    row_writer.append(table, pa.Table.from_pylist(rows, schema))
    lake = with_target(tmp_path, 2**20)
    assert layout.convert(lake, table, "event_date")
    now = opened(table)
    assert table_parts.spans(now, listed_files(now)) == [(FIRST, FIRST + timedelta(days=2))]
    assert table_parts.that_may_be_held(now, [date(1999, 1, 1), FIRST]) == {FIRST}


@pytest.mark.parametrize("columns", [None, ["event_date", "extra"], ["event_date", "value"]])
def test_the_changes_before_a_conversion_are_read_beside_columns_that_were_added_since(
    tmp_path: Path, columns: list[str] | None
) -> None:
    table = of_an_earlier_release(tmp_path)
    replaced(table, {FIRST: [("a", 1)]})
    layout.convert(with_target(tmp_path, 1), table, "event_date")
    rows = rows_of({FIRST: [("b", 2)]})
    row_writer.append(table, rows.append_column("extra", pa.array([7])))
    now = opened(table)
    for last, count in ((1, 1), (3, 2)):
        changes = change_feed.feed_of(now, 1, last, columns=columns)
        assert len(changes) == count
        assert columns is None or changes.column_names == columns
    changes = change_feed.feed_of(now, 1, 3, "record_key IS NOT NULL")
    assert sorted(changes["extra"].to_pylist(), key=repr) == [7, None]


def test_a_table_that_grows_by_two_commits_with_each_delivery_has_few_files_at_all_times(tmp_path: Path) -> None:
    lake = with_target(tmp_path, 2**18)
    table = silver_in(lake)
    most = 0
    for delivery in range(150):
        row_writer.append(table, rows_of({FIRST + timedelta(days=delivery): [("a", delivery)]}))
        partition_writer.commit_without_rows(opened(table), why={})
        layout.keep_at_times(lake, table)
        most = max(most, len(listed_files(opened(table))))
    assert most <= 64 + 8
    assert len(content_of(table)) == 150


def test_of_two_that_convert_a_table_at_once_one_does(tmp_path: Path) -> None:
    table, lake = of_an_earlier_release(tmp_path), with_target(tmp_path, 1)
    replaced(table, {FIRST + timedelta(days=n): [("a", n)] for n in range(3)})
    of_other: list[bool] = []
    with meanwhile("_converted", lambda: of_other.append(layout.convert(lake, Table(table.address), "event_date"))):
        assert not layout.convert(lake, table, "event_date")
    assert of_other == [True]
    files = {path.name for path in Path(table.address).glob("*.parquet")}
    assert files == set(listed_files(opened(Table(table.address)))["path"].to_pylist()), "what is of no use is removed"
