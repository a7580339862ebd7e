"""All surfaces say the same of every number (rule R16), read from the printed text, the rendered pages and the responses.

Each lake is built by typed commands and comes with what a person says who knows what happened. The law takes every number of the
lake, of days, weeks and windows, asks each surface, and names each field in which one contradicts the others. What it says of
mutants, each tried by ``test_the_law_fails_on``:

================================================  ==================================================================
The product with one mistake                      The law names
================================================  ==================================================================
An adjustment is taken for the number             the demo's table, the value: 5 in place of 40
Compare takes the newest version for both sides   GET /compare (first): it does not compare with what was published
                                                  first; gold compare, adjusted
A window has the history of its day               gold history and GET /history of an hour, the revision and value
A row on time is called late                      the day that grew on its own day, the reason and how often it was
                                                  restated, on all surfaces against what happened
An earlier number has what was booked later       gold show and GET /metrics of an earlier time, adjusted: 45 in place of
                                                  nothing
A held number fails another check                 gold show, the page and the API, failed: row_count in place of Dagster's
                                                  change
The page takes the published for the live number  the page of live numbers, the value of an hour (``test_live_surfaces``)
The simulation takes the first for the last       the simulation's table, the value: 30 in place of 40
The replay counts the days of silver              replay's closing line: 3 days of gold/revenue in place of 5
================================================  ==================================================================

The lake of live numbers is written without Spark (``numbers_without_spark``): what a stream counts is another law's subject.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.examples import simulation_results
from lakehouse.gold.numbers import history, lifecycle, version_selector, window_history
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.gold.restatement import closing
from lakehouse.live import compared
from lakehouse.orchestration.execution import replay
from lakehouse_tests.support.api_client import api_client
from lakehouse_tests.support.laws import is_proof
from lakehouse_tests.support.surfaces import lakes, readers
from lakehouse_tests.support.surfaces.earlier_readers import CHECKS, EARLIER
from lakehouse_tests.support.surfaces.readers import READERS, Number
from lakehouse_tests.support.surfaces.said import Said, contradictions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

    from lakehouse_tests.support.surfaces.readers import Reader
    from lakehouse_tests.support.surfaces.typed_lake import TypedLake

pytestmark = [pytest.mark.spark, pytest.mark.merge]
HAPPENED = "what happened"
#: The numbers that each run is about; a proof is about all.
IN_EACH_RUN = [("revenue", name) for name in ("2024-11-04", "2024-11-06", "2024-11-12", "2024-W45")]


@pytest.fixture(scope="module", name="shop")
def _shop(spark: SparkSession, spark_remote: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> TypedLake:
    assert spark
    return lakes.days_of_a_shop(tmp_path_factory.mktemp("shop"), spark_remote)


@pytest.fixture(scope="module", name="kinds")
def _kinds(spark: SparkSession, spark_remote: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> TypedLake:
    assert spark
    return lakes.kinds_of_numbers(tmp_path_factory.mktemp("kinds"), spark_remote)


def contradicting(
    sample: TypedLake,
    surfaces: Mapping[str, Reader] = READERS,
    numbers: Iterable[tuple[str, str]] | None = None,
    as_of: str | None = None,
) -> list[str]:
    """Every contradiction about the numbers of a lake, by default all of them.

    :param as_of: the earlier time as of which they are read.
    """
    listed = []
    with sample.used(), api_client(sample.lake, sample.catalog) as client:
        for metric, period in sample.numbers() if numbers is None else numbers:
            number = Number(sample, client, metric, period, as_of)
            known = sample.truth.get((metric, period)) if as_of is None else sample.earlier.get((metric, period, as_of))
            truth = {HAPPENED: known} if known is not None else {}
            said = {name: reader(number) for name, reader in surfaces.items()}
            listed += contradictions(f"{metric} {period}", truth | {name: one for name, one in said.items() if one is not None})
    return listed


def test_all_surfaces_say_the_same_of_the_days_of_a_shop(shop: TypedLake) -> None:
    assert contradicting(shop, numbers=shop.numbers() if is_proof() else IN_EACH_RUN) == []


def test_all_surfaces_say_the_same_of_earlier_numbers(shop: TypedLake) -> None:
    """As of each time of the list; a proof reads every number as of the end of each day since it was first published."""
    for metric, period, moment in list(shop.earlier) if is_proof() else list(shop.earlier)[2:5]:
        assert contradicting(shop, EARLIER, [(metric, period)], moment) == []
    if not is_proof():
        return
    with shop.used():
        first_seen = {key: min(row["published_at"] for row in rows_of(shop, *key)) for key in shop.numbers()}
    for day in range(4, 13):
        moment = f"2024-11-{day:02}T23:30:00Z"
        known = [key for key, first in first_seen.items() if first <= datetime.fromisoformat(moment.replace("Z", "+00:00"))]
        assert contradicting(shop, EARLIER, known, moment) == []


def replayed(sample: TypedLake) -> tuple[dict[str, int], dict[str, int]]:
    """What ``lakehouse replay`` prints last of its rows and days, and the same from a plain read of the tables."""
    with sample.used():
        printed = sample.at("2024-11-07T00:00:00Z").typed(
            "replay", "sales", "--landing", f"{sample.folder / 'landing' / 'sales'}"
        )
        matched = re.search(r"(\d+) arrival days, (\d+) rows in Bronze, (\d+) malformed", printed)
        assert matched, printed
        shown = dict(zip(("arrival days", "rows", "malformed"), map(int, matched.groups())))
        shown |= {name: int(days) for name, days in re.findall(r"gold/(\w+): (\d+) days published or restated", printed)}
        rows = DeltaTable(f"{sample.lake.root}/bronze/sales").to_pyarrow_table().to_pylist()
        held = {
            "arrival days": len({row["arrival_date"] for row in rows}),
            "rows": len(rows),
            "malformed": sum(row["malformed_reason"] is not None for row in rows),
        }
        for name in ("revenue", "revenue_weekly"):
            published = DeltaTable(f"{sample.lake.root}/gold/{name}").to_pyarrow_table().to_pylist()
            changes = [row for row in published if row["reason"] != "daily_finalization"]  # a change of state restates nothing
            held[name] = len({(row["period"], row["published_at"]) for row in changes})
    return shown, held


@pytest.mark.proof
class TestReplay:
    """The closing line of ``lakehouse replay``."""

    def test_it_says_what_the_tables_hold(self, spark: SparkSession, spark_remote: dict[str, str], tmp_path: Path) -> None:
        assert spark
        shown, held = replayed(lakes.a_shop_to_replay(tmp_path, spark_remote))
        assert (held["rows"], held["malformed"], held["revenue"]) == (6, 1, 5)
        assert shown == {name: held[name] for name in shown}
        assert "revenue" in shown

    def test_the_law_fails_where_it_counts_the_days_of_silver(
        self, spark: SparkSession, spark_remote: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert spark
        right = replay.catch_up

        def mutant(*about: Any) -> Any:
            after = right(*about)
            return replace(after, restated=dict.fromkeys(after.restated, after.silver_days[:1]))

        monkeypatch.setattr(replay, "catch_up", mutant)
        shown, held = replayed(lakes.a_shop_to_replay(tmp_path, spark_remote))
        assert (shown["revenue"], held["revenue"]) == (3, 5)


def rows_of(sample: TypedLake, metric: str, period: str) -> list[dict[str, Any]]:
    """Every published row of a period."""
    series = Series(sample.catalog.metrics[metric], Kind.WEEK if "-W" in period else Kind.DAY)
    table = locations.gold(sample.lake, series).read()
    assert table is not None
    return [row for row in table.to_pylist() if row["period"] == period]


def test_a_failed_check_is_the_same_everywhere(shop: TypedLake) -> None:
    numbers = [("revenue", name) for name in ("2024-11-06", "2024-11-07")]
    assert contradicting(shop, CHECKS, shop.numbers() if is_proof() else numbers) == []


@pytest.mark.proof
def test_all_surfaces_say_the_same_of_all_kinds_of_numbers(kinds: TypedLake) -> None:
    assert contradicting(kinds) == []


@pytest.mark.proof
def test_views_in_spark_say_the_same(shop: TypedLake, kinds: TypedLake, spark: SparkSession) -> None:
    surfaces = {"the table": readers.delta_table, "the Spark view": readers.spark_view(spark)}
    assert contradicting(shop, surfaces) == []
    assert contradicting(kinds, surfaces) == []


def test_a_reader_that_says_nothing_is_no_reader(shop: TypedLake) -> None:
    """Each surface says something of the day with the longest history, and what it says depends on the number."""
    with shop.used(), api_client(shop.lake, shop.catalog) as client:
        said = {name: reader(Number(shop, client, "revenue", "2024-11-04")) for name, reader in READERS.items()}
    of_newest = {"the overview", "status", "status --json"}
    assert {name for name, one in said.items() if one is None} == of_newest, "they show the newest number only"
    silent = [name for name, one in said.items() if one == Said()]
    assert silent == ["GET /compare (first)"], "it compares by itself"


class TestMutants:
    """The product with one mistake: the law names the surface and the field."""

    def test_an_adjustment_is_taken_for_the_number(self, shop: TypedLake, monkeypatch: pytest.MonkeyPatch) -> None:
        right = history.standing

        def mutant(series: Any, known: Any) -> Any:
            standing = right(series, known)
            now = known[-1]
            sides = {
                name: Sides(standing.sides[name].before, total) for name, total in history.grain_totals(series, now.rows).items()
            }
            return replace(standing, now=now, sides=sides)

        monkeypatch.setattr(history, "standing", mutant)
        lines = contradicting(shop, numbers=[("revenue", "2024-11-04")])
        shown_value = "says of revenue 2024-11-04, value: {'revenue': Decimal('5.00')}"
        tables = ("the demo's table", "the demo's first table")
        assert [line.partition(";")[0] for line in lines] == [f"{table} {shown_value}" for table in tables]

    def test_compare_takes_the_newest_version_for_both_sides(self, shop: TypedLake, monkeypatch: pytest.MonkeyPatch) -> None:
        right = compared._side
        monkeypatch.setattr(compared, "_side", lambda *about: right(*about[:-1], "latest"))
        surfaces = {name: READERS[name] for name in ("the table", "gold compare", "GET /compare")}
        lines = contradicting(shop, surfaces, [("revenue", "2024-11-04")])
        with pytest.raises(AssertionError, match="it compares with what was published first"):
            contradicting(shop, {"first": readers.api_first}, [("revenue", "2024-11-04")])
        assert lines == [], "of the value it says the newest, which is right; what it compares with is not"

    def test_a_row_on_time_is_called_late(
        self, spark: SparkSession, spark_remote: dict[str, str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = lifecycle.reason_for

        def mutant(*about: Any, **options: Any) -> RevisionReason:
            reason = right(*about, **options)
            return RevisionReason.LATE_DATA if reason is RevisionReason.NEW_DATA else reason

        assert spark
        monkeypatch.setattr("lakehouse.gold.publication.candidates.lifecycle.reason_for", mutant)
        lines = contradicting(lakes.a_day_that_grew(tmp_path, spark_remote))
        assert "the table says of revenue 2024-11-04, reason: 'late_data'; what happened: 'new_data'" in lines
        assert "the page of the number says of revenue 2024-11-04, restated: 1; what happened: 0" in lines

    def test_an_earlier_number_has_what_was_booked_later(self, shop: TypedLake, monkeypatch: pytest.MonkeyPatch) -> None:
        right = version_selector.adjustments_of
        for module in (history, version_selector):
            monkeypatch.setattr(module, "adjustments_of", lambda versions, chosen, _at=None: right(versions, chosen))
        numbers, moment = [("revenue", "2024-11-04")], "2024-11-08T12:00:00Z"
        lines = contradicting(shop, EARLIER, numbers, moment)
        assert {line.partition(" says of")[0] for line in lines} == {
            "gold show --version",
            "gold show --version --json",
            "GET /metrics",
        }
        assert all("adjusted: {'revenue': Decimal('45.00')" in line for line in lines)

    def test_the_simulation_takes_the_first_number_for_the_last(self, shop: TypedLake, monkeypatch: pytest.MonkeyPatch) -> None:
        right = simulation_results._days
        monkeypatch.setattr(
            simulation_results,
            "_days",
            lambda *about: [replace(day, final=day.provisional) for day in right(*about)],
        )
        surfaces = {name: READERS[name] for name in ("the table", "the simulation's table")}
        (line,) = contradicting(shop, surfaces, [("revenue", "2024-11-04")])
        assert line.startswith("the simulation's table says of revenue 2024-11-04, value: {'revenue': Decimal('30.00')}")

    def test_a_held_number_fails_another_check(self, shop: TypedLake, monkeypatch: pytest.MonkeyPatch) -> None:
        right = closing.held_by
        mutant = lambda series, uncomputed, checks: right(series, uncomputed, ["row_count"] if checks else checks)  # noqa: E731
        monkeypatch.setattr(closing, "held_by", mutant)
        lines = contradicting(shop, CHECKS, [("revenue", "2024-11-06")])
        assert "gold show says of revenue 2024-11-06, failed: ('row_count',); what happened: ('change',)" in lines

    @pytest.mark.proof
    def test_a_window_has_the_history_of_its_day(self, kinds: TypedLake, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(window_history, "history", lambda versions, _start: list(versions))
        lines = contradicting(kinds, numbers=[("hourly", "2024-11-04T09")])
        assert any(line.startswith("gold history says of hourly 2024-11-04T09, value") for line in lines)
