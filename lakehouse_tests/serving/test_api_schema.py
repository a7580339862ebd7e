"""Every answer conforms to the OpenAPI document, whatever the request: schemathesis queries a real server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth

from lakehouse.live import routes as live_numbers
from lakehouse.serving import app
from lakehouse.serving import openapi as examples_of
from lakehouse_tests.support.api_client import catalog, on
from lakehouse_tests.support.api_server import running_server
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import metric

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Requests per operation and kind of data, where not many are asked for.
FEW = 12
MANY = 20_000
#: What names something in the lake, so that answers are not all refusals.
REAL: dict[str, list[str]] = {
    "name": ["total"],
    "metric": ["total"],
    "source": ["events"],
    "window": [on(1), on(2), "2024-W01"],
    "window_name": [on(1), on(2), "2024-W01"],
    "version": ["latest", "final", "r1", "2024-01-05", "2024-01-01T10:00:00Z"],
    "version_a": ["first", "r2"],
    "version_b": ["latest", "r3"],
    "start": [on(1)],
    "end": [on(9)],
    "start_date": [on(1)],
    "end_date": [on(9)],
    "key": ["k1", "late"],
    "known_at": [on(2), "2024-01-03T10:00:00Z"],
    "row_id": ["events:file1:1", "events:file1:2"],
}
#: What a path calls as a query does, and means otherwise: versions of datasets and models, not of numbers.
IN_PATHS = {"version": ["v1.0"]}


def every_answer(url: str, token: str, few: int, wanted: int) -> Counter[int]:
    """Ask each operation with data as documented and with other data, in rounds, until so many requests were made.

    :returns: how many answers had which status.
    """
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    # Two days in the wrong order, and more days than are measured at once, are as documented one by one.
    schema.config.checks.positive_data_acceptance.expected_statuses.append("400")
    session, statuses, seed = requests.Session(), Counter[int](), 0
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == sum(len(methods) for methods in schema.raw_schema["paths"].values())
    while sum(statuses.values()) < wanted:
        seed += 1
        for operation in operations:
            for mode in GenerationMode.POSITIVE, GenerationMode.NEGATIVE:
                if mode is GenerationMode.NEGATIVE and operation.path in ("/metrics", "/health", "/datasets", "/models"):
                    continue  # nothing to get wrong: they have no parameters
                _ask(operation, mode, few, seed, session, statuses, token)
    return statuses


def _ask(operation: Any, mode: GenerationMode, few: int, seed: int, session: Any, statuses: Counter[int], token: str) -> None:
    for_stewards = operation.method.upper() == "POST" or operation.path.endswith("/rows")
    headers = {"Authorization": f"Bearer {token}"} if for_stewards else {}

    # With so many wrong tokens the address has to wait: the answer is 429, and not 401.
    excluded = [ignored_auth] if few > FEW else []

    @examples(
        max_examples=few,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @schemathesis_seed(seed)
    @given(case=operation.as_strategy(generation_mode=mode), real=st.data())
    def requests_and_answers(case: Any, real: st.DataObject) -> None:
        if mode is GenerationMode.POSITIVE:
            for where, known in ((case.path_parameters, REAL | IN_PATHS), (case.query, REAL)):
                for name in where or ():
                    if name in known and real.draw(st.integers(0, 3)):
                        where[name] = real.draw(st.sampled_from(known[name]))
        answer = case.call(session=session, headers=headers)
        statuses[answer.status_code] += 1
        assert answer.headers["x-content-type-options"] == ["nosniff"]
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]
        case.validate_response(answer, headers=headers, excluded_checks=excluded)

    requests_and_answers()


def schemathesis_seed(seed: int) -> Any:
    from hypothesis import seed as seeded  # noqa: PLC0415 (its name is that of the argument)

    return seeded(seed)


@pytest.mark.merge
def test_every_answer_is_as_documented(tmp_path: Path) -> None:
    with running_server(tmp_path) as (url, token):
        statuses = every_answer(url, token, FEW, 1)
    assert not [status for status in statuses if status >= 500]
    assert {200, 404, 422} <= set(statuses)


@pytest.mark.proof
@pytest.mark.timeout(5400)
def test_every_one_of_many_answers_is_as_documented(tmp_path: Path) -> None:
    with running_server(tmp_path) as (url, token):
        statuses = every_answer(url, token, 150, MANY)
    assert sum(statuses.values()) >= MANY
    assert not [status for status in statuses if status >= 500]
    assert statuses[200] > MANY / 10, statuses


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The OpenAPI document: it takes half a second to make."""
    return app.application_of(lake_in(tmp_path_factory.mktemp("documented")), catalog(metric())).openapi()


@pytest.mark.merge
@pytest.mark.parametrize("path", sorted(examples_of.ANSWERS))
def test_examples_are_as_documented(document: Any, path: str) -> None:
    (operation,) = document["paths"][path].values()
    told = operation["responses"]["200"]["content"]["application/json"]
    schema = {**told["schema"], "components": document["components"]}
    examples = [example["value"] for example in told["examples"].values()] if "examples" in told else [told["example"]]
    assert examples[0] == examples_of.ANSWERS[path]
    assert examples[1:] == [of_stream for place, of_stream in live_numbers.NUMBER_EXAMPLES.items() if place == path]
    for example in examples:
        assert list(jsonschema_rs.validator_for(schema).iter_errors(example)) == []


def test_every_answer_has_an_example(document: Any) -> None:
    assert sorted(document["paths"]) == sorted(examples_of.ANSWERS)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that only answers."""
    with running_server(tmp_path_factory.mktemp("running")) as (url, _):
        yield url


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(address: str, method: str) -> None:
    answer = requests.request(method, f"{address}/metrics", timeout=10)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json()["type"] == "urn:lakehouse:no-such-method"
