"""The state file of a server, and when it is trusted. No Spark: processes that only wait stand in for servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.lake import Lake
from lakehouse.settings import InvalidSettingsError, Settings
from lakehouse.spark import connect
from lakehouse.spark.connect import ConnectServer
from lakehouse.spark.jars import SetupProblem
from lakehouse.spark.session import spark_options

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = 1  # nobody listens there


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch) -> Path:
    """The folder that commands, settings and the functions here all take for the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = connect.state_folder()
    assert folder.is_relative_to(tmp_path)
    return folder


@pytest.fixture(name="process")
def _process() -> Iterator[subprocess.Popen[bytes]]:
    with waiting() as process:
        yield process
        process.kill()


def waiting(code: str = "") -> subprocess.Popen[bytes]:
    """A process that runs some code and then waits; it is there when this returns."""
    whole = f"import signal, time; {code}\nprint('ready', flush=True); time.sleep(300)"
    command = [sys.executable, "-c", whole, "lakehouse-word"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def remembered(folder: Path, pid: int, word: str = "lakehouse-word") -> ConnectServer:
    one = ConnectServer(pid, PORT, word, str(folder / "spark.log"), "2026-01-01 00:00:00")
    connect._record(folder, one)
    return one


def spark_command(*command: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["spark", *command])
    return done.exit_code, " ".join(done.output.split()) or str(done.exception)


def test_a_server_is_the_process_with_its_token_and_no_other_with_the_same_pid(folder: Path, process) -> None:
    assert connect.recorded_server(folder) is None
    one = remembered(folder, process.pid)
    assert connect.recorded_server(folder) == one
    assert one.is_running()
    assert one.address == f"sc://127.0.0.1:{PORT}"
    assert not remembered(folder, os.getpid()).is_running()
    assert not remembered(folder, 2**22 + 1).is_running()


def test_a_process_that_has_ended_and_was_not_buried_lives_no_more(folder: Path, process) -> None:
    one = remembered(folder, process.pid)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not one.is_running()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"pid": 1}'])
def test_an_invalid_state_file_names_no_server(folder: Path, text: str) -> None:
    (folder / "spark.json").write_text(text)
    assert connect.recorded_server(folder) is None
    assert spark_command("status") == (1, "No server was started here: 'lakehouse admin spark start' starts one.")


def test_stop_ends_the_process_and_forgets_it(folder: Path, process) -> None:
    one = remembered(folder, process.pid)
    assert connect.stop(folder) == one
    assert not one.is_running()
    assert not (folder / "spark.json").exists()
    assert spark_command("stop") == (0, "No server that was started here is running.")


def test_a_process_that_does_not_want_to_end_is_made_to(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(connect, "_SECONDS_TO_END", 0.5)
    with waiting("signal.signal(signal.SIGTERM, signal.SIG_IGN)") as process:
        remembered(folder, process.pid)
        assert connect.stop(folder) is not None
        assert process.wait(20) == -signal.SIGKILL


def test_after_a_restart_of_the_machine_the_file_names_another_process(folder: Path, process) -> None:
    remembered(folder, process.pid, "lakehouse-another-word")
    assert "is gone; its log is" in spark_command("status")[1]
    assert Lake(Settings(spark_remote="auto")).settings.spark_remote == "auto"
    assert connect.remote_address(Lake(Settings(spark_remote="auto"))) is None
    assert connect.stop(folder) is None
    assert process.poll() is None, "what is not ours is left alone"
    assert not (folder / "spark.json").exists()


def test_a_process_that_does_not_answer_is_not_used_and_is_reported(folder: Path, process) -> None:
    remembered(folder, process.pid)
    assert connect.remote_address(Lake(Settings(spark_remote="auto"))) is None
    code, words = spark_command("status")
    assert code == 1
    assert f"sc://127.0.0.1:{PORT} does not answer (process {process.pid}, since 2026-01-01 00:00:00" in words
    code, words = spark_command("start", "--wait", "1")
    assert code == 1
    ends = "'lakehouse admin spark stop' ends it; its log"
    assert f"the Spark Connect server (process {process.pid}) does not answer after 1 s; {ends}" in words
    assert process.poll() is None


def test_a_port_that_is_taken_is_reported(folder: Path, monkeypatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupProblem, match=rf"port {port} is taken by another program .*: name another one with --port"):
            connect.start(folder, {}, port, 1)
    assert connect.recorded_server(folder) is None


@pytest.mark.parametrize("address", ["127.0.0.1:15002", "sc://", "spark://host:7077", "automatic", "sc://host:port"])
def test_an_invalid_address_is_reported(address: str) -> None:
    sentence = "LAKEHOUSE_SPARK_REMOTE: is no address of a Spark Connect server; write sc://host:15002, or auto"
    with pytest.raises(InvalidSettingsError, match=f"^{sentence}$"):
        Lake(Settings(spark_remote=address))


def test_a_server_that_cannot_be_reached_is_reported_with_the_way_out() -> None:
    with pytest.raises(SetupProblem) as caught:
        spark_options(Lake(Settings(spark_remote=f"sc://127.0.0.1:{PORT}")))
    assert str(caught.value).startswith(f"no Spark Connect server can be reached at sc://127.0.0.1:{PORT} (Connection refused): ")
    assert "'lakehouse admin spark start', or unset LAKEHOUSE_SPARK_REMOTE" in str(caught.value)


def test_without_the_extra_each_way_in_says_what_to_install(folder: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(SetupProblem, match=r"pip install 'lakehouse\[connect\]'"):
        connect.check_installed()
    assert spark_command("start") == (1, "Spark Connect needs grpc, which is not installed: pip install 'lakehouse[connect]'")
    with pytest.raises(SetupProblem, match=r"lakehouse\[connect\]"):
        spark_options(Lake(Settings(spark_remote="sc://127.0.0.1:15002")))
    assert connect.remote_address(Lake(Settings(spark_remote="auto"))) is None


def test_no_server_is_contacted_where_none_is_named(folder: Path) -> None:
    assert connect.remote_address(Lake(Settings())) is None
    assert connect.remote_address(Lake(Settings(spark_remote="auto"))) is None


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupProblem, match=r"cannot be created .*; set XDG_STATE_HOME"):
        connect.state_folder()
