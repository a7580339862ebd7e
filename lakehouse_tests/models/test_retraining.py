"""When a model is retrained, and under which versions: the policy, once per cause, and what others do meanwhile. No Spark."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts import Catalog, ModelContract
from lakehouse.contracts.model import RetrainingPolicy
from lakehouse.delta import leases
from lakehouse.models import promotion_log, retraining
from lakehouse.models.promotion_log import ModelPromotion, PromotionKind, PromotionStep
from lakehouse.models.retraining import Retraining, RetrainingError, RetrainingStep
from lakehouse.training_sets import releases
from lakehouse.training_sets.changes import SetChanges
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind
from lakehouse_tests.support import training_lake

if TYPE_CHECKING:
    from lakehouse.lake import Lake

NEVER: Any = None  # of a session: what starts Spark fails


def model(name: str = "fraud", **policy: Any) -> ModelContract:
    terms = {"model": name, "training_set": "training_data", "train": "fraud:train", "retrain_when": policy or None}
    return ModelContract.model_validate(terms)


MODEL = model(changed_rows="10%", changed_labels=3)
SOURCES = {name: training_lake.source(name) for name in training_lake.COLUMNS}
CATALOG = Catalog(sources=SOURCES, training_sets={"training_data": training_lake.training_set()}, models={"fraud": MODEL})


def released(lake: Lake, kind: ReleaseKind, name: str, version: str, notes: str = "by hand", **about: Any) -> Release:
    entry = Release(name, kind, version, ReleaseEvent.RELEASED, notes, "ana", lake.now(), about=about)
    return releases.release(lake, entry)


def champion(lake: Lake, version: str = "v2.3", set_version: str = "v5.0", name: str = "fraud") -> None:
    """Record that a version which has learned from a set is in use."""
    learned = {"name": "training_data", "version": set_version, "full_name": f"training_data_{set_version}"}
    released(lake, ReleaseKind.MODEL, name, version, training_set=learned, parameters={})
    expires = datetime.now(timezone.utc) + timedelta(minutes=1)
    terms = (name, promotion_log.next_number(lake, name), PromotionStep.BEGUN, PromotionKind.PROMOTE, None, version)
    entry = ModelPromotion(*terms, "ana", "first", lake.now(), leases.this_process(), expires)
    promotion_log.begin(lake, entry)
    promotion_log.end(lake, entry, done=True)


def changed(lake: Lake, *files: str, rows: int = 2, labels: int = 1, total: int = 20) -> SetChanges:
    """What some files change of v5.0."""
    known = {entry.version: entry for entry in releases.all_of(lake, ReleaseKind.TRAINING_SET)}
    of_set = known.get("v5.0") or released(lake, ReleaseKind.TRAINING_SET, "training_data", "v5.0")
    return SetChanges(of_set, total, {"labels": list(files)} if files else {}, changed=rows, changed_labels=labels)


def wanted(lake: Lake, changes: SetChanges, contract: ModelContract = MODEL) -> Retraining | None:
    return retraining.called_for(lake, CATALOG, contract, "v2.3", changes)


def queued(lake: Lake, *files: str) -> Retraining:
    proposed = wanted(lake, changed(lake, *files))
    assert proposed is not None
    return retraining.queue(lake, replace(proposed, by="ana"))


def ended(lake: Lake, entry: Retraining, step: RetrainingStep = RetrainingStep.BACKTESTED) -> None:
    retraining.record_retraining(lake, entry, step)


@pytest.mark.parametrize(
    ("policy", "rows", "labels", "reached"),
    [
        ({"changed_rows": "10%"}, 1, 1, False),
        ({"changed_rows": "10%"}, 2, 0, True),
        ({"changed_rows": "0%"}, 0, 0, False),
        ({"changed_rows": "0%"}, 1, 0, True),
        ({"changed_labels": 3}, 20, 2, False),
        ({"changed_labels": 3}, 3, 3, True),
        ({"changed_rows": "50%", "changed_labels": 3}, 3, 3, True),
    ],
)
def test_a_policy_is_reached_by_rows_or_by_labels(policy: dict[str, Any], rows: int, labels: int, *, reached: bool) -> None:
    of_policy = RetrainingPolicy.model_validate(policy)
    assert retraining.is_reached(of_policy, rows=rows, labels=labels, total=20) is reached


def test_rows_that_came_or_went_count_as_changed(lake: Lake) -> None:
    some = changed(lake, "f1", rows=0, labels=0)
    assert wanted(lake, some) is None
    proposed = wanted(lake, replace(some, added=1, removed=1))
    assert proposed is not None
    assert (proposed.changed_rows, proposed.share) == (2, "10.0000%")


def test_the_next_versions_of_labels_set_and_model_are_made(lake: Lake) -> None:
    released(lake, ReleaseKind.LABELS, "labels", "v3.0")
    released(lake, ReleaseKind.MODEL, "fraud", "v2.4")
    entry = queued(lake, "f1")
    assert (entry.new_labels, entry.new_set, entry.new_version) == ("v3.1", "v5.1", "v2.5")
    assert (entry.champion, entry.set_version, entry.number) == ("v2.3", "v5.0", 1)
    assert wanted(lake, changed(lake)) is None, "nothing has come"
    assert wanted(lake, changed(lake, "f2"), model()) is None, "no policy"


def test_a_cause_is_answered_once_whatever_the_order_and_the_number_of_looks(lake: Lake) -> None:
    looks = random.Random(5).choices(["f1", "f2", "f3"], k=12)
    for file in looks:
        proposed = wanted(lake, changed(lake, file))
        if proposed is not None:
            ended(lake, retraining.queue(lake, proposed))
    entries = retraining.retrainings_of(lake, "fraud")
    assert [entry.number for entry in entries] == list(range(1, len(set(looks)) + 1))
    assert len({entry.cause for entry in entries}) == len(entries)


def test_of_two_at_once_one_counts(lake: Lake) -> None:
    same = wanted(lake, changed(lake, "f1"))
    other = wanted(lake, changed(lake, "f2"))
    assert same is not None
    assert other is not None
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda by: retraining.queue(lake, replace(same, by=by)), ["ana", "bo"]))
    assert both[0] == both[1] == retraining.unfinished(lake, "fraud")
    with pytest.raises(RetrainingError, match=r"another retraining of fraud to v1.0 was begun by (ana|bo) at the same time"):
        retraining.queue(lake, other)


def test_what_was_begun_is_continued_with_its_versions(lake: Lake) -> None:
    champion(lake)
    entry = queued(lake, "f1")
    released(lake, ReleaseKind.LABELS, "labels", entry.new_labels, entry.notes)
    begun = retraining.record_retraining(lake, entry, RetrainingStep.LABELS_RELEASED, "labels_v1.0")
    assert retraining.due(NEVER, lake, CATALOG, MODEL) == begun
    possible = retraining.possible(lake, MODEL)
    assert possible is not None
    assert (possible.is_begun, possible.cause) == (True, entry.cause)
    assert [begun.has_passed(step) for step in RetrainingStep] == [True, True, False, False, False, False]
    assert retraining.due(NEVER, lake, CATALOG, model()) is None, "the policy was removed"


def test_a_model_without_a_version_in_use_has_nothing_to_retrain(lake: Lake) -> None:
    assert retraining.due(NEVER, lake, CATALOG, MODEL) is None
    assert retraining.possible(lake, MODEL) is None


def test_a_version_that_somebody_took_meanwhile_gives_the_retraining_up_and_the_cause_is_queued_again(lake: Lake) -> None:
    champion(lake)
    entry = queued(lake, "f1")
    released(lake, ReleaseKind.LABELS, "labels", entry.new_labels)
    with pytest.raises(RetrainingError, match=r"fraud: labels_v1.0 was released by ana meanwhile, and contains something else"):
        retraining.carry_out(NEVER, lake, CATALOG, MODEL, entry, by="bo")
    assert retraining.retrainings_of(lake, "fraud")[0].detail == "labels_v1.0 was released by ana meanwhile"
    again = queued(lake, "f1")
    assert (again.cause, again.number, again.new_labels) == (entry.cause, 2, "v1.1")


def test_two_models_with_one_cause_share_labels_and_set(lake: Lake) -> None:
    first = queued(lake, "f1")
    released(lake, ReleaseKind.LABELS, "labels", first.new_labels, first.notes)
    second = wanted(lake, changed(lake, "f1"), model("risk", changed_rows="1%"))
    assert second is not None
    assert (second.new_labels, second.new_set, second.notes) == (first.new_labels, first.new_set, first.notes)
    third = wanted(lake, changed(lake, "f2"), model("risk", changed_rows="1%"))
    assert third is not None
    assert third.new_labels == "v1.1"


def test_the_months_of_the_evaluation_are_those_of_the_event_days(lake: Lake) -> None:
    time = {"test": {"from": "2024-10-01T00:00:00", "to": "2024-11-30T23:30:00"}}
    release = released(lake, ReleaseKind.MODEL, "fraud", "v2.5", evaluated_on="test", training_set={"time": time})
    assert retraining.months_of_evaluation(release, "UTC") == ("2024-10", "2024-11")
    assert retraining.months_of_evaluation(release, "Europe/Berlin") == ("2024-10", "2024-12")
    assert retraining.months_of_evaluation(release, "America/New_York") == ("2024-09", "2024-11")
