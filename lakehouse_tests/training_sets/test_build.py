"""A set holds what was known at each event, and nothing that came later."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.training_sets import build, labels, releases, set_table
from lakehouse.training_sets import events as set_events
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind
from lakehouse_tests.support import stopped_commits
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.training_lake import Said, TrainingLake, moment, rows_of, training_set

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.settings import Settings
    from lakehouse.training_sets.releases import Release

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]


def built(lake: TrainingLake, version: str = "v5.0", of_labels: str = "v3.0") -> Release:
    """The set of what is known now."""
    labels.release(lake.settings, lake.sources["labels"], of_labels, by="anna", notes="first labels")
    terms = {"by": "anna", "notes": "first set", "labels_version": of_labels}
    return build.build(lake.spark, lake.settings, lake.catalog, lake.contract, version, **terms)


def as_the_model(lake: TrainingLake, release: Release) -> None:
    rows = rows_of(set_table.read(lake.settings, release), lake.contract)
    assert rows == lake.expected(release.known_at)


def late_tier(lake: TrainingLake) -> None:
    """A payment half an hour before its customer's new tier is known, though that had begun before."""
    lake.deliver(Said("customers", "c1", at=-5, arrives=-4, values=("silver",)))
    lake.deliver(Said("payments", "p0", at=0.5, arrives=0.6, values=("c1", "DE", 5)))
    lake.deliver(Said("customers", "c1", at=0.9, arrives=2 + 1 / 48, values=("gold",)))
    lake.deliver(Said("payments", "p1", at=2, arrives=2.1, values=("c1", "DE", 3)))
    lake.deliver(Said("payments", "p2", at=3, arrives=3.1, values=("c1", "DE", 1)))
    lake.deliver(Said("labels", "p1", at=5, arrives=6, values=(1,)))
    lake.deliver(Said("payments", "p0", at=0.5, arrives=7, values=("c1", "DE", 9)))
    lake.settings.now = moment(10)


@pytest.fixture(name="lake", scope="module")
def _lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> TrainingLake:
    """One lake for the module: a test builds versions of its own."""
    lake = TrainingLake(lake_settings(tmp_path_factory.mktemp("lake")), spark)
    late_tier(lake)
    return lake


def test_a_set_from_files_to_its_manifest(lake: TrainingLake) -> None:
    release = built(lake)
    as_the_model(lake, release)
    tiers = {row["record_key"]: row["tier"] for row in set_table.read(lake.settings, release).to_pylist()}
    assert tiers == {"p0": "silver", "p1": "silver", "p2": "gold"}
    about = release.about
    assert (about["rows"], about["labels"], list(about["time"])) == (3, {"source": "labels", "version": "v3.0"}, ["fit", "test"])
    assert about["columns"]["tier"] == {"nulls": 0.0, "distinct": 2, "frequent": {"silver": 2, "gold": 1}}
    assert about["columns"]["amount"]["min"] == 1
    assert about["features"]["country_total"]["metric"] == "spend"
    assert built(lake) == release, "the same command again changes nothing"
    with pytest.raises(ReleaseError, match="under another contract"):
        build.build(lake.spark, lake.settings, lake.catalog, training_set(reading="as_corrected"), "v5.0", by="a", notes="")


def test_a_mutant_that_leaks_by_an_hour_is_caught(lake: TrainingLake, monkeypatch: pytest.MonkeyPatch) -> None:
    without_leak = set_events.with_last

    def leaking(events: DataFrame, history: DataFrame, on: dict[str, str], at: str, begins: str) -> DataFrame:
        return without_leak(events, history.withColumn(begins, F.col(begins) - F.expr("interval 1 hour")), on, at, begins)

    monkeypatch.setattr(set_events, "with_last", leaking)
    with pytest.raises(AssertionError):
        as_the_model(lake, built(lake, "v6.0"))


def test_as_corrected_holds_what_became_known_later(lake: TrainingLake) -> None:
    corrected = replace(lake, contract=training_set(reading="as_corrected"))
    rows = {row["record_key"]: row for row in set_table.read(lake.settings, built(corrected, "v7.0")).to_pylist()}
    assert {key: row["tier"] for key, row in rows.items()} == {"p0": "silver", "p1": "gold", "p2": "gold"}
    assert rows["p0"]["amount"] == 9
    assert rows["p1"]["country_total"] == 9, "the first day as it is corrected"


@pytest.mark.proof
def test_a_release_and_a_build_that_are_stopped_behind_any_commit_are_completed_by_the_same_commands(
    settings: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = TrainingLake(settings, spark)
    late_tier(lake)
    monkeypatch.setattr(stopped_commits, "COMMITS", [*stopped_commits.COMMITS, (build, "write")])
    for number in count(1):
        version = f"v{number}.0"
        was_stopped = stopped_commits.stopped_behind(number, lambda: built(lake, version, version))  # noqa: B023 (called here)
        release = built(lake, version, version)
        as_the_model(lake, release)
        assert release.about["labels"]["version"] == version
        if not was_stopped:
            break
    assert number > 4, "a snapshot, the labels, the rows and the manifest are a commit each"
    for kind in (ReleaseKind.LABELS, ReleaseKind.TRAINING_SET):
        versions = [entry.version for entry in releases.all_of(lake.settings, kind)]
        assert sorted(versions) == [f"v{of_number}.0" for of_number in range(1, number + 1)], "each is recorded once"


def test_without_released_labels_nothing_is_built(lake: TrainingLake, settings: Settings) -> None:
    with pytest.raises(ReleaseError, match="lakehouse dataset release labels"):
        build.build(lake.spark, settings, lake.catalog, lake.contract, "v1.0", by="anna", notes="")
    labels.release(lake.settings, lake.sources["labels"], "v9.0", by="anna", notes="newer labels")
    releases.deprecate(lake.settings, ReleaseKind.LABELS, "labels", "v9.0", by="ben", notes="wrong months")
    with pytest.raises(ReleaseError, match=r"labels_v9\.0 are deprecated: wrong months"):
        build.build(lake.spark, lake.settings, lake.catalog, lake.contract, "v5.1", by="anna", notes="")


_TIMES = st.integers(0, 24).map(lambda number: number / 4)


@st.composite
def records(draw: st.DrawFn) -> Said:
    """A record of any source; when it arrives is decided by the history."""
    name = draw(st.sampled_from(["payments", "payments", "customers", "customers", "labels"]))
    at, op = draw(_TIMES), draw(st.sampled_from(["insert", "insert", "insert", "delete"]))
    if name == "payments":
        key = draw(st.sampled_from(["p1", "p2", "p3"]))
        values = (draw(st.sampled_from(["c1", "c2"])), draw(st.sampled_from(["DE", "FR"])), draw(st.integers(1, 4)))
    elif name == "customers":
        key, values = draw(st.sampled_from(["c1", "c2"])), (draw(st.sampled_from(["gold", "silver"])),)
        op = draw(st.sampled_from(["insert", "insert", "delete", "retract"]))
    else:
        key, values = draw(st.sampled_from(["p1", "p2", "p3"])), (draw(st.integers(0, 1)),)
    return Said(name, key, at, 0, values if op == "insert" else (), op)


@st.composite
def histories(draw: st.DrawFn) -> list[Said]:
    """Records that arrive one after the other, at or after their event or long after."""
    first = [Said("payments", "p1", 0.25, 0, ("c1", "DE", 2)), Said("payments", "p2", 2.5, 0, ("c1", "DE", 3))]
    said = draw(st.permutations([*first, *draw(st.lists(records(), min_size=2, max_size=6))]))
    clock, arrived = 0.3, []
    for record in said:
        clock += draw(st.integers(1, 8)) / 8
        arrived.append(Said(record.source, record.key, record.at, clock, record.values, record.op))
    return arrived


#: A tier that is known after the payment, and retracted after the next one; a payment is corrected, and has a label; the other
#: one is deleted.
CORNERS = [
    Said("customers", "c1", 0, 0.5, ("silver",)),
    Said("payments", "p1", 0.25, 0.75, ("c1", "DE", 2)),
    Said("customers", "c1", 0.2, 1, ("gold",)),
    Said("payments", "p2", 2.5, 2.6, ("c1", "DE", 3)),
    Said("customers", "c1", 0.2, 3, (), "retract"),
    Said("labels", "p1", 1, 3.5, (1,)),
    Said("payments", "p1", 0.25, 4, ("c1", "FR", 4)),
    Said("payments", "p2", 2.5, 5, (), "delete"),
]


@pytest.mark.timeout(2400)
@law(60)
@example(history=CORNERS)
@given(history=histories())
def test_no_row_holds_what_was_not_known_at_its_event(
    history: list[Said], tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> None:
    lake = TrainingLake(lake_settings(tmp_path_factory.mktemp("lake")), spark)
    for record in history:
        lake.deliver(record)
    lake.deliver(Said("labels", "none", 0, 11.5, (0,)))
    lake.settings.now = moment(12)
    as_the_model(lake, built(lake))
