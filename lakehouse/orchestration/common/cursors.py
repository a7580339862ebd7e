"""The cursors of sensors, which survive from one tick to the next.

A cursor stores no pending work. It stores a fingerprint of the tables, contracts and code for which the sensor last found nothing
to do: while that is the same, a tick opens the logs of the tables and reads nothing more. A tick without a readable cursor reads
the tables.
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

    :param idle_state: the fingerprint for which there was nothing to do.
    :param skip_reason: the message that the sensor gave then.
    :param seen: the landing files that are still observed.
    """

    idle_state: str | None = None
    skip_reason: str = ""
    seen: Observations = field(default_factory=Observations)

    @staticmethod
    def read(text: str | None) -> Cursor:
        """The cursor that an earlier tick has stored; an empty one if the text is not a cursor."""
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
    """The fingerprint of everything that a sensor's result depends on: tables, contracts, the code, and ``more`` texts."""
    return commit_log.state_of(settings, tables, provenance.code(), *map(provenance.of_contract, contracts), *more)


def short_hash(text: str) -> str:
    """16 characters for a tag."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
