"""Files as senders write them: with formats, columns of two, lines before the header, comments, or no header at all."""

from __future__ import annotations

import bz2
import lzma
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from lakehouse import locations
from lakehouse.bronze import column_values, row_parser
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts.source import SourceContract
from lakehouse.dispositions.readings import RECEIVED
from lakehouse.lake import SimulatedClock
from lakehouse.ledger import ingestions
from lakehouse.reparse.read_again import RawFile, rows_read_otherwise
from lakehouse_tests.support.empty_lake import lake_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.lake import Lake

DAY = date(2024, 11, 5)
NOON = datetime(2024, 11, 5, 12, tzinfo=timezone.utc)
FORMATS = {"sold_at": "%d.%m.%Y %H:%M", "amount": "1.234,56 €"}


def source_with(clocks: dict[str, Any] | None = None, **source: Any) -> SourceContract:
    return SourceContract.model_validate(
        {
            "dataset": "sales",
            "primary_key": ["id"],
            "source": {"landing": "{arrival_date}*", "start_date": "2024-01-01", **source},
            "clocks": {"event": "sold_at", "timezone": "Europe/Berlin", "naive_times": "in_timezone", **(clocks or {})},
            "model": {"fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "decimal(12,2)"}]},
        }
    )


def rows_of(lake: Lake, contract: SourceContract, text: str) -> list[dict[str, Any]]:
    """The rows of Bronze of one file."""
    landing = Path(f"{lake.settings.landing}")
    landing.mkdir(parents=True, exist_ok=True)
    (landing / f"{DAY}.x").write_text(text)
    Ingest(lake, contract, lambda: pytest.fail("few rows need no Spark"), "run").day(DAY)
    assert not [entry.message for entry in ingestions.all_of(lake, "sales") if entry.status == "held"]
    rows = locations.bronze(lake, "sales").read()
    assert rows is not None
    assert_read_again(lake, contract, rows)
    return sorted(rows.to_pylist(), key=lambda row: row["line_number"])


def assert_read_again(lake: Lake, contract: SourceContract, rows: Any) -> None:
    """Raw records that are read again under the same contract read the same."""
    files = {entry.ingestion_id: RawFile("x", entry.header, NOON) for entry in ingestions.all_of(lake, "sales")}
    again = rows_read_otherwise(contract, files, rows.append_column(RECEIVED, rows["arrival_ts"]))
    assert len(again) == 0


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (row["record_key"], row["event_date"] and f"{row['event_date']}", row["amount"] and f"{row['amount']}") for row in rows
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path).at(SimulatedClock(NOON))


def test_a_file_with_a_title_and_comments_in_the_words_of_its_country(lake: Lake) -> None:
    contract = source_with(delimiter=";", skip_lines=2, comment="#", formats=FORMATS)
    text = (
        "Sales of the week\n\nid;date;clock;sold_at;amount\n# until noon\n1;;;04.11.2024 09:00;1.100,00 €\n"
        "2;;;4.11.2024 23:30;12,50\n# broken off\n3;;;2024-11-04;1,00\n4;;;05.11.2024 00:30;1,100.00\n"
    )
    rows = rows_of(lake, contract, text)
    assert shown(rows) == [
        ("1", "2024-11-04", "1100.00"),
        ("2", "2024-11-04", "12.50"),
        ("3", None, None),
        ("4", "2024-11-05", None),
    ]
    assert [row["malformed_reason"] for row in rows[2:]] == [
        "sold_at: 2024-11-04 is not written as %d.%m.%Y %H:%M",
        "amount: 1,100.00 is not written as 1.234,56 €",
    ]
    assert rows[0]["event_ts"] == datetime(2024, 11, 4, 8, tzinfo=timezone.utc)
    assert [row["line_number"] for row in rows] == [5, 6, 8, 9]


def test_a_time_in_two_columns_and_no_header(lake: Lake) -> None:
    names = ["id", "date", "clock", "amount"]
    contract = source_with(columns=names, joined={"sold_at": ["date", "clock"]}, formats={"sold_at": "%Y%m%d %H%M"})
    rows = rows_of(lake, contract, "1,20241104,0900,5.00\n2,20241104,,6.00\n")
    assert shown(rows) == [("1", "2024-11-04", "5.00"), ("2", None, None)]
    assert "sold_at" in rows[1]["malformed_reason"]


def test_a_comment_within_the_quotes_of_a_record_is_text(lake: Lake) -> None:
    contract = source_with(comment="#").model_copy(update={"primary_key": ["id"]})
    rows = rows_of(lake, contract, 'id,sold_at,amount\n# no\n"a\n# kept\nb",2024-11-04T09:00:00Z,5.00\n#,,\n')
    assert shown(rows) == [("a\n# kept\nb", "2024-11-04", "5.00")]


def test_a_header_where_there_should_be_none_is_malformed(lake: Lake) -> None:
    contract = source_with(columns=["id", "sold_at", "amount"])
    rows = rows_of(lake, contract, "id,sold_at,amount\n1,2024-11-04T09:00:00Z,5.00\n")
    assert [row["malformed_reason"] for row in rows] == ["is a header, and source.columns says that the file has none", None]


def test_values_of_json_lines(lake: Lake) -> None:
    contract = source_with(format="json", formats={"sold_at": "epoch_milliseconds", "amount": "1,234K"})
    text = '{"id": "1", "sold_at": 1730710800000, "amount": "250K"}\n{"id": "2", "sold_at": "1730710800000", "amount": 7}\n'
    assert shown(rows_of(lake, contract, text)) == [
        ("1", "2024-11-04", "250000.00"),
        ("2", "2024-11-04", "7.00"),
    ]


def test_a_key_of_doubles_has_one_zero() -> None:
    assert column_values.record_keys([pa.array([0.0, -0.0, -1.5])]).values.to_pylist() == ["0.0", "0.0", "-1.5"]
    assert row_parser.record_key([-0.0, "a"]) == '["0.0","a"]'


def test_the_records_of_an_array_are_rows_with_numbers_of_their_own(lake: Lake) -> None:
    text = """[
  {"id": "1", "sold_at": "2024-11-04T09:00:00Z", "amount": "5.00"}, {"id": "2",
    "sold_at": "2024-11-04T10:00:00Z", "amount": "6,00"},
  3
]
"""
    rows = rows_of(lake, source_with(format="json", array=True), text)
    assert shown(rows) == [("1", "2024-11-04", "5.00"), ("2", "2024-11-04", None), (None, None, None)]
    assert [row["line_number"] for row in rows] == [2, 3, 4], (
        "the first two begin on one line, and a row is identified by its number"
    )
    assert rows[2]["malformed_reason"] == "a JSON int where an object is expected"


@pytest.mark.parametrize("form", [{"skip_lines": 2}, {"format": "json"}, {"columns": ["id", "sold_at", "amount"]}])
@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_a_file_that_is_no_text_is_held_whatever_lines_are_left_out(
    lake: Lake, form: dict[str, Any], pack: Callable[[bytes], bytes]
) -> None:
    landing = Path(f"{lake.settings.landing}")
    landing.mkdir(parents=True, exist_ok=True)
    (landing / f"{DAY}.x").write_bytes(pack(b"Export\n\nid,sold_at,amount\n1,2024-11-04T09:00:00Z,5.00\n"))
    report = Ingest(lake, source_with(**form), lambda: pytest.fail("few rows need no Spark"), "run").day(DAY)
    [held] = report.held
    assert "is compressed with" in f"{held.message}"


@pytest.mark.parametrize("text", ["[{}", '{"id": 1}', "[1] [2]", ""])
def test_a_file_that_is_no_whole_array_is_held(lake: Lake, text: str) -> None:
    landing = Path(f"{lake.settings.landing}")
    landing.mkdir(parents=True, exist_ok=True)
    (landing / f"{DAY}.x").write_text(text)
    source = source_with(format="json", array=True)
    report = Ingest(lake, source, lambda: pytest.fail("few rows need no Spark"), "run").day(DAY)
    [held] = report.held
    assert "line 1: " in f"{held.message}"
    assert "have the file sent again" in f"{held.message}"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"formats": {"nothing": "%Y%m%d"}}, "source.formats: nothing reads a column nothing"),
        ({"joined": {"nothing": ["a", "b"]}}, "source.joined: nothing reads a column nothing"),
        ({"formats": {"id": "1.234,56"}}, "source.formats.id: the field is text"),
        ({"formats": {"amount": "comma"}}, "'comma' is no format: use a pattern such as"),
        ({"columns": ["a", "a"]}, "columns: name each column once"),
        ({"columns": ["id", "sold_at"]}, "source.columns: lacks amount"),
    ],
)
def test_a_format_that_nothing_follows_is_refused(source: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        source_with(**source)
    assert reason in str(refused.value)
