"""A trained model as an object, and its input frame.

Training belongs to ``training``, computing scores to ``evaluation``.

The training function of a model contract: found by name, called, with failures reported as sentences.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import code_commit
from lakehouse.delta.columns import is_number
from lakehouse.errors import LakehouseError
from lakehouse.models import tracking
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from lakehouse.contracts import ModelContract, TrainingSetContract
    from lakehouse.lake import Lake


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


def find(lake: Lake, contract: ModelContract) -> TrainingFunction:
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
    return TrainingFunction(contract.train, function, _version_of(module), code_commit.of_folder(lake, folder))


def call(contract: ModelContract, function: TrainingFunction, frame: pd.DataFrame, parameters: Mapping[str, Any]) -> Any:
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


def load(lake: Lake, contract: ModelContract, version: str) -> Any:
    """Load the object returned by the training function of a version.

    :raises ReleaseError: for a version that does not exist.
    :raises TrackingError: if MLflow does not know the version, cannot be reached, or its files cannot be read.
    """
    make_importable(lake)
    return tracking.load(lake, releases.find(lake, ReleaseKind.MODEL, contract.name, version))


def features_frame(set_contract: TrainingSetContract, rows: pa.Table) -> pd.DataFrame:
    """The input of a model: the features of a set in the order of its contract; see :func:`frame_of`.

    :param rows: rows with at least these columns.
    """
    return frame_of(rows, set_contract.features.names)


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
