"""What each test costs: wall time and processor seconds of its phases and fixtures, those of its JVM and other children too.

A pytest plugin; ``lakehouse_tests/conftest.py`` loads it. With ``LAKEHOUSE_TEST_COSTS`` a run writes a line for each test into
that file; ``python -m lakehouse_tests.costs`` shows them, beside those of an earlier run.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lakehouse_tests.support import run_folder

if TYPE_CHECKING:
    from collections.abc import Generator

_TICK = os.sysconf("SC_CLK_TCK")


class Clock(NamedTuple):
    """Seconds until now: on the wall, of this process and its children, of the JVMs among them, of the run's Spark."""

    wall: float
    processor: float
    jvm: float
    shared: float

    def since(self, earlier: Clock) -> Clock:
        return Clock(*(now - before for now, before in zip(self, earlier)))


def read_clock(shared_spark: int | None = None) -> Clock:
    """Read /proc once. A child that has ended counts as its parent's; one that has left the family does not count.

    :param shared_spark: the process of the run's Spark, which counts apart: it works for all workers.
    """
    children: dict[int, list[int]] = defaultdict(list)
    costs: dict[int, tuple[float, bool]] = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"{entry.path}/stat") as file:  # noqa: PTH123 (a Path for each takes as long as the reading)
                head, _, tail = file.read().rpartition(")")
        except OSError:
            continue  # it has ended
        fields = tail.split()
        costs[int(entry.name)] = sum(map(int, fields[11:15])) / _TICK, head.endswith("(java")
        children[int(fields[1])].append(int(entry.name))
    family, processor, jvm, shared = [os.getpid()], 0.0, 0.0, 0.0
    while family:
        member = family.pop()
        cost, is_java = costs.get(member, (0.0, False))
        if member != shared_spark:
            processor += cost
            jvm += cost if is_java else 0.0
            family += children[member]
    family = [] if shared_spark is None else [shared_spark]
    while family:
        member = family.pop()
        shared += costs.get(member, (0.0, False))[0]
        family += children[member]
    return Clock(time.perf_counter(), processor, jvm, shared)


class Durations:
    """Measured in a worker, per phase of a test; collected where the run ends."""

    def __init__(self, folder: Path, target: Path | None) -> None:
        self.folder = folder
        self.target = target
        self.last = read_clock()
        self.fixtures: list[tuple[str, str, Clock]] = []
        self.measured: dict[str, Any] = {}

    def now(self) -> Clock:
        try:
            spark = int(json.loads((self.folder / "spark.json").read_text())["pid"])
        except (OSError, ValueError):
            spark = None
        return read_clock(spark)

    def pytest_collection_finish(self) -> None:
        """Imports and collection belong to no test: the first one reports them as a fixture."""
        self.fixtures.append(("collection", "worker", self.now().since(self.last)))
        self.last = self.now()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
        began = self.now() if fixturedef.scope != "function" else None
        try:
            return (yield)
        finally:
            if began is not None:
                self.fixtures.append((fixturedef.argname, fixturedef.scope, self.now().since(began)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        now = self.now()
        report.cost = [round(each, 3) for each in now.since(self.last)]
        report.fixture_costs = [[name, scope, *(round(each, 3) for each in cost)] for name, scope, cost in self.fixtures]
        report.marks = sorted({mark.name for mark in item.iter_markers()} & {"spark", "law", "merge", "proof"})
        report.shared_total = round(now.shared, 3)
        self.last, self.fixtures = now, []
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not hasattr(report, "cost"):
            return
        entry = self.measured.setdefault(report.nodeid, {"marks": report.marks, "outcome": "passed", "fixtures": []})
        entry[report.when] = report.cost
        entry["shared_total"] = report.shared_total
        entry["fixtures"] += report.fixture_costs
        if report.outcome != "passed":
            entry["outcome"] = report.outcome
        if report.when == "teardown" and self.target is not None:
            with self.target.open("a") as lines:  # line by line: what a run that is cut short has measured is kept
                lines.write(json.dumps({"test": report.nodeid, **self.measured.pop(report.nodeid)}) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each worker, collect in the process that controls them; measuring takes some milliseconds a test."""
    if name := os.environ.get("LAKEHOUSE_TEST_COSTS"):
        target = None if hasattr(config, "workerinput") else Path(name)
        config.pluginmanager.register(Durations(run_folder.of(config), target), "durations")
