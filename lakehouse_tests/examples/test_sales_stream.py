"""The stream of ``lakehouse demo``: the same for a seed, and with every kind of trouble in it."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import date, datetime, timedelta, timezone

import pytest

from lakehouse.bronze.file_formats import read_records
from lakehouse.bronze.row_parser import RowParser
from lakehouse.contracts import load_catalog
from lakehouse.examples import sales_stream
from lakehouse.ledger.ids import DeliveredFile

SEEDS = range(30)
Row = dict[str, str]


def deliveries(seed: int) -> dict[date, list[Row]]:
    """The records by arrival day, the re-delivery left out."""
    texts = {name: text for name, text in sales_stream.files(seed).items() if ".again." not in name}
    return {arrival_day(name): list(csv.DictReader(io.StringIO(text))) for name, text in texts.items()}


def records(seed: int) -> list[Row]:
    return [row for rows in deliveries(seed).values() for row in rows]


def arrival_day(name: str) -> date:
    return date.fromisoformat(name.removeprefix("arrival_date=")[:10])


def at(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def lateness(row: Row) -> timedelta:
    return at(row["received_at"]) - at(row["sold_at"])


def test_the_same_for_a_seed_and_another_for_another() -> None:
    assert sales_stream.files(7) == sales_stream.files(7)
    assert sales_stream.files(7) != sales_stream.files(8)


def test_a_till_that_was_offline_sends_its_sales_together_beyond_the_watermark() -> None:
    together = [row for row in records(7) if row["sale_id"].startswith("S-till")]
    assert len({row["received_at"] for row in together}) == 1
    assert len(together) == 6
    assert all(timedelta(days=5) < lateness(row) < timedelta(days=8) for row in together)


@pytest.mark.merge
def test_the_shares_over_many_seeds() -> None:
    rows = [row for seed in SEEDS for row in records(seed) if not row["sale_id"].startswith("S-")]
    inserts = [row for row in rows if row["op"] == "insert"]
    corrections = [row for row in rows if row["op"] == "correct"]
    late = sum(timedelta(hours=24) <= lateness(row) <= timedelta(hours=72) for row in inserts)
    very_late = sum(timedelta(days=5) <= lateness(row) <= timedelta(days=12) for row in inserts)
    sold = {(seed, row["sale_id"]): row["sold_at"] for seed in SEEDS for row in records(seed) if row["op"] == "insert"}
    moved = sum(
        row["op"] == "correct" and not row["corrects_sale_id"] and row["sold_at"] != sold[seed, row["sale_id"]]
        for seed in SEEDS
        for row in records(seed)
    )
    assert 0.98 < len(inserts) / (len(SEEDS) * sales_stream.DAYS * sales_stream.SALES_A_DAY) <= 1
    assert late / len(inserts) == pytest.approx(0.10, abs=0.01)
    assert very_late / len(inserts) == pytest.approx(0.01, abs=0.006)
    assert len(corrections) / len(inserts) == pytest.approx(0.046, abs=0.01)
    assert moved / len(inserts) == pytest.approx(0.01, abs=0.005)
    assert sum(row["op"] == "delete" for row in rows) / len(inserts) == pytest.approx(0.01, abs=0.005)
    assert sum(bool(row["corrects_sale_id"]) for row in rows) / len(inserts) == pytest.approx(0.006, abs=0.004)


@pytest.mark.parametrize("seed", SEEDS)
def test_files_hold_their_own_arrival_day_in_order(seed: int) -> None:
    for day, rows in deliveries(seed).items():
        received = [at(row["received_at"]) for row in rows]
        assert received == sorted(received)
        assert {moment.date() for moment in received} == {day}


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_known_before_it_happened_or_changed_before_it_was_sent(seed: int) -> None:
    first: dict[str, datetime] = {}
    for row in sorted(records(seed), key=lambda row: row["received_at"]):
        assert lateness(row) > timedelta(0)
        if row["op"] == "insert":
            assert row["sale_id"] not in first
            first[row["sale_id"]] = at(row["received_at"])
        else:
            assert first[row["corrects_sale_id"] or row["sale_id"]] < at(row["received_at"])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_move_touches_two_old_days_that_its_arrival_does_not_touch_otherwise(seed: int) -> None:
    lives_on: dict[str, date] = {}
    alone = []
    for arrival, rows in sorted(deliveries(seed).items()):
        touches: dict[date, set[str]] = defaultdict(set)
        moves = []
        for row in rows:
            before, after = lives_on.get(row["corrects_sale_id"] or row["sale_id"]), at(row["sold_at"]).date()
            if row["op"] == "correct" and before and before != after:
                moves.append((row["sale_id"], before, after))
            for day in {before or after, after}:
                touches[day].add(row["sale_id"])
            lives_on[row["sale_id"]] = after
        alone += [(arrival, *move) for move in moves if touches[move[1]] == touches[move[2]] == {move[0]}]
    assert any(arrival - max(before, after) > timedelta(days=5) for arrival, _, before, after in alone)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_file_comes_twice_under_another_name_on_a_later_day(seed: int) -> None:
    texts = sales_stream.files(seed)
    names = defaultdict(list)
    for name, text in texts.items():
        names[text].append(name)
    (first, again), *others = (sorted(twins) for twins in names.values() if len(twins) > 1)
    assert not others
    assert arrival_day(first) < arrival_day(again)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_record_is_as_the_contract_says_but_one(seed: int) -> None:
    contract = load_catalog(None).sources["sales"]
    reasons = []
    for name, text in sales_stream.files(seed).items():
        if ".again." in name:
            continue
        parser = RowParser(contract, DeliveredFile(name, name, arrival_day(name), datetime.now(timezone.utc)))
        rows = parser.rows(read_records(io.BytesIO(text.encode()), contract.source, contract.columns_read))
        reasons += [row["malformed_reason"] for row in rows if "malformed_reason" in row]
    assert len(reasons) == 1
    assert reasons[0].startswith("amount: '12.x'")
