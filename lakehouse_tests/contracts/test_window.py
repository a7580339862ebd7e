"""What a contract may say of windows of event time, and what its mistakes are told."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts import metric_sources as several_sources
from lakehouse.contracts.loader import ContractError, completed, load_catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import days_reached, source_days
from lakehouse_tests.support import united_lake
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = {"name": "orders", "sql": "count(*)", "type": "bigint", "additive": True}


def metric(window: Any, **changes: Any) -> MetricContract:
    keys = {"metric": "hourly", "source": "sales", "measures": [ORDERS], "window": window}
    return MetricContract.model_validate(keys | changes)


def test_the_start_of_the_window_is_the_first_column_of_the_grain_and_stays_so() -> None:
    hourly = metric({"size": "PT1H"}, grain=["shop"])
    assert hourly.grain == ["window_start", "shop"]
    assert MetricContract.model_validate(hourly.model_dump(mode="json")) == hourly
    assert hourly.event_window is not None
    assert (hourly.event_window.columns, hourly.event_window.overlaps) == (["window_start"], False)
    assert hourly.columns_read(["shop", "event_ts", "event_date", "sku"]) == ["shop", "event_ts", "event_date"]


def test_a_window_that_steps_by_its_size_is_the_same_as_one_without_a_step() -> None:
    assert metric({"size": "PT15M", "every": "PT15M"}).counts_rows_of_its_day
    assert not metric({"size": "PT1H", "every": "PT15M"}).counts_rows_of_its_day
    assert not metric(2).counts_rows_of_its_day


def test_windows_in_words() -> None:
    assert f"{metric({'size': 'PT1H'}).event_window}" == "windows of 1 h"
    assert f"{metric({'size': 'PT1H', 'every': 'PT15M'}).event_window}" == "windows of 1 h, one every 15 min"


def test_a_session_is_identified_by_its_first_moment_and_its_key() -> None:
    sessions = metric({"gap": "PT30M", "key": "sku"}, grain=["sku", "shop"])
    assert sessions.grain == ["window_start", "sku", "shop"]
    assert MetricContract.model_validate(sessions.model_dump(mode="json")) == sessions
    assert f"{sessions.event_window}" == "sessions of sku with pauses of at most 30 min"
    assert metric({"gap": "PT30M", "key": ["shop", "sku"]}).grain == ["window_start", "shop", "sku"]
    assert sessions.additive == ["orders"], "a row lies in one session"
    days = [date(2024, 1, 10)]
    assert [f"{day:%d}" for day in source_days(sessions, days)] == ["08", "09", "10", "11"]
    assert sorted(f"{day:%d}" for day in days_reached(sessions, days)) == ["09", "10", "11", "12"]


def test_its_zone_is_that_of_the_sources_event_days() -> None:
    orders = contract(clocks={"event": "event_time", "timezone": "Europe/Berlin"})
    window = completed(metric({"size": "PT1H"}), {"sales": orders}).event_window
    assert window is not None
    assert window.timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("window", "mistake"),
    [
        (
            "{size: PT7H}",
            "window: a day is no multiple of 7 h: windows could not start at midnight",
        ),
        ("{size: PT90S}", "window: size and every are whole minutes, such as PT15M or PT1H"),
        ("{every: PT1H}", "window.size: is missing"),
        ("{size: PT1H, gap: PT1M}", "window.gap: unknown key; docs/contracts.md lists the known ones"),
        ("{size: P2D}", "window.size: Input should be less than or equal to 1 day"),
        (
            "{size: PT1H, every: PT2H}",
            "window.every: 2 h is longer than the size, 1 h",
        ),
        ("{size: P1D, every: PT1H}", "window.size: a window that overlaps others is at most 23 h long"),
        ("0", "window: Input should be greater than or equal to 1"),
        (
            "{size: PT1H, timezone: Asia/Tokyo}",
            "window.timezone: the event days of sales are those of UTC; leave the key out",
        ),
        ("{gap: PT30M}", "window.key: is missing"),
        ("{key: shop}", "window.gap: is missing"),
        ("{gap: P1D, key: shop}", "window.gap: Input should be less than or equal to 23 hours"),
        ("{gap: PT30M, key: user}", "window.key: user is neither a field of sales nor brought by a join; it has "),
        ("{gap: PT30M, key: []}", "window.key: List should have at least 1 item"),
        ("2\npublication: {rollups: [week]}", "publication.rollups: numbers that count rows several times have none"),
        (
            "{size: PT1H, every: PT15M}\npublication: {rollups: [week]}",
            "publication.rollups: numbers that count rows several times have none",
        ),
        (
            "{gap: PT1H, key: sku}\npublication: {rollups: [week]}",
            "publication.rollups: sessions are added up, and orders is not additive; give the roll-ups to another metric",
        ),
    ],
)
def test_a_mistake_names_line_and_field(tmp_path: Path, window: str, mistake: str) -> None:
    path = tmp_path / "hourly.yaml"
    measures = "[{name: orders, sql: count(*), type: bigint}]"
    path.write_text(f"metric: hourly\nsource: sales\nmeasures: {measures}\nwindow: {window}\n")
    with pytest.raises(ContractError) as raised:
        load_catalog(tmp_path)
    line = 5 if "publication" in window else 4
    assert f"{raised.value}".startswith(f"{path}:{line}: {mistake}")


def test_a_metric_of_several_sources_may_have_windows() -> None:
    sources = {name: united_lake.source(name) for name in united_lake.COLUMNS}
    several = united_lake.metric(window={"size": "PT1H"}, publication={})
    assert list(several_sources.misfits(several, sources)) == []
    assert several.grain == ["window_start", "store"]
