"""What counts is what senders delivered, however a delivery is split into files; by files that are ingested without Spark."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.dispositions import account, claims, deliveries, living_rows
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import deliver_files
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, Table
    from lakehouse.ledger.row_states import Disposition

#: A delivery: the amount by key and day of January.
Delivery = dict[tuple[str, int], int]
#: A run: the number of its delivery, and the lines of each of its files.
Run = tuple[int, dict[str, list[str]]]
DELIVERIES = st.lists(
    st.dictionaries(st.tuples(st.sampled_from("abcd"), st.integers(1, 2)), st.integers(1, 2), min_size=1, max_size=8),
    min_size=1,
    max_size=4,
)


def source_under(policy: str, **changes: Any) -> SourceContract:
    changes = {"clocks": {"event": "event_time"}, "changes": {}} | changes
    return contract(materialization={"reprocess_policy": policy, "max_shrink": 0.5}, **changes)


def lines_of(rows: Mapping[tuple[str, int], int]) -> list[str]:
    return [f"{key},{amount},2024-01-0{day}T12:00:00Z,,,,0" for (key, day), amount in rows.items()]


def arrival(number: int) -> date:
    return date(2024, 2, 1) + timedelta(days=number)


def noon(number: int) -> datetime:
    return datetime(2024, 2, 1, 12, tzinfo=timezone.utc) + timedelta(days=number)


def living(lake: Lake, source: SourceContract) -> Delivery:
    """The rows that live, by the dispositions: what silver is to contain."""
    lines = {
        (row.ingestion_id, row.line_number): (row.record_key, row.event_date) for row in account.rows(lake, source) if row.lives
    }
    content = {}
    files = {entry.ingestion_id: entry.source_file for entry in ingestions.all_of(lake, "events")}
    for (ingestion_id, line), (key, day) in lines.items():
        text = Path(f"{lake.settings.landing}", files[ingestion_id]).read_text().splitlines()[line - 1]
        assert key
        assert day
        assert text.startswith(f"{key},")
        assert (key, day.day) not in content, "a key lives once on a day"
        content[key, day.day] = int(text.split(",")[1])
    return content


def replaced(deliveries: Sequence[Delivery]) -> Delivery:
    """A plain model of ``overwrite_partition_safe``, with half of a day's rows as the greatest loss."""
    content: Delivery = {}
    for day in (1, 2):
        now: Delivery = {}
        for delivery in deliveries:
            of_day = {place: amount for place, amount in delivery.items() if place[1] == day}
            if of_day and len(of_day) >= len(now) * 0.5:
                now = of_day
        content |= now
    return content


@st.composite
def runs_of_deliveries(draw: st.DrawFn) -> tuple[list[Delivery], list[Run]]:
    """Deliveries, and runs that bring them: each is split into files, which come in any order and grouping."""
    deliveries = draw(DELIVERIES)
    runs: list[Run] = []
    for number, delivery in enumerate(deliveries):
        files: dict[str, list[str]] = {}
        for place, amount in delivery.items():
            files.setdefault(draw(st.sampled_from("xyz")), []).extend(lines_of({place: amount}))
        first = {name: files.pop(name) for name in sorted(files) if draw(st.booleans())}
        runs += [(number, part) for part in (first, files) if part]
    return deliveries, draw(st.permutations(runs))


@pytest.mark.merge
@law(100, in_each_run=4)
@given(delivered=runs_of_deliveries())
def test_the_content_depends_on_the_deliveries_and_not_on_their_files(
    tmp_path_factory: pytest.TempPathFactory, delivered: tuple[list[Delivery], list[Run]]
) -> None:
    """Many a file has the bytes of one in an earlier delivery."""
    lake, source = lake_in(tmp_path_factory.mktemp("lake")), source_under("overwrite_partition_safe")
    deliveries, runs = delivered
    for number, files in runs:
        deliver_files(lake, source, arrival(number), files)
    assert living(lake, source) == replaced(deliveries)


def test_a_day_that_comes_in_two_files_has_the_rows_of_both(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), source_under("overwrite_partition_safe")
    rows = {(f"k{number}", 1): number for number in range(100)}
    halves = dict(list(rows.items())[:50]), dict(list(rows.items())[50:])
    deliver_files(lake, source, arrival(0), {"a": lines_of(halves[0]), "b": lines_of(halves[1])})
    assert living(lake, source) == rows


def test_of_a_day_that_is_sent_again_the_unchanged_file_counts_again(tmp_path: Path) -> None:
    """Bronze does not keep it a second time."""
    lake, source = lake_in(tmp_path), source_under("overwrite_partition_safe")
    deliver_files(lake, source, arrival(0), {"a": lines_of({("a", 1): 1}), "b": lines_of({("b", 1): 1})})
    applied(lake)
    report = deliver_files(lake, source, arrival(1), {"a": lines_of({("a", 1): 1}), "b": lines_of({("b", 1): 2})})
    assert [len(entries) for entries in (report.ingested, report.redelivered)] == [1, 1]
    assert living(lake, source) == {("a", 1): 1, ("b", 1): 2}
    assert applied_inputs.pending(lake, "events") == {
        date(2024, 1, 1): {report.ingested[0].ingestion_id, report.redelivered[0].input_id}
    }


@pytest.mark.merge
@pytest.mark.parametrize("policy", ["overwrite_partition_safe", "overwrite_all"])
def test_a_delivery_that_repeats_an_older_one_takes_its_place_again(tmp_path: Path, policy: str) -> None:
    lake, source = lake_in(tmp_path), source_under(policy)
    for number, amount in enumerate([1, 2]):
        deliver_files(lake, source, arrival(number), {"x": lines_of({("a", 1): amount})})
    applied(lake)
    [again] = deliver_files(lake, source, arrival(2), {"x": lines_of({("a", 1): 1})}).redelivered
    assert living(lake, source) == {("a", 1): 1}
    assert applied_inputs.pending(lake, "events") == {date(2024, 1, 1): {again.input_id}}
    applied(lake)
    assert not deliver_files(lake, source, arrival(2), {"y": lines_of({("a", 1): 1})}).redelivered[0].touched_days
    assert not applied_inputs.pending(lake, "events"), "the delivery contains it already"


@pytest.mark.merge
def test_what_was_known_before_a_file_came_again_is_without_it(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), source_under("overwrite_partition_safe")
    ids = []
    for number, amount in enumerate([1, 2]):
        lake.settings.now = noon(number)
        [entry] = deliver_files(lake, source, arrival(number), {"x": lines_of({("a", 1): amount})}).ingested
        ids.append(entry.ingestion_id)
    lake.settings.now = noon(2)
    [again] = deliver_files(lake, source, arrival(2), {"x": lines_of({("a", 1): 1})}).redelivered
    day = date(2024, 1, 1)
    then = [claims.choices(lake, source, [day], until=noon(number))[day].counting for number in range(3)]
    assert then == [{ids[0]}, {ids[1]}, {ids[0]}]
    counting = {known: claims.choices(lake, source, [day], known)[day].counting for known in ((*ids,), (*ids, again.input_id))}
    assert counting == {(*ids,): {ids[1]}, (*ids, again.input_id): {ids[0]}}


def _amounts(stored: Table) -> list[tuple[str, int]]:
    table = stored.read(["record_key", "amount"])
    assert table is not None
    return [(row["record_key"], row["amount"]) for row in table.to_pylist()]


def _deliver_and_update(lake: Lake, source: SourceContract, number: int, amount: int) -> None:
    lake.settings.now = noon(number)
    deliver_files(lake, source, arrival(number), {"x": lines_of({("a", 1): amount})})
    waiting = set(applied_inputs.pending(lake, "events"))
    silver_update.update(lake, source, lambda: pytest.fail("few rows need no Spark"), waiting, f"run {number}")


def test_under_merge_a_file_that_comes_again_on_a_later_day_takes_the_correction_back(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), source_under("merge")
    table, seen = locations.silver(lake, "events"), []
    for number, amount in enumerate([15, 17, 15]):
        _deliver_and_update(lake, source, number, amount)
        seen.append(_amounts(table))
    assert seen == [[("a", 15)], [("a", 17)], [("a", 15)]]
    rows = account.rows(lake, source)
    assert [(row.source_file[13:23], row.disposition.value, row.because) for row in rows] == [
        ("2024-02-01", "applied", "lives"),
        ("2024-02-02", "superseded", "an older record was delivered again, and counts again"),
    ]
    audit = locations.audit_log(lake).read(["reason"])
    assert audit is not None
    assert "delivered again on 2024-02-03, and counts again" in audit["reason"].to_pylist()
    before = sorted(ingestions.ingested(ingestions.all_of(lake, "events")))
    then = living_rows.computed(lake, source, living_rows.Slice([date(2024, 1, 1)], before), 10)
    assert then is not None
    assert then["amount"].to_pylist() == [17], "as of the first two files (R10)"


def test_under_merge_a_file_that_is_found_again_on_its_day_changes_nothing(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), source_under("merge")
    for name, amount in (("a", 15), ("b", 17), ("c", 15)):
        deliver_files(lake, source, arrival(0), {name: lines_of({("a", 1): amount})})
        applied(lake)
    assert len(ingestions.inputs(ingestions.all_of(lake, "events"))) == 2
    assert not applied_inputs.pending(lake, "events")


@pytest.mark.parametrize("policy", ["merge", "overwrite_partition_safe", "overwrite_all", "append"])
def test_where_senders_repeat_files_by_mistake_known_content_never_counts_again(tmp_path: Path, policy: str) -> None:
    lake = lake_in(tmp_path)
    rules = {"reprocess_policy": policy, "repeated_content": "ignored"}
    source = contract(materialization=rules, clocks={"event": "event_time"}, changes={})
    for number, amount in enumerate([15, 17, 15]):
        deliver_files(lake, source, arrival(number), {"x": lines_of({("a", 1): amount})})
        applied(lake)
    assert len(ingestions.inputs(ingestions.all_of(lake, "events"))) == 2
    assert not applied_inputs.pending(lake, "events")


def test_known_content_counts_again_from_its_arrival_on(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), source_under("merge")
    for number, status in ((1, "ingested"), (5, "redelivered")):
        entry = Ingestion(
            *("events", "f1", "hash of f1", arrival(number), f"{number}.csv", 1, None, status, "run", noon(number)),  # type: ignore[arg-type]
            touched_days=[arrival(0)],
        )
        ingestions.record(lake, entry)

    def counted(until: datetime | None) -> list[str]:
        return sorted(entry.source_file for entry in deliveries.known(lake, source, until=until))

    assert counted(noon(3)) == ["1.csv"]
    assert counted(noon(6)) == counted(None) == ["1.csv", "5.csv"]


def test_of_records_that_their_source_orders_alike_the_later_delivery_counts(tmp_path: Path) -> None:
    source = contract()
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        folder = tmp_path / f"from {order[0]}"
        folder.mkdir()
        lake = lake_in(folder)
        for number in order:
            line = f"a,{number},2024-01-01T12:00:00Z,2024-01-01T13:00:00Z,,,0"
            deliver_files(lake, source, arrival(number), {"x": [line]})
        rows = account.rows(lake, source)
        assert [row.lives for row in rows] == [False, False, False, True]
        assert {row.because for row in rows[:3]} == {"tie, decided by delivery: the later one counts"}


def test_a_table_that_would_lose_too_many_rows_is_held(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), source_under("overwrite_all")
    whole = {(f"k{number}", 1 + number % 2): number for number in range(10)}
    deliver_files(lake, source, arrival(0), {"x": lines_of(whole)})
    deliver_files(lake, source, arrival(1), {"x": lines_of({("k0", 1): 0, ("k1", 2): 5})})
    assert living(lake, source) == whole
    held = [row.because for row in account.rows(lake, source) if row.disposition.value == "quarantined"]
    assert held == ["its delivery would shrink the table by more than 50%"] * 2
    deliver_files(lake, source, arrival(2), {"x": lines_of(dict(list(whole.items())[:5]))})
    assert living(lake, source) == dict(list(whole.items())[:5]), "half of the rows may go"


def test_each_manifest_is_a_delivery_and_counts_the_files_that_it_names_again(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    landing = {"landing": "arrival_date={arrival_date}-*.csv", "start_date": "2024-01-01"}
    landing["complete_when"] = {"manifest": "arrival_date={arrival_date}-*.json"}  # type: ignore[assignment]
    source = source_under("overwrite_partition_safe", source=landing)
    day, before = arrival(1), {("a", 1): 1, ("b", 1): 1}
    names = [f"arrival_date={day}-{name}.csv" for name in "abc"]

    def manifest(number: int, *files: str) -> None:
        folder = Path(f"{lake.settings.landing}")
        folder.mkdir(exist_ok=True)
        (folder / f"arrival_date={day}-{number}.json").write_text(json.dumps([{"file": file} for file in files]))

    manifest(1, *names[:2])
    deliver_files(lake, source, day, {name: lines_of({(name, 1): 1}) for name in "ab"})
    assert living(lake, source) == before
    manifest(2, names[0], names[2])
    report = deliver_files(lake, source, day, {"c": lines_of({("c", 1): 3})})
    assert {entry.delivered_with for entry in [*report.ingested, *report.redelivered]} == {f"arrival_date={day}-2.json"}
    assert living(lake, source) == {("a", 1): 1, ("c", 1): 3}


@pytest.mark.merge
def test_a_delivery_that_shrinks_its_day_is_held_as_a_whole(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), source_under("overwrite_partition_safe")
    rows = {(f"k{number}", 1): 1 for number in range(10)}
    deliver_files(lake, source, arrival(0), {"a": lines_of(rows)})
    deliver_files(lake, source, arrival(1), {"a": lines_of({("k1", 1): 2}), "b": lines_of({("k2", 1): 2, ("n", 1): 2})})
    assert living(lake, source) == rows
    assert became(lake, source) == {"applied": 10, "quarantined": 3}
    deliver_files(lake, source, arrival(1), {"c": lines_of({(f"k{number}", 1): 2 for number in range(3, 6)})})
    assert len(living(lake, source)) == 6, "a further file completes it"
    assert became(lake, source) == {"applied": 6, "superseded": 10}


def became(lake: Lake, source: SourceContract) -> dict[str, int]:
    words: list[Disposition] = [row.disposition for row in account.rows(lake, source)]
    return {word.value: words.count(word) for word in words}


def applied(lake: Lake) -> None:
    """Record that silver contains everything."""
    waiting = applied_inputs.pending(lake, "events")
    ids = set().union(*waiting.values())
    if ids:
        applied_inputs.record(lake, "events", run_id="run", days=waiting, ingestion_ids=ids, method="rebuild")
