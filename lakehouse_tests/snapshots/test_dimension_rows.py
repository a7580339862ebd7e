"""The intervals of a dimension at an event time, now and as known then, and ``lakehouse rows --as-of-event``."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.dimensions import tables
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.snapshots.rows import valid_as_of
from lakehouse_tests.support import dimension_model as model
from lakehouse_tests.support.dimension_lake import CORNERS, as_model, deliver, dimension, dimension_files
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.dimension_model import ModelInterval

pytestmark = pytest.mark.spark


def in_one(pieces: Any) -> set[ModelInterval]:
    return as_model(pa.concat_tables(pieces))


@pytest.mark.merge
@law(25)
@example(files=CORNERS, local_rows=100_000, moment=3)
@example(files=CORNERS[:2], local_rows=0, moment=2)  # by Spark, at the moment of a change
@given(files=dimension_files(3), local_rows=st.sampled_from([0, 100_000]), moment=st.integers(-1, 6))
def test_what_was_known_is_the_model_of_what_had_arrived(
    files: list[list[DimensionRecord]],
    local_rows: int,
    moment: int,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), dimension(), spark)
    known: list[DimensionRecord] = []
    for number, records in enumerate(files):
        known += deliver(sample, date(2024, 2, 1 + number), records, f"{number}")
    at = day(moment)
    assert in_one(tables.current_intervals(sample.lake, sample.contract, at)) == model.valid_at(known, at)
    sample.lake.settings.local_rows = local_rows
    for when in sorted({record.arrival for record in known}):
        by_then = [record for record in known if record.arrival <= when]
        assert in_one(valid_as_of(sample.lake, sample.contract, at, when, lambda: spark)) == model.valid_at(by_then, at)


def test_the_command_shows_what_was_valid_as_it_was_known(
    lake: Lake, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SampleLake(lake, dimension(), spark)
    monday, friday = datetime(2024, 1, 9, 6, tzinfo=timezone.utc), datetime(2024, 1, 12, 6, tzinfo=timezone.utc)
    deliver(sample, monday.date(), [DimensionRecord("17", day(0), "", "silver", "north", "a", None, monday)], "a")
    deliver(sample, friday.date(), [DimensionRecord("17", day(7), "", "gold", "north", "b", None, friday)], "b")
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for source in (sample.contract, contract()):
        written = yaml.safe_dump(source.model_dump(mode="json", exclude_none=True, exclude_unset=True))
        (contracts / f"{source.dataset}.yaml").write_text(written)
    monkeypatch.setenv("LAKEHOUSE_ROOT", lake.root)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(contracts))
    monkeypatch.setattr(LakeSpark, "session", lambda _: pytest.fail("few rows start no Spark"))

    def run(*arguments: str, source: str = "customers") -> tuple[int, str]:
        result = CliRunner().invoke(app, ["rows", source, *arguments])
        return result.exit_code, result.output

    now = '2024-01-08T00:00:00Z to open  17: customer_id "17", tier "gold", region "north", email "b"\n'
    before = '2024-01-01T00:00:00Z to 2024-01-08T00:00:00Z  17: customer_id "17", tier "silver", region "north", email "b"\n'
    then = '2024-01-01T00:00:00Z to open  17: customer_id "17", tier "silver", region "north", email "a"\n'
    assert run("--as-of-event", "2024-01-10") == (0, now)
    assert run("--as-of-event", "2024-01-07") == (0, before)
    assert run("--as-of-event", "2024-01-10", "--known-at", "2024-01-10") == (0, then)
    assert run("--as-of-event", "2023-12-31") == (0, "There are no rows.\n")
    row = json.loads(run("--as-of-event", "2024-01-10", "--json")[1])
    assert (row["dimension_key"], row["tier"], row["valid_to"], row["is_current"]) == ("17", "gold", None, True)
    assert "2024-01-08" in run()[1]  # without it, the changes
    code, told = run("--as-of-event", "2024-01-10", "--date", "2024-01-10")
    assert (code, "--as-of-event names a moment in event time" in told) == (2, True)
    code, told = run("--as-of-event", "2024-01-10", source="events")
    assert (code, "events is no dimension" in told) == (2, True)
