"""The cursors of sensors, which survive from one tick to the next.

A cursor stores no pending work. It stores the fingerprint of the tables, contracts and code at which the sensor last had nothing
to do: while the fingerprint is the same, a tick only opens the logs of the tables. A tick without a readable cursor reads the
tables.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.bronze.file_stability import Observations
from lakehouse.delta import commit_log, provenance

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.contracts import MetricContract, SourceContract
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Cursor:
    """The cursor of a sensor.

    :param idle_state: the fingerprint at which there was nothing to do.
    :param skip_reason: the sensor's message at that time.
    :param seen: the landing files that are still observed.
    """

    idle_state: str | None = None
    skip_reason: str = ""
    seen: Observations = field(default_factory=Observations)

    @staticmethod
    def read(text: str | None) -> Cursor:
        """Parse the cursor stored by an earlier tick; an empty one if the text is not a cursor."""
        try:
            fields = json.loads(text or "{}")
            return Cursor(fields.get("nothing_at"), fields.get("because", ""), Observations.from_json(fields.get("seen", {})))
        except (ValueError, TypeError, AttributeError):
            return Cursor()

    def __str__(self) -> str:
        # The keys are those of earlier versions, so that an update does not make every sensor read its tables.
        fields = {"nothing_at": self.idle_state, "because": self.skip_reason, "seen": self.seen.to_json()}
        return json.dumps({name: value for name, value in fields.items() if value})


def state_of(settings: Settings, tables: Iterable[str], contracts: Iterable[SourceContract | MetricContract], *more: str) -> str:
    """The fingerprint of everything that determines a sensor's result: tables, contracts, the code, and ``more`` texts."""
    return commit_log.state_of(settings, tables, provenance.code(), *map(provenance.of_contract, contracts), *more)


def short_hash(text: str) -> str:
    """A hash of 16 characters for a tag."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
