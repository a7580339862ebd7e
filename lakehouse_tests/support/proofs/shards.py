"""The shards of ``lakehouse_tests/proofs.toml``: what each promises, which proofs it holds, and which folders it covers.

A proof is named by its pytest node id below ``lakehouse_tests``. Where several entries match, the longest decides: a file can be
in another shard than its folder, and a test in another shard than its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tomli

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TESTS, PRODUCT = "lakehouse_tests", "lakehouse"
#: A shard fits into one sitting. A longer one is divided.
MOST_MINUTES = 45


@dataclass(frozen=True)
class Shard:
    """Proofs that are run together.

    :param tests: folders, files and prefixes of node ids, below ``lakehouse_tests``.
    :param covers: folders and modules below ``lakehouse``; a change in one of them makes the shard stale.
    :param minutes: how long it is expected to take.
    """

    name: str
    promise: str
    tests: tuple[str, ...]
    covers: tuple[str, ...]
    minutes: int

    @property
    def paths(self) -> list[str]:
        """Arguments for pytest: the entries without cases, and without those that lie in another one."""
        whole = sorted({entry.partition("[")[0] for entry in self.tests})
        return [path for path in whole if not any(path != other and matches(other, path) for other in whole)]


@dataclass(frozen=True)
class Shards:
    """All shards, and the folders of the product that no shard covers, each with the reason."""

    by_name: dict[str, Shard]
    uncovered: dict[str, str]

    @property
    def entries(self) -> dict[str, str]:
        """The name of the shard of each entry."""
        return {entry: shard.name for shard in self.by_name.values() for entry in shard.tests}

    @property
    def repeated(self) -> list[str]:
        """Entries that are written more than once."""
        written = [entry for shard in self.by_name.values() for entry in shard.tests]
        return sorted({entry for entry in written if written.count(entry) > 1})


def read_shards(root: Path) -> Shards:
    """Read the shards of the checkout at ``root``."""
    document = tomli.loads((root / TESTS / "proofs.toml").read_text(encoding="utf-8"))
    shards = {
        name: Shard(name, values["promise"], tuple(values["tests"]), tuple(values["covers"]), values["minutes"])
        for name, values in document["shards"].items()
    }
    return Shards(shards, document.get("uncovered", {}))


def shard_of(entries: Mapping[str, str], proof: str) -> str | None:
    """The shard of a proof: that of the longest entry that matches. None: no entry matches."""
    matching = [entry for entry in entries if matches(entry, proof)]
    return entries[max(matching, key=len)] if matching else None


def matches(entry: str, proof: str) -> bool:
    """Whether an entry is the proof, holds it, or is the beginning of its cases."""
    if "[" in entry:
        return proof.startswith(entry)
    return proof == entry or proof.startswith((f"{entry}/", f"{entry}::", f"{entry}["))
