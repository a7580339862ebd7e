"""``lakehouse admin pause`` and ``resume``, and where people see a pause. None starts Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

WHY = ("--by", "anna", "--reason", "the tills are replaced")


def test_a_source_is_paused_listed_shown_and_resumed(tmp_path: Path) -> None:
    assert lakehouse_command(tmp_path, "admin", "pause").stdout == "Nothing is paused.\n"
    done = lakehouse_command(tmp_path, "admin", "pause", "sales", *WHY)
    assert done.stdout == "source/sales is paused; 'lakehouse admin resume sales' ends it.\n"
    listed = lakehouse_command(tmp_path, "admin", "pause").stdout
    assert listed.startswith("source/sales: paused by anna on ")
    assert listed.endswith(": the tills are replaced\n")
    shown = lakehouse_command(tmp_path, "status").stdout
    assert "source/sales is paused by anna on " in shown
    [held] = json.loads(lakehouse_command(tmp_path, "status", "--json").stdout)["paused"]
    assert (held["contract"], held["by"], held["reason"]) == ("source/sales", "anna", "the tills are replaced")
    ended = lakehouse_command(tmp_path, "admin", "resume", "sales", "--by", "ben", "--reason", "they send", "--json")
    assert json.loads(ended.stdout)["event"] == "resumed"
    assert lakehouse_command(tmp_path, "admin", "pause").stdout == "Nothing is paused.\n"


def test_wrong_requests_are_refused_in_a_sentence(tmp_path: Path) -> None:
    for arguments, code, why in (
        (("pause", "sales"), 2, "say who pauses it, and why: --by NAME --reason TEXT"),
        (("pause", "sale", *WHY), 1, "there is no source, metric or model 'sale' (did you mean 'sales'?)"),
        (("resume", "sales", *WHY), 1, "source/sales is not paused; paused: nothing"),
    ):
        refused = lakehouse_command(tmp_path, "admin", *arguments)
        assert refused.returncode == code
        assert why in refused.stderr
