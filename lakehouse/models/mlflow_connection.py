"""The connection to MLflow: its address, a client that answers or fails within seconds, and errors as sentences.

The content stored in MLflow belongs to ``tracking``. MLflow takes five seconds to import, so it is imported only for a
connection.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from filelock import FileLock

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.settings import Settings

#: Settings of MLflow's client unless the environment sets them: by default it retries for minutes, prints addresses and reports
#: its use.
_BEHAVIOUR = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
#: Seconds within which a server must accept a connection, and answer a health check.
_PATIENCE = (3, 5)
_BAD_GATEWAYS = (502, 503, 504)
#: MLflow's logging functions use an address that is global to the process.
_ONE_AT_A_TIME = threading.RLock()


class TrackingError(LakehouseError):
    """MLflow refused a request, or lacks an expected object. The message says what, where, and what to do."""


class MlflowUnavailableError(TrackingError):
    """MLflow does not answer. The message has the address."""

    passes_by_itself = True


def address(settings: Settings) -> str:
    """The address of MLflow's tracking and registry: from the setting, or the embedded store below the root.

    :raises TrackingError: if the root is in an object store, which cannot hold the SQLite file.
    """
    if settings.mlflow_uri:
        return settings.mlflow_uri
    if "://" in settings.root:
        msg = (
            f"the root {settings.root} is in an object store, which cannot hold MLflow's SQLite file; set LAKEHOUSE_MLFLOW_URI "
            "to the address of an MLflow server"
        )
        raise TrackingError(msg)
    return f"sqlite:///{_folder(settings)}/mlflow.db"


def artifact_location(settings: Settings, experiment: str) -> str | None:
    """The folder in which the embedded store keeps an experiment's models; None with a server, which decides it."""
    return None if settings.mlflow_uri else (_folder(settings) / "artifacts" / experiment).as_uri()


@contextmanager
def connected(settings: Settings, purpose: str) -> Iterator[Any]:
    """Connect to MLflow with a client whose errors become sentences.

    Within the context, MLflow's functions without a client use the same address.

    :param purpose: the purpose, as part of the error message: 'the alias of fraud could not be moved'.
    :raises TrackingError: if MLflow is not installed, refuses a request, or does not know a name.
    :raises MlflowUnavailableError: if MLflow does not answer.
    """
    uri = address(settings)
    for name, value in _BEHAVIOUR.items():
        os.environ.setdefault(name, value)
    _require_answer(uri, purpose)
    try:
        import mlflow  # noqa: PLC0415
        from mlflow.exceptions import MlflowException  # noqa: PLC0415
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 (comes with MLflow)
    except ImportError as missing:
        msg = f"{purpose}: {missing.name} is not installed; install the extra with 'pip install lakehouse[ml]'"
        raise TrackingError(msg) from missing
    with _ONE_AT_A_TIME, _quiet():
        try:
            with _as_default(mlflow, uri):
                if not settings.mlflow_uri:
                    _prepare(_folder(settings), mlflow, uri)
                yield mlflow.MlflowClient(uri, uri)
        except (requests.RequestException, SQLAlchemyError) as problem:
            raise MlflowUnavailableError(_sentence(purpose, uri, problem)) from problem
        except MlflowException as problem:
            kind = TrackingError if _is_refusal(problem) else MlflowUnavailableError
            raise kind(_sentence(purpose, uri, problem)) from problem


def shown(uri: str) -> str:
    """The address without its password."""
    parts = urlsplit(uri)
    return uri if parts.password is None else uri.replace(f":{parts.password}@", ":***@")


def _folder(settings: Settings) -> Path:
    return Path(settings.root) / "mlflow"


def _require_answer(uri: str, purpose: str) -> None:
    """Check that the server answers. MLflow's client would retry for long; a running server answers this request at once."""
    if not uri.startswith(("http://", "https://")):
        return
    try:
        status = requests.get(f"{uri.rstrip('/')}/health", timeout=_PATIENCE).status_code
    except requests.exceptions.SSLError:
        return  # MLflow has its own settings for certificates
    except requests.RequestException as problem:
        raise MlflowUnavailableError(_sentence(purpose, uri, problem)) from problem
    if status in _BAD_GATEWAYS:
        raise MlflowUnavailableError(_sentence(purpose, uri, f"it answers with status {status}"))


def _sentence(purpose: str, uri: str, problem: object) -> str:
    reason = _reason(problem)
    where = f"MLflow at {shown(uri)}"
    return (
        f"{purpose}: {where} says: {reason}"
        if reason
        else f"{purpose}: {where} does not answer; start it, or correct LAKEHOUSE_MLFLOW_URI"
    )


def _reason(problem: object) -> str:
    """MLflow's error text; empty if there is none because no connection was made."""
    if isinstance(problem, (requests.ConnectionError, requests.Timeout)):
        return ""
    text = f"{problem}".strip().partition("\n")[0]
    return "" if "Max retries exceeded" in text or "Connection refused" in text else text


def _is_refusal(problem: Any) -> bool:
    """Whether MLflow refused the request, as opposed to being unreachable."""
    return bool(_reason(problem)) and problem.error_code != "TEMPORARILY_UNAVAILABLE"


@contextmanager
def _as_default(mlflow: Any, uri: str) -> Iterator[None]:
    """Within the context, MLflow's functions without a client use ``uri``; afterwards, the previous address."""
    before = {name: os.environ.get(name) for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")}
    tracking, registry = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(tracking)
        mlflow.set_registry_uri(registry)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress MLflow's remarks about pickles, types and tables, which are irrelevant to users of a command."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _prepare(folder: Path, mlflow: Any, uri: str) -> None:
    """Create the tables of the embedded store once: two processes that create them at the same time disturb each other."""
    ready = folder / "ready"
    if ready.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "ready.lock"):
        if not ready.exists():
            mlflow.MlflowClient(uri, uri).search_experiments(max_results=1)
            ready.touch()
