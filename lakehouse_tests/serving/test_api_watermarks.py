"""``/sources/{source}/watermark`` on real tables: its shape, and what it says where there is little to say."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import Catalog
from lakehouse.lateness.routes import WatermarkModel
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.tuned_source import arrive_daily, tuned_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR = timedelta(hours=1)
DAYS = [date(2024, 2, day) for day in range(26, 30)]


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


@pytest.mark.merge
def test_what_moved_the_watermark_and_what_the_rows_say(tmp_path: Path) -> None:
    lake, source = lake_in(tmp_path), tuned_source("PT6H")
    with api_client(lake, Catalog({"events": source})) as client:
        before = get_json(client, "/sources/events/watermark")
        assert (before["watermark"], before["moved_by"], before["tuning"]["recommendation"]) == (None, None, None)
        arrive_daily(lake, source, DAYS, [*[HOUR] * 60, -HOUR])
        after = get_json(client, "/sources/events/watermark")
        WatermarkModel.model_validate(after)
        assert (after["strategy"], after["watermark"]) == ("bounded", "2024-02-29T17:00:00Z")
        assert (after["moved_by"], after["newest_arrival"]) == ("arrival_date=2024-02-29.csv", "2024-02-29T23:00:00Z")
        advice = after["tuning"]["recommendation"]
        assert (after["skewed"], advice["skewed"], advice["rows"]) == (4, 4, 240)
        assert (advice["proposal"]["verdict"], advice["proposal"]["severity"]) == ("lower", "info")
        assert [entry["event_type"] for entry in advice["event_types"]] == ["insert"]
        answer = client.get("/sources/events/watermark")
        same = client.get("/sources/events/watermark", headers={"If-None-Match": answer.headers["ETag"]})
        assert same.status_code == 304


def test_a_strategy_without_max_lateness_has_no_tuning(tmp_path: Path) -> None:
    watermark = {"strategy": "processing_time", "delay": "P1D"}
    source = contract(clocks={"event": "event_time", "arrival": "arrived_at", "watermark": watermark})
    lake = lake_in(tmp_path)
    with api_client(lake, Catalog({"events": source})) as client:
        answer = get_json(client, "/sources/events/watermark")
        assert lake.settings.now == datetime(2024, 3, 1, tzinfo=timezone.utc)
        assert (answer["watermark"], answer["tuning"]) == ("2024-02-29T00:00:00Z", None)


def test_a_source_without_a_watermark_and_an_unknown_one(tmp_path: Path) -> None:
    with api_client(lake_in(tmp_path), Catalog({"events": contract()})) as client:
        assert get_json(client, "/sources/events/watermark", 404)["type"] == "urn:lakehouse:no-watermark"
        assert get_json(client, "/sources/other/watermark", 404)["type"] == "urn:lakehouse:unknown-source"
