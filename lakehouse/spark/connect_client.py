"""Checks that a Spark Connect server answers; the errors name the remedy.

Only the client's side belongs here; ``connect_server`` starts and stops a server.
"""

from __future__ import annotations

import socket
import uuid
from importlib.util import find_spec
from urllib.parse import urlsplit

from lakehouse.spark.jars import SetupProblem

_PORT = 15002
_TIMEOUT_SECONDS = 5.0


def missing() -> list[str]:
    """The modules that a Spark Connect client needs but that are not installed."""
    return [name for name in ("grpc", "grpc_status", "google.rpc") if not _is_installed(name)]


def check_installed() -> None:
    """:raises SetupProblem: if the Spark Connect client cannot be used."""
    if lacking := missing():
        msg = f"Spark Connect needs {', '.join(lacking)}, which is not installed: pip install 'lakehouse[connect]'"
        raise SetupProblem(msg)


def check_reachable(address: str) -> None:
    """Check immediately that a server listens; a session would keep trying for ten minutes.

    :param address: the address, as in sc://host:15002.
    :raises SetupProblem: if nothing listens, or the address is not valid.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        parts, host, port = None, None, 0
    if parts is None or parts.scheme != "sc" or not host:
        msg = f"LAKEHOUSE_SPARK_REMOTE is {address!r}, and not an address such as sc://host:15002, or auto"
        raise SetupProblem(msg)
    try:
        socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS).close()
    except OSError as error:
        msg = (
            f"no Spark Connect server can be reached at {address} ({error.strerror or error}): start one with 'lakehouse spark "
            "start', or unset LAKEHOUSE_SPARK_REMOTE to let each process start its own Spark"
        )
        raise SetupProblem(msg) from None


def version(address: str, seconds: float = _TIMEOUT_SECONDS) -> str | None:
    """The Spark release that a server reports; None if no server answers in time.

    :param address: the address of a server without encryption, as in sc://127.0.0.1:15002.
    """
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from pyspark.sql.connect import proto  # noqa: PLC0415
    from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub  # noqa: PLC0415

    user = proto.UserContext(user_id="lakehouse", user_name="lakehouse")
    session = {"session_id": str(uuid.uuid4()), "user_context": user}
    request = proto.AnalyzePlanRequest(**session, spark_version=proto.AnalyzePlanRequest.SparkVersion())
    with grpc.insecure_channel(urlsplit(address).netloc) as channel:
        try:
            answer = SparkConnectServiceStub(channel).AnalyzePlan(request, timeout=seconds)
            SparkConnectServiceStub(channel).ReleaseSession(proto.ReleaseSessionRequest(**session), timeout=seconds)
        except grpc.RpcError:
            return None
    return str(answer.spark_version.version)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
