"""Spark Connect: whether a server answers, and the start and stop of a server on this machine. Errors name the remedy.

A Spark Connect server outlives the processes that use it. It answers at once, whereas a new Spark takes ten seconds.

Here are also the Spark options that no other user of the machine may read. They are in a private file, not among Java's
arguments, because process arguments are visible to all users of the machine. Spark reads the file when it starts; the file is
removed at the end of this process.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import platformdirs
from filelock import FileLock

from lakehouse.spark.jars import SetupProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.lake import Lake


_PORT = 15002
_TIMEOUT_SECONDS = 5.0


def missing_packages() -> list[str]:
    """The modules that a Spark Connect client needs but that are not installed."""
    return [name for name in ("grpc", "grpc_status", "google.rpc") if not _is_installed(name)]


def check_installed() -> None:
    """:raises SetupProblem: if the Spark Connect client cannot be used."""
    if lacking := missing_packages():
        msg = f"Spark Connect needs {', '.join(lacking)}, which is not installed: pip install 'lakehouse[connect]'"
        raise SetupProblem(msg)


def check_reachable(address: str) -> None:
    """Check immediately that a server listens; a session would keep trying for ten minutes.

    :param address: the address, as in sc://host:15002; the settings have checked its form.
    :raises SetupProblem: if nothing listens.
    """
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port or _PORT), timeout=_TIMEOUT_SECONDS).close()
    except OSError as error:
        msg = (
            f"no Spark Connect server can be reached at {address} ({error.strerror or error}): start one with 'lakehouse admin "
            "spark start', or unset LAKEHOUSE_SPARK_REMOTE to let each process start its own Spark"
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


AUTO = "auto"
_HOST = "127.0.0.1"
_MASTER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SECONDS_TO_END = 20.0
_LINES_SHOWN = 15


@dataclass(frozen=True)
class ConnectServer:
    """A server started by this module. ``word`` is on its command line and on no other."""

    pid: int
    port: int
    word: str
    log: str
    started_at: str

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"sc://{_HOST}:{self.port}"

    def is_running(self) -> bool:
        """Whether the server's process still runs; after a restart of the machine, another process may have its number."""
        return self.word in _command_line(self.pid)


def state_folder() -> Path:
    """The folder of the record and of the log.

    :raises SetupProblem: if the folder cannot be created.
    """
    folder = platformdirs.user_state_path("lakehouse", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder} cannot be created ({error.strerror}): the server's file and log belong there; set XDG_STATE_HOME"
        raise SetupProblem(msg) from None
    return folder


def recorded_server(folder: Path) -> ConnectServer | None:
    """The last server started, whether or not it still runs."""
    try:
        return ConnectServer(**json.loads((folder / "spark.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def remote_address(lake: Lake) -> str | None:
    """The address of the server that sessions use; None if they start their own Spark.

    :raises SetupProblem: if the settings name a server that cannot be reached.
    """
    if not lake.settings.spark_remote:
        return None
    if lake.settings.spark_remote == AUTO:
        server = recorded_server(platformdirs.user_state_path("lakehouse", appauthor=False))
        if server is None or not server.is_running() or missing_packages():
            return None
        return server.address if version(server.address) else None
    check_installed()
    check_reachable(lake.settings.spark_remote)
    return lake.settings.spark_remote


def start(folder: Path, options: Mapping[str, str], port: int, seconds: float) -> tuple[ConnectServer, bool]:
    """Start a server and wait until it answers; a running server is kept.

    :param options: Spark's options.
    :param seconds: the maximum waiting time.
    :returns: the server, and whether this call started it.
    :raises SetupProblem: if the server does not answer in time; the message names its log.
    """
    check_installed()
    with _exclusive(folder):
        running = recorded_server(folder)
        if running and running.is_running():
            _wait_for_answer(running, seconds)
            return running, False
        _check_free(port)
        word, log = f"lakehouse-{uuid.uuid4().hex}", folder / "spark.log"
        command = _command(options, port, word)
        with log.open("wb") as output:  # the server's working folder is the folder of the log
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, start_new_session=True)
        server = ConnectServer(process.pid, port, word, str(log), time.strftime("%Y-%m-%d %H:%M:%S"))
        _record(folder, server)
        try:
            _wait_for_answer(server, seconds, process)
        except SetupProblem:
            _terminate(server)
            (folder / "spark.json").unlink(missing_ok=True)
            raise
        return server, True


def stop(folder: Path) -> ConnectServer | None:
    """Stop the recorded server and wait until it has ended.

    :returns: the stopped server; None if none was running.
    """
    with _exclusive(folder):
        server = recorded_server(folder)
        ended = server if server and server.is_running() else None
        if ended:
            _terminate(ended)
        (folder / "spark.json").unlink(missing_ok=True)
        return ended


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Prevent other processes from starting or stopping a server within the context."""
    with FileLock(folder / "spark.lock"):
        yield


def _command(options: Mapping[str, str], port: int, word: str) -> list[str]:
    import pyspark  # noqa: PLC0415 (not needed to read the record)

    binding = {
        "spark.app.name": word,
        "spark.connect.grpc.binding.address": _HOST,
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [str(Path(str(pyspark.__file__)).parent / "bin" / "spark-submit"), "--class", _MASTER_CLASS]
    seen, private = split_private({**options, **binding})
    for name, value in seen.items():
        command += ["--conf", f"{name}={value}"]
    if private:
        command += ["--properties-file", options_in_file(private)]
    return [*command, "spark-internal"]


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            address = f"sc://{_HOST}:{port}"
            spark = version(address)
            owner = (
                f"a Spark Connect server that was started otherwise (LAKEHOUSE_SPARK_REMOTE={address} uses it)" if spark else ""
            )
            msg = f"port {port} is taken by {owner or 'another program'} ({error.strerror}): name another one with --port"
            raise SetupProblem(msg) from None


def _record(folder: Path, server: ConnectServer) -> None:
    """Replace the record atomically, so that readers never see a part of it."""
    part = folder / "spark.json.part"
    part.write_text(json.dumps(asdict(server)))
    part.replace(folder / "spark.json")


def _wait_for_answer(server: ConnectServer, seconds: float, process: subprocess.Popen[bytes] | None = None) -> None:
    """:raises SetupProblem: if the process ends, or does not answer in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if version(server.address):
            return
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.5)
    ended = process is not None and process.poll() is not None
    problem = "has ended" if ended else f"does not answer after {seconds:.0f} s; 'lakehouse admin spark stop' ends it"
    lines = []
    with suppress(OSError):
        lines = Path(server.log).read_text(errors="replace").splitlines()
    lines = [line for line in lines if not line.startswith(("\tat ", "        at "))][-_LINES_SHOWN:]  # no stack traces
    excerpt = "\n".join(["ends with:", *lines]) if lines else "is empty"
    msg = f"the Spark Connect server (process {server.pid}) {problem}; its log {server.log} {excerpt}"
    raise SetupProblem(msg)


def _terminate(server: ConnectServer) -> None:
    """Ask the process and its workers to end; kill them if they do not end in time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        end = time.monotonic() + _SECONDS_TO_END
        while time.monotonic() < end:
            if not server.is_running():
                return
            time.sleep(0.1)


def _command_line(pid: int) -> str:
    """The command line of a process; empty if there is no process, or only its entry is left."""
    listing = Path("/proc/self/cmdline")
    if listing.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


#: The pattern by which Spark hides values in its own pages (``spark.redaction.regex``), session tokens, and keys of any kind.
_PRIVATE = re.compile(r"secret|password|token|access[.]?key|credential|\bkey\b|\bsas\b", re.IGNORECASE)
#: Options of file systems: each store has its own names for its secrets.
_STORES = "spark.hadoop."
#: Options whose values are arguments of Java, which may have secrets among them.
_JAVA = "JavaOptions"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_FILE = "--properties-file"
_ASCII = 128


def split_private(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The public options and the private options."""
    private = {name: value for name, value in options.items() if _is_private(name, value)}
    return {name: value for name, value in options.items() if name not in private}, private


def _is_private(name: str, value: str) -> bool:
    return name.startswith(_STORES) or bool(_PRIVATE.search(f"{name} {value}" if name.endswith(_JAVA) else name))


def hide_options(options: Mapping[str, str]) -> dict[str, str]:
    """The public options. The private ones are written to a file, which the next JVM started by PySpark in this process reads."""
    seen, private = split_private(options)
    if private:
        others = os.environ.get(_ARGUMENTS, "pyspark-shell")
        if others.startswith(_FILE):
            others = others.split(maxsplit=2)[2]
        os.environ[_ARGUMENTS] = f"{_FILE} {options_in_file(private)} {others}"
    return seen


def options_in_file(private: Mapping[str, str]) -> str:
    """The path of a file with the private options, which only this user can read."""
    return _written(tuple(sorted(private.items())))


@cache
def _written(options: tuple[tuple[str, str], ...]) -> str:
    descriptor, name = tempfile.mkstemp(prefix="lakehouse-", suffix=".properties")  # its mode is 600
    with os.fdopen(descriptor, "w", encoding="latin-1") as file:
        file.writelines(f"{key}={_escaped(value)}\n" for key, value in options)
    atexit.register(Path(name).unlink, missing_ok=True)
    return name


def _escaped(value: str) -> str:
    """Escape a value for a Java properties file: characters other than plain ASCII by their UTF-16 codes."""
    plain = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace(" ", "\\ ").replace("\t", "\\t")
    units = plain.encode("utf-16-be")
    codes = (int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2))
    return "".join(chr(code) if code < _ASCII else f"\\u{code:04x}" for code in codes)
