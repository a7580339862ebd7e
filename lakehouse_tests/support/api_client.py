"""The API on a lake that delta-rs wrote, requested without a socket."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.delta import row_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import account_tables
from lakehouse.ledger import key_log
from lakehouse.serving import app, published_cache
from lakehouse.serving.app import AccessPolicy
from lakehouse_tests.support.arrivals import append_claims
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from httpx import Response

    from lakehouse.contracts import MetricContract, SourceContract
    from lakehouse.lake import Lake

#: A row: key, event time, arrival, kind, standing.
SourceRow = tuple[str, datetime, datetime, str, str]


@contextmanager
def api_client(
    lake: Lake,
    catalog: Catalog,
    terms: AccessPolicy | None = None,
    sensor_ages: Callable[[], Mapping[str, float]] | None = None,
) -> Iterator[TestClient]:
    """A client of the API; nothing is cached between its requests."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("_NUMBERS", "_PENDING", "_ARRIVALS", "_TOKENS"):
            patched.setattr(published_cache, name, (-1.0, -1.0))
        made = app.application_of(lake, catalog, terms or AccessPolicy(rate=1e9), sensor_ages)
        with TestClient(made, base_url="http://localhost", raise_server_exceptions=False) as client:
            yield client


def catalog(*metrics: MetricContract, source: SourceContract | None = None) -> Catalog:
    return Catalog({"events": source or contract()}, {one.name: one for one in metrics})


def get_json(client: TestClient, path: str, status: int = 200, /, **parameters: Any) -> Any:
    """The JSON of a response; of an error its problem document."""
    answer = client.get(path, params=parameters or None)
    assert answer.status_code == status, answer.text
    if status >= 400:
        return problem_document(answer)
    return answer.json()


def problem_document(answer: Response) -> Any:
    """A problem document, as RFC 9457 has it."""
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["type"].startswith("urn:lakehouse:")
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in answer.text
    return problem


def numbers_with_weeks(lake: Lake, **contract_keys: Any) -> ScriptedNumbers:
    """Scripted numbers of a metric with a weekly roll-up."""
    return ScriptedNumbers(lake, metric(**{"publication": {"rollups": ["week"]}, **contract_keys}))


def write_source_rows(
    lake: Lake,
    source: SourceContract,
    rows: list[SourceRow],
    dispositions: Mapping[str, str] | None = None,
    file: str = "file1",
) -> None:
    """Rows of a source as an ingestion leaves them in Bronze, in the key log, and in the account.

    :param file: the id of their ingestion.
    """
    kinds = {"admitted": "applied", "quarantined": "quarantined", "dropped": "dropped", "rejected": "rejected"}
    bronze_rows, claims, account = [], [], []
    for line, (key, event, arrival, kind, standing) in enumerate(rows):
        place = {"arrival_date": arrival.date(), "ingestion_id": file, "line_number": line, "record_key": key}
        named = place | {"event_date": event.date(), "arrival_ts": arrival, "source_file": "one.csv"}
        bronze_rows.append(named | {"event_ts": event, "change_op": kind, "source_system": "shop", "id": key})
        judged = {"standing": standing, "beyond": standing != "admitted", "kind": kind, "source_sequence": 0}
        judged |= {"reason": "beyond_watermark", "detail": "it came late"} if standing != "admitted" else {}
        claims.append({name: value for name, value in (named | judged).items() if name in key_log.SCHEMA.names})
        word = (dispositions or {}).get(key, kinds[standing])
        account.append(named | {"change_op": kind, "disposition": word, "because": "it is so"})
    schema = arrow_schema(bronze_columns(source))
    bronze = pa.Table.from_pylist(bronze_rows, schema=schema)
    row_writer.append(locations.bronze(lake, source.dataset), bronze, partition_by=["arrival_date"])
    append_claims(lake, source.dataset, claims)
    disposition_rows = pa.Table.from_pylist(account, schema=account_tables._DISPOSITIONS)
    row_writer.upsert(
        locations.dispositions(lake, source.dataset), disposition_rows, account_tables.ROW_KEYS, partition_by="arrival_date"
    )


def at(number: int, hour: float = 0) -> datetime:
    """A time on the n-th day of the calendar that these tests live in."""
    return datetime.combine(day(number), datetime.min.time(), timezone.utc) + timedelta(hours=hour)


def on(number: int) -> str:
    """The n-th day as requests name it."""
    return f"{day(number)}"


def days(first: int, last: int) -> list[date]:
    return [day(number) for number in range(first, last + 1)]


def publish_two_days(numbers: ScriptedNumbers) -> ScriptedNumbers:
    """Day 1 in three revisions (1, 5, and 5 as final), day 2 with 7, and their week."""
    numbers.at(1, 6)
    numbers.set(1, 1)
    numbers.publish(1)
    numbers.at(1, 18)
    numbers.set(1, 5)
    numbers.publish(1)
    numbers.at(8)
    numbers.set(2, 7)
    numbers.publish()
    numbers.roll_up()
    numbers.at(8, 12)
    return numbers
