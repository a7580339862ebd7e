"""A correction that carries only the corrected field: found before its numbers are published; by files that need no Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.ledger import applied_inputs, redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.silver import checks, correction_checks
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import deliver_text
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

DAY = date(2024, 1, 1)
FIELDS = [{"name": name, "type": kind} for name, kind in (("id", "string"), ("amount", "int"), ("shop", "string"))]
FIELDS[1] = {**FIELDS[1], "column": "Amount"}
SOURCE = contract(
    model={"fields": FIELDS}, changes={"op": "op", "corrects_event_id": "corrects", "corrected_field": "corrected_field"}
)
INSERT = "a,5,north,insert,,"


def arrive(lake: Lake, number: int, *records: str) -> None:
    """Ingest a file of records (id, Amount, shop, op, corrects, corrected_field) and bring silver up to date."""
    lines = ["id,Amount,shop,op,corrects,corrected_field,event_time,arrived_at"]
    lines += [f"{record},2024-01-01T12:00:00Z,2024-02-01T{number:02}:00:00Z" for record in records]
    deliver_text(lake, SOURCE, date(2024, 2, 1) + timedelta(days=number), "\n".join(lines))
    waiting = set(applied_inputs.pending(lake, "events"))
    silver_update.update(lake, SOURCE, lambda: pytest.fail("few rows need no Spark"), waiting, f"run {number}")


def emptied(lake: Lake) -> list[tuple[str, tuple[str, ...]]]:
    table = locations.silver(lake, "events").open()
    assert table is not None
    return [(one.key, one.fields) for one in correction_checks.emptied(lake, SOURCE, table, [DAY])]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (["a,7,north,correct,,amount"], []),
        (["a,7,,correct,,amount"], [("a", ("shop",))]),
        (["a,7,,correct,,Amount"], [("a", ("shop",))]),
        (["a,,south,correct,,shop"], [("a", ("amount",))]),
        (["a,7,,correct,,amount; shop"], []),
        (["a,7,,correct,,the total"], []),
        (["a,7,,correct,,"], []),
        (["a,7,,correct,,amount", "a,8,,correct,,amount"], [("a", ("shop",))]),
        (["a,7,,correct,,amount", "a,8,north,correct,,amount"], []),
        (["a,5,,correct,,shop", "a,8,,correct,,amount"], []),
        (["a,5,,insert,,", "a,8,,correct,,amount"], []),
        (["b,7,,correct,a,amount"], [("b", ("shop",))]),
        (["b,7,north,correct,a,amount"], []),
    ],
)
def test_a_correction_that_empties_what_it_does_not_name_is_found(
    tmp_path: Path, records: list[str], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    lake = lake_in(tmp_path)
    arrive(lake, 0, INSERT)
    for number, record in enumerate(records, start=1):
        arrive(lake, number, record)
    assert emptied(lake) == expected


def test_a_redacted_field_is_not_emptied_by_the_correction(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    arrive(lake, 0, INSERT, "b,5,north,insert,,")
    redactions.record(lake, "events", Redaction("a", ["shop"], "dpo", "asked", datetime(2024, 2, 2, tzinfo=timezone.utc)))
    arrive(lake, 1, "a,7,north,correct,,amount", "b,7,,correct,,amount")
    assert emptied(lake) == [("b", ("shop",))]


def test_the_check_holds_the_numbers_of_the_day_until_the_record_comes_whole(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)

    def outcome() -> tuple[bool, str | None]:
        [one] = [one for one in checks.check_silver(lake, SOURCE, [DAY]) if one.check == "whole_correction"]
        return one.passed, one.explanation

    arrive(lake, 0, INSERT)
    assert outcome() == (True, None)
    arrive(lake, 1, "a,7,,correct,,amount")
    passed, explanation = outcome()
    assert not passed
    assert explanation is not None
    assert explanation.startswith("corrections empty fields that they do not name (a: shop)")
    arrive(lake, 2, "a,7,north,correct,,amount")
    assert outcome() == (True, None)
