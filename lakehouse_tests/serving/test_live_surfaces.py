"""All surfaces say the same of the numbers of a stream (rule R16), read from the printed text, the page and the responses.

Each surface gives, for every hour of a day, the live number and the published one; they are compared with a plain read of the
tables. The mutant that the law fails on: the page shows the published number as the live one.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse.live import table
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse_tests.support.api_client import api_client, catalog, get_json
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark
from lakehouse_tests.support.typed_numbers import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

    from lakehouse.lake import Lake

DAY = "2024-01-01"
HOURS = [f"{DAY}T{hour:02}" for hour in (9, 10, 11)]
#: By hour the live and the published total; None: the surface does not show that layer, or the layer has no such hour.
Layers = dict[str, tuple[int | None, int | None]]
BOUND = {"measure": "total", "above": 0}


@pytest.fixture(name="numbers")
def _numbers(lake: Lake) -> Iterator[ScriptedNumbers]:
    """The stream has dropped a late row of the hour from 9 on, has not read that from 10 on, and counts that from 11 on alone."""
    terms = {"window": {"size": "PT1H"}, "live": True, "alerts": {"values": [BOUND], "live_tolerance": 0}}
    with without_spark():
        numbers = ScriptedNumbers(lake, metric("hourly", **terms))
        numbers.at(1, 11)
        numbers.set_hours(1, {9: 50, 10: 7})
        numbers.publish()
        numbers.stream_hours(1, {9: 40, 11: 3}, passed=10)
        yield numbers


def plain_tables(numbers: ScriptedNumbers) -> Layers:
    def totals(path: str, *, latest: bool) -> dict[str, int]:
        rows = DeltaTable(f"{numbers.lake.root}/{path}").to_pyarrow_table().to_pylist()
        return {f"{row['window_start']:%Y-%m-%dT%H}": row["total"] for row in rows if not latest or row["is_latest"]}

    live, published = totals("live/hourly", latest=False), totals("gold/hourly", latest=True)
    return {hour: (live.get(hour), published.get(hour)) for hour in HOURS}


def _by_hour(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["window_start"][:13]: row["total"] for row in rows}


def of_the_api(client: TestClient) -> Layers:
    """``GET /metrics/{name}`` of each hour, and of the day."""
    found = {name: get_json(client, "/metrics/hourly", window=DAY, version=name)["result"] for name in ("live", "latest")}
    live, published = _by_hour(found["live"]), _by_hour(found["latest"])
    for hour in (hour for hour in HOURS if hour in live):
        [row] = get_json(client, "/metrics/hourly", window=hour, version="live")["result"]
        assert row["total"] == live[hour]
    return {hour: (live.get(hour), published.get(hour)) for hour in HOURS}


def of_the_series(client: TestClient) -> Layers:
    """``GET /metrics/{name}/series``."""
    points = {
        name: get_json(client, "/metrics/hourly/series", start=DAY, end=DAY, version=name)["points"][0]["result"]
        for name in ("live", "latest")
    }
    live, published = _by_hour(points["live"]), _by_hour(points["latest"])
    return {hour: (live.get(hour), published.get(hour)) for hour in HOURS}


def of_the_comparison(client: TestClient) -> Layers:
    """``GET /metrics/{name}/compare`` of the day."""
    shown = get_json(client, "/metrics/hourly/compare", window=DAY, version_a="live", version_b="latest")
    changes = [change for change in shown["changes"] if change["measure"] == "total"]
    by_hour = {change["grain"]["window_start"]: (change["before"], change["after"]) for change in changes}
    return {hour: by_hour.get(hour, (None, None)) for hour in HOURS}


def of_the_page(client: TestClient) -> Layers:
    """``/page/metrics/{name}/{day}/live``."""
    page = client.get(f"/page/metrics/hourly/{DAY}/live").text
    line = r'<tr><th scope="row">([^<]+)</th><td>total</td><td class="num">(.*?)</td><td class="num">(.*?)</td>'
    by_hour = {name: (_shown(live), _shown(published)) for name, live, published in re.findall(line, page)}
    return {hour: by_hour[hour] for hour in HOURS}


def _shown(cell: str) -> int | None:
    return int(cell.replace(",", "")) if re.fullmatch("-?[\\d,]+", cell) else None


def of_the_alerts(numbers: ScriptedNumbers) -> Layers:
    """The alert about the largest published value, and where the published one is within its bound, about that of the stream."""
    alerts = signals.of_metric(numbers.lake, catalog(numbers.metric), numbers.metric)
    [alert] = [alert for alert in alerts if alert.kind is AlertKind.VALUE]
    matched = re.match(r"total of hourly \S+ is (\d+) for window_start (\S+):", alert.text)
    assert matched
    value, is_live = int(matched[1]), "of the stream" in alert.text
    return {matched[2]: (value, None) if is_live else (None, value)}


def contradicting(numbers: ScriptedNumbers, printed: Callable[..., tuple[str, str]]) -> list[str]:
    """Every contradiction between a surface and the tables: surface, hour, what it says and what they hold."""
    known = plain_tables(numbers)
    with api_client(numbers.lake, catalog(numbers.metric)) as client:
        readers = {"GET /metrics": of_the_api, "GET /series": of_the_series, "GET /compare": of_the_comparison}
        shown = {name: reader(client) for name, reader in (readers | {"the page": of_the_page}).items()}
    shown["the alert"] = of_the_alerts(numbers)
    for hour in HOURS:
        compared = json.loads(printed("gold", "compare", "hourly", hour, "live", "latest", "--json")[0])
        [change] = [change for change in compared["changes"] if change["measure"] == "total"]
        shown.setdefault("gold compare", {})[hour] = (change["before"], change["after"])
    return [
        f"{name} says of {hour}: {value}; the tables: {known[hour][layer]}"
        for name, layers in shown.items()
        for hour, values in layers.items()
        for layer, value in enumerate(values)
        if value != known[hour][layer] and not (name == "the alert" and value is None)
    ]


@pytest.fixture(name="printed")
def _printed(numbers: ScriptedNumbers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, str]]:
    return lambda *words: typed(numbers, tmp_path, monkeypatch, *words)


def test_all_surfaces_say_the_same_of_live_numbers(numbers: ScriptedNumbers, printed: Callable[..., tuple[str, str]]) -> None:
    assert plain_tables(numbers) == {HOURS[0]: (40, 50), HOURS[1]: (None, 7), HOURS[2]: (3, None)}
    assert contradicting(numbers, printed) == []


def test_the_law_fails_where_the_page_shows_the_published_number_as_live(
    numbers: ScriptedNumbers, printed: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = table.live_rows

    def mutant(*about: Any) -> list[dict[str, Any]]:
        return [row | {"total": 50} if row["total"] == 40 else row for row in right(*about)]

    monkeypatch.setattr("lakehouse.live.pages.table", SimpleNamespace(live_rows=mutant))
    assert contradicting(numbers, printed) == ["the page says of 2024-01-01T09: 50; the tables: 40"]
