"""How a command ends with a problem: a sentence and exit code 1; with ``--debug`` the stack trace."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest
from deltalake.exceptions import DeltaError
from sqlalchemy.exc import DatabaseError

from lakehouse.cli import program as cli
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Callable

GOES_ON = "What was done is kept: the same command goes on from there. With --debug it shows where this came from."


def failing(monkeypatch: pytest.MonkeyPatch, problem: Exception, *arguments: str) -> Callable[[], None]:
    def app() -> None:
        assert "--debug" not in sys.argv, "no command has to know the option"
        raise problem

    monkeypatch.setattr(cli, "called", lambda _words: app)
    monkeypatch.setattr(sys, "argv", ["lakehouse", *arguments])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return cli.main


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            LakehouseError("orders.csv: column amount is missing; have it sent again"),
            "orders.csv: column amount is missing; have it sent again",
        ),
        (PermissionError(13, "Permission denied", "/data/a.csv"), f"[Errno 13] Permission denied: '/data/a.csv'. {GOES_ON}"),
        (DeltaError("Kernel error: no such file\n   0: <unknown>"), f"DeltaError: Kernel error: no such file. {GOES_ON}"),
        (KeyError("amount"), f"KeyError: 'amount'. {GOES_ON}"),
        (
            DatabaseError(None, None, Exception("file is not a database")),
            (
                "DatabaseError: (builtins.Exception) file is not a database. It comes from Dagster's storage of runs in "
                "DAGSTER_HOME; no table is concerned. If a file is damaged, move the folders 'history' and 'schedules' away: "
                "only the list of earlier runs is lost. With --debug it shows where this came from."
            ),
        ),
    ],
    ids=["our own", "the system's", "a library's", "nobody expected", "Dagster's storage"],
)
def test_it_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: Exception, text: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        failing(monkeypatch, problem, "run")()
    assert ended.value.code == 1
    assert capsys.readouterr().err.replace("\n", " ").strip() == text


@pytest.mark.parametrize("arguments", [("--debug", "run"), ("run", "--debug")])
def test_where_it_came_from_is_shown_if_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, str]) -> None:
    with pytest.raises(KeyError, match="amount"):
        failing(monkeypatch, KeyError("amount"), *arguments)()
