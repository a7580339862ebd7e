"""Runs the tests of each mutant in two workers, and writes each result as soon as it is known.

At the end the tests that killed a mutant run once more without it. Where such a test fails there, too, its mutants are measured
again without this test.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakehouse_tests.mutation import results, worker
from lakehouse_tests.mutation.selection import Choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from lakehouse_tests.mutation.project import Project
    from lakehouse_tests.mutation.selection import CoverageMap
    from lakehouse_tests.mutation.sites import Mutant

SPARK_ADDRESS = "LAKEHOUSE_TEST_SPARK"
_SERVER_MODULE = "support.shared_spark"
_TIMES = 3


class UnusableMapError(Exception):
    """The map does not fit the product or the machine."""


@dataclass(frozen=True)
class Limits:
    """Seconds of the tests of a mutant by the recorded run; seconds added to three times as many before they are stopped."""

    selection: float = 120
    grace: float = 30

    def timeout(self, seconds: float) -> float:
        return _TIMES * seconds + self.grace


@dataclass
class SharedSpark:
    """A Spark Connect server for all tests that need Spark, if the tests have one; it is started when it is first needed."""

    project: Project
    folder: Path
    _stack: ExitStack = field(default_factory=ExitStack)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _address: str | None = None

    def environment(self) -> dict[str, str]:
        """Variables for tests that need Spark. A server that does not answer is replaced."""
        if (
            self.project.revision
            or not (self.project.root / self.project.tests / f"{_SERVER_MODULE.replace('.', '/')}.py").exists()
        ):
            return {}
        with self._lock:
            if not self.answers():
                self._stack.close()
                module = importlib.import_module(f"{self.project.tests}.{_SERVER_MODULE}")
                self._address = self._stack.enter_context(module.started(Path(tempfile.mkdtemp(dir=self.folder))))
            assert self._address is not None
            return {SPARK_ADDRESS: self._address}

    def answers(self) -> bool:
        if self._address is None:
            return False
        parts = urlsplit(self._address)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5).close()
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()


class WorkerProcess:
    """A worker with a copy of the checkout; it does one job at a time."""

    def __init__(self, project: Project, folder: Path) -> None:
        copy, scratch = folder / "copy", folder / "scratch"
        scratch.mkdir(parents=True)
        project.copy_to(copy)
        command = [sys.executable, worker.__file__, str(copy), str(scratch), json.dumps(project.libraries)]
        environment = {**os.environ, "PYTHONPATH": str(copy)}
        self.copy = copy
        self.process = subprocess.Popen(
            command, cwd=scratch, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"a mutation worker ended with exit code {self.process.wait()}; its error output is above")
        return dict(json.loads(answer))

    def close(self) -> None:
        """End the worker after its job."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Run:
    """A run over some mutants."""

    def __init__(
        self, project: Project, recorded: CoverageMap, results_file: Path, limits: Limits, tell: Callable[[str], object]
    ) -> None:
        self.project = project
        self.recorded = recorded
        self.results_file = results_file
        self.limits = limits
        self.tell = tell
        self.workers: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        self.failing: set[str] = set()
        self.spark: SharedSpark

    def measure(self, mutants: Sequence[Mutant], workers: int = 2) -> None:
        """Measure each mutant that has no result yet."""
        done = results.read(self.results_file)
        pending = [mutant for mutant in mutants if mutant.key not in done]
        if not pending:
            return
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            self.spark = stack.enter_context(SharedSpark(self.project, Path(folder)))
            pool = stack.enter_context(ThreadPoolExecutor(workers))
            made = list(pool.map(lambda number: WorkerProcess(self.project, Path(folder, str(number))), range(workers)))
            for each in made:
                stack.callback(each.close)
                self.workers.put(each)
            self._check_map(mutants, made[0].copy)
            list(pool.map(self._check_worker, made))
            checked: set[str] = set()
            while pending:
                list(pool.map(self._measure, pending, (f"{number}/{len(pending)}" for number in count(1))))
                entries = [results.read(self.results_file)[mutant.key] for mutant in mutants]
                killers = {entry["test"] for entry in entries if entry["test"] in self.recorded.tests} - checked
                checked |= killers
                self.failing |= set().union(*pool.map(self._failing_unmutated, _split(killers, workers)))
                pending = [mutant for mutant, entry in zip(mutants, entries) if entry["test"] in self.failing]
                if pending:
                    self.tell(f"fail without a mutant, too, and are left out from now on: {', '.join(sorted(self.failing))}")

    def _check_map(self, mutants: Sequence[Mutant], copy: Path) -> None:
        changed = set(self.recorded.changed_since(copy))
        modules = changed & {mutant.path for mutant in mutants}
        if modules:
            raise UnusableMapError(f"the map has lines of another text of {', '.join(sorted(modules))}; make it again")
        if changed:
            self.tell(f"changed since the map was made: {', '.join(sorted(changed))}")

    def _check_worker(self, each: WorkerProcess) -> None:
        """A test that passed must pass there without a mutant; otherwise each mutant would count as killed."""
        test = min(
            self.recorded.tests, key=lambda test: (self.recorded.needs_spark([test]), self.recorded.tests[test]["seconds"])
        )
        answer = each.run(self._job(None, Choice([test], self.recorded.tests[test]["seconds"], 0), stops=True))
        if answer["code"] != 0:
            raise UnusableMapError(f"{test} passed when the map was made, and fails in a worker:\n{answer['output']}")

    def _measure(self, mutant: Mutant, number: str) -> None:
        choice = self.recorded.choose(self.project, mutant, self.limits.selection, self.failing)
        if choice.tests:
            answer = self._answer(mutant, choice, stops=True)
        else:
            answer = {"outcome": results.SURVIVED, "code": None, "seconds": 0.0}
        first: dict[str, Any] = {"test": None, "why": None if choice.tests else "no test executes it"}
        if answer["outcome"] == results.KILLED:
            first["why"] = answer["output"].rpartition("\n")[2]  # no test has failed if the tests cannot be imported
            first |= next(iter(answer["failures"]), {})
        entry = {
            "key": mutant.key,
            "module": mutant.path,
            "line": mutant.start[0],
            "column": mutant.start[1],
            "operator": mutant.operator,
            "occurrence": mutant.occurrence,
            "diff": mutant.diff,
            "outcome": answer["outcome"],
            **first,
            "code": answer["code"],
            "seconds": answer["seconds"],
            "tests": len(choice.tests),
            "left_out": choice.left_out,
        }
        results.append(self.results_file, entry)
        self.tell(
            f"{number:>8}  {entry['outcome']:8}  {entry['seconds']:6.1f} s  {mutant.path}:{mutant.start[0]}  {mutant.operator}"
        )

    def _failing_unmutated(self, tests: Sequence[str]) -> set[str]:
        if not tests:
            return set()
        seconds = sum(self.recorded.tests[test]["seconds"] for test in tests)
        answer = self._answer(None, Choice(list(tests), seconds, 0), stops=False)
        if answer["outcome"] == results.TIMEOUT:
            self.tell("the tests that killed mutants did not end in time when they ran without one; they are not checked")
        return {failure["test"] for failure in answer["failures"]}

    def _answer(self, mutant: Mutant | None, choice: Choice, *, stops: bool) -> dict[str, Any]:
        """Run tests in a free worker; again if the Spark server that they used has ended."""
        taken = self.workers.get()
        try:
            while True:
                job = self._job(mutant, choice, stops=stops)
                answer = taken.run(job)
                if answer["outcome"] == results.SURVIVED or not job["environment"] or self.spark.answers():
                    return answer
                self.tell("the Spark server has ended; another one is started")
        finally:
            self.workers.put(taken)

    def _job(self, mutant: Mutant | None, choice: Choice, *, stops: bool) -> dict[str, Any]:
        return {
            "path": mutant and mutant.path,
            "source": mutant and mutant.source,
            "tests": choice.tests,
            "stops": stops,
            "timeout": self.limits.timeout(choice.seconds),
            "environment": self.spark.environment() if self.recorded.needs_spark(choice.tests) else {},
        }


def _split(tests: Iterable[str], count: int) -> list[list[str]]:
    """Whole files of tests, evenly."""
    of_file: dict[str, list[str]] = {}
    for test in sorted(tests):
        of_file.setdefault(test.partition("::")[0], []).append(test)
    files = list(of_file.values())
    return [[test for file in files[number::count] for test in file] for number in range(count)]
