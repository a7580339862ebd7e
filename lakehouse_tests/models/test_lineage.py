"""The lineage of a version: all that became of it in one place, read without Spark and without MLflow."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.models import backtest_log, lineage, promotion
from lakehouse.models.backtest_log import Backtest
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.trained_lake import CATALOG, MODEL

if TYPE_CHECKING:
    from lakehouse.lake import Lake

READS = """\
import json, sys
from lakehouse.lake import Lake
from lakehouse.models import lineage

print(json.dumps(lineage.of(Lake.open(root=sys.argv[1]), "fraud", "v2.3").as_json()))
assert not {"mlflow", "sklearn", "pyspark", "dagster"} & sys.modules.keys()
"""


@pytest.mark.merge
def test_everything_about_a_version_is_in_one_place(filled: Lake) -> None:
    release = trained_lake.train(filled, "v2.3")
    trained_lake.train(filled, "v2.4", "v5.1")
    promotion.promote(filled, CATALOG, MODEL, "v2.3", by="ana", notes="the first one")
    noon = datetime(2024, 12, 1, 12, tzinfo=timezone.utc)
    terms = ("2024-10", "2024-11", noon, True, [], {"total": {"roc_auc": 0.9}}, "report.md", "cy", noon)
    backtest_log.log(filled).append([Backtest("fraud", "v2.4", "v2.3", *terms), Backtest("fraud", "v2.4", "v2.2", *terms)])
    releases.deprecate(filled, ReleaseKind.MODEL, "fraud", "v2.3", by="cy", notes="old labels")
    releases.deprecate(filled, ReleaseKind.TRAINING_SET, "training_data", "v5.0", by="cy", notes="labels turned")

    shown = lineage.of(filled, "fraud", "v2.3", canaries=[{"event": "begun"}])
    assert (shown.release, shown.in_use) == (release, True)
    content = shown.as_json()
    assert content["training_set"]["full_name"] == "training_data_v5.0"
    assert content["metrics"] == release.about["metrics"]
    assert [(move["kind"], move["from_version"], move["to_version"], move["notes"]) for move in content["promotions"]] == [
        ("promote", None, "v2.3", "the first one")
    ]
    assert [(entry["version"], entry["against"], entry["passed"]) for entry in content["backtests"]] == [("v2.4", "v2.3", True)]
    assert content["canaries"] == [{"event": "begun"}]
    assert content["deprecated"] == {"at": "2024-06-01T12:00:00+00:00", "by": "cy", "notes": "old labels"}
    assert content["training_set_deprecated"]["notes"] == "labels turned"
    assert not lineage.of(filled, "fraud", "v2.4").in_use

    read = subprocess.run([sys.executable, "-c", READS, filled.root], capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    assert json.loads(read.stdout) == json.loads(json.dumps(content | {"canaries": []}))
