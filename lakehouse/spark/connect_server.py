"""A Spark Connect server that lives on beside the processes that use it: a warm JVM answers at once, a fresh one in ten seconds.

One a user and machine, reachable from this machine alone. A small file in the user's state folder tells which process it is and
where it listens; it is believed only where that process is still there, known by a word of its own on its command line.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from filelock import FileLock

from lakehouse.spark import connect_client
from lakehouse.spark.jars import SetupProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.settings import Settings

AUTO = "auto"
_HOST = "127.0.0.1"
_MASTER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SECONDS_TO_END = 20.0
_LINES_SHOWN = 15


@dataclass(frozen=True)
class Server:
    """A server that was started here. ``word`` stands on its command line and nowhere else."""

    pid: int
    port: int
    word: str
    log: str
    started_at: str

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"sc://{_HOST}:{self.port}"

    def lives(self) -> bool:
        """Whether its process is still there; another one may have got its number, after a restart of the machine too."""
        return self.word in _command_line(self.pid)


def state_folder() -> Path:
    """Where the file and the log lie.

    :raises SetupProblem: where the folder cannot be made.
    """
    folder = platformdirs.user_state_path("lakehouse", appauthor=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder} cannot be made ({error.strerror}): the server's file and log belong there; set XDG_STATE_HOME"
        raise SetupProblem(msg) from None
    return folder


def known(folder: Path) -> Server | None:
    """The server that was started last, whether or not it is still there."""
    try:
        return Server(**json.loads((folder / "spark.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def remote_of(settings: Settings) -> str | None:
    """The address of the server that sessions use, None for a Spark of their own.

    :raises SetupProblem: where settings name one that cannot be reached.
    """
    if not settings.spark_remote:
        return None
    if settings.spark_remote == AUTO:
        found = known(platformdirs.user_state_path("lakehouse", appauthor=False))
        there = found is not None and found.lives() and not connect_client.missing()
        return found.address if found and there and connect_client.version(found.address) else None
    connect_client.check_installed()
    connect_client.check_reachable(settings.spark_remote)
    return settings.spark_remote


def start(folder: Path, options: Mapping[str, str], port: int, seconds: float) -> tuple[Server, bool]:
    """Start a server and wait until it answers; one that is there already is left alone.

    :param options: Spark's.
    :param seconds: how long to wait.
    :returns: the server, and whether it was started now.
    :raises SetupProblem: where it does not come up; the text names its log.
    """
    connect_client.check_installed()
    with _alone(folder):
        before = known(folder)
        if before and before.lives():
            _until_it_answers(before, seconds)
            return before, False
        _check_free(port)
        word, log = f"lakehouse-{uuid.uuid4().hex}", folder / "spark.log"
        command = _command(options, port, word)
        with log.open("wb") as said:  # what it makes in its working folder lies beside the log
            process = subprocess.Popen(command, stdout=said, stderr=said, cwd=folder, start_new_session=True)
        server = Server(process.pid, port, word, str(log), time.strftime("%Y-%m-%d %H:%M:%S"))
        _remember(folder, server)
        try:
            _until_it_answers(server, seconds, process)
        except SetupProblem:
            _end(server)
            (folder / "spark.json").unlink(missing_ok=True)
            raise
        return server, True


def stop(folder: Path) -> Server | None:
    """End the server that was started here, and wait until it is gone.

    :returns: the one that was ended; None where none was there.
    """
    with _alone(folder):
        server = known(folder)
        ended = server if server and server.lives() else None
        if ended:
            _end(ended)
        (folder / "spark.json").unlink(missing_ok=True)
        return ended


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else starts or stops a server meanwhile."""
    with FileLock(folder / "spark.lock"):
        yield


def _command(options: Mapping[str, str], port: int, word: str) -> list[str]:
    import pyspark  # noqa: PLC0415 (it need not be there to read the file)

    own = {
        "spark.app.name": word,
        "spark.connect.grpc.binding.address": _HOST,
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [str(Path(str(pyspark.__file__)).parent / "bin" / "spark-submit"), "--class", _MASTER_CLASS]
    for name, value in {**options, **own}.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "spark-internal"]


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            address = f"sc://{_HOST}:{port}"
            spark = connect_client.version(address)
            taken = (
                f"a Spark Connect server that was started otherwise (LAKEHOUSE_SPARK_REMOTE={address} uses it)" if spark else ""
            )
            msg = f"port {port} is taken by {taken or 'another program'} ({error.strerror}): name another one with --port"
            raise SetupProblem(msg) from None


def _remember(folder: Path, server: Server) -> None:
    """In one step: whoever reads finds a whole file."""
    part = folder / "spark.json.part"
    part.write_text(json.dumps(asdict(server)))
    part.replace(folder / "spark.json")


def _until_it_answers(server: Server, seconds: float, process: subprocess.Popen[bytes] | None = None) -> None:
    """:raises SetupProblem: where it ends, or has not answered in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if connect_client.version(server.address):
            return
        if process is not None and process.poll() is not None:
            break
        time.sleep(0.5)
    gone = process is not None and process.poll() is not None
    what = "has ended" if gone else f"does not answer after {seconds:.0f} s; 'lakehouse spark stop' ends it"
    lines = []
    with suppress(OSError):
        lines = Path(server.log).read_text(errors="replace").splitlines()
    lines = [line for line in lines if not line.startswith(("\tat ", "        at "))][-_LINES_SHOWN:]  # of a stack the sentences
    told = "\n".join(["ends with:", *lines]) if lines else "says nothing"
    msg = f"the Spark Connect server (process {server.pid}) {what}; its log {server.log} {told}"
    raise SetupProblem(msg)


def _end(server: Server) -> None:
    """Ask the process to end, and its workers; make it where it does not."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(server.pid, how)
        end = time.monotonic() + _SECONDS_TO_END
        while time.monotonic() < end:
            if not server.lives():
                return
            time.sleep(0.1)


def _command_line(pid: int) -> str:
    """The command line of a process; empty where there is none, or only its entry is left."""
    listing = Path("/proc/self/cmdline")
    if listing.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
