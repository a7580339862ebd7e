"""A lake with two versions of a training set, for tests of models: no Spark, and an MLflow whose tables exist already.

A payment is fraud if its amount is high. ``v5.0`` and ``v5.1`` have a part to learn from and a later one to be measured on.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from lakehouse import locations
from lakehouse.contracts import Catalog, ModelContract, TrainingSetContract
from lakehouse.lake import Lake
from lakehouse.models import tracking, training
from lakehouse.settings import Settings
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind
from lakehouse_tests.support.contract_texts import CHARGEBACKS_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

SET = TrainingSetContract.model_validate(
    {
        "training_set": "training_data",
        "entity": {"source": "payments"},
        "features": {"columns": ["amount", "country"]},
        "label": {"source": "chargebacks", "on": "payment_id", "sql": "max(1)", "default": 0, "maturity": "P60D"},
        "split": {"train": "2024-01-01", "test": "2024-03-01"},
    }
)
MODEL = ModelContract.model_validate(
    {
        "model": "fraud",
        "training_set": "training_data",
        "train": "fraud_training:train",
        "parameters": {"strength": 1.0},
        "acceptance": [{"metric": "roc_auc", "not_worse_than": 0.01}],
    }
)
CATALOG = Catalog(training_sets={"training_data": SET}, models={"fraud": MODEL})
TRAIN = """\
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder


def train(frame, params):
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["country"]), remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression(C=params["strength"], max_iter=1000))
    return model.fit(frame.drop(columns="label"), frame["label"])
"""
#: The contracts as files, with those of the two sources.
FILES = {
    "payments.yaml": """\
dataset: payments
primary_key: [payment_id]
clocks: {event: paid_at, arrival: arrived_at}
model:
  fields:
    - {name: payment_id, type: string}
    - {name: amount, type: double}
    - {name: country, type: string}
materialization: {reprocess_policy: merge}
""",
    "chargebacks.yaml": CHARGEBACKS_SOURCE,
    "training_data.yaml": """\
training_set: training_data
entity: {source: payments}
features: {columns: [amount, country]}
label: {source: chargebacks, on: payment_id, sql: max(1), default: 0, maturity: P60D}
split: {train: 2024-01-01, test: 2024-03-01}
""",
    "fraud.yaml": """\
model: fraud
training_set: training_data
train: fraud_training:train
parameters: {strength: 1.0}
acceptance:
  - {metric: roc_auc, not_worse_than: 0.01}
""",
    "fraud_training.py": TRAIN,
}
ROWS = 400


def settings_of(folder: Path) -> Lake:
    """An empty lake in ``folder / "lake"`` at a fixed time, with its contracts in ``folder / "contracts"``."""
    (folder / "contracts").mkdir()
    now = datetime(2024, 6, 1, 12, tzinfo=timezone.utc)
    lake = Lake(Settings(root=str(folder / "lake"), contracts=folder / "contracts", bundled_contracts=False, now=now)).cached()
    shutil.copytree(_prepared_mlflow(), folder / "lake" / "mlflow")
    return lake


def fill(lake: Lake) -> None:
    """Write the contracts, the training function, and both versions of the set."""
    for name, text in FILES.items():
        (lake.settings.contracts / name).write_text(text, encoding="utf-8")
    for version, seed in (("v5.0", 1), ("v5.1", 2)):
        write_set(lake, version, rows(seed))


def rows(seed: int) -> pa.Table:
    """Rows of a set: payments in each of four months, of which the last is for the test."""
    random = np.random.default_rng(seed)
    amounts = random.uniform(1, 1000, ROWS).round(2)
    labels = (amounts + random.normal(0, 150, ROWS) > 800).astype(np.int32)
    first = datetime(2024, 1, 1, tzinfo=timezone.utc)
    times = [first + timedelta(hours=7 * number) for number in range(ROWS)]
    is_late = [time >= datetime(2024, 3, 1, tzinfo=timezone.utc) for time in times]
    return pa.table(
        {
            "record_key": [f"p{number}" for number in range(ROWS)],
            "event_ts": pa.array(times, pa.timestamp("us", "UTC")),
            "split": ["test" if late else "train" for late in is_late],
            "amount": pa.array(amounts),
            "country": random.choice(["AT", "BE", "CH"], ROWS).tolist(),
            "label": pa.array(labels),
            "label_known_at": pa.array([time + timedelta(days=60) for time in times], pa.timestamp("us", "UTC")),
        }
    )


def write_set(lake: Lake, version: str, content: pa.Table, contract: TrainingSetContract = SET) -> Release:
    """Release a version of the set with the given rows."""
    write_deltalake(locations.training_set(lake, "training_data", version).address, content)
    about: dict[str, Any] = {
        "labels": {"source": "chargebacks", "version": "v3.0"},
        "features": {name: {"source": "payments", "sql": name, "contract_version": "abc"} for name in contract.features.names},
        "time": {"train": {"from": "2024-01-01", "to": "2024-02-29"}, "test": {"from": "2024-03-01", "to": "2024-04-27"}},
        "rows": len(content),
        "content_hash": f"hash of {version}",
        "contract_version": "def",
        "contract": contract.model_dump(mode="json"),
    }
    entry = Release(
        "training_data",
        ReleaseKind.TRAINING_SET,
        version,
        ReleaseEvent.RELEASED,
        "for tests",
        "cy",
        lake.now(),
        about=about,
    )
    return releases.release(lake, entry)


def train(lake: Lake, version: str, set_version: str = "v5.0", **options: Any) -> Release:
    """Train a version of the model."""
    terms = {"by": "ana", "notes": "a first try", **options}
    return training.train(lake, CATALOG, MODEL, training.TrainingRequest(version, set_version, **terms))


@contextmanager
def own_modules() -> Iterator[None]:
    """Forget the training functions that were imported in the block: the next lake has others under the same names."""
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if Path(file).parent.name == "contracts":
                del sys.modules[name]


@cache
def _prepared_mlflow() -> Path:
    """The files of an MLflow without content: creating its tables takes ten seconds."""
    folder = Path(tempfile.mkdtemp(prefix="mlflow-"))
    with tracking.connected(Lake(Settings(root=str(folder))), "the store of the tests could not be made"):
        pass
    return folder / "mlflow"
