"""A derived metric through Dagster, in process: two sources, a late file for one, the derived day and week restated and shown."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.gold.reproduction import reproduce
from lakehouse.gold.reproduction.recompute import ReproduceError
from lakehouse.gold.restatement import reconciliation
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.impact import analysis
from lakehouse.operations import retention
from lakehouse.operations.alerts import signals
from lakehouse.operations.notices import pending as notices
from lakehouse.orchestration.build import build_definitions
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.derived_lake import MONDAY, DerivedLake
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.sensor_ticks import SensorTicks, days_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark
TUESDAY = date(2024, 1, 9)


@pytest.fixture
def sample(lake: Lake, instance: dg.DagsterInstance, spark: SparkSession) -> DerivedLake:
    made = DerivedLake(lake, instance)
    made.published_week()
    return made


@pytest.mark.merge
def test_a_late_file_of_one_source_restates_the_derived_day_and_week_and_the_pages_show_it(
    sample: DerivedLake, spark: SparkSession
) -> None:
    assert sample.numbers() == {
        MONDAY: [(1, "north", Decimal("5.000000"), 3), (1, "south", None, 1)],
        TUESDAY: [(1, "north", Decimal("6.000000"), 2)],
    }
    assert sample.numbers(kind=Kind.WEEK) == {MONDAY: [(1, "north", Decimal("5.333333"), 5), (1, "south", None, 1)]}
    assert _new_notices(sample) == 0, "the first look tells nothing"
    _through_the_sensors(sample)
    assert sample.numbers() == {
        MONDAY: [(2, "north", Decimal("10.000000"), 4), (2, "south", None, 1)],
        TUESDAY: [(1, "north", Decimal("6.000000"), 2)],
    }
    assert sample.numbers(kind=Kind.WEEK) == {MONDAY: [(2, "north", Decimal("8.666667"), 6), (2, "south", None, 1)]}
    assert _new_notices(sample) == 2, "the board hears of the day and of the week"
    _check_reproduction(sample, spark)
    _check_checks(sample, spark)
    _check_pages(sample)
    _check_impact(sample)
    _check_commands(sample)


def _through_the_sensors(sample: DerivedLake) -> None:
    """The late file through silver and revenue by their runs, and on to the derived numbers by what their sensors request."""
    daily, weekly = (
        SensorTicks(sample.lake, sample.catalog, f"restate_{name}", sample.instance)
        for name in ("conversion", "conversion_weekly")
    )
    assert daily.skip_message() == "conversion follows its inputs"
    assert weekly.skip_message() == "conversion_weekly follows its days"
    sample.deliver("shop", 10, "late,8,north,10")
    sample.layers.run(dg.AssetKey(["silver", "shop"]), [MONDAY])
    assert daily.skip_message() == "conversion follows its inputs", "a change of silver alone changes no input"
    for sensor_name, ticks in (("revenue", daily), ("revenue_weekly", weekly)):
        _follow(sample, SensorTicks(sample.lake, sample.catalog, f"restate_{sensor_name}", sample.instance))
        [request] = _follow(sample, ticks)
        assert days_of(request) == [f"{MONDAY}"]
        assert not ticks.tick().run_requests


def _follow(sample: DerivedLake, ticks: SensorTicks) -> list[dg.RunRequest]:
    requests = ticks.run_requests()
    for request in requests:
        assert request.asset_selection
        sample.layers.run(request.asset_selection[0], [MONDAY], dict(request.tags))
    return requests


def _new_notices(sample: DerivedLake) -> int:
    audiences, complaints = notices.audiences(sample.lake, sample.catalog)
    assert ([one.daily.name for one in audiences], complaints) == (["conversion"], [])
    added = notices.add_notices(sample.lake, audiences, lambda consumer: [f"{consumer}_desk"])
    assert notices.follow_in_audit(sample.lake, sample.catalog, audiences) == 0
    assert list(signals.of_metric(sample.lake, sample.catalog, sample.catalog.metrics["conversion"])) == []
    return added


def _check_reproduction(sample: DerivedLake, spark: SparkSession) -> None:
    for kind in (Kind.DAY, Kind.WEEK):
        for revision in (1, 2):
            made = reproduce.reproduce(
                sample.lake, sample.catalog, sample.series("conversion", kind), MONDAY, revision, lambda: spark
            )
            assert made.equal, (kind, revision, made.differences)
    with pytest.raises(ReproduceError, match="conversion is made of published numbers of revenue, sessions, and not of rows"):
        reproduce.known_at(
            sample.lake, sample.catalog, sample.series("conversion").metric, [MONDAY], sample.lake.now(), lambda: spark
        )


def _check_checks(sample: DerivedLake, spark: SparkSession) -> None:
    daily = sample.series("conversion")
    assert reconciliation.EQUALS_INPUTS in reconciliation.gold_check_names(daily)
    outcomes = reconciliation.check_published(sample.lake, daily, [MONDAY, TUESDAY])
    assert [(one.check, one.passed, one.numbers["difference"]) for one in outcomes] == [("published_equals_inputs", True, 0)] * 2
    assert all(one.passed for one in reconciliation.check_gold(sample.lake, daily, lambda: spark, [MONDAY]))


def _check_pages(sample: DerivedLake) -> None:
    with api_client(sample.lake, sample.catalog) as client:
        pages = ["/", "/page/metrics/conversion", "/page/metrics/conversion?by=week", "/page/metrics/conversion/2024-W02"]
        pages += [
            f"/page/metrics/conversion/{MONDAY}",
            f"/page/metrics/conversion/{MONDAY}/r2",
            "/page/sources/web",
            "/page/restated",
        ]
        texts = {}
        for path in pages:
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            texts[path] = answer.text
        assert 'Made of <a href="/page/metrics/revenue">revenue</a>' in texts["/page/metrics/conversion"]
        story = texts[f"/page/metrics/conversion/{MONDAY}"]
        assert f'<a href="/page/metrics/revenue/{MONDAY}">revenue {MONDAY}</a> r1 → r2' in story
        assert f"recomputed from revenue {MONDAY} r2" in story
        assert (
            '<a href="/page/metrics/revenue/2024-W02">revenue 2024-W02</a> r1 → r2' in texts["/page/metrics/conversion/2024-W02"]
        )
        assert "revenue 2024-01-08 is preliminary" in story
        number = get_json(client, "/metrics/conversion", window=f"{MONDAY}", include_history="true")
        assert [row["conversion"] for row in number["result"]] == ["10.000000", None]
        assert (number["revision"], number["staleness"]["behind"]) == (2, False)
        assert number["waiting_for"] == ["revenue 2024-01-08 is preliminary", "sessions 2024-01-08 is preliminary"]
        lineage = get_json(client, f"/lineage/conversion/{MONDAY}")
        assert lineage["made_from"] == {"revenue": {f"{MONDAY}": "r2"}, "sessions": {f"{MONDAY}": "r1"}}
        assert lineage["publication"]["downstream"] == ["board"]
        listed = {one["name"]: one for one in get_json(client, "/metrics")["metrics"]}
        assert listed["conversion"]["windows"] == ["day", "week"]
        sample.deliver("web", 10, "late,8,north")
        assert get_json(client, "/metrics/conversion", window=f"{MONDAY}")["staleness"]["behind"], (
            "a row of the second source waits"
        )
        sample.catch_up("web")
        assert not get_json(client, "/metrics/conversion", window=f"{MONDAY}")["staleness"]["behind"]


def _check_impact(sample: DerivedLake) -> None:
    impact = analysis.of_days(sample.lake, sample.catalog, "web", MONDAY, MONDAY)
    assert [(one.series, one.period) for one in impact.periods if one.series.startswith("conversion")] == [
        ("conversion", f"{MONDAY}"),
        ("conversion_weekly", "2024-W02"),
    ]
    assert impact.readers["conversion"] == ["board"]


def _check_commands(sample: DerivedLake) -> None:
    folder = Path(f"{sample.lake.root}").parent
    environment = {"LAKEHOUSE_BUNDLED_CONTRACTS": "false", "LAKEHOUSE_NOW": "2024-01-10T12:00:00Z"}
    shown = lakehouse_command(folder, "gold", "show", "conversion", f"{MONDAY}", **environment)
    assert "made from revenue r2" in shown.stdout, shown.stderr
    assert "waits for: revenue 2024-01-08 is preliminary" in shown.stdout
    history = lakehouse_command(folder, "gold", "history", "conversion", f"{MONDAY}", **environment)
    assert f"recomputed from revenue {MONDAY} r2" in history.stdout, history.stderr
    refused = lakehouse_command(
        folder, "gold", "revert", "conversion", "2024-W02", "--to", "r1", "--by", "anna", "--reason", "x", **environment
    )
    assert "is made of the same periods of revenue, sessions" in refused.stderr + refused.stdout
    planned = lakehouse_command(
        folder, "backfill", "plan", "conversion", "--from", "2024-01-08", "--to", "2024-01-09", "--reason", "x", **environment
    )
    assert planned.returncode, planned.stdout


@pytest.mark.proof
def test_a_run_of_a_source_brings_the_derived_metric_along_once_all_inputs_have_numbers(sample: DerivedLake) -> None:
    sample.deliver("shop", 10, "d,10,north,8")
    assert set(sample.catch_up("shop")) == {"revenue"}, "sessions has no number of the day yet"
    sample.deliver("web", 10, "w,10,north")
    assert sample.catch_up("web") == {"sessions": [date(2024, 1, 10)], "conversion": [date(2024, 1, 10)]}
    for name, kind in (("conversion", Kind.DAY), ("conversion", Kind.WEEK)):
        assert find_pending(sample.lake, sample.series(name, kind)).starts == frozenset()
    assert sample.catch_up("web") == {}, "the same command again changes nothing"


@pytest.mark.proof
def test_a_redacted_value_is_masked_in_every_revision_of_the_derived_metric_too(sample: DerivedLake) -> None:
    sample.deliver("web", 10, "v,9,south")
    sample.catch_up("web")
    metrics = [*sample.catalog.metrics_of("shop"), *sample.catalog.derived_of("shop")]
    redact_fields(sample.lake, sample.catalog.sources["shop"], "b", ["store"], by="anna", reason="asked for", metrics=metrics)
    sample.catch_up("shop")
    rows = locations.gold(sample.lake, sample.series("conversion")).read().to_pylist()
    stores = {(row["event_date"], row["store"]) for row in rows}
    assert (MONDAY, "south") not in stores
    assert (MONDAY, None) in stores
    assert (TUESDAY, "south") in stores, "a visit of that store is another key's"


@pytest.mark.proof
def test_maintenance_keeps_the_log_of_an_input_that_a_derived_metric_has_yet_to_read(sample: DerivedLake) -> None:
    [revenue] = [one for one in locations.every_table(sample.catalog) if f"{one}" == "gold/revenue"]

    def unread() -> list[str]:
        table = revenue.of(sample.lake).snapshot()
        assert table is not None
        return sorted(need.who for need in retention.needs(sample.lake, sample.catalog, revenue, table).log)

    assert unread() == []
    sample.deliver("shop", 10, "late,8,north,10")
    sample.layers.run(dg.AssetKey(["silver", "shop"]), [MONDAY])
    sample.layers.run(dg.AssetKey(["gold", "revenue"]), [MONDAY])
    assert unread() == ["gold/conversion", "gold/revenue_weekly"]


@pytest.mark.merge
def test_the_asset_graph_shows_the_inputs(sample: DerivedLake) -> None:
    graph = build_definitions(sample.lake.settings, sample.catalog).resolve_asset_graph()
    inputs = {
        name: {key.path[-1] for key in graph.get(dg.AssetKey(["gold", name])).parent_keys}
        for name in ("conversion", "conversion_weekly")
    }
    assert inputs == {"conversion": {"revenue", "sessions"}, "conversion_weekly": {"revenue_weekly", "sessions_weekly"}}
