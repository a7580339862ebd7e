"""A set holds what was known at each event, and nothing that came later."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.training_sets import build, labels, releases
from lakehouse.training_sets import events as set_events
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind
from lakehouse_tests.support import stopped_commits
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.training_lake import Said, TrainingLake, moment, rows_of, training_set

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.lake import Lake
    from lakehouse.training_sets.releases import Release

pytestmark = [pytest.mark.spark, pytest.mark.merge]


def built(sample: TrainingLake, version: str = "v5.0", of_labels: str = "v3.0") -> Release:
    """The set of what is known now."""
    labels.release(sample.lake, sample.sources["labels"], of_labels, by="anna", notes="first labels")
    terms = {"by": "anna", "notes": "first set", "labels_version": of_labels}
    return build.build(sample.spark, sample.lake, sample.catalog, sample.contract, build.SetRequest(version, **terms))


def as_the_model(sample: TrainingLake, release: Release) -> None:
    rows = rows_of(releases.read_set(sample.lake, release), sample.contract)
    assert rows == sample.expected(release.known_at)


def late_tier(sample: TrainingLake) -> None:
    """A payment half an hour before its customer's new tier is known, though that had begun before."""
    sample.deliver(Said("customers", "c1", at=-5, arrives=-4, values=("silver",)))
    sample.deliver(Said("payments", "p0", at=0.5, arrives=0.6, values=("c1", "DE", 5)))
    sample.deliver(Said("customers", "c1", at=0.9, arrives=2 + 1 / 48, values=("gold",)))
    sample.deliver(Said("payments", "p1", at=2, arrives=2.1, values=("c1", "DE", 3)))
    sample.deliver(Said("payments", "p2", at=3, arrives=3.1, values=("c1", "DE", 1)))
    sample.deliver(Said("labels", "p1", at=5, arrives=6, values=(1,)))
    sample.deliver(Said("payments", "p0", at=0.5, arrives=7, values=("c1", "DE", 9)))
    sample.lake.settings.now = moment(10)


@pytest.fixture(name="sample", scope="module")
def _lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> TrainingLake:
    """One lake for the module: a test builds versions of its own."""
    sample = TrainingLake(lake_in(tmp_path_factory.mktemp("lake")), spark)
    late_tier(sample)
    return sample


def test_a_set_from_files_to_its_manifest(sample: TrainingLake) -> None:
    release = built(sample)
    as_the_model(sample, release)
    tiers = {row["record_key"]: row["tier"] for row in releases.read_set(sample.lake, release).to_pylist()}
    assert tiers == {"p0": "silver", "p1": "silver", "p2": "gold"}
    about = release.about
    assert (about["rows"], about["labels"], list(about["time"])) == (3, {"source": "labels", "version": "v3.0"}, ["fit", "test"])
    assert about["columns"]["tier"] == {"nulls": 0.0, "distinct": 2, "frequent": {"silver": 2, "gold": 1}}
    assert about["columns"]["amount"]["min"] == 1
    assert about["features"]["country_total"]["metric"] == "spend"
    assert built(sample) == release, "the same command again changes nothing"
    with pytest.raises(ReleaseError, match="under another contract"):
        build.build(
            sample.spark,
            sample.lake,
            sample.catalog,
            training_set(reading="as_corrected"),
            build.SetRequest("v5.0", by="a", notes=""),
        )


def test_a_mutant_that_leaks_by_an_hour_is_caught(sample: TrainingLake, monkeypatch: pytest.MonkeyPatch) -> None:
    without_leak = set_events.with_last

    def leaking(events: DataFrame, history: DataFrame, on: dict[str, str], at: str, begins: str) -> DataFrame:
        return without_leak(events, history.withColumn(begins, F.col(begins) - F.expr("interval 1 hour")), on, at, begins)

    monkeypatch.setattr(set_events, "with_last", leaking)
    with pytest.raises(AssertionError):
        as_the_model(sample, built(sample, "v6.0"))


def test_as_corrected_holds_what_became_known_later(sample: TrainingLake) -> None:
    corrected = replace(sample, contract=training_set(reading="as_corrected"))
    rows = {row["record_key"]: row for row in releases.read_set(sample.lake, built(corrected, "v7.0")).to_pylist()}
    assert {key: row["tier"] for key, row in rows.items()} == {"p0": "silver", "p1": "gold", "p2": "gold"}
    assert rows["p0"]["amount"] == 9
    assert rows["p1"]["country_total"] == 9, "the first day as it is corrected"


@pytest.mark.proof
def test_a_release_and_a_build_that_are_stopped_behind_any_commit_are_completed_by_the_same_commands(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = TrainingLake(lake, spark)
    late_tier(sample)
    monkeypatch.setattr(stopped_commits, "COMMITS", [*stopped_commits.COMMITS, (build, "write")])
    for number in count(1):
        version = f"v{number}.0"
        was_stopped = stopped_commits.stopped_behind(number, lambda: built(sample, version, version))  # noqa: B023 (called here)
        release = built(sample, version, version)
        as_the_model(sample, release)
        assert release.about["labels"]["version"] == version
        if not was_stopped:
            break
    assert number > 4, "a snapshot, the labels, the rows and the manifest are a commit each"
    for kind in (ReleaseKind.LABELS, ReleaseKind.TRAINING_SET):
        versions = [entry.version for entry in releases.all_of(sample.lake, kind)]
        assert sorted(versions) == [f"v{of_number}.0" for of_number in range(1, number + 1)], "each is recorded once"


def test_without_released_labels_nothing_is_built(sample: TrainingLake, lake: Lake) -> None:
    with pytest.raises(ReleaseError, match="lakehouse dataset release labels"):
        build.build(sample.spark, lake, sample.catalog, sample.contract, build.SetRequest("v1.0", by="anna", notes=""))
    labels.release(sample.lake, sample.sources["labels"], "v9.0", by="anna", notes="newer labels")
    releases.deprecate(sample.lake, ReleaseKind.LABELS, "labels", "v9.0", by="ben", notes="wrong months")
    with pytest.raises(ReleaseError, match=r"labels_v9\.0 are deprecated: wrong months"):
        build.build(sample.spark, sample.lake, sample.catalog, sample.contract, build.SetRequest("v5.1", by="anna", notes=""))


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
    sample = TrainingLake(lake_in(tmp_path_factory.mktemp("lake")), spark)
    for record in history:
        sample.deliver(record)
    sample.deliver(Said("labels", "none", 0, 11.5, (0,)))
    sample.lake.settings.now = moment(12)
    as_the_model(sample, built(sample))
