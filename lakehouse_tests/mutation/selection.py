"""Which tests are run for a mutant: those that execute its line, as an earlier run recorded it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lakehouse_tests.mutation import recorder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lakehouse_tests.mutation.project import Project
    from lakehouse_tests.mutation.sites import Mutant

_PLUGIN = "mutation_recorder"


@dataclass(frozen=True)
class Choice:
    """Tests in the order of their run, their seconds, and how many others execute the line but exceed the limit."""

    tests: list[str]
    seconds: float
    left_out: int


class CoverageMap:
    """The tests that passed, and the lines that each of them executes."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self.recorded = recorded
        self.tests: dict[str, Any] = {test: entry for test, entry in recorded["tests"].items() if entry["outcome"] == "passed"}
        self._users: dict[str, set[str]] = defaultdict(set)
        for test, entry in self.tests.items():
            for name in (test, *entry["fixtures"]):
                self._users[name].add(test)

    @classmethod
    def read(cls, path: Path) -> CoverageMap:
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.recorded), encoding="utf-8")

    def changed_since(self, root: Path) -> list[str]:
        """The recorded files whose text below ``root`` is another one."""
        return [path for path, digest in self.recorded["files"].items() if _digest(root / path) != digest]

    def below(self, paths: Sequence[str]) -> CoverageMap:
        """The tests below ``paths`` only; all if there are none."""
        roots = [PurePosixPath(path) for path in paths]

        def is_below(test: str) -> bool:
            file = PurePosixPath(test.partition("::")[0])
            return not roots or any(root == file or root in file.parents for root in roots)

        kept = {test: entry for test, entry in self.recorded["tests"].items() if is_below(test)}
        return CoverageMap({**self.recorded, "tests": kept})

    def needs_spark(self, tests: Collection[str]) -> bool:
        return any(self.tests[test]["spark"] for test in tests)

    def choose(self, project: Project, mutant: Mutant, limit: float, without: Collection[str] = ()) -> Choice:
        """Tests of the mirroring folder first, then others, the cheapest first, as many as ``limit`` seconds allow.

        A change that happens at import may show in each test that executes another line of the module, and in all tests of the
        mirroring folder.
        """
        lines = self.recorded["lines"].get(mutant.path, {})
        if mutant.lines:
            own_line, *others = ({str(line)} & lines.keys() for line in mutant.lines)
            tests = self._executing(lines, own_line or set().union(*others))
            distances = {test: self._distance(project, mutant, test) for test in tests}
        else:
            tests = self._executing(lines, lines.keys())
            every = {test: self._distance(project, mutant, test) + (test not in tests) for test in self.tests}
            distances = {test: distance for test, distance in every.items() if test in tests or distance == 1}
        return self._within(limit, {test: distance for test, distance in distances.items() if test not in without})

    def _executing(self, lines: Mapping[str, Sequence[int]], numbers: Collection[str]) -> set[str]:
        contexts = {self.recorded["contexts"][context] for number in numbers for context in lines[number]}
        return set().union(*(self._users[context] for context in contexts if context in self._users))

    @staticmethod
    def _distance(project: Project, mutant: Mutant, test: str) -> int:
        """0 in the folder that mirrors the module's, 1 below the same top folder, 2 elsewhere."""
        mirror = PurePosixPath(project.tests, *PurePosixPath(mutant.path).parent.parts[1:])
        parents = PurePosixPath(test.partition("::")[0]).parents
        return 0 if mirror in parents else 1 if PurePosixPath(*mirror.parts[:2]) in parents else 2

    def _within(self, limit: float, distances: Mapping[str, int]) -> Choice:
        chosen: dict[str, float] = {}
        fixtures: set[str] = set()
        for test in sorted(distances, key=lambda test: (distances[test], self.tests[test]["seconds"], test)):
            entry = self.tests[test]
            further = set(entry["fixtures"]) - fixtures
            cost = entry["seconds"] + sum(self.recorded["fixtures"].get(name, 0) for name in further)
            if not chosen or sum(chosen.values()) + cost <= limit:
                chosen[test] = cost
                fixtures |= further
        of_file: dict[str, float] = defaultdict(float)
        for test, cost in chosen.items():
            of_file[test.partition("::")[0]] += cost * (1 + distances[test])

        def rank(test: str) -> tuple[float, str, float]:
            file = test.partition("::")[0]
            return of_file[file], file, self.tests[test]["seconds"]

        return Choice(sorted(chosen, key=rank), sum(chosen.values()), len(distances) - len(chosen))


def record(project: Project, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> CoverageMap:
    """Run the tests once, in a copy, and record what they execute. ``arguments`` are pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        copy, parts = Path(folder, "copy"), Path(folder, "parts")
        project.copy_to(copy)
        parts.mkdir()
        (parts / f"{_PLUGIN}.py").write_bytes(Path(recorder.__file__).read_bytes())
        variables = {
            "PYTHONPATH": os.pathsep.join([str(copy), str(parts)]),
            recorder.PARTS: str(parts),
            recorder.FOLDERS: json.dumps([str(copy / project.product / each) for each in project.folders]),
        }
        options = ["-q", "-p", _PLUGIN, "-p", "no:cacheprovider", f"--rootdir={copy}", f"--basetemp={folder}/tests"]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        subprocess.run(command, cwd=copy, env={**os.environ, **variables, **(environment or {})}, check=False)
        joined = _joined([json.loads(part.read_text(encoding="utf-8")) for part in sorted(parts.glob("*.json"))])
        read = {*joined["lines"], *(test.partition("::")[0] for test in joined["tests"])}
        return CoverageMap({**joined, "files": {path: _digest(copy / path) for path in sorted(read)}})


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the processes of a run recorded; each numbers its contexts by itself."""
    joined: dict[str, Any] = {"tests": {}, "fixtures": {}, "contexts": [], "lines": {}}
    for part in parts:
        offset = len(joined["contexts"])
        joined["contexts"] += part["contexts"]
        joined["tests"] |= part["tests"]
        for name, seconds in part["fixtures"].items():
            joined["fixtures"][name] = max(seconds, joined["fixtures"].get(name, 0))
        for path, lines in part["lines"].items():
            of_path = joined["lines"].setdefault(path, {})
            for line, contexts in lines.items():
                of_path.setdefault(line, []).extend(context + offset for context in contexts)
    return joined
