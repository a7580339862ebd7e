"""Results of proofs: appended to a state file while a shard runs, and kept in ``docs/proofs.json``.

The state file is private to a machine and named by the commit. An interrupted shard is resumed from it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
#: Of a test module, in the state file only.
NOT_COLLECTED = "not collected"
#: In the order in which they are printed.
COUNTED = ("examples", "kills", "days")


@dataclass(frozen=True)
class Record:
    """The result of a proof.

    :param proof: the node id below ``lakehouse_tests``.
    :param reason: why the proof was skipped.
    :param tried: how many examples, kills and days were tried.
    """

    proof: str
    result: str
    seed: int
    tried: dict[str, int] = field(default_factory=dict)
    seconds: float = 0
    commit: str = ""
    date: str = ""
    reason: str = ""

    @property
    def tried_words(self) -> list[str]:
        """The counts, as "52 examples"; none for what was not tried."""
        names = (*COUNTED, *sorted(set(self.tried) - set(COUNTED)))
        counts = {name: self.tried.get(name, 0) for name in names}
        return [f"{count:,} {name if count > 1 else name.removesuffix('s')}" for name, count in counts.items() if count]

    def line(self, shard: str) -> str:
        """The closing line of the proof."""
        if self.result == SKIPPED:
            return f"{self.result}  {shard}  {self.proof}  {self.reason}"
        return "  ".join([self.result, shard, self.proof, f"seed {self.seed}", *self.tried_words, f"{self.seconds:.0f} s"])


def append(state: Path, record: Record) -> None:
    """Append a record to the state file."""
    with state.open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(asdict(record))}")  # the line break first: a line that a crash has cut spoils no other


def appended(state: Path) -> list[Record]:
    """The records of a state file, without lines that a crash has cut."""
    lines = state.read_text(encoding="utf-8").splitlines() if state.is_file() else []
    return [Record(**values) for values in map(_parsed, lines) if values]


def _parsed(line: str) -> dict[str, object] | None:
    try:
        return json.loads(line)  # type: ignore[no-any-return]
    except ValueError:
        return None


def latest(records: Iterable[Record]) -> dict[str, Record]:
    """The last record of each proof."""
    return {record.proof: record for record in records if record.result != NOT_COLLECTED}


def read(data: Path) -> dict[str, Record]:
    """The records of ``docs/proofs.json``."""
    return latest(Record(**values) for values in json.loads(data.read_text(encoding="utf-8"))) if data.is_file() else {}


def write(data: Path, records: Iterable[Record]) -> None:
    """Write ``docs/proofs.json``: a line for each proof, so that a difference is easy to read."""
    lines = [json.dumps(asdict(record)) for record in sorted(records, key=lambda record: record.proof)]
    data.write_text("[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n", encoding="utf-8")
