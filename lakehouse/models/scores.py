"""The scores of a model version: its training function and trained model as objects, and the table of scores by event day.

Scores are computed from the columns on which the version was trained. The table has, for each entity, a row per version that has
scored it; one row is served. A training function is found by its name in the contract, and its failures are reported as
sentences. Training belongs to ``training``; selecting the rows and using the scores belongs to ``score`` and ``backtest``.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import sys
import traceback
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import partition_writer, provenance, row_writer
from lakehouse.delta.columns import is_number
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.models import comparison, tracking
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from numpy.typing import NDArray

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.canary_log import Arm
    from lakehouse.training_sets.releases import Release


class MissingFeatureError(LakehouseError):
    """A version needs a column that current rows do not have. The message names it."""


@dataclass(frozen=True)
class LoadedVersion:
    """A version of a model, ready to score.

    :param features: the input columns, in their order.
    :param learned: the first and the last event time of its training rows, if known.
    """

    contract: ModelContract
    version: str
    model: Any
    features: Sequence[str]
    learned: tuple[datetime, datetime] | None = None

    def scores(self, rows: pa.Table) -> NDArray[np.float64]:
        """The score of each row.

        :raises MissingFeatureError: if the rows lack a column on which the version was trained.
        :raises ScoringError: if the model gives no usable scores.
        """
        lacking = [name for name in self.features if name not in rows.column_names]
        if lacking:
            name = f"{self.contract.name} {self.version}"
            msg = (
                f"{name} has learned from {', '.join(lacking)}, which the training set {self.contract.training_set} has no more: "
                f"put it back into the contract, or use a version that was trained without it"
            )
            raise MissingFeatureError(msg)
        if not len(rows):
            return np.zeros(0)
        return comparison.scores_of(self.contract, self.model, frame_of(rows, self.features))

    def rows_learned(self, rows: pa.Table) -> int:
        """The number of rows within the time range of the version's training rows; 0 if the range is not recorded."""
        if self.learned is None:
            return 0
        times = rows["event_ts"]
        first, last = (pa.scalar(moment, times.type) for moment in self.learned)
        within = pc.and_(pc.greater_equal(times, first), pc.less_equal(times, last))
        return pc.sum(within).as_py() or 0


def load(lake: Lake, catalog: Catalog, contract: ModelContract, version: str) -> LoadedVersion:
    """Load a released version with its model.

    :raises ReleaseError: for a version that does not exist.
    :raises TrackingError: if MLflow does not know the version, or cannot be reached.
    """
    release = releases.find(lake, ReleaseKind.MODEL, contract.name, version)
    default = catalog.training_sets[contract.training_set].features.names
    features = release.about.get("feature_names", default)
    return LoadedVersion(contract, version, load_model(lake, contract, version), features, learned_span(release))


def learned_span(release: Release) -> tuple[datetime, datetime] | None:
    """The first and the last event time of the part on which a version was trained; None if not recorded."""
    of_set = release.about.get("training_set", {})
    part = of_set.get("time", {}).get(release.about.get("fit_on"))
    return None if part is None else (datetime.fromisoformat(part["from"]), datetime.fromisoformat(part["to"]))


def features_hash(rows: pa.Table, features: Sequence[str]) -> NDArray[np.int64]:
    """A hash of the model's input for each row; equal features have equal hashes, also in another process or table."""
    frame = frame_of(rows, features)
    numbers = frame.select_dtypes("float64").columns
    frame[numbers] += 0.0  # -0.0 and 0.0 are equal
    for name in frame.select_dtypes("object").columns:
        frame[f"{name} is NULL"] = frame[name].isna()  # the hash treats None as the text 'None'
    # Categories would treat texts as equal that differ only after a NUL character.
    hashed = pd.util.hash_pandas_object(frame, index=False, categorize=False).to_numpy(np.uint64)
    signed: NDArray[np.int64] = hashed.view(np.int64)  # Delta has only signed integers
    return signed


#: ``served`` marks the row that counts; ``features_hash`` covers the columns that the version uses, see :func:`scored_rows`.
SCHEMA = pa.schema(
    [
        ("record_key", pa.string()),
        ("event_ts", pa.timestamp("us", "UTC")),
        ("event_date", pa.date32()),
        ("score", pa.float64()),
        ("model_version", pa.string()),
        ("arm", pa.string()),
        ("served", pa.bool_()),
        ("features_hash", pa.int64()),
        ("scored_at", pa.timestamp("us", "UTC")),
        ("run_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class ScoringRun:
    """The author and the time of a scoring."""

    run_id: str
    by: str
    scored_at: datetime


def scored_rows(rows: pa.Table, version: LoadedVersion, arm: Arm, served: NDArray[np.bool_], run: ScoringRun) -> pa.Table:
    """The scores of a version for ``rows``, as rows of the table.

    :param rows: record_key, event_ts, event_date and the features.
    :param served: whether each score is served.
    """
    hashes = features_hash(rows, version.features)
    count = len(rows)
    return pa.table(
        [
            *(rows[name].cast(SCHEMA.field(name).type) for name in ("record_key", "event_ts", "event_date")),
            pa.array(version.scores(rows)),
            pa.repeat(version.version, count),
            pa.repeat(arm.value, count),
            pa.array(served),
            pa.array(hashes),
            pa.repeat(pa.scalar(run.scored_at, pa.timestamp("us", "UTC")), count),
            pa.repeat(run.run_id, count),
        ],
        schema=SCHEMA,
    )


@row_writer.retried_on_conflict
def write(
    lake: Lake,
    model: str,
    days: Collection[date],
    versions: Collection[str],
    scored: Sequence[pa.Table],
    run: ScoringRun,
) -> None:
    """Replace the scores of ``versions`` for ``days``, in one commit.

    Scores of other versions stay, but are no longer served.

    :param scored: the rows of the versions, all from ``days``; at least one table, which may be empty.
    :raises CommitFailedError: if other writers win eight times in a row.
    """
    stored = locations.scores(lake, model)
    table = row_writer.open_or_create(stored, SCHEMA, ["event_date"])
    new = pa.concat_tables(scored)
    older = table_io.read_version(table, SCHEMA.names, {"event_date": sorted(days)}).cast(SCHEMA)
    older = older.filter(pc.invert(pc.is_in(older["model_version"], pa.array(sorted(versions)))))
    older = older.set_column(SCHEMA.get_field_index("served"), SCHEMA.field("served"), pa.repeat(False, len(older)))
    rows = pa.concat_tables([new, older]).sort_by([("event_date", "ascending"), ("record_key", "ascending")])
    why = {"scores": model, "run_id": run.run_id, "by": run.by, "days": [f"{day}" for day in sorted(days)]}
    partition_writer.replace(table, rows, days, why=why)


def read(lake: Lake, model: str, where: table_io.Where | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The scores that meet ``where``, with ``columns`` (default: all); empty if nothing has been scored."""
    names = list(columns or SCHEMA.names)
    wanted = pa.schema([SCHEMA.field(name) for name in names])
    rows = locations.scores(lake, model).read(names, where)
    return wanted.empty_table() if rows is None else rows.cast(wanted)


_HASH_LENGTH = 12


class TrainingError(LakehouseError):
    """A model that cannot be trained; nothing was recorded. The message states the reason and the remedy."""


@dataclass(frozen=True)
class TrainingFunction:
    """A training function with the version of its code, a hash of its module's source, and the Git commit of its folder."""

    name: str
    function: Callable[[pd.DataFrame, Mapping[str, Any]], Any]
    code_version: str
    commit: str | None = None


def make_importable(lake: Lake) -> None:
    """Make modules importable from the current folder, as with ``python -m``, and from the folder of the contracts.

    Installed packages take precedence. The folders stay on the path, because a model may import from them while it predicts.
    """
    for folder in (str(Path.cwd()), str(lake.settings.contracts.absolute())):
        if folder not in sys.path:
            sys.path.append(folder)
    importlib.invalidate_caches()


def find_function(lake: Lake, contract: ModelContract) -> TrainingFunction:
    """The training function named in a contract.

    :raises TrainingError: if the function cannot be imported, or is not callable.
    """
    module_name, _, function_name = contract.train.partition(":")
    looked_in = (
        f"modules are looked for in {Path.cwd()}, in {lake.settings.contracts.absolute()}, and among the installed packages"
    )
    try:
        make_importable(lake)
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (module_name == problem.name or module_name.startswith(f"{problem.name}.")):
            msg = f"{contract.name}: there is no module {problem.name} for 'train: {contract.train}'; {looked_in}"
        else:
            msg = f"{contract.name}: {module_name} imports {problem.name}, which is not installed"
        raise TrainingError(msg) from problem
    except Exception as problem:
        msg = f"{contract.name}: the module {module_name} of 'train: {contract.train}' cannot be imported: {described(problem)}"
        raise TrainingError(msg) from problem
    function = getattr(module, function_name, None)
    if not callable(function):
        what = "is no function" if hasattr(module, function_name) else "does not exist"
        msg = f"{contract.name}: {function_name} {what} in {module.__file__}; correct 'train: {contract.train}'"
        raise TrainingError(msg)
    folder = Path(module.__file__).parent if module.__file__ else lake.settings.contracts
    return TrainingFunction(contract.train, function, _version_of(module), provenance.commit_of_folder(lake, folder))


def call_function(contract: ModelContract, function: TrainingFunction, frame: pd.DataFrame, parameters: Mapping[str, Any]) -> Any:
    """Call the training function with ``frame`` and return its model.

    :raises TrainingError: if the function fails, or returns nothing that predicts.
    """
    try:
        trained = function.function(frame, copy.deepcopy(dict(parameters)))
    except (Exception, SystemExit) as problem:
        msg = f"{contract.name}: {function.name} failed on {len(frame):,} rows: {described(problem)}"
        raise TrainingError(msg) from problem
    method = "predict_proba" if contract.predicts == "probability" else "predict"
    if trained is None:
        msg = f"{contract.name}: {function.name} returned nothing; it has to return the model, with '{method}'"
        raise TrainingError(msg)
    if not callable(getattr(trained, method, None)):
        msg = (
            f"{contract.name}: {function.name} returned an object of type {type(trained).__name__} without '{method}', which "
            f"'predicts: {contract.predicts}' needs"
        )
        raise TrainingError(msg)
    return trained


def described(problem: BaseException) -> str:
    """Describe an error in user code: its kind, its text, and the last location in that code."""
    text = " ".join(f"{problem}".split())
    place = ""
    if not isinstance(problem, SyntaxError):
        frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if _is_of_user(frame.filename)]
        place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(problem).__name__}: {text}{place}"


def _is_of_user(file: str) -> bool:
    return "site-packages" not in file and not file.startswith("<") and Path(file) != Path(__file__)


def _version_of(module: Any) -> str:
    file = Path(module.__file__) if getattr(module, "__file__", None) else None
    content = file.read_bytes() if file is not None and file.is_file() else repr(module).encode()
    return hashlib.sha256(content).hexdigest()[:_HASH_LENGTH]


def load_model(lake: Lake, contract: ModelContract, version: str) -> Any:
    """Load the object returned by the training function of a version.

    :raises ReleaseError: for a version that does not exist.
    :raises TrackingError: if MLflow does not know the version, cannot be reached, or its files cannot be read.
    """
    make_importable(lake)
    return tracking.load(lake, releases.find(lake, ReleaseKind.MODEL, contract.name, version))


def frame_of(rows: pa.Table, columns: Sequence[str]) -> pd.DataFrame:
    """The columns ``columns`` as a pandas frame. A column has the same type in every frame, whatever its rows.

    Numbers and truth values are float64 with NaN for NULL, text is ``object`` with None, days and times are timestamps.
    """
    selected = pa.table({name: _plain(rows[name]) for name in columns})
    frame: pd.DataFrame = selected.to_pandas(date_as_object=False)
    return frame


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_boolean(kind):
        return pc.cast(pc.cast(values, pa.int8()), pa.float64())
    if is_number(kind):
        return pc.cast(values, pa.float64(), safe=False)
    return pc.cast(values, pa.timestamp("us")) if pa.types.is_date(kind) else values
