"""``/quarantine`` and who may decide: tokens, roles, other sites' pages."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.dispositions import account_tables
from lakehouse.ledger import decisions
from lakehouse.serving import tokens
from lakehouse.serving.app import AccessPolicy
from lakehouse.serving.tokens import Role
from lakehouse_tests.support.api_client import api_client, at, catalog, get_json, on, problem_document, write_source_rows
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from httpx import Response
    from starlette.testclient import TestClient

    from lakehouse.lake import Lake

ACCEPT = {"decision": "accept", "reason": "seen the receipt"}


@pytest.fixture(name="lake")
def _settings(tmp_path: Path) -> Lake:
    """Three rows, two of which wait."""
    lake, source = lake_in(tmp_path), contract(lateness={"watermark": "P1D", "beyond": "quarantine"})
    rows = [(key, at(1), at(1 + days), "insert", standing) for key, days, standing in ROWS]
    write_source_rows(lake, source, rows)
    account_tables.after_decision(lake, source, {"a", "b", "c"}, {at(1).date()})
    return lake


ROWS = (("a", 0, "admitted"), ("b", 3, "quarantined"), ("c", 4, "quarantined"))


@pytest.fixture(name="client")
def _client(lake: Lake) -> Iterator[TestClient]:
    with api_client(lake, catalog(metric(), source=contract(lateness={"watermark": "P1D", "beyond": "quarantine"}))) as client:
        yield client


def decide(client: TestClient, row: str, token: str | None, body: Any = ACCEPT, **headers: str) -> Response:
    bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
    return client.post(f"/quarantine/{row}/decision", json=body, headers=bearer | headers)


def refused(answer: Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(problem_document(answer)["type"]).removeprefix("urn:lakehouse:")


@pytest.mark.merge
def test_what_waits(client: TestClient) -> None:
    answer = get_json(client, "/quarantine")
    assert [(row["id"], row["record_key"], row["status"], row["overdue"]) for row in answer["rows"]] == [
        ("events:file1:1", "b", "open", True),
        ("events:file1:2", "c", "open", True),
    ]
    assert (answer["total"], answer["next_offset"]) == (2, None)
    page = get_json(client, "/quarantine", limit=1, offset=1, source="events")
    assert [row["record_key"] for row in page["rows"]] == ["c"]
    assert get_json(client, "/quarantine", limit=1)["next_offset"] == 1
    assert get_json(client, "/quarantine", status="accepted")["rows"] == []
    assert get_json(client, "/quarantine", cause="rule_failed")["rows"] == []
    assert get_json(client, "/quarantine", cause="beyond_cutoff") == answer
    assert get_json(client, "/quarantine", 404, source="other")["type"] == "urn:lakehouse:unknown-source"


@pytest.mark.merge
def test_a_steward_decides_under_their_own_name(client: TestClient, lake: Lake) -> None:
    _, token = tokens.add(lake, "anna", Role.STEWARD)
    done = decide(client, "events:file1:1", token)
    assert done.status_code == 200, done.text
    assert done.json() == {
        "id": "events:file1:1",
        "decision": "accept",
        "by": "anna",
        "repeated": False,
        "waiting_days": [on(1)],
    }
    (said,) = decisions.all_of(lake, "events")
    assert (said.record_key, said.verdict, said.by, said.reason) == ("b", "accept", "anna", "seen the receipt")
    assert decide(client, "events:file1:1", token, **{"If-None-Match": "*"}).json()["repeated"]
    assert len(decisions.all_of(lake, "events")) == 1, "saying it again decides nothing"
    shown = get_json(client, "/quarantine", status="accepted")["rows"]
    assert [(one["record_key"], one["decided_by"], one["decision"]) for one in shown] == [("b", "anna", "seen the receipt")]
    assert decide(client, "events:file1:1", token, {"decision": "reject", "reason": "no"}).json()["decision"] == "reject"
    assert [one.verdict for one in decisions.all_of(lake, "events")] == ["accept", "reject"]


@pytest.mark.merge
def test_who_may_not(client: TestClient, lake: Lake) -> None:
    _, reader = tokens.add(lake, "ben", Role.READER)
    kept, steward = tokens.add(lake, "anna", Role.STEWARD)
    row = "events:file1:1"
    answer = decide(client, row, None)
    assert (refused(answer, 401), answer.headers["www-authenticate"]) == ("token-needed", "Bearer")
    for wrong in (f"{steward}x", steward[:-1], f"lh_{kept.token_id}_", f"lh_{kept.token_id}", "lh", "x", "lh__"):
        assert refused(decide(client, row, wrong), 401) == "token-needed"
    assert refused(decide(client, row, reader), 403) == "not-a-steward"
    tokens.revoke(lake, kept)
    tokens.revoke(lake, kept)
    assert refused(decide(client, row, steward), 401) == "token-needed"
    _, over = tokens.add(lake, "carl", Role.STEWARD, lake.now() + timedelta(days=1))
    lake.settings.now = lake.now() + timedelta(days=1)
    assert refused(decide(client, row, over), 401) == "token-needed"
    assert decisions.all_of(lake, "events") == []


def test_a_guesser_is_slowed_down(client: TestClient) -> None:
    answers = [decide(client, "events:file1:1", "lh_00000000_guess").status_code for _ in range(12)]
    assert answers == [401] * 10 + [429] * 2


@pytest.mark.merge
def test_pages_of_other_sites_write_nothing(client: TestClient, lake: Lake) -> None:
    _, token = tokens.add(lake, "anna", Role.STEWARD)
    row = "events:file1:1"
    assert refused(decide(client, row, token, Origin="https://evil.example"), 403) == "other-site"
    assert refused(decide(client, row, token, Origin="null"), 403) == "other-site"
    assert refused(decide(client, row, token, **{"Sec-Fetch-Site": "cross-site"}), 403) == "other-site"
    form = client.post(
        f"/quarantine/{row}/decision", data={"decision": "accept", "reason": "x"}, headers={"Authorization": f"Bearer {token}"}
    )
    assert refused(form, 422) == "not-as-documented", "a form is no JSON"
    plain = client.post(
        f"/quarantine/{row}/decision",
        content=b'{"decision": "accept", "reason": "x"}',
        headers={"Authorization": f"Bearer {token}", "Content-Type": "text/plain"},
    )
    assert refused(plain, 422) == "not-as-documented"
    cookie = client.post(f"/quarantine/{row}/decision", json=ACCEPT, headers={"Cookie": f"token={token}"})
    assert refused(cookie, 401) == "token-needed"
    assert decisions.all_of(lake, "events") == []
    assert decide(client, row, token, Origin="http://localhost").status_code == 200


@pytest.mark.parametrize(
    ("row", "body", "status", "kind"),
    [
        ("events:file1:0", ACCEPT, 404, "unknown-row"),
        ("events:file1:999999999999999", ACCEPT, 404, "unknown-row"),
        ("events:file2:1", ACCEPT, 404, "unknown-row"),
        ("other:file1:1", ACCEPT, 404, "unknown-source"),
        ("events:file1", ACCEPT, 422, "not-as-documented"),
        ("events:..:1", ACCEPT, 422, "not-as-documented"),
        ("events:file1:1", ACCEPT | {"decision": "keep"}, 422, "not-as-documented"),
        ("events:file1:1", ACCEPT | {"reason": "  "}, 422, "not-as-documented"),
        ("events:file1:1", ACCEPT | {"reason": "x" * 501}, 422, "not-as-documented"),
        ("events:file1:1", ACCEPT | {"by": "somebody else"}, 422, "not-as-documented"),
        ("events:file1:1", [], 422, "not-as-documented"),
        ("events:file1:1", ACCEPT | {"reason": "x" * 20_000}, 413, "too-large"),
    ],
)
def test_impossible_decisions_are_refused(client: TestClient, lake: Lake, row: str, body: Any, status: int, kind: str) -> None:
    _, token = tokens.add(lake, "anna", Role.STEWARD)
    assert refused(decide(client, row, token, body), status) == kind
    assert decisions.all_of(lake, "events") == []


@pytest.mark.merge
def test_a_body_of_unknown_length_is_not_read_without_end(client: TestClient, lake: Lake) -> None:
    _, token = tokens.add(lake, "anna", Role.STEWARD)
    pieces = (b" " * 1000 for _ in range(1000))
    answer = client.post(
        "/quarantine/events:file1:1/decision",
        content=pieces,
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    assert refused(answer, 413) == "too-large"


@pytest.mark.merge
def test_where_reading_needs_a_token(lake: Lake) -> None:
    _, reader = tokens.add(lake, "ben", Role.READER)
    terms = AccessPolicy(rate=1e9, reading_needs_token=True)
    with api_client(lake, catalog(metric()), terms) as client:
        for path in ("/metrics", "/quarantine", "/metrics/total?window=2024-01-01", "/data-quality/restatements"):
            assert get_json(client, path, 401)["type"] == "urn:lakehouse:token-needed"
        assert (get_json(client, "/health")["status"], get_json(client, "/health")["metrics"]) == ("ok", [])
        assert client.get("/metrics", headers={"Authorization": f"Bearer {reader}"}).status_code == 200


def test_only_hashes_are_kept(lake: Lake) -> None:
    token, text = tokens.add(lake, "anna", Role.STEWARD)
    secret = text.partition(f"{token.token_id}_")[2]  # it may have underscores itself
    stored = b"".join(path.read_bytes() for path in Path(locations.tokens(lake).address).rglob("*") if path.is_file())
    assert secret.encode() not in stored
    assert text.encode() not in stored
