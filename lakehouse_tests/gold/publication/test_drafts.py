"""What a published row and a candidate are made of, and the inputs of a longer period."""

from __future__ import annotations

from dataclasses import fields
from datetime import date

import pyarrow as pa

from lakehouse.contracts.series import CANDIDATE, LINEAGE
from lakehouse.gold.numbers.published_table import PUBLISHED_SCHEMA, RollupInputs, arrow_schema
from lakehouse.gold.publication.candidates import NumberLineage

TIME = pa.timestamp("us", "UTC")


def test_the_stored_columns_of_published_numbers_stay_the_same() -> None:
    assert [(column.name, column.type) for column in PUBLISHED_SCHEMA] == [
        ("period", pa.string()),
        ("revision", pa.int32()),
        ("is_latest", pa.bool_()),
        ("state", pa.string()),
        ("due_on", pa.date32()),
        ("reason", pa.string()),
        ("published_at", TIME),
        ("superseded_at", TIME),
        ("restated_on", TIME),
        ("restatement_reason", pa.string()),
        ("adjustment", pa.int32()),
        ("booked_on", pa.date32()),
        ("version_name", pa.string()),
        ("content", pa.string()),
        ("changed_rows", pa.int64()),
        ("undecided_rows", pa.int64()),
        ("known_through", pa.date32()),
        ("dataset_version", pa.int32()),
        ("made_from", pa.string()),
        ("inputs", pa.string()),
        ("inputs_without", pa.string()),
        ("dimension_inputs", pa.string()),
        ("silver_version", pa.int64()),
        ("code_version", pa.string()),
        ("contract_version", pa.string()),
        ("run_id", pa.string()),
        ("signed_off_by", pa.string()),
        ("sign_off_reason", pa.string()),
        ("publication_id", pa.string()),
    ]


def test_the_stored_columns_of_candidates_stay_the_same() -> None:
    assert [(column.name, column.type) for column in arrow_schema(CANDIDATE)] == [
        ("revision", pa.int32()),
        ("state", pa.string()),
        ("step", pa.string()),
        ("reason", pa.string()),
        ("explanation", pa.string()),
        ("changed_rows", pa.int64()),
        ("undecided_rows", pa.int64()),
        ("known_through", pa.date32()),
        ("inputs", pa.string()),
        ("inputs_without", pa.string()),
        ("dimension_inputs", pa.string()),
        ("made_from", pa.string()),
        ("silver_version", pa.int64()),
        ("booked_on", pa.date32()),
        ("content", pa.string()),
        ("code_version", pa.string()),
        ("contract_version", pa.string()),
        ("failed", pa.string()),
        ("proposed_at", TIME),
        ("run_id", pa.string()),
    ]


def test_a_lineage_has_the_columns_that_are_defined_as_such() -> None:
    assert {field.name for field in fields(NumberLineage)} == set(LINEAGE)


def test_inputs_of_a_longer_period_are_read_as_they_were_written() -> None:
    stored = '{"2024-01-01": "r2", "2024-01-02": "r1", "adjustments": ["total_v2023-12-30.r3.a1"]}'
    inputs = RollupInputs.parse(stored)
    assert inputs.revisions == {date(2024, 1, 1): "r2", date(2024, 1, 2): "r1"}
    assert f"{inputs}" == stored
    assert f"{RollupInputs.parse(None)}" == "{}"


def test_adjustments_are_not_among_the_days_that_changed() -> None:
    earlier = RollupInputs({date(2024, 1, 1): "r1"})
    later = RollupInputs({date(2024, 1, 1): "r2", date(2024, 1, 2): "r1"}, ["total_v2023-12-30.r3.a1"])
    assert later.changed_since(earlier) == {date(2024, 1, 1): ("r1", "r2"), date(2024, 1, 2): (None, "r1")}
