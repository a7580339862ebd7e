"""Conditions that limit a backfill to an entity: which are allowed, and which keys, days and rows they select."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.operations.backfills import entity_scope, planner
from lakehouse.operations.backfills.entity_scope import ConditionError
from lakehouse.operations.backfills.planner import BackfillRequest, PlanProblemError
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

SALES = load_catalog(None).sources["sales"]
FIELDS = [
    {"name": "id", "type": "string"},
    {"name": "amount", "type": "int"},
    {"name": "shop", "type": "string"},
    {"name": "opened", "type": "date"},
    {"name": "is_open", "type": "boolean"},
]
EVENTS = contract(model={"fields": FIELDS}, dataset="events")
FIRST, LAST = date(2024, 2, 1), date(2024, 2, 29)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("shop = 'S012'", {"shop": ["S012"]}),
        ("shop='O''Hara' AND amount in (1, -2)", {"shop": ["O'Hara"], "amount": [1, -2]}),
        ("shop IN ('a and b', 'c') and is_open = true", {"shop": ["a and b", "c"], "is_open": [True]}),
        ("opened = '2024-02-05'", {"opened": [date(2024, 2, 5)]}),
        ("  shop = ''  ", {"shop": [""]}),
    ],
)
def test_a_condition_is_the_values_of_fields_in_their_types(text: str, values: dict[str, list[Any]]) -> None:
    assert entity_scope.parse(EVENTS, text) == values


def test_a_decimal_is_compared_exactly() -> None:
    assert entity_scope.parse(SALES, "amount = 10.5") == {"amount": [Decimal("10.50")]}


@pytest.mark.parametrize(
    "text",
    [
        "", "shop", "shop = S012", "shop > 'a'", "shop = 'a' or shop = 'b'", "shop like 'a%'", "not shop = 'a'", "shop in ()",
        "shop = 'a'; drop table x", "shop = 'a' and", "shop = null", "(shop = 'a')", "shop in ('a'", "shop = 'a' amount = 1",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_allowed_form(text: str) -> None:
    with pytest.raises(ConditionError, match=r"write \"field = value\" or \"field in \(value, ...\)\", joined by 'and'"):
        entity_scope.parse(EVENTS, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store = 'a'", "events has no field 'store'; there are amount, id, is_open, opened, shop"),
        ("event_date = '2024-02-01'", "events has no field 'event_date'"),
        ("shop = 'a' and shop = 'b'", r"names shop twice: write 'shop in \(...\)'"),
        ("amount = 'many'", "amount is a int32, and many cannot be read as such"),
    ],
)
def test_a_field_is_one_of_the_contract_and_a_value_of_its_type(text: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        entity_scope.parse(EVENTS, text)


def deliver(lake: Lake, day: int, *records: str) -> None:
    """Ingest a file; a record is ``id shop event-day``, and a delete has no shop."""
    lines = ["id,amount,shop,opened,is_open,event_time,arrived_at,op,corrects"]
    for record in records:
        name, shop, event_day = record.split()
        op, shop = ("delete", "") if shop == "-" else ("insert", shop)
        lines.append(f"{name},1,{shop},,,2024-02-{event_day}T12:00:00Z,2024-02-{day:02}T06:00:00Z,{op},")
    arrival = date(2024, 2, day)
    Path(str(lake.settings.landing), f"arrival_date={arrival}.csv").write_text("\n".join(lines) + "\n")

    def no_session() -> Any:
        pytest.fail("nothing of this needs Spark")

    Ingest(lake, EVENTS, no_session, "run").day(arrival)


@pytest.fixture
def shops(lake: Lake) -> Lake:
    """Two shops on some days; ``a2`` was withdrawn from its day, ``b1`` changed its shop with its day."""
    deliver(lake, 10, "a1 A 01", "a2 A 03", "b1 B 02", "b2 B 04")
    deliver(lake, 11, "a2 - 03", "b3 B 05")
    deliver(lake, 12, "b1 A 06", "a3 A 07")
    return lake


def test_an_entity_is_the_keys_that_meet_the_condition_with_all_their_rows(shops: Lake) -> None:
    entity = entity_scope.of_source(shops, EVENTS, {"shop": ["A"]}, FIRST, date(2024, 2, 6))
    assert sorted(entity.keys.to_pylist()) == ["a1", "a2", "b1"]
    assert sorted(day.day for day in entity.days) == [1, 2, 3, 6], "b1 was in another shop on the 2nd"
    assert sorted(day.day for day in entity.arrival_days) == [10, 11, 12]
    assert entity.rows == 5
    nobody = entity_scope.of_source(shops, EVENTS, {"shop": ["C"]}, FIRST, LAST)
    assert (len(nobody.keys), nobody.days, nobody.rows) == (0, frozenset(), 0)


def test_a_lake_without_rows_has_no_entity(lake: Lake) -> None:
    assert entity_scope.of_source(lake, EVENTS, {"shop": ["A"]}, FIRST, LAST).rows == 0


def wish(**changes: Any) -> BackfillRequest:
    given = {"target": "events", "first_day": FIRST, "last_day": LAST, "reason": "S01 was closed", "runner_id": "anna"}
    return BackfillRequest(**{**given, "write_mode": "overwrite", "where": "shop = 'A'", **changes})


def test_the_plan_has_the_days_of_the_entity_and_names_it(shops: Lake) -> None:
    known, now = Catalog({"events": EVENTS}, {}), datetime(2024, 2, 20, tzinfo=timezone.utc)
    deliver_later = Path(str(shops.settings.landing), "arrival_date=2024-02-13.csv")
    deliver_later.write_text("id,amount,shop,opened,is_open,event_time,arrived_at,op,corrects\n")
    made = planner.plan(shops, known, wish(), now)
    [wave] = made.waves
    assert (wave.table, [day.day for day in wave.partitions]) == ("silver/events", [1, 2, 3, 6, 7])
    assert (made.rows_of_entity, made.files) == (6, ())
    assert made.reason == "S01 was closed (only shop = 'A')"
    assert made.notes == ("rows of 4 keys are judged again; they came on 3 arrival days",)
    with pytest.raises(PlanProblemError, match="needs '--write-mode overwrite'"):
        planner.plan(shops, known, wish(write_mode="merge"), now)
    with pytest.raises(ConditionError):
        planner.plan(shops, known, wish(where="shop > 'A'"), now)
