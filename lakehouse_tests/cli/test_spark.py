"""The messages of commands where the Spark that they are configured to use is missing. None of these starts one."""

from __future__ import annotations

from pathlib import Path

from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.sales_files import FIRST_SALES


def test_a_server_that_cannot_be_reached_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    landing = tmp_path / "lake" / "landing" / "sales"
    landing.mkdir(parents=True)
    (landing / "arrival_date=2024-11-05.csv").write_text(FIRST_SALES)
    done = lakehouse_command(tmp_path, "replay", "sales", LAKEHOUSE_SPARK_REMOTE="sc://127.0.0.1:1")
    assert done.returncode == 1
    assert "no Spark Connect server can be reached at sc://127.0.0.1:1 (Connection refused): start one with" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_where_no_server_was_started_its_commands_say_so(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    status = lakehouse_command(tmp_path, "spark", "status", **state)
    assert (status.returncode, status.stdout) == (1, "No server was started here: 'lakehouse admin spark start' starts one.\n")
    stop = lakehouse_command(tmp_path, "spark", "stop", **state)
    assert (stop.returncode, stop.stdout) == (0, "No server that was started here is running.\n")
