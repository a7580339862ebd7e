"""The empty fields of partial corrections, against a plain model: the rule, and rows of files that arrived in any order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse.contracts import record_changes
from lakehouse.contracts.metric import MetricContract
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions import living_rows, readings
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import deliver_text
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Iterable

DAYS = [date(2024, 1, 1), date(2024, 1, 2)]
NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
FIELDS = [{"name": name, "type": kind} for name, kind in (("id", "string"), ("amount", "int"), ("shop", "string"))]
FIELDS[1] = {**FIELDS[1], "column": "Amount", "required": True}
CHANGES = {"op": "op", "corrected_field": "field", "corrections": "partial"}
SOURCE = contract(model={"fields": FIELDS}, changes=CHANGES)


@dataclass(frozen=True)
class Sent:
    """A line of a file; ``names`` is what a correction says that it corrects."""

    key: str
    op: Literal["insert", "correct", "delete"]
    day: date
    amount: int | None
    shop: str | None
    names: str
    hour: int

    @property
    def line(self) -> str:
        values = (self.key, "" if self.amount is None else self.amount, self.shop or "", self.op, self.names)
        return ",".join(map(str, values)) + f",{self.day}T12:00:00Z,{(NOON + timedelta(hours=self.hour)).isoformat()}"


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    op = draw(st.sampled_from(["insert", "correct", "correct", "correct", "delete"]))
    amount = draw(st.integers(0, 3) if op == "insert" else st.none() | st.integers(0, 3))
    names = draw(st.sampled_from(["", "", "amount", "Amount; shop", "SHOP", "the total"]))
    key, shop = draw(st.sampled_from("ab")), draw(st.none() | st.sampled_from("xy"))
    return Sent(key, op, draw(st.sampled_from(DAYS)), amount, shop, names, draw(st.integers(0, 9)))  # type: ignore[arg-type]


def model(records: Iterable[Sent]) -> dict[str, tuple[date, int | None, str | None]]:
    """What lives, by key: the rule as it is written in the documentation, record by record; the later line wins a tie."""
    values: dict[str, tuple[date, int | None, str | None]] = {}
    for record in sorted(records, key=lambda record: record.hour):
        if record.op == "delete":
            values.pop(record.key, None)
            continue
        amount, shop, names = record.amount, record.shop, record.names.lower()
        if record.op == "correct" and record.key in values:
            _, amount_before, shop_before = values[record.key]
            amount = amount_before if amount is None and "amount" not in names else amount
            shop = shop_before if shop is None and "shop" not in names else shop
        values[record.key] = record.day, amount, shop
    return values


def living(rows: pa.Table | None) -> dict[str, tuple[date, int | None, str | None]]:
    assert rows is not None
    return {row["record_key"]: (row["event_date"], row["amount"], row["shop"]) for row in rows.to_pylist()}


@law(200, in_each_run=60)
@given(st.lists(sent(), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_rule_of_a_set_of_rows(records: list[Sent], shuffled: Any) -> None:
    claims, rows = [], []
    for line, record in enumerate(records, start=2):
        place = {"record_key": record.key, "ingestion_id": "f", "line_number": line}
        order = {"source_sequence": 0, "source_order": None, "ordered_at": record.hour, "delivery": 0}
        claims.append(place | order)
        of_row = {"id": record.key, "amount": record.amount, "shop": record.shop, "event_date": record.day}
        change = {"change_op": record.op, "is_correction": record.op == "correct", "corrected_field": record.names or None}
        rows.append(place | of_row | change)
    shuffled.shuffle(rows)
    schema = arrow_schema(silver_columns(SOURCE))
    result = readings.completed(SOURCE, pa.Table.from_pylist(claims), pa.Table.from_pylist(rows, schema=schema))
    assert result.schema == schema
    newest: dict[str, dict[str, Any]] = {row["record_key"]: row for row in result.to_pylist()}
    assert {
        key: (row["event_date"], row["amount"], row["shop"]) for key, row in newest.items() if row["change_op"] != "delete"
    } == model(records)


@law(60, in_each_run=12)
@given(st.lists(st.lists(sent(), min_size=1, max_size=3), min_size=1, max_size=4, unique_by=tuple), st.data())
def test_files_in_any_order(tmp_path_factory: pytest.TempPathFactory, files: list[list[Sent]], data: st.DataObject) -> None:
    lake = lake_in(tmp_path_factory.mktemp("lake"))
    hours = iter(data.draw(st.permutations(range(12))))
    files = [[Sent(*(*_values(record), next(hours))) for record in file] for file in files]
    header = "id,Amount,shop,op,field,event_time,arrived_at"
    for number in data.draw(st.permutations(range(len(files)))):
        text = "\n".join([header, *(record.line for record in files[number])])
        deliver_text(lake, SOURCE, date(2024, 2, 2) + timedelta(days=number), text)
    silver = living_rows.computed(lake, SOURCE, living_rows.Slice(DAYS), 1_000)
    assert living(silver) == model(record for file in files for record in file)


def _values(record: Sent) -> tuple[Any, ...]:
    return record.key, record.op, record.day, record.amount, record.shop, record.names


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"changes": {"corrections": "partial"}}, "no record is a correction"),
        ({"changes": {**CHANGES, "corrects_event_id": "corrects"}}, "leave one of the two out"),
        ({"changes": {"is_correction": "c", "corrections": "partial"}, "kind": "dimension"}, "has all attributes"),
        (
            {
                "changes": {"is_correction": "c", "corrections": "partial"},
                "materialization": {"reprocess_policy": "overwrite_all"},
            },
            "needs 'reprocess_policy: merge'",
        ),
        (
            {
                "changes": {"corrections": "partial"},
                "source": {"envelope": "debezium", "format": "json"},
            },
            "records of a change feed are whole",
        ),
    ],
)
def test_what_cannot_be_combined_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        contract(**changes)


def test_a_metric_that_cannot_follow_partial_corrections_is_refused() -> None:
    plain = {"metric": "m", "source": "events", "measures": [{"name": "n", "sql": "count(*)", "type": "long"}]}
    metric = MetricContract.model_validate({**plain, "live": True, "window": {"size": "PT1H"}, "late_events": {}})
    refused = {where for where, _ in record_changes.misfits(metric, {"events": SOURCE})}
    assert refused == {("live",), ("late_events",)}
    assert not [*record_changes.misfits(metric, {"events": contract()})]
    assert not [*record_changes.misfits(MetricContract.model_validate(plain), {"events": SOURCE})]
