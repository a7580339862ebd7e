"""A pytest plugin of ``.ci/proofs``: it selects the proofs of a shard, and prints and records each proof when it ends.

What a proof has tried is counted in the process that runs it, and travels on its reports. Where pytest-xdist runs the proofs,
the process that controls the others prints and records.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse_tests.support import tried
from lakehouse_tests.support.proofs import records
from lakehouse_tests.support.proofs.records import Record
from lakehouse_tests.support.proofs.shards import TESTS, shard_of

if TYPE_CHECKING:
    from collections.abc import Generator

_PHASES = ("setup", "call", "teardown")
#: Of what a failed proof has printed, the end is shown.
_PRINTED_CHARACTERS = 4000


@dataclass(frozen=True)
class Plan:
    """What one pytest process does, as ``python -m lakehouse_tests.proofs`` writes it to a file.

    :param entries: the shard of each entry of ``proofs.toml``.
    :param passed: proofs that are left out. The same for all workers, as long as they run: they must collect the same tests.
    """

    shard: str
    commit: str
    seed: int
    state: str
    entries: dict[str, str]
    passed: list[str]


def proof_name(node_id: str) -> str:
    """The node id below ``lakehouse_tests``."""
    return node_id.removeprefix(f"{TESTS}/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--proof-plan", required=True, help="the file with the plan of the shard")


def pytest_configure(config: pytest.Config) -> None:
    plan = Plan(**json.loads(Path(config.getoption("--proof-plan")).read_text(encoding="utf-8")))
    config.pluginmanager.register(_Selection(plan), "proof selection")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Lines(config, plan), "proof lines")


class _Selection:
    """In each process that runs tests."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        passed = set(self._plan.passed)
        names = {item: proof_name(item.nodeid) for item in items}
        selected = [item for item in items if names[item] not in passed and self._is_of_shard(names[item])]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
        items[:] = selected

    def _is_of_shard(self, proof: str) -> bool:
        return shard_of(self._plan.entries, proof) == self._plan.shard

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.tried = tried.taken()  # type: ignore[attr-defined]
        return report


@dataclass
class _Course:
    """What is known of a proof before it ends."""

    tried: Counter[str] = field(default_factory=Counter)
    seconds: float = 0
    result: str = records.PASSED
    reason: str = ""


class _Lines:
    """In the process that prints and records."""

    def __init__(self, config: pytest.Config, plan: Plan) -> None:
        self._config = config
        self._plan = plan
        self._courses: dict[str, _Course] = {}
        self._not_collected: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        """Pytest itself prints no progress."""
        return "", "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        course = self._courses.setdefault(report.nodeid, _Course())
        course.tried.update(getattr(report, "tried", {}))
        course.seconds += getattr(report, "duration", 0)
        if report.failed:
            course.result = records.FAILED
            self._print(_problem(report))
        elif report.skipped and course.result != records.FAILED:
            course.result, course.reason = records.SKIPPED, _reason(report)
        if report.when == "teardown" or report.when not in _PHASES:  # the latter if its worker has crashed
            self._end(report.nodeid, course)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self._not_collected:
            self._not_collected.add(report.nodeid)
            record = self._record(report.nodeid, _Course(result=records.NOT_COLLECTED))
            records.append(Path(self._plan.state), record)
            self._print(f"{report.longreprtext}\n{record.result}  {self._plan.shard}  {record.proof}")

    def _end(self, node_id: str, course: _Course) -> None:
        del self._courses[node_id]
        record = self._record(node_id, course)
        records.append(Path(self._plan.state), record)
        self._print(record.line(self._plan.shard))

    def _record(self, node_id: str, course: _Course) -> Record:
        return Record(
            proof_name(node_id),
            course.result,
            self._plan.seed,
            dict(course.tried),
            round(course.seconds, 1),
            self._plan.commit,
            f"{datetime.now(timezone.utc).date()}",
            course.reason,
        )

    def _print(self, text: str) -> None:
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        terminal.write_line(text)
        terminal.flush()  # a log file shows it at once, too


def _problem(report: pytest.TestReport) -> str:
    printed = [f"{title}:\n{text[-_PRINTED_CHARACTERS:]}" for title, text in report.sections if text.strip()]
    return "\n".join([f"{report.longreprtext}", *printed])


def _reason(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    if isinstance(report.longrepr, tuple | list):  # a list where another process has sent it
        return f"{report.longrepr[2]}".removeprefix("Skipped: ")
    return f"{report.longrepr}"
