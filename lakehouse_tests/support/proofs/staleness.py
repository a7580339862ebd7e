"""Which shards are stale: the product has changed in a folder that they cover, or a proof has no passed result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse_tests.support.proofs.changes import NoHistoryError, changed_files
from lakehouse_tests.support.proofs.records import FAILED, PASSED, Record
from lakehouse_tests.support.proofs.shards import Shard, Shards, shard_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class StaleProofsWarning(UserWarning):
    """Some proofs were made before a change of what they cover. It never fails a run: a proof takes too long for that."""


@dataclass(frozen=True)
class ShardState:
    """A shard, its tests in the source, and the results of its last runs.

    :param reasons: why it is stale; empty if it is not.
    """

    shard: Shard
    tests: tuple[str, ...]
    records: tuple[Record, ...]
    reasons: tuple[str, ...]

    @property
    def last(self) -> Record | None:
        """The newest of its results that passed."""
        return max((record for record in self.records if record.result == PASSED), key=lambda record: record.date, default=None)


def shard_states(root: Path, shards: Shards, tests: Iterable[str], records: Mapping[str, Record]) -> list[ShardState]:
    """The state of each shard."""
    entries = shards.entries
    tests_by_shard: dict[str | None, list[str]] = {}
    for test in tests:
        tests_by_shard.setdefault(shard_of(entries, test), []).append(test)
    states = []
    for name, shard in shards.by_name.items():
        own_tests = tests_by_shard.get(name, [])
        own_records = [record for proof, record in records.items() if shard_of(entries, proof) == name]
        reasons = _reasons(root, shard, own_tests, own_records)
        states.append(ShardState(shard, tuple(own_tests), tuple(own_records), tuple(reasons)))
    return states


def _reasons(root: Path, shard: Shard, tests: list[str], records: list[Record]) -> list[str]:
    passed = [record for record in records if record.result == PASSED]
    if not passed:
        return ["never proved"] if tests else []
    reasons = [reason for commit in dict.fromkeys(record.commit for record in passed) for reason in _changes(root, shard, commit)]
    failed = [record for record in records if record.result == FAILED]
    ended = {record.proof.partition("[")[0] for record in (*passed, *failed)}
    missing = [test for test in tests if test not in ended]
    reasons += [f"{len(failed)} failed"] if failed else []
    reasons += [f"{len(missing)} not proved yet"] if missing else []
    return list(dict.fromkeys(reasons))


def _changes(root: Path, shard: Shard, commit: str) -> list[str]:
    try:
        files = changed_files(root, commit)
    except NoHistoryError:
        return [f"commit {commit[:9]} is unknown here"]
    return [f"lakehouse/{folder}" for folder in shard.covers if any(_lies_in(file, folder) for file in files)]


def _lies_in(file: str, folder: str) -> bool:
    return file == folder or file.startswith(f"{folder}/")
