"""Logs: the schema that a dataclass gives its table, and entries that are read as they were written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.publication import held_numbers, restatement_reports
from lakehouse.lake.table_cache import TableCache
from lakehouse.lateness import cutoff, missing_inputs
from lakehouse.lateness import event_watermark as max_lateness_decisions
from lakehouse.ledger import (
    applied_inputs,
    contract_archive,
    decisions,
    failures,
    ingestions,
    late_decisions,
    publications,
    rebuild_requests,
    redactions,
)
from lakehouse.ledger.log_table import Int32, LogTable
from lakehouse.live import batches as live_batches
from lakehouse.models import backtest_log, canary_log, retraining
from lakehouse.models import promotion_log as model_promotions
from lakehouse.operations import pauses
from lakehouse.operations.alerts import log as alerts
from lakehouse.operations.backfills import log as backfills
from lakehouse.operations.changes import correction_record
from lakehouse.operations.notices import dispatch
from lakehouse.operations.notices import log as notices
from lakehouse.serving import tokens
from lakehouse.snapshots import input_sets
from lakehouse.streams import status
from lakehouse.training_sets import releases

if TYPE_CHECKING:
    from lakehouse.lake import Lake

#: The columns of every log by its address, as tables have had them since their first version.
SCHEMAS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("log_schemas.json").read_text())
NOON = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def _logs(lake: Lake) -> list[LogTable[Any]]:
    of_source = (decisions.log, late_decisions.log, late_decisions.history_log, redactions.log)
    of_all = (
        *(applied_inputs.log, contract_archive.log, failures.log, failures.check_log, ingestions.log, ingestions.unread_log),
        *(publications.log, publications.restatement_log, rebuild_requests.log, tokens.log, cutoff.log, missing_inputs.log),
        *(status.gap_log, alerts.log, notices.log, dispatch.late_output_log, promotion_log.log, held_numbers.rejected_log),
        *(held_numbers.revert_log, restatement_reports.log, max_lateness_decisions.decision_log, input_sets.log),
        *(input_sets.snapshot_log, correction_record.log, live_batches.log, live_batches.reconciliation_log, backtest_log.log),
        *(canary_log.log, model_promotions.log, releases.log, retraining.log, pauses.log),
    )
    of_a_source = [log(lake, "events") for log in of_source]
    return [*of_a_source, *(log(lake) for log in of_all), backfills.plan_log(lake), backfills.event_log(lake)]


def test_the_columns_of_every_log_are_those_that_its_table_has_always_had(lake: Lake) -> None:
    derived = {log.table.address.removeprefix(f"{lake.root}/"): log.schema for log in _logs(lake)}
    for address, schema in derived.items():
        assert {column.name: str(column.type) for column in schema} == SCHEMAS[address], address
        assert schema.names == list(SCHEMAS[address]), address
        assert all(column.nullable for column in schema), address
    assert derived.keys() == SCHEMAS.keys()


class _Colour(str, Enum):
    RED = "red"


@dataclass(frozen=True)
class _Entry:
    name: str
    count: int = field(default=1, kw_only=True)
    small: Int32
    colour: _Colour
    choice: Literal["a", "b"]
    sure: bool
    day: date | None
    at: datetime
    days: list[date]
    more: Mapping[str, Any] = field(default_factory=dict)
    stored_otherwise: int | None = field(default=None, metadata={"column": "renamed"})

    @property
    def month(self) -> str:
        return f"{self.at:%Y-%m}"


ENTRY = _Entry("n", 2, _Colour.RED, "a", True, None, NOON, [NOON.date()], {"b": {"d": 1, "c": [1.5]}, "a": None}, 7)


def _log(lake: Lake, **options: Any) -> LogTable[_Entry]:
    return LogTable(_Entry, lake, lake.table("ops", "entries"), **options)


def test_an_entry_is_read_as_it_was_written(lake: Lake) -> None:
    log = _log(lake, partition_by="name")
    assert log.read() == []
    assert log.append([ENTRY], app_id="first")
    assert not log.append([ENTRY], app_id="first")
    assert log.read() == [ENTRY]
    assert log.read({"name": ["other"]}) == []
    assert DeltaTable(log.table.address).metadata().partition_columns == ["name"]


def test_with_a_table_cache_only_new_files_are_parsed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, of_may = TableCache(), {"month": ["2024-05"]}
    log = _log(lake.cached(cache), partition_by="month")
    parsed: list[int] = []
    entries = log.entries
    monkeypatch.setattr(log, "entries", lambda rows: parsed.append(len(rows)) or entries(rows))

    def read() -> list[str]:
        cache.forget_answers()
        return [entry.name for entry in log.read(of_may)]

    def appended(*names: str, month: int = 5) -> None:
        log.append([replace(ENTRY, name=name, at=NOON.replace(month=month)) for name in names])

    assert (read(), parsed.pop()) == ([], 0)
    appended("a", "b")
    assert (read(), parsed) == (["a", "b"], [2])
    appended("c")
    appended("d", month=6)
    assert (read(), parsed) == (["a", "b", "c"], [2, 1])
    assert (read(), parsed) == (["a", "b", "c"], [2, 1])
    DeltaTable(log.table.address).optimize.compact()
    assert (sorted(read()), parsed) == (["a", "b", "c"], [2, 1, 3])
    assert sorted(entry.name for entry in log.read()) == ["a", "b", "c", "d"]


def test_some_columns_are_read_as_arrow(lake: Lake) -> None:
    log = _log(lake)
    assert log.select(["renamed", "name"]).equals(
        pa.table({"renamed": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    )
    log.append([ENTRY])
    assert log.select(["renamed", "name"]).to_pylist() == [{"renamed": 7, "name": "n"}]
    assert log.select().schema == log.schema


def test_a_table_may_be_partitioned_by_a_property(lake: Lake) -> None:
    log = _log(lake, partition_by="month")
    assert log.schema.names[0] == "month"
    log.append([ENTRY])
    assert DeltaTable(log.table.address).metadata().partition_columns == ["month"]
    assert log.select(["month"]).to_pylist() == [{"month": "2024-05"}]
    assert log.read() == [ENTRY]


@pytest.mark.parametrize(("sort_keys", "text"), [(True, '{"a": "1.0", "b": 1}'), (False, '{"b": 1, "a": "1.0"}')])
def test_a_mapping_is_stored_as_json(lake: Lake, sort_keys: bool, text: str) -> None:
    log = _log(lake, sort_keys=sort_keys)
    entry = _Entry("n", 2, _Colour.RED, "a", True, None, NOON, [], {"b": 1, "a": Decimal("1.0")})
    assert log.to_row(entry)["more"] == text


def test_a_column_younger_than_the_row_gives_the_default(lake: Lake) -> None:
    log = _log(lake)
    old = log.schema.remove(log.schema.get_field_index("more")).remove(1)
    row = {name: value for name, value in log.to_row(ENTRY).items() if name in old.names}
    write_deltalake(log.table.address, pa.Table.from_pylist([row], schema=old))
    (entry,) = log.read()
    assert (entry.more, entry.count, entry.name) == ({}, 1, "n")


@dataclass(frozen=True)
class _Unstorable:
    amount: Decimal


@dataclass(frozen=True)
class _Either:
    value: int | str


@pytest.mark.parametrize("row", [_Unstorable, _Either])
def test_a_type_that_no_column_holds_is_refused(lake: Lake, row: type) -> None:
    with pytest.raises(TypeError, match=r"no column holds the field (amount|value) of type"):
        LogTable(row, lake, lake.table("ops", "entries"))
