"""``/sources/{source}/rows`` on real tables: what silver holds, what was known, where the answer ends, and who may read."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts import Catalog
from lakehouse.ledger import applied_inputs
from lakehouse.serving import tokens
from lakehouse.serving.tokens import Role
from lakehouse.silver import update as silver_update
from lakehouse.snapshots import input_sets
from lakehouse.snapshots import routes as api_rows
from lakehouse.snapshots.routes import RowsModel
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.api_client import api_client, get_json, problem_document
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import at, deliver, line
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

    from lakehouse.lake import Lake

EVENTS = contract()
FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)


def no_session() -> Any:
    pytest.fail("few rows start no Spark")


def update(lake: Lake) -> None:
    """Bring silver up to date."""
    silver_update.update(lake, EVENTS, no_session, sorted(applied_inputs.pending(lake, "events")), "run")


@pytest.fixture(scope="module", name="lake")
def _settings(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Keys a and b of the first day, c of the second; b was deleted later, which came after the snapshot ``early``."""
    lake = lake_in(tmp_path_factory.mktemp("lake"))
    lines = [line("b", "2024-01-01T06:00:00Z", at(8)), line("a", "2024-01-01T07:00:00Z", at(9))]
    deliver(lake, EVENTS, SECOND, *lines, line("c", "2024-01-02T06:00:00Z", at(9)))
    update(lake)
    chosen = input_sets.ChosenInputs(input_sets.every_input(lake, "events"), "all")
    input_sets.create_snapshot(lake, EVENTS, "early", chosen, by="anna", reason="audit")
    deliver(lake, EVENTS, date(2024, 1, 3), line("b", "", at(8, 3), "delete"))
    update(lake)
    return lake


@pytest.fixture(name="client")
def _client(lake: Lake) -> Iterator[TestClient]:
    _, token = tokens.add(lake, "anna", Role.STEWARD)
    with api_client(lake, Catalog({"events": EVENTS})) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        yield client


def keys(client: TestClient, **parameters: Any) -> list[str]:
    answer = get_json(client, "/sources/events/rows", **parameters)
    RowsModel.model_validate(answer)
    return [row["record_key"] for row in answer["rows"]]


def refused(client: TestClient, **parameters: Any) -> tuple[str, str]:
    problem = get_json(client, "/sources/events/rows", 400, **parameters)
    return problem["type"].removeprefix("urn:lakehouse:"), problem["detail"]


@pytest.mark.merge
def test_rows_of_now_are_those_of_silver(client: TestClient) -> None:
    answer = get_json(client, "/sources/events/rows", date="2024-01-01")
    (row,) = answer["rows"]
    assert (row["record_key"], row["id"], row["amount"], row["event_ts"]) == ("a", "a", 1, "2024-01-01T07:00:00Z")
    assert (row["event_date"], row["arrival_ts"], row["source_file"]) == (
        "2024-01-01",
        "2024-01-02T09:00:00Z",
        "arrival_date=2024-01-02.csv",
    )
    assert (answer["more"], answer["known_at"], answer["snapshot"]) == (False, None, None)
    assert answer["command"] == "lakehouse rows events --date 2024-01-01 --to rows.parquet"
    assert keys(client) == ["a", "c"]
    assert keys(client, start_date="2024-01-02") == ["c"]
    assert keys(client, end_date="2024-01-01") == ["a"]
    assert keys(client, start_date="2024-01-01", end_date="2024-01-05", key="c") == ["c"]
    assert keys(client, key="b") == keys(client, key="nobody") == keys(client, date="2030-01-01") == []


@pytest.mark.merge
def test_rows_of_then_are_computed_from_bronze(client: TestClient) -> None:
    assert keys(client, known_at="2024-01-02") == ["a", "b", "c"]
    assert keys(client, known_at="2024-01-02T08:30:00Z") == ["b"]
    assert keys(client, known_at="2024-01-02T09:30:00+01:00") == ["b"]
    assert keys(client, known_at="2024-01-03T12:00:00Z", date="2024-01-01") == ["a"]
    assert keys(client, snapshot="early", key="b") == ["b"]
    answer = get_json(client, "/sources/events/rows", known_at="2024-01-02T08:30:00 01:00")
    assert answer["known_at"] == "2024-01-02T07:30:00Z"
    assert answer["command"] == "lakehouse rows events --known-at 2024-01-02T08:30:00+01:00 --to rows.parquet"


def test_an_answer_says_that_there_are_more_rows(client: TestClient) -> None:
    answer = get_json(client, "/sources/events/rows", snapshot="early", limit=2)
    assert ([row["record_key"] for row in answer["rows"]], answer["more"]) == (["a", "b"], True)
    assert answer["command"] == "lakehouse rows events --snapshot early --to rows.parquet"
    assert get_json(client, "/sources/events/rows", limit=1)["more"] is True
    assert get_json(client, "/sources/events/rows", limit=2)["more"] is False


def test_too_many_rows_to_compute_are_refused_with_the_command(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_rows, "_COMPUTED", 1)
    kind, detail = refused(client, snapshot="early", date="2024-01-01")
    assert kind == "too-many-rows"
    assert detail.endswith("or run: lakehouse rows events --date 2024-01-01 --snapshot early --to rows.parquet")
    assert keys(client, snapshot="early", key="a") == ["a"]


@pytest.mark.merge
def test_a_redaction_applies_before_silver_follows(lake: Lake, client: TestClient) -> None:
    redact_fields(lake, EVENTS, "c", ["amount"], by="dora", reason="asked to")
    for parameters in ({}, {"known_at": "2024-01-02"}, {"snapshot": "early"}):
        answer = get_json(client, "/sources/events/rows", key="c", **parameters)
        assert [row["amount"] for row in answer["rows"]] == [None]


def test_what_makes_no_sense_is_refused(client: TestClient) -> None:
    assert refused(client, date="2024-01-01", end_date="2024-01-02")[0] == "makes-no-sense"
    assert refused(client, start_date="2024-01-03", end_date="2024-01-02")[0] == "makes-no-sense"
    assert refused(client, snapshot="early", known_at="2024-01-02")[0] == "makes-no-sense"
    assert refused(client, known_at="2024-02-31")[0] == "makes-no-sense"
    for wrong in ({"date": "2024-02-31"}, {"date": "7"}, {"limit": 1001}, {"known_at": "yesterday"}, {"day": "2024-01-01"}):
        get_json(client, "/sources/events/rows", 422, **wrong)
    unknown = get_json(client, "/sources/events/rows", 404, snapshot="lost")
    assert unknown["type"] == "urn:lakehouse:unknown-snapshot"
    assert "known are early" in unknown["detail"]
    assert get_json(client, "/sources/other/rows", 404)["type"] == "urn:lakehouse:unknown-source"


def test_only_stewards_read_the_values_of_rows(lake: Lake, client: TestClient) -> None:
    del client.headers["Authorization"]
    assert get_json(client, "/sources/events/rows", 401)["type"] == "urn:lakehouse:token-needed"
    _, reader = tokens.add(lake, "ben", Role.READER)
    answer = client.get("/sources/events/rows", headers={"Authorization": f"Bearer {reader}"})
    assert problem_document(answer)["type"] == "urn:lakehouse:not-a-steward"
