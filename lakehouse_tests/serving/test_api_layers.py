"""Numbers by layer and reconciliations over HTTP: which layer an answer is from, and why the two differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.gold.numbers.lifecycle import State
from lakehouse.live.reconcile import reconcile
from lakehouse.live.routes import LayersModel, ReconciliationModel, StreamModel
from lakehouse.live.table import LayerChoice, NumberLayer, chosen
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.live_lake import LIVE, LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake


@pytest.mark.parametrize(
    ("choice", "state", "has_live", "layer"),
    [
        ("merged", None, True, "live"),
        ("merged", None, False, "books"),
        ("merged", "live", True, "live"),
        ("merged", "live", False, "books"),
        ("merged", "preliminary", True, "books"),
        ("merged", "final", True, "books"),
        ("live", "final", True, "live"),
        ("books", None, True, "books"),
    ],
)
def test_a_day_is_taken_from_one_layer(choice: str, state: str | None, has_live: bool, layer: str) -> None:
    assert chosen(LayerChoice(choice), State(state) if state else None, has_live=has_live) is NumberLayer(layer)


@pytest.mark.spark
@pytest.mark.own_spark
@pytest.mark.merge
def test_each_answer_says_which_layer_it_is_from(lake: Lake, spark: Any) -> None:
    plain = metric(TUMBLING, metric="plain")
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **LIVE), plain])
    for events in ([Event("a", 1, 5), Event("a", 1, 5), Event("b", 70, 1)], [Event("c", 200, 1)]):
        sample.land_events(*events)
        sample.update("orders")
    sample.stream()
    with api_client(lake, sample.catalog) as client:
        before = get_json(client, "/metrics/hourly/layers", day=f"{FIRST}")
        LayersModel.model_validate(before)
        assert (before["layer"], before["state"], before["version"], before["total_rows"]) == ("live", None, None, 3)
        assert before["rows"][0] == {"window_start": "2024-10-24T22:00:00Z", "total": 10, "row_count": 2}
        assert get_json(client, "/metrics/hourly/layers", day=f"{FIRST}", layer="books")["rows"] == []
        get_json(client, "/metrics/hourly/reconciliation", 404, day=f"{FIRST}")
        get_json(client, "/metrics/plain/layers", 404, day=f"{FIRST}", layer="live")

        stream = get_json(client, "/metrics/hourly/stream")
        StreamModel.model_validate(stream)
        assert (stream["status"], stream["rows_read"], stream["late_rows"]) == ("stopped", 4, 0)
        assert (stream["window_state"]["open_windows"], stream["window_state"]["rows"]) == (1, 1)
        assert stream["window_state"]["windows"] == {"created": 3, "fired": 2, "cleaned": 2}
        get_json(client, "/metrics/plain/stream", 404)

        sample.publish()
        reconcile(sample.session, lake, sample.hourly, sample.sources["orders"], FIRST)
        closed = get_json(client, "/metrics/hourly/layers", day=f"{FIRST}")
        assert (closed["layer"], closed["state"], closed["version"]) == ("books", "preliminary", "r1")
        assert closed["rows"][0]["total"] == 5
        live = get_json(client, "/metrics/hourly/layers", day=f"{FIRST}", layer="live")
        assert (live["layer"], live["rows"]) == ("live", before["rows"])
        answer = get_json(client, "/metrics/hourly/reconciliation", day=f"{FIRST}")
        ReconciliationModel.model_validate(answer)
        assert (answer["number"], answer["revision"], answer["total_rows"]) == (1, 1, 6)
        explained = [entry["causes"] for entry in answer["differences"] if entry["causes"]]
        assert explained == [{"duplicate": "-1"}, {"duplicate": "-5"}]
        page = client.get(f"/page/metrics/hourly/{FIRST}/live")
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert '<td class="num">10</td><td class="num">5</td><td class="num">-5</td>' in page.text
        assert "duplicate -5" in page.text
        in_table = re.findall(r'<th scope="row">([^<]+)</th>', page.text)
        assert in_table == sorted(in_table)
        assert len(set(in_table)) == 3
        assert "The stream is stopped, and its watermark is" in page.text
        assert "Its open windows have 1 row of state." in page.text
        assert "<svg" in page.text
        assert "setInterval" in client.get("/page/live.js").text
        assert client.get(f"/page/metrics/plain/{FIRST}/live").status_code == 404
