"""From files to a canary's judgement, with Spark and MLflow: rows of events, two trained versions, scores, a backtest."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
import pytest

from lakehouse.contracts import Catalog
from lakehouse.contracts.model import ModelContract
from lakehouse.models import backtest as backtests
from lakehouse.models import canary, score, score_checks, scores, tracking, training
from lakehouse.models.canary_log import CanaryOutcome
from lakehouse.models.score import NoChampionError
from lakehouse.training_sets import build, events, labels, records, releases
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.training_lake import Said, TrainingLake, moment, training_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]

SET = training_set(
    features={"columns": ["amount", {"name": "is_large", "sql": "amount > 2", "type": "boolean"}, "country"]},
    split={"train": "2024-02-01", "test": "2024-02-08"},
)
MODEL = ModelContract.model_validate(
    {
        "model": "fraud",
        "training_set": "training_data",
        "train": "fraud_training:train",
        "parameters": {"strength": 1.0},
        "metrics": ["roc_auc", "brier_score"],
        "acceptance": [{"metric": "brier_score", "better_by": 0.01}],
        "canary": {"share": "40%", "needs_labels": 20},
    }
)
DAYS = [date(2024, 2, 12), date(2024, 2, 13)]


@pytest.fixture
def sample(tmp_path: Path, spark: SparkSession) -> Iterator[TrainingLake]:
    """Payments of two weeks, of which large amounts are fraud, and two versions: v1.0 learned next to nothing, v1.1 did."""
    lake = trained_lake.settings_of(tmp_path)
    lake.settings.landing = f"{tmp_path / 'landing'}"
    Path(lake.settings.landing).mkdir()
    (lake.settings.contracts / "fraud_training.py").write_text(trained_lake.TRAIN)
    made = TrainingLake(lake, spark, SET)
    random = np.random.default_rng(0)
    places = [(number, float(at), int(random.integers(1, 100))) for number, at in enumerate(np.linspace(0, 13.9, 420))]
    payments = [Said("payments", f"p{number}", at, 14, ("c1", "AT", amount)) for number, at, amount in places]
    frauds = [Said("labels", f"p{number}", at + 1, 16, (1,)) for number, at, amount in places if amount > 70]
    made.deliver(*payments)
    made.deliver(*frauds)
    lake.settings.now = moment(20)
    with trained_lake.own_modules():
        labels.release(lake, made.sources["labels"], "v3.0", by="anna", notes="first labels")
        build.build(spark, lake, made.catalog, SET, build.SetRequest("v5.0", by="anna", notes="first set"))
        for version, strength in (("v1.0", 1e-9), ("v1.1", 1.0)):
            given = {"strength": strength}
            training.train(
                lake, made.catalog, MODEL, training.TrainingRequest(version, "v5.0", by="anna", notes="", parameters=given)
            )
        yield made


def catalog_of(sample: TrainingLake) -> Catalog:
    return Catalog(sample.sources, {}, {SET.name: SET}, {MODEL.name: MODEL})


def test_from_a_champion_to_a_judged_canary(sample: TrainingLake) -> None:
    lake, spark, catalog = sample.lake, sample.spark, catalog_of(sample)
    with pytest.raises(NoChampionError, match="fraud has no champion, so that nothing can be scored: 'lakehouse model promote"):
        score.score(spark, lake, catalog, MODEL, DAYS, run_id="run", by="anna")
    with pytest.raises(NoChampionError):
        canary.start(lake, MODEL, "v1.1", by="anna", reason="try it")
    tracking.set_champion(lake, releases.find(lake, ReleaseKind.MODEL, "fraud", "v1.0"))
    with pytest.raises(canary.CanaryError, match=r"fraud v1\.0 is in use already"):
        canary.start(lake, MODEL, "v1.0", by="anna", reason="try it")
    with pytest.raises(ReleaseError, match=r"fraud v9\.9 does not exist; released are v1\.0, v1\.1"):
        canary.start(lake, MODEL, "v9.9", by="anna", reason="try it")
    assert canary.start(lake, MODEL, "v1.1", by="anna", reason="try it").of_entities == Decimal("0.4")

    scored = score.score(spark, lake, catalog, MODEL, DAYS, run_id="run", by="anna")
    assert [(day.day, day.events, day.champion, day.challenger) for day in scored] == [(day, 30, "v1.0", "v1.1") for day in DAYS]
    assert 10 < sum(day.in_canary for day in scored) < 40

    status = canary.judge(lambda: spark, lake, catalog, MODEL, by="anna")
    assert (status.outcome, status.labels) == (CanaryOutcome.MET, sum(day.in_canary for day in scored))

    request = backtests.BacktestRequest("v1.1", "v1.0", "2024-02", "2024-02")
    done = backtests.backtest(spark, lake, catalog, MODEL, request, by="anna")
    assert done.passed
    assert done.results["readings"]["as_known"]["total"]["rows"] == 420
    assert done.results["seen"] == {"v1.0": 212, "v1.1": 212}  # the part that both were trained on
    again = backtests.backtest(spark, lake, catalog, MODEL, request, by="bob")
    assert again == done

    of_day = scores.read(lake, "fraud", {"event_date": DAYS[:1]})
    rows = events.unlabelled(spark, lake, catalog, SET, DAYS[:1])
    champion = scores.load(lake, catalog, MODEL, "v1.0")
    assert score_checks.row_count(MODEL, DAYS[0], of_day, rows).passed
    skew = score_checks.training_serving_skew(MODEL, DAYS[0], of_day, champion, rows)
    assert (skew.passed, skew.numbers["rows"], skew.numbers["differing"]) == (True, 30, 0)
    of_set = score_checks.set_of(lake, MODEL, "v1.0")
    generous = MODEL.model_copy(update={"checks": MODEL.checks.model_copy(update={"needs_rows": 1})})
    drifted = score_checks.feature_drift(generous, DAYS[0], rows, of_set)
    assert drifted.numbers.keys() == {"rows", "bound", "amount", "is_large", "country"}
    assert drifted.passed
    reference = score_checks.reference_scores(lake, MODEL, champion)
    assert len(reference) == 420 - 212
    labelled = events.labelled(spark, lake, catalog, SET, records.Span(DAYS[0], DAYS[1]), "as_known")
    assert score_checks.label_maturity(SET, DAYS[0], of_day, labelled, lake.now()).numbers["mature"] == 30
    assert pc.sum(of_day["served"]).as_py() == 30
