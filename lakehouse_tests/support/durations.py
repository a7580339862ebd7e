"""What each test costs: wall time and processor seconds of its phases and fixtures, those of its JVM and other children too.

A pytest plugin; ``lakehouse_tests/conftest.py`` loads it. What a run has measured is written by :func:`pytest_sessionfinish`;
``python -m lakehouse_tests.costs`` compares it with what an earlier run wrote.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_TICK = os.sysconf("SC_CLK_TCK")


class Clock(NamedTuple):
    """Seconds until now: on the wall, of this process and its children, of the JVMs among them."""

    wall: float
    processor: float
    jvm: float

    def since(self, earlier: Clock) -> Clock:
        return Clock(*(now - before for now, before in zip(self, earlier)))


def read_clock() -> Clock:
    """Read /proc once. A child that has ended counts as its parent's; one that has left the family does not count."""
    children: dict[int, list[int]] = defaultdict(list)
    costs: dict[int, tuple[float, bool]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            head, _, tail = Path(entry.path, "stat").read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        fields = tail.split()
        costs[int(entry.name)] = sum(map(int, fields[11:15])) / _TICK, head.endswith("(java")
        children[int(fields[1])].append(int(entry.name))
    family, processor, jvm = [os.getpid()], 0.0, 0.0
    while family:
        one = family.pop()
        cost, is_java = costs.get(one, (0.0, False))
        processor += cost
        jvm += cost if is_java else 0.0
        family += children[one]
    return Clock(time.perf_counter(), processor, jvm)


class Durations:
    """Measured in a worker, per phase of a test; collected where the run ends."""

    def __init__(self, target: Path | None) -> None:
        self.target = target
        self.last = read_clock()
        self.fixtures: list[tuple[str, str, Clock]] = []
        self.measured: dict[str, Any] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
        began = read_clock() if fixturedef.scope != "function" else None
        try:
            return (yield)
        finally:
            if began is not None:
                self.fixtures.append((fixturedef.argname, fixturedef.scope, read_clock().since(began)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        now = read_clock()
        report.cost = [round(each, 3) for each in now.since(self.last)]
        report.fixture_costs = [[name, scope, *(round(each, 3) for each in cost)] for name, scope, cost in self.fixtures]
        report.marks = sorted({mark.name for mark in item.iter_markers()} & {"spark", "acceptance", "slow", "merge", "proof"})
        self.last, self.fixtures = now, []
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not hasattr(report, "cost"):
            return
        entry = self.measured.setdefault(report.nodeid, {"marks": report.marks, "outcome": "passed", "fixtures": []})
        entry[report.when] = report.cost
        entry["fixtures"] += report.fixture_costs
        if report.outcome != "passed":
            entry["outcome"] = report.outcome
        if report.when == "teardown" and self.target is not None:
            with self.target.open("a") as lines:  # line by line: what a run that is cut short has measured is kept
                lines.write(json.dumps({"test": report.nodeid, **self.measured.pop(report.nodeid)}) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each worker, collect in the process that controls them."""
    target = os.environ.get("LAKEHOUSE_TEST_COSTS")
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Durations(Path(target) if target and not is_worker else None), "durations")
