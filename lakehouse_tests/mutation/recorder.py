"""A pytest plugin that records which tests execute which lines, and how long each test takes.

It is loaded by its file, also beside tests of another revision, and imports nothing of this project. What a fixture of more
than one test executes counts for all tests that use it.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import coverage
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

#: The folder that each process writes its part to, and the folders that are recorded.
PARTS = "MUTATION_PARTS"
FOLDERS = "MUTATION_FOLDERS"


class Recorder:
    """Lines by context. A context is a test or a shared fixture."""

    def __init__(self, root: Path, parts: Path, folders: list[str]) -> None:
        self.root = root
        self.parts = parts
        self.measured = coverage.Coverage(data_file=None, source=folders, config_file=False, messages=False)
        self.context = ""
        self.seconds: Counter[str] = Counter()
        self.tests: dict[str, dict[str, Any]] = {}
        self.measured.start()

    def switch(self, context: str) -> str:
        """Record for another context; gives the one until now."""
        before, self.context = self.context, context
        self.measured.switch_context(context)
        return before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.tests[item.nodeid] = {
            "fixtures": sorted(_shared_fixtures(item)),
            "spark": item.get_closest_marker("spark") is not None,
            "outcome": "passed",
        }
        before = self.switch(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] += time.perf_counter() - began
            self.switch(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        name = _context_of(fixturedef)
        before = self.switch(name)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            taken = time.perf_counter() - began
            self.seconds[name] += taken
            self.seconds[before] -= taken
            self.switch(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.tests[report.nodeid]["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self.measured.stop()
        data = self.measured.get_data()
        fixtures = {name: round(seconds, 3) for name, seconds in self.seconds.items() if name and name not in self.tests}
        numbers = {context: number for number, context in enumerate([*self.tests, *fixtures])}
        lines = {
            Path(file).relative_to(self.root).as_posix(): {
                line: [numbers[context] for context in contexts if context in numbers]
                for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        tests = {test: entry | {"seconds": round(self.seconds[test], 3)} for test, entry in self.tests.items()}
        part = json.dumps({"tests": tests, "fixtures": fixtures, "contexts": [*numbers], "lines": lines})
        (self.parts / f"{os.getpid()}.json").write_text(part, encoding="utf-8")


def _context_of(fixturedef: Any) -> str:
    return f"fixture {fixturedef.argname} of {fixturedef.baseid}"


def _shared_fixtures(item: pytest.Item) -> set[str]:
    of_name = getattr(item, "_fixtureinfo", None)
    definitions = [each for every in of_name.name2fixturedefs.values() for each in every] if of_name else []
    return {_context_of(each) for each in definitions if each.scope != "function"}


def pytest_configure(config: pytest.Config) -> None:
    """Record in each process that runs tests; the one that only distributes them has nothing to record."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        parts, folders = Path(os.environ[PARTS]), json.loads(os.environ[FOLDERS])
        config.pluginmanager.register(Recorder(config.rootpath, parts, folders), "mutation recorder")
