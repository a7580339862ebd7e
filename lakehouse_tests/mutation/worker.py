"""The program of a worker: runs tests on one mutant after the other, each in a forked process of its own.

It reads a job per line and answers with a line. It is started by its file, so that it has imported the slow libraries but nothing
of this project: each child imports that from the worker's copy of the checkout, where the mutant is.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.02
_NO_TESTS = 5
_TIMED_OUT = None
_OUTPUT_KEPT = 2000


class Chosen:
    """Runs the chosen tests in their order, and writes each failure down."""

    def __init__(self, tests: list[str], failures: Path) -> None:
        self.rank = {test: number for number, test in enumerate(tests)}
        self.failures = failures

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.rank), key=lambda item: self.rank[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._write(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._write(report)

    def _write(self, report: Any) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash else str(report.longrepr).strip().rpartition("\n")[2]
            with self.failures.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"test": report.nodeid, "why": message.partition("\n")[0][:200]}) + "\n")


class Worker:
    """Has a copy of the checkout, and a scratch folder for temporary folders and output of tests."""

    def __init__(self, copy: Path, scratch: Path) -> None:
        self.copy = copy
        self.scratch = scratch
        self.failures = scratch / "failures.jsonl"
        self.output = scratch / "output.txt"

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """Put the mutant in its place, run the tests, restore the module."""
        self.failures.unlink(missing_ok=True)
        module = self.copy / job["path"] if job["path"] else None
        original = module.read_bytes() if module else b""
        began = time.monotonic()
        try:
            if module:
                module.write_text(job["source"], encoding="utf-8")
            code = self._in_child(job)
        finally:
            if module:
                module.write_bytes(original)
        lines = self.failures.read_text(encoding="utf-8").splitlines() if self.failures.exists() else []
        output = self.output.read_text(encoding="utf-8", errors="replace").strip() if self.output.exists() else ""
        return {
            "outcome": "timeout" if code is _TIMED_OUT else "survived" if code in {0, _NO_TESTS} else "killed",
            "failures": [json.loads(line) for line in lines],
            "code": code,
            "output": output[-_OUTPUT_KEPT:],
            "seconds": round(time.monotonic() - began, 2),
        }

    def _in_child(self, job: dict[str, Any]) -> int | None:
        child = os.fork()
        if not child:
            code = 3
            try:
                code = self._test(job)
            finally:
                os._exit(code)
        end = time.monotonic() + job["timeout"]
        try:
            while time.monotonic() < end:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
                time.sleep(_POLL_SECONDS)
            return _TIMED_OUT
        finally:
            end_descendants()

    def _test(self, job: dict[str, Any]) -> int:
        os.setsid()
        output = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, descriptor in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
            os.dup2(descriptor, number)
        os.chdir(self.copy)
        os.environ.update(job["environment"])
        sys.path.insert(0, str(self.copy))
        files = list(dict.fromkeys(test.partition("::")[0] for test in job["tests"]))
        options = ["-q", "-o", "addopts=", *(f"-pno:{name}" for name in ("cacheprovider", "xdist", "randomly"))]
        folders = [f"--rootdir={self.copy}", f"--basetemp={self.scratch / 'tests'}"]
        stops = ["-x"] if job["stops"] else []
        return int(pytest.main([*options, *folders, *stops, *files], plugins=[Chosen(job["tests"], self.failures)]))


def end_descendants() -> None:
    """End what a child has left running: orphans become children of this process."""
    while True:
        children = [int(pid) for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()]
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main() -> None:
    """Answer jobs until there are no more."""
    sys.path.pop(0)  # the folder of this file
    copy, scratch, libraries = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for library in libraries:
        importlib.import_module(library)
    if not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        for plugin in entry_points(group="pytest11"):
            plugin.load()
    worker = Worker(copy, scratch)
    for line in sys.stdin:
        answers.write(json.dumps(worker.run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
