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
from lakehouse.ledger import contract_archive, contracts_in_use
from lakehouse.ledger.contracts_in_use import ChangedMeaningError
from lakehouse_tests.support.ingested_files import at, deliver, line
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.notified_lake import metric

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.settings import Settings


def changed(**sections: dict[str, Any]) -> SourceContract:
    """The contract of the tests with other keys in some sections."""
    content = contract().model_dump(mode="json")
    for name, value in sections.items():
        content[name] = content[name] | value if isinstance(content[name], dict) else value
    return SourceContract.model_validate(content)


def arrive(settings: Settings, source: SourceContract, day: int) -> list[str]:
    """The messages about the file of a day that was held."""
    report = deliver(settings, source, date(2024, 1, day), line(f"k{day}", f"2024-01-0{day}T07:00:00Z", at(9, day)))
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
def test_a_file_is_held_while_rows_would_be_other_events(settings: Settings, sections: dict[str, Any], key: str) -> None:
    assert arrive(settings, contract(), 2) == []
    for _ in range(2):  # nothing is forgotten
        (message,) = arrive(settings, changed(**sections), 3)
        assert f"{key}" in message
        assert "'lakehouse reparse events --by NAME --reason WHY --now', then repeat" in message
    assert arrive(settings, contract(), 3) == []


def test_all_older_records_read_again_let_the_file_in(settings: Settings) -> None:
    assert arrive(settings, contract(), 2) == []
    other = changed(primary_key=["amount"])
    assert arrive(settings, other, 3) != []
    contracts_in_use.accept(settings, other)
    assert arrive(settings, other, 3) == []
    assert arrive(settings, contract(), 4) != [], "the former is the changed one now"


def test_the_first_contract_and_one_with_the_same_meaning_are_taken(settings: Settings) -> None:
    assert arrive(settings, contract(), 2) == []
    assert arrive(settings, contract(description="other words", lateness={"expected": "P3D"}), 3) == []
    assert contracts_in_use.notices_of_source(settings, contract()) == []


@pytest.mark.parametrize(
    ("sections", "parts"),
    [
        ({"clocks": {"timezone": "Asia/Tokyo"}}, ("clocks.timezone: was UTC and is Asia/Tokyo", "lakehouse reparse events")),
        ({"source": {"null_values": ["", "N/A"]}}, ("source.null_values: was '' and is '', N/A", "lakehouse reparse events")),
        ({"source": {"start_date": "2024-01-02"}}, ("source.start_date", "an earlier day has no partition")),
    ],
)
def test_rows_that_are_read_otherwise_are_told_once(settings: Settings, sections: dict[str, Any], parts: tuple[str, ...]) -> None:
    assert arrive(settings, contract(), 2) == []
    (notice,) = contracts_in_use.notices_of_source(settings, changed(**sections))
    assert all(part in notice for part in parts), notice
    assert arrive(settings, changed(**sections), 3) == []
    assert contracts_in_use.notices_of_source(settings, changed(**sections)) == []


def test_a_lake_of_an_earlier_release_is_compared_with_the_contract_of_silver(settings: Settings) -> None:
    former = contract()
    version = provenance.of_contract(former)
    contract_archive.record(settings, "source", "events", version, former.model_dump_json(), settings.clock())
    other = changed(primary_key=["amount"])
    assert contracts_in_use.problem_of_source(settings, other) is None, "nothing is known of rows"
    rows = pa.table({"id": ["a"]})
    why = {"userMetadata": json.dumps({"code": "1", "contract": version})}
    write_deltalake(locations.silver(settings, "events"), rows, commit_properties=CommitProperties(custom_metadata=why))
    assert "primary_key: was id" in f"{contracts_in_use.problem_of_source(settings, other)}"


def test_a_metric_with_numbers_keeps_its_meaning(settings: Settings) -> None:
    before = metric()
    other = before.model_copy(update={"grain": ["source_system"]})
    contract_archive.record(
        settings, "metric", before.name, provenance.of_contract(before), before.model_dump_json(), settings.clock(), "s"
    )
    contracts_in_use.check_meaning(settings, other)  # nothing is published
    write_deltalake(locations.gold(settings, Series(before)), pa.table({"value": [1]}))
    contracts_in_use.check_meaning(settings, before)
    with pytest.raises(ChangedMeaningError, match="grain: was not set and is source_system, and gold/total was published"):
        contracts_in_use.check_meaning(settings, other)


def test_the_file_and_the_line_of_the_key_are_named(settings: Settings, tmp_path: Path) -> None:
    assert arrive(settings, contract(), 2) == []
    folder = tmp_path / "with_contracts"
    folder.mkdir()
    (folder / "events.yaml").write_text("dataset: events\nprimary_key: [amount]\n")
    there = settings.model_copy(update={"contracts": folder})
    problem = contracts_in_use.problem_of_source(there, changed(primary_key=["amount"]))
    assert f"{folder / 'events.yaml'}:2: primary_key: was id and is amount" in f"{problem}"
