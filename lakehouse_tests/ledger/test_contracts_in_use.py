"""Files that arrive after the contract was changed in place, and numbers of a metric that was; ingested without Spark."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse.ledger import contract_archive
from lakehouse.ledger.contract_archive import ChangedMeaningError
from lakehouse_tests.support.ingested_files import at, deliver, line
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.notified_lake import metric

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake


def changed(**sections: dict[str, Any]) -> SourceContract:
    """The contract of the tests with other keys in some sections."""
    content = contract().model_dump(mode="json")
    for name, value in sections.items():
        content[name] = content[name] | value if isinstance(content[name], dict) else value
    return SourceContract.model_validate(content)


def arrive(lake: Lake, source: SourceContract, day: int) -> list[str]:
    """The messages about the file of a day that was held."""
    report = deliver(lake, source, date(2024, 1, day), line(f"k{day}", f"2024-01-0{day}T07:00:00Z", at(9, day)))
    assert len(report.held) + len(report.ingested) == 1, report
    return [entry.message or "" for entry in report.held]


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"primary_key": ["amount"]}, "primary_key: was id and is amount"),
        ({"clocks": {"event": "arrived_at"}}, "clocks.event: was event_time and is arrived_at"),
        ({"clocks": {"arrival": None}}, "clocks.arrival: was arrived_at and is not set"),
        ({"changes": {"op": None}}, "changes.op: was op and is not set"),
    ],
)
def test_a_file_is_held_while_rows_would_be_other_events(lake: Lake, sections: dict[str, Any], key: str) -> None:
    assert arrive(lake, contract(), 2) == []
    for _ in range(2):  # nothing is forgotten
        (message,) = arrive(lake, changed(**sections), 3)
        assert f"{key}" in message
        assert "'lakehouse source reparse events --by NAME --reason WHY --now', then repeat" in message
    assert arrive(lake, contract(), 3) == []


def test_all_older_records_read_again_let_the_file_in(lake: Lake) -> None:
    assert arrive(lake, contract(), 2) == []
    other = changed(primary_key=["amount"])
    assert arrive(lake, other, 3) != []
    contract_archive.accept(lake, other)
    assert arrive(lake, other, 3) == []
    assert arrive(lake, contract(), 4) != [], "the former is the changed one now"


def test_the_first_contract_and_one_with_the_same_meaning_are_taken(lake: Lake) -> None:
    assert arrive(lake, contract(), 2) == []
    assert arrive(lake, contract(description="other words", lateness={"expected": "P3D"}), 3) == []
    assert contract_archive.notices_of_source(lake, contract()) == []


@pytest.mark.parametrize(
    ("sections", "parts"),
    [
        (
            {"clocks": {"timezone": "Asia/Tokyo"}},
            ("clocks.timezone: was UTC and is Asia/Tokyo", "lakehouse source reparse events"),
        ),
        (
            {"source": {"null_values": ["", "N/A"]}},
            ("source.null_values: was '' and is '', N/A", "lakehouse source reparse events"),
        ),
        ({"source": {"start_date": "2024-01-02"}}, ("source.start_date", "an earlier day has no partition")),
    ],
)
def test_rows_that_are_read_otherwise_are_told_once(lake: Lake, sections: dict[str, Any], parts: tuple[str, ...]) -> None:
    assert arrive(lake, contract(), 2) == []
    (notice,) = contract_archive.notices_of_source(lake, changed(**sections))
    assert all(part in notice for part in parts), notice
    assert arrive(lake, changed(**sections), 3) == []
    assert contract_archive.notices_of_source(lake, changed(**sections)) == []


def test_a_lake_of_an_earlier_release_is_compared_with_the_contract_of_silver(lake: Lake) -> None:
    former = contract()
    version = provenance.of_contract(former)
    contract_archive.record(lake, "source", "events", version, former.model_dump_json(), lake.now())
    other = changed(primary_key=["amount"])
    assert contract_archive.problem_of_source(lake, other) is None, "nothing is known of rows"
    rows = pa.table({"id": ["a"]})
    why = {"userMetadata": json.dumps({"code": "1", "contract": version})}
    write_deltalake(locations.silver(lake, "events").address, rows, commit_properties=CommitProperties(custom_metadata=why))
    assert "primary_key: was id" in f"{contract_archive.problem_of_source(lake, other)}"


def test_a_metric_with_numbers_keeps_its_meaning(lake: Lake) -> None:
    before = metric()
    other = before.model_copy(update={"grain": ["source_system"]})
    contract_archive.record(
        lake, "metric", before.name, provenance.of_contract(before), before.model_dump_json(), lake.now(), "s"
    )
    contract_archive.check_meaning(lake, other)  # nothing is published
    write_deltalake(locations.gold(lake, Series(before)).address, pa.table({"value": [1]}))
    contract_archive.check_meaning(lake, before)
    with pytest.raises(ChangedMeaningError, match="grain: was not set and is source_system, and gold/total was published"):
        contract_archive.check_meaning(lake, other)


def test_the_file_and_the_line_of_the_key_are_named(lake: Lake, tmp_path: Path) -> None:
    assert arrive(lake, contract(), 2) == []
    folder = tmp_path / "with_contracts"
    folder.mkdir()
    (folder / "events.yaml").write_text("dataset: events\nprimary_key: [amount]\n")
    there = lake.with_settings(contracts=folder)
    problem = contract_archive.problem_of_source(there, changed(primary_key=["amount"]))
    assert f"{folder / 'events.yaml'}:2: primary_key: was id and is amount" in f"{problem}"
