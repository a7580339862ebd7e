"""The log of releases keeps what belongs to a version as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind
from lakehouse_tests.support.training_lake import training_set

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_the_parts_of_a_split_stay_in_the_order_of_time_whatever_they_are_called(lake: Lake) -> None:
    contract = training_set(split={"train": "2024-02-01", "test": "2024-02-04", "holdout": "2024-02-06"})
    about = {"contract": contract.model_dump(mode="json"), "time": {"train": {}, "test": {}}}
    entry = Release(
        *("training_data", ReleaseKind.TRAINING_SET, "v5.0", ReleaseEvent.RELEASED, "notes", "anna", lake.now()),
        about=about,
    )
    recorded = releases.release(lake, entry)
    assert list(recorded.about["time"]) == ["train", "test"]
    assert list(releases.contract_of(recorded).split) == ["train", "test", "holdout"]
