"""Every exception of the product is either reported to people by its text, or listed here with the reason why not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import lakehouse
from lakehouse.cli import program as cli
from lakehouse.contracts import ContractError
from lakehouse.errors import LakehouseError

#: Exceptions that no person is meant to see as they are.
INTERNAL = {
    "Malformed": "becomes the malformed_reason of a row",
    "_TransientError": "starts another attempt to deliver a message",
    "Problem": "becomes an HTTP response with a status of its own",
    "_BlockEnds": "makes the reader leave a record to the next block",
    "SqlSyntaxError": "becomes a mistake of a contract, with file and line",
    "NotWrittenSoError": "becomes the malformed_reason of a row",
    "ForgottenFeedError": "makes the reader fall back to all rows",
    "UnknownFormError": "makes delta-rs open the table itself",
    "ManyChangesError": "makes all days of a joined metric pending",
    "_LeftToSparkError": "makes Spark compute the number",
    "UnbookableError": "gold.publication holds the period, with the sentence of ledger.failures",
}


def _exceptions() -> dict[str, type]:
    exceptions: dict[str, type] = {}
    for module in pkgutil.walk_packages(lakehouse.__path__, "lakehouse."):
        if module.name.endswith("__main__"):
            continue
        members = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        exceptions |= {name: cls for name, cls in members if issubclass(cls, BaseException) and cls.__module__ == module.name}
    return exceptions


def test_every_exception_is_reported_or_has_a_reason_not_to_be() -> None:
    exceptions = _exceptions()
    internal = {name for name, cls in exceptions.items() if not issubclass(cls, LakehouseError)}
    assert internal == INTERNAL.keys()
    assert len(exceptions) > 30


def _run(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    def fails(*_: object) -> None:
        raise problem

    monkeypatch.setattr(cli, "called", fails)
    cli.main()


@pytest.mark.parametrize(
    "problem", [LakehouseError("what, where, [and] what to do"), ContractError(["a.yaml:1: x", "b.yaml:2: y"])]
)
def test_the_command_line_reports_it_in_its_own_words(
    problem: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        _run(monkeypatch, problem)
    assert end.value.code == 1
    assert capsys.readouterr().err == f"{problem}\n"
