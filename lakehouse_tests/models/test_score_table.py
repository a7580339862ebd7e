"""Scores keep which version made them; of each entity exactly one row counts, however often a day is scored."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from sklearn.dummy import DummyClassifier

from lakehouse import locations
from lakehouse.models import canary_log, score, scores
from lakehouse.models.canary_log import in_canary
from lakehouse.models.scores import LoadedVersion, MissingFeatureError, ScoringRun, features_hash
from lakehouse_tests.support.scored_rows import DAY, constant_model, events, linear_model, model_contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

CONTRACT = model_contract()
DAYS = [DAY, DAY + timedelta(days=1)]
V23 = LoadedVersion(CONTRACT, "v2.3", constant_model(0.2), ["amount"])
V24 = LoadedVersion(CONTRACT, "v2.4", linear_model(), ["amount"])


def _canary(lake: Lake, share: str = "0.5") -> score.RunningCanary:
    entry = canary_log.CanaryEntry(
        *("fraud", 1, canary_log.CanaryEvent.STARTED, "v2.4", "v2.3", share, "fraud:", "ann", "why", lake.now())
    )
    return score.RunningCanary(entry, V24)


def _score(lake: Lake, rows: pa.Table, champion=V23, canary=None, days=None, run="run") -> list[score.ScoredDay]:
    return score.score_rows(lake, rows, days or DAYS, champion, canary, ScoringRun(run, "ann", lake.now()))


def _served(lake: Lake) -> dict[str, str]:
    """The version that counts for each entity; fails if two do."""
    rows = scores.read(lake, "fraud")
    served = rows.filter(rows["served"])
    assert len(pc.unique(served["record_key"])) == len(served)
    return dict(zip(served["record_key"].to_pylist(), served["model_version"].to_pylist()))


def test_the_champion_scores_every_event(lake) -> None:
    rows = events(40, days=2)
    (first, second) = _score(lake, rows)
    assert first.events + second.events == 40
    assert first.in_canary == 0
    table = scores.read(lake, "fraud")
    assert set(table["record_key"].to_pylist()) == set(rows["record_key"].to_pylist())
    assert table["score"].to_pylist() == [0.2] * 40
    assert set(table["model_version"].to_pylist()) == {"v2.3"}
    assert pc.all(table["served"]).as_py()
    assert DeltaTable(locations.scores(lake, "fraud").address).metadata().partition_columns == ["event_date"]


def test_a_canary_scores_its_entities_too_and_counts_for_them(lake) -> None:
    rows = events(200, days=2)
    scored = _score(lake, rows, canary=_canary(lake))
    chosen = in_canary(rows["record_key"], "fraud:", Decimal("0.5"))
    assert sum(day.in_canary for day in scored) == chosen.sum()
    table = scores.read(lake, "fraud")
    by_arm = {arm: table.filter(pc.equal(table["arm"], arm)) for arm in ("champion", "challenger")}
    assert set(by_arm["champion"]["record_key"].to_pylist()) == set(rows["record_key"].to_pylist())
    assert set(by_arm["challenger"]["record_key"].to_pylist()) == set(rows["record_key"].filter(pa.array(chosen)).to_pylist())
    versions = _served(lake)
    assert {key for key, version in versions.items() if version == "v2.4"} == set(by_arm["challenger"]["record_key"].to_pylist())
    assert len(versions) == 200


def test_scoring_again_replaces_the_rows_of_the_same_version_only(lake) -> None:
    rows = events(30, days=2)
    _score(lake, rows, run="first")
    _score(lake, rows, champion=V24, run="second")
    _score(lake, rows, champion=V24, run="third")
    table = scores.read(lake, "fraud")
    assert len(table) == 60
    runs = {(row["model_version"], row["run_id"], row["served"]) for row in table.to_pylist()}
    assert runs == {("v2.3", "first", False), ("v2.4", "third", True)}


def test_scores_of_other_days_stay_as_they_are(lake) -> None:
    rows = events(30, days=2)
    _score(lake, rows, run="first")
    of_first = rows.filter(pc.equal(rows["event_date"], pa.scalar(DAYS[0])))
    _score(lake, of_first, champion=V24, days=DAYS[:1], run="second")
    assert set(scores.read(lake, "fraud", {"event_date": [DAYS[1]]})["run_id"].to_pylist()) == {"first"}
    assert len(_served(lake)) == 30


def test_an_event_that_is_gone_has_no_score_that_counts(lake) -> None:
    rows = events(30, days=2)
    _score(lake, rows)
    _score(lake, rows.slice(1), champion=V24)
    gone = rows["record_key"][0].as_py()
    assert gone not in _served(lake)
    assert len(scores.read(lake, "fraud", {"record_key": [gone]})) == 1


def test_a_day_without_events_has_no_scores(lake) -> None:
    (scored, _) = _score(lake, events(0, days=2))
    assert (scored.events, scored.in_canary) == (0, 0)
    assert len(scores.read(lake, "fraud")) == 0
    _score(lake, events(10, days=2))
    _score(lake, events(0, days=2))
    assert len(scores.read(lake, "fraud")) == 0


def test_without_any_scores_there_is_an_empty_table(lake) -> None:
    rows = scores.read(lake, "fraud", {"event_date": [date(2024, 1, 1)]})
    assert (len(rows), rows.schema) == (0, scores.SCHEMA)


def test_two_runs_on_one_day_leave_one_score_that_counts(lake) -> None:
    """The second commit is made on what the first has left, because the table is read when it is replaced."""
    rows = events(20, days=2)
    _score(lake, rows, run="first")
    _score(lake, rows, canary=_canary(lake), run="second")
    _score(lake, rows, run="third")
    assert set(_served(lake).values()) == {"v2.3"}
    arms = {(row["arm"], row["run_id"]) for row in scores.read(lake, "fraud").to_pylist()}
    assert arms == {("champion", "third"), ("challenger", "second")}


def test_a_version_that_needs_a_column_of_before_says_which(lake) -> None:
    version = LoadedVersion(CONTRACT, "v1.0", DummyClassifier(), ["amount", "merchant"])
    with pytest.raises(MissingFeatureError, match=r"fraud v1\.0 has learned from merchant, which the training set payments_set"):
        version.scores(events(3))


def test_the_hash_of_features_depends_on_their_values_alone() -> None:
    rows = events(50)
    hashes = features_hash(rows, ["amount", "country"])
    assert (hashes == features_hash(rows.slice(0, 50), ["amount", "country"])).all()
    assert (features_hash(rows.slice(10, 5), ["amount", "country"]) == hashes[10:15]).all()
    place = rows.schema.get_field_index("amount")
    changed = rows.set_column(place, "amount", pc.add(rows["amount"], pa.array([0.0] * 49 + [0.01])))
    assert (features_hash(changed, ["amount", "country"]) != hashes).tolist() == [False] * 49 + [True]
    empty = rows.set_column(place, "amount", pa.nulls(50, pa.float64()))
    assert len(set(features_hash(empty, ["amount"]).tolist())) == 1
    whole = pa.table({"amount": pa.array([1, -1]), "zero": pa.array([0.0, -0.0])})
    as_decimal = pa.table({"amount": whole["amount"].cast(pa.decimal128(21, 2)), "zero": pa.array([0.0, 0.0])})
    texts = pa.table({"text": pa.array(["", "\x00", "a", None, "None"])})
    assert len(set(features_hash(texts, ["text"]).tolist())) == 5
    assert (features_hash(whole, ["amount", "zero"]) == features_hash(as_decimal, ["amount", "zero"])).all()
