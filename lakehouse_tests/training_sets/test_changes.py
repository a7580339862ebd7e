"""A released set: made again, compared with what is known since, and found by the records that it contains."""

from __future__ import annotations

import shutil
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.training_sets import affected, build, changes, labels, releases
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.training_lake import Said, TrainingLake, moment, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake


pytestmark = [pytest.mark.spark, pytest.mark.merge]


class Released:
    """A lake with a released set, and corrections that came afterwards."""

    def __init__(self, sample: TrainingLake) -> None:
        self.sample = sample
        sample.deliver(Said("customers", "c1", at=-5, arrives=-4, values=("silver",)))
        payments = [Said("payments", f"p{number}", number, 4, ("c1", "DE", number + 1)) for number in range(4)]
        sample.deliver(*payments)
        sample.deliver(Said("labels", "p1", 5, 6, (1,)))
        sample.lake.settings.now = moment(10)
        labels.release(sample.lake, sample.sources["labels"], "v3.0", by="anna", notes="")
        self.release = build.build(
            sample.spark, sample.lake, sample.catalog, sample.contract, build.SetRequest("v5.0", by="anna", notes="")
        )
        self.rows = rows_of(releases.read_set(sample.lake, self.release), sample.contract)

    def changes(self) -> changes.SetChanges:
        return changes.since(self.sample.session, self.sample.lake, self.sample.catalog, self.release)

    def reproduced(self) -> build.SetReproduction:
        return build.reproduce(self.sample.spark, self.sample.lake, self.sample.catalog, self.release)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Released:
    return Released(TrainingLake(lake_in(tmp_path_factory.mktemp("lake")), spark))


def test_one_story_of_a_released_set(released: Released) -> None:
    sample, release = released.sample, released.release
    assert set(released.rows) == {"p0", "p1", "p2", "p3"}
    assert (released.changes().share, released.changes().inputs) == (0.0, {})

    sample.deliver(Said("customers", "c1", at=-3, arrives=11, values=("gold",)))
    assert released.changes().share == 0.0, "what became known later was not known at the event"
    sample.deliver(Said("labels", "p1", 5, 12, (), "delete"), Said("labels", "p2", 5, 12, (1,)))
    sample.deliver(Said("payments", "p3", 3, 13, (), "delete"))
    sample.deliver(Said("payments", "p9", 1.5, 14, ("c1", "DE", 7)))
    compared = released.changes()
    counts = (compared.changed, compared.changed_labels, compared.added, compared.removed, compared.share)
    assert counts == (2, 2, 1, 1, 1.0)
    assert {row["record_key"]: row["change"] for row in compared.rows} == {
        "p1": "changed",
        "p2": "changed",
        "p3": "removed",
        "p9": "added",
    }
    assert compared.cause == released.changes().cause

    for path in (
        locations.training_set(sample.lake, release.name, release.version),
        locations.silver(sample.lake, "payments"),
    ):
        shutil.rmtree(path.address)
    made = released.reproduced()
    assert (made.is_equal, made.restored, made.notes) == (True, True, [])
    assert rows_of(releases.read_set(sample.lake, release), sample.contract) == released.rows
    again = released.reproduced()
    assert (again.is_equal, again.restored) == (True, False)


def test_rows_are_found_by_what_they_contain(released: Released) -> None:
    sample = released.sample

    def rows(source: str, *keys: str) -> list[tuple[str, int, int]]:
        compared = affected.by_keys(sample.lake, sample.sources[source], pa.array(keys))
        return [(one.full_name, one.rows, one.total) for one in compared]

    assert rows("payments", "p0", "p1", "unknown") == [("training_data_v5.0", 2, 4)]
    assert rows("labels", "p1") == [("training_data_v5.0", 1, 4)]
    assert rows("customers", '["c1","2024-01-27T00:00:00.000000Z"]') == [("training_data_v5.0", 4, 4)]
    assert rows("customers", '["c2","2024-01-27T00:00:00.000000Z"]') == []
    days = affected.by_days(sample.lake, sample.sources["payments"], date(2024, 2, 1), date(2024, 2, 2))
    assert [(one.full_name, one.rows) for one in days] == [("training_data_v5.0", 2)]
    assert affected.labels_by_keys(sample.lake, sample.sources["labels"], pa.array(["p1"])) == ["labels_v3.0"]
    assert affected.labels_by_keys(sample.lake, sample.sources["labels"], pa.array(["p9"])) == []


def test_a_set_of_an_earlier_time_differs_by_what_came_after_it(lake: Lake, spark: SparkSession) -> None:
    sample = TrainingLake(lake, spark)
    sample.deliver(Said("payments", "p0", 0, 1, ("c1", "DE", 1)), Said("payments", "p1", 1, 1, ("c1", "DE", 2)))
    sample.deliver(Said("labels", "p0", 2, 3, (0,)))
    sample.deliver(Said("labels", "p0", 2, 9, (1,)))
    sample.lake.settings.now = moment(12)
    labels.release(sample.lake, sample.sources["labels"], "v1.0", by="anna", notes="", known_at=moment(8))
    early = build.build(
        sample.spark,
        sample.lake,
        sample.catalog,
        sample.contract,
        build.SetRequest("v1.0", by="anna", notes="", known_at=moment(8)),
    )
    assert rows_of(releases.read_set(sample.lake, early), sample.contract)["p0"][-1] == 0
    since = changes.since(sample.session, sample.lake, sample.catalog, early)
    assert (since.changed_labels, since.changed, since.added) == (1, 1, 0)
