"""The command of ``.ci/proofs``: runs the shards of long proofs, says which are stale, and keeps ``docs/proofs.md``.

Each shard is one run of pytest, and another one for its tests that need a Spark of their own. The result of a proof is
recorded when it ends, in ``.proofs/<commit>.jsonl``. The same command on the same commit leaves out what has passed.
CONTRIBUTING.md says how to use it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from lakehouse_tests.support.laws import PROOFS
from lakehouse_tests.support.proof_lines import Plan
from lakehouse_tests.support.proofs import changes, page, records
from lakehouse_tests.support.proofs.marked_tests import marked_tests
from lakehouse_tests.support.proofs.records import Record
from lakehouse_tests.support.proofs.shards import MOST_MINUTES, TESTS, Shard, Shards, read_shards, shard_of
from lakehouse_tests.support.proofs.staleness import ShardState, shard_states
from lakehouse_tests.support.shared_spark import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CHECKOUT = Path(__file__).parents[1]
_NO_TESTS = 5
_STOPPED = 130


def main(arguments: Sequence[str] | None = None, root: Path = CHECKOUT) -> int:
    """Run the command on the checkout at ``root``; gives the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    parser = _parser()
    options = parser.parse_args(words[:end])
    shards = read_shards(root)
    match options.what:
        case ["list"]:
            _list(_states(root, shards))
        case ["stale"]:
            _list_stale(_states(root, shards))
        case ["page"]:
            write_page(root, shards, [])
        case names:
            chosen = list(shards.by_name) if names == ["all"] else names
            if unknown := sorted(set(chosen) - set(shards.by_name)):
                parser.error(f"no shard is called {', '.join(unknown)}; the shards are {', '.join(shards.by_name)}")
            run = Runner(root, shards, again=options.again, seed=options.seed, workers=options.n, rest=tuple(words[end + 1 :]))
            return run.all_of([shards.by_name[name] for name in chosen])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=".ci/proofs", description="Long proofs. Arguments after -- go to pytest.")
    parser.add_argument("what", nargs="+", help="list, stale, page, all, or names of shards")
    parser.add_argument("--again", action="store_true", help="run the proofs that have passed on this commit, too")
    parser.add_argument("--seed", type=int, help="of the generated examples; default: derived from the commit")
    parser.add_argument("-n", default="2", help="number of processes, as of pytest-xdist; default: 2")
    return parser


@dataclass(frozen=True)
class Runner:
    """Runs shards one after another. Code that is not committed is proved for its author only: no page, no resumption.

    :param rest: further arguments of pytest.
    """

    root: Path
    shards: Shards
    again: bool
    seed: int | None
    workers: str
    rest: tuple[str, ...] = ()

    def all_of(self, chosen: list[Shard]) -> int:
        """Run the shards; gives the exit code."""
        commit, dirty = changes.code_commit(self.root), changes.uncommitted(self.root)
        if dirty:
            _say(f"The code has changes that are not committed ({dirty[0]}): results are printed, but not kept.")
        seed = int(commit[:8], 16) if self.seed is None else self.seed
        every: list[Record] = []
        codes = []
        for shard in chosen:
            code, ended = self._shard(shard, commit, seed, dirty=bool(dirty))
            codes.append(code)
            every += ended
            if code == _STOPPED:
                break
        if len(chosen) > 1:
            _say(_total("all", every))
        if _STOPPED in codes:
            return _STOPPED
        return int(any(code not in (0, _NO_TESTS) for code in codes))

    def _shard(self, shard: Shard, commit: str, seed: int, *, dirty: bool) -> tuple[int, list[Record]]:
        folder = self.root / ".proofs"
        folder.mkdir(exist_ok=True)
        state = folder / (f"uncommitted-{shard.name}.jsonl" if dirty else f"{commit}.jsonl")
        if dirty:
            state.unlink(missing_ok=True)
        before = records.appended(state)
        entries = self.shards.entries
        passed = [
            proof
            for proof, record in records.latest(before).items()
            if record.result == records.PASSED and shard_of(entries, proof) == shard.name and not self.again
        ]
        plan = Plan(shard.name, f"uncommitted after {commit}" if dirty else commit, seed, f"{state}", entries, passed)
        _say(f"== {shard.name}: {shard.promise} About {shard.minutes} min, seed {seed}.")
        code = self._pytest(shard, plan, folder / f"{shard.name}.json")
        ended = [
            record
            for record in records.appended(state)[len(before) :]  # other shards may run at the same time
            if record.result == records.NOT_COLLECTED or shard_of(entries, record.proof) == shard.name
        ]
        if not dirty:
            # Whoever runs a shard to its end has a result of this commit for each proof: others are of tests that are gone.
            ran_whole = code in (0, 1, _NO_TESTS) and not self.rest
            ran_whole = ran_whole and all(record.result != records.NOT_COLLECTED for record in ended)
            of_commit = [
                record
                for record in records.latest(records.appended(state)).values()
                if shard_of(entries, record.proof) == shard.name
            ]
            write_page(self.root, self.shards, of_commit, whole=shard.name if ran_whole else None)
        _say(_total(shard.name, ended, f"{len(passed)} passed before" if passed else ""))
        if code not in (0, 1, _NO_TESTS, _STOPPED):
            _say(f"pytest ended with exit code {code}")
        return code, ended

    def _pytest(self, shard: Shard, plan: Plan, plan_file: Path) -> int:
        """Run the tests of a shard: those that share a Spark, and those that need one of their own process."""
        plan_file.write_text(json.dumps(asdict(plan)), encoding="utf-8")
        code = self._run(shard, plan, plan_file, "not own_spark", {})
        if code != _STOPPED and any("own_spark" in path.read_text("utf-8") for path in self._files(shard)):
            streams = self._run(shard, plan, plan_file, "own_spark", {ADDRESS: "own"})
            code = streams if streams not in (0, _NO_TESTS) else code
        return code

    def _files(self, shard: Shard) -> Iterable[Path]:
        for path in {entry.partition("::")[0] for entry in shard.paths}:
            place = self.root / TESTS / path
            yield from place.rglob("test_*.py") if place.is_dir() else [place]

    def _run(self, shard: Shard, plan: Plan, plan_file: Path, which: str, environment: Mapping[str, str]) -> int:
        command = [sys.executable, "-m", "pytest", *(f"{TESTS}/{path}" for path in shard.paths)]
        command += ["-m", f"(law or proof) and {which}", "-p", "lakehouse_tests.support.proof_lines", f"--proof-plan={plan_file}"]
        command += [f"--hypothesis-seed={plan.seed}", "-n", self.workers, "--continue-on-collection-errors"]
        # Proofs take between seconds and an hour: a process that is through takes from the others.
        command += [] if self.workers == "0" else ["--dist", "worksteal"]
        command += ["-o", f"timeout={MOST_MINUTES * 60}", "-qq", "--no-header", "--no-summary", *self.rest]
        # Processes that a proof starts in other folders use the code of this checkout, too.
        path = os.pathsep.join([f"{CHECKOUT}", *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = os.environ | {PROOFS: "1", "PYTHONPATH": path} | environment
        with subprocess.Popen(command, cwd=self.root, env=variables) as process:
            try:
                return process.wait()
            except KeyboardInterrupt:  # pytest has got it, too, and ends by itself
                process.wait()
                return _STOPPED


def write_page(root: Path, shards: Shards, results: Iterable[Record], whole: str | None = None) -> None:
    """Put results into ``docs/proofs.json`` and write ``docs/proofs.md``.

    :param whole: a shard of which ``results`` are all; other results of it are dropped.
    """
    data, entries = root / "docs" / "proofs.json", shards.entries
    tests = set(marked_tests(root / TESTS).tests)
    (root / ".proofs").mkdir(exist_ok=True)
    with FileLock(root / ".proofs" / "page.lock"):  # shards may run at the same time
        kept = {proof: record for proof, record in records.read(data).items() if not whole or shard_of(entries, proof) != whole}
        kept |= records.latest(results)
        kept = {proof: record for proof, record in kept.items() if proof.partition("[")[0] in tests}
        records.write(data, kept.values())
        (data.with_suffix(".md")).write_text(page.rendered(shards, kept), encoding="utf-8")


def _total(name: str, ended: Sequence[Record], more: str = "") -> str:
    results = Counter(record.result for record in ended)
    counts: Counter[str] = Counter()
    for record in ended:
        counts.update(record.tried)
    words = [f"{count} {result}" for result, count in sorted(results.items())] or ["no proof was run"]
    whole = Record(name, "", 0, dict(counts), sum(record.seconds for record in ended))
    return f"== {name}: " + ", ".join([*words, *filter(None, [more]), *whole.tried_words, f"{whole.seconds:.0f} s"])


def _states(root: Path, shards: Shards) -> list[ShardState]:
    return shard_states(root, shards, marked_tests(root / TESTS).tests, records.read(root / "docs" / "proofs.json"))


def _list(states: list[ShardState]) -> None:
    width = max(len(state.shard.name) for state in states)
    for state in states:
        last = f"{state.last.commit[:9]}  {state.last.date}" if state.last else "-" * 9 + "  " + "-" * 10
        condition = f"stale: {', '.join(state.reasons)}" if state.reasons else "proved" if state.last else "no proofs"
        size = f"{state.shard.minutes:3} min  {len(state.tests):3} tests"
        _say(f"{state.shard.name:{width}}  {size}  {last}  {condition}")
        _say(f"{'':{width}}  {state.shard.promise}")


def _list_stale(states: list[ShardState]) -> None:
    stale = [f"{state.shard.name}: {', '.join(state.reasons)}" for state in states if state.reasons]
    _say("\n".join(stale or ["No shard is stale."]))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()  # before what pytest prints, in a log file, too


if __name__ == "__main__":
    sys.exit(main())
