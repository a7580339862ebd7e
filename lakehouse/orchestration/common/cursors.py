"""What a sensor remembers from one tick to the next: never what is to do, only in which state of its tables nothing was.

Truth stays in the tables. A tick that meets them in the state it remembers opens their logs and reads nothing more; one that
has lost its memory, or cannot read it, looks.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.bronze.file_stability import Observations
from lakehouse.delta import provenance, table_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.contracts import MetricContract, SourceContract
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Cursor:
    """``nothing_at`` is the state in which nothing was to do, ``because`` what was said then; ``seen`` are landing files."""

    nothing_at: str | None = None
    because: str = ""
    seen: Observations = field(default_factory=Observations)

    @staticmethod
    def read(text: str | None) -> Cursor:
        """The cursor that a tick has left; of what is none, nothing is known."""
        try:
            said = json.loads(text or "{}")
            return Cursor(said.get("nothing_at"), said.get("because", ""), Observations.from_json(said.get("seen", {})))
        except (ValueError, TypeError, AttributeError):
            return Cursor()

    def __str__(self) -> str:
        said = {"nothing_at": self.nothing_at, "because": self.because, "seen": self.seen.to_json()}
        return json.dumps({name: value for name, value in said.items() if value})


def state_of(settings: Settings, tables: Iterable[str], contracts: Iterable[SourceContract | MetricContract], *said: str) -> str:
    """The state of all that a sensor's answer depends on: tables, contracts, the code itself, and what else is ``said``."""
    return table_state.digest(settings, tables, provenance.code(), *map(provenance.of_contract, contracts), *said)


def short_hash(text: str) -> str:
    """16 characters for a tag."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
